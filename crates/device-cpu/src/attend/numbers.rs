//! Attention over keys and values kept as numbers, in `f32`.

use std::ops::Range;

use super::next::{FEW, Next};
use super::{ROWS, SEGMENT, Scratch, Task, Tile, has_many, lanes, padded};
use crate::cache::{Numbers, SIDE};
use crate::foresight;
use crate::product::LINE;
use crate::vector::{self, Stored, Vector};

/// Neighbours whose scores are computed together.
const TOGETHER: usize = 2 * SIDE;

/// Keys and values of one head, and what is read behind them.
type Read<'a, E> = (&'a Numbers<&'a [E]>, &'a Next<Numbers<&'a [E]>>);

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
    (cache, next): Read<'_, E>,
) {
    // Rows are in the order of their positions.
    let (start, end) = (scratch.seen[0].start, scratch.seen[tile.rows.len() - 1].end);
    let range = start.max(segment * SEGMENT)..end.min((segment + 1) * SEGMENT);
    let (count, base) = (tile.rows.len(), segment * SEGMENT);
    let columns = range.start / TOGETHER * TOGETHER - base..range.end.next_multiple_of(TOGETHER) - base;
    // SAFETY: the caller's contract is the same, and the tile has as many rows.
    unsafe {
        for column in columns.clone().step_by(TOGETHER) {
            let (position, last, mut row) = (base + column, range.end - 1, 0);
            let sixteen = (column - columns.start) / SIDE;
            while row < count {
                row += match count - row {
                    _ if cache.rows.is_some() => score_rows::<V, E>(task, tile, row, position, last, scratch, cache),
                    8.. if const { has_many::<V>() } => {
                        score::<V, E, 8>(task, tile, row, (position, sixteen), last, scratch, (cache, next))
                    }
                    6.. if const { !has_many::<V>() } => {
                        score::<V, E, 6>(task, tile, row, (position, sixteen), last, scratch, (cache, next))
                    }
                    4.. => score::<V, E, 4>(task, tile, row, (position, sixteen), last, scratch, (cache, next)),
                    2.. => score::<V, E, 2>(task, tile, row, (position, sixteen), last, scratch, (cache, next)),
                    _ => score::<V, E, 1>(task, tile, row, (position, sixteen), last, scratch, (cache, next)),
                };
            }
        }
        for row in 0..count {
            let scores = &mut scratch.scores[row * SEGMENT..][columns.clone()];
            task.lean(tile, row, scores, base + columns.start, 1.0);
            let (most, sum) = exponentials::<V>(scores);
            (scratch.part.softmax.most[row], scratch.part.softmax.sums[row]) = (most, sum);
        }
        // A few channels of all positions stay in the first-level cache while all rows are summed.
        let width = (task.attention.value_dim as usize).next_multiple_of(SIDE);
        let (vectors, mut vector) = (width / V::LANES, 0);
        while vector < vectors {
            vector += match (count, vectors - vector) {
                (4.., 2..) if const { !has_many::<V>() } => {
                    channels::<V, E, 2>(task, tile, &range, vector, scratch, (cache, next))
                }
                (8.., 2..) => channels::<V, E, 2>(task, tile, &range, vector, scratch, (cache, next)),
                (4.., 4..) if const { has_many::<V>() } => {
                    channels::<V, E, 4>(task, tile, &range, vector, scratch, (cache, next))
                }
                (..4, 8..) => channels::<V, E, 8>(task, tile, &range, vector, scratch, (cache, next)),
                _ => channels::<V, E, 1>(task, tile, &range, vector, scratch, (cache, next)),
            };
        }
    }
}

/// Sums `C` vectors of values from number `vector` on for all rows. Gives back `C`.
///
/// # Safety
/// As [`segment`]; the vectors lie inside the width.
#[inline(always)]
unsafe fn channels<V: Vector, E: Stored, const C: usize>(
    task: &Task<'_>,
    tile: &Tile,
    range: &Range<usize>,
    vector: usize,
    scratch: &mut Scratch,
    read: Read<'_, E>,
) -> usize {
    let (count, start, mut row) = (tile.rows.len(), vector * V::LANES, 0);
    while row < count {
        // SAFETY: the caller's contract is the same, and the tile has as many rows. More than sixteen
        // sums are never asked for: eight vectors of two rows at most, which read values from memory in one turn.
        unsafe {
            row += match count - row {
                8.. if C <= 2 && const { has_many::<V>() } => {
                    weigh::<V, E, 8, C>(task, tile, row, range, start, scratch, read)
                }
                6.. if C <= 2 && const { !has_many::<V>() } => {
                    weigh::<V, E, 6, C>(task, tile, row, range, start, scratch, read)
                }
                4.. if C <= 4 => weigh::<V, E, 4, C>(task, tile, row, range, start, scratch, read),
                2.. => weigh::<V, E, 2, C>(task, tile, row, range, start, scratch, read),
                _ => weigh::<V, E, 1, C>(task, tile, row, range, start, scratch, read),
            };
        }
    }
    C
}

