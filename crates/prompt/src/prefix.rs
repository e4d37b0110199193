//! The index of known prefixes: which pages hold which tokens, and what may be forgotten first.
//!
//! A node is a page, and its number is the page's: a tree whose edges are a page's tokens. A child is found by the hash of the
//! whole chain of tokens up to its end (and of a salt at its root), in a table sized once; what is found counts only if its
//! parent is the page before and its tokens are the ones looked for, so a collision costs a comparison and never serves a wrong
//! page. That is the lookup of a radix tree at the price of a hash table's, with nothing to split or merge and nothing
//! to allocate. Outside of the pool a page is called by a longer [`Name`]. A page that is not full (the end of a sequence) is a *tail*: found by its
//! first token, and taken over whole by the one sequence that goes on from it.
//!
//! Whoever uses a page uses all before it, and pages are let go of deepest first. So in the order of last use no page stands
//! before one that builds on it, and the first is always a leaf: forgetting takes one step and respects shared ancestors.

use crate::name::Name;
use crate::pages::Pages;
use crate::slots::Slots;

/// No page, no slot.
pub const NONE: u32 = u32::MAX;
/// How many tails with the same parent and first token are looked at.
const TAILS_MAX: usize = 8;

/// Pages, slots, and what is known of both.
#[derive(Debug)]
pub struct Prefixes {
    pages: Pages,
    slots: Slots,
    page_tokens: usize,
    /// (pages).
    nodes: Vec<Node>,
    /// (pages, `page_tokens`).
    tokens: Vec<u32>,
    /// What full pages are called outside: (pages).
    names: Vec<Name>,
    /// Whether pages and states that are forgotten are to be put aside.
    spills: bool,
    /// What is to be done to pages and slots before the next launch, in order.
    moves: Vec<Move>,
    /// The first node of each bucket of hashes; a power of two.
    buckets: Vec<u32>,
    /// Of the pages that only the index holds: the one used longest ago, and the latest.
    oldest: u32,
    newest: u32,
    cached: u32,
    evicted: u64,
}

/// What happens to the content of pages and slots between two launches. They happen in the order in which they were decided: a page may be put
/// aside and then be filled with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// A slot's state is copied to another.
    CopyState {
        /// The slot it is in.
        from: u32,
        /// The slot it goes to.
        to: u32,
    },
    /// A page is filled with what is kept under a name.
    LoadPage {
        /// The page.
        page: u32,
        /// Its name.
        name: Name,
    },
    /// A slot is filled with the state that is kept under a name.
    LoadState {
        /// The slot.
        slot: u32,
        /// The name of the page it is the state behind.
        name: Name,
    },
    /// A page has become full, and may be kept.
    KeepPage(Kept),
    /// A slot holds the state at the end of a page, and it may be kept.
    KeepState(Kept),
    /// A page is forgotten, and may be put aside first.
    SpillPage(Kept),
    /// A slot's snapshot is forgotten, and may be put aside first.
    SpillState(Kept),
    /// A sequence let go of the pages with these names, from its start to its end: somebody used them all.
    Used(Vec<Name>),
}

/// Something to be kept: where it lies, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The page or slot.
    pub at: u32,
    /// The name of the page, or of the one that the state is behind.
    pub name: Name,
    /// The name before.
    pub before: Name,
    /// The page's tokens.
    pub tokens: Box<[u32]>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Tokens that it is known for: none where it is not in the index, fewer than a page's where it is a tail.
    filled: u32,
    parent: u32,
    /// Pages that build on it.
    children: u32,
    salt: u64,
    /// The hash that it is found by.
    key: u64,
    next: u32,
    older: u32,
    newer: u32,
    /// Whether it stands in the order of last use: only the index holds it.
    idle: bool,
    /// The snapshot of the state after its last token.
    slot: u32,
}

const UNKNOWN: Node = Node {
    filled: 0,
    parent: NONE,
    children: 0,
    salt: 0,
    key: 0,
    next: NONE,
    older: NONE,
    newer: NONE,
    idle: false,
    slot: NONE,
};

/// Where a page stands: behind which, in whose sequences, after which tokens.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The page before; [`NONE`] at the start.
    pub parent: u32,
    /// Keeps the prefixes of one caller, or of one way to compute, from those of another.
    pub salt: u64,
    /// The hash of all tokens before the page, as [`chain`] gives it.
    pub before: u64,
}

