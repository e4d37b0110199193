//! Qwen 1: Llama's block with biases on queries, keys and values, which are one matrix (Bai 2023, arXiv:2309.16609). Up to the
//! context that it was trained for, where its scalings of positions and scores change nothing.

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, NormKind, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "qwen",
    gguf: &["qwen"],
    hugging_face: &["QWenLMHeadModel"],
    tensors: &[
        ("attn_norm", "ln_1"),
        ("attn_output", "attn.c_proj"),
        ("attn_qkv", "attn.c_attn"),
        ("ffn_down", "mlp.c_proj"),
        ("ffn_gate", "mlp.w2"),
        ("ffn_norm", "ln_2"),
        ("ffn_up", "mlp.w1"),
        ("output_norm", "ln_f"),
        ("token_embd", "wte"),
    ],
    keys: &[
        ("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon"]),
        ("context_length", &["seq_length"]),
        ("rope.freq_base", &["rotary_emb_base"]),
    ],
    shape: |config| {
        let stated = Numbers::read(config)?;
        // One setting is the width of gate and values together, the other is called that of a layer norm.
        let numbers = Numbers { ffn: stated.ffn / 2, norm: NormKind::Rms, ..stated };
        let Numbers { hidden, heads, head_dim, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let [q, k, v] = layer.split("attn_qkv", [heads * head_dim; 3], hidden);
            Ok(layer.pre_norm(Attention { q, k, v, ..layer.attention() }, layer.gated(Activation::Silu)))
        })
    },
};
