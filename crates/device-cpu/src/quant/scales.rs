//! The small integers that scale groups, as numbers.

use crate::vector::Vector;

/// The four unsigned bytes of each row.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn unsigned<V: Vector>(bytes: V::Bytes) -> [V::Float; 4] {
    // SAFETY: the caller's contract is the same.
    unsafe {
        [
            V::byte_to_float::<0>(bytes),
            V::byte_to_float::<1>(bytes),
            V::byte_to_float::<2>(bytes),
            V::byte_to_float::<3>(bytes),
        ]
    }
}

/// The four signed bytes of each row.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn signed<V: Vector>(bytes: V::Bytes) -> [V::Float; 4] {
    // SAFETY: the caller's contract is the same.
    unsafe {
        [
            V::signed_byte_to_float::<0>(bytes),
            V::signed_byte_to_float::<1>(bytes),
            V::signed_byte_to_float::<2>(bytes),
            V::signed_byte_to_float::<3>(bytes),
        ]
    }
}

/// The eight halves of each row's bytes in order: the low one of the first byte, its high one, the low one of the
/// second.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn halves<V: Vector>(bytes: V::Bytes) -> [V::Float; 8] {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let four = V::byte(0x0f);
        let low = unsigned::<V>(V::and(bytes, four));
        let high = unsigned::<V>(V::and(V::shift_right::<4>(bytes), four));
        [low[0], high[0], low[1], high[1], low[2], high[2], low[3], high[3]]
    }
}
