//! The steps of a service: plan, launch, choose, tell.
//!
//! What is said of one request (a token, a stop string, the end) is the same as in a [`crate::Session`]; here only who else is in the
//! batch differs, and that changes no token.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use kauri_device::{Applied, Batch, Choice};
use kauri_prompt::schedule::{Id, Limits, Nothing, Refusal, Request, Schedule, Shelf};
use kauri_prompt::store::Store;
use kauri_step::grammar::Constraint;
use kauri_step::sample::{Choice as Chosen, Sampler, Workspace, leading_log_probabilities, log_probability};

use super::chunk::Chunk;
use super::{Listener, Pace, Reply, Serving, Shared, Start, Submission};
use crate::decode::Room;
use crate::drawing::{Draws, Planned};
use crate::engine::Engine;
use crate::error::Error;
use crate::events::{Done, Event, Finish, Likelihood};
use crate::masks::Masks;
use crate::writing::Writing;

/// The thread's side of a service.
pub(super) struct Steps {
    engine: Engine,
    schedule: Schedule,
    /// Requests that are not over, and their names there.
    live: HashMap<Id, Live>,
    names: HashMap<u64, Id>,
    /// Those whose listeners are behind, by how long.
    parked: VecDeque<Id>,
    parked_max: usize,
    /// Most requests that wait, and most that wait or run.
    waiting: u32,
    requests_max: usize,
    /// How much of prompts is read beside answers.
    chunk: Chunk,
    batch: Batch,
    /// Whose the rows of the batch are.
    rows: Vec<Id>,
    /// A row of logits, to be changed by penalties.
    row: Vec<f32>,
    /// Where samplers work, one after the other.
    workspace: Workspace,
    /// What the device is to draw, and how each row of the batch is: not at all where its sampler is given the row.
    draws: Draws,
    planned: Vec<Option<Planned>>,
    /// Started with the first answer under a constraint.
    masks: Option<Masks<Id>>,
    start: Instant,
    waits: bool,
    shared: Arc<Shared>,
}

/// A request that is not over.
struct Live {
    number: u64,
    listener: Listener,
    pace: Pace,
    /// None where the most likely token is the one.
    sampler: Option<Sampler>,
    writing: Writing,
    end_tokens: Vec<u32>,
    max_tokens: Option<usize>,
    /// What its sequence has of adapters.
    adapters: Vec<Applied>,
    /// How many likely tokens are told of, if any.
    likely: Option<usize>,
    likely_as_drawn: bool,
    /// How likely the token was that the model chose last; nothing once it is told.
    likelihood: Option<Box<Likelihood>>,
    constraint: Option<Box<Constraint>>,
    /// Why there is no mask for the next token.
    fault: Option<Error>,
    /// The token chosen last and those that had to follow it; at first, those that came with the prompt.
    written: Vec<u32>,
    came: Instant,
    /// Whether a step was in which its prompt was read.
    is_begun: bool,
    first: Option<Instant>,
    done: Done,
}

/// What a token leads to.
enum Next {
    /// What was written goes to be computed.
    Tokens,
    Over(Finish),
    Failed(Error),
}

impl Steps {
    pub(super) fn new(engine: Engine, serving: &Serving, shared: Arc<Shared>) -> Self {
        let plan = *engine.executor.plan();
        let running = plan.batch_outputs.min(plan.slots).min(plan.batch_tokens);
        let schedule = Schedule::new(&Limits {
            page_tokens: plan.page_tokens,
            pages: plan.pages,
            slots: plan.slots,
            has_state: engine.has_state,
            window_tokens: engine.window_tokens(),
            batch_tokens: plan.batch_tokens,
            chunk_tokens: serving.chunk_tokens.max(1),
            running,
            // Whoever submits counts who waits; until the next step, those that will run wait as well.
            waiting: serving.waiting.saturating_add(running),
            promised_percent: serving.promised_percent,
            patience_ticks: serving.patience.as_millis() as u64,
            snapshot_pages: engine.snapshot_pages(serving.snapshot_pages),
            beside: engine.store.as_ref().map(Store::beside).unwrap_or_default(),
        });
        let steps = Self {
            schedule,
            live: HashMap::new(),
            names: HashMap::new(),
            parked: VecDeque::new(),
            parked_max: serving.waiting.max(running) as usize,
            waiting: serving.waiting,
            requests_max: serving.waiting.saturating_add(running) as usize,
            chunk: Chunk::new(serving.chunk_tokens.max(1)),
            batch: Batch::with_room(&plan),
            rows: Vec::with_capacity(running as usize),
            row: vec![0.0; engine.vocab as usize],
            workspace: Workspace::new(engine.vocab as usize),
            draws: Draws::default(),
            planned: Vec::with_capacity(running as usize),
            masks: None,
            start: Instant::now(),
            waits: false,
            shared,
            engine,
        };
        // Its pages are counted before anybody asks.
        steps.publish();
        steps
    }

