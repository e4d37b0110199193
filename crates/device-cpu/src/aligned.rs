//! Memory that begins with a cache line, so that no vector and no row of a tile register in it lies in two; in large pages, where that is better.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "a hint about memory to the operating system"))]

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use half::f16;
use half::vec::HalfBitsVecExt;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Bytes of a large page, on every CPU whose small ones have 4 KiB.
#[cfg(target_os = "linux")]
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// So many zeros, which take no memory before they are written: an allocator that is asked for whole lines writes them at once.
pub struct Aligned<T> {
    /// With room before and behind.
    all: Vec<T>,
    start: usize,
    count: usize,
}

/// A number whose zero is all zero bits.
pub trait Zero: Copy {
    /// Zero.
    const ZERO: Self;

    /// So many of them: `vec!` asks the system for zeros only where it is told the number itself.
    fn zeros(count: usize) -> Vec<Self>;
}

impl Zero for u8 {
    const ZERO: Self = 0;

    fn zeros(count: usize) -> Vec<Self> {
        vec![0; count]
    }
}

impl Zero for i8 {
    const ZERO: Self = 0;

    fn zeros(count: usize) -> Vec<Self> {
        vec![0; count]
    }
}

impl Zero for f16 {
    const ZERO: Self = Self::ZERO;

    fn zeros(count: usize) -> Vec<Self> {
        // By their bits: a vector of this type itself is filled, and with it all the memory of a cache.
        u16::zeros(count).reinterpret_into()
    }
}

impl Zero for u16 {
    const ZERO: Self = 0;

    fn zeros(count: usize) -> Vec<Self> {
        vec![0; count]
    }
}

impl Zero for f32 {
    const ZERO: Self = 0.0;

    fn zeros(count: usize) -> Vec<Self> {
        vec![0.0; count]
    }
}

impl<T: Zero> Aligned<T> {
    /// `count` zeros.
    pub fn new(count: usize) -> Self {
        let all = T::zeros(count + LINE_BYTES / size_of::<T>());
        // Never more than a line, where elements are of a power of two; nothing is lost but speed if it is not told.
        let start = all.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES / size_of::<T>());
        Self { all, start, count }
    }

    /// As [`prefer_large_pages`]: for memory of which a core reads some here and some there.
    pub fn prefer_large_pages(&mut self) {
        prefer_large_pages(&mut self.all);
    }

    /// Where they begin: what a kernel asks for again and again, and no check of a slice's ends stands in its way.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const T {
        self.all.as_ptr().wrapping_add(self.start)
    }

    /// The same, to be written.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.all.as_mut_ptr().wrapping_add(self.start)
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.all[self.start..][..self.count]
    }
}

impl<T> DerefMut for Aligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.all[self.start..][..self.count]
    }
}

