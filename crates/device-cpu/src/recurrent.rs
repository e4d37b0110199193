//! What goes from token to token in a state: convolutions of a few tokens, and recurrences.
//!
//! Tokens are taken in order with one fixed arithmetic each, so that no bit depends on how a prompt was cut; workers share
//! channels and heads, which have nothing to do with each other. The states of a head stand sixteen values of its input side by
//! side, so that what it gives is lanes of a vector and no sum runs across them.

mod selective;
mod states;
mod time_mix;

use std::marker::PhantomData;
use std::ops::Range;

use kauri_arch::{Activation, Convolution, GatedDelta, StateSpace};
use kauri_device::recurrence::{softplus, unit};
use kauri_device::{Batch, Sequence, Weight, formula};

use crate::detect::Kernels;
use crate::elementwise;
use crate::pool::{Disjoint, Pool};
use crate::vector::{self, Vector};

pub(crate) use selective::{Selection, select};
pub(crate) use states::States;
pub(crate) use time_mix::{Replaced, Replacement, pass_by};

/// Values of a head's input side by side.
const LANES: usize = 16;
/// Channels of a convolution that one worker takes at a time.
const CHUNK: usize = 64;
/// Most taps of a convolution.
const TAPS_MAX: usize = kauri_arch::decoder::TAPS_MAX as usize;
/// Tokens that go through a state while it is in registers.
const TOGETHER: usize = 4;
/// Tokens that go through a strip of a state before the next strip: what they bring to all strips fits beside one in the
/// first-level cache.
const BLOCK: usize = 16;

/// Most values of a key of the delta rule.
const KEYS_MAX: usize = kauri_arch::recurrent::KEY_DIM_MAX as usize;
/// Tokens whose queries and keys are prepared together.
const PREPARED: usize = 7;

/// One column of a strip of a state, in a cache line of its own: across two, every store would be two.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Row([f32; LANES]);

impl States {
    /// Convolves the new tokens of `batch` in `channels` (tokens, channels), in place.
    pub fn convolve(
        &mut self,
        pool: &mut Pool,
        kernels: Kernels,
        convolution: &Convolution<Weight>,
        batch: &Batch,
        channels: &mut [f32],
    ) {
        let convolve = Convolve {
            sequences: &batch.sequences,
            channels: convolution.channels as usize,
            taps: convolution.taps as usize,
            weight: convolution.weight.vector(),
            bias: convolution.bias.as_ref().map(Weight::vector),
            activation: convolution.activation,
            values: Disjoint::new(channels),
            tails: Disjoint::new(&mut self.tails),
        };
        let chunks = convolve.channels.div_ceil(CHUNK);
        pool.split(chunks, pool.grain(chunks), &|_, chunks| {
            for chunk in chunks {
                let channels = chunk * CHUNK..((chunk + 1) * CHUNK).min(convolve.channels);
                kernels.convolve(&convolve, channels);
            }
        });
    }

    /// Takes the new tokens of `batch` into the states of `space`: `channels` (tokens, channels) and `steps` (tokens, heads) to
    /// `mixed` (tokens, heads, `head_dim`).
    pub fn scan(
        &mut self,
        pool: &mut Pool,
        kernels: Kernels,
        space: &StateSpace<Weight>,
        batch: &Batch,
        [channels, steps, mixed]: [&mut [f32]; 3],
    ) {
        let scan = Scan {
            heads: space.heads as usize,
            head_dim: space.head_dim as usize,
            groups: space.groups as usize,
            columns: space.state as usize,
            decay: space.decay.vector(),
            step_bias: space.step_bias.vector(),
            step_limits: space.step_limits,
            skip: space.skip.vector(),
            channels,
            steps,
            mixed: Disjoint::new(mixed),
            states: Disjoint::new(&mut self.recurrent),
        };
        by_head(pool, scan.heads, batch, |sequence, head| kernels.scan(&scan, sequence, head));
    }

