//! Mixture of experts: tokens sorted by expert, so that the weights of each are read once in a step, and only where a token chose it.
//!
//! All experts of a step are one piece of work for the pool on the way in, and one on the way out: its threads share strips of rows of
//! every expert that was chosen. A token's sum runs in the order of its experts' numbers whatever else is in the batch.

use std::ops::Range;

use kauri_arch::{Activation, Dense, Ffn, Linear, Moe, Shape, Shared};
use kauri_device::{Extent, Plan, Weight, formula};
use kauri_formats::Quant;

use crate::adapters::{Adapters, Io};
use crate::aligned::Aligned;
use crate::detect::Kernels;
use crate::matmul::{self, Group, Input, Job, Source};
use crate::ops::by_rows;
use crate::pool::Pool;
use crate::product::Finish;

/// Memory for routing, sized at load. A row is a token and an expert that it chose; rows stand in the order of the experts, those of
/// an expert in the order of their tokens.
pub struct Scratch {
    /// What the choice of each token is made by: (tokens, experts).
    pub keys: Vec<f32>,
    /// The token of each row.
    order: Vec<u32>,
    /// The first row of each expert, and the end of the last one's.
    starts: Vec<u32>,
    /// The experts that have rows.
    active: Vec<u32>,
    /// Wide values: (rows, width) each.
    wide: [Aligned<f32>; 2],
    /// (rows, hidden).
    outputs: Aligned<f32>,
}

/// The activations that experts work on.
pub struct Rows<'a> {
    /// Tokens.
    pub tokens: usize,
    /// (tokens, hidden).
    pub input: &'a [f32],
    /// (tokens, experts): the weights of experts, zero where one was not chosen.
    pub scores: &'a mut [f32],
    /// Memory for what is shared: (tokens, width) each.
    pub wide: [&'a mut [f32]; 2],
    /// The same: (tokens, hidden).
    pub branch: &'a mut [f32],
    /// Where the sum goes: (tokens, hidden).
    pub mixture: &'a mut [f32],
}

/// The most values that go into the experts' products in a step.
pub fn values(shape: &Shape<Weight>, plan: &Plan) -> usize {
    let moes = shape.ffns().filter_map(|ffn| Some((ffn.moe()?, ffn.widths().max()?)));
    let columns = moes.map(|(moe, width)| moe.chosen as usize * width.max(shape.hidden) as usize);
    columns.max().unwrap_or(0) * plan.batch_tokens as usize
}

impl Scratch {
    /// For the experts of `shape`, if it has any.
    pub fn new(shape: &Shape<Weight>, plan: &Plan) -> Self {
        let moes = || shape.ffns().filter_map(Ffn::moe);
        let experts = moes().map(|moe| moe.experts.len()).max().unwrap_or(0);
        let rows = moes().map(|moe| moe.chosen as usize).max().unwrap_or(0) * plan.batch_tokens as usize;
        let width = moes().flat_map(|moe| &moe.experts).map(|expert| expert.up.rows as usize).max().unwrap_or(0);
        Self {
            keys: vec![0.0; plan.batch_tokens as usize * experts],
            order: vec![0; rows],
            starts: vec![0; experts + 1],
            active: Vec::with_capacity(experts),
            wide: [Aligned::new(rows * width), Aligned::new(rows * width)],
            outputs: Aligned::new(rows * shape.hidden as usize),
        }
    }

