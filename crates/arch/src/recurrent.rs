//! The parts of families whose layers keep a state, read from a [`Config`].

use crate::config::{Config, Error};
use crate::decoder::{Layer, Numbers, TAPS_MAX};
use crate::name::{Name, Role};
use crate::shape::{
    Activation, Convolution, Dense, GatedDelta, Leaning, Linear, Norm, NormKind, Selective, ShortConv, StateSpace,
    StateSpaceScales, TimeMix,
};

// Limits on a description from outside.
const HEADS_MAX: u32 = 1 << 11;
const HEAD_DIM_MAX: u32 = 1 << 11;
const STATE_MAX: u32 = 1 << 12;
/// Most values of a head of RWKV-7.
pub const TIME_MIX_DIM_MAX: u32 = 1 << 7;
const RANK_MAX: u32 = 1 << 13;
/// Most columns of a state whose columns decay at paces of their own.
pub const SELECTIVE_STATE_MAX: u32 = 1 << 8;
/// Most values of a key of the delta rule.
pub const KEY_DIM_MAX: u32 = 1 << 8;

/// A few values as they are stored.
const PLAIN: Role = Role::Vector { plus: 0.0 };

/// The numbers of a family's state spaces (Mamba-2).
#[derive(Clone, Debug)]
pub struct Spaces {
    /// Heads, each with a state.
    pub heads: u32,
    /// Values of a head.
    pub head_dim: u32,
    /// Groups of heads that share what a state takes in and gives.
    pub groups: u32,
    /// Columns of a state.
    pub state: u32,
    /// Tokens that the convolution sees.
    pub taps: u32,
    /// The smallest and the largest step.
    pub step_limits: [f32; 2],
}

/// The numbers of a family's selective state spaces (Mamba).
#[derive(Clone, Debug)]
pub struct Selections {
    /// Channels, each with a state.
    pub width: u32,
    /// Columns of a state.
    pub state: u32,
    /// Values that steps are made of.
    pub rank: u32,
    /// Tokens that the convolution sees.
    pub taps: u32,
    /// What norms without weights add under the root, where there are such.
    pub bare_epsilon: Option<f32>,
}

/// The numbers of a family's delta rules.
#[derive(Clone, Debug)]
pub struct Deltas {
    /// Heads of queries and keys.
    pub key_heads: u32,
    /// Heads of values, each with a state.
    pub value_heads: u32,
    /// Values of a query and a key.
    pub key_dim: u32,
    /// Values of a value.
    pub value_dim: u32,
    /// Tokens that the convolution sees.
    pub taps: u32,
}

/// The numbers of RWKV-7's time mixing.
#[derive(Clone, Debug)]
pub struct TimeMixes {
    /// Values of a head.
    pub head_dim: u32,
    /// Values by way of which the decay, the rate, the residual and the gate are made; zero for a gate that is not there.
    pub ranks: [u32; 4],
}

impl TimeMixes {
    /// Reads the settings of RWKV-7.
    pub fn read(config: &Config<'_>, hidden: u32) -> Result<Self, Error> {
        let head_dim = config.count("wkv.head_size", TIME_MIX_DIM_MAX)?;
        if !hidden.is_multiple_of(head_dim) {
            let expected = format!("a divisor of {hidden}, the width of the residual stream");
            return Err(config.invalid("wkv.head_size", &head_dim.to_string(), &expected));
        }
        let [decay, rate, residual] = ["decay_lora_rank", "iclr_lora_rank", "value_residual_mix_lora_rank"];
        let rank = |key| config.count(&format!("attention.{key}"), RANK_MAX);
        let gate = config.optional_count("attention.gate_lora_rank", RANK_MAX)?.unwrap_or(0);
        Ok(Self { head_dim, ranks: [rank(decay)?, rank(rate)?, rank(residual)?, gate] })
    }
}