    pub(super) fn is_idle(&self) -> bool {
        self.schedule.is_idle()
    }

    /// Whether the last step had nothing to do, for all that run wait for what the store was asked for.
    pub(super) fn is_waiting(&self) -> bool {
        self.waits
    }

    /// Takes a request in, or says why not.
    pub(super) fn submit(&mut self, number: u64, submission: Submission, start: Start, mut listener: Listener) {
        match self.enter(submission, start) {
            Ok((id, mut live)) => {
                let is_heard = listener(Reply::Queued).is_continue();
                (live.number, live.listener) = (number, listener);
                self.live.insert(id, live);
                self.names.insert(number, id);
                if !is_heard {
                    self.end(id);
                }
            }
            Err(error) => {
                self.shared.open.fetch_sub(1, Ordering::AcqRel);
                let _ = listener(Reply::Failed(error));
            }
        }
        self.publish();
    }

    fn enter(&mut self, submission: Submission, start: Start) -> Result<(Id, Live), Error> {
        let Submission { mut request, caller, priority, salt, pace } = submission;
        let (constraint, forced) = start;
        let (vocab, window) = (self.engine.vocab, self.engine.window_tokens() as usize);
        if !self.engine.writes {
            return Err(Error::OnlyReads);
        }
        if self.live.len() - self.parked.len() >= self.requests_max {
            return Err(Error::QueueFull { waiting: self.waiting });
        }
        if let Some(&token) = request.prompt.iter().find(|&&token| token >= vocab) {
            return Err(Error::UnknownToken { token, vocab });
        }
        let adapters = self.engine.adapters.of(request.adapters.as_deref())?;
        let sampler = request.sampler(&self.engine.tokenizer, vocab as usize)?;
        let writing = Writing::new(&request, &self.engine.tokenizer)?;
        let prompt_tokens = request.prompt.len();
        // Rope factors of some families depend on how long a sequence may become, and keys on them.
        let reach = request.max_tokens.map_or(window, |most| window.min(prompt_tokens.saturating_add(most)));
        let is_long = self.engine.long_from_tokens.is_some_and(|from| reach > from as usize);
        if request.prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        request.prompt.extend_from_slice(&forced);
        let id = self.schedule.submit(
            Request {
                prompt: request.prompt,
                max_tokens: request.max_tokens.map(|most| most - forced.len()),
                caller,
                priority,
                salt: self.engine.adapters.salt(salt << 1 | u64::from(is_long), &adapters),
            },
            self.start.elapsed().as_millis() as u64,
        );
        let id = id.map_err(|refusal| match refusal {
            // The schedule counts places to run among them.
            Refusal::QueueFull { .. } => Error::QueueFull { waiting: self.waiting },
            Refusal::Empty => Error::EmptyPrompt,
            Refusal::TooLong { prompt, room } => Error::PromptTooLong { prompt, window: room },
        })?;
        let done = Done {
            finish: Finish::Cancelled,
            prompt_tokens,
            cached_tokens: 0,
            output_tokens: 0,
            reasoning_tokens: 0,
            queued: Duration::ZERO,
            time_to_first_token: Duration::ZERO,
            prefill: Duration::ZERO,
            decode: Duration::ZERO,
        };
        let live = Live {
            number: 0,
            listener: Box::new(|_| ControlFlow::Break(())),
            pace,
            sampler,
            writing,
            end_tokens: request.end_tokens,
            max_tokens: request.max_tokens,
            adapters,
            likely: request.likely,
            likely_as_drawn: request.likely_as_drawn,
            likelihood: None,
            constraint,
            fault: None,
            written: forced,
            came: Instant::now(),
            is_begun: false,
            first: None,
            done,
        };
        Ok((id, live))
    }

