//! LFM2: gated convolutions of three tokens, and attention on every few layers (Liquid AI 2025, arXiv:2511.23404).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{FFN_MAX, Layer, Numbers, decoder, norm, rope};
use crate::name::Name;
use crate::recurrent::attending_layers;
use crate::shape::{Activation, Attention, Ffn, Mixer, RopeStyle, Shape};

/// Hugging Face's names, of the form with experts, too.
pub(super) const TENSORS: &[(&str, &str)] = &[
    ("exp_probs_b.bias", "feed_forward.expert_bias"),
    ("ffn_down_exps", "feed_forward.experts.{}.w2"),
    ("ffn_gate_exps", "feed_forward.experts.{}.w1"),
    ("ffn_gate_inp", "feed_forward.gate"),
    ("ffn_up_exps", "feed_forward.experts.{}.w3"),
    ("attn_k_norm", "self_attn.k_layernorm"),
    ("attn_norm", "operator_norm"),
    ("attn_output", "self_attn.out_proj"),
    ("attn_q_norm", "self_attn.q_layernorm"),
    ("ffn_down", "feed_forward.w2"),
    ("ffn_gate", "feed_forward.w1"),
    ("ffn_norm", "ffn_norm"),
    ("ffn_up", "feed_forward.w3"),
    ("shortconv.conv", "conv.conv"),
    ("shortconv.in_proj", "conv.in_proj"),
    ("shortconv.out_proj", "conv.out_proj"),
    ("token_embd_norm", "embedding_norm"),
];

/// Hugging Face's settings.
pub(super) const KEYS: &[(&str, &[&str])] = &[
    ("attention.layer_norm_rms_epsilon", &["norm_eps", "block_norm_eps"]),
    ("feed_forward_length", &["block_ff_dim", "intermediate_size"]),
    ("leading_dense_block_count", &["num_dense_layers"]),
    ("shortconv.l_cache", &["conv_L_cache"]),
    ("tie_word_embeddings", &["tie_word_embeddings", "tie_embedding"]),
    ("use_expert_bias", &["use_expert_bias"]),
];

pub(super) static FAMILY: Family = Family {
    name: "lfm2",
    gguf: &["lfm2"],
    hugging_face: &["Lfm2ForCausalLM"],
    tensors: TENSORS,
    keys: KEYS,
    shape: |config| {
        let numbers = Numbers::hybrid(config)?;
        let numbers = Numbers { ffn: adjusted(config, numbers.ffn)?, ..numbers };
        shape(config, &numbers, |layer| layer.gated(Activation::Silu).into())
    },
};

/// The width of networks: two thirds of what is stated times a factor, rounded up, where the configuration says so.
fn adjusted(config: &Config<'_>, width: u32) -> Result<u32, Error> {
    if config.json("block_auto_adjust_ff_dim").is_none_or(|adjusts| *adjusts != true) {
        return Ok(width);
    }
    let factor = config.json_number("block_ffn_dim_multiplier")?.unwrap_or(1.0);
    let multiple = config.json_number("block_multiple_of")?.unwrap_or(256.0).max(1.0) as u32;
    let scaled = (f64::from(factor) * f64::from(2 * width / 3)) as u32;
    Ok(scaled.clamp(1, FFN_MAX).next_multiple_of(multiple))
}

/// LFM2 with the networks that `ffn` describes.
pub(super) fn shape(
    config: &Config<'_>,
    numbers: &Numbers,
    ffn: impl Fn(&Layer<'_>) -> Ffn<Name>,
) -> Result<Shape<Name>, Error> {
    let attends = match config.listed("full_attn_idxs", numbers.layers)? {
        Some(listed) => listed,
        None => attending_layers(config, numbers.layers, &["conv", "full_attention"])?,
    };
    let shape = decoder(config, numbers, vec![rope(config, numbers, RopeStyle::Halves)?], |layer| {
        let mixer = if attends[layer.index as usize] {
            Mixer::Attention(Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", numbers.head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", numbers.head_dim)),
                ..layer.attention()
            })
        } else {
            Mixer::ShortConv(layer.short_conv()?)
        };
        Ok(layer.block(mixer, ffn(layer)))
    })?;
    Ok(Shape { norm: norm(config, numbers, "token_embd_norm", numbers.hidden), ..shape })
}
