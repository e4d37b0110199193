//! The schedule under seeded random loads, on a machine that remembers what was written where.
//!
//! Instead of keys and values, a place of the cache holds the hash of all tokens up to it, and a slot the hash of all tokens in its
//! state. So before each step it is checked that every table spells exactly its sequence, whoever computed the pages; after
//! each step, that pages and slots are conserved and nobody can be stuck; at the end, that everybody got the answer that it
//! gets alone. A seed settles everything. To look at one again, call `run` with it.
//!
//! Half of the loads have a shelf (`outside`), which takes its time, loses what it had, and gives back what lay there when it was told to
//! keep it: a page that was read too late or too early spells something else.
//!
//! It stands beside the code, not among the crate's outer tests, so that bugs can be planted in private state: the product has no
//! switch for them.

mod outside;

use std::collections::BTreeMap;

use super::*;
use outside::Outside;

/// Tokens are small numbers, so that prefixes meet.
const VOCAB: u64 = 6;
/// What follows a token whose hash is a multiple of this ends the answer.
const END_EVERY: u64 = 23;

/// A mistake in the schedule that the simulation must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A page is taken and never given back.
    LeakedPage,
    /// A request drops out of the queue.
    LostWakeUp,
    /// A table names a page of other tokens; the counts are right.
    WrongPage,
    /// A state is not copied.
    LostState,
    /// The shelf gives a page of another chain.
    WrongStored,
    /// The shelf gives the state behind another page.
    WrongStoredState,
}

/// `SplitMix64` (Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash(self.0)
    }

    /// A number in `least..=most`.
    fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }
}

