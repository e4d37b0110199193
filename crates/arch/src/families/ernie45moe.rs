//! Ernie 4.5 with experts: a softmax whose choice is corrected by a bias, a shared network, neighbouring values turned together
//! (Baidu 2025).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::moe::Experts;
use crate::shape::{RopeStyle, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "ernie4.5-moe",
    gguf: &["ernie4_5-moe"],
    hugging_face: &["Ernie4_5_MoeForCausalLM"],
    tensors: &[("exp_probs_b.bias", "mlp.moe_statics.e_score_correction_bias")],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        // The reference keeps the sum over a minimum, which is 1e-12 unless stated; added to it, it is lost in rounding.
        let least = config.optional_positive("expert_weights_norm_min")?.unwrap_or(1e-12);
        let stated = Experts::read(config, &numbers, Scoring::Softmax)?;
        let experts = Experts { biased: true, normalised: Some(least), ..stated };
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Pairs)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.dense_or_moe(&experts)))
        })
    },
};
