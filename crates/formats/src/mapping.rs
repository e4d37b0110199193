//! Bytes of a file, mapped once and shared: the only file of this crate that may use `unsafe`.
//!
//! [`Bytes`] is a range of a mapped file, of memory linked into the binary or of the heap. It is cheap to clone and to cut,
//! and keeps the mapping alive. It does not know what the bytes mean.
//!
//! # When the file changes underneath
//! A mapping shows the file as it is now, not as it was. If another program shortens the file, touching a page past the new
//! end raises SIGBUS. On Unix `guard` answers that signal with a page of zeros, so that the step in progress comes to its end
//! (elsewhere the system refuses to shorten a mapped file). [`Bytes`] keeps the file open beside its mapping, and
//! [`Bytes::verify_unchanged`] compares length and time of change with those at the time of mapping, for the price of one
//! `fstat`: asked after every step of the engine, before anything of it is used, it makes a changed file an error.
//! Replacing a model file the usual way (write a new one, rename it over the old) is always safe: the mapping keeps the
//! old file.
//!
//! # Alignment
//! Bytes promise no alignment: safetensors does not align tensors, and `include_bytes!` does not align files. Readers of
//! tensor data load without assuming any. [`Aligned`] puts a file linked into the binary on a cache line, for speed alone.

#[cfg(unix)]
mod guard;
#[cfg(target_os = "linux")]
mod large_pages;

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;
#[cfg(unix)]
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// A shared, read-only range of bytes of a mapped file, of static memory or of the heap. Cloning copies no byte.
#[derive(Clone)]
pub struct Bytes {
    owner: Owner,
    range: Range<usize>,
}

#[derive(Clone)]
enum Owner {
    Mapped(Arc<Mapping>),
    Static(&'static [u8]),
    Heap(Arc<[u8]>),
}

/// A mapped file, kept open so that it can be asked whether it is still the same.
struct Mapping {
    // Dropped before the mapping that it guards.
    #[cfg(unix)]
    _guard: guard::Guard,
    map: memmap2::Mmap,
    file: File,
    stamp: Stamp,
    /// Whether bytes of it may be a copy of this process's own; held while pages are copied or given back.
    #[cfg(unix)]
    is_copied: Mutex<bool>,
}

/// What tells a changed file from an unchanged one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

/// How a mapped file differs from what it was when it was mapped.
#[derive(Debug, thiserror::Error)]
pub enum Change {
    /// It has another length; touching its end may raise SIGBUS.
    #[error("it had {before} bytes and now has {now}")]
    Length {
        /// When it was mapped, in bytes.
        before: u64,
        /// Now, in bytes.
        now: u64,
    },
    /// It was written to.
    #[error("it was written to")]
    Written,
    /// The system no longer answers for it.
    #[error("its length cannot be read: {0}")]
    Unknown(io::Error),
}

impl Bytes {
    /// Maps a whole file read-only, and keeps it open.
    ///
    /// # Errors
    /// Those of the operating system; a file that changes length meanwhile. An empty file gives an empty range.
    #[expect(unsafe_code, reason = "memory mapping is what this file is for")]
    pub fn map(file: &File) -> io::Result<Self> {
        let stamp = Stamp::of(&file.metadata()?);
        if stamp.length == 0 {
            return Ok(Self::from_static(&[]));
        }
        let length = usize::try_from(stamp.length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: the mapping is read-only and lives as long as any `Bytes` cut from it, since each holds the `Arc` around
        // it. Another process may write to the file meanwhile: bytes are only ever read as plain bytes (no reference to
        // a type with invalid values is made from them, text is checked again at each reading), so that gives wrong
        // numbers, not broken types; and `verify_unchanged` is there to notice.
        let map = unsafe { memmap2::MmapOptions::new().len(length).map(file)? };
        // What is not in memory yet is then read in pages of two megabytes, where kernel and file system have them: a hint, whose
        // refusal changes nothing but speed.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let mapping = Mapping {
            #[cfg(unix)]
            _guard: guard::Guard::new(map.as_ptr_range().start.addr()..map.as_ptr_range().end.addr()),
            map,
            file: file.try_clone()?,
            stamp,
            #[cfg(unix)]
            is_copied: Mutex::new(false),
        };
        mapping.change().map_or(Ok(()), |change| Err(io::Error::other(change)))?;
        Ok(Self { owner: Owner::Mapped(Arc::new(mapping)), range: 0..length })
    }

