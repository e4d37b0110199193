//! `VaultGemma`: Gemma 2 without the norms behind each branch (Google 2025, arXiv:2510.15001).

use super::{Family, gemma2};
use crate::shape::{Block, Branch, Shape};

pub(super) static FAMILY: Family = Family {
    name: "vaultgemma",
    gguf: &[],
    hugging_face: &["VaultGemmaForCausalLM"],
    tensors: gemma2::TENSORS,
    keys: gemma2::FAMILY.keys,
    shape: |config| {
        let shape = (gemma2::FAMILY.shape)(config)?;
        let blocks = shape.blocks.into_iter().map(|block| Block {
            mixer: block.mixer.map(|mixer| Branch { post_norm: None, ..mixer }),
            ffn: block.ffn.map(|ffn| Branch { post_norm: None, ..ffn }),
            ..block
        });
        Ok(Shape { blocks: blocks.collect(), ..shape })
    },
};
