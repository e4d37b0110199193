//! A device with a stopwatch: counts the bytes each operation must move and the arithmetic it must do, and times it.
//!
//! What is counted is the floor: weights once, activations once in and once out, the cache once per sequence and key-value
//! head. A device that moves more shows as a smaller share of the machine's limit.

use std::time::Instant;

use kauri_arch::{
    Activation, Attention, Convolution, Dense, Embed, GatedDelta, Head, Latent, Leaning, Linear, Moe, Norm, Selective,
    Shared, StateSpace, TimeMix,
};

use crate::batch::{Batch, CacheType};
use crate::buffers::{Buffer, Extent};
use crate::formula;
use crate::ops::{Ops, Part, Share, Side};
use crate::weight::Weight;

/// What one kind of operation cost, summed over calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpCost {
    /// The operation.
    pub name: &'static str,
    /// How often it ran.
    pub calls: u64,
    /// Bytes it had to move.
    pub bytes: u64,
    /// Multiplications and additions it had to do.
    pub operations: u64,
    /// Seconds it took.
    pub seconds: f64,
}

/// What a machine allows at most, measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Streaming reads of memory, bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// Multiplications and additions per second of the widest arithmetic that a kernel could use, from registers alone.
    pub operations_per_s: f64,
    /// That arithmetic, in words.
    pub arithmetic: &'static str,
}

/// A device whose operations are measured as they run. Only for devices that compute before an operation returns.
pub struct Measured<'a, D> {
    /// The device.
    pub device: &'a mut D,
    /// The batch it was given.
    pub batch: &'a Batch,
    /// How it keeps keys and values.
    pub cache: CacheType,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Where the costs are summed.
    pub costs: &'a mut Vec<OpCost>,
}

/// Bytes and operations of one call.
#[derive(Clone, Copy, Default)]
struct Cost {
    bytes: u64,
    operations: u64,
}