    /// Makes the rows of these weights: (tokens, experts).
    fn sort(&mut self, experts: usize, weights: &[f32]) {
        let starts = &mut self.starts[..=experts];
        starts.fill(0);
        for row in weights.chunks_exact(experts) {
            for (count, &weight) in starts[1..].iter_mut().zip(row) {
                *count += u32::from(weight != 0.0);
            }
        }
        self.active.clear();
        for expert in 0..experts {
            if starts[expert + 1] > 0 {
                self.active.push(expert as u32);
            }
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

/// What products are computed with: the threads, their memory, and what adapters add.
pub type Work<'a> = (&'a mut Pool, &'a mut matmul::Scratch, &'a mut Adapters);

/// Adds every expert's share to the mixture.
pub fn experts((pool, products, adapters): Work<'_>, scratch: &mut Scratch, moe: &Moe<Weight>, rows: &mut Rows<'_>) {
    let (count, hidden) = (moe.experts.len(), moe.router.columns as usize);
    let weights = &rows.scores[..rows.tokens * count];
    scratch.sort(count, weights);
    let Scratch { order, starts, active, wide, outputs, .. } = scratch;
    let rows_of = |expert: u32| starts[expert as usize] as usize..starts[expert as usize + 1] as usize;
    let network = |expert: u32| &moe.experts[expert as usize];
    // Files have all experts of a layer in one type; where one has not, each goes by itself.
    let alike = active.windows(2).all(|pair| types(network(pair[0])) == types(network(pair[1])));
    let together = if alike { active.len() } else { 1 };
    for active in active.chunks(together.max(1)) {
        let (first, end) = (rows_of(active[0]).start, rows_of(active[active.len() - 1]).end);
        // A single token's row is the input of all its experts.
        let single = rows.tokens == 1;
        let input = if single {
            Input { x: rows.input, order: None, tokens: 1 }
        } else {
            Input { x: rows.input, order: Some(&order[first..end]), tokens: end - first }
        };
        let part = Part { active, first, rows_of: &rows_of };
        adapters.choose(active, &rows_of, order);
        let work = (&mut *pool, &mut *products, &mut *adapters);
        widen_groups(work, input, &|index| network(active[index]), (&part, single), wide);
        let width = network(active[0]).up.rows as usize;
        let input = Input { x: &wide[0][first * width..end * width], order: None, tokens: end - first };
        let down = |index| part.group(index, &network(active[index]).down, None, false);
        matmul::grouped(pool, products, input, (active.len(), &down), Finish::Store, outputs);
        let io = Io { x: &wide[0], by_token: false, factor: 1.0, out: outputs };
        adapters.add_to_experts(pool, products.kernels(), &|expert| &network(expert).down, io);
    }
    by_rows(pool, hidden, &mut rows.mixture[..rows.tokens * hidden], |first, sums| {
        let tokens = first..first + sums.len() / hidden;
        for &expert in &*active {
            for row in rows_of(expert).filter(|&row| tokens.contains(&(order[row] as usize))) {
                let token = order[row] as usize;
                let weight = weights[token * count + expert as usize];
                let sum = &mut sums[(token - first) * hidden..][..hidden];
                let output = &outputs[row * hidden..][..hidden];
                sum.iter_mut().zip(output).for_each(|(sum, value)| *sum += weight * value);
            }
        }
    });
}

/// The storage types of a network's matrices.
fn types(dense: &Dense<Weight>) -> [Option<Quant>; 3] {
    let quant = |linear: &Linear<Weight>| linear.weight.matrix().quant;
    [dense.gate.as_ref().map(quant), Some(quant(&dense.up)), Some(quant(&dense.down))]
}

/// Experts that are computed together.
struct Part<'a> {
    active: &'a [u32],
    /// The first row of the first.
    first: usize,
    rows_of: &'a (dyn Fn(u32) -> Range<usize> + Sync),
}

impl Part<'_> {
    /// One expert's rows through a matrix; from a `single` row if there is no other.
    fn group<'w>(
        &self,
        index: usize,
        linear: &'w Linear<Weight>,
        gate: Option<&'w Linear<Weight>>,
        single: bool,
    ) -> Group<'w> {
        let rows = (self.rows_of)(self.active[index]);
        let tokens = if single { (0, 1) } else { (rows.start - self.first, rows.len()) };
        Group { linear, gate, tokens, to: rows.start }
    }
}

