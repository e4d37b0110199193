//! Masks while the device computes: threads that work out what the next token of constrained answers may be.
//!
//! A constraint is lent to them before a step is launched and taken back before a token is chosen, so that whoever has it is the only
//! one. What a mask is depends on the answer alone, and not on when or by which thread it was worked out.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use kauri_step::grammar::{self, Constraint};

/// The most threads. More of them would wait for memory: each goes through a tree of the whole vocabulary.
const THREADS_MAX: usize = 8;

/// A constraint with its mask, or why there is none.
pub(crate) type Worked = (Box<Constraint>, Result<(), grammar::Error>);

/// The threads, and what they were lent.
pub(crate) struct Masks<K> {
    jobs: Arc<Jobs<K>>,
    outbox: Sender<(K, Option<Worked>)>,
    results: Receiver<(K, Option<Worked>)>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
    lent: usize,
}

/// What nobody has begun yet.
struct Jobs<K> {
    queue: Mutex<Queue<K>>,
    /// There is something, or it is over.
    wake: Condvar,
}

struct Queue<K> {
    waiting: VecDeque<(K, Box<Constraint>)>,
    is_over: bool,
}

impl<K> Jobs<K> {
    /// Nothing that holds it can panic, so that it is never left half done.
    fn lock(&self) -> MutexGuard<'_, Queue<K>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next one as soon as there is one; none when it is over.
    fn wait(&self) -> Option<(K, Box<Constraint>)> {
        let mut queue = self.lock();
        while queue.waiting.is_empty() && !queue.is_over {
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.is_over { None } else { queue.waiting.pop_front() }
    }
}

/// Works out a mask. What panics loses one answer, not the thread.
fn work(mut constraint: Box<Constraint>) -> Option<Worked> {
    let work = || {
        let result = constraint.advance().map(drop);
        (constraint, result)
    };
    catch_unwind(AssertUnwindSafe(work)).ok()
}

impl<K: Send + 'static> Masks<K> {
    /// Threads for so many answers at once, and for half of the cores at most: the others compute the step. They start when there is
    /// something for them.
    pub(crate) fn new(answers_max: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::with_threads(answers_max.min(cores / 2).clamp(1, THREADS_MAX))
    }

    fn with_threads(threads_max: usize) -> Self {
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), is_over: false });
        let (outbox, results) = channel();
        let jobs = Arc::new(Jobs { queue, wake: Condvar::new() });
        Self { jobs, outbox, results, threads: Vec::new(), threads_max, lent: 0 }
    }

    /// Lends a constraint to the threads.
    ///
    /// # Panics
    /// If the machine cannot start a first thread.
    pub(crate) fn begin(&mut self, key: K, constraint: Box<Constraint>) {
        self.jobs.lock().waiting.push_back((key, constraint));
        self.lent += 1;
        if self.threads.len() < self.lent.min(self.threads_max) {
            let (jobs, outbox) = (Arc::clone(&self.jobs), self.outbox.clone());
            let serve = move || {
                while let Some((key, constraint)) = jobs.wait() {
                    if outbox.send((key, work(constraint))).is_err() {
                        return;
                    }
                }
            };
            match thread::Builder::new().name("kauri-masks".to_owned()).spawn(serve) {
                Ok(thread) => self.threads.push(thread),
                // Those that there are do its work as well.
                Err(error) => assert!(!self.threads.is_empty(), "a thread can be started: {error}"),
            }
        }
        self.jobs.wake.notify_one();
    }

    /// Waits for all that was lent, in any order, and works at what nobody has begun; nothing comes back of what panicked.
    pub(crate) fn finish(&mut self) -> impl Iterator<Item = (K, Option<Worked>)> + '_ {
        let lent = std::mem::take(&mut self.lent);
        (0..lent).map_while(|_| {
            let next = self.jobs.lock().waiting.pop_front();
            match next {
                Some((key, constraint)) => Some((key, work(constraint))),
                None => self.results.recv().ok(),
            }
        })
    }
}

impl<K> Drop for Masks<K> {
    fn drop(&mut self) {
        self.jobs.lock().is_over = true;
        self.jobs.wake.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kauri_formats::Checkpoint;
    use kauri_step::grammar::{Compiler, Grammar};
    use kauri_tokenizer::Tokenizer;

    /// Whatever the number of threads, and whether anybody waits meanwhile: what was lent comes back once, with the mask that it has alone.
    #[test]
    fn what_is_lent_comes_back_once_with_its_own_mask() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/kauri-nano-Q4_K_M.gguf");
        let tokenizer = Tokenizer::from_checkpoint(&Checkpoint::open(path).unwrap()).unwrap();
        let compiler = Compiler::new(&tokenizer, tokenizer.vocab_size());
        let choices = |answer: usize| Grammar::Choice(vec![format!("{answer} of {}", "many".repeat(answer + 1))]);
        let start = |answer: usize| Box::new(compiler.compile(&choices(answer)).unwrap().start(&[]));
        let alone: Vec<_> = (0..12).map(|answer| start(answer).advance().unwrap().clone()).collect();
        for threads in [1, 2, 5] {
            let mut masks = Masks::with_threads(threads);
            for step in 0..20 {
                let lent = step % 13;
                (0..lent).for_each(|answer| masks.begin(answer, start(answer)));
                let mut came: Vec<usize> = masks
                    .finish()
                    .map(|(answer, worked)| {
                        let (constraint, result) = worked.expect("nothing panicked");
                        result.unwrap();
                        assert_eq!(*constraint.mask(), alone[answer]);
                        answer
                    })
                    .collect();
                came.sort_unstable();
                assert_eq!(came, (0..lent).collect::<Vec<_>>());
                assert!(masks.threads.len() <= threads);
            }
        }
    }
}
