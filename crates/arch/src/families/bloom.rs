//! BLOOM, from GGUF: linear biases on scores instead of positions, a norm of the embeddings (Le Scao 2022, arXiv:2211.05100).

use super::Family;
use crate::decoder::{Numbers, decoder};
use crate::encoder::embed;
use crate::shape::{Activation, Attention, Shape};

pub(super) static FAMILY: Family = Family {
    name: "bloom",
    gguf: &["bloom"],
    // Their q, k and v take turns by heads in one matrix, which no slot is.
    hugging_face: &[],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let shape = decoder(config, &numbers, Vec::new(), |layer| {
            let [q, k, v] = layer.split("attn_qkv", [numbers.hidden; 3], numbers.hidden);
            let attention = Attention { q, k, v, rope: None, alibi: Some(8.0), ..layer.attention() };
            Ok(layer.pre_norm(attention, layer.ungated(Activation::GeluTanh)))
        })?;
        Ok(Shape { embed: embed(config, &numbers, shape.embed), ..shape })
    },
};
