//! MPT: linear biases on scores instead of positions, no other biases (`MosaicML` 2023).

use super::Family;
use crate::decoder::{Numbers, alibi, decoder};
use crate::shape::{Activation, Attention};

pub(super) static FAMILY: Family = Family {
    name: "mpt",
    gguf: &["mpt"],
    hugging_face: &["MPTForCausalLM", "MptForCausalLM"],
    tensors: &[
        ("attn_norm", "norm_1"),
        ("attn_output", "attn.out_proj"),
        ("attn_qkv", "attn.Wqkv"),
        ("ffn_down", "ffn.down_proj"),
        ("ffn_norm", "norm_2"),
        ("ffn_up", "ffn.up_proj"),
        ("output_norm", "norm_f"),
        ("token_embd", "wte"),
    ],
    keys: &[
        ("attention.clamp_kqv", &["attn_config.clip_qkv"]),
        ("attention.max_alibi_bias", &["attn_config.alibi_bias_max"]),
    ],
    shape: |config| {
        let numbers = Numbers::of_width(config, config.optional_count("expansion_ratio", 64)?.unwrap_or(4), None, None)?;
        let learned = !config.is_gguf() && config.json("attn_config.alibi").is_none_or(|on| *on != true);
        let scaled = ["attn_config.softmax_scale", "logit_scale"].iter().any(|key| config.json(key).is_some());
        if learned || scaled || config.optional_number("attention.clamp_kqv")?.is_some_and(|clamp| clamp != 0.0) {
            return Err(config.unsupported("the form without alibi, or with softmax_scale, logit_scale or clip_qkv,"));
        }
        let bias = alibi(config, "the form without alibi")?;
        decoder(config, &numbers, Vec::new(), |layer| {
            let [q, k, v] = layer.split("attn_qkv", [numbers.hidden; 3], numbers.hidden);
            let attention = Attention { q, k, v, rope: None, alibi: Some(bias), ..layer.attention() };
            Ok(layer.pre_norm(attention, layer.ungated(Activation::Gelu)))
        })
    },
};
