//! Mixers that keep a state of fixed size for each sequence instead of a cache that grows with it.

use super::{Activation, Attention, Linear, Norm};

/// A causal convolution of each channel over its last `taps` tokens:
/// `y[t][c] = activation(bias[c] + sum over i of weight[c][i] * x[t - taps + 1 + i][c])`.
#[derive(Clone, Debug)]
pub struct Convolution<W> {
    /// Values of a token, each convolved by itself.
    pub channels: u32,
    /// Tokens that an output sees, its own included; at least two.
    pub taps: u32,
    /// `(channels, taps)`, a vector: the oldest token first.
    pub weight: W,
    /// `(channels)`.
    pub bias: Option<W>,
    /// On what comes out.
    pub activation: Activation,
}

/// A short convolution between two gates: `output(after(x) * convolution(before(x) * input(x)))` (LFM2: Liquid AI 2025,
/// arXiv:2511.23404).
#[derive(Clone, Debug)]
pub struct ShortConv<W> {
    /// Factor on what the convolution reads: `(channels, hidden)`.
    pub before: Linear<W>,
    /// Factor on what it gives: `(channels, hidden)`.
    pub after: Linear<W>,
    /// What is convolved: `(channels, hidden)`.
    pub input: Linear<W>,
    /// Over all channels, without an activation.
    pub convolution: Convolution<W>,
    /// `(hidden, channels)`.
    pub output: Linear<W>,
}

/// A selective state space with a scalar decay for each head (Mamba-2: Dao and Gu 2024, arXiv:2405.21060).
///
/// With `x`, `b`, `c` from the convolution, `s = clamp(softplus(step(input) + step_bias))` and `a = exp(s * decay)` of the
/// head, a state of `(head_dim, state)` goes on as `h = a * h + s * x b^T`, and the head gives `h c + skip * x`; then the gate
/// and the norm, in one order or the other, and the output.
#[derive(Clone, Debug)]
pub struct StateSpace<W> {
    /// Heads, each with a state and a decay.
    pub heads: u32,
    /// Values of a head.
    pub head_dim: u32,
    /// Heads share `b` and `c` in this many groups; `heads` is a multiple.
    pub groups: u32,
    /// Columns of the state, values of `b` and `c` of a group.
    pub state: u32,
    /// `(heads * head_dim, hidden)`.
    pub gate: Linear<W>,
    /// `(heads * head_dim + 2 * groups * state, hidden)`: `x`, then `b` of all groups, then `c`.
    pub input: Linear<W>,
    /// `(heads, hidden)`.
    pub step: Linear<W>,
    /// Over the rows of `input`.
    pub convolution: Convolution<W>,
    /// `(heads)`: negative.
    pub decay: W,
    /// `(heads)`.
    pub step_bias: W,
    /// The smallest and the largest step.
    pub step_limits: [f32; 2],
    /// `(heads)`.
    pub skip: W,
    /// Over each group of heads.
    pub norm: Option<Norm<W>>,
    /// Whether the norm comes before the gate.
    pub norm_first: bool,
    /// Factors on what the projections give.
    pub scales: StateSpaceScales,
    /// `(hidden, heads * head_dim)`.
    pub output: Linear<W>,
}

/// Factors on what the projections of a [`StateSpace`] give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StateSpaceScales {
    /// On the gate.
    pub gate: f32,
    /// On the three parts of the input: `x`, `b`, `c`.
    pub input: [f32; 3],
    /// On the step.
    pub step: f32,
}

/// The gated delta rule (Yang 2024, arXiv:2412.06464; in Qwen3-Next and Qwen3.5).
///
/// With `q`, `k` of unit length and `v` from the convolution, `q` divided by `sqrt(key_dim)`, a state of `(key_dim,
/// value_dim)` for each value head goes on as `h = a * h; h = h + k (r * (v - k h))` with `a = exp(decay * softplus(steps +
/// step_bias))` and `r = sigmoid(rates)`, and the head gives `q h`; then the norm, the gate and the output.
#[derive(Clone, Debug)]
pub struct GatedDelta<W> {
    /// Heads of `q` and `k`.
    pub key_heads: u32,
    /// Heads of `v`, each with a state; a multiple of `key_heads`.
    pub value_heads: u32,
    /// Values of a head of `q` and `k`.
    pub key_dim: u32,
    /// Values of a head of `v`.
    pub value_dim: u32,
    /// Whether value head `h` goes with key head `h % key_heads`; else as many neighbours go with each key head.
    pub interleaved: bool,
    /// `(2 * key_heads * key_dim + value_heads * value_dim, hidden)`: `q` of all heads, then `k`, then `v`. Where there is no
    /// `gate`, key head after key head: `q`, `k`, the `v` that go with it, and their gates.
    pub input: Linear<W>,
    /// `(value_heads * value_dim, hidden)`.
    pub gate: Option<Linear<W>>,
    /// `(value_heads, hidden)`. Where there are no `steps`, key head after key head: the rates of the value heads that go with
    /// it, and their steps.
    pub rates: Linear<W>,
    /// `(value_heads, hidden)`.
    pub steps: Option<Linear<W>>,
    /// Over `q`, `k` and `v` of all heads.
    pub convolution: Convolution<W>,
    /// `(value_heads)`: negative.
    pub decay: W,
    /// `(value_heads)`.
    pub step_bias: W,
    /// Added under the root where `q` and `k` are brought to unit length.
    pub epsilon: f32,
    /// On each head.
    pub norm: Norm<W>,
    /// `(hidden, value_heads * value_dim)`.
    pub output: Linear<W>,
}

