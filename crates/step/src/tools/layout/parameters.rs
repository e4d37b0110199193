//! Arguments as parameters that stand between marks of their own, one by one, their values as plain text.
//!
//! A value is a string where the tool's schema says so; else it is what its text says as JSON, or as Python's literal, and a string
//! where it is neither.

use serde_json::Value as Json;

use super::Marks;
use super::literal::{Dialect, Scanner, Step, quoted, write_char};
use crate::automaton::Automaton;

/// The longest name of a parameter, in bytes.
const NAME_BYTES_MAX: usize = 512;

/// Reads parameters until something else comes.
#[derive(Clone, Debug)]
pub(super) struct Parameters {
    marks: &'static Marks,
    state: State,
    /// JSON that nobody has taken yet.
    pub(super) arguments: String,
    is_empty: bool,
}

#[derive(Clone, Debug)]
enum State {
    /// Bytes of the mark before a parameter that are read.
    Between(usize),
    Name(String, Automaton),
    /// What stands between name and value.
    Middle(String, String),
    Value(Value),
}

/// A value that is being read.
#[derive(Clone, Debug)]
struct Value {
    end: Automaton,
    /// What may be the beginning of its end; of all values but strings, everything.
    held: String,
    is_string: bool,
    /// Nothing but a line end was read, which belongs to the mark.
    is_fresh: bool,
}

impl Parameters {
    pub(super) fn new(marks: &'static Marks) -> Self {
        Self { marks, state: State::Between(0), arguments: "{".to_owned(), is_empty: true }
    }

    /// Takes the next character; [`Step::Before`] where no further parameter begins with it.
    pub(super) fn step(&mut self, c: char, schema: &Json) -> Step {
        match &mut self.state {
            State::Between(0) if c.is_whitespace() => Step::More,
            State::Between(read) => {
                if !self.marks.open[*read..].starts_with(c) {
                    return Step::Before;
                }
                *read += c.len_utf8();
                if *read == self.marks.open.len() {
                    self.state = State::Name(String::new(), Automaton::new(self.marks.name_end));
                }
                Step::More
            }
            State::Name(name, end) => {
                name.push(c);
                if !end.step_char(c) {
                    return if name.len() <= NAME_BYTES_MAX { Step::More } else { Step::Broken };
                }
                name.truncate(name.len() - self.marks.name_end.len());
                let name = std::mem::take(name);
                if self.marks.value_begins().is_empty() {
                    self.begin_value(name.trim(), "", schema);
                } else {
                    self.state = State::Middle(name, String::new());
                }
                Step::More
            }
            State::Middle(name, read) => {
                read.push(c);
                if read.ends_with(self.marks.value_begins()) {
                    let (name, read) = (std::mem::take(name), std::mem::take(read));
                    self.begin_value(name.trim(), &read, schema);
                    return Step::More;
                }
                if read.len() <= NAME_BYTES_MAX { Step::More } else { Step::Broken }
            }
            State::Value(value) => {
                if value.step(c, self.marks, &mut self.arguments) {
                    self.state = State::Between(0);
                }
                Step::More
            }
        }
    }

    /// Whether a parameter has begun.
    pub(super) fn has_begun(&self) -> bool {
        !self.is_empty || !matches!(self.state, State::Between(_))
    }

