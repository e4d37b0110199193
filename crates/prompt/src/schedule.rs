//! Who runs in the next step: pure and deterministic, time comes in as ticks.
//!
//! A step is a batch: the next token of every answer that is being written, and chunks of prompts under a token budget that is
//! smaller while somebody reads along, so that a long prompt does not set the pace of the others. The rules:
//!
//! - *Room.* A caller may have as much waiting as four times what is left of the queue: who asks for ever more comes to the end of their
//!   share, and there is room for those who come later (the dynamic threshold of Choudhury and Hahne 1998).
//! - *Admission.* The next request is one of the highest priority, of the caller that was given the fewest tokens (the virtual token counter of Sheng et al. 2024, "Fairness
//!   in Serving Large Language Models": a caller that was away starts at the least counter of those present). Where some
//!   waited longer than `patience_ticks`, every second one is theirs, the one whose patience ended first: nobody starves, and whoever fills the
//!   queue does not make others wait for all of it. The others are then those of a caller who came last, behind those that were sent back ("adaptive
//!   LIFO", Maurer 2015, "Fail at Scale"): where there is more to do than can be done, all would wait as long as the queue is, and who
//!   came last is likeliest to be there still. It is admitted when
//!   the pages of its prompt can be had, and what all running requests may come to need stays under a bound. Nobody
//!   overtakes a request that is next and does not fit: what ends makes room for it.
//! - *Chunks.* Prompts are read in the order of priority, then of the callers' counters. Where there are several, each takes at
//!   most half of what the ones before it left, then the rest is filled up: a giant prompt leaves room for small ones.
//! - *Sharing.* A prompt adopts each page that is known by the time it gets there. Where another prompt of this step computes the
//!   same next page, it waits a step and finds it.
//! - *Preemption.* When pages run out, the last in rank (patience, then priority, then arrival) goes back to the queue and keeps
//!   its arrival. Its pages stay known, so that it goes on where it was unless they are needed. The first in rank is
//!   never sent back: it ends, the next is first, and so everybody ends.
//! - *Parking.* A request whose reader is behind is taken out of all of this, like one that was sent back but not waiting, until they have caught up.
//!
//! Work per step is linear in the running sequences and their new tokens (and in the logarithm of the queue). It knows no text, no
//! sampling and no device.

mod cache;
mod queue;
mod sequence;
mod shelf;

use std::collections::HashSet;

use crate::prefix::{Move, Prefixes};
use queue::{Order, Queue};
use sequence::{Sequence, Stage};

pub use sequence::{Refusal, Request};
pub use shelf::{Found, Kind, Nothing, Shelf};

/// How many times what is left of the queue a caller may have waiting.
const SHARE: usize = 4;

/// The sizes and rules of a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Tokens to a page.
    pub page_tokens: u32,
    /// Pages of the cache.
    pub pages: u32,
    /// Places for states; sequences that run have one each, snapshots the rest.
    pub slots: u32,
    /// Whether sequences have a state that cannot be taken back to an earlier token.
    pub has_state: bool,
    /// Tokens that prompt and answer of one request may have together.
    pub window_tokens: u32,
    /// Most tokens of a step.
    pub batch_tokens: u32,
    /// Most tokens of prompts in a step, while answers are being written.
    pub chunk_tokens: u32,
    /// Most sequences that run at once.
    pub running: u32,
    /// Most requests that wait.
    pub waiting: u32,
    /// How many times the cache may be promised: what all running requests may come to need, as a share of all pages.
    pub promised_percent: u32,
    /// A request that has waited longer, in the queue or for the rest of its prompt, goes first from then on.
    pub patience_ticks: u64,
    /// Pages of a prompt between snapshots of a state.
    pub snapshot_pages: u32,
    /// What there is beside the pool.
    pub beside: Beside,
}

/// What is done with pages and states beside the pool: nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// They are wanted as soon as they are known.
    pub keeps: bool,
    /// They are wanted when they are forgotten.
    pub spills: bool,
    /// They can come from there.
    pub restores: bool,
}

/// A request's name: its place in a table, and its number, so that an old name finds nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    number: u64,
    place: u32,
}

/// One sequence's share of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Whose.
    pub id: Id,
    /// Its tokens that are cached already: the position of the first that is computed.
    pub start: u32,
    /// The position after the last.
    pub end: u32,
    /// Whether the logits of the last are wanted.
    pub output: bool,
}

