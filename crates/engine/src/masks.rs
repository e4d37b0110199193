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
/// How many answers wait for a thread before another is woken: so many masks of 150,000 tokens take a tenth of a millisecond, and two threads
/// that share them take longer than one (machine D).
const ANSWERS_A_THREAD: usize = 16;

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
    /// Threads that sleep and were not told to wake, and how many were told and have not woken yet.
    asleep: usize,
    told: usize,
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
        while !queue.is_over {
            if let Some(job) = queue.waiting.pop_front() {
                return Some(job);
            }
            queue.asleep += 1;
            while queue.told == 0 && !queue.is_over {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.told = queue.told.saturating_sub(1);
        }
        None
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
    /// On half of the cores at most: the others compute the step. Threads start when there is something for them.
    pub(crate) fn new() -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::with_threads((cores / 2).clamp(1, THREADS_MAX))
    }

    fn with_threads(threads_max: usize) -> Self {
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), asleep: 0, told: 0, is_over: false });
        let (outbox, results) = channel();
        let jobs = Arc::new(Jobs { queue, wake: Condvar::new() });
        Self { jobs, outbox, results, threads: Vec::new(), threads_max, lent: 0 }
    }

    /// Lends a constraint to the threads.
    pub(crate) fn begin(&mut self, key: K, constraint: Box<Constraint>) {
        self.lent += 1;
        let mut queue = self.jobs.lock();
        queue.waiting.push_back((key, constraint));
        if queue.waiting.len() <= (self.threads.len() - queue.asleep) * ANSWERS_A_THREAD {
            // Those that are awake come to it.
        } else if queue.asleep > 0 {
            (queue.asleep, queue.told) = (queue.asleep - 1, queue.told + 1);
            self.jobs.wake.notify_one();
        } else if self.threads.len() < self.threads_max {
            drop(queue);
            let (jobs, outbox) = (Arc::clone(&self.jobs), self.outbox.clone());
            let serve = move || {
                while let Some((key, constraint)) = jobs.wait() {
                    if outbox.send((key, work(constraint))).is_err() {
                        return;
                    }
                }
            };
            // Where none can be started, whoever waits does the work.
            self.threads.extend(thread::Builder::new().name("kauri-masks".to_owned()).spawn(serve));
        }
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
        let alone: Vec<_> = (0..41).map(|answer| start(answer).advance().unwrap().clone()).collect();
        for threads in [1, 2, 5] {
            let mut masks = Masks::with_threads(threads);
            for step in 0..40 {
                let lent = step * 7 % 41;
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
