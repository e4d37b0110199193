//! `DeepSeek`'s first mixture of experts: small experts, some of them for every token (Dai 2024, arXiv:2401.06066).

use super::Family;
use crate::decoder::{Numbers, decoder, permuted_rope};
use crate::moe::Experts;
use crate::shape::Scoring;

pub(super) static FAMILY: Family = Family {
    name: "deepseek",
    gguf: &["deepseek"],
    hugging_face: &["DeepseekForCausalLM"],
    tensors: &[],
    keys: &[("moe_layer_freq", &["moe_layer_freq"])],
    shape: |config| {
        if config.optional_count("moe_layer_freq", u32::MAX)?.is_some_and(|every| every != 1) {
            return Err(config.unsupported("moe_layer_freq other than 1"));
        }
        let numbers = Numbers::read(config)?;
        let stated = Experts::read(config, &numbers, Scoring::Softmax)?;
        let experts = Experts { groups: None, normalised: stated.normalised.map(|_| 1e-20), ..stated };
        decoder(config, &numbers, vec![permuted_rope(config, &numbers)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.dense_or_moe(&experts)))
        })
    },
};
