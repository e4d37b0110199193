//! Worker threads for one forward pass: fork and join in about a microsecond.
//!
//! Work is a number of pieces. Each thread has a contiguous share of them, which it takes in order, so that it streams its
//! own part of a matrix; a thread that is done takes the pieces that others have not begun. A job is over when its pieces
//! are done, not when its threads are: one that has lost its core delays the piece it holds and nothing else, and wakes to
//! find that there is nothing left to do.
//!
//! A worker waits for work by spinning, then parking: the next operation finds it awake, a busy machine gets its core back, an idle
//! engine costs nothing. With a processor for each thread it does not yield in between: who has slept is let in before others that want
//! its processor, who has yielded is not. With more threads than processors it does, since others of the pool want its own, and to wake
//! them costs more than to take turns. First it asks for memory that it was [told](Pool::foresee) it will read next, as
//! the caller does while it waits for others. The caller is thread 0, and stays where its owner wants it; where the machine has
//! several memories, workers [stay on their cores](Topology). The pool does not know what the work is.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};

use crate::foresight::{self, Place};
use crate::topology::{self, Topology};

/// Polls before a waiting worker parks, and the caller offers its core to others: about 20 microseconds, longer than the gap between
/// two operations of a pass.
const SPINS: u32 = 2_000;
/// Offers before a waiting worker parks, where there are more threads than processors.
const YIELDS: u32 = 200;
/// Pieces that [`Pool::grain`] makes for each thread: so many that a late thread's share goes to others, so few that a
/// piece is worth its price of a few hundred cycles.
const PIECES: usize = 16;
/// Most places that a thread is told of at once.
const FORESEEN_MAX: usize = 32;
/// The most pieces of a job: a seat counts them in 16 bits.
const PIECES_MAX: usize = u16::MAX as usize;

/// A fixed set of threads that run one job at a time together.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    /// What each thread is told of with the next job.
    foreseen: Vec<Vec<Place>>,
    memories: usize,
}

struct Worker {
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

struct Shared {
    /// Counts jobs; a change tells workers that there is one.
    generation: AtomicU32,
    /// Workers that have begun.
    started: AtomicUsize,
    /// Pieces of the current job that are done.
    done: AtomicUsize,
    /// Set when a piece panicked.
    panicked: AtomicBool,
    stop: AtomicBool,
    /// Offers before a worker parks.
    yields: u32,
    seats: Vec<Seat>,
    job: UnsafeCell<Option<Job>>,
}

/// A thread's place in the pool, in cache lines of its own.
#[repr(align(128))]
struct Seat {
    /// What is left of its share.
    left: AtomicU64,
    parked: AtomicBool,
    foreseen: Foreseen,
}

/// What a thread was told of with a job: it asks for that when it has no piece left.
#[derive(Default)]
struct Foreseen {
    count: AtomicUsize,
    /// Starts and bytes.
    places: [[AtomicUsize; 2]; FORESEEN_MAX],
}

/// A thread that asks for it.
struct Asking<'a> {
    foreseen: &'a Foreseen,
    /// The place behind the one in progress.
    next: usize,
    /// What is left of that.
    place: Place,
}

/// A seat's word: the job, and the pieces of this seat's share of it that nobody has taken, in order. One word, so that a
/// piece can only be taken from the job that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Left {
    generation: u32,
    next: u16,
    end: u16,
}

/// What there is to do. The closures are borrowed; [`Pool::split_and_leave`] guards their lives by not returning before all pieces are done.
#[derive(Clone, Copy)]
struct Job {
    work: *const (dyn Fn(usize, Range<usize>) + Sync),
    leave: *const (dyn Fn(usize) + Sync),
    count: usize,
    grain: usize,
}

// SAFETY: `job` is written only by the thread inside `Pool::split_and_leave`, which takes `&mut self`, when all pieces of the job
// before are done and none of the next can be taken; it is read only by a thread that holds a piece, done or not, which it took after
// that write (release and acquire on its seat's word) and which the next write waits for (release and acquire on `done`).
unsafe impl Sync for Shared {}
// SAFETY: the pointer is only dereferenced while `Pool::split` keeps its target alive; the target is `Sync`.
unsafe impl Send for Shared {}

impl Left {
    fn word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.next) << 16 | u64::from(self.end)
    }

    fn of(word: u64) -> Self {
        Self { generation: (word >> 32) as u32, next: (word >> 16) as u16, end: word as u16 }
    }
}

