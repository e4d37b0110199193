//! Attention over the paged cache.
//!
//! Positions are taken in segments of 256, each with a softmax of its own; a query's segments are then merged in order. So a
//! query sums in one order whether it came alone, in a batch or in the middle of a prompt, and one long sequence can still be
//! split over threads by segments. Query heads that share a key-value head, and neighbouring tokens of a prompt, are rows of
//! one tile: each key and value is read once for all of them.

use std::ops::Range;

use half::f16;
use kauri_arch::Attention;
use kauri_device::{Batch, Sequence, Weight, formula};

use crate::cache::{Cache, SIDE, Store};
use crate::detect::Kernels;
use crate::pool::{Disjoint, Pool, share};
use crate::vector::{self, Stored, Vector};

/// Positions that share a softmax.
const SEGMENT: usize = 256;
/// Most rows of a tile.
const ROWS: usize = 8;
/// Widest head.
const HEAD_DIM_MAX: usize = 2048;

/// One layer's attention, as all workers see it.
pub struct Task<'a> {
    attention: &'a Attention<Weight>,
    batch: &'a Batch,
    cache: &'a Cache,
    /// (tokens, heads, `head_dim`).
    query: &'a [f32],
    /// The same.
    mixed: Disjoint<'a, f32>,
}

/// Some rows of one sequence and key-value head: row `i` is query head `i % group` of the sequence's token `i / group`.
#[derive(Clone, Debug)]
pub struct Tile {
    sequence: usize,
    kv_head: usize,
    rows: Range<usize>,
}

/// One worker's memory.
pub struct Scratch {
    /// (rows, segment): scores, then their exponentials.
    scores: Vec<f32>,
    /// (rows, `head_dim` rounded up): the sum of one segment.
    segment: Vec<f32>,
    /// The same, over all segments so far.
    total: Vec<f32>,
}

impl Scratch {
    /// For heads of up to `head_dim`.
    pub fn new(head_dim: usize) -> Self {
        let values = vec![0.0; ROWS * padded(head_dim)];
        Self { scores: vec![0.0; ROWS * SEGMENT], segment: values.clone(), total: values }
    }
}

/// `mixed[t] = softmax(scale * query[t] K^T) V`; both are (tokens, heads, `head_dim`).
pub fn attend(
    pool: &mut Pool,
    kernels: Kernels,
    scratch: &mut [Scratch],
    attention: &Attention<Weight>,
    batch: &Batch,
    cache: &Cache,
    [query, mixed]: [&mut [f32]; 2],
) {
    let threads = pool.threads();
    let task = Task { attention, batch, cache, query, mixed: Disjoint::new(mixed) };
    let scratch = Disjoint::new(scratch);
    pool.run(&|worker| {
        // SAFETY: each worker takes the scratch of its own number.
        let scratch = &mut unsafe { scratch.slice(worker..worker + 1) }[0];
        for sequence in 0..batch.sequences.len() {
            let rows = batch.sequences[sequence].tokens.len() * task.group();
            let tiles = rows.div_ceil(ROWS);
            let work = tiles * attention.kv_heads as usize;
            for item in share(worker, threads, work) {
                // Later tokens see more: the tiles of a head are dealt out from both ends, so that shares are even.
                let (kv_head, tile) = (item % attention.kv_heads as usize, item / attention.kv_heads as usize);
                let tile = if tile % 2 == 0 { tile / 2 } else { tiles - 1 - tile / 2 };
                let rows = tile * ROWS..rows.min((tile + 1) * ROWS);
                kernels.attend(&task, &Tile { sequence, kv_head, rows }, scratch);
            }
        }
    });
}

impl Task<'_> {
    /// Query heads that share a key-value head.
    fn group(&self) -> usize {
        (self.attention.heads / self.attention.kv_heads) as usize
    }

    fn sequence(&self, tile: &Tile) -> &Sequence {
        &self.batch.sequences[tile.sequence]
    }

    /// The positions that a row sees.
    fn seen(&self, tile: &Tile, row: usize) -> Range<usize> {
        let position = self.sequence(tile).cached_tokens as usize + row / self.group();
        let window = self.attention.window_tokens.map_or(usize::MAX, |window| window as usize);
        (position + 1).saturating_sub(window)..position + 1
    }

    /// Where a row's values start in `query` and `mixed`.
    fn at(&self, tile: &Tile, row: usize) -> usize {
        let group = self.group();
        let token = self.sequence(tile).tokens.start + row / group;
        let head = tile.kv_head * group + row % group;
        (token * self.attention.heads as usize + head) * self.attention.head_dim as usize
    }
}

