//! Cutting text into words before merging: the patterns that the vocabularies were made with.
//!
//! Patterns run on an engine without backtracking, so time is linear on any text. The one look-ahead that they share,
//! `\s+(?!\S)` (a run of white space leaves its last character to the word after it), is done by hand.
//! This file knows patterns and names of patterns; it does not know any vocabulary.

use std::borrow::Cow;

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
        /// A run.
        run: Regex,
    },
}

/// The look-ahead endings that are done by hand.
const LEAVE_LAST_SPACE: [&str; 3] = [r"|\s+(?!\S)|\s+", r"|\s+(?!\S)|\s", r"|\s+(?!\S)"];
/// White space that ends a line, as patterns write it.
const LINE_ENDS: [&str; 2] = [r"\s*[\r\n]", "\\s*[\r\n]"];
/// The look-ahead patterns that cut digits into threes from the right, each with what it takes for a run.
const TRIPLES: [(&str, &str); 3] = [
    (r"\d{1,3}(?=(?:\d{3})*\b)", r"\d+\b"),
    (r"(?=(\d{3})+(?!\d))", r"\d+"),
    (r"\p{AFMoE_digits}", r"\d+"), // llama.cpp's own name for it
];

impl Splitter {
    /// A rule of these patterns, one step each. Errors: a pattern with other look-around, or too large.
    pub(crate) fn new<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Self, Error> {
        Ok(Self { steps: patterns.into_iter().map(Step::new).collect::<Result<_, _>>()? })
    }

    /// Calls `each` with the pieces of `text` in order; together they are the text.
    pub(crate) fn split(&self, text: &str, each: &mut dyn FnMut(&str)) {
        split_steps(&self.steps, text, each);
    }
}

