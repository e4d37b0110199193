//! The one forward pass: token ids to logits, for every family, quant, batch and device.
//!
//! It only enqueues operations and never reads a value back, so that a device may record a step and replay it. Several devices may share a
//! model: each runs it over the blocks that it has (`split.rs`), or one runs it and stops where another has the experts (`apart.rs`).

use kauri_arch::{
    Activation, Attention, Block, Branch, Ffn, GatedDelta, Leaning, Mixer, Norm, Parallel, Selective, Shape, ShortConv,
    StateSpace, StateSpaceScales, TimeMix, Wiring,
};

use crate::buffers::Buffer;
use crate::ops::Ops;

/// Which ends of a model a device has: the embedding in front of the first block, the head behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Its first block is the model's.
    pub begins: bool,
    /// Its last block is the model's.
    pub closes: bool,
}

impl Ends {
    /// A whole model.
    pub const BOTH: Self = Self { begins: true, closes: true };
    /// What is inside of a model.
    pub const NONE: Self = Self { begins: false, closes: false };
}

/// Runs the blocks of `shape` on the batch that `device` was given, with the ends of the model that it has. Where another device has the
/// experts of a block it ends ahead of them, and gives the block's number: [`resume`] goes on from there.
pub fn forward<D: Ops + ?Sized>(device: &mut D, shape: &Shape<D::Weight>, ends: Ends) -> Option<usize> {
    if ends.begins {
        device.embed(&shape.embed);
        if let Some(norm) = &shape.embed.norm {
            device.norm(norm, 1, Buffer::Stream, Buffer::Stream);
        }
    }
    run_from(device, shape, ends, 0)
}

/// Goes on behind the experts of block `index`, whose sum is in `Mixture`: as far as [`forward`].
pub fn resume<D: Ops + ?Sized>(device: &mut D, shape: &Shape<D::Weight>, ends: Ends, index: usize) -> Option<usize> {
    let block = &shape.blocks[index];
    block.ffn.iter().for_each(|ffn| feed(device, index, ffn));
    conclude(device, index, block);
    run_from(device, shape, ends, index + 1)
}

/// The experts of block `index` for another device, which gives its `Stream`: their sum, to `Mixture`.
pub fn experts<D: Ops + ?Sized>(device: &mut D, shape: &Shape<D::Weight>, index: usize) {
    shape.blocks[index].ffn.iter().for_each(|ffn| feed(device, index, ffn));
}

fn run_from<D: Ops + ?Sized>(device: &mut D, shape: &Shape<D::Weight>, ends: Ends, first: usize) -> Option<usize> {
    for (index, block) in shape.blocks.iter().enumerate().skip(first) {
        begin(device, index, block);
        if block.ffn.as_ref().is_some_and(|ffn| ffn.op.is_apart()) {
            return Some(index);
        }
        block.ffn.iter().for_each(|ffn| feed(device, index, ffn));
        conclude(device, index, block);
    }
    if ends.closes {
        device.head(&shape.norm, &shape.head);
    }
    None
}

/// A block up to its feed-forward network.
fn begin<D: Ops + ?Sized>(device: &mut D, index: usize, block: &Block<D::Weight>) {
    match block.wiring {
        Wiring::Sequential => {
            block.mixer.iter().for_each(|mixer| mix(device, index, mixer, mixer.post_norm.as_ref()));
        }
        Wiring::NormedSums => block.mixer.iter().for_each(|mixer| {
            mix(device, index, mixer, None);
            settle(device, mixer.post_norm.as_ref());
        }),
        // Both branches read the stream before either adds to it.
        Wiring::Parallel => {}
    }
}

/// A block behind its feed-forward network, whose output is not in the stream yet.
fn conclude<D: Ops + ?Sized>(device: &mut D, index: usize, block: &Block<D::Weight>) {
    match block.wiring {
        Wiring::Sequential => block.ffn.iter().for_each(|ffn| finish(device, ffn, ffn.post_norm.as_ref())),
        Wiring::NormedSums => block.ffn.iter().for_each(|ffn| {
            finish(device, ffn, None);
            settle(device, ffn.post_norm.as_ref());
        }),
        Wiring::Parallel => {
            block.mixer.iter().for_each(|mixer| mix(device, index, mixer, mixer.post_norm.as_ref()));
            block.ffn.iter().for_each(|ffn| finish(device, ffn, ffn.post_norm.as_ref()));
        }
    }
}

