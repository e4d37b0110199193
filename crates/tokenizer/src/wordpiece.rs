//! WordPiece: words by white space and punctuation, then the longest token that fits, from left to right.
//!
//! BERT's tokenizer (<https://github.com/google-research/bert>, `tokenization.py`) as it is run on GGUF files. In the
//! vocabulary here a token that begins a word begins with a space, as those files keep it, and one that continues a word
//! does not. Accents go as they do where such files are usually run: of a letter that Unicode takes apart only the first
//! part stays, and every mark is dropped. The original, which a `tokenizer.json` gets, keeps the later parts of Korean
//! syllables and the marks that take up room of their own.

use std::borrow::Cow;

use regex::Regex;
use unicode_normalization::char::decompose_canonical;

use crate::error::Error;
use crate::vocabulary::Vocabulary;

/// Text to ids by longest match.
#[derive(Debug)]
pub(crate) struct WordPiece {
    /// What is taken out of text: control characters and, where asked, accents.
    dropped: Regex,
    /// A word: a run of letters and the like, or one mark of punctuation, or one Chinese character.
    word: Regex,
    unknown: u32,
    style: Style,
}

/// How text is prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Capital letters become small ones.
    pub(crate) lowercase: bool,
    /// Letters lose their accents.
    pub(crate) strip_accents: bool,
}

/// Longer words are unknown, as in the original.
const WORD_CHARACTERS_MAX: usize = 100;

/// Unicode punctuation and all ASCII symbols, and the blocks that the original calls Chinese characters.
const ALONE: &str = r"\p{P}$+<=>^`|~\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}\x{2B920}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}";

impl WordPiece {
    /// Words that the vocabulary cannot spell become `unknown`.
    pub(crate) fn new(unknown: u32, style: Style) -> Result<Self, Error> {
        let pattern = |pattern: &str| {
            Regex::new(pattern).map_err(|error| Error::Pattern { pattern: pattern.into(), reason: error.to_string() })
        };
        let accents = if style.strip_accents { r"\p{M}" } else { "" };
        Ok(Self {
            dropped: pattern(&format!(r"[[\p{{Cc}}\p{{Cf}}\p{{Co}}\x{{FFFD}}{accents}]--\s]+"))?,
            word: pattern(&format!(r"[{ALONE}]|[^\s{ALONE}]+"))?,
            unknown,
            style,
        })
    }

    /// Appends the ids of `text`, which holds no special tokens.
    pub(crate) fn encode(&self, vocabulary: &Vocabulary, text: &str, ids: &mut Vec<u32>) {
        let text = self.prepare(text);
        let mut spaced = String::new();
        for word in self.word.find_iter(&text) {
            spaced.clear();
            spaced.push(' ');
            spaced.push_str(word.as_str());
            let start = ids.len();
            if !longest_matches(vocabulary, &spaced, ids) {
                ids.truncate(start);
                ids.push(self.unknown);
            }
        }
    }

    fn prepare(&self, text: &str) -> String {
        let text: Cow<'_, str> = if self.style.strip_accents && !text.is_ascii() {
            text.chars().map(first_part).collect::<String>().into()
        } else {
            text.into()
        };
        let text = self.dropped.replace_all(&text, "");
        if self.style.lowercase { text.chars().flat_map(char::to_lowercase).collect() } else { text.into_owned() }
    }
}

/// The letter without its accents.
fn first_part(character: char) -> char {
    let mut first = None;
    decompose_canonical(character, |part| first = first.or(Some(part)));
    first.unwrap_or(character)
}

/// Appends the longest tokens that spell `word`; `false` when some part of it is no token.
fn longest_matches(vocabulary: &Vocabulary, word: &str, ids: &mut Vec<u32>) -> bool {
    if word.len() > WORD_CHARACTERS_MAX && word.chars().count() > WORD_CHARACTERS_MAX + 1 {
        return false;
    }
    let mut rest = word;
    while !rest.is_empty() {
        let most = rest.floor_char_boundary(vocabulary.longest_word());
        let mut fits = (1..=most).rev().filter(|&end| rest.is_char_boundary(end));
        let Some((id, end)) = fits.find_map(|end| Some((vocabulary.word(&rest.as_bytes()[..end])?, end))) else {
            return false;
        };
        ids.push(id);
        rest = &rest[end..];
    }
    true
}

/// Takes out the spaces that joining words put before punctuation: `do n't , see ?` becomes `do n't, see?`.
///
/// The rules are those of the usual clean-up (`clean_up_tokenization_spaces`); the text is changed where it had such
/// spaces of its own, so they are applied only to WordPiece, which does not keep spaces in the first place.
pub(crate) fn tidy(text: &[u8]) -> Vec<u8> {
    let mut tidy = Vec::with_capacity(text.len());
    for (at, &byte) in text.iter().enumerate() {
        if matches!(byte, b'?' | b'!' | b'.' | b',') && at > 0 && text[at - 1] == b' ' {
            tidy.pop();
        }
        tidy.push(byte);
    }
    let text = std::mem::take(&mut tidy);
    let mut at = 0;
    while at < text.len() {
        let after_space = tidy.last() == Some(&b' ');
        if after_space && text[at..].starts_with(b"' ") {
            tidy.pop();
            tidy.push(b'\'');
            at += 2;
        } else {
            tidy.push(text[at]);
            at += 1;
        }
    }
    let text = std::mem::take(&mut tidy);
    for (at, &byte) in text.iter().enumerate() {
        let contraction = [&b"'s"[..], b"'m", b"'re", b"'ve"].iter().any(|short| text[at..].starts_with(short));
        if contraction && at > 0 && text[at - 1] == b' ' {
            tidy.pop();
        }
        tidy.push(byte);
    }
    tidy
}
