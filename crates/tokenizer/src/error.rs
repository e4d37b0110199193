//! What can be wrong with a vocabulary, said so that a person can act on it.

/// Why a tokenizer could not be made. Encoding and decoding themselves never fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key that every vocabulary needs is not there.
    #[error("{key} is missing: this file carries no usable vocabulary")]
    Missing {
        /// The metadata key or the JSON path.
        key: &'static str,
    },
    /// A key holds another type of value.
    #[error("{key} should be {expected}")]
    Type {
        /// The metadata key or the JSON path.
        key: &'static str,
        /// What belongs there.
        expected: &'static str,
    },
    /// An array that goes with the tokens is shorter or longer than they are.
    #[error("{key} has {found} entries for {expected} tokens")]
    Length {
        /// The metadata key.
        key: &'static str,
        /// How many there are.
        found: usize,
        /// How many tokens there are.
        expected: usize,
    },
    /// A size over the limit.
    #[error("{what} is {found}, over the limit of {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The count.
        found: u64,
        /// The most that is accepted.
        limit: u64,
    },
    /// `tokenizer.ggml.model` names a kind that is not implemented.
    #[error("tokenizer.ggml.model is \"{0}\": known are gpt2, gemma4, llama, t5 and bert")]
    UnknownModel(String),
    /// `tokenizer.ggml.pre` names a splitting rule that is not known.
    #[error("tokenizer.ggml.pre is \"{0}\", a splitting rule that is not known: a newer release may know it")]
    UnknownSplit(String),
    /// A merge rule is not two tokens of the vocabulary that give a third.
    #[error("merge {index}, {merge:?}, needs the token {missing:?}, which the vocabulary does not have")]
    Merge {
        /// Its place in the list.
        index: usize,
        /// The rule as written.
        merge: String,
        /// The token that is missing.
        missing: String,
    },
    /// A merge rule is not two parts.
    #[error("merge {index}, {merge:?}, is not two tokens separated by a space")]
    MergeShape {
        /// Its place in the list.
        index: usize,
        /// The rule as written.
        merge: String,
    },
    /// Two ids have the same text, so that text has no one encoding.
    #[error("token {text:?} appears twice in the vocabulary, as ids {first} and {second}")]
    Duplicate {
        /// The token.
        text: String,
        /// The smaller id.
        first: u32,
        /// The larger id.
        second: u32,
    },
    /// A special token's id is outside the vocabulary.
    #[error("{key} is {id}, but the vocabulary has {count} tokens")]
    Id {
        /// The metadata key or the JSON path.
        key: &'static str,
        /// The id.
        id: u64,
        /// How many tokens there are.
        count: usize,
    },
    /// A score is not a number.
    #[error("tokenizer.ggml.scores: the score of token {id} is not a number")]
    Score {
        /// The token.
        id: usize,
    },
    /// The normalisation table of a unigram vocabulary points outside itself.
    #[error("the precompiled character map is damaged: {0}")]
    Charsmap(&'static str),
    /// `tokenizer.json` is not what it should be.
    #[error("tokenizer.json: {0}")]
    Json(String),
    /// A splitting pattern that cannot be run in linear time.
    #[error("tokenizer.json: the pattern {pattern:?} cannot be used ({reason})")]
    Pattern {
        /// The pattern, shortened.
        pattern: String,
        /// What the regex engine says.
        reason: String,
    },
    /// A directory without `tokenizer.json`.
    #[error("there is no tokenizer.json beside the weights: copy it from where the model came from")]
    NoTokenizer,
}

/// A piece of outside text, short enough for one line.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
