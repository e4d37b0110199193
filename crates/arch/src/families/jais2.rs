//! Jais 2: Llama's attention with layer norms, a squared rectifier without a gate, and biases everywhere (MBZUAI, Inception
//! and Cerebras 2025).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Dense, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "jais2",
    gguf: &["jais2"],
    hugging_face: &["Jais2ForCausalLM"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let dense = Dense { gate: None, ..layer.gated(Activation::ReluSquared) };
            Ok(layer.pre_norm(layer.attention(), dense))
        })
    },
};
