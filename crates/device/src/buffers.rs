//! The activations a forward pass works on: a closed set, sized at load, owned by the device.
//!
//! Operations name buffers instead of passing them, so that a device may place them where it likes and record a step for
//! replay at fixed addresses.

use kauri_arch::{Attention, Ffn, Latent, Mixer, Parallel, Shape, StateSpace};

use crate::batch::Plan;

/// One activation buffer. Rows are the batch's tokens, or its outputs where noted; a row's values are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// The residual stream: (tokens, hidden).
    Stream,
    /// What a branch reads after its norm: (tokens, hidden).
    Normed,
    /// (tokens, heads, `head_dim`); of a selective state space, `c`: (tokens, state).
    Query,
    /// (tokens, `kv_heads`, `head_dim`); of a selective state space, `b`: (tokens, state).
    Key,
    /// (tokens, `kv_heads`, `head_dim`).
    Value,
    /// What attention gathered or a state gave: (tokens, heads, `head_dim`). Before it is, how far values go to the first layer's.
    Mixed,
    /// What a convolution reads and gives: (tokens, channels).
    Channels,
    /// The gate of a recurrent mixer, and what it lets pass: (tokens, width).
    MixerGate,
    /// The steps of a state's heads, or what else such a mixer projects its input to: (tokens, heads, channels or width).
    Steps,
    /// The rates of a state's heads: (tokens, heads or width).
    Rates,
    /// A projection whose rows are still to be dealt out: (tokens, groups, parts of a group).
    Packed,
    /// What queries or steps are made of: (tokens, rank).
    Low,
    /// What heads are made of, and what they give: (tokens, heads, width).
    Parts,
    /// The gated values of a feed-forward network: (tokens, width).
    Gate,
    /// (tokens, width).
    Up,
    /// What a branch reads less the input of the token before, with the sign turned: (tokens, hidden).
    Change,
    /// What a branch reads, leaning towards the token before: (tokens, hidden).
    Leant,
    /// The values of the first layer, which later ones take a share of: (tokens, width).
    First,
    /// What a branch adds to the stream: (tokens, hidden).
    Branch,
    /// The router's scores of all experts, then their weights: (tokens, experts).
    Scores,
    /// What experts come to together: (tokens, hidden).
    Mixture,
    /// The stream of the wanted tokens: (outputs, hidden).
    Last,
    /// (outputs, vocab).
    Logits,
}

/// Which rows of the batch a buffer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One for every token.
    Tokens,
    /// One for every token whose logits are wanted.
    Outputs,
}

impl Buffer {
    /// Every buffer, in the order of the variants.
    pub const ALL: [Self; 23] = [
        Self::Stream,
        Self::Normed,
        Self::Query,
        Self::Key,
        Self::Value,
        Self::Mixed,
        Self::Channels,
        Self::MixerGate,
        Self::Steps,
        Self::Rates,
        Self::Packed,
        Self::Low,
        Self::Parts,
        Self::Gate,
        Self::Up,
        Self::Change,
        Self::Leant,
        Self::First,
        Self::Branch,
        Self::Scores,
        Self::Mixture,
        Self::Last,
        Self::Logits,
    ];

    /// Which rows it has.
    pub const fn extent(self) -> Extent {
        match self {
            Self::Last | Self::Logits => Extent::Outputs,
            Self::Stream
            | Self::Normed
            | Self::Query
            | Self::Key
            | Self::Value
            | Self::Mixed
            | Self::Channels
            | Self::MixerGate
            | Self::Steps
            | Self::Rates
            | Self::Packed
            | Self::Low
            | Self::Parts
            | Self::Gate
            | Self::Up
            | Self::Change
            | Self::Leant
            | Self::First
            | Self::Branch
            | Self::Scores
            | Self::Mixture => Extent::Tokens,
        }
    }

