//! SentencePiece's byte-pair encoding: the pair that makes the best-scored token is merged first.
//!
//! Unlike `bpe`, there is no list of merges: any two neighbours that together spell a token may merge.
//! Follows <https://github.com/google/sentencepiece> (`bpe_model.cc`). The unigram kind is in `unigram`.

use std::borrow::Cow;

use crate::bpe::{After, Prefix, plain_spaces, words, words_are_apart};
use crate::error::Error;
use crate::merge::{Merge, NO_TOKEN, Word, bounded};
use crate::vocabulary::{Kind, Vocabulary};

/// Text to ids by scores.
#[derive(Debug)]
pub(crate) struct Spm {
    /// For each token its turn: the order of scores, best first.
    ranks: Vec<u32>,
    bytes: Box<[u32; 256]>,
    unknown: Option<u32>,
    space: Prefix,
    words_apart: bool,
}

impl Spm {
    /// Of a vocabulary whose words and byte tokens are already in. `scores`: one for each token. `space`: whether one
    /// is put before text.
    pub(crate) fn new(
        vocabulary: &Vocabulary,
        scores: &[f64],
        unknown: Option<u32>,
        space: bool,
    ) -> Result<Self, Error> {
        let ranks = scores.iter().enumerate().map(|(id, &score)| rank(id, score)).collect::<Result<_, _>>()?;
        let mut bytes = Box::new([NO_TOKEN; 256]);
        for (id, _) in vocabulary.kinds().filter(|&(_, kind)| kind == Kind::Byte) {
            if let Some(&[byte]) = vocabulary.bytes(id) {
                bytes[byte as usize] = id;
            }
        }
        let space = if space { Prefix::Always } else { Prefix::Never };
        Ok(Self { ranks, bytes, unknown, space, words_apart: words_are_apart(vocabulary) })
    }

    /// Appends the ids of `text`, which holds no special tokens.
    pub(crate) fn encode(&self, vocabulary: &Vocabulary, text: &str, after: After, ids: &mut Vec<u32>) {
        let text = plain_spaces(Cow::Borrowed(text), self.space, after);
        let mut word = Word::default();
        if self.words_apart {
            words(&text).for_each(|part| self.encode_word(vocabulary, part, &mut word, ids));
        } else {
            bounded(&text).for_each(|part| self.encode_word(vocabulary, part, &mut word, ids));
        }
    }

    fn encode_word(&self, vocabulary: &Vocabulary, text: &str, word: &mut Word, ids: &mut Vec<u32>) {
        let bytes = text.as_bytes();
        word.clear();
        for (at, character) in text.char_indices() {
            let len = character.len_utf8();
            word.push(at, len, vocabulary.word(&bytes[at..at + len]).unwrap_or(NO_TOKEN));
        }
        let symbols = word.merge(|left, right| {
            let spelled = &bytes[left.start as usize..(right.start + right.len) as usize];
            let id = vocabulary.word(spelled)?;
            Some(Merge { rank: self.ranks[id as usize], id })
        });
        for symbol in symbols {
            let spelled = &bytes[symbol.start as usize..(symbol.start + symbol.len) as usize];
            match symbol.id {
                NO_TOKEN if spelled.iter().all(|&byte| self.bytes[byte as usize] != NO_TOKEN) => {
                    ids.extend(spelled.iter().map(|&byte| self.bytes[byte as usize]));
                }
                NO_TOKEN => ids.extend(self.unknown),
                id => ids.push(id),
            }
        }
    }
}

/// A whole number that is smaller for a better score. Equal scores give equal ranks: then the leftmost pair goes first.
fn rank(id: usize, score: f64) -> Result<u32, Error> {
    if score.is_nan() {
        return Err(Error::Score { id });
    }
    let bits = (score as f32 + 0.0).to_bits(); // -0.0 becomes 0.0
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    Ok(!ascending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_scores_have_smaller_ranks() {
        let scores = [f64::INFINITY, 5.0, 0.5, 0.0, -0.5, -10.0, -1e30, f64::NEG_INFINITY];
        let ranks: Vec<u32> = scores.iter().map(|&score| rank(0, score).unwrap()).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
        assert_eq!(rank(0, -0.0).unwrap(), rank(0, 0.0).unwrap());
        assert!(ranks[7] < u32::MAX);
        assert!(rank(7, f64::NAN).unwrap_err().to_string().contains("token 7"));
    }
}
