//! Attention over the paged cache.
//!
//! Positions are taken in segments of 256, each with a softmax of its own; a query's segments are then merged in order. So a
//! query sums in one order whether it came alone, in a batch or in the middle of a prompt. Query heads that share a key-value
//! head, and neighbouring tokens of a prompt, are rows of one tile: each key and value is read once for all of them.
//!
//! Where there are many tiles, threads take them whole. Where there are few, work is cut into as many parts as there are
//! threads, in segments of tiles, in order and evenly, so that it makes no difference whether there are some sequences, some
//! heads or one long context. A tile that is cut between parts is finished afterwards: those behind the first keep their
//! segments apart, and these are merged in the same order by the same sums.

mod bytes;
mod next;
mod numbers;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
pub mod tiles;

use std::f32::consts::LOG2_E;
use std::ops::Range;

use half::f16;
use kauri_arch::{Attention, Latent};
use kauri_device::{Batch, Plan, Sequence, Weight, formula};

use next::Next;

use crate::aligned::Aligned;
use crate::cache::bytes::{BLOCK, Nibble, Octet, Owned, Packed, Rounding, Vectors};
use crate::cache::{self, Cache, Kept, Number, Places};
use crate::detect::Kernels;
use crate::matmul::Following;
use crate::pool::{Disjoint, Pool, share};
use crate::product::LINE;
use crate::vector::{Stored, Vector};

/// Positions that share a softmax.
const SEGMENT: usize = 256;
/// Most rows of a tile.
pub const ROWS: usize = 32;
/// With so many tiles for each thread none is cut.
const TILES_MIN: usize = 16;

/// The numbers of one layer's attention.
#[derive(Clone, Copy)]
pub struct Numbers<'a> {
    heads: u32,
    kv_heads: u32,
    /// Values of a query and of a key.
    head_dim: u32,
    /// Values of a value.
    value_dim: u32,
    window_tokens: Option<u32>,
    both_ways: bool,
    soft_cap: Option<f32>,
    scale: f32,
    alibi: Option<f32>,
    sinks: Option<&'a [f32]>,
}

/// One layer's attention, as all workers see it.
pub struct Task<'a> {
    attention: Numbers<'a>,
    /// Rows of a tile.
    rows: usize,
    batch: &'a Batch,
    cache: &'a Cache,
    /// The number of this layer's first head there.
    first_head: usize,
    /// (tokens, heads, `head_dim`).
    query: &'a [f32],
    /// (tokens, heads, `value_dim`).
    mixed: Disjoint<'a, f32>,
    /// Where that is packed for the product behind, if it is: heads of whole spans, of one token.
    following: Option<Following<'a>>,
}

/// Some rows of one sequence and key-value head: row `i` is query head `i % group` of the sequence's token `i / group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    sequence: usize,
    kv_head: usize,
    rows: Range<usize>,
    /// Those to be computed, of all that its rows see.
    segments: Range<usize>,
}

/// One worker's memory.
pub struct Scratch {
    /// (rows, segment): scores, then their exponentials.
    scores: Aligned<f32>,
    /// What attention over bytes needs besides.
    bytes: bytes::Scratch,
    /// What it needs besides with tile registers.
    #[cfg(target_arch = "x86_64")]
    tiles: tiles::Scratch,
    /// The positions that each row sees.
    seen: [Range<usize>; ROWS],
    /// The segment in progress.
    part: Part,
    /// All segments so far of the tile in progress.
    total: Part,
    /// Segments of a tile that another part began, in order: (segments, rows, width), and for each row the largest score and
    /// the sum of exponentials.
    apart: Aligned<f32>,
    apart_softmax: Vec<Softmax>,
}

/// What some positions give the rows of a tile.
struct Part {
    /// Sums of values: (rows, width), over the exponentials' largest.
    values: Aligned<f32>,
    softmax: Softmax,
    /// What an exponential of one counts for in both sums.
    unit: f32,
}

/// What is left of the scores that each row saw.
#[derive(Clone, Copy)]
struct Softmax {
    /// The largest, minus infinity where the row saw nothing.
    most: [f32; ROWS],
    /// The sum of the exponentials of the differences to it.
    sums: [f32; ROWS],
}

/// What a segment's sums of values count for beside those of the segments before.
struct Shares {
    kept: [f32; ROWS],
    added: [f32; ROWS],
}