/// The norm of the stream itself.
fn settle<D: Ops + ?Sized>(device: &mut D, norm: Option<&Norm<D::Weight>>) {
    if let Some(norm) = norm {
        device.norm(norm, 1, Buffer::Stream, Buffer::Stream);
    }
}

/// `Stream` += the mixer of block `index`, behind `post_norm`.
fn mix<D: Ops + ?Sized>(
    device: &mut D,
    index: usize,
    branch: &Branch<Mixer<D::Weight>, D::Weight>,
    post_norm: Option<&Norm<D::Weight>>,
) {
    let (norm, scale) = (branch.norm.as_ref(), branch.scale);
    match &branch.op {
        Mixer::Attention(attention) => {
            let gathered = attend(device, index, norm, attention);
            device.project(&attention.output, gathered, post_norm, scale);
        }
        Mixer::Latent(latent) => {
            device.latent(index, norm, latent);
            device.attend_rows(index, latent);
            device.unfold(latent);
            device.project(&latent.output, Buffer::Parts, post_norm, scale);
        }
        Mixer::ShortConv(short) => {
            convolve(device, index, norm, short);
            device.project(&short.output, Buffer::MixerGate, post_norm, scale);
        }
        Mixer::StateSpace(space) => {
            space_inputs(device, norm, space);
            scan(device, index, space);
            device.project(&space.output, Buffer::MixerGate, post_norm, scale);
        }
        Mixer::Selective(selective) => {
            select(device, index, norm, selective);
            device.project(&selective.output, Buffer::MixerGate, post_norm, scale);
        }
        Mixer::GatedDelta(delta) => {
            correct(device, index, norm, delta);
            device.project(&delta.output, Buffer::MixerGate, post_norm, scale);
        }
        Mixer::TimeMix(mix) => {
            let given = replace(device, index, norm, mix);
            device.project(&mix.output, given, post_norm, scale);
        }
        // Both read the stream before either adds to it.
        Mixer::Parallel(Parallel { attention, attention_scale, space, space_scale }) => {
            space_inputs(device, norm, space);
            let gathered = attend(device, index, norm, attention);
            device.project(&attention.output, gathered, post_norm, scale * attention_scale);
            scan(device, index, space);
            device.project(&space.output, Buffer::MixerGate, post_norm, scale * space_scale);
        }
    }
}

/// `Stream` -> `Mixed`, through the cache; or `MixerGate` where there is a gate behind it. Gives which.
fn attend<D: Ops + ?Sized>(
    device: &mut D,
    index: usize,
    norm: Option<&Norm<D::Weight>>,
    attention: &Attention<D::Weight>,
) -> Buffer {
    device.qkv(index, norm, attention);
    device.attend(index, attention);
    if !attention.gated {
        return Buffer::Mixed;
    }
    let width = (attention.heads * attention.head_dim) as usize;
    device.gate(Activation::Sigmoid, Buffer::MixerGate, Buffer::Mixed, width);
    Buffer::MixerGate
}

/// `Stream` -> `MixerGate`, through the state.
fn convolve<D: Ops + ?Sized>(
    device: &mut D,
    index: usize,
    norm: Option<&Norm<D::Weight>>,
    short: &ShortConv<D::Weight>,
) {
    let channels = short.convolution.channels as usize;
    let ShortConv { before, after, input, .. } = short;
    device.inputs(norm, [(before, Buffer::Channels), (after, Buffer::MixerGate), (input, Buffer::Steps)]);
    device.gate(Activation::Identity, Buffer::Channels, Buffer::Steps, channels);
    device.convolve(index, &short.convolution);
    device.gate(Activation::Identity, Buffer::MixerGate, Buffer::Channels, channels);
}

/// `Stream` -> `MixerGate`, through the state.
fn select<D: Ops + ?Sized>(
    device: &mut D,
    index: usize,
    norm: Option<&Norm<D::Weight>>,
    selective: &Selective<D::Weight>,
) {
    let Selective { gate, input, low, b, c, norms, .. } = selective;
    device.inputs(norm, [(gate, Buffer::MixerGate), (input, Buffer::Channels)]);
    device.convolve(index, &selective.convolution);
    let products = [(low, Buffer::Low), (b, Buffer::Key), (c, Buffer::Query)];
    for (linear, to) in products {
        device.linear(linear, Buffer::Channels, to);
    }
    for (norm, (_, buffer)) in norms.iter().flatten().zip(products) {
        device.norm(norm, 1, buffer, buffer);
    }
    device.linear(&selective.step, Buffer::Low, Buffer::Steps);
    device.select(index, selective);
    device.gate(Activation::Silu, Buffer::MixerGate, Buffer::Mixed, selective.width as usize);
}

