//! Qwen3 with experts: a softmax over all of them, and weights that sum to one (Yang 2025, arXiv:2505.09388).

use super::{Family, qwen2};
use crate::decoder::{decoder, rope};
use crate::moe::Experts;
use crate::shape::{Attention, RopeStyle, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "qwen3moe",
    gguf: &["qwen3moe", "qwen3vlmoe"],
    hugging_face: &["Qwen3MoeForCausalLM"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let (numbers, full_layers) = qwen2::numbers(config)?;
        let stated = Experts::read(config, &numbers, Scoring::Softmax)?;
        // A GGUF leaves it to the family.
        let normalised = if config.is_gguf() { Some(0.0) } else { stated.normalised };
        let experts = Experts { normalised, ..stated };
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", numbers.head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", numbers.head_dim)),
                window_tokens: layer.window(layer.index >= full_layers),
                ..layer.attention()
            };
            Ok(layer.pre_norm(attention, layer.dense_or_moe(&experts)))
        })
    },
};
