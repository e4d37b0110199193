//! BERT: learned places, norms of sums (Devlin 2018, arXiv:1810.04805).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Numbers, decoder, norm};
use crate::encoder::{embed, encoder};
use crate::name::Name;
use crate::shape::{Activation, Attention, Embed, Pooling, Shape};

pub(super) static FAMILY: Family = Family {
    name: "bert",
    gguf: &["bert"],
    hugging_face: &["BertModel", "BertForMaskedLM", "BertForSequenceClassification"],
    tensors: &[
        ("attn_k", "attention.self.key"),
        ("attn_output", "attention.output.dense"),
        ("attn_output_norm", "attention.output.LayerNorm"),
        ("attn_q", "attention.self.query"),
        ("attn_v", "attention.self.value"),
        ("cls", "pooler.dense"),
        ("cls.output", "classifier"),
        ("ffn_down", "output.dense"),
        ("ffn_up", "intermediate.dense"),
        ("layer_output_norm", "output.LayerNorm"),
        ("position_embd", "embeddings.position_embeddings"),
        ("token_embd", "embeddings.word_embeddings"),
        ("token_embd_norm", "embeddings.LayerNorm"),
        ("token_types", "embeddings.token_type_embeddings"),
    ],
    keys: KEYS,
    shape: |config| shape(config, 0),
};

/// What would make another model of it.
pub(super) const KEYS: &[(&str, &[&str])] =
    &[("is_decoder", &["is_decoder"]), ("position_embedding_type", &["position_embedding_type"])];

/// The shape; of the table of places, so many rows in front are left out.
pub(super) fn shape(config: &Config<'_>, rows_in_front: u32) -> Result<Shape<Name>, Error> {
    if let Some(kind) = config.text("position_embedding_type").filter(|kind| *kind != "absolute") {
        return Err(config.unsupported(format!("the position embedding {kind:?}")));
    }
    if config.flag("is_decoder")? {
        return Err(config.unsupported("the form that writes"));
    }
    let numbers = Numbers::read(config)?;
    let (rows, hidden) = (numbers.context_tokens, numbers.hidden);
    let Some(context_tokens) = rows.checked_sub(rows_in_front).filter(|&tokens| tokens > 0) else {
        return Err(config.invalid("context_length", &rows.to_string(), &format!("over {rows_in_front}")));
    };
    let places = Name { rows: Some(rows_in_front.into()..rows.into()), ..config.matrix("position_embd.weight", rows, hidden) };
    let shape = decoder(config, &numbers, Vec::new(), |layer| {
        let attention = Attention { rope: None, ..layer.attention_both_ways() };
        Ok(layer.normed_sums(attention, layer.ungated(Activation::Gelu)))
    })?;
    let shape = encoder(config, &numbers, Pooling::Mean, Shape {
        context_tokens,
        embed: Embed { places: Some(places), ..embed(config, &numbers, shape.embed) },
        norm: norm(config, &numbers, &format!("blk.{}.layer_output_norm", numbers.layers - 1), hidden),
        ..shape
    })?;
    // llama.cpp's converter leaves it out of BERT's: the scores would be another model's.
    if shape.summary.judges && shape.summary.refinements.len() < 2 {
        return Err(config.unsupported("a classifier without the matrix in front of it"));
    }
    Ok(shape)
}
