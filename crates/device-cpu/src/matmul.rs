//! Matrix products: every thread takes a contiguous share of the rows and streams it once for all tokens of the batch.
//!
//! Products that share an input go together: each of its rows is normalised, where it is to be, and packed once, and all of them are one
//! piece of work for the pool. What follows a product (bias, activation, the gate's product, the addition to the stream) is done by the
//! worker that has the sums.

mod following;
mod runs;

use std::ops::Range;

pub use following::Following;
use following::{Next, Ready};
use kauri_arch::{Linear, Norm};
use kauri_device::{Batch, Extent, Matrix, Weight, formula};
use kauri_formats::{Quant, Tiles};
use runs::{Run, Runs};

use crate::activation::{Activations, Rows, SPAN};
use crate::aligned::Aligned;
use crate::detect::{Kernels, Packing, Phase, Strips};
use crate::foresight::{FIRST, Foresight, Place};
use crate::pool::{Disjoint, Pool, share};
use crate::product::{self, Finish, Output, Product};

pub use crate::activation::TOGETHER;

/// Bytes of activations that meet a few strips before the next ones do: they stay in the second-level cache meanwhile.
const BLOCK_BYTES: usize = 1 << 20;

/// Tokens of a block are a whole number of these: whole tiles of whatever width.
const BLOCK_TOKENS: usize = 96;

/// Tokens that go with the block before them where no more are left: the last tile of all may reach so far back.
const BLOCK_REST: usize = 8;

/// Strips that a block meets before the next one does, where there are so many: their weights stay in the cache, too.
const BLOCK_STRIPS: usize = 4;

/// Pieces of a thread's share of a product with a few tokens: taking one costs more than waiting for the end of a longer one.
const FEW_PIECES: usize = 8;

/// Bytes of a matrix that a thread asks for at most before it computes.
const FORESEEN_BYTES: usize = 64 << 10;

/// Values whose packing is worth a piece of its own: it takes as long as to wake a thread.
const PACKED_MIN: usize = 4096;

/// One product of several on the same input.
pub struct Job<'a> {
    /// `y = weight x + bias`.
    pub linear: &'a Linear<Weight>,
    /// Another product of the same input and as many rows, for [`Finish::Gate`].
    pub gate: Option<&'a Linear<Weight>>,
    /// What becomes of it.
    pub finish: Finish,
    /// (tokens, rows).
    pub out: &'a mut [f32],
    /// The product that is computed next, of this one's output as it is: it may be packed for it at once. Who changes it before says so
    /// ([`Scratch::forget`]).
    pub then: Option<&'a Linear<Weight>>,
}

/// What products are computed of.
pub enum Source<'a> {
    /// Rows as they stand: (tokens, columns).
    Rows(&'a [f32]),
    /// Rows that are normalised as they are packed, and where they go: (tokens, columns) both.
    Normed(&'a Norm<Weight>, &'a [f32], &'a mut [f32]),
}

impl<'a> Source<'a> {
    /// What products read, once it is there.
    fn values(self) -> &'a [f32] {
        match self {
            Self::Rows(x) => x,
            Self::Normed(.., to) => to,
        }
    }
}

/// Rows of activations: (tokens, columns).
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// All that there are.
    pub x: &'a [f32],
    /// Which of them, and in which order; as they stand where unset.
    pub order: Option<&'a [u32]>,
    /// How many are meant.
    pub tokens: usize,
}

/// Some neighbouring rows of an input that go through a matrix of their own.
#[derive(Clone, Copy)]
pub struct Group<'a> {
    /// As in [`Job`].
    pub linear: &'a Linear<Weight>,
    /// As in [`Job`].
    pub gate: Option<&'a Linear<Weight>>,
    /// The rows of the input.
    pub tokens: (usize, usize),
    /// The row of the output where the first one's goes; the others follow.
    pub to: usize,
}

