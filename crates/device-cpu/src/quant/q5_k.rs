//! `Q5_K`: eight groups of 32 values of five bits, each with a scale and a minimum of six bits.

use crate::panel::{ByRows, Large, Sink, Unpack, WithMinimum};
use crate::vector::Vector;

use super::q4_k::{half_of_row, scales_and_minimums};

/// Scale of scales and scale of minimums, 12 bytes of both, 32 bytes of fifth bits, 128 bytes of low four bits.
pub struct Q5K;

impl Unpack for Q5K {
    type Form = Large<WithMinimum<32, 31>>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 176;
    const OFFSET: i32 = 0;
    const BY_ROWS: Option<ByRows> = Some(ByRows::Codes);

    #[inline(always)]
    unsafe fn scales<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: the caller's contract is the same.
        unsafe { scales_and_minimums::<V>(base, offsets, out) };
    }

    #[inline(always)]
    unsafe fn row<V: Vector>(stored: *const u8, index: usize) -> V::Bytes {
        // SAFETY: the caller's contract is the same.
        unsafe {
            // Bit `index` of each of 32 bytes becomes the fifth.
            let tops = V::load_bytes(stored.add(16));
            let top = match index {
                0 => V::shift_left::<4>(tops),
                1 => V::shift_left::<3>(tops),
                2 => V::shift_left::<2>(tops),
                3 => V::shift_left::<1>(tops),
                4 => tops,
                5 => V::shift_right::<1>(tops),
                6 => V::shift_right::<2>(tops),
                _ => V::shift_right::<3>(tops),
            };
            V::or(half_of_row::<V>(stored.add(48), index), V::and(top, V::byte(0x10)))
        }
    }

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 176 bytes, every write in the unpacked one.
        unsafe {
            Self::scales::<V>(base, offsets, out);
            let (low, fifth) = (V::byte(0x0f), V::byte(0x10));
            written_out!(half in [0, 1] {
                let tops = V::columns16(base.add(16 + 16 * half), offsets);
                written_out!(pair in [0, 1, 2, 3] {
                    let codes = V::columns16(base.add(48 + 32 * pair + 16 * half), offsets);
                    for index in 0..4 {
                        // Bits `2 * pair` and `2 * pair + 1` of the fifth bits belong to groups of the same numbers.
                        let top = match pair {
                            0 => V::shift_left::<4>(tops[index]),
                            1 => V::shift_left::<2>(tops[index]),
                            2 => tops[index],
                            _ => V::shift_right::<2>(tops[index]),
                        };
                        let at = 16 * pair + 4 * half + index;
                        let codes = codes[index];
                        out.columns(at, V::or(V::and(codes, low), V::and(top, fifth)));
                        let (codes, top) = (V::shift_right::<4>(codes), V::shift_right::<1>(top));
                        out.columns(at + 8, V::or(V::and(codes, low), V::and(top, fifth)));
                    }
                });
            });
        }
    }
}
