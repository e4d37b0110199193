//! Attention over keys and values kept as bytes, by products of bytes.
//!
//! *Scores*: a query's row is rounded to bytes, with a scale for each 32 channels, once for all its tokens. A product with a
//! block of a key is an exact integer, scaled and added to the blocks before it.
//!
//! *Values*: the exponentials of the scores are rounded to bytes too, in groups of 32 neighbouring positions that share a scale.
//! The groups lie at fixed positions and are this small because attention likes to put half of its weight on one token, often
//! the first: under one scale for all positions the long rest would round to nothing. Since the scale of a token's value cannot be
//! taken out of a sum over tokens, its logarithm is added to the token's score: the exponential then carries the scale, the
//! group's largest is one and needs no division to fill the byte, and a token whose value is small cannot crowd out others.
//! The sum of weights takes the scale out again, before rounding.
//!
//! What is summed in `f32` runs over blocks and groups in order; the rest is exact. So a row's bits do not depend on the rows
//! beside it. Positions that a row does not see count as exactly nothing, whatever bytes lie there.

use half::f16;
use std::f32::consts::{LN_2, LOG2_E};
use std::hint::black_box;
use std::sync::atomic::{Ordering, compiler_fence};

use super::next::{FEW, GROUP, GROUPS, Group, Next};
use super::{ROWS, SEGMENT, Task, Tile, ask_for_mixed, ask_for_query, has_many, lanes};
use crate::aligned::Aligned;
use crate::cache::SIDE;
use crate::cache::bytes::{BLOCK, BLOCKS, Bytes, PART, Packed, Rounding, TOGETHER, Vectors, part};
use crate::vector::{self, Vector, halves_max};

/// As many rows and more take values in halves: fewer sums have room at once then, so that values are read in more turns, which costs a few
/// rows that read them from memory more than it gives (docs/log.md, "Sums that go to memory and back").
const HALVES_MIN: usize = 6;
/// The logarithm of 255 to the base of two: a group's largest weight becomes 255.
const LOG2_255: f32 = 7.994_353_4;

/// Keys and values of one head.
pub(super) type Head<'a> = Bytes<&'a [u8], &'a [f16], &'a [f32]>;

/// One worker's memory.
pub struct Scratch {
    /// A row, padded.
    pub row: Vec<f32>,
    /// The queries of a tile: (rows, width).
    pub(super) queries: Aligned<i8>,
    /// (rows, blocks): scales of the queries, and of the scores.
    pub(super) scales: Vec<f32>,
    /// (rows, blocks): what a product starts from, so that what stands for zero in keys counts as zero.
    pub(super) starts: Vec<i32>,
    /// (rows, segment): weights as bytes; behind those of all rows their low halves, and then the high ones, where products are
    /// [of halves](of_halves).
    weights: Vec<u8>,
    /// The largest score of each group, minus infinity where nothing is seen: (rows, groups and as many again).
    pub(super) most: [[f32; SIDE]; ROWS],
    /// What a step of each group's weights stands for.
    steps: [[f32; SIDE]; ROWS],
    /// What each row's sums of weights begin with: zero, or no number where a value of its query is none.
    pub(super) begin: [f32; ROWS],
}

impl Scratch {
    /// For heads of up to `width` values, a whole number of blocks.
    pub fn new(width: usize) -> Self {
        Self {
            row: vec![0.0; width],
            queries: Aligned::new(ROWS * width),
            scales: vec![0.0; ROWS * width / BLOCK],
            starts: vec![0; ROWS * width / BLOCK],
            weights: vec![0; 3 * ROWS * SEGMENT],
            most: [[f32::NEG_INFINITY; SIDE]; ROWS],
            steps: [[0.0; SIDE]; ROWS],
            begin: [0.0; ROWS],
        }
    }
}