/// Memory for products, sized at load.
pub struct Scratch {
    kernels: Kernels,
    activations: Activations,
    /// One token's of the next product.
    following: Activations,
    /// That product, once they are packed.
    ready: Option<Ready>,
    /// The rows of the step's tokens, and of other rows.
    runs: [Runs; 2],
    workers: Vec<product::Scratch>,
    /// Two rows of weights for each thread.
    rows: Aligned<f32>,
    foresight: Foresight,
}

impl Scratch {
    /// For up to `tokens` rows that go through a matrix together, of up to `columns` values, on `threads` threads; for `values`
    /// values of rows that go through several.
    pub fn new(kernels: Kernels, tokens: usize, columns: usize, values: usize, threads: usize) -> Self {
        Self {
            kernels,
            activations: Activations::new(values.max(tokens * columns)),
            following: Activations::new(columns),
            ready: None,
            runs: [Runs::new(tokens), Runs::new(1)],
            workers: (0..threads).map(|_| product::Scratch::new(tokens)).collect(),
            rows: Aligned::new(2 * columns * threads),
            foresight: Foresight::new(threads),
        }
    }

    /// Begins with a step.
    pub fn begin(&mut self, batch: &Batch) {
        self.runs[0].begin(self.kernels, batch);
        self.foresight.begin();
        self.forget();
    }

    /// Values change that may have been packed for the next product.
    pub fn forget(&mut self) {
        self.ready = None;
    }

    /// Where `values` are packed that threads write now, each whole parts of so many, and that `linear` takes next as they are; nothing where that
    /// packs its input itself.
    pub fn follow(
        &mut self,
        linear: &Linear<Weight>,
        tokens: usize,
        values: &[f32],
        part: usize,
    ) -> Option<Following<'_>> {
        let values = Place::of(&values[..tokens * linear.columns as usize]);
        let kernels = (self.kernels, self.runs[0].only());
        let next = Next::of(kernels, linear, tokens, values).filter(|_| part.is_multiple_of(SPAN));
        self.ready = next.map(Next::ready);
        Some(Following::new(self.kernels, next?, &mut self.following))
    }

    /// Tells threads what they will read of the next product: for another job before it.
    pub fn foresee(&self, pool: &mut Pool) {
        self.foresight.tell(pool);
    }

    /// The instructions in use.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }
}

/// A job with its kernels, as all workers see it.
struct Shared<'a> {
    linear: &'a Linear<Weight>,
    gate: Option<&'a Linear<Weight>>,
    /// The kernels of both, if they have any, for a prompt's tokens, and for those that were written: strips of as many rows.
    prefill: Option<(Strips, Option<Strips>)>,
    decode: Option<(Strips, Option<Strips>)>,
    finish: Finish,
    out: &'a Disjoint<'a, f32>,
    /// The rows of the input.
    tokens: Rows,
    /// The row of the output where the first one's goes.
    to: usize,
    /// As in [`Job`].
    then: Option<&'a Linear<Weight>>,
}

/// The kernel of a product with about so many tokens, if it has one.
fn strips(kernels: Kernels, linear: &Linear<Weight>, tokens: usize, phase: Phase) -> Option<Strips> {
    kernels.strips(linear.weight.matrix().quant, linear.columns as usize, tokens, phase)
}

/// The bytes of a matrix, and what kernels multiply its values with.
fn stored(linear: &Linear<Weight>) -> (&[u8], Option<&Tiles>) {
    let matrix = linear.weight.matrix();
    (&matrix.data, matrix.scales.as_ref().filter(|_| matrix.quant == Quant::F8_E4M3))
}

/// What sums are multiplied with: of types whose values are not.
fn factor(linear: &Linear<Weight>) -> f32 {
    let Matrix { quant, scales, .. } = linear.weight.matrix();
    match scales {
        Some(scales) if *quant != Quant::F8_E4M3 => scales.only().expect("one factor for all, as `Matrix` has it"),
        _ => 1.0,
    }
}

