//! One token row by row.
//!
//! Rows side by side are as many places of memory at once, and some CPUs, who read on by themselves where they see one place move on, then
//! get three quarters of what memory gives in order (docs/log.md, "What memory gives, and to whom"). So the products of a row's groups are
//! added up as integers one row after the other, and turned when all rows of a vector are done: scales meet them as they meet those of
//! rows side by side, to the same bits. Nor are the words of all rows to be brought side by side first, which in narrow vectors is a third to a half of the
//! work (docs/log.md, "AVX2 row by row").
//!
//! While sums are turned nothing is read, and memory would rest. So a part of the lines of the strip behind is asked for then, and the others
//! with the rows. Lines close behind what is read are no help: those the CPU reads by itself (docs/log.md, "One core, and what it can read").

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use half::f16;

use super::meet::GROUPS_MAX;
use super::{
    ByRows, Form, Input, Minimums, Partial, Scales, Sink, Unpack, as_multiplied, begun, dot, in_halves, minimums,
    scale_in, scales,
};
use crate::activation::SPAN;
use crate::product::{Ahead, LANES_MAX, LINE};
use crate::quant::written_out;
use crate::vector::{Blocks, Vector};

/// Most columns of a row before those of the next: what is kept of them stays in the first-level cache.
const COLUMNS_MAX: usize = 4096;
/// Most vectors of sums of so many columns of `LANES` rows: groups have sixteen columns or more.
const SUMS_MAX: usize = COLUMNS_MAX / 16;
/// Columns of a block that is a scale in half precision, and codes.
const BLOCK: usize = 32;
/// Vectors whose products are added up together.
const VECTORS: usize = 8;

/// Columns of so many vectors.
pub const fn chunk<V: Vector>() -> usize {
    VECTORS * V::LANES * 4
}

/// Bytes of a row's chunk.
const fn chunk_bytes<V: Vector, U: Unpack>() -> usize {
    chunk::<V>() / U::COLUMNS * U::BYTES
}

/// Lines that are asked for with a row's chunk, one before each of its first vectors: fewer than it has, so that some are left for the turn.
const fn row_lines<V: Vector, U: Unpack>() -> usize {
    let (most, lines) =
        (if V::LANES < LANES_MAX { V::LANES / 2 - 1 } else { VECTORS - 1 }, chunk_bytes::<V, U>() / LINE);
    if lines < most { lines } else { most }
}

/// Lines that are asked for while the sums of a chunk are turned, before part number `part` of so many meets its scales: in all those that are
/// left of as many as the chunk has.
const fn lines_of_turn<V: Vector, U: Unpack>(part: usize, parts: usize) -> usize {
    let all = (V::LANES * chunk_bytes::<V, U>()).div_ceil(LINE) - V::LANES * row_lines::<V, U>();
    (part + 1) * all / parts - part * all / parts
}

/// Whether the only token meets rows of such blocks so, where they are whole chunks.
pub const fn meets<V: Vector, U: Unpack>() -> bool {
    assert!(matches!(V::BLOCKS_BY_ROW, Blocks::None) || V::STREAMS == 1, "lines that are asked for follow each other");
    assert!(
        U::BY_ROWS.is_none() || U::COLUMNS == BLOCK || U::COLUMNS == 2 * SPAN,
        "blocks of spans, or spans of blocks"
    );
    let meets = match (U::BY_ROWS, V::BLOCKS_BY_ROW) {
        (None, _) | (_, Blocks::None) | (Some(ByRows::Codes), Blocks::OfBytes) => false,
        (Some(ByRows::Bytes), Blocks::OfBytes | Blocks::All) | (Some(ByRows::Codes), Blocks::All) => true,
    };
    assert!(!meets || U::COLUMNS == BLOCK || U::COLUMNS == chunk::<V>(), "a chunk of blocks, or a block");
    meets
}

/// Vectors of sums of a row's chunk.
const fn sums<V: Vector, U: Unpack>() -> usize {
    chunk::<V>() / U::Form::GROUP / V::LANES
}

