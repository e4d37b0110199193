//! Masks while the device computes: a thread that works out what the next token of constrained answers may be.
//!
//! A constraint is lent to the thread before a step is launched and taken back before a token is chosen, so that whoever has it
//! is the only one. What a mask is depends on the answer alone, and not on when it was worked out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use kauri_step::grammar::{self, Constraint};

/// A constraint with its mask, or why there is none.
pub(crate) type Worked = (Box<Constraint>, Result<(), grammar::Error>);

/// The thread, and what it was lent.
pub(crate) struct Masks<K> {
    /// Gone when the thread is to end.
    jobs: Option<Sender<(K, Box<Constraint>)>>,
    results: Receiver<(K, Option<Worked>)>,
    thread: Option<JoinHandle<()>>,
    lent: usize,
}

impl<K: Send + 'static> Masks<K> {
    /// Starts the thread.
    ///
    /// # Panics
    /// If the machine cannot start a thread.
    pub(crate) fn new() -> Self {
        let (jobs, inbox) = channel::<(K, Box<Constraint>)>();
        let (outbox, results) = channel();
        let work = move || {
            for (key, mut constraint) in inbox {
                let work = || {
                    let result = constraint.advance().map(drop);
                    (constraint, result)
                };
                // What panics loses one answer, not the thread.
                let worked = catch_unwind(AssertUnwindSafe(work)).ok();
                if outbox.send((key, worked)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("kauri-masks".to_owned()).spawn(work);
        let thread = Some(thread.expect("a thread can be started"));
        Self { jobs: Some(jobs), results, thread, lent: 0 }
    }

    /// Lends a constraint to the thread.
    pub(crate) fn begin(&mut self, key: K, constraint: Box<Constraint>) {
        let jobs = self.jobs.as_ref().expect("the thread works until it is dropped");
        // A thread that is gone keeps nothing: its results are missing then.
        self.lent += usize::from(jobs.send((key, constraint)).is_ok());
    }

    /// Waits for all that was lent, in the order in which it was; nothing comes back of what panicked.
    pub(crate) fn finish(&mut self) -> impl Iterator<Item = (K, Option<Worked>)> + '_ {
        let lent = std::mem::take(&mut self.lent);
        self.results.iter().take(lent)
    }
}

impl<K> Drop for Masks<K> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
