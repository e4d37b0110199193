//! Llama 1 to 3 and the many models of its form (Touvron 2023, arXiv:2302.13971).

use super::{Family, mistral, mixtral};
use crate::decoder::{Numbers, decoder, permuted_rope};
use crate::shape::Activation;

pub(super) static FAMILY: Family = Family {
    name: "llama",
    gguf: &["llama"],
    hugging_face: &["LlamaForCausalLM", "LlamaModel"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        if config.optional_count("expert_count", u32::MAX)?.is_some() {
            return mixtral::shape(config);
        }
        // Files of Mistral are this family's; who says that there is a window means it.
        if config.is_gguf() && config.optional_count("attention.sliding_window", u32::MAX)?.is_some() {
            return mistral::shape(config);
        }
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, vec![permuted_rope(config, &numbers)?], |layer| {
            Ok(layer.pre_norm(layer.attention(), layer.gated(Activation::Silu)))
        })
    },
};
