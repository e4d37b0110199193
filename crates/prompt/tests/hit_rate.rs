//! How much of a real service's prompts is found again, against the most that its own hashes allow.
//!
//! A line of the trace has an id for each block of 512 tokens of its prompt; equal ids are equal prefixes. Here a block is a page
//! of 16 tokens. The ideal is computed from the ids alone: a least-recently-used set of blocks of the same capacity.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use kauri_prompt::schedule::{Beside, Limits, Request, Schedule};
use serde_json::Value as Json;

/// Tokens of the trace to a block.
const BLOCK: u64 = 512;
/// Tokens that stand for a block here.
const PAGE: usize = 16;
/// How far from the ideal the hit rate may be.
const POINTS: f64 = 0.02;

/// A prompt of the trace: its blocks, and its length with a block as a page.
struct Prompt {
    blocks: Vec<u32>,
    tokens: usize,
}

fn trace(path: &Path) -> Option<Vec<Prompt>> {
    let text = fs::read_to_string(path).ok()?;
    let prompt = |line: &str| {
        let line: Json = serde_json::from_str(line).expect("a line is JSON");
        let blocks = line["hash_ids"].as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id") as u32);
        let tokens = line["input_length"].as_u64().expect("a length").div_ceil(BLOCK / PAGE as u64) as usize;
        Prompt { blocks: blocks.collect(), tokens }
    };
    Some(text.lines().map(prompt).collect())
}

/// The share of tokens whose blocks are still known, of a set of `capacity` blocks that forgets the one used longest ago.
fn ideal(prompts: &[Prompt], capacity: usize) -> f64 {
    let (mut used, mut order, mut clock) = (HashMap::new(), BTreeSet::new(), 0u64);
    let (mut hits, mut all) = (0, 0);
    for prompt in prompts {
        let known = prompt.blocks.iter().take_while(|block| used.contains_key(*block)).count();
        hits += (known * PAGE).min(prompt.tokens);
        all += prompt.tokens;
        // The start of a prompt is used whenever its end is, so it is the younger of the two.
        for &block in prompt.blocks.iter().rev() {
            clock += 1;
            if let Some(before) = used.insert(block, clock) {
                order.remove(&(before, block));
            }
            order.insert((clock, block));
        }
        while used.len() > capacity {
            let (_, block) = order.pop_first().expect("as many as are used");
            used.remove(&block);
        }
    }
    hits as f64 / all as f64
}

/// The share of tokens that a schedule of as many pages does not compute, with up to `running` requests at once.
fn measured(prompts: &[Prompt], pages: usize, running: u32) -> f64 {
    let limits = Limits {
        page_tokens: PAGE as u32,
        pages: pages as u32,
        slots: running,
        has_state: false,
        window_tokens: 1 << 20,
        batch_tokens: 512,
        chunk_tokens: 512,
        running,
        waiting: running,
        promised_percent: 100,
        patience_ticks: u64::MAX,
        snapshot_pages: 1,
        beside: Beside::default(),
    };
    let mut schedule = Schedule::new(&limits);
    let mut prompts = prompts.iter().peekable();
    let mut now = 0;
    while prompts.peek().is_some() || !schedule.is_idle() {
        while schedule.status().waiting + schedule.status().running < running
            && let Some(prompt) = prompts.next()
        {
            let tokens = (0..prompt.tokens).map(|token| match token % PAGE {
                0 => prompt.blocks[token / PAGE],
                other => other as u32,
            });
            let request = Request { prompt: tokens.collect(), max_tokens: Some(1), caller: 0, priority: 0, salt: 0 };
            schedule.submit(request, now).expect("the capacity holds every prompt");
        }
        now += 1;
        if schedule.step(now) {
            schedule.computed();
            let work = schedule.planned().work.clone();
            work.iter().filter(|work| work.output).for_each(|work| _ = schedule.finish(work.id));
        }
    }
    let status = schedule.status();
    status.cached_tokens as f64 / status.prompt_tokens as f64
}

fn compare(prompts: &[Prompt]) {
    let blocks: BTreeSet<u32> = prompts.iter().flat_map(|prompt| &prompt.blocks).copied().collect();
    let longest = prompts.iter().map(|prompt| prompt.blocks.len()).max().expect("a prompt") + 1;
    for capacity in [blocks.len() + longest, blocks.len() / 2, blocks.len() / 4, blocks.len() / 12] {
        let capacity = capacity.max(longest);
        let ideal = ideal(prompts, capacity);
        let [one, eight] = [1, 8].map(|running| measured(prompts, capacity, running));
        println!("{capacity} blocks of {}: ideal {ideal:.4}, alone {one:.4}, by eights {eight:.4}", blocks.len());
        assert!((ideal - one).abs() < POINTS && eight > ideal - POINTS, "{ideal} is the ideal, not {one}, {eight}");
    }
}

#[test]
fn the_hit_rate_of_a_slice_is_the_ideal() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/traces/mooncake_conversation.jsonl");
    compare(&trace(&path).expect("the slice lies in the repository"));
}

#[test]
fn the_hit_rate_of_the_whole_trace_is_the_ideal() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/traces/mooncake_conversation.jsonl");
    match trace(&path) {
        Some(prompts) => compare(&prompts),
        None => eprintln!("skipped: no ../shared/fixtures/traces beside the repository"),
    }
}
