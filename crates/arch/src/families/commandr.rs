//! Command R: both branches on one norm, layer norms without a bias, a factor on the logits (Cohere 2024).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Layer, Numbers, decoder, rope};
use crate::name::Name;
use crate::shape::{Activation, Attention, Block, Branch, Head, RopeStyle, Shape, Wiring};

pub(super) static FAMILY: Family = Family {
    name: "command-r",
    gguf: &["command-r"],
    hugging_face: &["CohereForCausalLM"],
    tensors: &[],
    keys: &[("logit_scale", &["logit_scale"])],
    shape: |config| shape(config, &Numbers::read(config)?, |_| Some(0)),
};

/// Command R with the rope that `rope_of` gives a layer.
pub(super) fn shape(
    config: &Config<'_>,
    numbers: &Numbers,
    rope_of: impl Fn(&Layer<'_>) -> Option<usize>,
) -> Result<Shape<Name>, Error> {
    if config.flag("use_qk_norm")? || config.has("blk.0.attn_q_norm.weight") {
        return Err(config.unsupported("a norm with weights for each head on queries and keys"));
    }
    let shape = decoder(config, numbers, vec![rope(config, numbers, RopeStyle::Pairs)?], |layer| {
        let attention = Attention { rope: rope_of(layer), ..layer.attention() };
        let block = layer.pre_norm(attention, layer.gated(Activation::Silu));
        let norm = Some(layer.norm("attn_norm"));
        Ok(Block { ffn: block.ffn.map(|ffn| Branch { norm, ..ffn }), wiring: Wiring::Parallel, ..block })
    })?;
    let head = Head { scale: config.optional_positive("logit_scale")?.unwrap_or(1.0), ..shape.head };
    Ok(Shape { head, ..shape })
}
