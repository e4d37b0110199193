//! Byte-pair encoding by a list of merges, over bytes or over characters.
//!
//! Over bytes it is GPT-2's form and that of most models since; over characters, with a token for each byte of a
//! character that the vocabulary lacks, it is what SentencePiece vocabularies become in `tokenizer.json` and in Gemma's
//! files. This file knows merges; where words end is the business of `split`.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU8, Ordering};

use hashbrown::HashMap;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::alphabet;
use crate::error::{Error, shown};
use crate::merge::{Merge, NO_TOKEN, Symbol, Word, bounded};
use crate::split::Splitter;
use crate::vocabulary::{Kind, Reach, TOKENS_MAX, Vocabulary, limit};

/// Text to ids by merges.
#[derive(Debug)]
pub(crate) struct Bpe {
    /// What two neighbouring tokens become.
    merges: HashMap<(u32, u32), Merge>,
    /// The token of each byte, or [`NO_TOKEN`].
    bytes: Box<[u32; 256]>,
    /// For each token, whether the merges make it of its own text: looked at once, then one look-up does for the word.
    settled: Vec<AtomicU8>,
    unknown: Option<u32>,
    splitter: Splitter,
    style: Style,
}

/// How text is prepared, and what a symbol is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// What a symbol begins as.
    pub(crate) symbols: Symbols,
    /// A word that is a token is that token, whatever the merges say.
    pub(crate) whole_words: bool,
    /// Text is brought to Unicode form NFC first.
    pub(crate) nfc: bool,
    /// Where a space is put before the text.
    pub(crate) prefix: Prefix,
    /// No token spans the end of a word, so words can be merged one by one.
    pub(crate) words_apart: bool,
}

/// What a text is made of before any merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Symbols {
    /// Bytes; tokens are written in the byte alphabet.
    #[default]
    Bytes,
    /// Characters; tokens are written with SentencePiece's mark for a space.
    Characters,
}

/// Where SentencePiece puts its space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// Nowhere.
    #[default]
    Never,
    /// Before the first text and any that follows a special token.
    Always,
    /// The same, unless the text begins with a space.
    AlwaysMissing,
    /// Only before the first text, unless it begins with a space.
    FirstMissing,
}

const UNSEEN: u8 = 0;
const OWN: u8 = 1;
const OTHER: u8 = 2;

