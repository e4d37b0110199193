//! Many requests on one engine: a thread that owns the device, and a stream of events for each request.
//!
//! What happens to a request is told to a [`Listener`], on the engine's thread. [`Service::submit`] brings one that sends it through a
//! channel of the standard library; a server brings its own. Who walks away from an answer has cancelled it: its pages are others'
//! from the next step on. Who does not keep up with one holds it ([`Pace`]): it has no part in any step until they have caught up.

mod chunk;
mod pace;
mod steps;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kauri_prompt::schedule::Status;
use kauri_prompt::store::Stored;
use kauri_step::grammar::{Compiled, Compiler, Constraint, Grammar};
use kauri_tokenizer::Tokenizer;

use crate::adapters::{AdapterFacts, Adapters};
use crate::between;
use crate::chat::Chat;
use crate::decode::Request;
use crate::dialogue::{Asked, Dialogue};
use crate::engine::{Defaults, Engine};
use crate::error::Error;
use crate::events::{Done, Likelihood};
use steps::Steps;

pub use pace::Pace;

/// The rules of a service. The defaults suit a few people at one machine.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    /// Most requests that wait.
    pub waiting: u32,
    /// Most tokens of prompts in a step, while answers are being written: more reads prompts sooner and writes answers less evenly. Fewer are
    /// read where a step would take more than about twice as long as without.
    pub chunk_tokens: u32,
    /// What all running requests may come to need, as a share of the cache. Over 100, some may have to be sent back to the
    /// queue, which costs time and no answer; few write as much as they may.
    pub promised_percent: u32,
    /// A request that has waited longer goes first.
    pub patience: Duration,
    /// Pages of a prompt between snapshots of the states of recurrent layers.
    pub snapshot_pages: u32,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            waiting: 256,
            chunk_tokens: 128,
            promised_percent: 400,
            patience: Duration::from_secs(10),
            snapshot_pages: 16,
        }
    }
}

/// A request, and whose it is.
#[derive(Clone, Debug)]
pub struct Submission {
    /// What is asked for.
    pub request: Request,
    /// Who asks: callers are treated alike, whatever the number of their requests.
    pub caller: u64,
    /// The higher, the sooner.
    pub priority: u8,
    /// Only requests with the same salt share what is known of their prompts.
    pub salt: u64,
    /// Whether its listener keeps up.
    pub pace: Pace,
}

impl From<Request> for Submission {
    fn from(request: Request) -> Self {
        Self { request, caller: 0, priority: 0, salt: 0, pace: Pace::default() }
    }
}

/// Hears what happens to a request, in order and to the end, on the engine's thread: it must not wait. Whoever breaks off has cancelled.
pub type Listener = Box<dyn FnMut(Reply) -> ControlFlow<()> + Send>;

