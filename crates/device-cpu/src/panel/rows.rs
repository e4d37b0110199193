//! One token row by row, of types whose blocks are a scale in half precision and signed bytes.
//!
//! Rows side by side are as many places of memory at once, and some CPUs, who read on by themselves where they see one place move on, then
//! get three quarters of what memory gives in order (docs/log.md, "What memory gives, and to whom"). So the products of a row's blocks are
//! added up as integers one row after the other, and turned when all rows of a vector are done: scales meet them as they meet those of
//! rows side by side, to the same bits.
//!
//! While sums are turned nothing is read, and memory would rest. So a part of the lines of the strip behind is asked for then, and the others
//! with the rows. Lines close behind what is read are no help: those the CPU reads by itself (docs/log.md, "One core, and what it can read").

use std::mem::MaybeUninit;

use half::f16;

use super::{Input, Partial, Unpack, begun};
use crate::activation::SPAN;
use crate::product::{LANES_MAX, LINE};
use crate::vector::Vector;

/// Most columns of a row before those of the next: what is kept of them stays in the first-level cache.
const COLUMNS_MAX: usize = 4096;
/// Columns of as many blocks as the widest vector has rows.
pub const CHUNK: usize = LANES_MAX * COLUMNS;
/// Columns of a block.
const COLUMNS: usize = 32;
/// Lines that are asked for with a row's blocks of a chunk: one with each two blocks but the last.
const ROW_LINES: usize = LANES_MAX / 2 - 1;

/// Lines that are asked for while the sums of a chunk are turned, before block number `block` meets its scales: in all those that are left of
/// as many as the chunk has.
const fn lines_of_turn<U: Unpack>(block: usize) -> usize {
    let all = (LANES_MAX * LANES_MAX * U::BYTES).div_ceil(LINE) - LANES_MAX * ROW_LINES;
    (block + 1) * all / LANES_MAX - block * all / LANES_MAX
}

/// Whether the only token meets rows of such blocks so, where they are whole chunks.
pub const fn meets<V: Vector, U: Unpack>() -> bool {
    assert!(!U::BY_ROWS || U::COLUMNS == COLUMNS && SPAN.is_multiple_of(COLUMNS), "spans of blocks");
    assert!(!V::ROW_BY_ROW || V::STREAMS == 1, "lines that are asked for follow each other");
    U::BY_ROWS && V::ROW_BY_ROW && V::LANES == LANES_MAX
}

/// What is kept of some columns of `LANES` rows.
struct Kept<V: Vector> {
    /// Sums of products of blocks: those of a chunk of one row in a vector.
    sums: [[MaybeUninit<V::Int>; LANES_MAX]; COLUMNS_MAX / CHUNK],
    /// Scales of blocks, those of all rows beside each other.
    scales: [[MaybeUninit<f16>; LANES_MAX]; COLUMNS_MAX / COLUMNS],
}

/// Adds the products of `LANES` whole rows of `row_bytes` bytes, one after the other from `stored` on, with the only token. Asks for as much from
/// `ahead` on meanwhile.
///
/// # Safety
/// The rows can be read, are of type `U`, of which [`meets`] says so, and whole chunks; the input has their columns; the CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn meet<V: Vector, U: Unpack>(
    stored: *const u8,
    row_bytes: usize,
    input: &Input,
    mut ahead: *const u8,
) -> V::Float {
    let columns = row_bytes / U::BYTES * COLUMNS;
    // SAFETY: the caller's contract is the same; places inside what is kept.
    unsafe {
        let mut kept = Kept::<V> {
            sums: [[MaybeUninit::uninit(); LANES_MAX]; COLUMNS_MAX / CHUNK],
            scales: [[MaybeUninit::uninit(); LANES_MAX]; COLUMNS_MAX / COLUMNS],
        };
        let mut total = V::float(0.0);
        for first in (0..columns).step_by(COLUMNS_MAX) {
            let chunks = COLUMNS_MAX.min(columns - first) / CHUNK;
            for row in 0..V::LANES {
                let base = stored.add(row * row_bytes + first / COLUMNS * U::BYTES);
                for chunk in 0..chunks {
                    let base = base.add(chunk * LANES_MAX * U::BYTES);
                    let mut pairs = [V::int(0); LANES_MAX / 2];
                    for (pair, sums) in pairs.iter_mut().enumerate() {
                        // In this order, lest a core has only loads to do and then only products.
                        if pair < ROW_LINES {
                            V::prefetch(ahead.cast());
                            ahead = ahead.wrapping_add(LINE);
                        }
                        for block in [2 * pair, 2 * pair + 1] {
                            let scale = base.add(block * U::BYTES).cast::<f16>().read_unaligned();
                            kept.scales
                                .get_unchecked_mut(chunk * LANES_MAX + block)
                                .get_unchecked_mut(row)
                                .write(scale);
                        }
                        let codes = base.add(2 * pair * U::BYTES + U::BYTES - COLUMNS);
                        let x = input.values.add(first + chunk * CHUNK + 2 * pair * COLUMNS);
                        *sums = V::pair_sums(codes, codes.add(U::BYTES), x);
                    }
                    let sums = V::block_sums(pairs);
                    kept.sums.get_unchecked_mut(chunk).get_unchecked_mut(row).write(sums);
                }
            }
            for chunk in 0..chunks {
                let sums = V::turned(kept.sums.get_unchecked(chunk).as_ptr().cast());
                let mut span = Partial::<V>::zero();
                for block in 0..LANES_MAX {
                    for _ in 0..lines_of_turn::<U>(block) {
                        V::prefetch(ahead.cast());
                        ahead = ahead.wrapping_add(LINE);
                    }
                    let number = first / COLUMNS + chunk * LANES_MAX + block;
                    let scale = V::load_half(kept.scales.get_unchecked(chunk * LANES_MAX + block).as_ptr().cast());
                    let sum = V::add_ints(sums[block], begun::<V, U::Form>(input, number));
                    span.add::<U::Form>(0, input.sums.add(number), (sum, scale, scale));
                    if (block + 1) % (SPAN / COLUMNS) == 0 {
                        let scale = V::float(*input.scales.add(number * COLUMNS / SPAN));
                        total = V::mul_add(span.of_block::<U::Form>(V::float(1.0)), scale, total);
                        span = Partial::zero();
                    }
                }
            }
        }
        total
    }
}
