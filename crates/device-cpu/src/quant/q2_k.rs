//! `Q2_K`: sixteen groups of 16 values of two bits, each with a scale and a minimum of four bits.

use crate::panel::{Sink, Small, Unpack, WithMinimum};
use crate::vector::Vector;

use super::scales;

/// 16 bytes of scales and minimums, 64 bytes of values, scale of scales and scale of minimums.
pub struct Q2K;

impl Unpack for Q2K {
    type Form = Small<WithMinimum<16, 15>>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 84;
    const OFFSET: i32 = 0;
    const MOST: u8 = 3;

    #[inline(always)]
    unsafe fn scales<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: the first 16 bytes of the block are read, and its last four.
        unsafe {
            let header = V::gather(base.add(80), offsets);
            let (scale, minimum) = (V::half_to_float::<0>(header), V::half_to_float::<1>(header));
            out.block_scale(scale);
            let four_bits = V::byte(0x0f);
            for (four, bytes) in V::columns16(base, offsets).into_iter().enumerate() {
                let scales = scales::unsigned::<V>(V::and(bytes, four_bits));
                for group in 0..4 {
                    out.scale(4 * four + group, scales[group]);
                }
                out.minimums(4 * four, minimum, V::and(V::shift_right::<4>(bytes), four_bits));
            }
        }
    }

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 84 bytes, every write in the unpacked one.
        unsafe {
            Self::scales::<V>(base, offsets, out);
            two_bits::<V>(base.add(16), offsets, out);
        }
    }
}

/// The 64 bytes of two-bit codes of `Q2_K` and `TQ2_0`: 16 bytes hold those of four runs of 16 columns, 32 apart.
///
/// # Safety
/// As [`Unpack::unpack`], for 64 bytes and 256 columns.
#[inline(always)]
pub(super) unsafe fn two_bits<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
    // SAFETY: four times 16 bytes are read, four times 16 parts of the block are written.
    unsafe {
        let two = V::byte(3);
        for quarter in 0..4 {
            let (half, side) = (quarter / 2, quarter % 2);
            for (index, codes) in V::columns16(base.add(16 * quarter), offsets).into_iter().enumerate() {
                let at = 32 * half + 4 * side + index;
                out.columns(at, V::and(codes, two));
                out.columns(at + 8, V::and(V::shift_right::<2>(codes), two));
                out.columns(at + 16, V::and(V::shift_right::<4>(codes), two));
                out.columns(at + 24, V::and(V::shift_right::<6>(codes), two));
            }
        }
    }
}