impl<'a> From<&'a Attention<Weight>> for Numbers<'a> {
    fn from(attention: &'a Attention<Weight>) -> Self {
        let Attention { heads, kv_heads, head_dim, window_tokens, both_ways, soft_cap, scale, alibi, .. } = *attention;
        let sinks = attention.sinks.as_ref().map(Weight::vector);
        Self { heads, kv_heads, head_dim, value_dim: head_dim, window_tokens, both_ways, soft_cap, scale, alibi, sinks }
    }
}

/// One head of keys and values for all queries.
impl<'a> From<&'a Latent<Weight>> for Numbers<'a> {
    fn from(latent: &'a Latent<Weight>) -> Self {
        Self {
            heads: latent.heads,
            kv_heads: 1,
            head_dim: latent.row(),
            value_dim: latent.latent,
            window_tokens: None,
            both_ways: false,
            soft_cap: None,
            scale: latent.scale,
            alibi: None,
            sinks: None,
        }
    }
}

impl Softmax {
    /// Of rows that saw nothing.
    const NOTHING: Self = Self { most: [f32::NEG_INFINITY; ROWS], sums: [0.0; ROWS] };

    /// Takes the next segment in, for rows that see something of it and of those before.
    #[inline(always)]
    fn merge(&mut self, next: &Self) -> Shares {
        let (before, mut shares) = (*self, Shares { kept: [0.0; ROWS], added: [0.0; ROWS] });
        for row in 0..ROWS {
            let most = before.most[row].max(next.most[row]);
            shares.kept[row] = exponential(before.most[row] - most);
            shares.added[row] = exponential(next.most[row] - most);
            self.most[row] = most;
            self.sums[row] = before.sums[row] * shares.kept[row] + next.sums[row] * shares.added[row];
        }
        shares
    }

    /// Whether a row saw anything.
    fn sees(&self, row: usize) -> bool {
        self.most[row] != f32::NEG_INFINITY
    }

    /// Whether each of so many rows did.
    #[cfg(target_arch = "x86_64")]
    fn see(&self, count: usize) -> bool {
        (0..count).all(|row| self.sees(row))
    }
}

impl Scratch {
    /// For heads of up to `head_dim`, and as many tokens as there is room for.
    pub fn new(plan: &Plan, head_dim: usize) -> Self {
        let width = padded(head_dim);
        let segments = (plan.pages as usize * plan.page_tokens as usize).div_ceil(SEGMENT);
        let part = || Part { values: Aligned::new(ROWS * width), softmax: Softmax::NOTHING, unit: 1.0 };
        Self {
            scores: Aligned::new(ROWS * SEGMENT),
            bytes: bytes::Scratch::new(width),
            #[cfg(target_arch = "x86_64")]
            tiles: tiles::Scratch::new(width),
            seen: std::array::from_fn(|_| 0..0),
            part: part(),
            total: part(),
            apart: Aligned::new(segments * ROWS * width),
            apart_softmax: vec![Softmax::NOTHING; segments],
        }
    }

    /// Whether the first segment of the tile in progress is among those to be computed.
    fn begins(&self, tile: &Tile) -> bool {
        self.seen[0].start / SEGMENT == tile.segments.start
    }
}

