//! Mellum 2: Qwen 3's block with experts, windows on three layers of four, whose rope is never scaled (`JetBrains` 2026).

use super::{Family, olmo2};
use crate::decoder::{Numbers, decoder};
use crate::moe::Experts;
use crate::shape::{Attention, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "mellum",
    gguf: &["mellum"],
    hugging_face: &["MellumForCausalLM"],
    tensors: &[],
    keys: olmo2::FAMILY.keys,
    shape: |config| {
        let numbers = Numbers::read(config)?.with_windows(config, 4)?;
        let stated = Experts::read(config, &numbers, Scoring::Softmax)?;
        // A GGUF leaves it to the family.
        let normalised = if config.is_gguf() { Some(0.0) } else { stated.normalised };
        let experts = Experts { normalised, ..stated };
        decoder(config, &numbers, olmo2::ropes(config, &numbers)?, |layer| {
            let attention = Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", numbers.head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", numbers.head_dim)),
                rope: Some(usize::from(layer.window(false).is_some())),
                ..layer.attention()
            };
            Ok(layer.pre_norm(attention, layer.dense_or_moe(&experts)))
        })
    },
};
