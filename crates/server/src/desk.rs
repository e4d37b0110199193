//! A model that reads: texts in, vectors or scores out, on a thread of its own.
//!
//! Reading needs other buffers than writing, so a model that is asked for both is there twice; its weights are mapped, and are in memory
//! once.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use kauri_engine::{Engine, Error, Passage, Wanted};
use tokio::sync::oneshot;

/// Most requests that wait.
const WAITING: usize = 256;
/// Texts between two looks at whether anybody still waits for them.
const TEXTS_A_TURN: usize = 16;

/// The way to the thread.
pub struct Desk {
    jobs: SyncSender<Job>,
    judges: bool,
}

/// Texts to be read.
pub enum Work {
    /// For vectors.
    Embed { texts: Vec<Input>, wanted: Wanted },
    /// For how well each document answers the query.
    Judge { query: String, documents: Vec<String> },
}

/// A text, or the tokens of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Text(String),
    Tokens(Vec<u32>),
}

/// What was read.
#[derive(Debug, Default, PartialEq)]
pub struct Read {
    /// A vector for each text, or one score for each document.
    pub vectors: Vec<Vec<f32>>,
    pub tokens: usize,
}

struct Job {
    work: Work,
    reply: oneshot::Sender<Result<Read, Error>>,
}

impl Desk {
    /// Gives an engine that was made to read to a thread.
    ///
    /// # Panics
    /// If the machine cannot start a thread.
    pub fn new(mut engine: Engine) -> Self {
        let (jobs, inbox) = sync_channel(WAITING);
        let judges = engine.judges();
        let work = move || run(&mut engine, &inbox);
        thread::Builder::new().name("kauri-reading".to_owned()).spawn(work).expect("a thread can be started");
        Self { jobs, judges }
    }

    /// Whether it judges documents.
    pub fn judges(&self) -> bool {
        self.judges
    }

    /// Reads.
    ///
    /// # Errors
    /// When a text cannot be read, too many wait, or the thread is gone.
    pub async fn read(&self, work: Work) -> Result<Read, Error> {
        let (reply, read) = oneshot::channel();
        self.jobs.try_send(Job { work, reply }).map_err(|error| match error {
            TrySendError::Full(_) => Error::QueueFull { waiting: WAITING as u32 },
            TrySendError::Disconnected(_) => Error::Stopped,
        })?;
        read.await.map_err(|_| Error::Stopped)?
    }
}

fn run(engine: &mut Engine, jobs: &Receiver<Job>) {
    for Job { work, reply } in jobs {
        let read = read(engine, &work, &reply);
        // Whoever asked may be gone.
        _ = reply.send(read);
    }
}

fn read(engine: &mut Engine, work: &Work, reply: &oneshot::Sender<Result<Read, Error>>) -> Result<Read, Error> {
    let passages: Vec<Passage> = match work {
        Work::Embed { texts, .. } => texts
            .iter()
            .map(|text| match text {
                Input::Text(text) => engine.passage(text),
                Input::Tokens(tokens) => Passage { tokens: tokens.clone(), second_start: u32::MAX },
            })
            .collect(),
        Work::Judge { query, documents } => {
            documents.iter().map(|document| engine.pair(query, document)).collect::<Result<_, _>>()?
        }
    };
    passages.iter().try_for_each(|passage| engine.check_passage(passage))?;
    let tokens = passages.iter().map(|passage| passage.tokens.len()).sum();
    let mut vectors = Vec::with_capacity(passages.len());
    for some in passages.chunks(TEXTS_A_TURN) {
        if reply.is_closed() {
            return Err(Error::Stopped);
        }
        match work {
            Work::Embed { wanted, .. } => {
                engine.reader().embed(some, *wanted, |_, vector| vectors.push(vector.to_vec()))?;
            }
            Work::Judge { .. } => engine.reader().judge(some, |_, score| vectors.push(vec![score]))?,
        }
    }
    engine.verify_unchanged()?;
    Ok(Read { vectors, tokens })
}
