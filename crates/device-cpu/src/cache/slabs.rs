//! Where a cache's places lie in memory.
//!
//! The tokens of all pages, one page behind the other, are cut into *slabs*, which have their keys and values for all heads of all blocks, head by
//! head; slabs lie one behind the other. So what a sequence reads and writes lies together in few large pages of the system, whatever the block,
//! and those that no sequence has come to take no memory. An address whose small page no core knows costs more than a line from memory
//! (docs/log.md, "What small pages cost").

use std::ops::Range;

/// Tokens of a slab. What a tile of attention multiplies at once, 64 of them, stands side by side; a head's are read the quicker the more they
/// are, and a slab's are had from the system all at once.
const TOKENS: usize = 128;
/// With so many heads there is room for one more where their number is even: slabs that are a multiple of a large power of two apart would share
/// sets of every cache. With fewer it would be room that counts.
const SPREAD_HEADS_MIN: usize = 64;

/// The measures of slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slabs {
    /// Heads that there is room for.
    heads: usize,
}

/// Where tokens of one sequence are kept, from their head's first place on.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    /// The page table.
    pages: &'a [u32],
    page_tokens: usize,
    slabs: Slabs,
}

impl Slabs {
    /// For so many heads, of all blocks together.
    pub fn new(heads: usize) -> Self {
        Self { heads: if heads >= SPREAD_HEADS_MIN { heads | 1 } else { heads } }
    }

    /// Places of so many tokens: whole slabs.
    pub fn places(self, tokens: u64) -> u64 {
        tokens.next_multiple_of(TOKENS as u64).saturating_mul(self.heads as u64)
    }

    /// The first place of a head.
    #[inline(always)]
    pub fn head(head: usize) -> usize {
        head * TOKENS
    }

    /// The place of a token, of those of all pages, from its head's first on.
    #[inline(always)]
    pub fn place(self, token: usize) -> usize {
        token / TOKENS * self.heads * TOKENS + token % TOKENS
    }

    /// The places of some tokens of a head, cut where they are in different slabs.
    pub fn runs(self, head: usize, tokens: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::successors(Some(tokens.start), |token| Some((token / TOKENS + 1) * TOKENS));
        starts.take_while(move |&start| start < tokens.end).map(move |start| {
            let (count, place) =
                (tokens.end.min((start / TOKENS + 1) * TOKENS) - start, Self::head(head) + self.place(start));
            place..place + count
        })
    }
}

impl<'a> Places<'a> {
    /// Of the sequence with this page table.
    pub fn new(pages: &'a [u32], page_tokens: usize, slabs: Slabs) -> Self {
        Self { pages, page_tokens, slabs }
    }

    /// The place of a position. The sixteen positions around it that begin at a multiple of sixteen are neighbours there too.
    #[inline(always)]
    pub fn of(&self, position: usize) -> usize {
        let page = self.pages[position / self.page_tokens] as usize;
        self.slabs.place(page * self.page_tokens + position % self.page_tokens)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_tokens_share_a_place_and_all_lie_inside() {
        for (page_tokens, heads, pages) in [(16, 1, 9), (32, 6, 5), (32, 16, 4), (48, 17, 3), (64, 40, 2), (4096, 2, 2)]
        {
            let slabs = Slabs::new(heads);
            let table: Vec<u32> = (0..pages).rev().collect();
            let (places, mut taken) = (Places::new(&table, page_tokens, slabs), HashSet::new());
            let tokens = pages as usize * page_tokens;
            for head in 0..heads {
                for position in 0..tokens {
                    let place = Slabs::head(head) + places.of(position);
                    assert!(place < slabs.places(tokens as u64) as usize && taken.insert(place), "{slabs:?}: {place}");
                    assert_eq!(place % 16, position % 16, "{slabs:?}");
                }
            }
        }
    }

    #[test]
    fn runs_are_the_places_of_their_tokens() {
        let slabs = Slabs::new(17);
        for tokens in [0..0, 5..6, 0..128, 96..144, 120..400, 128..129] {
            let expected: Vec<usize> = tokens.clone().map(|token| Slabs::head(3) + slabs.place(token)).collect();
            assert_eq!(slabs.runs(3, tokens.clone()).flatten().collect::<Vec<_>>(), expected, "{tokens:?}");
        }
    }

    #[test]
    fn neighbouring_pages_stand_side_by_side_in_a_slab() {
        let table = [4, 5, 6, 7, 8];
        let places = Places::new(&table, 32, Slabs::new(224));
        assert_eq!(places.of(127), places.of(0) + 127);
        // One head more than there are.
        assert_eq!(places.of(128), places.of(0) + 225 * 128);
    }
}
