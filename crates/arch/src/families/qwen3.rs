//! Qwen3, dense: a norm on every head's query and key (Yang 2025, arXiv:2505.09388).

use super::{Family, qwen2};
use crate::decoder::{decoder, rope};
use crate::shape::{Activation, Attention, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "qwen3",
    gguf: &["qwen3", "qwen3vl"],
    hugging_face: &[
        "Qwen3ForCausalLM",
        "Qwen3ForSequenceClassification",
        "Qwen3Model",
        "Qwen3VLForConditionalGeneration",
    ],
    tensors: &[("cls.output", "score")],
    keys: &[],
    shape: |config| {
        let (numbers, full_layers) = qwen2::numbers(config)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", numbers.head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", numbers.head_dim)),
                window_tokens: layer.window(layer.index >= full_layers),
                ..layer.attention()
            };
            Ok(layer.pre_norm(attention, layer.gated(Activation::Silu)))
        })
    },
};