    /// Bytes linked into the binary.
    #[must_use]
    pub const fn from_static(bytes: &'static [u8]) -> Self {
        Self { owner: Owner::Static(bytes), range: 0..bytes.len() }
    }

    /// The bytes from `range.start` to `range.end`, counted from the start of `self`; `None` if that lies outside.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        let start = self.range.start;
        Some(Self { owner: self.owner.clone(), range: start + range.start..start + range.end })
    }

    /// Whether the file behind these bytes still is what it was when it was mapped; see the module's notes. Costs one
    /// `fstat`. Bytes that are no file's never change.
    ///
    /// # Errors
    /// What changed.
    pub fn verify_unchanged(&self) -> Result<(), Change> {
        match &self.owner {
            Owner::Mapped(mapping) => mapping.change().map_or(Ok(()), Err),
            Owner::Static(_) | Owner::Heap(_) => Ok(()),
        }
    }

    /// Length and time of change of the file behind these bytes, as they were when it was mapped; none where there is no file.
    #[must_use]
    pub fn stamp(&self) -> Option<(u64, Option<SystemTime>)> {
        match &self.owner {
            Owner::Mapped(mapping) => Some((mapping.stamp.length, mapping.stamp.modified)),
            Owner::Static(_) | Owner::Heap(_) => None,
        }
    }

    /// Keeps the whole mapped file in memory, so that the system never takes its pages back. Bytes that are no file's stay as they are.
    ///
    /// # Errors
    /// Those of the operating system, which limits how much a process may keep.
    pub fn lock(&self) -> io::Result<()> {
        match &self.owner {
            #[cfg(unix)]
            Owner::Mapped(mapping) => mapping.map.lock(),
            #[cfg(not(unix))]
            Owner::Mapped(_) => Err(io::ErrorKind::Unsupported.into()),
            Owner::Static(_) | Owner::Heap(_) => Ok(()),
        }
    }

    /// The whole mapped file behind these bytes, but for less than two megabytes at each end, in pieces of at most `piece_bytes`, a multiple of
    /// that, to be copied one after the other ([`Self::copy_into_large_pages`]): none where the system has no such pages.
    #[must_use]
    pub fn large_pieces(&self, piece_bytes: usize) -> Vec<Self> {
        #[cfg(target_os = "linux")]
        if let Owner::Mapped(mapping) = &self.owner {
            let addresses = mapping.addresses();
            let whole = large_pages::whole(addresses.clone());
            let cut = |start: usize| start - addresses.start..(start + piece_bytes).min(whole.end) - addresses.start;
            let piece = |start| Self { owner: self.owner.clone(), range: cut(start) };
            return whole.clone().step_by(piece_bytes).map(piece).collect();
        }
        _ = piece_bytes;
        Vec::new()
    }

    /// Copies these bytes into pages of two megabytes, where the system has them, for whoever reads them again and again: memory of this
    /// process's own, in the same place, which the system cannot take back. Only whole large pages are copied, and nothing of what is no file's.
    ///
    /// # Errors
    /// Those of the operating system; a file that was shortened. These bytes are used as they were then.
    #[cfg_attr(target_os = "linux", expect(unsafe_code, reason = "memory mapping is what this file is for"))]
    pub fn copy_into_large_pages(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Owner::Mapped(mapping) = &self.owner {
            let mut is_copied = mapping.is_copied();
            *is_copied = true;
            let (start, range) = (mapping.addresses().start, &self.range);
            let whole = large_pages::whole(start + range.start..start + range.end);
            let offset = whole.start - start;
            // SAFETY: the mapping stays while `self` is there. What takes its place has the same bytes, read-only (others, if the file was
            // changed, which `map` says of any reading); `let_go` gives back nothing of a mapping that is copied in part.
            return unsafe { large_pages::replace(whole, &mapping.file, offset) };
        }
        Ok(())
    }

    /// Whether most of the mapped file that is in memory already lies in large pages; not where the system does not say.
    #[must_use]
    pub fn is_in_large_pages(&self) -> bool {
        #[cfg(target_os = "linux")]
        if let Owner::Mapped(mapping) = &self.owner
            && let Ok(smaps) = std::fs::read_to_string("/proc/self/smaps")
        {
            let [all, large] = large_pages::resident(&smaps, &mapping.addresses());
            return large > all / 2;
        }
        false
    }

