//! `OLMo` 2: norms after each branch instead of before, and one norm over all heads' queries and keys together (`OLMo` team
//! 2024, arXiv:2501.00656); in `OLMo` 3, windows on three layers of four, whose rope is never scaled.

use super::Family;
use crate::decoder::{Numbers, decoder, hugging_face_scaling, rope};
use crate::shape::{Activation, Attention, Block, Branch, Rope, RopeScaling, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "olmo2",
    gguf: &["olmo2"],
    hugging_face: &["Olmo2ForCausalLM", "Olmo3ForCausalLM"],
    tensors: &[("post_attention_norm", "post_attention_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm")],
    keys: &[(
        "rope.freq_base",
        &["rope_theta", "rope_parameters.rope_theta", "rope_parameters.full_attention.rope_theta"],
    )],
    shape: |config| {
        let numbers = Numbers::read(config)?.with_windows(config, 4)?;
        let Numbers { heads, kv_heads, head_dim, .. } = numbers;
        let mut full = rope(config, &numbers, RopeStyle::Halves)?;
        if let Some(parameters) = config.json("rope_parameters.full_attention") {
            full.scaling = hugging_face_scaling(config, &numbers, full.dims, parameters)?;
        }
        decoder(config, &numbers, vec![full.clone(), Rope { scaling: RopeScaling::None, ..full }], |layer| {
            let attention = Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", heads * head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", kv_heads * head_dim)),
                rope: Some(usize::from(layer.window(false).is_some())),
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
