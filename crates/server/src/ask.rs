//! What any dialect asks for, in one form; and what the engine is asked for it.
//!
//! A route reads its own words into an [`Ask`]; from there on nothing knows which dialect it was.

use kauri_engine::grammar::Grammar;
use kauri_engine::{Applied, Asked, Chat, Error, Pace, Request, Service, Submission, Tools};

use crate::error::Problem;
use crate::wire::{Choosing, Offer};

/// Most answers to one request: prompts times `n`.
pub const ANSWERS_MAX: usize = 128;
/// Most likely tokens that may be asked for.
pub const LIKELY_MAX: u64 = 20;

/// How many answers to a prompt `n` asks for.
///
/// # Errors
/// When they are none or too many.
pub fn answers_count(n: Option<u64>) -> Result<usize, Problem> {
    match n {
        None => Ok(1),
        Some(n) if (1..=ANSWERS_MAX as u64).contains(&n) => Ok(n as usize),
        Some(n) => Err(Problem::field("n", format!("must be from 1 to {ANSWERS_MAX}, not {n}"))),
    }
}

/// A request of any dialect.
#[derive(Debug)]
pub struct Ask {
    pub prompts: Vec<Prompt>,
    pub choosing: Choosing,
    /// Answers to each prompt.
    pub count: usize,
    /// How many likely tokens come with each, if any.
    pub likely: Option<usize>,
    /// Whether they are of the distribution that tokens were drawn from, and not of the model's own.
    pub likely_as_drawn: bool,
    /// What answers must obey.
    pub grammar: Option<Grammar>,
    /// Who shares what is known of prompts: those of the same word.
    pub salt: Option<String>,
}

/// What is to be answered, or continued.
#[derive(Debug)]
pub enum Prompt {
    Chat {
        chat: Box<Chat>,
        /// The tools with schemas that need not be obeyed, for where one of them cannot be enforced and nobody insists.
        relaxed: Option<Tools>,
    },
    Text(String),
    Tokens(Vec<u32>),
    /// What stands between two texts is wanted.
    Between {
        before: String,
        after: String,
    },
}

impl Ask {
    /// One answer to one prompt.
    pub fn new(prompt: Prompt, choosing: Choosing) -> Self {
        Self {
            prompts: vec![prompt],
            choosing,
            count: 1,
            likely: None,
            likely_as_drawn: false,
            grammar: None,
            salt: None,
        }
    }

    /// What the engine is asked: the answers to the first prompt, then those to the next, all held by one pace. Not for a thread of the network: a template
    /// runs, a grammar is compiled.
    ///
    /// `adapters` are those of a request that says nothing of them.
    ///
    /// # Errors
    /// Names what cannot be asked.
    pub fn submissions(
        &self,
        service: &Service,
        adapters: &[Applied],
        caller: u64,
        pace: &Pace,
    ) -> Result<Vec<Submission>, Problem> {
        if self.prompts.len().saturating_mul(self.count) > ANSWERS_MAX {
            let message = format!("at most {ANSWERS_MAX} answers may be asked for at once, all prompts together");
            return Err(Problem::field("n", message));
        }
        let defaults = service.defaults();
        let request = Request {
            sampling: self.choosing.sampling(defaults)?,
            stops: self.choosing.stops()?,
            max_tokens: self.choosing.max_tokens()?,
            end_tokens: defaults.end_tokens.clone(),
            logit_bias: self.choosing.logit_bias(service.vocab())?,
            likely: self.likely,
            likely_as_drawn: self.likely_as_drawn,
            time_max: self.choosing.time_max()?,
            adapters: Some(self.choosing.adapters(service.adapters().len())?.unwrap_or_else(|| adapters.to_vec())),
            ..Request::default()
        };
        let salt = self.salt.as_deref().map_or(0, salt);
        let mut submissions = Vec::with_capacity(self.prompts.len() * self.count);
        for prompt in &self.prompts {
            let asked = prompt.ask(service)?;
            // Where tools may be called, an answer is a call or obeys what its text must.
            let constraint = match &self.grammar {
                Some(grammar) => Some(service.compile_for(&asked, grammar)?),
                None => asked.constraint.clone(),
            };
            for index in 0..self.count {
                let mut request = Request {
                    prompt: asked.tokens.clone(),
                    reading: asked.reading.clone(),
                    constraint: constraint.clone(),
                    ..request.clone()
                };
                request.sampling.seed = request.sampling.seed.wrapping_add(index as u64);
                submissions.push(Submission { request, caller, priority: 0, salt, pace: pace.clone() });
            }
        }
        Ok(submissions)
    }
}

impl Prompt {
    /// A conversation, with what may be called.
    pub fn chat(mut chat: Chat, offer: Option<Offer>) -> Self {
        let relaxed = offer.and_then(|offer| {
            chat.set_tools(offer.tools);
            offer.relaxed
        });
        Self::Chat { chat: Box::new(chat), relaxed }
    }

    /// Its tokens, how the answer is to be read, and what calls in it must obey.
    ///
    /// # Errors
    /// When the template refuses it, or the vocabulary has no tokens for what is between.
    fn ask(&self, service: &Service) -> Result<Asked, Problem> {
        match self {
            Self::Chat { chat, relaxed } => match (service.ask(chat), relaxed) {
                (Err(Error::Grammar(_)), Some(relaxed)) => {
                    let mut chat = Chat::clone(chat);
                    chat.set_tools(relaxed.clone());
                    Ok(service.ask(&chat)?)
                }
                (asked, _) => Ok(asked?),
            },
            Self::Text(_) | Self::Tokens(_) | Self::Between { .. } => {
                Ok(Asked { tokens: self.tokens(service)?, reading: None, constraint: None })
            }
        }
    }

    /// Its tokens alone.
    ///
    /// # Errors
    /// As asking it.
    pub fn tokens(&self, service: &Service) -> Result<Vec<u32>, Problem> {
        match self {
            Self::Chat { chat, .. } => Ok(service.chat_tokens(chat)?),
            Self::Text(text) => Ok(service.text_tokens(text)),
            Self::Tokens(tokens) => Ok(tokens.clone()),
            Self::Between { before, after } => service.between_tokens(before, after).ok_or_else(|| {
                let message = "this model's vocabulary has no tokens to fill in the middle of a text";
                Problem::field("suffix", message)
            }),
        }
    }
}

/// A caller's word as a number; 0 is that of those who give none.
fn salt(word: &str) -> u64 {
    let hash = blake3::hash(word.as_bytes());
    let bytes: [u8; 8] = hash.as_bytes()[..8].try_into().unwrap_or_default();
    // Its highest bit is not looked at.
    u64::from_le_bytes(bytes) >> 1 | 1
}
