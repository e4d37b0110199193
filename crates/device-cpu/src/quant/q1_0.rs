//! `Q1_0`: 128 signs and a scale.

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

/// Two bytes of scale, 16 bytes of signs: a set bit is plus.
pub struct Q1_0;

impl Unpack for Q1_0 {
    type Form = Raised<32, 15>;
    const COLUMNS: usize = 128;
    const BYTES: usize = 18;
    const OFFSET: i32 = 1;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 18 bytes, every write in the unpacked one.
        unsafe {
            let [header, ..] = V::columns16(base, offsets);
            let scale = V::half_to_float::<0>(header);
            for (group, mut bits) in V::columns16(base.add(2), offsets).into_iter().enumerate() {
                out.scale(group, scale);
                for index in 0..8 {
                    out.columns(8 * group + index, V::spread(bits, 2));
                    bits = V::shift_right::<4>(bits);
                }
            }
        }
    }
}
