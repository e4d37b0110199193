//! Jamba: Mamba's layers with norms on what they project, attention without rope between them, experts in some (AI21 2024,
//! arXiv:2403.19887).

use super::Family;
use crate::decoder::{Numbers, decoder};
use crate::moe::Experts;
use crate::recurrent::Selections;
use crate::shape::{Activation, Attention, Mixer, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "jamba",
    gguf: &["jamba"],
    hugging_face: &["JambaForCausalLM"],
    tensors: &[
        ("ffn_down", "feed_forward.down_proj"),
        ("ffn_down_exps", "feed_forward.experts.{}.down_proj"),
        ("ffn_gate", "feed_forward.gate_proj"),
        ("ffn_gate_exps", "feed_forward.experts.{}.gate_proj"),
        ("ffn_gate_inp", "feed_forward.router"),
        ("ffn_norm", "pre_ff_layernorm"),
        ("ffn_up", "feed_forward.up_proj"),
        ("ffn_up_exps", "feed_forward.experts.{}.up_proj"),
        ("output_norm", "final_layernorm"),
        ("ssm_b_norm", "mamba.b_layernorm"),
        ("ssm_c_norm", "mamba.c_layernorm"),
        ("ssm_dt", "mamba.dt_proj"),
        ("ssm_dt.bias", "mamba.dt_proj.bias"),
        ("ssm_dt_norm", "mamba.dt_layernorm"),
        ("ssm_x", "mamba.x_proj"),
    ],
    keys: &[("ssm.expand", &["mamba_expand"]), ("ssm.time_step_rank", &["mamba_dt_rank"])],
    shape: |config| {
        let numbers = Numbers::hybrid(config)?;
        let selections = Selections::read(config, &numbers)?;
        let experts = Experts::read(config, &numbers, Scoring::Softmax)?;
        decoder(config, &numbers, Vec::new(), |layer| {
            // What a layer is, its tensors tell.
            let has = |slot: &str| config.has(&format!("blk.{}.{slot}.weight", layer.index));
            let mixer = if has("attn_q") {
                Mixer::Attention(Attention { rope: None, ..layer.attention() })
            } else {
                Mixer::Selective(layer.selective(&selections))
            };
            let ffn = if has("ffn_gate_inp") { layer.moe(&experts).into() } else { layer.gated(Activation::Silu).into() };
            Ok(layer.block(mixer, ffn))
        })
    },
};
