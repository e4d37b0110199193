//! K-EXAONE: EXAONE 4's windows and norms of heads in front of each branch, sigmoids with a bias on the choice (LG AI Research
//! 2026, arXiv:2601.01739).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::moe::Experts;
use crate::shape::{Attention, RopeStyle, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "exaone-moe",
    gguf: &["exaone-moe"],
    hugging_face: &["ExaoneMoeForCausalLM"],
    tensors: &[("exp_probs_b.bias", "mlp.e_score_correction_bias")],
    keys: &[("expert_shared_count", &["num_shared_experts"])],
    shape: |config| {
        let numbers = Numbers::read(config)?.with_windows(config, 4)?;
        let stated = Experts::read(config, &numbers, Scoring::Sigmoid)?;
        let experts = Experts { biased: true, normalised: stated.normalised.map(|_| 1e-20), ..stated };
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let turns = numbers.window_tokens.is_none() || layer.is_windowed(false);
            let attention = Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", numbers.head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", numbers.head_dim)),
                rope: turns.then_some(0),
                ..layer.attention()
            };
            Ok(layer.pre_norm(attention, layer.dense_or_moe(&experts)))
        })
    },
};
