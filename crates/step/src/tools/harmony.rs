//! GPT-OSS: an answer is a list of messages, each with a header that says whom it is for and in which channel it is.
//!
//! The format is described in `OpenAI`'s guide to harmony. What goes to `functions.NAME` is a call, the channel `analysis` is
//! reasoning, everything else is text.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::Value as Json;

use super::layout::{Dialect, Scanner, Step, id, quoted};
use super::{Ask, Delta, Format, Kind, Tool, Tools};
use crate::automaton::Automaton;
use crate::grammar::spaced;

pub(super) static FORMAT: Format =
    Format { name: "harmony", told: |signs| signs.has("<|channel|>") && signs.has("<|call|>"), kind: Kind::Harmony };

/// What messages are made of.
pub(super) const MARKS: [&str; 7] =
    ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"];

/// What ends a message; the first of them begins the next at once.
const ENDS: [&str; 4] = ["<|start|>", "<|end|>", "<|call|>", "<|return|>"];
const MESSAGE: &str = "<|message|>";
/// The longest header, in bytes.
const HEADER_BYTES_MAX: usize = 512;

/// Reads one answer, from behind `<|start|>assistant`.
#[derive(Debug)]
pub(crate) struct Reader {
    tools: Arc<[Tool]>,
    only_one: bool,
    state: State,
    /// What may be a mark, and of a header everything.
    held: String,
    message: Automaton,
    ends: [Automaton; 4],
    /// Whether the call's arguments have begun.
    begun: bool,
    calls: u32,
    over: bool,
    hash: u64,
    out: Vec<Delta>,
}

#[derive(Debug)]
enum State {
    /// Between messages, or in a header.
    Header,
    Reasoning,
    Text,
    Call(Scanner),
    /// Behind the end of a call's arguments, and whether they were complete.
    Behind(bool),
}