impl Selections {
    /// Reads the settings of Mamba; a width that is not stated is so many times that of the stream.
    pub fn read(config: &Config<'_>, numbers: &Numbers) -> Result<Self, Error> {
        let width = match config.optional_count("ssm.inner_size", HEADS_MAX * HEAD_DIM_MAX)? {
            Some(width) => width,
            None => config.count("ssm.expand", HEADS_MAX)? * numbers.hidden,
        };
        // The number is kauri's own in a GGUF; others take that of the other norms.
        let stated = config.optional_number("ssm.dt_b_c_rms_epsilon")?;
        if let Some(epsilon) = stated.filter(|epsilon| !(0.0..=1.0).contains(epsilon)) {
            return Err(config.invalid("ssm.dt_b_c_rms_epsilon", &epsilon.to_string(), "a number from 0 to 1"));
        }
        Ok(Self {
            width,
            state: config.count("ssm.state_size", SELECTIVE_STATE_MAX)?,
            rank: config.count("ssm.time_step_rank", RANK_MAX)?,
            taps: taps(config, "ssm.conv_kernel")?,
            bare_epsilon: stated.or(config.flag("ssm.dt_b_c_rms")?.then_some(numbers.epsilon)),
        })
    }
}

impl Deltas {
    /// Reads the settings of Qwen's linear attention.
    pub fn read(config: &Config<'_>) -> Result<Self, Error> {
        let key_heads = config.count("ssm.group_count", HEADS_MAX)?;
        let value_heads = config.count("ssm.time_step_rank", HEADS_MAX)?;
        if !value_heads.is_multiple_of(key_heads) {
            let expected = format!("a multiple of {key_heads}, the number of key heads");
            return Err(config.invalid("ssm.time_step_rank", &value_heads.to_string(), &expected));
        }
        let value_dim = match config.optional_count("ssm.inner_size", HEADS_MAX * HEAD_DIM_MAX)? {
            Some(inner) => inner / value_heads,
            None => config.count("ssm.head_dim", HEAD_DIM_MAX)?,
        };
        let key_dim = config.count("ssm.state_size", KEY_DIM_MAX)?;
        Ok(Self { key_heads, value_heads, key_dim, value_dim, taps: taps(config, "ssm.conv_kernel")? })
    }

    /// Which layers attend in full: as the file lists them, else every few.
    pub fn full_layers(config: &Config<'_>, layers: u32) -> Result<Vec<bool>, Error> {
        if let Some(kinds) = config.layer_kinds(layers, &["linear_attention", "full_attention"])? {
            return Ok(kinds.iter().map(|&kind| kind == 1).collect());
        }
        if let Some(recurrent) = config.flags("attention.recurrent_layers", layers)? {
            return Ok(recurrent.iter().map(|recurrent| !recurrent).collect());
        }
        let interval = config.optional_count("full_attention_interval", 1024)?.unwrap_or(4);
        Ok((1..=layers).map(|layer| layer % interval == 0).collect())
    }
}

impl Spaces {
    /// Reads the settings of Mamba-2; they go by the same names in all families.
    pub fn read(config: &Config<'_>) -> Result<Self, Error> {
        let heads = config.count("ssm.time_step_rank", HEADS_MAX)?;
        let head_dim = match config.optional_count("ssm.inner_size", HEADS_MAX * HEAD_DIM_MAX)? {
            Some(inner) if inner.is_multiple_of(heads) => inner / heads,
            Some(inner) => {
                let expected = format!("a multiple of {heads}, the number of heads");
                return Err(config.invalid("ssm.inner_size", &inner.to_string(), &expected));
            }
            None => config.count("ssm.head_dim", HEAD_DIM_MAX)?,
        };
        let groups = config.count("ssm.group_count", HEADS_MAX)?;
        if !heads.is_multiple_of(groups) {
            let expected = format!("a divisor of {heads}, the number of heads");
            return Err(config.invalid("ssm.group_count", &groups.to_string(), &expected));
        }
        let state = config.count("ssm.state_size", STATE_MAX)?;
        Ok(Self {
            heads,
            head_dim,
            groups,
            state,
            taps: taps(config, "ssm.conv_kernel")?,
            step_limits: limits(config)?,
        })
    }
}

