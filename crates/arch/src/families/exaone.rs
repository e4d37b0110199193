//! EXAONE 3 and 3.5: Llama's block (LG AI Research 2024, arXiv:2408.03541).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "exaone",
    gguf: &["exaone"],
    hugging_face: &["ExaoneForCausalLM"],
    tensors: &[
        ("attn_k", "attn.attention.k_proj"),
        ("attn_norm", "ln_1"),
        ("attn_output", "attn.attention.out_proj"),
        ("attn_q", "attn.attention.q_proj"),
        ("attn_v", "attn.attention.v_proj"),
        ("ffn_down", "mlp.c_proj"),
        ("ffn_gate", "mlp.c_fc_0"),
        ("ffn_norm", "ln_2"),
        ("ffn_up", "mlp.c_fc_1"),
        ("output_norm", "ln_f"),
        ("token_embd", "wte"),
    ],
    keys: &[("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon"])],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::Silu)))
        })
    },
};
