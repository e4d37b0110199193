//! What a sequence takes from the index of prefixes, and what it gives to it.

use std::collections::HashSet;

use crate::prefix::{Move, NONE, Place, Prefixes};

use super::Schedule;
use super::sequence::{Goal, Sequence, Stage};
use super::shelf::{Look, Shelf};

impl Sequence {
    /// Where its page of this number stands.
    pub(super) fn place(&self, page: usize) -> Place {
        let parent = page.checked_sub(1).map_or(NONE, |before| self.table[before]);
        Place { parent, salt: self.salt, before: self.before(page) }
    }

    /// The known page that comes next behind the first `page` of its table, if it is known.
    pub(super) fn known_page(&self, prefixes: &Prefixes, page: usize, parent: u32) -> Option<u32> {
        let page_tokens = prefixes.page_tokens();
        let place = Place { parent, salt: self.salt, before: self.before(page) };
        prefixes.find(&place, self.chains[page], &self.tokens[page * page_tokens..(page + 1) * page_tokens])
    }

    /// Pages that it may adopt: its last token is computed in any case, since its logits are wanted.
    fn adoptable(&self, page_tokens: usize) -> usize {
        ((self.tokens.len() - 1) / page_tokens).min(self.chains.len())
    }
}

impl Schedule {
    /// How many pages of a waiting request are known, and how many of those nobody uses.
    pub(super) fn known(&self, place: u32) -> (usize, usize) {
        let sequence = self.at(place);
        let (mut parent, mut idle, mut found) = (NONE, 0, (0, 0));
        for page in 0..sequence.adoptable(self.prefixes.page_tokens()) {
            let Some(known) = sequence.known_page(&self.prefixes, page, parent) else { break };
            idle += usize::from(self.prefixes.is_idle(known));
            if !self.limits.has_state || self.prefixes.snapshot(known).is_some() {
                found = (page + 1, idle);
            }
            parent = known;
        }
        found
    }

    /// Gives a request that was admitted its slot and everything that is known of it.
    pub(super) fn start(&mut self, place: u32) {
        let mut sequence = self.sequences[place as usize].take().expect("the request is not over");
        let (prefixes, has_state) = (&mut self.prefixes, self.limits.has_state);
        let page_tokens = prefixes.page_tokens();
        let mut parent = NONE;
        for page in 0..sequence.adoptable(page_tokens) {
            let Some(known) = sequence.known_page(prefixes, page, parent) else { break };
            sequence.table.push(known);
            parent = known;
        }
        let full = sequence.table.len();
        let rest = &sequence.tokens[full * page_tokens..sequence.tokens.len() - 1];
        let tail = prefixes.find_tail(&sequence.place(full), rest, has_state);
        if has_state && tail.is_none() {
            let snapshot = sequence.table.iter().rposition(|&page| prefixes.snapshot(page).is_some());
            sequence.table.truncate(snapshot.map_or(0, |page| page + 1));
        }
        sequence.table.iter().for_each(|&page| prefixes.adopt(page));
        sequence.computed = sequence.table.len() * page_tokens;
        let mut slot = None;
        if let Some(tail) = tail {
            slot = prefixes.take_over(tail.page);
            sequence.table.push(tail.page);
            sequence.computed += tail.matched;
        }
        sequence.slot = slot.unwrap_or_else(|| {
            let snapshot = sequence.table.last().filter(|_| has_state).map(|&page| (page, prefixes.snapshot(page)));
            if let Some((_, Some(from))) = snapshot {
                prefixes.touch(from);
            }
            let to = prefixes.take_slot().expect("there are as many slots as may run");
            // Where no other was left, the slot taken is the snapshot's own, with the state in it.
            if let Some((_, Some(from))) = snapshot
                && from != to
            {
                prefixes.decide(Move::CopyState { from, to });
            }
            to
        });
        sequence.stage = Stage::Running;
        if !sequence.returned {
            sequence.cached = sequence.computed as u32;
            self.prompt_tokens += sequence.tokens.len() as u64;
            self.cached_tokens += sequence.computed as u64;
        }
        self.sequences[place as usize] = Some(sequence);
    }

    /// A prompt takes what has become known since, or is at hand outside, and says whether it reads on in this step: not where
    /// what it needs next is on its way, or another prompt of the step computes it, which `claims` tells.
    pub(super) fn catch_up(&mut self, place: u32, claims: &mut HashSet<u64>, shelf: &mut dyn Shelf) -> bool {
        let mut sequence = self.sequences[place as usize].take().expect("the request is not over");
        let before = sequence.computed;
        let reads = if self.limits.has_state {
            self.catch_up_from_shelf(&mut sequence, shelf) && self.catch_up_state(&mut sequence, claims)
        } else {
            self.catch_up_pages(&mut sequence, claims, shelf)
        };
        if !sequence.returned {
            sequence.cached += (sequence.computed - before) as u32;
            self.cached_tokens += (sequence.computed - before) as u64;
        }
        self.sequences[place as usize] = Some(sequence);
        reads
    }

