//! GLM-4.5 and its kin: a sigmoid router with a bias on the choice, dense layers first, rope on half of a head (Zeng 2025,
//! arXiv:2508.06471).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::moe::Experts;
use crate::shape::{Attention, Block, Branch, RopeStyle, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "glm4moe",
    gguf: &["glm4moe"],
    hugging_face: &["Glm4MoeForCausalLM"],
    tensors: &[("post_attention_norm", "post_attention_layernorm")],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let stated = Experts::read(config, &numbers, Scoring::Sigmoid)?;
        let experts = Experts { biased: true, normalised: stated.normalised.map(|_| 1e-20), ..stated };
        // Where nothing is said, weights sum to one.
        let unsaid = config.setting("expert_weights_norm").is_none();
        let experts = Experts { normalised: experts.normalised.or(unsaid.then_some(1e-20)), ..experts };
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention {
                output: layer.bare("attn_output", numbers.hidden, numbers.heads * numbers.head_dim),
                q_norm: layer.head_norm("attn_q_norm"),
                k_norm: layer.head_norm("attn_k_norm"),
                ..layer.attention()
            };
            let block = layer.pre_norm(attention, layer.dense_or_moe(&experts));
            let norm = Some(layer.norm("post_attention_norm"));
            Ok(Block { ffn: block.ffn.map(|ffn| Branch { norm, ..ffn }), ..block })
        })
    },
};