/// Rounds the queries of a tile to bytes. [`find_starts`] follows, where vectors multiply them.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn prepare<V: Vector>(task: &Task<'_>, tile: &Tile, scratch: &mut super::Scratch) {
    let head_dim = task.attention.head_dim as usize;
    let blocks = head_dim.div_ceil(BLOCK);
    // Weights are whole numbers up to 255.
    scratch.total.unit = 255.0;
    let scratch = &mut scratch.bytes;
    // Scores are logarithms to the base of two, unless a cap comes first.
    let scale = task.attention.scale * if task.attention.soft_cap.is_some() { 1.0 } else { LOG2_E };
    let mut room = [0.0; PART];
    for row in 0..tile.rows.len() {
        let query = task.query(tile, tile.rows.start + row);
        scratch.begin[row] = 0.0;
        for number in 0..blocks.div_ceil(BLOCKS) {
            let values = part(query, number, &mut room);
            let (first, count) = (row * blocks + number * BLOCKS, BLOCKS.min(blocks - number * BLOCKS));
            // SAFETY: the caller's contract is the same.
            unsafe {
                let mut inverses = [0.0; BLOCKS];
                for (block, (least, most)) in Vectors::<V>::extremes(values).into_iter().enumerate().take(count) {
                    let mut most = most.max(-least);
                    if most == f32::INFINITY {
                        (most, scratch.begin[row]) = (0.0, f32::NAN);
                    }
                    scratch.scales[first + block] = most / 127.0 * scale;
                    inverses[block] = if most > 0.0 { 127.0 / most } else { 0.0 };
                }
                let queries = &mut scratch.queries[first * BLOCK..][..count * BLOCK];
                if let Some(whole) = queries.first_chunk_mut() {
                    Vectors::<V>::steps(values, inverses, whole);
                } else {
                    let mut steps = [0; PART];
                    Vectors::<V>::steps(values, inverses, &mut steps);
                    queries.copy_from_slice(&steps[..count * BLOCK]);
                }
            }
        }
    }
}

/// Finds what products of a tile's prepared queries start from. Not query by query: a core waits for a load of what several stores still have.
#[inline(always)]
pub(super) fn find_starts<V: Vector, P: Packed>(task: &Task<'_>, tile: &Tile, scratch: &mut super::Scratch) {
    let count = tile.rows.len() * (task.attention.head_dim as usize).div_ceil(BLOCK);
    let (starts, queries) = (&mut scratch.bytes.starts[..count], scratch.bytes.queries.as_chunks::<BLOCK>().0);
    for (start, steps) in starts.iter_mut().zip(queries) {
        *start = match P::zero::<V>() {
            0 => 0,
            zero => -zero * steps.iter().map(|&steps| i32::from(steps)).sum::<i32>(),
        };
    }
}

