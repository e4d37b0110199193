//! The folder: what is in it, and the two threads that write and read.
//!
//! `FOLDER/lock` is locked by the one program that writes. Each model has a folder named by half of its fingerprint; in it lie
//! `NAME.page` and `NAME.state`, and `NAME.page.new` while it is written. Whatever is called otherwise is somebody else's and is not touched.
//! When a file was used last is its time of change, so that it outlives the program; those that were used together are a microsecond apart, the start
//! of a sequence the latest, so that a prefix is never forgotten before what builds on it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use super::file::{self, Entry, Fault};
use super::{Content, Key, Notice, Settings, Sizes, Stored};
use crate::name::Name;
use crate::prefix::Kept;
use crate::schedule::{Found, Kind};

/// Bytes that may wait to be written; what comes when there is no room is dropped.
const QUEUE_BYTES_MAX: usize = 128 << 20;
/// Files that are looked at when a folder is opened.
const FILES_MAX: usize = 1 << 20;
/// Files that are named when they cannot be used.
const NAMED_MAX: u64 = 8;
/// The file that says who writes.
const LOCK: &str = "lock";
/// The end of the name of a file that is being written.
const UNFINISHED: &str = "new";
/// Digits of a fingerprint that name a model's folder: half of them.
const MODEL_DIGITS: usize = 32;
const KINDS: [Kind; 2] = [Kind::Page, Kind::State];

/// A folder that is open.
pub(super) struct Disk {
    shared: Arc<Shared>,
    /// Held, and with it the lock, as long as it writes.
    _lock: Option<File>,
    jobs: Option<Sender<Job>>,
    reads: Option<Sender<(Key, Box<[u32]>)>>,
    threads: Vec<JoinHandle<()>>,
    arrived: Receiver<(Key, Option<Arc<Content>>)>,
    coming: HashSet<Key>,
    coming_bytes: usize,
}

/// What the writing thread is told.
enum Job {
    Write(Entry),
    Used(Vec<Name>),
    /// Tells when everything before it is done.
    Flush(Sender<()>),
}

/// What all threads see.
struct Shared {
    /// The model's own folder.
    folder: PathBuf,
    model: [u8; 32],
    sizes: Sizes,
    bytes_max: u64,
    now: fn() -> SystemTime,
    index: Mutex<Index>,
    queued_bytes: AtomicUsize,
    counts: Counts,
    notice: Notice,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Whether the last file could not be written.
    fails: AtomicBool,
}

#[derive(Default)]
struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
    read: AtomicU64,
    refused: AtomicU64,
}

/// When a file was used last, and its number among those of the same moment.
type Stamp = (SystemTime, u64);

/// What is in the folder.
#[derive(Default)]
struct Index {
    /// The files of this model.
    ours: HashMap<Key, Own>,
    /// All files by last use.
    order: BTreeMap<Stamp, Item>,
    /// Of all files.
    bytes: u64,
    /// What waits to be written.
    queued: HashSet<Key>,
    numbers: u64,
}

/// A file of this model.
struct Own {
    stamp: Stamp,
    /// Whether this program wrote it or read it whole.
    is_seen: bool,
}

struct Item {
    file: Place,
    bytes: u64,
}

/// Where a file is.
enum Place {
    Ours(Key),
    /// Another model's.
    Other(PathBuf),
}

impl Disk {
    /// Opens a folder; none where it cannot even be read, which is said.
    pub(super) fn open(
        folder: &Path,
        settings: &Settings,
        model: [u8; 32],
        sizes: Sizes,
        notice: &Notice,
    ) -> Option<Self> {
        if let Err(error) = fs::create_dir_all(folder) {
            notice(&format!("the cache folder {} cannot be made: {error}; going on without it", folder.display()));
            return None;
        }
        let lock = lock(folder, notice);
        let own = folder.join(&Name::from_bytes(model).to_string()[..MODEL_DIGITS]);
        if lock.is_some()
            && let Err(error) = fs::create_dir_all(&own)
        {
            notice(&format!("the folder {} cannot be made: {error}; going on without it", own.display()));
            return None;
        }
        let (index, others) = Index::of(folder, &own, lock.is_some(), &sizes);
        if others > 0 {
            notice(&format!("the cache folder {} holds {others} entries that are not kauri's", folder.display()));
        }
        let shared = Arc::new(Shared {
            folder: own,
            model,
            sizes,
            bytes_max: settings.folder_bytes_max,
            now: settings.now,
            index: Mutex::new(index),
            queued_bytes: AtomicUsize::new(0),
            counts: Counts::default(),
            notice: Arc::clone(notice),
            wake: OnceLock::new(),
            fails: AtomicBool::new(false),
        });
        let (reads, asked) = channel::<(Key, Box<[u32]>)>();
        let (arrivals, arrived) = channel();
        let reading = Arc::clone(&shared);
        let mut threads = vec![start("kauri-fetch", move || {
            for (key, tokens) in asked {
                if arrivals.send((key, reading.read(key, &tokens))).is_err() {
                    break;
                }
                if let Some(wake) = reading.wake.get() {
                    wake();
                }
            }
        })?];
        let mut jobs = None;
        if lock.is_some() {
            let (sender, receiver) = channel();
            let writing = Arc::clone(&shared);
            threads.push(start("kauri-keep", move || writing.write_all(&receiver))?);
            jobs = Some(sender);
        }
        let (coming, coming_bytes) = (HashSet::new(), 0);
        Some(Self { shared, _lock: lock, jobs, reads: Some(reads), threads, arrived, coming, coming_bytes })
    }

