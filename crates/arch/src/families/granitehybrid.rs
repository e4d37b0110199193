//! Granite 4: state spaces, and attention without rope on every few layers, with Granite's multipliers (IBM 2025).

use super::{Family, granite, granitemoe};
use crate::decoder::Numbers;
use crate::moe::Experts;
use crate::recurrent::Spaces;
use crate::shape::{Activation, Attention, Dense, Mixer, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "granitehybrid",
    gguf: &["granitehybrid"],
    hugging_face: &["GraniteMoeHybridForCausalLM"],
    tensors: granitemoe::TENSORS,
    keys: &[("position_embedding_type", &["position_embedding_type"])],
    shape: |config| {
        let numbers = Numbers::hybrid(config)?;
        if let Some(other) = config.text("position_embedding_type").filter(|kind| *kind != "nope") {
            return Err(config.unsupported(format!("the position embedding {other:?}")));
        }
        let spaces = Spaces::read(config)?;
        let kinds = config.layer_kinds(numbers.layers, &["mamba", "attention"])?;
        let kv_heads = config.counts("attention.head_count_kv", numbers.layers)?;
        let shared_width = config.optional_count("expert_shared_feed_forward_length", 1 << 20)?.unwrap_or(numbers.ffn);
        let experts = match config.optional_count("expert_count", u32::MAX)? {
            Some(_) => Some(Experts::read(config, &numbers, Scoring::SoftmaxOfChosen)?),
            None => None,
        };
        granite::shape(config, &numbers, |layer, attention| {
            let index = layer.index as usize;
            let listed = kinds.as_ref().map(|kinds| kinds[index] == 1);
            let attends = listed.or_else(|| kv_heads.as_ref().map(|heads| heads[index] > 0)).unwrap_or(true);
            let mixer = if attends {
                Mixer::Attention(Attention { rope: None, ..attention })
            } else {
                Mixer::StateSpace(layer.state_space(&spaces))
            };
            let ffn = match &experts {
                Some(experts) => layer.moe(experts).into(),
                None if config.is_gguf() => layer.gated(Activation::Silu).into(),
                None => {
                    let [gate, up] = layer.split("ffn_gate_up_shexp", [shared_width; 2], numbers.hidden);
                    let down = layer.linear("ffn_down_shexp", numbers.hidden, shared_width);
                    Dense { gate: Some(gate), up, down, activation: Activation::Silu, gate_scale: 1.0 }.into()
                }
            };
            layer.block(mixer, ffn)
        })
    },
};