/// A tail that a sequence can go on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Its page.
    pub page: u32,
    /// How many of its tokens are the sequence's.
    pub matched: usize,
}

/// The hash of no tokens.
pub fn root(salt: u64) -> u64 {
    mix(salt ^ 0x6b61_7572_6900)
}

/// The hash of a chain of tokens that goes on with `tokens`.
pub fn chain(before: u64, tokens: &[u32]) -> u64 {
    tokens.iter().fold(mix(before), |hash, &token| mix(hash ^ u64::from(token)))
}

/// The finalizer of `SplitMix64` (Steele et al. 2014), of what is multiplied first so that zero is no fixed point.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Node {
    fn is_at(&self, place: &Place) -> bool {
        self.filled > 0 && self.parent == place.parent && self.salt == place.salt
    }
}

impl Prefixes {
    /// An empty index over `pages` pages of `page_tokens`, and `slots` slots.
    pub fn new(pages: u32, page_tokens: u32, slots: u32) -> Self {
        let page_tokens = page_tokens as usize;
        Self {
            pages: Pages::new(pages),
            slots: Slots::new(slots),
            page_tokens,
            nodes: vec![UNKNOWN; pages as usize],
            tokens: vec![0; pages as usize * page_tokens],
            names: vec![Name::root(0); pages as usize],
            spills: false,
            moves: Vec::new(),
            buckets: vec![NONE; (pages as usize).next_power_of_two()],
            oldest: NONE,
            newest: NONE,
            cached: 0,
            evicted: 0,
        }
    }

    /// From now on, what is forgotten is put aside first.
    pub fn spill(&mut self) {
        self.spills = true;
    }

    /// What is to be done before the next launch, in order.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Something is to be done before the next launch, behind what was decided before.
    pub fn decide(&mut self, next: Move) {
        self.moves.push(next);
    }

    /// What was to be done is done.
    pub fn moved(&mut self) {
        self.moves.clear();
    }

    /// What a known full page is called outside.
    pub fn name(&self, page: u32) -> Name {
        self.names[page as usize]
    }

    /// The name before a place.
    pub fn name_before(&self, place: &Place) -> Name {
        if place.parent == NONE { Name::root(place.salt) } else { self.name(place.parent) }
    }

    /// What a known full page is, for whoever keeps it or (in slot `at`) the state behind it.
    pub fn kept(&self, page: u32, at: u32) -> Kept {
        let Node { parent, salt, .. } = self.nodes[page as usize];
        let before = self.name_before(&Place { parent, salt, before: 0 });
        Kept { at, name: self.name(page), before, tokens: self.tokens_of(page).into() }
    }

    /// The pool of pages.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The pool of slots.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Tokens to a page.
    pub fn page_tokens(&self) -> usize {
        self.page_tokens
    }

    /// Pages that only the index holds: known, and free for whoever needs them.
    pub fn cached(&self) -> u32 {
        self.cached
    }

    /// Pages that were forgotten so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Pages that can be had: free ones, and those that may be forgotten.
    pub fn available(&self) -> u32 {
        self.pages.free() + self.cached
    }

    /// Takes a page: a free one, or the one used longest ago. None where sequences hold all.
    pub fn take(&mut self) -> Option<u32> {
        if self.pages.free() == 0 && self.oldest != NONE {
            self.forget(self.oldest);
            self.evicted += 1;
        }
        self.pages.take()
    }

    /// The full page with these tokens at this place.
    pub fn find(&self, place: &Place, key: u64, tokens: &[u32]) -> Option<u32> {
        debug_assert_eq!(tokens.len(), self.page_tokens);
        let mut page = self.buckets[self.bucket(key)];
        while page != NONE {
            let node = &self.nodes[page as usize];
            if node.key == key && node.is_at(place) && self.tokens_of(page) == tokens {
                return Some(page);
            }
            page = node.next;
        }
        None
    }

