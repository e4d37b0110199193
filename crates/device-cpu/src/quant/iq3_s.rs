//! `IQ3_S`: eight groups of 32 values, eight points of a 512-point book with signs each, and a scale of four bits.

use kauri_formats::quant::grids::iq3_s::POINTS;

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::{points, scales};

/// The magnitudes that coordinates take.
const LEVELS: [i8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];
static BOOK: [u32; 512] = points::fours(&POINTS, &LEVELS);
const SIGNED: [u8; 16] = points::with_signs(&LEVELS, Iq3S::OFFSET);

/// The scale of scales; 64 bytes of low bits of point numbers, 8 of ninth bits, 32 of signs, 4 of scales.
pub struct Iq3S;

impl Unpack for Iq3S {
    type Form = Raised<32, 127>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 110;
    const OFFSET: i32 = 16;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 110 bytes, every write in the unpacked one; point numbers have nine
        // bits.
        unsafe {
            let scale = V::half_to_float::<0>(V::gather(base, offsets));
            let double = V::mul(scale, V::float(2.0));
            let stored = V::gather(base.add(106), offsets);
            for (group, stored) in scales::halves::<V>(stored).into_iter().enumerate() {
                out.scale(group, V::mul_add(stored, double, scale));
            }
            let [first_ninths, second_ninths, ..] = V::columns16(base.add(66), offsets);
            let (byte, ninth) = (V::word(0xff), V::word(0x100));
            for (half, mut ninths) in [first_ninths, second_ninths].into_iter().enumerate() {
                let signs = V::columns16(base.add(74 + 16 * half), offsets);
                for pair in 0..2 {
                    let lows = V::columns16(base.add(2 + 32 * half + 16 * pair), offsets);
                    for odd in 0..2 {
                        let group = 4 * half + 2 * pair + odd;
                        let mut signs = signs[2 * pair + odd];
                        // One bit for each of the group's eight points, moved to bit 8 in turn.
                        let mut top = V::shift_left::<8>(ninths);
                        for word in 0..2 {
                            let mut low = lows[2 * odd + word];
                            for point in 0..4 {
                                let number = V::or(V::and(low, byte), V::and(top, ninth));
                                let at = 8 * group + 4 * word + point;
                                points::four_columns::<V>(&BOOK, number, &mut signs, &SIGNED, out, at);
                                low = V::shift_right::<8>(low);
                                top = V::shift_right::<1>(top);
                            }
                        }
                        ninths = V::shift_right::<8>(ninths);
                    }
                }
            }
        }
    }
}