/// Computes what a segment gives the rows of a tile.
///
/// # Safety
/// The CPU has the instructions of `V`; the queries are prepared.
#[inline(always)]
pub unsafe fn segment<V: Vector, P: Packed>(
    task: &Task<'_>,
    tile: &Tile,
    segment: usize,
    scratch: &mut super::Scratch,
    (cache, next): (&Head<'_>, &Next<Head<'_>>),
) {
    let (count, places) = (tile.rows.len(), task.places(tile));
    // Rows are in the order of their positions.
    let (start, end) = (scratch.seen[0].start, scratch.seen[count - 1].end);
    let range = start.max(segment * SEGMENT)..end.min((segment + 1) * SEGMENT);
    let positions = (range.start / GROUP * GROUP..range.end).step_by(GROUP);
    let mut groups = [Group::default(); GROUPS];
    let groups = &mut groups[..positions.len()];
    for (group, position) in groups.iter_mut().zip(positions) {
        *group = Group::at(position, &range, &places);
    }
    // SAFETY: the caller's contract is the same, and the tile has as many rows.
    unsafe {
        for index in 0..groups.len() {
            let (group, mut row) = ((groups[index], index), 0);
            while row < count {
                row += match count - row {
                    // Measured with AVX2 alone; sixteen sums have no room in its registers.
                    8.. if const { of_halves::<V>() } => score::<V, P, 8, 1>(task, row, group, scratch, (cache, next)),
                    8.. if const { !has_many::<V>() } => score::<V, P, 8, 2>(task, row, group, scratch, (cache, next)),
                    4.. => score::<V, P, 4, 2>(task, row, group, scratch, (cache, next)),
                    2.. if const { V::ROW_BY_ROW } => score::<V, P, 2, 1>(task, row, group, scratch, (cache, next)),
                    2.. => score::<V, P, 2, 2>(task, row, group, scratch, (cache, next)),
                    _ if const { V::ROW_BY_ROW } => score::<V, P, 1, 1>(task, row, group, scratch, (cache, next)),
                    _ => score::<V, P, 1, 2>(task, row, group, scratch, (cache, next)),
                };
            }
        }
        // Rows of a prompt lie a token apart, and would be waited for one by one: those of the next tile are asked for, and where those of this
        // one go, a row at a time, since a core asks for few lines at once.
        let begins = count > FEW && segment == tile.segments.start;
        // Step by step for all rows: what one step of a row waits for is done while others are.
        for row in 0..count {
            next.ask_for_values::<P>(2 * row);
            if begins {
                ask_for_mixed::<V>(task, tile, row);
            }
            mask::<V>(task, row, groups, scratch, cache);
            if let Some(first) = groups.first() {
                let scores = &mut scratch.scores[row * SEGMENT + first.number * GROUP..][..groups.len() * GROUP];
                task.lean(tile, row, scores, first.position, LOG2_E);
            }
            next.ask_for_values::<P>(2 * row + 1);
            find_most::<V>(row, groups, scratch);
        }
        for row in 0..count {
            find_steps::<V>(row, scratch);
        }
        for row in 0..count {
            next.ask_for_values::<P>(2 * count + row);
            if begins {
                ask_for_query::<V>(task, tile, row);
            }
            soften::<V>(row, groups, scratch, cache);
        }
        let in_halves = const { of_halves::<V>() } && count >= HALVES_MIN;
        if in_halves {
            for row in 0..count {
                halve::<V>(row, groups, scratch);
            }
        }
        let mut row = 0;
        while row < count {
            row += match count - row {
                3.. if in_halves => mix::<V, P, 3, 2, true>(row, groups, scratch, (cache, next)),
                2.. if in_halves => mix::<V, P, 2, 2, true>(row, groups, scratch, (cache, next)),
                _ if in_halves => mix::<V, P, 1, 4, true>(row, groups, scratch, (cache, next)),
                8.. if const { !has_many::<V>() } => mix::<V, P, 8, 2, false>(row, groups, scratch, (cache, next)),
                4.. if const { !has_many::<V>() } => mix::<V, P, 4, 4, false>(row, groups, scratch, (cache, next)),
                4.. => mix::<V, P, 4, 2, false>(row, groups, scratch, (cache, next)),
                2.. if const { !has_many::<V>() } => mix::<V, P, 2, 8, false>(row, groups, scratch, (cache, next)),
                2.. => mix::<V, P, 2, 4, false>(row, groups, scratch, (cache, next)),
                _ => mix::<V, P, 1, 8, false>(row, groups, scratch, (cache, next)),
            };
        }
    }
}

/// Whether weights meet values in two halves of four bits: sixteen bits hold the sum of a group's products with either, and of whole bytes not
/// even that of two (docs/log.md, "Sums that go to memory and back").
const fn of_halves<V: Vector>() -> bool {
    assert!(GROUP <= 4 * halves_max(15), "a group's products");
    V::HALVES
}

/// Where each half of a group begins: of what is read a segment later, and of what is read half a segment later.
#[inline(always)]
fn halves_of([a, b]: [*const u8; 2], [again_a, again_b]: [*const u8; 2]) -> [[*const u8; 2]; 2] {
    [[a, again_a], [b, again_b]]
}

/// Asks for a line of what is read a segment later and, for few rows, [again](Vector::ASKS_AGAIN) for one of what is read half a segment later.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn ask<V: Vector, const R: usize>([first, again]: [*const u8; 2], line: usize) {
    // SAFETY: the caller's contract is the same; an address may lie anywhere.
    unsafe {
        V::prefetch(first.wrapping_add(line).cast());
        if const { V::ASKS_AGAIN && R <= FEW } {
            V::prefetch(again.wrapping_add(line).cast());
        }
    }
}

