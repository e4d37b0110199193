//! The loop of an answer: launch, choose, hand over the text, until something ends it.
//!
//! Under a constraint, the mask of the next token is worked out while the device computes (`masks.rs`), and tokens that are certain
//! are appended to the one that was chosen: they are computed in one step with it.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kauri_device::{Applied, Choice};
use kauri_step::grammar::{Compiled, Constraint};
use kauri_step::sample::{Sampler, Sampling, Workspace};
use kauri_tokenizer::Tokenizer;

use crate::dialogue::Reading;
use crate::drawing::Draws;
use crate::error::Error;
use crate::events::{Done, Event, Finish};
use crate::masks::Masks;
use crate::session::Session;
use crate::writing::Writing;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The whole prompt.
    pub prompt: Vec<u32>,
    /// How to choose tokens.
    pub sampling: Sampling,
    /// Strings that end the answer.
    pub stops: Vec<String>,
    /// Most tokens to write; up to the window where unset.
    pub max_tokens: Option<usize>,
    /// Tokens that end the answer.
    pub end_tokens: Vec<u32>,
    /// What the answer must obey; anything goes where unset. Made by [`crate::Engine::compile`] or [`crate::Service::compile`] of the
    /// same model.
    pub constraint: Option<Compiled>,
    /// What is added to the logits of tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// How the answer is to be read, as [`Engine::ask`](crate::Engine::ask) gives it; as text where unset.
    pub reading: Option<Arc<Reading>>,
    /// How long the answer may take, the prompt included; without end where unset.
    pub time_max: Option<Duration>,
    /// How many of the most likely tokens come with each that is written, with their probabilities in the model's own
    /// distribution; nothing of the kind where unset. Only a [`crate::Service`] tells.
    pub likely: Option<usize>,
    /// Whether those are of the distribution that tokens were drawn from instead: behind all stages, and of what may come.
    pub likely_as_drawn: bool,
    /// What it has of the adapters that were loaded with the model; those that all have where unset.
    pub adapters: Option<Vec<Applied>>,
}

/// What ends a repetition where DRY looks for them: what lines, lists and speech are made of, which repeats in any text.
const BREAKERS: &[u8] = b"\n:\"*";

impl Request {
    /// What chooses its tokens; nothing where the most likely is the one.
    pub(crate) fn sampler(&self, tokenizer: &Tokenizer, vocab: usize) -> Result<Option<Sampler>, Error> {
        let mut sampler = Sampler::new(self.sampling)?.with_bias(&self.logit_bias)?;
        if self.sampling.dry_multiplier > 0.0 {
            let breaks = |token: u32| {
                tokenizer.token_bytes(token).is_some_and(|bytes| bytes.iter().any(|byte| BREAKERS.contains(byte)))
            };
            let word = |word: usize| {
                (0..32).filter(|bit| breaks((word * 32) as u32 + bit)).fold(0_u32, |bits, bit| bits | 1 << bit)
            };
            sampler = sampler.with_breakers((0..vocab.div_ceil(32)).map(word).collect());
        }
        // The most likely others are told from the whole row.
        let is_greedy = self.sampling.is_greedy() && self.logit_bias.is_empty() && self.likely.is_none();
        Ok((!is_greedy).then_some(sampler))
    }

    /// The constraint at its beginning, and the tokens that are certain before any is chosen. Where they would not fit they are
    /// left to be chosen, one by one, until the window or the limit ends the answer.
    pub(crate) fn begin(&self, window: usize) -> (Option<Box<Constraint>>, Vec<u32>) {
        let Some(compiled) = &self.constraint else { return (None, Vec::new()) };
        let mut constraint = compiled.start(&self.end_tokens);
        if let Some(reading) = &self.reading {
            let is_free = reading.form().reader().is_free(compiled.is_calls());
            // It holds behind the reasoning, which the model may begin with.
            if is_free || reading.opening.is_some() {
                reading.opening.filter(|_| !is_free).into_iter().for_each(|token| constraint.let_open(token));
                return (Some(Box::new(constraint)), Vec::new());
            }
        }
        let forced = constraint.forced();
        let room = window.saturating_sub(self.prompt.len() + 1).min(self.max_tokens.unwrap_or(usize::MAX));
        if forced.len() <= room {
            return (Some(Box::new(constraint)), forced);
        }
        (Some(Box::new(compiled.start(&self.end_tokens))), Vec::new())
    }
}

