//! Latent attention around its cache: what makes queries and rows of activations, and values of what was gathered.
//!
//! Every head has matrices of its own. The rows of all heads stand head by head meanwhile, so that each of these is read once for
//! all tokens, and all heads are one piece of work for the pool.

use kauri_arch::{Latent, Linear, Mixer, Shape};
use kauri_device::{Plan, Weight};

use crate::detect::Kernels;
use crate::matmul::{self, Group, Input};
use crate::ops::by_rows;
use crate::pool::{Disjoint, Pool};
use crate::product::Finish;

/// Values of activations that go through the heads' products together, unless those of one head are more.
const VALUES: usize = 1 << 22;

/// Memory for this, sized at load.
pub struct Scratch {
    /// (heads, tokens, width): what goes through the matrices of `keys`, and what comes from those of `values`.
    parts: Vec<f32>,
    /// The row of `Mixed` for each row of `parts`.
    order: Vec<u32>,
    /// A head's matrix that is used as its transpose, and a row of it, for each thread.
    turned: Vec<f32>,
}

/// The most values that go into the heads' products in a step.
pub fn values(shape: &Shape<Weight>, plan: &Plan) -> usize {
    let tokens = plan.batch_tokens as usize;
    let each = latents(shape).map(|latent| {
        let columns = tokens * latent.nope_dims.max(latent.latent) as usize;
        (columns * latent.heads as usize).min(VALUES.max(columns))
    });
    each.max().unwrap_or(0)
}

/// The latent attention of every layer that has it.
fn latents(shape: &Shape<Weight>) -> impl Iterator<Item = &Latent<Weight>> {
    shape.mixers().filter_map(Mixer::latent)
}

impl Scratch {
    /// For the layers of `shape`, if any have latent attention.
    pub fn new(shape: &Shape<Weight>, plan: &Plan, threads: usize) -> Self {
        let most = |values: fn(&Latent<Weight>) -> u32| latents(shape).map(values).max().unwrap_or(0) as usize;
        let rows = plan.batch_tokens as usize;
        let turned = most(|latent| if latent.turned { latent.nope_dims * latent.latent } else { 0 });
        Self {
            parts: vec![0.0; rows * most(|latent| latent.heads * latent.nope_dims.max(latent.value_dims))],
            order: vec![0; rows * most(|latent| latent.heads)],
            turned: vec![0.0; turned * threads],
        }
    }
}

/// The activations that [`fold`] works on, a row for each token.
pub struct Rows<'a> {
    /// Tokens.
    pub tokens: usize,
    /// (heads, `nope_dims` and `rope_dims`).
    pub parts: &'a [f32],
    /// The latent row, then `rope_dims` values.
    pub value: &'a [f32],
    /// (heads, row).
    pub query: &'a mut [f32],
    /// The row.
    pub key: &'a mut [f32],
    /// Memory: (heads, latent).
    pub mixed: &'a mut [f32],
}

/// See [`kauri_device::Ops::fold`].
pub fn fold(
    pool: &mut Pool,
    products: &mut matmul::Scratch,
    scratch: &mut Scratch,
    latent: &Latent<Weight>,
    rows: Rows<'_>,
) {
    let Rows { tokens, parts, value, query, key, mixed } = rows;
    if tokens == 0 {
        return;
    }
    let kernels = products.kernels();
    let (heads, width) = (latent.heads as usize, latent.row() as usize);
    let (rope, nope, low) = (latent.rope_dims as usize, latent.nope_dims as usize, latent.latent as usize);
    by_rows(pool, width, &mut key[..tokens * width], |first, rows| {
        for (row, made) in rows.chunks_exact_mut(width).zip(value[first * width..].chunks_exact(width)) {
            row[..rope].copy_from_slice(&made[low..]);
            row[rope..].copy_from_slice(&made[..low]);
            kernels.norm(&latent.kv_norm, &mut row[rope..]);
        }
    });
    let whole = nope + rope;
    let Scratch { parts: without, turned, .. } = scratch;
    let without = &mut without[..heads * tokens * nope];
    by_rows(pool, nope, without, |first, rows| {
        for (index, row) in (first..).zip(rows.chunks_exact_mut(nope)) {
            let (head, token) = (index / tokens, index % tokens);
            row.copy_from_slice(&parts[(token * heads + head) * whole..][..nope]);
        }
    });
    if latent.turned {
        turn(pool, kernels, latent, tokens, (without, turned), mixed);
    } else {
        let input = Input { x: without, order: None, tokens: heads * tokens };
        each_head(pool, products, &latent.keys, (input, tokens), mixed);
    }
    by_rows(pool, width, &mut query[..tokens * heads * width], |first, rows| {
        for (index, row) in (first..).zip(rows.chunks_exact_mut(width)) {
            let (token, head) = (index / heads, index % heads);
            row[..rope].copy_from_slice(&parts[index * whole + nope..][..rope]);
            row[rope..].copy_from_slice(&mixed[(head * tokens + token) * low..][..low]);
        }
    });
}

