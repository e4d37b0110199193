//! DeepSeek-V3 and R1: experts scored by sigmoids and chosen from the best groups by scores with a bias (`DeepSeek` 2024,
//! arXiv:2412.19437).

use super::{Family, deepseek2};
use crate::shape::Scoring;

pub(super) static FAMILY: Family = Family {
    name: "deepseek3",
    gguf: &[],
    hugging_face: &["DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM"],
    tensors: &[],
    keys: deepseek2::FAMILY.keys,
    shape: |config| deepseek2::shape(config, "noaux_tc", Scoring::Sigmoid),
};
