//! The suite that every device passes: each operation, fused and plain, on awkward sizes, against the reference device.
//!
//! A device crate's test implements [`Subject`] and calls [`conform`]. Inputs are seeded; buffers that an operation must not
//! touch, and rows past the batch, are poisoned.

mod adapters;
pub mod choices;
mod latent;
mod memory;
mod moe;
pub mod products;
mod recurrent;

use std::fmt::Debug;

use kauri_arch::{
    Activation, Attention, Block, Branch, Embed, Ffn, Head, Linear, Mixer, Norm, NormKind, Pooling, Rope, RopeScaling,
    RopeStyle, Shape, Summary, Wiring,
};
use kauri_formats::scales::TILE_COLUMNS;
use kauri_formats::{Bytes, Quant, Tiles};

use crate::batch::{Batch, CacheType, Plan};
use crate::buffers::Buffer;
use crate::forward::{Ends, forward};
use crate::memory::Memory;
use crate::ops::Ops;
use crate::plain::Plain;
use crate::weight::{Matrix, Weight};

pub use adapters::conform as conform_adapted;
pub use products::conform as conform_products;

/// A device under test.
pub trait Subject {
    /// Its operations.
    type Ops: Ops;

    /// Builds it for a shape.
    fn new(shape: &Shape<Weight>, plan: Plan) -> Self;

    /// Gives it the batch that the next operations work on.
    fn begin(&mut self, batch: &Batch);

    /// Its operations and its resident shape.
    fn parts(&mut self) -> (&mut Self::Ops, &Shape<<Self::Ops as Ops>::Weight>);

    /// Sets the first values of a buffer.
    fn write(&mut self, buffer: Buffer, values: &[f32]);

    /// The first `count` values of a buffer, when all work is done.
    fn read(&mut self, buffer: Buffer, count: usize) -> Vec<f32>;

    /// Its pages and states as bytes.
    fn memory(&mut self) -> &mut dyn Memory;
}

/// What a device may differ by from the reference: `absolute + relative * |expected|`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// In units of the value, where inputs are of size one.
    pub absolute: f32,
    /// Share of the expected value.
    pub relative: f32,
    /// As `absolute`, added where keys and values are kept in half precision: one near the middle of two halves may be rounded to
    /// either, by the last bit of what was computed.
    pub half_cache: f32,
}

/// The longest sequence of any case.
const CONTEXT_TOKENS: u32 = 64;

/// Numbers of rows and columns that are a multiple of nothing, or just past a multiple of everything.
const SIZES: [u32; 6] = [1, 2, 31, 33, 255, 257];

/// Runs the suite; `quants` are the types that the device holds kernels for.
///
/// # Panics
/// At the first value out of tolerance, with the case, the operation and the place.
pub fn conform<S: Subject>(quants: &[Quant], tolerance: Tolerance) {
    conform_every::<S>(1, quants, tolerance);
}

/// The same with every so many of the models: where a device that was held to all of them does one thing in another way, and is slow.
///
/// # Panics
/// As [`conform`].
pub fn conform_every<S: Subject>(each: usize, quants: &[Quant], tolerance: Tolerance) {
    for (number, case) in cases(quants).into_iter().enumerate().step_by(each) {
        let shape = case.shape(number as u64 + 1);
        memory::conform::<S>(&shape, case.plan(), &case);
        for batch in batches(shape.vocab, case.plan()) {
            let mut check = Check::<S>::new(&case, &shape, tolerance);
            check.operations(&shape, &batch);
            // A choice may flip by the last bit of what came before it: with weights that round, the pass is another one.
            if case.experts.is_none() || tolerance.absolute == 0.0 {
                check.forward(&shape, &batch);
            }
        }
    }
    recurrent::conform::<S>(tolerance);
}

