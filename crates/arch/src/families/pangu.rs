//! openPangu-Embedded: Llama's block with biases (Huawei 2025, arXiv:2505.22375).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "pangu-embedded",
    gguf: &["pangu-embedded"],
    hugging_face: &["PanguEmbeddedForCausalLM"],
    tensors: &[],
    keys: &[("attention_bias", &["attention_bias", "bias"])],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::Silu)))
        })
    },
};
