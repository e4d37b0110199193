//! Nomic BERT: BERT with rope and a gate (Nussbaum 2024, arXiv:2402.01613).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::encoder::kin_of_bert;
use crate::shape::{Activation, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "nomic-bert",
    gguf: &["nomic-bert"],
    hugging_face: &["NomicBertModel"],
    tensors: &[
        ("attn_output", "attn.out_proj"),
        ("attn_output_norm", "norm1"),
        ("attn_qkv", "attn.Wqkv"),
        ("ffn_down", "mlp.fc2"),
        ("ffn_gate", "mlp.fc12"),
        ("ffn_up", "mlp.fc11"),
        ("layer_output_norm", "norm2"),
        ("token_embd", "embeddings.word_embeddings"),
        ("token_embd_norm", "emb_ln"),
        ("token_types", "embeddings.token_type_embeddings"),
    ],
    keys: &[
        ("activation", &["hidden_act"]),
        ("context_length", &["max_trained_positions", "max_position_embeddings", "n_positions"]),
        ("feed_forward_length", &["intermediate_size", "n_inner"]),
        ("moe_every_n_layers", &["moe_every_n_layers"]),
        ("prenorm", &["prenorm"]),
        ("rope.freq_base", &["rotary_emb_base", "rope_parameters.rope_theta"]),
        ("rotary_emb_interleaved", &["rotary_emb_interleaved"]),
    ],
    shape: |config| {
        if config.flag("prenorm")? || config.flag("rotary_emb_interleaved")? {
            return Err(config.unsupported("the form with a norm before each branch, or interleaved rope,"));
        }
        if config.optional_count("moe_every_n_layers", u32::MAX)?.is_some() {
            return Err(config.unsupported("a mixture of experts"));
        }
        let numbers = Numbers::read(config)?;
        let shape = decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            Ok(layer.normed_sums(layer.packed_both_ways(), layer.gated(Activation::Silu)))
        })?;
        kin_of_bert(config, &numbers, shape)
    },
};
