//! What is computed value by value: activations of feed-forward networks, norms, rotations.
//!
//! Each row is one worker's, so that no result depends on how rows are shared out.

use kauri_arch::{Activation, Norm};
use kauri_device::rope::{Angles, Frequencies};
use kauri_device::{Weight, formula};

use crate::vector::{self, Vector};

/// Most lanes of any instruction set.
const LANES_MAX: usize = 16;

/// `gate = activation(gate) * up`, or `gate = activation(up)` where the network has no gate.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn activate<V: Vector>(activation: Activation, has_gate: bool, gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.chunks_mut(V::LANES).zip(up.chunks(V::LANES)) {
        let (mut g, mut u) = ([0.0; LANES_MAX], [0.0; LANES_MAX]);
        g[..gate.len()].copy_from_slice(gate);
        u[..up.len()].copy_from_slice(up);
        // SAFETY: both arrays hold a vector; the CPU has the instructions.
        unsafe {
            let (g_vector, u_vector) = (V::load(g.as_ptr()), V::load(u.as_ptr()));
            let result =
                if has_gate { gated::<V>(activation, g_vector, u_vector) } else { curve::<V>(activation, u_vector) };
            V::store(result, g.as_mut_ptr());
        }
        gate.copy_from_slice(&g[..gate.len()]);
    }
}

/// `y = transposed weights x`, row after row of the weights; products and sums are rounded one by one.
#[inline(always)]
pub fn turned(weights: &[f32], x: &[f32], y: &mut [f32]) {
    y.fill(0.0);
    for (row, &x) in weights.chunks_exact(y.len()).zip(x) {
        for (y, &weight) in y.iter_mut().zip(row) {
            *y += x * weight;
        }
    }
}

/// `y += transposed weights x`, of the columns of the weights from `start` on as many as there are of `y`: row after row of the weights, of
/// which each has `width` values; products and sums are rounded one by one.
#[inline(always)]
pub fn add_turned(weights: &[f32], (width, start): (usize, usize), x: &[f32], y: &mut [f32]) {
    const TOGETHER: usize = 64;
    let (whole, rest) = y.as_chunks_mut::<TOGETHER>();
    let mut at = start;
    for y in whole {
        let mut sums = *y;
        for (weights, &x) in weights.chunks_exact(width).zip(x) {
            let weights = &weights[at..][..TOGETHER];
            for lane in 0..TOGETHER {
                sums[lane] += x * weights[lane];
            }
        }
        *y = sums;
        at += TOGETHER;
    }
    for (weights, &x) in weights.chunks_exact(width).zip(x) {
        rest.iter_mut().zip(&weights[at..]).for_each(|(y, weight)| *y += x * weight);
    }
}

/// The activation itself.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn curve<V: Vector>(activation: Activation, x: V::Float) -> V::Float {
    // SAFETY: arithmetic on values, and a vector to and from an array that holds it.
    unsafe {
        let (zero, half, one) = (V::float(0.0), V::float(0.5), V::float(1.0));
        match activation {
            Activation::Silu => V::div(x, V::add(one, vector::exp::<V>(V::sub(zero, x)))),
            Activation::GeluTanh => {
                let cube = V::mul(V::mul(x, x), V::mul(x, V::float(0.044_715)));
                let inner = V::mul(V::float(0.797_884_6), V::add(x, cube));
                V::mul(V::mul(half, x), V::add(one, vector::tanh::<V>(inner)))
            }
            Activation::Gelu => {
                let mut lanes = [0.0; LANES_MAX];
                V::store(x, lanes.as_mut_ptr());
                lanes.iter_mut().take(V::LANES).for_each(|lane| *lane = formula::activate(activation, *lane));
                V::load(lanes.as_ptr())
            }
            Activation::ReluSquared => {
                let x = V::max(zero, x);
                V::mul(x, x)
            }
            Activation::Sigmoid => V::div(one, V::add(one, vector::exp::<V>(V::sub(zero, x)))),
            Activation::Tanh => vector::tanh::<V>(x),
            Activation::Identity => x,
            Activation::SiluCut { limit, steepness } => {
                let x = least::<V>(x, limit);
                let inner = V::mul(V::float(-steepness), x);
                V::div(x, V::add(one, vector::exp::<V>(inner)))
            }
        }
    }
}

/// A gated value.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn gated<V: Vector>(activation: Activation, gate: V::Float, up: V::Float) -> V::Float {
    // SAFETY: arithmetic on values.
    unsafe {
        let up = match activation {
            Activation::SiluCut { limit, .. } => V::add(V::max(V::float(-limit), least::<V>(up, limit)), V::float(1.0)),
            Activation::Silu
            | Activation::GeluTanh
            | Activation::Gelu
            | Activation::ReluSquared
            | Activation::Sigmoid
            | Activation::Tanh
            | Activation::Identity => up,
        };
        V::mul(curve::<V>(activation, gate), up)
    }
}

/// `min(x, limit)`. Here as elsewhere a bound comes first in a minimum or maximum: where `x` is no number, nor is what comes of it.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn least<V: Vector>(x: V::Float, limit: f32) -> V::Float {
    // SAFETY: arithmetic on values.
    unsafe {
        let zero = V::float(0.0);
        V::sub(zero, V::max(V::float(-limit), V::sub(zero, x)))
    }
}

/// Normalises every group of `to`; inlined into a function that is compiled for the instruction set in use.
#[inline(always)]
pub fn norm(norm: &Norm<Weight>, to: &mut [f32]) {
    let (weight, bias) = (norm.weight.vector(), norm.bias.as_ref().map(Weight::vector));
    let width = norm.width as usize;
    let mut part = 0;
    for group in to.chunks_exact_mut(width) {
        let bias = bias.map(|bias| &bias[part..part + width]);
        formula::norm(norm.kind, norm.epsilon, &weight[part..part + width], bias, group);
        part = if part + width == weight.len() { 0 } else { part + width };
    }
}

/// A rotation of heads.
pub struct Turn<'a> {
    /// Which values make a pair.
    pub frequencies: &'a Frequencies,
    /// The angles of each token.
    pub angles: &'a Angles,
    /// Values of all heads of a token.
    pub width: usize,
    /// Values of a head.
    pub head_dim: usize,
}

/// Turns every head of the tokens from `first` on, whose rows are `rows`; inlined into a function that is compiled for the
/// instruction set in use, with the same bits on all of them.
#[inline(always)]
pub fn rope(turn: &Turn<'_>, first: usize, rows: &mut [f32]) {
    let pairs = turn.frequencies.pairs();
    let angles = turn.angles.turns[first * pairs..].chunks_exact(pairs);
    for (row, angles) in rows.chunks_exact_mut(turn.width).zip(angles) {
        row.chunks_exact_mut(turn.head_dim).for_each(|head| turn.frequencies.apply(angles, head));
    }
}
