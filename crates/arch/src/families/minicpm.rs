//! `MiniCPM` 1 and 4: Llama's block with factors on the embedding, on what each branch adds and on the logits, as Granite has
//! them (Hu 2024, arXiv:2404.06395).

use super::{Family, granite};
use crate::decoder::Numbers;
use crate::shape::{Activation, Block, Branch, Head, Shape};

pub(super) static FAMILY: Family = Family {
    name: "minicpm",
    gguf: &["minicpm"],
    hugging_face: &["MiniCPMForCausalLM"],
    tensors: &[],
    keys: &[
        ("embedding_scale", &["scale_emb"]),
        ("residual_scale", &["scale_depth"]),
        ("logit_scale", &["dim_model_base"]),
    ],
    shape: |config| {
        if config.optional_count("expert_count", u32::MAX)?.is_some() {
            return Err(config.unsupported("the form with experts"));
        }
        // Older files leave the factors out.
        config.number("embedding_scale").and(config.number("residual_scale"))?;
        let (numbers, logit_scale) = (Numbers::read(config)?, config.number("logit_scale")?);
        let shape = granite::shape(config, &numbers, |layer, attention| {
            layer.pre_norm(attention, layer.gated(Activation::Silu))
        })?;
        if config.is_gguf() {
            return Ok(shape);
        }
        let rescaled = |scale| scale / (numbers.layers as f32).sqrt();
        let blocks = shape.blocks.into_iter().map(|block| Block {
            mixer: block.mixer.map(|mixer| Branch { scale: rescaled(mixer.scale), ..mixer }),
            ffn: block.ffn.map(|ffn| Branch { scale: rescaled(ffn.scale), ..ffn }),
            ..block
        });
        let head = Head { scale: logit_scale / numbers.hidden as f32, ..shape.head };
        Ok(Shape { blocks: blocks.collect(), head, ..shape })
    },
};