/// One small model, chosen to be awkward.
#[derive(Clone, Debug)]
struct Case {
    quant: Quant,
    hidden: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    ffn: u32,
    vocab: u32,
    cache: CacheType,
    norm: NormKind,
    activation: Activation,
    style: RopeStyle,
    window_tokens: Option<u32>,
    soft_cap: Option<f32>,
    alibi: Option<f32>,
    gated: bool,
    biased: bool,
    head_norm: bool,
    wiring: Wiring,
    /// The size of attention's sinks.
    sinks: Option<f32>,
    experts: Option<moe::Experts>,
    latents: Option<latent::Latents>,
}

/// What a case has unless it is about something else.
fn usual() -> Case {
    Case {
        quant: Quant::F32,
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        ffn: 96,
        vocab: 33,
        cache: CacheType::F16,
        norm: NormKind::Rms,
        activation: Activation::Silu,
        style: RopeStyle::Halves,
        window_tokens: None,
        soft_cap: None,
        alibi: None,
        gated: true,
        biased: false,
        head_norm: true,
        wiring: Wiring::Sequential,
        sinks: None,
        experts: None,
        latents: None,
    }
}

fn cases(quants: &[Quant]) -> Vec<Case> {
    let usual = usual();
    let mut cases = Vec::new();
    for &quant in quants {
        let (hidden, ffn, head_dim) = if is_long(quant) { (256, 512, 64) } else { (64, 96, 32) };
        cases.push(Case { quant, hidden, head_dim, ffn, ..usual.clone() });
    }
    let wide = Case {
        hidden: 48,
        heads: 1,
        kv_heads: 1,
        head_dim: 24,
        ffn: 31,
        vocab: 257,
        head_norm: false,
        ..usual.clone()
    };
    cases.push(Case { cache: CacheType::F32, norm: NormKind::Layer, biased: true, ..wide.clone() });
    cases.push(Case { activation: Activation::GeluTanh, style: RopeStyle::Pairs, soft_cap: Some(2.0), ..wide.clone() });
    cases.push(Case { activation: Activation::Gelu, window_tokens: Some(3), gated: false, ..wide.clone() });
    cases.push(Case { activation: Activation::ReluSquared, wiring: Wiring::Parallel, biased: true, ..wide.clone() });
    let encoder =
        Case { norm: NormKind::Layer, wiring: Wiring::NormedSums, biased: true, head_norm: true, ..usual.clone() };
    cases.push(Case { window_tokens: Some(4), ..encoder.clone() });
    cases.push(Case { gated: false, head_norm: false, heads: 3, kv_heads: 3, head_dim: 16, ..encoder });
    cases.push(Case { heads: 6, kv_heads: 2, head_dim: 16, window_tokens: Some(1), vocab: 1, ..usual.clone() });
    cases.push(Case {
        heads: 8,
        kv_heads: 1,
        head_dim: 128,
        hidden: 256,
        soft_cap: Some(5.0),
        vocab: 255,
        ..usual.clone()
    });
    cases.extend(sizes(quants, &usual));
    cases.extend(caches(&usual));
    cases.extend(moe::cases(quants, &usual));
    cases.extend(latent::cases(quants, &usual));
    // Queries, keys and values of whole tiles of 128 rows, which a device may compute as one matrix. Last, as a case's numbers come from its place.
    let floats = quants.iter().filter(|quant| quant.block_len() == 1);
    cases.extend(floats.map(|&quant| Case { quant, kv_heads: 4, ..usual.clone() }));
    cases.extend(leaning(&usual));
    cases
}

/// Linear biases on scores, with every way of keeping keys: of heads that are a power of two and that are none, of groups, windows, caps and
/// texts that are read both ways.
fn leaning(usual: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    for cache in [CacheType::F32, CacheType::F16, CacheType::Q8_0, CacheType::Q4_0] {
        let case = Case { cache, alibi: Some(8.0), head_norm: false, ..usual.clone() };
        cases.push(case.clone());
        cases.push(Case { heads: 6, kv_heads: 3, alibi: Some(2.0), window_tokens: Some(5), ..case.clone() });
        cases.push(Case { heads: 1, kv_heads: 1, head_dim: 64, soft_cap: Some(2.0), ..case.clone() });
        cases.push(Case { wiring: Wiring::NormedSums, heads: 12, kv_heads: 12, head_dim: 24, biased: true, ..case });
    }
    cases
}