impl Bpe {
    /// Of a vocabulary whose words and byte tokens are already in, and its merges, best first, as they are written.
    pub(crate) fn new<'m>(
        vocabulary: &Vocabulary,
        merges: impl ExactSizeIterator<Item = Rule<'m>>,
        unknown: Option<u32>,
        splitter: Splitter,
        style: Style,
    ) -> Result<Self, Error> {
        limit("the number of merges", merges.len(), TOKENS_MAX)?;
        let mut table = HashMap::with_capacity(merges.len());
        let mut scratch = Vec::new();
        for (index, rule) in merges.enumerate() {
            if let Some((pair, id)) = rule.resolve(index, vocabulary, style.symbols, &mut scratch)? {
                // The first of two equal rules is the one that counts.
                table.entry(pair).or_insert(Merge { rank: index as u32, id });
            }
        }
        let mut bytes = Box::new([NO_TOKEN; 256]);
        if style.symbols == Symbols::Characters {
            let tokens = vocabulary.kinds().filter(|&(_, kind)| kind == Kind::Byte);
            tokens.for_each(|(id, _)| {
                if let Some(&[byte]) = vocabulary.bytes(id) {
                    bytes[byte as usize] = id;
                }
            });
        } else {
            (0..=255u8).for_each(|byte| bytes[byte as usize] = vocabulary.word(&[byte]).unwrap_or(NO_TOKEN));
        }
        let settled = (0..vocabulary.len()).map(|_| AtomicU8::new(UNSEEN)).collect();
        Ok(Self { merges: table, bytes, settled, unknown, splitter, style })
    }

    /// Appends the ids of `text`, which holds no special tokens. `after` is what comes before it.
    pub(crate) fn encode(&self, vocabulary: &Vocabulary, text: &str, after: After, ids: &mut Vec<u32>) {
        let text = self.prepare(text, after);
        let mut word = Word::default();
        self.splitter.split(&text, &mut |piece| {
            if self.style.words_apart {
                words(piece).for_each(|part| self.encode_word(vocabulary, part, &mut word, ids));
            } else {
                bounded(piece).for_each(|part| self.encode_word(vocabulary, part, &mut word, ids));
            }
        });
    }

    fn prepare<'t>(&self, text: &'t str, after: After) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        if self.style.nfc && !text.is_ascii() && is_nfc_quick(text.chars()) != IsNormalized::Yes {
            text = Cow::Owned(text.nfc().collect());
        }
        if self.style.symbols == Symbols::Characters {
            text = plain_spaces(text, self.style.prefix, after);
        }
        text
    }

    fn encode_word(&self, vocabulary: &Vocabulary, text: &str, word: &mut Word, ids: &mut Vec<u32>) {
        let whole = vocabulary.word(text.as_bytes());
        if let Some(id) = whole
            && (self.style.whole_words || self.settled[id as usize].load(Ordering::Relaxed) == OWN)
        {
            ids.push(id);
            return;
        }
        word.clear();
        if self.style.symbols == Symbols::Characters {
            self.push_characters(vocabulary, text, word);
        } else {
            for (at, &byte) in text.as_bytes().iter().enumerate() {
                word.push(at, 1, self.bytes[byte as usize]);
            }
        }
        let symbols = word.merge(|left, right| self.merges.get(&(left.id, right.id)).copied());
        if let Some(id) = whole {
            let own = matches!(symbols, [only] if only.id == id);
            self.settled[id as usize].store(if own { OWN } else { OTHER }, Ordering::Relaxed);
        }
        for &symbol in symbols {
            self.push_id(symbol, ids);
        }
    }

    fn push_characters(&self, vocabulary: &Vocabulary, text: &str, word: &mut Word) {
        for (at, character) in text.char_indices() {
            let len = character.len_utf8();
            let bytes = &text.as_bytes()[at..at + len];
            match vocabulary.word(bytes) {
                Some(id) => word.push(at, len, id),
                None if bytes.iter().all(|&byte| self.bytes[byte as usize] != NO_TOKEN) => {
                    bytes.iter().enumerate().for_each(|(i, &byte)| word.push(at + i, 1, self.bytes[byte as usize]));
                }
                None => word.push(at, len, NO_TOKEN),
            }
        }
    }

    /// A symbol outside the vocabulary becomes the unknown token, or nothing where there is none.
    fn push_id(&self, symbol: Symbol, ids: &mut Vec<u32>) {
        if symbol.id != NO_TOKEN {
            ids.push(symbol.id);
        } else if let Some(unknown) = self.unknown {
            ids.push(unknown);
        }
    }
}

/// What comes before a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing.
    Nothing,
    /// A token that was recognised whole.
    Special,
    /// Text.
    Text,
}

impl Prefix {
    /// Whether a space goes before `text`.
    fn wanted(self, text: &str, after: After) -> bool {
        let missing = !text.is_empty() && !text.starts_with([' ', '\u{2581}']);
        match self {
            Self::Never => false,
            Self::Always => after != After::Text,
            Self::FirstMissing => after == After::Nothing && missing,
            Self::AlwaysMissing => after != After::Text && missing,
        }
    }
}

/// SentencePiece's mark for a space. Tokens are kept with plain spaces, and in text the mark is a space.
pub(crate) const SPACE_MARK: &str = "\u{2581}";

/// `text` with plain spaces for marks, and one more in front where `prefix` puts it.
pub(crate) fn plain_spaces(text: Cow<'_, str>, prefix: Prefix, after: After) -> Cow<'_, str> {
    let marked = text.contains(SPACE_MARK);
    let space = prefix.wanted(&text, after);
    if !marked && !space {
        return text;
    }
    let mut plain = String::with_capacity(text.len() + 1);
    if space {
        plain.push(' ');
    }
    let mut parts = text.split(SPACE_MARK);
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push(' ');
        plain.push_str(part);
    }
    Cow::Owned(plain)
}

/// Cuts `text` before each space that follows something else, and where a part would be too long.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    let parts = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let bytes = rest.as_bytes();
        let word = bytes.iter().position(|&byte| byte != b' ').unwrap_or(bytes.len());
        let end = bytes[word..].iter().position(|&byte| byte == b' ').map_or(bytes.len(), |len| word + len);
        let (part, tail) = rest.split_at(end);
        rest = tail;
        Some(part)
    });
    parts.flat_map(bounded)
}