/// Whether both products can be computed together, as a job with a gate.
pub fn go_together(kernels: Kernels, linear: &Linear<Weight>, gate: &Linear<Weight>) -> bool {
    // As many rows with any number of tokens.
    let rows = |linear| strips(kernels, linear, 1, Phase::Decode).map(|strips| strips.rows);
    linear.rows == gate.rows && rows(linear) == rows(gate)
}

/// Computes all `jobs` on the same `tokens` rows, and gives back what those were, normalised where they were to be.
///
/// The sum of each output runs in one fixed order, so that a token's result does not depend on the other tokens, on how the
/// rows are shared out, or on the number of threads. Where the kernels have others for a prompt, its tokens take those: if the rows are those
/// of the step's tokens, one for each.
///
/// # Panics
/// If a gate and its product do not [go together](go_together), or there are more than [`TOGETHER`] jobs, or none.
pub fn linear<'a>(
    pool: &mut Pool,
    scratch: &mut Scratch,
    mut source: Source<'a>,
    (extent, tokens): (Extent, usize),
    jobs: &mut [Job<'_>],
) -> &'a [f32] {
    let columns = jobs.first().expect("a product").linear.columns as usize;
    assert!(jobs.len() <= TOGETHER, "{} products of one input", jobs.len());
    if tokens == 0 {
        return source.values();
    }
    let kernels = scratch.kernels;
    let is_packed = scratch.ready.take().is_some_and(|ready| Ready::of_only(&source, tokens, jobs) == Some(ready));
    let index = usize::from(extent == Extent::Outputs || scratch.runs[0].rows() != tokens);
    let mut runs = std::mem::take(&mut scratch.runs[index]);
    if index > 0 {
        runs.of_outputs(tokens);
    }
    let rows = Rows { first: 0, tokens };
    let mut each = jobs.iter_mut();
    let jobs: [_; TOGETHER] = std::array::from_fn(|_| {
        let Job { linear, gate, finish, out, then } = each.next()?;
        Some((*linear, *gate, *finish, Disjoint::new(out), *then))
    });
    let mut each = jobs.iter().flatten();
    let jobs: [Option<Shared<'_>>; TOGETHER] = std::array::from_fn(|_| {
        let (linear, gate, finish, out, then) = each.next()?;
        let shared = Shared::new((kernels, tokens), (*linear, *gate), *finish, out, (rows, 0));
        Some(Shared { then: *then, ..shared })
    });
    if !is_packed {
        let strips = || jobs.iter().flatten().flat_map(|job| job.all_strips(runs.phases()));
        pack_all(pool, scratch, &mut source, (&runs, columns), strips);
    }
    let next = Next::behind((kernels, runs.only()), tokens, &jobs).filter(|_| !is_packed);
    let values = source.values();
    let x = Input { x: &values[..tokens * columns], order: None, tokens };
    let count = jobs.iter().flatten().map(Shared::units).sum::<usize>();
    let has_blocks = jobs.iter().flatten().any(|job| job.block() < tokens);
    let least = if has_blocks { BLOCK_STRIPS.min(count.div_ceil(pool.threads())) } else { 1 };
    let grain = if tokens <= product::DIRECT_MAX { pool.grain_for(FEW_PIECES, count) } else { pool.grain(count) };
    let grain = grain.max(least).next_multiple_of(next.map_or(1, |(_, together)| together));
    let next = next.map(|(next, _)| next);
    let threads = pool.threads();
    let share_of = |thread| {
        let pieces = share(thread, threads, count.div_ceil(grain));
        pieces.start * grain..count.min(pieces.end * grain)
    };
    scratch.foresight.pass(|thread| first_of(&jobs, share_of(thread), tokens));
    scratch.foresee(pool);
    let (memory, following) = Memory::new(scratch, columns, (is_packed, next));
    let work = |thread, units: Range<usize>| {
        // SAFETY: each thread takes the memory of its own number.
        let mut worker = unsafe { memory.worker(thread) };
        let mut first = 0;
        for job in jobs.iter().flatten() {
            let count = job.units();
            worker.then.last = share_of(thread).end.checked_sub(first + 1);
            let own = units.start.clamp(first, first + count) - first..units.end.clamp(first, first + count) - first;
            first += count;
            // SAFETY: pieces do not overlap, and are of whole spans where their output is packed.
            unsafe {
                job.run(x, runs.iter(), own.clone(), &mut worker);
                following.iter().for_each(|following| following.pack_strips(job, own.clone()));
            }
        }
    };
    pool.split_and_leave(count, grain, &work, &|thread| memory.leave(thread));
    scratch.ready = next.map(Next::ready);
    scratch.runs[index] = runs;
    values
}

