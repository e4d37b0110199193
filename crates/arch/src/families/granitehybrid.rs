//! Granite 4: state spaces, and attention without rope on every few layers, with Granite's multipliers (IBM 2025).

use super::{Family, granite, granitemoe};
use crate::decoder::Numbers;
use crate::moe::Experts;
use crate::recurrent::{Spaces, attending_layers};
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
        let attends = attending_layers(config, numbers.layers, &["mamba", "attention"])?;
        let shared_width = config.optional_count("expert_shared_feed_forward_length", 1 << 20)?.unwrap_or(numbers.ffn);
        let experts = match config.optional_count("expert_count", u32::MAX)? {
            Some(_) => Some(Experts::read(config, &numbers, Scoring::SoftmaxOfChosen)?),
            None => None,
        };
        granite::shape(config, &numbers, |layer, attention| {
            let mixer = if attends[layer.index as usize] {
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
