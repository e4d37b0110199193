//! EXAONE 3 and 3.5, from GGUF: Llama's block (LG AI Research 2024, arXiv:2408.03541).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "exaone",
    gguf: &["exaone"],
    hugging_face: &[],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::Silu)))
        })
    },
};
