//! Worker threads for one forward pass: fork and join in about a microsecond.
//!
//! A worker waits for work by spinning, then yielding, then parking: the next operation finds it awake, a busy machine gets
//! its core back, an idle engine costs nothing. The caller is worker 0. The pool does not know what the work is.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};

/// Polls before a waiting thread offers its core to others: about 20 microseconds, longer than the gap between two
/// operations of a pass.
const SPINS: u32 = 2_000;
/// Offers before a waiting worker parks.
const YIELDS: u32 = 200;

/// A fixed set of threads that run one job at a time together.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
}

struct Worker {
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

struct Shared {
    /// Counts jobs; a change tells workers that there is one.
    generation: AtomicUsize,
    /// Workers that have not finished the current job.
    pending: AtomicUsize,
    /// Set when a worker's share panicked.
    panicked: AtomicBool,
    stop: AtomicBool,
    parked: Vec<AtomicBool>,
    job: UnsafeCell<Option<Job>>,
}

/// A borrowed closure whose lifetime [`Pool::run`] guards by not returning before all workers are done.
type Job = *const (dyn Fn(usize) + Sync);

// SAFETY: `job` is written only by the thread inside `Pool::run`, which takes `&mut self`, while `pending` is zero, and is
// read by workers only between the release of `generation` that follows that write and their decrement of `pending`.
unsafe impl Sync for Shared {}
// SAFETY: the pointer is only dereferenced while `Pool::run` keeps its target alive; the target is `Sync`.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool of `threads` threads, the caller counted; at least one.
    pub fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            generation: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            parked: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            job: UnsafeCell::new(None),
        });
        let workers = (1..threads).map(|index| {
            let shared = Arc::clone(&shared);
            let name = format!("kauri-cpu-{index}");
            let handle = thread::Builder::new().name(name).spawn(move || shared.work(index)).expect("a thread starts");
            Worker { thread: handle.thread().clone(), handle: Some(handle) }
        });
        let workers = workers.collect();
        Self { shared, workers }
    }

    /// Threads, the caller counted.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `share(worker)` once on every thread and returns when all are done.
    ///
    /// # Panics
    /// If a share panics, on whichever thread.
    pub fn run(&mut self, share: &(dyn Fn(usize) + Sync)) {
        if self.workers.is_empty() {
            share(0);
            return;
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime of the borrow is erased, and this function does not return, by value or by panic,
        // before every worker is past its last use of it. `&mut self` keeps a second job out, and `pending` is zero.
        unsafe {
            let job = std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(share);
            *shared.job.get() = Some(std::ptr::from_ref(job));
        }
        shared.pending.store(self.workers.len(), Ordering::Relaxed);
        shared.generation.fetch_add(1, Ordering::SeqCst);
        for (index, worker) in self.workers.iter().enumerate() {
            if shared.parked[index + 1].load(Ordering::SeqCst) {
                worker.thread.unpark();
            }
        }
        let own = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| share(0)));
        let mut polls = 0;
        while shared.pending.load(Ordering::Acquire) != 0 {
            wait(&mut polls);
        }
        if let Err(panic) = own {
            shared.panicked.store(false, Ordering::Relaxed);
            std::panic::resume_unwind(panic);
        }
        assert!(!shared.panicked.swap(false, Ordering::Relaxed), "a worker of the pool panicked");
    }
}

/// The share of `count` things that belongs to `worker` of `threads`: contiguous, all shares together cover them once.
pub fn share(worker: usize, threads: usize, count: usize) -> Range<usize> {
    count * worker / threads..count * (worker + 1) / threads
}

impl Shared {
    fn work(&self, worker: usize) {
        let mut seen = 0;
        loop {
            let mut polls = 0;
            while self.generation.load(Ordering::Acquire) == seen {
                if polls < SPINS + YIELDS {
                    wait(&mut polls);
                    continue;
                }
                self.parked[worker].store(true, Ordering::SeqCst);
                // The caller changes `generation` before it looks at `parked`: one of the two sees the other.
                if self.generation.load(Ordering::SeqCst) == seen {
                    thread::park();
                }
                self.parked[worker].store(false, Ordering::SeqCst);
            }
            seen = seen.wrapping_add(1);
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            // SAFETY: the change of `generation` above follows the write of `job`, and the caller keeps the closure alive
            // and `job` unchanged until `pending` is zero, which this worker delays until it has returned from it.
            let job = unsafe { (*self.job.get()).map(|job| &*job) };
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if let Some(job) = job {
                    job(worker);
                }
            }));
            if outcome.is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.pending.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.generation.fetch_add(1, Ordering::SeqCst);
        for worker in &mut self.workers {
            worker.thread.unpark();
            if let Some(handle) = worker.handle.take() {
                // A worker catches the panics of its shares; there is nothing to hand on.
                let _ = handle.join();
            }
        }
    }
}

fn wait(polls: &mut u32) {
    *polls = polls.saturating_add(1);
    if *polls < SPINS {
        std::hint::spin_loop();
    } else {
        thread::yield_now();
    }
}

/// A slice that several workers write at once, each to places of its own.
pub struct Disjoint<'a, T> {
    start: *mut T,
    length: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it hands out mutable slices of `T` to several threads, which `T: Send` allows; that they do not overlap is the
// contract of `slice`.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    /// Takes the slice for as long as workers write to it.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), length: slice.len(), borrow: PhantomData }
    }

    /// The values of `range`.
    ///
    /// # Safety
    /// No other slice cut from this one that overlaps `range` may be in use.
    ///
    /// # Panics
    /// If `range` lies outside.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's contract")]
    pub unsafe fn slice(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length, "{range:?} outside {}", self.length);
        // SAFETY: inside the borrowed slice by the check above, and not aliased by the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_runs_every_job_once() {
        for threads in [1, 2, 5] {
            let mut pool = Pool::new(threads);
            let counts: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..300 {
                pool.run(&|worker| {
                    counts[worker].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 300), "{threads} threads: {counts:?}");
        }
    }

    #[test]
    fn parked_workers_wake() {
        let mut pool = Pool::new(3);
        let count = AtomicUsize::new(0);
        for _ in 0..3 {
            thread::sleep(std::time::Duration::from_millis(30));
            pool.run(&|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(count.load(Ordering::Relaxed), 9);
    }

    #[test]
    fn a_panicking_share_reaches_the_caller_and_the_pool_lives_on() {
        let mut pool = Pool::new(2);
        for bad in [0, 1] {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                pool.run(&|worker| assert_ne!(worker, bad, "planted"));
            }));
            assert!(result.is_err(), "worker {bad}");
        }
        let count = AtomicUsize::new(0);
        pool.run(&|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn shares_cover_everything_once() {
        for threads in [1, 2, 3, 7] {
            for count in [0, 1, 2, 31, 33, 257] {
                let all: Vec<usize> = (0..threads).flat_map(|worker| share(worker, threads, count)).collect();
                assert_eq!(all, (0..count).collect::<Vec<_>>(), "{threads} threads, {count} things");
            }
        }
    }
}