/// Asks the system to keep whole large pages of this memory in such: a hint, which changes nothing of what it holds. Where the system does not
/// take it small pages do as well. Of memory that nobody has touched yet such a page is had with its first byte.
pub fn prefer_large_pages<T>(memory: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let (start, bytes) = (memory.as_mut_ptr().cast::<u8>(), size_of_val(memory));
        let before = start.align_offset(LARGE_PAGE_BYTES).min(bytes);
        let bytes = (bytes - before) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
        // SAFETY: whole pages of this memory and no other's.
        let _ = unsafe { madvise(start.wrapping_add(before).cast(), bytes, Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// What begins with a cache line in the stack: see [`in_whole_lines`].
#[repr(align(64))]
pub struct Frame(MaybeUninit<[u8; LINE_BYTES]>);

impl Frame {
    /// To be made, and [kept](Self::keep), before all else.
    #[inline(always)]
    pub const fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    /// Lest the compiler leaves it out, since nobody reads it.
    #[inline(always)]
    pub fn keep(&self) {
        black_box(&self.0);
    }
}

/// Makes the compiler begin what it keeps in the stack of the function around it with a cache line: vectors that registers have no room
/// for. By itself it only knows of sixteen bytes there, and then three calls of four write and read every one of them in two
/// lines, which takes the products of many tokens up to a tenth of their speed.
macro_rules! in_whole_lines {
    () => {
        let frame = $crate::aligned::Frame::new();
        frame.keep();
    };
}

pub(crate) use in_whole_lines;

#[cfg(test)]
pub mod tests {
    use super::*;

    #[test]
    fn memory_begins_with_a_line() {
        for count in [0, 1, 63, 64, 1000, 100_000] {
            let (bytes, mut floats) = (Aligned::<u8>::new(count), Aligned::<f32>::new(count));
            assert_eq!((bytes.len(), bytes.as_ptr() as usize % LINE_BYTES), (count, 0));
            assert_eq!((floats.len(), floats.as_ptr() as usize % LINE_BYTES), (count, 0));
            floats.fill(1.0);
            assert!(bytes.iter().all(|&byte| byte == 0) && floats.iter().all(|&float| float == 1.0));
        }
    }

    /// Bytes of memory that the process has touched.
    #[cfg(target_os = "linux")]
    fn resident_bytes() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn zeros_take_no_memory_before_they_are_written() {
        const BYTES: usize = 1 << 30;

        fn touched<T: Zero>() -> usize {
            let before = resident_bytes();
            // Whoever looks at nothing of them has no memory filled: the compiler leaves that out.
            let zeros = black_box(Aligned::<T>::new(black_box(BYTES / size_of::<T>())));
            let touched = resident_bytes().saturating_sub(before);
            assert_eq!(zeros.len() * size_of::<T>(), BYTES);
            touched
        }

        // Other tests of the process take memory meanwhile, but not so much.
        for (name, touched) in
            [("u8", touched::<u8>()), ("i8", touched::<i8>()), ("f16", touched::<f16>()), ("f32", touched::<f32>())]
        {
            assert!(touched < BYTES / 2, "{name}: {touched} bytes were touched");
        }
    }

    /// Whether large pages were asked for in the middle of this memory, as the system describes what is mapped there; nothing where it has none
    /// to give.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    pub fn is_in_large_pages<T>(memory: &[T]) -> Option<bool> {
        if !std::fs::exists("/sys/kernel/mm/transparent_hugepage/enabled").unwrap() {
            println!("skipped: this system has no large pages to give");
            return None;
        }
        let address = memory[memory.len() / 2..].as_ptr().addr();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_here = false;
        for line in smaps.lines() {
            // A mapping begins with its addresses; what is said of it follows.
            let bounds = line.split(' ').next().and_then(|first| first.split_once('-'));
            let bounds = bounds.map(|(start, end)| [start, end].map(|bound| usize::from_str_radix(bound, 16)));
            match (bounds, line.strip_prefix("VmFlags:")) {
                (Some([Ok(start), Ok(end)]), _) => is_here = (start..end).contains(&address),
                (_, Some(flags)) if is_here => return Some(flags.split_ascii_whitespace().any(|flag| flag == "hg")),
                _ => {}
            }
        }
        panic!("nothing is mapped at {address:#x}");
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn the_system_is_asked_for_whole_large_pages() {
        // More than an allocator keeps at hand.
        let count = 32 * LARGE_PAGE_BYTES + 1;
        for is_asked in [true, false] {
            let mut zeros = Aligned::<u8>::new(count);
            is_asked.then(|| zeros.prefer_large_pages());
            assert!(is_in_large_pages(&zeros).is_none_or(|found| found == is_asked), "asked: {is_asked}");
        }
        // Too little for one is not asked for, and is as it was.
        for count in [0, 1000] {
            let mut zeros = Aligned::<f32>::new(count);
            zeros.prefer_large_pages();
            assert!(zeros.len() == count && zeros.iter().all(|&zero| zero == 0.0));
        }
    }
}
