//! `Q5_0`: 32 values of five bits and a scale.

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::halves;

/// Two bytes of scale, a word of fifth bits, 16 bytes whose low halves are the first 16 values, the high halves the
/// rest.
pub struct Q5_0;

impl Unpack for Q5_0 {
    type Form = Raised<32, 31>;
    const COLUMNS: usize = 32;
    const BYTES: usize = 22;
    const OFFSET: i32 = 16;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 22 bytes, every write in the unpacked one.
        unsafe {
            let [first, second, ..] = V::columns16(base, offsets);
            out.scale(0, V::half_to_float::<0>(first));
            let mut fifth = V::or(V::shift_right::<16>(first), V::shift_left::<16>(second));
            for (index, codes) in halves::columns32::<V>(base.add(6), offsets).into_iter().enumerate() {
                out.columns(index, V::or(codes, V::spread(fifth, 0x10)));
                fifth = V::shift_right::<4>(fifth);
            }
        }
    }
}
