//! Cutting text into words before merging: the patterns that the vocabularies were made with.
//!
//! Patterns run on an engine without backtracking, so time is linear on any text. The one look-ahead that they share,
//! `\s+(?!\S)` (a run of white space leaves its last character to the word after it), is done by hand.
//! This file knows patterns and names of patterns; it does not know any vocabulary.

use regex::Regex;

use crate::error::{Error, shown};

mod named;

pub(crate) use named::{GPT2, LINES, Named, named};

/// A splitting rule: each step cuts the pieces of the one before, and what a step does not match stays a piece.
#[derive(Debug)]
pub(crate) struct Splitter {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// Every match is a piece.
    Pattern {
        regex: Regex,
        /// A match that is only white space, with text after it, leaves its last character to that text.
        leave_last_space: bool,
        /// White space that ends a line is a piece of its own kind and leaves nothing.
        lines_apart: bool,
    },
    /// Runs of digits are cut into threes, counted from the right.
    Triples {
        /// Only runs that do not touch a letter.
        word_boundary: bool,
    },
}

/// The look-ahead endings that are done by hand.
const LEAVE_LAST_SPACE: [&str; 2] = [r"|\s+(?!\S)|\s+", r"|\s+(?!\S)"];
/// The look-ahead patterns that cut digits into threes from the right.
const TRIPLES: [(&str, bool); 3] = [
    (r"\d{1,3}(?=(?:\d{3})*\b)", true),
    (r"(?=(\d{3})+(?!\d))", false),
    (r"\p{AFMoE_digits}", false), // llama.cpp's own name for it
];

impl Splitter {
    /// A rule of these patterns, one step each. Errors: a pattern with other look-around, or too large.
    pub(crate) fn new<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Self, Error> {
        Ok(Self {
            steps: patterns.into_iter().map(Step::new).collect::<Result<_, _>>()?,
        })
    }

    /// Calls `each` with the pieces of `text` in order; together they are the text.
    pub(crate) fn split(&self, text: &str, each: &mut dyn FnMut(&str)) {
        split_steps(&self.steps, text, each);
    }
}

fn split_steps(steps: &[Step], text: &str, each: &mut dyn FnMut(&str)) {
    match steps {
        [] => each(text),
        [last] => last.split(text, each),
        [first, rest @ ..] => first.split(text, &mut |piece| split_steps(rest, piece, each)),
    }
}

impl Step {
    fn new(pattern: &str) -> Result<Self, Error> {
        if let Some(&(_, word_boundary)) = TRIPLES.iter().find(|(known, _)| *known == pattern) {
            return Ok(Self::Triples { word_boundary });
        }
        let stem = LEAVE_LAST_SPACE.iter().find_map(|ending| pattern.strip_suffix(ending));
        let whole = stem.map(|stem| format!(r"{stem}|\s+"));
        let regex = regex::RegexBuilder::new(whole.as_deref().unwrap_or(pattern))
            .size_limit(16 << 20)
            .dfa_size_limit(16 << 20)
            .build()
            .map_err(|error| Error::Pattern {
                pattern: shown(pattern),
                reason: one_line(&error.to_string()),
            })?;
        Ok(Self::Pattern {
            regex,
            leave_last_space: stem.is_some(),
            lines_apart: pattern.contains(r"\s*[\r\n]"),
        })
    }

    fn split(&self, text: &str, each: &mut dyn FnMut(&str)) {
        match self {
            Self::Pattern {
                regex,
                leave_last_space: false,
                ..
            } => {
                let mut done = 0;
                for found in regex.find_iter(text).filter(|found| !found.is_empty()) {
                    piece(&text[done..found.start()], each);
                    each(found.as_str());
                    done = found.end();
                }
                piece(&text[done..], each);
            }
            Self::Pattern { regex, lines_apart, .. } => split_leaving_space(regex, *lines_apart, text, each),
            Self::Triples { word_boundary } => split_triples(*word_boundary, text, each),
        }
    }
}

fn piece(text: &str, each: &mut dyn FnMut(&str)) {
    if !text.is_empty() {
        each(text);
    }
}

