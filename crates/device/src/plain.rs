//! The reference device: the formulas over plain vectors, one token after the other, on one thread.
//!
//! It is what the conformance suite compares every device with, and what its test devices compute with. It stores keys and
//! values as the plan says by rounding them, and has no other notion of speed or memory.

use kauri_arch::{
    Activation, Attention, Block, Convolution, Embed, GatedDelta, Latent, Linear, Mixer, Moe, Norm, Selective, Shape,
    State, StateSpace, TimeMix,
};

use crate::batch::{Batch, CacheType, Plan};
use crate::buffers::{Buffer, Extent};
use crate::executor::DeviceError;
use crate::formula;
use crate::memory::{self, Memory, Run};
use crate::ops::{Ops, Part, Share, Side};
use crate::recurrence::{self, Delta, Replace, Scan, Select, pace, softplus, unit};
use crate::rope::{Angles, Frequencies};
use crate::weight::Weight;

/// The reference device, holding one batch.
pub struct Plain {
    plan: Plan,
    batch: Batch,
    buffers: Vec<Vec<f32>>,
    /// Keys and values of each block: (pages, `page_tokens`, `kv_heads`, `head_dim`); or rows and nothing.
    cache: Vec<[Vec<f32>; 2]>,
    /// The states of each block: of convolutions (slots, channels, taps - 1) or shifts (slots, hidden), of recurrences (slots, values),
    /// of shifts of feed-forward networks (slots, hidden).
    states: Vec<[Vec<f32>; 3]>,
    ropes: Vec<(Frequencies, Angles)>,
}

