//! Attention over keys and values kept as numbers, in `f32`.

use std::ops::Range;

use super::{ROWS, SEGMENT, Scratch, Task, Tile, lanes, padded};
use crate::cache::{Numbers, SIDE};
use crate::vector::{self, Stored, Vector};

/// Neighbours whose scores are computed together.
const TOGETHER: usize = 2 * SIDE;

/// Computes what a segment gives the rows of a tile.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn segment<V: Vector, E: Stored>(
    task: &Task<'_>,
    tile: &Tile,
    segment: usize,
    scratch: &mut Scratch,
    cache: &Numbers<&[E]>,
) {
    // Rows are in the order of their positions.
    let (start, end) = (scratch.seen[0].start, scratch.seen[tile.rows.len() - 1].end);
    let range = start.max(segment * SEGMENT)..end.min((segment + 1) * SEGMENT);
    let mut row = 0;
    while row < tile.rows.len() {
        // SAFETY: the caller's contract is the same, and the tile has as many rows.
        unsafe {
            row += match tile.rows.len() - row {
                8.. => rows::<V, E, 8, 2>(task, tile, row, &range, scratch, cache),
                4.. => rows::<V, E, 4, 4>(task, tile, row, &range, scratch, cache),
                2.. => rows::<V, E, 2, 8>(task, tile, row, &range, scratch, cache),
                _ => rows::<V, E, 1, 8>(task, tile, row, &range, scratch, cache),
            };
        }
    }
}

/// `R` rows from `row` on; sums over values take `C` vectors at a time. Gives back `R`.
///
/// # Safety
/// As [`segment`]; the tile has the rows.
#[inline(always)]
unsafe fn rows<V: Vector, E: Stored, const R: usize, const C: usize>(
    task: &Task<'_>,
    tile: &Tile,
    row: usize,
    range: &Range<usize>,
    scratch: &mut Scratch,
    cache: &Numbers<&[E]>,
) -> usize {
    let base = range.start / SEGMENT * SEGMENT;
    let columns = range.start / TOGETHER * TOGETHER - base..range.end.next_multiple_of(TOGETHER) - base;
    for column in columns.clone().step_by(TOGETHER) {
        // SAFETY: the caller's contract is the same.
        unsafe { score::<V, E, R>(task, tile, row, base + column, range.end - 1, scratch, cache) };
    }
    for row in row..row + R {
        // SAFETY: a whole number of vectors; the CPU has the instructions.
        scratch.part.softmax[row] = unsafe { exponentials::<V>(&mut scratch.scores[row * SEGMENT..][columns.clone()]) };
    }
    let vectors = cache.width / V::LANES;
    // SAFETY: the caller's contract is the same; vectors lie inside the width.
    unsafe {
        for vector in (0..vectors / C * C).step_by(C) {
            weigh::<V, E, R, C>(task, tile, row, range, vector * V::LANES, scratch, cache);
        }
        for vector in vectors / C * C..vectors {
            weigh::<V, E, R, 1>(task, tile, row, range, vector * V::LANES, scratch, cache);
        }
    }
    R
}

/// Writes the scores of `R` queries with the tokens from `position` on; minus infinity where a query does not see. `last` is a
/// position that is stored: nothing is read behind its sixteen.
///
/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn score<V: Vector, E: Stored, const R: usize>(
    task: &Task<'_>,
    tile: &Tile,
    row: usize,
    position: usize,
    last: usize,
    scratch: &mut Scratch,
    cache: &Numbers<&[E]>,
) {
    let head_dim = task.attention.head_dim as usize;
    let places = task.places(tile);
    let mut queries: [&[f32]; R] = [&[]; R];
    for (index, query) in queries.iter_mut().enumerate() {
        *query = task.query(tile, tile.rows.start + row + index);
    }
    for side in (0..TOGETHER).step_by(2 * V::LANES) {
        let mut keys = [cache.keys.as_ptr(); 2];
        for (index, keys) in keys.iter_mut().enumerate() {
            let at = side + index * V::LANES;
            let sixteen = places.of((position + at).min(last) / SIDE * SIDE) * cache.width;
            debug_assert!(sixteen + SIDE * cache.width <= cache.keys.len());
            // SAFETY: inside the store by the check above, which holds for every place of a page table.
            *keys = unsafe { keys.add(sixteen + at % SIDE) };
        }
        // SAFETY: sixteen tokens for each of `head_dim` values; the CPU has the instructions.
        let scores = unsafe { scores::<V, E, R>(task, &queries, keys, head_dim) };
        for (index, scores) in scores.into_iter().enumerate() {
            let seen = &scratch.seen[row + index];
            for (vector, score) in scores.into_iter().enumerate() {
                let at = position + side + vector * V::LANES;
                let place = &mut scratch.scores[(row + index) * SEGMENT + at % SEGMENT..][..V::LANES];
                let (first, last) = lanes(seen, at, V::LANES);
                // SAFETY: the place holds a vector; the CPU has the instructions.
                unsafe {
                    V::store(V::only(score, first, last, V::float(f32::NEG_INFINITY)), place.as_mut_ptr());
                };
            }
        }
    }
}

