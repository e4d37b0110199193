//! `IQ3_XXS`: eight groups of 32 values, eight points of a 256-point book with signs each, and a scale of four bits.

use kauri_formats::quant::grids::iq3_xxs::POINTS;

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::points;

/// The magnitudes that coordinates take.
const LEVELS: [i8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
static BOOK: [u32; 256] = points::fours(&POINTS, &LEVELS);
const SIGNED: [u8; 16] = points::with_signs(&LEVELS, Iq3Xxs::OFFSET);

/// The scale of scales; 64 bytes of point numbers; a word for each group of four times seven signs and the scale.
pub struct Iq3Xxs;

impl Unpack for Iq3Xxs {
    type Form = Raised<32, 127>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 98;
    const OFFSET: i32 = 64;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 98 bytes, every write in the unpacked one; point numbers are bytes.
        unsafe {
            let half = V::mul(V::half_to_float::<0>(V::gather(base, offsets)), V::float(0.5));
            let quarter = V::mul(half, V::float(0.5));
            let byte = V::word(0xff);
            for side in 0..2 {
                let stored = V::columns16(base.add(66 + 16 * side), offsets);
                for pair in 0..2 {
                    let numbers = V::columns16(base.add(2 + 32 * side + 16 * pair), offsets);
                    for odd in 0..2 {
                        let group = 4 * side + 2 * pair + odd;
                        let stored = stored[2 * pair + odd];
                        out.scale(
                            group,
                            V::mul_add(V::byte_to_float::<0>(V::shift_right::<28>(stored)), half, quarter),
                        );
                        let mut signs = points::even_signs::<V>(stored);
                        for word in 0..2 {
                            let mut numbers = numbers[2 * odd + word];
                            for point in 0..4 {
                                let at = 8 * group + 4 * word + point;
                                points::four_columns::<V>(&BOOK, V::and(numbers, byte), &mut signs, &SIGNED, out, at);
                                numbers = V::shift_right::<8>(numbers);
                            }
                        }
                    }
                }
            }
        }
    }
}
