//! GLM-4-0414: norms on both sides of each branch, neighbouring values of half a head turn (GLM team 2024, arXiv:2406.12793).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Block, Branch, Dense, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "glm4",
    gguf: &["glm4"],
    hugging_face: &["Glm4ForCausalLM"],
    tensors: &[
        ("ffn_up", "mlp.gate_up_proj"),
        ("post_attention_norm", "post_self_attn_layernorm"),
        ("post_ffw_norm", "post_mlp_layernorm"),
    ],
    keys: &[],
    shape: |config| {
        if config.setting("rope.dimension_sections").is_some() {
            return Err(config.unsupported("a rope of several positions (rope.dimension_sections)"));
        }
        let numbers = Numbers::read(config)?;
        let Numbers { hidden, heads, head_dim, ffn, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Pairs)?], |layer| {
            let output = layer.bare("attn_output", hidden, heads * head_dim);
            let [gate, up] = layer.split("ffn_up", [ffn, ffn], hidden);
            let dense = Dense { gate: Some(gate), up, ..layer.gated(Activation::Silu) };
            let block = layer.pre_norm(Attention { output, ..layer.attention() }, dense);
            let post = |slot| Some(layer.norm(slot));
            Ok(Block {
                mixer: block.mixer.map(|mixer| Branch { post_norm: post("post_attention_norm"), ..mixer }),
                ffn: block.ffn.map(|ffn| Branch { post_norm: post("post_ffw_norm"), ..ffn }),
                ..block
            })
        })
    },
};
