//! Attention over keys and values kept as bytes, by tile registers.
//!
//! *Scores* are those of [`super::bytes`], to the bit: a register adds up a block of 32 channels for sixteen rows and sixteen
//! positions, exactly, and is emptied, since each block of a key has a scale; scales meet the sums in the same order.
//!
//! *Weights* are rounded to two bytes, under one scale for the whole segment: half a step is a 131,070th of the largest, where
//! a byte under its group's scale is off by up to a 510th of the group's. So nothing is scaled between the positions of a
//! segment, and a register adds up all of them, the upper bytes' products beside the lower ones', before it is emptied.
//!
//! A few rows meet vectors instead of tiles. The sums of a segment are integers either way: the same bits.

use std::arch::asm;
use std::arch::x86_64::{
    __m512, __m512i, _mm256_loadu_si256, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_cvtepi32_ps,
    _mm512_cvtph_ps, _mm512_cvtps_epi32, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_max_ps,
    _mm512_mul_ps, _mm512_packus_epi16, _mm512_packus_epi32, _mm512_permutexvar_epi32, _mm512_reduce_add_ps,
    _mm512_reduce_max_ps, _mm512_reduce_ps, _mm512_scalef_ps, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_ps,
    _mm512_setr_epi32, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_slli_epi32, _mm512_srli_epi16, _mm512_storeu_ps,
    _mm512_storeu_si512, _mm512_sub_epi8, _mm512_sub_ps,
};
use std::f32::consts::{LN_2, LOG2_E};
use std::hint::black_box;
use std::ops::Range;

use super::bytes::{self, Head, word};
use super::next::{GROUP, GROUPS, Group, Next};
use super::{ROWS, SEGMENT, Shares, Task, Tile, ask_for_query, lanes};
use crate::cache::SIDE;
use crate::cache::bytes::{BLOCK, Nibble, Octet, Owned, Packed, TOGETHER};
use crate::product::Line;
use crate::vector::Vector;
use crate::x86_64::amx::{self, Beside, ROW_BYTES, Shape, release};

/// Rows from which on tiles are quicker than vectors.
const ENOUGH: usize = 5;
/// Groups whose positions are bytes of one row of a register.
const TOGETHER_GROUPS: usize = ROW_BYTES / GROUP;
/// Positions of those.
const CHUNK: usize = TOGETHER_GROUPS * GROUP;
/// Sixteens of positions in them.
const SIDES: usize = CHUNK / SIDE;
/// Lines of a row's weights: upper bytes or lower ones.
const WEIGHT_LINES: usize = SEGMENT / ROW_BYTES;
/// The largest weight.
const UNIT: f32 = 65535.0;

/// One worker's memory.
pub struct Scratch {
    /// What they are emptied to: (sixteens of positions, blocks, rows of a register), or four of them.
    sums: Vec<Line>,
    /// Upper bytes of all weights, then lower ones: (rows, segment) each.
    weights: Vec<Line>,
    /// Keys of a chunk as bytes, where they are kept as less: (sixteens of positions, channels / 4, 16, 4).
    keys: Vec<Line>,
    /// Values of a segment as bytes, where they are kept as less or where the positions of a chunk do not stand side by side:
    /// (positions / 4, channels, 4).
    values: Vec<Line>,
}

impl Scratch {
    /// For heads of up to `width` values, a whole number of blocks.
    pub fn new(width: usize) -> Self {
        let lines = |bytes: usize| vec![Line([0; SIDE]); bytes / ROW_BYTES];
        let blocks = width / BLOCK;
        Self {
            sums: lines(SIDES * blocks * amx::ROWS * ROW_BYTES),
            weights: lines(2 * ROWS * SEGMENT),
            keys: lines(CHUNK * width),
            values: lines(SEGMENT * width),
        }
    }
}

/// A tile of attention on a CPU with tile registers.
///
/// # Safety
/// The CPU has AMX; no other worker writes the rows of the tile.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn attend(task: &Task<'_>, tile: &Tile, scratch: &mut super::Scratch) {
    // SAFETY: the caller's contract is the same.
    unsafe {
        match &task.cache.kept {
            super::Kept::F32(_) | super::Kept::F16(_) => super::tile::<Beside>(task, tile, scratch),
            super::Kept::Q8_0(cache) => of_bytes::<Octet>(task, tile, scratch, cache),
            super::Kept::Q4_0(cache) => of_bytes::<Nibble>(task, tile, scratch, cache),
        }
    }
}

