//! Nemotron-H: each layer one of state space, attention without rope, or a feed-forward network without a gate, or experts that are such
//! (NVIDIA 2025, arXiv:2504.03624 and arXiv:2512.20848).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Numbers, decoder};
use crate::moe::Experts;
use crate::recurrent::Spaces;
use crate::shape::{Activation, Attention, Dense, Ffn, Mixer, NormKind, Scoring};

/// Hugging Face's names, shared with Mamba-2: whatever a layer is, it is called a mixer.
pub(super) const TENSORS: &[(&str, &str)] = &[
    ("attn_k", "mixer.k_proj"),
    ("attn_norm", "norm"),
    ("attn_output", "mixer.o_proj"),
    ("attn_q", "mixer.q_proj"),
    ("attn_v", "mixer.v_proj"),
    ("exp_probs_b.bias", "mixer.gate.e_score_correction_bias"),
    ("ffn_down", "mixer.down_proj"),
    ("ffn_down_exps", "mixer.experts.{}.down_proj"),
    ("ffn_down_shexp", "mixer.shared_experts.down_proj"),
    ("ffn_gate_inp", "mixer.gate"),
    ("ffn_up", "mixer.up_proj"),
    ("ffn_up_exps", "mixer.experts.{}.up_proj"),
    ("ffn_up_shexp", "mixer.shared_experts.up_proj"),
    ("output_norm", "norm_f"),
    ("ssm_a", "mixer.A_log"),
    ("ssm_conv1d", "mixer.conv1d"),
    ("ssm_d", "mixer.D"),
    ("ssm_dt.bias", "mixer.dt_bias"),
    ("ssm_in", "mixer.in_proj"),
    ("ssm_norm", "mixer.norm"),
    ("ssm_out", "mixer.out_proj"),
    ("token_embd", "embeddings"),
];

pub(super) static FAMILY: Family = Family {
    name: "nemotron_h",
    gguf: &["nemotron_h", "nemotron_h_moe"],
    hugging_face: &["NemotronHForCausalLM"],
    tensors: TENSORS,
    keys: &[
        ("activation", &["mlp_hidden_act"]),
        ("expert_shared_feed_forward_length", &["moe_shared_expert_intermediate_size"]),
        ("moe_latent_size", &["moe_latent_size"]),
        ("time_step_min", &["time_step_min"]),
    ],
    shape: |config| {
        // The setting is called that of a layer norm, and is that of a root mean square.
        let numbers = Numbers { norm: NormKind::Rms, ..Numbers::hybrid(config)? };
        let mut spaces = Spaces::read(config)?;
        spaces.step_limits[0] = spaces.step_limits[0].max(config.optional_positive("time_step_min")?.unwrap_or(0.0));
        let kinds = kinds(config, numbers.layers)?;
        let experts = if kinds.contains(&Kind::Experts) { Some(experts(config, &numbers)?) } else { None };
        decoder(config, &numbers, Vec::new(), |layer| {
            Ok(match kinds[layer.index as usize] {
                Kind::StateSpace => layer.mixing("attn_norm", Mixer::StateSpace(layer.state_space(&spaces))),
                Kind::Attention => {
                    layer.mixing("attn_norm", Mixer::Attention(Attention { rope: None, ..layer.attention() }))
                }
                Kind::Experts => {
                    layer.feeding("attn_norm", layer.moe(experts.as_ref().expect("read above")).into())
                }
                Kind::Dense => {
                    let dense = Dense { gate: None, ..layer.gated(Activation::ReluSquared) };
                    layer.feeding("attn_norm", Ffn::Dense(dense))
                }
            })
        })
    },
};

/// What a layer is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    StateSpace,
    Attention,
    Dense,
    Experts,
}

/// Experts without gates, chosen by sigmoids that a bias corrects, beside one for every token.
fn experts(config: &Config<'_>, numbers: &Numbers) -> Result<Experts, Error> {
    if config.optional_count("moe_latent_size", u32::MAX)?.is_some() {
        return Err(config.unsupported("experts that read fewer values than a layer has (moe_latent_size)"));
    }
    let stated = Experts::read(config, numbers, Scoring::Sigmoid)?;
    let activation = numbers.activation.unwrap_or(Activation::ReluSquared);
    Ok(Experts { activation, biased: true, gated: false, normalised: stated.normalised.map(|_| 1e-20), ..stated })
}

/// A pattern of letters or a list of names in `config.json`; in a GGUF, the layers that have key-value heads or a width.
fn kinds(config: &Config<'_>, layers: u32) -> Result<Vec<Kind>, Error> {
    if let Some(pattern) = config.json("hybrid_override_pattern") {
        let pattern = pattern.as_str().filter(|pattern| pattern.chars().count() == layers as usize);
        let pattern = pattern.ok_or_else(|| config.unsupported("a pattern of layers that is not a letter for each"))?;
        let kind = |letter| match letter {
            'M' => Ok(Kind::StateSpace),
            '*' => Ok(Kind::Attention),
            '-' => Ok(Kind::Dense),
            'E' => Ok(Kind::Experts),
            _ => Err(config.unsupported(format!("a layer of the type {letter:?}"))),
        };
        return pattern.chars().map(kind).collect();
    }
    if let Some(list) = config.json("layers_block_type") {
        let listed = list.as_array().filter(|list| list.len() == layers as usize);
        let listed = listed.ok_or_else(|| config.unsupported("a list of layers that has not one name for each"))?;
        let kind = |name: &serde_json::Value| match name.as_str() {
            Some("linear_attention" | "mamba") => Ok(Kind::StateSpace),
            Some("attention" | "full_attention") => Ok(Kind::Attention),
            Some("mlp") => Ok(Kind::Dense),
            Some("moe") => Ok(Kind::Experts),
            _ => Err(config.unsupported(format!("a layer of the type {name}"))),
        };
        return listed.iter().map(kind).collect();
    }
    let counts = |key| config.counts(key, layers)?.ok_or_else(|| config.missing(key));
    let (heads, widths) = (counts("attention.head_count_kv")?, counts("feed_forward_length")?);
    let has_experts = config.optional_count("expert_count", u32::MAX)?.is_some();
    let kind = |(heads, width): (&u64, &u64)| match (heads, width) {
        (0, 0) => Kind::StateSpace,
        (_, 0) => Kind::Attention,
        _ if has_experts => Kind::Experts,
        _ => Kind::Dense,
    };
    Ok(heads.iter().zip(&widths).map(kind).collect())
}