/// A merge as a file writes it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule<'m> {
    /// `left right`.
    Line(&'m str),
    /// The two apart.
    Pair(&'m str, &'m str),
}

/// Two tokens and the one they make.
type Resolved = ((u32, u32), u32);

impl Rule<'_> {
    /// The two tokens and the third; `None` where one of them is special, which text must not become.
    fn resolve(
        self,
        index: usize,
        vocabulary: &Vocabulary,
        symbols: Symbols,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<Resolved>, Error> {
        let written = || match self {
            Self::Line(line) => shown(line),
            Self::Pair(left, right) => shown(&format!("{left} {right}")),
        };
        let (left, right) = match self {
            Self::Pair(left, right) => Some((left, right)),
            // A token may begin with a space of its own, so the first character never separates.
            Self::Line(line) => line
                .char_indices()
                .skip(1)
                .find(|&(_, character)| character == ' ')
                .map(|(at, _)| (&line[..at], &line[at + 1..])),
        }
        .filter(|(left, right)| !left.is_empty() && !right.is_empty())
        .ok_or_else(|| Error::MergeShape { index, merge: written() })?;
        scratch.clear();
        let missing = |part: &str| Error::Merge { index, merge: written(), missing: shown(part) };
        spell(left, symbols, scratch).ok_or_else(|| missing(left))?;
        let middle = scratch.len();
        spell(right, symbols, scratch).ok_or_else(|| missing(right))?;
        let find = |bytes: &[u8], part: &str| match vocabulary.word(bytes) {
            None if vocabulary.special(part).is_none() => Err(missing(part)),
            found => Ok(found),
        };
        let (first, second) = (find(&scratch[..middle], left)?, find(&scratch[middle..], right)?);
        let merged = match vocabulary.word(scratch) {
            Some(id) => Some(id),
            None => find(scratch, &format!("{left}{right}"))?,
        };
        Ok(first.zip(second).zip(merged))
    }
}

/// Appends the bytes that a token's text stands for; `None` when text can never become it.
fn spell(token: &str, symbols: Symbols, bytes: &mut Vec<u8>) -> Option<()> {
    if symbols == Symbols::Bytes {
        return alphabet::spell(token, bytes).then_some(());
    }
    if token.contains(' ') {
        return None;
    }
    push_plain(token, bytes);
    Some(())
}

/// Appends `token` with plain spaces for marks.
fn push_plain(token: &str, bytes: &mut Vec<u8>) {
    let mut parts = token.split(SPACE_MARK);
    bytes.extend(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        bytes.push(b' ');
        bytes.extend(part.as_bytes());
    }
}

/// Adds a token of text written in the byte alphabet. One that is not written in it can only be decoded, as it stands.
pub(crate) fn push_bytes_token(vocabulary: &mut Vocabulary, token: &str, scratch: &mut Vec<u8>) -> Result<(), Error> {
    scratch.clear();
    if alphabet::spell(token, scratch) {
        vocabulary.push(scratch, Kind::Normal, Reach::Word)?;
    } else {
        vocabulary.push(token.as_bytes(), Kind::Normal, Reach::Nothing)?;
    }
    Ok(())
}

/// Adds a token of text written with SentencePiece's mark. One with a plain space can only be decoded.
pub(crate) fn push_marked_token(vocabulary: &mut Vocabulary, token: &str, scratch: &mut Vec<u8>) -> Result<(), Error> {
    scratch.clear();
    push_plain(token, scratch);
    let reach = if token.contains(' ') { Reach::Nothing } else { Reach::Word };
    vocabulary.push(scratch, Kind::Normal, reach)?;
    Ok(())
}

/// The byte that a byte token's name gives: `<0x0A>`.
pub(crate) fn named_byte(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    let hexadecimal = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    hexadecimal.then(|| u8::from_str_radix(digits, 16).ok())?
}

/// Whether no token of text has a space after something else, so that no merge crosses from a word to the next.
pub(crate) fn words_are_apart(vocabulary: &Vocabulary) -> bool {
    vocabulary.kinds().filter(|&(_, kind)| kind == Kind::Normal).all(|(id, _)| {
        let bytes = vocabulary.bytes(id).unwrap_or_default();
        !bytes.windows(2).any(|pair| pair[0] != b' ' && pair[1] == b' ')
    })
}
