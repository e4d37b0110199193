//! Qwen3-Next: Qwen3.5's layers, whose projections safetensors keep head by head, with experts (Qwen team 2025).

use super::{Family, qwen35};
use crate::decoder::Numbers;
use crate::moe::Experts;
use crate::recurrent::Deltas;
use crate::shape::Scoring;

pub(super) static FAMILY: Family = Family {
    name: "qwen3next",
    gguf: &["qwen3next"],
    hugging_face: &["Qwen3NextForCausalLM"],
    tensors: qwen35::TENSORS,
    keys: qwen35::KEYS,
    shape: |config| {
        let numbers = Numbers::hybrid(config)?;
        let stated = Experts::read(config, &numbers, Scoring::Softmax)?;
        // A GGUF leaves it to the family.
        let normalised = stated.normalised.or(config.is_gguf().then_some(0.0));
        let experts = Experts { shared_gate: true, normalised, ..stated };
        let delta = |layer: &crate::decoder::Layer<'_>, deltas: &Deltas| layer.gated_delta_by_head(deltas);
        qwen35::shape(config, numbers, delta, |layer| layer.dense_or_moe(&experts))
    },
};
