//! One answer as it is written: tokens in, and out what they say, until something ends it. The same for one sequence and for many.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use kauri_step::answer::Reader;
use kauri_step::grammar::Compiled;
use kauri_step::stop::Stops;
use kauri_step::tools::Delta;
use kauri_tokenizer::{Stream, Tokenizer};

use crate::chat::Call;
use crate::decode::Request;
use crate::dialogue::Reading;
use crate::error::Error;
use crate::events::{Event, Finish};

/// An answer that is being written.
pub(crate) struct Writing {
    stream: Stream,
    stops: Stops,
    stop_strings: Vec<String>,
    /// What finds reasoning and calls, where there may be any.
    parts: Option<Parts>,
    end: Option<Instant>,
    /// Whether the answer is held to anything, and whether to a grammar of calls.
    obeys: bool,
    obeys_calls: bool,
    /// Tokens that end the answer.
    end_tokens: Vec<u32>,
}

struct Parts {
    reading: Arc<Reading>,
    reader: Reader,
    reasoning_tokens: usize,
    break_off: BreakOff,
    prompt: Vec<u32>,
    written: Vec<u32>,
    text: String,
    calls: Vec<Call>,
    /// Whether every call is as the model wrote it.
    is_whole: bool,
}

/// What ends the reasoning in the model's place.
#[derive(Default)]
struct BreakOff {
    is_begun: bool,
    /// Whether no constraint holds for it: it may go on behind the mark that closes.
    is_free: bool,
    left: VecDeque<u32>,
    /// Whether the token chosen last is of it, and not written yet.
    is_chosen: bool,
}

impl BreakOff {
    fn begin(&mut self, tokens: &[u32], is_free: bool) {
        (self.is_begun, self.is_free) = (true, is_free);
        self.left.extend(tokens);
    }

    fn next(&mut self) -> Option<u32> {
        let token = self.left.pop_front();
        self.is_chosen = token.is_some();
        token
    }

    /// Whether it is being written where no constraint holds.
    fn goes_on_freely(&self) -> bool {
        self.is_free && (self.is_chosen || !self.left.is_empty())
    }
}

impl Writing {
    /// An answer to `request`, which begins now.
    pub(crate) fn new(request: &Request, tokenizer: &Tokenizer) -> Result<Self, Error> {
        let mut stops = Stops::new(&request.stops)?;
        let mut stream = tokenizer.stream_after(&request.prompt);
        stops.reserve(stream.text_bytes_max());
        if let Some(reading) = &request.reading {
            stream = stream.show(&reading.shown);
        }
        let parts = request.reading.as_ref().map(|reading| Parts {
            reader: reading.form.reader(),
            reading: Arc::clone(reading),
            reasoning_tokens: 0,
            break_off: BreakOff::default(),
            prompt: request.prompt.clone(),
            written: Vec::new(),
            text: String::new(),
            calls: Vec::new(),
            is_whole: true,
        });
        let end = request.time_max.and_then(|time| Instant::now().checked_add(time));
        let obeys_calls = request.constraint.as_ref().is_some_and(Compiled::is_calls);
        Ok(Self {
            stream,
            stops,
            stop_strings: request.stops.clone(),
            parts,
            end,
            obeys: request.constraint.is_some(),
            obeys_calls,
            end_tokens: request.end_tokens.clone(),
        })
    }

    /// The token to write where the model chose `token`: another one where its reasoning is over its budget, or where the model would
    /// end an answer with it that has to obey something behind its reasoning.
    pub(crate) fn choose(&mut self, token: u32) -> u32 {
        let is_free = self.is_free();
        let Some(parts) = &mut self.parts else { return token };
        let is_spent = parts.reading.reasoning_budget_tokens.is_some_and(|most| parts.reasoning_tokens >= most);
        let is_over = is_spent && parts.reader.is_reasoning();
        let is_early = self.obeys && is_free && self.end_tokens.contains(&token);
        if (is_over || is_early) && !parts.break_off.is_begun {
            parts.break_off.begin(&parts.reading.break_off, is_free);
        }
        parts.break_off.next().unwrap_or(token)
    }

