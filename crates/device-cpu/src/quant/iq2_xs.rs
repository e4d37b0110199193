//! `IQ2_XS`: sixteen groups of 16 values, two points of a 512-point book with signs each, and a scale of four bits.

use kauri_formats::quant::grids::iq2_xs::POINTS;

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::{points, scales};

/// The magnitudes that coordinates take.
const LEVELS: [i8; 3] = [8, 25, 43];
static BOOK: [u32; 512] = points::eights(&POINTS, &LEVELS);
const SIGNED: [u8; 16] = points::with_signs(&LEVELS, Iq2Xs::OFFSET);

/// The scale of scales; 64 bytes of point numbers of nine bits, each with seven signs; 8 bytes of scales.
pub struct Iq2Xs;

impl Unpack for Iq2Xs {
    type Form = Raised<16, 127>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 74;
    const OFFSET: i32 = 64;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 74 bytes, every write in the unpacked one; point numbers have nine
        // bits.
        unsafe {
            let quarter = V::mul(V::half_to_float::<0>(V::gather(base, offsets)), V::float(0.25));
            let eighth = V::mul(quarter, V::float(0.5));
            let [.., first, second] = V::columns16(base.add(58), offsets);
            for (half, bytes) in [first, second].into_iter().enumerate() {
                for (group, stored) in scales::halves::<V>(bytes).into_iter().enumerate() {
                    out.scale(8 * half + group, V::mul_add(stored, quarter, eighth));
                }
            }
            let nine = V::word(0x1ff);
            for part in 0..4 {
                let words = V::columns16(base.add(2 + 16 * part), offsets);
                for (index, word) in words.into_iter().enumerate() {
                    // The signs of two points, one in each of the two lower bytes.
                    let first = V::and(V::shift_right::<9>(word), V::word(0x7f));
                    let second = V::and(V::shift_right::<17>(word), V::word(0x7f00));
                    let mut signs = points::even_bytes::<V>(V::or(first, second));
                    let at = 16 * part + 4 * index;
                    points::eight_columns::<V>(&BOOK, V::and(word, nine), &mut signs, &SIGNED, out, at);
                    let second = V::and(V::shift_right::<16>(word), nine);
                    points::eight_columns::<V>(&BOOK, second, &mut signs, &SIGNED, out, at + 2);
                }
            }
        }
    }
}
