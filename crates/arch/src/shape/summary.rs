//! What becomes of a text that is read for a vector or a score, not to be continued.

use super::{Linear, Norm};

/// How the rows of a text become one vector, and what that goes through.
#[derive(Clone, Debug)]
pub struct Summary<W> {
    /// Which rows it is made of.
    pub pooling: Pooling,
    /// What the vector goes through, one after the other.
    pub refinements: Vec<Refinement<W>>,
    /// Whether those end in scores of labels, one or two: a text is judged, and its vector is what they begin with.
    pub judges: bool,
}

/// How the rows of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first, of the token that begins a text.
    First,
    /// The last, of the token that ends it.
    Last,
    /// They stay apart: a vector for each token.
    Each,
}

/// `norm(curve(linear(x)))`.
#[derive(Clone, Debug)]
pub struct Refinement<W> {
    /// `(outputs, inputs)`.
    pub linear: Linear<W>,
    /// Of each output.
    pub curve: Curve,
    /// Behind it.
    pub norm: Option<Norm<W>>,
}

/// The elementwise functions of refinements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// `x`.
    Line,
    /// `tanh(x)`.
    Tanh,
    /// `x * normal_cdf(x)` with the error function.
    Gelu,
}

impl<W> Summary<W> {
    /// One that only pools.
    pub fn pooled(pooling: Pooling) -> Self {
        Self { pooling, refinements: Vec::new(), judges: false }
    }

    /// The same with `map` applied to every weight slot.
    ///
    /// # Errors
    /// The first that `map` returns.
    pub fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Summary<V>, E> {
        let refinements = self.refinements.iter().map(|refinement| {
            Ok(Refinement {
                linear: refinement.linear.try_map(map)?,
                curve: refinement.curve,
                norm: refinement.norm.as_ref().map(|norm| norm.try_map(map)).transpose()?,
            })
        });
        Ok(Summary { pooling: self.pooling, refinements: refinements.collect::<Result<_, _>>()?, judges: self.judges })
    }
}

impl Pooling {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Mean, Self::First, Self::Last, Self::Each];

    /// The name that people know it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::First => "cls",
            Self::Last => "last",
            Self::Each => "none",
        }
    }
}
