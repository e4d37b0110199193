//! What a generation tells its caller as it goes.

use std::time::Duration;

/// Something that happened while an answer was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// Part of the prompt has been read: tokens so far, and in all.
    Prefill {
        /// Tokens read or found in the cache.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// A token was written. More text of the answer: whole characters, never part of a stop string, and nothing where
    /// the token brings no text yet.
    Text(&'a str),
    /// The model thinks.
    Reasoning(&'a str),
    /// A call of a tool of the list begins.
    Call {
        /// Its place among the calls of the answer, from 0.
        index: u32,
        /// What its result is to be told by.
        id: &'a str,
        /// The tool.
        name: &'a str,
    },
    /// More of a call's arguments: all pieces together are the JSON text of an object.
    Arguments {
        /// The call.
        index: u32,
        /// The next piece.
        text: &'a str,
    },
    /// A call is over.
    CallEnd {
        /// The call.
        index: u32,
        /// Whether its arguments are as the model wrote them, not completed where it broke off.
        complete: bool,
    },
}

/// How likely a token was, in the model's own distribution or in that which it was drawn from. Natural logarithms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Likelihood {
    /// Of the token; 0, which is certainty, where it was not the model that chose it.
    pub log_probability: f32,
    /// The most likely tokens, in that order, as many as were asked for.
    pub likely: Vec<(u32, f32)>,
}

/// How an answer ended, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of those, how many were cached from before.
    pub cached_tokens: usize,
    /// Tokens written, the end token not counted.
    pub output_tokens: usize,
    /// Of those, how many the model thought with.
    pub reasoning_tokens: usize,
    /// From the request to the first step that read of its prompt.
    pub queued: Duration,
    /// From the request to the first token.
    pub time_to_first_token: Duration,
    /// Reading the prompt.
    pub prefill: Duration,
    /// Writing, from the first token to the last.
    pub decode: Duration,
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it, or it has the one call that it may have.
    EndToken,
    /// What it must obey lets nothing follow.
    Complete,
    /// A stop string appeared; it is not part of the text.
    Stop(String),
    /// The asked number of tokens is written, or so nearly that what the answer must obey was closed.
    Length,
    /// The window is full, or so nearly.
    Window,
    /// Its time is over.
    Time,
    /// The caller stopped it.
    Cancelled,
}

impl Finish {
    /// The same of an answer that was closed because `limit` was near: its end was not the model's.
    pub(crate) fn shortened(self, limit: Self) -> Self {
        match self {
            Self::EndToken | Self::Complete => limit,
            Self::Stop(_) | Self::Length | Self::Window | Self::Time | Self::Cancelled => self,
        }
    }
}

impl Done {
    /// Prompt tokens computed, not cached, per second.
    pub fn prefill_tokens_per_s(&self) -> f64 {
        rate(self.prompt_tokens - self.cached_tokens, self.prefill)
    }

    /// Tokens written per second after the first.
    pub fn decode_tokens_per_s(&self) -> f64 {
        rate(self.output_tokens.saturating_sub(1), self.decode)
    }
}

fn rate(count: usize, time: Duration) -> f64 {
    if count == 0 || time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}
