//! dots.llm1: a sigmoid router with a bias on the choice, norms of heads, dense layers first (Huo 2025, arXiv:2506.05767).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::moe::Experts;
use crate::shape::{Attention, RopeStyle, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "dots1",
    gguf: &["dots1"],
    hugging_face: &["Dots1ForCausalLM"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let stated = Experts::read(config, &numbers, Scoring::Sigmoid)?;
        let experts = Experts { biased: true, normalised: stated.normalised.map(|_| 1e-20), ..stated };
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", numbers.head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", numbers.head_dim)),
                ..layer.attention()
            };
            Ok(layer.pre_norm(attention, layer.dense_or_moe(&experts)))
        })
    },
};