    /// Says what a token says. Why the answer is over, if it is.
    pub(crate) fn push(&mut self, token: u32, mut event: impl FnMut(Event<'_>) -> ControlFlow<()>) -> Option<Finish> {
        let text = self.stream.push(token);
        let Some(parts) = &mut self.parts else {
            let output = self.stops.push(text);
            if event(Event::Text(output.text)).is_break() {
                return Some(Finish::Cancelled);
            }
            return output.stopped.map(|index| Finish::Stop(self.stop_strings[index].clone()));
        };
        parts.break_off.is_chosen = false;
        parts.written.push(token);
        parts.reasoning_tokens += usize::from(parts.reader.is_reasoning());
        parts.reader.push(text);
        let deltas = parts.reader.take();
        let mut shown = String::new();
        let mut stopped = None;
        for delta in deltas {
            if let Delta::Text(text) = &delta {
                parts.text += text;
                let output = self.stops.push(text);
                shown += output.text;
                stopped = output.stopped;
                if stopped.is_some() {
                    break;
                }
            } else if !parts.tell(delta, &mut event) {
                return Some(Finish::Cancelled);
            }
        }
        if event(Event::Text(&shown)).is_break() {
            return Some(Finish::Cancelled);
        }
        if let Some(index) = stopped {
            return Some(Finish::Stop(self.stop_strings[index].clone()));
        }
        parts.reader.is_over().then_some(Finish::EndToken)
    }

    /// Whether the time of the answer is over.
    pub(crate) fn is_late(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Tokens that the model thought with so far.
    pub(crate) fn reasoning_tokens(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.reasoning_tokens)
    }

    /// Whether the model reasons, or what ends its reasoning is not all written, so that no constraint holds.
    pub(crate) fn is_free(&self) -> bool {
        let is_free = |parts: &Parts| parts.reader.is_free(self.obeys_calls) || parts.break_off.goes_on_freely();
        self.parts.as_ref().is_some_and(is_free)
    }

    /// The answer is over: says what was held back, and keeps what the model wrote for its calls.
    pub(crate) fn finish(&mut self, finish: &Finish, mut event: impl FnMut(Event<'_>) -> ControlFlow<()>) {
        let is_cut = matches!(finish, Finish::Stop(_) | Finish::Cancelled);
        let Self { stream, stops, parts, .. } = self;
        if let Some(parts) = parts {
            parts.finish(if is_cut { "" } else { stream.finish() });
            for delta in parts.reader.take() {
                match delta {
                    Delta::Text(_) if is_cut => {}
                    Delta::Text(text) => {
                        parts.text += &text;
                        say(stops.push(&text).text, &mut event);
                    }
                    other => _ = parts.tell(other, &mut event),
                }
            }
            if matches!(finish, Finish::EndToken | Finish::Complete) {
                parts.remember();
            }
        } else if !is_cut {
            say(stops.push(stream.finish()).text, &mut event);
        }
        if !is_cut {
            say(stops.finish(), &mut event);
        }
    }
}

/// Says the last words of an answer. It is over, whatever is said of them.
fn say(text: &str, event: &mut impl FnMut(Event<'_>) -> ControlFlow<()>) {
    if !text.is_empty() {
        let _ = event(Event::Text(text));
    }
}

impl Parts {
    /// No more comes than `rest`.
    fn finish(&mut self, rest: &str) {
        self.reader.push(rest);
        self.reader.finish();
    }

    /// Keeps what the model wrote for its calls, for when they come back.
    fn remember(&mut self) {
        if self.is_whole && !self.calls.is_empty() {
            let calls = std::mem::take(&mut self.calls);
            self.reading.remember(&self.prompt, &self.written, &self.text, calls);
        }
    }

    /// Tells of anything but text; whether anybody listens.
    fn tell(&mut self, delta: Delta, event: &mut impl FnMut(Event<'_>) -> ControlFlow<()>) -> bool {
        let flow = match delta {
            Delta::Reasoning(text) => event(Event::Reasoning(&text)),
            Delta::Text(text) => event(Event::Text(&text)),
            Delta::Call { index, id, name } => {
                let flow = event(Event::Call { index, id: &id, name: &name });
                self.calls.push(Call { id, name, arguments: String::new() });
                flow
            }
            Delta::Arguments { index, text } => {
                if let Some(call) = self.calls.get_mut(index as usize) {
                    call.arguments += &text;
                }
                event(Event::Arguments { index, text: &text })
            }
            Delta::End { index, complete } => {
                self.is_whole &= complete;
                event(Event::CallEnd { index, complete })
            }
        };
        flow.is_continue()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Chat;
    use crate::engine::{Engine, Options};
    use kauri_tokenizer::Special;

    /// What comes of an answer of these words, with a budget for reasoning: reasoning and text.
    fn write(budget_tokens: Option<usize>, words: &str) -> (String, String) {
        let engine = Engine::load(None, &Options { threads: Some(1), ..Options::default() }).expect("kauri-nano loads");
        let mut chat = Chat::new();
        chat.set_reasoning(true);
        budget_tokens.into_iter().for_each(|tokens| chat.set_reasoning_budget(tokens));
        chat.push("user", "Hello!");
        let asked = engine.ask(&chat).expect("a prompt");
        let request = Request { prompt: asked.tokens, reading: asked.reading, ..Request::default() };
        let mut writing = Writing::new(&request, engine.tokenizer()).expect("a request");
        let (mut reasoning, mut text) = (String::new(), String::new());
        let mut hear = |event: Event<'_>| {
            match event {
                Event::Reasoning(more) => reasoning += more,
                Event::Text(more) => text += more,
                _ => {}
            }
            ControlFlow::Continue(())
        };
        for token in engine.tokenizer().encode(words, Special::Parse) {
            let token = writing.choose(token);
            assert_eq!(writing.push(token, &mut hear), None);
        }
        assert!(!writing.is_free());
        writing.finish(&Finish::EndToken, &mut hear);
        (reasoning, text)
    }

    #[test]
    fn reasoning_is_told_apart_and_ends_with_its_budget() {
        let words = "<think>\nOne two three four five six seven.\n</think>\n\nEight nine ten.";
        let (reasoning, text) = write(None, words);
        assert_eq!((reasoning.as_str(), text.as_str()), ("One two three four five six seven.", "Eight nine ten."));
        let words = "<think>\nOne two three four five six seven eight nine ten eleven twelve thirteen.";
        let (reasoning, text) = write(Some(4), words);
        assert!(reasoning.starts_with("One two") && !reasoning.contains("seven"), "{reasoning:?}");
        assert!(text.contains("thirteen") && !text.contains("think"), "{text:?}");
        let (reasoning, text) = write(Some(0), words);
        assert_eq!(reasoning, "");
        assert!(text.contains("thirteen"), "{text:?}");
        assert_eq!(write(Some(0), "Hello there."), (String::new(), "Hello there.".to_owned()));
    }
}
