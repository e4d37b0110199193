//! Qwen2 and Qwen2.5: biases on q, k and v (Yang 2024, arXiv:2407.10671).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "qwen2",
    gguf: &["qwen2", "qwen2vl"],
    hugging_face: &[
        "Qwen2ForCausalLM",
        "Qwen2Model",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
    ],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let (numbers, full_layers) = numbers(config)?;
        let Numbers { hidden, heads, kv_heads, head_dim, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention {
                q: layer.biased("attn_q", heads * head_dim, hidden),
                k: layer.biased("attn_k", kv_heads * head_dim, hidden),
                v: layer.biased("attn_v", kv_heads * head_dim, hidden),
                window_tokens: layer.window(layer.index >= full_layers),
                ..layer.attention()
            };
            Ok(layer.pre_norm(attention, layer.gated(Activation::Silu)))
        })
    },
};

/// The numbers of a Qwen, and how many of its first layers have no window: a window is stated but off unless a flag is set.
pub(super) fn numbers(config: &Config<'_>) -> Result<(Numbers, u32), Error> {
    let numbers = Numbers::read(config)?;
    let windowed = config.flag("use_sliding_window")?;
    let full_layers = config.optional_count("max_window_layers", u32::MAX)?.unwrap_or(0);
    Ok((Numbers { window_tokens: numbers.window_tokens.filter(|_| windowed), ..numbers }, full_layers))
}
