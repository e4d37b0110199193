//! One answer as it is written: to standard output as text or as a line of JSON for each event, then what it took.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use kauri_engine::grammar::Grammar;
use kauri_engine::{Asked, Done, Event, Finish, Request, Sampling, Session};
use serde_json::{Value as Json, json};

use crate::interrupt;
use crate::terminal::{self, ASIDE, Progress};

/// How answers are asked for; the same for every turn of a conversation.
#[derive(Clone, Debug)]
pub struct Manner {
    /// How to choose tokens.
    pub sampling: Sampling,
    /// Strings that end an answer.
    pub stops: Vec<String>,
    /// Most tokens of an answer.
    pub max_tokens: Option<usize>,
    /// Tokens that end an answer.
    pub end_tokens: Vec<u32>,
    /// What answers must obey.
    pub constraint: Option<Grammar>,
    /// How long an answer may take.
    pub time_max: Option<Duration>,
    /// Whether counts and speeds follow each answer.
    pub prints_stats: bool,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text, as it comes.
    Text,
    /// One object a line.
    Json,
}

/// An answer that was written.
#[derive(Clone, Debug)]
pub struct Answer {
    /// All of its text.
    pub text: String,
    /// How it ended, and what it took.
    pub done: Done,
}

/// Answers the prompt that was `asked`. Ctrl-C ends the answer, not the program.
///
/// # Errors
/// When the prompt cannot be answered, or standard output is gone.
pub fn write(session: &mut Session<'_>, manner: &Manner, asked: Asked, format: Format) -> anyhow::Result<Answer> {
    // Where tools are offered as well, a call is an answer, too.
    let constraint = match &manner.constraint {
        Some(grammar) => Some(session.engine().compile_for(&asked, grammar)?),
        None => asked.constraint,
    };
    let request = Request {
        prompt: asked.tokens,
        sampling: manner.sampling,
        stops: manner.stops.clone(),
        max_tokens: manner.max_tokens,
        end_tokens: manner.end_tokens.clone(),
        constraint,
        reading: asked.reading,
        time_max: manner.time_max,
        ..Request::default()
    };
    interrupt::forget();
    let mut page = Page::new(format);
    let progress = Progress::start("reading the prompt");
    let done = session.generate(&request, |event| {
        match event {
            Event::Prefill { done, total } => {
                progress.show(|| format!("reading the prompt: {done} of {total} tokens"));
            }
            Event::Text(text) => {
                progress.clear();
                page.add(text);
            }
            Event::Reasoning(text) => {
                progress.clear();
                page.add_reasoning(text);
            }
            Event::Call { id, name, .. } => page.call = [id, name, ""].map(str::to_owned),
            Event::Arguments { text, .. } => page.call[2].push_str(text),
            Event::CallEnd { index, complete } => {
                progress.clear();
                page.add_call(index, complete);
            }
        }
        if page.failure.is_some() || interrupt::is_requested() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    progress.clear();
    // Where the page is gone, that is what ended the answer.
    let text = page.finish()?;
    let done = done?;
    if format == Format::Json {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{}", done_event(&done, manner.sampling.seed))?;
    }
    if manner.prints_stats {
        eprint_aside(&stats(&done, manner.sampling.seed));
    }
    Ok(Answer { text, done })
}

/// Counts and speeds for people, in lines.
pub fn stats(done: &Done, seed: u64) -> String {
    let ended = match &done.finish {
        Finish::EndToken => "ended by the model".to_owned(),
        Finish::Complete => "complete: nothing may follow".to_owned(),
        Finish::Stop(stop) => format!("ended by the stop string {stop:?}"),
        Finish::Length => "ended by --max-tokens".to_owned(),
        Finish::Window => "ended by the end of the window".to_owned(),
        Finish::Time => "ended by --max-time".to_owned(),
        Finish::Cancelled => "stopped".to_owned(),
    };
    format!(
        "prompt  {:>6} tokens, {} cached; first token after {:.0} ms; prefill {:.1} tok/s\n\
         answer  {:>6} tokens, {ended}; decode {:.1} tok/s; seed {seed}",
        done.prompt_tokens,
        done.cached_tokens,
        done.time_to_first_token.as_secs_f64() * 1e3,
        done.prefill_tokens_per_s(),
        done.output_tokens,
        done.decode_tokens_per_s(),
    )
}

/// Prints what stands beside the answer. There is nowhere to report that standard error is gone.
pub fn eprint_aside(text: &str) {
    let _ = writeln!(anstream::stderr(), "{ASIDE}{}{ASIDE:#}", terminal::printable(text));
}

/// The last event of `--json`.
fn done_event(done: &Done, seed: u64) -> Json {
    let (finish, stop) = match &done.finish {
        Finish::EndToken => ("end", None),
        Finish::Complete => ("complete", None),
        Finish::Stop(stop) => ("stop", Some(stop)),
        Finish::Length => ("length", None),
        Finish::Window => ("window", None),
        Finish::Time => ("time", None),
        Finish::Cancelled => ("cancelled", None),
    };
    json!({
        "type": "done",
        "finish": finish,
        "stop": stop,
        "prompt_tokens": done.prompt_tokens,
        "cached_tokens": done.cached_tokens,
        "output_tokens": done.output_tokens,
        "time_to_first_token_ms": done.time_to_first_token.as_secs_f64() * 1e3,
        "prefill_tokens_per_s": done.prefill_tokens_per_s(),
        "decode_tokens_per_s": done.decode_tokens_per_s(),
        "seed": seed,
    })
}

/// Where an answer is written: standard output, flushed with every piece so that it is seen as it comes.
struct Page {
    format: Format,
    is_terminal: bool,
    text: String,
    /// Id, name and arguments of the call that is being written.
    call: [String; 3],
    /// Whether reasoning was shown, which the text begins a new line behind.
    is_aside: bool,
    /// Why nothing more can be written.
    failure: Option<io::Error>,
}

impl Page {
    fn new(format: Format) -> Self {
        Self {
            format,
            is_terminal: io::stdout().is_terminal(),
            text: String::new(),
            call: Default::default(),
            is_aside: false,
            failure: None,
        }
    }

    fn add(&mut self, text: &str) {
        self.text.push_str(text);
        if self.failure.is_none() && !text.is_empty() {
            self.end_aside();
            self.failure = self.write(text).err();
        }
    }

    /// What the model thinks stands beside the answer: a program that reads the text never gets it.
    fn add_reasoning(&mut self, text: &str) {
        match self.format {
            Format::Json => self.add_line(&json!({ "type": "reasoning", "text": text })),
            Format::Text => {
                self.is_aside = true;
                let _ = write!(anstream::stderr(), "{ASIDE}{}{ASIDE:#}", terminal::printable(text));
            }
        }
    }

    /// A call is one line of JSON in either format.
    fn add_call(&mut self, index: u32, complete: bool) {
        let [id, name, arguments] = std::mem::take(&mut self.call);
        let arguments: Json = serde_json::from_str(&arguments).unwrap_or(Json::String(arguments));
        let call = match self.format {
            Format::Json => json!({
                "type": "tool_call",
                "index": index,
                "id": id,
                "name": name,
                "arguments": arguments,
                "complete": complete,
            }),
            Format::Text => {
                self.end_aside();
                if !self.text.is_empty() && !self.text.ends_with('\n') {
                    self.add("\n");
                }
                json!({ "name": name, "arguments": arguments })
            }
        };
        self.add_line(&call);
    }

    fn add_line(&mut self, object: &Json) {
        if self.failure.is_none() {
            let mut stdout = io::stdout().lock();
            self.failure = writeln!(stdout, "{object}").and_then(|()| stdout.flush()).err();
        }
    }

    fn end_aside(&mut self) {
        if std::mem::take(&mut self.is_aside) {
            eprint_aside("\n");
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        match self.format {
            Format::Json => writeln!(stdout, "{}", json!({ "type": "text", "text": text }))?,
            // A program that reads gets every byte; a terminal, none that would drive it.
            Format::Text if self.is_terminal => stdout.write_all(terminal::printable(text).as_bytes())?,
            Format::Text => stdout.write_all(text.as_bytes())?,
        }
        stdout.flush()
    }

    /// Ends the last line, and gives the text.
    fn finish(self) -> io::Result<String> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if self.format == Format::Text && !self.text.is_empty() && !self.text.ends_with('\n') {
            io::stdout().lock().write_all(b"\n")?;
        }
        Ok(self.text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn done(finish: Finish) -> Done {
        Done {
            finish,
            prompt_tokens: 120,
            cached_tokens: 20,
            output_tokens: 11,
            reasoning_tokens: 0,
            queued: Duration::ZERO,
            time_to_first_token: Duration::from_millis(500),
            prefill: Duration::from_millis(500),
            decode: Duration::from_millis(100),
        }
    }

    #[test]
    fn stats_say_counts_speeds_and_why_it_ended() {
        let lines = stats(&done(Finish::Stop("\n".to_owned())), 7);
        assert!(lines.contains("120 tokens, 20 cached; first token after 500 ms; prefill 200.0 tok/s"), "{lines}");
        assert!(lines.contains("11 tokens, ended by the stop string \"\\n\"; decode 100.0 tok/s; seed 7"), "{lines}");
    }

    #[test]
    fn the_last_event_has_the_fixed_fields() {
        let event = done_event(&done(Finish::Length), 7);
        assert_eq!(event["type"], "done");
        assert_eq!(event["finish"], "length");
        assert_eq!(event["prefill_tokens_per_s"], 200.0);
        assert_eq!(event["time_to_first_token_ms"], 500.0);
    }
}