    /// Says that nobody here reads these bytes soon: what the system holds of them for this process goes, and comes back from the file,
    /// or from what the system keeps of it, when it is read again. A hint, that of pages which [`Self::lock`] keeps is not taken;
    /// bytes that are no file's stay as they are. Pages at both ends may go whole.
    #[expect(unsafe_code, reason = "memory mapping is what this file is for")]
    pub fn let_go(&self) {
        #[cfg(unix)]
        if let Owner::Mapped(mapping) = &self.owner
            && !self.range.is_empty()
            && let is_copied = mapping.is_copied()
            && !*is_copied
        {
            let (advice, range) = (memmap2::UncheckedAdvice::DontNeed, &self.range);
            // SAFETY: pages that are let go of read afterwards as they would when mapped anew. No page of a mapping has contents of its
            // own that would be lost: none is a copy, nor becomes one meanwhile; `map` makes them all read-only and of a file, whose bytes
            // stand behind them as before (and may change as `map` says), but for those that `guard` replaced, which are zeros and read
            // as zeros again. The range lies in the mapping, as that of any `Bytes` does.
            let _ = unsafe { mapping.map.unchecked_advise_range(advice, range.start, range.len()) };
        }
    }

    /// Whether both are ranges of the same mapping (or both of none).
    #[must_use]
    pub fn same_mapping(&self, other: &Self) -> bool {
        match (&self.owner, &other.owner) {
            (Owner::Mapped(one), Owner::Mapped(two)) => Arc::ptr_eq(one, two),
            (Owner::Mapped(_), _) | (_, Owner::Mapped(_)) => false,
            _ => true,
        }
    }
}

impl Mapping {
    #[cfg(unix)]
    fn is_copied(&self) -> MutexGuard<'_, bool> {
        self.is_copied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(target_os = "linux")]
    fn addresses(&self) -> Range<usize> {
        let Range { start, end } = self.map.as_ptr_range();
        start.addr()..end.addr()
    }

    fn change(&self) -> Option<Change> {
        let now = match self.file.metadata() {
            Ok(metadata) => Stamp::of(&metadata),
            Err(error) => return Some(Change::Unknown(error)),
        };
        if now.length != self.stamp.length {
            return Some(Change::Length { before: self.stamp.length, now: now.length });
        }
        (now != self.stamp).then_some(Change::Written)
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self { length: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &self.owner {
            Owner::Mapped(mapping) => &mapping.map,
            Owner::Static(bytes) => bytes,
            Owner::Heap(bytes) => bytes,
        };
        &all[self.range.clone()]
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { owner: Owner::Heap(bytes.into()), range }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} bytes)", self.len())
    }
}

