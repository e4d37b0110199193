//! `StableLM` 3B and 2 1.6B: layer norms with a bias, rope on a part of each head (Bellagente 2024, arXiv:2402.17834).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "stablelm",
    gguf: &["stablelm"],
    hugging_face: &["StableLmForCausalLM"],
    tensors: &[],
    keys: &[("qk_layernorm", &["qk_layernorm"])],
    shape: |config| {
        if config.flag("use_parallel_residual")?
            || config.flag("qk_layernorm")?
            || config.has("blk.0.attn_q_norm.weight")
        {
            return Err(config.unsupported("the 12B form, with parallel branches and a norm for each head,"));
        }
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::Silu)))
        })
    },
};
