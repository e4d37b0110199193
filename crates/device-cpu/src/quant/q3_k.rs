//! `Q3_K`: sixteen groups of 16 values of three bits, each with a scale of six bits.

use crate::panel::{Large, Raised, Sink, Unpack};
use crate::vector::Vector;

use super::scales;

/// 32 bytes of third bits, 64 bytes of low two bits, 12 bytes of scales, the scale of scales.
pub struct Q3K;

impl Unpack for Q3K {
    type Form = Large<Raised<16, 63>>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 110;
    const OFFSET: i32 = 4;

    /// The sixteen scales: low halves of eight bytes, their high halves, and four bytes of two-bit tops.
    #[inline(always)]
    unsafe fn scales<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: the last 16 bytes of the block are read, its sixteen scales written.
        unsafe {
            // Two bytes that belong to the values, twelve of scales, two of the scale of scales.
            let [a, b, c, d] = V::columns16(base.add(94), offsets);
            out.block_scale(V::half_to_float::<1>(d));
            let first = V::or(V::shift_right::<16>(a), V::shift_left::<16>(b));
            let second = V::or(V::shift_right::<16>(b), V::shift_left::<16>(c));
            let tops = V::or(V::shift_right::<16>(c), V::shift_left::<16>(d));
            let (low, top) = (V::byte(0x0f), V::byte(0x30));
            let fours = [
                V::or(V::and(first, low), V::and(V::shift_left::<4>(tops), top)),
                V::or(V::and(second, low), V::and(V::shift_left::<2>(tops), top)),
                V::or(V::and(V::shift_right::<4>(first), low), V::and(tops, top)),
                V::or(V::and(V::shift_right::<4>(second), low), V::and(V::shift_right::<2>(tops), top)),
            ];
            for (four, bytes) in fours.into_iter().enumerate() {
                for (index, stored) in scales::unsigned::<V>(bytes).into_iter().enumerate() {
                    out.scale(4 * four + index, V::sub(stored, V::float(32.0)));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 110 bytes, every write in the unpacked one.
        unsafe {
            Self::scales::<V>(base, offsets, out);
            let (two, third) = (V::byte(3), V::byte(4));
            for side in 0..2 {
                let tops = V::columns16(base.add(16 * side), offsets);
                for half in 0..2 {
                    let lows = V::columns16(base.add(32 + 32 * half + 16 * side), offsets);
                    for index in 0..4 {
                        let (mut low, top) = (lows[index], tops[index]);
                        // Bit `4 * half + run` of the third bits goes to bit 2.
                        let mut top = if half == 0 { V::shift_left::<2>(top) } else { V::shift_right::<2>(top) };
                        for run in 0..4 {
                            out.columns(
                                32 * half + 8 * run + 4 * side + index,
                                V::or(V::and(low, two), V::and(top, third)),
                            );
                            low = V::shift_right::<2>(low);
                            top = V::shift_right::<1>(top);
                        }
                    }
                }
            }
        }
    }
}
