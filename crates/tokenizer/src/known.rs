//! Names of special tokens that mean the same in every vocabulary that has them.
//!
//! Files often say which token ends a text but not which ends a turn. The lists are those that published models need.

use crate::vocabulary::Vocabulary;

/// Tokens that end a turn, the likeliest first.
const TURN_ENDS: [&str; 11] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];

/// Other tokens after which nothing more is to come.
const OTHER_ENDS: [&str; 14] = [
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "</s>",
    "<|eom_id|>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
];

/// Structure, whatever the file says.
const STRUCTURE: [&str; 26] = [
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
    "<fim-pad>",
    "<fim_pad>",
];

/// Structure that is shown as text, because what reads an answer finds its parts by it.
const SHOWN: [&str; 4] = ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// What a token's name alone says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Structure.
    Control,
    /// Structure that is shown.
    Shown,
}

/// What `name` alone says of a token.
pub(crate) fn known(name: &str) -> Option<Known> {
    let first = name.as_bytes().first()?;
    // The first bytes of all names above: a cheap look at each of 150,000 tokens.
    if !matches!(first, b'<' | b'[' | b'_' | 0xE2) {
        return None;
    }
    if SHOWN.contains(&name) {
        return Some(Known::Shown);
    }
    let control = TURN_ENDS.contains(&name) || OTHER_ENDS.contains(&name) || STRUCTURE.contains(&name);
    control.then_some(Known::Control)
}

/// The token that ends a turn, by name.
pub(crate) fn turn_end(vocabulary: &Vocabulary) -> Option<u32> {
    TURN_ENDS.iter().find_map(|name| vocabulary.special(name))
}

/// All tokens that end an answer: `given` and those known by name, ascending.
pub(crate) fn ends(vocabulary: &Vocabulary, given: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let has = |name: &str| vocabulary.special(name).is_some();
    // Where an answer is made of messages, the end of one message is not the end of the answer.
    let messages = has("<|call|>") && has("<|return|>") || has("<|calls|>") && has("<|flush|>");
    let named = TURN_ENDS.iter().chain(&OTHER_ENDS).filter(|&&name| match name {
        "<|end|>" => !messages,
        "</s>" => !has("<|tool_response>"),
        _ => true,
    });
    let mut ends: Vec<u32> = named.filter_map(|name| vocabulary.special(name)).chain(given).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}
