//! GLM-4 from safetensors: Llama's block with biases on q, k and v, neighbouring values of half a head turn (GLM team 2024,
//! arXiv:2406.12793).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Dense, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "glm",
    gguf: &["chatglm"],
    hugging_face: &["GlmForCausalLM"],
    tensors: &[("ffn_up", "mlp.gate_up_proj")],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let Numbers { hidden, heads, kv_heads, head_dim, ffn, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Pairs)?], |layer| {
            let output = layer.bare("attn_output", hidden, heads * head_dim);
            let [gate, up] = layer.split("ffn_up", [ffn, ffn], hidden);
            let dense = Dense { gate: Some(gate), up, ..layer.gated(Activation::Silu) };
            let attention = layer.attention();
            let fused = config.has(&format!("blk.{}.attn_qkv.weight", layer.index));
            let rows = [heads, kv_heads, kv_heads].map(|heads| heads * head_dim);
            let [q, k, v] =
                if fused { layer.split("attn_qkv", rows, hidden) } else { [attention.q, attention.k, attention.v] };
            Ok(layer.pre_norm(Attention { q, k, v, output, ..attention }, dense))
        })
    },
};