/// Every way of keeping keys and values, with heads, groups, windows and caps that suit none of them.
fn caches(usual: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    for cache in [CacheType::F32, CacheType::F16, CacheType::Q8_0, CacheType::Q4_0] {
        let case = |[heads, kv_heads, head_dim]: [u32; 3]| Case { heads, kv_heads, head_dim, cache, ..usual.clone() };
        cases.push(case([4, 2, 64]));
        cases.push(Case { window_tokens: Some(17), sinks: Some(3.0), ..case([1, 1, 80]) });
        cases.push(Case { soft_cap: Some(1.5), ..case([3, 1, 96]) });
        cases.push(Case { window_tokens: Some(5), soft_cap: Some(3.0), ..case([8, 1, 128]) });
        cases.push(case([2, 2, 256]));
        cases.push(Case { head_norm: false, sinks: Some(2.0), ..case([6, 3, 24]) });
    }
    cases
}

/// Every type with every awkward number of rows; of columns too, where a row need not be whole blocks; every activation and
/// every norm on every awkward width.
fn sizes(quants: &[Quant], usual: &Case) -> Vec<Case> {
    let usual = Case { heads: 3, kv_heads: 1, head_dim: 8, head_norm: false, ..usual.clone() };
    let norms = [NormKind::Rms, NormKind::Layer];
    let cut = Activation::SiluCut { limit: 0.75, steepness: 1.7 };
    let activations = [Activation::Silu, Activation::GeluTanh, Activation::Gelu, Activation::ReluSquared, cut];
    let mut cases = Vec::new();
    for (index, &size) in SIZES.iter().enumerate() {
        let other = |step: usize| SIZES[(index + step) % SIZES.len()];
        for &quant in quants {
            if quant.block_len() > 1 {
                // One block, or three: an odd number of them.
                let hidden = quant.block_len() as u32 * if index % 2 == 0 { 1 } else { 3 };
                cases.push(Case { quant, hidden, ffn: size, vocab: other(1), biased: true, ..usual.clone() });
                continue;
            }
            for (step, norm) in norms.into_iter().enumerate() {
                let (ffn, vocab, biased) = (other(step), other(2 + step), step == 0);
                cases.push(Case {
                    quant,
                    hidden: size,
                    ffn,
                    vocab,
                    norm,
                    biased,
                    cache: CacheType::F32,
                    ..usual.clone()
                });
            }
        }
        for activation in activations {
            cases.push(Case { hidden: 2, ffn: size, vocab: 2, activation, gated: index % 2 == 0, ..usual.clone() });
        }
    }
    cases
}

/// Batches of no token, of one, of as many as fit, ragged, with and without outputs; pages out of order.
fn batches(vocab: u32, plan: Plan) -> Vec<Batch> {
    let tokens = |seed: u64, count: usize| -> Vec<u32> {
        let mut random = Random(seed);
        (0..count).map(|_| random.next_u32() % vocab).collect()
    };
    let all: Vec<u32> = (0..plan.pages).rev().collect();
    let mut single = Batch::default();
    single.push(&tokens(1, 1), 0, &all[..1], 3, 64, 1);
    let mut silent = Batch::default();
    silent.push(&tokens(2, 3), 0, &all[1..2], 1, 64, 0);
    let mut ragged = Batch::default();
    ragged.push(&tokens(3, 17), 0, &all[..2], 2, 64, 2);
    ragged.pair(5);
    ragged.push(&tokens(4, 1), 0, &all[2..3], 0, 64, 1);
    ragged.push(&tokens(5, 9), 0, &all[3..4], 3, 64, 9);
    let mut full = Batch::default();
    full.push(&tokens(6, plan.batch_tokens as usize), 0, &all[..3], 0, 64, plan.batch_outputs as usize);
    vec![Batch::default(), single, silent, ragged, full]
}