/// What is kept of some columns of `LANES` rows.
struct Kept<V: Vector> {
    /// Sums of products of groups, `LANES` groups of one row in a vector: (vectors of a row, rows).
    sums: [MaybeUninit<V::Int>; SUMS_MAX],
    /// Scales of blocks, those of all rows beside each other.
    scales: [[MaybeUninit<f16>; LANES_MAX]; COLUMNS_MAX / BLOCK],
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
    mut ahead: Ahead,
) -> V::Float {
    let (width, sums) = const { (chunk::<V>(), sums::<V, U>()) };
    let columns = row_bytes / U::BYTES * U::COLUMNS;
    // SAFETY: the caller's contract is the same; places inside what is kept.
    unsafe {
        let mut kept = Kept::<V> {
            sums: [MaybeUninit::uninit(); SUMS_MAX],
            scales: [[MaybeUninit::uninit(); LANES_MAX]; COLUMNS_MAX / BLOCK],
        };
        let mut total = V::float(0.0);
        for first in (0..columns).step_by(COLUMNS_MAX) {
            let chunks = COLUMNS_MAX.min(columns - first) / width;
            let stored = stored.add(first / U::COLUMNS * U::BYTES);
            for row in 0..V::LANES {
                let mut base = stored.add(row * row_bytes);
                for chunk in 0..chunks {
                    let x = input.values.add(first + chunk * width);
                    let each = add_row::<V, U>(base, x, (chunk, row), &mut kept.scales, &mut ahead);
                    for index in 0..sums {
                        kept.sums.get_unchecked_mut((chunk * sums + index) * V::LANES + row).write(each[index]);
                    }
                    base = base.add(const { chunk_bytes::<V, U>() });
                }
            }
            for chunk in 0..chunks {
                let number = first / width + chunk;
                let sums = kept.sums.as_ptr().add(chunk * sums * V::LANES);
                if const { U::COLUMNS == BLOCK } {
                    let scales = kept.scales.as_ptr().add(chunk * (width / BLOCK));
                    turn_blocks::<V, U>(number, input, (sums, scales), &mut total, &mut ahead);
                } else {
                    let base = stored.add(chunk * const { chunk_bytes::<V, U>() });
                    turn::<V, U>((base, row_bytes), number, input, sums, &mut total, &mut ahead);
                }
            }
        }
        total
    }
}

/// The sums of the groups of a row's chunk; keeps its scales, where they stand between its codes.
///
/// # Safety
/// As [`meet`]; `x` are the token's values in these columns.
#[inline(always)]
unsafe fn add_row<V: Vector, U: Unpack>(
    base: *const u8,
    x: *const i8,
    (chunk_number, row): (usize, usize),
    scales: &mut [[MaybeUninit<f16>; LANES_MAX]; COLUMNS_MAX / BLOCK],
    ahead: &mut Ahead,
) -> [V::Int; 2] {
    let blocks = const { V::LANES * 4 / BLOCK };
    // SAFETY: the caller's contract is the same; places inside what is kept.
    unsafe {
        let mut products = [V::int(0); VECTORS];
        written_out!(index in [0, 1, 2, 3, 4, 5, 6, 7] {
            // In this order, lest a core has only loads to do and then only products.
            if index < const { row_lines::<V, U>() } {
                ahead.ask_next::<V>();
            }
            if const { U::COLUMNS == BLOCK } {
                for block in index * blocks..(index + 1) * blocks {
                    let scale = base.add(block * U::BYTES).cast::<f16>().read_unaligned();
                    let place = scales.get_unchecked_mut(chunk_number * const { chunk::<V>() / BLOCK } + block);
                    place.get_unchecked_mut(row).write(scale);
                }
            }
            let weights = as_multiplied::<V, U::Form>(U::row::<V>(base, index));
            let x = V::load_bytes(x.add(index * V::LANES * 4).cast());
            products[index] = dot::<V, U::Form>(V::int(0), weights, x);
        });
        match (U::Form::GROUP, const { in_halves::<V, U::Form>() }) {
            (16, true) => V::group_sums::<16, true>(products),
            (16, false) => V::group_sums::<16, false>(products),
            (_, true) => V::group_sums::<32, true>(products),
            (_, false) => V::group_sums::<32, false>(products),
        }
    }
}

/// Adds the kept sums of chunk number `number` times its kept scales.
///
/// # Safety
/// As [`meet`]; the sums and the scales are kept.
#[inline(always)]
unsafe fn turn_blocks<V: Vector, U: Unpack>(
    number: usize,
    input: &Input,
    (sums, scales): (*const MaybeUninit<V::Int>, *const [MaybeUninit<f16>; LANES_MAX]),
    total: &mut V::Float,
    ahead: &mut Ahead,
) {
    let blocks = const { chunk::<V>() / BLOCK };
    // SAFETY: the caller's contract is the same; what is asked for may lie anywhere.
    unsafe {
        let sums = V::turned::<BLOCK>(sums.cast());
        let mut span = Partial::<V>::zero();
        for block in 0..blocks {
            for _ in 0..lines_of_turn::<V, U>(block, blocks) {
                ahead.ask_next::<V>();
            }
            let number = number * blocks + block;
            let scale = V::load_half(scales.add(block).cast());
            let sum = V::add_ints(sums[block], begun::<V, U::Form>(input, number));
            span.add::<U::Form>(0, input.sums.add(number), (sum, scale, scale));
            if (block + 1) % (SPAN / BLOCK) == 0 {
                let scale = V::float(*input.scales.add(number * BLOCK / SPAN));
                *total = V::mul_add(span.of_block::<U::Form>(V::float(1.0)), scale, *total);
                span = Partial::zero();
            }
        }
    }
}