    /// The tail that most of `tokens` go on from: at least half of it is theirs, or all of it where `whole`. Nobody uses it, and
    /// a page that is taken over is lost to others, so a few common tokens are not worth it.
    pub fn find_tail(&self, place: &Place, tokens: &[u32], whole: bool) -> Option<Tail> {
        let key = chain(place.before, tokens.get(..1)?);
        let mut best: Option<Tail> = None;
        let (mut page, mut seen) = (self.buckets[self.bucket(key)], 0);
        while page != NONE && seen < TAILS_MAX {
            let node = &self.nodes[page as usize];
            if node.key == key && node.idle && node.is_at(place) && (node.filled as usize) < self.page_tokens {
                let matched = self.tokens_of(page).iter().zip(tokens).take_while(|(a, b)| a == b).count();
                let enough = if whole { matched == node.filled as usize } else { 2 * matched >= node.filled as usize };
                let usable = enough && (!whole || node.slot != NONE);
                if usable && best.is_none_or(|best| best.matched < matched) {
                    best = Some(Tail { page, matched });
                }
                seen += 1;
            }
            page = node.next;
        }
        best
    }

    /// A sequence uses a known full page.
    pub fn adopt(&mut self, page: u32) {
        if self.nodes[page as usize].idle {
            self.unlist(page);
        }
        self.pages.share(page);
    }

    /// A sequence takes a tail over: the page is its own, and the index forgets it. Its snapshot's slot, if any, goes along.
    pub fn take_over(&mut self, page: u32) -> Option<u32> {
        let slot = self.nodes[page as usize].slot;
        if slot != NONE {
            self.slots.lift(slot);
            self.nodes[page as usize].slot = NONE;
        }
        self.unlist(page);
        self.unlink(page);
        (slot != NONE).then_some(slot)
    }

    /// A sequence has filled `page`, which is its own, with `tokens`. Where the same page is known already, the sequence's
    /// goes back to the pool and the known one is used instead: the page to use is returned.
    pub fn insert(&mut self, page: u32, place: &Place, key: u64, tokens: &[u32]) -> u32 {
        if let Some(known) = self.find(place, key, tokens) {
            self.adopt(known);
            self.release(page);
            return known;
        }
        self.link(page, place, key, tokens);
        self.pages.share(page);
        page
    }

    /// A sequence ends and leaves `page`, its own and not full, and perhaps the state behind it, to whoever goes on from there.
    pub fn insert_tail(&mut self, page: u32, place: &Place, tokens: &[u32], slot: Option<u32>) {
        debug_assert!(!tokens.is_empty() && tokens.len() < self.page_tokens);
        let known = self.find_tail(place, tokens, slot.is_some());
        if known.is_some_and(|known| known.matched == tokens.len()) {
            slot.into_iter().for_each(|slot| self.slots.give(slot));
            self.release(page);
            return;
        }
        self.link(page, place, chain(place.before, &tokens[..1]), tokens);
        if let Some(slot) = slot {
            self.nodes[page as usize].slot = slot;
            self.slots.keep(slot, page);
        }
        self.list(page);
    }

    /// A sequence lets go of a page. Pages of a sequence must be let go of from its end to its start.
    pub fn release(&mut self, page: u32) {
        let left = self.pages.give(page);
        if left == 1 && self.nodes[page as usize].filled > 0 {
            self.list(page);
        }
    }

    /// Whether only the index holds a known page.
    pub fn is_idle(&self, page: u32) -> bool {
        self.nodes[page as usize].idle
    }

    /// The snapshot of the state after a known page.
    pub fn snapshot(&self, page: u32) -> Option<u32> {
        let slot = self.nodes[page as usize].slot;
        (slot != NONE).then_some(slot)
    }

    /// Notes that a snapshot was used.
    pub fn touch(&mut self, slot: u32) {
        self.slots.touch(slot);
    }

    /// Takes a slot, if need be that of the snapshot used longest ago.
    pub fn take_slot(&mut self) -> Option<u32> {
        let taken = self.slots.take()?;
        if let Some(page) = taken.evicted {
            self.spill_state(page, taken.slot);
            self.nodes[page as usize].slot = NONE;
        }
        Some(taken.slot)
    }

    /// Gives a sequence's slot back.
    pub fn give_slot(&mut self, slot: u32) {
        self.slots.give(slot);
    }