    /// Takes the new tokens of `batch` into the states of `delta`: `channels` (tokens, channels), `steps` and `rates` (tokens,
    /// heads) to `mixed` (tokens, heads, `value_dim`).
    pub fn delta(
        &mut self,
        pool: &mut Pool,
        kernels: Kernels,
        delta: &GatedDelta<Weight>,
        batch: &Batch,
        [channels, steps, rates, mixed]: [&mut [f32]; 4],
    ) {
        let delta = Delta {
            key_heads: delta.key_heads as usize,
            heads: delta.value_heads as usize,
            key_dim: delta.key_dim as usize,
            value_dim: delta.value_dim as usize,
            interleaved: delta.interleaved,
            decay: delta.decay.vector(),
            step_bias: delta.step_bias.vector(),
            epsilon: delta.epsilon,
            channels,
            steps,
            rates,
            mixed: Disjoint::new(mixed),
            states: Disjoint::new(&mut self.recurrent),
        };
        by_head(pool, delta.heads, batch, |sequence, head| kernels.delta(&delta, sequence, head));
    }
}

/// Shares the heads of all sequences over the pool. Those of one sequence go to different threads, since it may be a long prompt.
fn by_head(pool: &mut Pool, heads: usize, batch: &Batch, work: impl Fn(&Sequence, usize) + Sync) {
    let sequences = batch.sequences.len();
    let tasks = heads * sequences;
    pool.split(tasks, pool.grain(tasks), &|_, tasks| {
        tasks.for_each(|task| work(&batch.sequences[task % sequences], task / sequences));
    });
}

/// A convolution of all sequences of a batch.
pub(crate) struct Convolve<'a> {
    sequences: &'a [Sequence],
    channels: usize,
    taps: usize,
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    activation: Activation,
    values: Disjoint<'a, f32>,
    tails: Disjoint<'a, f32>,
}

/// Convolves up to [`CHUNK`] channels, which no other worker does; inlined into a function that is compiled for the instruction
/// set in use, with the same bits on all of them before the activation.
#[inline(always)]
pub(crate) fn convolve(task: &Convolve<'_>, kernels: Kernels, channels: Range<usize>) {
    let (width, tail) = (channels.len(), task.taps - 1);
    // Taps as rows, so that channels are lanes.
    let mut weights = [[0.0f32; CHUNK]; TAPS_MAX];
    let mut bias = [0.0f32; CHUNK];
    for (index, channel) in channels.clone().enumerate() {
        for (tap, weights) in weights.iter_mut().enumerate().take(task.taps) {
            weights[index] = task.weight[channel * task.taps + tap];
        }
        bias[index] = task.bias.map_or(0.0, |bias| bias[channel]);
    }
    for sequence in task.sequences {
        let slot = sequence.slot as usize * tail;
        // SAFETY: these channels are this worker's, and no two sequences have the same slot.
        let tails = |row: usize| unsafe {
            let start = (slot + row) * task.channels;
            task.tails.slice(start + channels.start..start + channels.end)
        };
        if sequence.cached_tokens == 0 {
            for row in 0..tail {
                tails(row).fill(0.0);
            }
        }
        for (token, position) in sequence.tokens.clone().zip(sequence.positions()) {
            let start = token * task.channels;
            // SAFETY: these channels are this worker's.
            let values = unsafe { task.values.slice(start + channels.start..start + channels.end) };
            // The row of the oldest input that is seen, which the newest replaces.
            let first = position as usize % tail;
            let mut sums = bias;
            for (tap, weights) in weights.iter().enumerate().take(task.taps) {
                let row = if first + tap < tail { first + tap } else { first + tap - tail };
                let seen = if tap == tail { &*values } else { &*tails(row) };
                if let Some(seen) = seen.first_chunk::<CHUNK>() {
                    for channel in 0..CHUNK {
                        sums[channel] += weights[channel] * seen[channel];
                    }
                } else {
                    for ((sum, weight), seen) in sums.iter_mut().zip(weights).zip(seen) {
                        *sum += weight * seen;
                    }
                }
            }
            tails(first).copy_from_slice(values);
            match task.activation {
                Activation::Identity => values.copy_from_slice(&sums[..width]),
                activation => kernels.activate(activation, false, values, &sums[..width]),
            }
        }
    }
}