/// Writes the scores of `R` queries with the tokens from `position` on, whose first sixteen have that number in the segment; minus infinity where
/// a query does not see. `last` is a position that is stored: nothing is read behind its sixteen. Gives back `R`.
///
/// # Safety
/// As [`segment`]; the tile has the rows.
#[inline(always)]
unsafe fn score<V: Vector, E: Stored, const R: usize>(
    task: &Task<'_>,
    tile: &Tile,
    row: usize,
    (position, sixteen): (usize, usize),
    last: usize,
    scratch: &mut Scratch,
    (cache, next): Read<'_, E>,
) -> usize {
    let head_dim = task.attention.head_dim as usize;
    let places = task.places(tile);
    let mut queries: [&[f32]; R] = [&[]; R];
    for (index, query) in queries.iter_mut().enumerate() {
        *query = task.query(tile, tile.rows.start + row + index);
    }
    for side in (0..TOGETHER).step_by(2 * V::LANES) {
        let mut keys = [cache.keys.as_ptr(); 2];
        let mut asked = keys;
        for index in 0..2 {
            let at = side + index * V::LANES;
            let place = places.of((position + at).min(last) / SIDE * SIDE) * cache.width;
            assert!(!cfg!(test) || place + SIDE * cache.width <= cache.keys.len());
            // SAFETY: inside the store by the check above, which holds for every place of a page table.
            keys[index] = unsafe { keys[index].add(place + at % SIDE) };
            asked[index] = next.keys_of(sixteen + at / SIDE, keys[index]);
        }
        // SAFETY: sixteen tokens for each of `head_dim` values; the CPU has the instructions.
        let scores = unsafe { scores::<V, E, R>(task, &queries, (keys, asked), head_dim) };
        for index in 0..R {
            let seen = &scratch.seen[row + index];
            for vector in 0..2 {
                let at = position + side + vector * V::LANES;
                let place = &mut scratch.scores[(row + index) * SEGMENT + at % SEGMENT..][..V::LANES];
                let (first, last) = lanes(seen, at, V::LANES);
                // SAFETY: the place holds a vector; the CPU has the instructions.
                unsafe {
                    let score = V::only(scores[index][vector], first, last, V::float(f32::NEG_INFINITY));
                    V::store(score, place.as_mut_ptr());
                };
            }
        }
    }
    R
}

/// As [`score`], where a key is a row: of up to four queries, a few tokens at a time. Gives back how many.
///
/// # Safety
/// As [`score`].
#[inline(always)]
unsafe fn score_rows<V: Vector, E: Stored>(
    task: &Task<'_>,
    tile: &Tile,
    row: usize,
    position: usize,
    last: usize,
    scratch: &mut Scratch,
    cache: &Numbers<&[E]>,
) -> usize {
    // SAFETY: the caller's contract is the same, and the tile has as many rows.
    unsafe {
        match tile.rows.len() - row {
            4.. if V::LANES == SIDE => dots::<V, E, 4, 4>(task, tile, row, position, last, scratch, cache),
            4.. => dots::<V, E, 4, 2>(task, tile, row, position, last, scratch, cache),
            2.. => dots::<V, E, 2, 2>(task, tile, row, position, last, scratch, cache),
            _ => dots::<V, E, 1, 2>(task, tile, row, position, last, scratch, cache),
        }
    }
}