/// Packs rows of the source as they stand, or normalised.
fn pack_all<I: Iterator<Item = Strips>>(
    pool: &mut Pool,
    scratch: &mut Scratch,
    source: &mut Source<'_>,
    (runs, columns): (&Runs, usize),
    strips: impl Fn() -> I,
) {
    let (kernels, size) = (scratch.kernels, (runs.rows(), columns));
    let rows_of = |token| runs.of(token).rows;
    let of_row = |token: usize| token * columns..(token + 1) * columns;
    match source {
        Source::Rows(x) => pack(pool, scratch, size, strips, &|token| &x[of_row(token)], &rows_of),
        Source::Normed(norm, from, to) => {
            let normed = Disjoint::new(&mut to[..runs.rows() * columns]);
            let row = |token| {
                // SAFETY: every row is packed once.
                let row = unsafe { normed.slice(of_row(token)) };
                row.copy_from_slice(&from[of_row(token)]);
                kernels.norm(norm, row);
                &*row
            };
            pack(pool, scratch, size, strips, &row, &rows_of);
        }
    }
}

/// What is read first of these parts of all jobs with so many tokens, where they are so few that it is worth to ask for it.
fn first_of(jobs: &[Option<Shared<'_>>], units: Range<usize>, tokens: usize) -> [Place; FIRST] {
    let mut before = 0;
    for job in jobs.iter().flatten().filter(|_| tokens <= product::DIRECT_MAX) {
        if units.start < before + job.units() {
            return job.first_of(units.start - before..job.units().min(units.end - before));
        }
        before += job.units();
    }
    [Place::default(); FIRST]
}

/// Computes `count` groups of rows of `x`, all of them with matrices of the same types and sizes.
///
/// Each output is summed as [`linear`] sums those of tokens that were written, so that it does not depend on how rows are grouped.
///
/// # Panics
/// If a gate and its product do not [go together](go_together).
pub fn grouped<'a>(
    pool: &mut Pool,
    scratch: &mut Scratch,
    x: Input<'_>,
    (count, group): (usize, &(dyn Fn(usize) -> Group<'a> + Sync)),
    finish: Finish,
    out: &mut [f32],
) {
    if count == 0 {
        return;
    }
    scratch.forget();
    let kernels = scratch.kernels;
    let columns = group(0).linear.columns as usize;
    let out = Disjoint::new(out);
    // Kernels of one kind for all of them: their input is packed together.
    let kernels = (kernels, x.tokens / count);
    let shared = |index: usize| {
        let Group { linear, gate, tokens: (first, tokens), to } = group(index);
        let rows = Rows { first, tokens };
        Shared::new(kernels, (linear, gate), finish, &out, (rows, to))
    };
    let of_first = shared(0);
    let strips = || of_first.all_strips(std::iter::once(Phase::Decode));
    // Groups are in the order of their rows.
    let rows_of = |token: usize| {
        let of = (0..count).find(|&index| group(index).tokens.0 + group(index).tokens.1 > token);
        shared(of.expect("every row is in a group")).tokens
    };
    pack(pool, scratch, (x.tokens, columns), strips, &|token| x.row(token, columns), &rows_of);
    let units = of_first.units();
    let (memory, _) = Memory::new(scratch, columns, (false, None));
    let work = |thread, mut pieces: Range<usize>| {
        // SAFETY: each thread takes the memory of its own number.
        let mut worker = unsafe { memory.worker(thread) };
        while pieces.start < pieces.end {
            let (index, first) = (pieces.start / units, pieces.start % units);
            let end = units.min(first + pieces.len());
            // SAFETY: pieces do not overlap.
            unsafe {
                let shared = shared(index);
                let rows = std::iter::once(Run { rows: shared.tokens, phase: Phase::Decode });
                shared.run(x, rows, first..end, &mut worker);
            }
            pieces.start += end - first;
        }
    };
    pool.split_and_leave(count * units, pool.grain(count * units), &work, &|thread| memory.leave(thread));
}

/// Packs the input in the ways that the kernels want it: `row` gives each of its rows once, and `rows_of` says with which others it stands.
fn pack<'a, I: Iterator<Item = Strips>>(
    pool: &mut Pool,
    scratch: &mut Scratch,
    (tokens, columns): (usize, usize),
    strips: impl Fn() -> I,
    row: &(dyn Fn(usize) -> &'a [f32] + Sync),
    rows_of: &(dyn Fn(usize) -> Rows + Sync),
) {
    let kernels = scratch.kernels;
    // The widest tiles of each packing: all kernels of one have the same.
    let (mut bytes, mut tiles, mut numbers, mut brains, mut thirds) = (None, None, None, None, None);
    for strips in strips() {
        let widest = match strips.packing {
            Packing::Bytes(_) => &mut bytes,
            Packing::Tiles(_) => &mut tiles,
            Packing::Numbers => &mut numbers,
            Packing::Brains => &mut brains,
            Packing::Thirds(count) => {
                thirds = Some((strips.tokens, count));
                continue;
            }
        };
        *widest = Some(strips.tokens);
    }
    if bytes.or(tiles).or(numbers).or(brains).or(thirds.map(|(widest, _)| widest)).is_none() {
        // Rows are wanted all the same, normalised.
        (0..tokens).for_each(|token| _ = row(token));
        return;
    }
    scratch.activations.begin(tokens, columns, strips().filter_map(|strips| strips.packing.correction()));
    let writer = scratch.activations.writer();
    // Of thirds whole tiles: every line has words of all their tokens, and threads that write the same lines take them from each other.
    let whole = thirds.map_or(1, |(widest, _)| widest);
    let grain = pool.grain(tokens).max(PACKED_MIN / columns).next_multiple_of(whole);
    pool.split(tokens, grain, &|_, tokens| {
        let mut rows = rows_of(tokens.start);
        for token in tokens {
            if token >= rows.first + rows.tokens {
                rows = rows_of(token);
            }
            let x = row(token);
            // SAFETY: tokens are shared out without overlap.
            unsafe {
                if let Some(widest) = bytes {
                    kernels.quantise(&writer.bytes, rows.tile_of(token, widest), (token, 0), x);
                }
                if let Some(widest) = tiles {
                    kernels.quantise(&writer.tiles, rows.tile_of(token, widest), (token, 0), x);
                }
                if let Some(widest) = numbers {
                    writer.keep(rows.tile_of(token, widest), token, x);
                }
                if let Some(widest) = brains {
                    kernels.round(&writer, rows.tile_of(token, widest), (token, 0), x);
                }
                if let Some((widest, count)) = thirds {
                    kernels.split(&writer, rows.tile_of(token, widest), token, x, count);
                }
            }
        }
    });
}

impl<'a> Input<'a> {
    /// Row `token`.
    fn row(&self, token: usize, columns: usize) -> &'a [f32] {
        let place = self.order.map_or(token, |order| order[token] as usize);
        &self.x[place * columns..(place + 1) * columns]
    }
}

/// The memory of all threads for one product, and what they read.
struct Memory<'a> {
    kernels: Kernels,
    activations: &'a Activations,
    workers: Disjoint<'a, product::Scratch>,
    rows: Disjoint<'a, f32>,
    columns: usize,
    foresight: &'a Foresight,
}

