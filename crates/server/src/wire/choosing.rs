//! How tokens are chosen and what ends an answer, in the words that the dialects have for it.

use std::hash::{BuildHasher, RandomState};

use kauri_engine::{Defaults, Sampling};
use serde::Deserialize;
use serde_json::{Map, Number, Value as Json};
use utoipa::ToSchema;

use crate::document::schema;
use crate::error::Problem;

/// What is sampled with where the model's makers say nothing.
const TEMPERATURE: f32 = 0.7;
const TOP_P: f32 = 0.95;

/// The fields of a request that settle how tokens are chosen. What is not there stays as the model's makers recommend.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct Choosing {
    /// 0 always takes the most likely token.
    #[schema(minimum = 0, maximum = 100)]
    temperature: Option<f32>,
    #[schema(exclusive_minimum = 0, maximum = 1)]
    top_p: Option<f32>,
    /// 0 and -1 are all.
    #[schema(minimum = -1)]
    top_k: Option<i64>,
    #[schema(minimum = 0, maximum = 1)]
    min_p: Option<f32>,
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f32>,
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f32>,
    /// Also called `repeat_penalty`.
    #[serde(alias = "repeat_penalty")]
    #[schema(exclusive_minimum = 0, maximum = 100)]
    repetition_penalty: Option<f32>,
    /// Also called `repeat_last_n`; -1 is the most.
    #[serde(alias = "repeat_last_n")]
    #[schema(minimum = -1, maximum = 8192)]
    penalty_window: Option<i64>,
    #[schema(minimum = 0, maximum = 100)]
    dry_multiplier: Option<f32>,
    #[schema(minimum = 1, maximum = 100)]
    dry_base: Option<f32>,
    #[schema(minimum = 1, maximum = 4294967295u32)]
    dry_allowed_length: Option<u32>,
    #[schema(minimum = 0, maximum = 1000)]
    top_n_sigma: Option<f32>,
    #[schema(exclusive_minimum = 0, maximum = 1)]
    typical_p: Option<f32>,
    #[schema(minimum = 0, maximum = 1)]
    xtc_probability: Option<f32>,
    #[schema(minimum = 0, maximum = 1)]
    xtc_threshold: Option<f32>,
    #[schema(minimum = 0, maximum = 100)]
    mirostat_tau: Option<f32>,
    #[schema(exclusive_minimum = 0, maximum = 1)]
    mirostat_eta: Option<f32>,
    /// The same seed gives the same answer.
    #[schema(schema_with = seed_schema)]
    seed: Option<Number>,
    /// What is added to the logits of tokens, by their ids.
    #[schema(schema_with = bias_schema)]
    logit_bias: Option<Map<String, Json>>,
    /// What ends the answer, and is not part of it.
    #[serde(alias = "stop_sequences")]
    #[schema(schema_with = stop_schema)]
    stop: Option<Json>,
    /// What is left of the window where it is not said.
    #[schema(minimum = 1)]
    max_tokens: Option<u64>,
    /// The newer name, which counts where both are there.
    #[schema(minimum = 1)]
    max_completion_tokens: Option<u64>,
    /// The name that responses have for it.
    #[schema(minimum = 1)]
    max_output_tokens: Option<u64>,
}

schema!(seed_schema, { "type": ["integer", "null"], "minimum": i64::MIN, "maximum": u64::MAX });
schema!(bias_schema, {
    "type": ["object", "null"],
    "propertyNames": { "type": "string", "pattern": "^[0-9]+$" },
    "additionalProperties": { "type": "number", "minimum": -100, "maximum": 100 },
});
schema!(stop_schema, { "oneOf": [
    { "type": "null" },
    { "type": "string", "maxLength": 1024 },
    { "type": "array", "items": { "type": "string", "maxLength": 1024, "minLength": 1 }, "maxItems": 16 },
] });

