//! GPT-2, from GGUF: learned places, biases everywhere (Radford 2019).

use super::Family;
use crate::decoder::{Numbers, decoder};
use crate::shape::{Activation, Attention, Embed, Shape};

pub(super) static FAMILY: Family = Family {
    name: "gpt2",
    gguf: &["gpt2"],
    // Their matrices are transposed, which no slot is.
    hugging_face: &[],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let shape = decoder(config, &numbers, Vec::new(), |layer| {
            let [q, k, v] = layer.split("attn_qkv", [numbers.hidden; 3], numbers.hidden);
            let attention = Attention { q, k, v, rope: None, ..layer.attention() };
            Ok(layer.pre_norm(attention, layer.ungated(Activation::GeluTanh)))
        })?;
        let places = config.matrix("position_embd.weight", numbers.context_tokens, numbers.hidden);
        Ok(Shape { embed: Embed { places: Some(places), ..shape.embed }, ..shape })
    },
};
