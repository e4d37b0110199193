//! `FlexOlmo`: `OLMo` 2's norms behind each branch, with experts (Ai2 2025, arXiv:2507.07024).

use super::{Family, olmo2};
use crate::decoder::{Numbers, decoder, rope};
use crate::moe::Experts;
use crate::shape::{RopeStyle, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "flexolmo",
    gguf: &["flexolmo"],
    hugging_face: &["FlexOlmoForCausalLM"],
    tensors: olmo2::FAMILY.tensors,
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let experts = Experts::read(config, &numbers, Scoring::Softmax)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            Ok(olmo2::block(layer, Some(0), layer.moe(&experts).into()))
        })
    },
};