/// One thread's.
struct Worker<'a> {
    kernels: Kernels,
    activations: &'a Activations,
    scratch: &'a mut product::Scratch,
    /// Two rows of weights.
    weights: &'a mut [f32],
    then: Then,
}

/// What a thread reads behind its share of a product, and asks for with the last strip of it.
struct Then {
    /// That strip's number in the job in progress, if the job has it.
    last: Option<usize>,
    /// The first of what it reads then.
    place: Place,
}

impl Then {
    /// What is asked for with a gate's strip, and with that of the same number that goes with it or is alone: as much as they have bytes.
    fn of(&self, strip: usize, strip_bytes: usize) -> [Option<Place>; 2] {
        [0..strip_bytes, strip_bytes..2 * strip_bytes].map(|bytes| {
            let part = self.place.part(bytes);
            (self.last == Some(strip) && part.bytes > 0).then_some(part)
        })
    }
}

impl<'a> Memory<'a> {
    /// That of a product whose input may have been packed with the one before, and where that of the next one is packed.
    fn new(
        scratch: &'a mut Scratch,
        columns: usize,
        (is_packed, next): (bool, Option<Next<'_>>),
    ) -> (Self, Option<Following<'a>>) {
        let Scratch { kernels, activations, following, workers, rows, foresight, .. } = scratch;
        let (activations, following) = match next {
            _ if is_packed => (&*following, None),
            Some(next) => (&*activations, Some(Following::new(*kernels, next, following))),
            None => (&*activations, None),
        };
        let memory = Self {
            kernels: *kernels,
            activations,
            workers: Disjoint::new(workers),
            rows: Disjoint::new(rows),
            columns: 2 * columns,
            foresight,
        };
        (memory, following)
    }

    /// That of thread number `thread`.
    ///
    /// # Safety
    /// It is not in use.
    unsafe fn worker(&self, thread: usize) -> Worker<'_> {
        // SAFETY: numbers do not overlap, and this one is in use once by the caller's word.
        let (scratch, weights) = unsafe {
            let weights = self.rows.slice(thread * self.columns..(thread + 1) * self.columns);
            (&mut self.workers.slice(thread..thread + 1)[0], weights)
        };
        let then = Then { last: None, place: self.foresight.next(thread) };
        Worker { kernels: self.kernels, activations: self.activations, scratch, weights, then }
    }

