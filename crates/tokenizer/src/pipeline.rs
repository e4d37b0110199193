//! Every other `tokenizer.json`, on the `tokenizers` crate, behind checks that keep a hostile file from harm.
//!
//! That crate trusts its input: it indexes where a damaged file points, and some of its steps take time or memory without
//! bound. What could do so is refused here by name, before it sees the file. Special tokens never reach it.

use serde_json::Value as Json;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{ModelWrapper, Tokenizer};

use crate::bpe::After;
use crate::charsmap::Charsmap;
use crate::error::{Error, shown};
use crate::json::{File, Merge, Vocab, visit};
use crate::split::Splitter;
use crate::vocabulary::{Kind, TOKEN_BYTES_MAX, Vocabulary, limit};

/// Text to ids by the steps that a file lists.
pub(crate) struct Pipeline {
    /// For the first text.
    first: Tokenizer,
    /// For text after something else, where that differs.
    later: Option<Tokenizer>,
    kind: &'static str,
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pipeline").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The longest word, in characters, that WordPiece looks at: its time grows with the square.
const WORD_CHARACTERS_MAX: u64 = 1000;
/// How much longer text may become by replacements, all steps together.
const GROWTH_MAX: usize = 64;
/// The most steps of one kind.
const STEPS_MAX: usize = 32;

const NORMALIZERS: [&str; 13] = [
    "BertNormalizer",
    "Strip",
    "StripAccents",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Lowercase",
    "Nmt",
    "Precompiled",
    "Replace",
    "Prepend",
    "ByteLevel",
];
const PRE_TOKENIZERS: [&str; 10] = [
    "BertPreTokenizer",
    "ByteLevel",
    "CharDelimiterSplit",
    "Metaspace",
    "Whitespace",
    "WhitespaceSplit",
    "Split",
    "Punctuation",
    "Digits",
    "UnicodeScripts",
];

impl Pipeline {
    /// Of a file that was read as `file`.
    pub(crate) fn new(json: &[u8], file: &File<'_>) -> Result<Self, Error> {
        let kind = check_model(file)?;
        check_steps(&file.normalizer, "normalizer", &NORMALIZERS)?;
        check_steps(&file.pre_tokenizer, "pre_tokenizer", &PRE_TOKENIZERS)?;
        check_growth(&file.normalizer)?;
        let whole = Tokenizer::from_bytes(json).map_err(|error| Error::Json(shown(&error.to_string())))?;
        let first = without_added(&whole, whole.get_pre_tokenizer().cloned())?;
        let mut later = file.pre_tokenizer.clone();
        let later = if spaces_later_text_alike(&mut later) {
            None
        } else {
            let step: PreTokenizerWrapper =
                serde_json::from_value(later).map_err(|error| Error::Json(shown(&error.to_string())))?;
            Some(without_added(&whole, Some(step))?)
        };
        Ok(Self { first, later, kind })
    }

    /// Appends the ids of `text`. Text that the model itself would turn into a special token is spelled character by
    /// character, so that it does not.
    pub(crate) fn encode(&self, vocabulary: &Vocabulary, text: &str, after: After, ids: &mut Vec<u32>) {
        let tokenizer = self.later.as_ref().filter(|_| after != After::Nothing).unwrap_or(&self.first);
        let forged = |id: &u32| vocabulary.kind(*id).is_none_or(|kind| kind == Kind::Control);
        // An error is a word that cannot be spelled where the model has no unknown token: it gives nothing.
        let Ok(encoding) = tokenizer.encode_fast(text, false) else {
            return;
        };
        if !encoding.get_ids().iter().any(forged) {
            ids.extend(encoding.get_ids());
            return;
        }
        for character in text.chars() {
            if let Ok(encoding) = tokenizer.encode_fast(character.encode_utf8(&mut [0; 4]) as &str, false) {
                ids.extend(encoding.get_ids().iter().filter(|id| !forged(id)));
            }
        }
    }

