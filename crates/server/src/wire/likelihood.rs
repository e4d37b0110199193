//! How likely tokens were, as OpenAI's answers tell it.

use kauri_engine::{Likelihood, Tokenizer};
use serde::Serialize;
use utoipa::ToSchema;

/// What is said of a token that cannot come: JSON has no infinity.
const NEVER: f32 = -9999.0;

/// A token of a choice.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChoiceLikelihood {
    #[serde(flatten)]
    pub token: TokenLikelihood,
    pub top_logprobs: Vec<TokenLikelihood>,
}

/// A token and how likely it was.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TokenLikelihood {
    /// Its text; what is no whole character is shown by a sign.
    pub token: String,
    pub logprob: f32,
    pub bytes: Vec<u8>,
}

impl ChoiceLikelihood {
    pub fn of(tokenizer: &Tokenizer, id: u32, told: &Likelihood) -> Self {
        Self {
            token: TokenLikelihood::of(tokenizer, id, told.log_probability),
            top_logprobs: told.likely.iter().map(|&(id, log)| TokenLikelihood::of(tokenizer, id, log)).collect(),
        }
    }
}

impl TokenLikelihood {
    fn of(tokenizer: &Tokenizer, id: u32, log_probability: f32) -> Self {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default().to_vec();
        Self {
            token: String::from_utf8_lossy(&bytes).into_owned(),
            logprob: if log_probability.is_finite() { log_probability } else { NEVER },
            bytes,
        }
    }
}
