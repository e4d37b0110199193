//! Qwen2 and Qwen2.5: biases on q, k and v (Yang 2024, arXiv:2407.10671).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "qwen2",
    gguf: &["qwen2"],
    hugging_face: &["Qwen2ForCausalLM"],
    tensors: &[],
    keys: &[("max_window_layers", &["max_window_layers"]), ("use_sliding_window", &["use_sliding_window"])],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let Numbers { hidden, heads, kv_heads, head_dim, .. } = numbers;
        let window = if config.flag("use_sliding_window") { config.optional_count("attention.sliding_window", u32::MAX)? } else { None };
        let full_layers = config.optional_count("max_window_layers", u32::MAX)?.unwrap_or(0);
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention {
                q: layer.biased("attn_q", heads * head_dim, hidden),
                k: layer.biased("attn_k", kv_heads * head_dim, hidden),
                v: layer.biased("attn_v", kv_heads * head_dim, hidden),
                window_tokens: window.filter(|_| layer.index >= full_layers),
                ..layer.attention()
            };
            Ok(layer.pre_norm(attention, layer.gated(Activation::Silu)))
        })
    },
};
