//! RWKV-7's rule: every row of a state decays at a pace of its own, what is there for a key is taken away, and a value is put in.

use std::ops::Range;

use kauri_arch::TimeMix;
use kauri_device::recurrence::{PACE, passes, unit_over};
use kauri_device::{Batch, Side, Weight};

use super::{Arithmetic, LANES, PREPARED, Row, Rule, SUMS, States, by_head, together};
use crate::detect::Kernels;
use crate::ops::by_rows;
use crate::pool::{Disjoint, Pool};
use crate::vector::Vector;

/// Most values of a head.
const DIM_MAX: usize = kauri_arch::recurrent::TIME_MIX_DIM_MAX as usize;
/// The same in rows of lanes.
const DIM_ROWS: usize = DIM_MAX.div_ceil(LANES);

impl States {
    /// How `from` (tokens, hidden) changes from each token to the one before, to `change`.
    pub fn shift(
        &mut self,
        pool: &mut Pool,
        side: Side,
        batch: &Batch,
        hidden: usize,
        [from, change]: [&mut [f32]; 2],
    ) {
        let last = match side {
            Side::Mixer => &mut self.tails,
            Side::Ffn => &mut self.shifted,
        };
        let row = |token: usize| token * hidden..(token + 1) * hidden;
        for sequence in &batch.sequences {
            if sequence.cached_tokens == 0 {
                last[row(sequence.slot as usize)].fill(0.0);
            }
        }
        let (from, seen) = (&*from, &*last);
        by_rows(pool, hidden, &mut change[..batch.tokens.len() * hidden], |first, rows| {
            for (token, change) in (first..).zip(rows.chunks_exact_mut(hidden)) {
                let begins = batch.sequences.iter().find(|sequence| sequence.tokens.start == token);
                let before =
                    begins.map_or_else(|| &from[row(token - 1)], |sequence| &seen[row(sequence.slot as usize)]);
                for ((change, before), value) in change.iter_mut().zip(before).zip(&from[row(token)]) {
                    *change = before - value;
                }
            }
        });
        for sequence in &batch.sequences {
            last[row(sequence.slot as usize)].copy_from_slice(&from[row(sequence.tokens.end - 1)]);
        }
    }

    /// Takes the new tokens of `batch` into the states of `mix`. `rows` are (tokens, heads, `head_dim`): `Query`, `Key`, `Value`, `Steps`,
    /// `Rates`, `First`, `Mixed`.
    pub fn replace(
        &mut self,
        pool: &mut Pool,
        kernels: Kernels,
        mix: &TimeMix<Weight>,
        batch: &Batch,
        rows: [&mut [f32]; 7],
    ) {
        let [r, k, v, decay, rates, first, mixed] = rows;
        let replacement = Replacement {
            heads: mix.heads as usize,
            head_dim: mix.head_dim as usize,
            has_residual: mix.residual.is_some(),
            removal: mix.removal.vector(),
            insertion: mix.insertion.vector(),
            r,
            decay,
            rates,
            k: Disjoint::new(k),
            v: Disjoint::new(v),
            first: Disjoint::new(first),
            mixed: Disjoint::new(mixed),
            states: Disjoint::new(&mut self.recurrent),
        };
        by_head(pool, replacement.heads, batch, |sequence, head| kernels.replace(&replacement, sequence, head));
    }
}

/// `mixed` (tokens, heads, `head_dim`) and what of each token's own value passes by the state.
pub(crate) fn pass_by(pool: &mut Pool, mix: &TimeMix<Weight>, [r, k, v, mixed]: [&mut [f32]; 4]) {
    let (width, head_dim, bonus) = (mix.width() as usize, mix.head_dim as usize, mix.bonus.vector());
    let (r, k, v) = (&*r, &*k, &*v);
    by_rows(pool, width, mixed, |first, rows| {
        for (token, row) in (first..).zip(rows.chunks_exact_mut(width)) {
            for (head, mixed) in row.chunks_exact_mut(head_dim).enumerate() {
                let part = token * width + head * head_dim..token * width + (head + 1) * head_dim;
                let passes = passes(&r[part.clone()], &k[part.clone()], &bonus[head * head_dim..][..head_dim]);
                for (mixed, v) in mixed.iter_mut().zip(&v[part]) {
                    *mixed += passes * v;
                }
            }
        }
    });
}

/// RWKV-7's rule over all sequences of a batch.
pub(crate) struct Replacement<'a> {
    heads: usize,
    head_dim: usize,
    has_residual: bool,
    removal: &'a [f32],
    insertion: &'a [f32],
    r: &'a [f32],
    decay: &'a [f32],
    rates: &'a [f32],
    k: Disjoint<'a, f32>,
    v: Disjoint<'a, f32>,
    first: Disjoint<'a, f32>,
    mixed: Disjoint<'a, f32>,
    states: Disjoint<'a, Row>,
}

