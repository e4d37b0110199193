//! `OLMo` 2: norms after each branch instead of before, and one norm over all heads' queries and keys together (`OLMo` team
//! 2024, arXiv:2501.00656); in `OLMo` 3, windows on three layers of four, whose rope is never scaled.

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Layer, Numbers, decoder, hugging_face_scaling, rope};
use crate::name::Name;
use crate::shape::{Activation, Attention, Block, Branch, Ffn, Rope, RopeScaling, RopeStyle};

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
        decoder(config, &numbers, ropes(config, &numbers)?, |layer| {
            let rope = Some(usize::from(layer.window(false).is_some()));
            Ok(block(layer, rope, layer.gated(Activation::Silu).into()))
        })
    },
};

/// The rope of full layers, scaled as the settings say, and that of windowed ones, never scaled.
pub(super) fn ropes(config: &Config<'_>, numbers: &Numbers) -> Result<Vec<Rope<Name>>, Error> {
    let mut full = rope(config, numbers, RopeStyle::Halves)?;
    if let Some(parameters) = config.json("rope_parameters.full_attention") {
        full.scaling = hugging_face_scaling(config, numbers, full.dims, parameters)?;
    }
    Ok(vec![full.clone(), Rope { scaling: RopeScaling::None, ..full }])
}

/// A block whose norms are behind each branch.
pub(super) fn block(layer: &Layer<'_>, rope: Option<usize>, ffn: Ffn<Name>) -> Block<Name> {
    let Numbers { heads, kv_heads, head_dim, .. } = *layer.numbers();
    let attention = Attention {
        q_norm: Some(layer.norm_of("attn_q_norm", heads * head_dim)),
        k_norm: Some(layer.norm_of("attn_k_norm", kv_heads * head_dim)),
        rope,
        ..layer.attention()
    };
    let block = layer.pre_norm(attention, ffn);
    let post = |slot| Some(layer.norm(slot));
    Block {
        mixer: block.mixer.map(|mixer| Branch { norm: None, post_norm: post("post_attention_norm"), ..mixer }),
        ffn: block.ffn.map(|ffn| Branch { norm: None, post_norm: post("post_ffw_norm"), ..ffn }),
        ..block
    }
}
