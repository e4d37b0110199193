//! The settings of a GGUF, by their names without the architecture's, from those of a directory and from its shape.
//!
//! What a number is computed from is stated, not the number: where a family's file leaves something to be told by other settings,
//! comparing the two shapes says whether it was told right.

use kauri_formats::Value;
use serde_json::Value as Json;

use crate::config::{Config, Error, Setting};
use crate::name::{Name, Role};
use crate::shape::{Attention, Ffn, Latent, Mixer, NormKind, Parallel, Rope, RopeScaling, Scoring, Shape};

/// Settings that are numbers or truth values of the same meaning in both formats.
const ALIKE: &[&str] = &[
    "attention.decay_lora_rank",
    "attention.gate_lora_rank",
    "attention.iclr_lora_rank",
    "attention.kv_lora_rank",
    "attention.max_alibi_bias",
    "attention.q_lora_rank",
    "attention.scale",
    "attention.value_residual_mix_lora_rank",
    "attn_logit_softcapping",
    "embedding_scale",
    "expert_feed_forward_length",
    "expert_group_count",
    "expert_group_used_count",
    "expert_shared_count",
    "expert_shared_feed_forward_length",
    "expert_weights_norm",
    "expert_weights_scale",
    "final_logit_softcapping",
    "full_attention_interval",
    "interleave_moe_layer_step",
    "leading_dense_block_count",
    "logit_scale",
    "residual_scale",
    "rope.freq_base_swa",
    "shortconv.l_cache",
    "use_parallel_residual",
    "wkv.head_size",
];

/// Settings in the order in which the file has them.
pub(super) fn of(config: &Config<'_>, shape: &Shape<Name>) -> Result<Vec<(String, Value)>, Error> {
    let mut settings = Settings(Vec::new());
    settings.count("block_count", shape.blocks.len());
    settings.count("context_length", shape.context_tokens);
    settings.count("embedding_length", shape.hidden);
    settings.count("vocab_size", shape.vocab);
    settings.number(
        match shape.norm.kind {
            // The setting is called that of a layer norm, and is that of a root mean square.
            NormKind::Rms if config.family().name == "nemotron_h" => "attention.layer_norm_epsilon",
            NormKind::Rms => "attention.layer_norm_rms_epsilon",
            NormKind::Layer => "attention.layer_norm_epsilon",
        },
        shape.norm.epsilon,
    );
    settings.widths(config, shape)?;
    // What the configuration has may be what the factor is made of.
    let factor = shape.blocks.iter().find_map(|block| block.mixer.as_ref()).map_or(1.0, |branch| branch.scale);
    if factor != 1.0 {
        settings.number("residual_scale", factor);
    }
    // The configuration states the width that logits are scaled to, the file what they are divided by.
    if config.json("dim_model_base").is_some() {
        settings.number("logit_scale", 1.0 / shape.head.scale);
    }
    settings.attention(config, shape);
    settings.patterns(config, shape);
    for mixer in shape.mixers() {
        settings.mixer(mixer);
    }
    let recurrent = |mixer: Option<&Mixer<Name>>| matches!(mixer, Some(Mixer::GatedDelta(_)));
    let recurrent: Vec<bool> = shape.blocks.iter().map(|block| recurrent(block.mixer())).collect();
    if recurrent.contains(&true) {
        settings.add("attention.recurrent_layers", Value::Bools(recurrent));
    }
    if let Some(rope) = shape.ropes.first() {
        settings.rope(config, rope, shape);
    }
    if let Some(moe) = shape.ffns().find_map(Ffn::moe) {
        settings.count("expert_count", moe.experts.len());
        settings.count("expert_used_count", moe.chosen);
        // Some readers ask for it where it is the width of everything.
        if let Some(expert) = moe.experts.first() {
            settings.count("expert_feed_forward_length", expert.up.rows);
        }
        if moe.scoring == Scoring::Sigmoid {
            settings.count("expert_gating_func", 2_u32);
        }
    }
    for key in ALIKE {
        if let Some(setting) = config.setting(key) {
            settings.alike(config, key, &setting)?;
        }
    }
    Ok(settings.0)
}

/// Names and values; the first of a name stays.
struct Settings(Vec<(String, Value)>);

impl Settings {
    fn add(&mut self, key: &str, value: Value) {
        if self.0.iter().all(|(known, _)| known != key) {
            self.0.push((key.to_owned(), value));
        }
    }

    fn count(&mut self, key: &str, value: impl TryInto<u64>) {
        self.add(key, Value::Unsigned(value.try_into().unwrap_or(u64::MAX)));
    }

    fn number(&mut self, key: &str, value: f32) {
        self.add(key, Value::Float(f64::from(value)));
    }

