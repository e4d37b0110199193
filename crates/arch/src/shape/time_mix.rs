//! RWKV-7's mixing of tokens, and what its feed-forward network reads: between each token's input and that of the one before.

use super::{Dense, Linear, Norm, State};

/// RWKV-7's time mixing (Peng 2025, arXiv:2503.14456).
///
/// All projections read inputs that lean towards the token before. `v` goes part of the way to the `v` of the first layer,
/// `v = v + (first - v) * sigmoid(residual)`. With `w = exp(-e^-0.5 * sigmoid(decay))`, `a = sigmoid(rate)`, `u` each head's
/// `k * removal` brought to unit length and `k` replaced by `k * (1 + (a - 1) * insertion)`, a state of `(head_dim, head_dim)` for each
/// head, keys by values, goes on as `h = w h - (u * a) (u h) + k v`, and the head gives `r h`; then the norm, the addition of
/// `(r * k * bonus) v`, the gate and the output.
#[derive(Clone, Debug)]
pub struct TimeMix<W> {
    /// Heads, each with a state.
    pub heads: u32,
    /// Values of a head.
    pub head_dim: u32,
    /// `(heads * head_dim, hidden)`.
    pub r: Leaning<Linear<W>, W>,
    /// `(heads * head_dim, hidden)`.
    pub k: Leaning<Linear<W>, W>,
    /// `(heads * head_dim, hidden)`.
    pub v: Leaning<Linear<W>, W>,
    /// How fast each value of a key is forgotten: `hidden` to `heads * head_dim` values by way of a few.
    pub decay: Leaning<Dense<W>, W>,
    /// How far what a key has is replaced: as `decay`.
    pub rate: Leaning<Dense<W>, W>,
    /// How far `v` goes to the first layer's, of what `v` reads; none in the layer whose `v` is the first.
    pub residual: Option<Dense<W>>,
    /// What lets the result pass: as `decay`.
    pub gate: Option<Leaning<Dense<W>, W>>,
    /// `(heads * head_dim)`: of a key, what is taken away by.
    pub removal: W,
    /// `(heads * head_dim)`: how much the rate counts for what is put in by.
    pub insertion: W,
    /// `(heads * head_dim)`: how much of a token's own value passes by.
    pub bonus: W,
    /// On each head, with weights of its own.
    pub norm: Option<Norm<W>>,
    /// `(hidden, heads * head_dim)`.
    pub output: Linear<W>,
}

/// What reads `x + lean * (before - x)`, where `before` is the input of the token before, zeros before the first.
#[derive(Clone, Debug)]
pub struct Leaning<T, W> {
    /// `(hidden)`.
    pub lean: W,
    /// What reads it.
    pub op: T,
}

impl<W> TimeMix<W> {
    /// Values that the heads give: `heads * head_dim`.
    pub fn width(&self) -> u32 {
        self.heads * self.head_dim
    }

    /// Widest of the few values by way of which others are made.
    pub fn rank(&self) -> u32 {
        let gate = self.gate.as_ref().map(|gate| &gate.op);
        let ways = [Some(&self.decay.op), Some(&self.rate.op), self.residual.as_ref(), gate];
        ways.into_iter().flatten().map(|dense| dense.up.rows).max().unwrap_or(0)
    }

    /// What it keeps for a sequence.
    pub fn kept(&self) -> State {
        let recurrent = u64::from(self.width()) * u64::from(self.head_dim);
        State { tail: u64::from(self.r.op.columns), recurrent, shifted: 0 }
    }

    pub(super) fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<TimeMix<V>, E> {
        Ok(TimeMix {
            heads: self.heads,
            head_dim: self.head_dim,
            r: self.r.try_map(map, Linear::try_map)?,
            k: self.k.try_map(map, Linear::try_map)?,
            v: self.v.try_map(map, Linear::try_map)?,
            decay: self.decay.try_map(map, Dense::try_map)?,
            rate: self.rate.try_map(map, Dense::try_map)?,
            residual: self.residual.as_ref().map(|dense| dense.try_map(map)).transpose()?,
            gate: self.gate.as_ref().map(|gate| gate.try_map(map, Dense::try_map)).transpose()?,
            removal: map(&self.removal)?,
            insertion: map(&self.insertion)?,
            bonus: map(&self.bonus)?,
            norm: self.norm.as_ref().map(|norm| norm.try_map(map)).transpose()?,
            output: self.output.try_map(map)?,
        })
    }
}

impl<T, W> Leaning<T, W> {
    pub(super) fn try_map<U, V, E, F: FnMut(&W) -> Result<V, E>>(
        &self,
        map: &mut F,
        inside: impl FnOnce(&T, &mut F) -> Result<U, E>,
    ) -> Result<Leaning<U, V>, E> {
        Ok(Leaning { lean: map(&self.lean)?, op: inside(&self.op, map)? })
    }
}
