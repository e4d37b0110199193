//! `SmolLM3`: Llama's block, every fourth layer without rope (Hugging Face 2025; `NoPE` after Kazemnejad 2023,
//! arXiv:2305.19466).

use serde_json::Value as Json;

use super::Family;
use crate::decoder::{Numbers, decoder, permuted_rope};
use crate::shape::{Activation, Attention};

pub(super) static FAMILY: Family = Family {
    name: "smollm3",
    gguf: &["smollm3"],
    hugging_face: &["SmolLM3ForCausalLM"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let listed = config.json("no_rope_layers").and_then(Json::as_array);
        decoder(config, &numbers, vec![permuted_rope(config, &numbers)?], |layer| {
            // The list holds 1 where a layer has rope; a GGUF leaves it out and means every fourth.
            let stated = listed.and_then(|list| list.get(layer.index as usize)).and_then(Json::as_u64);
            let turns = stated.map_or((layer.index + 1) % 4 != 0, |flag| flag == 1);
            let attention = Attention { rope: turns.then_some(0), ..layer.attention() };
            Ok(layer.pre_norm(attention, layer.gated(Activation::Silu)))
        })
    },
};
