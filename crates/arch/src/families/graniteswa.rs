//! Granite with windows on most layers, and a score in each head's softmax that has no value (IBM 2026).

use super::{Family, granite};
use crate::decoder::Numbers;
use crate::shape::{Activation, Attention};

pub(super) static FAMILY: Family = Family {
    name: "granite_swa",
    gguf: &["granite_swa"],
    hugging_face: &["GraniteSWAForCausalLM"],
    tensors: &[("attn_sinks.weight", "self_attn.sinks")],
    keys: &[],
    shape: |config| {
        let stated = Numbers::read(config)?;
        let pattern = config.flags("attention.sliding_window_pattern", stated.layers)?;
        let numbers = Numbers { windowed: stated.windowed.or(pattern), ..stated };
        if numbers.windowed.is_none() {
            return Err(config.missing("layer_types"));
        }
        if config.optional_count("expert_count", u32::MAX)?.is_some() {
            return Err(config.unsupported("the form with experts"));
        }
        let turns = config.flags("attention.rope_pattern", numbers.layers)?;
        let base = config.optional_positive("rope.freq_base")?.unwrap_or(10_000.0);
        let bases = config.json("layer_rope_theta").and_then(|list| list.as_array());
        let base_of = |layer: u32| {
            bases.and_then(|bases| bases.get(layer as usize)).map(|base| base.as_f64().unwrap_or(0.0) as f32)
        };
        if (0..numbers.layers).filter_map(base_of).any(|other| other != 0.0 && other != base) {
            return Err(config.unsupported("layers with bases of their own (layer_rope_theta)"));
        }
        granite::shape(config, &numbers, |layer, attention| {
            let stated = turns.as_ref().map(|turns| turns[layer.index as usize]);
            let turned = stated.or(base_of(layer.index).map(|base| base != 0.0)).unwrap_or(true);
            let sinks = Some(layer.vector("attn_sinks.weight", numbers.heads));
            let attention = Attention { sinks, rope: turned.then_some(0), ..attention };
            layer.pre_norm(attention, layer.gated(Activation::Silu))
        })
    },
};
