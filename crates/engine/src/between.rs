//! What stands between two texts: how models that were trained for it are asked.

use kauri_tokenizer::{Special, Tokenizer};

/// Marks of known vocabularies, before the text before, before the text behind, and where the model goes on (Bavarian et al. 2022,
/// "Efficient Training of Language Models to Fill in the Middle"). At most one of these is in any vocabulary.
const MARKS: [[&str; 3]; 7] = [
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
    ["<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"],
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
    ["▁<PRE>", "▁<SUF>", "▁<MID>"],
    ["<PRE>", "<SUF>", "<MID>"],
];

/// The prompt: text before and text behind, each behind its mark. No part of the texts becomes a special token.
pub(crate) fn tokens(tokenizer: &Tokenizer, before: &str, after: &str) -> Option<Vec<u32>> {
    let ids = |marks: &[&str; 3]| -> Option<[u32; 3]> {
        let [first, second, third] = marks.map(|mark| tokenizer.id_of(mark));
        Some([first?, second?, third?])
    };
    let [prefix, suffix, middle] = MARKS.iter().find_map(ids)?;
    let text = |text: &str| tokenizer.encode(text, Special::Text);
    let parts = [tokenizer.prefix(), &[prefix], &text(before), &[suffix], &text(after), &[middle]];
    Some(parts.concat())
}