    /// Ends a request whose caller is gone.
    pub(super) fn cancel(&mut self, number: u64) {
        if let Some(id) = self.names.remove(&number) {
            self.end(id);
            self.publish();
        }
    }

    /// Goes on with an answer whose listener has caught up.
    pub(super) fn resume(&mut self, number: u64) {
        let Some(&id) = self.names.get(&number) else { return };
        // They may be behind again already; then this is heard again.
        if self.live[&id].pace.is_held() || !self.schedule.unpark(id, self.start.elapsed().as_millis() as u64) {
            return;
        }
        self.parked.retain(|&other| other != id);
        self.shared.open.fetch_add(1, Ordering::AcqRel);
        self.publish();
    }

    /// Parks an answer whose listener is behind: it is none of those that wait, and does not keep others out. Where there are too many of
    /// these, the one that is behind for longest is given up.
    fn park(&mut self, id: Id) {
        if !self.schedule.park(id) {
            return;
        }
        self.shared.open.fetch_sub(1, Ordering::AcqRel);
        self.parked.push_back(id);
        if self.parked.len() > self.parked_max {
            let longest = self.parked[0];
            self.conclude(longest, Err(Error::Unread));
        }
    }

    /// Computes one step and tells those that are in it.
    pub(super) fn step(&mut self) {
        let shelf: &mut dyn Shelf = match &mut self.engine.store {
            Some(store) => store,
            None => &mut Nothing,
        };
        let began = Instant::now();
        self.schedule.set_chunk_tokens(self.chunk.tokens());
        let is_planned = self.schedule.step_beside((began - self.start).as_millis() as u64, shelf);
        self.waits = !is_planned && !self.is_idle();
        if !is_planned {
            return;
        }
        let (answers, prompt_tokens) = self.schedule.planned().measure();
        let computed = self.launch().and_then(|()| {
            self.schedule.computed();
            self.choose()
        });
        // What has become known is copied out when everybody has heard of it.
        if let Err(error) = computed.and_then(|()| self.carry()) {
            return self.abandon(&error.to_string());
        }
        self.publish();
        self.chunk.learn(answers, prompt_tokens, began.elapsed());
        if prompt_tokens == 0 {
            self.engine.copy_weights();
        }
    }

    /// Ends everything that runs: the step that it was in is lost.
    pub(super) fn abandon(&mut self, reason: &str) {
        let Self { schedule, live, names, shared, .. } = self;
        schedule.abandon(|id| {
            if let Some(mut live) = live.remove(&id) {
                names.remove(&live.number);
                shared.open.fetch_sub(1, Ordering::AcqRel);
                let _ = (live.listener)(Reply::Failed(Error::StepLost(reason.to_owned())));
            }
        });
        self.publish();
    }

    /// Does what was decided about pages and slots.
    fn carry(&mut self) -> Result<(), Error> {
        self.engine.carry(self.schedule.moves())?;
        self.schedule.moved();
        Ok(())
    }

    fn launch(&mut self) -> Result<(), Error> {
        self.carry()?;
        let Self { engine, schedule, live, batch, rows, masks, .. } = self;
        batch.clear();
        rows.clear();
        let step = schedule.planned();
        for work in &step.work {
            let tokens = &schedule.tokens(work.id)[work.start as usize..work.end as usize];
            let (pages, slot, reach) =
                (schedule.pages(work.id), schedule.slot(work.id), schedule.reach_tokens(work.id));
            batch.push(tokens, work.start, pages, slot, reach, usize::from(work.output));
            batch.write(schedule.prompt_end(work.id));
            if work.output {
                rows.push(work.id);
            }
            let live = live.get_mut(&work.id);
            if let Some(live) = live.as_ref().filter(|live| !live.adapters.is_empty()) {
                batch.adapt(&live.adapters);
            }
            if let Some(live) = live.filter(|live| !live.is_begun) {
                (live.is_begun, live.done.queued) = (true, live.came.elapsed());
            }
        }
        // A step may only bring pages.
        if batch.sequences.is_empty() {
            return Ok(());
        }
        for id in rows.iter() {
            let held = live.get_mut(id).filter(|live| !live.writing.is_free());
            if let Some(constraint) = held.and_then(|live| live.constraint.take()) {
                masks.get_or_insert_with(Masks::new).begin(*id, constraint);
            }
        }
        engine.executor.launch(batch)?;
        engine.verify_unchanged()
    }

