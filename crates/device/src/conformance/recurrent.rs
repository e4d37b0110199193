//! Mixers that keep a state: each operation on dirty slots, and whole passes that start over and go on.

use kauri_arch::{
    Activation, Attention, Block, Branch, Convolution, Dense, Embed, Ffn, GatedDelta, Head, Leaning, Linear, Mixer,
    Norm, NormKind, Parallel, Pooling, Rope, RopeScaling, RopeStyle, Selective, Shape, ShortConv, StateSpace,
    StateSpaceScales, Summary, TimeMix, Wiring,
};
use kauri_formats::Quant;

use super::{Random, Subject, Tolerance, assert_within, batches, continued, matrix, memory};
use crate::batch::{Batch, CacheType, Plan};
use crate::buffers::Buffer;
use crate::forward::{Ends, forward};
use crate::ops::{Ops, Side};
use crate::plain::Plain;
use crate::weight::Weight;

/// Which mixer, in which surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A short convolution, and a feed-forward network.
    ShortConv,
    /// A state space in a block of its own.
    StateSpace,
    /// A state space beside attention, and a feed-forward network.
    Parallel,
    /// A delta rule whose projections are apart, then attention with a gate.
    Delta,
    /// A delta rule whose projections are packed, then attention with a gate.
    PackedDelta,
    /// A state space whose columns have decays of their own, in a block of its own.
    Selective,
    /// RWKV-7: time mixing, and a network that leans towards the token before.
    TimeMix,
}

/// One small model, chosen to be awkward.
#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    hidden: u32,
    heads: u32,
    head_dim: u32,
    groups: u32,
    state: u32,
    taps: u32,
    biased: bool,
    norm_first: bool,
    scaled: bool,
}

/// Runs the suite.
pub(super) fn conform<S: Subject>(tolerance: Tolerance) {
    for (number, case) in cases().into_iter().enumerate() {
        let plan = Plan {
            page_tokens: 16,
            pages: 12,
            batch_tokens: 33,
            batch_outputs: 13,
            slots: 4,
            cache: CacheType::F32,
            ring: None,
        };
        let shape = case.shape(number as u64 + 1);
        memory::conform::<S>(&shape, plan, &case);
        for batch in batches(shape.vocab, plan) {
            let mut check = Check { case, tolerance, subject: S::new(&shape, plan), plain: Plain::new(&shape, plan) };
            check.operations(&shape, &batch);
            check.forward(&shape, &batch);
        }
    }
}

fn cases() -> Vec<Case> {
    let usual = Case {
        kind: Kind::StateSpace,
        hidden: 32,
        heads: 4,
        head_dim: 16,
        groups: 2,
        state: 16,
        taps: 4,
        biased: false,
        norm_first: false,
        scaled: false,
    };
    let mut cases = Vec::new();
    for kind in [Kind::ShortConv, Kind::StateSpace, Kind::Parallel, Kind::Delta, Kind::PackedDelta, Kind::TimeMix] {
        cases.push(Case { kind, ..usual });
        cases.push(Case { kind, hidden: 65, taps: 2, biased: true, ..usual });
        cases.push(Case { kind, hidden: 31, taps: 3, heads: 3, head_dim: 5, groups: 1, state: 7, ..usual });
        cases.push(Case { kind, hidden: 1, taps: 8, heads: 1, head_dim: 1, groups: 1, state: 1, ..usual });
    }
    cases.push(Case { heads: 6, head_dim: 33, groups: 3, state: 31, norm_first: true, ..usual });
    cases.push(Case { head_dim: 64, state: 128, scaled: true, biased: true, ..usual });
    cases.push(Case { kind: Kind::TimeMix, heads: 2, head_dim: 64, norm_first: true, ..usual });
    cases.push(Case { kind: Kind::TimeMix, heads: 3, head_dim: 33, biased: true, ..usual });
    cases.push(Case { kind: Kind::Delta, heads: 6, head_dim: 33, groups: 3, state: 100, biased: true, ..usual });
    let selective = Case { kind: Kind::Selective, biased: true, ..usual };
    cases.push(selective);
    cases.push(Case { hidden: 31, taps: 2, heads: 3, head_dim: 5, state: 7, norm_first: true, ..selective });
    cases.push(Case { hidden: 65, heads: 1, head_dim: 1, state: 1, ..selective });
    cases.push(Case { heads: 5, head_dim: 33, state: 100, norm_first: true, biased: false, ..selective });
    cases
}