    /// Thread number `thread` takes no more strips.
    fn leave(&self, thread: usize) {
        // SAFETY: it works on none now.
        self.kernels.leave(unsafe { self.worker(thread) }.scratch);
    }
}

impl<'a> Shared<'a> {
    /// What all workers see of a job: kernels for about so many tokens, a product and the one that goes with it, where the sums go, the
    /// rows of the input and the place of the first.
    fn new(
        (kernels, about): (Kernels, usize),
        (linear, gate): (&'a Linear<Weight>, Option<&'a Linear<Weight>>),
        finish: Finish,
        out: &'a Disjoint<'a, f32>,
        (tokens, to): (Rows, usize),
    ) -> Self {
        assert!(gate.is_none_or(|gate| go_together(kernels, linear, gate)), "a gate that goes with its product");
        let of = |phase| {
            let strips = |linear| strips(kernels, linear, about, phase);
            strips(linear).map(|own| (own, gate.and_then(strips)))
        };
        let [prefill, decode] = [Phase::Prefill, Phase::Decode].map(of);
        Self { linear, gate, prefill, decode, finish, out, tokens, to, then: None }
    }

    /// The kernels of a phase.
    fn strips_in(&self, phase: Phase) -> Option<(Strips, Option<Strips>)> {
        match phase {
            Phase::Prefill => self.prefill,
            Phase::Decode => self.decode,
        }
    }

    /// All kernels of some phases.
    fn all_strips(&self, phases: impl Iterator<Item = Phase>) -> impl Iterator<Item = Strips> {
        phases.filter_map(|phase| self.strips_in(phase)).flat_map(|(own, gate)| [Some(own), gate]).flatten()
    }

    /// Rows of a strip, in any phase; none without kernels.
    fn height(&self) -> Option<usize> {
        self.decode.map(|(own, _)| own.rows)
    }

