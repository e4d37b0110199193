//! The open set of families: one file each, listed here in alphabetic order.
//!
//! A family is data: its names in both formats, where its tensors and settings are called otherwise than usual, and a
//! function that writes its [`Shape`]. There is no arithmetic on tensors here, and no second forward pass.

use crate::config::{Config, Error};
use crate::name::Name;
use crate::shape::Shape;

/// What makes a family.
pub struct Family {
    /// The name, for people.
    pub name: &'static str,
    /// `general.architecture` of its GGUF files.
    pub gguf: &'static [&'static str],
    /// Its classes in `architectures` of `config.json`.
    pub hugging_face: &'static [&'static str],
    /// Tensors whose Hugging Face name is not the usual one: (GGUF, Hugging Face), without layer, and without suffix unless only
    /// the GGUF name has one. `{}` stands for the number of an expert.
    pub tensors: &'static [(&'static str, &'static str)],
    /// Settings that `config.json` keeps elsewhere than usual: (GGUF, paths).
    pub keys: &'static [(&'static str, &'static [&'static str])],
    /// Writes the shape.
    pub shape: fn(&Config<'_>) -> Result<Shape<Name>, Error>,
}

macro_rules! families {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*
        /// Every family.
        pub static FAMILIES: &[&Family] = &[$(&$name::FAMILY),*];
    };
}

pub(crate) use falconh1::Factors as FalconH1Factors;

families! {
    arcee, baichuan, bailingmoe, bailingmoe2, bert, bloom, codeshell, cohere2, commandr, deepseek, deepseek2, deepseek3, dots1,
    ernie45, ernie45moe, eurobert, exaone, exaone4, exaonemoe, falcon, falconh1, flexolmo, gemma, gemma2, gemma3,
    gemmaembedding, glm, glm4, glm4moe, gpt2, gptj, gptneox, gptoss, granite, granitehybrid, granitemoe, graniteswa, helium,
    internlm2, jais2, jamba, jinabert2, jinabert3, lfm2, lfm2moe, llama, mamba, mamba2, mellum, minicpm, minicpm3, minimaxm2, mistral, mistral3, mixtral,
    modernbert, mpt, nemotron, nemotronh, nomicbert, olmo2, olmoe, orion, pangu, phi2, phi3, qwen, qwen2, qwen2moe, qwen3,
    qwen35, qwen35moe, qwen3moe, qwen3next, refact, roberta, rwkv7, seedoss, smollm3, stablelm, starcoder, starcoder2, vaultgemma, xverse,
}
