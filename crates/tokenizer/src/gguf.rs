//! A tokenizer from the metadata of a GGUF file: the keys `tokenizer.ggml.*`.
//!
//! Key names and defaults are those of <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md> and of the files
//! that the usual converter writes.

use kauri_formats::Metadata;
use kauri_formats::metadata::Strings;

use crate::bpe::{self, Bpe, Prefix, Rule, Symbols, words_are_apart};
use crate::charsmap::Charsmap;
use crate::error::Error;
use crate::known::{self, Known, known};
use crate::special::{Named, SpecialTokens, is_markup};
use crate::split::{self, Splitter};
use crate::spm::Spm;
use crate::unigram::{Normal, Unigram};
use crate::vocabulary::{Kind, Reach, Vocabulary};
use crate::wordpiece::{Style, WordPiece};
use crate::{Inner, Model};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";

/// Reads a vocabulary and what goes with it.
pub(crate) fn read(metadata: &Metadata) -> Result<Inner, Error> {
    let model = text(metadata, MODEL)?.ok_or(Error::Missing { key: MODEL })?;
    match model {
        "gpt2" | "gemma4" => bpe(metadata, model),
        "llama" => spm(metadata),
        "t5" => unigram(metadata),
        "bert" => wordpiece(metadata),
        other => Err(Error::UnknownModel(crate::error::shown(other))),
    }
}

fn bpe(metadata: &Metadata, model: &str) -> Result<Inner, Error> {
    let name = text(metadata, PRE)?.unwrap_or("default");
    let characters = model == "gemma4" || matches!(name, "gemma4" | "sarvam-moe" | "granite-embed-multi-311m");
    let rule = if characters { split::LINES } else { named_rule(name)? };
    let vocabulary = vocabulary(metadata, if characters { Spelling::Marked } else { Spelling::Bytes })?;
    let merges = strings(metadata, MERGES)?.ok_or(Error::Missing { key: MERGES })?;
    let style = bpe::Style {
        symbols: if characters { Symbols::Characters } else { Symbols::Bytes },
        whole_words: rule.whole_words,
        nfc: rule.nfc,
        prefix: match metadata.bool(SPACE_PREFIX) {
            Some(true) if characters => Prefix::Always,
            _ => Prefix::Never,
        },
        words_apart: characters && words_are_apart(&vocabulary),
    };
    let splitter = Splitter::new(rule.patterns.iter().copied())?;
    let unknown = id(metadata, UNKNOWN, &vocabulary);
    let rules = Lines { lines: merges, next: 0 };
    let model = Model::Bpe(Bpe::new(&vocabulary, rules, unknown, splitter, style)?);
    finish(metadata, vocabulary, model, Habits { add_bos: rule.add_bos, ..Habits::default() })
}

fn spm(metadata: &Metadata) -> Result<Inner, Error> {
    let vocabulary = vocabulary(metadata, Spelling::Marked)?;
    let space = metadata.bool(SPACE_PREFIX).unwrap_or(true);
    let unknown = id(metadata, UNKNOWN, &vocabulary).or_else(|| in_range(0, &vocabulary));
    let model = Model::Spm(Spm::new(&vocabulary, &scores(metadata, &vocabulary)?, unknown, space)?);
    let habits = Habits { bos: Some(1), eos: Some(2), add_bos: true, drops_space: space, ..Habits::default() };
    finish(metadata, vocabulary, model, habits)
}

fn unigram(metadata: &Metadata) -> Result<Inner, Error> {
    let vocabulary = vocabulary(metadata, Spelling::Marked)?;
    let charsmap = optional(metadata, CHARSMAP, "an array of bytes", Metadata::i64s)?.unwrap_or_default();
    let charsmap: Vec<u8> = charsmap.into_iter().map(|value| value as u8).collect();
    let normal = Normal {
        charsmap: Charsmap::parse(&charsmap)?,
        space_before: metadata.bool(SPACE_PREFIX).unwrap_or(false),
        single_spaces: metadata.bool("tokenizer.ggml.remove_extra_whitespaces").unwrap_or(false),
    };
    let drops_space = normal.space_before;
    let unknown = id(metadata, UNKNOWN, &vocabulary).or_else(|| in_range(2, &vocabulary));
    let unknown = unknown.ok_or(Error::Missing { key: UNKNOWN })?;
    let model = Unigram::new(&vocabulary, &scores(metadata, &vocabulary)?, unknown, normal)?;
    let habits = Habits { eos: Some(1), pad: Some(0), add_eos: true, drops_space, ..Habits::default() };
    finish(metadata, vocabulary, Model::Unigram(model), habits)
}