/// Puts what it holds on a cache line. For a model linked into the binary:
///
/// ```
/// use kauri_formats::mapping::{Aligned, Bytes};
/// static MODEL: &Aligned<[u8]> = &Aligned(*b"in real life: *include_bytes!(..)");
/// assert_eq!(Bytes::from_static(&MODEL.0).as_ptr() as usize % 64, 0);
/// ```
#[repr(C, align(64))]
pub struct Aligned<T: ?Sized>(pub T);

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn mapped(content: &[u8]) -> (tempfile::NamedTempFile, Bytes) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let bytes = Bytes::map(file.as_file()).unwrap();
        (file, bytes)
    }

    /// KiB of a file's mapping that are in memory for this process.
    #[cfg(target_os = "linux")]
    fn resident_kib(path: &std::path::Path) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let name = path.to_str().unwrap();
        let own = maps.lines().skip_while(|line| !line.ends_with(name));
        let sizes = own.filter_map(|line| line.strip_prefix("Rss:"));
        sizes.map(|size| size.trim().trim_end_matches(" kB").parse::<usize>().unwrap()).next().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_let_go_of_leaves_memory_and_comes_back() {
        let content: Vec<u8> = (0..4_u32 << 20).map(|place| (place % 251) as u8).collect();
        let (file, bytes) = mapped(&content);
        assert!(*bytes == content);
        assert!(resident_kib(file.path()) == 4 << 10, "{} KiB were read", resident_kib(file.path()));
        bytes.slice(1_000_001..3_000_001).unwrap().let_go();
        // Where the system maps large pages more goes with them.
        let rest = resident_kib(file.path());
        assert!(rest < 2160, "{rest} KiB are left");
        bytes.let_go();
        bytes.slice(7..7).unwrap().let_go();
        assert_eq!(resident_kib(file.path()), 0);
        assert!(*bytes == content, "the same bytes come back");
        Bytes::from(vec![1, 2]).let_go();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_copied_into_large_pages_keeps_bytes_and_place() {
        let content: Vec<u8> = (0..9_u32 << 20).map(|place| (place % 251) as u8).collect();
        let (file, bytes) = mapped(&content);
        let before = bytes.as_ptr();
        let pieces = bytes.large_pieces(4 << 20);
        assert!(pieces.len() >= 2 && pieces.iter().all(|piece| piece.len() <= 4 << 20), "{pieces:?}");
        let copied: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert!(copied > 5 << 20 && copied.is_multiple_of(2 << 20), "{copied} of {}", bytes.len());
        pieces.iter().for_each(|piece| piece.copy_into_large_pages().unwrap());
        assert!(*bytes == content && bytes.as_ptr() == before);
        // Of what is copied nothing can be given back: it would read as zeros.
        bytes.let_go();
        assert!(*bytes == content, "the same bytes are there");
        // The copy is no longer the file's, but that it was changed is still said.
        file.as_file().set_len(100).unwrap();
        assert_eq!(pieces[0][7], content[pieces[0].range.start + 7]);
        assert!(bytes.verify_unchanged().is_err());
        // The same again, of a file that is too short by now: an error, and what was there stays.
        assert!(pieces[0].copy_into_large_pages().is_err());
        assert_eq!(pieces[0][7], content[pieces[0].range.start + 7]);
    }

    #[test]
    fn what_is_no_file_is_not_copied() {
        let bytes = Bytes::from(vec![1; 5 << 20]);
        assert!(bytes.large_pieces(2 << 20).is_empty() && !bytes.is_in_large_pages());
        bytes.copy_into_large_pages().unwrap();
        let (_file, small) = mapped(&[7; 5000]);
        assert!(small.large_pieces(2 << 20).is_empty());
        small.copy_into_large_pages().unwrap();
        assert_eq!(small[4999], 7);
    }

    #[cfg(unix)]
    #[test]
    fn a_shortened_file_reads_as_zeros_and_is_noticed() {
        let (file, bytes) = mapped(&vec![7; 1 << 16]);
        file.as_file().set_len(100).unwrap();
        assert_eq!(bytes[1 << 15], 0, "a page that is gone");
        assert_eq!(bytes[(1 << 16) - 1], 0);
        assert_eq!(bytes[99], 7, "what is still there");
        assert!(bytes.verify_unchanged().is_err());
    }

    #[test]
    fn a_slice_outside_is_none() {
        let bytes = Bytes::from_static(b"0123456789").slice(2..8).unwrap();
        assert_eq!(&*bytes, b"234567");
        assert_eq!(&*bytes.slice(6..6).unwrap(), b"");
        #[expect(clippy::reversed_empty_ranges, reason = "the case under test")]
        let reversed = 4..3;
        assert!(bytes.slice(reversed).is_none());
        assert!(bytes.slice(0..7).is_none());
        assert!(bytes.slice(usize::MAX..usize::MAX).is_none());
    }

    #[test]
    fn a_file_cut_after_mapping_is_noticed_without_touching_it() {
        let (file, bytes) = mapped(&vec![7; 100_000]);
        assert!(bytes.verify_unchanged().is_ok());
        file.as_file().set_len(10).unwrap();
        let change = bytes.slice(50_000..60_000).unwrap().verify_unchanged().unwrap_err();
        assert_eq!(change.to_string(), "it had 100000 bytes and now has 10");
    }

    #[test]
    fn a_file_written_after_mapping_is_noticed() {
        let (file, bytes) = mapped(&[7; 100]);
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        file.as_file().set_modified(later).unwrap();
        assert!(matches!(bytes.verify_unchanged(), Err(Change::Written)));
    }

    #[test]
    fn a_file_replaced_by_rename_keeps_its_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model");
        std::fs::write(&path, b"old").unwrap();
        let bytes = Bytes::map(&File::open(&path).unwrap()).unwrap();
        std::fs::write(directory.path().join("new"), b"longer").unwrap();
        std::fs::rename(directory.path().join("new"), &path).unwrap();
        assert!(bytes.verify_unchanged().is_ok());
        assert_eq!(&*bytes, b"old");
    }

    #[test]
    fn an_empty_file_is_an_empty_range() {
        let (_file, bytes) = mapped(b"");
        assert!(bytes.is_empty() && bytes.verify_unchanged().is_ok());
    }
}
