//! The closed set of structures a model can have, with a `W` in every weight slot.
//!
//! A [`Shape`] is the one description of a model that everything else walks: a family writes `Shape<Name>`, loading maps it
//! to resident weights, devices run it. [`Shape::try_map`] is the only traversal. Options that change a number a kernel
//! reads are fields; options that change which buffers exist, their order or what is cached are variants.

mod latent;
mod moe;
mod recurrent;
mod selective;
mod summary;
mod time_mix;

pub use latent::Latent;
pub use moe::{GroupRank, Groups, Moe, Scoring, Shared};
pub use recurrent::{Convolution, GatedDelta, Parallel, ShortConv, State, StateSpace, StateSpaceScales};
pub use selective::Selective;
pub use summary::{Curve, Pooling, Refinement, Summary};
pub use time_mix::{Leaning, TimeMix};

/// A model: what it holds and in which order it is applied.
#[derive(Clone, Debug)]
pub struct Shape<W> {
    /// The family's name, for people.
    pub family: &'static str,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Rows of the embedding table and of the logits.
    pub vocab: u32,
    /// The longest context the model was trained for, in tokens.
    pub context_tokens: u32,
    /// Token ids to the residual stream.
    pub embed: Embed<W>,
    /// The rotary embeddings that attention layers refer to by index.
    pub ropes: Vec<Rope<W>>,
    /// The layers in order.
    pub blocks: Vec<Block<W>>,
    /// The norm before the head.
    pub norm: Norm<W>,
    /// The residual stream to logits.
    pub head: Head<W>,
    /// What becomes of a text that is read for a vector or a score.
    pub summary: Summary<W>,
    /// How the names of tensors begin that a file has besides, for drafting tokens: they are not used.
    pub left_out: Vec<String>,
}

/// The embedding table: `(vocab, hidden)`.
#[derive(Clone, Debug)]
pub struct Embed<W> {
    /// The table.
    pub table: W,
    /// Factor on every embedding.
    pub scale: f32,
    /// `(context, hidden)`: the row of a token's place in its sequence is added.
    pub places: Option<W>,
    /// `(kinds, hidden)`: the first row is added; the last to tokens of the second text of a pair.
    pub kinds: Option<W>,
    /// Of the sum.
    pub norm: Option<Norm<W>>,
}

/// The projection to logits.
#[derive(Clone, Debug)]
pub struct Head<W> {
    /// `(vocab, hidden)`. Without one a model writes nothing: what it gives are the normalised rows of its stream.
    pub output: Option<Linear<W>>,
    /// Factor on every logit, before the cap.
    pub scale: f32,
    /// `cap * tanh(logit / cap)` where set.
    pub soft_cap: Option<f32>,
}

/// One layer: a token mixer and a feed-forward network, each inside its own residual, or one of the two alone.
#[derive(Clone, Debug)]
pub struct Block<W> {
    /// Mixes tokens.
    pub mixer: Option<Branch<Mixer<W>, W>>,
    /// Works on each token alone.
    pub ffn: Option<Branch<Ffn<W>, W>>,
    /// How the two are joined.
    pub wiring: Wiring,
}

/// How the two branches of a block read the residual stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// The feed-forward network reads the stream after the mixer was added.
    Sequential,
    /// Both read the block's input; their outputs are added together.
    Parallel,
    /// As [`Self::Sequential`], but the norm behind an operation is of the stream after the addition (BERT).
    NormedSums,
}

/// `x + scale * post_norm(op(norm(x)))`.
#[derive(Clone, Debug)]
pub struct Branch<T, W> {
    /// Before the operation; without one it reads the residual stream itself.
    pub norm: Option<Norm<W>>,
    /// The operation.
    pub op: T,
    /// After the operation, before the addition; after it with [`Wiring::NormedSums`].
    pub post_norm: Option<Norm<W>>,
    /// Factor on what is added.
    pub scale: f32,
}

/// The ways to mix tokens.
#[derive(Clone, Debug)]
pub enum Mixer<W> {
    /// Softmax attention over cached keys and values.
    Attention(Attention<W>),
    /// A convolution over the last few tokens, between two gates.
    ShortConv(ShortConv<W>),
    /// A state that decays and takes in each token.
    StateSpace(StateSpace<W>),
    /// The same, with a decay for each channel and column.
    Selective(Selective<W>),
    /// A state that is corrected towards each token.
    GatedDelta(GatedDelta<W>),
    /// Attention and a state space on one input.
    Parallel(Parallel<W>),
    /// Softmax attention over one cached row that all heads share.
    Latent(Latent<W>),
    /// A state each of whose columns decays at a pace of its own and is corrected towards each token.
    TimeMix(TimeMix<W>),
}