/// Keeps what is asked for before from being moved behind what is multiplied after, where `R` rows are few: the compiler would ask for all lines of
/// a block at once, and what is loaded next would wait for places for lines (docs/log.md, "Asks where they were written"). Only for CPUs that are asked
/// in several streams: on others, AMD's, it was not measured.
#[inline(always)]
fn keep_asks_apart<V: Vector, const R: usize>() {
    if const { R <= 2 && V::STREAMS > 1 } {
        compiler_fence(Ordering::SeqCst);
    }
}

/// The scores of `R` queries from `row` on with a group, number `index` of those that are computed, whoever sees it: with the logarithms of
/// the scales of its values, to the base of two, unless they are to be capped. `W` vectors of positions at a time: of a few rows one, where a
/// CPU's memory gives most to one place that moves on ([`Vector::ROW_BY_ROW`]), and beside tiles. Gives back `R`.
///
/// # Safety
/// As [`segment`]; the tile has the rows.
#[inline(always)]
pub(super) unsafe fn score<V: Vector, P: Packed, const R: usize, const W: usize>(
    task: &Task<'_>,
    row: usize,
    (group, index): (Group, usize),
    scratch: &mut super::Scratch,
    (cache, next): (&Head<'_>, &Next<Head<'_>>),
) -> usize {
    let (blocks, capped) = (cache.blocks, task.attention.soft_cap.is_some());
    let bytes = &scratch.bytes;
    let queries = bytes.queries[row * blocks * BLOCK..][..R * blocks * BLOCK].as_ptr();
    let starts = bytes.starts[row * blocks..][..R * blocks].as_ptr();
    let scales = bytes.scales[row * blocks..][..R * blocks].as_ptr();
    let scores = &mut scratch.scores[row * SEGMENT + group.number * GROUP..][..(R - 1) * SEGMENT + GROUP];
    let own = group.begins(cache.keys, blocks * P::BYTES);
    // SAFETY: the caller's contract is the same.
    let asked = halves_of(unsafe { next.keys::<V, P>(index, own) }, group.begins(cache.values, blocks * P::BYTES));
    for side in (0..GROUP).step_by(W * V::LANES) {
        let (mut keys, mut steps) = ([cache.keys.as_ptr(); W], [cache.key_scales.as_ptr(); W]);
        // SAFETY: vectors lie inside the store, whose places are whole sixteens, and inside rows of the scratch.
        unsafe {
            let mut sums = [[V::float(0.0); W]; R];
            for vector in 0..W {
                let place = group.place(side + vector * V::LANES);
                let (sixteen, lane) = (place / SIDE * SIDE * blocks, place % SIDE);
                assert!(!cfg!(test) || (sixteen + SIDE * blocks) * P::BYTES <= cache.keys.len());
                keys[vector] = keys[vector].add(sixteen * P::BYTES + lane * 4);
                steps[vector] = steps[vector].add(sixteen + lane);
                if !capped {
                    let logarithms = V::load(cache.logarithms[place..][..V::LANES].as_ptr());
                    for r in 0..R {
                        sums[r][vector] = logarithms;
                    }
                }
            }
            for block in 0..blocks {
                let mut products = [[V::int(0); W]; R];
                for r in 0..R {
                    products[r] = [V::int(*starts.add(r * blocks + block)); W];
                }
                for four in 0..BLOCK / 4 {
                    if four < P::BYTES / 4 {
                        let line = (block * P::BYTES / 4 + four) * 4 * SIDE;
                        // Of each half of a group, or of one of them twice.
                        for vector in 0..W {
                            ask::<V, R>(asked[(side + vector * V::LANES) / SIDE], line);
                        }
                        keep_asks_apart::<V, R>();
                    }
                    let mut of_keys = [V::byte(0); W];
                    for vector in 0..W {
                        of_keys[vector] = P::keys::<V>(keys[vector].add(block * SIDE * P::BYTES), four);
                    }
                    for r in 0..R {
                        let query = word::<V>(queries.add((r * blocks + block) * BLOCK + four * 4).cast());
                        for vector in 0..W {
                            products[r][vector] = P::dot::<V>(products[r][vector], of_keys[vector], query);
                        }
                    }
                }
                let mut of_steps = [V::float(0.0); W];
                for vector in 0..W {
                    of_steps[vector] = V::load_half(steps[vector].add(block * SIDE));
                }
                for r in 0..R {
                    let scale = V::float(*scales.add(r * blocks + block));
                    for vector in 0..W {
                        let step = V::mul(of_steps[vector], scale);
                        sums[r][vector] = V::mul_add(V::to_float(products[r][vector]), step, sums[r][vector]);
                    }
                }
            }
            for r in 0..R {
                let to = scores.as_mut_ptr().add(r * SEGMENT + side);
                for vector in 0..W {
                    V::store(sums[r][vector], to.add(vector * V::LANES));
                }
            }
        }
    }
    R
}

