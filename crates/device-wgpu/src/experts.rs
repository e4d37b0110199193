//! A mixture of experts: the router's choice, and what the chosen make of a token. Which they are only the device knows.

use kauri_arch::{Dense, Ffn, GroupRank, Linear, Moe, Norm, Scoring, Shape};
use kauri_device::{Buffer, Ops, Plan, Share, reference};

use crate::driver::Words;
use crate::elementwise::{numbered, or_nothing};
use crate::matmul;
use crate::ops::{Wgpu, bias_at};
use crate::resident::Resident;
use crate::shader::{Entry, Kernel, Types};

/// Where in the arena it is noted who was chosen, (tokens, chosen), and what they make of a token half-way, (tokens, chosen, width).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) chosen: usize,
    pub(crate) wide: usize,
}

impl Scratch {
    /// Values of both for the mixtures of `shape`.
    pub(crate) fn values<W>(shape: &Shape<W>, plan: &Plan) -> [usize; 2] {
        let (mut chosen, mut wide) = (0, 0);
        for moe in shape.ffns().filter_map(Ffn::moe) {
            chosen = chosen.max(moe.chosen as usize);
            wide = wide.max(moe.chosen as usize * moe.experts[0].up.rows as usize);
        }
        [chosen, wide].map(|values| values * plan.batch_tokens as usize)
    }
}

/// An expert as `shaders/expert_table.wgsl` reads it.
pub(crate) fn words(expert: &Dense<Resident>, at: impl Fn(&Resident) -> u32) -> [u32; 12] {
    let of = |linear: Option<&Linear<Resident>>| {
        linear.map_or([0, 0, 0, u32::MAX], |linear| {
            let Resident { quant, .. } = linear.weight;
            let bias = bias_at(linear.bias.as_ref()) as u32;
            [at(&linear.weight), linear.weight.row_bytes() as u32, quant as u32, bias]
        })
    };
    let all = [of(expert.gate.as_ref()), of(Some(&expert.up)), of(Some(&expert.down))];
    std::array::from_fn(|index| all[index / 4][index % 4])
}

/// See [`kauri_device::Ops::route`]; also notes who was chosen.
pub(crate) fn route(wgpu: &mut Wgpu, moe: &Moe<Resident>) {
    let scoring = match moe.scoring {
        Scoring::Softmax => 0,
        Scoring::Sigmoid => 1,
        Scoring::SoftmaxOfChosen => 2,
    };
    let [groups, kept, two_best] = moe.groups.map_or([0; 3], |groups| {
        let two_best = match groups.rank {
            GroupRank::Best => 0,
            GroupRank::TwoBest => 1,
        };
        [groups.count as usize, groups.kept as usize, two_best]
    });
    let (scores, mixture) = (wgpu.at(Buffer::Scores), wgpu.at(Buffer::Mixture));
    let bias = or_nothing(moe.selection_bias.map(|bias| bias.at));
    let words =
        Words::of([scores, wgpu.experts.chosen, mixture, bias, moe.experts.len(), moe.chosen as usize, scoring]);
    let words = words.int(groups).int(kept).int(two_best).int(usize::from(moe.normalised.is_some()));
    let words = words.float(moe.normalised.unwrap_or(0.0)).float(moe.scale).int(wgpu.hidden);
    wgpu.start(Kernel::plain(Entry::Route), [1, wgpu.rows(Buffer::Scores), 1], words);
}

/// See [`kauri_device::Ops::experts`].
pub(crate) fn experts(wgpu: &mut Wgpu, norm: Option<&Norm<Resident>>, moe: &Moe<Resident>) {
    let input = wgpu.normed(norm);
    matmul::linear(wgpu, &moe.router, input, Buffer::Scores, None);
    route(wgpu, moe);
    chosen(wgpu, input, moe);
    let Some(shared) = &moe.shared else { return };
    reference::widen(wgpu, input, &shared.dense);
    wgpu.linear(&shared.dense.down, Buffer::Gate, Buffer::Branch);
    let Some(gate) = &shared.gate else { return wgpu.join(Share::Whole) };
    wgpu.linear(gate, input, Buffer::Scores);
    wgpu.join(Share::Gate);
}

/// What the chosen experts make of `input`, to `Mixture`.
fn chosen(wgpu: &mut Wgpu, input: Buffer, moe: &Moe<Resident>) {
    let first = &moe.experts[0];
    let [width, hidden, wanted] = [first.up.rows, first.down.rows, moe.chosen].map(|count| count as usize);
    let table = wgpu.weights.table(&first.up.weight);
    let (scratch, rows) = (wgpu.experts, wgpu.rows(input));
    let types = |which: fn(&Dense<Resident>) -> &Linear<Resident>| {
        let all = moe.experts.iter().map(|expert| Types::of(which(expert).weight.quant));
        all.fold(Types::default(), Types::and)
    };
    let gate_or_up = |expert: &Dense<Resident>| expert.gate.as_ref().map_or(expert.up.weight, |gate| gate.weight);
    let gates = moe.experts.iter().map(|expert| Types::of(gate_or_up(expert).quant)).fold(Types::default(), Types::and);
    let chunk = |wgpu: &Wgpu, matrix: &Resident| wgpu.weights.pieces(matrix)[0].chunk;
    let chunks = [chunk(wgpu, &gate_or_up(first)), chunk(wgpu, &first.up.weight)];
    let [number, limit, steepness] = numbered(first.activation);
    let words = Words::of([table, scratch.chosen, wgpu.at(input), scratch.wide, hidden, width, wanted]);
    let words = words.int(usize::from(first.gate.is_some())).int(number as usize);
    let words = words.float(limit).float(steepness).float(first.gate_scale);
    let all = [gates, types(|expert| &expert.up)];
    let by = matmul::by(wgpu, &all, hidden);
    let kernel = Kernel::on(Entry::ExpertsUp, &all, 1).by(by);
    let [rows_a_block, _] = wgpu.expert_rows(by);
    let pairs = rows * wanted;
    let stored = width * (gate_or_up(first).row_bytes() + first.up.weight.row_bytes());
    wgpu.count(Entry::ExpertsUp, pairs * stored + 4 * (rows * hidden + pairs * width), 4 * pairs * width * hidden);
    wgpu.start_on(kernel, None, &chunks, [width.div_ceil(rows_a_block), wanted, rows], words);
    let (scores, mixture) = (wgpu.at(Buffer::Scores), wgpu.at(Buffer::Mixture));
    let words =
        Words::of([table, scratch.chosen, scores, scratch.wide, mixture, hidden, width, wanted, moe.experts.len()]);
    let all = [types(|expert| &expert.down)];
    let by = matmul::by(wgpu, &all, width);
    let kernel = Kernel::on(Entry::ExpertsDown, &all, 1).by(by);
    let [_, rows_a_block] = wgpu.expert_rows(by);
    let chunks = [chunk(wgpu, &first.down.weight)];
    let stored = hidden * first.down.weight.row_bytes();
    wgpu.count(Entry::ExpertsDown, pairs * stored + 4 * (rows * hidden + pairs * width), 2 * pairs * width * hidden);
    wgpu.start_on(kernel, None, &chunks, [hidden.div_ceil(rows_a_block), rows, 1], words);
}