/// What the next step computes, behind [`Schedule::moves`].
#[derive(Debug, Default)]
pub struct Step {
    /// The sequences.
    pub work: Vec<Work>,
}

impl Step {
    /// How many answers it writes a token of, and how many tokens it reads of prompts, and of what is read like them.
    pub fn measure(&self) -> (u32, u32) {
        let is_writing = |work: &&Work| work.output && work.end - work.start == 1;
        let answers = self.work.iter().filter(is_writing).count() as u32;
        (answers, self.work.iter().map(|work| work.end - work.start).sum::<u32>() - answers)
    }
}

/// How things stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Requests that wait.
    pub waiting: u32,
    /// Sequences that run.
    pub running: u32,
    /// Requests that are parked.
    pub parked: u32,
    /// Pages that hold nothing.
    pub pages_free: u32,
    /// Pages that are known and that nobody uses.
    pub pages_cached: u32,
    /// Pages that sequences use.
    pub pages_used: u32,
    /// Tokens of prompts that were begun so far.
    pub prompt_tokens: u64,
    /// Of those, how many were known.
    pub cached_tokens: u64,
    /// Tokens whose pages came from outside the pool.
    pub restored_tokens: u64,
    /// How often a sequence was sent back to the queue.
    pub preemptions: u64,
    /// Pages that were forgotten for others.
    pub evictions: u64,
}

/// The schedule: queue, running sequences, cache.
#[derive(Debug)]
pub struct Schedule {
    limits: Limits,
    prefixes: Prefixes,
    sequences: Vec<Option<Sequence>>,
    /// Places of `sequences` that are free.
    vacant: Vec<u32>,
    queue: Queue,
    /// Places of running sequences; by rank while a step is planned.
    running: Vec<u32>,
    step: Step,
    /// Whether `step` was handed out and is not computed yet.
    open: bool,
    /// Prompts of this step, and how many tokens each may have.
    prompts: Vec<(u32, u32)>,
    /// Hashes of the pages that this step computes first.
    claims: HashSet<u64>,
    arrivals: u64,
    parked: u32,
    /// Whether the request that was begun last was one that had waited too long.
    was_due: bool,
    now: u64,
    /// Pages that this step may yet bring from outside.
    loads: u32,
    prompt_tokens: u64,
    cached_tokens: u64,
    restored_tokens: u64,
    preemptions: u64,
}

impl Schedule {
    /// An empty schedule.
    ///
    /// # Panics
    /// If there is no page, no place to run, or not a token to a step for each running sequence.
    pub fn new(limits: &Limits) -> Self {
        assert!(
            limits.pages > 0 && limits.page_tokens > 0 && limits.running > 0,
            "a schedule without room: {limits:?}"
        );
        assert!(limits.slots >= limits.running, "{} slots for {} sequences", limits.slots, limits.running);
        assert!(limits.batch_tokens >= limits.running && limits.chunk_tokens > 0, "steps without room: {limits:?}");
        let running = limits.running as usize;
        let mut prefixes = Prefixes::new(limits.pages, limits.page_tokens, limits.slots);
        if limits.beside.spills {
            prefixes.spill();
        }
        Self {
            limits: *limits,
            prefixes,
            sequences: Vec::new(),
            vacant: Vec::new(),
            queue: Queue::new(limits.patience_ticks),
            running: Vec::with_capacity(running),
            step: Step { work: Vec::with_capacity(running) },
            open: false,
            prompts: Vec::with_capacity(running),
            claims: HashSet::with_capacity(running),
            arrivals: 0,
            parked: 0,
            was_due: false,
            now: 0,
            loads: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            restored_tokens: 0,
            preemptions: 0,
        }
    }