/// Caps the scores of a row, adds what is missing then, and sets those that the row does not see to minus infinity.
///
/// # Safety
/// As [`segment`].
#[inline(always)]
pub(super) unsafe fn mask<V: Vector>(
    task: &Task<'_>,
    row: usize,
    groups: &[Group],
    scratch: &mut super::Scratch,
    cache: &Head<'_>,
) {
    for group in groups {
        let whole = group.is_seen_by(&scratch.seen[row]);
        if whole && task.attention.soft_cap.is_none() {
            continue;
        }
        let scores = &mut scratch.scores[row * SEGMENT + group.number * GROUP..][..GROUP];
        for at in (0..GROUP).step_by(V::LANES) {
            let logarithms = &cache.logarithms[group.place(at)..][..V::LANES];
            // SAFETY: whole vectors of the slices; the CPU has the instructions.
            unsafe {
                let mut score = V::load(scores.as_ptr().add(at));
                if let Some(cap) = task.attention.soft_cap {
                    score = V::mul(V::float(cap), vector::tanh::<V>(V::div(score, V::float(cap))));
                    score = V::mul_add(score, V::float(LOG2_E), V::load(logarithms.as_ptr()));
                }
                let (first, last) = lanes(&scratch.seen[row], group.position + at, V::LANES);
                score = V::only(score, first, last, V::float(f32::NEG_INFINITY));
                V::store(score, scores.as_mut_ptr().add(at));
            }
        }
    }
}

/// Finds the largest score of each group for a row.
///
/// # Safety
/// As [`segment`].
#[inline(always)]
unsafe fn find_most<V: Vector>(row: usize, groups: &[Group], scratch: &mut super::Scratch) {
    let scores = scratch.scores[row * SEGMENT..][..SEGMENT].as_ptr();
    let most_of = &mut scratch.bytes.most[row];
    *most_of = [f32::NEG_INFINITY; SIDE];
    for group in groups {
        // SAFETY: vectors lie inside the row.
        unsafe {
            let mut most = V::float(f32::NEG_INFINITY);
            for at in (0..GROUP).step_by(V::LANES) {
                most = V::max(V::load(scores.add(group.number * GROUP + at)), most);
            }
            most_of[group.number] = V::most(most);
        }
    }
}

/// Finds the largest score of a row, and what a step of each group's weights stands for beside it.
///
/// # Safety
/// As [`segment`].
#[inline(always)]
unsafe fn find_steps<V: Vector>(row: usize, scratch: &mut super::Scratch) {
    let (most_of, steps) = (&scratch.bytes.most[row], &mut scratch.bytes.steps[row]);
    // SAFETY: vectors lie inside arrays of sixteen.
    unsafe {
        let mut most = V::float(f32::NEG_INFINITY);
        for at in (0..SIDE).step_by(V::LANES) {
            most = V::max(V::load(most_of.as_ptr().add(at)), most);
        }
        let most = V::most(most);
        for at in (0..SIDE).step_by(V::LANES) {
            let group = V::load(most_of.as_ptr().add(at));
            // A group that the row does not see has none; the difference is not a number where it sees no group at all.
            let step = V::zero_under(vector::exp2::<V>(V::sub(group, V::float(most))), group, f32::MIN);
            V::store(step, steps.as_mut_ptr().add(at));
        }
        scratch.part.softmax.most[row] = most * LN_2;
    }
}