/// The scaled and capped scores of `R` queries with two vectors of tokens whose keys stand side by side, `SIDE` apart.
///
/// # Safety
/// Both of `keys` reach `V::LANES` values past `(head_dim - 1) * SIDE`; the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn scores<V: Vector, E: Stored, const R: usize>(
    task: &Task<'_>,
    queries: &[&[f32]; R],
    keys: [*const E; 2],
    head_dim: usize,
) -> [[V::Float; 2]; R] {
    // SAFETY: by the caller's contract; every query has `head_dim` values.
    unsafe {
        let mut sums = [[V::float(0.0); 2]; R];
        for index in 0..head_dim {
            let [a, b] = [E::load::<V>(keys[0].add(index * SIDE)), E::load::<V>(keys[1].add(index * SIDE))];
            for r in 0..R {
                let query = V::float(*queries[r].get_unchecked(index));
                sums[r][0] = V::mul_add(a, query, sums[r][0]);
                sums[r][1] = V::mul_add(b, query, sums[r][1]);
            }
        }
        // Loops, not closures: a closure is compiled without the instruction set of the function around it.
        for sum in sums.as_flattened_mut() {
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

/// Sums the values of the positions `range` by the exponentials in `scratch`, for `C` vectors from `start` on of each of `R` rows.
///
/// # Safety
/// As [`rows`]; the vectors lie inside the width.
#[inline(always)]
unsafe fn weigh<V: Vector, E: Stored, const R: usize, const C: usize>(
    task: &Task<'_>,
    tile: &Tile,
    row: usize,
    range: &Range<usize>,
    start: usize,
    scratch: &mut Scratch,
    cache: &Numbers<&[E]>,
) {
    debug_assert!(row + R <= ROWS);
    let (places, width) = (task.places(tile), padded(task.attention.head_dim as usize));
    let base = range.start / SEGMENT * SEGMENT;
    let mut position = range.start;
    // SAFETY: each position's vector lies in the store; weights and sums lie in the scratch.
    unsafe {
        let mut sums = [[V::float(0.0); C]; R];
        while position < range.end {
            let count = (SIDE - position % SIDE).min(range.end - position);
            let from = places.of(position) * cache.width + start;
            debug_assert!(from + (count - 1) * cache.width + C * V::LANES <= cache.values.len());
            let from = cache.values.as_ptr().add(from);
            let weights = scratch.scores.as_ptr().add(row * SEGMENT + position - base);
            for index in 0..count {
                let mut loaded = [V::float(0.0); C];
                for c in 0..C {
                    loaded[c] = E::load::<V>(from.add(index * cache.width + c * V::LANES));
                }
                for r in 0..R {
                    let weight = V::float(*weights.add(r * SEGMENT + index));
                    for c in 0..C {
                        sums[r][c] = V::mul_add(loaded[c], weight, sums[r][c]);
                    }
                }
            }
            position += count;
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (c, sum) in sums.into_iter().enumerate() {
                let to = &mut scratch.part.values[(row + r) * width + start + c * V::LANES..][..V::LANES];
                V::store(sum, to.as_mut_ptr());
            }
        }
    }
}