/// What happens to a request.
#[derive(Debug)]
pub enum Reply {
    /// It was taken in, and waits or runs.
    Queued,
    /// Part of the prompt has been read: tokens so far, and in all.
    Prefill {
        /// Tokens read or found in the cache.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// A token was written.
    Token {
        /// Its id.
        id: u32,
        /// More text of the answer: whole characters, never part of a stop string, and nothing where the token brings none yet.
        text: String,
        /// How likely it was, where that was asked for.
        likelihood: Option<Box<Likelihood>>,
    },
    /// Text that was held back in case a stop string went on in it.
    Rest(String),
    /// The model thinks.
    Reasoning(String),
    /// A call of a tool of the list begins.
    Call {
        /// Its place among the calls of the answer, from 0.
        index: u32,
        /// What its result is to be told by.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments: all pieces together are the JSON text of an object.
    Arguments {
        /// The call.
        index: u32,
        /// The next piece.
        text: String,
    },
    /// A call is over.
    CallEnd {
        /// The call.
        index: u32,
        /// Whether its arguments are as the model wrote them, not completed where it broke off.
        complete: bool,
    },
    /// The answer is over.
    Done(Done),
    /// The request failed; others go on.
    Failed(Error),
}

/// An engine that answers many at once. Dropping it ends all answers.
pub struct Service {
    inbox: Sender<Message>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    numbers: AtomicU64,
    requests_max: usize,
    waiting: u32,
    tokenizer: Tokenizer,
    dialogue: Option<Arc<Dialogue>>,
    defaults: Defaults,
    window_tokens: u32,
    vocab: u32,
    grammars: Arc<OnceLock<Compiler>>,
    adapters: Arc<Adapters>,
}

/// What both sides see.
#[derive(Default)]
struct Shared {
    /// Requests that were submitted and are not over.
    open: AtomicUsize,
    status: Mutex<Status>,
    stored: Mutex<Stored>,
}

/// What the thread is told.
enum Message {
    Submit {
        number: u64,
        submission: Box<Submission>,
        start: Start,
        listener: Listener,
    },
    Cancel(u64),
    /// Its listener has caught up.
    Resume(u64),
    /// What the store was asked for has come.
    Arrived,
    Stop,
}

/// A constraint at its beginning, and the tokens that are certain before any is chosen.
type Start = (Option<Box<Constraint>>, Vec<u32>);

/// A request that was submitted; dropping it cancels the request, if it is not over.
pub struct Ticket {
    inbox: Sender<Message>,
    number: u64,
}

/// The stream of an answer; dropping it cancels the request.
pub struct Answer {
    replies: Receiver<Reply>,
    over: bool,
    _ticket: Ticket,
}

impl Engine {
    /// Gives the engine to a thread of its own, which answers as many requests at once as there are sequences.
    ///
    /// # Panics
    /// If the machine cannot start a thread.
    pub fn serve(mut self, serving: &Serving) -> Service {
        let shared = Arc::new(Shared::default());
        let (inbox, messages) = channel();
        if let Some(store) = &mut self.store {
            let wake = Mutex::new(inbox.clone());
            // Where the thread is gone already, nobody waits.
            store.on_arrival(Box::new(move || {
                _ = wake.lock().unwrap_or_else(PoisonError::into_inner).send(Message::Arrived);
            }));
        }
        let plan = self.executor.plan();
        let (tokenizer, dialogue, defaults) = (self.tokenizer.clone(), self.dialogue.clone(), self.defaults.clone());
        let (window_tokens, vocab) = (self.window_tokens(), self.vocab);
        let (grammars, adapters) = (Arc::clone(&self.grammars), Arc::clone(&self.adapters));
        let requests_max = serving.waiting as usize + plan.slots.min(plan.batch_outputs) as usize;
        let mut steps = Steps::new(self, serving, Arc::clone(&shared));
        let work = move || run(&mut steps, &messages);
        let thread =
            thread::Builder::new().name("kauri-steps".to_owned()).spawn(work).expect("a thread can be started");
        Service {
            inbox,
            thread: Some(thread),
            shared,
            numbers: AtomicU64::new(0),
            requests_max,
            waiting: serving.waiting,
            tokenizer,
            dialogue,
            defaults,
            window_tokens,
            vocab,
            grammars,
            adapters,
        }
    }
}

/// Requests beyond those that may wait or run which the thread has not looked at yet. Whose place there is, it says: it knows whose there are too many of.
const UNSEEN_MAX: usize = 1024;

/// How long all wait for the store at a time: their patience may end meanwhile.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Steps while there is something to do, and waits for messages while there is not.
fn run(steps: &mut Steps, messages: &Receiver<Message>) {
    loop {
        let mut next = if steps.is_idle() {
            messages.recv().map_err(|_| TryRecvError::Disconnected)
        } else if steps.is_waiting() {
            messages.recv_timeout(WAIT_MAX).map_err(|error| match error {
                RecvTimeoutError::Timeout => TryRecvError::Empty,
                RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
            })
        } else {
            messages.try_recv()
        };
        loop {
            match next {
                Ok(Message::Submit { number, submission, start, listener }) => {
                    steps.submit(number, *submission, start, listener);
                }
                Ok(Message::Cancel(number)) => steps.cancel(number),
                Ok(Message::Resume(number)) => steps.resume(number),
                Ok(Message::Arrived) => {}
                Ok(Message::Stop) | Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => break,
            }
            next = messages.try_recv();
        }
        // What panics in a step has harmed only those that were in it.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| steps.step())) {
            let reason = panic.downcast_ref::<String>().map(String::as_str);
            let reason = reason.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            steps.abandon(reason);
        }
    }
}

impl Service {
    /// Asks for an answer. Whatever becomes of it comes out of the stream, in order, and ends with [`Reply::Done`] or
    /// [`Reply::Failed`].
    ///
    /// # Errors
    /// When the queue is full, or the engine has stopped.
    pub fn submit(&self, submission: impl Into<Submission>) -> Result<Answer, Error> {
        let (reply, replies) = channel();
        let listener =
            move |said| if reply.send(said).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        let ticket = self.submit_to(submission, Box::new(listener))?;
        Ok(Answer { replies, over: false, _ticket: ticket })
    }