    /// Whether it may write to the folder.
    pub(super) fn writes(&self) -> bool {
        self.jobs.is_some()
    }

    pub(super) fn on_arrival(&self, wake: Box<dyn Fn() + Send + Sync>) {
        // Whoever was told first goes on being told.
        let _ = self.shared.wake.set(wake);
    }

    pub(super) fn holds(&self, key: &Key) -> bool {
        self.shared.index().ours.contains_key(key)
    }

    /// Whether it would write this: it is not there, and there is room in the queue. A file that this program has not seen does not
    /// count: what is computed all the same perhaps could not be read.
    pub(super) fn wants(&self, key: Key) -> bool {
        let bytes = file::bytes(&self.shared.sizes, key.0);
        if !self.writes() || bytes > self.shared.bytes_max {
            return false;
        }
        let index = self.shared.index();
        if index.ours.get(&key).is_some_and(|own| own.is_seen) || index.queued.contains(&key) {
            return false;
        }
        let queued = self.shared.queued_bytes.load(Ordering::Acquire);
        let has_room = queued == 0 || queued + bytes as usize <= QUEUE_BYTES_MAX;
        if !has_room {
            self.shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    pub(super) fn put(&self, kind: Kind, kept: &Kept, content: Vec<u8>) {
        let key = (kind, kept.name);
        if !self.wants(key) {
            return;
        }
        self.shared.queued_bytes.fetch_add(content.len(), Ordering::AcqRel);
        self.shared.index().queued.insert(key);
        self.tell(Job::Write(Entry { key, before: kept.before, tokens: kept.tokens.clone(), content }));
    }

    pub(super) fn used(&self, names: Vec<Name>) {
        self.tell(Job::Used(names));
    }

    pub(super) fn flush(&self) {
        let (done, wait) = channel();
        self.tell(Job::Flush(done));
        // Where nothing is written, there is nothing to wait for.
        let _ = wait.recv();
    }

    pub(super) fn is_coming(&self, key: &Key) -> bool {
        self.coming.contains(key)
    }

    pub(super) fn coming_bytes(&self) -> usize {
        self.coming_bytes
    }

    /// Goes for something that is in the folder.
    pub(super) fn go(&mut self, key: Key, tokens: &[u32]) -> Found {
        let sent = self.reads.as_ref().is_some_and(|reads| reads.send((key, tokens.into())).is_ok());
        if !sent {
            return Found::Missing;
        }
        if self.coming.insert(key) {
            self.coming_bytes += self.shared.sizes.bytes(key.0);
        }
        Found::Coming
    }

    /// What has come since, or turned out to be missing.
    pub(super) fn arrival(&mut self) -> Option<(Key, Option<Arc<Content>>)> {
        let (key, content) = self.arrived.try_recv().ok()?;
        if self.coming.remove(&key) {
            self.coming_bytes -= self.shared.sizes.bytes(key.0);
        }
        Some((key, content))
    }

    /// Reads here and now.
    pub(super) fn read(&self, key: Key, tokens: &[u32]) -> Option<Arc<Content>> {
        if self.holds(&key) { self.shared.read(key, tokens) } else { None }
    }

    pub(super) fn stored(&self) -> Stored {
        let counts = &self.shared.counts;
        let [written, dropped, read, refused] = [&counts.written, &counts.dropped, &counts.read, &counts.refused]
            .map(|count| count.load(Ordering::Relaxed));
        let index = self.shared.index();
        let (files, file_bytes) = (index.order.len() as u64, index.bytes);
        Stored { files, file_bytes, memory_bytes: 0, written, dropped, read, refused }
    }

    fn tell(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // Where the thread is gone, nothing is kept any more.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Disk {
    /// What waits is written first: who ends a conversation wants to find it again.
    fn drop(&mut self) {
        (self.jobs, self.reads) = (None, None);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Starts a thread; none where the machine has no room for one.
fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work).ok()
}

/// The right to write to a folder; says why it cannot be had.
fn lock(folder: &Path, notice: &Notice) -> Option<File> {
    let opened = File::options().create(true).write(true).truncate(false).open(folder.join(LOCK));
    let reason = match opened.map(|file| (file.try_lock(), file)) {
        Ok((Ok(()), file)) => return Some(file),
        Ok((Err(TryLockError::WouldBlock), _)) => "another kauri writes to it".to_owned(),
        Ok((Err(TryLockError::Error(error)), _)) | Err(error) => error.to_string(),
    };
    let folder = folder.display();
    notice(&format!("nothing is added to the cache folder {folder}: {reason}; what is there is used"));
    None
}

impl Shared {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, (kind, name): Key) -> PathBuf {
        self.folder.join(format!("{name}.{}", file::extension(kind)))
    }

    /// Reads a file; one that cannot be used is named, and is not there from then on.
    fn read(&self, key: Key, tokens: &[u32]) -> Option<Arc<Content>> {
        let path = self.path(key);
        match file::read(&path, key, &self.model, &self.sizes, tokens) {
            Ok(content) => {
                self.index().see(key);
                self.counts.read.fetch_add(1, Ordering::Relaxed);
                Some(Arc::new(content))
            }
            Err(fault) => {
                let (path, forgotten) = (path.display(), self.index().remove(key));
                // Forgotten meanwhile: it made way for another.
                if forgotten || !matches!(&fault, Fault::Io(error) if error.kind() == io::ErrorKind::NotFound) {
                    match self.counts.refused.fetch_add(1, Ordering::Relaxed) {
                        0..NAMED_MAX => (self.notice)(&format!("the cache file {path} is not used: {fault}")),
                        NAMED_MAX => (self.notice)("more cache files cannot be used; they are not named"),
                        _ => {}
                    }
                }
                None
            }
        }
    }

    /// The writing thread: until nobody can tell it anything more.
    fn write_all(&self, jobs: &Receiver<Job>) {
        let mut is_settled = true;
        loop {
            let Some(job) = jobs.try_recv().ok().or_else(|| {
                // Nothing to do: the names of new files are seen to be on the disk, once for all of them.
                if !std::mem::replace(&mut is_settled, true) {
                    settle(&self.folder);
                }
                jobs.recv().ok()
            }) else {
                return;
            };
            match job {
                Job::Write(entry) => {
                    self.write(&entry);
                    self.queued_bytes.fetch_sub(entry.content.len(), Ordering::AcqRel);
                    is_settled = false;
                }
                Job::Used(names) => self.touch(&names),
                Job::Flush(done) => {
                    settle(&self.folder);
                    is_settled = true;
                    let _ = done.send(());
                }
            }
        }
    }

    fn write(&self, entry: &Entry) {
        let bytes = file::bytes(&self.sizes, entry.key.0);
        self.make_room(bytes);
        let path = self.path(entry.key);
        let mut result = self.place(entry, &path);
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            // Somebody removed the folder: everything in it is gone, and it is made again.
            result = fs::create_dir_all(&self.folder).and_then(|()| self.place(entry, &path));
        }
        let mut index = self.index();
        index.queued.remove(&entry.key);
        match result {
            Ok(()) => {
                index.add(Place::Ours(entry.key), bytes, (self.now)());
                index.see(entry.key);
                self.counts.written.fetch_add(1, Ordering::Relaxed);
                self.fails.store(false, Ordering::Relaxed);
            }
            Err(error) => {
                drop(index);
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                if !self.fails.swap(true, Ordering::Relaxed) {
                    let folder = self.folder.display();
                    (self.notice)(&format!(
                        "nothing can be added to the cache folder {folder}: {error}; answers do not depend on it"
                    ));
                }
            }
        }
    }

    /// Writes a file under another name and gives it its own when it is whole.
    fn place(&self, entry: &Entry, path: &Path) -> io::Result<()> {
        let unfinished = path.with_added_extension(UNFINISHED);
        let written = match entry.write(&unfinished, &self.model) {
            // Of a write that failed, whose remains could not be removed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&unfinished).and_then(|()| entry.write(&unfinished, &self.model))
            }
            written => written,
        };
        let placed = written.and_then(|()| fs::rename(&unfinished, path));
        if placed.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        placed
    }