/// Softmax attention with grouped query heads (Vaswani 2017, arXiv:1706.03762; Ainslie 2023, arXiv:2305.13245).
#[derive(Clone, Debug)]
pub struct Attention<W> {
    /// Query heads.
    pub heads: u32,
    /// Key and value heads; `heads` is a multiple.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Whether what is gathered goes through the sigmoid of a gate, which `q` gives beside each head's query.
    pub gated: bool,
    /// `(heads * head_dim, hidden)`; with a gate twice as many rows, a head's query before its gate.
    pub q: Linear<W>,
    /// `(kv_heads * head_dim, hidden)`.
    pub k: Linear<W>,
    /// `(kv_heads * head_dim, hidden)`.
    pub v: Linear<W>,
    /// `(hidden, heads * head_dim)`.
    pub output: Linear<W>,
    /// On the queries before rope: its width is one head's, or all heads' together.
    pub q_norm: Option<Norm<W>>,
    /// On the keys before rope.
    pub k_norm: Option<Norm<W>>,
    /// Index into [`Shape::ropes`]; a layer without one has no position but the order of the cache.
    pub rope: Option<usize>,
    /// Tokens that a query sees, itself included; all where unset.
    pub window_tokens: Option<u32>,
    /// Whether it sees as many of those behind it too, of all that its sequence has so far.
    pub both_ways: bool,
    /// `cap * tanh(score / cap)` on the scaled scores where set.
    pub soft_cap: Option<f32>,
    /// Factor on the scores.
    pub scale: f32,
    /// What is taken off the scaled and capped scores of head `h` of `n`, counted from one, for every token between query and key:
    /// `2^(-alibi h / n)` where `n` is a power of two (`ALiBi`: Press 2021, arXiv:2108.12409).
    pub alibi: Option<f32>,
    /// `(heads)`: a score for each head that takes part in the softmax and has no value (Xiao 2023, arXiv:2309.17453).
    pub sinks: Option<W>,
}

/// The feed-forward networks.
#[derive(Clone, Debug)]
pub enum Ffn<W> {
    /// One network for every token.
    Dense(Dense<W>),
    /// Many networks, a few of them for each token.
    Moe(Moe<W>),
    /// One network, which reads an input that leans towards the token before.
    Shifted(Leaning<Dense<W>, W>),
    /// Experts that another device has, and gives the sum of; what every token goes through besides is here. No family has such: it is how a
    /// device sees a mixture whose experts it was not given.
    Apart(Option<Shared<W>>),
}

/// `down(activation(gate(x)) * up(x))`, or `down(activation(up(x)))` without a gate (Shazeer 2020, arXiv:2002.05202).
#[derive(Clone, Debug)]
pub struct Dense<W> {
    /// `(width, hidden)`.
    pub gate: Option<Linear<W>>,
    /// `(width, hidden)`.
    pub up: Linear<W>,
    /// `(hidden, width)`.
    pub down: Linear<W>,
    /// Of the gate, or of `up` where there is none.
    pub activation: Activation,
    /// Factor on what the gate gives, before the activation.
    pub gate_scale: f32,
}

/// The elementwise functions of feed-forward networks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x * normal_cdf(x)` in its tanh form (Hendrycks 2016, arXiv:1606.08415).
    GeluTanh,
    /// `x * normal_cdf(x)` with the error function.
    Gelu,
    /// `max(x, 0)^2`.
    ReluSquared,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `tanh(x)`.
    Tanh,
    /// `x`.
    Identity,
    /// `x * sigmoid(steepness * x)` of `min(x, limit)`; the values that go with a gate are cut to `-limit` to `limit` and have one
    /// added (gpt-oss).
    SiluCut {
        /// What values are cut to.
        limit: f32,
        /// Factor inside the sigmoid.
        steepness: f32,
    },
}

