//! `TQ2_0`: 256 values of two bits and a scale.

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::q2_k::two_bits;

/// 64 bytes of values, two of scale.
pub struct Tq2_0;

impl Unpack for Tq2_0 {
    type Form = Raised<32, 15>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 66;
    const OFFSET: i32 = 1;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 66 bytes (the last starts at 62), every write in the unpacked one.
        unsafe {
            let scale = V::half_to_float::<1>(V::gather(base.add(62), offsets));
            for group in 0..8 {
                out.scale(group, scale);
            }
            two_bits::<V>(base, offsets, out);
        }
    }
}