impl<D: Ops<Weight = Weight>> Measured<'_, D> {
    fn run(&mut self, name: &'static str, cost: Cost, run: impl FnOnce(&mut D)) {
        let start = Instant::now();
        run(self.device);
        let seconds = start.elapsed().as_secs_f64();
        let known = self.costs.iter().position(|known| known.name == name);
        let index = known.unwrap_or_else(|| {
            self.costs.push(OpCost { name, calls: 0, bytes: 0, operations: 0, seconds: 0.0 });
            self.costs.len() - 1
        });
        let entry = &mut self.costs[index];
        entry.calls += 1;
        entry.bytes += cost.bytes;
        entry.operations += cost.operations;
        entry.seconds += seconds;
    }

    fn rows(&self, buffer: Buffer) -> u64 {
        match buffer.extent() {
            Extent::Tokens => self.batch.tokens.len() as u64,
            Extent::Outputs => self.batch.outputs.len() as u64,
        }
    }

    fn linear_cost(linear: &Linear<Weight>, rows: u64) -> Cost {
        let matrix = linear.weight.matrix();
        let (inputs, outputs) = (matrix.columns as u64, matrix.rows as u64);
        Cost { bytes: matrix.bytes() + 4 * rows * (inputs + outputs), operations: 2 * rows * inputs * outputs }
    }

    fn elementwise(values: u64, operations: u64) -> Cost {
        Cost { bytes: 8 * values, operations: operations * values }
    }

    /// A state of so many values of each sequence, read and written once.
    fn state_cost(&self, values: u64) -> Cost {
        Self::elementwise(self.batch.sequences.len() as u64 * values, 0)
    }

    fn dense_cost(dense: &Dense<Weight>, rows: u64) -> Cost {
        let linears = [dense.gate.as_ref(), Some(&dense.up), Some(&dense.down)].into_iter().flatten();
        linears.map(|linear| Self::linear_cost(linear, rows)).fold(Cost::default(), std::ops::Add::add)
    }

    /// Of the experts, those that so many tokens choose if all are chosen equally often: which they are, only the device knows.
    fn experts_cost(moe: &Moe<Weight>, rows: u64) -> Cost {
        let mut cost = Self::linear_cost(&moe.router, rows);
        if let Some(shared) = &moe.shared {
            cost = cost + Self::dense_cost(&shared.dense, rows);
        }
        let (count, chosen) = (moe.experts.len() as f64, f64::from(moe.chosen));
        let touched = count * (1.0 - (1.0 - chosen / count).powi(i32::try_from(rows).unwrap_or(i32::MAX)));
        if let (Some(expert), true) = (moe.experts.first(), rows > 0) {
            let (weights, all) = (Self::dense_cost(expert, 0), Self::dense_cost(expert, rows * u64::from(moe.chosen)));
            cost.bytes += (weights.bytes as f64 * touched) as u64 + all.bytes - weights.bytes;
            cost.operations += all.operations;
        }
        cost
    }

    fn attention_cost(&self, attention: &Attention<Weight>) -> Cost {
        let (heads, kv_heads) = (u64::from(attention.heads), u64::from(attention.kv_heads));
        let head_dim = u64::from(attention.head_dim);
        let mut cost = Self::elementwise(self.rows(Buffer::Query) * heads * head_dim, 0);
        for sequence in &self.batch.sequences {
            let (window, end) = (attention.window_tokens.unwrap_or(u32::MAX), sequence.positions().end);
            let sees =
                |position| formula::sees(attention.window_tokens, attention.both_ways, position, end).len() as u64;
            let seen: u64 = sequence.positions().map(sees).sum();
            let read = sequence.positions().end.min(window.saturating_add(sequence.tokens.len() as u32));
            cost.operations += 4 * seen * heads * head_dim;
            cost.bytes += 2 * u64::from(read) * kv_heads * self.cache.head_bytes(attention.head_dim);
        }
        cost
    }

    /// The matrices of all heads, each on its own part of every row of `values` values in all.
    fn heads_cost(heads: &[Linear<Weight>], rows: u64, values: u64) -> Cost {
        let matrices = || heads.iter().map(|head| head.weight.matrix());
        Cost {
            bytes: matrices().map(crate::Matrix::bytes).sum::<u64>() + 4 * rows * values,
            operations: 2 * rows * matrices().map(|matrix| (matrix.rows * matrix.columns) as u64).sum::<u64>(),
        }
    }

    fn rows_cost(&self, latent: &Latent<Weight>) -> Cost {
        let (heads, row, values) = (u64::from(latent.heads), u64::from(latent.row()), u64::from(latent.latent));
        let mut cost = Self::elementwise(self.rows(Buffer::Query) * heads * (row + values) / 2, 0);
        for sequence in &self.batch.sequences {
            let seen: u64 = sequence.positions().map(|position| u64::from(position + 1)).sum();
            cost.operations += 2 * seen * heads * (row + values);
            cost.bytes += u64::from(sequence.positions().end) * self.cache.of_rows().head_bytes(latent.row());
        }
        cost
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, operations: self.operations + other.operations }
    }
}