/// A matrix `(rows, columns)` and an optional bias of `rows`: `y = weight x + bias`.
#[derive(Clone, Debug)]
pub struct Linear<W> {
    /// Outputs.
    pub rows: u32,
    /// Inputs.
    pub columns: u32,
    /// The matrix.
    pub weight: W,
    /// Added to every output.
    pub bias: Option<W>,
}

/// A normalisation of each group of `width` neighbouring values.
#[derive(Clone, Debug)]
pub struct Norm<W> {
    /// The formula.
    pub kind: NormKind,
    /// Values that are normalised together. The length of `weight`, or that of each group's part of it: then groups take
    /// their parts in turn.
    pub width: u32,
    /// Added under the root.
    pub epsilon: f32,
    /// Factor on every normalised value.
    pub weight: W,
    /// Added to every value afterwards.
    pub bias: Option<W>,
}

/// The normalisations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `x / sqrt(mean(x^2) + epsilon)` (Zhang 2019, arXiv:1910.07467).
    Rms,
    /// `(x - mean(x)) / sqrt(variance(x) + epsilon)` (Ba 2016, arXiv:1607.06450).
    Layer,
}

/// A rotary position embedding (Su 2021, arXiv:2104.09864): turns pairs of a head's first `dims` values by
/// `position * base^(-2i / dims)`, the frequencies scaled as `scaling` says.
#[derive(Clone, Debug)]
pub struct Rope<W> {
    /// Which values make a pair.
    pub style: RopeStyle,
    /// Values of a head that are turned; the rest pass unchanged.
    pub dims: u32,
    /// The base of the frequencies.
    pub base: f32,
    /// How frequencies are stretched beyond the first training context.
    pub scaling: RopeScaling<W>,
}

/// Which two values of a head turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// `i` and `i + dims / 2`.
    Halves,
    /// `2i` and `2i + 1`.
    Pairs,
}

/// How rotary frequencies are stretched.
#[derive(Clone, Debug)]
pub enum RopeScaling<W> {
    /// As they are.
    None,
    /// Every frequency divided by `factor` (Chen 2023, arXiv:2306.15595).
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Low frequencies divided by `factor`, high ones kept, those between blended (Llama 3.1).
    Llama3 {
        /// Divisor of the low frequencies.
        factor: f32,
        /// Wavelengths over `original_context / low` are low frequencies.
        low: f32,
        /// Wavelengths under `original_context / high` are high frequencies.
        high: f32,
        /// The first training context, in tokens.
        original_context_tokens: u32,
    },
    /// Low frequencies divided by `factor`, high ones kept, those between blended (`YaRN`: Peng 2023, arXiv:2309.00071).
    Yarn {
        /// Divisor of the low frequencies.
        factor: f32,
        /// Pairs that turn less often than this within the original context are low frequencies.
        slow_turns: f32,
        /// Pairs that turn more often are high frequencies.
        fast_turns: f32,
        /// The first training context, in tokens.
        original_context_tokens: u32,
        /// Whether the blend begins and ends with whole pairs.
        whole_pairs: bool,
        /// Factor on the sines and cosines.
        attention_factor: f32,
    },
    /// Each frequency divided by its own factor: `(dims / 2)`.
    Each(Factors<W>),
    /// Two sets of factors, by how long a sequence may become (`LongRoPE`: Ding 2024, arXiv:2402.13753).
    LongShort {
        /// Sequences that may grow past this many tokens take the long factors.
        original_context_tokens: u32,
        /// For sequences that may grow longer.
        long: Factors<W>,
        /// For all others.
        short: Factors<W>,
        /// Factor on the sines and cosines.
        attention_factor: f32,
    },
}

/// Rope factors, where the file keeps them.
#[derive(Clone, Debug)]
pub enum Factors<W> {
    /// A tensor.
    Tensor(W),
    /// Numbers of the configuration.
    Numbers(Vec<f32>),
}

impl<W> Shape<W> {
    /// The same shape with `map` applied to every weight slot, in the order of the forward pass; stops at the first error.
    ///
    /// # Errors
    /// The first that `map` returns.
    pub fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Shape<V>, E> {
        Ok(Shape {
            family: self.family,
            hidden: self.hidden,
            vocab: self.vocab,
            context_tokens: self.context_tokens,
            embed: self.embed.try_map(map)?,
            ropes: self.ropes.iter().map(|rope| rope.try_map(map)).collect::<Result<_, _>>()?,
            blocks: self.blocks.iter().map(|block| block.try_map(map)).collect::<Result<_, _>>()?,
            norm: self.norm.try_map(map)?,
            head: Head {
                output: self.head.output.as_ref().map(|output| output.try_map(map)).transpose()?,
                scale: self.head.scale,
                soft_cap: self.head.soft_cap,
            },
            summary: self.summary.try_map(map)?,
            left_out: self.left_out.clone(),
        })
    }

