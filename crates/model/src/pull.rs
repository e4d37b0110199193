//! From a name to files on this disk: what is to come and how large it is, then the bytes, verified before anything can use them.
//!
//! `hub` speaks the protocol of Hugging Face's hub and shares its cache with its own tools, `registry` that of OCI registries,
//! `fetch` brings one file. Nothing here reads the environment: where things are and who may know the token is handed in.

mod digest;
mod fetch;
mod hub;
mod pieces;
mod registry;
mod web;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::resolve::{self, Reference, RegistryName, WebName};

pub use digest::{Digest, is_hex, sha256};
pub use fetch::{Manner, PART_ENDING, Wanted, free_bytes};
pub use hub::locks_folder;
pub use ureq::Proxy;
pub use web::{Credential, Fault, Patience, Web};

/// Bytes that stay free beside what is pulled.
const RESERVE_BYTES: u64 = 64 << 20;
/// The largest file that is believed in: what somebody else says of sizes is added up, and sizes tables here.
const FILE_BYTES_MAX: u64 = 1 << 44;

/// What can be in the way between a name and its files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be used.
    #[error("{}: {error}", path.display())]
    Disk {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The disk is full.
    #[error("{}: the disk is full; what has come stays: make room and pull again to go on from there", path.display())]
    DiskFull {
        /// What was being written.
        path: PathBuf,
    },
    /// There is not enough room to begin.
    #[error("{needed} bytes are to come and {} has room for {free}: make room, or choose a smaller quantisation", folder.display())]
    NoRoom {
        /// Bytes to come.
        needed: u64,
        /// Bytes that are free.
        free: u64,
        /// Where.
        folder: PathBuf,
    },
    /// The web.
    #[error("{what}: {fault}")]
    Web {
        /// What was fetched.
        what: String,
        /// What was wrong.
        fault: Fault,
    },
    /// Nobody has it.
    #[error("{what}: {host} has no such model or file; check the name")]
    Missing {
        /// What was asked for.
        what: String,
        /// Who was asked.
        host: String,
    },
    /// It is not for everybody.
    #[error(
        "{what}: {host} says no ({status}): it is not for everybody. Where that is the hub: accept the model's terms on its page, if it has any, and set HF_TOKEN to a token that may read it"
    )]
    Denied {
        /// What was asked for.
        what: String,
        /// Who was asked.
        host: String,
        /// What it answered.
        status: u16,
    },
    /// The bytes are not those that were announced.
    #[error(
        "{what}: what came is not {expected}; it was thrown away. Pull again, or from elsewhere if that does not help"
    )]
    WrongDigest {
        /// The file.
        what: String,
        /// What it should be.
        expected: String,
    },
    /// What was found is no model that can be used.
    #[error("{what}: {why}")]
    Unusable {
        /// What was asked for.
        what: String,
        /// Why not.
        why: String,
    },
}

impl Error {
    fn disk(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path: path.to_owned() },
            _ => Self::Disk { path: path.to_owned(), error },
        }
    }

    /// A fault of the web with what it was about.
    fn of(what: &str, fault: Fault) -> Self {
        let what = what.to_owned();
        match fault {
            Fault::Status { host, status: 404 | 410, .. } => Self::Missing { what, host },
            Fault::Status { host, status: status @ (401 | 403), .. } => Self::Denied { what, host, status },
            fault @ (Fault::Status { .. } | Fault::Connection { .. } | Fault::Wrong(_)) => Self::Web { what, fault },
        }
    }

    fn unusable(what: &str, why: impl Into<String>) -> Self {
        Self::Unusable { what: what.to_owned(), why: why.into() }
    }
}

/// Who is told how a pull goes. Called from several threads.
pub trait Watch: Sync {
    /// So many more bytes are here.
    fn came(&self, bytes: u64);
    /// So many of them were wrong and are gone.
    fn lost(&self, bytes: u64);
    /// Something that a person may want to know.
    fn note(&self, text: &str);
}

/// Who is asked.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The hub.
    pub hub: String,
    /// What the hub, and nobody else, is told.
    pub token: Option<String>,
    /// The registry of names that name none.
    pub registry: String,
}

/// Where files are kept.
#[derive(Clone, Debug)]
pub struct Places {
    /// The hub's cache, which its own tools use too.
    pub hub: PathBuf,
    /// What came from registries.
    pub registry: PathBuf,
    /// What came from plain addresses.
    pub web: PathBuf,
}

/// Brings models.
pub struct Puller {
    web: Web,
    manner: Manner,
    sources: Sources,
    places: Places,
}

/// What a pull would do.
#[derive(Debug)]
pub struct Plan {
    /// What is pulled, in full.
    pub name: String,
    /// Its quantisation, where the name of the file says it.
    pub quant: Option<String>,
    /// The files.
    pub files: Vec<Wanted>,
    /// What is loaded when they are there.
    pub source: PathBuf,
    /// What is to be written when they are there, in this order.
    afterwards: Vec<Afterwards>,
    /// Whose disk must have room.
    folder: PathBuf,
    /// The registry's name of it, where that is where it comes from: what opens its door does so for minutes.
    door: Option<RegistryName>,
}

/// What makes files findable, once they are there.
#[derive(Debug)]
enum Afterwards {
    /// A name beside a blob.
    Link { name: PathBuf, blob: PathBuf },
    /// A small file.
    Text { name: PathBuf, text: String },
}

impl Plan {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

impl Puller {
    /// Brings models from `sources` to `places`.
    pub fn new(sources: Sources, places: Places, manner: Manner, proxy: Option<Proxy>) -> Self {
        Self { web: Web::new(&manner.patience, proxy), manner, sources, places }
    }

