//! `MiniCPM3`: latent attention with a dense network, branches scaled by the depth (Hu 2024, arXiv:2404.06395).

use super::Family;
use crate::decoder::{Numbers, decoder};
use crate::latent::Latents;
use crate::shape::{Activation, Block, Branch, Embed, Head, Rope, RopeStyle, Shape};

pub(super) static FAMILY: Family = Family {
    name: "minicpm3",
    gguf: &["minicpm3"],
    hugging_face: &["MiniCPM3ForCausalLM"],
    tensors: &[],
    keys: &[
        ("dim_model_base", &["dim_model_base"]),
        ("embedding_scale", &["scale_emb"]),
        ("residual_scale", &["scale_depth"]),
    ],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let latents = Latents::read(config, &numbers)?;
        // A GGUF leaves the three to the family.
        let depth = config.optional_positive("residual_scale")?.unwrap_or(1.4);
        let base = config.optional_positive("dim_model_base")?.unwrap_or(256.0);
        let scale = depth / (numbers.layers as f32).sqrt();
        let rope = Rope { style: RopeStyle::Halves, ..latents.rope(config, &numbers)? };
        let shape = decoder(config, &numbers, vec![rope], |layer| {
            let block = layer.block(layer.latent(&latents), layer.gated(Activation::Silu).into());
            let mixer = block.mixer.map(|branch| Branch { scale, ..branch });
            Ok(Block { mixer, ffn: block.ffn.map(|branch| Branch { scale, ..branch }), ..block })
        })?;
        let embed = Embed { scale: config.optional_positive("embedding_scale")?.unwrap_or(12.0), ..shape.embed };
        let head = Head { scale: base / numbers.hidden as f32, ..shape.head };
        Ok(Shape { embed, head, ..shape })
    },
};
