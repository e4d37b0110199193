//! `IQ2_XXS`: eight groups of 32 values, four points of a 256-point book with signs each, and a scale of four bits.

use kauri_formats::quant::grids::iq2_xxs::POINTS;

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::points;

/// The magnitudes that coordinates take.
const LEVELS: [i8; 3] = [8, 25, 43];
static BOOK: [u32; 256] = points::eights(&POINTS, &LEVELS);
const SIGNED: [u8; 16] = points::with_signs(&LEVELS, Iq2Xxs::OFFSET);

/// The scale of scales; 8 bytes for each group: four point numbers, then four times seven signs and the scale.
pub struct Iq2Xxs;

impl Unpack for Iq2Xxs {
    type Form = Raised<32, 127>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 66;
    const OFFSET: i32 = 64;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 66 bytes, every write in the unpacked one; point numbers are bytes.
        unsafe {
            let quarter = V::mul(V::half_to_float::<0>(V::gather(base, offsets)), V::float(0.25));
            let byte = V::word(0xff);
            for pair in 0..4 {
                let [first, first_signs, second, second_signs] = V::columns16(base.add(2 + 16 * pair), offsets);
                for (odd, mut numbers, stored) in [(0, first, first_signs), (1, second, second_signs)] {
                    let group = 2 * pair + odd;
                    let scale = V::mul_add(
                        V::byte_to_float::<0>(V::shift_right::<28>(stored)),
                        quarter,
                        V::mul(quarter, V::float(0.5)),
                    );
                    out.scale(group, scale);
                    let mut signs = points::even_signs::<V>(stored);
                    for point in 0..4 {
                        let number = V::and(numbers, byte);
                        points::eight_columns::<V>(&BOOK, number, &mut signs, &SIGNED, out, 8 * group + 2 * point);
                        numbers = V::shift_right::<8>(numbers);
                    }
                }
            }
        }
    }
}