    /// Says how each row is drawn from, where the device does that.
    fn plan_draws(&mut self, work: &[Id]) {
        let Self { engine, schedule, live, draws, planned, .. } = self;
        draws.clear();
        planned.clear();
        let is_drawn = engine.executor.draws();
        planned.extend(work.iter().map(|id| {
            // The most likely others are told from the whole row.
            let live = live.get_mut(id).filter(|live| is_drawn && live.likely.is_none())?;
            let tokens = schedule.tokens(*id);
            draws.plan(live.sampler.as_mut()?, tokens.len() as u64, tokens)
        }));
    }

    /// Chooses the next token of every row and goes on, or ends, with it.
    fn choose(&mut self) -> Result<(), Error> {
        if self.batch.sequences.is_empty() {
            return Ok(());
        }
        let mut work = std::mem::take(&mut self.rows);
        // The device computes meanwhile.
        self.plan_draws(&work);
        self.take_masks();
        let Self { engine, schedule, live, row, workspace, draws, planned, .. } = self;
        let choice = |(id, planned): (&Id, &Option<Planned>)| live[id].choice(draws, planned.as_ref());
        let choices: Vec<Choice<'_>> = work.iter().zip(&*planned).map(choice).collect();
        let (vocab, window) = (engine.vocab as usize, engine.window_tokens() as usize);
        let sampled = engine.executor.sample(&choices)?;
        let (mut over, mut behind) = (Vec::new(), Vec::new());
        for (index, &id) in work.iter().enumerate() {
            let live = live.get_mut(&id).expect("who is in a step is not over");
            let tokens = schedule.tokens(id);
            if live.first.is_none() {
                live.done.cached_tokens = schedule.cached_tokens(id).min(live.done.prompt_tokens as u32) as usize;
            }
            // What panics here has harmed this request only.
            let next = catch_unwind(AssertUnwindSafe(|| {
                let token = match &mut live.sampler {
                    _ if live.fault.is_some() => None,
                    None => sampled.tokens[index],
                    Some(_) if planned[index].is_some() => sampled.tokens[index],
                    Some(sampler) => {
                        let logits = &sampled.logits[index * vocab..(index + 1) * vocab];
                        row.copy_from_slice(logits);
                        let held = live.constraint.as_ref().filter(|_| !live.writing.is_free());
                        let mask = held.map(|constraint| constraint.mask().words());
                        sampler.exchange(workspace);
                        let choice = sampler.sample(row, mask, tokens.len() as u64, tokens);
                        let told = live.likely.zip(choice).map(|(count, choice)| {
                            if live.likely_as_drawn {
                                Likelihood::drawn(choice, &sampler.leading(row, mask, count))
                            } else {
                                Likelihood::of(logits, choice.token, count)
                            }
                        });
                        sampler.exchange(workspace);
                        live.likelihood = told.map(Box::new);
                        choice.map(|choice| choice.token)
                    }
                };
                live.hear(token, tokens.len(), window)
            }));
            match next {
                Ok(Next::Tokens) => {
                    schedule.push(id, &live.written);
                    if live.pace.is_held() {
                        behind.push(id);
                    }
                }
                Ok(Next::Over(finish)) => over.push((id, Ok(finish))),
                Ok(Next::Failed(error)) => over.push((id, Err(error))),
                Err(_) => over.push((id, Err(Error::StepLost("choosing a token failed".to_owned())))),
            }
        }
        for (id, result) in over {
            self.conclude(id, result);
        }
        for index in 0..self.schedule.planned().work.len() {
            let work = self.schedule.planned().work[index];
            if !work.output {
                self.tell_progress(work.id, work.end as usize);
            }
        }
        behind.into_iter().for_each(|id| self.park(id));
        work.clear();
        self.rows = work;
        Ok(())
    }

