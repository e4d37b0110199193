//! Mixture of experts: tokens sorted by expert, so that the weights of each are read once in a step, and only where a token chose it.
//!
//! An expert's tokens are gathered into rows that stand together, go through its network as any others do, and are added where they
//! came from, expert after expert: a token's sum runs in the order of its experts' numbers whatever else is in the batch.

use kauri_arch::{Dense, Moe, Shape};
use kauri_device::{Plan, Weight, formula};

use crate::matmul::{self, Job};
use crate::pool::Pool;
use crate::product::Finish;

/// Memory for routing, sized at load.
pub struct Scratch {
    /// What the choice of each token is made by: (tokens, experts).
    pub keys: Vec<f32>,
    /// Tokens in the order of the experts that they chose, those of an expert in their own order: (tokens, chosen).
    order: Vec<u32>,
    /// Where those of each expert begin, and where the last one's end.
    starts: Vec<u32>,
    /// What the tokens of one expert go in with: (tokens, hidden).
    rows: Vec<f32>,
}

/// The activations that experts work on.
pub struct Rows<'a> {
    /// Tokens.
    pub tokens: usize,
    /// (tokens, hidden).
    pub input: &'a [f32],
    /// (tokens, experts): the weights of experts, zero where one was not chosen.
    pub scores: &'a mut [f32],
    /// Memory for wide values: (tokens, width) each.
    pub wide: [&'a mut [f32]; 2],
    /// Memory for one expert's output: (tokens, hidden).
    pub branch: &'a mut [f32],
    /// Where the sum goes: (tokens, hidden).
    pub mixture: &'a mut [f32],
}

impl Scratch {
    /// For the experts of `shape`, if it has any.
    pub fn new(shape: &Shape<Weight>, plan: &Plan) -> Self {
        let moes = || shape.blocks.iter().filter_map(|block| block.ffn.op.moe());
        let experts = moes().map(|moe| moe.experts.len()).max().unwrap_or(0);
        let chosen = moes().map(|moe| moe.chosen as usize).max().unwrap_or(0);
        let tokens = plan.batch_tokens as usize;
        Self {
            keys: vec![0.0; tokens * experts],
            order: vec![0; tokens * chosen],
            starts: vec![0; experts + 1],
            rows: vec![0.0; if experts > 0 { tokens * shape.hidden as usize } else { 0 }],
        }
    }

    /// Sorts the tokens by expert.
    fn sort(&mut self, experts: usize, weights: &[f32]) {
        let starts = &mut self.starts[..=experts];
        starts.fill(0);
        for row in weights.chunks_exact(experts) {
            for (count, &weight) in starts[1..].iter_mut().zip(row) {
                *count += u32::from(weight != 0.0);
            }
        }
        for expert in 0..experts {
            starts[expert + 1] += starts[expert];
        }
        for (token, row) in weights.chunks_exact(experts).enumerate() {
            for (place, &weight) in starts.iter_mut().zip(row) {
                if weight != 0.0 {
                    self.order[*place as usize] = token as u32;
                    *place += 1;
                }
            }
        }
        // Every start has become the next one's.
        starts.copy_within(..experts, 1);
        starts[0] = 0;
    }
}

