//! Merging neighbouring symbols, best pair first: the loop that byte-level BPE and SentencePiece's BPE share.
//!
//! What a pair is worth is the caller's business. Time is O(n log n) for a word of n symbols, whatever the text: a
//! word may be ten megabytes of one letter.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stretch of a word that is one token so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    /// Where it starts in the word, in bytes.
    pub(crate) start: u32,
    /// Its length in bytes.
    pub(crate) len: u32,
    /// Its token, or [`NO_TOKEN`].
    pub(crate) id: u32,
}

/// A symbol that the vocabulary does not have.
pub(crate) const NO_TOKEN: u32 = u32::MAX;

/// What merging two neighbours gives: the lowest rank is merged first, the leftmost of equals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// Its turn.
    pub(crate) rank: u32,
    /// The token it makes.
    pub(crate) id: u32,
}

/// Longer words are cut, so that the memory of one word stays within a gigabyte.
pub(crate) const WORD_BYTES_MAX: usize = 1 << 24;

/// Up to here, looking at every pair for each merge beats a heap.
const SHORT_SYMBOLS: usize = 48;

const END: u32 = u32::MAX;
const NO_MERGE: Merge = Merge {
    rank: u32::MAX,
    id: NO_TOKEN,
};

/// The symbols of one word, and working memory that is used again for the next.
#[derive(Default)]
pub(crate) struct Word {
    symbols: Vec<Symbol>,
    merges: Vec<Merge>,
    links: Vec<(u32, u32)>,
    queue: BinaryHeap<Reverse<Candidate>>,
}

/// Ordered by rank, then by place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: u32,
    len: u32,
    id: u32,
}

impl Word {
    /// Forgets the word before.
    pub(crate) fn clear(&mut self) {
        self.symbols.clear();
    }

    /// Adds the next symbol.
    pub(crate) fn push(&mut self, start: usize, len: usize, id: u32) {
        self.symbols.push(Symbol {
            start: start as u32,
            len: len as u32,
            id,
        });
    }

    /// Merges until no pair is left that `pair` knows, and returns what remains.
    pub(crate) fn merge(&mut self, pair: impl Fn(Symbol, Symbol) -> Option<Merge>) -> &[Symbol] {
        if self.symbols.len() <= SHORT_SYMBOLS {
            self.merge_short(pair);
        } else {
            self.merge_long(pair);
        }
        &self.symbols
    }

    fn merge_short(&mut self, pair: impl Fn(Symbol, Symbol) -> Option<Merge>) {
        let (symbols, merges) = (&mut self.symbols, &mut self.merges);
        let worth = |symbols: &[Symbol], left: usize| match symbols.get(left + 1) {
            Some(&right) => pair(symbols[left], right).unwrap_or(NO_MERGE),
            None => NO_MERGE,
        };
        merges.clear();
        merges.extend((0..symbols.len()).map(|left| worth(symbols, left)));
        loop {
            let mut best = (NO_MERGE, 0);
            for (left, &merge) in merges.iter().enumerate() {
                if merge.rank < best.0.rank {
                    best = (merge, left);
                }
            }
            let (merge, left) = best;
            if merge.id == NO_TOKEN {
                return;
            }
            symbols[left].len += symbols[left + 1].len;
            symbols[left].id = merge.id;
            symbols.remove(left + 1);
            merges.remove(left + 1);
            merges[left] = worth(symbols, left);
            if left > 0 {
                merges[left - 1] = worth(symbols, left - 1);
            }
        }
    }

    fn merge_long(&mut self, pair: impl Fn(Symbol, Symbol) -> Option<Merge>) {
        let (symbols, links, queue) = (&mut self.symbols, &mut self.links, &mut self.queue);
        let count = symbols.len() as u32;
        links.clear();
        links.extend((0..count).map(|at| (at.wrapping_sub(1), if at + 1 == count { END } else { at + 1 })));
        let candidate = |symbols: &[Symbol], left: u32, right: u32| {
            let (first, second) = (symbols[left as usize], symbols[right as usize]);
            let merge = pair(first, second)?;
            Some(Reverse(Candidate {
                rank: merge.rank,
                left,
                len: first.len + second.len,
                id: merge.id,
            }))
        };
        // Built at once: a heap of n in O(n).
        let mut first = std::mem::take(queue).into_vec();
        first.clear();
        first.extend((1..count).filter_map(|right| candidate(symbols, right - 1, right)));
        *queue = BinaryHeap::from(first);
        while let Some(Reverse(best)) = queue.pop() {
            let left = best.left as usize;
            let right = links[left].1;
            // Symbols only grow, so equal length means that neither neighbour has changed since.
            if symbols[left].len == 0 || right == END || symbols[left].len + symbols[right as usize].len != best.len {
                continue;
            }
            symbols[left].len = best.len;
            symbols[left].id = best.id;
            symbols[right as usize].len = 0;
            let after = links[right as usize].1;
            links[left].1 = after;
            if after != END {
                links[after as usize].0 = best.left;
                queue.extend(candidate(symbols, best.left, after));
            }
            let before = links[left].0;
            if before != END {
                queue.extend(candidate(symbols, before, best.left));
            }
        }
        symbols.retain(|symbol| symbol.len > 0);
    }
}

/// Cuts `word` into parts of at most [`WORD_BYTES_MAX`], at characters.
pub(crate) fn bounded(mut word: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if word.is_empty() {
            return None;
        }
        let end = word.floor_char_boundary(WORD_BYTES_MAX);
        let (part, rest) = word.split_at(end);
        word = rest;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symbols are letters; "ab" first, then "abc", then "aa".
    fn pair(text: &[u8]) -> impl Fn(Symbol, Symbol) -> Option<Merge> {
        |left, right| {
            let end = (right.start + right.len) as usize;
            match &text[left.start as usize..end] {
                b"ab" => Some(Merge { rank: 0, id: 1 }),
                b"abc" => Some(Merge { rank: 1, id: 2 }),
                b"aa" => Some(Merge { rank: 2, id: 3 }),
                _ => None,
            }
        }
    }

    #[test]
    fn short_and_long_words_merge_alike() {
        for text in [
            "",
            "a",
            "aab",
            "aaab",
            "abcab",
            "aaaabcaabaa",
            "cba",
            "ababcabcaaaaaaab",
        ] {
            let mut word = Word::default();
            let mut ends = Vec::new();
            for long in [false, true] {
                word.clear();
                (0..text.len()).for_each(|at| word.push(at, 1, 0));
                if long {
                    word.merge_long(pair(text.as_bytes()));
                } else {
                    word.merge_short(pair(text.as_bytes()));
                }
                ends.push(word.symbols.iter().map(|s| (s.start, s.len, s.id)).collect::<Vec<_>>());
            }
            assert_eq!(ends[0], ends[1], "{text}");
        }
    }

    #[test]
    fn the_leftmost_of_equals_goes_first() {
        let mut word = Word::default();
        (0..3).for_each(|at| word.push(at, 1, 0));
        let merged: Vec<_> = word.merge(pair(b"aaa")).iter().map(|s| (s.start, s.len)).collect();
        assert_eq!(merged, [(0, 2), (2, 1)]);
    }
}
