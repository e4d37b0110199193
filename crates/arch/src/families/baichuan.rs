//! Baichuan: Llama's block, q, k and v stored as one matrix; the 13B has linear biases on scores instead of rope (Yang 2023,
//! arXiv:2309.10305).

use super::Family;
use crate::decoder::{Numbers, decoder, permuted_rope};
use crate::shape::{Activation, Attention};

pub(super) static FAMILY: Family = Family {
    name: "baichuan",
    gguf: &["baichuan"],
    hugging_face: &["BaichuanForCausalLM", "BaiChuanForCausalLM"],
    tensors: &[("attn_qkv", "self_attn.W_pack")],
    keys: &[("context_length", &["max_position_embeddings", "model_max_length"])],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let Numbers { hidden, heads, head_dim, .. } = numbers;
        // No setting tells the two apart.
        let leans = numbers.layers == 40;
        if numbers.vocab == 125_696 && !config.is_gguf() {
            return Err(config.unsupported("Baichuan 2 from safetensors, whose head has its rows normalised,"));
        }
        decoder(config, &numbers, vec![permuted_rope(config, &numbers)?], |layer| {
            let mut attention = layer.attention();
            if !config.is_gguf() {
                let [q, k, v] = layer.split("attn_qkv", [heads * head_dim; 3], hidden);
                attention = Attention { q, k, v, ..attention };
            }
            if leans {
                attention = Attention { rope: None, alibi: Some(8.0), ..attention };
            }
            Ok(layer.pre_norm(attention, layer.gated(Activation::Silu)))
        })
    },
};
