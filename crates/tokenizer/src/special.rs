//! Finding special tokens in text, only where the caller allows it.
//!
//! A prompt is made of spans: a template's own text, where `<|im_start|>` begins a turn, and what a user or a tool
//! wrote, where the same characters are only characters. A special token is recognised only when all of its text lies
//! in spans that may hold one, so that nothing a user writes, alone or together with its surroundings, can forge a turn.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::Error;
use crate::vocabulary::limit;

/// Whether the strings of special tokens in a text become those tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// They are plain text. For everything that a user, a document or a tool wrote.
    Text,
    /// They become the special tokens. For a template's own text.
    Parse,
}

/// A token that is recognised whole.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own, as files declare them")]
pub(crate) struct Named {
    /// Its text.
    pub(crate) text: String,
    /// Its id.
    pub(crate) id: u32,
    /// It takes the white space before it along.
    pub(crate) strip_left: bool,
    /// It takes the white space after it along.
    pub(crate) strip_right: bool,
    /// It does not count inside a word.
    pub(crate) single_word: bool,
    /// It is recognised in any text: a run of spaces, a rare letter. Never markup.
    pub(crate) in_text: bool,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// To be tokenised as text.
    Text(Range<usize>),
    /// A token recognised whole.
    Token(u32),
}

/// The longest name: looking for the longest of several names may read this far for each byte of text. Real ones stay
/// below 128.
const NAME_BYTES_MAX: usize = 512;

/// Whether a token's text looks like markup: `<|user|>`, `</s>`, `[INST]`. Such a token is never made from a user's
/// text, also where the vocabulary declares it an ordinary added word, as several do with their role markers.
pub(crate) fn is_markup(text: &str) -> bool {
    let ends = |open, close| text.starts_with(open) && text.ends_with(close);
    text.chars().count() > 2 && (ends('<', '>') || ends('[', ']') || ends('<', ']') || ends('{', '}'))
        || text.starts_with("<|")
        || text.ends_with("|>")
}

/// The special tokens of a vocabulary.
#[derive(Debug)]
pub(crate) struct SpecialTokens {
    /// All of them.
    all: Option<Finder>,
    /// Those recognised in any text.
    in_text: Option<Finder>,
}

#[derive(Debug)]
struct Finder {
    automaton: AhoCorasick,
    tokens: Vec<Named>,
}

impl SpecialTokens {
    /// Prepares to find `tokens`.
    pub(crate) fn new(tokens: Vec<Named>) -> Result<Self, Error> {
        for token in &tokens {
            limit("the length of a special token in bytes", token.text.len(), NAME_BYTES_MAX)?;
        }
        let in_text = tokens.iter().filter(|token| token.in_text).cloned().collect();
        Ok(Self { all: Finder::new(tokens)?, in_text: Finder::new(in_text)? })
    }

    /// Cuts `text` at special tokens: all kinds inside the ranges `parse` (ascending, disjoint, at characters), only
    /// those of ordinary text elsewhere.
    pub(crate) fn segments(&self, text: &str, parse: &[Range<usize>]) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut done = 0;
        if let Some(finder) = &self.all {
            for range in parse {
                finder.find(text, range.clone(), &mut |found: Range<usize>, id| {
                    self.plain(text, done..found.start, &mut segments);
                    segments.push(Segment::Token(id));
                    done = found.end;
                });
            }
        }
        self.plain(text, done..text.len(), &mut segments);
        segments
    }

    fn plain(&self, text: &str, range: Range<usize>, segments: &mut Vec<Segment>) {
        let mut done = range.start;
        let push = |segments: &mut Vec<Segment>, range: Range<usize>| {
            if !range.is_empty() {
                segments.push(Segment::Text(range));
            }
        };
        if let Some(finder) = &self.in_text {
            finder.find(text, range.clone(), &mut |found: Range<usize>, id| {
                push(segments, done..found.start);
                segments.push(Segment::Token(id));
                done = found.end;
            });
        }
        push(segments, done..range.end);
    }
}

