//! `Q6_K`: sixteen groups of 16 values of six bits, each with a signed byte of scale.

use crate::panel::{ByRows, Large, Raised, Sink, Unpack};
use crate::vector::Vector;

use super::{halves, scales};

/// 128 bytes of low halves, 64 bytes of high two bits, 16 scales, the scale of scales.
pub struct Q6K;

impl Unpack for Q6K {
    type Form = Large<Raised<16, 63>>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 210;
    const OFFSET: i32 = 32;
    const BY_ROWS: Option<ByRows> = Some(ByRows::Codes);

    #[inline(always)]
    unsafe fn scales<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: the caller's contract is the same; the last read starts at 206.
        unsafe {
            out.block_scale(V::half_to_float::<1>(V::gather(base.add(206), offsets)));
            for (four, stored) in V::columns16(base.add(192), offsets).into_iter().enumerate() {
                for (index, stored) in scales::signed::<V>(stored).into_iter().enumerate() {
                    out.scale(4 * four + index, stored);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn row<V: Vector>(stored: *const u8, index: usize) -> V::Bytes {
        // SAFETY: the caller's contract is the same.
        unsafe {
            // 32 bytes of high bits hold those of four runs of 32 columns; 64 bytes hold the low halves of two, and then the high ones.
            let (half, run) = (index / 4, index % 4);
            let codes = V::load_bytes(stored.add(64 * half + 32 * (run % 2)));
            let tops = V::load_bytes(stored.add(128 + 32 * half));
            let top = match run {
                0 => V::shift_left::<4>(tops),
                1 => V::shift_left::<2>(tops),
                2 => tops,
                _ => V::shift_right::<2>(tops),
            };
            V::or(halves::part::<V>(codes, run / 2), V::and(top, V::byte(0x30)))
        }
    }

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 210 bytes every write in the unpacked one.
        unsafe {
            Self::scales::<V>(base, offsets, out);
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
