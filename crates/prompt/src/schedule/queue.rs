//! Those that wait, and how much each caller was given.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::sequence::Sequence;

/// Callers that are remembered while they ask for nothing.
const ABSENT_MAX: usize = 1024;

/// Which of a caller's requests comes first of those that have not run yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The one that came first.
    Arrival,
    /// The one that came last.
    Latest,
}

/// The requests that wait: by the end of their patience, and by caller.
#[derive(Debug, Default)]
pub(super) struct Queue {
    patience_ticks: u64,
    /// (deadline, arrival, place).
    by_deadline: BTreeSet<(u64, u64, u32)>,
    callers: BTreeMap<u64, Caller>,
}

#[derive(Debug, Default)]
struct Caller {
    /// Tokens computed for it.
    counter: u64,
    /// Its requests that wait: (priority, whether it has not run yet, arrival, place), the next first.
    waiting: BTreeSet<(Reverse<u8>, bool, u64, u32)>,
    /// Its requests that wait or run.
    requests: usize,
}

impl Queue {
    /// An empty queue of requests that should not wait longer than `patience_ticks`.
    pub(super) fn new(patience_ticks: u64) -> Self {
        Self { patience_ticks, ..Self::default() }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.by_deadline.len()
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

    /// How many requests of a caller wait.
    pub(super) fn waiting_of(&self, caller: u64) -> usize {
        self.callers.get(&caller).map_or(0, |caller| caller.waiting.len())
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
        self.by_deadline.insert(self.deadline(sequence));
        self.caller(sequence.caller).waiting.insert(key(sequence));
    }

    /// A request waits no longer.
    pub(super) fn remove(&mut self, sequence: &Sequence) {
        self.by_deadline.remove(&self.deadline(sequence));
        self.caller(sequence.caller).waiting.remove(&key(sequence));
    }

    /// The place of the request whose patience ends first, and the last tick of it.
    pub(super) fn first_due(&self) -> Option<(u64, u32)> {
        self.by_deadline.first().map(|&(deadline, _, place)| (deadline, place))
    }

    fn deadline(&self, sequence: &Sequence) -> (u64, u64, u32) {
        let deadline = sequence.deadline(self.patience_ticks).expect("who is in the queue waits");
        (deadline, sequence.id.number, sequence.id.place)
    }

    /// The place of the next request by priority, then by what its caller was given, then those that ran before, then in this order.
    pub(super) fn next(&self, order: Order) -> Option<u32> {
        let firsts = self.callers.values().filter_map(|caller| {
            let &(priority, is_fresh, arrival, place) = caller.waiting.first()?;
            let latest = caller.waiting.range(..=(priority, true, u64::MAX, u32::MAX)).next_back();
            let place = match order {
                Order::Latest if is_fresh => latest.expect("the first is among them").3,
                Order::Latest | Order::Arrival => place,
            };
            Some(((priority, caller.counter, arrival), place))
        });
        firsts.min().map(|(_, place)| place)
    }

    fn caller(&mut self, caller: u64) -> &mut Caller {
        self.callers.get_mut(&caller).expect("a caller with a request is known")
    }
}

/// Where a request stands among those of its caller.
fn key(sequence: &Sequence) -> (Reverse<u8>, bool, u64, u32) {
    (Reverse(sequence.priority), !sequence.returned, sequence.id.number, sequence.id.place)
}