/// `mixed[t] = softmax(scale * query[t] K^T) V`.
pub fn attend(
    pool: &mut Pool,
    kernels: Kernels,
    scratch: &mut [Scratch],
    attention: Numbers<'_>,
    batch: &Batch,
    (cache, block): (&Cache, usize),
    ([query, mixed], following): ([&mut [f32]; 2], Option<Following<'_>>),
) {
    let threads = pool.threads();
    let rows = kernels.attended_rows();
    let first_head = cache.first_head(block);
    let task = Task { attention, rows, batch, cache, first_head, query, mixed: Disjoint::new(mixed), following };
    let (mut tiles, mut units) = (0, 0);
    for tile in task.tiles() {
        (tiles, units) = (tiles + 1, units + tile.segments.len());
    }
    let workers = Disjoint::new(scratch);
    if tiles >= TILES_MIN * threads {
        pool.split(tiles, pool.grain(tiles), &|thread, range| {
            // SAFETY: each thread takes the scratch of its own number.
            let scratch = &mut unsafe { workers.slice(thread..thread + 1) }[0];
            let mut written = Written::default();
            for tile in task.tiles().take(range.end).skip(range.start) {
                kernels.attend(&task, &tile, scratch);
                written.add(&task, &tile);
            }
            // SAFETY: each tile is in one range.
            unsafe { written.pack(&task) };
        });
        return;
    }
    pool.split(threads, 1, &|_, parts| {
        for part in parts {
            // SAFETY: each part has the scratch of its own number.
            let scratch = &mut unsafe { workers.slice(part..part + 1) }[0];
            let mut written = Written::default();
            task.cut(share(part, threads, units), |tile, whole| {
                kernels.attend(&task, &tile, scratch);
                if tile.segments == whole.segments {
                    written.add(&task, whole);
                }
            });
            // SAFETY: a tile that is not cut is in one part.
            unsafe { written.pack(&task) };
        }
    });
    finish(&task, scratch, |part| share(part, threads, units));
}

/// Merges the tiles that were cut between parts.
fn finish(task: &Task<'_>, scratch: &mut [Scratch], share: impl Fn(usize) -> Range<usize>) {
    for first in 0..scratch.len() {
        let (scratch, others) = scratch[first..].split_first_mut().expect("one for each part");
        task.cut(share(first), |tile, whole| {
            // The part that has a tile's beginning and not its end.
            if tile.segments.start != whole.segments.start || tile.segments.end == whole.segments.end {
                return;
            }
            let mut left = whole.segments.len() - tile.segments.len();
            for (index, other) in others.iter().enumerate() {
                let count = left.min(share(first + 1 + index).len());
                let width = padded(task.attention.head_dim as usize);
                for (softmax, values) in other.apart_softmax.iter().zip(other.apart.chunks(ROWS * width)).take(count) {
                    scratch.total.merge(softmax, &values[..whole.rows.len() * width], width);
                }
                left -= count;
            }
            task.write(whole, &scratch.total);
            let mut written = Written::default();
            written.add(task, whole);
            // SAFETY: the threads are done, and have packed no tile that is cut.
            unsafe { written.pack(task) };
        });
    }
}

/// Values of neighbouring tiles that are there, to be packed at once: for each tile by itself it takes longer than its attention may.
#[derive(Default)]
struct Written(Range<usize>);

impl Written {
    /// Adds the values of the next tile, if they are to be packed.
    fn add(&mut self, task: &Task<'_>, tile: &Tile) {
        if task.following.is_none() {
            return;
        }
        let [first, last] = [tile.rows.start, tile.rows.end - 1].map(|row| task.at(tile, row));
        let value_dim = task.attention.value_dim as usize;
        if self.0.is_empty() {
            self.0.start = first * value_dim;
        }
        self.0.end = (last + 1) * value_dim;
    }

    /// Packs them.
    ///
    /// # Safety
    /// Nobody else uses them.
    unsafe fn pack(self, task: &Task<'_>) {
        if let Some(following) = task.following.as_ref().filter(|_| !self.0.is_empty()) {
            // SAFETY: the caller's contract is the same, and heads are whole spans.
            unsafe { following.pack(self.0.start, task.mixed.slice(self.0.clone())) };
        }
    }
}

impl Task<'_> {
    /// Query heads that share a key-value head.
    fn group(&self) -> usize {
        (self.attention.heads / self.attention.kv_heads) as usize
    }

    /// The number of a key-value head among those of all layers that share the cache.
    fn head(&self, kv_head: usize) -> usize {
        self.first_head + kv_head
    }

    fn sequence(&self, tile: &Tile) -> &Sequence {
        &self.batch.sequences[tile.sequence]
    }

    fn places(&self, tile: &Tile) -> Places<'_> {
        self.cache.places(&self.batch.pages[self.sequence(tile).pages.clone()])
    }

    /// The positions that row `row` of a sequence sees.
    fn seen(&self, sequence: &Sequence, row: usize) -> Range<usize> {
        let position = sequence.cached_tokens + (row / self.group()) as u32;
        let Numbers { window_tokens, both_ways, .. } = self.attention;
        let sees = formula::sees(window_tokens, both_ways, position, sequence.positions().end);
        sees.start as usize..sees.end as usize
    }

    /// Takes off the scores of row `row` of a tile what linear biases do. `scores` begin with that of `position`, and are so many times
    /// as large as they are: products and differences are rounded one by one, whatever this is compiled for.
    #[inline(always)]
    fn lean(&self, tile: &Tile, row: usize, scores: &mut [f32], position: usize, times: f32) {
        let Some(alibi) = self.attention.alibi else { return };
        let row = tile.rows.start + row;
        let head = tile.kv_head * self.group() + row % self.group();
        let slope = formula::slope(alibi, self.attention.heads, head as u32) * times;
        let own = self.sequence(tile).cached_tokens as i32 + (row / self.group()) as i32;
        for (index, score) in scores.iter_mut().enumerate() {
            *score -= slope * (position as i32 + index as i32 - own).abs() as f32;
        }
    }

    /// A row's place among the heads of all tokens.
    fn at(&self, tile: &Tile, row: usize) -> usize {
        let group = self.group();
        let token = self.sequence(tile).tokens.start + row / group;
        let head = tile.kv_head * group + row % group;
        token * self.attention.heads as usize + head
    }

    fn query(&self, tile: &Tile, row: usize) -> &[f32] {
        let head_dim = self.attention.head_dim as usize;
        &self.query[self.at(tile, row) * head_dim..][..head_dim]
    }

    /// All tiles, those of a key-value head one after the other: so a thread finds what it stored itself, of whatever sequence.
    fn tiles(&self) -> impl Iterator<Item = Tile> {
        (0..self.attention.kv_heads as usize).flat_map(move |kv_head| {
            self.batch.sequences.iter().enumerate().flat_map(move |(index, sequence)| {
                let rows = sequence.tokens.len() * self.group();
                (0..rows).step_by(self.rows).map(move |start| {
                    let rows = start..rows.min(start + self.rows);
                    // Rows are in the order of their positions.
                    let (first, last) = (self.seen(sequence, rows.start), self.seen(sequence, rows.end - 1));
                    let segments = first.start / SEGMENT..last.end.div_ceil(SEGMENT);
                    Tile { sequence: index, kv_head, rows, segments }
                })
            })
        })
    }

    /// Calls `run` with what lies in `units` of each tile, and the whole tile. A unit is a segment of a tile.
    fn cut(&self, units: Range<usize>, mut run: impl FnMut(Tile, &Tile)) {
        let mut end = 0;
        for whole in self.tiles() {
            let start = end;
            end += whole.segments.len();
            let (from, to) = (units.start.max(start), units.end.min(end));
            if from < to {
                let segments = whole.segments.start + from - start..whole.segments.start + to - start;
                run(Tile { segments, ..whole.clone() }, &whole);
            }
            if end >= units.end {
                return;
            }
        }
    }

    /// Begins with a tile.
    fn begin(&self, tile: &Tile, scratch: &mut Scratch) {
        for (seen, row) in scratch.seen.iter_mut().zip(tile.rows.clone()) {
            *seen = self.seen(self.sequence(tile), row);
        }
        scratch.total.softmax = Softmax::NOTHING;
        scratch.total.unit = 1.0;
    }

    /// Takes a segment of a tile that has been computed to the others.
    #[inline(always)]
    fn take(&self, tile: &Tile, segment: usize, scratch: &mut Scratch) {
        let width = padded(self.attention.head_dim as usize);
        let values = &scratch.part.values[..tile.rows.len() * width];
        if scratch.begins(tile) && segment == tile.segments.start {
            scratch.total.begin(&mut scratch.part);
        } else if scratch.begins(tile) {
            scratch.total.merge(&scratch.part.softmax, values, width);
        } else {
            let index = segment - tile.segments.start;
            scratch.apart[index * ROWS * width..][..values.len()].copy_from_slice(values);
            scratch.apart_softmax[index] = scratch.part.softmax;
        }
    }

    /// Writes the rows of a tile if all of it has been computed.
    #[inline(always)]
    fn end(&self, tile: &Tile, scratch: &Scratch) {
        let ends = scratch.seen[tile.rows.len() - 1].end.div_ceil(SEGMENT) == tile.segments.end;
        if ends && scratch.begins(tile) {
            self.write(tile, &scratch.total);
        }
    }

    /// Writes the rows of a tile.
    #[inline(always)]
    fn write(&self, tile: &Tile, total: &Part) {
        let Numbers { head_dim, value_dim, sinks, .. } = self.attention;
        let value_dim = value_dim as usize;
        let values = total.values.chunks_exact(padded(head_dim as usize)).zip(total.softmax.sums);
        for ((row, (values, mut sum)), most) in tile.rows.clone().zip(values).zip(total.softmax.most) {
            let at = self.at(tile, row) * value_dim;
            if let Some(sinks) = sinks {
                sum += total.unit * (sinks[tile.kv_head * self.group() + row % self.group()] - most).exp();
            }
            // SAFETY: rows are dealt out without overlap, and a tile is written once: by the thread that has all
            // of its segments, or when the threads are done.
            let mixed = unsafe { self.mixed.slice(at..at + value_dim) };
            mixed.iter_mut().zip(values).for_each(|(mixed, value)| *mixed = value / sum);
        }
    }
}