/// The formula, row by row.
pub fn scalar(task: &Task<'_>, tile: &Tile, scratch: &mut Scratch) {
    let head_dim = task.attention.head_dim as usize;
    let pages = &task.batch.pages[task.sequence(tile).pages.clone()];
    let vector = &mut scratch.segment[..head_dim];
    let total = &mut scratch.total[..head_dim];
    for row in tile.rows.clone() {
        let at = task.at(tile, row);
        let q = &task.query[at..at + head_dim];
        let seen = task.seen(tile, row);
        let mut merged: Option<(f32, f32)> = None;
        for segment in seen.start / SEGMENT..seen.end.div_ceil(SEGMENT) {
            let range = seen.start.max(segment * SEGMENT)..seen.end.min((segment + 1) * SEGMENT);
            let scores = &mut scratch.scores[..range.len()];
            for (score, position) in scores.iter_mut().zip(range.clone()) {
                task.cache.read_key(pages, position, tile.kv_head, vector);
                *score = formula::dot(q, vector) * task.attention.scale;
                if let Some(cap) = task.attention.soft_cap {
                    *score = formula::soft_cap(*score, cap);
                }
            }
            let (most, sum) = formula::exponentials(scores);
            let (kept, added) = merge(&mut merged, most, sum);
            total.iter_mut().for_each(|total| *total = if kept == 0.0 { 0.0 } else { *total * kept });
            for (weight, position) in scores.iter().zip(range) {
                task.cache.read_value(pages, position, tile.kv_head, vector);
                total.iter_mut().zip(vector.iter()).for_each(|(total, value)| *total += weight * added * value);
            }
        }
        let sum = merged.map_or(1.0, |(_, sum)| sum);
        // SAFETY: rows are dealt out to workers without overlap.
        let mixed = unsafe { task.mixed.slice(at..at + head_dim) };
        mixed.iter_mut().zip(total.iter()).for_each(|(mixed, total)| *mixed = total / sum);
    }
}

/// Takes a segment's largest score and sum of exponentials into those of the segments before it; gives back the factors on
/// what was summed before and on what is added.
fn merge(merged: &mut Option<(f32, f32)>, most: f32, sum: f32) -> (f32, f32) {
    match *merged {
        None => {
            *merged = Some((most, sum));
            (0.0, 1.0)
        }
        Some((most_before, sum_before)) => {
            let highest = most.max(most_before);
            let (kept, added) = ((most_before - highest).exp(), (most - highest).exp());
            *merged = Some((highest, sum_before * kept + sum * added));
            (kept, added)
        }
    }
}

/// A tile with the instructions of `V`.
///
/// # Safety
/// The CPU has them; no other worker writes the rows of the tile.
#[inline(always)]
pub unsafe fn tile<V: Vector>(task: &Task<'_>, tile: &Tile, scratch: &mut Scratch) {
    let mut left = tile.clone();
    while !left.rows.is_empty() {
        let start = left.rows.start;
        // SAFETY: the caller's contract is the same; the rows of `left` are rows of the tile.
        unsafe {
            match (&task.cache.keys, &task.cache.values) {
                (Store::F32(keys), Store::F32(values)) => {
                    left.rows.start += some::<V, f32>(task, &left, scratch, keys, values);
                }
                (Store::F16(keys), Store::F16(values)) => {
                    left.rows.start += some::<V, f16>(task, &left, scratch, keys, values);
                }
                _ => unreachable!("keys and values are stored alike"),
            }
        }
        debug_assert!(left.rows.start > start);
    }
}

/// As many of the first rows of a tile as fit a register tile; gives back how many.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn some<V: Vector, E: Stored>(
    task: &Task<'_>,
    tile: &Tile,
    scratch: &mut Scratch,
    keys: &[E],
    values: &[E],
) -> usize {
    // SAFETY: the caller's contract is the same, and the tile has as many rows.
    unsafe {
        match tile.rows.len() {
            8.. => rows::<V, E, 8, 2>(task, tile, scratch, keys, values),
            4.. => rows::<V, E, 4, 4>(task, tile, scratch, keys, values),
            2.. => rows::<V, E, 2, 8>(task, tile, scratch, keys, values),
            _ => rows::<V, E, 1, 8>(task, tile, scratch, keys, values),
        }
    }
}

