//! Qwen3.5, dense: three layers of the gated delta rule to each one of gated attention (Qwen team 2026).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Layer, Numbers, decoder, rope};
use crate::name::Name;
use crate::recurrent::Deltas;
use crate::shape::{Activation, Attention, Block, Ffn, GatedDelta, Mixer, RopeStyle, Shape};

/// Hugging Face's names, shared with Qwen3-Next.
pub(super) const TENSORS: &[(&str, &str)] = &[
    ("attn_gate", "linear_attn.in_proj_z"),
    ("attn_qkv", "linear_attn.in_proj_qkv"),
    ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
    ("ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
    ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
    ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("ssm_a", "linear_attn.A_log"),
    ("ssm_alpha", "linear_attn.in_proj_a"),
    ("ssm_ba", "linear_attn.in_proj_ba"),
    ("ssm_beta", "linear_attn.in_proj_b"),
    ("ssm_conv1d", "linear_attn.conv1d"),
    ("ssm_dt.bias", "linear_attn.dt_bias"),
    ("ssm_in", "linear_attn.in_proj_qkvz"),
    ("ssm_norm", "linear_attn.norm"),
    ("ssm_out", "linear_attn.out_proj"),
];

/// Hugging Face's settings, shared with Qwen3-Next.
pub(super) const KEYS: &[(&str, &[&str])] = &[
    ("full_attention_interval", &["full_attention_interval"]),
    ("ssm.conv_kernel", &["linear_conv_kernel_dim"]),
    ("ssm.group_count", &["linear_num_key_heads"]),
    ("ssm.head_dim", &["linear_value_head_dim"]),
    ("ssm.state_size", &["linear_key_head_dim"]),
    ("ssm.time_step_rank", &["linear_num_value_heads"]),
];

pub(super) static FAMILY: Family = Family {
    name: "qwen35",
    gguf: &["qwen35"],
    hugging_face: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"],
    tensors: TENSORS,
    keys: KEYS,
    shape: |config| {
        shape(
            config,
            Numbers::hybrid(config)?,
            |layer, deltas| {
                // The converter deals the value heads out to the key heads in turn.
                GatedDelta { interleaved: config.is_gguf(), ..layer.gated_delta(deltas) }
            },
            |layer| layer.gated(Activation::Silu).into(),
        )
    },
};

/// Qwen3-Next and its successors, with the delta rules and the networks that the two describe.
pub(super) fn shape(
    config: &Config<'_>,
    numbers: Numbers,
    delta: impl Fn(&Layer<'_>, &Deltas) -> GatedDelta<Name>,
    ffn: impl Fn(&Layer<'_>) -> Ffn<Name>,
) -> Result<Shape<Name>, Error> {
    let norm_plus = if config.is_gguf() { 0.0 } else { 1.0 };
    let numbers = Numbers { norm_plus, ..numbers };
    let (deltas, full) = (Deltas::read(config)?, Deltas::full_layers(config, numbers.layers)?);
    // For text the three sections of positions are one.
    decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Halves)?], |layer| {
        let mixer = if full[layer.index as usize] {
            Mixer::Attention(Attention {
                q_norm: Some(layer.norm_of("attn_q_norm", numbers.head_dim)),
                k_norm: Some(layer.norm_of("attn_k_norm", numbers.head_dim)),
                ..layer.gated_attention()
            })
        } else {
            Mixer::GatedDelta(delta(layer, &deltas))
        };
        let ffn = layer.feeding("post_attention_norm", ffn(layer)).ffn;
        Ok(Block { ffn, ..layer.mixing("attn_norm", mixer) })
    })
}