impl Case {
    fn shape(&self, seed: u64) -> Shape<Weight> {
        let (mut random, hidden) = (Random(seed * 104_729), self.hidden);
        let has_attention = [Kind::Delta, Kind::PackedDelta].contains(&self.kind);
        let blocks = (0..if has_attention { 3 } else { 2 }).map(|index| {
            let norm = Some(Self::norm(&mut random, hidden, hidden));
            let op = if index == 2 { self.gated_attention(&mut random) } else { self.mixer(&mut random, index > 0) };
            let mixer = Branch { norm, op, post_norm: None, scale: 0.5 };
            let alone = [Kind::StateSpace, Kind::Selective].contains(&self.kind);
            let ffn = (!alone).then(|| {
                let dense = Dense {
                    gate: None,
                    up: self.linear(&mut random, 9, hidden),
                    down: self.linear(&mut random, hidden, 9),
                    activation: Activation::Silu,
                    gate_scale: 1.0,
                };
                let norm = (self.kind == Kind::TimeMix).then(|| Self::norm(&mut random, hidden, hidden));
                let op = if self.kind == Kind::TimeMix {
                    Ffn::Shifted(Leaning { lean: Weight::Vector(random.values(hidden as usize, 1.0)), op: dense })
                } else {
                    Ffn::Dense(dense)
                };
                Branch { norm, op, post_norm: None, scale: 1.0 }
            });
            Block { mixer: Some(mixer), ffn, wiring: Wiring::Sequential }
        });
        let rope = Rope { style: RopeStyle::Halves, dims: 8, base: 100.0, scaling: RopeScaling::None };
        Shape {
            family: "conformance",
            left_out: Vec::new(),
            blocks: blocks.collect(),
            hidden,
            vocab: 17,
            context_tokens: 64,
            embed: Embed {
                table: matrix(&mut random, Quant::F32, 17, hidden),
                scale: 1.0,
                places: None,
                kinds: None,
                norm: (self.kind == Kind::TimeMix).then(|| Self::norm(&mut random, hidden, hidden)),
            },
            ropes: vec![rope],
            norm: Self::norm(&mut random, hidden, hidden),
            head: Head { output: Some(self.linear(&mut random, 17, hidden)), scale: 1.0, soft_cap: None },
            summary: Summary::pooled(Pooling::Last),
        }
    }

    fn mixer(&self, random: &mut Random, later: bool) -> Mixer<Weight> {
        match self.kind {
            Kind::TimeMix => Mixer::TimeMix(self.time_mix(random, later)),
            Kind::ShortConv => Mixer::ShortConv(self.short_conv(random)),
            Kind::StateSpace => Mixer::StateSpace(self.space(random)),
            Kind::Selective => Mixer::Selective(self.selective(random)),
            Kind::Delta | Kind::PackedDelta => Mixer::GatedDelta(self.delta(random)),
            Kind::Parallel => Mixer::Parallel(Parallel {
                attention: self.attention(random),
                attention_scale: 0.75,
                space: self.space(random),
                space_scale: 1.5,
            }),
        }
    }

    fn gated_attention(&self, random: &mut Random) -> Mixer<Weight> {
        let attention = self.attention(random);
        Mixer::Attention(Attention { gated: true, q: self.linear(random, 32, self.hidden), ..attention })
    }

    /// Later layers have a residual; a norm over heads and a gate are there or not.
    fn time_mix(&self, random: &mut Random, later: bool) -> TimeMix<Weight> {
        let (hidden, width) = (self.hidden, self.heads * self.head_dim);
        let values = |random: &mut Random, count: u32| Weight::Vector(random.values(count as usize, 1.0));
        let few = |random: &mut Random, activation| {
            let down = Linear { bias: Some(values(random, width)), ..self.linear(random, width, 5) };
            Dense { gate: None, up: self.linear(random, 5, hidden), down, activation, gate_scale: 1.0 }
        };
        let full =
            |random: &mut Random| Leaning { lean: values(random, hidden), op: self.linear(random, width, hidden) };
        let norm = Norm {
            kind: NormKind::Layer,
            bias: Some(values(random, width)),
            ..Self::norm(random, self.head_dim, width)
        };
        TimeMix {
            heads: self.heads,
            head_dim: self.head_dim,
            r: full(random),
            k: full(random),
            v: full(random),
            decay: Leaning { lean: values(random, hidden), op: few(random, Activation::Tanh) },
            rate: Leaning { lean: values(random, hidden), op: few(random, Activation::Identity) },
            residual: later.then(|| few(random, Activation::Identity)),
            gate: (!self.norm_first)
                .then(|| Leaning { lean: values(random, hidden), op: few(random, Activation::Sigmoid) }),
            removal: values(random, width),
            insertion: values(random, width),
            bonus: values(random, width),
            norm: (!self.norm_first).then_some(norm),
            output: self.linear(random, hidden, width),
        }
    }