/// The same for keys and values kept as bytes.
///
/// # Safety
/// As [`attend`].
#[inline(always)]
unsafe fn of_bytes<P: Packed>(task: &Task<'_>, tile: &Tile, scratch: &mut super::Scratch, cache: &Owned) {
    task.begin(tile, scratch);
    let count = tile.rows.len();
    // SAFETY: the caller's contract is the same.
    unsafe {
        bytes::prepare::<Beside>(task, tile, scratch);
        if count < ENOUGH {
            bytes::find_starts::<Beside, P>(task, tile, scratch);
        }
        scratch.total.unit = UNIT;
        for row in 0..ROWS {
            ask_for_query::<Beside>(task, tile, row);
        }
        for segment in tile.segments.clone() {
            let next = Next::behind(task, tile, segment, scratch, |kv_head| cache.head::<P>(task.head(kv_head)));
            of_segment::<P>(task, tile, segment, scratch, (&cache.head::<P>(task.head(tile.kv_head)), &next));
        }
        if count >= ENOUGH {
            release();
        }
    }
    task.end(tile, scratch);
}

/// Computes what a segment gives the rows of a tile, and takes it to the others.
///
/// # Safety
/// As [`attend`]; the queries are prepared.
#[inline(always)]
unsafe fn of_segment<P: Packed>(
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
    let positions = (range.start / CHUNK * CHUNK..range.end.next_multiple_of(CHUNK)).step_by(GROUP);
    let mut groups = [Group::default(); GROUPS];
    let groups = &mut groups[..positions.len()];
    for (group, position) in groups.iter_mut().zip(positions) {
        *group = Group::at(position, &range, &places);
    }
    // SAFETY: the caller's contract is the same, and the tile has as many rows.
    unsafe {
        if count >= ENOUGH {
            score::<P>(task, count, groups, scratch, cache);
        } else {
            for index in 0..groups.len() {
                let (group, mut row) = ((groups[index], index), 0);
                while row < count {
                    row += match count - row {
                        4.. => bytes::score::<Beside, P, 4, 2>(task, row, group, scratch, (cache, next)),
                        2.. => bytes::score::<Beside, P, 2, 1>(task, row, group, scratch, (cache, next)),
                        _ => bytes::score::<Beside, P, 1, 1>(task, row, group, scratch, (cache, next)),
                    };
                }
            }
        }
        // Step by step for all rows: what one step of a row waits for is done while others are.
        for row in 0..count {
            next.ask_for_values::<P>(row);
            let changes = task.attention.soft_cap.is_some() || !is_seen(&scratch.seen[row], groups);
            if changes {
                bytes::mask::<Beside>(task, row, groups, scratch, cache);
            }
            if let Some(first) = groups.first() {
                let scores = &mut scratch.scores[row * SEGMENT + first.number * GROUP..][..groups.len() * GROUP];
                task.lean(tile, row, scores, first.position, LOG2_E);
            }
            if changes || task.attention.alibi.is_some() || count < ENOUGH {
                find_most(row, groups, scratch);
            }
        }
        for row in 0..count {
            next.ask_for_values::<P>(count + row);
            weigh(row, groups, scratch, cache);
        }
        if count >= ENOUGH {
            mix::<P>(task, tile, segment, groups, scratch, cache);
        } else {
            let mut row = 0;
            while row < count {
                row += match count - row {
                    4.. => mix_few::<P, 4, 2>(row, groups, scratch, (cache, next)),
                    2.. => mix_few::<P, 2, 4>(row, groups, scratch, (cache, next)),
                    _ => mix_few::<P, 1, 8>(row, groups, scratch, (cache, next)),
                };
            }
            task.take(tile, segment, scratch);
        }
    }
}

/// Whether a row sees all of some groups, one behind the other.
#[inline(always)]
fn is_seen(seen: &Range<usize>, groups: &[Group]) -> bool {
    let (Some(first), Some(last)) = (groups.first(), groups.last()) else { return true };
    first.is_seen_by(seen) && last.is_seen_by(seen)
}

