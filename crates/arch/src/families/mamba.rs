//! Mamba and Falcon-Mamba: a selective state space in every layer and nothing else (Gu and Dao 2023, arXiv:2312.00752).

use super::Family;
use crate::decoder::{Numbers, decoder};
use crate::recurrent::Selections;
use crate::shape::{Activation, Mixer};

pub(super) static FAMILY: Family = Family {
    name: "mamba",
    gguf: &["mamba"],
    hugging_face: &["FalconMambaForCausalLM", "MambaForCausalLM"],
    tensors: &[
        ("attn_norm", "norm"),
        ("output_norm", "norm_f"),
        ("ssm_a", "mixer.A_log"),
        ("ssm_conv1d", "mixer.conv1d"),
        ("ssm_d", "mixer.D"),
        ("ssm_dt", "mixer.dt_proj"),
        ("ssm_dt.bias", "mixer.dt_proj.bias"),
        ("ssm_in", "mixer.in_proj"),
        ("ssm_out", "mixer.out_proj"),
        ("ssm_x", "mixer.x_proj"),
        ("token_embd", "embeddings"),
    ],
    keys: &[
        ("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon"]),
        ("ssm.dt_b_c_rms_epsilon", &["mixer_rms_eps"]),
        ("ssm.expand", &["expand"]),
        ("ssm.inner_size", &["intermediate_size"]),
        ("ssm.time_step_rank", &["time_step_rank"]),
    ],
    shape: |config| {
        let numbers = Numbers::body(config, Some(1 << 20))?;
        if let Some(other) = numbers.activation.filter(|&activation| activation != Activation::Silu) {
            return Err(config.unsupported(format!("the activation {other:?}")));
        }
        let selections = Selections::read(config, &numbers)?;
        decoder(config, &numbers, Vec::new(), |layer| {
            Ok(layer.mixing("attn_norm", Mixer::Selective(layer.selective(&selections))))
        })
    },
};