    /// As many key heads as a state space has groups, of keys as long as its states are wide.
    fn delta(&self, random: &mut Random) -> GatedDelta<Weight> {
        let (key_heads, value_heads, hidden) = (self.groups, self.heads, self.hidden);
        let (key_width, width) = (key_heads * self.state, value_heads * self.head_dim);
        let channels = 2 * key_width + width;
        let values = |random: &mut Random, size| random.values(value_heads as usize, size);
        let packed = self.kind == Kind::PackedDelta;
        let rows = |alone, rest| if packed { alone + rest } else { alone };
        GatedDelta {
            key_heads,
            value_heads,
            key_dim: self.state,
            value_dim: self.head_dim,
            interleaved: self.biased,
            input: self.linear(random, rows(channels, width), hidden),
            gate: (!packed).then(|| self.linear(random, width, hidden)),
            rates: self.linear(random, rows(value_heads, value_heads), hidden),
            steps: (!packed).then(|| self.linear(random, value_heads, hidden)),
            convolution: self.convolution(random, channels, Activation::Silu),
            decay: Weight::Vector(values(random, 2.0).into_iter().map(|value| -value.abs()).collect()),
            step_bias: Weight::Vector(values(random, 1.0)),
            epsilon: 1e-6,
            norm: Self::norm(random, self.head_dim, self.head_dim),
            output: self.linear(random, hidden, width),
        }
    }

    fn short_conv(&self, random: &mut Random) -> ShortConv<Weight> {
        let hidden = self.hidden;
        ShortConv {
            before: self.linear(random, hidden, hidden),
            after: self.linear(random, hidden, hidden),
            input: self.linear(random, hidden, hidden),
            convolution: self.convolution(random, hidden, Activation::Identity),
            output: self.linear(random, hidden, hidden),
        }
    }

    fn space(&self, random: &mut Random) -> StateSpace<Weight> {
        let width = self.heads * self.head_dim;
        let channels = width + 2 * self.groups * self.state;
        let values = |random: &mut Random, size| random.values(self.heads as usize, size);
        StateSpace {
            heads: self.heads,
            head_dim: self.head_dim,
            groups: self.groups,
            state: self.state,
            gate: self.linear(random, width, self.hidden),
            input: self.linear(random, channels, self.hidden),
            step: self.linear(random, self.heads, self.hidden),
            convolution: self.convolution(random, channels, Activation::Silu),
            decay: Weight::Vector(values(random, 2.0).into_iter().map(|value| -value.abs()).collect()),
            step_bias: Weight::Vector(values(random, 1.0)),
            step_limits: if self.scaled { [0.5, 0.9] } else { [0.0, f32::INFINITY] },
            skip: Weight::Vector(values(random, 1.0)),
            norm: Some(Self::norm(random, width / self.groups, width)),
            norm_first: self.norm_first,
            scales: if self.scaled {
                StateSpaceScales { gate: 0.5, input: [1.5, 0.25, 2.0], step: 0.75 }
            } else {
                StateSpaceScales::default()
            },
            output: self.linear(random, self.hidden, width),
        }
    }

    /// As many channels as heads have values.
    fn selective(&self, random: &mut Random) -> Selective<Weight> {
        let (width, state, rank, hidden) = (self.heads * self.head_dim, self.state, 3, self.hidden);
        let decay = random.values((width * state) as usize, 2.0).into_iter().map(|value| -value.abs());
        Selective {
            width,
            state,
            gate: self.linear(random, width, hidden),
            input: self.linear(random, width, hidden),
            convolution: self.convolution(random, width, Activation::Silu),
            low: self.linear(random, rank, width),
            b: self.linear(random, state, width),
            c: self.linear(random, state, width),
            norms: self.norm_first.then(|| [rank, state, state].map(|width| Self::norm(random, width, width))),
            step: self.linear(random, width, rank),
            decay: Weight::Vector(decay.collect()),
            skip: Weight::Vector(random.values(width as usize, 1.0)),
            output: self.linear(random, hidden, width),
        }
    }

