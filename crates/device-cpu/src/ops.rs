//! The CPU's operations: activations in memory, work shared over the pool.

use kauri_arch::{Activation, Attention, Embed, Linear, Mixer, Norm, Shape};
use kauri_device::rope::{Angles, Frequencies};
use kauri_device::{Batch, Buffer, Extent, Ops, Plan, Weight, formula};

use crate::attend;
use crate::cache::Cache;
use crate::matmul;
use crate::pool::Pool;

/// Everything that a forward pass on the CPU touches but the weights. Sized at load.
pub struct Cpu {
    batch: Batch,
    buffers: Vec<Vec<f32>>,
    caches: Vec<Cache>,
    ropes: Vec<(Frequencies, Angles)>,
    pool: Pool,
    scratch: Vec<f32>,
    hidden: usize,
}

impl Cpu {
    /// Sized for `shape` and `plan`, with `threads` threads.
    pub fn new(shape: &Shape<Weight>, plan: &Plan, threads: usize) -> Self {
        let pool = Pool::new(threads);
        let places = plan.pages as usize * plan.page_tokens as usize;
        let mut scratch = 0;
        let caches = shape.blocks.iter().map(|block| match &block.mixer.op {
            Mixer::Attention(attention) => {
                scratch = scratch.max(places + attention.head_dim as usize);
                Cache::new(plan, attention.kv_heads as usize, attention.head_dim as usize)
            }
        });
        let caches = caches.collect();
        shape.for_each(|weight| match weight {
            Weight::Matrix(matrix) => scratch = scratch.max(matrix.columns),
            Weight::Vector(_) => {}
        });
        Self {
            batch: Batch::default(),
            buffers: Buffer::ALL.iter().map(|buffer| vec![0.0; buffer.values(shape, plan)]).collect(),
            caches,
            ropes: shape.ropes.iter().map(|rope| (Frequencies::new(rope), Angles::default())).collect(),
            scratch: vec![0.0; scratch * pool.threads()],
            pool,
            hidden: shape.hidden as usize,
        }
    }

    /// Takes the batch that the next operations work on.
    pub fn begin(&mut self, batch: &Batch) {
        self.batch.clone_from(batch);
        for (frequencies, angles) in &mut self.ropes {
            frequencies.turn(batch, angles);
        }
    }

    /// The values of a buffer.
    pub fn buffer(&self, buffer: Buffer) -> &[f32] {
        &self.buffers[buffer as usize]
    }

    /// The values of a buffer, to be set.
    pub fn buffer_mut(&mut self, buffer: Buffer) -> &mut [f32] {
        &mut self.buffers[buffer as usize]
    }

    /// The worker threads.
    pub(crate) fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Threads that share the work.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    fn rows(&self, buffer: Buffer) -> usize {
        match buffer.extent() {
            Extent::Tokens => self.batch.tokens.len(),
            Extent::Outputs => self.batch.outputs.len(),
        }
    }

    /// One buffer to read and another to write.
    fn pair(&mut self, from: Buffer, to: Buffer) -> (&[f32], &mut [f32]) {
        let [from, to] = self.buffers.get_disjoint_mut([from as usize, to as usize]).expect("two different buffers");
        (from, to)
    }
}

impl Ops for Cpu {
    type Weight = Weight;

    fn embed(&mut self, embed: &Embed<Weight>) {
        let table = embed.table.matrix();
        let rows = self.buffers[Buffer::Stream as usize].chunks_exact_mut(table.columns);
        for (row, &token) in rows.zip(&self.batch.tokens) {
            table.quant.dequantise(table.row(token as usize), row);
            row.iter_mut().for_each(|value| *value *= embed.scale);
        }
    }