impl Pool {
    /// A pool of `threads` threads, the caller counted; at least one.
    pub fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        let seat = |_| Seat { left: AtomicU64::new(0), parked: AtomicBool::new(false), foreseen: Foreseen::default() };
        let topology = Topology::of_this_machine();
        let shared = Arc::new(Shared {
            generation: AtomicU32::new(0),
            started: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            yields: if threads > topology.parallelism() { YIELDS } else { 0 },
            seats: (0..threads).map(seat).collect(),
            job: UnsafeCell::new(None),
        });
        let workers = (1..threads).map(|index| {
            let shared = Arc::clone(&shared);
            let name = format!("kauri-cpu-{index}");
            let place = topology.place(index, threads);
            let work = move || {
                place.into_iter().for_each(topology::stay);
                shared.work(index);
            };
            let handle = thread::Builder::new().name(name).spawn(work).expect("a thread starts");
            Worker { thread: handle.thread().clone(), handle: Some(handle) }
        });
        let workers = workers.collect();
        // A thread allocates while it begins: not in the middle of a pass.
        while shared.started.load(Ordering::Acquire) + 1 < threads {
            thread::yield_now();
        }
        let foreseen = (0..threads).map(|_| Vec::with_capacity(FORESEEN_MAX)).collect();
        Self { shared, workers, foreseen, memories: topology.memories() }
    }

    /// Memories that the machine's cores are near to.
    pub fn memories(&self) -> usize {
        self.memories
    }

    /// Threads, the caller counted.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Things to a piece, where there are `count` of them and each costs about the same.
    pub fn grain(&self, count: usize) -> usize {
        self.grain_for(PIECES, count)
    }

    /// The same where a thread is to have so many pieces.
    pub fn grain_for(&self, pieces: usize, count: usize) -> usize {
        count.div_ceil(pieces * self.threads()).max(1)
    }

    /// Tells a thread of something that it will read soon after the next job of more than one range: it asks for that when it has no range of
    /// it left, while others work and until there is another job. Of many places, those told of last are forgotten.
    pub fn foresee(&mut self, thread: usize, place: Place) {
        let foreseen = &mut self.foreseen[thread];
        if place.bytes > 0 && foreseen.len() < FORESEEN_MAX {
            foreseen.push(place);
        }
    }

    /// What a thread is to be told of.
    #[cfg(test)]
    pub fn take_foreseen(&mut self, thread: usize) -> Vec<Place> {
        std::mem::take(&mut self.foreseen[thread])
    }

    /// Calls `work(thread, range)` with ranges of up to `grain` things that together cover `0..count` once, and returns when
    /// all are done. A thread works on one range at a time. A single range is the caller's: waking others would take longer.
    ///
    /// # Panics
    /// If a piece panics, on whichever thread.
    pub fn split(&mut self, count: usize, grain: usize, work: &(dyn Fn(usize, Range<usize>) + Sync)) {
        self.split_and_leave(count, grain, work, &|_| ());
    }

    /// The same, and calls `leave(thread)` on every thread that had a range, once there is none left for it to take: after a panic, too.
    ///
    /// # Panics
    /// As [`Self::split`], or if a thread panics as it leaves.
    pub fn split_and_leave(
        &mut self,
        count: usize,
        grain: usize,
        work: &(dyn Fn(usize, Range<usize>) + Sync),
        leave: &(dyn Fn(usize) + Sync),
    ) {
        let grain = grain.max(count.div_ceil(PIECES_MAX)).max(1);
        let pieces = count.div_ceil(grain);
        if pieces < 2 || self.workers.is_empty() {
            if count > 0 {
                let ended = catch_unwind(AssertUnwindSafe(|| work(0, 0..count)));
                leave(0);
                ended.unwrap_or_else(|panic| resume_unwind(panic));
            }
            return;
        }
        let (shared, threads) = (&*self.shared, self.threads());
        let generation = shared.generation.load(Ordering::Relaxed).wrapping_add(1);
        // SAFETY: only the lifetime of the borrow is erased, and this function does not return, by value or by panic, before
        // every piece is done; who has no piece does not touch the job. That none is in use now: see `Sync for Shared`.
        unsafe {
            type Work<'a> = dyn Fn(usize, Range<usize>) + Sync + 'a;
            type Leave<'a> = dyn Fn(usize) + Sync + 'a;
            let work = std::ptr::from_ref(std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work));
            let leave = std::ptr::from_ref(std::mem::transmute::<&Leave<'_>, &'static Leave<'static>>(leave));
            *shared.job.get() = Some(Job { work, leave, count, grain });
        }
        shared.done.store(0, Ordering::Relaxed);
        for (index, (seat, foreseen)) in shared.seats.iter().zip(&mut self.foreseen).enumerate() {
            seat.foreseen.set(foreseen);
            foreseen.clear();
            let Range { start, end } = share(index, threads, pieces);
            seat.left.store(Left { generation, next: start as u16, end: end as u16 }.word(), Ordering::Release);
        }
        shared.generation.store(generation, Ordering::SeqCst);
        for (seat, worker) in shared.seats[1..].iter().zip(&self.workers) {
            if seat.parked.load(Ordering::SeqCst) {
                worker.thread.unpark();
            }
        }
        let own = shared.take_part(0, generation);
        let (mut polls, mut asking) = (0, Asking::new(&shared.seats[0]));
        while shared.done.load(Ordering::Acquire) != pieces {
            match asking.next_line() {
                Some(line) => foresight::ask(line),
                None => wait(&mut polls),
            }
        }
        if let Err(panic) = own {
            shared.panicked.store(false, Ordering::Relaxed);
            resume_unwind(panic);
        }
        // Read first: to write takes the line from workers that look at it.
        let panicked = shared.panicked.load(Ordering::Relaxed) && shared.panicked.swap(false, Ordering::Relaxed);
        assert!(!panicked, "a worker of the pool panicked");
    }

    /// Calls `work(thread)` as often as there are threads, at the same time if the machine lets it.
    pub fn all(&mut self, work: &(dyn Fn(usize) + Sync)) {
        self.split(self.threads(), 1, &|_, pieces| pieces.for_each(work));
    }
}