/// The first `R` rows of a tile; sums over values take `C` vectors at a time. Gives back `R`.
///
/// # Safety
/// As [`tile`]; the tile has `R` rows.
#[inline(always)]
unsafe fn rows<V: Vector, E: Stored, const R: usize, const C: usize>(
    task: &Task<'_>,
    tile: &Tile,
    scratch: &mut Scratch,
    keys: &[E],
    values: &[E],
) -> usize {
    let head_dim = task.attention.head_dim as usize;
    let width = padded(head_dim);
    let seen: [Range<usize>; R] = std::array::from_fn(|r| task.seen(tile, tile.rows.start + r));
    let at: [usize; R] = std::array::from_fn(|r| task.at(tile, tile.rows.start + r));
    let query: [&[f32]; R] = at.map(|at| &task.query[at..at + head_dim]);
    // Rows are in the order of their positions.
    let all = seen[0].start..seen[R - 1].end;
    let mut merged: [Option<(f32, f32)>; R] = [None; R];
    for segment in all.start / SEGMENT..all.end.div_ceil(SEGMENT) {
        let range = all.start.max(segment * SEGMENT)..all.end.min((segment + 1) * SEGMENT);
        let blocks = range.start / SIDE..range.end.div_ceil(SIDE);
        // SAFETY: the caller's contract is the same.
        unsafe { score::<V, E, R>(task, tile, scratch, keys, &query, &seen, blocks.clone()) };
        let columns = blocks.start * SIDE - segment * SEGMENT..blocks.end * SIDE - segment * SEGMENT;
        let mut factors = [(1.0, 0.0); R];
        for r in 0..R {
            let scores = &mut scratch.scores[r * SEGMENT..][columns.clone()];
            // SAFETY: the CPU has the instructions.
            let (most, sum) = unsafe { exponentials::<V>(scores) };
            // A row that sees nothing of the segment keeps what it has.
            if most > f32::NEG_INFINITY || most.is_nan() {
                factors[r] = merge(&mut merged[r], most, sum);
            }
        }
        // SAFETY: scratch holds R rows; values of every position of the range; the CPU has the instructions.
        unsafe {
            for chunk in (0..width).step_by(C * V::LANES) {
                let vectors = C.min((width - chunk) / V::LANES);
                if vectors == C {
                    weigh::<V, E, R, C>(task, tile, scratch, values, range.clone(), chunk, width);
                } else {
                    for vector in 0..vectors {
                        weigh::<V, E, R, 1>(
                            task,
                            tile,
                            scratch,
                            values,
                            range.clone(),
                            chunk + vector * V::LANES,
                            width,
                        );
                    }
                }
            }
        }
        for (r, (kept, added)) in factors.into_iter().enumerate() {
            let total = &mut scratch.total[r * width..(r + 1) * width];
            for (total, segment) in total.iter_mut().zip(&scratch.segment[r * width..]) {
                let before = if kept == 0.0 { 0.0 } else { *total * kept };
                *total = if added == 0.0 { before } else { segment.mul_add(added, before) };
            }
        }
    }
    for r in 0..R {
        let sum = merged[r].map_or(1.0, |(_, sum)| sum);
        // SAFETY: rows are dealt out to workers without overlap.
        let mixed = unsafe { task.mixed.slice(at[r]..at[r] + head_dim) };
        mixed.iter_mut().zip(&scratch.total[r * width..]).for_each(|(mixed, total)| *mixed = total / sum);
    }
    R
}

/// Writes the scores of `R` queries with the tokens of `blocks`, all of one segment; minus infinity where a query does not see.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn score<V: Vector, E: Stored, const R: usize>(
    task: &Task<'_>,
    tile: &Tile,
    scratch: &mut Scratch,
    keys: &[E],
    query: &[&[f32]; R],
    seen: &[Range<usize>; R],
    blocks: Range<usize>,
) {
    let head_dim = task.attention.head_dim as usize;
    let pages = &task.batch.pages[task.sequence(tile).pages.clone()];
    let base = blocks.start * SIDE / SEGMENT * SEGMENT;
    for block in blocks {
        let at = task.cache.keys_at(pages, block * SIDE, tile.kv_head);
        let keys = &keys[at..at + SIDE * head_dim];
        let column = block * SIDE - base;
        for side in (0..SIDE).step_by(V::LANES) {
            // SAFETY: keys of SIDE tokens for each of `head_dim` values; the CPU has the instructions.
            let scores = unsafe { scores::<V, E, R>(task, query, &keys[side..], head_dim) };
            for (r, score) in scores.into_iter().enumerate() {
                let first = seen[r].start as i64 - (block * SIDE + side) as i64;
                let last = seen[r].end as i64 - 1 - (block * SIDE + side) as i64;
                let clamp = |lane: i64| lane.clamp(-1, V::LANES as i64) as i32;
                let place = &mut scratch.scores[r * SEGMENT + column + side..][..V::LANES];
                // SAFETY: the place holds a vector; the CPU has the instructions.
                unsafe {
                    V::store(
                        V::only(score, clamp(first), clamp(last), V::float(f32::NEG_INFINITY)),
                        place.as_mut_ptr(),
                    );
                };
            }
        }
    }
}