impl Choosing {
    /// These settings over the recommended ones.
    ///
    /// # Errors
    /// Names a field that is out of its range.
    pub fn sampling(&self, defaults: &Defaults) -> Result<Sampling, Problem> {
        let mut usual = defaults.sampling;
        if !defaults.is_stated {
            (usual.temperature, usual.top_p) = (TEMPERATURE, TOP_P);
        }
        let sampling = Sampling {
            temperature: self.temperature.unwrap_or(usual.temperature),
            top_p: self.top_p.unwrap_or(usual.top_p),
            top_k: self.top_k.map_or(Ok(usual.top_k), top_k)?,
            min_p: self.min_p.unwrap_or(usual.min_p),
            frequency_penalty: self.frequency_penalty.unwrap_or(usual.frequency_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(usual.presence_penalty),
            repetition_penalty: self.repetition_penalty.unwrap_or(usual.repetition_penalty),
            penalty_window: self.penalty_window.map_or(Ok(usual.penalty_window), penalty_window)?,
            dry_multiplier: self.dry_multiplier.unwrap_or(usual.dry_multiplier),
            dry_base: self.dry_base.unwrap_or(usual.dry_base),
            dry_allowed_length: self.dry_allowed_length.unwrap_or(usual.dry_allowed_length),
            top_n_sigma: self.top_n_sigma.unwrap_or(usual.top_n_sigma),
            typical_p: self.typical_p.unwrap_or(usual.typical_p),
            xtc_probability: self.xtc_probability.unwrap_or(usual.xtc_probability),
            xtc_threshold: self.xtc_threshold.unwrap_or(usual.xtc_threshold),
            mirostat_tau: self.mirostat_tau.unwrap_or(usual.mirostat_tau),
            mirostat_eta: self.mirostat_eta.unwrap_or(usual.mirostat_eta),
            seed: self.seed.as_ref().map_or_else(|| Ok(random_seed()), seed)?,
            ..usual
        };
        sampling.validate().map_err(kauri_engine::Error::from)?;
        Ok(sampling)
    }

    /// What is added to the logits of tokens of a vocabulary.
    ///
    /// # Errors
    /// Names what is no token, or no number from -100 to 100.
    pub fn logit_bias(&self, vocab: u32) -> Result<Vec<(u32, f32)>, Problem> {
        let Some(members) = &self.logit_bias else { return Ok(Vec::new()) };
        if members.len() > kauri_engine::sample::BIAS_TOKENS_MAX {
            let most = kauri_engine::sample::BIAS_TOKENS_MAX;
            return Err(Problem::field("logit_bias", format!("may name at most {most} tokens")));
        }
        let read = |(token, bias): (&String, &Json)| {
            let field = format!("logit_bias.{token}");
            let id = token.parse().ok().filter(|&id: &u32| id < vocab);
            let id = id.ok_or_else(|| {
                Problem::field(&field, format!("must be the id of a token, from 0 to {}", vocab.saturating_sub(1)))
            })?;
            let number = bias.as_f64().map(|bias| bias as f32).filter(|bias| (-100.0..=100.0).contains(bias));
            let number = number.ok_or_else(|| Problem::field(&field, "must be a number from -100 to 100"))?;
            Ok((id, number))
        };
        members.iter().map(read).collect()
    }

    /// What ends the answer: a string or a list of them.
    ///
    /// # Errors
    /// Names what is neither.
    pub fn stops(&self) -> Result<Vec<String>, Problem> {
        let wrong = || Problem::field("stop", "must be a string or a list of strings");
        match &self.stop {
            None | Some(Json::Null) => Ok(Vec::new()),
            Some(Json::String(stop)) if stop.is_empty() => Ok(Vec::new()),
            Some(Json::String(stop)) => Ok(vec![stop.clone()]),
            Some(Json::Array(list)) => {
                list.iter().map(|stop| stop.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    }

    /// Most tokens of the answer; what is left of the window where unset.
    ///
    /// # Errors
    /// Where it is 0.
    pub fn max_tokens(&self) -> Result<Option<usize>, Problem> {
        let given = [
            ("max_completion_tokens", self.max_completion_tokens),
            ("max_output_tokens", self.max_output_tokens),
            ("max_tokens", self.max_tokens),
        ];
        if let Some((name, _)) = given.iter().find(|(_, value)| *value == Some(0)) {
            return Err(Problem::field(name, "must be at least 1"));
        }
        // No window is longer.
        Ok(given.iter().find_map(|(_, value)| *value).map(|most| most.min(u64::from(u32::MAX)) as usize))
    }
}

/// Some say -1 for all.
fn top_k(value: i64) -> Result<u32, Problem> {
    match value {
        -1 => Ok(0),
        0.. => Ok(value.min(i64::from(u32::MAX)) as u32),
        _ => Err(Problem::field("top_k", format!("must be at least 0 (all), not {value}"))),
    }
}

/// Some say -1 for as many as there are.
fn penalty_window(value: i64) -> Result<u32, Problem> {
    let most = kauri_engine::sample::PENALTY_WINDOW_MAX;
    match value {
        -1 => Ok(most),
        0.. if value <= i64::from(most) => Ok(value as u32),
        _ => Err(Problem::field("penalty_window", format!("must be from 0 to {most}, not {value}"))),
    }
}

fn seed(number: &Number) -> Result<u64, Problem> {
    let seed = number.as_u64().or_else(|| number.as_i64().map(|seed| seed as u64));
    seed.ok_or_else(|| Problem::field("seed", format!("must be a whole number of 64 bits, not {number}")))
}

fn random_seed() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::body::Fields;

    fn read(json: &Json) -> Result<Choosing, Problem> {
        Fields::of(json.clone(), "the body")?.read()
    }

    fn defaults() -> Defaults {
        Defaults { sampling: Sampling::default(), is_stated: false, end_tokens: Vec::new() }
    }

    #[test]
    fn every_number_that_makes_no_sense_is_named() {
        let fields = [
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "frequency_penalty",
            "presence_penalty",
            "repetition_penalty",
            "typical_p",
            "xtc_probability",
            "mirostat_eta",
            "dry_base",
        ];
        for field in fields {
            for value in [json!(1e308), json!(-1e308), json!("1"), json!([1]), json!(-1000), json!(true)] {
                let result = read(&json!({ field: value })).and_then(|read| read.sampling(&defaults()));
                let problem = result.expect_err(&format!("{field}: {value}"));
                assert_eq!(problem.param.as_deref(), Some(field), "{value}: {}", problem.message);
                assert!(problem.message.contains(field), "{}", problem.message);
            }
        }
        for (field, value) in [
            ("max_tokens", json!(0)),
            ("max_tokens", json!(-1)),
            ("max_completion_tokens", json!(1.5)),
            ("max_output_tokens", json!(0)),
        ] {
            let result = read(&json!({ field: value })).and_then(|read| read.max_tokens());
            assert_eq!(result.expect_err(field).param.as_deref(), Some(field), "{value}");
        }
        for (value, field) in [
            (json!({"x": 1}), "logit_bias.x"),
            (json!({"70": 1}), "logit_bias.70"),
            (json!({"7": 101}), "logit_bias.7"),
        ] {
            let problem = read(&json!({ "logit_bias": value })).unwrap().logit_bias(70).unwrap_err();
            assert_eq!(problem.param.as_deref(), Some(field));
        }
        assert_eq!(read(&json!({ "stop": [1] })).unwrap().stops().unwrap_err().param.as_deref(), Some("stop"));
        assert!(read(&json!({ "seed": 1.5 })).unwrap().sampling(&defaults()).is_err());
    }

    #[test]
    fn what_is_not_said_is_as_recommended() {
        let sampling = read(&json!({ "temperature": null })).unwrap().sampling(&defaults()).unwrap();
        assert_eq!((sampling.temperature, sampling.top_p), (0.7, 0.95));
        let stated = Defaults { is_stated: true, ..defaults() };
        let sampling = read(&json!({ "seed": -1, "top_k": -1 })).unwrap().sampling(&stated).unwrap();
        assert_eq!((sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed), (1.0, 1.0, 0, u64::MAX));
        assert_eq!(read(&json!({ "max_tokens": u64::MAX })).unwrap().max_tokens(), Ok(Some(u32::MAX as usize)));
        assert_eq!(read(&json!({ "stop": "a" })).unwrap().stops(), Ok(vec!["a".to_owned()]));
    }
}