/// Adds every expert's share to the mixture.
pub fn experts(
    pool: &mut Pool,
    products: &mut matmul::Scratch,
    scratch: &mut Scratch,
    moe: &Moe<Weight>,
    rows: &mut Rows<'_>,
) {
    let (count, hidden) = (moe.experts.len(), moe.router.columns as usize);
    let weights = &rows.scores[..rows.tokens * count];
    scratch.sort(count, weights);
    for (index, expert) in moe.experts.iter().enumerate() {
        let tokens = &scratch.order[scratch.starts[index] as usize..scratch.starts[index + 1] as usize];
        if tokens.is_empty() {
            continue;
        }
        for (row, &token) in scratch.rows.chunks_exact_mut(hidden).zip(tokens) {
            row.copy_from_slice(&rows.input[token as usize * hidden..][..hidden]);
        }
        let [gate, up] = &mut rows.wide;
        widen(pool, products, expert, &scratch.rows, tokens.len(), [gate, up]);
        let mut down = [Job { linear: &expert.down, gate: None, finish: Finish::Store, out: rows.branch }];
        matmul::linear(pool, products, gate, tokens.len(), &mut down);
        for (row, &token) in rows.branch.chunks_exact(hidden).zip(tokens) {
            let weight = weights[token as usize * count + index];
            let sum = &mut rows.mixture[token as usize * hidden..][..hidden];
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * value);
        }
    }
}

/// Adds what is shared to the mixture; the weights of experts are needed no more.
pub fn shared(pool: &mut Pool, products: &mut matmul::Scratch, moe: &Moe<Weight>, rows: &mut Rows<'_>) {
    let Some(shared) = &moe.shared else { return };
    let (tokens, hidden) = (rows.tokens, moe.router.columns as usize);
    let [gate, up] = &mut rows.wide;
    widen(pool, products, &shared.dense, rows.input, tokens, [gate, up]);
    let Some(scales) = &shared.gate else {
        let finish = Finish::Add(1.0);
        let mut down = [Job { linear: &shared.dense.down, gate: None, finish, out: rows.mixture }];
        return matmul::linear(pool, products, gate, tokens, &mut down);
    };
    let mut down = [Job { linear: &shared.dense.down, gate: None, finish: Finish::Store, out: rows.branch }];
    matmul::linear(pool, products, gate, tokens, &mut down);
    let mut scales = [Job { linear: scales, gate: None, finish: Finish::Store, out: rows.scores }];
    matmul::linear(pool, products, rows.input, tokens, &mut scales);
    for ((sum, row), &gate) in
        rows.mixture.chunks_exact_mut(hidden).zip(rows.branch.chunks_exact(hidden)).zip(&*rows.scores).take(tokens)
    {
        let share = formula::sigmoid(gate);
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += share * value);
    }
}

/// The wide values of a feed-forward network, from `tokens` rows of `x` to `gate`; `up` is memory for as many.
pub fn widen(
    pool: &mut Pool,
    products: &mut matmul::Scratch,
    dense: &Dense<Weight>,
    x: &[f32],
    tokens: usize,
    [gate, up]: [&mut [f32]; 2],
) {
    let activation = dense.activation;
    let kernels = products.kernels();
    let (held, finish) = match &dense.gate {
        Some(held) if matmul::go_together(kernels, &dense.up, held) => (Some(held), Finish::Gate(activation)),
        None => (None, Finish::Activate(activation)),
        Some(apart) => {
            let job = |linear, out| Job { linear, gate: None, finish: Finish::Store, out };
            matmul::linear(pool, products, x, tokens, &mut [job(apart, &mut *gate), job(&dense.up, &mut *up)]);
            let values = tokens * dense.up.rows as usize;
            kernels.activate(activation, true, &mut gate[..values], &up[..values]);
            return;
        }
    };
    matmul::linear(pool, products, x, tokens, &mut [Job { linear: &dense.up, gate: held, finish, out: gate }]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_sorted_by_expert_and_stay_in_order() {
        let mut scratch = Scratch { keys: Vec::new(), order: vec![9; 6], starts: vec![9; 6], rows: Vec::new() };
        #[rustfmt::skip]
        let weights = [
            0.5, 0.0, 0.5, 0.0,
            0.0, 0.0, 0.9, 0.1,
            0.3, 0.0, 0.7, 0.0,
        ];
        scratch.sort(4, &weights);
        assert_eq!(scratch.order, [0, 2, 0, 1, 2, 1]);
        assert_eq!(scratch.starts[..5], [0, 2, 2, 5, 6]);
    }
}