/// A selective state space over all sequences of a batch.
pub(crate) struct Scan<'a> {
    heads: usize,
    head_dim: usize,
    groups: usize,
    columns: usize,
    decay: &'a [f32],
    step_bias: &'a [f32],
    step_limits: [f32; 2],
    skip: &'a [f32],
    channels: &'a [f32],
    steps: &'a [f32],
    mixed: Disjoint<'a, f32>,
    states: Disjoint<'a, Row>,
}

/// Takes the tokens of one sequence into the state of one head, which no other worker does; inlined into a function that is
/// compiled for the instruction set in use.
///
/// # Safety
/// The CPU has the instructions of `A`.
#[inline(always)]
pub(crate) unsafe fn scan<A: Arithmetic>(task: &Scan<'_>, sequence: &Sequence, head: usize) {
    let strips = task.head_dim.div_ceil(LANES);
    let rows = strips * task.columns;
    let start = (sequence.slot as usize * task.heads + head) * rows;
    // SAFETY: this head of this slot is this worker's.
    let state = unsafe { task.states.slice(start..start + rows) };
    if sequence.cached_tokens == 0 {
        state.fill(Row([0.0; LANES]));
    }
    let mut first = sequence.tokens.start;
    while first < sequence.tokens.end {
        let tokens = first..(first + BLOCK).min(sequence.tokens.end);
        // SAFETY: the caller's contract is the same.
        unsafe { scan_block::<A>(task, head, &tokens, state) };
        first = tokens.end;
    }
}

/// Takes up to [`BLOCK`] tokens into the state of one head, strip by strip: each stays in the first-level cache for all of them.
///
/// # Safety
/// As [`scan`].
#[inline(always)]
unsafe fn scan_block<A: Arithmetic>(task: &Scan<'_>, head: usize, tokens: &Range<usize>, state: &mut [Row]) {
    let (mut steps, mut keep) = ([0.0; BLOCK], [0.0; BLOCK]);
    for (index, token) in tokens.clone().enumerate() {
        let step = softplus(task.steps[token * task.heads + head] + task.step_bias[head]);
        steps[index] = step.clamp(task.step_limits[0], task.step_limits[1]);
        keep[index] = (steps[index] * task.decay[head]).exp();
    }
    for (strip, state) in state.chunks_exact_mut(task.columns).enumerate() {
        let lanes = strip * LANES..((strip + 1) * LANES).min(task.head_dim);
        let mut index = 0;
        let (steps, steps_rest) = steps[..tokens.len()].as_chunks::<TOGETHER>();
        let (keep, keep_rest) = keep[..tokens.len()].as_chunks::<TOGETHER>();
        for (steps, keep) in steps.iter().zip(keep) {
            // SAFETY: the caller's contract is the same.
            unsafe { scan_strip::<A, TOGETHER>(task, head, tokens.start + index, [steps, keep], &lanes, state) };
            index += TOGETHER;
        }
        for (&step, &keep) in steps_rest.iter().zip(keep_rest) {
            // SAFETY: the caller's contract is the same.
            unsafe { scan_strip::<A, 1>(task, head, tokens.start + index, [&[step], &[keep]], &lanes, state) };
            index += 1;
        }
    }
}

