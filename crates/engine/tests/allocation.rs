//! Nothing on the path of a token allocates: counted by the allocator itself, on every thread, from the first event of an
//! answer to its last.
//!
//! One test alone in its process: the counter counts for everybody.

mod experts;
mod latent;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use kauri_device::{Executor, Plan};
use kauri_device_cpu::{CpuExecutor, Kernels};
use kauri_engine::{Batch, CacheType, Choice, Engine, Event, Finish, Isa, Options, Request, Sampling};

/// The system's allocator with a counter.
struct Counting;

/// Allocations since the process started.
static COUNT: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory but the counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// More than a page has.
const TOKENS: usize = 36;
const PROMPT: &str = "Once upon a time there was a lighthouse on a rock far out at sea, and a keeper who wrote down the \
                      weather: the wind, the rain, and the colour of the sky at dawn — gray, mostly. ";

#[test]
fn nothing_on_the_path_of_a_token_allocates() {
    let before = count();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(count() - before, 1, "the counter counts");

    let usual = Options { batch_tokens: 16, context_tokens: Some(512), ..Options::default() };
    for threads in [1, 2, 3] {
        answers(&Options { threads: Some(threads), ..usual });
    }
    answers(&Options { cache: Some(CacheType::F32), full_precision: true, ..usual });
    answers(&Options { cache: Some(CacheType::Q4_0), ..usual });
    batches(&Options { batch_outputs: 8, sequences: 8, ..usual });
    batches(&Options { batch_outputs: 8, sequences: 8, cache: Some(CacheType::Q4_0), ..usual });
    for family in ["lfm2", "nemotronh/model-bf16.gguf"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families").join(family);
        for isa in [None, Some(Isa::Scalar)] {
            model(path.to_str(), &Options { batch_outputs: 8, sequences: 8, isa, ..usual });
        }
    }
    batches(&Options { batch_outputs: 8, sequences: 8, isa: Some(Isa::Scalar), ..usual });
    mixtures(Isa::Scalar);
    mixtures(Isa::best());
}

/// Whole answers, each of other settings, in one session: a prompt read in several steps, then tokens over the edge of a page.
fn answers(options: &Options) {
    let mut engine = Engine::load(None, options).expect("the model inside");
    let prompt = engine.text_tokens(PROMPT);
    assert!(prompt.len() > 2 * options.batch_tokens as usize, "several steps of prefill");
    let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
    let plain = Sampling { seed: 3, ..Sampling::default() };
    let narrow = Sampling {
        top_k: 40,
        top_p: 0.9,
        min_p: 0.01,
        repetition_penalty: 1.1,
        frequency_penalty: 0.1,
        presence_penalty: 0.1,
        ..plain
    };
    let stops = ["\n\nnever, never", "the thing that is not there"].map(str::to_owned).to_vec();
    let mut session = engine.session();
    for sampling in [greedy, plain, narrow] {
        let (prompt, stops) = (prompt.clone(), stops.clone());
        let request = Request { prompt, sampling, stops, max_tokens: Some(TOKENS), ..Request::default() };
        let mut first = None;
        let mut last = 0;
        let done = session.generate(&request, |event| {
            let now = count();
            first.get_or_insert(now);
            if matches!(event, Event::Text(_)) {
                last = now;
            }
            ControlFlow::Continue(())
        });
        let done = done.expect("an answer");
        assert_eq!((done.finish, done.output_tokens), (Finish::Length, TOKENS));
        let first = first.expect("events");
        assert_eq!(last - first, 0, "allocations in an answer with {sampling:?}, {options:?}");
    }
}

/// Steps of eight sequences, as a server makes them.
fn batches(options: &Options) {
    model(None, options);
}

/// The same of the model called `name`.
fn model(name: Option<&str>, options: &Options) {
    let mut engine = Engine::load(name, options).expect("a model of the repository");
    steps(engine.executor(), &format!("{name:?}, {options:?}"));
}

/// The same of a mixture of experts, and of latent attention.
fn mixtures(isa: Isa) {
    let checkpoint = kauri_model::resolve::open(None).expect("the model inside");
    let names = kauri_arch::identify(&checkpoint).expect("a known architecture");
    let stored = kauri_model::load::weights(&checkpoint, &names).expect("a whole model");
    for (what, mut shape) in [("experts", experts::mixed(&stored)), ("latent attention", latent::mixed(&stored))] {
        shape.blocks.truncate(2);
        let plan = Plan {
            page_tokens: 32,
            pages: 128,
            batch_tokens: 16,
            batch_outputs: 8,
            slots: 8,
            cache: CacheType::F16,
            ring: None,
        };
        let kernels = Kernels::new(isa).expect("supported");
        let mut executor = CpuExecutor::new(shape, plan, kernels, 2).expect("room for a small model");
        steps(&mut executor, &format!("{what} with {}", isa.name()));
    }
}

fn steps(executor: &mut dyn Executor, what: &str) {
    let pages = executor.plan().pages / 8;
    let tables: Vec<Vec<u32>> = (0..8).map(|sequence| (sequence * pages..(sequence + 1) * pages).collect()).collect();
    let choices = [Choice::Logits; 8];
    let mut batch = Batch::default();
    let mut before = None;
    // The first ones, and some over the edge of a page, behind places that nobody wrote.
    let edge = executor.plan().page_tokens;
    for position in (0..4).chain(edge - 2..edge + 2) {
        batch.clear();
        for (slot, table) in (0..).zip(&tables) {
            batch.push(&[position + 7], position, table, slot, 512, 1);
        }
        executor.launch(&batch).expect("a CPU is not lost");
        executor.sample(&choices).expect("a CPU is not lost");
        // The first step fills the test's own batch.
        before.get_or_insert_with(count);
    }
    assert_eq!(count() - before.expect("steps"), 0, "allocations in steps of a batch, {what}");
}

fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}
