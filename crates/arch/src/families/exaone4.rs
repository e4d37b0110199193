//! EXAONE 4: norms after each branch, a norm on every head's query and key; where there is a window, layers without one have
//! no rope either (LG AI Research 2025, arXiv:2507.11407).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Block, Branch, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "exaone4",
    gguf: &["exaone4"],
    hugging_face: &["Exaone4ForCausalLM"],
    tensors: &[("post_attention_norm", "post_attention_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm")],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?.with_windows(config, 4)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let turns = numbers.window_tokens.is_none() || layer.is_windowed(false);
            let attention = Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", numbers.head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", numbers.head_dim)),
                rope: turns.then_some(0),
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