    /// What it would take to have the model here; nothing where it is none of the web's. Among several quantisations the one that is
    /// preferred within `budget_bytes` is taken, unless one was named.
    ///
    /// # Errors
    /// When nobody has it, or nothing in it can be used.
    pub fn plan(&self, reference: &Reference, budget_bytes: Option<u64>) -> Result<Option<Plan>, Error> {
        let plan = match reference {
            Reference::BuiltIn | Reference::Path(_) => return Ok(None),
            Reference::Hub(name) => self.plan_hub(name, budget_bytes)?,
            Reference::Registry(name) => self.plan_registry(name)?,
            Reference::Web(name) => self.plan_web(name)?,
        };
        match plan.files.iter().find(|file| file.bytes > FILE_BYTES_MAX) {
            Some(file) => {
                let why = format!("{} is said to have {} bytes, which no file of a model has", file.title, file.bytes);
                Err(Error::unusable(&plan.name, why))
            }
            None => Ok(Some(plan)),
        }
    }

    /// Bytes that are still to come.
    pub fn missing_bytes(&self, plan: &Plan) -> u64 {
        plan.files.iter().map(|file| file.missing_bytes(&self.manner)).sum()
    }

    /// Does it; where the model is then.
    ///
    /// # Errors
    /// What is in the way. What has come stays for the next attempt.
    pub fn pull(&self, plan: &Plan, watch: &dyn Watch) -> Result<PathBuf, Error> {
        let needed = self.missing_bytes(plan);
        let free = free_bytes(&plan.folder).map_err(Error::disk(&plan.folder))?;
        if let Some(free) = free.filter(|free| needed > 0 && *free < needed.saturating_add(RESERVE_BYTES)) {
            return Err(Error::NoRoom { needed, free, folder: plan.folder.clone() });
        }
        for file in &plan.files {
            self.bring(file, plan.door.as_ref(), watch)?;
        }
        for step in &plan.afterwards {
            match step {
                Afterwards::Link { name, blob } => link(name, blob)?,
                Afterwards::Text { name, text } => write(name, text)?,
            }
        }
        Ok(plan.source.clone())
    }

    /// Brings one file. A registry's pass is good for minutes, and a large file may take longer: where it is refused midway, another is
    /// asked for.
    fn bring(&self, file: &Wanted, door: Option<&RegistryName>, watch: &dyn Watch) -> Result<(), Error> {
        let mut file = file.clone();
        loop {
            let before = file.missing_bytes(&self.manner);
            let outcome = file.fetch(&self.web, &self.manner, watch);
            let (Err(Error::Denied { status: 401, .. }), Some(door)) = (&outcome, door) else { return outcome };
            let missing = file.missing_bytes(&self.manner);
            if missing >= before {
                return outcome;
            }
            // What is here is counted again by the next attempt.
            watch.lost(file.bytes - missing);
            file.credential = self.pass(door)?;
        }
    }

    fn plan_web(&self, name: &WebName) -> Result<Plan, Error> {
        let given = self.web.get(&name.url, Some(&(0..1)), None, None).map_err(|fault| Error::of(&name.url, fault))?;
        let bytes = given.part.map(|(_, _, all)| all).or(given.length);
        let bytes = bytes.ok_or_else(|| Error::unusable(&name.url, "the server does not say how large it is"))?;
        let folder = resolve::web_folder(&self.places, name);
        let source = folder.join(&name.file);
        let wanted = Wanted {
            title: name.file.clone(),
            url: name.url.clone(),
            bytes,
            digest: name.sha256.as_deref().and_then(Digest::sha256).unwrap_or(Digest::Unknown),
            version: given.tag,
            place: source.clone(),
            lock: folder.join(".lock"),
            credential: None,
        };
        let quant = resolve::quant_of(&name.file);
        let files = vec![wanted];
        Ok(Plan { name: name.url.clone(), quant, files, source, afterwards: Vec::new(), folder, door: None })
    }
}

/// A name for a blob, as the hub's own tools make it: a relative link, so that the whole cache may be moved.
fn link(name: &Path, blob: &Path) -> Result<(), Error> {
    let folder = name.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(Error::disk(folder))?;
    let made = beside(name);
    let _ = fs::remove_file(&made);
    #[cfg(unix)]
    std::os::unix::fs::symlink(relative(folder, blob), &made).map_err(Error::disk(&made))?;
    #[cfg(not(unix))]
    fs::hard_link(blob, &made).map_err(Error::disk(&made))?;
    fs::rename(&made, name).map_err(Error::disk(name))
}

/// The way from `folder` to `file`.
#[cfg(unix)]
fn relative(folder: &Path, file: &Path) -> PathBuf {
    let common = folder.components().zip(file.components()).take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(common).map(|_| std::path::Component::ParentDir);
    up.chain(file.components().skip(common)).collect()
}

/// A small file, all at once.
fn write(name: &Path, text: &str) -> Result<(), Error> {
    let folder = name.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(Error::disk(folder))?;
    let made = beside(name);
    fs::write(&made, text).map_err(Error::disk(&made))?;
    fs::rename(&made, name).map_err(Error::disk(name))
}

/// Where something is made that is then renamed to `name`.
fn beside(name: &Path) -> PathBuf {
    let mut made = name.as_os_str().to_owned();
    made.push(format!(".new-{}", std::process::id()));
    PathBuf::from(made)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn links_go_up_to_what_both_have_in_common() {
        let way = relative(Path::new("/c/models--a--b/snapshots/12/sub"), Path::new("/c/models--a--b/blobs/ff"));
        assert_eq!(way, Path::new("../../../blobs/ff"));
    }
}
