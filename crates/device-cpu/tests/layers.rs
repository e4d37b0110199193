//! What a layer of each kind takes beside attention of the same width: prefill of a prompt, and one token behind contexts of two lengths.

use std::time::Instant;

use kauri_arch::{
    Activation, Attention, Block, Branch, Convolution, Dense, Embed, GatedDelta, Head, Leaning, Linear, Mixer, Norm,
    NormKind, Pooling, Rope, RopeScaling, RopeStyle, Selective, Shape, ShortConv, StateSpace, StateSpaceScales,
    Summary, TimeMix, Wiring,
};
use kauri_device::conformance::Random;
use kauri_device::{Batch, CacheType, Executor, Matrix, Plan, Weight};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_formats::{Bytes, Quant};

/// Width of the stream.
const HIDDEN: u32 = 2048;
/// Layers of the larger of two models, and of the smaller: the difference is that of so many layers.
const LAYERS: [usize; 2] = [5, 1];
const PROMPT: usize = 512;
const CONTEXTS: [u32; 2] = [512, 4096];
const PAGE: u32 = 32;
const ROUNDS: usize = 8;

/// A kind of layer: what it is called, and what makes one.
type Kind = (&'static str, fn(&mut Maker) -> Mixer<Weight>);

/// What makes a layer.
struct Maker {
    random: Random,
}

impl Maker {
    fn linear(&mut self, rows: u32, columns: u32) -> Linear<Weight> {
        let values = self.random.values((rows * columns) as usize, 1.0 / (columns as f32).sqrt());
        let mut data = Vec::new();
        Quant::Q8_0.quantise(&values, columns as usize, None, &mut data).expect("a type that can be written");
        let matrix = Matrix {
            quant: Quant::Q8_0,
            rows: rows as usize,
            columns: columns as usize,
            data: Bytes::from(data),
            scales: None,
        };
        Linear { rows, columns, weight: Weight::Matrix(matrix), bias: None }
    }

    fn values(&mut self, count: u32) -> Weight {
        Weight::Vector(self.random.values(count as usize, 1.0))
    }

    fn decays(&mut self, count: u32) -> Weight {
        Weight::Vector(self.random.values(count as usize, 1.0).into_iter().map(|value| -value.abs()).collect())
    }

    fn norm(&mut self, width: u32) -> Norm<Weight> {
        Norm { kind: NormKind::Rms, width, epsilon: 1e-5, weight: self.values(width), bias: None }
    }

    fn convolution(&mut self, channels: u32, activation: Activation) -> Convolution<Weight> {
        Convolution { channels, taps: 4, weight: self.values(4 * channels), bias: None, activation }
    }

    fn attention(&mut self, heads: u32, kv_heads: u32, alibi: Option<f32>) -> Mixer<Weight> {
        Mixer::Attention(Attention {
            heads,
            kv_heads,
            head_dim: 64,
            gated: false,
            q: self.linear(heads * 64, HIDDEN),
            k: self.linear(kv_heads * 64, HIDDEN),
            v: self.linear(kv_heads * 64, HIDDEN),
            output: self.linear(HIDDEN, heads * 64),
            q_norm: None,
            k_norm: None,
            rope: alibi.is_none().then_some(0),
            window_tokens: None,
            both_ways: false,
            soft_cap: None,
            scale: 0.125,
            alibi,
            sinks: None,
        })
    }

    fn short_conv(&mut self) -> Mixer<Weight> {
        Mixer::ShortConv(ShortConv {
            before: self.linear(HIDDEN, HIDDEN),
            after: self.linear(HIDDEN, HIDDEN),
            input: self.linear(HIDDEN, HIDDEN),
            convolution: self.convolution(HIDDEN, Activation::Identity),
            output: self.linear(HIDDEN, HIDDEN),
        })
    }

    /// 64 heads of 64, states 128 wide.
    fn state_space(&mut self) -> Mixer<Weight> {
        Mixer::StateSpace(StateSpace {
            heads: 64,
            head_dim: 64,
            groups: 1,
            state: 128,
            gate: self.linear(4096, HIDDEN),
            input: self.linear(4096 + 256, HIDDEN),
            step: self.linear(64, HIDDEN),
            convolution: self.convolution(4096 + 256, Activation::Silu),
            decay: self.decays(64),
            step_bias: self.values(64),
            step_limits: [0.0, f32::INFINITY],
            skip: self.values(64),
            norm: Some(self.norm(4096)),
            norm_first: false,
            scales: StateSpaceScales::default(),
            output: self.linear(HIDDEN, 4096),
        })
    }

    /// 4,096 channels, states 16 wide.
    fn selective(&mut self) -> Mixer<Weight> {
        Mixer::Selective(Selective {
            width: 4096,
            state: 16,
            gate: self.linear(4096, HIDDEN),
            input: self.linear(4096, HIDDEN),
            convolution: self.convolution(4096, Activation::Silu),
            low: self.linear(128, 4096),
            b: self.linear(16, 4096),
            c: self.linear(16, 4096),
            norms: None,
            step: self.linear(4096, 128),
            decay: self.decays(4096 * 16),
            skip: self.values(4096),
            output: self.linear(HIDDEN, 4096),
        })
    }

    /// 32 value heads of 128 x 128, 16 key heads.
    fn gated_delta(&mut self) -> Mixer<Weight> {
        Mixer::GatedDelta(GatedDelta {
            key_heads: 16,
            value_heads: 32,
            key_dim: 128,
            value_dim: 128,
            interleaved: false,
            input: self.linear(8192, HIDDEN),
            gate: Some(self.linear(4096, HIDDEN)),
            rates: self.linear(32, HIDDEN),
            steps: Some(self.linear(32, HIDDEN)),
            convolution: self.convolution(8192, Activation::Silu),
            decay: self.decays(32),
            step_bias: self.values(32),
            epsilon: 1e-6,
            norm: self.norm(128),
            output: self.linear(HIDDEN, 4096),
        })
    }

    /// 32 heads of 64 x 64.
    fn time_mix(&mut self) -> Mixer<Weight> {
        let full = |maker: &mut Self| Leaning { lean: maker.values(HIDDEN), op: maker.linear(HIDDEN, HIDDEN) };
        let few = |maker: &mut Self, activation| {
            let (up, down) = (maker.linear(96, HIDDEN), maker.linear(HIDDEN, 96));
            let op = Dense { gate: None, up, down, activation, gate_scale: 1.0 };
            Leaning { lean: maker.values(HIDDEN), op }
        };
        Mixer::TimeMix(TimeMix {
            heads: 32,
            head_dim: 64,
            r: full(self),
            k: full(self),
            v: full(self),
            decay: few(self, Activation::Tanh),
            rate: few(self, Activation::Identity),
            residual: None,
            gate: Some(few(self, Activation::Sigmoid)),
            removal: self.values(HIDDEN),
            insertion: self.values(HIDDEN),
            bonus: self.values(HIDDEN),
            norm: None,
            output: self.linear(HIDDEN, HIDDEN),
        })
    }

    /// A model of these layers and nothing else.
    fn shape(&mut self, mixers: &[Mixer<Weight>]) -> Shape<Weight> {
        let norm = self.norm(HIDDEN);
        let block = |mixer: &Mixer<Weight>| {
            let branch = Branch { norm: Some(norm.clone()), op: mixer.clone(), post_norm: None, scale: 0.01 };
            Block { mixer: Some(branch), ffn: None, wiring: Wiring::Sequential }
        };
        let output = Linear { bias: None, ..self.linear(32, HIDDEN) };
        let embed = Embed { table: output.weight.clone(), scale: 1.0, places: None, kinds: None, norm: None };
        Shape {
            family: "layers",
            hidden: HIDDEN,
            vocab: 32,
            context_tokens: 8192,
            embed,
            ropes: vec![Rope { style: RopeStyle::Halves, dims: 64, base: 1e4, scaling: RopeScaling::None }],
            blocks: mixers.iter().map(block).collect(),
            norm: self.norm(HIDDEN),
            head: Head { output: Some(output), scale: 1.0, soft_cap: None },
            summary: Summary::pooled(Pooling::Last),
            left_out: Vec::new(),
        }
    }
}

/// Seconds of a step of so many tokens behind so many others, the least of a few.
fn seconds(executor: &mut CpuExecutor, tokens: usize, cached: u32) -> f64 {
    let pages: Vec<u32> = (0..executor.plan().pages).collect();
    let tokens = vec![1; tokens];
    let rounds = (0..ROUNDS).map(|_| {
        let mut batch = Batch::default();
        batch.push(&tokens, cached, &pages, 0, cached + tokens.len() as u32, 1);
        let start = Instant::now();
        executor.launch(&batch).expect("a CPU is not lost");
        executor.sample(&[kauri_device::Choice::Logits]).expect("a CPU is not lost");
        start.elapsed().as_secs_f64()
    });
    rounds.fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "measures, run by hand"]
fn layers_beside_attention() {
    let mut maker = Maker { random: Random(7) };
    let layers: [Kind; 8] = [
        ("attention, 2,048 inside", |maker| maker.attention(32, 8, None)),
        ("the same, linear biases", |maker| maker.attention(32, 8, Some(8.0))),
        ("attention, 4,096 inside", |maker| maker.attention(64, 64, None)),
        ("short convolution, 2,048", Maker::short_conv),
        ("RWKV-7, 2,048 inside", Maker::time_mix),
        ("Mamba, 4,096 inside", Maker::selective),
        ("Mamba-2, 4,096 inside", Maker::state_space),
        ("gated delta rule, 4,096", Maker::gated_delta),
    ];
    println!("| layer | prefill {PROMPT}, ms | decode at {} and {}, us |", CONTEXTS[0], CONTEXTS[1]);
    for (name, make) in layers {
        let mixers: Vec<_> = (0..LAYERS[0]).map(|_| make(&mut maker)).collect();
        let [many, one] = LAYERS.map(|layers| {
            let plan = Plan {
                page_tokens: PAGE,
                pages: (CONTEXTS[1] + PAGE) / PAGE,
                batch_tokens: PROMPT as u32,
                batch_outputs: 1,
                slots: 1,
                cache: CacheType::F16,
                ring: None,
            };
            let kernels = Kernels::new(Isa::best()).expect("supported");
            let shape = maker.shape(&mixers[..layers]);
            let mut executor = CpuExecutor::new(shape, plan, kernels, 2).expect("room for a small model");
            let prefill = seconds(&mut executor, PROMPT, 0);
            [prefill, seconds(&mut executor, 1, CONTEXTS[0]), seconds(&mut executor, 1, CONTEXTS[1])]
        });
        let each = |index: usize| (many[index] - one[index]) / (LAYERS[0] - LAYERS[1]) as f64;
        println!("| {name} | {:.1} | {:.0}, {:.0} |", each(0) * 1e3, each(1) * 1e6, each(2) * 1e6);
    }
}
