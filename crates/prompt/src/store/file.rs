//! A page or state as a file: what it is, its tokens, its bytes, and a checksum of all of it.
//!
//! Little-endian: eight bytes that say what kind of file it is; the model's fingerprint, its own name and the name before, 32 bytes each;
//! the kind (a byte, three zeros), the number of its tokens (`u32`), the length of its content (`u64`); the tokens (`u32` each); the
//! content; the BLAKE3 hash of everything before (32 bytes).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use super::{Content, Key, Sizes};
use crate::name::Name;
use crate::schedule::Kind;

/// How a file begins. The last character is raised when the layout changes.
const MAGIC: [u8; 8] = *b"kauripg1";
const HASH_BYTES: usize = 32;
const HEADER_BYTES: usize = MAGIC.len() + 3 * HASH_BYTES + 16;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is no file")]
    NoFile,
    #[error("it has {found} bytes, and one of this model has {expected}")]
    Length { expected: u64, found: u64 },
    #[error("it is not one of kauri's")]
    Foreign,
    #[error("it belongs to another model, or was computed in another way")]
    OtherModel,
    #[error("it is not what its name says")]
    OtherName,
    #[error("its tokens are not those that its name stands for")]
    OtherTokens,
    #[error("its checksum is not that of its content: it is damaged")]
    Damaged,
}

/// A page or state that is to be written.
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) before: Name,
    pub(super) tokens: Box<[u32]>,
    pub(super) content: Vec<u8>,
}

/// Bytes of a file of this kind.
pub(super) fn bytes(sizes: &Sizes, kind: Kind) -> u64 {
    (HEADER_BYTES + 4 * sizes.page_tokens as usize + sizes.bytes(kind) + HASH_BYTES) as u64
}

/// The end of the names of files of a kind.
pub(super) fn extension(kind: Kind) -> &'static str {
    match kind {
        Kind::Page => "page",
        Kind::State => "state",
    }
}

fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Page => 1,
        Kind::State => 2,
    }
}

impl Entry {
    /// Writes it whole to a new file and sees that it is on the disk.
    pub(super) fn write(&self, path: &Path, model: &[u8; HASH_BYTES]) -> io::Result<()> {
        let mut options = File::options();
        options.write(true).create_new(true);
        // It holds what somebody wrote: nobody else's business.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        let mut head = Vec::with_capacity(HEADER_BYTES + 4 * self.tokens.len());
        head.extend(MAGIC);
        head.extend(model);
        head.extend(self.key.1.bytes());
        head.extend(self.before.bytes());
        head.extend([kind_byte(self.key.0), 0, 0, 0]);
        head.extend((self.tokens.len() as u32).to_le_bytes());
        head.extend((self.content.len() as u64).to_le_bytes());
        self.tokens.iter().for_each(|token| head.extend(token.to_le_bytes()));
        let mut hasher = blake3::Hasher::new();
        hasher.update(&head).update(&self.content);
        file.write_all(&head)?;
        file.write_all(&self.content)?;
        file.write_all(hasher.finalize().as_bytes())?;
        file.sync_all()
    }
}

/// Reads a file and checks everything about it. No more is read than one of this kind has.
pub(super) fn read(
    path: &Path,
    key: Key,
    model: &[u8; HASH_BYTES],
    sizes: &Sizes,
    tokens: &[u32],
) -> Result<Content, Fault> {
    // Before it is opened: a pipe would wait for ever.
    if !fs::metadata(path)?.is_file() {
        return Err(Fault::NoFile);
    }
    let file = File::open(path)?;
    let (expected, found) = (bytes(sizes, key.0), file.metadata()?.len());
    if expected != found {
        return Err(Fault::Length { expected, found });
    }
    let mut all = Vec::with_capacity(expected as usize);
    file.take(expected).read_to_end(&mut all)?;
    check(all, key, model, sizes, tokens)
}

fn check(
    all: Vec<u8>,
    (kind, name): Key,
    model: &[u8; HASH_BYTES],
    sizes: &Sizes,
    tokens: &[u32],
) -> Result<Content, Fault> {
    let expected = bytes(sizes, kind);
    if all.len() as u64 != expected {
        return Err(Fault::Length { expected, found: all.len() as u64 });
    }
    let mut rest = &all[..];
    let mut part = |bytes: usize| rest.split_off(..bytes).expect("the length was checked");
    if part(MAGIC.len()) != MAGIC {
        return Err(Fault::Foreign);
    }
    let is_model = part(HASH_BYTES) == model;
    let is_name = part(HASH_BYTES) == name.bytes();
    let before = Name::from_bytes(part(HASH_BYTES).try_into().expect("as many bytes"));
    let is_kind = part(4) == [kind_byte(kind), 0, 0, 0];
    let is_count = part(4) == sizes.page_tokens.to_le_bytes();
    let is_length = part(8) == (sizes.bytes(kind) as u64).to_le_bytes();
    let kept = part(4 * sizes.page_tokens as usize);
    let end = all.len() - HASH_BYTES;
    if blake3::hash(&all[..end]).as_bytes() != &all[end..] {
        return Err(Fault::Damaged);
    }
    if !is_model {
        return Err(Fault::OtherModel);
    }
    if !(is_name && is_kind && is_count && is_length) {
        return Err(Fault::OtherName);
    }
    // The name stands for the tokens, and for all before them; they are compared all the same.
    let is_same = kept.as_chunks().0.iter().map(|token| u32::from_le_bytes(*token)).eq(tokens.iter().copied());
    if !is_same || before.then(tokens) != name {
        return Err(Fault::OtherTokens);
    }
    let range = end - sizes.bytes(kind)..end;
    Ok(Content { bytes: all, range })
}
