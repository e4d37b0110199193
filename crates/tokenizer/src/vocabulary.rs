//! The tokens of a vocabulary: their bytes, their kinds, and the way back from bytes to an id.
//!
//! All bytes lie in one buffer and the index holds only ids, because a map of 150,000 owned strings costs a tenth of a
//! second at start-up. This file does not know how text becomes tokens.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::{Error, shown};

/// What a token is for. The names are GGUF's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A piece of text.
    Normal,
    /// Stands for what the vocabulary cannot spell.
    Unknown,
    /// Structure, never text: the beginning of a turn, the end of a document.
    Control,
    /// Added by the maker of the model: matched whole, and shown as text.
    UserDefined,
    /// A hole in the numbering.
    Unused,
    /// One byte, for characters the vocabulary does not have.
    Byte,
}

/// The most tokens a vocabulary may have. The largest published ones have 262,400.
pub(crate) const TOKENS_MAX: usize = 1 << 22;
/// The most bytes a token may have. Real ones stay below 1,024.
pub(crate) const TOKEN_BYTES_MAX: usize = 1 << 14;
/// The most bytes all tokens may have together.
const BYTES_MAX: usize = 1 << 28;

/// Tokens by id, and ids by bytes.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    kinds: Vec<Kind>,
    words: HashTable<u32>,
    specials: HashTable<u32>,
    hasher: DefaultHashBuilder,
    longest_word: usize,
    longest: usize,
}

/// Which index a token is found through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Text may become it.
    Word,
    /// Only its name, as a special token, becomes it.
    Special,
    /// Nothing becomes it; it can only be decoded.
    Nothing,
}

impl Vocabulary {
    /// Room for `count` tokens.
    pub(crate) fn with_capacity(count: usize) -> Result<Self, Error> {
        limit("the number of tokens", count, TOKENS_MAX)?;
        Ok(Self {
            bytes: Vec::with_capacity(count * 7),
            ends: Vec::with_capacity(count),
            kinds: Vec::with_capacity(count),
            words: HashTable::with_capacity(count),
            specials: HashTable::new(),
            // Seeded anew in every process: a vocabulary made to collide cannot know the seed.
            hasher: DefaultHashBuilder::default(),
            longest_word: 0,
            longest: 0,
        })
    }

    /// Adds the next token and returns its id.
    pub(crate) fn push(&mut self, bytes: &[u8], kind: Kind, reach: Reach) -> Result<u32, Error> {
        limit("the number of tokens", self.len() + 1, TOKENS_MAX)?;
        limit("the length of a token in bytes", bytes.len(), TOKEN_BYTES_MAX)?;
        limit("the length of all tokens in bytes", self.bytes.len() + bytes.len(), BYTES_MAX)?;
        let id = self.len() as u32;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32);
        self.kinds.push(kind);
        self.longest = self.longest.max(bytes.len());
        let table = match reach {
            Reach::Word => &mut self.words,
            Reach::Special => &mut self.specials,
            Reach::Nothing => return Ok(id),
        };
        if reach == Reach::Word {
            self.longest_word = self.longest_word.max(bytes.len());
        }
        let (hasher, ends, all) = (&self.hasher, &self.ends, &self.bytes);
        let same = |&other: &u32| slice(all, ends, other) == &all[start..];
        match table.entry(hasher.hash_one(bytes), same, |&other| hasher.hash_one(slice(all, ends, other))) {
            Entry::Vacant(entry) => drop(entry.insert(id)),
            Entry::Occupied(entry) => {
                let text = shown(&String::from_utf8_lossy(bytes));
                return Err(Error::Duplicate { text, first: *entry.get(), second: id });
            }
        }
        Ok(id)
    }

    /// How many tokens there are.
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The bytes of token `id`.
    pub(crate) fn bytes(&self, id: u32) -> Option<&[u8]> {
        ((id as usize) < self.len()).then(|| slice(&self.bytes, &self.ends, id))
    }

    /// What token `id` is for.
    pub(crate) fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(id as usize).copied()
    }

    /// The token that `bytes` spell as text; never a special one.
    #[inline]
    pub(crate) fn word(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest_word { None } else { self.find(bytes, Reach::Word) }
    }

    /// The special token named `name`.
    pub(crate) fn special(&self, name: &str) -> Option<u32> {
        self.find(name.as_bytes(), Reach::Special)
    }

    /// The most bytes that a token reached by text has.
    pub(crate) fn longest_word(&self) -> usize {
        self.longest_word
    }

    /// The most bytes that any token has.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// All ids with their kinds, in order.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (u32, Kind)> {
        (0u32..).zip(self.kinds.iter().copied())
    }

    #[inline]
    fn find(&self, bytes: &[u8], reach: Reach) -> Option<u32> {
        let table = if reach == Reach::Special { &self.specials } else { &self.words };
        let same = |&id: &u32| slice(&self.bytes, &self.ends, id) == bytes;
        table.find(self.hasher.hash_one(bytes), same).copied()
    }
}

/// An error when `found` is over `most`.
pub(crate) fn limit(what: &'static str, found: usize, most: usize) -> Result<(), Error> {
    if found <= most {
        return Ok(());
    }
    Err(Error::Limit { what, found: found as u64, limit: most as u64 })
}

#[inline]
fn slice<'v>(bytes: &'v [u8], ends: &[u32], id: u32) -> &'v [u8] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] as usize };
    &bytes[start..ends[id] as usize]
}