    /// Whether what stands between two parameters is all that was read of the next: where the mark of the call's end begins
    /// like that of a parameter, this says how much of it they share.
    pub(super) fn shared(&self) -> &'static str {
        match self.state {
            State::Between(read) => &self.marks.open[..read],
            State::Name(..) | State::Middle(..) | State::Value(_) => "",
        }
    }

    /// Ends the arguments; whether they were complete.
    pub(super) fn close(&mut self) -> bool {
        let complete = matches!(self.state, State::Between(_));
        if let State::Value(value) = &mut self.state {
            value.held.truncate(value.held.len() - value.end.matched);
            value.finish("", self.marks, &mut self.arguments);
        }
        self.arguments.push('}');
        complete
    }

    /// `read` is what stood between the name and the value.
    fn begin_value(&mut self, name: &str, read: &str, schema: &Json) {
        let is_string = match self.marks.kinds {
            // Written as the one or the other, whatever the white space.
            Some([string, _]) => read.split_whitespace().eq(string.split_whitespace()),
            None => is_string(schema, name),
        };
        if !std::mem::take(&mut self.is_empty) {
            self.arguments.push(',');
        }
        self.arguments.push_str(&quoted(name));
        self.arguments.push(':');
        if is_string {
            self.arguments.push('"');
        }
        self.state = State::Value(Value {
            end: Automaton::new(self.marks.value_end),
            held: String::new(),
            is_string,
            is_fresh: true,
        });
    }
}

impl Value {
    /// Takes a character; whether the value has ended.
    fn step(&mut self, c: char, marks: &Marks, out: &mut String) -> bool {
        self.held.push(c);
        if self.end.step_char(c) {
            self.held.truncate(self.held.len() - marks.value_end.len());
            let held = std::mem::take(&mut self.held);
            self.finish(&held, marks, out);
            return true;
        }
        if self.is_string {
            let mut safe = self.held.len() - self.end.matched;
            // The last line end may belong to the mark behind it.
            safe -= usize::from(marks.lines && self.held[..safe].ends_with('\n'));
            self.give(safe, marks, out);
        }
        false
    }

    /// Gives out the first bytes of what is held.
    fn give(&mut self, bytes: usize, marks: &Marks, out: &mut String) {
        let text: String = self.held.drain(..bytes).collect();
        let text = match text.strip_prefix('\n') {
            Some(rest) if self.is_fresh && marks.lines => rest,
            _ => &text,
        };
        self.is_fresh &= bytes == 0;
        text.chars().for_each(|c| write_char(c, out));
    }

    fn finish(&mut self, held: &str, marks: &Marks, out: &mut String) {
        if !held.is_empty() {
            held.clone_into(&mut self.held);
        }
        if marks.lines && self.held.ends_with('\n') {
            self.held.pop();
        }
        if self.is_string {
            self.give(self.held.len(), marks, out);
            out.push('"');
            return;
        }
        let text = std::mem::take(&mut self.held);
        let text = if marks.lines { text.strip_prefix('\n').unwrap_or(&text) } else { &text };
        match literal(text.trim()) {
            Some(json) => out.push_str(&json),
            None => out.push_str(&quoted(text)),
        }
    }
}

/// A text that is a value, as JSON.
fn literal(text: &str) -> Option<String> {
    for dialect in [Dialect::Json, Dialect::Python] {
        let mut scanner = Scanner::new(dialect);
        let mut json = String::new();
        let mut rest = text.chars();
        let step = rest.by_ref().map(|c| scanner.step(c, &mut json)).find(|&step| step != Step::More);
        let complete = match step {
            Some(Step::Done) => rest.next().is_none(),
            None => scanner.end(&mut json),
            Some(Step::More | Step::Before | Step::Broken) => false,
        };
        if complete {
            return Some(json);
        }
    }
    None
}

/// Whether a schema lets a parameter be nothing but a string.
pub(super) fn is_string(schema: &Json, name: &str) -> bool {
    fn says(schema: &Json, depth: usize) -> bool {
        if let Some(kind) = schema.get("type") {
            return kind == "string" || kind.as_array().is_some_and(|kinds| kinds.len() == 1 && kinds[0] == "string");
        }
        if let Some(values) = schema.get("enum").and_then(Json::as_array) {
            return !values.is_empty() && values.iter().all(Json::is_string);
        }
        let choices = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(*key)?.as_array());
        choices.is_some_and(|all| depth < 8 && !all.is_empty() && all.iter().all(|one| says(one, depth + 1)))
    }
    schema.get("properties").and_then(|all| all.get(name)).is_some_and(|schema| says(schema, 0))
}
