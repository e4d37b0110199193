//! `TQ1_0`: 256 ternary values, five to a byte, and a scale.

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

/// 48 bytes of five digits each, 4 bytes of four, two of scale.
pub struct Tq1_0;

impl Unpack for Tq1_0 {
    type Form = Raised<32, 15>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 54;
    const OFFSET: i32 = 1;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 54 bytes (the last starts at 50), every write in the unpacked one.
        unsafe {
            let scale = V::half_to_float::<1>(V::gather(base.add(50), offsets));
            for group in 0..8 {
                out.scale(group, scale);
            }
            for part in 0..3 {
                // Digits of the first 32 bytes are 32 columns apart, those of the next 16 are 16 columns.
                let (first, apart) = if part < 2 { (4 * part, 8) } else { (40, 4) };
                for (index, bytes) in V::columns16(base.add(16 * part), offsets).into_iter().enumerate() {
                    digits::<V, 5>(bytes, out, first + index, apart);
                }
            }
            digits::<V, 4>(V::gather(base.add(48), offsets), out, 60, 1);
        }
    }
}

/// Writes `COUNT` digits of four bytes of each row to columns `4 * first` on, each `4 * apart` columns after the one
/// before.
///
/// # Safety
/// The columns are in the block; the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn digits<V: Vector, const COUNT: usize>(bytes: V::Bytes, out: &mut impl Sink<V>, first: usize, apart: usize) {
    // SAFETY: the caller's contract is the same.
    unsafe {
        // Each byte is a fraction of 256. Times three it takes ten bits, so every other byte has a word of its own;
        // the two bits above the eighth are the digit.
        let low = V::word(0x00ff_00ff);
        let digit = V::word(0x0003_0003);
        let (mut even, mut odd) = (V::and(bytes, low), V::and(V::shift_right::<8>(bytes), low));
        for number in 0..COUNT {
            even = V::add_words(even, V::shift_left::<1>(even));
            odd = V::add_words(odd, V::shift_left::<1>(odd));
            let (first_digit, second_digit) =
                (V::and(V::shift_right::<8>(even), digit), V::and(V::shift_right::<8>(odd), digit));
            out.columns(first + number * apart, V::or(first_digit, V::shift_left::<8>(second_digit)));
            even = V::and(even, low);
            odd = V::and(odd, low);
        }
    }
}
