//! `VaultGemma`: Gemma 2 without the norms behind each branch (Google 2025, arXiv:2510.15001). The name of its GGUF, and the setting in it for the
//! scale of scores, are kauri's own.

use super::{Family, gemma2};
use crate::shape::{Attention, Block, Branch, Mixer, Shape};

pub(super) static FAMILY: Family = Family {
    name: "vaultgemma",
    gguf: &["vaultgemma"],
    hugging_face: &["VaultGemmaForCausalLM"],
    tensors: gemma2::TENSORS,
    keys: gemma2::FAMILY.keys,
    shape: |config| {
        let shape = (gemma2::FAMILY.shape)(config)?;
        let scale = if config.is_gguf() { config.optional_positive("attention.scale")? } else { None };
        let scaled = |mixer| match mixer {
            Mixer::Attention(attention) => {
                Mixer::Attention(Attention { scale: scale.unwrap_or(attention.scale), ..attention })
            }
            mixer => mixer,
        };
        let blocks = shape.blocks.into_iter().map(|block| Block {
            mixer: block.mixer.map(|mixer| Branch { post_norm: None, op: scaled(mixer.op), ..mixer }),
            ffn: block.ffn.map(|ffn| Branch { post_norm: None, ..ffn }),
            ..block
        });
        Ok(Shape { blocks: blocks.collect(), ..shape })
    },
};
