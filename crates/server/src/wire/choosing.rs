//! How tokens are chosen and what ends an answer, in the words that the dialects have for it.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use kauri_engine::{Applied, Defaults, Sampling, sample, stop};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value as Json};
use utoipa::ToSchema;

use super::adapters::{lora_schema, read_adapters};
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
    #[serde(default, deserialize_with = "single")]
    temperature: Option<f32>,
    #[schema(exclusive_minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "single")]
    top_p: Option<f32>,
    /// 0 and -1 are all.
    #[schema(minimum = -1)]
    top_k: Option<i64>,
    #[schema(minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "single")]
    min_p: Option<f32>,
    #[schema(minimum = -2, maximum = 2)]
    #[serde(default, deserialize_with = "single")]
    frequency_penalty: Option<f32>,
    #[schema(minimum = -2, maximum = 2)]
    #[serde(default, deserialize_with = "single")]
    presence_penalty: Option<f32>,
    #[schema(exclusive_minimum = 0, maximum = 100)]
    #[serde(default, deserialize_with = "single")]
    repetition_penalty: Option<f32>,
    /// Another name for `repetition_penalty`, which counts where both are there.
    #[schema(exclusive_minimum = 0, maximum = 100)]
    #[serde(default, deserialize_with = "single")]
    repeat_penalty: Option<f32>,
    /// -1 is the most.
    #[schema(minimum = -1, maximum = 8192)]
    penalty_window: Option<i64>,
    /// Another name for `penalty_window`, which counts where both are there.
    #[schema(minimum = -1, maximum = 8192)]
    repeat_last_n: Option<i64>,
    #[schema(minimum = 0, maximum = 100)]
    #[serde(default, deserialize_with = "single")]
    dry_multiplier: Option<f32>,
    #[schema(minimum = 1, maximum = 100)]
    #[serde(default, deserialize_with = "single")]
    dry_base: Option<f32>,
    #[schema(minimum = 1, maximum = 4294967295u32)]
    dry_allowed_length: Option<u32>,
    #[schema(minimum = 0, maximum = 1000)]
    #[serde(default, deserialize_with = "single")]
    top_n_sigma: Option<f32>,
    #[schema(exclusive_minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "single")]
    typical_p: Option<f32>,
    #[schema(minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "single")]
    xtc_probability: Option<f32>,
    #[schema(minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "single")]
    xtc_threshold: Option<f32>,
    /// How far the temperature may move, up and down, with the model's doubt.
    #[schema(minimum = 0, maximum = 100)]
    #[serde(default, deserialize_with = "single")]
    temperature_range: Option<f32>,
    /// How steeply it does.
    #[schema(exclusive_minimum = 0, maximum = 100)]
    #[serde(default, deserialize_with = "single")]
    temperature_exponent: Option<f32>,
    #[schema(minimum = 0, maximum = 100)]
    #[serde(default, deserialize_with = "single")]
    mirostat_tau: Option<f32>,
    #[schema(exclusive_minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "single")]
    mirostat_eta: Option<f32>,
    /// The same seed gives the same answer.
    #[schema(schema_with = seed_schema)]
    seed: Option<Number>,
    /// What is added to the logits of tokens, by their ids.
    #[schema(schema_with = bias_schema)]
    logit_bias: Option<Map<String, Json>>,
    /// What ends the answer, and is not part of it.
    #[schema(schema_with = stop_schema)]
    stop: Option<Json>,
    /// Another name for `stop`, which counts where both are there.
    #[schema(schema_with = stop_schema)]
    stop_sequences: Option<Json>,
    /// What is left of the window where it is not said.
    #[schema(minimum = 1)]
    max_tokens: Option<u64>,
    /// The newer name, which counts where both are there.
    #[schema(minimum = 1)]
    max_completion_tokens: Option<u64>,
    /// The name that responses have for it.
    #[schema(minimum = 1)]
    max_output_tokens: Option<u64>,
    /// Seconds that the answer may take, the prompt included: what is written by then is the answer.
    #[schema(exclusive_minimum = 0)]
    max_time: Option<f64>,
    /// How much of which adapters; those that `/lora-adapters` says where it is not there.
    #[schema(schema_with = lora_schema)]
    lora: Option<Json>,
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