impl Finder {
    fn new(tokens: Vec<Named>) -> Result<Option<Self>, Error> {
        if tokens.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|token| &token.text))
            .map_err(|error| Error::Json(format!("the special tokens are too many or too long: {error}")))?;
        Ok(Some(Self { automaton, tokens }))
    }

    /// Calls `each` with what a token covers, its own text and the white space it takes along, in order.
    fn find(&self, text: &str, range: Range<usize>, each: &mut dyn FnMut(Range<usize>, u32)) {
        let (inside, mut done) = (&text[..range.end], range.start);
        let mut from = range.start;
        while let Some(found) = self.automaton.find(aho_corasick::Input::new(inside).range(from..)) {
            from = found.end();
            let token = &self.tokens[found.pattern().as_usize()];
            let (before, after) = (&inside[done.min(found.start())..found.start()], &inside[found.end()..]);
            let touches = |side: Option<char>| side.is_some_and(|c| c.is_alphanumeric() || c == '_');
            if token.single_word && (touches(before.chars().next_back()) || touches(after.chars().next())) {
                continue;
            }
            let start = if token.strip_left { found.start() - trailing_space(before) } else { found.start() };
            let end = if token.strip_right { found.end() + leading_space(after) } else { found.end() };
            each(start..end, token.id);
            (done, from) = (end, end);
        }
    }
}

fn trailing_space(text: &str) -> usize {
    text.len() - text.trim_end().len()
}

fn leading_space(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is what is meant")]
mod tests {
    use super::*;

    fn named(text: &str, id: u32, in_text: bool) -> Named {
        Named { text: text.into(), id, strip_left: false, strip_right: false, single_word: false, in_text }
    }

    fn tokens() -> SpecialTokens {
        SpecialTokens::new(vec![named("<|a|>", 1, false), named("<|a|><|b|>", 2, false), named("  ", 3, true)]).unwrap()
    }

    use Segment::{Text, Token};

    #[test]
    fn only_where_allowed() {
        let text = "<|a|>x<|a|>";
        assert_eq!(tokens().segments(text, &[0..11]), [Token(1), Text(5..6), Token(1)]);
        assert_eq!(tokens().segments(text, &[0..6]), [Token(1), Text(5..11)]);
        assert_eq!(tokens().segments(text, &[]), [Text(0..11)]);
    }

    #[test]
    fn never_across_the_border() {
        let text = "<|a|>";
        for border in 1..5 {
            assert_eq!(tokens().segments(text, &[border..5]), [Text(0..5)], "{border}");
            assert_eq!(tokens().segments(text, &[0..border]), [Text(0..5)], "{border}");
        }
    }

    #[test]
    fn longest_first_and_plain_everywhere() {
        assert_eq!(tokens().segments("<|a|><|b|>", &[0..10]), [Token(2)]);
        assert_eq!(tokens().segments("a   b", &[]), [Text(0..1), Token(3), Text(3..5)]);
        assert_eq!(tokens().segments("a   b", &[0..2]), [Text(0..1), Token(3), Text(3..5)]);
    }

    #[test]
    fn takes_white_space_along() {
        let mut token = named("<|a|>", 1, false);
        (token.strip_left, token.strip_right) = (true, true);
        let tokens = SpecialTokens::new(vec![token]).unwrap();
        assert_eq!(tokens.segments("x <|a|>\n y", &[0..10]), [Text(0..1), Token(1), Text(9..10)]);
    }

    #[test]
    fn markup() {
        for text in ["<s>", "</s>", "<|User|>", "<｜fim▁hole｜>", "[INST]", "<|channel>", "<turn|>", "[PAD1]"] {
            assert!(is_markup(text), "{text}");
        }
        for text in ["  ", "õ", "\n\n", "[]", "<>", "a<b"] {
            assert!(!is_markup(text), "{text}");
        }
    }
}