/// A token of one head, ready for the state; zeros behind the values of the head.
#[derive(Clone, Copy)]
pub(crate) struct Replaced {
    r: [[f32; LANES]; DIM_ROWS],
    keep: [[f32; LANES]; DIM_ROWS],
    seen: [[f32; LANES]; DIM_ROWS],
    back: [[f32; LANES]; DIM_ROWS],
    k: [[f32; LANES]; DIM_ROWS],
    v: [[f32; LANES]; DIM_ROWS],
}

impl Rule for Replacement<'_> {
    type Token = Replaced;
    const NOTHING: Replaced = {
        let zeros = [[0.0; LANES]; DIM_ROWS];
        Replaced { r: zeros, keep: zeros, seen: zeros, back: zeros, k: zeros, v: zeros }
    };

    fn sizes(&self) -> [usize; 3] {
        [self.heads, self.head_dim, self.head_dim]
    }

    fn states(&self) -> &Disjoint<'_, Row> {
        &self.states
    }

    fn mixed(&self) -> &Disjoint<'_, f32> {
        &self.mixed
    }

    #[inline(always)]
    unsafe fn prepare<A: Arithmetic>(&self, token: usize, head: usize, to: &mut Replaced) {
        let dim = self.head_dim;
        let weights = head * dim..(head + 1) * dim;
        let start = (token * self.heads + head) * dim;
        let part = start..start + dim;
        // SAFETY: this head of this token is this worker's; the last is read here, and written when the state gives something.
        let [k, v, first, residual] =
            unsafe { [&self.k, &self.v, &self.first, &self.mixed].map(|rows| rows.slice(part.clone())) };
        let rows = ..dim.div_ceil(LANES);
        to.r.as_flattened_mut()[..dim].copy_from_slice(&self.r[part.clone()]);
        to.keep.as_flattened_mut()[..dim].copy_from_slice(&self.decay[part.clone()]);
        to.back.as_flattened_mut()[..dim].copy_from_slice(&self.rates[part]);
        // SAFETY: the caller's contract is the same.
        unsafe {
            A::sigmoids(&mut to.keep[rows]);
            A::exponentials(PACE, &mut to.keep[rows]);
            A::sigmoids(&mut to.back[rows]);
        }
        let (seen, back) = (to.seen.as_flattened_mut(), to.back.as_flattened_mut());
        for ((seen, k), removal) in seen.iter_mut().zip(&*k).zip(&self.removal[weights.clone()]) {
            *seen = k * removal;
        }
        unit_over(&mut seen[..dim]);
        for (((k, insertion), back), seen) in k.iter_mut().zip(&self.insertion[weights]).zip(back).zip(&*seen) {
            *k *= 1.0 + (*back - 1.0) * insertion;
            *back *= seen;
        }
        if self.has_residual {
            to.v.as_flattened_mut()[..dim].copy_from_slice(residual);
            // SAFETY: the caller's contract is the same.
            unsafe { A::sigmoids(&mut to.v[rows]) };
            for ((v, first), share) in v.iter_mut().zip(&*first).zip(to.v.as_flattened()) {
                *v += (first - *v) * share;
            }
        } else {
            first.copy_from_slice(v);
        }
        to.k.as_flattened_mut()[..dim].copy_from_slice(k);
        to.v.as_flattened_mut()[..dim].copy_from_slice(v);
    }

    #[inline(always)]
    fn values<'a>(&'a self, _: usize, _: usize, prepared: &'a Replaced, lanes: &Range<usize>) -> &'a [f32] {
        &prepared.v.as_flattened()[lanes.clone()]
    }

    #[inline(always)]
    unsafe fn correct<A: Arithmetic>(state: &mut [Row], tokens: &[Replaced], values: &mut [[f32; LANES]; PREPARED]) {
        // SAFETY: the caller's contract is the same.
        unsafe { A::replace(state, tokens, values) };
    }
}

/// A strip of a state for one token after the other, in the formula's order.
#[inline(always)]
pub(super) fn replace(state: &mut [Row], tokens: &[Replaced], values: &mut [[f32; LANES]; PREPARED]) {
    for (token, values) in tokens.iter().zip(values) {
        let [r, keep, seen, back, k] =
            [&token.r, &token.keep, &token.seen, &token.back, &token.k].map(|row| row.as_flattened());
        let (mut has, mut given) = ([0.0; LANES], [0.0; LANES]);
        for (Row(row), seen) in state.iter().zip(seen) {
            for lane in 0..LANES {
                has[lane] += row[lane] * seen;
            }
        }
        for (index, Row(row)) in state.iter_mut().enumerate() {
            for lane in 0..LANES {
                row[lane] = row[lane] * keep[index] + (k[index] * values[lane] - back[index] * has[lane]);
                given[lane] += row[lane] * r[index];
            }
        }
        *values = given;
    }
}

