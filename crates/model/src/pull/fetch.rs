//! One file from the web to its final name: in pieces, from several connections, resumed, verified, and only then there.
//!
//! It does not know hubs or registries: an address, a size, a digest and a place are all it needs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::digest::Digest;
use super::pieces::Pieces;
use super::web::{Credential, Fault, Given, Patience, Web};
use super::{Error, Watch};

/// What a file in the making has behind its name: no other tool takes it for its own.
pub const PART_ENDING: &str = ".kauri-part";

/// A file that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What people call it.
    pub title: String,
    /// Where it is to be had.
    pub url: String,
    /// How large it is.
    pub bytes: u64,
    /// What it must come to.
    pub digest: Digest,
    /// What the server calls this version, where nothing else tells versions apart.
    pub version: Option<String>,
    /// What its bytes are called when they are all there and right.
    pub place: PathBuf,
    /// Whose lock keeps others from fetching it at the same time.
    pub lock: PathBuf,
    /// What opens the door, at one origin.
    pub credential: Option<Credential>,
}

/// How a file is fetched.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Connections at a time.
    pub connections: usize,
    /// Bytes of a piece: what a cut may cost for each connection.
    pub piece_bytes: u64,
    /// How long to go on when something is in the way.
    pub patience: Patience,
}

impl Default for Manner {
    fn default() -> Self {
        Self { connections: 8, piece_bytes: 4 << 20, patience: Patience::default() }
    }
}