impl<D: Ops<Weight = Weight>> Ops for Measured<'_, D> {
    type Weight = Weight;

    fn embed(&mut self, embed: &Embed<Weight>) {
        let cost = Cost { bytes: self.rows(Buffer::Stream) * embed.table.matrix().row_bytes() as u64, operations: 0 };
        self.run("embed", cost, |device| device.embed(embed));
    }

    fn norm(&mut self, norm: &Norm<Weight>, groups: usize, from: Buffer, to: Buffer) {
        let cost = Self::elementwise(self.rows(from) * groups as u64 * u64::from(norm.width), 4);
        self.run("norm", cost, |device| device.norm(norm, groups, from, to));
    }

    fn linear(&mut self, linear: &Linear<Weight>, from: Buffer, to: Buffer) {
        let cost = Self::linear_cost(linear, self.rows(from));
        self.run("linear", cost, |device| device.linear(linear, from, to));
    }

    fn rope(&mut self, rope: usize, heads: usize, head_dim: usize, buffer: Buffer) {
        let cost = Self::elementwise(self.rows(buffer) * (heads * head_dim) as u64, 3);
        self.run("rope", cost, |device| device.rope(rope, heads, head_dim, buffer));
    }

    fn store(&mut self, block: usize, attention: &Attention<Weight>) {
        let values = 2 * self.rows(Buffer::Key) * u64::from(attention.kv_heads * attention.head_dim);
        let cost = Self::elementwise(values, 0);
        self.run("store", cost, |device| device.store(block, attention));
    }

    fn attend(&mut self, block: usize, attention: &Attention<Weight>) {
        let cost = self.attention_cost(attention);
        self.run("attend", cost, |device| device.attend(block, attention));
    }

    fn fold(&mut self, latent: &Latent<Weight>) {
        let values = u64::from(latent.heads * (latent.row() + latent.nope_dims + latent.rope_dims) + 2 * latent.row());
        let cost = Self::heads_cost(&latent.keys, self.rows(Buffer::Query), values);
        self.run("fold", cost, |device| device.fold(latent));
    }

    fn store_rows(&mut self, block: usize, latent: &Latent<Weight>) {
        let cost = Self::elementwise(self.rows(Buffer::Key) * u64::from(latent.row()), 0);
        self.run("store", cost, |device| device.store_rows(block, latent));
    }

    fn attend_rows(&mut self, block: usize, latent: &Latent<Weight>) {
        let cost = self.rows_cost(latent);
        self.run("attend", cost, |device| device.attend_rows(block, latent));
    }

    fn unfold(&mut self, latent: &Latent<Weight>) {
        let values = u64::from(latent.heads * (latent.latent + latent.value_dims));
        let cost = Self::heads_cost(&latent.values, self.rows(Buffer::Mixed), values);
        self.run("unfold", cost, |device| device.unfold(latent));
    }

    fn activate(&mut self, activation: Activation, gated: bool, width: usize) {
        let cost = Self::elementwise(self.rows(Buffer::Gate) * width as u64, 8);
        self.run("activate", cost, |device| device.activate(activation, gated, width));
    }

    fn gate(&mut self, activation: Activation, gate: Buffer, values: Buffer, width: usize) {
        let cost = Self::elementwise(self.rows(gate) * width as u64, 8);
        self.run("gate", cost, |device| device.gate(activation, gate, values, width));
    }

    fn scale(&mut self, buffer: Buffer, parts: &[(u32, f32)]) {
        let width: u64 = parts.iter().map(|&(width, _)| u64::from(width)).sum();
        let cost = Self::elementwise(self.rows(buffer) * width, 1);
        self.run("scale", cost, |device| device.scale(buffer, parts));
    }

    fn convolve(&mut self, block: usize, convolution: &Convolution<Weight>) {
        let values = self.rows(Buffer::Channels) * u64::from(convolution.channels);
        let cost = Self::elementwise(values, 2 * u64::from(convolution.taps) + 8) + self.state_cost(convolution.tail());
        self.run("convolve", cost, |device| device.convolve(block, convolution));
    }

    fn deal(&mut self, groups: usize, parts: &[Part]) {
        let width: usize = parts.iter().map(|part| part.width).sum();
        let cost = Self::elementwise(self.rows(Buffer::Packed) * (groups * width) as u64, 0);
        self.run("deal", cost, |device| device.deal(groups, parts));
    }

    fn delta(&mut self, block: usize, delta: &GatedDelta<Weight>) {
        let recurrent = delta.kept().recurrent;
        let values = self.rows(Buffer::Channels) * u64::from(delta.convolution.channels);
        let operations = 7 * self.rows(Buffer::Channels) * recurrent;
        let cost = Self::elementwise(values, 0) + self.state_cost(recurrent) + Cost { bytes: 0, operations };
        self.run("delta", cost, |device| device.delta(block, delta));
    }

    fn scan(&mut self, block: usize, space: &StateSpace<Weight>) {
        let recurrent = space.kept().recurrent;
        let values = self.rows(Buffer::Channels) * u64::from(space.convolution.channels);
        let operations = 5 * self.rows(Buffer::Channels) * recurrent;
        let cost = Self::elementwise(values, 0) + self.state_cost(recurrent) + Cost { bytes: 0, operations };
        self.run("scan", cost, |device| device.scan(block, space));
    }

    fn select(&mut self, block: usize, selective: &Selective<Weight>) {
        let (rows, recurrent) = (self.rows(Buffer::Channels), selective.kept().recurrent);
        // An exponential counts as eight.
        let operations = 13 * rows * recurrent;
        let values = Self::elementwise(2 * rows * u64::from(selective.width), 0);
        let cost = values + self.state_cost(recurrent) + Cost { bytes: 0, operations };
        self.run("select", cost, |device| device.select(block, selective));
    }

    fn shift(&mut self, block: usize, side: Side, from: Buffer) {
        let hidden = self.hidden as u64;
        let cost = Self::elementwise(self.rows(from) * hidden, 1) + self.state_cost(hidden);
        self.run("shift", cost, |device| device.shift(block, side, from));
    }

    fn lean(&mut self, lean: &Weight, from: Buffer) {
        let cost = Self::elementwise(self.rows(from) * self.hidden as u64, 2);
        self.run("lean", cost, |device| device.lean(lean, from));
    }

    fn replace(&mut self, block: usize, mix: &TimeMix<Weight>) {
        let (rows, recurrent) = (self.rows(Buffer::Query), mix.kept().recurrent);
        let operations = 8 * rows * recurrent;
        let values = Self::elementwise(4 * rows * u64::from(mix.width()), 8);
        let cost = values + self.state_cost(recurrent) + Cost { bytes: 0, operations };
        self.run("replace", cost, |device| device.replace(block, mix));
    }

    fn pass_by(&mut self, mix: &TimeMix<Weight>) {
        let cost = Self::elementwise(2 * self.rows(Buffer::Query) * u64::from(mix.width()), 3);
        self.run("pass by", cost, |device| device.pass_by(mix));
    }

    fn route(&mut self, moe: &Moe<Weight>) {
        let cost = Self::elementwise(self.rows(Buffer::Scores) * moe.experts.len() as u64, u64::from(moe.chosen));
        self.run("route", cost, |device| device.route(moe));
    }

    fn join(&mut self, share: Share) {
        let cost = Self::elementwise(self.rows(Buffer::Mixture) * self.hidden as u64, 2);
        self.run("join", cost, |device| device.join(share));
    }

    fn add(&mut self, from: Buffer, scale: f32) {
        let cost = Self::elementwise(self.rows(from) * self.hidden as u64, 2);
        self.run("add", cost, |device| device.add(from, scale));
    }

    fn gather(&mut self) {
        let cost = Self::elementwise(self.rows(Buffer::Last) * self.hidden as u64, 0);
        self.run("gather", cost, D::gather);
    }

    fn scale_logits(&mut self, scale: f32, soft_cap: Option<f32>) {
        self.run("scale logits", Cost::default(), |device| device.scale_logits(scale, soft_cap));
    }

    fn qkv(&mut self, block: usize, norm: Option<&Norm<Weight>>, attention: &Attention<Weight>) {
        let rows = self.rows(Buffer::Query);
        let linears = [&attention.q, &attention.k, &attention.v];
        let cost =
            linears.map(|linear| Self::linear_cost(linear, rows)).into_iter().fold(Cost::default(), std::ops::Add::add);
        self.run("qkv", cost, |device| device.qkv(block, norm, attention));
    }

    fn inputs<const N: usize>(&mut self, norm: Option<&Norm<Weight>>, products: [(&Linear<Weight>, Buffer); N]) {
        let rows = self.rows(Buffer::Normed);
        let costs = products.iter().map(|(linear, _)| Self::linear_cost(linear, rows));
        let cost = costs.fold(Cost::default(), std::ops::Add::add);
        self.run("mixer input", cost, |device| device.inputs(norm, products));
    }

    fn delta_inputs(&mut self, norm: Option<&Norm<Weight>>, delta: &GatedDelta<Weight>) {
        let rows = self.rows(Buffer::Normed);
        let linears = [Some(&delta.input), delta.gate.as_ref(), Some(&delta.rates), delta.steps.as_ref()];
        let costs = linears.into_iter().flatten().map(|linear| Self::linear_cost(linear, rows));
        let cost = costs.fold(Cost::default(), std::ops::Add::add);
        self.run("mixer input", cost, |device| device.delta_inputs(norm, delta));
    }

    fn latent(&mut self, block: usize, norm: Option<&Norm<Weight>>, latent: &Latent<Weight>) {
        let rows = self.rows(Buffer::Query);
        let values = u64::from(latent.heads * (latent.row() + latent.nope_dims + latent.rope_dims));
        let linears = [Some(&latent.q), Some(&latent.kv), latent.q_low.as_ref().map(|(low, _)| low)];
        let costs = linears.into_iter().flatten().map(|linear| Self::linear_cost(linear, rows));
        let cost = costs.fold(Self::heads_cost(&latent.keys, rows, values), std::ops::Add::add);
        self.run("latent", cost, |device| device.latent(block, norm, latent));
    }

    fn gate_up(&mut self, norm: Option<&Norm<Weight>>, dense: &Dense<Weight>) {
        let rows = self.rows(Buffer::Gate);
        let gate = dense.gate.as_ref().map_or(Cost::default(), |gate| Self::linear_cost(gate, rows));
        let cost = gate + Self::linear_cost(&dense.up, rows);
        self.run("gate+up", cost, |device| device.gate_up(norm, dense));
    }

    fn time_mix_inputs(&mut self, block: usize, norm: Option<&Norm<Weight>>, mix: &TimeMix<Weight>) {
        let rows = self.rows(Buffer::Normed);
        let gate = mix.gate.as_ref().map(|gate| &gate.op);
        let ways = [Some(&mix.decay.op), Some(&mix.rate.op), mix.residual.as_ref(), gate].into_iter().flatten();
        let linears = [&mix.r, &mix.k, &mix.v].map(|leaning| Self::linear_cost(&leaning.op, rows));
        let cost = ways.map(|dense| Self::dense_cost(dense, rows)).chain(linears);
        let cost = cost.fold(Cost::default(), std::ops::Add::add);
        self.run("mixer input", cost, |device| device.time_mix_inputs(block, norm, mix));
    }

    fn shifted_up(&mut self, block: usize, norm: Option<&Norm<Weight>>, shifted: &Leaning<Dense<Weight>, Weight>) {
        let cost = Self::linear_cost(&shifted.op.up, self.rows(Buffer::Gate));
        self.run("gate+up", cost, |device| device.shifted_up(block, norm, shifted));
    }

    fn experts(&mut self, norm: Option<&Norm<Weight>>, moe: &Moe<Weight>) {
        let cost = Self::experts_cost(moe, self.rows(Buffer::Scores));
        self.run("experts", cost, |device| device.experts(norm, moe));
    }

    fn beside(&mut self, norm: Option<&Norm<Weight>>, shared: &Shared<Weight>) {
        let cost = Self::dense_cost(&shared.dense, self.rows(Buffer::Mixture));
        self.run("shared expert", cost, |device| device.beside(norm, shared));
    }

    fn conclude(&mut self, from: Buffer, norm: Option<&Norm<Weight>>, scale: f32) {
        let cost = Self::elementwise(self.rows(from) * self.hidden as u64, 2);
        self.run("conclude", cost, |device| device.conclude(from, norm, scale));
    }

    fn project(&mut self, linear: &Linear<Weight>, from: Buffer, norm: Option<&Norm<Weight>>, scale: f32) {
        let cost = Self::linear_cost(linear, self.rows(from));
        let name = match from {
            Buffer::Mixed | Buffer::Parts => "attention output",
            Buffer::MixerGate => "mixer output",
            _ => "down",
        };
        self.run(name, cost, |device| device.project(linear, from, norm, scale));
    }

    fn head(&mut self, norm: &Norm<Weight>, head: &Head<Weight>) {
        let rows = self.rows(Buffer::Last);
        let cost = head.output.as_ref().map_or(Cost::default(), |output| Self::linear_cost(output, rows));
        self.run("head", cost, |device| device.head(norm, head));
    }
}