/// A number in single precision. All limits are whole numbers: what lies beside one does not become it, so that it is refused or taken
/// for what it is.
fn single<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f32>, D::Error> {
    let Some(exact) = Option::<f64>::deserialize(from)? else { return Ok(None) };
    let near = exact as f32;
    let is_beside = near.is_finite() && near.fract() == 0.0 && f64::from(near) != exact;
    Ok(Some(match exact.partial_cmp(&f64::from(near)) {
        Some(Ordering::Greater) if is_beside => near.next_up(),
        Some(Ordering::Less) if is_beside => near.next_down(),
        _ => near,
    }))
}

impl Choosing {
    /// Whether all of it makes sense that can be judged without a model: of which vocabulary, and of how many adapters, is not known.
    ///
    /// # Errors
    /// Names the first field that does not.
    pub fn check(&self) -> Result<(), Problem> {
        self.sampling(&Defaults { sampling: Sampling::default(), is_stated: true, end_tokens: Vec::new() })?;
        self.logit_bias(u32::MAX)?;
        self.stops()?;
        self.max_tokens()?;
        self.time_max()?;
        self.adapters(usize::MAX)?;
        Ok(())
    }

    /// These settings over the recommended ones.
    ///
    /// # Errors
    /// Names a field that is out of its range.
    pub fn sampling(&self, defaults: &Defaults) -> Result<Sampling, Problem> {
        let mut usual = defaults.sampling;
        if !defaults.is_stated {
            (usual.temperature, usual.top_p) = (TEMPERATURE, TOP_P);
        }
        let windows = [("penalty_window", self.penalty_window), ("repeat_last_n", self.repeat_last_n)];
        let mut sampling = Sampling {
            temperature: self.temperature.unwrap_or(usual.temperature),
            top_p: self.top_p.unwrap_or(usual.top_p),
            top_k: self.top_k.map_or(Ok(usual.top_k), top_k)?,
            min_p: self.min_p.unwrap_or(usual.min_p),
            frequency_penalty: self.frequency_penalty.unwrap_or(usual.frequency_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(usual.presence_penalty),
            penalty_window: either(windows, penalty_window)?.unwrap_or(usual.penalty_window),
            dry_multiplier: self.dry_multiplier.unwrap_or(usual.dry_multiplier),
            dry_base: self.dry_base.unwrap_or(usual.dry_base),
            dry_allowed_length: self.dry_allowed_length.unwrap_or(usual.dry_allowed_length),
            top_n_sigma: self.top_n_sigma.unwrap_or(usual.top_n_sigma),
            typical_p: self.typical_p.unwrap_or(usual.typical_p),
            xtc_probability: self.xtc_probability.unwrap_or(usual.xtc_probability),
            xtc_threshold: self.xtc_threshold.unwrap_or(usual.xtc_threshold),
            temperature_range: self.temperature_range.unwrap_or(usual.temperature_range),
            temperature_exponent: self.temperature_exponent.unwrap_or(usual.temperature_exponent),
            mirostat_tau: self.mirostat_tau.unwrap_or(usual.mirostat_tau),
            mirostat_eta: self.mirostat_eta.unwrap_or(usual.mirostat_eta),
            seed: self.seed.as_ref().map_or_else(|| Ok(random_seed()), seed)?,
            ..usual
        };
        // Both names are looked at, and the first of them counts; what is wrong is told by the name that it was given by.
        for (name, penalty) in
            [("repeat_penalty", self.repeat_penalty), ("repetition_penalty", self.repetition_penalty)]
        {
            sampling.repetition_penalty = penalty.unwrap_or(sampling.repetition_penalty);
            sampling.validate().map_err(|error| {
                let field = if error.field == "repetition_penalty" { name } else { error.field };
                kauri_engine::Error::from(sample::Error { field, ..error })
            })?;
        }
        Ok(sampling)
    }

    /// What is added to the logits of tokens of a vocabulary.
    ///
    /// # Errors
    /// Names what is no token, or no number from -100 to 100.
    pub fn logit_bias(&self, vocab: u32) -> Result<Vec<(u32, f32)>, Problem> {
        let Some(members) = &self.logit_bias else { return Ok(Vec::new()) };
        if members.len() > sample::BIAS_TOKENS_MAX {
            let most = sample::BIAS_TOKENS_MAX;
            return Err(Problem::field("logit_bias", format!("may name at most {most} tokens")));
        }
        let read = |(token, bias): (&String, &Json)| {
            let field = format!("logit_bias.{token}");
            let id = token.parse().ok().filter(|&id: &u32| id < vocab);
            let id = id.ok_or_else(|| {
                Problem::field(&field, format!("must be the id of a token, from 0 to {}", vocab.saturating_sub(1)))
            })?;
            let number = bias.as_f64().filter(|bias| (-100.0..=100.0).contains(bias));
            let number = number.ok_or_else(|| Problem::field(&field, "must be a number from -100 to 100"))?;
            Ok((id, number as f32))
        };
        members.iter().map(read).collect()
    }

    /// What ends the answer: a string or a list of them.
    ///
    /// # Errors
    /// Names what is neither, and what no answer can be ended by.
    pub fn stops(&self) -> Result<Vec<String>, Problem> {
        let given = [("stop", self.stop.as_ref()), ("stop_sequences", self.stop_sequences.as_ref())];
        Ok(either(given, stops)?.unwrap_or_default())
    }

    /// What the answer has of `count` adapters, where that is said.
    ///
    /// # Errors
    /// Names what is no adapter, or no scale.
    pub fn adapters(&self, count: usize) -> Result<Option<Vec<Applied>>, Problem> {
        self.lora.as_ref().map(|given| read_adapters("lora", given, count)).transpose()
    }

    /// How long the answer may take; without end where unset, or longer than anybody waits.
    ///
    /// # Errors
    /// Where it is no time at all.
    pub fn time_max(&self) -> Result<Option<Duration>, Problem> {
        match self.max_time {
            Some(seconds) if seconds > 0.0 => Ok(Duration::try_from_secs_f64(seconds).ok()),
            Some(_) => Err(Problem::field("max_time", "must be a number of seconds over 0")),
            None => Ok(None),
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

/// What a field with two names says: both are read, and the first counts.
fn either<T, U>(
    names: [(&'static str, Option<T>); 2],
    read: impl Fn(&'static str, T) -> Result<U, Problem>,
) -> Result<Option<U>, Problem> {
    let [first, second] = names.map(|(name, value)| value.map(|value| read(name, value)).transpose());
    let second = second?;
    Ok(first?.or(second))
}

/// A string or a list of them, that answers can be ended by.
fn stops(name: &'static str, given: &Json) -> Result<Vec<String>, Problem> {
    let wrong = || Problem::field(name, "must be a string or a list of strings");
    let stops: Vec<String> = match given {
        Json::Null => Vec::new(),
        Json::String(stop) if stop.is_empty() => Vec::new(),
        Json::String(stop) => vec![stop.clone()],
        Json::Array(list) => {
            let texts = list.iter().map(|stop| stop.as_str().map(str::to_owned).ok_or_else(wrong));
            texts.collect::<Result<_, _>>()?
        }
        Json::Bool(_) | Json::Number(_) | Json::Object(_) => return Err(wrong()),
    };
    // Here, for who only loads a model asks no engine.
    stop::check(&stops).map_err(|error| {
        let message = error.to_string();
        let rest = message.strip_prefix("stop").unwrap_or(&message);
        Problem { message: format!("{name}{rest}"), ..Problem::field(name, "") }
    })?;
    Ok(stops)
}

/// Some say -1 for as many as there are.
fn penalty_window(name: &'static str, value: i64) -> Result<u32, Problem> {
    let most = sample::PENALTY_WINDOW_MAX;
    match value {
        -1 => Ok(most),
        0.. if value <= i64::from(most) => Ok(value as u32),
        _ => Err(Problem::field(name, format!("must be from 0 to {most}, not {value}"))),
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
    fn numbers_beside_a_limit_do_not_become_it() {
        let penalty = |value: f64| read(&json!({ "presence_penalty": value })).unwrap().sampling(&defaults());
        assert_eq!(penalty(2.0).unwrap().presence_penalty, 2.0);
        assert_eq!(penalty(0.7).unwrap().presence_penalty, 0.7);
        assert!(penalty(2.000_000_000_000_000_4).is_err() && penalty(-2.000_000_000_000_000_4).is_err());
        assert!(penalty(1.999_999_999_999_999_8).unwrap().presence_penalty < 2.0);
        let top_p = |value: f64| read(&json!({ "top_p": value })).unwrap().sampling(&defaults());
        assert!(top_p(1e-60).is_ok() && top_p(0.0).is_err() && top_p(1.000_000_000_000_000_2).is_err());
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
            "repeat_penalty",
            "penalty_window",
            "repeat_last_n",
            "typical_p",
            "xtc_probability",
            "mirostat_eta",
            "dry_base",
            "temperature_range",
            "temperature_exponent",
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
        for value in [json!(0), json!(-1), json!("1"), json!([])] {
            let result = read(&json!({ "max_time": value })).and_then(|read| read.time_max());
            assert_eq!(result.expect_err("no time").param.as_deref(), Some("max_time"), "{value}");
        }
        for (value, field) in [
            (json!({"x": 1}), "logit_bias.x"),
            (json!({"70": 1}), "logit_bias.70"),
            (json!({"7": 101}), "logit_bias.7"),
        ] {
            let problem = read(&json!({ "logit_bias": value })).unwrap().logit_bias(70).unwrap_err();
            assert_eq!(problem.param.as_deref(), Some(field));
        }
        for (name, other, value) in [
            ("repeat_penalty", "repetition_penalty", json!(0)),
            ("repeat_last_n", "penalty_window", json!(9000)),
            ("repetition_penalty", "repeat_penalty", json!(101)),
        ] {
            let read = read(&json!({ name: value, other: 1 })).unwrap();
            let problem = read.sampling(&defaults()).expect_err(name);
            assert_eq!(problem.param.as_deref(), Some(name), "the other is no excuse");
        }
        let both = read(&json!({ "stop": "a", "stop_sequences": [""] })).unwrap();
        assert_eq!(both.stops().unwrap_err().param.as_deref(), Some("stop_sequences"));
        for field in ["stop", "stop_sequences"] {
            for value in
                [json!([1]), json!({}), json!([""]), json!(["a", ""]), json!("x".repeat(1025)), json!(vec!["a"; 17])]
            {
                let problem = read(&json!({ field: value })).unwrap().stops().expect_err(field);
                assert_eq!(problem.param.as_deref(), Some(field), "{value}");
                assert!(problem.message.starts_with(field), "{}", problem.message);
            }
        }
        assert!(read(&json!({ "seed": 1.5 })).unwrap().sampling(&defaults()).is_err());
    }

    #[test]
    fn what_needs_no_model_is_told_without_one() {
        for wrong in [
            json!({ "temperature": -1 }),
            json!({ "logit_bias": { "1": 101 } }),
            json!({ "stop": [""] }),
            json!({ "max_output_tokens": 0 }),
            json!({ "max_time": 0 }),
            json!({ "lora": [0] }),
        ] {
            let problem = read(&wrong).unwrap().check().expect_err("not all of it makes sense");
            let field = wrong.as_object().unwrap().keys().next().unwrap();
            assert!(problem.param.as_deref().is_some_and(|param| param.starts_with(field)), "{wrong}: {problem:?}");
        }
        let right =
            json!({ "temperature": 1, "logit_bias": { "1": 100 }, "max_time": 0.1, "lora": [{ "id": 7, "scale": 1 }] });
        assert!(read(&right).unwrap().check().is_ok());
    }

    #[test]
    fn what_is_not_said_is_as_recommended() {
        let sampling = read(&json!({ "temperature": null })).unwrap().sampling(&defaults()).unwrap();
        assert_eq!((sampling.temperature, sampling.top_p), (0.7, 0.95));
        let stated = Defaults { is_stated: true, ..defaults() };
        let sampling = read(&json!({ "seed": -1, "top_k": -1 })).unwrap().sampling(&stated).unwrap();
        assert_eq!((sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed), (1.0, 1.0, 0, u64::MAX));
        assert_eq!(read(&json!({ "max_tokens": u64::MAX })).unwrap().max_tokens(), Ok(Some(u32::MAX as usize)));
        let time = |seconds: f64| read(&json!({ "max_time": seconds })).unwrap().time_max();
        assert_eq!((time(0.25), time(1e300)), (Ok(Some(Duration::from_millis(250))), Ok(None)));
        let warm = read(&json!({ "temperature_range": 0.5, "temperature_exponent": 2 })).unwrap();
        let warm = warm.sampling(&stated).unwrap();
        assert_eq!((warm.temperature_range, warm.temperature_exponent), (0.5, 2.0));
        assert_eq!(read(&json!({ "stop": "a" })).unwrap().stops(), Ok(vec!["a".to_owned()]));
        assert_eq!(read(&json!({ "stop": "", "stop_sequences": ["a"] })).unwrap().stops(), Ok(Vec::new()));
        let penalty = read(&json!({ "repeat_penalty": 1.5, "repeat_last_n": -1 })).unwrap().sampling(&stated).unwrap();
        assert_eq!((penalty.repetition_penalty, penalty.penalty_window), (1.5, sample::PENALTY_WINDOW_MAX));
    }
}
