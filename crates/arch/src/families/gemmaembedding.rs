//! `EmbeddingGemma`: Gemma 3 that reads both ways, and two matrices behind the mean (Vera 2025, arXiv:2509.20354).

use super::{Family, gemma2, gemma3};
use crate::config::Config;
use crate::decoder::{HIDDEN_MAX, Numbers};
use crate::encoder::encoder;
use crate::name::Name;
use crate::shape::{Attention, Branch, Curve, Linear, Mixer, Pooling, Refinement, Shape, Summary};

pub(super) static FAMILY: Family = Family {
    name: "gemma-embedding",
    gguf: &["gemma-embedding"],
    hugging_face: &["Gemma3TextModel"],
    tensors: gemma2::TENSORS,
    keys: gemma3::KEYS,
    shape: |config| {
        if !config.is_gguf() && !config.flag("use_bidirectional_attention")? {
            return Err(config.unsupported("a body without a head that does not read both ways"));
        }
        let mut shape = gemma3::shape(config)?;
        for block in &mut shape.blocks {
            block.mixer = block.mixer.take().map(|mixer| Branch { op: both_ways(mixer.op), ..mixer });
        }
        let shape = encoder(config, &Numbers::read(config)?, Pooling::Mean, shape)?;
        let refinements = refinements(config, shape.hidden);
        Ok(Shape { summary: Summary { refinements, ..shape.summary }, ..shape })
    },
};

/// Stated is how far a window reaches to both sides together.
fn both_ways(mixer: Mixer<Name>) -> Mixer<Name> {
    match mixer {
        Mixer::Attention(attention) => {
            let window_tokens = attention.window_tokens.map(|both| both / 2 + 1);
            Mixer::Attention(Attention { both_ways: true, window_tokens, ..attention })
        }
        other => other,
    }
}

/// The matrices that the file has, one behind the other.
fn refinements(config: &Config<'_>, hidden: u32) -> Vec<Refinement<Name>> {
    let (mut columns, mut found) = (hidden, Vec::new());
    for weight in ["dense_2.weight", "dense_3.weight"] {
        let rows = config.rows_of(weight).and_then(|rows| u32::try_from(rows).ok()).filter(|rows| (1..=HIDDEN_MAX).contains(rows));
        let Some(rows) = rows else { continue };
        let linear = Linear { rows, columns, weight: config.matrix(weight, rows, columns), bias: None };
        found.push(Refinement { linear, curve: Curve::Line, norm: None });
        columns = rows;
    }
    found
}