    fn norm(&mut self, norm: &Norm<Weight>, groups: usize, from: Buffer, to: Buffer) {
        let width = norm.width as usize;
        let values = self.rows(from) * groups * width;
        if from != to {
            let (from, to) = self.pair(from, to);
            to[..values].copy_from_slice(&from[..values]);
        }
        let bias = norm.bias.as_ref().map(Weight::vector);
        for group in self.buffer_mut(to)[..values].chunks_exact_mut(width) {
            formula::norm(norm.kind, norm.epsilon, norm.weight.vector(), bias, group);
        }
    }

    fn linear(&mut self, linear: &Linear<Weight>, from: Buffer, to: Buffer) {
        let tokens = self.rows(from);
        let bias = linear.bias.as_ref().map(Weight::vector);
        let [x, out] = self.buffers.get_disjoint_mut([from as usize, to as usize]).expect("two different buffers");
        matmul::linear(&mut self.pool, linear.weight.matrix(), bias, x, tokens, &mut self.scratch, out);
    }

    fn rope(&mut self, rope: usize, heads: usize, head_dim: usize, buffer: Buffer) {
        let (frequencies, angles) = &self.ropes[rope];
        let tokens = self.buffers[buffer as usize].chunks_exact_mut(heads * head_dim);
        for (token, turns) in tokens.zip(angles.turns.chunks_exact(frequencies.pairs())) {
            token.chunks_exact_mut(head_dim).for_each(|head| frequencies.apply(turns, head));
        }
    }

    fn store(&mut self, block: usize, attention: &Attention<Weight>) {
        let head_dim = attention.head_dim as usize;
        let width = attention.kv_heads as usize * head_dim;
        let cache = &mut self.caches[block];
        for sequence in &self.batch.sequences {
            let pages = &self.batch.pages[sequence.pages.clone()];
            for (token, position) in sequence.tokens.clone().zip(sequence.positions()) {
                for kv_head in 0..attention.kv_heads as usize {
                    let from = token * width + kv_head * head_dim..token * width + (kv_head + 1) * head_dim;
                    let at = cache.at(pages, position as usize, kv_head);
                    cache.keys.write(at, &self.buffers[Buffer::Key as usize][from.clone()]);
                    cache.values.write(at, &self.buffers[Buffer::Value as usize][from]);
                }
            }
        }
    }

    fn attend(&mut self, block: usize, attention: &Attention<Weight>) {
        let [query, mixed] = self
            .buffers
            .get_disjoint_mut([Buffer::Query as usize, Buffer::Mixed as usize])
            .expect("two different buffers");
        let cache = &self.caches[block];
        attend::attend(&mut self.pool, attention, &self.batch, cache, query, &mut self.scratch, mixed);
    }

    fn activate(&mut self, activation: Activation, gated: bool, width: usize) {
        let values = self.batch.tokens.len() * width;
        let (up, gate) = self.pair(Buffer::Up, Buffer::Gate);
        for (gate, &up) in gate[..values].iter_mut().zip(up) {
            *gate = if gated { formula::activate(activation, *gate) * up } else { formula::activate(activation, up) };
        }
    }

    fn add(&mut self, from: Buffer, scale: f32) {
        let values = self.rows(from) * self.hidden;
        let (from, stream) = self.pair(from, Buffer::Stream);
        stream[..values].iter_mut().zip(from).for_each(|(stream, value)| *stream += scale * value);
    }

    fn gather(&mut self) {
        let hidden = self.hidden;
        let [stream, last] = self
            .buffers
            .get_disjoint_mut([Buffer::Stream as usize, Buffer::Last as usize])
            .expect("two different buffers");
        for (row, &index) in last.chunks_exact_mut(hidden).zip(&self.batch.outputs) {
            row.copy_from_slice(&stream[index as usize * hidden..][..hidden]);
        }
    }

    fn scale_logits(&mut self, scale: f32, soft_cap: Option<f32>) {
        for value in self.buffer_mut(Buffer::Logits) {
            *value *= scale;
            if let Some(cap) = soft_cap {
                *value = formula::soft_cap(*value, cap);
            }
        }
    }
}
