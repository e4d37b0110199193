//! Mistral: Llama's block with a sliding window on every layer (Jiang 2023, arXiv:2310.06825).
//!
//! Its GGUF files call themselves `llama`, which has no window. Ministral and CWM list which layers have one.

use super::Family;
use crate::decoder::{Numbers, decoder, permuted_rope};
use crate::shape::{Activation, Attention};

pub(super) static FAMILY: Family = Family {
    name: "mistral",
    gguf: &[],
    hugging_face: &["CwmForCausalLM", "MinistralForCausalLM", "MistralForCausalLM", "MistralModel"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![permuted_rope(config, &numbers)?], |layer| {
            let attention = Attention { window_tokens: layer.window(true), ..layer.attention() };
            Ok(layer.pre_norm(attention, layer.gated(Activation::Silu)))
        })
    },
};
