//! `StarCoder2`: layer norms and matrices with a bias, a feed-forward network without a gate, a window (Lozhkov 2024,
//! arXiv:2402.19173).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Dense, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "starcoder2",
    gguf: &["starcoder2"],
    hugging_face: &["Starcoder2ForCausalLM"],
    tensors: &[("ffn_up", "mlp.c_fc"), ("ffn_down", "mlp.c_proj")],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention { window_tokens: layer.window(true), ..layer.attention() };
            Ok(layer.pre_norm(attention, Dense { gate: None, ..layer.gated(Activation::GeluTanh) }))
        })
    },
};