/// As [`score_rows`], of `R` queries, `P` tokens at a time. Each score is summed by itself, in one order.
///
/// # Safety
/// As [`score`].
#[inline(always)]
unsafe fn dots<V: Vector, E: Stored, const R: usize, const P: usize>(
    task: &Task<'_>,
    tile: &Tile,
    row: usize,
    position: usize,
    last: usize,
    scratch: &mut Scratch,
    cache: &Numbers<&[E]>,
) -> usize {
    let head_dim = task.attention.head_dim as usize;
    let places = task.places(tile);
    let mut queries: [&[f32]; R] = [&[]; R];
    for (index, query) in queries.iter_mut().enumerate() {
        *query = task.query(tile, tile.rows.start + row + index);
    }
    // What is left of a query behind whole vectors, and zeros; behind a key there are zeros too.
    let whole = head_dim / V::LANES * V::LANES;
    let mut rest = [[0.0; SIDE]; R];
    for (rest, query) in rest.iter_mut().zip(&queries) {
        rest[..head_dim - whole].copy_from_slice(&query[whole..]);
    }
    for first in (position..position + TOGETHER).step_by(P) {
        let mut keys = [cache.values.as_ptr(); P];
        for (index, keys) in keys.iter_mut().enumerate() {
            let at = places.of((first + index).min(last)) * cache.width;
            assert!(!cfg!(test) || at + cache.width <= cache.values.len());
            // SAFETY: inside the store by the check above, which holds for every place of a page table.
            *keys = unsafe { keys.add(at) };
        }
        let mut sums = [[0.0; P]; R];
        // SAFETY: a row is a whole number of vectors, no fewer than those of a query; the CPU has the instructions.
        unsafe {
            let mut parts = [[V::float(0.0); P]; R];
            for start in (0..head_dim).step_by(V::LANES) {
                let mut loaded = [V::float(0.0); P];
                for p in 0..P {
                    loaded[p] = E::load::<V>(keys[p].add(start));
                }
                for r in 0..R {
                    let from = if start < whole { queries[r].as_ptr().add(start) } else { rest[r].as_ptr() };
                    let query = V::load(from);
                    for p in 0..P {
                        parts[r][p] = V::mul_add(loaded[p], query, parts[r][p]);
                    }
                }
            }
            for r in 0..R {
                for p in 0..P {
                    sums[r][p] = V::sum(parts[r][p]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let seen = &scratch.seen[row + r];
            for (p, sum) in sums.iter().enumerate() {
                let place = &mut scratch.scores[(row + r) * SEGMENT + (first + p) % SEGMENT];
                *place = if seen.contains(&(first + p)) { sum * task.attention.scale } else { f32::NEG_INFINITY };
            }
        }
    }
    R
}

/// The scaled and capped scores of `R` queries with two vectors of tokens whose keys stand side by side, `SIDE` apart. Lines of the keys that
/// are `asked` for are those of the two vectors' sixteens, or of the one that both are of.
///
/// # Safety
/// Both of `keys` reach `V::LANES` values past `(head_dim - 1) * SIDE`; the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn scores<V: Vector, E: Stored, const R: usize>(
    task: &Task<'_>,
    queries: &[&[f32]; R],
    (keys, asked): ([*const E; 2], [*const E; 2]),
    head_dim: usize,
) -> [[V::Float; 2]; R] {
    // SAFETY: by the caller's contract; every query has `head_dim` values.
    unsafe {
        let mut sums = [[V::float(0.0); 2]; R];
        for index in 0..head_dim {
            if R <= FEW && begins_line::<E>(index * SIDE) {
                for asked in &asked[..if V::LANES == SIDE { 2 } else { 1 }] {
                    foresight::ask(asked.wrapping_add(index * SIDE).addr());
                }
            }
            let [a, b] = [E::load::<V>(keys[0].add(index * SIDE)), E::load::<V>(keys[1].add(index * SIDE))];
            for r in 0..R {
                let query = V::float(*queries[r].get_unchecked(index));
                sums[r][0] = V::mul_add(a, query, sums[r][0]);
                sums[r][1] = V::mul_add(b, query, sums[r][1]);
            }
        }
        // Loops over numbers, not closures, which are compiled without the instruction set of the function around them, nor iterators over
        // sums, which the compiler then writes to memory with every product.
        for r in 0..R {
            for vector in 0..2 {
                sums[r][vector] = V::mul(sums[r][vector], V::float(task.attention.scale));
                if let Some(cap) = task.attention.soft_cap {
                    let part = V::div(sums[r][vector], V::float(cap));
                    sums[r][vector] = V::mul(V::float(cap), vector::tanh::<V>(part));
                }
            }
        }
        sums
    }
}

/// Whether a line begins with this one of the numbers of a row.
#[inline(always)]
const fn begins_line<E>(index: usize) -> bool {
    (index * size_of::<E>()).is_multiple_of(LINE)
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
            // Nothing is seen, or the query is no number: then neither is what the largest passed over.
            let is_broken = scores.iter().any(|score| score.is_nan());
            scores.fill(0.0);
            return if is_broken { (f32::NAN, f32::NAN) } else { (most, 0.0) };
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
/// Gives back `R`.
///
/// # Safety
/// As [`segment`]; the tile has the rows, and the vectors lie inside the width.
#[inline(always)]
unsafe fn weigh<V: Vector, E: Stored, const R: usize, const C: usize>(
    task: &Task<'_>,
    tile: &Tile,
    row: usize,
    range: &Range<usize>,
    start: usize,
    scratch: &mut Scratch,
    (cache, next): Read<'_, E>,
) -> usize {
    assert!(!cfg!(test) || row + R <= ROWS);
    let (places, width) = (task.places(tile), padded(task.attention.head_dim as usize));
    let base = range.start / SEGMENT * SEGMENT;
    let mut position = range.start;
    // SAFETY: each position's vector lies in the store; weights and sums lie in the scratch.
    unsafe {
        let mut sums = [[V::float(0.0); C]; R];
        while position < range.end {
            let count = (SIDE - position % SIDE).min(range.end - position);
            let from = places.of(position) * cache.width + cache.rows.unwrap_or(0) + start;
            assert!(!cfg!(test) || from + (count - 1) * cache.width + C * V::LANES <= cache.values.len());
            let from = cache.values.as_ptr().add(from);
            let sixteen = position / SIDE - range.start / SIDE / 2 * 2;
            let asked = next.values_of(sixteen, from.wrapping_sub(start)).wrapping_add(start);
            let weights = scratch.scores.as_ptr().add(row * SEGMENT + position - base);
            for index in 0..count {
                let mut loaded = [V::float(0.0); C];
                for c in 0..C {
                    let at = index * cache.width + c * V::LANES;
                    if R <= FEW && begins_line::<E>(start + c * V::LANES) {
                        foresight::ask(asked.wrapping_add(at).addr());
                    }
                    loaded[c] = E::load::<V>(from.add(at));
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
    R
}
