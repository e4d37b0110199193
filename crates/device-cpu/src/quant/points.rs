//! Points of the code books of the IQ types, and the signs that go with them.
//!
//! A book is held as one word for each point, so that one gather fetches it, with the number of a level in each half
//! of a byte. The fourth bit of a half byte is left for a sign, and a table of sixteen turns both into an unsigned
//! byte.

use crate::panel::Sink;
use crate::vector::Vector;

/// Points of eight coordinates: the first four are the low halves of the word's bytes, the others the high halves.
pub(super) const fn eights<const POINTS: usize>(points: &[[i8; 8]; POINTS], levels: &[i8]) -> [u32; POINTS] {
    let mut words = [0; POINTS];
    let mut index = 0;
    while index < POINTS * 8 {
        let (point, coordinate) = (index / 8, index % 8);
        words[point] |= level(points[point][coordinate], levels) << (coordinate % 4 * 8 + coordinate / 4 * 4);
        index += 1;
    }
    words
}

/// Points of four coordinates: the low halves of the word's bytes.
pub(super) const fn fours<const POINTS: usize>(points: &[[i8; 4]; POINTS], levels: &[i8]) -> [u32; POINTS] {
    let mut words = [0; POINTS];
    let mut index = 0;
    while index < POINTS * 4 {
        let (point, coordinate) = (index / 4, index % 4);
        words[point] |= level(points[point][coordinate], levels) << (coordinate * 8);
        index += 1;
    }
    words
}

/// The number of the level that `value` is.
const fn level(value: i8, levels: &[i8]) -> u32 {
    let mut number = 0;
    while levels[number] != value {
        number += 1;
    }
    number as u32
}

/// What half bytes become: `offset` plus the level of its number, or minus it where the sign is set.
pub(super) const fn with_signs(levels: &[i8], offset: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut number = 0;
    while number < levels.len() {
        bytes[number] = (offset + levels[number] as i32) as u8;
        bytes[number + 8] = (offset - levels[number] as i32) as u8;
        number += 1;
    }
    bytes
}

/// Writes columns `4 * index` to `4 * index + 7`, points of eight coordinates; takes eight bits from `signs`.
///
/// # Safety
/// `numbers` are under the length of `book`; the columns are in the block; the CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn eight_columns<V: Vector>(
    book: &[u32],
    numbers: V::Bytes,
    signs: &mut V::Bytes,
    levels: &[u8; 16],
    out: &mut impl Sink<V>,
    index: usize,
) {
    // SAFETY: the caller's contract covers the gather and the two writes.
    unsafe {
        let low = V::byte(0x0f);
        let points = V::entries(book, numbers);
        let first = V::or(V::and(points, low), V::spread(*signs, 8));
        *signs = V::shift_right::<4>(*signs);
        let second = V::or(V::and(V::shift_right::<4>(points), low), V::spread(*signs, 8));
        *signs = V::shift_right::<4>(*signs);
        out.columns(index, V::lookup(levels, first));
        out.columns(index + 1, V::lookup(levels, second));
    }
}

/// Writes columns `4 * index` to `4 * index + 3`, points of four coordinates; takes four bits from `signs`.
///
/// # Safety
/// As [`eight_columns`].
#[inline(always)]
pub(super) unsafe fn four_columns<V: Vector>(
    book: &[u32],
    numbers: V::Bytes,
    signs: &mut V::Bytes,
    levels: &[u8; 16],
    out: &mut impl Sink<V>,
    index: usize,
) {
    // SAFETY: the caller's contract covers the gather and the write.
    unsafe {
        let points = V::or(V::entries(book, numbers), V::spread(*signs, 8));
        *signs = V::shift_right::<4>(*signs);
        out.columns(index, V::lookup(levels, points));
    }
}

/// The 32 signs that four times seven bits stand for, in the low 28 bits of each row's word: every eighth makes the
/// number of minus signs in its byte even.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn even_signs<V: Vector>(stored: V::Bytes) -> V::Bytes {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let first =
            V::or(V::and(stored, V::word(0x0000_007f)), V::and(V::shift_left::<1>(stored), V::word(0x0000_7f00)));
        let second = V::or(
            V::and(V::shift_left::<2>(stored), V::word(0x007f_0000)),
            V::and(V::shift_left::<3>(stored), V::word(0x7f00_0000)),
        );
        even_bytes::<V>(V::or(first, second))
    }
}

/// Sets the top bit of every byte, clear before, where that makes the number of set bits even.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn even_bytes<V: Vector>(sevens: V::Bytes) -> V::Bytes {
    // SAFETY: the caller's contract is the same.
    unsafe {
        // Folded to the lowest bit of every byte; what comes in from the byte above stays in higher bits.
        let parity = V::xor(sevens, V::shift_right::<4>(sevens));
        let parity = V::xor(parity, V::shift_right::<2>(parity));
        let parity = V::xor(parity, V::shift_right::<1>(parity));
        V::or(sevens, V::shift_left::<7>(V::and(parity, V::byte(1))))
    }
}