    /// In how many parts it is computed: strips of rows, or rows.
    fn units(&self) -> usize {
        let rows = self.linear.rows as usize;
        self.height().map_or(rows, |height| rows.div_ceil(height))
    }

    /// What is read first of some of the parts.
    fn first_of(&self, units: Range<usize>) -> [Place; FIRST] {
        let height = self.height().unwrap_or(1);
        [self.gate, Some(self.linear)].map(|linear| {
            let Some(linear) = linear else { return Place::default() };
            let matrix = linear.weight.matrix();
            let (bytes, strip_bytes) = (matrix.data.len(), height * matrix.row_bytes());
            let part = &matrix.data[bytes.min(units.start * strip_bytes)..bytes.min(units.end * strip_bytes)];
            Place::of(&part[..part.len().min(FORESEEN_BYTES)])
        })
    }

    /// Computes some of the parts, for all its rows: those of these runs.
    ///
    /// # Safety
    /// `worker` is of the kernels that this was made with; no other worker computes the same parts.
    unsafe fn run(
        &self,
        x: Input<'_>,
        runs: impl Iterator<Item = Run> + Clone,
        units: Range<usize>,
        worker: &mut Worker<'_>,
    ) {
        if self.decode.is_none() {
            // SAFETY: the caller's contract is the same.
            return unsafe { self.scalar(x, worker.weights, units) };
        }
        let strips = |run: Run| self.strips_in(run.phase).expect("kernels of all phases, or of none");
        if self.tokens.tokens == 1 {
            // SAFETY: the caller's contract is the same.
            return runs.for_each(|run| unsafe { self.run_one(strips(run), units.clone(), worker) });
        }
        for start in units.clone().step_by(BLOCK_STRIPS) {
            let together = start..units.end.min(start + BLOCK_STRIPS);
            for run in runs.clone() {
                // SAFETY: the caller's contract is the same.
                unsafe { self.run_together(strips(run), together.clone(), run.rows, worker) };
            }
        }
    }

    /// The same of a few strips for some of its rows.
    ///
    /// # Safety
    /// As [`Self::run`]; `strips` are those of the rows' phase.
    unsafe fn run_together(
        &self,
        strips: (Strips, Option<Strips>),
        units: Range<usize>,
        rows: Rows,
        worker: &mut Worker<'_>,
    ) {
        let (block, end) = (self.block(), rows.first + rows.tokens);
        let mut first = rows.first;
        while first < end {
            let left = end - first;
            let tokens = Rows { first, tokens: if left < block + BLOCK_REST { left } else { block } };
            first += tokens.tokens;
            for strip in units.clone() {
                // SAFETY: the caller's contract is the same.
                unsafe { self.strips(strips, strip..strip + 1, tokens, worker) };
            }
        }
    }

    /// The same for its only row.
    ///
    /// # Safety
    /// As [`Self::run`]; `strips` are those of the row's phase.
    unsafe fn run_one(&self, strips: (Strips, Option<Strips>), units: Range<usize>, worker: &mut Worker<'_>) {
        let whole = self.linear.rows as usize / strips.0.rows;
        let together = strips.1.map_or(strips.0.together, |gate| gate.together.min(strips.0.together));
        for start in units.clone().step_by(together) {
            let end = units.end.min(start + together);
            // A short last one by itself.
            for run in [start..end.min(whole), start.max(whole)..end] {
                if !run.is_empty() {
                    // SAFETY: the caller's contract is the same.
                    unsafe { self.strips(strips, run, self.tokens, worker) };
                }
            }
        }
    }

    /// How many tokens meet a strip before another one does: all, or as many as the cache has room for.
    fn block(&self) -> usize {
        let Some((strips, _)) = self.decode else { return self.tokens.tokens.max(1) };
        let token_bytes = strips.packing.bytes(self.linear.columns as usize);
        (BLOCK_BYTES / token_bytes.max(1)).next_multiple_of(BLOCK_TOKENS)
    }

