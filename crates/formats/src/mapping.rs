//! Bytes of a file, mapped once and shared: the only file of this crate that may use `unsafe`.
//!
//! [`Bytes`] is a range of a mapped file or of memory linked into the binary. It is cheap to clone and to cut, and keeps
//! the mapping alive. It does not know what the bytes mean.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A shared, read-only range of bytes of a mapped file or of static memory. Cloning copies no byte.
#[derive(Clone)]
pub struct Bytes {
    owner: Owner,
    range: Range<usize>,
}

#[derive(Clone)]
enum Owner {
    Mapped(Arc<memmap2::Mmap>),
    Static(&'static [u8]),
    Heap(Arc<[u8]>),
}

impl Bytes {
    /// Maps a whole file read-only.
    ///
    /// # Errors
    /// Those of the operating system. An empty file gives an empty range.
    #[expect(unsafe_code, reason = "memory mapping is what this file is for")]
    pub fn map(file: &File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        if length == 0 {
            return Ok(Self::from_static(&[]));
        }
        // SAFETY: the mapping is private and read-only, and lives as long as any `Bytes` cut from it. Another process that
        // shortens the file while it is mapped can still raise SIGBUS; `checkpoint` re-checks the length before use.
        let map = unsafe { memmap2::Mmap::map(file)? };
        let range = 0..map.len();
        Ok(Self {
            owner: Owner::Mapped(Arc::new(map)),
            range,
        })
    }

    /// Bytes linked into the binary.
    #[must_use]
    pub const fn from_static(bytes: &'static [u8]) -> Self {
        Self {
            owner: Owner::Static(bytes),
            range: 0..bytes.len(),
        }
    }

    /// The bytes from `range.start` to `range.end`, counted from the start of `self`; `None` if that lies outside.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        let start = self.range.start;
        Some(Self {
            owner: self.owner.clone(),
            range: start + range.start..start + range.end,
        })
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &self.owner {
            Owner::Mapped(map) => map,
            Owner::Static(bytes) => bytes,
            Owner::Heap(bytes) => bytes,
        };
        &all[self.range.clone()]
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self {
            owner: Owner::Heap(bytes.into()),
            range,
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} bytes)", self.len())
    }
}
