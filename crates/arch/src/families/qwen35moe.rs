//! Qwen3.5 with experts: its dense form's layers, and the networks of Qwen3-Next (Qwen team 2026).

use super::{Family, qwen35};
use crate::decoder::Numbers;
use crate::moe::Experts;
use crate::shape::{GatedDelta, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "qwen35moe",
    gguf: &["qwen35moe"],
    hugging_face: &["Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"],
    tensors: qwen35::TENSORS,
    keys: qwen35::KEYS,
    shape: |config| {
        // The dense form's width is not there.
        let numbers = Numbers::hybrid_of_experts(config)?;
        let stated = Experts::read(config, &numbers, Scoring::Softmax)?;
        let experts = Experts { shared_gate: true, normalised: Some(0.0), ..stated };
        qwen35::shape(
            config,
            numbers,
            |layer, deltas| GatedDelta { interleaved: config.is_gguf(), ..layer.gated_delta(deltas) },
            |layer| layer.dense_or_moe(&experts),
        )
    },
};