impl Part {
    /// Becomes the first segment, whose memory has what was here then: what [`Self::merge`] would make of it and nothing, without a copy.
    #[inline(always)]
    fn begin(&mut self, first: &mut Self) {
        std::mem::swap(&mut self.values, &mut first.values);
        self.softmax = first.softmax;
        for row in 0..ROWS {
            if !self.softmax.sees(row) {
                self.softmax.sums[row] = 0.0;
            }
        }
    }

    /// Takes the next segment in, with values for some rows. Products and sums are rounded one by one, so that the bits do
    /// not depend on what this is compiled for.
    #[inline(always)]
    fn merge(&mut self, softmax: &Softmax, values: &[f32], width: usize) {
        let before = self.softmax;
        let shares = self.softmax.merge(softmax);
        let totals = self.values.chunks_exact_mut(width).zip(values.chunks_exact(width));
        for (row, (total, values)) in totals.enumerate() {
            // A row that sees nothing of the segment keeps what it has, and one that saw nothing before has nothing.
            if !softmax.sees(row) {
                self.softmax.sums[row] = before.sums[row];
            } else if !before.sees(row) {
                self.softmax.sums[row] = softmax.sums[row];
                total.copy_from_slice(values);
            } else {
                let (kept, added) = (shares.kept[row], shares.added[row]);
                total.iter_mut().zip(values).for_each(|(total, value)| *total = *total * kept + value * added);
            }
        }
    }
}

