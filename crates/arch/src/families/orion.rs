//! Orion: Llama's block with layer norms (Chen 2024, arXiv:2401.12246).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, NormKind, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "orion",
    gguf: &["orion"],
    hugging_face: &["OrionForCausalLM"],
    tensors: &[],
    // The setting has the name of another norm's.
    keys: &[
        ("attention.layer_norm_epsilon", &["rms_norm_eps"]),
        ("attention.layer_norm_rms_epsilon", &["layer_norm_rms_epsilon"]),
    ],
    shape: |config| {
        let numbers = Numbers { norm: NormKind::Layer, ..Numbers::read(config)? };
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::Silu)))
        })
    },
};
