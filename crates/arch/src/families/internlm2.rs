//! `InternLM2`, from GGUF: Llama's block (Cai 2024, arXiv:2403.17297).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "internlm2",
    gguf: &["internlm2"],
    // Their q, k and v take turns by groups of heads in one matrix, which no slot is.
    hugging_face: &[],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Pairs)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::Silu)))
        })
    },
};
