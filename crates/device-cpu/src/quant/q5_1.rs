//! `Q5_1`: 32 values of five bits, a scale and a minimum.

use crate::panel::{Sink, Unpack, WithMinimum};
use crate::vector::Vector;

use super::halves;

/// Two bytes of scale, two of minimum, a word of fifth bits, 16 bytes whose low halves are the first 16 values.
pub struct Q5_1;

impl Unpack for Q5_1 {
    type Form = WithMinimum<32, 31>;
    const COLUMNS: usize = 32;
    const BYTES: usize = 24;
    const OFFSET: i32 = 0;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 24 bytes, every write in the unpacked one.
        unsafe {
            let [header, mut fifth, ..] = V::columns16(base, offsets);
            out.scale(0, V::half_to_float::<0>(header));
            // The stored minimum is added, the kernel's is subtracted.
            out.minimum(0, V::mul(V::float(-1.0), V::half_to_float::<1>(header)));
            for (index, codes) in halves::columns32::<V>(base.add(8), offsets).into_iter().enumerate() {
                out.columns(index, V::or(codes, V::spread(fifth, 0x10)));
                fifth = V::shift_right::<4>(fifth);
            }
        }
    }
}
