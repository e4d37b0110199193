//! NVFP4: four groups of 16 floats of four bits, each with a float of eight bits as scale.

use kauri_formats::quant::nvfp4_scale;

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::halves;
use super::mxfp4::{LEVELS, Mxfp4};

/// The bits of the scale that each byte stands for.
static SCALES: [u32; 256] = {
    let mut bits = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        bits[byte] = nvfp4_scale(byte as u8).to_bits();
        byte += 1;
    }
    bits
};

/// Four bytes of scales; 8 bytes for each group whose low halves are its first 8 values, the high halves the rest.
pub struct Nvfp4;

impl Unpack for Nvfp4 {
    type Form = Raised<16, 31>;
    const COLUMNS: usize = 64;
    const BYTES: usize = 36;
    const OFFSET: i32 = Mxfp4::OFFSET;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 36 bytes, every write in the unpacked one; the bytes of scales are
        // under 256.
        unsafe {
            let mut scales = V::gather(base, offsets);
            for group in 0..4 {
                let scale = V::entries(&SCALES, V::and(scales, V::word(0xff)));
                out.scale(group, V::float_from_bits(scale));
                scales = V::shift_right::<8>(scales);
            }
            for two in 0..2 {
                let codes = halves::columns32::<V>(base.add(4 + 16 * two), offsets);
                // Words 0 and 1 are the first group's, 2 and 3 the second's; the high halves follow the low ones.
                for (index, from) in [0, 1, 4, 5, 2, 3, 6, 7].into_iter().enumerate() {
                    out.columns(8 * two + index, V::lookup(&LEVELS, codes[from]));
                }
            }
        }
    }
}
