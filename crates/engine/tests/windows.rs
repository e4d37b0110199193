//! Models whose layers look back over a window: what they keep of a sequence is bounded, and no token depends on it. Where a
//! conversation goes back further than what is kept, it is computed again.

use std::ops::ControlFlow;
use std::path::Path;

use kauri_engine::{CacheType, Engine, Options, Request, Sampling, Serving};

/// Tokens of its window.
const WINDOW: u32 = 16;
/// Tokens of a page.
const PAGE: usize = 32;

/// A model of two layers with a window and two without.
fn engine(options: &Options) -> Engine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families/gptoss");
    Engine::load(path.to_str(), options).expect("the golden loads")
}

fn options(rings: Option<bool>) -> Options {
    Options { threads: Some(2), batch_tokens: 16, context_tokens: Some(1024), rings, ..Options::default() }
}

/// A prompt of `count` tokens that begins like any other and ends in its own way.
fn prompt(count: u32) -> Vec<u32> {
    (0..count).map(|index| 5 + index * 37 % 400).collect()
}

fn request(prompt: &[u32], max_tokens: usize) -> Request {
    Request {
        prompt: prompt.to_vec(),
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        stops: Vec::new(),
        max_tokens: Some(max_tokens),
        end_tokens: Vec::new(),
        ..Request::default()
    }
}

/// Answers `prompt` greedily and gives the tokens of prompt and answer, and how many of the prompt were kept.
fn answer(session: &mut kauri_engine::Session<'_>, prompt: &[u32], max_tokens: usize) -> (Vec<u32>, usize) {
    let done = session.generate(&request(prompt, max_tokens), |_| ControlFlow::Continue(())).expect("an answer");
    (session.tokens().to_vec(), done.cached_tokens)
}

/// What everything that is kept comes to: bytes of pages, and of slots.
fn bytes(options: &Options) -> (u64, u64) {
    let mut engine = engine(options);
    let executor = engine.executor();
    let (page, state, plan) = (executor.page_bytes() as u64, executor.state_bytes() as u64, *executor.plan());
    (page * u64::from(plan.pages), state * u64::from(plan.slots))
}

#[test]
fn a_context_of_many_windows_costs_half_of_the_layers_little() {
    let of = |context_tokens, rings| bytes(&Options { context_tokens: Some(context_tokens), ..options(rings) });
    let (whole, nothing) = of(1024, Some(false));
    assert_eq!(nothing, 0, "pages keep everything");
    let (pages, rings) = of(1024, None);
    assert_eq!(pages, whole / 2, "two of four layers keep pages");
    assert!(rings * 4 < pages, "{rings} bytes of rings beside {pages}");
    // Half of the context: half of the pages, and the same rings.
    assert_eq!(of(512, None), (pages / 2, rings));
    // Where a ring is as long as the context there is nothing to gain.
    assert_eq!(of(64, None), (whole / 16, 0));
}

/// A pool in which what everybody keeps has room a few times, and as pages of all layers would not have at all.
#[test]
fn long_contexts_in_a_small_pool_are_the_same_tokens() {
    // Prompts that find room together, and answers that do not.
    const PROMPT: u32 = 3 * WINDOW;
    const ANSWER: usize = 10 * WINDOW as usize;
    let prompts: Vec<Vec<u32>> = (0..6).map(|index| [&prompt(PROMPT)[index..], &[index as u32 + 7]].concat()).collect();
    for cache in [CacheType::F32, CacheType::F16, CacheType::Q8_0, CacheType::Q4_0] {
        let mut alone = engine(&Options { cache: Some(cache), ..options(Some(false)) });
        let expected: Vec<Vec<u32>> =
            prompts.iter().map(|prompt| answer(&mut alone.session(), prompt, ANSWER).0).collect();
        // Room for three of them.
        let small = Options {
            sequences: 4,
            batch_outputs: 4,
            cache_tokens: Some(640),
            context_tokens: Some(320),
            snapshots: 8,
            cache: Some(cache),
            ..options(Some(true))
        };
        let service = engine(&small).serve(&Serving { promised_percent: 10_000, ..Serving::default() });
        for round in ["cold", "warm"] {
            let answers: Vec<_> = prompts
                .iter()
                .map(|prompt| service.submit(request(prompt, ANSWER)).expect("room in the queue"))
                .collect();
            for (index, (answer, expected)) in answers.into_iter().zip(&expected).enumerate() {
                let (tokens, ..) = answer.wait().expect("an answer");
                let got = [&prompts[index][..], &tokens].concat();
                assert!(got.starts_with(expected), "{round}, {index} with a cache of {cache:?}");
            }
        }
        let status = service.status();
        assert!(status.preemptions > 0 && status.pages_used == 0, "{status:?}");
    }
}

