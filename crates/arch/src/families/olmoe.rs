//! `OLMoE`: one norm over all heads' queries and keys together, a softmax over all experts as it is (Muennighoff 2024,
//! arXiv:2409.02060).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::moe::Experts;
use crate::shape::{Attention, RopeStyle, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "olmoe",
    gguf: &["olmoe"],
    hugging_face: &["OlmoeForCausalLM"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        if config.json("clip_qkv").is_some() {
            return Err(config.unsupported("clipping of queries, keys and values (clip_qkv)"));
        }
        let numbers = Numbers::read(config)?;
        let experts = Experts::read(config, &numbers, Scoring::Softmax)?;
        let Numbers { heads, kv_heads, head_dim, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", heads * head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", kv_heads * head_dim)),
                ..layer.attention()
            };
            Ok(layer.pre_norm(attention, layer.moe(&experts)))
        })
    },
};