/// The same in vectors of `V`, a product and its sum rounded once. What the state has for a token is summed while it takes in the one
/// before.
///
/// # Safety
/// The CPU has the instructions of `V`; the tokens have values for each row of `state`, at most [`DIM_MAX`].
#[inline(always)]
pub(super) unsafe fn replace_with<V: Vector>(
    state: &mut [Row],
    tokens: &[Replaced],
    values: &mut [[f32; LANES]; PREPARED],
) {
    for part in (0..LANES).step_by(V::LANES) {
        // SAFETY: parts are vectors of arrays of sixteen; the rest is the caller's contract.
        unsafe {
            let mut has = has::<V>(state, part, &tokens[0]);
            for (index, token) in tokens.iter().enumerate() {
                let place = values[index].as_mut_ptr().add(part);
                let next = tokens.get(index + 1).unwrap_or(token);
                let [given, has_next] = update::<V>(state, part, token, [V::load(place), has], next);
                V::store(given, place);
                has = has_next;
            }
        }
    }
}

/// What `state` has for what `token` takes away.
///
/// # Safety
/// The CPU has the instructions of `V`; `part` is the first lane of a vector, and `token` has values for each row.
#[inline(always)]
unsafe fn has<V: Vector>(state: &[Row], part: usize, token: &Replaced) -> V::Float {
    let seen = token.seen.as_flattened();
    // SAFETY: the caller's contract.
    unsafe {
        let mut sums = [[V::float(0.0); 2]; SUMS];
        let (groups, rest) = state.as_chunks::<SUMS>();
        for (group, rows) in groups.iter().enumerate() {
            for row in 0..SUMS {
                let seen = V::float(*seen.get_unchecked(group * SUMS + row));
                sums[row][1] = V::mul_add(V::load(rows[row].0.as_ptr().add(part)), seen, sums[row][1]);
            }
        }
        for (row, Row(values)) in rest.iter().enumerate() {
            let seen = V::float(*seen.get_unchecked(groups.len() * SUMS + row));
            sums[0][1] = V::mul_add(V::load(values.as_ptr().add(part)), seen, sums[0][1]);
        }
        together::<V>(&sums)[1]
    }
}

/// Takes `token` with these values into `state`, which has so much for it; gives what it gives, and what it then has for `next`.
///
/// # Safety
/// As [`has`].
#[inline(always)]
unsafe fn update<V: Vector>(
    state: &mut [Row],
    part: usize,
    token: &Replaced,
    taken: [V::Float; 2],
    next: &Replaced,
) -> [V::Float; 2] {
    // SAFETY: the caller's contract.
    unsafe {
        let mut sums = [[V::float(0.0); 2]; SUMS];
        let (groups, rest) = state.as_chunks_mut::<SUMS>();
        let behind = groups.len() * SUMS;
        for (group, rows) in groups.iter_mut().enumerate() {
            for row in 0..SUMS {
                let place = rows[row].0.as_mut_ptr().add(part);
                take::<V>(place, group * SUMS + row, token, taken, next, &mut sums[row]);
            }
        }
        for (row, Row(values)) in rest.iter_mut().enumerate() {
            take::<V>(values.as_mut_ptr().add(part), behind + row, token, taken, next, &mut sums[0]);
        }
        together::<V>(&sums)
    }
}

/// Takes a token into one row of a state, and adds what that gives, and what it has for `next`.
///
/// # Safety
/// As [`has`], of the row `index`, a vector of which is at `place`.
#[inline(always)]
unsafe fn take<V: Vector>(
    place: *mut f32,
    index: usize,
    token: &Replaced,
    [value, has]: [V::Float; 2],
    next: &Replaced,
    sums: &mut [V::Float; 2],
) {
    // SAFETY: the caller's contract.
    unsafe {
        let keep = V::float(*token.keep.as_flattened().get_unchecked(index));
        let back = V::float(*token.back.as_flattened().get_unchecked(index));
        let k = V::float(*token.k.as_flattened().get_unchecked(index));
        let r = V::float(*token.r.as_flattened().get_unchecked(index));
        let seen = V::float(*next.seen.as_flattened().get_unchecked(index));
        let taken = V::sub_mul(back, has, V::mul(k, value));
        let values = V::mul_add(V::load(place), keep, taken);
        V::store(values, place);
        sums[0] = V::mul_add(values, r, sums[0]);
        sums[1] = V::mul_add(values, seen, sums[1]);
    }
}