/// The wide values of all experts of a part, to the first memory.
fn widen_groups<'w>(
    (pool, products, adapters): Work<'_>,
    input: Input<'_>,
    network: &(dyn Fn(usize) -> &'w Dense<Weight> + Sync),
    (part, single): (&Part<'_>, bool),
    [gate, up]: &mut [Aligned<f32>; 2],
) {
    let (count, activation) = (part.active.len(), network(0).activation);
    let kernels = products.kernels();
    let apart = adapters.widen_experts((0..count).map(network));
    let finish = match &network(0).gate {
        Some(held) if !apart && matmul::go_together(kernels, &network(0).up, held) => Finish::Gate(activation),
        None if !apart => Finish::Activate(activation),
        held => {
            let gates = |index: usize| network(index).gate.as_ref().unwrap_or(&network(index).up);
            // Numbers of experts are ascending.
            let place = |expert: u32| part.active.binary_search(&expert).expect("an expert of this part");
            let is_gated = held.is_some();
            if is_gated {
                let each = |index| part.group(index, gates(index), None, single);
                matmul::grouped(pool, products, input, (count, &each), Finish::Store, gate);
                let io = Io { x: input.x, by_token: true, factor: 1.0, out: gate };
                adapters.add_to_experts(pool, kernels, &|expert| gates(place(expert)), io);
            }
            let ups = |index| part.group(index, &network(index).up, None, single);
            matmul::grouped(pool, products, input, (count, &ups), Finish::Store, up);
            let io = Io { x: input.x, by_token: true, factor: 1.0, out: up };
            adapters.add_to_experts(pool, kernels, &|expert| &network(place(expert)).up, io);
            let width = network(0).up.rows as usize;
            let rows = part.first * width..(part.rows_of)(part.active[count - 1]).end * width;
            return activate(pool, kernels, (activation, is_gated), width, (&mut gate[rows.clone()], &up[rows]));
        }
    };
    let both = |index| part.group(index, &network(index).up, network(index).gate.as_ref(), single);
    matmul::grouped(pool, products, input, (count, &both), finish, gate);
}

/// Rows of `width` wide values, whose products are there: the activation, and the gate's product where there is a gate.
fn activate(
    pool: &mut Pool,
    kernels: Kernels,
    (activation, is_gated): (Activation, bool),
    width: usize,
    (gate, up): (&mut [f32], &[f32]),
) {
    by_rows(pool, width, gate, |first, gate| {
        kernels.activate(activation, is_gated, gate, &up[first * width..][..gate.len()]);
    });
}

/// Adds what is shared to the mixture; the weights of experts are needed no more.
pub fn shared((pool, products, adapters): Work<'_>, shared: &Shared<Weight>, rows: &mut Rows<'_>) {
    let (tokens, hidden, kernels) = (rows.tokens, shared.dense.down.rows as usize, products.kernels());
    let [gate, up] = &mut rows.wide;
    widen((&mut *pool, &mut *products, &mut *adapters), &shared.dense, Source::Rows(rows.input), tokens, [gate, up]);
    let mut project = |linear: &Linear<Weight>, x: &[f32], finish, out: &mut [f32]| {
        let job = Job { linear, gate: None, finish, out: &mut *out, then: None };
        matmul::linear(pool, products, Source::Rows(x), (Extent::Tokens, tokens), &mut [job]);
        adapters.add(pool, kernels, linear, Extent::Tokens, Io { x, by_token: false, factor: 1.0, out });
    };
    let Some(scales) = &shared.gate else {
        return project(&shared.dense.down, gate, Finish::Add(1.0), rows.mixture);
    };
    project(&shared.dense.down, gate, Finish::Store, rows.branch);
    project(scales, rows.input, Finish::Store, rows.scores);
    for ((sum, row), &gate) in
        rows.mixture.chunks_exact_mut(hidden).zip(rows.branch.chunks_exact(hidden)).zip(&*rows.scores).take(tokens)
    {
        let share = formula::sigmoid(gate);
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += share * value);
    }
}

/// The wide values of a feed-forward network, from `tokens` rows to `gate`; `up` is memory for as many.
pub fn widen(
    (pool, products, adapters): Work<'_>,
    dense: &Dense<Weight>,
    source: Source<'_>,
    tokens: usize,
    [gate, up]: [&mut [f32]; 2],
) {
    let activation = dense.activation;
    let kernels = products.kernels();
    let apart = adapters.widen(dense);
    let (held, finish) = match &dense.gate {
        Some(held) if !apart && dense.gate_scale == 1.0 && matmul::go_together(kernels, &dense.up, held) => {
            (Some(held), Finish::Gate(activation))
        }
        None if !apart => (None, Finish::Activate(activation)),
        held => {
            let job = |linear, out| Job { linear, gate: None, finish: Finish::Store, out, then: None };
            let ups = job(&dense.up, &mut *up);
            let x = match held {
                Some(held) => {
                    matmul::linear(pool, products, source, (Extent::Tokens, tokens), &mut [job(held, &mut *gate), ups])
                }
                None => matmul::linear(pool, products, source, (Extent::Tokens, tokens), &mut [ups]),
            };
            if let Some(held) = held {
                adapters.add(pool, kernels, held, Extent::Tokens, Io { x, by_token: false, factor: 1.0, out: gate });
            }
            adapters.add(pool, kernels, &dense.up, Extent::Tokens, Io { x, by_token: false, factor: 1.0, out: up });
            let (width, is_gated) = (dense.up.rows as usize, held.is_some());
            let values = tokens * width;
            if dense.gate_scale != 1.0 {
                gate[..values].iter_mut().for_each(|value| *value *= dense.gate_scale);
            }
            return activate(pool, kernels, (activation, is_gated), width, (&mut gate[..values], &up[..values]));
        }
    };
    let job = Job { linear: &dense.up, gate: held, finish, out: gate, then: Some(&dense.down) };
    matmul::linear(pool, products, source, (Extent::Tokens, tokens), &mut [job]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_sorted_by_expert_and_stay_in_order() {
        let mut scratch = Scratch {
            keys: Vec::new(),
            order: vec![9; 6],
            starts: vec![9; 6],
            active: vec![9],
            wide: [Aligned::new(0), Aligned::new(0)],
            outputs: Aligned::new(0),
        };
        #[rustfmt::skip]
        let weights = [
            0.5, 0.0, 0.5, 0.0,
            0.0, 0.0, 0.9, 0.1,
            0.3, 0.0, 0.7, 0.0,
        ];
        scratch.sort(4, &weights);
        assert_eq!(scratch.order, [0, 2, 0, 1, 2, 1]);
        assert_eq!(scratch.starts[..5], [0, 2, 2, 5, 6]);
        assert_eq!(scratch.active, [0, 2, 3]);
    }
}