/// Which layers attend: as the file lists their `kinds`, the second of the two; else those that have key-value heads.
pub fn attending_layers(config: &Config<'_>, layers: u32, kinds: &[&str; 2]) -> Result<Vec<bool>, Error> {
    if let Some(kinds) = config.layer_kinds(layers, kinds)? {
        return Ok(kinds.iter().map(|&kind| kind == 1).collect());
    }
    let kv_heads = config.counts("attention.head_count_kv", layers)?;
    Ok(kv_heads.map_or_else(|| vec![true; layers as usize], |heads| heads.iter().map(|&heads| heads > 0).collect()))
}

/// Tokens that a convolution sees.
fn taps(config: &Config<'_>, key: &str) -> Result<u32, Error> {
    let taps = config.count(key, TAPS_MAX)?;
    if taps < 2 { Err(config.invalid(key, &taps.to_string(), "a number over one")) } else { Ok(taps) }
}

/// The smallest and the largest step of a state, where the configuration limits it. The two settings of a GGUF are kauri's own.
fn limits(config: &Config<'_>) -> Result<[f32; 2], Error> {
    if config.is_gguf() {
        let least = config.optional_number("ssm.time_step_min")?.unwrap_or(0.0);
        let most = config.optional_number("ssm.time_step_max")?.unwrap_or(f32::INFINITY);
        if !(least >= 0.0 && most > least) {
            let expected = "a number that is not negative and below the largest step";
            return Err(config.invalid("ssm.time_step_min", &format!("{least} with a largest of {most}"), expected));
        }
        return Ok([least, most]);
    }
    let Some(stated) = config.json("time_step_limit") else { return Ok([0.0, f32::INFINITY]) };
    let limits: Option<Vec<f32>> = stated.as_array().and_then(|limits| {
        let limit = |limit: &serde_json::Value| match limit.as_str() {
            Some("Infinity") => Some(f32::INFINITY),
            _ => limit.as_f64().map(|limit| limit as f32),
        };
        limits.iter().map(limit).collect()
    });
    match limits.as_deref() {
        Some(&[least, most]) if least >= 0.0 && least <= most => Ok([least, most]),
        _ => Err(config.invalid("time_step_limit", &stated.to_string(), "two numbers, the smaller first")),
    }
}