fn hash(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// What the machine holds after a token: a function of all tokens up to it.
fn after(before: u64, token: u32) -> u64 {
    hash(before.wrapping_mul(31).wrapping_add(u64::from(token) + 1))
}

/// What the model writes: the next token and, now and then, some that are certain to follow it; or the end.
fn written(state: u64) -> Option<Vec<u32>> {
    let certain = if hash(state ^ 1).is_multiple_of(8) { hash(state ^ 2) % 6 } else { 0 };
    let token = |index: u64| (hash(state.wrapping_add(index)) % VOCAB) as u32;
    (!state.is_multiple_of(END_EVERY)).then(|| (0..=certain).map(token).collect())
}

/// A request of the load, and what became of it.
#[derive(Debug)]
struct Asked {
    request: Request,
    arrival: u64,
    /// The tick at which its caller walks away.
    cancel: Option<u64>,
    id: Option<Id>,
    started: Option<u64>,
    ended: bool,
}

/// The machine: what was written where.
struct Machine {
    page_tokens: usize,
    places: Vec<u64>,
    states: Vec<u64>,
}

impl Machine {
    fn new(limits: &Limits) -> Self {
        let places = (limits.pages * limits.page_tokens) as usize;
        Self {
            page_tokens: limits.page_tokens as usize,
            places: vec![0; places],
            states: vec![0; limits.slots as usize],
        }
    }

    /// The places of a page.
    fn page_mut(&mut self, page: u32) -> &mut [u64] {
        &mut self.places[page as usize * self.page_tokens..][..self.page_tokens]
    }

    /// Computes one sequence's work and returns what comes after its last token; says what was not there or not its own.
    fn compute(&mut self, schedule: &Schedule, work: &Work) -> Result<u64, String> {
        let (tokens, table) = (schedule.tokens(work.id), schedule.pages(work.id));
        let (start, end) = (work.start as usize, work.end as usize);
        if end > table.len() * self.page_tokens || start >= end {
            return Err(format!("{work:?} with a table of {} pages", table.len()));
        }
        let salt = schedule.at(work.id.place).salt;
        let mut state = hash(salt + 1);
        for (position, &token) in tokens[..end].iter().enumerate() {
            if position == start && schedule.limits.has_state {
                let kept = if start == 0 { state } else { self.states[schedule.slot(work.id) as usize] };
                if kept != state {
                    return Err(format!("{work:?}: the state is of other tokens"));
                }
            }
            state = after(state, token);
            let page = table[position / self.page_tokens];
            let place = page as usize * self.page_tokens + position % self.page_tokens;
            if position < start {
                if self.places[place] != state {
                    return Err(format!("{work:?}: page {page} does not spell position {position}"));
                }
            } else {
                if schedule.prefixes.pages().references(page) != 1 {
                    return Err(format!("{work:?} writes on page {page}, which others hold"));
                }
                self.places[place] = state;
            }
        }
        self.states[schedule.slot(work.id) as usize] = state;
        Ok(state)
    }
}

/// Sizes and load of a seed.
fn load(random: &mut Random) -> (Limits, Vec<Asked>) {
    let running = random.within(1, 6) as u32;
    let has_state = random.one_in(3);
    let most_pages = if random.one_in(2) { 16 } else { 90 };
    let limits = Limits {
        page_tokens: [1, 2, 4, 8][random.within(0, 3) as usize],
        pages: random.within(3, most_pages) as u32,
        slots: running + if has_state { random.within(0, 20) as u32 } else { 0 },
        has_state,
        window_tokens: random.within(8, 80) as u32,
        batch_tokens: running + random.within(0, 30) as u32,
        chunk_tokens: random.within(1, 20) as u32,
        running,
        waiting: random.within(2, 30) as u32,
        promised_percent: random.within(100, 900) as u32,
        patience_ticks: random.within(5, 200),
        snapshot_pages: random.within(1, 4) as u32,
        beside: Beside::default(),
    };
    let hurry = random.within(0, 12);
    let mut arrival = 0;
    let mut all: Vec<Asked> = Vec::new();
    for _ in 0..random.within(4, 50) {
        arrival += if random.one_in(3) { 0 } else { random.within(0, hurry) };
        let salt = u64::from(random.one_in(8));
        let mut prompt = match all.len() {
            known @ 1.. if !random.one_in(3) => {
                // The same again, the beginning of it, or a further turn: with what the model will have written.
                let other = &all[random.within(0, known as u64 - 1) as usize];
                let mut prompt = other.request.prompt.clone();
                if random.one_in(2) {
                    prompt.extend(answer(&other.request.prompt, other.request.salt, random.within(0, 30) as usize));
                } else {
                    prompt.truncate(random.within(0, prompt.len() as u64) as usize);
                }
                prompt
            }
            _ => Vec::new(),
        };
        let longest = if random.one_in(4) { 90 } else { 24 };
        prompt.extend((0..random.within(0, longest)).map(|_| random.within(0, VOCAB - 1) as u32));
        if prompt.is_empty() && !random.one_in(10) {
            prompt.push(0);
        }
        let max_tokens = (!random.one_in(6)).then(|| random.within(1, 30) as usize);
        let (caller, priority) = (random.within(0, 3), [0, 0, 1, 2][random.within(0, 3) as usize]);
        let cancel = random.one_in(5).then(|| arrival + random.within(0, 60));
        let request = Request { prompt, max_tokens, caller, priority, salt };
        all.push(Asked { request, arrival, cancel, id: None, started: None, ended: false });
    }
    (limits, all)
}

/// What the model writes behind a prompt when nobody else is there.
fn answer(prompt: &[u32], salt: u64, most: usize) -> Vec<u32> {
    let mut state = prompt.iter().fold(hash(salt + 1), |state, &token| after(state, token));
    let mut tokens = Vec::new();
    while tokens.len() < most
        && let Some(next) = written(state)
    {
        state = next.iter().fold(state, |state, &token| after(state, token));
        tokens.extend(next);
    }
    tokens.truncate(most);
    tokens
}

/// What a run came to, to compare runs by.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    steps: u64,
    parkings: u64,
    trace: u64,
    status: Status,
}

struct World {
    schedule: Schedule,
    machine: Machine,
    outside: Outside,
    asked: Vec<Asked>,
    names: BTreeMap<Id, usize>,
    /// Those whose readers are behind, and when they have caught up.
    parked: Vec<(u64, Id)>,
    seed: u64,
    now: u64,
    outcome: Outcome,
}

/// Runs the load of a seed to its end; says what went wrong.
fn run(seed: u64, bug: Bug) -> Result<Outcome, String> {
    let mut random = Random(hash(seed + 1));
    let (mut limits, asked) = load(&mut random);
    let outside = Outside::new(seed, &mut limits);
    let mut world = World {
        schedule: Schedule::new(&limits),
        machine: Machine::new(&limits),
        outside,
        asked,
        names: BTreeMap::new(),
        parked: Vec::new(),
        seed,
        now: 0,
        outcome: Outcome::default(),
    };
    let mut planted = bug == Bug::None;
    // Everything could be computed one token a step, and once again for each time that it was sent back.
    let all: usize = world.asked.iter().map(|asked| asked.request.prompt.len() + 90).sum();
    let most = 400 + 20 * all as u64;
    while world.asked.iter().any(|asked| !asked.ended) {
        world.now += 1;
        if world.now > most {
            return Err(format!("after {most} ticks somebody still waits: {:?}", world.schedule.status()));
        }
        world.arrive()?;
        world.take_up();
        let busy = world.schedule.step_beside(world.now, &mut world.outside);
        if !planted && random.one_in(4) {
            planted = world.plant(bug);
        }
        if busy {
            world.compute()?;
        } else if !world.schedule.is_idle() && !world.outside.is_busy() {
            return Err(format!("nothing to do, but not idle: {:?}", world.schedule.status()));
        }
        world.conserved()?;
    }
    world.over()?;
    if !planted {
        return Err("the bug found no place".to_owned());
    }
    world.outcome.status = world.schedule.status();
    Ok(world.outcome)
}