impl Case {
    fn plan(&self) -> Plan {
        Plan {
            page_tokens: 16,
            pages: 12,
            batch_tokens: 33,
            batch_outputs: 13,
            slots: 4,
            cache: self.cache,
            ring: None,
        }
    }

    /// A model of two blocks with seeded weights.
    fn shape(&self, seed: u64) -> Shape<Weight> {
        let mut random = Random(seed * 7919);
        let hidden = self.hidden;
        let blocks = (0..2).map(|_| Block {
            mixer: Some(Branch {
                norm: Some(self.norm_of(&mut random, hidden)),
                op: match self.latents {
                    None => Mixer::Attention(self.attention(&mut random)),
                    Some(latents) => Mixer::Latent(self.latent(&mut random, latents)),
                },
                post_norm: self.head_norm.then(|| self.norm_of(&mut random, hidden)),
                scale: 0.5,
            }),
            ffn: Some(Branch {
                norm: (!self.head_norm || self.gated).then(|| self.norm_of(&mut random, hidden)),
                op: match &self.experts {
                    None => self.dense(&mut random, self.ffn).into(),
                    Some(experts) => self.moe(&mut random, experts).into(),
                },
                post_norm: (self.head_norm && self.experts.is_some()).then(|| self.norm_of(&mut random, hidden)),
                scale: 1.0,
            }),
            wiring: self.wiring,
        });
        let blocks = blocks.collect();
        Shape {
            family: "conformance",
            hidden,
            vocab: self.vocab,
            context_tokens: CONTEXT_TOKENS,
            embed: self.embed(&mut random),
            ropes: vec![Rope {
                style: self.style,
                dims: self.latents.map_or(self.head_dim / 4 * 2, |latents| latents.rope_dims),
                base: 100.0,
                scaling: RopeScaling::None,
            }],
            blocks,
            norm: self.norm_of(&mut random, hidden),
            head: Head {
                output: Some(self.linear(&mut random, self.vocab, hidden)),
                scale: 0.25,
                soft_cap: self.soft_cap,
            },
            summary: Summary::pooled(Pooling::Last),
            left_out: Vec::new(),
        }
    }

    /// That of an encoder, where sums are normalised, has all there is to have.
    fn embed(&self, random: &mut Random) -> Embed<Weight> {
        let (encodes, hidden) = (self.wiring == Wiring::NormedSums, self.hidden);
        Embed {
            table: matrix(random, self.quant_for(hidden), self.vocab, hidden),
            scale: 3.0,
            places: encodes.then(|| matrix(random, self.quant_for(hidden), CONTEXT_TOKENS, hidden)),
            kinds: encodes.then(|| matrix(random, Quant::F16, 2, hidden)),
            norm: encodes.then(|| self.norm_of(random, hidden)),
        }
    }

    fn attention(&self, random: &mut Random) -> Attention<Weight> {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        Attention {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            gated: false,
            q: self.linear(random, q, self.hidden),
            k: self.linear(random, kv, self.hidden),
            v: self.linear(random, kv, self.hidden),
            output: self.linear(random, self.hidden, q),
            q_norm: self.head_norm.then(|| self.norm_of(random, self.head_dim)),
            k_norm: self.head_norm.then(|| self.norm_of(random, kv)),
            rope: Some(0),
            window_tokens: self.window_tokens,
            both_ways: self.wiring == Wiring::NormedSums,
            soft_cap: self.soft_cap,
            scale: 0.2,
            alibi: self.alibi,
            sinks: self.sinks.map(|size| Weight::Vector(random.values(self.heads as usize, size))),
        }
    }

    fn linear(&self, random: &mut Random, rows: u32, columns: u32) -> Linear<Weight> {
        let weight = matrix(random, self.quant_for(columns), rows, columns);
        let bias = self.biased.then(|| Weight::Vector(random.values(rows as usize, 0.5)));
        Linear { rows, columns, weight, bias }
    }

