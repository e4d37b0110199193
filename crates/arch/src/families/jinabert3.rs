//! Jina embeddings 3: BERT with rope instead of places (Sturua 2024, arXiv:2409.10173). What it has for each task is an adapter.

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::encoder::kin_of_bert;
use crate::shape::{Activation, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "jina-bert-v3",
    gguf: &["jina-bert-v3"],
    hugging_face: &["JinaEmbeddingsV3ForMaskedLM", "JinaEmbeddingsV3Model"],
    tensors: &[
        ("attn_output_norm", "post_attention_layernorm"),
        ("ffn_down", "mlp.fc2"),
        ("ffn_up", "mlp.fc1"),
        ("layer_output_norm", "post_mlp_layernorm"),
        ("token_embd", "embeddings.word_embeddings"),
        ("token_embd_norm", "embeddings.LayerNorm"),
        ("token_types", "embeddings.token_type_embeddings"),
    ],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let shape = decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let packed = config.has(&format!("blk.{}.attn_qkv.weight", layer.index));
            let attention = if packed { layer.packed_both_ways() } else { layer.attention_both_ways() };
            Ok(layer.normed_sums(attention, layer.ungated(Activation::Gelu)))
        })?;
        kin_of_bert(config, &numbers, shape)
    },
};