fn split_leaving_space(regex: &Regex, lines_apart: bool, text: &str, each: &mut dyn FnMut(&str)) {
    let mut done = 0;
    while let Some(found) = regex.find_at(text, done) {
        if found.is_empty() {
            break;
        }
        piece(&text[done..found.start()], each);
        done = found.end();
        if done < text.len() && ends_in_space(found.as_str()) {
            done -= space_to_leave(found.as_str(), lines_apart);
        }
        each(&text[found.start()..done]);
    }
    piece(&text[done..], each);
}

#[inline]
fn ends_in_space(found: &str) -> bool {
    match found.as_bytes().last() {
        Some(last) if last.is_ascii() => last.is_ascii_whitespace() || *last == 0x0B,
        _ => found.ends_with(char::is_whitespace),
    }
}

/// How many bytes of a match before other text are not its own.
fn space_to_leave(found: &str, lines_apart: bool) -> usize {
    let mut characters = found.chars();
    let Some(last) = characters.next_back() else { return 0 };
    let keeps = characters.as_str().is_empty()
        || lines_apart && matches!(last, '\r' | '\n')
        || !found.chars().all(char::is_whitespace);
    if keeps { 0 } else { last.len_utf8() }
}

fn split_triples(word_boundary: bool, text: &str, each: &mut dyn FnMut(&str)) {
    let bytes = text.as_bytes();
    let (mut done, mut at) = (0, 0);
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            at += 1;
        }
        let touches = text[at..]
            .chars()
            .next()
            .is_some_and(|c| c.is_alphanumeric() || c == '_');
        if word_boundary && touches {
            continue;
        }
        piece(&text[done..start], each);
        let head = (at - start) % 3;
        piece(&text[start..start + head], each);
        (start + head..at)
            .step_by(3)
            .for_each(|from| each(&text[from..from + 3]));
        done = at;
    }
    piece(&text[done..], each);
}

fn one_line(text: &str) -> String {
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(text);
    shown(last.trim().trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(name: &str, text: &str) -> Vec<String> {
        let splitter = Splitter::new(named(name).unwrap().patterns.iter().copied()).unwrap();
        let mut pieces = Vec::new();
        splitter.split(text, &mut |piece| pieces.push(piece.to_owned()));
        assert_eq!(pieces.concat(), text);
        pieces
    }

    #[test]
    fn every_name_compiles() {
        for name in named::all() {
            assert_eq!(pieces(name, ""), [""; 0], "{name}");
            pieces(name, "Hello, wörld!  It's 12345 \n\n\t 你好 ①  ");
        }
        assert!(named("no such rule").is_none());
    }

    #[test]
    fn white_space_leaves_its_last_character() {
        assert_eq!(
            pieces("gpt-2", "a   b\n\nc  "),
            ["a", "  ", " b", "\n", "\n", "c", "  "]
        );
        assert_eq!(
            pieces("llama-bpe", "a   b\n\nc \n d\t\te"),
            ["a", "  ", " b", "\n\n", "c", " \n", " d", "\t", "\te"]
        );
    }

    #[test]
    fn the_rules_differ_where_they_should() {
        assert_eq!(
            pieces("gpt-2", "I'LL we'll 12345"),
            ["I", "'", "LL", " we", "'ll", " 12345"]
        );
        assert_eq!(pieces("llama-bpe", "I'LL 12345"), ["I", "'LL", " ", "123", "45"]);
        assert_eq!(pieces("qwen2", "123"), ["1", "2", "3"]);
        assert_eq!(pieces("starcoder", "a12"), ["a", "1", "2"]);
        assert_eq!(pieces("gpt-4o", "HelloWorld don't"), ["Hello", "World", " don't"]);
    }

    #[test]
    fn threes_from_the_right() {
        assert_eq!(pieces("tiny_aya", "1234567"), ["1", "234", "567"]);
        assert_eq!(pieces("superbpe", "x1234"), ["x", "1", "234"]);
    }

    #[test]
    fn look_around_is_refused_by_pattern() {
        let error = Splitter::new([r"a(?=b)"]).unwrap_err().to_string();
        assert!(error.contains("a(?=b)") && !error.contains('\n'), "{error}");
    }
}
