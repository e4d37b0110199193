//! `SmolLM3`: Llama's block, every fourth layer without rope (Hugging Face 2025; `NoPE` after Kazemnejad 2023,
//! arXiv:2305.19466).

use super::Family;
use crate::decoder::{Numbers, decoder, permuted_rope};
use crate::shape::{Activation, Attention};

pub(super) static FAMILY: Family = Family {
    name: "smollm3",
    gguf: &["smollm3"],
    hugging_face: &["SmolLM3ForCausalLM"],
    tensors: &[],
    keys: &[("no_rope_layer_interval", &["no_rope_layer_interval"])],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let listed = config.json("no_rope_layers").map(|list| {
            let flags = list.as_array().filter(|flags| flags.len() == numbers.layers as usize);
            let flags =
                flags.and_then(|flags| flags.iter().map(|flag| flag.as_u64().filter(|&flag| flag < 2)).collect());
            let expected = format!("a list of {} times 0 or 1", numbers.layers);
            flags.ok_or_else(|| config.invalid("no_rope_layers", &list.to_string(), &expected))
        });
        let listed: Option<Vec<u64>> = listed.transpose()?;
        let interval = config.optional_count("no_rope_layer_interval", 1024)?.unwrap_or(4);
        decoder(config, &numbers, vec![permuted_rope(config, &numbers)?], |layer| {
            // The list holds 1 where a layer has rope; a GGUF leaves it out and means every fourth.
            let stated = listed.as_ref().map(|flags| flags[layer.index as usize] == 1);
            let turns = stated.unwrap_or((layer.index + 1) % interval != 0);
            let attention = Attention { rope: turns.then_some(0), ..layer.attention() };
            Ok(layer.pre_norm(attention, layer.gated(Activation::Silu)))
        })
    },
};