/// Takes `TOKENS` tokens from `first` on, whose steps and decays are given, into a strip of the state of one head.
///
/// # Safety
/// As [`scan`].
#[inline(always)]
unsafe fn scan_strip<A: Arithmetic, const TOKENS: usize>(
    task: &Scan<'_>,
    head: usize,
    first: usize,
    [steps, keep]: [&[f32; TOKENS]; 2],
    lanes: &Range<usize>,
    state: &mut [Row],
) {
    let (head_dim, columns, width) = (task.head_dim, task.columns, task.heads * task.head_dim);
    let row = width + 2 * task.groups * columns;
    let b_start = width + head / (task.heads / task.groups) * columns;
    let c_start = b_start + task.groups * columns;
    let mut taken = [[0.0; LANES]; TOKENS];
    let nothing: [&[f32]; TOKENS] = [&[]; TOKENS];
    let (mut x, mut b, mut c) = (nothing, nothing, nothing);
    for index in 0..TOKENS {
        let channels = &task.channels[(first + index) * row..][..row];
        b[index] = &channels[b_start..][..columns];
        c[index] = &channels[c_start..][..columns];
        x[index] = &channels[head * head_dim..][lanes.start..lanes.end];
        for (taken, x) in taken[index].iter_mut().zip(x[index]) {
            *taken = steps[index] * x;
        }
    }
    // SAFETY: the caller's contract is the same; rows of `b` and `c` have a value for each column.
    let sums = unsafe { A::sweep(state, &taken, keep, &b, &c) };
    for (index, sums) in sums.iter().enumerate() {
        let start = (first + index) * width + head * head_dim;
        // SAFETY: this head of this token is this worker's.
        let y = unsafe { task.mixed.slice(start + lanes.start..start + lanes.end) };
        for ((y, sum), x) in y.iter_mut().zip(sums).zip(x[index]) {
            *y = sum + task.skip[head] * x;
        }
    }
}

/// The gated delta rule over all sequences of a batch.
pub(crate) struct Delta<'a> {
    key_heads: usize,
    heads: usize,
    key_dim: usize,
    value_dim: usize,
    interleaved: bool,
    decay: &'a [f32],
    step_bias: &'a [f32],
    epsilon: f32,
    channels: &'a [f32],
    steps: &'a [f32],
    rates: &'a [f32],
    mixed: Disjoint<'a, f32>,
    states: Disjoint<'a, Row>,
}

/// A token of one head, ready for the state.
#[derive(Clone, Copy)]
pub(crate) struct Prepared {
    q: [f32; KEYS_MAX],
    k: [f32; KEYS_MAX],
    both: f32,
    keep: f32,
    rate: f32,
}

/// A rule that corrects a state of (keys, values) for each head, token by token.
pub(crate) trait Rule {
    /// A token of one head, ready for the state.
    type Token: Copy;
    /// Before it is.
    const NOTHING: Self::Token;

    /// Heads, values of a key, values of a value.
    fn sizes(&self) -> [usize; 3];

    /// (slots, heads, strips of lanes, keys).
    fn states(&self) -> &Disjoint<'_, Row>;

    /// (tokens, heads, values): what heads give.
    fn mixed(&self) -> &Disjoint<'_, f32>;

    /// Makes a token of one head, which no other worker does, ready for the state.
    ///
    /// # Safety
    /// The CPU has the instructions of `A`.
    unsafe fn prepare<A: Arithmetic>(&self, token: usize, head: usize, to: &mut Self::Token);

    /// The values of a token of one head that a strip takes in.
    fn values<'a>(&'a self, token: usize, head: usize, prepared: &'a Self::Token, lanes: &Range<usize>) -> &'a [f32];

    /// Corrects a strip for one token after the other; each value is replaced by what the state gives.
    ///
    /// # Safety
    /// The CPU has the instructions of `A`; the tokens are prepared.
    unsafe fn correct<A: Arithmetic>(state: &mut [Row], tokens: &[Self::Token], values: &mut [[f32; LANES]; PREPARED]);
}