    fn attention(&self, random: &mut Random) -> Attention<Weight> {
        let (hidden, width) = (self.hidden, 16);
        Attention {
            heads: 2,
            kv_heads: 1,
            head_dim: 8,
            gated: false,
            q: self.linear(random, width, hidden),
            k: self.linear(random, 8, hidden),
            v: self.linear(random, 8, hidden),
            output: self.linear(random, hidden, width),
            sinks: None,
            q_norm: None,
            k_norm: None,
            rope: Some(0),
            window_tokens: None,
            both_ways: false,
            soft_cap: None,
            scale: 0.3,
            alibi: None,
        }
    }

    fn convolution(&self, random: &mut Random, channels: u32, activation: Activation) -> Convolution<Weight> {
        Convolution {
            channels,
            taps: self.taps,
            weight: Weight::Vector(random.values((channels * self.taps) as usize, 0.7)),
            bias: self.biased.then(|| Weight::Vector(random.values(channels as usize, 0.5))),
            activation,
        }
    }

    fn linear(&self, random: &mut Random, rows: u32, columns: u32) -> Linear<Weight> {
        let weight = matrix(random, Quant::F32, rows, columns);
        let bias = self.biased.then(|| Weight::Vector(random.values(rows as usize, 0.5)));
        Linear { rows, columns, weight, bias }
    }

    /// A norm of groups of `width` values with weights of their own, `all` together.
    fn norm(random: &mut Random, width: u32, all: u32) -> Norm<Weight> {
        let weight = Weight::Vector(random.values(all as usize, 1.0));
        Norm { kind: NormKind::Rms, width, epsilon: 1e-5, weight, bias: None }
    }
}

/// One subject beside the reference.
struct Check<S> {
    case: Case,
    tolerance: Tolerance,
    subject: S,
    plain: Plain,
}

impl<S: Subject> Check<S> {
    /// Every operation of the second block on the same random inputs, each twice: the second goes on where the first ended.
    fn operations(&mut self, shape: &Shape<Weight>, batch: &Batch) {
        self.begin(batch);
        let tokens = batch.tokens.len();
        let mut random = Random(77);
        let mixer = shape.blocks[1].mixer().expect("a mixer");
        if let Mixer::TimeMix(mix) = mixer {
            return self.time_mix(shape, mix, tokens);
        }
        let convolution = mixer.convolution().expect("a convolution");
        let channels = tokens * convolution.channels as usize;
        let (width, heads) = match mixer {
            Mixer::ShortConv(short) => (short.convolution.channels, 0),
            Mixer::StateSpace(space) | Mixer::Parallel(Parallel { space, .. }) => (space.width(), space.heads),
            Mixer::Selective(selective) => (selective.width, selective.width),
            Mixer::GatedDelta(delta) => (delta.width(), delta.value_heads),
            Mixer::Attention(_) | Mixer::Latent(_) | Mixer::TimeMix(_) => panic!("a mixer with a convolution"),
        };
        let mixed = if heads > 0 { tokens * width as usize } else { 0 };
        for _ in 0..2 {
            self.fill(&mut random, Buffer::Channels, channels);
            self.both(shape, Step::Convolve);
            self.same("convolve", Buffer::Channels, channels);
            self.fill(&mut random, Buffer::Channels, channels);
            self.fill(&mut random, Buffer::Steps, tokens * heads as usize);
            if let Mixer::GatedDelta(_) = mixer {
                self.fill(&mut random, Buffer::Rates, tokens * heads as usize);
            }
            if let Mixer::Selective(selective) = mixer {
                self.fill(&mut random, Buffer::Key, tokens * selective.state as usize);
                self.fill(&mut random, Buffer::Query, tokens * selective.state as usize);
            }
            self.both(shape, Step::Recur);
            self.same("recurrence", Buffer::Mixed, mixed);
        }
        let parts = [(width / 3, 2.0), (width - width / 3, -0.5)];
        for activation in [Activation::Identity, Activation::Sigmoid, Activation::Silu] {
            let count = tokens * width as usize;
            self.fill(&mut random, Buffer::MixerGate, count);
            self.fill(&mut random, Buffer::Channels, count);
            self.both(shape, Step::Gate(activation, width as usize));
            self.both(shape, Step::Scale(parts));
            self.same("gate", Buffer::MixerGate, count);
        }
    }