/// The registers of [`score`]: four of sums, two of keys, of queries, and one that is not used.
fn registers_of_scores() -> Shape {
    let (sums, keys, queries) = ((amx::ROWS, ROW_BYTES), (BLOCK / 4, ROW_BYTES), (amx::ROWS, BLOCK));
    Shape::new([sums, sums, sums, sums, keys, keys, queries, queries])
}

/// The scores of all queries with some groups, whoever sees them: as [`bytes::score`] has them, to the bit.
///
/// # Safety
/// As [`attend`]; queries are prepared.
#[inline(always)]
unsafe fn score<P: Packed>(
    task: &Task<'_>,
    count: usize,
    groups: &[Group],
    scratch: &mut super::Scratch,
    cache: &Head<'_>,
) {
    // SAFETY: the caller's contract is the same.
    unsafe {
        registers_of_scores().take();
        scratch.bytes.most[..count].fill([f32::NEG_INFINITY; SIDE]);
        for chunk in groups.as_chunks::<TOGETHER_GROUPS>().0 {
            let keys = keys_of::<P>(chunk, &mut scratch.tiles.keys, cache);
            // All rows one register after the other: only the first finds keys in the second-level cache.
            for start in (0..count).step_by(amx::ROWS) {
                let rows = start..count.min(start + amx::ROWS);
                multiply(keys, start, scratch, cache);
                let mut first = 0;
                while first < cache.blocks {
                    first += match cache.blocks - first {
                        4.. => scale::<4>(task, rows.clone(), chunk, first, scratch, cache),
                        3 => scale::<3>(task, rows.clone(), chunk, first, scratch, cache),
                        2 => scale::<2>(task, rows.clone(), chunk, first, scratch, cache),
                        _ => scale::<1>(task, rows.clone(), chunk, first, scratch, cache),
                    };
                }
            }
        }
    }
}

/// Multiplies a register's rows of queries, from `row` on, with the keys of a chunk: (sixteens of positions, blocks, rows).
///
/// # Safety
/// As [`attend`]; queries are prepared, the keys are those of the cache's blocks, and this thread has the [`registers_of_scores`].
#[inline(always)]
unsafe fn multiply(keys: [*const u8; SIDES], row: usize, scratch: &mut super::Scratch, cache: &Head<'_>) {
    let (blocks, sums) = (cache.blocks, &mut scratch.tiles.sums);
    assert!(sums.len() >= SIDES * blocks * amx::ROWS, "room for products");
    assert!(scratch.bytes.queries.len() >= (row + amx::ROWS) * blocks * BLOCK, "queries of a tile");
    let sums = sums.as_mut_ptr();
    // SAFETY: registers have the shapes of what is loaded and stored: a block of queries, and of the keys of sixteen positions; sums have
    // room for four tiles of each block, which lie all blocks apart.
    unsafe {
        for block in 0..blocks {
            // The sums of a product leave their register while the next product is under way, the last of a block with the first of the next:
            // what is loaded behind a store waits for it.
            asm!(
                "tileloadd tmm6, [{queries} + {width}]",
                "tileloadd tmm4, [{a} + {line}]",
                "tilezero tmm0",
                "tdpbssd tmm0, tmm6, tmm4",
                queries = in(reg) scratch.bytes.queries.as_ptr().add((row * blocks + block) * BLOCK),
                width = in(reg) blocks * BLOCK,
                a = in(reg) keys[0].add(block * BLOCK * SIDE),
                line = in(reg) ROW_BYTES,
                options(nostack, readonly)
            );
            if block > 0 {
                amx::store!("tmm3", sums.add((3 * blocks + block - 1) * amx::ROWS));
            }
            asm!(
                "tileloadd tmm5, [{b} + {line}]",
                "tilezero tmm1",
                "tdpbssd tmm1, tmm6, tmm5",
                "tilestored [{sums} + {line}], tmm0",
                "tileloadd tmm4, [{c} + {line}]",
                "tilezero tmm2",
                "tdpbssd tmm2, tmm6, tmm4",
                "add {sums}, {next}",
                "tilestored [{sums} + {line}], tmm1",
                "tileloadd tmm5, [{d} + {line}]",
                "tilezero tmm3",
                "tdpbssd tmm3, tmm6, tmm5",
                "add {sums}, {next}",
                "tilestored [{sums} + {line}], tmm2",
                b = in(reg) keys[1].add(block * BLOCK * SIDE),
                c = in(reg) keys[2].add(block * BLOCK * SIDE),
                d = in(reg) keys[3].add(block * BLOCK * SIDE),
                sums = inout(reg) sums.add(block * amx::ROWS) => _,
                next = in(reg) blocks * amx::ROWS * ROW_BYTES,
                line = in(reg) ROW_BYTES,
                options(nostack)
            );
        }
        amx::store!("tmm3", sums.add((4 * blocks - 1) * amx::ROWS));
    }
}

