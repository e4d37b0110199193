//! Mixtures of experts, read from a [`Config`]: a family's file says only where it differs.

use serde_json::Value as Json;

use crate::config::{Config, Error};
use crate::decoder::{FFN_MAX, Layer, Numbers};
use crate::name::{Name, Role};
use crate::shape::{Activation, Dense, Ffn, GroupRank, Groups, Linear, Moe, Scoring, Shared};

// Limits on a description from outside.
const EXPERTS_MAX: u32 = 1 << 10;
const SHARED_MAX: u32 = 1 << 6;
/// Of all layers together: a shape names three tensors or parts for each.
const ALL_EXPERTS_MAX: u32 = 1 << 16;

/// The numbers of a mixture of experts.
#[derive(Clone, Debug)]
pub struct Experts {
    /// How many.
    pub count: u32,
    /// How many a token goes through.
    pub chosen: u32,
    /// Width of one.
    pub width: u32,
    /// Width of the network that every token goes through besides; zero where there is none.
    pub shared_width: u32,
    /// How scores become weights.
    pub scoring: Scoring,
    /// Whether the choice has a bias.
    pub biased: bool,
    /// Groups of experts, where the choice is made in two steps.
    pub groups: Option<Groups>,
    /// What is added to the sum that weights are divided by, if they are.
    pub normalised: Option<f32>,
    /// Factor on every weight.
    pub scale: f32,
    /// Of all networks.
    pub activation: Activation,
    /// Whether networks have a gate.
    pub gated: bool,
    /// The gate of the shared network is a tensor.
    pub shared_gate: bool,
    /// Which layers have experts.
    pub layers: Vec<bool>,
}

impl Experts {
    /// Reads the settings that every mixture of experts has; scores become weights in the `usual` way unless the configuration names
    /// another, and weights are divided by their sum where it says so.
    ///
    /// # Errors
    /// When a setting is missing or out of bounds, or the router is of a kind that no shape has.
    pub fn read(config: &Config<'_>, numbers: &Numbers, usual: Scoring) -> Result<Self, Error> {
        let count = config.count("expert_count", EXPERTS_MAX.min(ALL_EXPERTS_MAX / numbers.layers))?;
        let chosen = config.count("expert_used_count", EXPERTS_MAX)?;
        if chosen > count {
            let expected = format!("a whole number from 1 to {count}, the number of experts");
            return Err(config.invalid("expert_used_count", &chosen.to_string(), &expected));
        }
        let shared = config.optional_count("expert_shared_count", SHARED_MAX)?.unwrap_or(0);
        let width = config.optional_count("expert_feed_forward_length", FFN_MAX)?.unwrap_or(numbers.ffn);
        let shared_width = config.optional_count("expert_shared_feed_forward_length", FFN_MAX)?;
        Ok(Self {
            count,
            chosen,
            width,
            shared_width: shared_width.unwrap_or(shared.saturating_mul(width)),
            scoring: scoring(config)?.unwrap_or(usual),
            biased: false,
            groups: groups(config, count, chosen)?,
            normalised: config.flag("expert_weights_norm")?.then_some(0.0),
            scale: config.optional_positive("expert_weights_scale")?.unwrap_or(1.0),
            activation: numbers.activation.unwrap_or(Activation::Silu),
            gated: true,
            shared_gate: false,
            layers: layers(config, numbers.layers)?,
        })
    }
}

/// The scoring that the configuration names.
fn scoring(config: &Config<'_>) -> Result<Option<Scoring>, Error> {
    let Some(setting) = config.setting("expert_gating_func") else { return Ok(None) };
    // A GGUF has a number for it; zero says nothing.
    match (config.text("expert_gating_func"), setting.as_u64()) {
        (None, Some(0)) => Ok(None),
        (Some("softmax"), _) | (None, Some(1)) => Ok(Some(Scoring::Softmax)),
        (Some("sigmoid"), _) | (None, Some(2)) => Ok(Some(Scoring::Sigmoid)),
        (None, Some(3)) => Ok(Some(Scoring::SoftmaxOfChosen)),
        _ => Err(config.unsupported(format!("a router that scores experts by {}", setting.show()))),
    }
}

/// Groups of experts; one group of all is none. Where there is a bias, groups are judged by their two best (`DeepSeek` 2024,
/// arXiv:2412.19437); the family says where it is otherwise.
fn groups(config: &Config<'_>, experts: u32, chosen: u32) -> Result<Option<Groups>, Error> {
    let Some(count) = config.optional_count("expert_group_count", EXPERTS_MAX)?.filter(|&count| count > 1) else {
        return Ok(None);
    };
    let kept = config.count("expert_group_used_count", count)?;
    let size = experts / count;
    if !experts.is_multiple_of(count) || size < 2 || chosen > kept * size {
        let expected = format!("groups of two or more of {experts} experts, with {chosen} in those that stay");
        return Err(config.invalid("expert_group_count", &count.to_string(), &expected));
    }
    Ok(Some(Groups { count, kept, rank: GroupRank::TwoBest }))
}

