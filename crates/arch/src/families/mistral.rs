//! Mistral: Llama's block with a sliding window on every layer (Jiang 2023, arXiv:2310.06825).
//!
//! Its GGUF files call themselves `llama`. Ministral and CWM list which layers have a window.

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Numbers, decoder, permuted_rope};
use crate::name::Name;
use crate::shape::{Activation, Attention, Shape};

pub(super) static FAMILY: Family = Family {
    name: "mistral",
    gguf: &[],
    hugging_face: &["CwmForCausalLM", "MinistralForCausalLM", "MistralForCausalLM", "MistralModel"],
    tensors: &[],
    keys: &[],
    shape,
};

/// Of a directory, or of a file of Llama's that says which window there is.
pub(super) fn shape(config: &Config<'_>) -> Result<Shape<Name>, Error> {
    let stated = Numbers::read(config)?;
    let pattern = config.flags("attention.sliding_window_pattern", stated.layers)?;
    let numbers = Numbers { windowed: stated.windowed.or(pattern), ..stated };
    decoder(config, &numbers, vec![permuted_rope(config, &numbers)?], |layer| {
        let attention = Attention { window_tokens: layer.window(true), ..layer.attention() };
        Ok(layer.pre_norm(attention, layer.gated(Activation::Silu)))
    })
}
