//! Qwen1.5 and Qwen2 with experts: a softmax over all of them as it is, and a shared network with a gate (Yang 2024,
//! arXiv:2407.10671).

use super::{Family, qwen2};
use crate::decoder::{Numbers, decoder, rope};
use crate::moe::Experts;
use crate::shape::{Attention, RopeStyle, Scoring};

pub(super) static FAMILY: Family = Family {
    name: "qwen2moe",
    gguf: &["qwen2moe"],
    hugging_face: &["Qwen2MoeForCausalLM"],
    tensors: &[
        ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
        ("ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
        ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
        ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
    ],
    keys: &[],
    shape: |config| {
        let (numbers, full_layers) = qwen2::numbers(config)?;
        let stated = Experts::read(config, &numbers, Scoring::Softmax)?;
        let shared_width = if stated.shared_width > 0 { stated.shared_width } else { numbers.ffn };
        let experts = Experts { shared_width, shared_gate: true, ..stated };
        let Numbers { hidden, heads, kv_heads, head_dim, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = Attention {
                q: layer.biased("attn_q", heads * head_dim, hidden),
                k: layer.biased("attn_k", kv_heads * head_dim, hidden),
                v: layer.biased("attn_v", kv_heads * head_dim, hidden),
                window_tokens: layer.window(layer.index >= full_layers),
                ..layer.attention()
            };
            Ok(layer.pre_norm(attention, layer.dense_or_moe(&experts)))
        })
    },
};
