//! `OLMo` 2: norms after each branch instead of before, and one norm over all heads' queries and keys together (`OLMo` team
//! 2024, arXiv:2501.00656).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Block, Branch, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "olmo2",
    gguf: &["olmo2"],
    hugging_face: &["Olmo2ForCausalLM"],
    tensors: &[("post_attention_norm", "post_attention_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm")],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let Numbers { heads, kv_heads, head_dim, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", heads * head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", kv_heads * head_dim)),
                ..layer.attention()
            };
            let block = layer.pre_norm(attention, layer.gated(Activation::Silu));
            let post = |slot| Some(layer.norm(slot));
            Ok(Block {
                mixer: block.mixer.map(|mixer| Branch { norm: None, post_norm: post("post_attention_norm"), ..mixer }),
                ffn: block.ffn.map(|ffn| Branch { norm: None, post_norm: post("post_ffw_norm"), ..ffn }),
                ..block
            })
        })
    },
};
