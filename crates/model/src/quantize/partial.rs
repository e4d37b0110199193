//! A file that is being written: under another name, with a journal of how far it is, held by one process.
//!
//! The journal is a line that says what is being written and one that says how many tensors are on the disk. It is written after
//! they are. This knows nothing of what the tensors are.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Error;

/// A file on its way.
pub(super) struct Partial {
    file: File,
    path: PathBuf,
    journal: PathBuf,
    fingerprint: String,
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Whether `path` is still the name of an open file, where the system can tell.
fn is_called(file: &File, path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let open = file.metadata()?;
        match fs::metadata(path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        Ok(true)
    }
}

impl Partial {
    /// Opens or creates it, and keeps others out.
    pub(super) fn open(path: &Path, fingerprint: &str) -> Result<Self, Error> {
        let (partial, journal) = (beside(path, ".partial"), beside(path, ".partial.journal"));
        let failed = Error::file(&partial);
        let file = loop {
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&partial);
            let file = opened.map_err(&failed)?;
            match file.try_lock() {
                // Some file systems have no locks: then there are none.
                Ok(()) | Err(TryLockError::Error(_)) => {}
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { path: partial.display().to_string() }),
            }
            // Whoever had the lock may have given the file its own name meanwhile: then it is no partial one any more.
            if is_called(&file, &partial).map_err(&failed)? {
                break file;
            }
        };
        Ok(Self { file, path: partial, journal, fingerprint: fingerprint.replace('\n', " ") })
    }

    /// How many tensors of the same work are there already; the file begins with `head` if any.
    pub(super) fn done(&mut self, head: &[u8]) -> io::Result<usize> {
        let Ok(journal) = fs::read_to_string(&self.journal) else { return Ok(0) };
        let Some((fingerprint, done)) = journal.split_once('\n') else { return Ok(0) };
        let mut found = Vec::with_capacity(head.len());
        self.rewind()?;
        (&self.file).take(head.len() as u64).read_to_end(&mut found)?;
        let same = fingerprint == self.fingerprint && found == head;
        Ok(done.trim().parse().ok().filter(|_| same).unwrap_or(0))
    }

    /// The file, to be written to.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn rewind(&self) -> io::Result<()> {
        (&self.file).seek(SeekFrom::Start(0)).map(drop)
    }

    /// Drops what is behind so many bytes, and goes there.
    pub(super) fn cut(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        (&self.file).seek(SeekFrom::Start(bytes)).map(drop)
    }

    /// Says that so many tensors are whole, once they are.
    pub(super) fn save(&self, tensors: usize) -> io::Result<()> {
        self.file.sync_data()?;
        let next = beside(&self.journal, ".next");
        let mut file = File::create(&next)?;
        writeln!(file, "{}\n{tensors}", self.fingerprint)?;
        file.sync_data()?;
        fs::rename(next, &self.journal)
    }

    /// Gives the whole file its name.
    pub(super) fn finish(self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, path)?;
        match fs::remove_file(&self.journal) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_got_its_name_meanwhile_is_no_partial_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let first = Partial::open(&path, "one").unwrap();
        first.file().write_all(b"whole").unwrap();
        assert!(matches!(Partial::open(&path, "one"), Err(Error::Busy { .. })));
        // Somebody who has opened it and not locked it yet.
        let late = File::open(&first.path).unwrap();
        assert!(is_called(&late, &first.path).unwrap());
        let partial = first.path.clone();
        first.finish(&path).unwrap();
        assert!(!is_called(&late, &partial).unwrap(), "it is the whole file now");
        let next = Partial::open(&path, "one").unwrap();
        assert!(!is_called(&late, &partial).unwrap(), "there is another one");
        next.cut(0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let said = |kind: io::ErrorKind| Error::file(Path::new("m.gguf"))(io::Error::from(kind)).to_string();
        assert!(said(io::ErrorKind::StorageFull).contains("the disk is full"));
        assert!(said(io::ErrorKind::PermissionDenied).contains("permission"));
    }
}
