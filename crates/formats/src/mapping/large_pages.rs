//! Bytes of a mapped file, copied to where they are mapped, into pages of two megabytes.
//!
//! What the system holds of files lies in small pages mostly, as it was written, and CPUs read ahead of a program only to the end of a
//! page: that costs a tenth to a third of the memory's speed. The copy takes the place of the file's pages at the same
//! addresses, so that whoever reads them notices nothing. Knows addresses and a file; does not know who should copy.

#![expect(unsafe_code, reason = "mappings are the operating system's")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;

/// Bytes of a large page, on every CPU whose small ones have 4 KiB.
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// Copying threads: more bring memory no further.
const THREADS_MAX: usize = 8;

/// The addresses that lie between the first and the last border of large pages in `addresses`.
pub fn whole(addresses: Range<usize>) -> Range<usize> {
    let start = addresses.start.next_multiple_of(LARGE_PAGE_BYTES);
    start..(addresses.end / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES).max(start)
}

/// Copies `addresses`, whole large pages where `file` is mapped read-only from `offset` on, and puts the copy in their place.
///
/// # Errors
/// Those of the operating system; a file that has become shorter. Nothing has been put in place then.
///
/// # Safety
/// The mapping must stay in place meanwhile, and no one may hand these pages back to the system then or later.
pub unsafe fn replace(addresses: Range<usize>, file: &File, offset: usize) -> io::Result<()> {
    debug_assert_eq!(addresses, whole(addresses.clone()), "whole large pages");
    if addresses.is_empty() {
        return Ok(());
    }
    let mut copy = Copy::new(addresses.len())?;
    copy.fill(file, offset)?;
    // SAFETY: of this function's caller.
    unsafe { copy.put_in_place(addresses.start) }
}

/// Bytes of what is mapped at `addresses` that are in memory, and those of them in large pages, as `smaps` of the process says.
pub fn resident(smaps: &str, addresses: &Range<usize>) -> [usize; 2] {
    let mut sums = [0; 2];
    let mut is_inside = false;
    for line in smaps.lines() {
        // A mapping begins with its addresses; what is said of it follows, a name, a colon and a size each.
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        let bounds = first.split_once('-').and_then(|(start, end)| {
            Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
        });
        if let Some(bounds) = bounds {
            is_inside = bounds.start >= addresses.start && bounds.end <= addresses.end;
        } else if is_inside {
            let kib = line.split_ascii_whitespace().nth(1).and_then(|size| size.parse::<usize>().ok()).unwrap_or(0);
            match first {
                "Rss:" => sums[0] += kib << 10,
                "FilePmdMapped:" | "AnonHugePages:" => sums[1] += kib << 10,
                _ => {}
            }
        }
    }
    sums
}

/// Memory of the process's own, from the start of a large page on, until it is put elsewhere.
struct Copy {
    start: usize,
    bytes: usize,
}

impl Copy {
    fn new(bytes: usize) -> io::Result<Self> {
        let reserved_bytes = bytes + LARGE_PAGE_BYTES;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the system chooses touches nothing that exists.
        let reserved = unsafe { libc::mmap(ptr::null_mut(), reserved_bytes, access, flags, -1, 0) };
        if reserved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let reserved = reserved.expose_provenance();
        let start = reserved.next_multiple_of(LARGE_PAGE_BYTES);
        // SAFETY: both ends of what was just mapped, which nobody else knows of: ahead of the first large page, and behind the last. What
        // is between is asked to lie in large pages, a hint; where the system has none small ones do as well.
        unsafe {
            unmap(reserved, start - reserved);
            unmap(start + bytes, reserved + reserved_bytes - start - bytes);
            libc::madvise(ptr::with_exposed_provenance_mut(start), bytes, libc::MADV_HUGEPAGE);
        }
        Ok(Self { start, bytes })
    }

    /// Reads the file from `offset` on, with all cores.
    fn fill(&mut self, file: &File, offset: usize) -> io::Result<()> {
        // SAFETY: the memory is mapped to be written, nobody else knows of it, and it lives as long as `self`.
        let all = unsafe { std::slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut(self.start), self.bytes) };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let share = (all.len() / LARGE_PAGE_BYTES).div_ceil(threads) * LARGE_PAGE_BYTES;
        let read = |(part, to): (usize, &mut [u8])| {
            to.chunks_mut(LARGE_PAGE_BYTES).enumerate().try_for_each(|(page, to)| {
                file.read_exact_at(to, (offset + part * share + page * LARGE_PAGE_BYTES) as u64)
            })
        };
        std::thread::scope(|scope| {
            let parts: Vec<_> = all.chunks_mut(share).enumerate().map(|part| scope.spawn(move || read(part))).collect();
            parts.into_iter().try_for_each(|part| part.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
        })
    }

    /// Moves it to `to`, where it takes the place of what is mapped there at once: no reader finds nothing.
    ///
    /// # Safety
    /// As [`replace`] says of the bytes from `to` on.
    unsafe fn put_in_place(self, to: usize) -> io::Result<()> {
        let (from, to) =
            (ptr::with_exposed_provenance_mut(self.start), ptr::without_provenance_mut::<libc::c_void>(to));
        // SAFETY: both ranges are whole pages, mapped and apart; nobody else knows of the first, and the second is the caller's to replace.
        unsafe {
            if libc::mprotect(from, self.bytes, libc::PROT_READ) != 0 {
                return Err(io::Error::last_os_error());
            }
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            if libc::mremap(from, self.bytes, self.bytes, flags, to) == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // SAFETY: nobody else knows of this memory, and nothing borrows it any more.
        unsafe { unmap(self.start, self.bytes) }
    }
}

/// Gives mapped pages back, if there are any.
///
/// # Safety
/// Whole pages that are mapped and that nobody uses.
unsafe fn unmap(start: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: of this function's caller.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(start), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_are_summed_inside_the_addresses() {
        let smaps = "\
            7f0000000000-7f0000200000 r--s 00000000 08:01 7 /m.gguf\nSize: 2048 kB\nRss: 2048 kB\nFilePmdMapped: 0 kB\nVmFlags: rd\n\
            7f0000200000-7f0000400000 r--p 00000000 00:00 0\nRss: 2048 kB\nAnonHugePages: 2048 kB\n\
            7f0000400000-7f0000600000 r--s 00400000 08:01 7 /m.gguf\nRss: 12 kB\nFilePmdMapped: nonsense kB\n\
            7f0000800000-7f0000a00000 rw-p 00000000 00:00 0\nRss: 4 kB\nAnonHugePages: 4 kB\n";
        let addresses = 0x7f00_0000_0000..0x7f00_0060_0000;
        assert_eq!(resident(smaps, &addresses), [(2048 + 2048 + 12) << 10, 2048 << 10]);
        assert_eq!(resident("", &addresses), [0, 0]);
    }

    #[test]
    fn whole_pages_lie_inside() {
        let page = LARGE_PAGE_BYTES;
        assert_eq!(whole(page..3 * page), page..3 * page);
        assert_eq!(whole(page + 1..3 * page - 1), 2 * page..2 * page);
        assert!(whole(page + 1..page + 2).is_empty());
    }
}
