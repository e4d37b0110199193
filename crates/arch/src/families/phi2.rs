//! Phi 1, 1.5 and 2: both branches on one norm, biases everywhere, rope on a part of each head (Li 2023, arXiv:2309.05463).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Block, Branch, Dense, RopeStyle, Wiring};

pub(super) static FAMILY: Family = Family {
    name: "phi2",
    gguf: &["phi2"],
    hugging_face: &["PhiForCausalLM"],
    tensors: &[
        ("attn_output", "self_attn.dense"),
        ("ffn_down", "mlp.fc2"),
        ("ffn_up", "mlp.fc1"),
        ("output_norm", "final_layernorm"),
    ],
    keys: &[("qk_layernorm", &["qk_layernorm"])],
    shape: |config| {
        if config.flag("qk_layernorm")? {
            return Err(config.unsupported("a norm on each head's query and key (qk_layernorm)"));
        }
        let numbers = Numbers::read(config)?;
        let Numbers { hidden, heads, kv_heads, head_dim, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let mut attention = layer.attention();
            if config.has("blk.0.attn_qkv.weight") {
                let rows = [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim];
                let [q, k, v] = layer.split("attn_qkv", rows, hidden);
                attention = Attention { q, k, v, ..attention };
            }
            let block = layer.pre_norm(attention, Dense { gate: None, ..layer.gated(Activation::GeluTanh) });
            let norm = Some(layer.norm("attn_norm"));
            Ok(Block { ffn: block.ffn.map(|ffn| Branch { norm, ..ffn }), wiring: Wiring::Parallel, ..block })
        })
    },
};
