//! An answer within its room: how one that may have so many tokens and no more ends whole.
//!
//! Where little room is left, a way to an end is kept at hand (`ending.rs`). A token that leaves no way that fits is not taken: the
//! way at hand is, instead. So the model writes what it likes for as long as the rest can still be closed, and the
//! answer obeys where its room ends. Far from there this costs a comparison.
//!
//! Where there is no way within the room from the beginning, the answer is cut off in the middle: nothing can be done about it.

use super::ending;
use super::{Constraint, Error};

/// With more room than this, nothing is looked for.
const NEAR_TOKENS: usize = 512;
/// From this much more than twice the way to the end, every token is looked at: what a token may add to the way.
const MARGIN_TOKENS: usize = 96;

/// What is known of the way to an end.
#[derive(Debug)]
pub(super) struct Room {
    /// A way from where the answer stands, if one was found.
    way: Option<Vec<u32>>,
    /// With how many tokens left it is looked for again.
    near_tokens: usize,
    /// Whether a token was refused for want of room.
    is_short: bool,
}

impl Default for Room {
    fn default() -> Self {
        Self { way: None, near_tokens: NEAR_TOKENS, is_short: false }
    }
}

impl Room {
    /// Of a grammar in which ways cannot be tried.
    pub(super) fn unknown() -> Self {
        Self { near_tokens: 0, ..Self::default() }
    }

    /// When to look again: at every token near the end, and at half of the room before.
    fn plan(&mut self, way: Option<Vec<u32>>, left: usize) {
        self.near_tokens = match &way {
            Some(way) if left <= 2 * way.len() + MARGIN_TOKENS => left,
            Some(way) => (left / 2).max(2 * way.len() + MARGIN_TOKENS),
            // There may be one from a place further on.
            None => left - left / 4,
        };
        self.way = way;
    }
}

impl Constraint {
    /// Takes the token that was chosen, with those that must follow it, and adds them to `written`; `left` tokens may be written from
    /// here on, these included. Where the token would leave no room for a valid end, a way to one is taken in its place: nothing, where
    /// the answer may end here.
    ///
    /// # Errors
    /// When the grammar does not allow the token, or following takes too much work.
    pub fn take(&mut self, token: u32, left: usize, written: &mut Vec<u32>) -> Result<(), Error> {
        if left > self.room.near_tokens {
            self.room.way = None;
            return self.take_freely(token, written);
        }
        if self.room.way.as_ref().is_none_or(|way| way.len() > left) {
            let way = self.find_end(left);
            self.room.plan(way, left);
        }
        let Some(way) = self.room.way.take() else { return self.take_freely(token, written) };
        let (before, noted) = (written.len(), self.written.len());
        self.take_freely(token, written)?;
        let taken = written.len() - before;
        let after = left.checked_sub(taken);
        if let Some(rest) = after.and_then(|after| self.way_on(&way, &written[before..], after)) {
            self.room.plan(Some(rest), left - taken);
            return Ok(());
        }
        self.room.is_short = true;
        self.matcher.rollback(taken).map_err(|error| super::too_complex(&error.to_string()))?;
        self.written.truncate(noted);
        written.truncate(before);
        // All of it at once: which tokens are certain on the way may depend on how its beginning was cut.
        way.iter().try_for_each(|&token| self.commit(token))?;
        written.extend_from_slice(&way);
        self.room.plan(Some(Vec::new()), left - way.len());
        Ok(())
    }

    /// Whether the answer is other than the model would have it, for want of room.
    pub fn is_short(&self) -> bool {
        self.room.is_short
    }

    fn take_freely(&mut self, token: u32, written: &mut Vec<u32>) -> Result<(), Error> {
        self.commit(token)?;
        written.push(token);
        written.extend(self.forced());
        Ok(())
    }

    /// A way from behind `taken` within `left` tokens, where `way` led to an end before: what is left of it, itself, or another.
    fn way_on(&mut self, way: &[u32], taken: &[u32], left: usize) -> Option<Vec<u32>> {
        if let Some(rest) = way.strip_prefix(taken) {
            return (rest.len() <= left).then(|| rest.to_vec());
        }
        // Within a text, for one, the same tokens close it everywhere. Where some were certain, the way may be cut otherwise.
        if taken.len() == 1 && way.len() <= left && self.leads_to_end(way) {
            return Some(way.to_vec());
        }
        self.find_end(left)
    }

    fn leads_to_end(&mut self, way: &[u32]) -> bool {
        let Ok(taken) = self.matcher.try_consume_tokens(way) else { return false };
        let ends = taken == way.len() && self.may_end();
        self.matcher.rollback(taken).is_ok() && ends
    }

    fn find_end(&mut self, left: usize) -> Option<Vec<u32>> {
        if self.may_end() {
            return Some(Vec::new());
        }
        let closers = self.closers();
        ending::find(self.matcher.deep_clone(), closers, &self.prototype.hints, &self.text_tokens, left)
    }
}

#[cfg(test)]
mod tests;
