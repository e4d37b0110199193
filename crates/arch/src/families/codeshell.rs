//! `CodeShell`: layer norms, one matrix for queries, keys and values, biases everywhere (Xie 2024, arXiv:2403.15747).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Dense, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "codeshell",
    gguf: &["codeshell"],
    hugging_face: &["CodeShellForCausalLM"],
    tensors: &[
        ("attn_norm", "ln_1"),
        ("attn_output", "attn.c_proj"),
        ("attn_qkv", "attn.c_attn"),
        ("ffn_down", "mlp.c_proj"),
        ("ffn_norm", "ln_2"),
        ("ffn_up", "mlp.c_fc"),
        ("output_norm", "ln_f"),
        ("token_embd", "wte"),
    ],
    keys: &[("attention.head_count_kv", &["num_query_groups"]), ("feed_forward_length", &["n_inner"])],
    shape: |config| {
        if let Some(kind) = config.json("position_embedding_type").filter(|kind| *kind != "rope") {
            return Err(config.unsupported(format!("the position embedding {kind}")));
        }
        let numbers = Numbers::of_width(config, 4, None, None)?;
        let Numbers { hidden, heads, kv_heads, head_dim, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = layer.attention();
            let fused = config.has(&format!("blk.{}.attn_qkv.weight", layer.index));
            let rows = [heads, kv_heads, kv_heads].map(|heads| heads * head_dim);
            let [q, k, v] =
                if fused { layer.split("attn_qkv", rows, hidden) } else { [attention.q, attention.k, attention.v] };
            let dense = Dense { gate: None, ..layer.gated(Activation::GeluTanh) };
            Ok(layer.pre_norm(Attention { q, k, v, ..attention }, dense))
        })
    },
};
