//! Ling: a softmax over all experts, and shared ones beside the chosen (Ant Group 2025, arXiv:2503.05139).

use super::{Family, bailingmoe2};
use crate::decoder::{Numbers, permuted_rope};
use crate::shape::Scoring;

pub(super) static FAMILY: Family = Family {
    name: "bailingmoe",
    gguf: &["bailingmoe"],
    hugging_face: &["BailingMoeForCausalLM"],
    tensors: bailingmoe2::TENSORS,
    keys: bailingmoe2::KEYS,
    shape: |config| {
        let numbers = Numbers::read(config)?;
        bailingmoe2::shape(config, &numbers, Scoring::Softmax, permuted_rope(config, &numbers)?)
    },
};
