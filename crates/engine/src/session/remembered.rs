//! A session and what is remembered outside of its cache: pages that are known there are brought in, full ones are kept.
//!
//! There is nobody else to wait for the folder, so it is read here and now; written is in the background.

use std::ops::Range;
use std::sync::Arc;

use kauri_prompt::name::Name;
use kauri_prompt::prefix::Kept;
use kauri_prompt::schedule::{Kind, Shelf};
use kauri_prompt::store::{Content, Store};

use super::{SLOT, Session};
use crate::error::Error;

/// Pages of a prompt between states that are kept, unless a state is larger.
const STATE_PAGES: u32 = 16;

/// A state at the end of a page, to be kept when the answer that went on from it is over.
pub(super) type Trail = (Kept, Vec<u8>);

impl Session<'_> {
    /// Goes on in `prompt`, of which the first tokens are computed, as far as pages (and a state) are remembered.
    pub(super) fn restore(&mut self, prompt: &[u32]) -> Result<(), Error> {
        let Some(store) = &self.engine.store else { return Ok(()) };
        let page_tokens = self.page_tokens();
        let (start, most) = (self.tokens.len() / page_tokens, (prompt.len() - 1) / page_tokens);
        let names = self.names_of(&prompt[..most * page_tokens]);
        let held = (start..most).take_while(|&page| store.holds(Kind::Page, &names[page])).count();
        let mut end = start + held;
        if self.engine.has_state {
            let state = (start..end).rfind(|&page| store.holds(Kind::State, &names[page]));
            end = state.map_or(start, |page| page + 1);
        }
        let brought = self.bring_pages(prompt, &names, start..end)?;
        if self.engine.has_state && brought > start {
            let last = brought - 1;
            let tokens = &prompt[last * page_tokens..brought * page_tokens];
            let state = (brought == end).then(|| self.read(Kind::State, &names[last], tokens)).flatten();
            let Some(state) = state else { return Ok(()) };
            self.engine.executor.write_state(SLOT, &state)?;
            // What lies where in its rings, behind its last token, nobody knows.
            self.furthest = usize::MAX;
        }
        if brought > start {
            self.tokens.clear();
            self.tokens.extend_from_slice(&prompt[..brought * page_tokens]);
        }
        Ok(())
    }

    /// Fills pages of the table from the store; how many there are then, from the start.
    fn bring_pages(&mut self, prompt: &[u32], names: &[Name], pages: Range<usize>) -> Result<usize, Error> {
        let page_tokens = self.page_tokens();
        for page in pages.clone() {
            let tokens = &prompt[page * page_tokens..(page + 1) * page_tokens];
            let Some(content) = self.read(Kind::Page, &names[page], tokens) else { return Ok(page) };
            self.take_pages(page + 1);
            self.engine.executor.write_page(self.pages[page], &content)?;
        }
        Ok(pages.end)
    }

    fn read(&mut self, kind: Kind, name: &Name, tokens: &[u32]) -> Option<Arc<Content>> {
        self.engine.store.as_mut()?.read(kind, name, tokens)
    }

    /// Tokens to read of `rest` of a prompt of `total` before a state should be kept.
    pub(super) fn chunk(&self, total: usize, step: usize) -> usize {
        if !self.engine.has_state || !self.keeps() {
            return step;
        }
        let (page_tokens, done) = (self.page_tokens(), self.tokens.len());
        let goal = (total - 1) / page_tokens * page_tokens;
        let every = self.engine.snapshot_pages(STATE_PAGES) as usize * page_tokens;
        let next = (done / every + 1) * every;
        let goal = if goal > done { goal.min(next) } else { next };
        step.min(goal - done)
    }

    /// Keeps the pages that have become full since there were `before` tokens, and a state where it is worth it.
    pub(super) fn keep(&mut self, before: usize) -> Result<(), Error> {
        if !self.keeps() {
            return Ok(());
        }
        let page_tokens = self.page_tokens();
        let (first, end) = (before / page_tokens, self.tokens.len() / page_tokens);
        if first == end {
            return Ok(());
        }
        let names = self.names_of(&self.tokens[..end * page_tokens]);
        for page in first..end {
            let kept = self.kept(&names, page, self.pages[page]);
            let executor = &mut self.engine.executor;
            let Some(store) = self.engine.store.as_mut().filter(|store| store.wants(Kind::Page, &kept.name)) else {
                continue;
            };
            let mut bytes = vec![0; executor.page_bytes()];
            executor.read_page(kept.at, &mut bytes)?;
            store.keep(Kind::Page, &kept, bytes);
        }
        if self.engine.has_state && self.tokens.len().is_multiple_of(page_tokens) {
            let kept = self.kept(&names, end - 1, SLOT);
            let mut bytes = vec![0; self.engine.executor.state_bytes()];
            self.engine.executor.read_state(SLOT, &mut bytes)?;
            // One token at a time is an answer.
            if self.tokens.len() - before == 1 {
                self.trail = Some((kept, bytes));
            } else if let Some(store) = &mut self.engine.store
                && store.wants(Kind::State, &kept.name)
            {
                store.keep(Kind::State, &kept, bytes);
            }
        }
        Ok(())
    }

    /// An answer is over: what it ended with is kept, and all of it was used.
    pub(crate) fn conclude(&mut self) {
        if !self.keeps() {
            return;
        }
        let full = self.tokens.len() / self.page_tokens() * self.page_tokens();
        let (trail, names) = (self.trail.take(), self.names_of(&self.tokens[..full]));
        let Some(store) = &mut self.engine.store else { return };
        if let Some((kept, bytes)) = trail
            && store.wants(Kind::State, &kept.name)
        {
            store.keep(Kind::State, &kept, bytes);
        }
        store.used(names);
    }

    fn keeps(&self) -> bool {
        self.engine.store.as_ref().is_some_and(Store::keeps)
    }

    fn kept(&self, names: &[Name], page: usize, at: u32) -> Kept {
        let page_tokens = self.page_tokens();
        let before = page.checked_sub(1).map_or_else(|| self.root(), |before| names[before]);
        Kept { at, name: names[page], before, tokens: self.tokens[page * page_tokens..(page + 1) * page_tokens].into() }
    }

    /// The names of the pages of whole pages of tokens.
    fn names_of(&self, tokens: &[u32]) -> Vec<Name> {
        let pages = tokens.chunks_exact(self.page_tokens());
        pages
            .scan(self.root(), |name, tokens| {
                *name = name.then(tokens);
                Some(*name)
            })
            .collect()
    }

    /// As a service calls what is nobody's in particular.
    fn root(&self) -> Name {
        let salt = u64::from(self.engine.long_from_tokens.is_some_and(|from| self.reach_tokens > from));
        Name::root(self.engine.adapters.salt(salt, &self.adapters))
    }
}