    fn norm_of(&self, random: &mut Random, width: u32) -> Norm<Weight> {
        let weight = Weight::Vector(random.values(width as usize, 1.0));
        let bias = self.biased.then(|| Weight::Vector(random.values(width as usize, 0.5)));
        Norm { kind: self.norm, width, epsilon: 1e-5, weight, bias }
    }

    /// The case's type where a row is a whole number of its blocks, else F32.
    fn quant_for(&self, columns: u32) -> Quant {
        if (columns as usize).is_multiple_of(self.quant.block_len()) { self.quant } else { Quant::F32 }
    }
}

fn matrix(random: &mut Random, quant: Quant, rows: u32, columns: u32) -> Weight {
    let (rows, columns) = (rows as usize, columns as usize);
    let size = 1.7 / (columns as f32).sqrt();
    if quant == Quant::F8_E4M3 {
        return Weight::Matrix(tiled(random, [rows, columns], size));
    }
    if !quant.can_quantise() {
        return Weight::Matrix(products::drawn(random, quant, [rows, columns], size));
    }
    let values = random.values(rows * columns, size);
    let mut data = Vec::new();
    quant.quantise(&values, columns, None, &mut data).expect("whole blocks");
    let scales = (quant == Quant::NVFP4).then(|| Tiles::whole(0.75));
    Weight::Matrix(Matrix { quant, rows, columns, data: Bytes::from(data), scales })
}

/// Whether rows are of some hundred values: of long blocks, or of codes with factors for tiles.
fn is_long(quant: Quant) -> bool {
    quant.block_len() > 64 || quant == Quant::F8_E4M3
}

/// Any codes, with factors for tiles of a few rows, for rows, or for all; or small codes without.
fn tiled(random: &mut Random, [rows, columns]: [usize; 2], size: f32) -> Matrix {
    let kind = (rows + columns) % 5;
    let codes = (0..rows * columns).map(|_| match random.next_u32() as u8 {
        code if kind == 3 => code & 0x9f,
        // The two that are no numbers are read as their bits would be: where there is a factor for each tile of 128.
        code if kind != 4 && code & 0x7f == 0x7f => code - 1,
        code => code,
    });
    let codes: Vec<u8> = codes.collect();
    let across = columns.div_ceil(TILE_COLUMNS);
    let mut factors = |tile: [usize; 2], across: usize| {
        let factors: Vec<f32> = random.values(rows.div_ceil(tile[0]) * across, size / 300.0);
        Tiles::new(factors.into(), tile, across)
    };
    // A few rows, so that a vector of them lies in several tiles.
    let scales = match kind {
        0 => Some(factors([1, columns], 1)),
        1 => Some(factors([rows, columns], 1)),
        2 => Some(factors([7, TILE_COLUMNS], across)),
        3 => None,
        _ => Some(factors([128, TILE_COLUMNS], across)),
    };
    Matrix { quant: Quant::F8_E4M3, rows, columns, data: Bytes::from(codes), scales }
}

/// One subject beside the reference.
struct Check<'a, S> {
    case: &'a Case,
    tolerance: Tolerance,
    subject: S,
    plain: Plain,
}

impl<'a, S: Subject> Check<'a, S> {
    fn new(case: &'a Case, shape: &Shape<Weight>, mut tolerance: Tolerance) -> Self {
        match case.cache {
            CacheType::F16 => tolerance.absolute += tolerance.half_cache,
            CacheType::F32 | CacheType::Q8_0 | CacheType::Q4_0 => {}
        }
        Self { case, tolerance, subject: S::new(shape, case.plan()), plain: Plain::new(shape, case.plan()) }
    }

