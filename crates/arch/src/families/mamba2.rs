//! Mamba-2: a state space in every layer and nothing else (Dao and Gu 2024, arXiv:2405.21060).

use super::{Family, nemotronh};
use crate::decoder::{Numbers, decoder};
use crate::recurrent::Spaces;
use crate::shape::Mixer;

/// What the reference takes where a model states no context: its state has no end.
const USUAL_CONTEXT_TOKENS: u32 = 1 << 20;

pub(super) static FAMILY: Family = Family {
    name: "mamba2",
    gguf: &["mamba2"],
    hugging_face: &["Mamba2ForCausalLM"],
    tensors: nemotronh::TENSORS,
    keys: &[("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon"])],
    shape: |config| {
        let numbers = Numbers::body(config, Some(USUAL_CONTEXT_TOKENS))?;
        let spaces = Spaces::read(config)?;
        decoder(config, &numbers, Vec::new(), |layer| {
            Ok(layer.mixing("attn_norm", Mixer::StateSpace(layer.state_space(&spaces))))
        })
    },
};
