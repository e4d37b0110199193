//! Phi-3 and Phi-4-mini: q, k, v stored as one matrix, gate and up as another, long and short rope factors (Abdin 2024,
//! arXiv:2404.14219).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Dense, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "phi3",
    gguf: &["phi3"],
    hugging_face: &["Phi3ForCausalLM"],
    tensors: &[("ffn_up", "mlp.gate_up_proj")],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let Numbers { hidden, heads, kv_heads, head_dim, ffn, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let rows = [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim];
            let [q, k, v] = layer.split("attn_qkv", rows, hidden);
            let [gate, up] = layer.split("ffn_up", [ffn, ffn], hidden);
            let dense = Dense { gate: Some(gate), up, ..layer.gated(Activation::Silu) };
            Ok(layer.pre_norm(Attention { q, k, v, window_tokens: layer.window(true), ..layer.attention() }, dense))
        })
    },
};
