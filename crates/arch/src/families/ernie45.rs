//! Ernie 4.5 without experts: Llama's block, neighbouring values turned together (Baidu 2025).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "ernie4.5",
    gguf: &["ernie4_5"],
    hugging_face: &["Ernie4_5ForCausalLM"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Pairs)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::Silu)))
        })
    },
};
