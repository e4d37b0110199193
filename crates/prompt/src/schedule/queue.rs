//! Those that wait, and how much each caller was given.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::sequence::Sequence;

/// Callers that are remembered while they ask for nothing.
const ABSENT_MAX: usize = 1024;

/// The requests that wait: by arrival, and by caller.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Arrival number to place.
    by_arrival: BTreeMap<u64, u32>,
    callers: BTreeMap<u64, Caller>,
}

#[derive(Debug, Default)]
struct Caller {
    /// Tokens computed for it.
    counter: u64,
    /// Its requests that wait: (priority, arrival, place), the next first.
    waiting: BTreeSet<(Reverse<u8>, u64, u32)>,
    /// Its requests that wait or run.
    requests: usize,
}

impl Queue {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.by_arrival.len()
    }

    /// A caller has a request. One that was away starts where the least served of those present is: being away earns nothing.
    pub(super) fn arrive(&mut self, caller: u64) {
        let present = self.callers.values().filter(|caller| caller.requests > 0);
        let least = present.map(|caller| caller.counter).min().unwrap_or(0);
        if self.callers.len() > ABSENT_MAX {
            self.callers.retain(|_, caller| caller.requests > 0);
        }
        let caller = self.callers.entry(caller).or_default();
        if caller.requests == 0 {
            caller.counter = caller.counter.max(least);
        }
        caller.requests += 1;
    }

    /// A request of a caller is over.
    pub(super) fn depart(&mut self, caller: u64) {
        self.caller(caller).requests -= 1;
    }

    /// Tokens were computed for a caller.
    pub(super) fn charge(&mut self, caller: u64, tokens: u64) {
        self.caller(caller).counter += tokens;
    }

    /// What a caller was given.
    pub(super) fn counter(&self, caller: u64) -> u64 {
        self.callers.get(&caller).map_or(0, |caller| caller.counter)
    }

    /// A request waits.
    pub(super) fn push(&mut self, sequence: &Sequence) {
        self.by_arrival.insert(sequence.id.number, sequence.id.place);
        let key = (Reverse(sequence.priority), sequence.id.number, sequence.id.place);
        self.caller(sequence.caller).waiting.insert(key);
    }

    /// A request waits no longer.
    pub(super) fn remove(&mut self, sequence: &Sequence) {
        self.by_arrival.remove(&sequence.id.number);
        let key = (Reverse(sequence.priority), sequence.id.number, sequence.id.place);
        self.caller(sequence.caller).waiting.remove(&key);
    }

    /// Arrival and place of the request that came first.
    pub(super) fn oldest(&self) -> Option<(u64, u32)> {
        self.by_arrival.first_key_value().map(|(&arrival, &place)| (arrival, place))
    }

    /// The place of the next request by priority, then by what its caller was given, then by arrival.
    pub(super) fn next(&self) -> Option<u32> {
        let firsts = self.callers.values().filter_map(|caller| {
            let &(priority, arrival, place) = caller.waiting.first()?;
            Some(((priority, caller.counter, arrival), place))
        });
        firsts.min().map(|(_, place)| place)
    }

    fn caller(&mut self, caller: u64) -> &mut Caller {
        self.callers.get_mut(&caller).expect("a caller with a request is known")
    }
}
