//! Gemma 1: Llama's block with GeGLU, scaled embeddings and norm weights stored around zero (Gemma team 2024,
//! arXiv:2403.08295).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Embed, RopeStyle, Shape};

pub(super) static FAMILY: Family = Family {
    name: "gemma",
    gguf: &["gemma"],
    hugging_face: &["GemmaForCausalLM"],
    tensors: &[],
    // The older `hidden_act` of these files says gelu and means its tanh form.
    keys: &[("activation", &["hidden_activation"])],
    shape: |config| {
        // The GGUF converter has added the one already.
        let norm_plus = if config.is_gguf() { 0.0 } else { 1.0 };
        let numbers = Numbers { norm_plus, ..Numbers::read(config)? };
        let shape = decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::GeluTanh)))
        })?;
        Ok(Shape { embed: Embed { scale: (numbers.hidden as f32).sqrt(), ..shape.embed }, ..shape })
    },
};