/// Takes the tokens of one sequence into the state of one head, which no other worker does; inlined into a function that is
/// compiled for the instruction set in use.
///
/// # Safety
/// The CPU has the instructions of `A`.
#[inline(always)]
pub(crate) unsafe fn follow<R: Rule, A: Arithmetic>(rule: &R, sequence: &Sequence, head: usize) {
    let [heads, keys, width] = rule.sizes();
    let rows = width.div_ceil(LANES) * keys;
    let start = (sequence.slot as usize * heads + head) * rows;
    // SAFETY: this head of this slot is this worker's.
    let state = unsafe { rule.states().slice(start..start + rows) };
    if sequence.cached_tokens == 0 {
        state.fill(Row([0.0; LANES]));
    }
    let mut prepared = [R::NOTHING; PREPARED];
    let mut first = sequence.tokens.start;
    while first < sequence.tokens.end {
        let count = PREPARED.min(sequence.tokens.end - first);
        for (index, prepared) in prepared.iter_mut().take(count).enumerate() {
            // SAFETY: the caller's contract is the same.
            unsafe { rule.prepare::<A>(first + index, head, prepared) };
        }
        // A strip of the state stays in the first-level cache for all of them.
        for (strip, state) in state.chunks_exact_mut(keys).enumerate() {
            let lanes = strip * LANES..((strip + 1) * LANES).min(width);
            let mut values = [[0.0; LANES]; PREPARED];
            for (index, values) in values.iter_mut().take(count).enumerate() {
                values[..lanes.len()].copy_from_slice(rule.values(first + index, head, &prepared[index], &lanes));
            }
            // SAFETY: the caller's contract is the same, and these tokens are prepared.
            unsafe { R::correct::<A>(state, &prepared[..count], &mut values) };
            for (index, values) in values[..count].iter().enumerate() {
                let start = ((first + index) * heads + head) * width;
                // SAFETY: this head of this token is this worker's.
                let y = unsafe { rule.mixed().slice(start + lanes.start..start + lanes.end) };
                y.copy_from_slice(&values[..lanes.len()]);
            }
        }
        first += count;
    }
}

impl Rule for Delta<'_> {
    type Token = Prepared;
    const NOTHING: Prepared = Prepared { q: [0.0; KEYS_MAX], k: [0.0; KEYS_MAX], both: 0.0, keep: 0.0, rate: 0.0 };

    fn sizes(&self) -> [usize; 3] {
        [self.heads, self.key_dim, self.value_dim]
    }

    fn states(&self) -> &Disjoint<'_, Row> {
        &self.states
    }

    fn mixed(&self) -> &Disjoint<'_, f32> {
        &self.mixed
    }

    /// Queries and keys of the length they should have, and the numbers of the head.
    #[inline(always)]
    unsafe fn prepare<A: Arithmetic>(&self, token: usize, head: usize, to: &mut Prepared) {
        let (keys, key_dim) = (self.key_heads, self.key_dim);
        let key = if self.interleaved { head % keys } else { head / (self.heads / keys) };
        let row = &self.channels[token * (2 * keys * key_dim + self.heads * self.value_dim)..];
        let (q, k) = (&mut to.q[..key_dim], &mut to.k[..key_dim]);
        unit(&row[key * key_dim..][..key_dim], self.epsilon, 1.0 / (key_dim as f32).sqrt(), q);
        unit(&row[(keys + key) * key_dim..][..key_dim], self.epsilon, 1.0, k);
        to.both = formula::dot(q, k);
        let at = token * self.heads + head;
        to.keep = (self.decay[head] * softplus(self.steps[at] + self.step_bias[head])).exp();
        to.rate = formula::activate(Activation::Sigmoid, self.rates[at]);
    }

    #[inline(always)]
    fn values<'a>(&'a self, token: usize, head: usize, _: &'a Prepared, lanes: &Range<usize>) -> &'a [f32] {
        let row = 2 * self.key_heads * self.key_dim + self.heads * self.value_dim;
        let start = (token + 1) * row - (self.heads - head) * self.value_dim;
        &self.channels[start + lanes.start..start + lanes.end]
    }

    #[inline(always)]
    unsafe fn correct<A: Arithmetic>(state: &mut [Row], tokens: &[Prepared], values: &mut [[f32; LANES]; PREPARED]) {
        // SAFETY: the caller's contract is the same; keys and queries have a value for each row.
        unsafe { A::correct(state, tokens, values) };
    }
}

