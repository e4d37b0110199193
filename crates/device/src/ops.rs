//! What a device must do, and what it may do faster.
//!
//! The first methods are the primitives, a short closed list. The rest are fused blocks, provided as compositions of the
//! primitives (`reference.rs`); a device overrides those that it can do with less traffic, and the conformance suite
//! compares the two. Operations only enqueue: nothing is read back here, and nothing fails but by losing the device,
//! which the executor reports.

use kauri_arch::{
    Activation, Attention, Convolution, Dense, Embed, GatedDelta, Head, Latent, Leaning, Linear, Moe, Norm, Selective,
    Shared, StateSpace, TimeMix,
};

use crate::buffers::Buffer;
use crate::reference;

/// A part of each group of a row of `Packed`, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Values of it in a group.
    pub width: usize,
    /// Where it goes.
    pub to: Buffer,
    /// Values of a row there.
    pub row: usize,
    /// The first of them that is a value of this part.
    pub start: usize,
}

/// Which branch of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The mixer.
    Mixer,
    /// The feed-forward network.
    Ffn,
}

/// What a network's output is multiplied with, token by token, before it joins those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// The weight of expert `index` of `count`, in `Scores`; a token whose weight is zero is left as it is.
    Expert {
        /// Which.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The sigmoid of the token's only value in `Scores`.
    Gate,
    /// Nothing.
    Whole,
}

/// The operations of a forward pass on the batch that the device was given.
pub trait Ops {
    /// A resident weight.
    type Weight;

    /// `Stream[t] = table[token[t]] * scale`, and what else is added before the norm, which is an operation of its own.
    fn embed(&mut self, embed: &Embed<Self::Weight>);

    /// Normalises each of `groups` groups of `norm.width` values in every row of `from` into `to`, which may be `from`. Where
    /// the weight is that of several groups, they take their parts in turn.
    fn norm(&mut self, norm: &Norm<Self::Weight>, groups: usize, from: Buffer, to: Buffer);

    /// `to[t] = weight from[t] + bias`, and what the adapters of the token's sequence add to that. So it is of every product; a
    /// device that cannot do it refuses a model whose weights are adapted.
    fn linear(&mut self, linear: &Linear<Self::Weight>, from: Buffer, to: Buffer);

    /// Turns each of `heads` heads of `head_dim` values in every row of `buffer` by the row's position, with the rope of
    /// this index in the shape.
    fn rope(&mut self, rope: usize, heads: usize, head_dim: usize, buffer: Buffer);

    /// Writes the rows of `Key` and `Value` to the pages of their sequences, in the cache of block `block`.
    fn store(&mut self, block: usize, attention: &Attention<Self::Weight>);

    /// `Mixed[t] = softmax(scale * Query[t] K^T) V` over the cached tokens of the row's sequence up to its own position; both ways,
    /// up to the last of them.
    fn attend(&mut self, block: usize, attention: &Attention<Self::Weight>);

    /// What latent attention compares and keeps, before rope: to each head of `Query` the values of `Parts` that have a position,
    /// then the product of `keys` with those that have none; to `Key` the same of `Value`, behind which the normalised latent row.
    fn fold(&mut self, latent: &Latent<Self::Weight>);

    /// Writes the rows of `Key` to the pages of their sequences, in the cache of block `block`.
    fn store_rows(&mut self, block: usize, latent: &Latent<Self::Weight>);

    /// As [`Self::attend`], with rows that are the keys of all heads; behind their first `rope_dims` values they are the values.
    fn attend_rows(&mut self, block: usize, latent: &Latent<Self::Weight>);

    /// `Parts[t][h] = values[h] Mixed[t][h]`.
    fn unfold(&mut self, latent: &Latent<Self::Weight>);

    /// `Gate = activation(Gate) * Up`, or `Gate = activation(Up)` where the network has no gate.
    fn activate(&mut self, activation: Activation, gated: bool, width: usize);

    /// `gate = activation(gate) * values`, on rows of `width` values.
    fn gate(&mut self, activation: Activation, gate: Buffer, values: Buffer, width: usize);

    /// Multiplies neighbouring parts of every row of `buffer`, each so many values by its factor.
    fn scale(&mut self, buffer: Buffer, parts: &[(u32, f32)]);

    /// Convolves every channel of `Channels` in place, with the inputs before these in the state of block `block`, which takes
    /// the new ones in.
    fn convolve(&mut self, block: usize, convolution: &Convolution<Self::Weight>);

    /// Deals the rows of `Packed` out: each is `groups` times `parts`, and a group's share of a part goes behind those of the
    /// groups before it.
    fn deal(&mut self, groups: usize, parts: &[Part]);

    /// Takes each token of `Channels`, `Steps` and `Rates` into the state of block `block`, in order; what the heads give goes
    /// to `Mixed`.
    fn delta(&mut self, block: usize, delta: &GatedDelta<Self::Weight>);

    /// Takes each token of `Channels` and `Steps` into the state of block `block`, in order; what the heads give goes to
    /// `Mixed`.
    fn scan(&mut self, block: usize, space: &StateSpace<Self::Weight>);

    /// Takes each token of `Channels`, `Steps`, `Key` (as `b`) and `Query` (as `c`) into the state of block `block`, in order; what the
    /// channels give goes to `Mixed`.
    fn select(&mut self, block: usize, selective: &Selective<Self::Weight>);