    /// Asks for an answer and has a listener hear of it, as [`Service::submit`] says.
    ///
    /// # Errors
    /// When the queue is full, or the engine has stopped.
    pub fn submit_to(&self, submission: impl Into<Submission>, listener: Listener) -> Result<Ticket, Error> {
        if self.shared.open.fetch_add(1, Ordering::AcqRel) >= self.requests_max + UNSEEN_MAX {
            self.shared.open.fetch_sub(1, Ordering::AcqRel);
            return Err(Error::QueueFull { waiting: self.waiting });
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let submission = Box::new(submission.into());
        // Here and not on the engine's thread, where others would wait for it.
        let start = submission.request.begin(self.window_tokens as usize);
        let message = Message::Submit { number, submission, start, listener };
        if self.inbox.send(message).is_err() {
            self.shared.open.fetch_sub(1, Ordering::AcqRel);
            return Err(Error::Stopped);
        }
        Ok(Ticket { inbox: self.inbox.clone(), number })
    }

    /// The prompt that asks for the next answer of a conversation.
    ///
    /// # Errors
    /// When the model has no template, or the template refuses the conversation.
    pub fn chat_tokens(&self, chat: &Chat) -> Result<Vec<u32>, Error> {
        Ok(self.dialogue.as_ref().ok_or(Error::NoTemplate)?.ask(chat)?.tokens)
    }

    /// The prompt that asks for the next answer of a conversation, and how that answer is to be read, as [`Engine::ask`] does.
    ///
    /// # Errors
    /// When the model has no template, or the template refuses the conversation.
    pub fn ask(&self, chat: &Chat) -> Result<Asked, Error> {
        let asked = self.dialogue.as_ref().ok_or(Error::NoTemplate)?.ask(chat)?;
        asked.constrained(&self.tokenizer, |grammar| self.compile(grammar))
    }

    /// Compiles what answers must obey, on the caller's thread. The first time, the vocabulary is prepared for it: a third of a
    /// second for 150,000 tokens.
    ///
    /// # Errors
    /// When it cannot be enforced, names a keyword that cannot, or is too large.
    pub fn compile(&self, grammar: &Grammar) -> Result<Compiled, Error> {
        let compiler = self.grammars.get_or_init(|| Compiler::new(&self.tokenizer, self.vocab as usize));
        Ok(compiler.compile(grammar)?)
    }

    /// Compiles what the answer to `asked` must obey where its text obeys `grammar`: that, or a call of a tool.
    ///
    /// # Errors
    /// As [`Service::compile`] says.
    pub fn compile_for(&self, asked: &Asked, grammar: &Grammar) -> Result<Compiled, Error> {
        self.compile(&asked.beside(&self.tokenizer, grammar)?)
    }

    /// The prompt that asks for what stands between two texts; nothing where the vocabulary has no tokens for it.
    pub fn between_tokens(&self, before: &str, after: &str) -> Option<Vec<u32>> {
        between::tokens(&self.tokenizer, before, after)
    }

    /// How things stand, as of the latest step.
    pub fn status(&self) -> Status {
        *self.shared.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered outside of the cache, as of the latest step.
    pub fn stored(&self) -> Stored {
        *self.shared.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The vocabulary.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// What the model's makers recommend.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Whether the model has a chat template.
    pub fn has_template(&self) -> bool {
        self.dialogue.is_some()
    }

    /// The prompt that continues plain text, with the token that begins a text where the vocabulary wants one.
    pub fn text_tokens(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode_prompt(text)
    }

    /// The adapters that were loaded with the model, in the order of their numbers.
    pub fn adapters(&self) -> &[AdapterFacts] {
        &self.adapters.facts
    }

    /// Tokens that fit the window.
    pub fn window_tokens(&self) -> u32 {
        self.window_tokens
    }

    /// Rows of the logits.
    pub fn vocab(&self) -> u32 {
        self.vocab
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Where the thread is gone already, nobody hears it.
        let _ = self.inbox.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Answer {
    /// Waits for the end; returns the tokens, the text, and how it went.
    ///
    /// # Errors
    /// When the request fails.
    pub fn wait(self) -> Result<(Vec<u32>, String, Done), Error> {
        let (mut tokens, mut all) = (Vec::new(), String::new());
        for reply in self {
            match reply {
                Reply::Queued
                | Reply::Prefill { .. }
                | Reply::Reasoning(_)
                | Reply::Call { .. }
                | Reply::Arguments { .. }
                | Reply::CallEnd { .. } => {}
                Reply::Token { id, text, .. } => {
                    tokens.push(id);
                    all += &text;
                }
                Reply::Rest(text) => all += &text,
                Reply::Done(done) => return Ok((tokens, all, done)),
                Reply::Failed(error) => return Err(error),
            }
        }
        Err(Error::Stopped)
    }
}

impl Iterator for Answer {
    type Item = Reply;

    /// Waits for what happens next; none after the end, or where the engine has stopped.
    fn next(&mut self) -> Option<Reply> {
        if self.over {
            return None;
        }
        let reply = self.replies.recv().ok();
        self.over = matches!(reply, None | Some(Reply::Done(_) | Reply::Failed(_)));
        reply
    }
}

impl Ticket {
    /// The listener has caught up, and its [`Pace`] says so: the answer goes on, if it was held.
    pub fn resume(&self) {
        // An engine that is gone has nothing to go on with.
        _ = self.inbox.send(Message::Resume(self.number));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Of one that is over nobody knows any more, and of an engine that is gone nobody hears.
        let _ = self.inbox.send(Message::Cancel(self.number));
    }
}
