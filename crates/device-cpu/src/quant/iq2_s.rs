//! `IQ2_S`: sixteen groups of 16 values, two points of a 1024-point book with signs each, and a scale of four bits.

use kauri_formats::quant::grids::iq2_s::POINTS;

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::{points, scales};

/// The magnitudes that coordinates take.
const LEVELS: [i8; 3] = [8, 25, 43];
static BOOK: [u32; 1024] = points::eights(&POINTS, &LEVELS);
const SIGNED: [u8; 16] = points::with_signs(&LEVELS, Iq2S::OFFSET);

/// The scale of scales; 32 bytes of low bits of point numbers, 32 of signs, 8 of high bits, 8 of scales.
pub struct Iq2S;

impl Unpack for Iq2S {
    type Form = Raised<16, 127>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 82;
    const OFFSET: i32 = 64;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 82 bytes, every write in the unpacked one; point numbers have ten
        // bits.
        unsafe {
            let quarter = V::mul(V::half_to_float::<0>(V::gather(base, offsets)), V::float(0.25));
            let eighth = V::mul(quarter, V::float(0.5));
            let [first_high, second_high, first, second] = V::columns16(base.add(66), offsets);
            for (half, bytes) in [first, second].into_iter().enumerate() {
                for (group, stored) in scales::halves::<V>(bytes).into_iter().enumerate() {
                    out.scale(8 * half + group, V::mul_add(stored, quarter, eighth));
                }
            }
            let (byte, two) = (V::word(0xff), V::word(0x300));
            for (half, mut high) in [first_high, second_high].into_iter().enumerate() {
                let lows = V::columns16(base.add(2 + 16 * half), offsets);
                let signs = V::columns16(base.add(34 + 16 * half), offsets);
                for part in 0..4 {
                    let (mut low, mut signs) = (lows[part], signs[part]);
                    // Two bits for each of this part's four points, moved to bits 8 and 9 in turn.
                    let mut top = V::shift_left::<8>(high);
                    for point in 0..4 {
                        let number = V::or(V::and(low, byte), V::and(top, two));
                        points::eight_columns::<V>(
                            &BOOK,
                            number,
                            &mut signs,
                            &SIGNED,
                            out,
                            32 * half + 8 * part + 2 * point,
                        );
                        low = V::shift_right::<8>(low);
                        top = V::shift_right::<2>(top);
                    }
                    high = V::shift_right::<8>(high);
                }
            }
        }
    }
}