    /// Takes back the constraints that were lent out, each with its mask.
    fn take_masks(&mut self) {
        let Self { live, masks, .. } = self;
        for (id, worked) in masks.iter_mut().flat_map(Masks::finish) {
            // Who is gone needs none.
            let Some(live) = live.get_mut(&id) else { continue };
            match worked {
                Some((constraint, result)) => {
                    live.constraint = Some(constraint);
                    live.fault = result.err().map(Error::from);
                }
                None => live.fault = Some(Error::StepLost("working out what may come next failed".to_owned())),
            }
        }
    }

    /// Says how far a prompt has been read.
    fn tell_progress(&mut self, id: Id, done: usize) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let total = live.done.prompt_tokens;
        // One that was sent back reads its own answer again, which is nobody's business.
        if done <= total && live.first.is_none() && (live.listener)(Reply::Prefill { done, total }).is_break() {
            self.end(id);
        }
    }

    /// Ends a request and says its last words: who hears them finds its place free already.
    fn conclude(&mut self, id: Id, result: Result<Finish, Error>) {
        let Some(mut live) = self.end(id) else { return };
        self.publish();
        let last = match result {
            Ok(mut finish) => {
                if live.constraint.as_ref().is_some_and(|constraint| constraint.is_short()) {
                    let before = live.done.prompt_tokens + live.done.output_tokens;
                    let window = self.engine.window_tokens() as usize;
                    finish = finish.shortened(Room::of(live.max_tokens, live.done.output_tokens, before, window).limit);
                }
                let listener = &mut live.listener;
                live.writing.finish(&finish, |event| {
                    let said = match event {
                        Event::Text(text) => Some(Reply::Rest(text.to_owned())),
                        event => reply_of(&event),
                    };
                    said.map_or(ControlFlow::Continue(()), &mut *listener)
                });
                let reasoning_tokens = live.writing.reasoning_tokens();
                Reply::Done(Done { finish, reasoning_tokens, ..live.done.clone() })
            }
            Err(error) => Reply::Failed(error),
        };
        let _ = (live.listener)(last);
    }

    fn end(&mut self, id: Id) -> Option<Live> {
        self.schedule.finish(id);
        let live = self.live.remove(&id)?;
        self.names.remove(&live.number);
        // One that is parked is not counted.
        match self.parked.iter().position(|&other| other == id) {
            Some(place) => _ = self.parked.remove(place),
            None => _ = self.shared.open.fetch_sub(1, Ordering::AcqRel),
        }
        Some(live)
    }

    fn publish(&self) {
        if let Some(store) = &self.engine.store {
            *self.shared.stored.lock().unwrap_or_else(PoisonError::into_inner) = store.stored();
        }
        *self.shared.status.lock().unwrap_or_else(PoisonError::into_inner) = self.schedule.status();
    }
}

impl Live {
    /// What is wanted of its row, which the device draws from where that is planned.
    fn choice<'a>(&'a self, draws: &'a Draws, planned: Option<&Planned>) -> Choice<'a> {
        match (&self.fault, &self.sampler, planned) {
            (Some(_), ..) => Choice::Nothing,
            (None, Some(_), Some(planned)) => draws.choice(planned, self.mask()),
            (None, Some(_), None) => Choice::Logits,
            (None, None, _) => Choice::Greedy { mask: self.mask() },
        }
    }

    /// What its next token must obey; nothing while the model reasons.
    fn mask(&self) -> Option<&[u32]> {
        let constraint = self.constraint.as_ref().filter(|_| !self.writing.is_free());
        constraint.map(|constraint| constraint.mask().words())
    }