fn compile(pattern: &str) -> Result<Regex, Error> {
    regex::RegexBuilder::new(pattern)
        .size_limit(16 << 20)
        .dfa_size_limit(16 << 20)
        .build()
        .map_err(|error| Error::Pattern { pattern: shown(pattern), reason: one_line(&error.to_string()) })
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
        if let Some((_, run)) = TRIPLES.iter().find(|(known, _)| *known == pattern) {
            return Ok(Self::Triples { run: compile(run)? });
        }
        let pattern = &*without_possession(pattern)?;
        let stem = LEAVE_LAST_SPACE.iter().find_map(|ending| pattern.strip_suffix(ending));
        let whole = stem.map(|stem| format!(r"{stem}|\s+"));
        let regex = compile(whole.as_deref().unwrap_or(pattern))?;
        Ok(Self::Pattern {
            regex,
            leave_last_space: stem.is_some(),
            lines_apart: LINE_ENDS.iter().any(|ending| pattern.contains(ending)),
        })
    }

    fn split(&self, text: &str, each: &mut dyn FnMut(&str)) {
        match self {
            Self::Pattern { regex, leave_last_space: false, .. } => {
                let mut done = 0;
                for found in regex.find_iter(text).filter(|found| !found.is_empty()) {
                    piece(&text[done..found.start()], each);
                    each(found.as_str());
                    done = found.end();
                }
                piece(&text[done..], each);
            }
            Self::Pattern { regex, lines_apart, .. } => split_leaving_space(regex, *lines_apart, text, each),
            Self::Triples { run } => split_triples(run, text, each),
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

fn split_triples(run: &Regex, text: &str, each: &mut dyn FnMut(&str)) {
    let mut done = 0;
    for found in run.find_iter(text) {
        piece(&text[done..found.start()], each);
        done = found.end();
        let mut rest = found.as_str();
        let mut left = rest.chars().count();
        while left > 0 {
            let take = if left % 3 == 0 { 3 } else { left % 3 };
            let end = rest.char_indices().nth(take).map_or(rest.len(), |(end, _)| end);
            each(&rest[..end]);
            rest = &rest[end..];
            left -= take;
        }
    }
    piece(&text[done..], each);
}

/// The pattern without possessive quantifiers (`++`), which only spare a backtracking engine work in the patterns that are
/// known to have them. In others they could change what matches, and this engine would read them as something else.
fn without_possession(pattern: &str) -> Result<Cow<'_, str>, Error> {
    let mut plain = String::with_capacity(pattern.len());
    let (mut escaped, mut inside, mut quantified) = (false, false, false);
    for character in pattern.chars() {
        let quantifier = !escaped && !inside && matches!(character, '?' | '*' | '+' | '}');
        if quantifier && quantified && character == '+' {
            quantified = false;
            continue;
        }
        // The `?` of a group, `(?`, quantifies nothing; nor does the brace of a class, `\p{L}`.
        quantified = match character {
            '?' => quantifier && !plain.ends_with('('),
            '}' => quantifier && plain.rfind('{').is_some_and(|open| !plain[..open].ends_with("\\p")),
            _ => quantifier,
        };
        match character {
            '[' if !escaped => inside = true,
            ']' if !escaped => inside = false,
            _ => {}
        }
        escaped = character == '\\' && !escaped;
        plain.push(character);
    }
    if plain.len() == pattern.len() {
        return Ok(Cow::Borrowed(pattern));
    }
    if !named::POSSESSIVE.contains(&&*plain) {
        return Err(Error::Pattern { pattern: shown(pattern), reason: "possessive quantifiers".into() });
    }
    Ok(Cow::Owned(plain))
}

fn one_line(text: &str) -> String {
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(text);
    shown(last.trim().trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splitter(name: &str) -> Splitter {
        Splitter::new(named(name).unwrap().patterns.iter().copied()).unwrap()
    }

    fn pieces(name: &str, text: &str) -> Vec<String> {
        cut(&splitter(name), text)
    }

    fn cut(splitter: &Splitter, text: &str) -> Vec<String> {
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

    /// Every rule against the `tokenizers` crate, whose engine knows look-ahead.
    #[test]
    fn pieces_are_those_of_a_backtracking_engine() {
        use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
        use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior};
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/tokenizers/texts.json");
        let texts: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let texts: Vec<_> = texts.as_array().unwrap().iter().map(|entry| entry["text"].as_str().unwrap()).collect();
        let mut rules = 0;
        // Two steps are no patterns in the form that the other engine knows.
        for name in named::all().filter(|name| !matches!(*name, "afmoe" | "superbpe")) {
            let isolated = |pattern: &&str| {
                let pattern = SplitPattern::Regex((*pattern).to_owned());
                Split::new(pattern, SplitDelimiterBehavior::Isolated, false).unwrap()
            };
            let steps: Vec<_> = named(name).unwrap().patterns.iter().map(isolated).collect();
            let ours = splitter(name);
            for text in &texts {
                let mut expected = PreTokenizedString::from(*text);
                for step in &steps {
                    step.pre_tokenize(&mut expected).unwrap();
                }
                let expected = expected.get_splits(OffsetReferential::Original, OffsetType::Byte);
                let expected: Vec<_> = expected.iter().map(|split| split.0).filter(|piece| !piece.is_empty()).collect();
                assert_eq!(cut(&ours, text), expected, "{name}: {text:?}");
            }
            rules += 1;
        }
        assert!(rules > 60, "{rules}");
    }

    #[test]
    fn white_space_leaves_its_last_character() {
        assert_eq!(pieces("gpt-2", "a   b\n\nc  "), ["a", "  ", " b", "\n", "\n", "c", "  "]);
        assert_eq!(
            pieces("llama-bpe", "a   b\n\nc \n d\t\te"),
            ["a", "  ", " b", "\n\n", "c", " \n", " d", "\t", "\te"]
        );
    }

    #[test]
    fn the_rules_differ_where_they_should() {
        assert_eq!(pieces("gpt-2", "I'LL we'll 12345"), ["I", "'", "LL", " we", "'ll", " 12345"]);
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
    fn possessive_quantifiers_go_where_they_mean_nothing() {
        let bailing =
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
        let splitter = Splitter::new([bailing]).unwrap();
        for text in ["I'm  here!!\n\n x1", "é ..  "] {
            assert_eq!(cut(&splitter, text), pieces("bailingmoe", text));
        }
        let cl100k = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";
        assert!(Splitter::new([cl100k]).is_ok());
        assert!(Splitter::new([r"a++b"]).unwrap_err().to_string().contains("possessive"));
        for harmless in [r"\+\+", r"[?+*+]", r"\p{L}+", r"(?:a)+", r"a+|b+", r"\++"] {
            assert!(Splitter::new([harmless]).is_ok(), "{harmless}");
        }
    }

    #[test]
    fn look_around_is_refused_by_pattern() {
        let error = Splitter::new([r"a(?=b)"]).unwrap_err().to_string();
        assert!(error.contains("a(?=b)") && !error.contains('\n'), "{error}");
    }
}
