//! The loop of an answer: launch, choose, hand over the text, until something ends it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use kauri_device::Choice;
use kauri_step::sample::{Sampler, Sampling};
use kauri_step::stop::Stops;

use crate::error::Error;
use crate::events::{Done, Event, Finish};
use crate::session::Session;

/// What is asked for.
#[derive(Clone, Debug)]
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
        let vocab = self.engine.vocab as usize;
        let mut sampler = Sampler::new(request.sampling, vocab)?;
        let greedy = request.sampling.is_greedy();
        let mut row = vec![0.0; if greedy { 0 } else { vocab }];
        let mut stops = Stops::new(&request.stops)?;
        let mut stream = self.engine.tokenizer.stream_after(&request.prompt);
        stops.reserve(stream.text_bytes_max());
        let window = self.engine.window_tokens() as usize;
        let total = request.prompt.len();
        let reach = request.max_tokens.map_or(window, |most| window.min(total + most));

        let mut cancelled = false;
        let synced = self.sync(&request.prompt, reach as u32, |done| {
            let flow = event(Event::Prefill { done, total });
            cancelled |= flow.is_break();
            flow
        })?;
        let mut done = Done {
            finish: Finish::Cancelled,
            prompt_tokens: total,
            cached_tokens: synced.cached_tokens,
            output_tokens: 0,
            time_to_first_token: Duration::ZERO,
            prefill: Duration::ZERO,
            decode: Duration::ZERO,
        };
        if cancelled {
            return Ok(done);
        }
        let mut first = start;
        done.finish = loop {
            if request.max_tokens.is_some_and(|most| done.output_tokens >= most) {
                break Finish::Length;
            }
            let token = self.choose(if greedy { None } else { Some(&mut sampler) }, &mut row)?;
            if done.output_tokens == 0 {
                first = Instant::now();
                done.time_to_first_token = first - start;
                done.prefill = done.time_to_first_token;
            }
            done.decode = first.elapsed();
            if request.end_tokens.contains(&token) {
                break Finish::EndToken;
            }
            done.output_tokens += 1;
            let output = stops.push(stream.push(token));
            if event(Event::Text(output.text)).is_break() {
                break Finish::Cancelled;
            }
            if let Some(index) = output.stopped {
                return Ok(Done { finish: Finish::Stop(request.stops[index].clone()), ..done });
            }
            // The token just written has its place, too.
            if self.tokens.len() + 1 == window {
                break Finish::Window;
            }
            self.launch(&[token], 1)?;
        };
        // The answer is over, whatever is said of its last words.
        let mut say = |text: &str| text.is_empty() || event(Event::Text(text)).is_continue();
        say(stops.push(stream.finish()).text);
        say(stops.finish());
        Ok(done)
    }

    /// The next token from the logits of the launched step: on the device where it can, else by the sampler, which works on a
    /// copy in `row`.
    fn choose(&mut self, sampler: Option<&mut Sampler>, row: &mut [f32]) -> Result<u32, Error> {
        let Some(sampler) = sampler else {
            let sampled = self.engine.executor.sample(&[Choice::Greedy { mask: None }])?;
            return sampled.tokens[0].ok_or(Error::NotFinite);
        };
        row.copy_from_slice(self.engine.executor.sample(&[Choice::Logits])?.logits);
        let position = self.tokens.len() as u64;
        sampler.sample(row, None, position, &self.tokens).map(|choice| choice.token).ok_or(Error::NotFinite)
    }
}
