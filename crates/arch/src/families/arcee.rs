//! Arcee's AFM: Llama's attention, and a network without a gate (Arcee 2025).

use super::Family;
use crate::decoder::{Numbers, decoder, permuted_rope};
use crate::shape::{Activation, Dense};

pub(super) static FAMILY: Family = Family {
    name: "arcee",
    gguf: &["arcee"],
    hugging_face: &["ArceeForCausalLM"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![permuted_rope(config, &numbers)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), Dense { gate: None, ..layer.gated(Activation::ReluSquared) }))
        })
    },
};
