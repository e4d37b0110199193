//! Sixteen bytes that hold 32 codes of four bits: the low halves are the first sixteen, the high halves the rest.

use crate::vector::Vector;

/// The codes of 32 columns, four columns to a vector.
///
/// # Safety
/// As [`Vector::columns16`].
#[inline(always)]
pub(super) unsafe fn columns32<V: Vector>(base: *const u8, offsets: &[isize; 16]) -> [V::Bytes; 8] {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let low = V::byte(0x0f);
        let [a, b, c, d] = V::columns16(base, offsets);
        [
            V::and(a, low),
            V::and(b, low),
            V::and(c, low),
            V::and(d, low),
            V::and(V::shift_right::<4>(a), low),
            V::and(V::shift_right::<4>(b), low),
            V::and(V::shift_right::<4>(c), low),
            V::and(V::shift_right::<4>(d), low),
        ]
    }
}

/// The low halves of four bytes of every row, or the high ones.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn part<V: Vector>(codes: V::Bytes, part: usize) -> V::Bytes {
    // SAFETY: the caller's contract is the same.
    unsafe { V::and(if part == 0 { codes } else { V::shift_right::<4>(codes) }, V::byte(0x0f)) }
}

/// A table of levels as unsigned bytes: `offset` is added to each.
pub(super) const fn raised(levels: [i8; 16], offset: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut code = 0;
    while code < 16 {
        let byte = levels[code] as i32 + offset;
        assert!(byte >= 0 && byte <= 255, "the offset makes every level an unsigned byte");
        bytes[code] = byte as u8;
        code += 1;
    }
    bytes
}
