//! What a file's bytes must come to before anything may use it.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

/// What is known of a file's content beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Digest {
    /// Its SHA-256, in hexadecimal.
    Sha256(String),
    /// What git calls it: the SHA-1 of a header and the content. Hubs know their small files by it.
    Git(String),
    /// Nothing: an address that says no more.
    Unknown,
}

impl Digest {
    /// A SHA-256, if it looks like one.
    pub fn sha256(hex: &str) -> Option<Self> {
        is_hex(hex, 64).then(|| Self::Sha256(hex.to_ascii_lowercase()))
    }

    /// A git name, if it looks like one.
    pub fn git(hex: &str) -> Option<Self> {
        is_hex(hex, 40).then(|| Self::Git(hex.to_ascii_lowercase()))
    }

    /// What it should be, in hexadecimal.
    pub fn hex(&self) -> Option<&str> {
        match self {
            Self::Sha256(hex) | Self::Git(hex) => Some(hex),
            Self::Unknown => None,
        }
    }

    /// What the file at `path` comes to, in the manner of this digest; SHA-256 where nothing is known.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of(&self, path: &Path, mut read: impl FnMut(u64)) -> io::Result<String> {
        let mut file = File::open(path)?;
        let mut context = match self {
            Self::Sha256(_) | Self::Unknown => Context::new(&SHA256),
            Self::Git(_) => {
                let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
                context.update(format!("blob {}\0", file.metadata()?.len()).as_bytes());
                context
            }
        };
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            context.update(&buffer[..count]);
            read(count as u64);
        }
        Ok(hex(context.finish().as_ref()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(hex) => write!(f, "SHA-256 {hex}"),
            Self::Git(hex) => write!(f, "git {hex}"),
            Self::Unknown => f.write_str("no digest"),
        }
    }
}

/// The SHA-256 of `bytes`, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&SHA256, bytes).as_ref())
}

/// Whether a word is a number of exactly so many hexadecimal digits: what may be a file's name without further question.
pub fn is_hex(word: &str, digits: usize) -> bool {
    word.len() == digits && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // A string takes anything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_other_tools() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "hello\n").unwrap();
        // `printf 'hello\n' | sha256sum` and `git hash-object`.
        let sha = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let git = "ce013625030ba8dba906f756967f9e9ca394464a";
        assert_eq!(Digest::Unknown.of(&path, |_| ()).unwrap(), sha);
        assert_eq!(Digest::git(git).unwrap().of(&path, |_| ()).unwrap(), git);
        assert_eq!(sha256(b"hello\n"), sha);
        assert!(Digest::sha256("../../etc/passwd").is_none() && Digest::sha256(&sha[1..]).is_none());
    }
}