/// Turns the scores of a row into bytes, and sums them.
///
/// # Safety
/// As [`segment`].
#[inline(always)]
unsafe fn soften<V: Vector>(row: usize, groups: &[Group], scratch: &mut super::Scratch, cache: &Head<'_>) {
    let scores = scratch.scores[row * SEGMENT..][..SEGMENT].as_ptr();
    let weights = scratch.bytes.weights[row * SEGMENT..][..SEGMENT].as_mut_ptr();
    let (most_of, steps) = (&scratch.bytes.most[row], &scratch.bytes.steps[row]);
    let seen = &scratch.seen[row];
    // SAFETY: vectors lie inside rows of the scratch, and sixteens of places.
    unsafe {
        let mut total = V::float(0.0);
        for group in groups {
            let (scores, weights) = (scores.add(group.number * GROUP), weights.add(group.number * GROUP));
            let (base, mut sum) = (V::float(most_of[group.number] - LOG2_255), V::float(0.0));
            if group.is_seen_by(seen) {
                for at in (0..GROUP).step_by(V::LANES) {
                    let weight = vector::exp2::<V>(V::sub(V::load(scores.add(at)), base));
                    V::store_unsigned(weight, weights.add(at));
                    sum = V::mul_add(weight, V::load(cache.inverses.as_ptr().add(group.place(at))), sum);
                }
            } else {
                // Where nothing is seen all differences are minus infinity or not a number, and all weights zero.
                for at in (0..GROUP).step_by(V::LANES) {
                    let (first, last) = lanes(seen, group.position + at, V::LANES);
                    let weight = vector::exp2::<V>(V::sub(V::load(scores.add(at)), base));
                    let weight = V::only(weight, first, last, V::float(0.0));
                    let inverse = V::load(cache.inverses.as_ptr().add(group.place(at)));
                    let inverse = V::only(inverse, first, last, V::float(0.0));
                    V::store_unsigned(weight, weights.add(at));
                    sum = V::mul_add(weight, inverse, sum);
                }
            }
            total = V::mul_add(sum, V::float(steps[group.number]), total);
        }
        scratch.part.softmax.sums[row] = scratch.bytes.begin[row] + V::sum(total);
    }
}

/// Takes the bytes of a row's weights apart.
///
/// # Safety
/// As [`segment`].
#[inline(always)]
unsafe fn halve<V: Vector>(row: usize, groups: &[Group], scratch: &mut super::Scratch) {
    let (whole, halves) = scratch.bytes.weights.split_at_mut(ROWS * SEGMENT);
    let (low, high) = halves.split_at_mut(ROWS * SEGMENT);
    let whole = &whole[row * SEGMENT..][..SEGMENT];
    let (low, high) = (&mut low[row * SEGMENT..][..SEGMENT], &mut high[row * SEGMENT..][..SEGMENT]);
    for group in groups {
        for at in (group.number * GROUP..(group.number + 1) * GROUP).step_by(V::LANES * 4) {
            // SAFETY: whole vectors of each row.
            unsafe {
                let both = V::load_bytes(whole[at..][..V::LANES * 4].as_ptr());
                V::store_bytes(V::and(both, V::byte(15)), low[at..].as_mut_ptr());
                V::store_bytes(V::and(V::shift_right::<4>(both), V::byte(15)), high[at..].as_mut_ptr());
            }
        }
    }
}

/// What the values of some groups add up to for `R` rows from `row` on; `C` vectors at a time, by whole weights or by their halves. Gives back `R`.
///
/// # Safety
/// As [`segment`]; the tile has the rows.
#[inline(always)]
unsafe fn mix<V: Vector, P: Packed, const R: usize, const C: usize, const HALVES: bool>(
    row: usize,
    groups: &[Group],
    scratch: &mut super::Scratch,
    (cache, next): (&Head<'_>, &Next<Head<'_>>),
) -> usize {
    let vectors = cache.blocks * BLOCK / V::LANES;
    // SAFETY: the caller's contract is the same; vectors lie inside the width.
    unsafe {
        for vector in (0..vectors / C * C).step_by(C) {
            mix_channels::<V, P, R, C, HALVES>(row, groups, vector * V::LANES, scratch, (cache, next));
        }
        let rest = vectors / C * C;
        for vector in rest..vectors {
            mix_channels::<V, P, R, 1, HALVES>(row, groups, vector * V::LANES, scratch, (cache, next));
        }
    }
    R
}