/// The scaled and capped scores of `R` queries with `V::LANES` tokens whose keys stand side by side, `SIDE` apart.
///
/// # Safety
/// `keys` reaches `V::LANES` values past `(head_dim - 1) * SIDE`; the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn scores<V: Vector, E: Stored, const R: usize>(
    task: &Task<'_>,
    query: &[&[f32]; R],
    keys: &[E],
    head_dim: usize,
) -> [V::Float; R] {
    let keys = keys.as_ptr();
    // SAFETY: by the caller's contract; every query has `head_dim` values.
    unsafe {
        let mut sums = [V::float(0.0); R];
        for index in 0..head_dim {
            let key = E::load::<V>(keys.add(index * SIDE));
            for r in 0..R {
                sums[r] = V::mul_add(key, V::float(*query[r].get_unchecked(index)), sums[r]);
            }
        }
        // Loops, not closures: a closure is compiled without the instruction set of the function around it.
        for sum in &mut sums {
            *sum = V::mul(*sum, V::float(task.attention.scale));
            if let Some(cap) = task.attention.soft_cap {
                *sum = V::mul(V::float(cap), vector::tanh::<V>(V::div(*sum, V::float(cap))));
            }
        }
        sums
    }
}

/// Turns scores into exponentials over their largest, in place; gives back the largest and the sum.
///
/// # Safety
/// The CPU has the instructions of `V`; `scores` is a whole number of vectors.
#[inline(always)]
unsafe fn exponentials<V: Vector>(scores: &mut [f32]) -> (f32, f32) {
    let (at, count) = (scores.as_mut_ptr(), scores.len());
    // SAFETY: every access is a whole vector inside the slice.
    unsafe {
        let mut most = V::float(f32::NEG_INFINITY);
        for index in (0..count).step_by(V::LANES) {
            most = V::max(V::load(at.add(index)), most);
        }
        let most = V::most(most);
        if most == f32::NEG_INFINITY {
            scores.fill(0.0);
            return (most, 0.0);
        }
        let mut sum = V::float(0.0);
        for index in (0..count).step_by(V::LANES) {
            let score = V::load(at.add(index));
            // Where nothing is seen the difference is minus infinity, whose exponential must be zero exactly.
            let value = V::zero_under(vector::exp::<V>(V::sub(score, V::float(most))), score, f32::MIN);
            V::store(value, at.add(index));
            sum = V::add(sum, value);
        }
        (most, V::sum(sum))
    }
}

/// Sums the values of the positions `range` by the exponentials in `scratch`, for `C` vectors of each of `R` rows.
///
/// # Safety
/// The CPU has the instructions of `V`; `scratch` holds `R` rows of `width` values, and exponentials for the range.
#[inline(always)]
unsafe fn weigh<V: Vector, E: Stored, const R: usize, const C: usize>(
    task: &Task<'_>,
    tile: &Tile,
    scratch: &mut Scratch,
    values: &[E],
    range: Range<usize>,
    chunk: usize,
    width: usize,
) {
    let pages = &task.batch.pages[task.sequence(tile).pages.clone()];
    let base = range.start / SEGMENT * SEGMENT;
    // SAFETY: each position's vector lies in the store, which is padded by a vector; weights and sums lie in the scratch.
    unsafe {
        let mut sums = [[V::float(0.0); C]; R];
        for position in range {
            let at = task.cache.value_at(pages, position, tile.kv_head) + chunk;
            debug_assert!(at + C * V::LANES <= values.len());
            let from = values.as_ptr().add(at);
            let mut loaded = [V::float(0.0); C];
            for c in 0..C {
                loaded[c] = E::load::<V>(from.add(c * V::LANES));
            }
            for r in 0..R {
                let weight = V::float(*scratch.scores.get_unchecked(r * SEGMENT + position - base));
                for c in 0..C {
                    sums[r][c] = V::mul_add(loaded[c], weight, sums[r][c]);
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (c, sum) in sums.into_iter().enumerate() {
                V::store(sum, scratch.segment.as_mut_ptr().add(r * width + chunk + c * V::LANES));
            }
        }
    }
}

/// A head's width in memory of the scratch.
fn padded(head_dim: usize) -> usize {
    debug_assert!(head_dim <= HEAD_DIM_MAX);
    head_dim.next_multiple_of(SIDE)
}
