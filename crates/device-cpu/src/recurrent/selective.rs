//! State spaces each of whose columns decays at a pace of its own: sixteen channels are lanes, and a strip of the state.

use kauri_arch::Selective;
use kauri_device::recurrence::softplus;
use kauri_device::{Batch, Sequence, Weight};

use super::{Arithmetic, LANES, Row, States, by_head};
use crate::detect::Kernels;
use crate::pool::{Disjoint, Pool};

/// Most columns of a state.
const COLUMNS_MAX: usize = kauri_arch::recurrent::SELECTIVE_STATE_MAX as usize;

/// A selective state space over all sequences of a batch.
pub(crate) struct Selection<'a> {
    width: usize,
    columns: usize,
    decay: &'a [f32],
    skip: &'a [f32],
    channels: &'a [f32],
    steps: &'a [f32],
    b: &'a [f32],
    c: &'a [f32],
    mixed: Disjoint<'a, f32>,
    states: Disjoint<'a, Row>,
}

impl States {
    /// Takes the new tokens of `batch` into the states of `selective`: `channels` and `steps` (tokens, width), `b` and `c` (tokens, state)
    /// to `mixed` (tokens, width).
    pub fn select(
        &mut self,
        pool: &mut Pool,
        kernels: Kernels,
        selective: &Selective<Weight>,
        batch: &Batch,
        [channels, steps, b, c, mixed]: [&mut [f32]; 5],
    ) {
        let selection = Selection {
            width: selective.width as usize,
            columns: selective.state as usize,
            decay: selective.decay.vector(),
            skip: selective.skip.vector(),
            channels,
            steps,
            b,
            c,
            mixed: Disjoint::new(mixed),
            states: Disjoint::new(&mut self.recurrent),
        };
        let strips = selection.width.div_ceil(LANES);
        by_head(pool, strips, batch, |sequence, strip| kernels.select(&selection, sequence, strip));
    }
}

/// Takes the tokens of one sequence into one strip of its state, which no other worker does; inlined into a function that is compiled
/// for the instruction set in use. Products and sums are rounded one by one, so that only exponentials differ between those.
///
/// # Safety
/// The CPU has the instructions of `A`.
#[inline(always)]
pub(crate) unsafe fn select<A: Arithmetic>(task: &Selection<'_>, sequence: &Sequence, strip: usize) {
    let (width, columns) = (task.width, task.columns);
    let start = (sequence.slot as usize * width.div_ceil(LANES) + strip) * columns;
    // SAFETY: this strip of this slot is this worker's.
    let state = unsafe { task.states.slice(start..start + columns) };
    if sequence.cached_tokens == 0 {
        state.fill(Row([0.0; LANES]));
    }
    let lanes = strip * LANES..((strip + 1) * LANES).min(width);
    // Columns as rows, so that channels are lanes; those that are none stay at zero.
    let (mut decay, mut keep) = ([[0.0f32; LANES]; COLUMNS_MAX], [[0.0f32; LANES]; COLUMNS_MAX]);
    for (lane, channel) in lanes.clone().enumerate() {
        for (column, decay) in decay[..columns].iter_mut().enumerate() {
            decay[lane] = task.decay[channel * columns + column];
        }
    }
    for token in sequence.tokens.clone() {
        let (mut step, mut x) = ([0.0f32; LANES], [0.0f32; LANES]);
        let row = token * width + lanes.start..token * width + lanes.end;
        x[..lanes.len()].copy_from_slice(&task.channels[row.clone()]);
        for (step, stated) in step.iter_mut().zip(&task.steps[row.clone()]) {
            *step = softplus(*stated);
        }
        for (keep, decay) in keep[..columns].iter_mut().zip(&decay) {
            for lane in 0..LANES {
                keep[lane] = step[lane] * decay[lane];
            }
        }
        // SAFETY: the caller's contract is the same.
        unsafe { A::exponentials(1.0, &mut keep[..columns]) };
        let (b, c) = (&task.b[token * columns..][..columns], &task.c[token * columns..][..columns]);
        let sums = sweep(state, &keep[..columns], [&step, &x], [b, c]);
        // SAFETY: these channels of this token are this worker's.
        let mixed = unsafe { task.mixed.slice(row) };
        give(mixed, &sums, &x, &task.skip[lanes.clone()]);
    }
}

/// Takes one token in, column after column, and gives what it sees.
#[inline(always)]
fn sweep(state: &mut [Row], keep: &[[f32; LANES]], [step, x]: [&[f32; LANES]; 2], [b, c]: [&[f32]; 2]) -> [f32; LANES] {
    let (mut taken, mut sums) = ([0.0; LANES], [0.0; LANES]);
    for lane in 0..LANES {
        taken[lane] = step[lane] * x[lane];
    }
    for (((Row(state), keep), b), c) in state.iter_mut().zip(keep).zip(b).zip(c) {
        for lane in 0..LANES {
            state[lane] = state[lane] * keep[lane] + taken[lane] * b;
            sums[lane] += state[lane] * c;
        }
    }
    sums
}

/// What a state gives, and what passes by it.
#[inline(always)]
fn give(mixed: &mut [f32], sums: &[f32; LANES], x: &[f32; LANES], skip: &[f32]) {
    for (((mixed, sum), x), skip) in mixed.iter_mut().zip(sums).zip(x).zip(skip) {
        *mixed = sum + skip * x;
    }
}
