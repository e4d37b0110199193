//! Seed-OSS: Llama's block with biases on what makes queries, keys and values (`ByteDance` 2025).

use super::Family;
use crate::decoder::{Layer, Numbers, decoder, rope};
use crate::shape::{Activation, Attention, Block, Branch, RopeStyle};

pub(super) static FAMILY: Family = Family {
    name: "seed-oss",
    gguf: &["seed_oss"],
    hugging_face: &["SeedOssForCausalLM"],
    tensors: &[("post_attention_norm", "post_attention_layernorm")],
    keys: &[("attention_out_bias", &["attention_out_bias"])],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let out_bias = config.flag("attention_out_bias")?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let (rows, columns) = (numbers.hidden, numbers.heads * numbers.head_dim);
            let usual = if out_bias { Layer::biased } else { Layer::bare };
            let output = usual(layer, "attn_output", rows, columns);
            let attention = Attention { output, ..layer.attention() };
            let block = layer.pre_norm(attention, layer.gated(Activation::Silu));
            let norm = Some(layer.norm("post_attention_norm"));
            Ok(Block { ffn: block.ffn.map(|branch| Branch { norm, ..branch }), ..block })
        })
    },
};