    /// A taken slot becomes the snapshot after `page`, a known full page without one.
    pub fn keep_slot(&mut self, slot: u32, page: u32) {
        debug_assert_eq!(self.nodes[page as usize].slot, NONE);
        self.nodes[page as usize].slot = slot;
        self.slots.keep(slot, page);
    }

    /// The page loses its snapshot; its slot is the caller's now.
    pub fn lift_slot(&mut self, page: u32) -> Option<u32> {
        let slot = self.snapshot(page)?;
        self.nodes[page as usize].slot = NONE;
        self.slots.lift(slot);
        Some(slot)
    }

    /// Forgets everything that no sequence uses, for nobody knows what is true of it: nothing is put aside.
    pub fn clear(&mut self) {
        let spills = std::mem::take(&mut self.spills);
        while self.oldest != NONE {
            self.forget(self.oldest);
        }
        self.spills = spills;
        self.moves.clear();
    }

    /// The tokens that a known page holds.
    pub fn tokens_of(&self, page: u32) -> &[u32] {
        let start = page as usize * self.page_tokens;
        &self.tokens[start..start + self.nodes[page as usize].filled as usize]
    }

    fn bucket(&self, key: u64) -> usize {
        key as usize & (self.buckets.len() - 1)
    }

    fn link(&mut self, page: u32, place: &Place, key: u64, tokens: &[u32]) {
        debug_assert_eq!(self.nodes[page as usize].filled, 0, "page {page} is known already");
        let start = page as usize * self.page_tokens;
        self.tokens[start..start + tokens.len()].copy_from_slice(tokens);
        let bucket = self.bucket(key);
        let (filled, next) = (tokens.len() as u32, self.buckets[bucket]);
        self.nodes[page as usize] = Node { filled, parent: place.parent, salt: place.salt, key, next, ..UNKNOWN };
        self.buckets[bucket] = page;
        if tokens.len() == self.page_tokens {
            self.names[page as usize] = self.name_before(place).then(tokens);
        }
        if place.parent != NONE {
            self.nodes[place.parent as usize].children += 1;
        }
    }

    fn unlink(&mut self, page: u32) {
        let Node { key, next, parent, children, .. } = self.nodes[page as usize];
        assert_eq!(children, 0, "page {page} is forgotten before what builds on it");
        let bucket = self.bucket(key);
        let mut at = self.buckets[bucket];
        if at == page {
            self.buckets[bucket] = next;
        } else {
            while self.nodes[at as usize].next != page {
                at = self.nodes[at as usize].next;
            }
            self.nodes[at as usize].next = next;
        }
        if parent != NONE {
            self.nodes[parent as usize].children -= 1;
        }
        self.nodes[page as usize] = UNKNOWN;
    }

    /// The page becomes the latest of those that only the index holds.
    fn list(&mut self, page: u32) {
        let older = self.newest;
        let node = &mut self.nodes[page as usize];
        debug_assert!(!node.idle);
        (node.idle, node.older, node.newer) = (true, older, NONE);
        match older {
            NONE => self.oldest = page,
            older => self.nodes[older as usize].newer = page,
        }
        self.newest = page;
        self.cached += 1;
    }

    fn unlist(&mut self, page: u32) {
        let node = &mut self.nodes[page as usize];
        debug_assert!(node.idle);
        node.idle = false;
        let (older, newer) = (node.older, node.newer);
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        self.cached -= 1;
    }

    /// The state behind a page is about to be forgotten. Tails, which others can hardly go on from, are not worth it.
    fn spill_state(&mut self, page: u32, slot: u32) {
        if self.spills && self.nodes[page as usize].filled as usize == self.page_tokens {
            self.moves.push(Move::SpillState(self.kept(page, slot)));
        }
    }

    /// Gives a page back that only the index holds, with its snapshot.
    fn forget(&mut self, page: u32) {
        if let Some(slot) = self.lift_slot(page) {
            self.spill_state(page, slot);
            self.slots.give(slot);
        }
        if self.spills && self.nodes[page as usize].filled as usize == self.page_tokens {
            self.moves.push(Move::SpillPage(self.kept(page, page)));
        }
        self.unlist(page);
        self.unlink(page);
        self.pages.give(page);
    }
}

#[cfg(test)]
mod tests;