/// The places of the sixteens of a chunk.
#[inline(always)]
fn places_of(chunk: &[Group; TOGETHER_GROUPS]) -> [usize; SIDES] {
    let [first, second] = chunk;
    [first.places[0], first.places[1], second.places[0], second.places[1]]
}

/// Whether sixteens of places stand side by side.
#[inline(always)]
fn are_neighbours(places: [usize; SIDES]) -> bool {
    let first = places[0];
    places == [first, first + SIDE, first + 2 * SIDE, first + 3 * SIDE]
}

/// The keys of each sixteen of a chunk as bytes: (blocks, channels / 4, 16, 4). Where they are kept as less they are unpacked to
/// `room`.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn keys_of<P: Packed>(
    chunk: &[Group; TOGETHER_GROUPS],
    room: &mut [Line],
    cache: &Head<'_>,
) -> [*const u8; SIDES] {
    let (mut all, lines) = ([std::ptr::null(); SIDES], cache.blocks * (BLOCK / 4));
    for (side, place) in places_of(chunk).into_iter().enumerate() {
        let keys = &cache.keys[place * cache.blocks * P::BYTES..][..SIDE * cache.blocks * P::BYTES];
        if P::BYTES == BLOCK {
            all[side] = keys.as_ptr();
            continue;
        }
        let room = &mut room[side * lines..][..lines];
        for (block, lines) in room.as_chunks_mut::<{ BLOCK / 4 }>().0.iter_mut().enumerate() {
            for four in 0..BLOCK / 4 {
                // SAFETY: one of the blocks of sixteen keys, and a line of its own.
                unsafe {
                    let bytes = P::keys::<Beside>(keys.as_ptr().add(block * SIDE * P::BYTES), four);
                    let bytes = _mm512_sub_epi8(bytes, _mm512_set1_epi8(P::zero::<Beside>() as i8));
                    _mm512_storeu_si512(std::ptr::from_mut(&mut lines[four]).cast(), bytes);
                }
            }
        }
        all[side] = room.as_ptr().cast();
    }
    all
}

/// Takes the products of blocks from `first` on, `B` of them, to the scores of a chunk. Gives back `B`.
///
/// # Safety
/// As [`attend`]; the products are there.
#[inline(always)]
unsafe fn scale<const B: usize>(
    task: &Task<'_>,
    rows: Range<usize>,
    chunk: &[Group; TOGETHER_GROUPS],
    first: usize,
    scratch: &mut super::Scratch,
    cache: &Head<'_>,
) -> usize {
    let (blocks, capped) = (cache.blocks, task.attention.soft_cap.is_some());
    let places = places_of(chunk);
    let sums = &scratch.tiles.sums[..SIDES * blocks * amx::ROWS];
    let scales = &scratch.bytes.scales[..rows.end * blocks];
    let scores = &mut scratch.scores[chunk[0].number * GROUP..][..(rows.end - 1) * SEGMENT + CHUNK];
    // SAFETY: whole sixteens of places, which lie in the store; lines of products; vectors of scores.
    unsafe {
        let mut steps = [[_mm512_setzero_ps(); B]; SIDES];
        let mut begin = [_mm512_setzero_ps(); SIDES];
        for side in 0..SIDES {
            let from = &cache.key_scales[places[side] * blocks + first * SIDE..][..B * SIDE];
            for b in 0..B {
                steps[side][b] = _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().add(b * SIDE).cast()));
            }
            if !capped {
                begin[side] = _mm512_loadu_ps(cache.logarithms[places[side]..][..SIDE].as_ptr());
            }
        }
        for row in rows.clone() {
            let to = scores.as_mut_ptr().add(row * SEGMENT);
            let mut score = begin;
            if first > 0 {
                for side in 0..SIDES {
                    score[side] = _mm512_loadu_ps(to.add(side * SIDE));
                }
            }
            for b in 0..B {
                let scale = _mm512_set1_ps(*scales.as_ptr().add(row * blocks + first + b));
                for side in 0..SIDES {
                    let sum = sums.as_ptr().add((side * blocks + first + b) * amx::ROWS + row - rows.start);
                    let sum = _mm512_cvtepi32_ps(_mm512_loadu_si512(sum.cast()));
                    score[side] = _mm512_fmadd_ps(sum, _mm512_mul_ps(steps[side][b], scale), score[side]);
                }
            }
            for side in 0..SIDES {
                _mm512_storeu_ps(to.add(side * SIDE), score[side]);
            }
            if first + B == blocks {
                let most = scratch.bytes.most[row].as_mut_ptr();
                _mm512_storeu_ps(most, _mm512_max_ps(most_of(score), _mm512_loadu_ps(most)));
            }
        }
    }
    B
}

