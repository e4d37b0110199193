//! `StarCoder`: GPT-2 with one key and value head for all queries (Li 2023, arXiv:2305.06161).

use super::Family;
use crate::decoder::{Numbers, decoder};
use crate::shape::{Activation, Attention, Embed, Shape};

pub(super) static FAMILY: Family = Family {
    name: "starcoder",
    gguf: &["starcoder"],
    hugging_face: &["GPTBigCodeForCausalLM"],
    tensors: &[
        ("attn_norm", "ln_1"),
        ("attn_output", "attn.c_proj"),
        ("attn_qkv", "attn.c_attn"),
        ("ffn_down", "mlp.c_proj"),
        ("ffn_norm", "ln_2"),
        ("ffn_up", "mlp.c_fc"),
        ("output_norm", "ln_f"),
        ("position_embd", "wpe"),
        ("token_embd", "wte"),
    ],
    keys: &[("feed_forward_length", &["n_inner"])],
    shape: |config| {
        if config.json("multi_query").is_some_and(|one| *one != true) {
            return Err(config.unsupported("a key and value head for every query (multi_query other than true)"));
        }
        let numbers = Numbers::of_width(config, 4, None, Some(1))?;
        let rows = [numbers.heads, numbers.kv_heads, numbers.kv_heads].map(|heads| heads * numbers.head_dim);
        let shape = decoder(config, &numbers, Vec::new(), |layer| {
            let [q, k, v] = layer.split("attn_qkv", rows, numbers.hidden);
            let attention = Attention { q, k, v, rope: None, ..layer.attention() };
            Ok(layer.pre_norm(attention, layer.ungated(Activation::GeluTanh)))
        })?;
        let places = config.matrix("position_embd.weight", numbers.context_tokens, numbers.hidden);
        Ok(Shape { embed: Embed { places: Some(places), ..shape.embed }, ..shape })
    },
};
