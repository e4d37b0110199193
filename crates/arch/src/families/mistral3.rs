//! Mistral Small 3.1 and Ministral 3, from GGUF: Llama's block (Mistral AI 2025; arXiv:2310.06825).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "mistral3",
    gguf: &["mistral3"],
    hugging_face: &[],
    tensors: &[],
    keys: &[],
    shape: |config| {
        if config.optional_number("attention.temperature_scale")?.is_some_and(|scale| scale != 0.0) {
            return Err(config.unsupported("a factor on queries that grows with the position"));
        }
        if config.optional_count("expert_count", u32::MAX)?.is_some() {
            return Err(config.unsupported("the form with experts"));
        }
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Pairs)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::Silu)))
        })
    },
};