/// See [`kauri_device::Ops::unfold`]: `mixed` is (tokens, heads, latent), `parts` (tokens, heads, `value_dims`).
pub fn unfold(
    pool: &mut Pool,
    products: &mut matmul::Scratch,
    scratch: &mut Scratch,
    latent: &Latent<Weight>,
    tokens: usize,
    [mixed, parts]: [&mut [f32]; 2],
) {
    if tokens == 0 {
        return;
    }
    let (heads, width) = (latent.heads as usize, latent.value_dims as usize);
    let order = &mut scratch.order[..heads * tokens];
    for (index, place) in order.iter_mut().enumerate() {
        *place = (index % tokens * heads + index / tokens) as u32;
    }
    let input = Input { x: mixed, order: Some(order), tokens: heads * tokens };
    let made = &mut scratch.parts;
    each_head(pool, products, &latent.values, (input, tokens), made);
    by_rows(pool, width, &mut parts[..tokens * heads * width], |first, rows| {
        for (index, row) in (first..).zip(rows.chunks_exact_mut(width)) {
            let (token, head) = (index / heads, index % heads);
            row.copy_from_slice(&made[(head * tokens + token) * width..][..width]);
        }
    });
}

/// Each head's matrix times its rows, `tokens` for each head: to `out`, in the order of the input.
fn each_head(
    pool: &mut Pool,
    products: &mut matmul::Scratch,
    heads: &[Linear<Weight>],
    (input, tokens): (Input<'_>, usize),
    out: &mut [f32],
) {
    let Some(columns) = heads.first().map(|head| head.columns as usize) else { return };
    let together = (VALUES / (tokens * columns)).clamp(1, heads.len());
    for (chunk, linears) in heads.chunks(together).enumerate() {
        let (first, count) = (chunk * together * tokens, linears.len() * tokens);
        let input = match input.order {
            None => Input { x: &input.x[first * columns..], order: None, tokens: count },
            Some(order) => Input { x: input.x, order: Some(&order[first..first + count]), tokens: count },
        };
        let group = |index: usize| Group {
            linear: &linears[index],
            gate: None,
            tokens: (index * tokens, tokens),
            to: first + index * tokens,
        };
        matmul::grouped(pool, products, input, (linears.len(), &group), Finish::Store, out);
    }
}

/// The transpose of each head's matrix of `keys` times its rows of `x`, `tokens` for each head.
fn turn(
    pool: &mut Pool,
    kernels: Kernels,
    latent: &Latent<Weight>,
    tokens: usize,
    (x, memory): (&[f32], &mut [f32]),
    out: &mut [f32],
) {
    let (nope, low) = (latent.nope_dims as usize, latent.latent as usize);
    let (out, memory) = (Disjoint::new(out), Disjoint::new(memory));
    pool.split(latent.heads as usize, 1, &|thread, heads| {
        // SAFETY: each thread takes the memory of its own number.
        let weights = unsafe { memory.slice(thread * nope * low..(thread + 1) * nope * low) };
        for head in heads {
            let matrix = latent.keys[head].weight.matrix();
            for (row, weights) in weights.chunks_exact_mut(low).enumerate() {
                matrix.dequantise(row, weights);
            }
            for row in head * tokens..(head + 1) * tokens {
                // SAFETY: heads are dealt out without overlap.
                let y = unsafe { out.slice(row * low..(row + 1) * low) };
                kernels.turned(weights, &x[row * nope..][..nope], y);
            }
        }
    });
}
