//! Command R7B and Command A: Command R with a window and rope on three layers of four, and neither on the fourth (Cohere
//! 2025, arXiv:2504.00698).

use super::{Family, commandr};
use crate::decoder::Numbers;

pub(super) static FAMILY: Family = Family {
    name: "cohere2",
    gguf: &["cohere2"],
    hugging_face: &["Cohere2ForCausalLM"],
    tensors: &[],
    keys: &[("logit_scale", &["logit_scale"]), ("attention.sliding_window_pattern", &["sliding_window_pattern"])],
    shape: |config| {
        // Without a window nothing would say which layers have rope.
        config.count("attention.sliding_window", u32::MAX)?;
        let numbers = Numbers::read(config)?.with_windows(config, 4)?;
        commandr::shape(config, &numbers, |layer| layer.is_windowed(false).then_some(0))
    },
};
