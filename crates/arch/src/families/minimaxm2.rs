//! `MiniMax`-M2: one norm over all heads' queries and keys together, rope on half of a head, sigmoids with a bias on the choice
//! (`MiniMax` 2025).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::moe::Experts;
use crate::shape::{Attention, RopeStyle, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "minimax-m2",
    gguf: &["minimax-m2"],
    hugging_face: &["MiniMaxM2ForCausalLM"],
    tensors: &[
        ("exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias"),
        ("ffn_down_exps", "block_sparse_moe.experts.{}.w2"),
        ("ffn_gate_exps", "block_sparse_moe.experts.{}.w1"),
        ("ffn_gate_inp", "block_sparse_moe.gate"),
        ("ffn_up_exps", "block_sparse_moe.experts.{}.w3"),
    ],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let Numbers { heads, kv_heads, head_dim, .. } = numbers;
        let stated = Experts::read(config, &numbers, Scoring::Sigmoid)?;
        let experts = Experts { biased: true, normalised: Some(0.0), ..stated };
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", heads * head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", kv_heads * head_dim)),
                ..layer.attention()
            };
            Ok(layer.pre_norm(attention, layer.moe(&experts)))
        })
    },
};