/// Attention and a state space side by side on one norm, each with a factor on what it adds (Falcon-H1: TII 2025,
/// arXiv:2507.22448).
#[derive(Clone, Debug)]
pub struct Parallel<W> {
    /// The one.
    pub attention: Attention<W>,
    /// Factor on what attention adds.
    pub attention_scale: f32,
    /// The other.
    pub space: StateSpace<W>,
    /// Factor on what the state space adds.
    pub space_scale: f32,
}

/// What a mixer keeps for a sequence whatever its length, in `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Values of the mixer's last inputs: (taps - 1, channels) of a convolution, (hidden) of a shift.
    pub tail: u64,
    /// Values of the recurrence.
    pub recurrent: u64,
    /// Values of the last input of the feed-forward network: (hidden).
    pub shifted: u64,
}

impl State {
    /// All together.
    pub fn values(self) -> u64 {
        self.tail + self.recurrent + self.shifted
    }
}

impl Default for StateSpaceScales {
    fn default() -> Self {
        Self { gate: 1.0, input: [1.0; 3], step: 1.0 }
    }
}

impl<W> Convolution<W> {
    /// Values of the inputs that the next token sees.
    pub fn tail(&self) -> u64 {
        u64::from(self.taps - 1) * u64::from(self.channels)
    }

    pub(super) fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Convolution<V>, E> {
        Ok(Convolution {
            channels: self.channels,
            taps: self.taps,
            weight: map(&self.weight)?,
            bias: self.bias.as_ref().map(map).transpose()?,
            activation: self.activation,
        })
    }
}

impl<W> ShortConv<W> {
    pub(super) fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<ShortConv<V>, E> {
        Ok(ShortConv {
            before: self.before.try_map(map)?,
            after: self.after.try_map(map)?,
            input: self.input.try_map(map)?,
            convolution: self.convolution.try_map(map)?,
            output: self.output.try_map(map)?,
        })
    }
}

impl<W> StateSpace<W> {
    /// Values that the heads give: `heads * head_dim`.
    pub fn width(&self) -> u32 {
        self.heads * self.head_dim
    }

    /// What it keeps for a sequence.
    pub fn kept(&self) -> State {
        let recurrent = u64::from(self.width()) * u64::from(self.state);
        State { tail: self.convolution.tail(), recurrent, shifted: 0 }
    }

    pub(super) fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<StateSpace<V>, E> {
        Ok(StateSpace {
            heads: self.heads,
            head_dim: self.head_dim,
            groups: self.groups,
            state: self.state,
            gate: self.gate.try_map(map)?,
            input: self.input.try_map(map)?,
            step: self.step.try_map(map)?,
            convolution: self.convolution.try_map(map)?,
            decay: map(&self.decay)?,
            step_bias: map(&self.step_bias)?,
            step_limits: self.step_limits,
            skip: map(&self.skip)?,
            norm: self.norm.as_ref().map(|norm| norm.try_map(map)).transpose()?,
            norm_first: self.norm_first,
            scales: self.scales,
            output: self.output.try_map(map)?,
        })
    }
}

impl<W> GatedDelta<W> {
    /// Values of `q` of all heads: `key_heads * key_dim`.
    pub fn key_width(&self) -> u32 {
        self.key_heads * self.key_dim
    }

    /// Values that the heads give: `value_heads * value_dim`.
    pub fn width(&self) -> u32 {
        self.value_heads * self.value_dim
    }

    /// What it keeps for a sequence.
    pub fn kept(&self) -> State {
        let recurrent = u64::from(self.width()) * u64::from(self.key_dim);
        State { tail: self.convolution.tail(), recurrent, shifted: 0 }
    }

    pub(super) fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<GatedDelta<V>, E> {
        Ok(GatedDelta {
            key_heads: self.key_heads,
            value_heads: self.value_heads,
            key_dim: self.key_dim,
            value_dim: self.value_dim,
            interleaved: self.interleaved,
            input: self.input.try_map(map)?,
            gate: self.gate.as_ref().map(|gate| gate.try_map(map)).transpose()?,
            rates: self.rates.try_map(map)?,
            steps: self.steps.as_ref().map(|steps| steps.try_map(map)).transpose()?,
            convolution: self.convolution.try_map(map)?,
            decay: map(&self.decay)?,
            step_bias: map(&self.step_bias)?,
            epsilon: self.epsilon,
            norm: self.norm.try_map(map)?,
            output: self.output.try_map(map)?,
        })
    }
}

impl<W> Parallel<W> {
    pub(super) fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Parallel<V>, E> {
        Ok(Parallel {
            attention: self.attention.try_map(map)?,
            attention_scale: self.attention_scale,
            space: self.space.try_map(map)?,
            space_scale: self.space_scale,
        })
    }
}
