//! A device that remembers what its matrices meet: the mean square of each input, from which quantisation learns what matters.
//!
//! It runs the fused blocks as the primitives they are made of, on the CPU, and looks at what stands before each product. Of experts
//! only the tokens that chose them count.

use std::collections::HashMap;

use kauri_arch::{
    Activation, Attention, Convolution, Embed, GatedDelta, Head, Latent, Linear, Moe, Norm, Selective, Shape,
    StateSpace, TimeMix,
};
use kauri_device::reference;
use kauri_device::{Batch, Buffer, Ends, Matrix, Ops, Part, Plan, Sequence, Share, Side, Weight, forward};
use kauri_device_cpu::Cpu;
use kauri_model::importance::Importance;

/// A matrix's name in a GGUF, and which of how many in a stack it is; by where its bytes are.
pub(crate) type Names = HashMap<(*const u8, usize), (String, [usize; 2])>;

/// Where a matrix is.
pub(crate) fn place(matrix: &Matrix) -> (*const u8, usize) {
    (matrix.data.as_ptr(), matrix.data.len())
}

/// Reads a chunk of text from an empty cache, and adds what its matrices met.
pub(crate) fn read(
    cpu: &mut Cpu,
    shape: &Shape<Weight>,
    plan: &Plan,
    tokens: &[u32],
    names: &Names,
    seen: &mut Importance,
) {
    let batch = begin(cpu, shape, plan, tokens);
    let rows = [batch.tokens.len(), batch.outputs.len()];
    forward(&mut Observed { cpu, names, seen, rows, expert: None }, shape, Ends::BOTH);
}

/// The logits behind some tokens of a chunk: those that a step has room for, evenly taken.
pub(crate) fn logits<'c>(cpu: &'c mut Cpu, shape: &Shape<Weight>, plan: &Plan, tokens: &[u32]) -> &'c [f32] {
    let batch = begin(cpu, shape, plan, tokens);
    forward(cpu, shape, Ends::BOTH);
    &cpu.buffer(Buffer::Logits)[..batch.outputs.len() * shape.vocab as usize]
}

/// A chunk as a batch of its own, which the device has taken.
fn begin(cpu: &mut Cpu, shape: &Shape<Weight>, plan: &Plan, tokens: &[u32]) -> Batch {
    let length = tokens.len() as u32;
    let every = (tokens.len() / plan.batch_outputs.max(1) as usize).max(1);
    let outputs = (0..length).step_by(every).take(plan.batch_outputs as usize);
    let batch = Batch {
        tokens: tokens.to_vec(),
        sequences: vec![Sequence {
            tokens: 0..tokens.len(),
            cached_tokens: 0,
            pages: 0..length.div_ceil(plan.page_tokens) as usize,
            slot: 0,
            reach_tokens: length,
            prompt_end: u32::MAX,
            second_start: u32::MAX,
            adapters: 0..0,
        }],
        pages: (0..length.div_ceil(plan.page_tokens)).collect(),
        outputs: outputs.collect(),
        adapters: Vec::new(),
    };
    batch.check(plan, shape.vocab);
    cpu.begin(&batch);
    batch
}

struct Observed<'a> {
    cpu: &'a mut Cpu,
    names: &'a Names,
    seen: &'a mut Importance,
    /// Tokens, and outputs.
    rows: [usize; 2],
    /// Which of how many is at work.
    expert: Option<[usize; 2]>,
}

impl Observed<'_> {
    fn look(&mut self, linear: &Linear<Weight>, from: Buffer) {
        let Some((name, place)) = self.names.get(&place(linear.weight.matrix())) else { return };
        let columns = linear.columns as usize;
        let rows = self.rows[usize::from(from == Buffer::Last)];
        let inputs = self.cpu.buffer(from)[..rows * columns].chunks_exact(columns);
        match self.expert {
            None => self.seen.add(name, *place, columns, inputs),
            Some([index, count]) => {
                let scores = self.cpu.buffer(Buffer::Scores);
                let chosen = inputs.enumerate().filter(|(row, _)| scores[row * count + index] != 0.0);
                self.seen.add(name, *place, columns, chosen.map(|(_, row)| row));
            }
        }
    }
}

