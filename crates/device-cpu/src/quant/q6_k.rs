//! `Q6_K`: sixteen groups of 16 values of six bits, each with a signed byte of scale.

use crate::panel::{Large, Raised, Sink, Unpack};
use crate::vector::Vector;

use super::scales;

/// 128 bytes of low halves, 64 bytes of high two bits, 16 scales, the scale of scales.
pub struct Q6K;

impl Unpack for Q6K {
    type Form = Large<Raised<16, 63>>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 210;
    const OFFSET: i32 = 32;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 210 bytes (the last starts at 206), every write in the unpacked one.
        unsafe {
            out.block_scale(V::half_to_float::<1>(V::gather(base.add(206), offsets)));
            for (four, stored) in V::columns16(base.add(192), offsets).into_iter().enumerate() {
                for (index, stored) in scales::signed::<V>(stored).into_iter().enumerate() {
                    out.scale(4 * four + index, stored);
                }
            }
            let (low, high) = (V::byte(0x0f), V::byte(0x30));
            // A quarter: 16 bytes of high bits hold those of four runs of 16 columns, 32 apart.
            written_out!(quarter in [0, 1, 2, 3] {
                let (half, side) = (quarter / 2, quarter % 2);
                let tops = V::columns16(base.add(128 + 32 * half + 16 * side), offsets);
                let first = V::columns16(base.add(64 * half + 16 * side), offsets);
                let second = V::columns16(base.add(64 * half + 32 + 16 * side), offsets);
                written_out!(index in [0, 1, 2, 3] {
                    let at = 32 * half + 4 * side + index;
                    let (top, a, b) = (tops[index], first[index], second[index]);
                    out.columns(at, V::or(V::and(a, low), V::and(V::shift_left::<4>(top), high)));
                    out.columns(at + 8, V::or(V::and(b, low), V::and(V::shift_left::<2>(top), high)));
                    out.columns(at + 16, V::or(V::and(V::shift_right::<4>(a), low), V::and(top, high)));
                    let top = V::and(V::shift_right::<2>(top), high);
                    out.columns(at + 24, V::or(V::and(V::shift_right::<4>(b), low), top));
                });
            });
        }
    }
}
