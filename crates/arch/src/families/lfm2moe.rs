//! LFM2 with experts: sigmoids whose choice is corrected by a bias, dense layers first (Liquid AI 2025, arXiv:2511.23404).

use super::{Family, lfm2};
use crate::decoder::Numbers;
use crate::moe::Experts;
use crate::shape::Scoring;

pub(super) static FAMILY: Family = Family {
    name: "lfm2moe",
    gguf: &["lfm2moe"],
    hugging_face: &["Lfm2MoeForCausalLM"],
    tensors: lfm2::TENSORS,
    keys: lfm2::KEYS,
    shape: |config| {
        let numbers = Numbers::hybrid(config)?;
        let stated = Experts::read(config, &numbers, Scoring::Sigmoid)?;
        let biased = config.is_gguf() || config.flag("use_expert_bias")?;
        // A GGUF leaves it to the family.
        let normalised = stated.normalised.or(config.is_gguf().then_some(0.0)).map(|_| 1e-6);
        let experts = Experts { biased, normalised, ..stated };
        lfm2::shape(config, &numbers, |layer| layer.dense_or_moe(&experts))
    },
};