    /// A setting of `config.json` as it is.
    fn alike(&mut self, config: &Config<'_>, key: &str, setting: &Setting<'_>) -> Result<(), Error> {
        match setting {
            Setting::Json(Json::Bool(value)) => self.add(key, Value::Bool(*value)),
            Setting::Json(Json::Number(number)) => match number.as_u64().filter(|_| !is_number(key)) {
                Some(value) => self.count(key, value),
                None => self.number(key, number.as_f64().unwrap_or_default() as f32),
            },
            Setting::Json(Json::Null) => {}
            Setting::Gguf(_) | Setting::Json(_) => {
                return Err(config.invalid(key, &setting.show(), "a number or a truth value"));
            }
        }
        Ok(())
    }

    /// The widths of feed-forward networks: one number, or one for each layer where some have none.
    fn widths(&mut self, config: &Config<'_>, shape: &Shape<Name>) -> Result<(), Error> {
        let width = |ffn: Option<&Ffn<Name>>| match ffn {
            // Which layers have experts, a width of theirs tells.
            Some(Ffn::Moe(moe)) if config.family().name == "nemotron_h" => {
                moe.experts.first().map_or(0, |expert| u64::from(expert.up.rows))
            }
            None | Some(Ffn::Moe(_) | Ffn::Apart(_)) => 0,
            Some(Ffn::Dense(dense)) => u64::from(dense.up.rows),
            Some(Ffn::Shifted(shifted)) => u64::from(shifted.op.up.rows),
        };
        let widths: Vec<u64> =
            shape.blocks.iter().map(|block| width(block.ffn.as_ref().map(|branch| &branch.op))).collect();
        let expert = shape.ffns().find_map(Ffn::moe).and_then(|moe| moe.experts.first()).map(|expert| expert.up.rows);
        let dense = widths.iter().copied().find(|&width| width > 0);
        if shape.blocks.iter().any(|block| block.ffn.is_none()) && dense.is_some() {
            self.add("feed_forward_length", Value::Unsigneds(widths));
        } else if let Some(width) = dense.or(expert.map(u64::from)) {
            // The setting is what both formats make the width of, but where the configuration asks for it to be rounded.
            let adjusts = config.json("block_auto_adjust_ff_dim").is_some();
            let stated = config.optional_count("feed_forward_length", u32::MAX)?.filter(|_| !adjusts);
            self.count("feed_forward_length", stated.map_or(width, u64::from));
        }
        Ok(())
    }

    /// The numbers of attention: of key and value heads one for each layer, where some layers have none.
    fn attention(&mut self, config: &Config<'_>, shape: &Shape<Name>) {
        let heads =
            |mixer: Option<&Mixer<Name>>| mixer.and_then(Mixer::attention).map_or(0, |attention| attention.kv_heads);
        let listed: Vec<u64> = shape.blocks.iter().map(|block| u64::from(heads(block.mixer()))).collect();
        if let Some(attention) = shape.mixers().find_map(Mixer::attention) {
            let Attention { heads, kv_heads, head_dim, scale, .. } = *attention;
            self.count("attention.head_count", heads);
            // Of those that say otherwise which layers attend, an interval is enough.
            let by_interval = shape.mixers().any(|mixer| matches!(mixer, Mixer::GatedDelta(_)));
            if listed.contains(&0) && !by_interval {
                self.add("attention.head_count_kv", Value::Unsigneds(listed));
            } else {
                self.count("attention.head_count_kv", kv_heads);
            }
            self.count("attention.key_length", head_dim);
            self.count("attention.value_length", head_dim);
            if config.family().name == "vaultgemma" {
                self.number("attention.scale", scale);
            }
            let windows = shape.mixers().filter_map(Mixer::attention).filter_map(|attention| attention.window_tokens);
            match windows.min() {
                Some(window) => self.count("attention.sliding_window", window),
                // Its readers ask for one.
                None if config.family().name == "phi3" => self.count("attention.sliding_window", 0_u32),
                None => {}
            }
        } else if shape
            .mixers()
            .any(|mixer| matches!(mixer, Mixer::StateSpace(_) | Mixer::Selective(_) | Mixer::TimeMix(_)))
        {
            self.count("attention.head_count", 0_u32);
        }
    }

    /// Which layers have a window, and which turn queries and keys, where that is for the file to list.
    fn patterns(&mut self, config: &Config<'_>, shape: &Shape<Name>) {
        if !matches!(config.family().name, "mistral" | "granite_swa") {
            return;
        }
        let attentions: Vec<&Attention<Name>> = shape.mixers().filter_map(Mixer::attention).collect();
        let windowed: Vec<bool> = attentions.iter().map(|attention| attention.window_tokens.is_some()).collect();
        if windowed.contains(&true) {
            self.add("attention.sliding_window_pattern", Value::Bools(windowed));
        }
        let turned: Vec<bool> = attentions.iter().map(|attention| attention.rope.is_some()).collect();
        if turned.contains(&false) {
            self.add("attention.rope_pattern", Value::Bools(turned));
        }
    }

