//! Nemotron 3 and 4, Minitron: layer norms around one, a squared rectifier without a gate, rope on a part of each head (NVIDIA
//! 2024, arXiv:2402.16819).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Dense, NormKind, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "nemotron",
    gguf: &["nemotron"],
    hugging_face: &["NemotronForCausalLM"],
    tensors: &[],
    keys: &[("attention.layer_norm_epsilon", &["norm_eps"])],
    shape: |config| {
        // A GGUF names the epsilon of the other norm as well.
        let norm_plus = if config.is_gguf() { 0.0 } else { 1.0 };
        let numbers = Numbers { norm: NormKind::Layer, norm_plus, ..Numbers::read(config)? };
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let dense = Dense { gate: None, ..layer.gated(Activation::ReluSquared) };
            Ok(layer.pre_norm(layer.attention(), dense))
        })
    },
};
