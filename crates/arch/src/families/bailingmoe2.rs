//! Ling 2.0: a norm on each head's query and key, rope on half of it, sigmoids in groups with a bias on the choice (Ant Group
//! 2025, arXiv:2510.22115).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Numbers, decoder};
use crate::moe::Experts;
use crate::name::Name;
use crate::shape::{Attention, Rope, RopeStyle, Scoring, Shape};

/// Hugging Face's names, shared with the generation before.
pub(super) const TENSORS: &[(&str, &str)] = &[
    ("attn_k_norm", "attention.key_layernorm"),
    ("attn_output", "attention.dense"),
    ("attn_q_norm", "attention.query_layernorm"),
    ("attn_qkv", "attention.query_key_value"),
    ("exp_probs_b.bias", "mlp.gate.expert_bias"),
    ("token_embd", "word_embeddings"),
];

/// Its settings.
pub(super) const KEYS: &[(&str, &[&str])] = &[
    ("expert_gating_func", &["score_function"]),
    ("expert_shared_count", &["num_shared_experts"]),
    ("expert_shared_feed_forward_length", &["moe_shared_expert_intermediate_size"]),
];

pub(super) static FAMILY: Family = Family {
    name: "bailingmoe2",
    gguf: &["bailingmoe2"],
    hugging_face: &["BailingMoeV2ForCausalLM"],
    tensors: TENSORS,
    keys: KEYS,
    shape: |config| {
        let numbers = Numbers::read(config)?;
        shape(config, &numbers, Scoring::Sigmoid, crate::decoder::rope(config, &numbers, RopeStyle::Halves)?)
    },
};

/// Both generations.
pub(super) fn shape(
    config: &Config<'_>,
    numbers: &Numbers,
    scoring: Scoring,
    rope: Rope<Name>,
) -> Result<Shape<Name>, Error> {
    if config.json("norm_head").is_some_and(|on| *on == true) {
        return Err(config.unsupported("a head whose columns are normalised (norm_head)"));
    }
    let Numbers { hidden, heads, kv_heads, head_dim, .. } = *numbers;
    let stated = Experts::read(config, numbers, scoring)?;
    let biased = stated.layers.iter().zip(0..).any(|(_, layer)| config.has(&format!("blk.{layer}.exp_probs_b.bias")));
    let experts = Experts { biased, normalised: stated.normalised.map(|_| 1e-20), ..stated };
    decoder(config, numbers, vec![rope], |layer| {
        let attention = layer.attention();
        let fused = config.has(&format!("blk.{}.attn_qkv.weight", layer.index));
        let rows = [heads, kv_heads, kv_heads].map(|heads| heads * head_dim);
        let [q, k, v] =
            if fused { layer.split("attn_qkv", rows, hidden) } else { [attention.q, attention.k, attention.v] };
        let [q_norm, k_norm] = ["attn_q_norm", "attn_k_norm"].map(|slot| layer.head_norm(slot));
        Ok(layer.pre_norm(Attention { q, k, v, q_norm, k_norm, ..attention }, layer.dense_or_moe(&experts)))
    })
}
