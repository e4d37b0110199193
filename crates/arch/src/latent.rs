//! Latent attention, read from a [`Config`]: a family's file says only where it differs.

use serde_json::Value as Json;

use crate::config::{Config, Error};
use crate::decoder::{HEAD_DIM_MAX, HIDDEN_MAX, Layer, Numbers, rope};
use crate::name::Name;
use crate::shape::{Latent, Linear, Mixer, Norm, Rope, RopeStyle};

/// Most heads of all layers together: a shape names two parts for each.
const ALL_HEADS_MAX: u32 = 1 << 16;
/// What the low-rank norms add under the root, whatever the configuration says of others.
const LOW_EPSILON: f32 = 1e-6;

/// The numbers of latent attention.
#[derive(Clone, Copy, Debug)]
pub struct Latents {
    /// Values of the latent row.
    pub latent: u32,
    /// Values that queries are made of, where these are not the input's.
    pub q_rank: Option<u32>,
    /// Values of a head's query without position.
    pub nope_dims: u32,
    /// Those with.
    pub rope_dims: u32,
    /// Values that a head gives.
    pub value_dims: u32,
    /// Factor on the scores.
    pub scale: f32,
}

impl Latents {
    /// Reads the settings; scores are scaled by `1 / sqrt` of a query's width, and by what `YaRN` spreads them.
    ///
    /// # Errors
    /// When a setting is missing or out of bounds.
    pub fn read(config: &Config<'_>, numbers: &Numbers) -> Result<Self, Error> {
        if numbers.heads.saturating_mul(numbers.layers) > ALL_HEADS_MAX {
            let expected = format!("at most {}", ALL_HEADS_MAX / numbers.layers);
            return Err(config.invalid("attention.head_count", &numbers.heads.to_string(), &expected));
        }
        let latent = config.count("attention.kv_lora_rank", HEAD_DIM_MAX)?;
        let q_rank = config.optional_count("attention.q_lora_rank", HIDDEN_MAX)?;
        let rope_dims = config.count("rope.dimension_count", HEAD_DIM_MAX)?;
        // Older GGUF files have a head's widths where newer ones have the cached row's.
        let length = |key: &str, older: &str| match config.optional_count(key, HEAD_DIM_MAX)? {
            None if config.is_gguf() => config.count(older, HEAD_DIM_MAX),
            _ => config.count(key, HEAD_DIM_MAX),
        };
        // Where it is not stated, a head gives its share of the stream.
        let value_dims = match config.setting("attention.value_length") {
            None if config.is_gguf() => (numbers.hidden / numbers.heads).max(1),
            _ => length("attention.value_length_mla", "attention.value_length")?,
        };
        let nope_dims = if config.is_gguf() {
            let key = length("attention.key_length_mla", "attention.key_length")?;
            let nope_dims = key.checked_sub(rope_dims).filter(|&dims| dims > 0);
            nope_dims.ok_or_else(|| {
                config.invalid("rope.dimension_count", &rope_dims.to_string(), &format!("a number under {key}"))
            })?
        } else {
            config.count("qk_nope_head_dim", HEAD_DIM_MAX)?
        };
        let scale = spread(config)?.powi(2) / ((nope_dims + rope_dims) as f32).sqrt();
        Ok(Self { latent, q_rank, nope_dims, rope_dims, value_dims, scale })
    }

    /// The rotary embedding of the part of a head that has a position. Neighbouring values turn together unless the configuration
    /// says otherwise.
    ///
    /// # Errors
    /// As [`rope`].
    pub fn rope(&self, config: &Config<'_>, numbers: &Numbers) -> Result<Rope<Name>, Error> {
        let style = match config.json("rope_interleave") {
            None | Some(Json::Bool(true)) => RopeStyle::Pairs,
            Some(Json::Bool(false)) => RopeStyle::Halves,
            Some(other) => return Err(config.invalid("rope_interleave", &other.to_string(), "true or false")),
        };
        let numbers = Numbers { head_dim: self.rope_dims, ..numbers.clone() };
        rope(config, &numbers, style)
    }
}

/// What `YaRN` multiplies queries and keys with so that scores keep their spread, where the configuration asks for it.
fn spread(config: &Config<'_>) -> Result<f32, Error> {
    let stretched = |multiplier: f32, factor: f32| 1.0 + multiplier * factor.max(1.0).ln();
    if config.is_gguf() {
        // A tenth of the multiplier that the configuration had.
        let multiplier = config.optional_number("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0);
        let factor = config.optional_positive("rope.scaling.factor")?.unwrap_or(1.0);
        return Ok(stretched(multiplier, factor));
    }
    for parameters in ["rope_scaling", "rope_parameters"].into_iter().filter_map(|key| config.json(key)) {
        let number = |key: &str| parameters.get(key).and_then(Json::as_f64).map(|number| number as f32);
        if let (Some(multiplier), Some(factor)) = (number("mscale_all_dim"), number("factor")) {
            let spread = stretched(0.1 * multiplier, factor);
            if !spread.is_finite() {
                return Err(config.invalid("mscale_all_dim", &multiplier.to_string(), "a finite number"));
            }
            return Ok(spread);
        }
    }
    Ok(1.0)
}

impl Layer<'_> {
    /// Latent attention with rope 0. What makes keys and values of the latent row is one matrix of all heads, or two stacks with a
    /// part for each, the first of them turned.
    pub fn latent(&self, latents: &Latents) -> Mixer<Name> {
        let Numbers { hidden, heads, .. } = *self.numbers;
        let Latents { latent, q_rank, nope_dims, rope_dims, value_dims, scale } = *latents;
        let norm = |slot, width| Norm { epsilon: LOW_EPSILON, ..self.norm_of(slot, width) };
        let q_rows = heads * (nope_dims + rope_dims);
        let (q_low, q) = match q_rank {
            None => (None, self.bare("attn_q", q_rows, hidden)),
            Some(rank) => {
                let low = (self.linear("attn_q_a", rank, hidden), norm("attn_q_a_norm", rank));
                (Some(low), self.bare("attn_q_b", q_rows, rank))
            }
        };
        let together = self.bare("attn_kv_b", heads * (nope_dims + value_dims), latent);
        let turned = self.has_part("attn_kv_b.weight", 0);
        let rows_of = |head: u32, before: u32, rows: u32| {
            let first = u64::from(head * (nope_dims + value_dims) + before);
            Name { rows: Some(first..first + u64::from(rows)), ..together.weight.clone() }
        };
        let part = |rows: u32, columns: u32, weight: Name| Linear { rows, columns, weight, bias: None };
        let key = |head| {
            if turned {
                return part(nope_dims, latent, rows_of(head, 0, nope_dims));
            }
            part(latent, nope_dims, self.part_of("attn_k_b.weight", [head, heads], &[latent, nope_dims]))
        };
        let value = |head| {
            if turned {
                return part(value_dims, latent, rows_of(head, nope_dims, value_dims));
            }
            part(value_dims, latent, self.part_of("attn_v_b.weight", [head, heads], &[value_dims, latent]))
        };
        Mixer::Latent(Latent {
            heads,
            latent,
            rope_dims,
            nope_dims,
            value_dims,
            q_low,
            q,
            kv: self.linear("attn_kv_a_mqa", latent + rope_dims, hidden),
            kv_norm: norm("attn_kv_a_norm", latent),
            keys: (0..heads).map(key).collect(),
            turned,
            values: (0..heads).map(value).collect(),
            output: self.linear("attn_output", hidden, heads * value_dims),
            rope: 0,
            scale,
        })
    }
}
