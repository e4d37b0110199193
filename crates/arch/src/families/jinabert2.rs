//! Jina embeddings 2: BERT with linear biases on scores instead of places, and a gate (Günther 2023, arXiv:2310.19923).

use super::Family;
use crate::decoder::{Numbers, decoder};
use crate::encoder::kin_of_bert;
use crate::shape::{Activation, Attention, Dense};

pub(super) static FAMILY: Family = Family {
    name: "jina-bert-v2",
    gguf: &["jina-bert-v2"],
    hugging_face: &["JinaBertForMaskedLM", "JinaBertModel"],
    tensors: &[
        ("attn_k", "attention.self.key"),
        ("attn_norm_2", "layer_norm_1"),
        ("attn_output", "attention.output.dense"),
        ("attn_output_norm", "attention.output.LayerNorm"),
        ("attn_q", "attention.self.query"),
        ("attn_v", "attention.self.value"),
        ("cls", "pooler.dense"),
        ("cls.output", "classifier"),
        ("ffn_down", "mlp.wo"),
        ("ffn_up", "mlp.gated_layers"),
        ("layer_output_norm", "mlp.layernorm"),
        ("token_embd", "embeddings.word_embeddings"),
        ("token_embd_norm", "embeddings.LayerNorm"),
        ("token_types", "embeddings.token_type_embeddings"),
    ],
    keys: &[("is_decoder", &["is_decoder"]), ("position_embedding_type", &["position_embedding_type"])],
    shape: |config| {
        for (key, known) in [("position_embedding_type", "alibi"), ("feed_forward_type", "geglu")] {
            if let Some(other) = config.json(key).filter(|kind| *kind != known) {
                return Err(config.unsupported(format!("the {key} {other}")));
            }
        }
        let numbers = Numbers::read(config)?;
        let shape = decoder(config, &numbers, Vec::new(), |layer| {
            if config.has(&format!("blk.{}.attn_norm_2.weight", layer.index)) {
                return Err(config.unsupported("the form that adds a layer's input twice (of code)"));
            }
            let attention = Attention { rope: None, alibi: Some(8.0), ..layer.attention_both_ways() };
            let apart = config.has(&format!("blk.{}.ffn_gate.weight", layer.index));
            let [gate, up] = layer.split("ffn_up", [numbers.ffn; 2], numbers.hidden);
            let packed = Dense { gate: Some(gate), up, ..layer.ungated(Activation::Gelu) };
            Ok(layer.normed_sums(attention, if apart { layer.gated(Activation::Gelu) } else { packed }))
        })?;
        kin_of_bert(config, &numbers, shape)
    },
};
