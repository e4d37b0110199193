//! Merging neighbouring symbols, best pair first: the loop that byte-level BPE and SentencePiece's BPE share.
//!
//! What a pair is worth is the caller's business. Time is O(n log n) for a word of n symbols at worst, and O(n) for the
//! words that are long in practice, which repeat themselves: a word may be ten megabytes of one letter.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hashbrown::HashMap;

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

/// Up to here, looking at every pair for each merge beats a queue.
const SHORT_SYMBOLS: usize = 96;

const END: u32 = u32::MAX;
const NO_MERGE: Merge = Merge { rank: u32::MAX, id: NO_TOKEN };

/// The symbols of one word, and working memory that is used again for the next.
#[derive(Default)]
pub(crate) struct Word {
    symbols: Vec<Symbol>,
    merges: Vec<Merge>,
    links: Vec<(u32, u32)>,
    queue: Queue,
}

/// A pair that may be merged, ordered by its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
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
        self.symbols.push(Symbol { start: start as u32, len: len as u32, id });
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
        queue.clear();
        let offer = |queue: &mut Queue, symbols: &[Symbol], left: u32, right: u32| {
            let (first, second) = (symbols[left as usize], symbols[right as usize]);
            if let Some(merge) = pair(first, second) {
                queue.push(merge.rank, Candidate { left, len: first.len + second.len, id: merge.id });
            }
        };
        (1..count).for_each(|right| offer(queue, symbols, right - 1, right));
        while let Some(best) = queue.pop() {
            let left = best.left as usize;
            let right = links[left].1;
            // Symbols only grow, so equal length means that neither neighbour has changed since.
            if symbols[left].len == 0 || right == END || symbols[left].len + symbols[right as usize].len != best.len {
                continue;
            }
            symbols[left].len = best.len;
            symbols[left].id = best.id;
            symbols[right as usize].len = 0;
            let (before, after) = (links[left].0, links[right as usize].1);
            links[left].1 = after;
            if before != END {
                offer(queue, symbols, before, best.left);
            }
            if after != END {
                links[after as usize].0 = best.left;
                offer(queue, symbols, best.left, after);
            }
        }
        symbols.retain(|symbol| symbol.len > 0);
    }
}

/// Candidates by rank, then by place.
///
/// A heap of all of them would be the usual choice; for a megabyte of one letter its random access to memory takes three
/// times as long as everything else. Here a heap holds only the distinct ranks, and the candidates of a rank, which
/// nearly always come in the order of their places, wait in line.
#[derive(Default)]
struct Queue {
    ranks: BinaryHeap<Reverse<(u32, u32)>>,
    lines: Vec<Line>,
    /// The line of each rank that is in `ranks`.
    places: HashMap<u32, u32>,
    /// Lines that are empty.
    spare: Vec<u32>,
}

/// The candidates of one rank.
#[derive(Default)]
struct Line {
    ascending: VecDeque<Candidate>,
    late: BinaryHeap<Reverse<Candidate>>,
}

impl Queue {
    fn clear(&mut self) {
        debug_assert!(self.ranks.is_empty() && self.places.is_empty());
        // A word of megabytes leaves lines that the next word does not need.
        if self.lines.len() > 1024 {
            *self = Self::default();
        }
    }

    fn push(&mut self, rank: u32, candidate: Candidate) {
        let (lines, spare, ranks) = (&mut self.lines, &mut self.spare, &mut self.ranks);
        let line = *self.places.entry(rank).or_insert_with(|| {
            let line = spare.pop().unwrap_or_else(|| {
                lines.push(Line::default());
                lines.len() as u32 - 1
            });
            ranks.push(Reverse((rank, line)));
            line
        });
        let line = &mut lines[line as usize];
        if line.ascending.back().is_none_or(|last| last.left <= candidate.left) {
            line.ascending.push_back(candidate);
        } else {
            line.late.push(Reverse(candidate));
        }
    }

    fn pop(&mut self) -> Option<Candidate> {
        loop {
            let &Reverse((rank, at)) = self.ranks.peek()?;
            let line = &mut self.lines[at as usize];
            let late = line.late.peek().map(|&Reverse(candidate)| candidate);
            match (line.ascending.front().copied(), late) {
                (Some(next), late) if late.is_none_or(|late| next <= late) => return line.ascending.pop_front(),
                (_, Some(late)) => {
                    line.late.pop();
                    return Some(late);
                }
                (_, None) => {
                    self.ranks.pop();
                    self.places.remove(&rank);
                    self.spare.push(at);
                }
            }
        }
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

    /// Ranks on purpose: several pairs share one, so that only their places order them, and merging one pair makes
    /// another of a lower rank.
    fn pair(text: &[u8]) -> impl Fn(Symbol, Symbol) -> Option<Merge> {
        |left, right| {
            let end = (right.start + right.len) as usize;
            let (rank, id) = match &text[left.start as usize..end] {
                b"ab" => (3, 1),
                b"abc" => (0, 2),
                b"ba" | b"cab" | b"aac" | b"cb" => (3, 3),
                b"aa" | b"bb" => (2, 4),
                b"aaa" | b"bba" | b"cc" => (2, 5),
                b"aabb" => (1, 6),
                _ => return None,
            };
            Some(Merge { rank, id })
        }
    }

    fn merged(text: &[u8], merge: impl Fn(&mut Word)) -> Vec<(u32, u32, u32)> {
        let mut word = Word::default();
        (0..text.len()).for_each(|at| word.push(at, 1, 0));
        merge(&mut word);
        word.symbols.iter().map(|symbol| (symbol.start, symbol.len, symbol.id)).collect()
    }

    /// All words of up to nine letters.
    #[test]
    fn short_and_long_words_merge_alike() {
        for len in 0..10 {
            for number in 0..3u32.pow(len) {
                let text: Vec<u8> = (0..len).map(|at| b'a' + (number / 3u32.pow(at) % 3) as u8).collect();
                let short = merged(&text, |word| word.merge_short(pair(&text)));
                let long = merged(&text, |word| word.merge_long(pair(&text)));
                assert_eq!(short, long, "{}", String::from_utf8_lossy(&text));
            }
        }
    }

    #[test]
    fn the_leftmost_of_equals_goes_first() {
        let merge = |word: &mut Word| word.merge_short(pair(b"aba"));
        assert_eq!(merged(b"aba", merge), [(0, 2, 1), (2, 1, 0)]);
    }
}
