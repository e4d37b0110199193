//! What does not fit the pool, or should outlive the program: pages and states in memory and in files.
//!
//! Two places, each with a limit in bytes and each forgetting what was used longest ago. *Memory* takes what the pool forgets. The
//! *folder* takes every page as soon as it is full, and states where snapshots are taken and where sequences end: so what is on
//! disk does not depend on how the program ends, what is copied out in a step is bounded by what the step computed, and
//! forgetting costs nothing.
//!
//! *Plain files*, one for each page or state, named by its [`Name`] in a folder for its model. An embedded database was the other
//! choice. A page is one to several megabytes, written once, read whole and deleted whole: a file system does just that, gives the
//! room back at once, and a file that is damaged is one page less, not the end of a database. A file is written under another
//! name, flushed, and renamed: after a crash there are whole files and at most one unfinished one, which the next start removes.
//! The only index is in memory: names, sizes and times of a folder's entries, read at the start; content is read when it is asked for.
//!
//! *Nothing is trusted.* A file counts if it has the length that this model's pages have, begins like one of ours, names this model
//! and itself, holds the tokens that were asked for, and has the checksum that it says. What does not is named once,
//! with the reason, and computed instead.
//!
//! *Nobody waits.* One thread writes, another reads; what is to be written waits in a queue that is bounded in bytes, and what does
//! not fit it is dropped. Errors of the folder (full, read-only, removed) are said once and change nothing else.
//!
//! One program at a time writes to a folder; others may use what is there. This module knows no device: a page is bytes of one length.

mod disk;
mod file;
mod memory;

use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::name::Name;
use crate::prefix::Kept;
use crate::schedule::{Beside, Found, Kind, Shelf};
use disk::Disk;
use memory::Memory;

/// Bytes that may be at hand or on their way before anybody needs them.
const AHEAD_BYTES_MAX: usize = 64 << 20;
/// Steps after which nobody needs what nobody asked for again.
const STALE_TURNS: u64 = 2;

/// Where to keep things, and how much.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder; made where it is not there. Without one nothing outlives the program.
    pub folder: Option<PathBuf>,
    /// Most bytes of all files in the folder, those of other models included.
    pub folder_bytes_max: u64,
    /// Most bytes in memory.
    pub memory_bytes_max: u64,
    /// The clock: which file was used last is told by its time.
    pub now: fn() -> SystemTime,
}

/// What the pages of a model are: settled at load, the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Tokens to a page.
    pub page_tokens: u32,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Bytes of a state.
    pub state_bytes: usize,
}

/// Hears what a person should know: a damaged file, a full disk. From several threads.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// Something that is kept.
pub(crate) type Key = (Kind, Name);

/// The bytes of a page or a state.
#[derive(Debug)]
pub struct Content {
    bytes: Vec<u8>,
    range: Range<usize>,
}

/// How things stand, and what happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Files of all models.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Pages and states written to files.
    pub written: u64,
    /// Those that were not, because the queue or the disk was full.
    pub dropped: u64,
    /// Pages and states read from files.
    pub read: u64,
    /// Files that could not be used.
    pub refused: u64,
}

/// Pages and states outside of the pool.
pub struct Store {
    sizes: Sizes,
    memory: Memory,
    disk: Option<Disk>,
    /// What is at hand.
    staged: HashMap<Key, Staged>,
    staged_bytes: usize,
    /// Whether something at hand was taken, and may go with the next step.
    taken: bool,
    turn: u64,
}

struct Staged {
    content: Arc<Content>,
    /// The last step in which it was asked for.
    turn: u64,
    taken: bool,
}

impl Sizes {
    /// Bytes of one of this kind.
    pub fn bytes(&self, kind: Kind) -> usize {
        match kind {
            Kind::Page => self.page_bytes,
            Kind::State => self.state_bytes,
        }
    }
}

impl Store {
    /// Opens a store for one model on one device, of which `model` is the fingerprint: whatever settles the bits of a page is in
    /// it. A folder that cannot be used is said to `notice`, and done without.
    pub fn open(settings: &Settings, model: [u8; 32], sizes: Sizes, notice: &Notice) -> Self {
        let disk = settings.folder.as_deref().and_then(|folder| Disk::open(folder, settings, model, sizes, notice));
        let memory = Memory::new(settings.memory_bytes_max);
        Self { sizes, memory, disk, staged: HashMap::new(), staged_bytes: 0, taken: false, turn: 0 }
    }

    /// What is done with pages and states here.
    pub fn beside(&self) -> Beside {
        Beside { keeps: self.keeps(), spills: self.spills(), restores: true }
    }

    /// Whether pages and states are to be kept as soon as they are known.
    pub fn keeps(&self) -> bool {
        self.disk.as_ref().is_some_and(Disk::writes)
    }

    /// Whether pages and states are to be kept when they are forgotten.
    pub fn spills(&self) -> bool {
        self.memory.bytes_max() > 0
    }

    /// Calls `wake` whenever something that was on its way has come or turned out to be missing. From another thread.
    pub fn on_arrival(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        if let Some(disk) = &self.disk {
            disk.on_arrival(wake);
        }
    }

