//! What an answer took: tokens and times.

use kauri_engine::{Done, Finish};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Tokens that requests took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Usage {
    pub prompt_tokens: usize,
    pub completion_tokens: usize,
    pub total_tokens: usize,
    pub prompt_tokens_details: PromptDetails,
    pub completion_tokens_details: CompletionDetails,
}

/// Of the tokens of prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct PromptDetails {
    /// Known from before.
    pub cached_tokens: usize,
}

/// Of the tokens of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct CompletionDetails {
    pub reasoning_tokens: usize,
}

/// How long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Timings {
    pub ttft_ms: f64,
    pub prefill_tokens_per_s: f64,
    pub decode_tokens_per_s: f64,
}

/// What a stream is to end with.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub struct StreamOptions {
    include_usage: Option<bool>,
}

impl StreamOptions {
    /// Whether the last chunk tells what it took.
    pub fn includes_usage(self) -> bool {
        self.include_usage.unwrap_or(false)
    }
}

impl Usage {
    /// Adds an answer; `is_first` of those to its prompt, which counts once.
    pub fn add(&mut self, done: &Done, is_first: bool) {
        if is_first {
            self.prompt_tokens += done.prompt_tokens;
            self.prompt_tokens_details.cached_tokens += done.cached_tokens;
        }
        self.completion_tokens += done.output_tokens;
        self.completion_tokens_details.reasoning_tokens += done.reasoning_tokens;
        self.total_tokens = self.prompt_tokens + self.completion_tokens;
    }
}

impl From<&Done> for Timings {
    fn from(done: &Done) -> Self {
        let round = |value: f64| (value * 100.0).round() / 100.0;
        Self {
            ttft_ms: round(done.time_to_first_token.as_secs_f64() * 1000.0),
            prefill_tokens_per_s: round(done.prefill_tokens_per_s()),
            decode_tokens_per_s: round(done.decode_tokens_per_s()),
        }
    }
}

/// Why an answer ended, in OpenAI's words.
pub fn finish_reason(done: &Done, calls: bool) -> &'static str {
    match &done.finish {
        Finish::Length | Finish::Window | Finish::Time => "length",
        Finish::EndToken | Finish::Complete | Finish::Stop(_) | Finish::Cancelled if calls => "tool_calls",
        Finish::EndToken | Finish::Complete | Finish::Stop(_) | Finish::Cancelled => "stop",
    }
}