    /// Takes a request into the queue at tick `now`.
    ///
    /// # Errors
    /// When the queue is full, or the request can never run.
    pub fn submit(&mut self, request: Request, now: u64) -> Result<Id, Refusal> {
        let capacity = u64::from(self.limits.pages) * u64::from(self.limits.page_tokens);
        let room = u64::from(self.limits.window_tokens).min(capacity) as usize;
        if request.prompt.is_empty() {
            return Err(Refusal::Empty);
        }
        if request.prompt.len() >= room {
            return Err(Refusal::TooLong { prompt: request.prompt.len(), room });
        }
        if !self.has_room_for(request.caller) {
            return Err(Refusal::QueueFull { waiting: self.limits.waiting });
        }
        self.arrivals += 1;
        let number = self.arrivals;
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.sequences.push(None);
            self.sequences.len() as u32 - 1
        });
        let sequence = Sequence::new(request, Id { number, place }, now, room, self.limits.page_tokens as usize);
        self.queue.arrive(sequence.caller);
        self.queue.push(&sequence);
        self.sequences[place as usize] = Some(sequence);
        Ok(Id { number, place })
    }

    /// From the next step on, at most so many tokens of prompts are read while answers are being written.
    ///
    /// # Panics
    /// If it is none: prompts would wait for all answers to end.
    pub fn set_chunk_tokens(&mut self, tokens: u32) {
        assert!(tokens > 0, "prompts would not go on");
        self.limits.chunk_tokens = tokens;
    }

    /// Plans the next step at tick `now`; says whether there is anything to do. What it planned is [`Schedule::moves`], then
    /// [`Schedule::planned`]. Where there is nothing and it is not idle, all wait for something to come from outside, which is none here.
    ///
    /// # Panics
    /// If the step before was not said to be computed.
    pub fn step(&mut self, now: u64) -> bool {
        self.step_beside(now, &mut Nothing)
    }

    /// The same beside a shelf on which more is kept than fits the pool.
    ///
    /// # Panics
    /// If the step before was not said to be computed.
    pub fn step_beside(&mut self, now: u64, shelf: &mut dyn Shelf) -> bool {
        assert!(!self.open, "the step before is not computed");
        self.now = now;
        shelf.turn();
        self.loads = (self.limits.batch_tokens / self.limits.page_tokens).max(1);
        self.step.work.clear();
        self.admit();
        self.rank();
        self.share_out(shelf);
        // The first in rank may send others back, so it comes before any that it could send.
        let first = self.running.first().copied();
        if let Some(place) = first
            && let Some(&(_, tokens)) = self.prompts.first().filter(|prompt| prompt.0 == place)
        {
            self.read(place, tokens, true);
        }
        self.write();
        let prompts = std::mem::take(&mut self.prompts);
        for &(place, tokens) in prompts.iter().filter(|prompt| Some(prompt.0) != first) {
            if self.is_running(place) {
                self.read(place, tokens, false);
            }
        }
        self.prompts = prompts;
        self.open = !self.step.work.is_empty() || !self.prefixes.moves().is_empty();
        self.open
    }

    /// What is to be done to pages and slots before the next launch, in this order, whether it was decided by the step that is planned or
    /// behind the one before. [`Schedule::moved`] says that it is done.
    pub fn moves(&self) -> &[Move] {
        self.prefixes.moves()
    }

    /// What was to be done is done.
    pub fn moved(&mut self) {
        self.prefixes.moved();
    }

    /// What the step computes.
    pub fn planned(&self) -> &Step {
        &self.step
    }

    /// The planned step was computed, behind its moves: its pages are known from now on. Every sequence with an output waits for
    /// [`Schedule::push`] or [`Schedule::finish`].
    pub fn computed(&mut self) {
        assert!(std::mem::take(&mut self.open), "no step was planned");
        self.prefixes.moved();
        for index in 0..self.step.work.len() {
            let Work { id, end, start, .. } = self.step.work[index];
            self.queue.charge(self.at(id.place).caller, u64::from(end - start));
            self.settle(id.place, end as usize);
        }
    }

    /// The planned step was not computed, and nobody knows what the cache holds: every running sequence ends, and every page is
    /// forgotten. Their names are handed to `lost`; those that wait go on waiting.
    pub fn abandon(&mut self, mut lost: impl FnMut(Id)) {
        self.open = false;
        self.step.work.clear();
        while let Some(place) = self.running.pop() {
            let id = self.at(place).id;
            self.release(place);
            self.retire(place);
            lost(id);
        }
        self.prefixes.clear();
    }

    /// A sequence goes on with `tokens`: the one that was chosen, and any that are certain to follow it. Several are read like a
    /// prompt, and the logits of the last are wanted.
    ///
    /// # Panics
    /// If there are none, it has an uncomputed token already, or no room for as many.
    pub fn push(&mut self, id: Id, tokens: &[u32]) {
        let sequence = self.at_mut(id.place);
        assert!(sequence.id == id && sequence.left() == 0, "{id:?} has no place for a token");
        let room = sequence.reach - sequence.tokens.len();
        assert!((1..=room).contains(&tokens.len()), "{} tokens for {id:?}, which has room for {room}", tokens.len());
        sequence.tokens.extend_from_slice(tokens);
    }

    /// A request is over, whether it ran or waited; its pages stay known. Says whether there was such a request.
    ///
    /// # Panics
    /// If a step is planned and not computed.
    pub fn finish(&mut self, id: Id) -> bool {
        assert!(!self.open, "a request cannot end in the middle of a step");
        if self.get(id).is_none() {
            return false;
        }
        self.withdraw(id.place);
        self.retire(id.place);
        true
    }

    /// A request is left alone until [`Schedule::unpark`]: it neither runs nor waits, and its pages are others' when they need them. Says
    /// whether it was not parked yet.
    ///
    /// # Panics
    /// If a step is planned and not computed.
    pub fn park(&mut self, id: Id) -> bool {
        assert!(!self.open, "a request cannot be parked in the middle of a step");
        if self.get(id).is_none_or(|sequence| sequence.stage == Stage::Parked) {
            return false;
        }
        let now = self.now;
        self.withdraw(id.place);
        self.parked += 1;
        let sequence = self.at_mut(id.place);
        // Time that it spends parked is not time that it was let wait.
        sequence.write(now);
        (sequence.stage, sequence.returned) = (Stage::Parked, true);
        let caller = sequence.caller;
        self.queue.depart(caller);
        true
    }

    /// A parked request goes on at tick `now`: it waits like one that was sent back. Says whether it was parked.
    pub fn unpark(&mut self, id: Id, now: u64) -> bool {
        if self.get(id).is_none_or(|sequence| sequence.stage != Stage::Parked) {
            return false;
        }
        self.parked -= 1;
        let sequence = self.at_mut(id.place);
        sequence.stage = Stage::Waiting;
        sequence.wait(now);
        let caller = sequence.caller;
        self.queue.arrive(caller);
        let sequence = self.sequences[id.place as usize].as_ref().expect("it was found");
        self.queue.push(sequence);
        true
    }

    /// The tokens of a request: its prompt, and what was written.
    pub fn tokens(&self, id: Id) -> &[u32] {
        &self.at(id.place).tokens
    }

    /// The position where the prompt of a request ends: what was written follows.
    pub fn prompt_end(&self, id: Id) -> u32 {
        self.at(id.place).prompt as u32
    }

    /// The page table of a running sequence.
    pub fn pages(&self, id: Id) -> &[u32] {
        &self.at(id.place).table
    }

    /// The slot of a running sequence.
    pub fn slot(&self, id: Id) -> u32 {
        self.at(id.place).slot
    }

    /// The most tokens that a request may come to.
    pub fn reach_tokens(&self, id: Id) -> u32 {
        self.at(id.place).reach as u32
    }

    /// Tokens of a request's prompt that were known when it was begun, or by the time it got there.
    pub fn cached_tokens(&self, id: Id) -> u32 {
        self.at(id.place).cached
    }

    /// Whether nobody runs and nobody waits.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.queue.len() == 0
    }

    /// How things stand.
    pub fn status(&self) -> Status {
        let [free, cached] = [self.prefixes.pages().free(), self.prefixes.cached()];
        Status {
            waiting: self.queue.len() as u32,
            running: self.running.len() as u32,
            parked: self.parked,
            pages_free: free,
            pages_cached: cached,
            pages_used: self.prefixes.pages().total() - free - cached,
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            restored_tokens: self.restored_tokens,
            preemptions: self.preemptions,
            evictions: self.prefixes.evicted(),
        }
    }

    fn get(&self, id: Id) -> Option<&Sequence> {
        self.sequences.get(id.place as usize)?.as_ref().filter(|sequence| sequence.id == id)
    }

    fn at(&self, place: u32) -> &Sequence {
        self.sequences[place as usize].as_ref().expect("the request is not over")
    }

    fn at_mut(&mut self, place: u32) -> &mut Sequence {
        self.sequences[place as usize].as_mut().expect("the request is not over")
    }

    fn is_running(&self, place: u32) -> bool {
        self.sequences[place as usize].as_ref().is_some_and(|sequence| sequence.stage == Stage::Running)
    }

    /// Starts requests while there is room.
    fn admit(&mut self) {
        while let Some(place) = self.next() {
            if self.fits(place) {
                let sequence = self.sequences[place as usize].as_ref().expect("the request is not over");
                self.queue.remove(sequence);
                self.was_due = !self.was_due && self.is_due(place);
                self.start(place);
                self.running.push(place);
            } else if !self.make_way(place) {
                break;
            }
        }
    }

    /// The request that is next.
    fn next(&self) -> Option<u32> {
        let (deadline, place) = self.queue.first_due()?;
        if deadline >= self.now {
            self.queue.next(Order::Arrival)
        } else if self.was_due {
            self.queue.next(Order::Latest)
        } else {
            Some(place)
        }
    }

    /// Whether a request that waits is the one that has waited too long for longest.
    fn is_due(&self, place: u32) -> bool {
        self.at(place).deadline(self.limits.patience_ticks).is_some_and(|deadline| deadline < self.now)
    }

    /// Whether one more request of a caller may wait.
    fn has_room_for(&self, caller: u64) -> bool {
        let (waiting, running) = (self.queue.len(), self.running.len());
        let most = self.limits.waiting as usize;
        // Places of running sequences that are empty take from the queue with the next step.
        let empty = (self.limits.running as usize).saturating_sub(running);
        let left = most.saturating_sub(waiting + running);
        waiting < most && (empty + SHARE * left).max(1) > self.queue.waiting_of(caller)
    }

    /// Whether a request waited longer than it should. It stays so: who was let wait once is not sent back for others.
    fn is_overdue(&self, place: u32) -> bool {
        let sequence = self.at(place);
        sequence.overdue || sequence.deadline(self.limits.patience_ticks).is_some_and(|deadline| deadline < self.now)
    }

    /// Sends back the last in rank if its priority is lower than that of the request at `place`.
    fn make_way(&mut self, place: u32) -> bool {
        let Some(&last) = self.running.iter().max_by_key(|&&place| self.rank_of(place)) else { return false };
        let lower = self.at(last).priority < self.at(place).priority && !self.is_overdue(last);
        if lower {
            self.running.retain(|&place| place != last);
            self.preempt(last);
        }
        lower
    }

    /// Whether a request can start now.
    fn fits(&self, place: u32) -> bool {
        if self.running.is_empty() {
            return true;
        }
        if self.running.len() >= self.limits.running as usize {
            return false;
        }
        let page_tokens = self.limits.page_tokens as usize;
        let promised = self.running.iter().map(|&place| self.at(place).reach.div_ceil(page_tokens)).sum::<usize>();
        let sequence = self.at(place);
        let bound = self.limits.pages as usize * self.limits.promised_percent as usize / 100;
        if promised + sequence.reach.div_ceil(page_tokens) > bound {
            return false;
        }
        // What those that run need before the newcomer may: the rest of their prompts, and a page each to write on.
        let owed: usize = self.running.iter().map(|&place| 1 + self.at(place).pages_missing(page_tokens)).sum();
        let (known, revived) = self.known(place);
        let needed = (sequence.tokens.len() + 1).div_ceil(page_tokens) - known;
        needed + owed + revived <= self.prefixes.available() as usize
    }

    /// The order in which sequences keep what they have: smaller is stronger.
    fn rank_of(&self, place: u32) -> (bool, u8, u64) {
        let sequence = self.at(place);
        if self.is_overdue(place) {
            (false, 0, sequence.id.number)
        } else {
            (true, u8::MAX - sequence.priority, sequence.id.number)
        }
    }

    fn rank(&mut self) {
        let mut running = std::mem::take(&mut self.running);
        for &place in &running {
            self.at_mut(place).overdue = self.is_overdue(place);
        }
        running.sort_unstable_by_key(|&place| self.rank_of(place));
        for (index, &place) in (0..).zip(&running) {
            self.at_mut(place).index = index;
        }
        self.running = running;
    }

    /// Decides which prompts are read in this step, and how much of each at most.
    fn share_out(&mut self, shelf: &mut dyn Shelf) {
        self.prompts.clear();
        self.claims.clear();
        let mut prompts = std::mem::take(&mut self.prompts);
        let mut claims = std::mem::take(&mut self.claims);
        prompts.extend(self.running.iter().filter(|&&place| self.at(place).left() > 1).map(|&place| (place, 0)));
        let first = self.running.first().copied();
        prompts.sort_unstable_by_key(|&(place, _)| {
            let (patient, priority, number) = self.rank_of(place);
            (Some(place) != first, patient, priority, self.queue.counter(self.at(place).caller), number)
        });
        prompts.retain(|&(place, _)| self.catch_up(place, &mut claims, shelf));
        let writing = self.running.iter().filter(|&&place| self.at(place).left() == 1).count() as u32;
        let most = if writing > 0 { self.limits.chunk_tokens } else { self.limits.batch_tokens };
        let mut budget = most.min(self.limits.batch_tokens - writing);
        let single = prompts.len() == 1;
        for (place, tokens) in &mut prompts {
            let left = self.at(*place).left() as u32;
            let share = if single { budget } else { budget.div_ceil(2).max(self.limits.page_tokens) };
            *tokens = left.min(share).min(budget);
            budget -= *tokens;
        }
        for (place, tokens) in &mut prompts {
            let more = (self.at(*place).left() as u32 - *tokens).min(budget);
            *tokens += more;
            budget -= more;
        }
        self.prompts = prompts;
        self.claims = claims;
    }

    /// Adds the next chunk of a prompt to the step: up to `tokens`, as far as pages can be had.
    fn read(&mut self, place: u32, tokens: u32, may_preempt: bool) {
        let page_tokens = self.limits.page_tokens as usize;
        let start = self.at(place).computed;
        let mut end = self.boundary(place, start + tokens as usize);
        if end == start {
            return;
        }
        if !self.secure(place, end, may_preempt) {
            end = end.min(self.at(place).table.len() * page_tokens);
        }
        if end > start {
            self.add(place, end);
        }
    }

    /// Adds the next token of every answer to the step.
    fn write(&mut self) {
        let mut index = 0;
        while index < self.running.len() {
            let place = self.running[index];
            let sequence = self.at(place);
            if sequence.left() == 1 {
                let end = sequence.tokens.len();
                if self.secure(place, end, true) {
                    self.add(place, end);
                }
            }
            index += 1;
        }
    }

    fn add(&mut self, place: u32, end: usize) {
        let sequence = self.at(place);
        let output = end == sequence.tokens.len();
        let work = Work { id: sequence.id, start: sequence.computed as u32, end: end as u32, output };
        self.step.work.push(work);
    }

    /// Sees that a sequence has pages for `tokens`; where there are none and `may_preempt`, those behind it in rank go back to
    /// the queue, the last first, and at the end it does itself. Says whether it has them.
    fn secure(&mut self, place: u32, tokens: usize, may_preempt: bool) -> bool {
        let pages = tokens.div_ceil(self.limits.page_tokens as usize);
        while self.at(place).table.len() < pages {
            if let Some(page) = self.prefixes.take() {
                self.at_mut(place).table.push(page);
            } else if may_preempt {
                let last = self.running.pop().expect("it runs itself");
                self.preempt(last);
                if last == place {
                    return false;
                }
            } else {
                return false;
            }
        }
        true
    }

    /// Sends a sequence, which is not in `running` any more, back to the queue.
    fn preempt(&mut self, place: u32) {
        self.preemptions += 1;
        self.release(place);
        let now = self.now;
        let sequence = self.at_mut(place);
        (sequence.stage, sequence.returned) = (Stage::Waiting, true);
        sequence.wait(now);
        let sequence = self.sequences[place as usize].as_ref().expect("the request is not over");
        self.queue.push(sequence);
    }

    /// Takes a request out of where it is: of those that run, with all it has, or of the queue.
    fn withdraw(&mut self, place: u32) {
        let sequence = self.sequences[place as usize].as_ref().expect("the request is not over");
        match sequence.stage {
            Stage::Running => {
                let index = sequence.index as usize;
                debug_assert_eq!(self.running[index], place);
                self.running.swap_remove(index);
                if let Some(&moved) = self.running.get(index) {
                    self.at_mut(moved).index = index as u32;
                }
                self.release(place);
            }
            Stage::Waiting => self.queue.remove(sequence),
            Stage::Parked => {}
        }
    }

    fn retire(&mut self, place: u32) {
        let sequence = self.sequences[place as usize].take().expect("the request is not over");
        if sequence.stage == Stage::Parked {
            self.parked -= 1;
        } else {
            self.queue.depart(sequence.caller);
        }
        self.vacant.push(place);
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