impl Session<'_> {
    /// Answers `request`. `event` hears what happens and may break it off.
    ///
    /// # Errors
    /// When the request cannot be met as it is, or the device is lost. A full window, a reached limit and a stop string are
    /// outcomes, not errors.
    pub fn generate(
        &mut self,
        request: &Request,
        event: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Done, Error> {
        let done = self.answer(request, event);
        self.conclude();
        done
    }

    fn answer(
        &mut self,
        request: &Request,
        mut event: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Done, Error> {
        let start = Instant::now();
        self.adapt(request.adapters.as_deref())?;
        let mut chooser = Chooser::new(request, &self.engine.tokenizer, self.engine.vocab as usize)?;
        let window = self.engine.window_tokens() as usize;
        let total = request.prompt.len();
        let reach = request.max_tokens.map_or(window, |most| window.min(total + most));
        let mut answer = Answering::new(request, window, &self.engine.tokenizer, start)?;
        let (constraint, forced) = request.begin(window);
        let mut guide = constraint.map(Guide::new);
        let prompt = if forced.is_empty() {
            Cow::Borrowed(&request.prompt)
        } else {
            Cow::Owned([&request.prompt[..], &forced].concat())
        };

        let mut cancelled = false;
        guide.iter_mut().filter(|_| !answer.writing.is_free()).for_each(Guide::begin);
        let synced = self.sync(&prompt, reach as u32, |done| {
            let flow = event(Event::Prefill { done: done.min(total), total });
            cancelled |= flow.is_break();
            flow
        })?;
        answer.done.cached_tokens = synced.cached_tokens.min(total);
        if cancelled {
            return Ok(answer.done);
        }
        let mut finish = answer.hear_all(&forced, total, &mut event);
        while finish.is_none() {
            if request.max_tokens.is_some_and(|most| answer.done.output_tokens >= most) {
                finish = Some(Finish::Length);
                continue;
            }
            if answer.writing.is_late() {
                finish = Some(Finish::Time);
                continue;
            }
            let complete = match &mut guide {
                Some(guide) => guide.finish()?,
                None => false,
            };
            finish = if complete {
                Some(Finish::Complete)
            } else {
                let held = guide.as_ref().filter(|_| !answer.writing.is_free());
                let token = self.choose(&mut chooser, held)?;
                let token = answer.writing.choose(token);
                self.go_on(token, guide.as_mut(), &mut answer, &mut event)?
            };
        }
        let finish = finish.expect("the loop ends with one");
        let is_short = guide.as_ref().is_some_and(Guide::is_short);
        let finish = if is_short { finish.shortened(answer.limit()) } else { finish };
        Ok(answer.end(finish, event))
    }

    /// What becomes of the answer with `token`: the text of it and of what must follow it, and the next step; or the end.
    fn go_on(
        &mut self,
        token: u32,
        mut guide: Option<&mut Guide>,
        answer: &mut Answering<'_>,
        event: &mut impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Finish>, Error> {
        answer.note_time();
        if answer.request.end_tokens.contains(&token) {
            return Ok(Some(Finish::EndToken));
        }
        let mut written = std::mem::take(&mut answer.written);
        written.clear();
        written.push(token);
        if let Some(guide) = guide.as_mut().filter(|_| !answer.writing.is_free()) {
            let constraint = guide.constraint()?;
            if !constraint.opens(token) {
                written.clear();
                let room = answer.room(self.tokens.len());
                constraint.take(token, room.tokens, &mut written)?;
                if written.is_empty() {
                    return Ok(Some(room.limit));
                }
            }
        }
        if let Some(finish) = answer.hear_all(&written, self.tokens.len(), event) {
            return Ok(Some(finish));
        }
        if let Some(guide) = guide {
            if guide.constraint()?.is_done() {
                return Ok(Some(Finish::Complete));
            }
            if !answer.writing.is_free() {
                guide.begin();
            }
        }
        let step = self.engine.executor.plan().batch_tokens as usize;
        for (index, chunk) in written.chunks(step).enumerate() {
            self.launch_written(chunk, usize::from((index + 1) * step >= written.len()))?;
        }
        answer.written = written;
        Ok(None)
    }

    /// The next token from the logits of the launched step: on the device where it can choose like that, else by the sampler, which works
    /// on a copy of the row.
    fn choose(&mut self, chooser: &mut Chooser, guide: Option<&Guide>) -> Result<u32, Error> {
        let mask = guide.and_then(Guide::mask);
        let Some(sampler) = &mut chooser.sampler else {
            let sampled = self.engine.executor.sample(&[Choice::Greedy { mask }])?;
            return sampled.tokens[0].ok_or(Error::NotFinite);
        };
        let position = self.tokens.len() as u64;
        if self.engine.executor.draws() {
            chooser.draws.clear();
            if let Some(planned) = chooser.draws.plan(sampler, position, &self.tokens) {
                let sampled = self.engine.executor.sample(&[chooser.draws.choice(&planned, mask)])?;
                return sampled.tokens[0].ok_or(Error::NotFinite);
            }
        }
        chooser.row.copy_from_slice(self.engine.executor.sample(&[Choice::Logits])?.logits);
        let choice = sampler.sample(&mut chooser.row, mask, position, &self.tokens);
        choice.map(|choice| choice.token).ok_or(Error::NotFinite)
    }
}

/// What an answer may still come to.
pub(crate) struct Room {
    pub(crate) tokens: usize,
    /// What ends it there.
    pub(crate) limit: Finish,
}

impl Room {
    /// Of an answer of at most `max_tokens`, of which `written` are there, behind `before` tokens in a window.
    pub(crate) fn of(max_tokens: Option<usize>, written: usize, before: usize, window: usize) -> Self {
        let in_window = window.saturating_sub(before);
        match max_tokens.map(|most| most.saturating_sub(written)) {
            Some(tokens) if tokens <= in_window => Self { tokens, limit: Finish::Length },
            Some(_) | None => Self { tokens: in_window, limit: Finish::Window },
        }
    }
}

/// How tokens are chosen.
struct Chooser {
    /// None where the most likely token is the one.
    sampler: Option<Sampler>,
    /// A row of logits, to be changed by penalties.
    row: Vec<f32>,
    /// Where the device draws.
    draws: Draws,
}

impl Chooser {
    fn new(request: &Request, tokenizer: &Tokenizer, vocab: usize) -> Result<Self, Error> {
        let mut sampler = request.sampler(tokenizer, vocab)?;
        if let Some(sampler) = &mut sampler {
            sampler.exchange(&mut Workspace::new(vocab));
        }
        let row = vec![0.0; if sampler.is_none() { 0 } else { vocab }];
        Ok(Self { sampler, row, draws: Draws::default() })
    }
}

/// A constraint on its way between this thread and the one that works out masks.
struct Guide {
    constraint: Option<Box<Constraint>>,
    masks: Masks<()>,
}

impl Guide {
    fn new(constraint: Box<Constraint>) -> Self {
        Self { constraint: Some(constraint), masks: Masks::new() }
    }

    /// Has the next mask worked out.
    fn begin(&mut self) {
        if let Some(constraint) = self.constraint.take() {
            self.masks.begin((), constraint);
        }
    }

    /// Waits for the mask; whether the answer is complete, so that none is needed.
    fn finish(&mut self) -> Result<bool, Error> {
        for ((), worked) in self.masks.finish() {
            let (constraint, result) = worked.ok_or_else(mask_lost)?;
            result?;
            self.constraint = Some(constraint);
        }
        Ok(self.constraint()?.is_done())
    }

    fn constraint(&mut self) -> Result<&mut Constraint, Error> {
        self.constraint.as_deref_mut().ok_or_else(mask_lost)
    }

    fn mask(&self) -> Option<&[u32]> {
        self.constraint.as_ref().map(|constraint| constraint.mask().words())
    }

    fn is_short(&self) -> bool {
        self.constraint.as_ref().is_some_and(|constraint| constraint.is_short())
    }
}

/// An answer, and how it goes.
struct Answering<'r> {
    request: &'r Request,
    window: usize,
    writing: Writing,
    /// The token chosen last and those that had to follow it; kept, so that no token of a free answer allocates.
    written: Vec<u32>,
    start: Instant,
    first: Option<Instant>,
    done: Done,
}

impl<'r> Answering<'r> {
    fn new(request: &'r Request, window: usize, tokenizer: &Tokenizer, start: Instant) -> Result<Self, Error> {
        let writing = Writing::new(request, tokenizer)?;
        let done = Done {
            finish: Finish::Cancelled,
            prompt_tokens: request.prompt.len(),
            cached_tokens: 0,
            output_tokens: 0,
            reasoning_tokens: 0,
            queued: Duration::ZERO,
            time_to_first_token: Duration::ZERO,
            prefill: Duration::ZERO,
            decode: Duration::ZERO,
        };
        Ok(Self { request, window, writing, written: Vec::with_capacity(1), start, first: None, done })
    }

    /// What an answer that was closed in time was closed for.
    fn limit(&self) -> Finish {
        self.room(self.done.prompt_tokens + self.done.output_tokens).limit
    }

    /// What may still be written behind `before` tokens.
    fn room(&self, before: usize) -> Room {
        Room::of(self.request.max_tokens, self.done.output_tokens, before, self.window)
    }

    /// A token is there.
    fn note_time(&mut self) {
        let first = *self.first.get_or_insert_with(Instant::now);
        if self.done.output_tokens == 0 {
            self.done.time_to_first_token = first - self.start;
            self.done.prefill = self.done.time_to_first_token;
        }
        self.done.decode = first.elapsed();
    }

    /// Hands over the text of tokens that follow `before` others; why the answer ends with one of them, if it does.
    fn hear_all(
        &mut self,
        tokens: &[u32],
        before: usize,
        event: &mut impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Option<Finish> {
        for (index, &token) in tokens.iter().enumerate() {
            if index > 0 && self.request.max_tokens.is_some_and(|most| self.done.output_tokens >= most) {
                return Some(Finish::Length);
            }
            self.note_time();
            self.done.output_tokens += 1;
            if let Some(finish) = self.writing.push(token, &mut *event) {
                return Some(finish);
            }
            // The token just written has its place, too.
            if before + index + 1 == self.window {
                return Some(Finish::Window);
            }
        }
        None
    }

    /// The answer is over, whatever is said of its last words.
    fn end(mut self, finish: Finish, event: impl FnMut(Event<'_>) -> ControlFlow<()>) -> Done {
        self.writing.finish(&finish, event);
        Done { finish, reasoning_tokens: self.writing.reasoning_tokens(), ..self.done }
    }
}

fn mask_lost() -> Error {
    Error::StepLost("working out what may come next failed".to_owned())
}
