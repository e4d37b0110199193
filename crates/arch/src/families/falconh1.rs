//! Falcon-H1: attention and a state space side by side in every layer, with a dozen multipliers (TII 2025, arXiv:2507.22448).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Numbers, decoder, rope};
use crate::recurrent::Spaces;
use crate::shape::{
    Activation, Attention, Branch, Dense, Embed, Ffn, Head, Mixer, Norm, Parallel, RopeStyle, Shape, StateSpace,
    StateSpaceScales,
};

pub(super) static FAMILY: Family = Family {
    name: "falcon-h1",
    gguf: &["falcon-h1"],
    hugging_face: &["FalconH1ForCausalLM"],
    tensors: &[
        ("ffn_down", "feed_forward.down_proj"),
        ("ffn_gate", "feed_forward.gate_proj"),
        ("ffn_norm", "pre_ff_layernorm"),
        ("ffn_up", "feed_forward.up_proj"),
        ("output_norm", "final_layernorm"),
    ],
    keys: &[("norm_before_gate", &["mamba_norm_before_gate"])],
    shape: |config| {
        let numbers = Numbers::hybrid(config)?;
        let (spaces, factors) = (Spaces::read(config)?, Factors::read(config)?);
        let norm_first = config.flag("norm_before_gate")?;
        let shape = decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
            let attention = layer.attention();
            // Queries, keys and values are projections of one scaled input.
            let scale = attention.scale * factors.attention_in * factors.attention_in * factors.key;
            let attention = Attention { scale, ..attention };
            let space = StateSpace { norm_first, scales: factors.space, ..layer.state_space(&spaces) };
            let mixer = Mixer::Parallel(Parallel {
                attention,
                attention_scale: factors.attention_in * factors.attention_out,
                space,
                space_scale: factors.space_out,
            });
            let dense = Dense { gate_scale: factors.mlp[0], ..layer.gated(Activation::Silu) };
            let mut block = layer.block(mixer, Ffn::Dense(dense));
            block.ffn = block.ffn.map(|ffn| Branch { scale: factors.mlp[1], ..ffn });
            // The one norm that a GGUF keeps without a suffix.
            let bare = format!("blk.{}.ffn_norm", layer.index);
            if let Some(ffn) = block.ffn.as_mut().filter(|_| config.is_gguf() && config.has(&bare)) {
                let weight = config.vector(&bare, numbers.hidden, 0.0);
                ffn.norm = ffn.norm.take().map(|norm| Norm { weight, ..norm });
            }
            Ok(block)
        })?;
        let embed = Embed { scale: factors.embed, ..shape.embed };
        let head = Head { scale: factors.head, ..shape.head };
        Ok(Shape { embed, head, ..shape })
    },
};

/// The multipliers; a GGUF has them in its weights (`renaming/folding.rs`).
pub(crate) struct Factors {
    /// On the input of attention.
    pub(crate) attention_in: f32,
    /// On its output.
    pub(crate) attention_out: f32,
    /// On keys, besides.
    pub(crate) key: f32,
    /// On the output of the state space.
    pub(crate) space_out: f32,
    /// On the parts of its input.
    pub(crate) space: StateSpaceScales,
    /// On the gate of the feed-forward network, and on its output.
    pub(crate) mlp: [f32; 2],
    /// On embeddings.
    pub(crate) embed: f32,
    /// On logits.
    pub(crate) head: f32,
}

impl Factors {
    /// What the configuration says; one where it says nothing.
    pub(crate) fn read(config: &Config<'_>) -> Result<Self, Error> {
        let one = |key: &str| Ok(config.json_number(key)?.unwrap_or(1.0));
        let space_in = one("ssm_in_multiplier")?;
        let [gate, x, b, c, step] = config.json_numbers("ssm_multipliers")?.unwrap_or([1.0; 5]);
        let factors = Self {
            attention_in: one("attention_in_multiplier")?,
            attention_out: one("attention_out_multiplier")?,
            key: one("key_multiplier")?,
            space_out: one("ssm_out_multiplier")?,
            space: StateSpaceScales {
                gate: gate * space_in,
                input: [x, b, c].map(|factor| factor * space_in),
                step: step * space_in,
            },
            mlp: config.json_numbers("mlp_multipliers")?.unwrap_or([1.0; 2]),
            embed: one("embedding_multiplier")?,
            head: one("lm_head_multiplier")?,
        };
        let biases = ["attention_bias", "mamba_proj_bias", "projectors_bias", "mlp_bias"];
        if let Some(bias) = biases.into_iter().find(|bias| config.json(bias).is_some_and(|on| on == true)) {
            return Err(config.unsupported(format!("a model with multipliers and {bias}")));
        }
        Ok(factors)
    }
}