    /// Removes what was used longest ago until so many bytes more are within the limit.
    fn make_room(&self, bytes: u64) {
        loop {
            let mut index = self.index();
            if index.bytes + bytes <= self.bytes_max {
                return;
            }
            let Some(file) = index.pop_oldest() else { return };
            drop(index);
            let path = match file {
                Place::Ours(key) => self.path(key),
                Place::Other(path) => path,
            };
            // One that somebody else removed already is gone as well.
            let _ = fs::remove_file(path);
        }
    }

    /// Pages of a sequence were used, and the states behind them.
    fn touch(&self, names: &[Name]) {
        let now = (self.now)();
        for (index, &name) in (0..).zip(names) {
            let Some(time) = now.checked_sub(Duration::from_micros(index)) else { return };
            for kind in KINDS {
                if self.index().touch((kind, name), time) {
                    // Without its time, a file is only forgotten sooner by a later program.
                    let file = File::options().write(true).open(self.path((kind, name)));
                    let _ = file.and_then(|file| file.set_modified(time));
                }
            }
        }
    }
}

/// Sees that the names of new files are on the disk. Where that cannot be, a crash loses a page.
fn settle(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

impl Index {
    /// What is in a folder, and how many entries there are that are none of ours. Unfinished files are removed where that is `allowed`.
    fn of(folder: &Path, own: &Path, allowed: bool, sizes: &Sizes) -> (Self, usize) {
        let (mut index, mut others, mut seen) = (Self::default(), 0, 0);
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        for model in entries(folder) {
            if model.file_name() == LOCK {
                continue;
            }
            if !is_model(&model.file_name()) || !model.file_type().is_ok_and(|kind| kind.is_dir()) {
                others += 1;
                continue;
            }
            for entry in entries(&model.path()).take(FILES_MAX - seen) {
                seen += 1;
                let (path, name) = (entry.path(), entry.file_name());
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                match (FileName::of(&name).filter(|_| is_file), entry.metadata()) {
                    (Some(FileName::Whole(key)), Ok(metadata)) => {
                        let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                        let is_own = model.path() == own;
                        // One of another length is looked at when it is asked for, and named.
                        let bytes = if is_own { file::bytes(sizes, key.0).max(metadata.len()) } else { metadata.len() };
                        index.add(if is_own { Place::Ours(key) } else { Place::Other(path) }, bytes, time);
                    }
                    (Some(FileName::Unfinished), _) => _ = allowed.then(|| fs::remove_file(&path)),
                    (Some(FileName::Whole(_)) | None, _) => others += 1,
                }
            }
        }
        (index, others)
    }

    fn add(&mut self, file: Place, bytes: u64, time: SystemTime) {
        self.numbers += 1;
        let stamp = (time, self.numbers);
        if let Place::Ours(key) = file {
            self.remove(key);
            self.ours.insert(key, Own { stamp, is_seen: false });
        }
        self.bytes += bytes;
        self.order.insert(stamp, Item { file, bytes });
    }

    /// Forgets a file of this model; says whether it was known.
    fn remove(&mut self, key: Key) -> bool {
        let Some(own) = self.ours.remove(&key) else { return false };
        if let Some(item) = self.order.remove(&own.stamp) {
            self.bytes -= item.bytes;
        }
        true
    }

    /// A file of this model was used; says whether it is known.
    fn touch(&mut self, key: Key, time: SystemTime) -> bool {
        let Some(own) = self.ours.get_mut(&key) else { return false };
        self.numbers += 1;
        let stamp = (time, self.numbers);
        if let Some(item) = self.order.remove(&own.stamp) {
            self.order.insert(stamp, item);
        }
        own.stamp = stamp;
        true
    }

    /// This program has written a file, or read it whole.
    fn see(&mut self, key: Key) {
        if let Some(own) = self.ours.get_mut(&key) {
            own.is_seen = true;
        }
    }

    fn pop_oldest(&mut self) -> Option<Place> {
        let (_, item) = self.order.pop_first()?;
        self.bytes -= item.bytes;
        if let Place::Ours(key) = item.file {
            self.ours.remove(&key);
        }
        Some(item.file)
    }
}

/// Whether a folder is called like that of a model.
fn is_model(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.len() == MODEL_DIGITS && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What a file's name says.
enum FileName {
    Whole(Key),
    Unfinished,
}

impl FileName {
    fn of(name: &OsStr) -> Option<Self> {
        let (name, rest) = name.to_str()?.split_once('.')?;
        let name = Name::from_hex(name)?;
        KINDS.into_iter().find_map(|kind| match rest.strip_prefix(file::extension(kind))? {
            "" => Some(Self::Whole((kind, name))),
            rest if rest.strip_prefix('.') == Some(UNFINISHED) => Some(Self::Unfinished),
            _ => None,
        })
    }
}
