//! How a model writes calls, as data: a format is a list of parts, and from it come the parser, the grammar and the writer.
//!
//! A part is either text that stands in every call or a place where something of the call stands. Nothing here knows
//! tokens: what is a special token in a vocabulary is text like any other, which the caller sees to.

mod envelope;
mod lark;
mod literal;
mod notation;
mod parameters;
mod parse;
mod program;
mod write;

pub(super) use lark::grammar;
pub(super) use literal::{Dialect, Scanner, Step, quoted};
pub(super) use notation::{check, relaxed};
pub(crate) use parse::Parser;
pub(super) use parse::id;
pub(super) use program::Program;
pub(super) use write::write;

/// The parts of a section of calls.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Before the first call; nothing where each call opens by itself.
    pub open: &'static [Part],
    /// A call: the first of these that fits. The others are read, and never asked for.
    pub calls: &'static [&'static [Part]],
    /// Between two calls of a section.
    pub between: &'static [Part],
    /// What is written between calls that open by themselves.
    pub gap: &'static str,
    /// Behind the last call; nothing where each call closes by itself.
    pub close: &'static [Part],
    /// Calls may stand where an answer begins, without a mark that text could not have; `open` is nothing then.
    pub first: bool,
    /// What the ids of calls begin with where the model gives them itself.
    pub id: Option<&'static str>,
}

/// A part of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// Exactly this.
    Text(&'static str),
    /// White space of any kind; this much is written.
    Space(&'static str),
    /// The name of the tool.
    Name,
    /// The model's own number of the call, up to this text, which follows it.
    Number(&'static str),
    /// Anything up to the second text, which follows it; the first is written.
    Skip(&'static str, &'static str),
    /// The arguments.
    Arguments(Dialect),
    /// One JSON object of name and arguments.
    Envelope(&'static Keys),
    /// The arguments as parameters.
    Parameters(&'static Marks),
}

/// The keys of an envelope, of each kind the one that is written first.
#[derive(Debug)]
pub(crate) struct Keys {
    pub name: &'static [&'static str],
    pub arguments: &'static [&'static str],
}

/// What stands around a parameter's name and value.
#[derive(Debug)]
pub(crate) struct Marks {
    pub open: &'static str,
    pub name_end: &'static str,
    /// Before the value; nothing but white space where it follows at once.
    pub value_open: &'static str,
    pub value_end: &'static str,
    /// Behind a parameter.
    pub between: &'static str,
    /// What stands before a value that is a string, and before one that is not; told by the schema where unset.
    pub kinds: Option<[&'static str; 2]>,
    /// A line end at either end of a value belongs to the marks.
    pub lines: bool,
}

impl Marks {
    /// What is written between a name and its value.
    pub(super) fn before_value(&self, is_string: bool) -> &'static str {
        match self.kinds {
            Some([string, other]) => {
                if is_string {
                    string
                } else {
                    other
                }
            }
            None => self.value_open,
        }
    }

    /// Where a value is read from: the end of what stands before it.
    pub(super) fn value_begins(&self) -> &'static str {
        if self.kinds.is_some() { ">" } else { self.value_open.trim() }
    }

    /// What is written behind a value.
    pub(super) fn after_value(&self) -> &'static str {
        if self.lines { "\n" } else { "" }
    }
}

impl Layout {
    /// Every text that the parser looks for.
    pub fn marks(&self) -> Vec<&'static str> {
        let parts = [self.open, self.between, self.close].into_iter().chain(self.calls.iter().copied()).flatten();
        let mut marks = Vec::new();
        for part in parts {
            match part {
                Part::Text(text) | Part::Number(text) | Part::Skip(_, text) => marks.push(*text),
                Part::Arguments(Dialect::Bare(mark)) => marks.push(mark),
                Part::Parameters(inner) => {
                    marks.extend([inner.open, inner.name_end, inner.value_open.trim(), inner.value_end]);
                }
                Part::Space(_) | Part::Name | Part::Arguments(_) | Part::Envelope(_) => {}
            }
        }
        marks.retain(|mark| !mark.is_empty());
        marks
    }

    /// Nothing of everything: what a format does not say.
    pub const NONE: Self = Self { open: &[], calls: &[], between: &[], gap: "", close: &[], first: false, id: None };
}

/// Name and arguments as most models have them.
pub(super) const KEYS: Keys =
    Keys { name: &["name", "tool_name", "function"], arguments: &["arguments", "parameters", "args"] };
/// The same where the arguments are asked for as parameters.
pub(super) const KEYS_PARAMETERS: Keys =
    Keys { name: &["name", "tool_name", "function"], arguments: &["parameters", "arguments", "args"] };