/// The share of `count` things that belongs to `worker` of `threads`: contiguous, all shares together cover them once.
pub fn share(worker: usize, threads: usize, count: usize) -> Range<usize> {
    count * worker / threads..count * (worker + 1) / threads
}

impl Shared {
    fn work(&self, thread: usize) {
        let (seat, mut seen) = (&self.seats[thread], 0);
        self.started.fetch_add(1, Ordering::Release);
        loop {
            let (mut polls, mut asking) = (0, Asking::new(seat));
            while self.generation.load(Ordering::Acquire) == seen {
                if let Some(line) = asking.next_line() {
                    foresight::ask(line);
                    continue;
                }
                if polls < SPINS + self.yields {
                    wait(&mut polls);
                    continue;
                }
                seat.parked.store(true, Ordering::SeqCst);
                // The caller changes `generation` before it looks at `parked`: one of the two sees the other.
                if self.generation.load(Ordering::SeqCst) == seen {
                    thread::park();
                }
                seat.parked.store(false, Ordering::SeqCst);
            }
            seen = self.generation.load(Ordering::Acquire);
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            // The caller hears of a panic.
            let _ = self.take_part(thread, seen);
        }
    }

    /// Works on the job of `generation` until no piece of it is left to take: those of the own seat, then of the next ones.
    fn take_part(&self, thread: usize, generation: u32) -> thread::Result<()> {
        let (mut done, mut outcome) = (0, Ok(()));
        for turn in 0..self.seats.len() {
            let seat = &self.seats[(thread + turn) % self.seats.len()];
            while let Some(piece) = seat.take(generation) {
                // SAFETY: holding a piece, so the job is the one it was taken from; see `Sync for Shared`.
                let Job { work, count, grain, .. } = unsafe { *self.job.get() }.expect("a piece belongs to a job");
                let start = piece * grain;
                // SAFETY: the closure lives until all pieces are done, and this one is not.
                let work = unsafe { &*work };
                let ended = catch_unwind(AssertUnwindSafe(|| work(thread, start..count.min(start + grain))));
                outcome = outcome.and(ended);
                done += 1;
            }
        }
        if done > 0 {
            // SAFETY: what this thread has done of the job is not counted yet, so it is the current one, and the closure lives.
            let leave = unsafe { &*(*self.job.get()).expect("a piece belongs to a job").leave };
            outcome = outcome.and(catch_unwind(AssertUnwindSafe(|| leave(thread))));
            if outcome.is_err() && thread != 0 {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.done.fetch_add(done, Ordering::Release);
        }
        outcome
    }
}

impl Seat {
    /// Takes the next piece of this seat's share of a job, if one is left and the job is still the current one.
    fn take(&self, generation: u32) -> Option<usize> {
        let mut word = self.left.load(Ordering::Acquire);
        loop {
            let left = Left::of(word);
            if left.generation != generation || left.next >= left.end {
                return None;
            }
            let rest = Left { next: left.next + 1, ..left }.word();
            match self.left.compare_exchange_weak(word, rest, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(usize::from(left.next)),
                Err(now) => word = now,
            }
        }
    }
}

impl Foreseen {
    fn set(&self, places: &[Place]) {
        for ([start, bytes], place) in self.places.iter().zip(places) {
            start.store(place.start, Ordering::Relaxed);
            bytes.store(place.bytes, Ordering::Relaxed);
        }
        self.count.store(places.len(), Ordering::Relaxed);
    }
}

impl<'a> Asking<'a> {
    fn new(seat: &'a Seat) -> Self {
        Self { foreseen: &seat.foreseen, next: 0, place: Place::default() }
    }