impl Reader {
    /// Without tools, nothing is a call. In the middle of reasoning where the prompt began it.
    pub(crate) fn new(tools: Option<&Tools>, seed: u64) -> Self {
        Self {
            tools: tools.map(|tools| Arc::clone(&tools.list)).unwrap_or_default(),
            only_one: tools.is_some_and(|tools| !tools.ask.parallel),
            state: State::Header,
            held: String::new(),
            message: Automaton::new(MESSAGE),
            ends: ENDS.map(Automaton::new),
            begun: false,
            calls: 0,
            over: false,
            hash: seed ^ 0xcbf2_9ce4_8422_2325,
            out: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, text: &str) {
        for c in text.chars() {
            if self.over {
                return;
            }
            self.hash = (self.hash ^ u64::from(c)).wrapping_mul(0x0100_0000_01b3);
            match self.state {
                State::Header => self.header(c),
                State::Reasoning | State::Text | State::Call(_) | State::Behind(_) => self.body(c),
            }
        }
    }

    pub(crate) fn finish(&mut self) {
        let held = std::mem::take(&mut self.held);
        match &self.state {
            // A header without a message is nothing, but words without any mark are an answer.
            State::Header if held.contains("<|") => {}
            State::Header => {
                self.state = State::Text;
                self.give(&held);
            }
            State::Reasoning | State::Text => self.give(&held),
            State::Call(_) | State::Behind(_) => self.end_message(),
        }
        self.state = State::Header;
    }

    pub(crate) fn take(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether what is written now is the answer's text.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.state, State::Text)
    }

    /// Whether what is written now is reasoning.
    pub(crate) fn is_reasoning(&self) -> bool {
        matches!(self.state, State::Reasoning)
    }

    fn header(&mut self, c: char) {
        self.held.push(c);
        if self.message.step_char(c) {
            self.message.reset();
            let header = std::mem::take(&mut self.held);
            self.state = self.of_header(&header);
            if let State::Call(_) = self.state {
                let name = recipient(&header).unwrap_or_default().to_owned();
                self.out.push(Delta::Call { index: self.calls, id: id(self.hash, self.calls), name });
                self.calls += 1;
                self.begun = false;
            }
            self.ends.iter_mut().for_each(Automaton::reset);
        } else if self.held.len() > HEADER_BYTES_MAX {
            // No header is as long: the model forgot it.
            self.state = State::Text;
            let held = std::mem::take(&mut self.held);
            self.give(&held);
        }
    }

    fn of_header(&mut self, header: &str) -> State {
        if let Some(name) = recipient(header) {
            if self.tools.iter().any(|tool| tool.name == name) {
                return State::Call(Scanner::object(Dialect::Json));
            }
            return State::Text;
        }
        let channel = header.split("<|channel|>").nth(1).unwrap_or_default();
        if channel.starts_with("analysis") { State::Reasoning } else { State::Text }
    }

    fn body(&mut self, c: char) {
        self.held.push(c);
        let mut ended = None;
        for (index, end) in self.ends.iter_mut().enumerate() {
            if end.step_char(c) {
                ended = Some(index);
            }
        }
        let kept = match ended {
            Some(index) => ENDS[index].len(),
            None => self.ends.iter().map(|end| end.matched).max().unwrap_or(0),
        };
        let shown: String = self.held.drain(..self.held.len() - kept).collect();
        self.give(&shown);
        if ended.is_some() {
            self.end_message();
            self.held.clear();
            self.state = State::Header;
            self.message.reset();
        }
    }

    fn end_message(&mut self) {
        self.complete(false);
        if let State::Behind(complete) = self.state {
            self.out.push(Delta::End { index: self.calls - 1, complete });
            self.over |= self.only_one;
        }
    }

    /// Ends the arguments of a call, wherever they broke off.
    fn complete(&mut self, complete: bool) {
        if let State::Call(scanner) = &mut self.state {
            let mut json = String::new();
            scanner.close(&mut json);
            if json.is_empty() && !self.begun {
                json.push_str("{}");
            }
            self.arguments(&json);
            self.state = State::Behind(complete);
        }
    }

    fn give(&mut self, shown: &str) {
        if shown.is_empty() {
            return;
        }
        match (&mut self.state, self.out.last_mut()) {
            (State::Reasoning, Some(Delta::Reasoning(text))) | (State::Text, Some(Delta::Text(text))) => {
                text.push_str(shown);
            }
            (State::Reasoning, _) => self.out.push(Delta::Reasoning(shown.to_owned())),
            (State::Text, _) => self.out.push(Delta::Text(shown.to_owned())),
            (State::Call(scanner), _) => {
                let mut json = String::new();
                let step = shown.chars().map(|c| scanner.step(c, &mut json)).find(|&step| step != Step::More);
                self.arguments(&json);
                if let Some(step) = step {
                    self.complete(step == Step::Done);
                }
            }
            (State::Header | State::Behind(_), _) => {}
        }
    }

    fn arguments(&mut self, json: &str) {
        if json.is_empty() {
            return;
        }
        self.begun = true;
        match self.out.last_mut() {
            Some(Delta::Arguments { text, .. }) => text.push_str(json),
            _ => self.out.push(Delta::Arguments { index: self.calls - 1, text: json.to_owned() }),
        }
    }
}

/// The function that a message goes to.
fn recipient(header: &str) -> Option<&str> {
    let (_, to) = header.split_once("to=functions.")?;
    let end = to.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(to.len());
    Some(&to[..end])
}

/// The grammar of an answer behind its reasoning; `text` is what it must obey where it is no call, as a rule's body.
pub(super) fn grammar(tools: &[Tool], ask: Ask, token: &dyn Fn(&str) -> Option<u32>, text: Option<&str>) -> String {
    let mark = |text: &str| match token(text) {
        Some(id) => format!("<[{id}]>"),
        None => quoted(text),
    };
    let [start, channel, constrain, message, end, call, _] = MARKS.map(mark);
    let mut rules = String::new();
    let mut names = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let to = quoted(&format!("commentary to=functions.{} ", tool.name));
        let _ = writeln!(
            rules,
            "call_{index}: {channel} {to} {constrain} \"json\" {message} %json {}",
            spaced(tool.parameters.clone())
        );
        names.push(format!("call_{index}"));
    }
    let calls = names.join(" | ");
    let again = if ask.parallel { format!("({call} {start} \"assistant\" call)*") } else { String::new() };
    let thought = format!("{channel} \"analysis\" {message} TEXT {end} {start} \"assistant\"");
    // What ends a call is what ends an answer, too, and need not be written.
    let all = format!("call {again} {call}?");
    let answer = if ask.required { all } else { format!("({all} | final)") };
    let text = text.unwrap_or("TEXT");
    format!(
        "start: ({start} \"assistant\")? ({thought})? {answer}\ncall: {calls}\nfinal: {channel} \"final\" {message} text\ntext: {text}\n{rules}TEXT: /(.|\\n)*/\n"
    )
}

/// Calls as the template writes them, behind `<|start|>assistant`.
pub(super) fn write(calls: &[(&str, &Json)]) -> String {
    let texts = calls.iter().map(|(name, arguments)| {
        format!("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>")
    });
    texts.collect::<Vec<_>>().join("<|start|>assistant")
}