/// Which of so many layers have experts: not the first few, every so many from there, none of those listed.
fn layers(config: &Config<'_>, count: u32) -> Result<Vec<bool>, Error> {
    let first = config.optional_count("leading_dense_block_count", u32::MAX)?.unwrap_or(0);
    let step = config.optional_count("interleave_moe_layer_step", u32::MAX)?.unwrap_or(1);
    // Minus one says that there is no end.
    let end = config.json("moe_layer_end_index").and_then(Json::as_u64).unwrap_or(u64::from(u32::MAX));
    let mut layers: Vec<bool> =
        (0..count).map(|index| index >= first && (index + 1) % step == 0 && u64::from(index) <= end).collect();
    if let Some(list) = config.json("mlp_only_layers") {
        let expected = format!("a list of layers under {count}");
        let wrong = || config.invalid("mlp_only_layers", &list.to_string(), &expected);
        for index in list.as_array().ok_or_else(wrong)? {
            let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
            *index.and_then(|index| layers.get_mut(index)).ok_or_else(wrong)? = false;
        }
    }
    Ok(layers)
}

impl Layer<'_> {
    /// The network of this layer: experts, or a dense one where the configuration has none.
    pub fn dense_or_moe(&self, experts: &Experts) -> Ffn<Name> {
        if experts.layers[self.index as usize] { self.moe(experts).into() } else { self.gated(Activation::Silu).into() }
    }

    /// The usual mixture of gated experts: a stack of each matrix in a GGUF, separate ones or a stack in safetensors; the gate and
    /// what goes with it apart, or one above the other in one matrix.
    pub fn moe(&self, experts: &Experts) -> Moe<Name> {
        let hidden = self.numbers().hidden;
        let Experts { count, width, shared_width, activation, gated, .. } = *experts;
        let one_matrix = self.has_part("ffn_gate_up_exps.weight", 0);
        let codes = self.has_part("ffn_gate_up_exps.blocks", 0);
        let expert = |index| {
            if codes {
                let gates = self.coded("ffn_gate_up_exps", [index, count], 2 * width, hidden);
                let [gate, up] = [0, 1].map(|first| every_second(&gates, first));
                let down = self.coded("ffn_down_exps", [index, count], hidden, width);
                return Dense { gate: Some(gate), up, down, activation, gate_scale: 1.0 };
            }
            let [gate, up] = if one_matrix {
                halves(&self.expert("ffn_gate_up_exps", [index, count], 2 * width, hidden))
            } else {
                ["ffn_gate_exps", "ffn_up_exps"].map(|slot| self.expert(slot, [index, count], width, hidden))
            };
            let down = self.expert("ffn_down_exps", [index, count], hidden, width);
            Dense { gate: gated.then_some(gate), up, down, activation, gate_scale: 1.0 }
        };
        let shared = (shared_width > 0).then(|| {
            let [gate, up] = if self.has_part("ffn_gate_up_shexp.weight", 0) {
                self.split("ffn_gate_up_shexp", [shared_width; 2], hidden)
            } else {
                ["ffn_gate_shexp", "ffn_up_shexp"].map(|slot| self.linear(slot, shared_width, hidden))
            };
            let down = self.linear("ffn_down_shexp", hidden, shared_width);
            let gates = experts.shared_gate.then(|| self.linear("ffn_gate_inp_shexp", 1, hidden));
            Shared { dense: Dense { gate: gated.then_some(gate), up, down, activation, gate_scale: 1.0 }, gate: gates }
        });
        Moe {
            router: self.linear("ffn_gate_inp", count, hidden),
            scoring: experts.scoring,
            selection_bias: experts.biased.then(|| self.vector("exp_probs_b.bias", count)),
            groups: experts.groups,
            chosen: experts.chosen,
            normalised: experts.normalised,
            scale: experts.scale,
            experts: (0..count).map(expert).collect(),
            shared,
        }
    }

    /// A matrix of one expert of so many, in MXFP4 whose codes and exponents are apart.
    fn coded(&self, slot: &str, [index, count]: [u32; 2], rows: u32, columns: u32) -> Linear<Name> {
        let codes = self.part_of(&format!("{slot}.blocks"), [index, count], &[rows, columns / 32, 16]);
        let scales = self.part_of(&format!("{slot}.scales"), [index, count], &[rows, columns / 32]);
        let weight = Name { role: Role::Coded { scales: scales.tensor, scales_dims: scales.dims }, ..codes };
        let bias = self.part_of(&format!("{slot}.bias"), [index, count], &[rows]);
        Linear { rows, columns, weight, bias: Some(bias) }
    }

    /// A matrix of one expert of so many.
    fn expert(&self, slot: &str, [index, count]: [u32; 2], rows: u32, columns: u32) -> Linear<Name> {
        let (weight, bias) = (format!("{slot}.weight"), format!("{slot}.bias"));
        Linear {
            rows,
            columns,
            weight: self.part_of(&weight, [index, count], &[rows, columns]),
            bias: self.has_part(&bias, index).then(|| self.part_of(&bias, [index, count], &[rows])),
        }
    }
}

/// Every second row of a matrix, from the first or the second on.
fn every_second(whole: &Linear<Name>, first: u64) -> Linear<Name> {
    let part = |name: &Name| {
        let rows = name.slot_rows();
        Name { rows: Some(rows.start + first..rows.end), step: 2, ..name.clone() }
    };
    Linear { rows: whole.rows / 2, weight: part(&whole.weight), bias: whole.bias.as_ref().map(part), ..*whole }
}

/// The upper and the lower half of a matrix.
fn halves(whole: &Linear<Name>) -> [Linear<Name>; 2] {
    [0, 1].map(|half| {
        let part = |name: &Name| {
            let all = name.slot_rows();
            let middle = all.start + (all.end - all.start) / 2;
            let rows = if half == 0 { all.start..middle } else { middle..all.end };
            Name { rows: Some(rows), ..name.clone() }
        };
        Linear { rows: whole.rows / 2, weight: part(&whole.weight), bias: whole.bias.as_ref().map(part), ..*whole }
    })
}