    /// Every fused operation of the second block on the same random inputs, then the whole pass.
    fn operations(&mut self, shape: &Shape<Weight>, batch: &Batch) {
        let (tokens, hidden) = (batch.tokens.len(), shape.hidden as usize);
        let [query, mixed, given] = self.case.widths();
        self.subject.begin(batch);
        self.plain.begin(batch);
        let mut random = Random(99);

        self.both(shape, Step::Embed);
        self.same("embed", Buffer::Stream, tokens * hidden);
        self.fill(&mut random, Buffer::Stream, tokens * hidden);
        self.both(shape, Step::Qkv);
        self.same("qkv", Buffer::Query, tokens * query);
        self.both(shape, Step::Attend);
        self.same_from_cache("attend", Buffer::Mixed, tokens * mixed);
        self.fill(&mut random, Buffer::Mixed, tokens * mixed);
        if self.case.latents.is_some() {
            self.both(shape, Step::Unfold);
            self.same("unfold", Buffer::Parts, tokens * given);
            self.fill(&mut random, Buffer::Parts, tokens * given);
        }
        self.both(shape, Step::Output);
        self.same("attention output", Buffer::Stream, tokens * hidden);
        self.fill(&mut random, Buffer::Stream, tokens * hidden);
        self.both(shape, Step::Widen);
        let (step, buffer, width) = match &self.case.experts {
            None => ("gate and up", Buffer::Gate, self.case.ffn as usize),
            Some(_) => ("experts", Buffer::Mixture, hidden),
        };
        self.same(step, buffer, tokens * width);
        self.fill(&mut random, buffer, tokens * width);
        self.both(shape, Step::Down);
        self.same("down", Buffer::Stream, tokens * hidden);
        self.fill(&mut random, Buffer::Stream, tokens * hidden);
        self.both(shape, Step::Head);
        self.same("head", Buffer::Logits, batch.outputs.len() * shape.vocab as usize);
    }

    /// The whole pass, twice: the second continues the sequences of the first.
    fn forward(&mut self, shape: &Shape<Weight>, batch: &Batch) {
        let mut batch = batch.clone();
        for _ in 0..2 {
            self.subject.begin(&batch);
            self.plain.begin(&batch);
            forward(&mut self.plain, shape, Ends::BOTH);
            let (ops, resident) = self.subject.parts();
            forward(ops, resident, Ends::BOTH);
            self.same_from_cache("forward", Buffer::Logits, batch.outputs.len() * shape.vocab as usize);
            batch = continued(&batch);
        }
    }

    fn both(&mut self, shape: &Shape<Weight>, step: Step) {
        step.run(&mut self.plain, shape);
        let (ops, resident) = self.subject.parts();
        step.run(ops, resident);
    }

    fn fill(&mut self, random: &mut Random, buffer: Buffer, count: usize) {
        let values = random.values(count, 1.0);
        self.plain.buffer_mut(buffer)[..count].copy_from_slice(&values);
        self.subject.write(buffer, &values);
    }

    fn same(&mut self, step: &str, buffer: Buffer, count: usize) {
        self.within(self.tolerance, step, buffer, count);
    }

    /// What came through the cache. A key or value between two that can be stored may become either, and on a device that
    /// is not exact it does: a step of half precision, for values of size one. Where values are rounded to bytes, which
    /// neighbours share a scale is a device's own affair, and so is a step of it: of values up to four, a 127th or an
    /// eighth. (A device's own tests hold it to what its cache gives back.)
    fn same_from_cache(&mut self, step: &str, buffer: Buffer, count: usize) {
        let mut tolerance = self.tolerance;
        let exact = tolerance.absolute == 0.0;
        tolerance.absolute += match self.case.cache {
            CacheType::F32 => 0.0,
            CacheType::F16 if exact => 0.0,
            CacheType::F16 => 1e-3,
            CacheType::Q8_0 => 0.05,
            CacheType::Q4_0 => 0.5,
        };
        self.within(tolerance, step, buffer, count);
    }

    fn within(&mut self, tolerance: Tolerance, step: &str, buffer: Buffer, count: usize) {
        let found = self.subject.read(buffer, count);
        assert_within(tolerance, step, buffer, &found, &self.plain.buffer(buffer)[..count], self.case);
    }
}