    /// Whether a page or state would be written to the folder: not where it is there, or there is no room in the queue.
    pub fn wants(&self, kind: Kind, name: &Name) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.wants((kind, *name)))
    }

    /// Writes a page or state to the folder, some time soon.
    ///
    /// # Panics
    /// If it has not the bytes of its kind.
    pub fn keep(&mut self, kind: Kind, kept: &Kept, bytes: Vec<u8>) {
        assert_eq!(bytes.len(), self.sizes.bytes(kind), "a {kind:?} of this model");
        if let Some(disk) = &self.disk {
            disk.put(kind, kept, bytes);
        }
    }

    /// Whether a page or state would be put aside in memory.
    pub fn wants_in_memory(&self, kind: Kind, name: &Name) -> bool {
        self.memory.has_room(self.sizes.bytes(kind)) && !self.memory.holds(&(kind, *name))
    }

    /// Puts a page or state aside in memory.
    ///
    /// # Panics
    /// If it has not the bytes of its kind.
    pub fn put_aside(&mut self, kind: Kind, kept: &Kept, bytes: Vec<u8>) {
        assert_eq!(bytes.len(), self.sizes.bytes(kind), "a {kind:?} of this model");
        self.memory.insert((kind, kept.name), &kept.tokens, Arc::new(Content::from(bytes)));
    }

    /// These pages, one behind the other from the start of a sequence, were used, and the states behind them with them.
    pub fn used(&self, names: Vec<Name>) {
        if let Some(disk) = &self.disk {
            disk.used(names);
        }
    }

    /// What [`Shelf::find`] said to be at hand in this step. Two sequences may take the same.
    pub fn take(&mut self, kind: Kind, name: &Name) -> Option<Arc<Content>> {
        let staged = self.staged.get_mut(&(kind, *name))?;
        (staged.taken, self.taken) = (true, true);
        Some(Arc::clone(&staged.content))
    }

    /// Reads a page or state here and now, for who has nothing else to do.
    pub fn read(&mut self, kind: Kind, name: &Name, tokens: &[u32]) -> Option<Arc<Content>> {
        let key = (kind, *name);
        self.memory.get(&key, tokens).or_else(|| self.disk.as_ref()?.read(key, tokens))
    }

    /// Waits until everything that is to be written is.
    pub fn flush(&self) {
        if let Some(disk) = &self.disk {
            disk.flush();
        }
    }

    /// How things stand.
    pub fn stored(&self) -> Stored {
        let stored = self.disk.as_ref().map(Disk::stored).unwrap_or_default();
        Stored { memory_bytes: self.memory.bytes(), ..stored }
    }

    fn stage(&mut self, key: Key, content: Arc<Content>) {
        self.staged_bytes += content.len();
        if let Some(before) = self.staged.insert(key, Staged { content, turn: self.turn, taken: false }) {
            self.staged_bytes -= before.content.len();
        }
    }

    /// Takes in what has come from the folder.
    fn receive(&mut self) {
        while let Some((key, content)) = self.disk.as_mut().and_then(Disk::arrival) {
            if let Some(content) = content {
                self.stage(key, content);
            }
        }
    }

    /// Whether there is room for more that nobody needs yet; what nobody asked for again makes way.
    fn has_room_ahead(&mut self) -> bool {
        let coming = |store: &Self| store.disk.as_ref().map_or(0, Disk::coming_bytes);
        if self.staged_bytes + coming(self) >= AHEAD_BYTES_MAX {
            let turn = self.turn;
            self.put_back(|staged| staged.turn + STALE_TURNS < turn);
        }
        self.staged_bytes + coming(self) < AHEAD_BYTES_MAX
    }

    /// What is at hand and nobody needs is there no longer.
    fn put_back(&mut self, is_unneeded: impl Fn(&Staged) -> bool) {
        let staged_bytes = &mut self.staged_bytes;
        self.staged.retain(|_, staged| {
            let goes = is_unneeded(staged);
            if goes {
                *staged_bytes -= staged.content.len();
            }
            !goes
        });
    }

    fn look(&mut self, key: Key, tokens: &[u32]) -> Option<Found> {
        self.receive();
        if let Some(staged) = self.staged.get_mut(&key) {
            staged.turn = self.turn;
            return Some(Found::AtHand);
        }
        if let Some(content) = self.memory.get(&key, tokens) {
            self.stage(key, content);
            return Some(Found::AtHand);
        }
        match &self.disk {
            Some(disk) if disk.is_coming(&key) => Some(Found::Coming),
            Some(disk) if disk.holds(&key) => None,
            Some(_) | None => Some(Found::Missing),
        }
    }
}

impl Shelf for Store {
    fn turn(&mut self) {
        self.turn += 1;
        if std::mem::take(&mut self.taken) {
            self.put_back(|staged| staged.taken);
        }
    }

    fn holds(&self, kind: Kind, name: &Name) -> bool {
        let key = (kind, *name);
        self.memory.holds(&key) || self.disk.as_ref().is_some_and(|disk| disk.holds(&key))
    }

    fn find(&mut self, kind: Kind, name: &Name, tokens: &[u32]) -> Found {
        let key = (kind, *name);
        self.look(key, tokens).unwrap_or_else(|| self.disk.as_mut().map_or(Found::Missing, |disk| disk.go(key, tokens)))
    }

    fn expect(&mut self, kind: Kind, name: &Name, tokens: &[u32]) -> bool {
        let key = (kind, *name);
        match self.look(key, tokens) {
            Some(found) => found != Found::Missing,
            None if self.has_room_ahead() => {
                self.disk.as_mut().is_some_and(|disk| disk.go(key, tokens) != Found::Missing)
            }
            None => false,
        }
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { bytes, range }
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

#[cfg(test)]
mod tests;