fn wordpiece(metadata: &Metadata) -> Result<Inner, Error> {
    let vocabulary = vocabulary(metadata, Spelling::Marked)?;
    let unknown = id(metadata, UNKNOWN, &vocabulary).or_else(|| in_range(100, &vocabulary));
    let unknown = unknown.ok_or(Error::Missing { key: UNKNOWN })?;
    let lowercase = metadata.bool("tokenizer.ggml.normalizer.lowercase").unwrap_or(true);
    let strip_accents = metadata.bool("tokenizer.ggml.normalizer.strip_accents").unwrap_or(lowercase);
    let model = Model::WordPiece(WordPiece::new(unknown, Style { lowercase, strip_accents })?);
    let separator = ["tokenizer.ggml.seperator_token_id", "tokenizer.ggml.separator_token_id"]; // the format's spelling
    let separator = separator.iter().find_map(|key| id(metadata, key, &vocabulary));
    let habits = Habits {
        bos: id(metadata, "tokenizer.ggml.cls_token_id", &vocabulary).or(Some(101)),
        pad: Some(0),
        add_bos: true,
        suffix: separator.or_else(|| in_range(102, &vocabulary)),
        ..Habits::default()
    };
    finish(metadata, vocabulary, model, habits)
}

/// What a kind of vocabulary does unless the file says otherwise.
#[derive(Clone, Copy, Default)]
struct Habits {
    bos: Option<u32>,
    eos: Option<u32>,
    pad: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    /// Always put last.
    suffix: Option<u32>,
    /// The first space of a text only joins words.
    drops_space: bool,
}

fn finish(metadata: &Metadata, vocabulary: Vocabulary, model: Model, habits: Habits) -> Result<Inner, Error> {
    let default = |id: Option<u32>| id.and_then(|id| in_range(id, &vocabulary));
    let bos = checked(metadata, BOS, &vocabulary)?.or(default(habits.bos));
    let eos = checked(metadata, EOS, &vocabulary)?.or(default(habits.eos));
    let eot = id(metadata, "tokenizer.ggml.eot_token_id", &vocabulary).or_else(|| known::turn_end(&vocabulary));
    let eom = id(metadata, "tokenizer.ggml.eom_token_id", &vocabulary);
    let pad = id(metadata, "tokenizer.ggml.padding_token_id", &vocabulary).or(default(habits.pad));
    let add_bos = metadata.bool(ADD_BOS).unwrap_or(habits.add_bos);
    let add_eos = metadata.bool(ADD_EOS).unwrap_or(habits.add_eos);
    let suffix = if add_eos { eos } else { habits.suffix };
    Ok(Inner {
        special: SpecialTokens::new(named_tokens(metadata, &vocabulary))?,
        prefix: bos.filter(|_| add_bos).into_iter().collect(),
        suffix: suffix.into_iter().collect(),
        ends: known::ends(&vocabulary, [eos, eot, eom].into_iter().flatten()),
        drops_space: habits.drops_space,
        vocabulary,
        model,
        bos,
        eos,
        eot,
        pad,
    })
}

/// How the file writes tokens of text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// In the byte alphabet.
    Bytes,
    /// With a mark for a space.
    Marked,
}

fn vocabulary(metadata: &Metadata, spelling: Spelling) -> Result<Vocabulary, Error> {
    let tokens = strings(metadata, TOKENS)?.ok_or(Error::Missing { key: TOKENS })?;
    let types = optional(metadata, TYPES, "an array of integers", Metadata::i64s)?;
    if let Some(types) = &types {
        same_length(TYPES, types.len(), tokens.len())?;
    }
    let mut vocabulary = Vocabulary::with_capacity(tokens.len())?;
    let mut scratch = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match kind(types.as_ref().map_or(1, |types| types[index]), token) {
            Kind::Normal if token.is_empty() => drop(vocabulary.push(b"", Kind::Unused, Reach::Nothing)?),
            Kind::Normal if spelling == Spelling::Bytes => {
                bpe::push_bytes_token(&mut vocabulary, token, &mut scratch)?;
            }
            Kind::Normal => bpe::push_marked_token(&mut vocabulary, token, &mut scratch)?,
            Kind::Byte => match bpe::named_byte(token) {
                Some(byte) => drop(vocabulary.push(&[byte], Kind::Byte, Reach::Nothing)?),
                None => drop(vocabulary.push(token.as_bytes(), Kind::Normal, Reach::Nothing)?),
            },
            Kind::Unused => drop(vocabulary.push(b"", Kind::Unused, Reach::Nothing)?),
            kind => drop(vocabulary.push(token.as_bytes(), kind, Reach::Special)?),
        }
    }
    Ok(vocabulary)
}

