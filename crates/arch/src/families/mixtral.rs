//! Mixtral: Llama's block with experts, whose weights are the softmax over the chosen (Jiang 2024, arXiv:2401.04088).
//!
//! Its GGUF files call themselves `llama`.

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Numbers, decoder, permuted_rope};
use crate::moe::Experts;
use crate::name::Name;
use crate::shape::{Attention, Scoring, Shape};

pub(super) static FAMILY: Family = Family {
    name: "mixtral",
    gguf: &[],
    hugging_face: &["MixtralForCausalLM"],
    tensors: &[
        ("ffn_down_exps", "block_sparse_moe.experts.{}.w2"),
        ("ffn_gate_exps", "block_sparse_moe.experts.{}.w1"),
        ("ffn_gate_inp", "block_sparse_moe.gate"),
        ("ffn_up_exps", "block_sparse_moe.experts.{}.w3"),
    ],
    keys: &[],
    shape,
};

pub(super) fn shape(config: &Config<'_>) -> Result<Shape<Name>, Error> {
    let numbers = Numbers::read(config)?;
    let experts = Experts::read(config, &numbers, Scoring::SoftmaxOfChosen)?;
    decoder(config, &numbers, vec![permuted_rope(config, &numbers)?], |layer| {
        let attention = Attention { window_tokens: layer.window(true), ..layer.attention() };
        Ok(layer.pre_norm(attention, layer.moe(&experts)))
    })
}
