//! `Q4_1`: 32 values of four bits, a scale and a minimum.

use crate::panel::{Sink, Unpack, WithMinimum};
use crate::vector::Vector;

use super::halves;

/// Two bytes of scale, two of minimum, 16 bytes whose low halves are the first 16 values, the high halves the rest.
pub struct Q4_1;

impl Unpack for Q4_1 {
    type Form = WithMinimum<32, 15>;
    const COLUMNS: usize = 32;
    const BYTES: usize = 20;
    const OFFSET: i32 = 0;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 20 bytes, every write in the unpacked one.
        unsafe {
            let [header, ..] = V::columns16(base, offsets);
            out.scale(0, V::half_to_float::<0>(header));
            // The stored minimum is added, the kernel's is subtracted.
            out.minimum(0, V::mul(V::float(-1.0), V::half_to_float::<1>(header)));
            for (index, codes) in halves::columns32::<V>(base.add(4), offsets).into_iter().enumerate() {
                out.columns(index, codes);
            }
        }
    }
}