impl Layer<'_> {
    /// A state space with a norm behind its gate.
    pub fn state_space(&self, spaces: &Spaces) -> StateSpace<Name> {
        let Spaces { heads, head_dim, groups, state, taps, step_limits } = *spaces;
        let (hidden, width) = (self.numbers.hidden, heads * head_dim);
        let channels = width + 2 * groups * state;
        let [gate, input, step] = self.split("ssm_in", [width, channels, heads], hidden);
        let values = |slot: &str, dims: &[u32], role| self.config.values(&self.slot(slot), dims, role);
        // GGUF keeps the decays themselves.
        let decay = if self.config.is_gguf() { PLAIN } else { Role::NegativeExp };
        // GGUF keeps the norm of each group as a row.
        let dims: &[u32] = if self.config.is_gguf() { &[groups, width / groups] } else { &[width] };
        let has_norm = self.config.has(&self.slot("ssm_norm.weight"));
        StateSpace {
            heads,
            head_dim,
            groups,
            state,
            gate,
            input,
            step,
            convolution: self.convolution("ssm_conv1d", channels, taps, Activation::Silu),
            decay: values("ssm_a", &[heads], decay),
            step_bias: values("ssm_dt.bias", &[heads], PLAIN),
            step_limits,
            skip: values("ssm_d", &[heads], PLAIN),
            norm: has_norm.then(|| Norm {
                kind: NormKind::Rms,
                width: width / groups,
                epsilon: self.numbers.epsilon,
                weight: values("ssm_norm.weight", dims, PLAIN),
                bias: None,
            }),
            norm_first: false,
            scales: StateSpaceScales::default(),
            output: self.linear("ssm_out", hidden, width),
        }
    }

    /// A selective state space, with the norms that the file has or the settings tell of.
    pub fn selective(&self, selections: &Selections) -> Selective<Name> {
        let Selections { width, state, rank, taps, bare_epsilon } = *selections;
        let hidden = self.numbers.hidden;
        let [input, gate] = self.split("ssm_in", [width; 2], hidden);
        let [low, b, c] = self.split("ssm_x", [rank, state, state], width);
        let values = |slot: &str, dims: &[u32], role| self.config.values(&self.slot(slot), dims, role);
        let norm = |slot: &str, width: u32| {
            let Some(epsilon) = bare_epsilon else { return self.norm_of(slot, width) };
            let weight = Name { role: Role::Ones, ..self.vector("ones", width) };
            Norm { kind: NormKind::Rms, width, epsilon, weight, bias: None }
        };
        let has_norms = bare_epsilon.is_some() || self.config.has(&self.slot("ssm_dt_norm.weight"));
        Selective {
            width,
            state,
            gate,
            input,
            convolution: self.convolution("ssm_conv1d", width, taps, Activation::Silu),
            low,
            b,
            c,
            norms: has_norms.then(|| {
                [("ssm_dt_norm", rank), ("ssm_b_norm", state), ("ssm_c_norm", state)]
                    .map(|(slot, width)| norm(slot, width))
            }),
            step: self.biased("ssm_dt", width, rank),
            // GGUF keeps the decays themselves.
            decay: values("ssm_a", &[width, state], if self.config.is_gguf() { PLAIN } else { Role::NegativeExp }),
            skip: values("ssm_d", &[width], PLAIN),
            output: self.linear("ssm_out", hidden, width),
        }
    }

    /// A gated delta rule whose projections are matrices of their own: `qkv`, gate, rates, steps.
    pub fn gated_delta(&self, deltas: &Deltas) -> GatedDelta<Name> {
        let Deltas { key_heads, value_heads, key_dim, value_dim, taps } = *deltas;
        let (hidden, width) = (self.numbers.hidden, value_heads * value_dim);
        let channels = 2 * key_heads * key_dim + width;
        let values = |slot: &str, role| self.config.values(&self.slot(slot), &[value_heads], role);
        GatedDelta {
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            interleaved: false,
            input: self.linear("attn_qkv", channels, hidden),
            gate: Some(self.linear("attn_gate", width, hidden)),
            rates: self.linear("ssm_beta", value_heads, hidden),
            steps: Some(self.linear("ssm_alpha", value_heads, hidden)),
            convolution: self.convolution("ssm_conv1d", channels, taps, Activation::Silu),
            decay: values("ssm_a", if self.config.is_gguf() { PLAIN } else { Role::NegativeExp }),
            step_bias: values("ssm_dt.bias", PLAIN),
            epsilon: 1e-6,
            norm: Norm {
                kind: NormKind::Rms,
                width: value_dim,
                epsilon: self.numbers.epsilon,
                // Stored as it is, whatever the other norms of the file leave out.
                weight: self.config.vector(&self.slot("ssm_norm.weight"), value_dim, 0.0),
                bias: None,
            },
            output: self.linear("ssm_out", hidden, width),
        }
    }

    /// The same as safetensors of Qwen3-Next keep it: two matrices, key head after key head. A GGUF has the larger one in order.
    pub fn gated_delta_by_head(&self, deltas: &Deltas) -> GatedDelta<Name> {
        let delta = self.gated_delta(deltas);
        let (hidden, rows) = (self.numbers.hidden, delta.input.rows + delta.width());
        let rates = self.linear("ssm_ba", 2 * deltas.value_heads, hidden);
        let delta = GatedDelta { rates, steps: None, ..delta };
        if self.config.is_gguf() {
            delta
        } else {
            GatedDelta { input: self.linear("ssm_in", rows, hidden), gate: None, ..delta }
        }
    }

    /// RWKV-7's time mixing; its first layer is where the others find the first values.
    pub fn time_mix(&self, mixes: &TimeMixes) -> TimeMix<Name> {
        let (hidden, head_dim) = (self.numbers.hidden, mixes.head_dim);
        let [decay, rate, residual, gate] = mixes.ranks;
        let leans = if gate > 0 { 6 } else { 5 };
        let lean = |index: u32| {
            if self.config.is_gguf() {
                return self.part_of("time_mix_lerp_fused.weight", [index, leans], &[hidden]);
            }
            let letter = ["r", "w", "k", "v", "a", "g"][index as usize];
            self.vector(&format!("time_mix_lerp_{letter}.weight"), hidden)
        };
        let linear = |index, slot| Leaning { lean: lean(index), op: self.linear(slot, hidden, hidden) };
        let few = |letter: char, rank, activation, biased: bool| {
            let up = self.linear(&format!("time_mix_{letter}1"), rank, hidden);
            let down = self.linear(&format!("time_mix_{letter}2"), hidden, rank);
            let bias = biased.then(|| self.vector(&format!("time_mix_{letter}0.weight"), hidden));
            Dense { gate: None, up, down: Linear { bias, ..down }, activation, gate_scale: 1.0 }
        };
        let values = |slot: &str| self.vector(&format!("time_mix_{slot}.weight"), hidden);
        // Safetensors keep a row for each head.
        let rows: &[u32] = if self.config.is_gguf() { &[hidden] } else { &[hidden / head_dim, head_dim] };
        let norm = || Norm {
            kind: NormKind::Layer,
            width: head_dim,
            epsilon: 64e-5,
            weight: self.vector("time_mix_ln.weight", hidden),
            bias: Some(self.vector("time_mix_ln.bias", hidden)),
        };
        TimeMix {
            heads: hidden / head_dim,
            head_dim,
            r: linear(0, "time_mix_receptance"),
            k: linear(2, "time_mix_key"),
            v: linear(3, "time_mix_value"),
            decay: Leaning { lean: lean(1), op: few('w', decay, Activation::Tanh, true) },
            rate: Leaning { lean: lean(4), op: few('a', rate, Activation::Identity, true) },
            residual: (self.index > 0).then(|| few('v', residual, Activation::Identity, true)),
            gate: (gate > 0).then(|| Leaning { lean: lean(5), op: few('g', gate, Activation::Sigmoid, false) }),
            removal: values("k_k"),
            insertion: values("k_a"),
            bonus: self.config.values(&self.slot("time_mix_r_k.weight"), rows, PLAIN),
            norm: self.config.has(&self.slot("time_mix_ln.weight")).then(norm),
            output: self.linear("time_mix_output", hidden, hidden),
        }
    }

    /// A gated convolution of a few tokens.
    pub fn short_conv(&self) -> Result<ShortConv<Name>, Error> {
        let hidden = self.numbers.hidden;
        let taps = taps(self.config, "shortconv.l_cache")?;
        let [before, after, input] = self.split("shortconv.in_proj", [hidden; 3], hidden);
        Ok(ShortConv {
            before,
            after,
            input,
            convolution: self.convolution("shortconv.conv", hidden, taps, Activation::Identity),
            output: self.linear("shortconv.out_proj", hidden, hidden),
        })
    }

    /// A convolution of each of `channels`, with its bias if the file has one.
    fn convolution(&self, slot: &str, channels: u32, taps: u32, activation: Activation) -> Convolution<Name> {
        let bias = self.slot(&format!("{slot}.bias"));
        Convolution {
            channels,
            taps,
            weight: self.config.values(&self.slot(&format!("{slot}.weight")), &[channels, taps], PLAIN),
            bias: self.config.has(&bias).then(|| self.config.vector(&bias, channels, 0.0)),
            activation,
        }
    }

    /// The canonical name of a tensor of this layer.
    fn slot(&self, slot: &str) -> String {
        format!("blk.{}.{slot}", self.index)
    }
}
