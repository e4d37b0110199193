//! GPT-NeoX and Pythia, from GGUF: both branches read the block's input, each through a norm of its own (Black 2022,
//! arXiv:2204.06745).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Block, Dense, RopeStyle, Wiring};

pub(super) static FAMILY: Family = Family {
    name: "gptneox",
    gguf: &["gptneox"],
    // Their q, k and v take turns by heads in one matrix, which no slot is.
    hugging_face: &[],
    tensors: &[],
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let Numbers { hidden, heads, head_dim, .. } = numbers;
        let wiring = if config.flag("use_parallel_residual")? { Wiring::Parallel } else { Wiring::Sequential };
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let [q, k, v] = layer.split("attn_qkv", [heads * head_dim; 3], hidden);
            let dense = Dense { gate: None, ..layer.gated(Activation::Gelu) };
            Ok(Block { wiring, ..layer.pre_norm(Attention { q, k, v, ..layer.attention() }, dense) })
        })
    },
};