    /// As [`crate::Tokenizer::kind`] names it.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }
}

/// The same steps without the added tokens, which are found before text comes here.
fn without_added(whole: &Tokenizer, pre_tokenizer: Option<PreTokenizerWrapper>) -> Result<Tokenizer, Error> {
    let model: ModelWrapper = whole.get_model().clone();
    let mut tokenizer = Tokenizer::new(model);
    tokenizer
        .with_normalizer(whole.get_normalizer().cloned())
        .map_err(|error| Error::Json(shown(&error.to_string())))?;
    tokenizer.with_pre_tokenizer(pre_tokenizer);
    Ok(tokenizer)
}

/// Turns "a space before the first text" into "never" and says whether there was none to turn.
fn spaces_later_text_alike(step: &mut Json) -> bool {
    let mut alike = true;
    match step {
        Json::Object(fields) => {
            for (key, value) in fields {
                if key == "prepend_scheme" && value == "first" {
                    *value = "never".into();
                    alike = false;
                } else {
                    alike &= spaces_later_text_alike(value);
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| alike &= spaces_later_text_alike(item)),
        _ => {}
    }
    alike
}

fn check_model(file: &File<'_>) -> Result<&'static str, Error> {
    let model = &file.model;
    let refuse = |what: &str| Err(Error::Json(what.to_owned()));
    if model.dropout.is_some_and(|dropout| dropout != 0.0) {
        return refuse("the model drops merges at random (dropout), so text would have no one encoding");
    }
    for (token, _) in model.vocab.tokens() {
        limit("the length of a token in bytes", token.len(), TOKEN_BYTES_MAX)?;
        if token.is_empty() {
            return refuse("a token of the model is empty");
        }
    }
    let ids = matches!(model.vocab, Vocab::Ids(_));
    match model.kind() {
        "BPE" if ids => check_merges(file).map(|()| "bpe"),
        "WordPiece" if ids => {
            let most = model.max_input_chars_per_word.unwrap_or(100);
            limit(
                "model.max_input_chars_per_word",
                most.try_into().unwrap_or(usize::MAX),
                WORD_CHARACTERS_MAX as usize,
            )?;
            Ok("wordpiece")
        }
        "WordLevel" if ids => Ok("wordpiece"),
        "Unigram" if !ids => {
            let id = model.unk_id.unwrap_or(0);
            if id >= model.vocab.len() as u64 {
                return Err(Error::Id { key: "model.unk_id", id, count: model.vocab.len() });
            }
            Ok("spm")
        }
        other => refuse(&format!("the model \"{}\" is not known, or its vocabulary has another form", shown(other))),
    }
}

/// Every merge is two tokens of the vocabulary that give a third.
fn check_merges(file: &File<'_>) -> Result<(), Error> {
    let model = &file.model;
    let tokens: hashbrown::HashSet<&str> = model.vocab.tokens().map(|(token, _)| token).collect();
    let prefix = model.continuing_subword_prefix.as_ref().map_or("", |prefix| prefix.as_str());
    for (index, merge) in model.merges.iter().enumerate() {
        let (left, right) = match merge {
            Merge::Pair(left, right) => (left.as_str(), right.as_str()),
            Merge::Line(line) => {
                let merge = || Error::MergeShape { index, merge: shown(line.as_str()) };
                line.as_str().split_once(' ').ok_or_else(merge)?
            }
        };
        let missing =
            |missing: &str| Error::Merge { index, merge: shown(&format!("{left} {right}")), missing: shown(missing) };
        let rest = right.strip_prefix(prefix).ok_or_else(|| missing(&format!("{prefix}{right}")))?;
        let merged = format!("{left}{rest}");
        if let Some(absent) = [left, right, &merged].into_iter().find(|token| !tokens.contains(token)) {
            return Err(missing(absent));
        }
    }
    Ok(())
}

fn check_steps(component: &Json, key: &'static str, known: &[&str]) -> Result<(), Error> {
    let mut steps = Vec::new();
    visit(component, &mut |step| steps.push(step));
    limit("the number of steps in tokenizer.json", steps.len(), STEPS_MAX)?;
    for step in steps {
        let kind = step.get("type").and_then(Json::as_str).unwrap_or("without a type");
        if !known.contains(&kind) {
            return Err(Error::Json(format!("{key}: the step \"{}\" is not known", shown(kind))));
        }
        if let Some(regex) = step.get("pattern").and_then(|pattern| pattern.get("Regex")?.as_str()) {
            // Only patterns without look-around: those run in linear time on that crate's engine too.
            Splitter::new([regex])?;
            if regex.contains("(?!") {
                return Err(Error::Pattern {
                    pattern: shown(regex),
                    reason: "look-ahead in an unusual pipeline".into(),
                });
            }
        }
        if kind == "Precompiled" {
            let map = step.get("precompiled_charsmap").and_then(Json::as_str).unwrap_or_default();
            let bytes = base64(map).ok_or(Error::Charsmap("it is not base64"))?;
            Charsmap::parse(&bytes)?;
            if bytes.is_empty() {
                return Err(Error::Charsmap("it is empty"));
            }
        }
    }
    Ok(())
}

/// Replacements may make text longer, but not without bound.
fn check_growth(normalizer: &Json) -> Result<(), Error> {
    let mut growth = 1usize;
    visit(normalizer, &mut |step| {
        let text = |key: &str| step.get(key).and_then(Json::as_str).map_or(0, str::len);
        growth = growth.saturating_mul(text("content").max(1)).saturating_add(text("prepend"));
    });
    limit("the growth of text by normalizer steps", growth, GROWTH_MAX)
}

/// Bytes written in base64, with or without padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for &digit in group {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        if group.len() == 1 {
            return None;
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length() {
        assert_eq!(base64("").unwrap(), b"");
        assert_eq!(base64("TQ==").unwrap(), b"M");
        assert_eq!(base64("TWE=").unwrap(), b"Ma");
        assert_eq!(base64("TWFu").unwrap(), b"Man");
        assert_eq!(base64("TWFuTQ").unwrap(), b"ManM");
        assert!(base64("T").is_none() && base64("T-Fu").is_none());
    }
}
