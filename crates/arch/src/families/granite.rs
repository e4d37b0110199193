//! Granite 3, dense: Llama's block with four multipliers (IBM 2024; the multipliers after Yang 2022, arXiv:2203.03466).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Layer, Numbers, decoder, permuted_rope};
use crate::name::Name;
use crate::shape::{Activation, Attention, Block, Branch, Embed, Head, Shape};

pub(super) static FAMILY: Family = Family {
    name: "granite",
    gguf: &["granite"],
    hugging_face: &["GraniteForCausalLM"],
    tensors: &[],
    keys: &[],
    shape: |config| {
        shape(config, &Numbers::read(config)?, |layer, attention| {
            layer.pre_norm(attention, layer.gated(Activation::Silu))
        })
    },
};

/// Granite with the blocks that `block` makes of its attention.
pub(super) fn shape(
    config: &Config<'_>,
    numbers: &Numbers,
    block: impl Fn(&Layer<'_>, Attention<Name>) -> Block<Name>,
) -> Result<Shape<Name>, Error> {
    let residual = config.optional_positive("residual_scale")?.unwrap_or(1.0);
    let scale = config.optional_positive("attention.scale")?;
    let shape = decoder(config, numbers, vec![permuted_rope(config, numbers)?], |layer| {
        let usual = layer.attention();
        let block = block(layer, Attention { scale: scale.unwrap_or(usual.scale), ..usual });
        Ok(Block {
            mixer: block.mixer.map(|mixer| Branch { scale: residual, ..mixer }),
            ffn: block.ffn.map(|ffn| Branch { scale: residual, ..ffn }),
            ..block
        })
    })?;
    let embed = Embed { scale: config.optional_positive("embedding_scale")?.unwrap_or(1.0), ..shape.embed };
    // The setting divides.
    let head = Head { scale: 1.0 / config.optional_positive("logit_scale")?.unwrap_or(1.0), ..shape.head };
    Ok(Shape { embed, head, ..shape })
}
