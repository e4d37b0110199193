//! MXFP4: 32 floats of four bits and a power of two.

use kauri_formats::quant::FP4_LEVELS;

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::halves;

/// The levels as unsigned bytes.
pub(super) const LEVELS: [u8; 16] = halves::raised(FP4_LEVELS, Mxfp4::OFFSET);

/// One byte of exponent; 16 bytes whose low halves are the first 16 values, the high halves the rest.
pub struct Mxfp4;

impl Unpack for Mxfp4 {
    type Form = Raised<32, 31>;
    const COLUMNS: usize = 32;
    const BYTES: usize = 17;
    const OFFSET: i32 = 12;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 17 bytes, every write in the unpacked one.
        unsafe {
            // `2^(exponent - 128)` may be subnormal: the product of two powers that are not, one for each half of the
            // byte.
            let [header, ..] = V::columns16(base, offsets);
            let high = V::or(V::and(header, V::word(0xf0)), V::word(0x0e));
            let low = V::or(V::and(header, V::word(0x0f)), V::word(0x70));
            let [high, low] = [V::shift_left::<23>(high), V::shift_left::<23>(low)];
            out.scale(0, V::mul(V::float_from_bits(high), V::float_from_bits(low)));
            for (index, codes) in halves::columns32::<V>(base.add(1), offsets).into_iter().enumerate() {
                out.columns(index, V::lookup(&LEVELS, codes));
            }
        }
    }
}
