//! What an engine remembers outside of its cache: opening the store, and what a page's bits depend on.
//!
//! # The fingerprint
//! Pages of one fingerprint are interchangeable, bit for bit. It is the BLAKE3 hash of: this program's version; what the device says of its
//! arithmetic; the page size, how keys and values are kept and which of them in rings; the shape with every number and tensor name in it; and of the weights the
//! length of each, its first and last 4 KiB, and the length and time of change of the file that it is in. (A model linked into the program
//! is hashed whole.) Hashing every byte would cost as much as reading the file, which for a large model is longer than the
//! prompts that are saved. Other weights under the same names differ almost everywhere; and a file that was changed in the middle only has
//! another time. The price is that a copy with another time starts cold.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use kauri_prompt::name::Name;
use kauri_prompt::prefix::Move;
use kauri_prompt::schedule::Kind;
use kauri_prompt::store::{Content, Notice, Settings, Sizes, Store};

use crate::engine::Engine;
use crate::error::Error;

/// Bytes at each end of a tensor that are hashed.
const SAMPLE_BYTES: usize = 4096;

/// What to remember outside of the cache, and where.
#[derive(Clone)]
pub struct Remembering {
    /// The folder in which pages outlive the program; none outlives it where unset.
    pub folder: Option<PathBuf>,
    /// Most bytes of the folder.
    pub folder_bytes_max: u64,
    /// Most bytes in memory, beside the cache. On a CPU the cache itself is memory, and better made larger; on another device this is
    /// where pages go that it has no room for.
    pub memory_bytes_max: u64,
    /// Hears what a person should know: a damaged file, a full disk. From several threads.
    pub notice: Notice,
}

impl Default for Remembering {
    /// Nothing is remembered; a folder that is named has room for 10 GB.
    fn default() -> Self {
        let notice: Notice = Arc::new(|_| {});
        Self { folder: None, folder_bytes_max: 10_000_000_000, memory_bytes_max: 0, notice }
    }
}

impl Engine {
    /// From now on pages are remembered outside of the cache, and those that are known there are not computed again. Answers do not
    /// depend on it. A folder that cannot be used is said and done without.
    ///
    /// # Errors
    /// When the model's files have changed.
    pub fn remember(&mut self, remembering: &Remembering) -> Result<(), Error> {
        if !self.writes || (remembering.folder.is_none() && remembering.memory_bytes_max == 0) {
            return Ok(());
        }
        let settings = Settings {
            folder: remembering.folder.clone(),
            folder_bytes_max: remembering.folder_bytes_max,
            memory_bytes_max: remembering.memory_bytes_max,
            now: SystemTime::now,
        };
        let sizes = Sizes {
            page_tokens: self.executor.plan().page_tokens,
            page_bytes: self.executor.page_bytes(),
            state_bytes: self.executor.state_bytes(),
        };
        let fingerprint = self.fingerprint()?;
        // The one before lets go of the folder first.
        self.store = None;
        self.store = Some(Store::open(&settings, fingerprint, sizes, &remembering.notice));
        Ok(())
    }

    /// Waits until everything that is to be written to the folder is.
    pub fn flush(&self) {
        if let Some(store) = &self.store {
            store.flush();
        }
    }

    /// What settles the bits of a page.
    fn fingerprint(&self) -> Result<[u8; 32], Error> {
        let plan = self.executor.plan();
        let mut hasher = blake3::Hasher::new();
        let mut text = String::new();
        let version = env!("CARGO_PKG_VERSION");
        let (arithmetic, names) = (self.executor.arithmetic(), kauri_arch::identify(&self.checkpoint)?);
        let (page_tokens, cache, ring, full) = (plan.page_tokens, plan.cache, plan.ring, self.full_precision);
        // A name and its numbers, as they are written for people: whatever is added to a shape is in it.
        write!(text, "{version}\n{arithmetic}\n{page_tokens} {cache:?} {ring:?} {full}\n{names:?}\n")
            .expect("text can always be written");
        hasher.update(text.as_bytes());
        let mut stamps = HashSet::new();
        for (name, tensor) in &self.checkpoint.tensors {
            let mut hash = |bytes: &[u8]| _ = hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
            hash(name.as_bytes());
            hash(format!("{:?} {:?}", tensor.quant, tensor.dims).as_bytes());
            for bytes in tensor.stored() {
                let file = bytes.stamp();
                if file.is_none() || bytes.len() <= 2 * SAMPLE_BYTES {
                    hash(bytes);
                } else {
                    hash(&bytes[..SAMPLE_BYTES]);
                    hash(&bytes[bytes.len() - SAMPLE_BYTES..]);
                }
                if let Some(stamp) = file.filter(|stamp| stamps.insert(*stamp)) {
                    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
                    hash(&stamp.0.to_le_bytes());
                    hash(&stamp.1.map_or(0, since).to_le_bytes());
                }
            }
        }
        self.verify_unchanged()?;
        Ok(hasher.finalize().into())
    }

    /// Does what is to be done to pages and slots between two launches, in this order.
    pub(crate) fn carry(&mut self, moves: &[Move]) -> Result<(), Error> {
        let Self { executor, store, .. } = self;
        for next in moves {
            if let &Move::CopyState { from, to } = next {
                executor.copy_state(from, to)?;
                continue;
            }
            let store = store.as_mut().expect("a schedule without a store only copies");
            match next {
                Move::LoadPage { page, name } => executor.write_page(*page, &taken(store, Kind::Page, name)?)?,
                Move::LoadState { slot, name } => executor.write_state(*slot, &taken(store, Kind::State, name)?)?,
                Move::KeepPage(kept) if store.wants(Kind::Page, &kept.name) => {
                    let mut bytes = vec![0; executor.page_bytes()];
                    executor.read_page(kept.at, &mut bytes)?;
                    store.keep(Kind::Page, kept, bytes);
                }
                Move::KeepState(kept) if store.wants(Kind::State, &kept.name) => {
                    let mut bytes = vec![0; executor.state_bytes()];
                    executor.read_state(kept.at, &mut bytes)?;
                    store.keep(Kind::State, kept, bytes);
                }
                Move::SpillPage(kept) if store.wants_in_memory(Kind::Page, &kept.name) => {
                    let mut bytes = vec![0; executor.page_bytes()];
                    executor.read_page(kept.at, &mut bytes)?;
                    store.put_aside(Kind::Page, kept, bytes);
                }
                Move::SpillState(kept) if store.wants_in_memory(Kind::State, &kept.name) => {
                    let mut bytes = vec![0; executor.state_bytes()];
                    executor.read_state(kept.at, &mut bytes)?;
                    store.put_aside(Kind::State, kept, bytes);
                }
                // States that are copied were above; what the store has already is not copied out again.
                Move::CopyState { .. }
                | Move::KeepPage(_)
                | Move::KeepState(_)
                | Move::SpillPage(_)
                | Move::SpillState(_) => {}
                Move::Used(names) => store.used(names.clone()),
            }
        }
        Ok(())
    }
}

/// What the store said to be at hand.
fn taken(store: &mut Store, kind: Kind, name: &Name) -> Result<Arc<Content>, Error> {
    let lost = || Error::StepLost(format!("the {kind:?} {name} was at hand and is not"));
    store.take(kind, name).ok_or_else(lost)
}