/// The scales and minimums of a block's groups: numbers [with that of the block](scale_in) where products take them so.
pub(super) struct Scaled<V: Vector, U> {
    pub(super) scales: [V::Float; GROUPS_MAX],
    pub(super) minimums: [V::Float; GROUPS_MAX],
    block: V::Float,
    unpack: PhantomData<U>,
}

impl<V: Vector, U: Unpack> Scaled<V, U> {
    /// Those of the block at `base + offsets[row]` of every row.
    ///
    /// # Safety
    /// As [`Unpack::scales`].
    #[inline(always)]
    pub(super) unsafe fn of(base: *const u8, offsets: &[isize; LANES_MAX]) -> Self {
        // SAFETY: the caller's contract is the same.
        unsafe {
            let none = [V::float(0.0); GROUPS_MAX];
            let mut scaled = Self { scales: none, minimums: none, block: V::float(1.0), unpack: PhantomData };
            U::scales::<V>(base, offsets, &mut scaled);
            scaled
        }
    }
}

impl<V: Vector, U: Unpack> Sink<V> for Scaled<V, U> {
    #[inline(always)]
    unsafe fn columns(&mut self, _: usize, _: V::Bytes) {}

    #[inline(always)]
    unsafe fn scale(&mut self, group: usize, scale: V::Float) {
        // SAFETY: one of the block's groups by the caller's word.
        unsafe { *self.scales.get_unchecked_mut(group) = scale_in::<V, U::Form>(self.block, scale) };
    }

    #[inline(always)]
    unsafe fn block_scale(&mut self, scale: V::Float) {
        self.block = scale;
    }

    #[inline(always)]
    unsafe fn minimum(&mut self, group: usize, minimum: V::Float) {
        // SAFETY: one of the block's groups by the caller's word.
        unsafe { *self.minimums.get_unchecked_mut(group) = minimum };
    }
}

/// Adds the kept sums of the rows' block number `number`, which is a chunk, times its scales.
///
/// # Safety
/// As [`meet`]; the sums are kept, the rows' blocks stored from `base` on, `row_bytes` from one to the next.
#[inline(always)]
unsafe fn turn<V: Vector, U: Unpack>(
    (base, row_bytes): (*const u8, usize),
    number: usize,
    input: &Input,
    sums: *const MaybeUninit<V::Int>,
    total: &mut V::Float,
    ahead: &mut Ahead,
) {
    let (groups, spans) = const { (U::COLUMNS / U::Form::GROUP, U::COLUMNS / SPAN) };
    const { assert!(!meets::<V, U>() || matches!(scales::<V, U::Form>(), Scales::Numbers), "scales of groups") };
    const { assert!(!meets::<V, U>() || !matches!(minimums::<V, U::Form>(), Minimums::InPairs), "their minimums") };
    // SAFETY: the caller's contract is the same; what is asked for may lie anywhere.
    unsafe {
        let scaled = Scaled::<V, U>::of(base, &crate::product::offsets_of_whole::<V>(row_bytes, 0));
        // Both written out: with places that are known scales stay out of memory.
        written_out!(span in [0, 1] {
            if span < spans {
                for _ in 0..lines_of_turn::<V, U>(span, spans) {
                    ahead.ask_next::<V>();
                }
                // A vector of sums is a span, or all of a block.
                let each = groups / spans;
                let turned = match U::Form::GROUP {
                    16 => V::turned::<16>(sums.add(span * V::LANES).cast()),
                    _ => V::turned::<32>(sums.cast()),
                };
                let mut partial = Partial::<V>::zero();
                for index in 0..each {
                    let group = span * each + index;
                    let begun = begun::<V, U::Form>(input, number * groups + group);
                    let sum = V::add_ints(turned[if U::Form::GROUP == 16 { index } else { group }], begun);
                    let parts = (sum, scaled.scales[group], scaled.minimums[group]);
                    partial.add::<U::Form>(group, input.sums.add(number * groups + group), parts);
                }
                let scale = V::float(*input.scales.add(number * spans + span));
                *total = V::mul_add(partial.of_block::<U::Form>(scaled.block), scale, *total);
            }
        });
    }
}
