//! `EuroBERT`: Llama's block that sees both ways (Boizard 2025, arXiv:2503.05500).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::encoder::encoder;
use crate::shape::{Activation, Pooling, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "eurobert",
    gguf: &["eurobert"],
    hugging_face: &["EuroBertForMaskedLM", "EuroBertModel"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let shape = decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            Ok(layer.pre_norm(layer.attention_both_ways(), layer.gated(Activation::Silu)))
        })?;
        encoder(config, &numbers, Pooling::Mean, shape)
    },
};
