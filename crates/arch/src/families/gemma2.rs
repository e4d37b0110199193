//! Gemma 2: soft caps on scores and logits, a window on every other layer, norms on both sides of each branch (Gemma team
//! 2024, arXiv:2408.00118).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Numbers, decoder, rope};
use crate::name::Name;
use crate::shape::{Activation, Attention, Block, Branch, Embed, Head, RopeStyle, Shape};

pub(super) static FAMILY: Family = Family {
    name: "gemma2",
    gguf: &["gemma2"],
    hugging_face: &["Gemma2ForCausalLM"],
    tensors: TENSORS,
    keys: &[("query_pre_attn_scalar", &["query_pre_attn_scalar"])],
    shape,
};

/// Hugging Face's names of the four norms of a block, shared with Gemma 3.
pub(super) const TENSORS: &[(&str, &str)] = &[
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

fn shape(config: &Config<'_>) -> Result<Shape<Name>, Error> {
    let norm_plus = if config.is_gguf() { 0.0 } else { 1.0 };
    let numbers = Numbers { norm_plus, ..Numbers::read(config)? };
    let soft_cap = config.soft_cap("attn_logit_softcapping")?;
    let scale = query_scale(config, &numbers, 46)?;
    let shape = decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
        let window_tokens = layer.window(layer.index % 2 == 0);
        let attention = Attention { window_tokens, soft_cap, scale, ..layer.attention() };
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

/// The factor on the scores: stated in `config.json`; a GGUF leaves it out, where the one model that differs from
/// `1 / sqrt(head_dim)`, the 27B, is told by its number of layers.
pub(super) fn query_scale(config: &Config<'_>, numbers: &Numbers, layers_of_27b: u32) -> Result<f32, Error> {
    let usual = if config.is_gguf() && numbers.layers == layers_of_27b {
        numbers.hidden / numbers.heads
    } else {
        numbers.head_dim
    };
    Ok(1.0 / config.optional_positive("query_pre_attn_scalar")?.unwrap_or(usual as f32).sqrt())
}