/// The same for `C` vectors from channel `start` on. Sums stay in registers from group to group, where there are [many](has_many).
///
/// # Safety
/// As [`mix`]; the vectors lie inside the width.
#[inline(always)]
unsafe fn mix_channels<V: Vector, P: Packed, const R: usize, const C: usize, const HALVES: bool>(
    row: usize,
    groups: &[Group],
    start: usize,
    scratch: &mut super::Scratch,
    (cache, next): (&Head<'_>, &Next<Head<'_>>),
) {
    let width = cache.blocks * BLOCK;
    // Bytes from four tokens to the next four, and from block to block.
    let (apart, block) = (cache.blocks * P::BYTES * TOGETHER, P::BYTES * TOGETHER);
    // Whole weights, or the parts behind them.
    let parts = const { if HALVES { 1..3 } else { 0..1 } };
    let weights = &scratch.bytes.weights[row * SEGMENT..][..((parts.end - 1) * ROWS + R) * SEGMENT];
    assert!(!cfg!(test) || (row + R - 1) * width + start + C * V::LANES <= scratch.part.values.len());
    // Not known to the compiler, which otherwise unrolls the loop over them, computes row after row and runs out of registers.
    let fours = black_box(SIDE / TOGETHER);
    // SAFETY: four fours of tokens follow each place, which begins sixteen; weights and sums lie in the scratch.
    unsafe {
        let mut sums = [[V::float(0.0); C]; R];
        for (index, group) in groups.iter().enumerate() {
            let mut products = [[[V::int(0); C]; R]; 2];
            let own = group.begins(cache.values, cache.blocks * P::BYTES);
            let asked = halves_of(next.values::<P>(index, own), next.keys_again::<P>(index, own));
            for half in 0..2 {
                assert!(!cfg!(test) || (group.places[half] + SIDE) / TOGETHER * apart <= cache.values.len());
                let (from, asked) = (own[half], asked[half]);
                let weights = weights.as_ptr().add(group.number * GROUP + half * SIDE);
                for four in 0..fours {
                    let mut values = [V::byte(0); C];
                    for c in 0..C {
                        let channel = start + c * V::LANES;
                        let place = four * apart + channel / BLOCK * block;
                        if channel % BLOCK < P::BYTES {
                            ask::<V, R>(asked, place + channel % BLOCK * TOGETHER);
                        }
                        values[c] = P::values::<V>(from.add(place), channel % BLOCK);
                    }
                    for r in 0..R {
                        for part in parts.clone() {
                            let weights = word::<V>(weights.add((part * ROWS + r) * SEGMENT + four * TOGETHER));
                            for c in 0..C {
                                let sum = &mut products[part - parts.start][r][c];
                                *sum = if HALVES {
                                    V::dot_halves(*sum, weights, values[c])
                                } else {
                                    V::dot(*sum, weights, values[c])
                                };
                            }
                        }
                    }
                }
            }
            for r in 0..R {
                let step = V::float(scratch.bytes.steps[row + r][group.number]);
                for c in 0..C {
                    // Exact, like the sum of whole bytes.
                    let product = if HALVES {
                        let low = V::to_float(V::halves_added(products[0][r][c]));
                        V::mul_add(V::to_float(V::halves_added(products[1][r][c])), V::float(16.0), low)
                    } else {
                        V::to_float(products[0][r][c])
                    };
                    sums[r][c] = V::mul_add(product, step, sums[r][c]);
                }
            }
        }
        for r in 0..R {
            for c in 0..C {
                let to = scratch.part.values.as_mut_ptr().add((row + r) * width + start + c * V::LANES);
                V::store(sums[r][c], to);
            }
        }
    }
}

/// Four bytes from memory, in every row.
///
/// # Safety
/// The CPU has the instructions of `V`; four bytes can be read.
#[inline(always)]
pub(super) unsafe fn word<V: Vector>(from: *const u8) -> V::Bytes {
    // SAFETY: the caller's contract is the same.
    unsafe { V::word(u32::from_le_bytes(from.cast::<[u8; 4]>().read())) }
}
