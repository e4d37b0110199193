//! Falcon 7B and its kin: both branches read one norm, one key and value head for all queries (Almazrouei 2023,
//! arXiv:2311.16867). From GGUF, those with more such heads and two norms, too.

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Block, Dense, RopeStyle, Wiring};

pub(super) static FAMILY: Family = Family {
    name: "falcon",
    gguf: &["falcon"],
    hugging_face: &["FalconForCausalLM"],
    tensors: &[
        ("attn_output", "self_attention.dense"),
        ("attn_qkv", "self_attention.query_key_value"),
        ("ffn_down", "mlp.dense_4h_to_h"),
        ("ffn_up", "mlp.dense_h_to_4h"),
        ("output_norm", "ln_f"),
        ("token_embd", "word_embeddings"),
    ],
    keys: &[("activation", &["activation"]), ("attention.head_count_kv", &["num_kv_heads", "n_head_kv"])],
    shape: |config| {
        // Those with groups keep queries between keys and values.
        for (key, usual) in [("alibi", false), ("new_decoder_architecture", false), ("parallel_attn", true)] {
            if config.json(key).is_some_and(|value| *value != usual) {
                return Err(config.unsupported(format!("{key} other than {usual}")));
            }
        }
        let several = config.json("multi_query").is_some_and(|one| *one == false);
        let numbers = Numbers::of_width(config, 4, Some(2048), if several { None } else { Some(1) })?;
        let Numbers { hidden, heads, kv_heads, head_dim, .. } = numbers;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let [q, k, v] = layer.split("attn_qkv", [heads, kv_heads, kv_heads].map(|heads| heads * head_dim), hidden);
            let dense = Dense { gate: None, ..layer.gated(Activation::Gelu) };
            let two_norms = config.has(&format!("blk.{}.attn_norm_2.weight", layer.index));
            let mixing = layer.mixing(
                if two_norms { "attn_norm_2" } else { "attn_norm" },
                Attention { q, k, v, ..layer.attention() }.into(),
            );
            Ok(Block { ffn: layer.feeding("attn_norm", dense.into()).ffn, wiring: Wiring::Parallel, ..mixing })
        })
    },
};
