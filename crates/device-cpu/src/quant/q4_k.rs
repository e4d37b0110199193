//! `Q4_K`: eight groups of 32 values of four bits, each with a scale and a minimum of six bits.

use crate::panel::{ByRows, Sink, Small, Unpack, WithMinimum};
use crate::vector::Vector;

use super::{halves, scales};

/// Scale of scales and scale of minimums, 12 bytes of both, 128 bytes of values: 32 bytes hold two groups.
pub struct Q4K;

impl Unpack for Q4K {
    type Form = Small<WithMinimum<32, 15>>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 144;
    const OFFSET: i32 = 0;
    const TURNS: usize = 4;
    const BY_ROWS: Option<ByRows> = Some(ByRows::Codes);

    #[inline(always)]
    unsafe fn scales<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: the caller's contract is the same.
        unsafe { scales_and_minimums::<V>(base, offsets, out) };
    }

    #[inline(always)]
    unsafe fn row<V: Vector>(stored: *const u8, index: usize) -> V::Bytes {
        // SAFETY: the caller's contract is the same.
        unsafe { half_of_row::<V>(stored.add(16), index) }
    }

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 144 bytes, every write in the unpacked one.
        unsafe {
            Self::scales::<V>(base, offsets, out);
            let low = V::byte(0x0f);
            // 32 bytes hold two groups.
            in_turns!(V: pair in [0, 1, 2, 3] {
                let first = 16 * pair;
                out.begin(pair, first);
                written_out!(half in [0, 1] {
                    let stored = V::columns16(base.add(16 + 32 * pair + 16 * half), offsets);
                    written_out!(index in [0, 1, 2, 3] {
                        let at = 4 * half + index;
                        out.columns_from(first, at, V::and(stored[index], low));
                        out.columns_from(first, at + 8, V::and(V::shift_right::<4>(stored[index]), low));
                    });
                });
                out.end(first);
            });
        }
    }
}

/// Group number `index` of a row's codes of four bits, of which 32 bytes hold two.
///
/// # Safety
/// The codes can be read; the CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn half_of_row<V: Vector>(codes: *const u8, index: usize) -> V::Bytes {
    // SAFETY: the caller's contract is the same.
    unsafe { halves::part::<V>(V::load_bytes(codes.add(index / 2 * 32)), index % 2) }
}

/// The 16 bytes that `Q4_K` and `Q5_K` begin with: eight scales and eight minimums of six bits.
///
/// # Safety
/// As [`Unpack::unpack`], for blocks of eight groups with minimums.
#[inline(always)]
pub(super) unsafe fn scales_and_minimums<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
    // SAFETY: every read lies in the first 16 bytes of the block, every write in one of its eight groups.
    unsafe {
        let [header, a, b, c] = V::columns16(base, offsets);
        let (scale, minimum) = (V::half_to_float::<0>(header), V::half_to_float::<1>(header));
        let (six, four, two) = (V::byte(0x3f), V::byte(0x0f), V::byte(0x30));
        let scales = [V::and(a, six), V::or(V::and(c, four), V::and(V::shift_right::<2>(a), two))];
        let minimums =
            [V::and(b, six), V::or(V::and(V::shift_right::<4>(c), four), V::and(V::shift_right::<2>(b), two))];
        out.block_scale(scale);
        for half in 0..2 {
            let scales = scales::unsigned::<V>(scales[half]);
            for index in 0..4 {
                out.scale(4 * half + index, scales[index]);
            }
            out.minimums(4 * half, minimum, minimums[half]);
        }
    }
}