/// `Stream` -> `MixerGate`, through the state.
fn correct<D: Ops + ?Sized>(
    device: &mut D,
    index: usize,
    norm: Option<&Norm<D::Weight>>,
    delta: &GatedDelta<D::Weight>,
) {
    device.delta_inputs(norm, delta);
    device.convolve(index, &delta.convolution);
    device.delta(index, delta);
    device.norm(&delta.norm, delta.value_heads as usize, Buffer::Mixed, Buffer::Mixed);
    device.gate(Activation::Silu, Buffer::MixerGate, Buffer::Mixed, delta.width() as usize);
}

/// `Stream` -> `Mixed`, through the state; or `MixerGate` where there is a gate behind it. Gives which.
fn replace<D: Ops + ?Sized>(
    device: &mut D,
    index: usize,
    norm: Option<&Norm<D::Weight>>,
    mix: &TimeMix<D::Weight>,
) -> Buffer {
    device.time_mix_inputs(index, norm, mix);
    device.replace(index, mix);
    if let Some(norm) = &mix.norm {
        device.norm(norm, mix.heads as usize, Buffer::Mixed, Buffer::Mixed);
    }
    device.pass_by(mix);
    if mix.gate.is_none() {
        return Buffer::Mixed;
    }
    device.gate(Activation::Identity, Buffer::MixerGate, Buffer::Mixed, mix.width() as usize);
    Buffer::MixerGate
}

/// `Stream` -> what a state space reads.
fn space_inputs<D: Ops + ?Sized>(device: &mut D, norm: Option<&Norm<D::Weight>>, space: &StateSpace<D::Weight>) {
    let StateSpace { gate, input, step, scales, .. } = space;
    device.inputs(norm, [(gate, Buffer::MixerGate), (input, Buffer::Channels), (step, Buffer::Steps)]);
    if *scales != StateSpaceScales::default() {
        let part = space.groups * space.state;
        let [x, b, c] = scales.input;
        device.scale(Buffer::MixerGate, &[(space.width(), scales.gate)]);
        device.scale(Buffer::Channels, &[(space.width(), x), (part, b), (part, c)]);
        device.scale(Buffer::Steps, &[(space.heads, scales.step)]);
    }
}

/// What a state space reads -> `MixerGate`, through the state.
fn scan<D: Ops + ?Sized>(device: &mut D, index: usize, space: &StateSpace<D::Weight>) {
    device.convolve(index, &space.convolution);
    device.scan(index, space);
    let norm = |device: &mut D, buffer| {
        if let Some(norm) = &space.norm {
            device.norm(norm, (space.width() / norm.width) as usize, buffer, buffer);
        }
    };
    if space.norm_first {
        norm(device, Buffer::Mixed);
    }
    device.gate(Activation::Silu, Buffer::MixerGate, Buffer::Mixed, space.width() as usize);
    if !space.norm_first {
        norm(device, Buffer::MixerGate);
    }
}

/// `Stream` -> what the feed-forward network has before the last step of its branch.
fn feed<D: Ops + ?Sized>(device: &mut D, index: usize, branch: &Branch<Ffn<D::Weight>, D::Weight>) {
    match &branch.op {
        Ffn::Dense(dense) => device.gate_up(branch.norm.as_ref(), dense),
        Ffn::Moe(moe) => device.experts(branch.norm.as_ref(), moe),
        Ffn::Shifted(shifted) => device.shifted_up(index, branch.norm.as_ref(), shifted),
        Ffn::Apart(shared) => shared.iter().for_each(|shared| device.beside(branch.norm.as_ref(), shared)),
    }
}

/// That -> `Stream`.
fn finish<D: Ops + ?Sized>(
    device: &mut D,
    branch: &Branch<Ffn<D::Weight>, D::Weight>,
    post_norm: Option<&Norm<D::Weight>>,
) {
    match &branch.op {
        Ffn::Dense(dense) | Ffn::Shifted(Leaning { op: dense, .. }) => {
            device.project(&dense.down, Buffer::Gate, post_norm, branch.scale);
        }
        Ffn::Moe(_) | Ffn::Apart(_) => device.conclude(Buffer::Mixture, post_norm, branch.scale),
    }
}