/// The larger ones.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn most_of(scores: [__m512; SIDES]) -> __m512 {
    // SAFETY: arithmetic on values, under the caller's contract.
    unsafe { _mm512_max_ps(_mm512_max_ps(scores[0], scores[1]), _mm512_max_ps(scores[2], scores[3])) }
}

/// Finds the largest score of a row, sixteen of which one is.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn find_most(row: usize, groups: &[Group], scratch: &mut super::Scratch) {
    let scores = &scratch.scores[row * SEGMENT..][..SEGMENT];
    // SAFETY: vectors lie inside the row.
    unsafe {
        let mut most = [_mm512_set1_ps(f32::NEG_INFINITY); SIDES];
        for chunk in groups.as_chunks::<TOGETHER_GROUPS>().0 {
            for side in 0..SIDES {
                let score = _mm512_loadu_ps(scores.as_ptr().add(chunk[0].number * GROUP + side * SIDE));
                most[side] = _mm512_max_ps(score, most[side]);
            }
        }
        _mm512_storeu_ps(scratch.bytes.most[row].as_mut_ptr(), most_of(most));
    }
}

/// Turns the scores of a row into weights of two bytes, and sums them.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn weigh(row: usize, groups: &[Group], scratch: &mut super::Scratch, cache: &Head<'_>) {
    let scores = &scratch.scores[row * SEGMENT..][..SEGMENT];
    let (upper, lower) = scratch.tiles.weights.split_at_mut(ROWS * WEIGHT_LINES);
    let (upper, lower) = (&mut upper[row * WEIGHT_LINES..], &mut lower[row * WEIGHT_LINES..]);
    let seen = &scratch.seen[row];
    // SAFETY: vectors lie inside the row and inside sixteens of places; the CPU has the instructions.
    unsafe {
        let most = _mm512_reduce_max_ps(_mm512_loadu_ps(scratch.bytes.most[row].as_ptr()));
        scratch.part.softmax.most[row] = most * LN_2;
        let most = _mm512_set1_ps(most);
        let mut sums = [_mm512_setzero_ps(); SIDES];
        let all = is_seen(seen, groups);
        for chunk in groups.as_chunks::<TOGETHER_GROUPS>().0 {
            let (whole, places) = (all || is_seen(seen, chunk), places_of(chunk));
            let mut words = [_mm512_setzero_si512(); SIDES];
            for side in 0..SIDES {
                let at = side * SIDE;
                let score = _mm512_loadu_ps(scores.as_ptr().add(chunk[0].number * GROUP + at));
                let mut weight = power(_mm512_sub_ps(score, most));
                let mut inverse = _mm512_loadu_ps(cache.inverses[places[side]..][..SIDE].as_ptr());
                if !whole {
                    // Where nothing is seen the difference is not a number; what lies in such places may be none.
                    let (first, last) = lanes(seen, chunk[0].position + at, SIDE);
                    weight = Beside::only(weight, first, last, _mm512_setzero_ps());
                    inverse = Beside::only(inverse, first, last, _mm512_setzero_ps());
                }
                sums[side] = _mm512_fmadd_ps(weight, inverse, sums[side]);
                words[side] = _mm512_cvtps_epi32(weight);
            }
            let number = chunk[0].number / TOGETHER_GROUPS;
            let [high, low] = halves(words);
            _mm512_storeu_si512(std::ptr::from_mut(&mut upper[number]).cast(), high);
            _mm512_storeu_si512(std::ptr::from_mut(&mut lower[number]).cast(), low);
        }
        let sums = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
        scratch.part.softmax.sums[row] = scratch.bytes.begin[row] + _mm512_reduce_add_ps(sums);
    }
}

