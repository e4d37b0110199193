//! The steps of a pipeline around byte-pair encoding: which of them `bpe` does itself.

use serde_json::Value as Json;

use crate::bpe::{Prefix, SPACE_MARK, Symbols};
use crate::error::Error;
use crate::split::{GPT2, Splitter};

use super::file::{File, Text};

/// What happens to text before merging.
pub(crate) struct Steps {
    /// What a symbol begins as.
    pub(crate) symbols: Symbols,
    /// Text is brought to Unicode form NFC.
    pub(crate) nfc: bool,
    /// Splitting patterns, in order.
    pub(crate) patterns: Vec<String>,
    /// Where a space is put before text.
    pub(crate) prefix: Prefix,
}

impl Steps {
    /// The steps of `file`, when it is byte-pair encoding with steps that are known here.
    /// Errors: byte-level steps with a pattern that cannot run in linear time.
    pub(crate) fn of(file: &File<'_>) -> Result<Option<Self>, Error> {
        let model = &file.model;
        let empty = |text: &Option<Text<'_>>| text.as_ref().is_none_or(|text| text.as_str().is_empty());
        let plain = model.kind() == "BPE"
            && matches!(model.vocab, super::file::Vocab::Ids(_))
            && model.dropout.is_none_or(|dropout| dropout == 0.0)
            && empty(&model.continuing_subword_prefix)
            && empty(&model.end_of_word_suffix);
        if !plain {
            return Ok(None);
        }
        if model.byte_fallback {
            return Ok(marked(file));
        }
        let Some(steps) = bytes(file) else { return Ok(None) };
        Splitter::new(steps.patterns.iter().map(|pattern| &**pattern))?;
        Ok(Some(steps))
    }
}

/// Calls `each` with every step of a component: itself, or the members of a sequence, however nested.
pub(crate) fn visit<'j>(component: &'j Json, each: &mut dyn FnMut(&'j Json)) {
    let members = ["normalizers", "pretokenizers", "processors", "decoders"];
    if kind(component) == Some("Sequence") {
        let list = members.iter().find_map(|key| component.get(key)?.as_array());
        list.into_iter().flatten().for_each(|step| visit(step, each));
    } else if !component.is_null() {
        each(component);
    }
}

fn flat(component: &Json) -> Vec<&Json> {
    let mut steps = Vec::new();
    visit(component, &mut |step| steps.push(step));
    steps
}

/// The steps of byte-level BPE: perhaps NFC, then patterns, then bytes.
fn bytes(file: &File<'_>) -> Option<Steps> {
    let mut nfc = false;
    for step in flat(&file.normalizer) {
        match kind(step)? {
            "NFC" => nfc = true,
            _ => return None,
        }
    }
    let mut patterns = Vec::new();
    let steps = flat(&file.pre_tokenizer);
    let (last, before) = steps.split_last()?;
    for step in before {
        match kind(step)? {
            "Split" if is(step, "behavior", "Isolated") && !truth(step, "invert", false) => {
                patterns.push(pattern(step)?);
            }
            "Digits" if truth(step, "individual_digits", false) => patterns.push(r"\p{N}".to_owned()),
            "Digits" => patterns.push(r"\p{N}+".to_owned()),
            _ => return None,
        }
    }
    if kind(last)? != "ByteLevel" || truth(last, "add_prefix_space", true) {
        return None;
    }
    if truth(last, "use_regex", true) {
        patterns.push(GPT2.to_owned());
    }
    Some(Steps { symbols: Symbols::Bytes, nfc, patterns, prefix: Prefix::Never })
}

/// The steps of a SentencePiece vocabulary in BPE form: a mark for each space, perhaps one before the text.
fn marked(file: &File<'_>) -> Option<Steps> {
    let mut prefix = Prefix::Never;
    let mut replaced = false;
    for step in flat(&file.normalizer) {
        match kind(step)? {
            "Prepend" if is(step, "prepend", SPACE_MARK) => prefix = Prefix::Always,
            "Replace" if literal(step)? == " " && is(step, "content", SPACE_MARK) => replaced = true,
            _ => return None,
        }
    }
    for step in flat(&file.pre_tokenizer) {
        match kind(step)? {
            // Nothing is left to split at: the spaces are marks by now.
            "Split" if replaced && literal(step)? == " " => {}
            "Metaspace" if is(step, "replacement", SPACE_MARK) && !truth(step, "split", true) => {
                replaced = true;
                prefix = match step.get("prepend_scheme").and_then(Json::as_str)? {
                    "always" => Prefix::AlwaysMissing,
                    "first" => Prefix::FirstMissing,
                    "never" => Prefix::Never,
                    _ => return None,
                };
            }
            _ => return None,
        }
    }
    replaced.then_some(Steps { symbols: Symbols::Characters, nfc: false, patterns: Vec::new(), prefix })
}

fn kind(step: &Json) -> Option<&str> {
    step.get("type").and_then(Json::as_str)
}

fn is(step: &Json, key: &str, value: &str) -> bool {
    step.get(key).and_then(Json::as_str) == Some(value)
}

fn truth(step: &Json, key: &str, default: bool) -> bool {
    step.get(key).and_then(Json::as_bool).unwrap_or(default)
}

fn literal(step: &Json) -> Option<&str> {
    step.get("pattern")?.get("String")?.as_str()
}

/// A step's pattern; plain text is a pattern that matches itself.
fn pattern(step: &Json) -> Option<String> {
    match step.get("pattern")?.get("Regex") {
        Some(regex) => regex.as_str().map(str::to_owned),
        None => literal(step).map(regex::escape),
    }
}
