//! How tokens are chosen and what ends an answer, as options; what is not given stays as the model's makers recommend.

use std::hash::{BuildHasher, RandomState};

use clap::Args;
use kauri_engine::Sampling;

/// How to choose tokens.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingOptions {
    /// 0 takes the likeliest token every time; higher is more varied.
    #[arg(long, value_name = "X", value_parser = temperature, allow_negative_numbers = true)]
    temperature: Option<f32>,

    /// Choose among the K likeliest tokens; 0 for all.
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    top_k: Option<u32>,

    /// Choose among the likeliest tokens that make up this share of the probability.
    #[arg(long, value_name = "P", value_parser = positive_share, allow_negative_numbers = true)]
    top_p: Option<f32>,

    /// Choose among tokens at least this share as likely as the likeliest.
    #[arg(long, value_name = "P", value_parser = share, allow_negative_numbers = true)]
    min_p: Option<f32>,

    /// Divide the score of tokens that occurred by this; 1 for off.
    #[arg(long, value_name = "X", value_parser = repeat_penalty, allow_negative_numbers = true)]
    repeat_penalty: Option<f32>,

    /// Subtract this from the score of a token each time it occurred.
    #[arg(long, value_name = "X", value_parser = penalty, allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,

    /// Subtract this from the score of a token that occurred.
    #[arg(long, value_name = "X", value_parser = penalty, allow_negative_numbers = true)]
    presence_penalty: Option<f32>,

    /// Subtract this, and more the longer, from the score of a token that goes on repeating what was written; 0 for off.
    #[arg(long, value_name = "X", value_parser = temperature, allow_negative_numbers = true)]
    dry_multiplier: Option<f32>,

    /// How much more for each further token that is repeated.
    #[arg(long, value_name = "X", value_parser = base, allow_negative_numbers = true)]
    dry_base: Option<f32>,

    /// Tokens that may be repeated.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    dry_allowed_length: Option<u32>,

    /// Choose among tokens whose score is at most so many standard deviations below the best; 0 for off.
    #[arg(long, value_name = "X", value_parser = sigmas, allow_negative_numbers = true)]
    top_n_sigma: Option<f32>,

    /// Choose among the tokens of most typical surprise that make up this share of the probability.
    #[arg(long, value_name = "P", value_parser = positive_share, allow_negative_numbers = true)]
    typical_p: Option<f32>,

    /// How often to leave out the likeliest tokens, but for one.
    #[arg(long, value_name = "P", value_parser = share, allow_negative_numbers = true)]
    xtc_probability: Option<f32>,

    /// How likely a token must be to be left out so.
    #[arg(long, value_name = "P", value_parser = share, allow_negative_numbers = true)]
    xtc_threshold: Option<f32>,

    /// Let the temperature move so far up and down with the model's doubt.
    #[arg(long, value_name = "X", value_parser = temperature, allow_negative_numbers = true)]
    temperature_range: Option<f32>,

    /// How steeply it does.
    #[arg(long, value_name = "X", value_parser = repeat_penalty, allow_negative_numbers = true)]
    temperature_exponent: Option<f32>,

    /// Aim at this many bits of surprise a token; 0 for off.
    #[arg(long, value_name = "BITS", value_parser = temperature, allow_negative_numbers = true)]
    mirostat_tau: Option<f32>,

    /// How quickly.
    #[arg(long, value_name = "X", value_parser = positive_share, allow_negative_numbers = true)]
    mirostat_eta: Option<f32>,

    /// The same seed gives the same answer; random where not given, and printed by --stats and --json.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,

    /// Most tokens to write; up to the end of the window where not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub max_tokens: Option<u32>,

    /// End the answer where this appears; may be given several times.
    #[arg(long = "stop", value_name = "STRING", value_parser = stop)]
    pub stops: Vec<String>,
}

impl SamplingOptions {
    /// These options over the recommended ones.
    pub fn over(&self, recommended: &Sampling) -> Sampling {
        Sampling {
            temperature: self.temperature.unwrap_or(recommended.temperature),
            top_k: self.top_k.unwrap_or(recommended.top_k),
            top_p: self.top_p.unwrap_or(recommended.top_p),
            min_p: self.min_p.unwrap_or(recommended.min_p),
            repetition_penalty: self.repeat_penalty.unwrap_or(recommended.repetition_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(recommended.frequency_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(recommended.presence_penalty),
            dry_multiplier: self.dry_multiplier.unwrap_or(recommended.dry_multiplier),
            dry_base: self.dry_base.unwrap_or(recommended.dry_base),
            dry_allowed_length: self.dry_allowed_length.unwrap_or(recommended.dry_allowed_length),
            top_n_sigma: self.top_n_sigma.unwrap_or(recommended.top_n_sigma),
            typical_p: self.typical_p.unwrap_or(recommended.typical_p),
            xtc_probability: self.xtc_probability.unwrap_or(recommended.xtc_probability),
            xtc_threshold: self.xtc_threshold.unwrap_or(recommended.xtc_threshold),
            temperature_range: self.temperature_range.unwrap_or(recommended.temperature_range),
            temperature_exponent: self.temperature_exponent.unwrap_or(recommended.temperature_exponent),
            mirostat_tau: self.mirostat_tau.unwrap_or(recommended.mirostat_tau),
            mirostat_eta: self.mirostat_eta.unwrap_or(recommended.mirostat_eta),
            seed: self.seed.unwrap_or_else(random_seed),
            ..*recommended
        }
    }
}

/// Another one each time, short enough to be typed again.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0) >> 32
}

fn temperature(text: &str) -> Result<f32, String> {
    number(text, 0.0, 100.0)
}

fn sigmas(text: &str) -> Result<f32, String> {
    number(text, 0.0, 1000.0)
}

fn base(text: &str) -> Result<f32, String> {
    number(text, 1.0, 100.0)
}

fn share(text: &str) -> Result<f32, String> {
    number(text, 0.0, 1.0)
}

fn positive_share(text: &str) -> Result<f32, String> {
    positive(text, 1.0)
}

fn repeat_penalty(text: &str) -> Result<f32, String> {
    positive(text, 100.0)
}

fn penalty(text: &str) -> Result<f32, String> {
    number(text, -2.0, 2.0)
}

fn number(text: &str, least: f32, most: f32) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        Ok(_) | Err(_) => Err(format!("expected a number from {least} to {most}")),
    }
}

fn positive(text: &str, most: f32) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if value > 0.0 && value <= most => Ok(value),
        Ok(_) | Err(_) => Err(format!("expected a number over 0, to {most}")),
    }
}

fn stop(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a stop string cannot be empty".to_owned()) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_and_no_numbers_are_refused() {
        assert_eq!(temperature("0.7"), Ok(0.7));
        assert_eq!(temperature("0"), Ok(0.0));
        assert_eq!(penalty("-0.5"), Ok(-0.5));
        for wrong in ["NaN", "-1", "inf", "", "1e9", "warm"] {
            assert!(temperature(wrong).is_err(), "{wrong}");
        }
        assert!(share("2").is_err());
        assert!(share("0").is_ok() && positive_share("0").is_err() && positive_share("NaN").is_err());
        assert!(repeat_penalty("0").is_err());
    }
}