    /// The operations of time mixing, on both states.
    fn time_mix(&mut self, shape: &Shape<Weight>, mix: &TimeMix<Weight>, tokens: usize) {
        let mut random = Random(78);
        let (hidden, width) = (tokens * shape.hidden as usize, tokens * mix.width() as usize);
        for side in [Side::Mixer, Side::Ffn, Side::Mixer] {
            self.fill(&mut random, Buffer::Normed, hidden);
            self.both(shape, Step::Shift(side));
            self.same("shift", Buffer::Leant, hidden);
            for buffer in
                [Buffer::Query, Buffer::Key, Buffer::Value, Buffer::Steps, Buffer::Rates, Buffer::Mixed, Buffer::First]
            {
                self.fill(&mut random, buffer, width);
            }
            self.both(shape, Step::Recur);
            self.same("recurrence", Buffer::Mixed, width);
            // Of what became of keys and values.
            self.both(shape, Step::PassBy);
            self.same("what passes by", Buffer::Mixed, width);
        }
    }

    fn both(&mut self, shape: &Shape<Weight>, step: Step) {
        step.run(&mut self.plain, shape);
        let (ops, resident) = self.subject.parts();
        step.run(ops, resident);
    }

    /// The whole pass, three times: from zeros in slots that held something, on, and from zeros again.
    fn forward(&mut self, shape: &Shape<Weight>, batch: &Batch) {
        for batch in [batch, &continued(batch), batch] {
            self.begin(batch);
            forward(&mut self.plain, shape, Ends::BOTH);
            let (ops, resident) = self.subject.parts();
            forward(ops, resident, Ends::BOTH);
            self.same("forward", Buffer::Logits, batch.outputs.len() * shape.vocab as usize);
        }
    }

    fn begin(&mut self, batch: &Batch) {
        self.subject.begin(batch);
        self.plain.begin(batch);
    }

    fn fill(&mut self, random: &mut Random, buffer: Buffer, count: usize) {
        let values = random.values(count, 1.0);
        self.plain.buffer_mut(buffer)[..count].copy_from_slice(&values);
        self.subject.write(buffer, &values);
    }

    fn same(&mut self, step: &str, buffer: Buffer, count: usize) {
        let found = self.subject.read(buffer, count);
        assert_within(self.tolerance, step, buffer, &found, &self.plain.buffer(buffer)[..count], &self.case);
    }
}

/// The operations of a mixer with a state, each on the second block.
#[derive(Clone, Copy)]
enum Step {
    Convolve,
    Recur,
    Gate(Activation, usize),
    Scale([(u32, f32); 2]),
    Shift(Side),
    PassBy,
}

impl Step {
    fn run<D: Ops + ?Sized>(self, device: &mut D, shape: &Shape<D::Weight>) {
        let mixer = shape.blocks[1].mixer().expect("a mixer");
        match self {
            Self::Convolve => device.convolve(1, mixer.convolution().expect("a convolution")),
            Self::Recur => match mixer {
                Mixer::StateSpace(space) | Mixer::Parallel(Parallel { space, .. }) => device.scan(1, space),
                Mixer::Selective(selective) => device.select(1, selective),
                Mixer::GatedDelta(delta) => device.delta(1, delta),
                Mixer::TimeMix(mix) => device.replace(1, mix),
                Mixer::Attention(_) | Mixer::Latent(_) | Mixer::ShortConv(_) => {}
            },
            Self::Gate(activation, width) => device.gate(activation, Buffer::MixerGate, Buffer::Channels, width),
            Self::Scale(parts) => device.scale(Buffer::MixerGate, &parts),
            Self::Shift(side) => {
                let Mixer::TimeMix(mix) = mixer else { panic!("time mixing") };
                device.shift(1, side, Buffer::Normed);
                device.lean(&mix.r.lean, Buffer::Normed);
            }
            Self::PassBy => {
                let Mixer::TimeMix(mix) = mixer else { panic!("time mixing") };
                device.pass_by(mix);
            }
        }
    }
}
