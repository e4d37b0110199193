//! Mixture of experts: many feed-forward networks, of which a router chooses a few for each token.

use super::{Dense, Linear};

/// Sparsely gated experts (Shazeer 2017, arXiv:1701.06538; Fedus 2021, arXiv:2101.03961): a token's result is the sum of its chosen
/// experts' outputs, each times its weight, and of what is `shared`.
#[derive(Clone, Debug)]
pub struct Moe<W> {
    /// `(experts, hidden)`: what makes a token's scores.
    pub router: Linear<W>,
    /// How scores become weights.
    pub scoring: Scoring,
    /// `(experts)`: added to the scores for the choice only (Wang 2024, arXiv:2408.15664).
    pub selection_bias: Option<W>,
    /// Experts are chosen from the best groups of them only, where set.
    pub groups: Option<Groups>,
    /// Experts of a token.
    pub chosen: u32,
    /// Where set, a token's weights are divided by their sum plus this.
    pub normalised: Option<f32>,
    /// Factor on every weight.
    pub scale: f32,
    /// The experts, all of one size.
    pub experts: Vec<Dense<W>>,
    /// What every token goes through besides.
    pub shared: Option<Shared<W>>,
}

/// What makes the scores of experts comparable, and their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// The softmax over all experts.
    Softmax,
    /// The sigmoid of each.
    Sigmoid,
    /// The scores as they are for the choice, the softmax over the chosen for the weights.
    SoftmaxOfChosen,
}

/// Neighbouring experts, all groups of one size, of which the best few stay in the choice (`DeepSeek` 2024, arXiv:2405.04434).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Groups; a divisor of the experts.
    pub count: u32,
    /// Those that stay.
    pub kept: u32,
    /// What makes a group good.
    pub rank: GroupRank,
}

/// What makes a group of experts good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRank {
    /// Its best score.
    Best,
    /// The sum of its two best.
    TwoBest,
}

/// A network for every token beside the experts.
#[derive(Clone, Debug)]
pub struct Shared<W> {
    /// The network.
    pub dense: Dense<W>,
    /// `(1, hidden)`: the sigmoid of its product is the factor on the network's output.
    pub gate: Option<Linear<W>>,
}

impl<W> Moe<W> {
    pub(super) fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Moe<V>, E> {
        Ok(Moe {
            router: self.router.try_map(map)?,
            scoring: self.scoring,
            selection_bias: self.selection_bias.as_ref().map(&mut *map).transpose()?,
            groups: self.groups,
            chosen: self.chosen,
            normalised: self.normalised,
            scale: self.scale,
            experts: self.experts.iter().map(|expert| expert.try_map(map)).collect::<Result<_, _>>()?,
            shared: self.shared.as_ref().map(|shared| shared.try_map(map)).transpose()?,
        })
    }
}

impl<W> Shared<W> {
    pub(super) fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Shared<V>, E> {
        Ok(Shared {
            dense: self.dense.try_map(map)?,
            gate: self.gate.as_ref().map(|gate| gate.try_map(map)).transpose()?,
        })
    }
}