impl Ops for Observed<'_> {
    type Weight = Weight;

    fn embed(&mut self, embed: &Embed<Weight>) {
        self.cpu.embed(embed);
    }

    fn norm(&mut self, norm: &Norm<Weight>, groups: usize, from: Buffer, to: Buffer) {
        self.cpu.norm(norm, groups, from, to);
    }

    fn linear(&mut self, linear: &Linear<Weight>, from: Buffer, to: Buffer) {
        self.look(linear, from);
        self.cpu.linear(linear, from, to);
    }

    fn rope(&mut self, rope: usize, heads: usize, head_dim: usize, buffer: Buffer) {
        self.cpu.rope(rope, heads, head_dim, buffer);
    }

    fn store(&mut self, block: usize, attention: &Attention<Weight>) {
        self.cpu.store(block, attention);
    }

    fn attend(&mut self, block: usize, attention: &Attention<Weight>) {
        self.cpu.attend(block, attention);
    }

    fn fold(&mut self, latent: &Latent<Weight>) {
        self.cpu.fold(latent);
    }

    fn store_rows(&mut self, block: usize, latent: &Latent<Weight>) {
        self.cpu.store_rows(block, latent);
    }

    fn attend_rows(&mut self, block: usize, latent: &Latent<Weight>) {
        self.cpu.attend_rows(block, latent);
    }

    fn unfold(&mut self, latent: &Latent<Weight>) {
        self.cpu.unfold(latent);
    }

    fn activate(&mut self, activation: Activation, gated: bool, width: usize) {
        self.cpu.activate(activation, gated, width);
    }

    fn gate(&mut self, activation: Activation, gate: Buffer, values: Buffer, width: usize) {
        self.cpu.gate(activation, gate, values, width);
    }

    fn scale(&mut self, buffer: Buffer, parts: &[(u32, f32)]) {
        self.cpu.scale(buffer, parts);
    }

    fn convolve(&mut self, block: usize, convolution: &Convolution<Weight>) {
        self.cpu.convolve(block, convolution);
    }

    fn deal(&mut self, groups: usize, parts: &[Part]) {
        self.cpu.deal(groups, parts);
    }

    fn delta(&mut self, block: usize, delta: &GatedDelta<Weight>) {
        self.cpu.delta(block, delta);
    }

    fn scan(&mut self, block: usize, space: &StateSpace<Weight>) {
        self.cpu.scan(block, space);
    }

    fn select(&mut self, block: usize, selective: &Selective<Weight>) {
        self.cpu.select(block, selective);
    }

    fn shift(&mut self, block: usize, side: Side, from: Buffer) {
        self.cpu.shift(block, side, from);
    }

    fn lean(&mut self, lean: &Weight, from: Buffer) {
        self.cpu.lean(lean, from);
    }

    fn replace(&mut self, block: usize, mix: &TimeMix<Weight>) {
        self.cpu.replace(block, mix);
    }

    fn pass_by(&mut self, mix: &TimeMix<Weight>) {
        self.cpu.pass_by(mix);
    }

    fn route(&mut self, moe: &Moe<Weight>) {
        self.cpu.route(moe);
    }

    fn join(&mut self, share: Share) {
        self.cpu.join(share);
    }

    fn add(&mut self, from: Buffer, scale: f32) {
        self.cpu.add(from, scale);
    }

    fn gather(&mut self) {
        self.cpu.gather();
    }

    fn scale_logits(&mut self, scale: f32, soft_cap: Option<f32>) {
        self.cpu.scale_logits(scale, soft_cap);
    }

    /// As [`reference::experts`], saying which expert is at work.
    fn experts(&mut self, norm: Option<&Norm<Weight>>, moe: &Moe<Weight>) {
        let input = if let Some(norm) = norm {
            self.norm(norm, 1, Buffer::Stream, Buffer::Normed);
            Buffer::Normed
        } else {
            Buffer::Stream
        };
        self.linear(&moe.router, input, Buffer::Scores);
        self.route(moe);
        let count = moe.experts.len();
        for (index, expert) in moe.experts.iter().enumerate() {
            self.expert = Some([index, count]);
            reference::widen(self, input, expert);
            self.linear(&expert.down, Buffer::Gate, Buffer::Branch);
            self.join(Share::Expert { index, count });
        }
        self.expert = None;
        let Some(shared) = &moe.shared else { return };
        reference::widen(self, input, &shared.dense);
        self.linear(&shared.dense.down, Buffer::Gate, Buffer::Branch);
        let Some(gate) = &shared.gate else { return self.join(Share::Whole) };
        self.linear(gate, input, Buffer::Scores);
        self.join(Share::Gate);
    }

    /// What the head reads; what it would make of it nobody asks for.
    fn head(&mut self, norm: &Norm<Weight>, head: &Head<Weight>) {
        self.gather();
        self.norm(norm, 1, Buffer::Last, Buffer::Last);
        if let Some(output) = &head.output {
            self.look(output, Buffer::Last);
        }
    }
}