/// How a strip of a state meets its tokens.
pub(crate) trait Arithmetic {
    /// Takes tokens in, column after column, and gives what each sees.
    ///
    /// # Safety
    /// The CPU has the instructions; `b` and `c` have a value for each column of `state`.
    unsafe fn sweep<const TOKENS: usize>(
        state: &mut [Row],
        taken: &[[f32; LANES]; TOKENS],
        keep: &[f32; TOKENS],
        b: &[&[f32]; TOKENS],
        c: &[&[f32]; TOKENS],
    ) -> [[f32; LANES]; TOKENS];

    /// Corrects `state` towards the values of `tokens`, one after the other; each value is replaced by what the state gives.
    ///
    /// # Safety
    /// The CPU has the instructions; the tokens have a key and a query for each row of `state`, at most [`KEYS_MAX`].
    unsafe fn correct(state: &mut [Row], tokens: &[Prepared], values: &mut [[f32; LANES]; PREPARED]);

    /// The same by RWKV-7's rule.
    ///
    /// # Safety
    /// As [`Self::correct`].
    unsafe fn replace(state: &mut [Row], tokens: &[Replaced], values: &mut [[f32; LANES]; PREPARED]);

    /// `1 / (1 + e^-x)` of each.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn sigmoids(values: &mut [[f32; LANES]]);

    /// `e^(scale * x)` of each.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn exponentials(scale: f32, values: &mut [[f32; LANES]]);
}

/// The formulas in the formulas' order.
pub(crate) struct Formulas;

impl Arithmetic for Formulas {
    #[inline(always)]
    unsafe fn sweep<const TOKENS: usize>(
        state: &mut [Row],
        taken: &[[f32; LANES]; TOKENS],
        keep: &[f32; TOKENS],
        b: &[&[f32]; TOKENS],
        c: &[&[f32]; TOKENS],
    ) -> [[f32; LANES]; TOKENS] {
        let mut sums = [[0.0; LANES]; TOKENS];
        for (column, Row(state)) in state.iter_mut().enumerate() {
            for token in 0..TOKENS {
                let (b, c) = (b[token][column], c[token][column]);
                for lane in 0..LANES {
                    state[lane] = state[lane] * keep[token] + taken[token][lane] * b;
                    sums[token][lane] += state[lane] * c;
                }
            }
        }
        sums
    }

