//! SentencePiece's unigram model: of all ways to cut a text into tokens, the most probable one.
//!
//! Viterbi over a trie of the tokens, one pass over the text. Follows <https://github.com/google/sentencepiece>
//! (`unigram_model.cc`, `normalizer.cc`).

use hashbrown::HashMap;

use crate::bpe::{After, words, words_are_apart};
use crate::charsmap::Charsmap;
use crate::error::Error;
use crate::merge::bounded;
use crate::vocabulary::{Kind, Vocabulary, limit};

/// Text to ids by probability.
#[derive(Debug)]
pub(crate) struct Unigram {
    trie: Trie,
    /// The logarithm of each token's probability.
    scores: Vec<f32>,
    unknown: u32,
    unknown_score: f64,
    normal: Normal,
    words_apart: bool,
}

/// How text is prepared.
#[derive(Debug)]
pub(crate) struct Normal {
    /// Replacements of characters.
    pub(crate) charsmap: Charsmap,
    /// A space is put before the text.
    pub(crate) space_before: bool,
    /// Runs of spaces become one, and those at the ends go.
    pub(crate) single_spaces: bool,
}

/// The longest token: every byte of a text may be read as often as this.
const TOKEN_BYTES_MAX: usize = 1024;
/// How much worse than the worst token the unknown one is. SentencePiece's number.
const UNKNOWN_PENALTY: f64 = 10.0;

impl Unigram {
    /// Of a vocabulary whose words are already in. `scores`: one for each token.
    pub(crate) fn new(vocabulary: &Vocabulary, scores: &[f64], unknown: u32, normal: Normal) -> Result<Self, Error> {
        if let Some(id) = scores.iter().position(|score| !score.is_finite()) {
            return Err(Error::Score { id });
        }
        limit("the length of a unigram token in bytes", vocabulary.longest_word(), TOKEN_BYTES_MAX)?;
        let mut trie = Trie::default();
        let mut worst = f64::MAX;
        for (id, kind) in vocabulary.kinds() {
            let bytes = vocabulary.bytes(id).unwrap_or_default();
            if kind == Kind::Normal && vocabulary.word(bytes) == Some(id) {
                worst = worst.min(scores[id as usize]);
                trie.insert(bytes, id);
            }
        }
        Ok(Self {
            trie,
            scores: scores.iter().map(|&score| score as f32).collect(),
            unknown,
            unknown_score: if worst == f64::MAX { 0.0 } else { worst } - UNKNOWN_PENALTY,
            normal,
            words_apart: words_are_apart(vocabulary),
        })
    }

    /// Appends the ids of `text`, which holds no special tokens.
    pub(crate) fn encode(&self, text: &str, after: After, ids: &mut Vec<u32>) {
        let text = self.normal.apply(text, after);
        let mut lattice = Vec::new();
        let start = ids.len();
        if self.words_apart {
            words(&text).for_each(|part| self.encode_word(part, &mut lattice, ids));
        } else {
            bounded(&text).for_each(|part| self.encode_word(part, &mut lattice, ids));
        }
        // Neighbouring unknown characters are one unknown token.
        let mut before = None;
        let mut kept = start;
        for at in start..ids.len() {
            let id = ids[at];
            if id != self.unknown || before != Some(id) {
                ids[kept] = id;
                kept += 1;
            }
            before = Some(id);
        }
        ids.truncate(kept);
    }

    /// `lattice[end]`: the best way to reach `end`, as its score, its last token and where that token starts.
    fn encode_word(&self, text: &str, lattice: &mut Vec<(f64, u32, u32)>, ids: &mut Vec<u32>) {
        lattice.clear();
        lattice.resize(text.len() + 1, (f64::NEG_INFINITY, self.unknown, 0));
        lattice[0].0 = 0.0;
        for (start, character) in text.char_indices() {
            let here = lattice[start].0;
            let next = start + character.len_utf8();
            let mut reach = |end: usize, score: f64, id: u32| {
                if score > lattice[end].0 {
                    lattice[end] = (score, id, start as u32);
                }
            };
            let mut single = false;
            self.trie.prefixes(&text.as_bytes()[start..], |len, id| {
                single |= start + len == next;
                reach(start + len, here + f64::from(self.scores[id as usize]), id);
            });
            if !single {
                reach(next, here + self.unknown_score, self.unknown);
            }
        }
        let from = ids.len();
        let mut end = text.len();
        while end > 0 {
            let (_, id, start) = lattice[end];
            ids.push(id);
            end = start as usize;
        }
        ids[from..].reverse();
    }
}

impl Normal {
    fn apply(&self, text: &str, after: After) -> String {
        let mut plain = String::with_capacity(text.len() + 1);
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let (piece, len) = match self.charsmap.longest(rest.as_bytes()) {
                // A replacement of part of a character is no replacement.
                Some((replacement, len)) if rest.is_char_boundary(len) => (replacement, len),
                _ => (&rest[..character.len_utf8()], character.len_utf8()),
            };
            for character in piece.chars() {
                self.push(&mut plain, character, after);
            }
            rest = &rest[len..];
        }
        if self.single_spaces {
            plain.truncate(plain.trim_end_matches(' ').len());
        }
        plain
    }

    fn push(&self, plain: &mut String, character: char, after: After) {
        let space = matches!(character, ' ' | '\u{2581}');
        if space && self.single_spaces && (plain.is_empty() || plain.ends_with(' ')) {
            return;
        }
        if plain.is_empty() && self.space_before && after != After::Text {
            plain.push(' ');
        }
        plain.push(if space { ' ' } else { character });
    }
}

/// Tokens by their first bytes.
#[derive(Debug, Default)]
struct Trie {
    /// From a node and a byte to a node. The root is 0.
    edges: HashMap<(u32, u8), u32>,
    /// For each node but the root, the token that ends there.
    tokens: Vec<Option<u32>>,
}

impl Trie {
    fn insert(&mut self, bytes: &[u8], id: u32) {
        let mut node = 0;
        for &byte in bytes {
            let next = self.tokens.len() as u32 + 1;
            node = *self.edges.entry((node, byte)).or_insert_with(|| {
                self.tokens.push(None);
                next
            });
        }
        if let Some(last) = (node as usize).checked_sub(1) {
            self.tokens[last] = Some(id);
        }
    }

    /// Calls `each` with the length and the id of every token that `text` begins with, shortest first.
    fn prefixes(&self, text: &[u8], mut each: impl FnMut(usize, u32)) {
        let mut node = 0;
        for (index, &byte) in text.iter().enumerate() {
            let Some(&next) = self.edges.get(&(node, byte)) else {
                return;
            };
            node = next;
            if let Some(id) = self.tokens[node as usize - 1] {
                each(index + 1, id);
            }
        }
    }
}