/// Asserts that `found` differs from `expected` by no more than is allowed.
fn assert_within(tolerance: Tolerance, step: &str, buffer: Buffer, found: &[f32], expected: &[f32], case: &impl Debug) {
    assert_eq!(found.len(), expected.len(), "{step}: {buffer:?}");
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let allowed = tolerance.absolute + tolerance.relative * expected.abs();
        // Not-a-number fails this comparison, as it should.
        let within = (found - expected).abs() <= allowed;
        assert!(within, "{step}: {buffer:?}[{index}] is {found}, expected {expected} within {allowed}; {case:?}");
    }
}

/// One more token for every sequence, behind those of `batch`.
fn continued(batch: &Batch) -> Batch {
    let mut next = Batch::default();
    for sequence in &batch.sequences {
        let pages = &batch.pages[sequence.pages.clone()];
        next.push(&[0], sequence.positions().end, pages, sequence.slot, sequence.reach_tokens, 1);
        next.adapt(batch.adapters_of(sequence));
    }
    next
}

/// The fused operations of a pass, each on the second block.
#[derive(Clone, Copy)]
enum Step {
    Embed,
    Qkv,
    Attend,
    Unfold,
    Output,
    Widen,
    Down,
    Head,
}

impl Step {
    fn run<D: Ops + ?Sized>(self, device: &mut D, shape: &Shape<D::Weight>) {
        let block = &shape.blocks[1];
        let (Some(mixer), Some(ffn)) = (&block.mixer, &block.ffn) else { panic!("two branches") };
        let (norm, post_norm) = (mixer.norm.as_ref(), mixer.post_norm.as_ref());
        let (attention, latent) = (mixer.op.attention(), mixer.op.latent());
        match self {
            Self::Embed => device.embed(&shape.embed),
            Self::Qkv => match (attention, latent) {
                (_, Some(latent)) => device.latent(1, norm, latent),
                (attention, None) => device.qkv(1, norm, attention.expect("attention")),
            },
            Self::Attend => match (attention, latent) {
                (_, Some(latent)) => device.attend_rows(1, latent),
                (attention, None) => device.attend(1, attention.expect("attention")),
            },
            Self::Unfold => device.unfold(latent.expect("latent attention")),
            Self::Output => {
                let (output, from) = match (attention, latent) {
                    (_, Some(latent)) => (&latent.output, Buffer::Parts),
                    (attention, None) => (&attention.expect("attention").output, Buffer::Mixed),
                };
                device.project(output, from, post_norm, mixer.scale);
            }
            Self::Widen => match &ffn.op {
                Ffn::Dense(dense) => device.gate_up(ffn.norm.as_ref(), dense),
                Ffn::Moe(moe) => device.experts(ffn.norm.as_ref(), moe),
                Ffn::Shifted(_) | Ffn::Apart(_) => unreachable!("none of these cases"),
            },
            Self::Down => {
                let (norm, scale) = (ffn.post_norm.as_ref(), ffn.scale);
                match &ffn.op {
                    Ffn::Dense(dense) => device.project(&dense.down, Buffer::Gate, norm, scale),
                    Ffn::Moe(_) => device.conclude(Buffer::Mixture, norm, scale),
                    Ffn::Shifted(_) | Ffn::Apart(_) => unreachable!("none of these cases"),
                }
            }
            Self::Head => device.head(&shape.norm, &shape.head),
        }
    }
}

/// Seeded numbers (Steele 2014, `SplitMix64`).
pub struct Random(pub u64);

impl Random {
    /// Uniform over all `u32`.
    pub fn next_u32(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }

    /// Values spread evenly from `-size` to `size`.
    pub fn values(&mut self, count: usize, size: f32) -> Vec<f32> {
        (0..count).map(|_| (self.next_u32() as f32 / u32::MAX as f32 * 2.0 - 1.0) * size).collect()
    }
}