/// [`UNIT`] times `2^x`, for `x` up to zero, to three parts in a million: a polynomial of degree four, which is exact at whole
/// numbers. Not under `2^-100` times it, nor where `x` is not a number.
///
/// # Safety
/// The CPU has AVX-512 F and DQ.
#[inline(always)]
unsafe fn power(x: __m512) -> __m512 {
    // SAFETY: arithmetic on values, under the caller's contract.
    unsafe {
        let x = _mm512_max_ps(x, _mm512_set1_ps(-100.0));
        // What is over the next lower whole number.
        let rest = _mm512_reduce_ps::<1>(x);
        let mut p = _mm512_set1_ps(0.013_426_689 * UNIT);
        for coefficient in [0.052_242_466, 0.241_280_21, 0.693_044_84, 1.0] {
            p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(coefficient * UNIT));
        }
        _mm512_scalef_ps(p, x)
    }
}

/// The upper and the lower bytes of 64 numbers under 65,536.
///
/// # Safety
/// The CPU has AVX-512 F and BW.
#[inline(always)]
unsafe fn halves(words: [__m512i; SIDES]) -> [__m512i; 2] {
    // SAFETY: arithmetic on values, under the caller's contract.
    unsafe {
        // Packing takes turns between its operands in each quarter.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let (front, back) = (_mm512_packus_epi32(words[0], words[1]), _mm512_packus_epi32(words[2], words[3]));
        let byte = _mm512_set1_epi16(0xff);
        let upper = _mm512_packus_epi16(_mm512_srli_epi16::<8>(front), _mm512_srli_epi16::<8>(back));
        let lower = _mm512_packus_epi16(_mm512_and_si512(front, byte), _mm512_and_si512(back, byte));
        [_mm512_permutexvar_epi32(order, upper), _mm512_permutexvar_epi32(order, lower)]
    }
}

/// The registers of [`mix`]: sums of upper and of lower bytes of sixteen channels, the same of the next, upper bytes, lower
/// bytes, values of sixteen channels, those of the next.
fn registers_of_values() -> Shape {
    Shape::new([(amx::ROWS, ROW_BYTES); 8])
}

/// Adds up the values of a segment for all rows, and takes them to the segments before.
///
/// # Safety
/// As [`attend`]; the weights are there.
#[inline(always)]
unsafe fn mix<P: Packed>(
    task: &Task<'_>,
    tile: &Tile,
    segment: usize,
    groups: &[Group],
    scratch: &mut super::Scratch,
    cache: &Head<'_>,
) {
    let (blocks, width, count) = (cache.blocks, cache.blocks * BLOCK, tile.rows.len());
    // Where all rows have something already sums are added to it as they leave their registers.
    let adds = scratch.begins(tile) && scratch.total.softmax.see(count) && scratch.part.softmax.see(count);
    let super::Scratch { tiles, part, total, .. } = &mut *scratch;
    let (shares, totals) =
        if adds { (Some(total.softmax.merge(&part.softmax)), &mut total.values) } else { (None, &mut part.values) };
    let chunks = groups.as_chunks::<TOGETHER_GROUPS>().0;
    let mut values = [std::ptr::null(); SEGMENT / CHUNK];
    for (index, (values, chunk)) in values.iter_mut().zip(chunks).enumerate() {
        let lines = blocks * CHUNK * BLOCK / ROW_BYTES;
        // SAFETY: the caller's contract is the same.
        *values = unsafe { values_of::<P>(chunk, &mut tiles.values[index * lines..][..lines], cache) };
    }
    assert!(tiles.weights.len() >= 2 * ROWS * WEIGHT_LINES && count <= ROWS, "weights of a tile");
    assert!(tiles.sums.len() >= 4 * amx::ROWS, "room for sums");
    assert!(totals.len() >= ROWS * width, "room for a tile");
    let (sums, weights, totals) = (tiles.sums.as_mut_ptr(), tiles.weights.as_ptr(), totals.as_mut_ptr());
    // SAFETY: registers have the shapes of what is loaded and stored: sixteen rows of weights, values of sixteen fours of positions,
    // of which each block is two registers; sums have room for four tiles.
    unsafe {
        registers_of_values().take();
        for block in 0..blocks {
            // All rows one register after the other: only the first finds values in the second-level cache.
            for start in (0..count).step_by(amx::ROWS) {
                asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
                for (chunk, values) in chunks.iter().zip(values) {
                    let weights = weights.add(start * WEIGHT_LINES + chunk[0].number / TOGETHER_GROUPS);
                    asm!(
                        "tileloadd tmm6, [{values} + {four}]",
                        "tileloadd tmm4, [{weights} + {row}]",
                        "tdpbusd tmm0, tmm4, tmm6",
                        "tileloadd tmm5, [{weights} + {row} + {lower}]",
                        "tdpbusd tmm1, tmm5, tmm6",
                        "tileloadd tmm7, [{values} + {four} + 64]",
                        "tdpbusd tmm2, tmm4, tmm7",
                        "tdpbusd tmm3, tmm5, tmm7",
                        values = in(reg) values.add(block * BLOCK * TOGETHER),
                        four = in(reg) width * TOGETHER,
                        weights = in(reg) weights,
                        row = in(reg) SEGMENT,
                        lower = const ROWS * SEGMENT,
                        options(nostack, readonly)
                    );
                }
                amx::store!("tmm0", sums);
                amx::store!("tmm1", sums.add(amx::ROWS));
                amx::store!("tmm2", sums.add(2 * amx::ROWS));
                amx::store!("tmm3", sums.add(3 * amx::ROWS));
                let rows = start..count.min(start + amx::ROWS);
                join(rows, sums, shares.as_ref(), totals.add(block * BLOCK), width);
            }
        }
    }
    if !adds {
        task.take(tile, segment, scratch);
    }
}