    /// The next line to ask for. Should the caller be at the next job already, it may be one of those of that, or none that anybody needs.
    fn next_line(&mut self) -> Option<usize> {
        loop {
            if let Some(line) = self.place.next_line() {
                return Some(line);
            }
            let count = self.foreseen.count.load(Ordering::Relaxed);
            let [start, bytes] = self.foreseen.places[..count].get(self.next)?;
            self.place = Place { start: start.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) };
            self.next += 1;
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
                // A worker catches the panics of its pieces; there is nothing to hand on.
                let _ = handle.join();
            }
        }
    }
}

/// Spins, or offers the core to others.
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

    /// Where the values of `range` begin. They may be used while no slice that overlaps them is.
    ///
    /// # Panics
    /// If `range` lies outside.
    #[inline(always)]
    pub fn place(&self, range: Range<usize>) -> *mut T {
        assert!(range.start <= range.end && range.end <= self.length, "{range:?} outside {}", self.length);
        self.start.wrapping_add(range.start)
    }

    /// Where they lie.
    ///
    /// # Panics
    /// If `range` lies outside.
    #[inline(always)]
    pub fn lies(&self, range: Range<usize>) -> Place {
        Place { start: self.place(range.clone()).addr(), bytes: range.len() * size_of::<T>() }
    }

    /// The values from `start` on, to be cut into slices as those of the whole are.
    ///
    /// # Panics
    /// If they begin outside.
    #[inline(always)]
    pub fn behind(&self, start: usize) -> Disjoint<'_, T> {
        Disjoint { start: self.place(start..self.length), length: self.length - start, borrow: PhantomData }
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
        // SAFETY: inside the borrowed slice by that check, and not aliased by the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(self.place(range.clone()), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_thing_is_done_once_in_pieces_of_the_grain() {
        for threads in [1, 2, 5] {
            let mut pool = Pool::new(threads);
            for count in [0, 1, 2, 31, 33, 257, 200_000] {
                for grain in [1, 3, 1000, pool.grain(count)] {
                    let counts: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
                    pool.split(count, grain, &|thread, range| {
                        assert!(thread < threads && !range.is_empty());
                        let most = grain.max(count.div_ceil(PIECES_MAX));
                        assert!(threads == 1 || range.len() <= most, "{} of {grain}", range.len());
                        range.for_each(|index| _ = counts[index].fetch_add(1, Ordering::Relaxed));
                    });
                    let once = counts.iter().all(|count| count.load(Ordering::Relaxed) == 1);
                    assert!(once, "{threads} threads, {count} things by {grain}");
                }
            }
        }
    }

    #[test]
    fn many_jobs_in_a_row_do_not_mix() {
        let mut pool = Pool::new(4);
        for job in 0..20_000_usize {
            let (count, sum) = (1 + job % 37, AtomicUsize::new(0));
            pool.split(count, 1, &|_, range| _ = sum.fetch_add(job * range.len() + range.start, Ordering::Relaxed));
            assert_eq!(sum.into_inner(), job * count + count * (count - 1) / 2);
        }
    }

    #[test]
    fn a_thread_is_told_once_with_a_job_of_several_ranges() {
        let mut pool = Pool::new(2);
        let told = |pool: &Pool, thread: usize| {
            let mut asking = Asking::new(&pool.shared.seats[thread]);
            std::iter::from_fn(|| asking.next_line()).collect::<Vec<_>>()
        };
        pool.foresee(1, Place { start: 640, bytes: 100 });
        pool.foresee(1, Place::default());
        pool.foresee(1, Place { start: 6400, bytes: 1 });
        pool.split(1, 1, &|_, _| ());
        assert!(told(&pool, 1).is_empty());
        pool.split(2, 1, &|_, _| ());
        assert!(told(&pool, 0).is_empty());
        assert_eq!(told(&pool, 1), [640, 704, 6400]);
        (0..100).for_each(|start| pool.foresee(0, Place { start, bytes: 1 }));
        pool.split(2, 1, &|_, _| ());
        assert_eq!(told(&pool, 0), (0..FORESEEN_MAX).collect::<Vec<_>>());
        assert!(told(&pool, 1).is_empty());
    }

    /// What a thread without a core would leave undone.
    #[test]
    fn what_a_late_thread_has_not_begun_goes_to_others() {
        let mut pool = Pool::new(2);
        let (others, late) = (AtomicUsize::new(0), Mutex::new(None));
        pool.split(64, 1, &|thread, piece| {
            // Whoever begins the second half's first piece stays in it until the others have done all the rest.
            if piece.start == 32 {
                *late.lock().unwrap() = Some(thread);
                while others.load(Ordering::Acquire) < 63 {
                    thread::yield_now();
                }
            } else {
                others.fetch_add(1, Ordering::Release);
            }
        });
        assert_eq!(others.into_inner(), 63);
        assert!(late.into_inner().unwrap().is_some());
    }

    #[test]
    fn a_thread_leaves_once_behind_its_last_range() {
        for threads in [1, 2, 5] {
            let mut pool = Pool::new(threads);
            for (count, bad) in [(0, false), (1, false), (100, false), (1, true), (100, true)] {
                let ranges: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
                let left: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(usize::MAX)).collect();
                let work = |thread: usize, range: Range<usize>| {
                    ranges[thread].fetch_add(1, Ordering::Relaxed);
                    assert!(!bad || range.start > 0, "expected by this test");
                };
                let leave = |thread: usize| {
                    let before = left[thread].swap(ranges[thread].load(Ordering::Relaxed), Ordering::Relaxed);
                    assert_eq!(before, usize::MAX, "thread {thread} leaves twice");
                };
                let ended = catch_unwind(AssertUnwindSafe(|| pool.split_and_leave(count, 1, &work, &leave)));
                assert_eq!(ended.is_err(), bad);
                for (ranges, left) in ranges.into_iter().zip(left) {
                    let (ranges, left) = (ranges.into_inner(), left.into_inner());
                    assert_eq!(left, if ranges > 0 { ranges } else { usize::MAX }, "{threads} threads, {count} things");
                }
            }
        }
    }

    #[test]
    fn parked_workers_wake() {
        let mut pool = Pool::new(3);
        let count = AtomicUsize::new(0);
        for _ in 0..3 {
            // Without a limit of time: on a busy machine it may take long, and one that never parks is seen as a test that does not end.
            while !pool.shared.seats[1..].iter().all(|seat| seat.parked.load(Ordering::SeqCst)) {
                thread::sleep(Duration::from_millis(1));
            }
            // Each waits for the others, so that it takes three threads.
            let here = AtomicUsize::new(0);
            pool.all(&|_| {
                here.fetch_add(1, Ordering::AcqRel);
                while here.load(Ordering::Acquire) < 3 {
                    thread::yield_now();
                }
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(count.load(Ordering::Relaxed), 9);
    }

    #[test]
    fn only_threads_without_a_processor_of_their_own_take_turns() {
        let processors = Topology::of_this_machine().parallelism();
        assert_eq!(Pool::new(processors).shared.yields, 0);
        assert_eq!(Pool::new(processors + 1).shared.yields, YIELDS);
    }

    #[test]
    fn a_panicking_piece_reaches_the_caller_and_the_pool_lives_on() {
        let mut pool = Pool::new(2);
        for bad in 0..8 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.split(8, 1, &|_, piece| assert_ne!(piece.start, bad, "planted"));
            }));
            assert!(result.is_err(), "piece {bad}");
        }
        let count = AtomicUsize::new(0);
        pool.all(&|_| {
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
