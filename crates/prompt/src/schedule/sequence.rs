//! A request on its way: its tokens, and what of it is computed.

use crate::prefix::{self, NONE};

use super::Id;

/// What is asked of a schedule.
#[derive(Clone, Debug)]
pub struct Request {
    /// The whole prompt.
    pub prompt: Vec<u32>,
    /// Most tokens to write; as far as the window goes where unset.
    pub max_tokens: Option<usize>,
    /// Who asks: callers are treated alike, whatever the number of their requests.
    pub caller: u64,
    /// The higher, the sooner.
    pub priority: u8,
    /// Only requests with the same salt share what is known.
    pub salt: u64,
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// As many wait as may.
    #[error("the queue is full: {waiting} requests wait already; try again later")]
    QueueFull {
        /// How many wait.
        waiting: u32,
    },
    /// There is nothing to go on from.
    #[error("the prompt is empty")]
    Empty,
    /// It does not leave room for a token.
    #[error("the prompt has {prompt} tokens, but there is room for {room}, the answer included")]
    TooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens that there is room for.
        room: usize,
    },
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// In the queue.
    Waiting,
    /// With pages and a slot.
    Running,
    /// Left alone: its reader is behind.
    Parked,
}

/// How far a sequence with a state is brought from outside: pages, with the state behind the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// Nobody has looked.
    Unasked,
    /// To the end of so many pages.
    Pages(usize),
    /// No further.
    Over,
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: Id,
    pub(super) caller: u64,
    pub(super) priority: u8,
    pub(super) salt: u64,
    pub(super) stage: Stage,
    /// Ticks that it waited before: in the queue, or for the rest of its prompt.
    waited: u64,
    /// The tick from which it waits; none while it is written.
    since: Option<u64>,
    /// Whether it ever waited longer than it should.
    pub(super) overdue: bool,
    /// Prompt and answer.
    pub(super) tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub(super) prompt: usize,
    /// The hash of the tokens up to the end of each full page, as far as it was asked for.
    pub(super) chains: Vec<u64>,
    /// Tokens that it may come to.
    pub(super) reach: usize,
    /// Tokens whose keys and values are in `table`.
    pub(super) computed: usize,
    pub(super) table: Vec<u32>,
    pub(super) slot: u32,
    /// Where it stands among those that run.
    pub(super) index: u32,
    /// Tokens of the prompt that need not be computed.
    pub(super) cached: u32,
    /// Whether it ran before and was sent back.
    pub(super) returned: bool,
    /// Whether it waits for what another computes.
    pub(super) follows: bool,
    /// The page whose snapshot it took last while writing: only the latest is worth a slot.
    pub(super) trail: u32,
    /// How far it is brought from outside, if it has a state.
    pub(super) goal: Goal,
    /// The tick from which it waits for something from outside.
    pub(super) fetching: Option<u64>,
}

impl Sequence {
    /// A request that waits. Memory for all it may become is set aside here, so that no step needs any.
    pub(super) fn new(request: Request, id: Id, now: u64, room: usize, page_tokens: usize) -> Self {
        let prompt = request.prompt.len();
        let reach = request.max_tokens.map_or(room, |most| prompt.saturating_add(most).min(room));
        let mut tokens = request.prompt;
        tokens.reserve_exact(reach - prompt);
        let pages = reach.div_ceil(page_tokens);
        let mut sequence = Self {
            id,
            caller: request.caller,
            priority: request.priority,
            salt: request.salt,
            stage: Stage::Waiting,
            waited: 0,
            since: Some(now),
            overdue: false,
            tokens,
            prompt,
            chains: Vec::with_capacity(pages),
            reach,
            computed: 0,
            table: Vec::with_capacity(pages),
            slot: NONE,
            index: 0,
            cached: 0,
            returned: false,
            follows: false,
            trail: NONE,
            goal: Goal::Unasked,
            fetching: None,
        };
        sequence.hash(prompt / page_tokens, page_tokens);
        sequence
    }

    /// The last tick at which its patience, of `patience` ticks in all, lasts if it goes on waiting; none while it is written.
    pub(super) fn deadline(&self, patience: u64) -> Option<u64> {
        Some(self.since?.saturating_add(patience.saturating_sub(self.waited)))
    }

    /// It waits from `now` on.
    pub(super) fn wait(&mut self, now: u64) {
        self.since.get_or_insert(now);
    }

    /// It waits no longer: from now on each step writes a token of it.
    pub(super) fn write(&mut self, now: u64) {
        if let Some(since) = self.since.take() {
            self.waited += now - since;
        }
    }

    /// Tokens that are not computed.
    pub(super) fn left(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Pages that the tokens it has need beyond those it holds.
    pub(super) fn pages_missing(&self, page_tokens: usize) -> usize {
        self.tokens.len().div_ceil(page_tokens).saturating_sub(self.table.len())
    }

    /// Hashes the tokens up to the end of `pages` full pages.
    pub(super) fn hash(&mut self, pages: usize, page_tokens: usize) {
        for page in self.chains.len()..pages {
            let before = self.before(page);
            let tokens = &self.tokens[page * page_tokens..(page + 1) * page_tokens];
            self.chains.push(prefix::chain(before, tokens));
        }
    }

    /// The hash of the tokens before a page.
    pub(super) fn before(&self, page: usize) -> u64 {
        if page == 0 { prefix::root(self.salt) } else { self.chains[page - 1] }
    }
}