    /// The most values that a forward pass of `shape` keeps in it.
    pub fn values<W>(self, shape: &Shape<W>, plan: &Plan) -> usize {
        let hidden = shape.hidden as usize;
        let mixer =
            |width: fn(Widths) -> u32| shape.mixers().map(|mixer| width(Widths::of(mixer))).max().unwrap_or(0) as usize;
        let scores = shape.ffns().map(|ffn| ffn.moe().map_or(usize::from(ffn.is_apart()), |moe| moe.experts.len()));
        let scores = scores.max().unwrap_or(0);
        let width = match self {
            Self::Stream | Self::Normed | Self::Branch | Self::Last => hidden,
            Self::Query => mixer(|widths| widths.query),
            Self::Key | Self::Value => mixer(|widths| widths.key),
            Self::Mixed => mixer(|widths| widths.mixed),
            Self::Channels => mixer(|widths| widths.channels),
            Self::MixerGate => mixer(|widths| widths.gate),
            Self::Steps => mixer(|widths| widths.steps),
            Self::Rates => mixer(|widths| widths.rates),
            Self::Packed => mixer(|widths| widths.packed),
            Self::Low => mixer(|widths| widths.low),
            Self::Parts => mixer(|widths| widths.parts),
            Self::Gate | Self::Up => {
                let widths = shape.ffns().flat_map(Ffn::widths);
                (widths.max().unwrap_or(0) as usize).max(mixer(|widths| widths.rank))
            }
            Self::Change | Self::Leant => {
                let shifts = shape.ffns().any(|ffn| ffn.shifted() > 0) || mixer(|widths| widths.first) > 0;
                hidden * usize::from(shifts)
            }
            Self::First => mixer(|widths| widths.first),
            Self::Scores => scores,
            Self::Mixture => hidden * usize::from(scores > 0),
            Self::Logits => shape.head.output.as_ref().map_or(0, |output| output.rows as usize),
        };
        let rows = match self.extent() {
            Extent::Tokens => plan.batch_tokens,
            Extent::Outputs => plan.batch_outputs,
        };
        width * rows as usize
    }
}

/// Values of a row of the buffers of a mixer.
#[derive(Clone, Copy, Default)]
struct Widths {
    query: u32,
    key: u32,
    mixed: u32,
    channels: u32,
    gate: u32,
    steps: u32,
    rates: u32,
    packed: u32,
    low: u32,
    parts: u32,
    rank: u32,
    first: u32,
}

impl Widths {
    fn of<W>(mixer: &Mixer<W>) -> Self {
        match mixer {
            Mixer::Attention(attention) => Self::of_attention(attention),
            Mixer::Latent(latent) => Self::of_latent(latent),
            Mixer::ShortConv(short) => {
                let channels = short.convolution.channels;
                Self { channels, gate: channels, steps: channels, ..Self::default() }
            }
            Mixer::StateSpace(space) => Self::of_space(space),
            Mixer::Selective(selective) => {
                let (width, state, low) = (selective.width, selective.state, selective.low.rows);
                let values = Self { mixed: width, channels: width, gate: width, steps: width, ..Self::default() };
                Self { query: state, key: state, low, ..values }
            }
            Mixer::GatedDelta(delta) => {
                let (width, heads) = (delta.width(), delta.value_heads);
                let packed =
                    [delta.gate.is_none().then_some(delta.input.rows), delta.steps.is_none().then_some(2 * heads)];
                Self {
                    mixed: width,
                    channels: delta.convolution.channels,
                    gate: width,
                    steps: heads,
                    rates: heads,
                    packed: packed.into_iter().flatten().max().unwrap_or(0),
                    ..Self::default()
                }
            }
            Mixer::TimeMix(mix) => {
                let width = mix.width();
                let (gate, rank) = (width, mix.rank());
                let values = Self { query: width, key: width, mixed: width, first: width, ..Self::default() };
                Self { gate, steps: width, rates: width, rank, ..values }
            }
            Mixer::Parallel(Parallel { attention, space, .. }) => {
                let (attention, space) = (Self::of_attention(attention), Self::of_space(space));
                Self { mixed: attention.mixed.max(space.mixed), query: attention.query, key: attention.key, ..space }
            }
        }
    }

    fn of_attention<W>(attention: &Attention<W>) -> Self {
        let query = attention.heads * attention.head_dim;
        let (gate, packed) = if attention.gated { (query, 2 * query) } else { (0, 0) };
        Self { query, key: attention.kv_heads * attention.head_dim, mixed: query, gate, packed, ..Self::default() }
    }

    fn of_latent<W>(latent: &Latent<W>) -> Self {
        let Latent { heads, nope_dims, rope_dims, value_dims, .. } = *latent;
        Self {
            query: heads * latent.row(),
            key: latent.row(),
            mixed: heads * latent.latent,
            low: latent.q_low.as_ref().map_or(0, |(low, _)| low.rows),
            parts: heads * (nope_dims + rope_dims).max(value_dims),
            ..Self::default()
        }
    }

    fn of_space<W>(space: &StateSpace<W>) -> Self {
        let (width, channels) = (space.width(), space.convolution.channels);
        Self { mixed: width, channels, gate: width, steps: space.heads, ..Self::default() }
    }
}