/// Adds the sums of a block of channels to what some rows have, rounding as [`super::Part::merge`] does; they are all that rows have where
/// there are no shares. `totals` begin with the block of a tile's first row.
///
/// # Safety
/// The CPU has the instructions of [`Beside`]; sums of as many rows are there, and `totals` of all rows, so far apart.
#[inline(always)]
unsafe fn join(rows: Range<usize>, sums: *const Line, shares: Option<&Shares>, totals: *mut f32, apart: usize) {
    for row in rows.clone() {
        for half in 0..2 {
            // SAFETY: by the caller's word.
            unsafe {
                let sums = sums.add(half * 2 * amx::ROWS + row - rows.start);
                let (upper, lower) = (_mm512_loadu_si512(sums.cast()), _mm512_loadu_si512(sums.add(amx::ROWS).cast()));
                let (mut total, to) = (joined(upper, lower), totals.add(row * apart + half * SIDE));
                if let Some(Shares { kept, added }) = shares {
                    let kept = _mm512_mul_ps(_mm512_loadu_ps(to), _mm512_set1_ps(kept[row]));
                    total = _mm512_add_ps(kept, _mm512_mul_ps(total, _mm512_set1_ps(added[row])));
                }
                _mm512_storeu_ps(to, total);
            }
        }
    }
}

/// The values of a chunk as bytes: (positions / 4, channels, 4). Where they are kept as less, or do not stand side by side, they
/// are brought to `room`.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn values_of<P: Packed>(chunk: &[Group; TOGETHER_GROUPS], room: &mut [Line], cache: &Head<'_>) -> *const u8 {
    let (places, bytes) = (places_of(chunk), cache.blocks * P::BYTES);
    if P::BYTES == BLOCK && are_neighbours(places) {
        return cache.values[places[0] * bytes..][..CHUNK * bytes].as_ptr();
    }
    // Lines of sixteen channels and four positions, two to a block.
    for (index, blocks) in room.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let (four, block) = (index / cache.blocks, index % cache.blocks);
        let from = (places[four / TOGETHER] + four % TOGETHER * TOGETHER) * bytes;
        let from = &cache.values[from + block * P::BYTES * TOGETHER..][..P::BYTES * TOGETHER];
        for half in 0..2 {
            // SAFETY: one of the blocks of four values, and a line of its own.
            unsafe {
                let values = P::values::<Beside>(from.as_ptr(), half * SIDE);
                _mm512_storeu_si512(std::ptr::from_mut(&mut blocks[half]).cast(), values);
            }
        }
    }
    room.as_ptr().cast()
}