    #[inline(always)]
    unsafe fn correct(state: &mut [Row], tokens: &[Prepared], values: &mut [[f32; LANES]; PREPARED]) {
        for (token, values) in tokens.iter().zip(values) {
            let (mut for_k, mut for_q) = ([0.0; LANES], [0.0; LANES]);
            for (Row(row), (k, q)) in state.iter().zip(token.k.iter().zip(&token.q)) {
                for lane in 0..LANES {
                    for_k[lane] += row[lane] * k;
                    for_q[lane] += row[lane] * q;
                }
            }
            let mut correction = [0.0; LANES];
            for lane in 0..LANES {
                correction[lane] = (values[lane] - token.keep * for_k[lane]) * token.rate;
                values[lane] = token.keep * for_q[lane] + token.both * correction[lane];
            }
            for (Row(row), k) in state.iter_mut().zip(&token.k) {
                for lane in 0..LANES {
                    row[lane] = row[lane] * token.keep + k * correction[lane];
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn replace(state: &mut [Row], tokens: &[Replaced], values: &mut [[f32; LANES]; PREPARED]) {
        time_mix::replace(state, tokens, values);
    }

    #[inline(always)]
    unsafe fn sigmoids(values: &mut [[f32; LANES]]) {
        values.as_flattened_mut().iter_mut().for_each(|value| *value = formula::sigmoid(*value));
    }

    #[inline(always)]
    unsafe fn exponentials(scale: f32, values: &mut [[f32; LANES]]) {
        values.as_flattened_mut().iter_mut().for_each(|value| *value = (scale * *value).exp());
    }
}

/// In vectors of `V`, a product and its sum rounded once.
pub(crate) struct Vectors<V>(PhantomData<V>);

/// Sums of the delta rule that go on side by side.
const SUMS: usize = 4;

impl<V: Vector> Arithmetic for Vectors<V> {
    #[inline(always)]
    unsafe fn sweep<const TOKENS: usize>(
        state: &mut [Row],
        taken: &[[f32; LANES]; TOKENS],
        keep: &[f32; TOKENS],
        b: &[&[f32]; TOKENS],
        c: &[&[f32]; TOKENS],
    ) -> [[f32; LANES]; TOKENS] {
        let mut given = [[0.0; LANES]; TOKENS];
        for part in (0..LANES).step_by(V::LANES) {
            // SAFETY: parts are vectors of arrays of sixteen; the CPU has the instructions, and columns are in `b` and `c`.
            unsafe {
                let zero = V::float(0.0);
                let (mut taken_in, mut stays, mut sums) = ([zero; TOKENS], [zero; TOKENS], [zero; TOKENS]);
                for token in 0..TOKENS {
                    taken_in[token] = V::load(taken[token].as_ptr().add(part));
                    stays[token] = V::float(keep[token]);
                }
                for (column, Row(state)) in state.iter_mut().enumerate() {
                    let place = state.as_mut_ptr().add(part);
                    let mut values = V::load(place);
                    for token in 0..TOKENS {
                        let b = V::float(*b[token].get_unchecked(column));
                        let c = V::float(*c[token].get_unchecked(column));
                        values = V::mul_add(values, stays[token], V::mul(taken_in[token], b));
                        sums[token] = V::mul_add(values, c, sums[token]);
                    }
                    V::store(values, place);
                }
                for token in 0..TOKENS {
                    V::store(sums[token], given[token].as_mut_ptr().add(part));
                }
            }
        }
        given
    }

    #[inline(always)]
    unsafe fn correct(state: &mut [Row], tokens: &[Prepared], values: &mut [[f32; LANES]; PREPARED]) {
        for part in (0..LANES).step_by(V::LANES) {
            // SAFETY: parts are vectors of arrays of sixteen; the rest is the caller's contract.
            unsafe {
                let mut has = has::<V>(state, part, &tokens[0]);
                for (index, token) in tokens.iter().enumerate() {
                    let (keep, place) = (V::float(token.keep), values[index].as_mut_ptr().add(part));
                    let [for_k, for_q] = has;
                    let correction = V::mul(V::sub_mul(keep, for_k, V::load(place)), V::float(token.rate));
                    V::store(V::mul_add(V::float(token.both), correction, V::mul(keep, for_q)), place);
                    // What the state has for a token is summed while it is corrected for the one before.
                    has = match tokens.get(index + 1) {
                        Some(next) => update::<V, true>(state, part, token, correction, next),
                        None => update::<V, false>(state, part, token, correction, token),
                    };
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn replace(state: &mut [Row], tokens: &[Replaced], values: &mut [[f32; LANES]; PREPARED]) {
        // SAFETY: the caller's contract is the same.
        unsafe { time_mix::replace_with::<V>(state, tokens, values) };
    }

    #[inline(always)]
    unsafe fn sigmoids(values: &mut [[f32; LANES]]) {
        for values in values.as_flattened_mut().chunks_exact_mut(V::LANES) {
            // SAFETY: a chunk is a vector; the CPU has the instructions.
            unsafe {
                let x = V::load(values.as_ptr());
                V::store(elementwise::curve::<V>(Activation::Sigmoid, x), values.as_mut_ptr());
            }
        }
    }

    #[inline(always)]
    unsafe fn exponentials(scale: f32, values: &mut [[f32; LANES]]) {
        for values in values.as_flattened_mut().chunks_exact_mut(V::LANES) {
            // SAFETY: a chunk is a vector; the CPU has the instructions.
            unsafe {
                let x = V::mul(V::load(values.as_ptr()), V::float(scale));
                V::store(vector::exp::<V>(x), values.as_mut_ptr());
            }
        }
    }
}

/// Sums of the delta rule that go on side by side, for a key and a query: one alone would wait for itself.
type Sums<V> = [[<V as Vector>::Float; 2]; SUMS];

/// What `state` has for the key and the query of `token`.
///
/// # Safety
/// The CPU has the instructions of `V`; `part` is the first lane of a vector, and `token` has values for each row.
#[inline(always)]
unsafe fn has<V: Vector>(state: &[Row], part: usize, token: &Prepared) -> [V::Float; 2] {
    // SAFETY: the caller's contract.
    unsafe {
        let mut sums = [[V::float(0.0); 2]; SUMS];
        let (groups, rest) = state.as_chunks::<SUMS>();
        for (group, rows) in groups.iter().enumerate() {
            for row in 0..SUMS {
                look::<V>(V::load(rows[row].0.as_ptr().add(part)), token, group * SUMS + row, &mut sums[row]);
            }
        }
        for (row, Row(values)) in rest.iter().enumerate() {
            look::<V>(V::load(values.as_ptr().add(part)), token, groups.len() * SUMS + row, &mut sums[0]);
        }
        together::<V>(&sums)
    }
}

/// Corrects `state` for `token`; with `NEXT`, gives what it then has for the key and the query of `next`.
///
/// # Safety
/// As [`has`].
#[inline(always)]
unsafe fn update<V: Vector, const NEXT: bool>(
    state: &mut [Row],
    part: usize,
    token: &Prepared,
    correction: V::Float,
    next: &Prepared,
) -> [V::Float; 2] {
    // SAFETY: the caller's contract.
    unsafe {
        let keep = V::float(token.keep);
        let mut sums = [[V::float(0.0); 2]; SUMS];
        let (groups, rest) = state.as_chunks_mut::<SUMS>();
        let behind = groups.len() * SUMS;
        for (group, rows) in groups.iter_mut().enumerate() {
            for row in 0..SUMS {
                let (place, index) = (rows[row].0.as_mut_ptr().add(part), group * SUMS + row);
                let taken = V::mul(V::float(*token.k.get_unchecked(index)), correction);
                let values = V::mul_add(V::load(place), keep, taken);
                V::store(values, place);
                if NEXT {
                    look::<V>(values, next, index, &mut sums[row]);
                }
            }
        }
        for (row, Row(values)) in rest.iter_mut().enumerate() {
            let (place, index) = (values.as_mut_ptr().add(part), behind + row);
            let taken = V::mul(V::float(*token.k.get_unchecked(index)), correction);
            let values = V::mul_add(V::load(place), keep, taken);
            V::store(values, place);
            if NEXT {
                look::<V>(values, next, index, &mut sums[0]);
            }
        }
        together::<V>(&sums)
    }
}

/// Adds what one row of a state has for the key and the query of `token`.
///
/// # Safety
/// As [`has`], of the row `row`.
#[inline(always)]
unsafe fn look<V: Vector>(values: V::Float, token: &Prepared, row: usize, sums: &mut [V::Float; 2]) {
    // SAFETY: the caller's contract.
    unsafe {
        sums[0] = V::mul_add(values, V::float(*token.k.get_unchecked(row)), sums[0]);
        sums[1] = V::mul_add(values, V::float(*token.q.get_unchecked(row)), sums[1]);
    }
}

/// The sums for the key, and those for the query.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn together<V: Vector>(sums: &Sums<V>) -> [V::Float; 2] {
    // SAFETY: the caller's contract.
    unsafe {
        let mut both = sums[0];
        for kind in 0..2 {
            let (first, second) = (V::add(sums[0][kind], sums[1][kind]), V::add(sums[2][kind], sums[3][kind]));
            both[kind] = V::add(first, second);
        }
        both
    }
}