/// `e^x` for `x` up to zero, as [`crate::vector::exp`] has it; but in products and sums that are rounded one by one.
#[inline(always)]
fn exponential(x: f32) -> f32 {
    // Adding it leaves a whole number in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.max(-86.0);
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p * r + coefficient;
    }
    let p = p * (r * r) + (r + 1.0);
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// The formula, row by row, on what the cache gives back.
pub fn scalar(task: &Task<'_>, tile: &Tile, scratch: &mut Scratch) {
    let head_dim = task.attention.head_dim as usize;
    let (places, width) = (task.places(tile), padded(head_dim));
    let mut stored = std::mem::take(&mut scratch.bytes.row);
    let stored_head = &mut stored[..head_dim];
    task.begin(tile, scratch);
    for segment in tile.segments.clone() {
        for (index, row) in tile.rows.clone().enumerate() {
            let seen = scratch.seen[index].clone();
            let range = seen.start.max(segment * SEGMENT)..seen.end.min((segment + 1) * SEGMENT);
            if range.is_empty() {
                scratch.part.softmax.most[index] = f32::NEG_INFINITY;
                continue;
            }
            let q = task.query(tile, row);
            let scores = &mut scratch.scores[..range.len()];
            for (score, position) in scores.iter_mut().zip(range.clone()) {
                task.cache.read_key(places.of(position), task.head(tile.kv_head), stored_head);
                *score = formula::dot(q, stored_head) * task.attention.scale;
                if let Some(cap) = task.attention.soft_cap {
                    *score = formula::soft_cap(*score, cap);
                }
            }
            task.lean(tile, index, scores, range.start, 1.0);
            let (most, sum) = formula::exponentials(scores);
            (scratch.part.softmax.most[index], scratch.part.softmax.sums[index]) = (most, sum);
            let stored_head = &mut stored_head[..task.attention.value_dim as usize];
            let values = &mut scratch.part.values[index * width..][..stored_head.len()];
            values.fill(0.0);
            for (weight, position) in scores.iter().zip(range) {
                task.cache.read_value(places.of(position), task.head(tile.kv_head), stored_head);
                values.iter_mut().zip(stored_head.iter()).for_each(|(sum, value)| *sum += weight * value);
            }
        }
        task.take(tile, segment, scratch);
    }
    task.end(tile, scratch);
    scratch.bytes.row = stored;
}