    fn mixer(&mut self, mixer: &Mixer<Name>) {
        match mixer {
            Mixer::StateSpace(space) | Mixer::Parallel(Parallel { space, .. }) => {
                self.count("ssm.conv_kernel", space.convolution.taps);
                self.count("ssm.state_size", space.state);
                self.count("ssm.group_count", space.groups);
                self.count("ssm.inner_size", space.heads * space.head_dim);
                self.count("ssm.time_step_rank", space.heads);
                // What follows is kauri's own; other readers have none of it.
                let [least, most] = space.step_limits;
                if least > 0.0 {
                    self.number("ssm.time_step_min", least);
                }
                if most.is_finite() {
                    self.number("ssm.time_step_max", most);
                }
                if space.norm_first {
                    self.add("norm_before_gate", Value::Bool(true));
                }
            }
            Mixer::Selective(selective) => {
                self.count("ssm.conv_kernel", selective.convolution.taps);
                self.count("ssm.state_size", selective.state);
                self.count("ssm.inner_size", selective.width);
                self.count("ssm.time_step_rank", selective.low.rows);
                if let Some(norm) =
                    selective.norms.as_ref().map(|[low, ..]| low).filter(|low| low.weight.role == Role::Ones)
                {
                    self.add("ssm.dt_b_c_rms", Value::Bool(true));
                    self.number("ssm.dt_b_c_rms_epsilon", norm.epsilon);
                }
            }
            Mixer::GatedDelta(delta) => {
                self.count("ssm.conv_kernel", delta.convolution.taps);
                self.count("ssm.state_size", delta.key_dim);
                self.count("ssm.group_count", delta.key_heads);
                self.count("ssm.time_step_rank", delta.value_heads);
                self.count("ssm.inner_size", delta.value_heads * delta.value_dim);
            }
            Mixer::Latent(latent) => self.latent(latent),
            Mixer::Attention(_) | Mixer::ShortConv(_) | Mixer::TimeMix(_) => {}
        }
    }

    /// One matrix makes keys and values of the latent row: then the widths are those of a head.
    fn latent(&mut self, latent: &Latent<Name>) {
        self.count("attention.head_count", latent.heads);
        self.count("attention.head_count_kv", latent.heads);
        self.count("attention.key_length", latent.nope_dims + latent.rope_dims);
        self.count("attention.value_length", latent.value_dims);
        self.count("rope.dimension_count", latent.rope_dims);
    }

    fn rope(&mut self, config: &Config<'_>, rope: &Rope<Name>, shape: &Shape<Name>) {
        self.number("rope.freq_base", rope.base);
        self.count("rope.dimension_count", rope.dims);
        if let Some(sections) =
            config.json("rope_parameters.mrope_section").or(config.json("rope_scaling.mrope_section"))
        {
            let sections =
                sections.as_array().map(|list| list.iter().filter_map(Json::as_i64).chain([0]).take(4).collect());
            self.add("rope.dimension_sections", Value::Signeds(sections.unwrap_or_default()));
        }
        let text = |kind: &str| Value::String(kind.to_owned());
        match &rope.scaling {
            RopeScaling::None | RopeScaling::Llama3 { .. } | RopeScaling::Each(_) => {}
            RopeScaling::Linear { factor } => {
                self.add("rope.scaling.type", text("linear"));
                self.number("rope.scaling.factor", *factor);
            }
            RopeScaling::Yarn { factor, slow_turns, fast_turns, original_context_tokens, attention_factor, .. } => {
                self.add("rope.scaling.type", text("yarn"));
                self.number("rope.scaling.factor", *factor);
                self.count("rope.scaling.original_context_length", *original_context_tokens);
                self.number("rope.scaling.yarn_beta_fast", *fast_turns);
                self.number("rope.scaling.yarn_beta_slow", *slow_turns);
                let latent = shape.mixers().any(|mixer| mixer.latent().is_some());
                let all = ["rope_scaling", "rope_parameters"]
                    .iter()
                    .find_map(|key| config.json(&format!("{key}.mscale_all_dim")).and_then(Json::as_f64));
                if let Some(multiplier) = all.filter(|_| latent) {
                    self.number("rope.scaling.yarn_log_multiplier", 0.1 * multiplier as f32);
                } else if *attention_factor != 1.0 + 0.1 * factor.max(1.0).ln() {
                    self.number("rope.scaling.yarn_attn_factor", *attention_factor);
                }
            }
            RopeScaling::LongShort { original_context_tokens, attention_factor, .. } => {
                self.count("rope.scaling.original_context_length", *original_context_tokens);
                self.number("rope.scaling.attn_factor", *attention_factor);
            }
        }
    }
}

/// Whether a setting is a number that need not be whole, so that a whole one is written as the others are.
fn is_number(key: &str) -> bool {
    let ends = ["scale", "softcapping", "freq_base_swa"];
    ends.iter().any(|end| key.ends_with(end))
}
