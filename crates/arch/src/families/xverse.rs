//! XVERSE: Llama's block under names of its own (XVERSE 2023).

use super::Family;
use crate::decoder::{Numbers, decoder, permuted_rope};
use crate::shape::Activation;

pub(super) static FAMILY: Family = Family {
    name: "xverse",
    gguf: &["xverse"],
    hugging_face: &["XverseForCausalLM"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![permuted_rope(config, &numbers)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::Silu)))
        })
    },
};