    /// `Change[t] = from[t - 1] - from[t]`, with the last row of each sequence in the state of a branch of block `block`.
    fn shift(&mut self, block: usize, side: Side, from: Buffer);

    /// `Leant[t] = from[t] + lean * Change[t]`.
    fn lean(&mut self, lean: &Self::Weight, from: Buffer);

    /// Takes each token of `Query`, `Key`, `Value`, `Steps`, `Rates` and `Mixed` (as the residual) into the state of block `block`, in
    /// order; what the heads give goes to `Mixed`, and `Key` and `Value` become what was put in. Without a residual, `Value` goes
    /// to `First`.
    fn replace(&mut self, block: usize, mix: &TimeMix<Self::Weight>);

    /// `Mixed[t][h] += (Query[t][h] * Key[t][h] * bonus[h]) Value[t][h]`.
    fn pass_by(&mut self, mix: &TimeMix<Self::Weight>);

    /// `Scores[t]` from the router's scores of all experts to their weights, zero for those that are not chosen; begins the
    /// rows of `Mixture` with zeros.
    fn route(&mut self, moe: &Moe<Self::Weight>);

    /// `Mixture[t] += share[t] * Branch[t]`.
    fn join(&mut self, share: Share);

    /// `Stream += scale * from`, where `from` has rows of the same width.
    fn add(&mut self, from: Buffer, scale: f32);

    /// `Last[o] = Stream[outputs[o]]`.
    fn gather(&mut self);

    /// `Logits = cap(scale * Logits)`.
    fn scale_logits(&mut self, scale: f32, soft_cap: Option<f32>);

    /// The input side of attention: norm, three projections of one input, norms of heads, rope, and the cache.
    /// `Stream` -> `Query` and the cache of `block`.
    fn qkv(&mut self, block: usize, norm: Option<&Norm<Self::Weight>>, attention: &Attention<Self::Weight>) {
        reference::qkv(self, block, norm, attention);
    }

    /// The input side of a recurrent mixer: norm, and projections of one input, each to a buffer of its own.
    fn inputs<const N: usize>(
        &mut self,
        norm: Option<&Norm<Self::Weight>>,
        products: [(&Linear<Self::Weight>, Buffer); N],
    ) {
        reference::inputs(self, norm, products);
    }

    /// The input side of the delta rule: norm, its projections of one input, each dealt out where it is packed.
    /// `Stream` -> `Channels`, `MixerGate`, `Rates`, `Steps`.
    fn delta_inputs(&mut self, norm: Option<&Norm<Self::Weight>>, delta: &GatedDelta<Self::Weight>) {
        reference::delta_inputs(self, norm, delta);
    }

    /// The input side of latent attention: norm, projections, rope, and the cache. `Stream` -> `Query` and the cache of `block`.
    fn latent(&mut self, block: usize, norm: Option<&Norm<Self::Weight>>, latent: &Latent<Self::Weight>) {
        reference::latent(self, block, norm, latent);
    }

    /// The input side of a feed-forward network: norm, one or two projections of one input, activation. `Stream` -> `Gate`.
    fn gate_up(&mut self, norm: Option<&Norm<Self::Weight>>, dense: &Dense<Self::Weight>) {
        reference::gate_up(self, norm, dense);
    }

    /// The input side of RWKV-7's time mixing: norm, shift, and projections of as many inputs. `Stream` -> `Query`, `Key`, `Value`,
    /// `Steps`, `Rates`, `Mixed`, `MixerGate`.
    fn time_mix_inputs(&mut self, block: usize, norm: Option<&Norm<Self::Weight>>, mix: &TimeMix<Self::Weight>) {
        reference::time_mix_inputs(self, block, norm, mix);
    }

    /// As [`Self::gate_up`], of a network that leans towards the token before.
    fn shifted_up(
        &mut self,
        block: usize,
        norm: Option<&Norm<Self::Weight>>,
        shifted: &Leaning<Dense<Self::Weight>, Self::Weight>,
    ) {
        reference::shifted_up(self, block, norm, shifted);
    }

    /// A whole mixture of experts but the addition to the stream: norm, router, experts in the order of their numbers, what is
    /// shared. `Stream` -> `Mixture`.
    fn experts(&mut self, norm: Option<&Norm<Self::Weight>>, moe: &Moe<Self::Weight>) {
        reference::experts(self, norm, moe);
    }

    /// The part of a mixture that is here where another device has its experts, behind their sum: norm, what is shared.
    /// `Stream` -> added to `Mixture`.
    fn beside(&mut self, norm: Option<&Norm<Self::Weight>>, shared: &Shared<Self::Weight>) {
        reference::beside(self, norm, shared);
    }

    /// The end of a branch whose output is there: norm, and the addition to the stream. `from` -> `Stream`.
    fn conclude(&mut self, from: Buffer, norm: Option<&Norm<Self::Weight>>, scale: f32) {
        reference::conclude(self, from, norm, scale);
    }

    /// The output side of a branch: projection, norm, and the addition to the stream. `from` -> `Stream`.
    fn project(&mut self, linear: &Linear<Self::Weight>, from: Buffer, norm: Option<&Norm<Self::Weight>>, scale: f32) {
        reference::project(self, linear, from, norm, scale);
    }

    /// The stream of the wanted tokens to their logits, if the model has such. `Stream` -> `Last`, normalised, -> `Logits`.
    fn head(&mut self, norm: &Norm<Self::Weight>, head: &Head<Self::Weight>) {
        reference::head(self, norm, head);
    }
}