    /// Calls `visit` with every weight slot, in the order of the forward pass.
    pub fn for_each(&self, mut visit: impl FnMut(&W)) {
        let Ok(_) = self.try_map(&mut |weight| {
            visit(weight);
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// Values cached for every token of a sequence, over all layers (keys and values).
    pub fn cached_values_per_token(&self) -> u64 {
        self.mixers().map(Mixer::cached_values_per_token).sum()
    }

    /// Values kept for every sequence whatever its length, over all layers, in `f32`.
    pub fn state_values_per_sequence(&self) -> u64 {
        self.blocks.iter().map(|block| block.state().values()).sum()
    }

    /// The longest window of its layers that look back over one, if there are any.
    pub fn widest_window(&self) -> Option<u32> {
        self.mixers().filter_map(|mixer| mixer.attention()?.slides()).max()
    }

    /// Whether some token sees those behind it: then a text is computed in one step, or not at all.
    pub fn reads_both_ways(&self) -> bool {
        self.mixers().filter_map(Mixer::attention).any(|attention| attention.both_ways)
    }

    /// The mixers of all layers that have one.
    pub fn mixers(&self) -> impl Iterator<Item = &Mixer<W>> {
        self.blocks.iter().filter_map(Block::mixer)
    }

    /// The feed-forward networks of all layers that have one.
    pub fn ffns(&self) -> impl Iterator<Item = &Ffn<W>> {
        self.blocks.iter().filter_map(|block| block.ffn.as_ref()).map(|branch| &branch.op)
    }
}

impl<W> Embed<W> {
    fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Embed<V>, E> {
        Ok(Embed {
            table: map(&self.table)?,
            scale: self.scale,
            places: self.places.as_ref().map(&mut *map).transpose()?,
            kinds: self.kinds.as_ref().map(&mut *map).transpose()?,
            norm: self.norm.as_ref().map(|norm| norm.try_map(map)).transpose()?,
        })
    }
}

impl<W> Block<W> {
    /// The mixer, if it has one.
    pub fn mixer(&self) -> Option<&Mixer<W>> {
        self.mixer.as_ref().map(|branch| &branch.op)
    }

    /// What both branches keep for a sequence whatever its length.
    pub fn state(&self) -> State {
        let mixer = self.mixer().map(Mixer::state).unwrap_or_default();
        State { shifted: self.ffn.as_ref().map_or(0, |branch| branch.op.shifted()), ..mixer }
    }

    fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Block<V>, E> {
        Ok(Block {
            mixer: self.mixer.as_ref().map(|branch| branch.try_map(map, Mixer::try_map)).transpose()?,
            ffn: self.ffn.as_ref().map(|branch| branch.try_map(map, Ffn::try_map)).transpose()?,
            wiring: self.wiring,
        })
    }
}

impl<T, W> Branch<T, W> {
    fn try_map<U, V, E, F: FnMut(&W) -> Result<V, E>>(
        &self,
        map: &mut F,
        inside: impl FnOnce(&T, &mut F) -> Result<U, E>,
    ) -> Result<Branch<U, V>, E> {
        Ok(Branch {
            norm: self.norm.as_ref().map(|norm| norm.try_map(map)).transpose()?,
            op: inside(&self.op, map)?,
            post_norm: self.post_norm.as_ref().map(|norm| norm.try_map(map)).transpose()?,
            scale: self.scale,
        })
    }
}

impl<W> Mixer<W> {
    /// The attention in it, whose keys and values are cached.
    pub fn attention(&self) -> Option<&Attention<W>> {
        match self {
            Self::Attention(attention) | Self::Parallel(Parallel { attention, .. }) => Some(attention),
            Self::Latent(_)
            | Self::ShortConv(_)
            | Self::StateSpace(_)
            | Self::Selective(_)
            | Self::GatedDelta(_)
            | Self::TimeMix(_) => None,
        }
    }

    /// The latent attention in it, whose rows are cached.
    pub fn latent(&self) -> Option<&Latent<W>> {
        match self {
            Self::Latent(latent) => Some(latent),
            Self::Attention(_)
            | Self::ShortConv(_)
            | Self::StateSpace(_)
            | Self::Selective(_)
            | Self::GatedDelta(_)
            | Self::Parallel(_)
            | Self::TimeMix(_) => None,
        }
    }

    /// The convolution in it, whose last inputs are kept.
    pub fn convolution(&self) -> Option<&Convolution<W>> {
        match self {
            Self::Attention(_) | Self::Latent(_) | Self::TimeMix(_) => None,
            Self::ShortConv(short) => Some(&short.convolution),
            Self::StateSpace(space) | Self::Parallel(Parallel { space, .. }) => Some(&space.convolution),
            Self::Selective(selective) => Some(&selective.convolution),
            Self::GatedDelta(delta) => Some(&delta.convolution),
        }
    }

    /// Values that one token adds to the cache of this layer.
    pub fn cached_values_per_token(&self) -> u64 {
        let rows = self.latent().map_or(0, |latent| u64::from(latent.row()));
        let keys =
            self.attention().map_or(0, |attention| u64::from(attention.kv_heads) * u64::from(attention.head_dim));
        rows + 2 * keys
    }

    /// What this layer keeps for a sequence whatever its length.
    pub fn state(&self) -> State {
        match self {
            Self::Attention(_) | Self::Latent(_) => State::default(),
            Self::ShortConv(short) => State { tail: short.convolution.tail(), ..State::default() },
            Self::StateSpace(space) | Self::Parallel(Parallel { space, .. }) => space.kept(),
            Self::Selective(selective) => selective.kept(),
            Self::GatedDelta(delta) => delta.kept(),
            Self::TimeMix(mix) => mix.kept(),
        }
    }

    fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Mixer<V>, E> {
        Ok(match self {
            Self::Attention(attention) => Mixer::Attention(attention.try_map(map)?),
            Self::ShortConv(short) => Mixer::ShortConv(short.try_map(map)?),
            Self::StateSpace(space) => Mixer::StateSpace(space.try_map(map)?),
            Self::Selective(selective) => Mixer::Selective(selective.try_map(map)?),
            Self::GatedDelta(delta) => Mixer::GatedDelta(delta.try_map(map)?),
            Self::Parallel(parallel) => Mixer::Parallel(parallel.try_map(map)?),
            Self::Latent(latent) => Mixer::Latent(latent.try_map(map)?),
            Self::TimeMix(mix) => Mixer::TimeMix(mix.try_map(map)?),
        })
    }
}

impl<W> Attention<W> {
    /// The tokens that it ever looks back over, itself included, where what is further back is of no more use to it.
    pub fn slides(&self) -> Option<u32> {
        self.window_tokens.filter(|_| !self.both_ways)
    }

    fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Attention<V>, E> {
        Ok(Attention {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            gated: self.gated,
            q: self.q.try_map(map)?,
            k: self.k.try_map(map)?,
            v: self.v.try_map(map)?,
            q_norm: self.q_norm.as_ref().map(|norm| norm.try_map(map)).transpose()?,
            k_norm: self.k_norm.as_ref().map(|norm| norm.try_map(map)).transpose()?,
            output: self.output.try_map(map)?,
            rope: self.rope,
            window_tokens: self.window_tokens,
            both_ways: self.both_ways,
            soft_cap: self.soft_cap,
            scale: self.scale,
            alibi: self.alibi,
            sinks: self.sinks.as_ref().map(map).transpose()?,
        })
    }
}

impl<W> Ffn<W> {
    fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Ffn<V>, E> {
        Ok(match self {
            Self::Dense(dense) => Ffn::Dense(dense.try_map(map)?),
            Self::Moe(moe) => Ffn::Moe(moe.try_map(map)?),
            Self::Shifted(shifted) => Ffn::Shifted(shifted.try_map(map, Dense::try_map)?),
            Self::Apart(shared) => Ffn::Apart(shared.as_ref().map(|shared| shared.try_map(map)).transpose()?),
        })
    }

    /// The widths of the networks inside.
    pub fn widths(&self) -> impl Iterator<Item = u32> {
        let (dense, moe) = match self {
            Self::Dense(dense) | Self::Shifted(Leaning { op: dense, .. }) => (Some(dense), None),
            Self::Moe(moe) => (moe.shared.as_ref().map(|shared| &shared.dense), Some(moe)),
            Self::Apart(shared) => (shared.as_ref().map(|shared| &shared.dense), None),
        };
        dense.into_iter().chain(moe.into_iter().flat_map(|moe| &moe.experts)).map(|dense| dense.up.rows)
    }

    /// The experts, where it is made of such.
    pub fn moe(&self) -> Option<&Moe<W>> {
        match self {
            Self::Dense(_) | Self::Shifted(_) | Self::Apart(_) => None,
            Self::Moe(moe) => Some(moe),
        }
    }

    /// Whether another device has its experts.
    pub fn is_apart(&self) -> bool {
        match self {
            Self::Dense(_) | Self::Moe(_) | Self::Shifted(_) => false,
            Self::Apart(_) => true,
        }
    }

    /// Values of the last input that it keeps for a sequence.
    pub fn shifted(&self) -> u64 {
        match self {
            Self::Dense(_) | Self::Moe(_) | Self::Apart(_) => 0,
            Self::Shifted(shifted) => u64::from(shifted.op.up.columns),
        }
    }
}

impl<W> From<Attention<W>> for Mixer<W> {
    fn from(attention: Attention<W>) -> Self {
        Self::Attention(attention)
    }
}

impl<W> From<Dense<W>> for Ffn<W> {
    fn from(dense: Dense<W>) -> Self {
        Self::Dense(dense)
    }
}

impl<W> From<Moe<W>> for Ffn<W> {
    fn from(moe: Moe<W>) -> Self {
        Self::Moe(moe)
    }
}

impl<W> Dense<W> {
    fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Dense<V>, E> {
        Ok(Dense {
            gate: self.gate.as_ref().map(|gate| gate.try_map(map)).transpose()?,
            up: self.up.try_map(map)?,
            down: self.down.try_map(map)?,
            activation: self.activation,
            gate_scale: self.gate_scale,
        })
    }
}

impl<W> Linear<W> {
    fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Linear<V>, E> {
        Ok(Linear {
            rows: self.rows,
            columns: self.columns,
            weight: map(&self.weight)?,
            bias: self.bias.as_ref().map(map).transpose()?,
        })
    }
}

impl<W> Norm<W> {
    fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Norm<V>, E> {
        Ok(Norm {
            kind: self.kind,
            width: self.width,
            epsilon: self.epsilon,
            weight: map(&self.weight)?,
            bias: self.bias.as_ref().map(map).transpose()?,
        })
    }
}

impl<W> Rope<W> {
    fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Rope<V>, E> {
        let scaling = match &self.scaling {
            RopeScaling::None => RopeScaling::None,
            RopeScaling::Linear { factor } => RopeScaling::Linear { factor: *factor },
            RopeScaling::Llama3 { factor, low, high, original_context_tokens } => RopeScaling::Llama3 {
                factor: *factor,
                low: *low,
                high: *high,
                original_context_tokens: *original_context_tokens,
            },
            RopeScaling::Yarn {
                factor,
                slow_turns,
                fast_turns,
                original_context_tokens,
                whole_pairs,
                attention_factor,
            } => RopeScaling::Yarn {
                factor: *factor,
                slow_turns: *slow_turns,
                fast_turns: *fast_turns,
                original_context_tokens: *original_context_tokens,
                whole_pairs: *whole_pairs,
                attention_factor: *attention_factor,
            },
            RopeScaling::Each(factors) => RopeScaling::Each(factors.try_map(map)?),
            RopeScaling::LongShort { original_context_tokens, long, short, attention_factor } => {
                RopeScaling::LongShort {
                    original_context_tokens: *original_context_tokens,
                    long: long.try_map(map)?,
                    short: short.try_map(map)?,
                    attention_factor: *attention_factor,
                }
            }
        };
        Ok(Rope { style: self.style, dims: self.dims, base: self.base, scaling })
    }
}

impl<W> Factors<W> {
    fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Factors<V>, E> {
        Ok(match self {
            Self::Tensor(weight) => Factors::Tensor(map(weight)?),
            Self::Numbers(numbers) => Factors::Numbers(numbers.clone()),
        })
    }
}