impl Plain {
    /// A device sized for `shape` and `plan`. Every activation starts as not-a-number, so that reading what was never
    /// written shows.
    pub fn new(shape: &Shape<Weight>, plan: Plan) -> Self {
        let places = plan.pages as usize * plan.page_tokens as usize;
        let cache = shape.blocks.iter().map(|block| {
            let values = block.mixer().map_or(0, Mixer::cached_values_per_token) as usize * places;
            let latent = block.mixer().and_then(Mixer::latent);
            let halves = if latent.is_some() { [values, 0] } else { [values / 2; 2] };
            halves.map(|values| vec![f32::NAN; values])
        });
        let states = shape.blocks.iter().map(|block| {
            let State { tail, recurrent, shifted } = Block::state(block);
            [tail, recurrent, shifted].map(|values| vec![f32::NAN; values as usize * plan.slots as usize])
        });
        Self {
            plan,
            batch: Batch::default(),
            buffers: Buffer::ALL.iter().map(|buffer| vec![f32::NAN; buffer.values(shape, &plan)]).collect(),
            cache: cache.collect(),
            states: states.collect(),
            ropes: shape.ropes.iter().map(|rope| (Frequencies::new(rope), Angles::default())).collect(),
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

    fn rows(&self, buffer: Buffer) -> usize {
        match buffer.extent() {
            Extent::Tokens => self.batch.tokens.len(),
            Extent::Outputs => self.batch.outputs.len(),
        }
    }

    fn walk_page(&mut self, page: u32, run: &mut dyn FnMut(Run<'_>)) {
        assert!(page < self.plan.pages, "page {page} of {}", self.plan.pages);
        for values in self.cache.iter_mut().flatten() {
            let each = values.len() / self.plan.pages as usize;
            run(Run::Floats(&mut values[page as usize * each..][..each]));
        }
    }

    fn walk_state(&mut self, slot: u32, run: &mut dyn FnMut(Run<'_>)) {
        assert!(slot < self.plan.slots, "slot {slot} of {}", self.plan.slots);
        for values in self.states.iter_mut().flatten() {
            let each = values.len() / self.plan.slots as usize;
            run(Run::Floats(&mut values[slot as usize * each..][..each]));
        }
    }

    /// Adds to the products of a matrix what the adapters of each row's sequence do.
    fn adapt(&mut self, linear: &Linear<Weight>, from: Buffer, to: Buffer) {
        if !linear.weight.is_adapted() {
            return;
        }
        let (rows, columns) = (linear.rows as usize, linear.columns as usize);
        for index in 0..self.rows(from) {
            let token = match from.extent() {
                Extent::Tokens => index,
                Extent::Outputs => self.batch.outputs[index] as usize,
            };
            let sequence = self.batch.sequences.iter().find(|sequence| sequence.tokens.contains(&token));
            let applied = self.batch.adapters_of(sequence.expect("a token is a sequence's"));
            let [from, to] =
                self.buffers.get_disjoint_mut([from as usize, to as usize]).expect("two different buffers");
            let (x, y) = (&from[index * columns..][..columns], &mut to[index * rows..][..rows]);
            for one in applied {
                if let Some(part) = linear.weight.low_rank(one.adapter) {
                    formula::add_low_rank(part, x, one.scale, y);
                }
            }
        }
    }

    /// Width of the residual stream.
    fn hidden(&self) -> usize {
        self.buffers[Buffer::Stream as usize].len() / self.plan.batch_tokens as usize
    }

    /// Where position `position` of the sequence with this page table lies in a cache.
    fn place(&self, pages: &[u32], position: u32) -> usize {
        let page = pages[(position / self.plan.page_tokens) as usize];
        (page * self.plan.page_tokens + position % self.plan.page_tokens) as usize
    }
}

impl Memory for Plain {
    fn page_bytes(&self) -> usize {
        let values: usize = self.cache.iter().flatten().map(Vec::len).sum();
        size_of::<f32>() * values / self.plan.pages as usize
    }

    fn state_bytes(&self) -> usize {
        let values: usize = self.states.iter().flatten().map(Vec::len).sum();
        size_of::<f32>() * values / self.plan.slots as usize
    }

    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        memory::copy_out("a page", self.page_bytes(), &mut |run| self.walk_page(page, run), to)
    }

    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError> {
        memory::copy_in("a page", self.page_bytes(), &mut |run| self.walk_page(page, run), from)
    }

    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        memory::copy_out("a state", self.state_bytes(), &mut |run| self.walk_state(slot, run), to)
    }

    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError> {
        memory::copy_in("a state", self.state_bytes(), &mut |run| self.walk_state(slot, run), from)
    }

    fn arithmetic(&self) -> String {
        "reference".to_owned()
    }
}

impl Ops for Plain {
    type Weight = Weight;

    fn embed(&mut self, embed: &Embed<Weight>) {
        let table = embed.table.matrix();
        let mut added = vec![0.0; table.columns];
        for sequence in &self.batch.sequences {
            for (index, position) in sequence.tokens.clone().zip(sequence.positions()) {
                let row = &mut self.buffers[Buffer::Stream as usize][index * table.columns..][..table.columns];
                table.dequantise(self.batch.tokens[index] as usize, row);
                row.iter_mut().for_each(|value| *value *= embed.scale);
                for (table, of_row) in formula::added(embed, position, sequence.second_start).into_iter().flatten() {
                    table.dequantise(of_row, &mut added);
                    row.iter_mut().zip(&added).for_each(|(value, added)| *value += added);
                }
            }
        }
    }

    fn norm(&mut self, norm: &Norm<Weight>, groups: usize, from: Buffer, to: Buffer) {
        let width = norm.width as usize;
        for group in 0..self.rows(from) * groups {
            let mut x = self.buffer(from)[group * width..][..width].to_vec();
            let part = |weight: &Weight| {
                let weight = weight.vector();
                weight[group * width % weight.len()..][..width].to_vec()
            };
            let bias = norm.bias.as_ref().map(part);
            formula::norm(norm.kind, norm.epsilon, &part(&norm.weight), bias.as_deref(), &mut x);
            self.buffer_mut(to)[group * width..][..width].copy_from_slice(&x);
        }
    }

    fn linear(&mut self, linear: &Linear<Weight>, from: Buffer, to: Buffer) {
        let matrix = linear.weight.matrix();
        let mut weights = vec![0.0; matrix.columns];
        for row in 0..matrix.rows {
            matrix.dequantise(row, &mut weights);
            let bias = linear.bias.as_ref().map_or(0.0, |bias| bias.vector()[row]);
            for index in 0..self.rows(from) {
                let y = formula::dot(&weights, &self.buffer(from)[index * matrix.columns..][..matrix.columns]) + bias;
                self.buffer_mut(to)[index * matrix.rows + row] = y;
            }
        }
        self.adapt(linear, from, to);
    }

    fn rope(&mut self, rope: usize, heads: usize, head_dim: usize, buffer: Buffer) {
        let (frequencies, angles) = &self.ropes[rope];
        for index in 0..self.batch.tokens.len() {
            let turns = &angles.turns[index * frequencies.pairs()..][..frequencies.pairs()];
            for head in 0..heads {
                let start = (index * heads + head) * head_dim;
                frequencies.apply(turns, &mut self.buffers[buffer as usize][start..start + head_dim]);
            }
        }
    }

    fn store(&mut self, block: usize, attention: &Attention<Weight>) {
        let width = (attention.kv_heads * attention.head_dim) as usize;
        for sequence in &self.batch.sequences {
            for (index, position) in sequence.tokens.clone().zip(sequence.positions()) {
                let place = self.place(&self.batch.pages[sequence.pages.clone()], position);
                for (half, buffer) in [Buffer::Key, Buffer::Value].into_iter().enumerate() {
                    let from = &self.buffers[buffer as usize][index * width..][..width];
                    let to = &mut self.cache[block][half][place * width..][..width];
                    let heads = from.chunks_exact(attention.head_dim as usize);
                    for (from, to) in heads.zip(to.chunks_exact_mut(attention.head_dim as usize)) {
                        keep(self.plan.cache, from, to);
                    }
                }
            }
        }
    }

    fn attend(&mut self, block: usize, attention: &Attention<Weight>) {
        let (heads, kv_heads) = (attention.heads as usize, attention.kv_heads as usize);
        let head_dim = attention.head_dim as usize;
        for sequence in &self.batch.sequences {
            let pages = &self.batch.pages[sequence.pages.clone()];
            for (index, position) in sequence.tokens.clone().zip(sequence.positions()) {
                let sees =
                    formula::sees(attention.window_tokens, attention.both_ways, position, sequence.positions().end);
                for head in 0..heads {
                    let at = (index * heads + head) * head_dim;
                    let q = &self.buffers[Buffer::Query as usize][at..at + head_dim];
                    let row = |seen: u32| {
                        let place = self.place(pages, seen);
                        (place * kv_heads + head / (heads / kv_heads)) * head_dim
                    };
                    let slope = attention.alibi.map(|alibi| formula::slope(alibi, attention.heads, head as u32));
                    let mut weights: Vec<f32> = sees
                        .clone()
                        .map(|seen| {
                            let k = &self.cache[block][0][row(seen)..][..head_dim];
                            let score = formula::dot(q, k) * attention.scale;
                            let score = attention.soft_cap.map_or(score, |cap| formula::soft_cap(score, cap));
                            slope.map_or(score, |slope| score - slope * seen.abs_diff(position) as f32)
                        })
                        .collect();
                    let (most, mut sum) = formula::exponentials(&mut weights);
                    if let Some(sinks) = &attention.sinks {
                        sum += (sinks.vector()[head] - most).exp();
                    }
                    let mut mixed = vec![0.0; head_dim];
                    for (seen, weight) in sees.clone().zip(&weights) {
                        let v = &self.cache[block][1][row(seen)..][..head_dim];
                        mixed.iter_mut().zip(v).for_each(|(sum, v)| *sum += weight * v);
                    }
                    let to = &mut self.buffers[Buffer::Mixed as usize][at..at + head_dim];
                    to.iter_mut().zip(&mixed).for_each(|(to, mixed)| *to = mixed / sum);
                }
            }
        }
    }

    fn fold(&mut self, latent: &Latent<Weight>) {
        let Latent { heads, rope_dims, nope_dims, .. } = *latent;
        let (rope, nope, row) = (rope_dims as usize, nope_dims as usize, latent.row() as usize);
        for index in 0..self.batch.tokens.len() {
            for head in 0..heads as usize {
                let at = index * heads as usize + head;
                let part = self.buffer(Buffer::Parts)[at * (nope + rope)..][..nope + rope].to_vec();
                let (without, with) = part.split_at(nope);
                let query = &mut self.buffers[Buffer::Query as usize][at * row..][..row];
                query[..rope].copy_from_slice(with);
                let keys = latent.keys[head].weight.matrix();
                if latent.turned {
                    formula::turned(keys, without, &mut query[rope..]);
                } else {
                    formula::product(keys, without, &mut query[rope..]);
                }
            }
            let made = self.buffer(Buffer::Value)[index * row..][..row].to_vec();
            let key = &mut self.buffers[Buffer::Key as usize][index * row..][..row];
            let (low, with) = made.split_at(row - rope);
            key[..rope].copy_from_slice(with);
            key[rope..].copy_from_slice(low);
            let norm = &latent.kv_norm;
            let bias = norm.bias.as_ref().map(Weight::vector);
            formula::norm(norm.kind, norm.epsilon, norm.weight.vector(), bias, &mut key[rope..]);
        }
    }

    fn store_rows(&mut self, block: usize, latent: &Latent<Weight>) {
        let width = latent.row() as usize;
        for sequence in &self.batch.sequences {
            for (index, position) in sequence.tokens.clone().zip(sequence.positions()) {
                let place = self.place(&self.batch.pages[sequence.pages.clone()], position);
                let from = &self.buffers[Buffer::Key as usize][index * width..][..width];
                keep(self.plan.cache.of_rows(), from, &mut self.cache[block][0][place * width..][..width]);
            }
        }
    }

    fn attend_rows(&mut self, block: usize, latent: &Latent<Weight>) {
        let (heads, width, rope) = (latent.heads as usize, latent.row() as usize, latent.rope_dims as usize);
        for sequence in &self.batch.sequences {
            let pages = &self.batch.pages[sequence.pages.clone()];
            for (index, position) in sequence.tokens.clone().zip(sequence.positions()) {
                for at in index * heads..(index + 1) * heads {
                    let q = &self.buffers[Buffer::Query as usize][at * width..][..width];
                    let row = |seen: u32| &self.cache[block][0][self.place(pages, seen) * width..][..width];
                    let mut weights: Vec<f32> =
                        (0..=position).map(|seen| formula::dot(q, row(seen)) * latent.scale).collect();
                    let (_, sum) = formula::exponentials(&mut weights);
                    let mut mixed = vec![0.0; width - rope];
                    for (seen, weight) in (0..=position).zip(&weights) {
                        mixed.iter_mut().zip(&row(seen)[rope..]).for_each(|(sum, v)| *sum += weight * v);
                    }
                    let to = &mut self.buffers[Buffer::Mixed as usize][at * (width - rope)..][..width - rope];
                    to.iter_mut().zip(&mixed).for_each(|(to, mixed)| *to = mixed / sum);
                }
            }
        }
    }

    fn unfold(&mut self, latent: &Latent<Weight>) {
        let (from, to) = (latent.latent as usize, latent.value_dims as usize);
        for at in 0..self.batch.tokens.len() * latent.heads as usize {
            let mixed = self.buffer(Buffer::Mixed)[at * from..][..from].to_vec();
            let values = latent.values[at % latent.heads as usize].weight.matrix();
            formula::product(values, &mixed, &mut self.buffer_mut(Buffer::Parts)[at * to..][..to]);
        }
    }

    fn activate(&mut self, activation: Activation, gated: bool, width: usize) {
        for index in 0..self.batch.tokens.len() * width {
            let up = self.buffers[Buffer::Up as usize][index];
            let gate = &mut self.buffers[Buffer::Gate as usize][index];
            *gate = if gated { formula::gated(activation, *gate, up) } else { formula::activate(activation, up) };
        }
    }

    fn route(&mut self, moe: &Moe<Weight>) {
        let (count, tokens) = (moe.experts.len(), self.batch.tokens.len());
        let bias = moe.selection_bias.as_ref().map(Weight::vector);
        let mut keys = vec![0.0; count];
        for scores in self.buffers[Buffer::Scores as usize][..tokens * count].chunks_exact_mut(count) {
            formula::route(moe, bias, &mut keys, scores);
        }
        let hidden = self.hidden();
        self.buffers[Buffer::Mixture as usize][..tokens * hidden].fill(0.0);
    }

    fn join(&mut self, share: Share) {
        let hidden = self.hidden();
        for index in 0..self.batch.tokens.len() {
            let scores = &self.buffers[Buffer::Scores as usize];
            let share = match share {
                Share::Expert { index: expert, count } => scores[index * count + expert],
                Share::Gate => formula::sigmoid(scores[index]),
                Share::Whole => 1.0,
            };
            if share == 0.0 {
                continue;
            }
            for at in index * hidden..(index + 1) * hidden {
                let value = self.buffers[Buffer::Branch as usize][at];
                self.buffers[Buffer::Mixture as usize][at] += share * value;
            }
        }
    }

    fn gate(&mut self, activation: Activation, gate: Buffer, values: Buffer, width: usize) {
        for index in 0..self.rows(gate) * width {
            let value = self.buffer(values)[index];
            let gate = &mut self.buffer_mut(gate)[index];
            *gate = formula::activate(activation, *gate) * value;
        }
    }

    fn scale(&mut self, buffer: Buffer, parts: &[(u32, f32)]) {
        let rows = self.rows(buffer);
        let mut values = self.buffer_mut(buffer).iter_mut();
        for &(width, factor) in std::iter::repeat_n(parts, rows).flatten() {
            values.by_ref().take(width as usize).for_each(|value| *value *= factor);
        }
    }

    fn convolve(&mut self, block: usize, convolution: &Convolution<Weight>) {
        let (channels, taps) = (convolution.channels as usize, convolution.taps as usize);
        let (weight, bias) = (convolution.weight.vector(), convolution.bias.as_ref().map(Weight::vector));
        for sequence in &self.batch.sequences {
            let tails = &mut self.states[block][0][sequence.slot as usize * channels * (taps - 1)..];
            let tails = &mut tails[..channels * (taps - 1)];
            if sequence.cached_tokens == 0 {
                tails.fill(0.0);
            }
            for index in sequence.tokens.clone() {
                for (channel, tail) in tails.chunks_exact_mut(taps - 1).enumerate() {
                    let value = &mut self.buffers[Buffer::Channels as usize][index * channels + channel];
                    let weight = &weight[channel * taps..][..taps];
                    let sum = recurrence::convolve(weight, bias.map_or(0.0, |bias| bias[channel]), tail, *value);
                    *value = formula::activate(convolution.activation, sum);
                }
            }
        }
    }

    fn deal(&mut self, groups: usize, parts: &[Part]) {
        let width: usize = parts.iter().map(|part| part.width).sum();
        for index in 0..self.batch.tokens.len() {
            let mut from = index * groups * width;
            for group in 0..groups {
                for part in parts {
                    let values = self.buffers[Buffer::Packed as usize][from..][..part.width].to_vec();
                    let to = index * part.row + part.start + group * part.width;
                    self.buffers[part.to as usize][to..][..part.width].copy_from_slice(&values);
                    from += part.width;
                }
            }
        }
    }

    fn delta(&mut self, block: usize, delta: &GatedDelta<Weight>) {
        let [keys, heads, key_dim, value_dim] =
            [delta.key_heads, delta.value_heads, delta.key_dim, delta.value_dim].map(|count| count as usize);
        let (row, width, values) = (2 * keys * key_dim + heads * value_dim, heads * value_dim, key_dim * value_dim);
        let [decay, bias] = [&delta.decay, &delta.step_bias].map(Weight::vector);
        for sequence in &self.batch.sequences {
            let states = &mut self.states[block][1][sequence.slot as usize * heads * values..][..heads * values];
            if sequence.cached_tokens == 0 {
                states.fill(0.0);
            }
            for index in sequence.tokens.clone() {
                let row = &self.buffers[Buffer::Channels as usize][index * row..][..row];
                let [steps, rates] = [Buffer::Steps, Buffer::Rates]
                    .map(|buffer| &self.buffers[buffer as usize][index * heads..][..heads]);
                let mut mixed = vec![0.0; width];
                for (head, state) in states.chunks_exact_mut(values).enumerate() {
                    let key = if delta.interleaved { head % keys } else { head / (heads / keys) };
                    let (mut q, mut k) = (vec![0.0; key_dim], vec![0.0; key_dim]);
                    unit(&row[key * key_dim..][..key_dim], delta.epsilon, 1.0 / (key_dim as f32).sqrt(), &mut q);
                    unit(&row[(keys + key) * key_dim..][..key_dim], delta.epsilon, 1.0, &mut k);
                    let step = Delta {
                        q: &q,
                        k: &k,
                        v: &row[2 * keys * key_dim + head * value_dim..][..value_dim],
                        keep: (decay[head] * softplus(steps[head] + bias[head])).exp(),
                        rate: formula::activate(Activation::Sigmoid, rates[head]),
                    };
                    step.step(state, &mut mixed[head * value_dim..][..value_dim]);
                }
                self.buffers[Buffer::Mixed as usize][index * width..][..width].copy_from_slice(&mixed);
            }
        }
    }

    fn scan(&mut self, block: usize, space: &StateSpace<Weight>) {
        let [heads, head_dim, groups, columns] =
            [space.heads, space.head_dim, space.groups, space.state].map(|count| count as usize);
        let width = heads * head_dim;
        let [decay, bias, skip] = [&space.decay, &space.step_bias, &space.skip].map(Weight::vector);
        let [least, most] = space.step_limits;
        for sequence in &self.batch.sequences {
            let states = &mut self.states[block][1][sequence.slot as usize * width * columns..][..width * columns];
            if sequence.cached_tokens == 0 {
                states.fill(0.0);
            }
            for index in sequence.tokens.clone() {
                let row = &self.buffers[Buffer::Channels as usize][index * (width + 2 * groups * columns)..];
                let steps = &self.buffers[Buffer::Steps as usize][index * heads..][..heads];
                let mut mixed = vec![0.0; width];
                for (head, state) in states.chunks_exact_mut(head_dim * columns).enumerate() {
                    let step = softplus(steps[head] + bias[head]).clamp(least, most);
                    let b = width + head / (heads / groups) * columns;
                    let scan = Scan {
                        x: &row[head * head_dim..][..head_dim],
                        b: &row[b..][..columns],
                        c: &row[b + groups * columns..][..columns],
                        keep: (step * decay[head]).exp(),
                        step,
                        skip: skip[head],
                    };
                    scan.step(state, &mut mixed[head * head_dim..][..head_dim]);
                }
                self.buffers[Buffer::Mixed as usize][index * width..][..width].copy_from_slice(&mixed);
            }
        }
    }

    fn select(&mut self, block: usize, selective: &Selective<Weight>) {
        let (width, columns) = (selective.width as usize, selective.state as usize);
        let [decay, skip] = [&selective.decay, &selective.skip].map(Weight::vector);
        for sequence in &self.batch.sequences {
            let states = &mut self.states[block][1][sequence.slot as usize * width * columns..][..width * columns];
            if sequence.cached_tokens == 0 {
                states.fill(0.0);
            }
            for index in sequence.tokens.clone() {
                let row = |buffer: Buffer, width: usize| &self.buffers[buffer as usize][index * width..][..width];
                let [x, steps] = [Buffer::Channels, Buffer::Steps].map(|buffer| row(buffer, width));
                let [b, c] = [Buffer::Key, Buffer::Query].map(|buffer| row(buffer, columns));
                let mut mixed = vec![0.0; width];
                for (channel, state) in states.chunks_exact_mut(columns).enumerate() {
                    let decay = &decay[channel * columns..][..columns];
                    let (x, step, skip) = (x[channel], softplus(steps[channel]), skip[channel]);
                    mixed[channel] = Select { x, step, decay, b, c, skip }.step(state);
                }
                self.buffers[Buffer::Mixed as usize][index * width..][..width].copy_from_slice(&mixed);
            }
        }
    }

    fn shift(&mut self, block: usize, side: Side, from: Buffer) {
        let hidden = self.hidden();
        for sequence in &self.batch.sequences {
            let states = &mut self.states[block][if side == Side::Mixer { 0 } else { 2 }];
            let before = &mut states[sequence.slot as usize * hidden..][..hidden];
            if sequence.cached_tokens == 0 {
                before.fill(0.0);
            }
            for index in sequence.tokens.clone() {
                for (channel, before) in before.iter_mut().enumerate() {
                    let value = self.buffers[from as usize][index * hidden + channel];
                    self.buffers[Buffer::Change as usize][index * hidden + channel] = *before - value;
                    *before = value;
                }
            }
        }
    }

    fn lean(&mut self, lean: &Weight, from: Buffer) {
        let lean = lean.vector();
        for index in 0..self.batch.tokens.len() * lean.len() {
            let change = self.buffer(Buffer::Change)[index];
            let value = self.buffer(from)[index];
            self.buffer_mut(Buffer::Leant)[index] = value + lean[index % lean.len()] * change;
        }
    }

    fn replace(&mut self, block: usize, mix: &TimeMix<Weight>) {
        let (width, head_dim) = (mix.width() as usize, mix.head_dim as usize);
        let [removal, insertion] = [&mix.removal, &mix.insertion].map(Weight::vector);
        for sequence in self.batch.sequences.clone() {
            for index in sequence.tokens.clone() {
                let row = |buffer: Buffer| self.buffers[buffer as usize][index * width..][..width].to_vec();
                let (r, mut k, mut v, mut keep) =
                    (row(Buffer::Query), row(Buffer::Key), row(Buffer::Value), row(Buffer::Steps));
                let (residual, first) = (row(Buffer::Mixed), row(Buffer::First));
                let (mut seen, mut back, mut mixed) = (vec![0.0; width], vec![0.0; width], vec![0.0; width]);
                for (at, rate) in row(Buffer::Rates).into_iter().map(formula::sigmoid).enumerate() {
                    keep[at] = pace(keep[at]);
                    seen[at] = k[at] * removal[at];
                    back[at] = rate;
                    k[at] *= 1.0 + (rate - 1.0) * insertion[at];
                    if mix.residual.is_some() {
                        v[at] += (first[at] - v[at]) * formula::sigmoid(residual[at]);
                    }
                }
                let states = &mut self.states[block][1][sequence.slot as usize * width * head_dim..];
                if sequence.cached_tokens == 0 && index == sequence.tokens.start {
                    states[..width * head_dim].fill(0.0);
                }
                for (head, state) in states[..width * head_dim].chunks_exact_mut(head_dim * head_dim).enumerate() {
                    let part = head * head_dim..(head + 1) * head_dim;
                    recurrence::unit_over(&mut seen[part.clone()]);
                    back[part.clone()].iter_mut().zip(&seen[part.clone()]).for_each(|(back, seen)| *back *= seen);
                    let [r, keep, seen, back, k, v] = [&r, &keep, &seen, &back, &k, &v].map(|row| &row[part.clone()]);
                    Replace { r, keep, seen, back, k, v }.step(state, &mut mixed[part]);
                }
                let first = (Buffer::First, if mix.residual.is_some() { first } else { v.clone() });
                for (buffer, values) in [(Buffer::Mixed, mixed), (Buffer::Key, k), (Buffer::Value, v), first] {
                    self.buffers[buffer as usize][index * width..][..width].copy_from_slice(&values);
                }
            }
        }
    }

    fn pass_by(&mut self, mix: &TimeMix<Weight>) {
        let (heads, head_dim, bonus) = (mix.heads as usize, mix.head_dim as usize, mix.bonus.vector());
        for group in 0..self.batch.tokens.len() * heads {
            let part = group * head_dim..(group + 1) * head_dim;
            let [r, k, v] =
                [Buffer::Query, Buffer::Key, Buffer::Value].map(|buffer| &self.buffer(buffer)[part.clone()]);
            let passes = recurrence::passes(r, k, &bonus[group % heads * head_dim..][..head_dim]);
            let v = v.to_vec();
            let mixed = &mut self.buffers[Buffer::Mixed as usize][part];
            mixed.iter_mut().zip(&v).for_each(|(mixed, v)| *mixed += passes * v);
        }
    }

    fn add(&mut self, from: Buffer, scale: f32) {
        let values = self.hidden() * self.rows(from);
        for index in 0..values {
            let value = self.buffers[from as usize][index];
            self.buffers[Buffer::Stream as usize][index] += scale * value;
        }
    }

    fn gather(&mut self) {
        let width = self.hidden();
        for (row, &index) in self.batch.outputs.iter().enumerate() {
            let values = self.buffers[Buffer::Stream as usize][index as usize * width..][..width].to_vec();
            self.buffers[Buffer::Last as usize][row * width..][..width].copy_from_slice(&values);
        }
    }

    fn scale_logits(&mut self, scale: f32, soft_cap: Option<f32>) {
        for value in &mut self.buffers[Buffer::Logits as usize] {
            *value *= scale;
            if let Some(cap) = soft_cap {
                *value = formula::soft_cap(*value, cap);
            }
        }
    }
}

/// What is left of a head's values when they were stored and are read again. A head is padded with zeros to a whole number
/// of blocks.
fn keep(cache: CacheType, from: &[f32], to: &mut [f32]) {
    let quant = cache.quant();
    let mut values = from.to_vec();
    values.resize(from.len().next_multiple_of(quant.block_len()), 0.0);
    let mut stored = Vec::new();
    quant.quantise(&values, values.len(), None, &mut stored).expect("types of caches can be written");
    quant.dequantise(&stored, &mut values);
    to.copy_from_slice(&values[..to.len()]);
}
