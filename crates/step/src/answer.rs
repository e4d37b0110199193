//! An answer as it is read: reasoning, text and calls out of one stream of text.
//!
//! A [`Form`] says what the answer to a prompt may hold; a [`Reader`] finds it, the same from any cut of the text. Special tokens that
//! mean something must come as text, by name ([`Form::marks`]).

use kauri_tokenizer::Tokenizer;

use crate::grammar::{self, Grammar};
use crate::reasoning::{Piece, Splitter, Start};
use crate::tools::harmony::Reader as Messages;
use crate::tools::{Delta, Format, Parser, Tools};

/// What the answer to a prompt may hold.
#[derive(Clone, Debug)]
pub struct Form {
    /// How the model writes calls.
    pub format: &'static Format,
    /// How it marks its reasoning, if the answer may have one.
    pub reasoning: Option<Start>,
    /// What it may call.
    pub tools: Option<Tools>,
    /// What the ids of calls are made of, with the text before them.
    pub seed: u64,
}

/// Reads one answer.
#[derive(Debug)]
pub struct Reader {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Marks { reasoning: Option<Splitter>, calls: Option<Parser>, out: Vec<Delta> },
    Messages(Messages),
}

impl Form {
    /// Whether the answer is nothing but text, and needs no reader.
    pub fn is_plain(&self) -> bool {
        self.reasoning.is_none() && self.tools.is_none() && !self.format.is_harmony()
    }

    /// Texts that the reader looks for: where one of them is a special token, it must come by its name.
    pub fn marks(&self) -> Vec<&'static str> {
        let mut marks = Vec::new();
        if self.tools.is_some() || self.format.is_harmony() {
            marks.extend(self.format.marks());
        }
        if let Some(start) = self.reasoning {
            marks.extend([start.marks.open, start.marks.close]);
        }
        marks
    }

    /// What ends reasoning where its budget is spent.
    pub fn break_off(&self) -> Option<&'static str> {
        if self.format.is_harmony() {
            // What comes then may be a call.
            let is_text = self.tools.is_none();
            let end = "<|end|><|start|>assistant";
            return Some(if is_text { "<|end|><|start|>assistant<|channel|>final<|message|>" } else { end });
        }
        self.reasoning.map(|start| start.marks.break_off)
    }

    /// The grammar that the answer behind the reasoning must obey, where a call is required or may come. One that may be no call
    /// obeys `text` then, if that is given; nothing where the two cannot stand beside each other (`Grammar::beside`).
    ///
    /// # Errors
    /// When what a tool says of its arguments, or the text's grammar, cannot be enforced.
    pub fn grammar(&self, tokenizer: &Tokenizer, text: Option<&Grammar>) -> Result<Option<Grammar>, grammar::Error> {
        let Some(tools) = &self.tools else { return Ok(None) };
        let beside = text.map(Grammar::beside).transpose()?;
        if beside == Some(None) {
            return Ok(None);
        }
        let special = |text: &str| tokenizer.id_of(text).filter(|&id| tokenizer.is_special(id));
        Ok(Some(Grammar::Calls(self.format.calls(tools, &special, beside.flatten().as_deref())?)))
    }

    /// The one token that opens reasoning, where the model may begin with it.
    pub fn opening(&self, tokenizer: &Tokenizer) -> Option<u32> {
        self.reasoning.filter(|start| !start.is_inside).and_then(|start| tokenizer.id_of(start.marks.open))
    }

    /// A reader of one answer.
    pub fn reader(&self) -> Reader {
        let kind = if self.format.is_harmony() {
            Kind::Messages(Messages::new(self.tools.as_ref(), self.seed))
        } else {
            Kind::Marks {
                reasoning: self.reasoning.map(Splitter::new),
                calls: self.tools.as_ref().and_then(|tools| self.format.parser(tools, self.seed)),
                out: Vec::new(),
            }
        };
        Reader { kind }
    }
}

impl Reader {
    /// Takes the next piece of the answer.
    pub fn push(&mut self, text: &str) {
        match &mut self.kind {
            Kind::Messages(messages) => messages.push(text),
            Kind::Marks { reasoning, calls, out } => match reasoning {
                Some(splitter) => splitter.push(text, |piece| sort(piece, calls.as_mut(), out)),
                None => sort(Piece::Text(text), calls.as_mut(), out),
            },
        }
    }

    /// The answer has ended.
    pub fn finish(&mut self) {
        match &mut self.kind {
            Kind::Messages(messages) => messages.finish(),
            Kind::Marks { reasoning, calls, out } => {
                if let Some(splitter) = reasoning {
                    splitter.finish(|piece| sort(piece, calls.as_mut(), out));
                }
                if let Some(parser) = calls {
                    parser.finish();
                    out.append(&mut parser.take());
                }
            }
        }
    }

    /// What was found since the last time.
    pub fn take(&mut self) -> Vec<Delta> {
        match &mut self.kind {
            Kind::Messages(messages) => messages.take(),
            Kind::Marks { out, .. } => std::mem::take(out),
        }
    }

    /// Whether the model is reasoning: what it writes now counts against its budget.
    pub fn is_reasoning(&self) -> bool {
        match &self.kind {
            Kind::Messages(messages) => messages.is_reasoning(),
            Kind::Marks { reasoning, .. } => reasoning.as_ref().is_some_and(Splitter::is_reasoning),
        }
    }

    /// Whether the answer proper has not begun: until then, no constraint holds. That of calls (`of_calls`) holds for messages of
    /// every kind.
    pub fn is_free(&self, of_calls: bool) -> bool {
        match &self.kind {
            Kind::Messages(messages) => !of_calls && !messages.is_text(),
            Kind::Marks { reasoning, .. } => reasoning.as_ref().is_some_and(Splitter::is_reasoning),
        }
    }

    /// Whether the answer has all the calls that it may have.
    pub fn is_over(&self) -> bool {
        match &self.kind {
            Kind::Messages(messages) => messages.is_over(),
            Kind::Marks { calls, .. } => calls.as_ref().is_some_and(Parser::is_over),
        }
    }
}

/// Puts a piece where it belongs.
fn sort(piece: Piece<'_>, calls: Option<&mut Parser>, out: &mut Vec<Delta>) {
    match (piece, calls, out.last_mut()) {
        (Piece::Text(text), Some(parser), _) => {
            parser.push(text);
            out.append(&mut parser.take());
        }
        (Piece::Reasoning(more), _, Some(Delta::Reasoning(text)))
        | (Piece::Text(more), None, Some(Delta::Text(text))) => {
            text.push_str(more);
        }
        (Piece::Reasoning(more), ..) => out.push(Delta::Reasoning(more.to_owned())),
        (Piece::Text(more), None, _) => out.push(Delta::Text(more.to_owned())),
    }
}