    fn catch_up_pages(&mut self, sequence: &mut Sequence, claims: &mut HashSet<u64>, shelf: &mut dyn Shelf) -> bool {
        let page_tokens = self.prefixes.page_tokens();
        let most = sequence.adoptable(page_tokens);
        while sequence.computed / page_tokens < most {
            if self.adopt_next(sequence) {
                continue;
            }
            // A page that it has begun itself it goes on with.
            if !self.limits.beside.restores || !sequence.computed.is_multiple_of(page_tokens) {
                break;
            }
            self.return_restored(sequence);
            match self.fetch_page(sequence, most, shelf) {
                Look::Had => sequence.computed += page_tokens,
                Look::Waits => return false,
                Look::Computes => break,
            }
        }
        let page = sequence.computed / page_tokens;
        // What needs one token more is written, not read.
        sequence.left() > 1 && (page >= most || claims.insert(sequence.chains[page]))
    }

    /// A prompt with a state that was just begun is brought as far as states are kept. Says whether it goes on by itself.
    fn catch_up_from_shelf(&mut self, sequence: &mut Sequence, shelf: &mut dyn Shelf) -> bool {
        let page_tokens = self.prefixes.page_tokens();
        if sequence.goal == Goal::Unasked {
            // Who goes on in the middle of a page has the end of another's answer: there is nothing further.
            let can_go_on = self.limits.beside.restores && sequence.computed.is_multiple_of(page_tokens);
            let most = sequence.adoptable(page_tokens);
            let furthest = if can_go_on { self.furthest_state(sequence, most, shelf) } else { None };
            sequence.goal = furthest.map_or(Goal::Over, Goal::Pages);
        }
        let Goal::Pages(goal) = sequence.goal else { return true };
        match self.restore(sequence, goal, shelf) {
            Look::Waits => return false,
            Look::Had => {}
            Look::Computes => self.return_restored(sequence),
        }
        sequence.goal = Goal::Over;
        true
    }

    /// Adopts the page that comes next, if it is known; what the sequence has of it goes back.
    fn adopt_next(&mut self, sequence: &mut Sequence) -> bool {
        let page = sequence.computed / self.prefixes.page_tokens();
        let parent = sequence.place(page).parent;
        let Some(known) = sequence.known_page(&self.prefixes, page, parent) else { return false };
        while sequence.table.len() > page {
            self.prefixes.release(sequence.table.pop().expect("it is longer"));
        }
        self.prefixes.adopt(known);
        sequence.table.push(known);
        sequence.computed = (page + 1) * self.prefixes.page_tokens();
        true
    }

    /// The same for a sequence with a state: only what ends in a snapshot is of use, and the next one that another takes is
    /// at the end of the other's prompt. That is what it claims, and what those with the same beginning wait for.
    fn catch_up_state(&mut self, sequence: &mut Sequence, claims: &mut HashSet<u64>) -> bool {
        let page_tokens = self.prefixes.page_tokens();
        let most = sequence.adoptable(page_tokens);
        if std::mem::take(&mut sequence.follows) && sequence.computed.is_multiple_of(page_tokens) {
            let start = sequence.computed / page_tokens;
            let (mut parent, mut end, mut snapshot) = (sequence.place(start).parent, start, None);
            for page in start..most {
                let Some(known) = sequence.known_page(&self.prefixes, page, parent) else { break };
                if let Some(slot) = self.prefixes.snapshot(known) {
                    (end, snapshot) = (page + 1, Some(slot));
                }
                parent = known;
            }
            for _ in start..end {
                self.adopt_next(sequence);
            }
            if let Some(from) = snapshot {
                self.prefixes.touch(from);
                self.prefixes.decide(Move::CopyState { from, to: sequence.slot });
            }
        }
        let page = sequence.computed / page_tokens;
        if page < most {
            if !claims.is_empty() && sequence.chains[page..most].iter().any(|chain| claims.contains(chain)) {
                sequence.follows = true;
                return false;
            }
            claims.insert(sequence.chains[most - 1]);
        }
        sequence.left() > 1
    }

    /// Where a chunk that may go up to `end` ends: with a state, no further than the next snapshot.
    pub(super) fn boundary(&self, place: u32, end: usize) -> usize {
        if !self.limits.has_state {
            return end;
        }
        let (sequence, page_tokens) = (self.at(place), self.prefixes.page_tokens());
        let goal = (sequence.tokens.len() - 1) / page_tokens * page_tokens;
        let every = self.limits.snapshot_pages.max(1) as usize * page_tokens;
        let next = (sequence.computed / every + 1) * every;
        let goal = if goal > sequence.computed { goal } else { usize::MAX };
        end.min(next).min(goal)
    }

