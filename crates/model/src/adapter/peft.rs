//! An adapter as PEFT writes it: `adapter_config.json` beside `adapter_model.safetensors`.

use indexmap::IndexMap;
use kauri_formats::Checkpoint;
use kauri_formats::checkpoint::Directory;
use serde_json::{Map, Value as Json};

use super::{Error, Pair, Strength, pairs as in_twos};

/// Settings that make another kind of adapter where they say anything: it would be applied wrongly.
const REFUSED: &[&str] = &[
    "alora_invocation_tokens",
    "arrow_config",
    "fan_in_fan_out",
    "kasa_config",
    "layer_replication",
    "lora_bias",
    "modules_to_save",
    "monteclora_config",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_dora",
    "use_qalora",
];
/// Ways to begin that change the model's own weights, as long as the settings say so.
const CHANGES_BASE: &[&str] = &["corda", "loftq", "lora_ga", "olora", "pissa"];
/// What makes a pattern a regular expression.
const EXPRESSION: &[char] = &['^', '$', '*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '\\'];

/// The pairs of the directory, by the names of the model's tensors.
pub(super) fn pairs(
    path: &str,
    checkpoint: &Checkpoint,
    directory: &Directory,
) -> Result<IndexMap<String, Pair>, Error> {
    let config = &directory.config;
    check(path, config)?;
    let alphas = Alphas::read(path, config)?;
    let half = |name: &str| {
        let name = name.strip_prefix("base_model.model.")?;
        let of = |module: &str, which| (format!("{module}.weight"), which);
        let down = name.strip_suffix(".lora_A.weight").map(|module| of(module, 0));
        down.or_else(|| name.strip_suffix(".lora_B.weight").map(|module| of(module, 1)))
    };
    in_twos(path, checkpoint, &half, &|tensor| alphas.of(tensor.strip_suffix(".weight").unwrap_or(tensor)))
}

/// Refuses what is no adapter of two small matrices beside untouched ones.
fn check(path: &str, config: &Map<String, Json>) -> Result<(), Error> {
    let kind = config.get("peft_type").and_then(Json::as_str).unwrap_or("missing");
    if kind != "LORA" {
        let (path, found) = (path.to_owned(), kind.to_owned());
        return Err(Error::NoAdapter { path, key: "peft_type", found, expected: "LORA" });
    }
    let says = |value: &Json| match value {
        Json::Null | Json::Bool(false) => false,
        Json::Bool(true) | Json::Number(_) => true,
        Json::String(text) => !text.is_empty(),
        Json::Array(values) => !values.is_empty(),
        Json::Object(values) => !values.is_empty(),
    };
    let refuse = |key: &str, value: &Json| {
        Err(Error::Unsupported { path: path.to_owned(), what: format!("{key} = {}", short(value)) })
    };
    if let Some((key, value)) = config.iter().find(|(key, value)| REFUSED.contains(&key.as_str()) && says(value)) {
        return refuse(key, value);
    }
    if let Some(bias) = config.get("bias").filter(|bias| !bias.is_null() && bias.as_str() != Some("none")) {
        return refuse("bias", bias);
    }
    let begins = config.get("init_lora_weights").and_then(Json::as_str);
    let changes = |way: &&str| CHANGES_BASE.iter().any(|other| way.to_ascii_lowercase().starts_with(other));
    if let Some(way) = begins.filter(changes) {
        return refuse("init_lora_weights", &Json::from(way));
    }
    Ok(())
}

/// The alphas of all modules.
struct Alphas<'a> {
    alpha: f64,
    rooted: bool,
    /// Those of modules that have others, by the ends of their names.
    others: Vec<(&'a str, f64)>,
}

impl<'a> Alphas<'a> {
    fn read(path: &str, config: &'a Map<String, Json>) -> Result<Self, Error> {
        let number = |key: &str, value: &Json| {
            let number = value.as_f64().filter(|alpha| alpha.is_finite() && *alpha != 0.0);
            number.ok_or_else(|| Error::Setting {
                path: path.to_owned(),
                key: key.to_owned(),
                found: short(value),
                expected: "a finite number other than zero",
            })
        };
        let alpha = number("lora_alpha", config.get("lora_alpha").unwrap_or(&Json::Null))?;
        let mut others = Vec::new();
        for (module, value) in config.get("alpha_pattern").and_then(Json::as_object).into_iter().flatten() {
            let key = format!("alpha_pattern.{module}");
            if module.contains(EXPRESSION) {
                let what = format!("a regular expression in {key}");
                return Err(Error::Unsupported { path: path.to_owned(), what });
            }
            others.push((module.as_str(), number(&key, value)?));
        }
        let rooted = config.get("use_rslora").and_then(Json::as_bool).unwrap_or(false);
        Ok(Self { alpha, rooted, others })
    }

    /// That of a module: of the first pattern that is its name or the end of it, as PEFT looks for it.
    fn of(&self, module: &str) -> Strength {
        let ends = |end: &str| module.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let own = self.others.iter().find(|(end, _)| ends(end)).map(|&(_, alpha)| alpha);
        let alpha = own.unwrap_or(self.alpha);
        if self.rooted { Strength::RootAlpha(alpha) } else { Strength::Alpha(alpha) }
    }
}

/// A value as it is written, or its beginning.
fn short(value: &Json) -> String {
    value.to_string().chars().take(80).collect()
}