impl Wanted {
    /// Fetches it unless it is there; who else wants it at the same time waits.
    ///
    /// # Errors
    /// What is in the way. Nothing but the right bytes is ever at `place`; what has come stays for the next attempt.
    pub fn fetch(&self, web: &Web, manner: &Manner, watch: &dyn Watch) -> Result<(), Error> {
        for path in [&self.place, &self.lock] {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(Error::disk(folder))?;
            }
        }
        let _lock = lock(&self.lock, &self.title, watch)?;
        if self.is_here() {
            watch.came(self.bytes);
            return Ok(());
        }
        // Once more from the start, if what was resumed turns out to be wrong: the disk may have lost what was noted.
        let resumed = self.attempt(web, manner, watch)?;
        if resumed == Outcome::Wrong && self.attempt(web, manner, watch)? == Outcome::Wrong {
            return Err(self.wrong_digest());
        }
        Ok(())
    }

    /// Whether it is there, whole.
    pub fn is_here(&self) -> bool {
        fs::metadata(&self.place).is_ok_and(|file| file.is_file() && file.len() == self.bytes)
    }

    /// Bytes that are still to come.
    pub fn missing_bytes(&self, manner: &Manner) -> u64 {
        if self.is_here() {
            return 0;
        }
        if !self.part().exists() {
            return self.bytes;
        }
        let begun = Pieces::open(&self.part(), self.bytes, manner.piece_bytes, &self.identity());
        begun.map_or(self.bytes, |pieces| self.bytes - pieces.here_bytes())
    }

    fn attempt(&self, web: &Web, manner: &Manner, watch: &dyn Watch) -> Result<Outcome, Error> {
        let pieces = Pieces::open(&self.part(), self.bytes, manner.piece_bytes, &self.identity());
        let pieces = pieces.map_err(Error::disk(&self.part()))?;
        let before = pieces.here_bytes();
        watch.came(before);
        let work = Work {
            wanted: self,
            web,
            manner,
            watch,
            state: Mutex::new(Progress { pieces, gives_parts: None, failure: None, attempts: 0 }),
            is_told: Condvar::new(),
            is_over: AtomicBool::new(false),
        };
        let count = manner.connections.max(1);
        thread::scope(|scope| (0..count).for_each(|number| drop(scope.spawn(move_in(&work, number)))));
        let progress = work.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = progress.failure {
            return Err(failure);
        }
        let pieces = progress.pieces;
        if !pieces.is_whole() {
            return Err(Error::Web { what: self.title.clone(), fault: Fault::Wrong("it ended early".to_owned()) });
        }
        watch.note(&format!("checking {}", self.title));
        let found = self.digest.of(pieces.part(), |_| ()).map_err(Error::disk(pieces.part()))?;
        if self.digest.hex().is_some_and(|expected| expected != found) {
            pieces.discard().map_err(Error::disk(&self.part()))?;
            watch.lost(self.bytes);
            return if before > 0 { Ok(Outcome::Wrong) } else { Err(self.wrong_digest()) };
        }
        pieces.finish(&self.place).map_err(Error::disk(&self.place))?;
        Ok(Outcome::Here)
    }

    fn wrong_digest(&self) -> Error {
        Error::WrongDigest { what: self.title.clone(), expected: self.digest.to_string() }
    }

    /// Where it is made.
    fn part(&self) -> PathBuf {
        let mut name = self.place.as_os_str().to_owned();
        name.push(PART_ENDING);
        PathBuf::from(name)
    }

    fn identity(&self) -> String {
        match (&self.digest, &self.version) {
            (Digest::Unknown, version) => format!("version:{}", version.as_deref().unwrap_or("?")),
            (digest, _) => digest.to_string(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Here,
    Wrong,
}

/// What the connections share.
struct Work<'a> {
    wanted: &'a Wanted,
    web: &'a Web,
    manner: &'a Manner,
    watch: &'a dyn Watch,
    state: Mutex<Progress>,
    is_told: Condvar,
    is_over: AtomicBool,
}

struct Progress {
    pieces: Pieces,
    /// Whether the server gives parts; the first answer says so.
    gives_parts: Option<bool>,
    failure: Option<Error>,
    /// Attempts since the last piece that came.
    attempts: u32,
}

fn move_in<'a>(work: &'a Work<'a>, number: usize) -> impl FnOnce() + Send + 'a {
    move || {
        work.run(number);
        // Whoever waits for the first answer must not wait for ever.
        work.state().gives_parts.get_or_insert(true);
        work.is_told.notify_all();
    }
}

impl Work<'_> {
    fn state(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One connection: takes pieces until there are none.
    fn run(&self, number: usize) {
        if number > 0 {
            let told = self.is_told.wait_while(self.state(), |state| state.gives_parts.is_none());
            if told.unwrap_or_else(PoisonError::into_inner).gives_parts == Some(false) {
                return;
            }
        }
        while !self.is_over.load(Ordering::Relaxed) {
            let mut state = self.state();
            let whole = state.gives_parts == Some(false);
            let taken =
                if whole && !state.pieces.is_whole() { Some(state.pieces.take_all()) } else { state.pieces.take() };
            let Some(pieces) = taken else { return };
            drop(state);
            let outcome = self.fetch(pieces.clone());
            self.state().pieces.give_back(pieces);
            match outcome {
                Ok(()) => {}
                Err(Obstacle::Passing(fault)) => {
                    let Some(wait) = self.wait(&fault) else {
                        let what = self.wanted.title.clone();
                        return self.fail(Error::Web { what, fault });
                    };
                    self.watch.note(&format!("{fault}; trying again in {:.0} s", wait.as_secs_f64().ceil()));
                    self.sleep(wait);
                }
                Err(Obstacle::Final(error)) => return self.fail(error),
            }
        }
    }

    /// How long to wait after a fault; none when it is time to give up.
    fn wait(&self, fault: &Fault) -> Option<Duration> {
        let patience = &self.manner.patience;
        let mut state = self.state();
        state.attempts += 1;
        let attempts = state.attempts;
        if attempts >= patience.attempts_max {
            return None;
        }
        if let Some(asked) = fault.retry_after() {
            return (asked <= patience.wait_max).then_some(asked.max(patience.wait));
        }
        Some(patience.wait.saturating_mul(1 << (attempts - 1).min(16)).min(patience.wait_max))
    }

    /// Sleeps, but not longer than the work goes on.
    fn sleep(&self, wait: Duration) {
        let is_over = |state: &mut Progress| state.failure.is_none();
        drop(self.is_told.wait_timeout_while(self.state(), wait, is_over));
    }

    fn fail(&self, error: Error) {
        self.is_over.store(true, Ordering::Relaxed);
        self.state().failure.get_or_insert(error);
        self.is_told.notify_all();
    }

    /// Fetches a run of pieces in one request.
    fn fetch(&self, pieces: Range<u64>) -> Result<(), Obstacle> {
        let range = self.state().pieces.range(pieces.clone());
        let wanted = self.wanted;
        let whole = self.state().gives_parts == Some(false);
        let asked = (!whole).then_some(&range);
        let given = self.web.get(&wanted.url, asked, None, wanted.credential.as_ref());
        let given = given.map_err(|fault| self.obstacle(fault))?;
        let gives_parts = given.status == 206;
        self.check(&given, &range)?;
        let is_first = {
            let mut state = self.state();
            let is_first = state.gives_parts.is_none();
            state.gives_parts.get_or_insert(gives_parts);
            self.is_told.notify_all();
            is_first
        };
        if gives_parts {
            return self.copy(given.body, pieces);
        }
        if !is_first && !whole {
            return Err(self.wrong("gave the whole file where a part was asked for"));
        }
        // The whole comes, from its start: what is here already comes again.
        let all = self.state().pieces.take_all();
        let copied = self.copy(given.body, all.clone());
        self.state().pieces.give_back(all);
        copied
    }

    /// Whether what comes is what was asked for.
    fn check(&self, given: &Given, range: &Range<u64>) -> Result<(), Obstacle> {
        let bytes = self.wanted.bytes;
        let changed = |found: u64| self.wrong(&format!("has {found} bytes now, and {bytes} were announced"));
        match (given.status, given.part) {
            (206, Some((first, last, all))) => {
                if all != bytes {
                    return Err(changed(all));
                }
                if (first, last.saturating_add(1)) != (range.start, range.end) {
                    let message = format!(
                        "gave bytes {first} to {last} where {} to {} were asked for",
                        range.start,
                        range.end - 1
                    );
                    return Err(self.wrong(&message));
                }
                match given.length {
                    Some(length) if length != range.end - range.start => {
                        Err(self.wrong(&format!("sends {length} bytes for a part of {}", range.end - range.start)))
                    }
                    _ => Ok(()),
                }
            }
            (206, None) => Err(self.wrong("gave a part without saying which")),
            (_, _) => given.length.filter(|&length| length != bytes).map_or(Ok(()), |length| Err(changed(length))),
        }
    }

    /// Writes what comes to its place, and notes each piece.
    fn copy(&self, mut body: Box<dyn Read + Send>, pieces: Range<u64>) -> Result<(), Obstacle> {
        let part = self.state().pieces.part().to_owned();
        let disk = |error| Obstacle::Final(Error::disk(&part)(error));
        let mut file = OpenOptions::new().write(true).open(&part).map_err(disk)?;
        let mut buffer = vec![0; 64 << 10];
        let start = self.state().pieces.range(pieces.clone()).start;
        file.seek(SeekFrom::Start(start)).map_err(disk)?;
        for piece in pieces {
            let range = self.state().pieces.range(piece..piece + 1);
            let mut missing = (range.end - range.start) as usize;
            while missing > 0 {
                if self.is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let most = buffer.len().min(missing);
                let read = body.read(&mut buffer[..most]);
                let count = read.map_err(|error| Obstacle::Passing(self.cut(&error.to_string())))?;
                if count == 0 {
                    return Err(Obstacle::Passing(self.cut("it ended early")));
                }
                file.write_all(&buffer[..count]).map_err(disk)?;
                missing -= count;
            }
            let mut state = self.state();
            let came = state.pieces.put(piece).map_err(disk)?;
            state.attempts = 0;
            drop(state);
            self.watch.came(came);
        }
        // A body that goes on is not what was announced.
        match body.read(&mut buffer[..1]) {
            Ok(count) if count > 0 => Err(self.wrong("sends more bytes than it announced")),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn cut(&self, reason: &str) -> Fault {
        Fault::Connection { host: super::web::host(&self.wanted.url), reason: reason.to_owned() }
    }

    fn wrong(&self, what: &str) -> Obstacle {
        let fault = Fault::Wrong(format!("the server {what}"));
        Obstacle::Final(Error::Web { what: self.wanted.title.clone(), fault })
    }

    fn obstacle(&self, fault: Fault) -> Obstacle {
        if fault.is_passing() {
            Obstacle::Passing(fault)
        } else {
            Obstacle::Final(Error::of(&self.wanted.title, fault))
        }
    }
}

/// What ended a request.
enum Obstacle {
    Passing(Fault),
    Final(Error),
}

/// Keeps others away until it is dropped; says so while it waits.
fn lock(path: &Path, title: &str, watch: &dyn Watch) -> Result<File, Error> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(Error::disk(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            watch.note(&format!("another process fetches {title}: waiting for it"));
            file.lock().map_err(Error::disk(path))?;
            Ok(file)
        }
        Err(fs::TryLockError::Error(error)) => Err(Error::disk(path)(error)),
    }
}

/// Bytes that may still be written in `folder`, or the nearest folder above it that there is.
///
/// # Errors
/// Those of the operating system.
pub fn free_bytes(folder: &Path) -> io::Result<Option<u64>> {
    #[cfg(unix)]
    {
        let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
        let state = rustix::fs::statvfs(there)?;
        Ok(Some(state.f_bavail.saturating_mul(state.f_frsize)))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        Ok(None)
    }
}
