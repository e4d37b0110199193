//! `IQ1_M`: sixteen groups of 16 values, two points of a ternary 2048-point book with shifts each, a scale of three
//! bits.

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::iq1_s::{Iq1S, eight_columns, everywhere};

/// 32 bytes of low bits of point numbers; 16 bytes of high bits and shifts; 8 bytes of scales and the scale of scales.
pub struct Iq1M;

impl Unpack for Iq1M {
    type Form = Raised<16, 31>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 56;
    const OFFSET: i32 = Iq1S::OFFSET;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 56 bytes, every write in the unpacked one; point numbers have eleven
        // bits.
        unsafe {
            unpack_scales::<V>(base, offsets, out);
            let (byte, three) = (V::word(0xff), V::word(0x700));
            let highs = V::columns16(base.add(32), offsets);
            for half in 0..2 {
                let lows = V::columns16(base.add(16 * half), offsets);
                for part in 0..4 {
                    // A half byte for each of four points.
                    let high = highs[2 * half + part / 2];
                    let mut high = if part % 2 == 0 { high } else { V::shift_right::<16>(high) };
                    let mut low = lows[part];
                    for point in 0..4 {
                        let number = V::or(V::and(low, byte), V::and(V::shift_left::<8>(high), three));
                        let shift = everywhere::<V>(V::and(high, V::word(8)));
                        eight_columns::<V>(number, shift, out, 32 * half + 8 * part + 2 * point);
                        low = V::shift_right::<8>(low);
                        high = V::shift_right::<4>(high);
                    }
                }
            }
        }
    }
}

/// Four scales of three bits in each of four half words, whose top four bits together are the scale of scales.
///
/// # Safety
/// As [`Unpack::unpack`].
#[inline(always)]
unsafe fn unpack_scales<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
    // SAFETY: the last 16 bytes of the block are read, its sixteen scales written.
    unsafe {
        let [.., a, b] = V::columns16(base.add(40), offsets);
        let low =
            V::or(V::and(V::shift_right::<12>(a), V::word(0x000f)), V::and(V::shift_right::<24>(a), V::word(0x00f0)));
        let high =
            V::or(V::and(V::shift_right::<4>(b), V::word(0x0f00)), V::and(V::shift_right::<16>(b), V::word(0xf000)));
        // The bytes count eighths.
        let eighth = V::mul(V::half_to_float::<0>(V::or(low, high)), V::float(0.125));
        for (four, mut stored) in [a, V::shift_right::<16>(a), b, V::shift_right::<16>(b)].into_iter().enumerate() {
            for index in 0..4 {
                let scale = V::byte_to_float::<0>(V::and(stored, V::word(7)));
                let scale = V::mul_add(scale, V::float(2.0), V::float(1.0));
                out.scale(4 * four + index, V::mul(eighth, scale));
                stored = V::shift_right::<3>(stored);
            }
        }
    }
}
