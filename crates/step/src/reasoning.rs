//! What a model thinks before it answers, told apart from the answer by the marks around it.
//!
//! Some prompts open the reasoning themselves, some close it at once so that there is none, and some leave it to the model. White
//! space at either end of it belongs to the marks. Knows no tokens: budgets are kept by whoever counts them.

use crate::automaton::Automaton;

/// The marks around reasoning.
#[derive(Debug, PartialEq, Eq)]
pub struct Marks {
    /// What opens it.
    pub open: &'static str,
    /// What closes it.
    pub close: &'static str,
    /// What is written to close it where its budget is spent.
    pub break_off: &'static str,
}

/// The marks of known models.
static MARKS: [Marks; 6] = [
    Marks { open: "<think>", close: "</think>", break_off: "\n</think>\n\n" },
    Marks { open: "<seed:think>", close: "</seed:think>", break_off: "\n</seed:think>" },
    Marks { open: "<|START_THINKING|>", close: "<|END_THINKING|>", break_off: "<|END_THINKING|>" },
    Marks { open: "[THINK]", close: "[/THINK]", break_off: "[/THINK]" },
    Marks { open: "<|channel>thought", close: "<channel|>", break_off: "\n<channel|>" },
    Marks {
        open: "Here are my reasoning steps:",
        close: "[BEGIN FINAL RESPONSE]",
        break_off: "\n[BEGIN FINAL RESPONSE]\n",
    },
];

/// How the answer to a prompt begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The marks of the model.
    pub marks: &'static Marks,
    /// Whether the prompt has opened the reasoning.
    pub is_inside: bool,
}

impl Start {
    /// Told from the source of the template and the end of the prompt that it made; nothing where the answer has no reasoning, or
    /// the prompt has closed it.
    pub fn of(template: &str, prompt: &str) -> Option<Self> {
        let end = prompt.trim_end();
        if let Some(marks) = MARKS.iter().find(|marks| end.ends_with(marks.open)) {
            return Some(Self { marks, is_inside: true });
        }
        if MARKS.iter().any(|marks| end.ends_with(marks.close)) {
            return None;
        }
        let marks = MARKS.iter().find(|marks| template.contains(marks.close))?;
        Some(Self { marks, is_inside: false })
    }
}

/// Tells reasoning from text as it is streamed.
#[derive(Clone, Debug)]
pub struct Splitter {
    state: State,
    open: &'static str,
    close: Automaton,
    /// What may be a mark, or white space at the end of reasoning.
    held: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but white space and perhaps the beginning of the opening mark was read.
    Before,
    /// Behind the opening mark, white space at most.
    Opened,
    Inside,
    /// Behind the closing mark, white space at most.
    Closed,
    Text,
}