    /// What becomes of a request of `tokens` tokens when the model writes `token`.
    fn hear(&mut self, token: Option<u32>, tokens: usize, window: usize) -> Next {
        let is_first = self.first.is_none();
        let likelihood = self.likelihood.take();
        // What was certain from the start came with the prompt, and is told with the first token.
        if is_first && let Some(finish) = self.tell(tokens - self.written.len(), window) {
            return Next::Over(finish);
        }
        if self.is_long_enough() {
            return Next::Over(Finish::Length);
        }
        if let Some(fault) = self.fault.take() {
            return Next::Failed(fault);
        }
        if self.constraint.as_ref().is_some_and(|constraint| constraint.is_done()) {
            return Next::Over(Finish::Complete);
        }
        let Some(chosen) = token else { return Next::Failed(Error::NotFinite) };
        let token = self.writing.choose(chosen);
        self.likelihood = likelihood.filter(|_| token == chosen);
        self.note_time();
        if self.end_tokens.contains(&token) {
            return Next::Over(Finish::EndToken);
        }
        let is_free = self.writing.is_free();
        self.written.clear();
        if let Some(constraint) = self.constraint.as_mut().filter(|_| !is_free)
            && !constraint.opens(token)
        {
            let room = Room::of(self.max_tokens, self.done.output_tokens, tokens, window);
            if let Err(error) = constraint.take(token, room.tokens, &mut self.written) {
                return Next::Failed(error.into());
            }
            if self.written.is_empty() {
                return Next::Over(room.limit);
            }
            self.likelihood = self.likelihood.take().filter(|_| self.written[0] == chosen);
        } else {
            self.written.push(token);
        }
        if let Some(finish) = self.tell(tokens, window) {
            return Next::Over(finish);
        }
        if self.constraint.as_ref().is_some_and(|constraint| constraint.is_done()) {
            return Next::Over(Finish::Complete);
        }
        if self.is_long_enough() { Next::Over(Finish::Length) } else { Next::Tokens }
    }

    fn is_long_enough(&self) -> bool {
        self.max_tokens.is_some_and(|most| self.done.output_tokens >= most)
    }

    /// A token is there.
    fn note_time(&mut self) {
        let first = *self.first.get_or_insert_with(Instant::now);
        if self.done.output_tokens == 0 {
            self.done.time_to_first_token = first - self.came;
            self.done.prefill = self.done.time_to_first_token;
        }
        self.done.decode = first.elapsed();
    }

    /// Tells what was written behind `before` tokens; why the answer ends with it, if it does.
    fn tell(&mut self, before: usize, window: usize) -> Option<Finish> {
        for index in 0..self.written.len() {
            if index > 0 && self.is_long_enough() {
                return Some(Finish::Length);
            }
            self.note_time();
            let id = self.written[index];
            self.done.output_tokens += 1;
            let Self { listener, likelihood, likely, writing, .. } = self;
            let mut told = likelihood.take().or_else(|| likely.map(|_| Box::default()));
            let over = writing.push(id, |event| {
                let said = match event {
                    Event::Text(text) => Some(Reply::Token { id, text: text.to_owned(), likelihood: told.take() }),
                    event => reply_of(&event),
                };
                said.map_or(ControlFlow::Continue(()), &mut *listener)
            });
            if over.is_some() {
                return over;
            }
            if self.writing.is_late() {
                return Some(Finish::Time);
            }
            // The token just written has its place, too.
            if before + index + 1 == window {
                return Some(Finish::Window);
            }
        }
        None
    }
}

/// What a request hears of an event; nothing of what its own caller says elsewhere.
fn reply_of(event: &Event<'_>) -> Option<Reply> {
    match *event {
        Event::Prefill { .. } | Event::Text(_) => None,
        Event::Reasoning(text) => Some(Reply::Reasoning(text.to_owned())),
        Event::Call { index, id, name } => Some(Reply::Call { index, id: id.to_owned(), name: name.to_owned() }),
        Event::Arguments { index, text } => Some(Reply::Arguments { index, text: text.to_owned() }),
        Event::CallEnd { index, complete } => Some(Reply::CallEnd { index, complete }),
    }
}

impl Likelihood {
    /// Of `token` in a row of logits, with the `count` most likely.
    fn of(logits: &[f32], token: u32, count: usize) -> Self {
        Self { log_probability: log_probability(logits, token), likely: leading_log_probabilities(logits, count) }
    }

    /// Of what was drawn, with the most likely of what it was drawn from.
    fn drawn(choice: Chosen, likely: &[Chosen]) -> Self {
        let of = |choice: &Chosen| (choice.token, choice.probability.ln());
        Self { log_probability: choice.probability.ln(), likely: likely.iter().map(of).collect() }
    }
}