/// The kind that `tokenizer.ggml.token_type` gives, put right by what the name alone says.
fn kind(type_: i64, token: &str) -> Kind {
    match known(token) {
        Some(Known::Control) => return Kind::Control,
        Some(Known::Shown) => return Kind::UserDefined,
        None => {}
    }
    match type_ {
        1 => Kind::Normal,
        2 if !token.is_empty() => Kind::Unknown,
        3 if !token.is_empty() => Kind::Control,
        4 if !token.is_empty() => Kind::UserDefined,
        6 => Kind::Byte,
        _ => Kind::Unused,
    }
}

fn named_tokens(metadata: &Metadata, vocabulary: &Vocabulary) -> Vec<Named> {
    // Phi-3's role markers take the line end after them along; the file does not say so anywhere else.
    let name = metadata.str("general.name").unwrap_or_default().to_lowercase();
    let phi3 = name.contains("phi-3") || name.contains("phi3");
    let special = |kind| matches!(kind, Kind::Control | Kind::Unknown | Kind::UserDefined);
    let named = |(id, kind): (u32, Kind)| {
        let text = String::from_utf8_lossy(vocabulary.bytes(id)?).into_owned();
        let strip_right = phi3 && !matches!(&*text, "<unk>" | "<s>" | "<|endoftext|>");
        let in_text = kind == Kind::UserDefined && !is_markup(&text);
        Some(Named { text, id, strip_left: false, strip_right, single_word: false, in_text })
    };
    vocabulary.kinds().filter(|&(_, kind)| special(kind)).filter_map(named).collect()
}

fn named_rule(name: &str) -> Result<split::Named, Error> {
    split::named(name).ok_or_else(|| Error::UnknownSplit(crate::error::shown(name)))
}

fn scores(metadata: &Metadata, vocabulary: &Vocabulary) -> Result<Vec<f64>, Error> {
    let scores = optional(metadata, SCORES, "an array of numbers", Metadata::f64s)?;
    let scores = scores.ok_or(Error::Missing { key: SCORES })?;
    same_length(SCORES, scores.len(), vocabulary.len())?;
    Ok(scores)
}

fn same_length(key: &'static str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Length { key, found, expected }) }
}

fn text<'m>(metadata: &'m Metadata, key: &'static str) -> Result<Option<&'m str>, Error> {
    optional(metadata, key, "text", Metadata::str)
}

fn strings<'m>(metadata: &'m Metadata, key: &'static str) -> Result<Option<&'m Strings>, Error> {
    optional(metadata, key, "an array of strings", Metadata::strings)
}

/// A value that may be missing but not of another type.
fn optional<'m, T>(
    metadata: &'m Metadata,
    key: &'static str,
    expected: &'static str,
    get: impl Fn(&'m Metadata, &str) -> Option<T>,
) -> Result<Option<T>, Error> {
    match get(metadata, key) {
        None if metadata.get(key).is_some() => Err(Error::Type { key, expected }),
        value => Ok(value),
    }
}

/// A special token's id; one outside the vocabulary is an error.
fn checked(metadata: &Metadata, key: &'static str, vocabulary: &Vocabulary) -> Result<Option<u32>, Error> {
    let Some(id) = metadata.u64(key) else { return Ok(None) };
    if id < vocabulary.len() as u64 {
        return Ok(Some(id as u32));
    }
    Err(Error::Id { key, id, count: vocabulary.len() })
}

/// A special token's id that is not needed; one outside the vocabulary, as some files have for "none", is none.
fn id(metadata: &Metadata, key: &str, vocabulary: &Vocabulary) -> Option<u32> {
    metadata.u64(key).and_then(|id| u32::try_from(id).ok()).and_then(|id| in_range(id, vocabulary))
}

fn in_range(id: u32, vocabulary: &Vocabulary) -> Option<u32> {
    ((id as usize) < vocabulary.len()).then_some(id)
}

/// Merges in the file's order.
struct Lines<'m> {
    lines: &'m Strings,
    next: usize,
}

impl<'m> Iterator for Lines<'m> {
    type Item = Rule<'m>;

    fn next(&mut self) -> Option<Rule<'m>> {
        let line = self.lines.get(self.next)?;
        self.next += 1;
        Some(Rule::Line(line))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.lines.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Lines<'_> {}
