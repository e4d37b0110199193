//! Granite 3, dense: Llama's block with four multipliers (IBM 2024; the multipliers after Yang 2022, arXiv:2203.03466).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Layer, Numbers, decoder, permuted_rope};
use crate::name::Name;
use crate::shape::{Activation, Attention, Block, Branch, Embed, Ffn, Head, Shape};

pub(super) static FAMILY: Family = Family {
    name: "granite",
    gguf: &["granite"],
    hugging_face: &["GraniteForCausalLM"],
    tensors: &[],
    keys: &[],
    shape: |config| shape(config, &Numbers::read(config)?, |layer| layer.gated(Activation::Silu).into()),
};

/// Granite with the networks that `ffn` describes.
pub(super) fn shape(
    config: &Config<'_>,
    numbers: &Numbers,
    ffn: impl Fn(&Layer<'_>) -> Ffn<Name>,
) -> Result<Shape<Name>, Error> {
    let residual = config.optional_positive("residual_scale")?.unwrap_or(1.0);
    let scale = config.optional_positive("attention.scale")?;
    let shape = decoder(config, numbers, vec![permuted_rope(config, numbers)?], |layer| {
        let usual = layer.attention();
        let block = layer.pre_norm(Attention { scale: scale.unwrap_or(usual.scale), ..usual }, ffn(layer));
        Ok(Block {
            mixer: Branch { scale: residual, ..block.mixer },
            ffn: Branch { scale: residual, ..block.ffn },
            ..block
        })
    })?;
    let embed = Embed { scale: config.optional_positive("embedding_scale")?.unwrap_or(1.0), ..shape.embed };
    // The setting divides.
    let head = Head { scale: 1.0 / config.optional_positive("logit_scale")?.unwrap_or(1.0), ..shape.head };
    Ok(Shape { embed, head, ..shape })
}