/// A tile with the instructions of `V`.
///
/// # Safety
/// The CPU has them; no other worker writes the rows of the tile.
#[inline(always)]
pub unsafe fn tile<V: Vector>(task: &Task<'_>, tile: &Tile, scratch: &mut Scratch) {
    task.begin(tile, scratch);
    // SAFETY: the caller's contract is the same.
    unsafe {
        match &task.cache.kept {
            Kept::F32(cache) => of_numbers::<V, f32>(task, tile, scratch, cache),
            Kept::F16(cache) => of_numbers::<V, f16>(task, tile, scratch, cache),
            Kept::Q8_0(cache) => of_bytes::<V, Octet>(task, tile, scratch, cache),
            Kept::Q4_0(cache) => of_bytes::<V, Nibble>(task, tile, scratch, cache),
        }
    }
    task.end(tile, scratch);
}

/// Asks for the query of row number `index` of the tile behind, whose rows are as many lines as a tile's own and as far apart as tokens are.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn ask_for_query<V: Vector>(task: &Task<'_>, tile: &Tile, index: usize) {
    let row = tile.rows.end + index;
    if row < task.sequence(tile).tokens.len() * task.group() {
        // SAFETY: the caller's contract is the same.
        unsafe { Vectors::<V>::ask(task.query(tile, row)) };
    }
}

/// Asks for the lines where the values of row number `index` of a tile will be written.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn ask_for_mixed<V: Vector>(task: &Task<'_>, tile: &Tile, index: usize) {
    let value_dim = task.attention.value_dim as usize;
    let at = task.at(tile, tile.rows.start + index) * value_dim;
    for line in (at..at + value_dim).step_by(LINE / size_of::<f32>()) {
        // SAFETY: the caller's contract is the same.
        unsafe { V::prefetch(task.mixed.place(line..line).cast()) };
    }
}

/// The segments of a tile, whose keys and values are kept as numbers.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn of_numbers<V: Vector, E: Number + Stored>(
    task: &Task<'_>,
    tile: &Tile,
    scratch: &mut Scratch,
    cache: &cache::Numbers<Aligned<E>>,
) {
    let own = cache.head(task.head(tile.kv_head));
    for segment in tile.segments.clone() {
        let next = Next::behind(task, tile, segment, scratch, |kv_head| cache.head(task.head(kv_head)));
        // SAFETY: the caller's contract is the same.
        unsafe { numbers::segment::<V, E>(task, tile, segment, scratch, (&own, &next)) };
        task.take(tile, segment, scratch);
    }
}

/// The same of those kept as bytes.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn of_bytes<V: Vector, P: Packed>(task: &Task<'_>, tile: &Tile, scratch: &mut Scratch, cache: &Owned) {
    let own = cache.head::<P>(task.head(tile.kv_head));
    // SAFETY: the caller's contract is the same.
    unsafe {
        bytes::prepare::<V>(task, tile, scratch);
        bytes::find_starts::<V, P>(task, tile, scratch);
        for segment in tile.segments.clone() {
            let next = Next::behind(task, tile, segment, scratch, |kv_head| cache.head::<P>(task.head(kv_head)));
            bytes::segment::<V, P>(task, tile, segment, scratch, (&own, &next));
            task.take(tile, segment, scratch);
        }
    }
}

/// Whether the registers have room for sixteen sums beside what is multiplied. Where they have not, a sum that lies in memory waits there longer
/// between two products than a few registers' sums take for all of them.
const fn has_many<V: Vector>() -> bool {
    V::REGISTERS >= 32
}

/// The lanes of a vector of scores, whose first is of `position`, that a row sees: the first and the last.
#[inline(always)]
fn lanes(seen: &Range<usize>, position: usize, lanes: usize) -> (i32, i32) {
    let lane = |at: usize| (at as i64 - position as i64).clamp(-1, lanes as i64) as i32;
    (lane(seen.start), lane(seen.end) - 1)
}

/// A head's width in memory of the scratch: a whole number of blocks, and of vectors.
fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(BLOCK)
}
