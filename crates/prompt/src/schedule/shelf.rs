//! What is kept outside of the pool, as the schedule sees it: a prompt goes on with pages that are at hand, and waits for those on their
//! way.
//!
//! Loading takes its turn like computing: at most as many pages a step as prompts may have tokens, so that those who write are not
//! kept waiting. What fails to come is computed.

use crate::name::Name;
use crate::prefix::Move;

use super::Schedule;
use super::sequence::Sequence;

/// Pages to go for while the next one is on its way.
const AHEAD: usize = 64;

/// What may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A page of keys and values.
    Page,
    /// The state of recurrent layers behind a page.
    State,
}

/// How far away something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It can be loaded in this step.
    AtHand,
    /// It will be at hand or missing in a later step.
    Coming,
    /// It is not kept, or cannot be had.
    Missing,
}

/// What is kept outside of the pool.
pub trait Shelf {
    /// A new step begins.
    fn turn(&mut self);

    /// Whether this is kept, as far as is known without going there.
    fn holds(&self, kind: Kind, name: &Name) -> bool;

    /// How far away this is; goes for it where it is not at hand. What was said to be at hand stays so for the step. `tokens` are
    /// those of the page.
    fn find(&mut self, kind: Kind, name: &Name, tokens: &[u32]) -> Found;

    /// This may be asked for in a later step: goes for it where there is room. Says whether there is any use in naming more.
    fn expect(&mut self, kind: Kind, name: &Name, tokens: &[u32]) -> bool;
}

/// A shelf with nothing on it.
#[derive(Debug)]
pub struct Nothing;

impl Shelf for Nothing {
    fn turn(&mut self) {}

    fn holds(&self, _: Kind, _: &Name) -> bool {
        false
    }

    fn find(&mut self, _: Kind, _: &Name, _: &[u32]) -> Found {
        Found::Missing
    }

    fn expect(&mut self, _: Kind, _: &Name, _: &[u32]) -> bool {
        false
    }
}

/// What came of a look at the shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The sequence has the page or state now.
    Had,
    /// It waits for it.
    Waits,
    /// It has to be computed.
    Computes,
}

impl Sequence {
    /// The tokens of its page of this number.
    pub(super) fn page_of(&self, page: usize, page_tokens: usize) -> &[u32] {
        &self.tokens[page * page_tokens..(page + 1) * page_tokens]
    }
}

impl Schedule {
    /// Goes on with the page that comes next in a sequence's table, which the index does not know, from the shelf.
    pub(super) fn fetch_page(&mut self, sequence: &mut Sequence, most: usize, shelf: &mut dyn Shelf) -> Look {
        let (page, page_tokens) = (sequence.table.len(), self.prefixes.page_tokens());
        let place = sequence.place(page);
        let name = self.prefixes.name_before(&place).then(sequence.page_of(page, page_tokens));
        match shelf.find(Kind::Page, &name, sequence.page_of(page, page_tokens)) {
            Found::Missing => Look::Computes,
            Found::Coming if self.is_impatient(sequence) => Look::Computes,
            Found::Coming => {
                self.look_ahead(sequence, name, page + 1..most.min(page + AHEAD), shelf);
                Look::Waits
            }
            Found::AtHand if self.loads == 0 => Look::Waits,
            Found::AtHand => {
                sequence.fetching = None;
                let Some(free) = self.prefixes.take() else { return Look::Computes };
                let tokens = sequence.page_of(page, page_tokens);
                let known = self.prefixes.insert(free, &place, sequence.chains[page], tokens);
                self.prefixes.decide(Move::LoadPage { page: known, name });
                sequence.table.push(known);
                self.loads -= 1;
                self.restored_tokens += page_tokens as u64;
                Look::Had
            }
        }
    }

    /// Goes for pages behind the one called `name`, as far as they are kept.
    fn look_ahead(&self, sequence: &Sequence, name: Name, pages: std::ops::Range<usize>, shelf: &mut dyn Shelf) {
        let mut name = name;
        for page in pages {
            let tokens = sequence.page_of(page, self.prefixes.page_tokens());
            name = name.then(tokens);
            if !shelf.expect(Kind::Page, &name, tokens) {
                break;
            }
        }
    }

    /// Whether a sequence has waited for the shelf longer than it should; from now on it counts.
    fn is_impatient(&self, sequence: &mut Sequence) -> bool {
        let since = *sequence.fetching.get_or_insert(self.now);
        self.now - since > self.limits.patience_ticks
    }

    /// Looks for a state further on than what a sequence has, with all pages up to it: how many pages that would be.
    pub(super) fn furthest_state(&self, sequence: &Sequence, most: usize, shelf: &dyn Shelf) -> Option<usize> {
        let (start, page_tokens) = (sequence.table.len(), self.prefixes.page_tokens());
        let place = sequence.place(start);
        let (mut name, mut parent, mut furthest) = (self.prefixes.name_before(&place), Some(place.parent), None);
        for page in start..most {
            name = name.then(sequence.page_of(page, page_tokens));
            parent = parent.and_then(|parent| sequence.known_page(&self.prefixes, page, parent));
            if parent.is_none() && !shelf.holds(Kind::Page, &name) {
                break;
            }
            if shelf.holds(Kind::State, &name) {
                furthest = Some(page + 1);
            }
        }
        furthest
    }

    /// Brings a sequence with a state to the end of its first `goal` pages: pages first, as they come, then the state.
    pub(super) fn restore(&mut self, sequence: &mut Sequence, goal: usize, shelf: &mut dyn Shelf) -> Look {
        let page_tokens = self.prefixes.page_tokens();
        while sequence.table.len() < goal {
            let page = sequence.table.len();
            if let Some(known) = sequence.known_page(&self.prefixes, page, sequence.place(page).parent) {
                self.prefixes.adopt(known);
                sequence.table.push(known);
                continue;
            }
            match self.fetch_page(sequence, goal, shelf) {
                Look::Had => {}
                look @ (Look::Waits | Look::Computes) => return look,
            }
        }
        let name = self.prefixes.name(sequence.table[goal - 1]);
        match shelf.find(Kind::State, &name, sequence.page_of(goal - 1, page_tokens)) {
            Found::Missing => Look::Computes,
            Found::Coming if self.is_impatient(sequence) => Look::Computes,
            Found::Coming => Look::Waits,
            Found::AtHand => {
                sequence.fetching = None;
                self.prefixes.decide(Move::LoadState { slot: sequence.slot, name });
                sequence.computed = goal * page_tokens;
                Look::Had
            }
        }
    }

    /// A sequence lets go of pages that it was brought and that are of no use to it without the state behind them.
    pub(super) fn return_restored(&mut self, sequence: &mut Sequence) {
        while sequence.table.len() > sequence.computed.div_ceil(self.prefixes.page_tokens()) {
            self.prefixes.release(sequence.table.pop().expect("it is longer"));
        }
    }

    /// Says that a sequence used all its full pages.
    pub(super) fn note_use(&mut self, sequence: &Sequence, full: usize) {
        if self.limits.beside.keeps && full > 0 {
            let names = sequence.table[..full].iter().map(|&page| self.prefixes.name(page)).collect();
            self.prefixes.decide(Move::Used(names));
        }
    }
}