#[test]
fn a_conversation_goes_on_from_what_a_service_keeps() {
    let options = Options { sequences: 2, batch_outputs: 2, snapshots: 8, ..options(None) };
    let service = engine(&options).serve(&Serving::default());
    let ask = |prompt: &[u32]| {
        let (tokens, _, done) = service.submit(request(prompt, 20)).expect("room").wait().expect("an answer");
        (tokens, done.cached_tokens)
    };
    let first = prompt(12 * WINDOW + 3);
    let (tokens, cached) = ask(&first);
    assert_eq!(cached, 0);
    let turn = [&first[..], &tokens, &[5, 6, 7]].concat();
    let (second, cached) = ask(&turn);
    // The last token of an answer was written, not read.
    assert_eq!(cached, turn.len() - 4);
    // Without the answer: from the last page of the first prompt.
    let other = [&first[..], &[11; 9]].concat();
    let (third, cached) = ask(&other);
    assert_eq!(cached, (first.len() - 1) / PAGE * PAGE);
    let mut alone = engine(&self::options(Some(false)));
    for (prompt, tokens) in [(turn, second), (other, third)] {
        let (expected, _) = answer(&mut alone.session(), &prompt, 20);
        assert!([&prompt[..], &tokens].concat().starts_with(&expected));
    }
}

/// Back by a little, back to the end of the last prompt, and back further than anything is kept; each followed by another end.
#[test]
fn a_session_goes_back_as_far_as_it_can() {
    let first = prompt(100);
    let mut shared = engine(&options(None));
    assert!(shared.executor().plan().ring.is_some(), "rings pay here");
    let mut session = shared.session();
    let check = |session: &mut kauri_engine::Session<'_>, prompt: &[u32], max_tokens: usize, cached: usize| {
        let got = answer(session, prompt, max_tokens);
        let expected = answer(&mut engine(&options(Some(false))).session(), prompt, max_tokens).0;
        assert_eq!(got, (expected, cached));
        got.0
    };
    let short = check(&mut session, &first, 6, 0);
    let written = short.len();
    // Its last token was chosen and computed.
    let longer = [&short[..], &[7, 8, 9]].concat();
    let long = check(&mut session, &longer, 300, written);
    // The answer is left out: what was put aside at the end of that prompt is all that there is.
    let other = [&longer[..], &[11, 12]].concat();
    check(&mut session, &other, 4, longer.len());
    // A few tokens back: what they see is still in the ring.
    let near = [&other[..other.len() - 1], &[13, 14, 15]].concat();
    let near_long = check(&mut session, &near, 3, other.len() - 1);
    // Further back than rings or what was put aside reach.
    let far = [&first[..40], &[16; 30]].concat();
    check(&mut session, &far, 40, 0);
    check(&mut session, &near_long, 5, 0);
    // The same again, whose last token is computed for its logits: a token back.
    check(&mut session, &near_long, 5, near_long.len() - 1);
    // Behind a long answer to a bit before the end of the last prompt.
    let end = near_long.len();
    check(&mut session, &[&near_long[..], &[9]].concat(), 200, end);
    check(&mut session, &[&near_long[..end - 2], &[9, 8, 9]].concat(), 5, end - 2);
    assert!(long.len() > 400);
}