/// The sum of products with weights, of those with their upper and with their lower bytes: as many as a segment has positions fit 32 bits.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
unsafe fn joined(upper: __m512i, lower: __m512i) -> __m512 {
    // SAFETY: arithmetic on values, under the caller's contract.
    unsafe { _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32::<8>(upper), lower)) }
}

/// What the values of a segment add up to for `R` rows from `row` on, by vectors; `C` of them at a time. Gives back `R`.
///
/// # Safety
/// As [`attend`]; the weights are there, and the tile has the rows.
#[inline(always)]
unsafe fn mix_few<P: Packed, const R: usize, const C: usize>(
    row: usize,
    groups: &[Group],
    scratch: &mut super::Scratch,
    (cache, next): (&Head<'_>, &Next<Head<'_>>),
) -> usize {
    let vectors = cache.blocks * BLOCK / SIDE;
    // SAFETY: the caller's contract is the same; vectors lie inside the width.
    unsafe {
        for vector in (0..vectors / C * C).step_by(C) {
            mix_channels::<P, R, C>(row, groups, vector * SIDE, scratch, (cache, next));
        }
        for vector in vectors / C * C..vectors {
            mix_channels::<P, R, 1>(row, groups, vector * SIDE, scratch, (cache, next));
        }
    }
    R
}

/// The same for `C` vectors from channel `start` on.
///
/// # Safety
/// As [`mix_few`]; the vectors lie inside the width.
#[inline(always)]
unsafe fn mix_channels<P: Packed, const R: usize, const C: usize>(
    row: usize,
    groups: &[Group],
    start: usize,
    scratch: &mut super::Scratch,
    (cache, next): (&Head<'_>, &Next<Head<'_>>),
) {
    let width = cache.blocks * BLOCK;
    // Bytes from four tokens to the next four, and from block to block.
    let (apart, block) = (cache.blocks * P::BYTES * TOGETHER, P::BYTES * TOGETHER);
    let (upper, lower) = scratch.tiles.weights.split_at(ROWS * WEIGHT_LINES);
    let (upper, lower) =
        (&upper[row * WEIGHT_LINES..][..R * WEIGHT_LINES], &lower[row * WEIGHT_LINES..][..R * WEIGHT_LINES]);
    // Not known to the compiler, which otherwise unrolls the loop over them and runs out of registers.
    let fours = black_box(SIDE / TOGETHER);
    // SAFETY: four fours of tokens follow each place, which begins sixteen; weights and sums lie in the scratch.
    unsafe {
        let mut sums = [[[_mm512_setzero_si512(); 2]; C]; R];
        for (index, group) in groups.iter().enumerate() {
            let own = group.begins(cache.values, cache.blocks * P::BYTES);
            let asked = next.values::<P>(index, own);
            for half in 0..2 {
                assert!(!cfg!(test) || (group.places[half] + SIDE) / TOGETHER * apart <= cache.values.len());
                let (from, asked) = (own[half], asked[half]);
                let at = group.number * GROUP + half * SIDE;
                for four in 0..fours {
                    let mut values = [_mm512_setzero_si512(); C];
                    for c in 0..C {
                        let channel = start + c * SIDE;
                        let place = four * apart + channel / BLOCK * block;
                        if channel % BLOCK < P::BYTES {
                            Beside::prefetch(asked.wrapping_add(place + channel % BLOCK * TOGETHER).cast());
                        }
                        values[c] = P::values::<Beside>(from.add(place), channel % BLOCK);
                    }
                    for r in 0..R {
                        let at = r * SEGMENT + at + four * TOGETHER;
                        let upper = word::<Beside>(upper.as_ptr().cast::<u8>().add(at));
                        let lower = word::<Beside>(lower.as_ptr().cast::<u8>().add(at));
                        for c in 0..C {
                            sums[r][c][0] = Beside::dot(sums[r][c][0], upper, values[c]);
                            sums[r][c][1] = Beside::dot(sums[r][c][1], lower, values[c]);
                        }
                    }
                }
            }
        }
        for r in 0..R {
            let to = scratch.part.values[(row + r) * width + start..][..C * SIDE].as_mut_ptr();
            for c in 0..C {
                _mm512_storeu_ps(to.add(c * SIDE), joined(sums[r][c][0], sums[r][c][1]));
            }
        }
    }
}
