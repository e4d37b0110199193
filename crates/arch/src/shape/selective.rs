//! Mamba's state space: a decay of its own for each channel and column.

use super::{Convolution, Linear, Norm, State};

/// A selective state space with a decay for each channel and column (Mamba: Gu and Dao 2023, arXiv:2312.00752).
///
/// With `x` from the convolution, `b`, `c` and the few values that `step` reads all projections of `x`, each behind its norm if there
/// are such, and `s = softplus(step(few))` of the channel, a state of `(width, state)` goes on as `h = exp(s * decay) * h + s * x b^T`,
/// and gives `h c + skip * x`; then the gate and the output.
#[derive(Clone, Debug)]
pub struct Selective<W> {
    /// Channels, each with a state.
    pub width: u32,
    /// Columns of the state, values of `b` and `c`.
    pub state: u32,
    /// `(width, hidden)`.
    pub gate: Linear<W>,
    /// `(width, hidden)`.
    pub input: Linear<W>,
    /// Over the rows of `input`.
    pub convolution: Convolution<W>,
    /// What steps are made of: `(rank, width)`.
    pub low: Linear<W>,
    /// `(state, width)`.
    pub b: Linear<W>,
    /// `(state, width)`.
    pub c: Linear<W>,
    /// On what `low`, `b` and `c` give.
    pub norms: Option<[Norm<W>; 3]>,
    /// `(width, rank)`.
    pub step: Linear<W>,
    /// `(width, state)`, a vector: negative.
    pub decay: W,
    /// `(width)`.
    pub skip: W,
    /// `(hidden, width)`.
    pub output: Linear<W>,
}

impl<W> Selective<W> {
    /// What it keeps for a sequence.
    pub fn kept(&self) -> State {
        let recurrent = u64::from(self.width) * u64::from(self.state);
        State { tail: self.convolution.tail(), recurrent, shifted: 0 }
    }

    pub(super) fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Selective<V>, E> {
        Ok(Selective {
            width: self.width,
            state: self.state,
            gate: self.gate.try_map(map)?,
            input: self.input.try_map(map)?,
            convolution: self.convolution.try_map(map)?,
            low: self.low.try_map(map)?,
            b: self.b.try_map(map)?,
            c: self.c.try_map(map)?,
            norms: match &self.norms {
                Some([low, b, c]) => Some([low.try_map(map)?, b.try_map(map)?, c.try_map(map)?]),
                None => None,
            },
            step: self.step.try_map(map)?,
            decay: map(&self.decay)?,
            skip: map(&self.skip)?,
            output: self.output.try_map(map)?,
        })
    }
}