impl World {
    fn arrive(&mut self) -> Result<(), String> {
        let now = self.now;
        for (index, asked) in self.asked.iter_mut().enumerate() {
            if asked.arrival + 1 == now {
                match self.schedule.submit(asked.request.clone(), now) {
                    Ok(id) => {
                        asked.id = Some(id);
                        self.names.insert(id, index);
                    }
                    Err(_) => asked.ended = true,
                }
            }
            if let Some(id) = asked.id
                && !asked.ended
                && asked.cancel.is_some_and(|cancel| cancel < now)
            {
                asked.ended = true;
                if !self.schedule.finish(id) || self.schedule.finish(id) {
                    return Err(format!("{id:?} could not be cancelled once"));
                }
            }
        }
        Ok(())
    }

    /// Readers that were behind have caught up; some are gone meanwhile.
    fn take_up(&mut self) {
        let due: Vec<Id> = self.parked.extract_if(.., |(until, _)| *until <= self.now).map(|(_, id)| id).collect();
        for id in due {
            let is_there = !self.asked[self.names[&id]].ended;
            assert_eq!(self.schedule.unpark(id, self.now), is_there, "{id:?}");
        }
    }

    /// Computes the planned step and goes on with what the model writes.
    fn compute(&mut self) -> Result<(), String> {
        self.outcome.steps += 1;
        let limits = self.schedule.limits;
        let loads = self.schedule.moves().iter().filter(|next| matches!(next, Move::LoadPage { .. })).count();
        if loads > (limits.batch_tokens / limits.page_tokens).max(1) as usize {
            return Err(format!("a step of {loads} pages from outside"));
        }
        for next in self.schedule.moves() {
            self.outside.carry(next, &mut self.machine)?;
        }
        let work = self.schedule.planned().work.clone();
        let tokens: u32 = work.iter().map(|work| work.end - work.start).sum();
        if tokens > limits.batch_tokens || work.len() > limits.running as usize {
            return Err(format!("a step of {tokens} tokens, {} sequences", work.len()));
        }
        let prompts = work.iter().map(|work| work.end - work.start).filter(|&tokens| tokens > 1);
        if work.iter().any(|work| work.end - work.start == 1 && work.output) {
            let read: u32 = prompts.sum();
            if read > limits.chunk_tokens {
                return Err(format!("{read} tokens of prompts while others write"));
            }
        }
        let mut after = Vec::new();
        for work in &work {
            let asked = &mut self.asked[self.names[&work.id]];
            asked.started.get_or_insert(self.now);
            after.push(self.machine.compute(&self.schedule, work)?);
            self.outcome.trace = hash(self.outcome.trace ^ (work.id.number << 32 | u64::from(work.end)));
        }
        self.schedule.computed();
        if self.outside.at_once() {
            for next in self.schedule.moves() {
                self.outside.carry(next, &mut self.machine)?;
            }
            self.schedule.moved();
        }
        for (work, state) in work.iter().zip(after).filter(|(work, _)| work.output) {
            let asked = &mut self.asked[self.names[&work.id]];
            let room = (self.schedule.reach_tokens(work.id) - work.end) as usize;
            match written(state) {
                Some(tokens) if room > 0 => {
                    self.schedule.push(work.id, &tokens[..tokens.len().min(room)]);
                    // In some loads readers fall behind, for some ticks.
                    let chance = hash(self.seed ^ work.id.number << 32 ^ self.now);
                    if self.seed.is_multiple_of(3) && chance.is_multiple_of(9) {
                        if !self.schedule.park(work.id) || self.schedule.park(work.id) {
                            return Err(format!("{:?} could not be parked once", work.id));
                        }
                        self.outcome.parkings += 1;
                        self.parked.push((self.now + 1 + chance % 31, work.id));
                    }
                }
                _ => {
                    let most = self.schedule.reach_tokens(work.id) as usize - asked.request.prompt.len();
                    let alone = answer(&asked.request.prompt, asked.request.salt, most);
                    if self.schedule.tokens(work.id)[asked.request.prompt.len()..] != alone {
                        return Err(format!("{:?} got another answer than alone", work.id));
                    }
                    asked.ended = true;
                    self.schedule.finish(work.id);
                }
            }
        }
        Ok(())
    }

