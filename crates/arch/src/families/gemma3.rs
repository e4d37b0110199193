//! Gemma 3, text: five windowed layers with a rope of their own to each full one, norms on queries and keys (Gemma team
//! 2025, arXiv:2503.19786).

use serde_json::Value as Json;

use super::{Family, gemma2};
use crate::config::{Config, Error};
use crate::decoder::{Numbers, decoder, hugging_face_scaling, rope};
use crate::name::Name;
use crate::shape::{Activation, Attention, Block, Branch, Embed, Head, Rope, RopeScaling, RopeStyle, Shape};

pub(super) static FAMILY: Family = Family {
    name: "gemma3",
    gguf: &["gemma3"],
    hugging_face: &["Gemma3ForCausalLM"],
    tensors: gemma2::TENSORS,
    keys: KEYS,
    shape,
};

/// Where its settings are, shared with the embedding model.
pub(super) const KEYS: &[(&str, &[&str])] = &[
        ("query_pre_attn_scalar", &["query_pre_attn_scalar"]),
        ("rope.freq_base", &["rope_theta", "rope_parameters.full_attention.rope_theta"]),
        ("rope.freq_base_swa", &["rope_local_base_freq", "rope_parameters.sliding_attention.rope_theta"]),
        ("sliding_window_pattern", &["sliding_window_pattern", "_sliding_window_pattern"]),
        ("use_bidirectional_attention", &["use_bidirectional_attention"]),
];

pub(super) fn shape(config: &Config<'_>) -> Result<Shape<Name>, Error> {
    let norm_plus = if config.is_gguf() { 0.0 } else { 1.0 };
    let numbers = Numbers { norm_plus, ..Numbers::read(config)? };
    let pattern = config.optional_count("sliding_window_pattern", 1024)?.unwrap_or(6);
    let scale = gemma2::query_scale(config, &numbers, 62)?;
    let shape = decoder(config, &numbers, ropes(config, &numbers)?, |layer| {
        let windowed = layer.is_windowed((layer.index + 1) % pattern != 0);
        let attention = Attention {
            q_norm: Some(layer.norm_of("attn_q_norm", numbers.head_dim)),
            k_norm: Some(layer.norm_of("attn_k_norm", numbers.head_dim)),
            rope: Some(usize::from(windowed)),
            window_tokens: layer.window(windowed),
            scale,
            ..layer.attention()
        };
        let block = layer.pre_norm(attention, layer.gated(Activation::GeluTanh));
        Ok(Block {
            mixer: block.mixer.map(|mixer| Branch { post_norm: Some(layer.norm("post_attention_norm")), ..mixer }),
            ffn: block.ffn.map(|ffn| Branch { post_norm: Some(layer.norm("post_ffw_norm")), ..ffn }),
            ..block
        })
    })?;
    let embed = Embed { scale: (numbers.hidden as f32).sqrt(), ..shape.embed };
    let head = Head { soft_cap: config.soft_cap("final_logit_softcapping")?, ..shape.head };
    Ok(Shape { embed, head, ..shape })
}

/// The rope of the full layers, scaled as the settings say, and that of the windowed ones, never scaled.
fn ropes(config: &Config<'_>, numbers: &Numbers) -> Result<Vec<Rope<Name>>, Error> {
    let mut full = rope(config, numbers, RopeStyle::Halves)?;
    if let Some(parameters) = config.json("rope_parameters.full_attention").filter(|value| Json::is_object(value)) {
        full.scaling = hugging_face_scaling(config, numbers, full.dims, parameters)?;
    }
    let base = config.optional_positive("rope.freq_base_swa")?.unwrap_or(10_000.0);
    let windowed = Rope { base, scaling: RopeScaling::None, ..full.clone() };
    Ok(vec![full, windowed])
}
