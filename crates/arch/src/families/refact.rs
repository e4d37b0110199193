//! Refact, from GGUF: Llama's block with linear biases on scores instead of rope, one key and value head (Small Magellanic Cloud AI
//! 2023).

use super::Family;
use crate::decoder::{Numbers, decoder};
use crate::shape::{Activation, Attention};

pub(super) static FAMILY: Family = Family {
    name: "refact",
    gguf: &["refact"],
    // A directory keeps gates and what goes with them in one matrix, and its width nowhere.
    hugging_face: &[],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        decoder(config, &numbers, Vec::new(), |layer| {
            let attention = Attention { rope: None, alibi: Some(8.0), ..layer.attention() };
            Ok(layer.pre_norm(attention, layer.gated(Activation::Silu)))
        })
    },
};