    /// Every page and slot is somebody's, once.
    fn conserved(&self) -> Result<(), String> {
        let schedule = &self.schedule;
        let (prefixes, total) = (&schedule.prefixes, schedule.limits.pages);
        let mut users = vec![0; total as usize];
        for &place in &schedule.running {
            schedule.at(place).table.iter().for_each(|&page| users[page as usize] += 1);
        }
        for (page, &users) in (0..).zip(&users) {
            let known = u32::from(!prefixes.tokens_of(page).is_empty());
            let references = prefixes.pages().references(page);
            if references != users + known {
                return Err(format!("page {page} is counted {references} times, used {users} and known {known} times"));
            }
            if prefixes.is_idle(page) != (users == 0 && known == 1) {
                return Err(format!("page {page} is out of the order of last use, or wrongly in it"));
            }
        }
        let status = schedule.status();
        let used = users.iter().filter(|&&users| users > 0).count() as u32;
        if status.pages_free + status.pages_cached + used != total || used != status.pages_used {
            return Err(format!("pages are not conserved: {status:?}, {used} used of {total}"));
        }
        let slots = prefixes.slots();
        if slots.free() + slots.snapshots() + schedule.running.len() as u32 != slots.total() {
            return Err(format!("slots are not conserved: {slots:?}, {status:?}"));
        }
        Ok(())
    }

    /// Everybody is gone: everything is free or known, and nobody waited without bound.
    fn over(&self) -> Result<(), String> {
        let status = self.schedule.status();
        if !self.schedule.is_idle() || status.pages_used != 0 || status.parked != 0 {
            return Err(format!("all requests are over, but not the schedule: {status:?}"));
        }
        let patience = self.schedule.limits.patience_ticks;
        for asked in self.asked.iter().filter(|asked| asked.started.is_some()) {
            let waited = asked.started.expect("it was asked") - asked.arrival;
            // Those that may go first: what came before its patience ended. One token of one of them a step is the least.
            let before = self.asked.iter().filter(|other| other.arrival <= asked.arrival + patience);
            let work: usize = before
                .map(|other| 2 * other.request.prompt.len() + 2 * other.request.max_tokens.unwrap_or(80).min(80))
                .sum();
            // What is on its way takes its time, a request may wait for it as long as it has patience, and loads may fail late.
            let coming = if self.schedule.limits.beside.restores { work as u64 * 8 } else { 0 };
            if waited > patience + work as u64 + coming {
                return Err(format!("{:?} waited {waited} ticks, patience {patience}, work {work}", asked.id));
            }
        }
        Ok(())
    }

    /// Plants a bug if there is a place for it now.
    fn plant(&mut self, bug: Bug) -> bool {
        let schedule = &mut self.schedule;
        match bug {
            Bug::None => true,
            Bug::LeakedPage => schedule.prefixes.take().is_some(),
            Bug::LostWakeUp => {
                let Some((_, place)) = schedule.queue.first_due() else { return false };
                schedule.queue.remove(schedule.sequences[place as usize].as_ref().expect("it waits"));
                true
            }
            Bug::WrongPage => {
                let works = schedule.step.work.iter().filter(|work| work.start as usize >= self.machine.page_tokens);
                for place in works.map(|work| work.id.place) {
                    let own = schedule.sequences[place as usize].as_ref().expect("it runs").table[0];
                    let filled = |&page: &u32| schedule.prefixes.tokens_of(page).len() == self.machine.page_tokens;
                    let others = |&page: &u32| {
                        page != own && schedule.prefixes.tokens_of(page) != schedule.prefixes.tokens_of(own)
                    };
                    let Some(wrong) = (0..schedule.limits.pages).filter(filled).find(others) else { continue };
                    schedule.prefixes.adopt(wrong);
                    schedule.sequences[place as usize].as_mut().expect("it runs").table[0] = wrong;
                    schedule.prefixes.release(own);
                    return true;
                }
                false
            }
            Bug::LostState => {
                let slots: Vec<u32> = schedule.step.work.iter().map(|work| schedule.at(work.id.place).slot).collect();
                let states = &self.machine.states;
                // A slot may hold the same state by chance: the sequence's own, from before it was sent back.
                let restores = |next: &Move| match next {
                    &Move::CopyState { from, to } => {
                        slots.contains(&to) && states[from as usize] != states[to as usize]
                    }
                    _ => false,
                };
                let moves: Vec<Move> = schedule.moves().to_vec();
                let Some(lost) = moves.iter().position(restores) else { return false };
                schedule.moved();
                let kept = moves.into_iter().enumerate().filter(|(index, _)| *index != lost);
                kept.for_each(|(_, next)| schedule.prefixes.decide(next));
                true
            }
            Bug::WrongStored | Bug::WrongStoredState => {
                let kind = if bug == Bug::WrongStored { Kind::Page } else { Kind::State };
                let used = schedule.step.work.iter().map(|work| (schedule.pages(work.id), schedule.slot(work.id)));
                let used: Vec<(Vec<u32>, u32)> = used.map(|(pages, slot)| (pages.to_vec(), slot)).collect();
                let matters = |next: &&Move| match next {
                    Move::LoadPage { page, .. } => {
                        kind == Kind::Page && used.iter().any(|(pages, _)| pages.contains(page))
                    }
                    Move::LoadState { slot, .. } => kind == Kind::State && used.iter().any(|used| used.1 == *slot),
                    _ => false,
                };
                match schedule.moves().iter().find(matters) {
                    Some(Move::LoadPage { name, .. } | Move::LoadState { name, .. }) => {
                        self.outside.confuse(kind, *name)
                    }
                    _ => false,
                }
            }
        }
    }
}