/// A piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Reasoning.
    Reasoning(&'a str),
    /// Text behind it.
    Text(&'a str),
}

impl Splitter {
    /// For an answer that begins so.
    pub fn new(start: Start) -> Self {
        Self {
            state: if start.is_inside { State::Opened } else { State::Before },
            open: start.marks.open,
            close: Automaton::new(start.marks.close),
            held: String::new(),
        }
    }

    /// Whether what comes next may be reasoning.
    pub fn is_reasoning(&self) -> bool {
        matches!(self.state, State::Opened | State::Inside)
    }

    /// Whether the model may still open reasoning.
    pub fn is_undecided(&self) -> bool {
        self.state == State::Before
    }

    /// Takes the next piece of the answer.
    pub fn push(&mut self, text: &str, mut piece: impl FnMut(Piece<'_>)) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if self.state == State::Text {
                return piece(Piece::Text(rest));
            }
            rest = &rest[c.len_utf8()..];
            self.step(c, &mut piece);
        }
    }

    /// The answer has ended: what was held is what it seems.
    pub fn finish(&mut self, mut piece: impl FnMut(Piece<'_>)) {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Before if !held.is_empty() => piece(Piece::Text(&held)),
            State::Inside if !held.trim_end().is_empty() => piece(Piece::Reasoning(held.trim_end())),
            State::Before | State::Opened | State::Inside | State::Closed | State::Text => {}
        }
        self.state = State::Text;
    }

    fn step(&mut self, c: char, piece: &mut impl FnMut(Piece<'_>)) {
        match self.state {
            State::Before => {
                self.held.push(c);
                let begun = self.held.trim_start();
                if begun == self.open {
                    self.held.clear();
                    self.state = State::Opened;
                } else if !self.open.starts_with(begun) {
                    self.state = State::Text;
                    piece(Piece::Text(&std::mem::take(&mut self.held)));
                }
            }
            State::Opened | State::Closed if c.is_whitespace() => {}
            State::Opened | State::Inside => {
                self.state = State::Inside;
                self.held.push(c);
                if self.close.step_char(c) {
                    let kept = self.held.len() - self.close.text.len();
                    let reasoning = self.held[..kept].trim_end();
                    if !reasoning.is_empty() {
                        piece(Piece::Reasoning(reasoning));
                    }
                    self.held.clear();
                    self.state = State::Closed;
                    return;
                }
                let shown = self.held[..self.held.len() - self.close.matched].trim_end().len();
                if shown > 0 {
                    piece(Piece::Reasoning(&self.held[..shown]));
                    self.held.drain(..shown);
                }
            }
            State::Closed | State::Text => {
                self.state = State::Text;
                piece(Piece::Text(c.encode_utf8(&mut [0; 4])));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split<'a>(start: Start, pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut splitter = Splitter::new(start);
        let (mut reasoning, mut text) = (String::new(), String::new());
        let mut take = |piece: Piece<'_>| match piece {
            Piece::Reasoning(more) => reasoning += more,
            Piece::Text(more) => text += more,
        };
        pieces.into_iter().for_each(|piece| splitter.push(piece, &mut take));
        splitter.finish(&mut take);
        (reasoning, text)
    }

    const THINK: &Marks = &MARKS[0];

    #[test]
    fn every_cut_splits_alike() {
        let cases = [
            (false, "<think>\nHm, 1 < 2.\n\n  So\n</think>\n\nYes.\n", "Hm, 1 < 2.\n\n  So", "Yes.\n"),
            (true, "\nHm</thin</think>Yes <think>no</think>", "Hm</thin", "Yes <think>no</think>"),
            (false, "Yes <think>no</think>", "", "Yes <think>no</think>"),
            (false, " \n<thin", "", " \n<thin"),
            (true, "never ends </thi\n", "never ends </thi", ""),
            (false, "<think>\n\n</think>\n\nYes", "", "Yes"),
            (true, "", "", ""),
            (true, "漢字 </think> é", "漢字", "é"),
        ];
        for (is_inside, answer, reasoning, text) in cases {
            let start = Start { marks: THINK, is_inside };
            let expected = (reasoning.to_owned(), text.to_owned());
            assert_eq!(split(start, [answer]), expected);
            for (at, _) in answer.char_indices() {
                assert_eq!(split(start, [&answer[..at], &answer[at..]]), expected, "{answer:?} at {at}");
            }
            let letters: Vec<String> = answer.chars().map(String::from).collect();
            assert_eq!(split(start, letters.iter().map(String::as_str)), expected);
        }
    }

    #[test]
    fn the_prompts_end_says_where_the_answer_begins() {
        let template = "{% if enable_thinking %}<think>{% endif %} split('</think>')";
        let of = |prompt: &str| Start::of(template, prompt);
        assert_eq!(of("<|im_start|>assistant\n<think>\n"), Some(Start { marks: THINK, is_inside: true }));
        assert_eq!(of("<|im_start|>assistant\n<think>\n\n</think>\n\n"), None);
        assert_eq!(of("<|im_start|>assistant\n"), Some(Start { marks: THINK, is_inside: false }));
        assert_eq!(Start::of("no such thing", "assistant\n"), None);
        let gemma = Start::of("<|channel>thought\n ... <channel|>", "<|turn>model\n").unwrap();
        assert_eq!(gemma.marks.close, "<channel|>");
    }
}
