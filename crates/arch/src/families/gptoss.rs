//! gpt-oss: sinks in the softmax of attention, windows on every other layer, biases everywhere, experts in MXFP4 whose gates and
//! values are cut (`OpenAI` 2025, arXiv:2508.10925).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::moe::Experts;
use crate::shape::{Activation, Attention, Block, Branch, RopeScaling, RopeStyle, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "gpt-oss",
    gguf: &["gpt-oss"],
    hugging_face: &["GptOssForCausalLM"],
    tensors: &[
        ("attn_sinks.weight", "self_attn.sinks"),
        ("ffn_down_exps.bias", "mlp.experts.down_proj_bias"),
        ("ffn_down_exps.blocks", "mlp.experts.down_proj_blocks"),
        ("ffn_down_exps.scales", "mlp.experts.down_proj_scales"),
        ("ffn_gate_inp", "mlp.router"),
        ("ffn_gate_up_exps.bias", "mlp.experts.gate_up_proj_bias"),
        ("ffn_gate_up_exps.blocks", "mlp.experts.gate_up_proj_blocks"),
        ("ffn_gate_up_exps.scales", "mlp.experts.gate_up_proj_scales"),
        ("post_attention_norm", "post_attention_layernorm"),
    ],
    keys: &[("swiglu_alpha", &["swiglu_alpha"]), ("swiglu_limit", &["swiglu_limit"])],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let limit = config.optional_positive("swiglu_limit")?.unwrap_or(7.0);
        let steepness = config.optional_positive("swiglu_alpha")?.unwrap_or(1.702);
        let stated = Experts::read(config, &numbers, Scoring::SoftmaxOfChosen)?;
        let experts = Experts { activation: Activation::SiluCut { limit, steepness }, ..stated };
        let mut rope = rope(config, &numbers, RopeStyle::Halves)?;
        if let (RopeScaling::Yarn { whole_pairs, .. }, true) = (&mut rope.scaling, config.is_gguf()) {
            // Its configuration says so, and its GGUF files leave it out.
            *whole_pairs = false;
        }
        decoder(config, &numbers, vec![rope], |layer| {
            let sinks = Some(layer.vector("attn_sinks.weight", numbers.heads));
            let window_tokens = layer.window(layer.index % 2 == 0);
            let attention = Attention { window_tokens, sinks, ..layer.attention() };
            let block = layer.pre_norm(attention, layer.moe(&experts));
            let norm = Some(layer.norm("post_attention_norm"));
            Ok(Block { ffn: block.ffn.map(|ffn| Branch { norm, ..ffn }), ..block })
        })
    },
};