/// Names the seed when something panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

fn run_all(seeds: std::ops::Range<u64>) -> (Status, u64) {
    let (mut sum, mut parkings) = (Status::default(), 0);
    for seed in seeds {
        let named = Named(seed);
        let outcome = run(seed, Bug::None).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        let status = outcome.status;
        parkings += outcome.parkings;
        sum.prompt_tokens += status.prompt_tokens;
        sum.cached_tokens += status.cached_tokens;
        sum.restored_tokens += status.restored_tokens;
        sum.preemptions += status.preemptions;
        sum.evictions += status.evictions;
        drop(named);
    }
    (sum, parkings)
}

#[test]
fn ten_thousand_loads_end_well() {
    let (sum, parkings) = run_all(0..10_000);
    println!("{sum:?}, parked {parkings} times");
    // The loads reach what they are there for.
    assert!(sum.preemptions > 10_000 && sum.evictions > 10_000, "{sum:?}");
    assert!(sum.cached_tokens * 10 > sum.prompt_tokens, "{sum:?}");
    assert!(sum.restored_tokens > 10_000 && parkings > 10_000, "{sum:?}, {parkings}");
}

#[test]
fn a_seed_settles_everything() {
    for seed in 0..100 {
        assert_eq!(run(seed, Bug::None), run(seed, Bug::None), "seed {seed}");
    }
}

/// How often a planted bug was caught, and how, in loads that had a place for it.
fn caught(bug: Bug, sign: &str) -> (u32, u32) {
    let (mut planted, mut seen) = (0, 0);
    for seed in 0..400 {
        match run(seed, bug) {
            Err(fault) if fault.contains("found no place") => {}
            Err(fault) => {
                if !fault.contains(sign) {
                    println!("seed {seed}: {fault}");
                }
                planted += 1;
                seen += u32::from(fault.contains(sign));
            }
            Ok(_) => planted += 1,
        }
    }
    println!("{bug:?}: caught in {seen} of {planted} loads");
    (planted, seen)
}

#[test]
fn a_leaked_page_is_caught() {
    let (planted, seen) = caught(Bug::LeakedPage, "is counted");
    assert!(planted > 100 && seen == planted, "{seen} of {planted}");
}

#[test]
fn a_lost_wake_up_is_caught() {
    let (planted, seen) = caught(Bug::LostWakeUp, "somebody still waits");
    // One whose caller walks away is not missed.
    assert!(planted > 50 && seen * 10 >= planted * 7, "{seen} of {planted}");
}

#[test]
fn a_wrong_shared_page_is_caught() {
    let (planted, seen) = caught(Bug::WrongPage, "does not spell");
    assert!(planted > 50 && seen == planted, "{seen} of {planted}");
}

#[test]
fn a_state_that_was_not_copied_is_caught() {
    let (planted, seen) = caught(Bug::LostState, "the state is of other tokens");
    // Where two copies are chained, the slot can hold the right state by chance.
    assert!(planted > 10 && seen * 10 >= planted * 9, "{seen} of {planted}");
}

#[test]
fn a_page_of_another_chain_from_outside_is_caught() {
    let (planted, seen) = caught(Bug::WrongStored, "does not spell");
    assert!(planted > 20 && seen == planted, "{seen} of {planted}");
}

#[test]
fn a_state_of_another_page_from_outside_is_caught() {
    let (planted, seen) = caught(Bug::WrongStoredState, "the state is of other tokens");
    assert!(planted > 10 && seen == planted, "{seen} of {planted}");
}