    /// Computes the rows of a strip for some of the tokens, or of a run of whole ones for one.
    ///
    /// # Safety
    /// `strips` are those of this job and can take a run so long, for instructions that the CPU has; no other worker computes the same strips.
    unsafe fn strips(
        &self,
        strips: (Strips, Option<Strips>),
        run: Range<usize>,
        tokens: Rows,
        worker: &mut Worker<'_>,
    ) {
        let Worker { kernels, activations: x, scratch, then, .. } = worker;
        let (rows, columns) = (self.linear.rows as usize, self.linear.columns as usize);
        let output = Output {
            finish: self.finish,
            factors: [Some(self.linear), self.gate].map(|linear| linear.map_or(1.0, factor)),
            bias: self.linear.bias.as_ref().map(Weight::vector),
            held_bias: self.gate.and_then(|gate| gate.bias.as_ref()).map(Weight::vector),
            rows,
            height: strips.0.rows * run.len(),
            first: tokens.first,
            to: self.to + tokens.first - self.tokens.first,
            out: self.out,
        };
        let x = *x;
        let then = then.of(run.end - 1, strips.0.rows * self.linear.weight.matrix().row_bytes());
        // SAFETY: loading checked the sizes of the matrices; the rest is the caller's contract.
        unsafe {
            if let (Some(gate), Some(strips)) = (self.gate, strips.1) {
                let (matrix, scales) = stored(gate);
                let product = Product { matrix, rows, columns, scales, x, tokens, then: then[0], output: None };
                (strips.run)(&product, run.clone(), scratch);
                scratch.hold();
            }
            let (matrix, scales) = stored(self.linear);
            let output = Some((&output, kernels.finisher()));
            let then = then[usize::from(self.gate.is_some())];
            (strips.0.run)(&Product { matrix, rows, columns, scales, x, tokens, then, output }, run, scratch);
        }
    }

    /// The rows `rows`, dequantised one after the other; `weights` has room for two.
    ///
    /// # Safety
    /// No other worker computes the same rows.
    unsafe fn scalar(&self, x: Input<'_>, weights: &mut [f32], rows: Range<usize>) {
        let matrix = self.linear.weight.matrix();
        let (weights, gate_weights) = weights.split_at_mut(matrix.columns);
        let bias = |linear: &Linear<Weight>, row: usize| linear.bias.as_ref().map_or(0.0, |bias| bias.vector()[row]);
        for row in rows {
            matrix.dequantise(row, weights);
            if let Some(gate) = self.gate {
                let gate = gate.weight.matrix();
                gate.dequantise(row, gate_weights);
            }
            for token in 0..self.tokens.tokens {
                let x = x.row(self.tokens.first + token, matrix.columns);
                let at = (self.to + token) * matrix.rows + row;
                let sum = formula::dot(weights, x) + bias(self.linear, row);
                // SAFETY: this element belongs to this worker alone.
                let place = &mut unsafe { self.out.slice(at..at + 1) }[0];
                *place = match (self.finish, self.gate) {
                    (Finish::Store, _) => sum,
                    (Finish::Add(scale), _) => *place + scale * sum,
                    (Finish::Activate(activation), _) => formula::activate(activation, sum),
                    (Finish::Gate(activation), Some(gate)) => {
                        let gate = formula::dot(gate_weights, x) + bias(gate, row);
                        formula::gated(activation, gate, sum)
                    }
                    (Finish::Gate(_), None) => unreachable!("a gate's product goes with it"),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Then};

    #[test]
    fn the_last_strip_of_a_share_asks_for_what_comes_then() {
        let place = |start, bytes| Some(Place { start, bytes });
        let then = |last| Then { last, place: Place { start: 1000, bytes: 150 } };
        assert_eq!(then(Some(7)).of(7, 100), [place(1000, 100), place(1100, 50)]);
        assert_eq!(then(Some(7)).of(7, 200), [place(1000, 150), None]);
        assert_eq!(then(Some(7)).of(6, 100), [None; 2]);
        assert_eq!(then(None).of(0, 100), [None; 2]);
    }
}