    /// A sequence was computed up to `end`: pages that are full become known, and of a state a snapshot is taken where it is due.
    pub(super) fn settle(&mut self, place: u32, end: usize) {
        let mut sequence = self.sequences[place as usize].take().expect("the request is not over");
        let page_tokens = self.prefixes.page_tokens();
        let pages = sequence.computed / page_tokens..end / page_tokens;
        sequence.computed = end;
        sequence.hash(pages.end, page_tokens);
        for page in pages.clone() {
            let own = sequence.table[page];
            let tokens = sequence.page_of(page, page_tokens);
            let known = self.prefixes.insert(own, &sequence.place(page), sequence.chains[page], tokens);
            sequence.table[page] = known;
            if self.limits.beside.keeps && known == own {
                self.prefixes.decide(Move::KeepPage(self.prefixes.kept(own, own)));
            }
        }
        if self.limits.has_state && !pages.is_empty() && end.is_multiple_of(page_tokens) {
            self.keep_state(&mut sequence, pages.end);
        }
        if sequence.left() == 0 {
            sequence.write(self.now);
        }
        self.sequences[place as usize] = Some(sequence);
    }

    /// Takes a snapshot behind the first `pages` of a sequence, if one is wanted there: at the end of its prompt, every so many
    /// pages of it, and while it is written at the end of each page, where it takes the place of the one before.
    fn keep_state(&mut self, sequence: &mut Sequence, pages: usize) {
        let page = sequence.table[pages - 1];
        let goal = (sequence.tokens.len() - 1) / self.prefixes.page_tokens();
        let is_due = pages == goal || pages.is_multiple_of(self.limits.snapshot_pages.max(1) as usize);
        if is_due && self.limits.beside.keeps {
            self.prefixes.decide(Move::KeepState(self.prefixes.kept(page, sequence.slot)));
        }
        if let Some(slot) = self.prefixes.snapshot(page) {
            return self.prefixes.touch(slot);
        }
        let slot = if sequence.left() == 0 {
            let trail = std::mem::replace(&mut sequence.trail, page);
            let lifted = if trail == NONE { None } else { self.prefixes.lift_slot(trail) };
            lifted.or_else(|| self.prefixes.take_slot())
        } else if is_due {
            self.prefixes.take_slot()
        } else {
            None
        };
        if let Some(to) = slot {
            self.prefixes.decide(Move::CopyState { from: sequence.slot, to });
            self.prefixes.keep_slot(to, page);
        }
    }

    /// A sequence lets go of its pages and its slot; what it computed stays known until others need the room.
    pub(super) fn release(&mut self, place: u32) {
        let mut sequence = self.sequences[place as usize].take().expect("the request is not over");
        // Pages for a chunk that is not computed after all, or that wait for a state.
        self.return_restored(&mut sequence);
        let full = sequence.computed / self.prefixes.page_tokens();
        self.note_use(&sequence, full);
        self.keep_trail(&sequence, full);
        let (prefixes, has_state) = (&mut self.prefixes, self.limits.has_state);
        let page_tokens = prefixes.page_tokens();
        let mut slot = Some(sequence.slot);
        if sequence.table.len() > full {
            let page = sequence.table.pop().expect("it is longer");
            let state = if has_state { slot.take() } else { None };
            let tokens = &sequence.tokens[full * page_tokens..sequence.computed];
            prefixes.insert_tail(page, &sequence.place(full), tokens, state);
        } else if let Some(&page) = sequence.table.last()
            && has_state
            && prefixes.snapshot(page).is_none()
        {
            prefixes.keep_slot(sequence.slot, page);
            slot = None;
        }
        if let Some(slot) = slot {
            prefixes.give_slot(slot);
        }
        while let Some(page) = sequence.table.pop() {
            prefixes.release(page);
        }
        (sequence.computed, sequence.slot, sequence.trail, sequence.follows) = (0, NONE, NONE, false);
        (sequence.goal, sequence.fetching) = (Goal::Unasked, None);
        self.sequences[place as usize] = Some(sequence);
    }

    /// A sequence with a state ends: the last one that it passed at the end of a page is kept.
    fn keep_trail(&mut self, sequence: &Sequence, full: usize) {
        if !self.limits.has_state || !self.limits.beside.keeps || full == 0 {
            return;
        }
        let page = sequence.table[full - 1];
        let at_end = (sequence.computed == full * self.prefixes.page_tokens()).then_some(sequence.slot);
        if let Some(slot) = at_end.or_else(|| self.prefixes.snapshot(page)) {
            self.prefixes.decide(Move::KeepState(self.prefixes.kept(page, slot)));
        }
    }
}
