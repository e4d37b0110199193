//! Many requests on one engine: each gets the tokens that it gets alone, whoever shares the step, whatever is known already, however
//! prompts are cut, and also when it was sent back to the queue in the middle.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kauri_engine::grammar::Grammar;
use kauri_engine::{
    DeviceChoice, Engine, Error, Finish, Options, Remembering, Reply, Request, Sampling, Service, Serving, Submission,
};
use tempfile::TempDir;

const TEXT: &str = include_str!("../../../ARCHITECTURE.md");
/// Conversations of the whole test.
const CONVERSATIONS: usize = 64;

/// What one gets: tokens, text, why it ended.
type Got = (Vec<u32>, String, Finish);

fn options(running: u32, batch_tokens: u32) -> Options {
    Options {
        threads: Some(1),
        batch_tokens: batch_tokens.max(running),
        batch_outputs: running,
        sequences: running,
        context_tokens: Some(256),
        // Where layers have a window.
        rings: Some(true),
        ..Options::default()
    }
}

fn engine(model: Option<&str>, options: &Options) -> Engine {
    Engine::load(model, options).expect("a small model loads")
}

/// Conversations that begin alike, are the same, or go on where another ended; greedy and seeded, with penalties too.
fn conversations(engine: &Engine, count: usize) -> Vec<Request> {
    let tokens = engine.text_tokens(&TEXT[..6000]);
    let sampling = |index: usize| match index % 3 {
        0 => Sampling { temperature: 0.0, ..Sampling::default() },
        1 => Sampling { seed: index as u64, ..Sampling::default() },
        _ => Sampling { seed: 9, top_p: 0.9, repetition_penalty: 1.2, ..Sampling::default() },
    };
    let request = |index: usize| {
        let own = &tokens[index * 7..][..3 + index * 13 % 60];
        let prompt = match index % 4 {
            // The same beginning, up to the middle of a page.
            0 | 1 => [&tokens[..45], own].concat(),
            2 => own.to_vec(),
            _ => tokens[..70 + index % 2].to_vec(),
        };
        let stops = if index.is_multiple_of(5) { vec!["e".to_owned()] } else { Vec::new() };
        let max_tokens = Some(1 + index * 29 % 97);
        Request { prompt, sampling: sampling(index), stops, max_tokens, end_tokens: vec![2], ..Request::default() }
    };
    (0..count).map(request).collect()
}

/// What each gets with an engine for itself.
fn alone(engine: &mut Engine, requests: &[Request]) -> Vec<Got> {
    let answer = |request: &Request| {
        let (mut session, mut text) = (engine.session(), String::new());
        let done = session.generate(request, |event| {
            if let kauri_engine::Event::Text(more) = event {
                text += more;
            }
            ControlFlow::Continue(())
        });
        let done = done.expect("an answer");
        (session.tokens()[request.prompt.len()..].to_vec(), text, done.finish)
    };
    requests.iter().map(answer).collect()
}

/// Asks for all at once; how many tokens were known comes along.
fn together(service: &Service, requests: &[Request]) -> (Vec<Got>, usize) {
    let submit = |(index, request): (usize, &Request)| {
        let submission = Submission { caller: index as u64 % 3, priority: (index % 2) as u8, ..request.clone().into() };
        service.submit(submission).expect("room in the queue")
    };
    let answers: Vec<_> = requests.iter().enumerate().map(submit).collect();
    let mut cached = 0;
    let got = answers.into_iter().map(|answer| {
        let (tokens, text, done) = answer.wait().expect("an answer");
        cached += done.cached_tokens;
        (tokens, text, done.finish)
    });
    (got.collect(), cached)
}

fn check(expected: &[Got], got: &[Got], what: &str) {
    for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
        // A session computes the last token, too, and knows the end token only by its effect.
        assert_eq!(expected.1, got.1, "text of conversation {index}, {what}");
        assert_eq!(expected.2, got.2, "end of conversation {index}, {what}");
        assert!(got.0.starts_with(&expected.0), "tokens of conversation {index}, {what}: {expected:?}, {got:?}");
        assert!(got.0.len() <= expected.0.len() + 1, "tokens of conversation {index}, {what}");
    }
}

/// The same conversations in every way that they can be served.
fn same_tokens(model: Option<&str>, count: usize, ways: &[(u32, u32)]) {
    let mut single = engine(model, &options(1, 512));
    let requests = conversations(&single, count);
    let expected = alone(&mut single, &requests);
    for &(running, chunk) in ways {
        let start = Instant::now();
        let what = format!("by {running}, in chunks of {chunk}");
        let serving = Serving { chunk_tokens: chunk, ..Serving::default() };
        let roomy = Options { cache_tokens: Some(8192), snapshots: 16, ..options(running, chunk) };
        let service = engine(model, &roomy).serve(&serving);
        let (cold, _) = together(&service, &requests);
        check(&expected, &cold, &format!("{what}, cold"));
        let (warm, cached) = together(&service, &requests);
        check(&expected, &warm, &format!("{what}, warm"));
        assert!(cached > 0, "{what}: nothing was known the second time");
        assert_eq!(service.status().pages_used, 0, "{what}");

        // Room for the longest sequence and little else.
        let tiny = Options { cache_tokens: Some(224), snapshots: 2, ..options(running, chunk) };
        let serving = Serving { promised_percent: 10_000, ..serving };
        let service = engine(model, &tiny).serve(&serving);
        let (preempted, _) = together(&service, &requests);
        check(&expected, &preempted, &format!("{what}, sent back"));
        let status = service.status();
        assert!(running < 4 || status.preemptions > 0, "{what}: nobody was sent back: {status:?}");
        assert_eq!(status.pages_used, 0, "{what}");
        println!("{what}: the same, {cached} tokens known when warm, {} sent back", status.preemptions);
        drop(service);
        same_tokens_remembered(model, &requests, &expected, &tiny, &serving, &what);
        println!("{what}: {:.1} s", start.elapsed().as_secs_f64());
    }
}

/// The same with little room in the cache, and more beside it: in memory, in a folder, in both, and by the next program.
fn same_tokens_remembered(
    model: Option<&str>,
    requests: &[Request],
    expected: &[Got],
    tiny: &Options,
    serving: &Serving,
    what: &str,
) {
    let folder = TempDir::new().expect("a folder");
    let serve = |folder: Option<&Path>, memory_bytes_max: u64| {
        let mut engine = engine(model, tiny);
        let notice = std::sync::Arc::new(|text: &str| panic!("{text}"));
        let folder = folder.map(Path::to_owned);
        engine
            .remember(&Remembering { folder, memory_bytes_max, notice, ..Remembering::default() })
            .expect("the model");
        engine.serve(serving)
    };
    let check = |service: &Service, how: &str| {
        let (got, cached) = together(service, requests);
        check(expected, &got, &format!("{what}, {how}"));
        let (status, stored) = (service.status(), service.stored());
        assert_eq!(status.pages_used, 0, "{what}, {how}");
        println!("{what}, {how}: the same, {cached} tokens known, {} brought back; {stored:?}", status.restored_tokens);
        status.restored_tokens
    };
    let service = serve(None, 1 << 30);
    check(&service, "forgotten into memory");
    assert!(check(&service, "found in memory") > 0, "{what}: nothing came from memory");
    let service = serve(Some(folder.path()), 0);
    check(&service, "kept in a folder");
    drop(service);
    let service = serve(Some(folder.path()), 0);
    assert!(check(&service, "found by the next program") > 0, "{what}: nothing came from the folder");
    assert_eq!(service.stored().refused, 0);
    drop(service);
    let service = serve(Some(folder.path()), 1 << 30);
    assert!(check(&service, "with both") > 0, "{what}");
}

#[test]
fn each_gets_the_tokens_it_gets_alone() {
    same_tokens(None, 14, &[(2, 1), (8, 48)]);
}

/// Models with states: of a convolution, of a scan, of a time mix, of delta rules beside attention (those of `qwen3next` and `qwen35` deal
/// their heads out in different orders); and of layers with a window, which keep rings.
const WITH_STATE: [&str; 7] = ["lfm2", "nemotronh", "rwkv7", "qwen3next", "qwen35", "gptoss", "gemma3"];

/// The model of a golden: in the repository, or in the larger set that may lie beside it.
fn golden(family: &str) -> Option<PathBuf> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["../../tests/golden/families", "../../../shared/fixtures/families"];
    let folders = folders.map(|folder| crate_folder.join(folder).join(family));
    let files = folders.iter().map(|folder| folder.join("model-bf16.gguf"));
    // A folder that brings its vocabulary will do.
    let own = folders.iter().filter(|folder| folder.join("tokenizer.json").exists()).cloned();
    let found = files.filter(|file| file.exists()).chain(own).next();
    if found.is_none() {
        eprintln!("skipped: no {family} in ../shared/fixtures beside the repository");
    }
    found
}

/// Serves the goldens that keep a state.
fn same_tokens_with_states(count: usize, ways: &[(u32, u32)]) {
    for family in WITH_STATE {
        let Some(path) = golden(family) else { continue };
        println!("{family}:");
        same_tokens(path.to_str(), count, ways);
    }
}

#[test]
fn each_gets_the_tokens_it_gets_alone_with_a_state() {
    same_tokens_with_states(14, &[(7, 48)]);
}

/// How many at once, and tokens of a step.
const EVERY_WAY: [(u32, u32); 7] = [(2, 512), (3, 1), (5, 7), (8, 32), (16, 100), (32, 1), (32, 512)];

#[test]
#[ignore = "minutes: 64 conversations in every batch and chunk"]
fn each_gets_the_tokens_it_gets_alone_in_every_way() {
    same_tokens(None, CONVERSATIONS, &EVERY_WAY);
}

#[test]
#[ignore = "minutes: 64 conversations in every batch and chunk"]
fn each_gets_the_tokens_it_gets_alone_in_every_way_with_a_state() {
    same_tokens_with_states(CONVERSATIONS, &EVERY_WAY);
}

fn greedy(prompt: &[u32], max_tokens: usize) -> Request {
    Request {
        prompt: prompt.to_vec(),
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        stops: Vec::new(),
        max_tokens: Some(max_tokens),
        ..Request::default()
    }
}

#[test]
fn a_second_turn_reads_only_what_is_new() {
    let service = engine(None, &options(2, 64)).serve(&Serving::default());
    let prompt = service.tokenizer().encode_prompt(&TEXT[..400]);
    let (tokens, ..) = service.submit(greedy(&prompt, 20)).unwrap().wait().unwrap();
    let turn = [&prompt[..], &tokens, &[5, 6, 7]].concat();
    let (.., done) = service.submit(greedy(&turn, 2)).unwrap().wait().unwrap();
    // The last token of an answer was written, not read.
    assert_eq!(done.cached_tokens, turn.len() - 4);
}

#[test]
fn who_walks_away_is_gone_and_others_go_on() {
    let service = engine(None, &options(4, 64)).serve(&Serving::default());
    let prompt = service.tokenizer().encode_prompt(&TEXT[..200]);
    let expected = service.submit(greedy(&prompt, 30)).unwrap().wait().unwrap();
    let mut gone: Vec<_> = (0..6).map(|_| service.submit(greedy(&prompt, 150)).unwrap()).collect();
    let stays = service.submit(greedy(&prompt, 30)).unwrap();
    // One in the middle of its answer, the others wherever they are.
    assert!(gone[0].by_ref().any(|reply| matches!(reply, Reply::Token { .. })));
    drop(gone);
    let got = stays.wait().unwrap();
    assert_eq!((got.0, got.1), (expected.0, expected.1));
    let patience = Instant::now();
    while service.status().running + service.status().waiting > 0 && patience.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = service.status();
    assert_eq!((status.running, status.waiting, status.pages_used), (0, 0, 0));
}

/// Whoever asks how likely tokens were has their rows brought to the host: its sampler chooses the tokens that the device draws elsewhere.
#[test]
fn what_a_gpu_draws_is_what_the_host_chooses() {
    a_device_draws_what_the_host_chooses(DeviceChoice::Cuda, 24, 60);
}

/// The same through Vulkan or Metal, where it is built in; on a driver that computes on the CPU, too, hence fewer and shorter ones.
#[test]
fn what_wgpu_draws_is_what_the_host_chooses() {
    a_device_draws_what_the_host_chooses(DeviceChoice::Wgpu, 5, 24);
}

fn a_device_draws_what_the_host_chooses(device: DeviceChoice, count: usize, tokens_max: usize) {
    // The same logits whoever shares the step, so that only the choice may differ.
    let options = Options { device, exact: true, ..options(8, 64) };
    let engine = match Engine::load(None, &options) {
        Ok(engine) => engine,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return;
        }
    };
    let usual = conversations(&engine, count);
    let service = engine.serve(&Serving::default());
    let schema = Grammar::JsonSchema(r#"{"type": "object", "properties": {"name": {"type": "string"}}}"#.to_owned());
    let schema = service.compile(&schema).expect("it compiles");
    let requests: Vec<Request> = (0..)
        .zip(usual)
        .map(|(seed, request)| {
            let sampling = match seed % 4 {
                0 => Sampling { seed, temperature: 0.8, top_k: 40, top_p: 0.95, ..Sampling::default() },
                1 => Sampling { seed, temperature: 1.3, min_p: 0.02, frequency_penalty: 0.4, ..Sampling::default() },
                2 => Sampling { seed, top_p: 0.9, repetition_penalty: 1.3, dry_multiplier: 0.8, ..Sampling::default() },
                _ => Sampling { temperature: 0.0, presence_penalty: 1.0, ..Sampling::default() },
            };
            let constraint = (seed % 3 == 1).then(|| schema.clone());
            let logit_bias = vec![(request.prompt[0], 1.5), (request.prompt[1], -50.0)];
            Request { sampling, constraint, logit_bias, max_tokens: Some(tokens_max), ..request }
        })
        .collect();
    let (drawn, _) = together(&service, &requests);
    let told: Vec<Request> = requests.into_iter().map(|request| Request { likely: Some(0), ..request }).collect();
    let (chosen, _) = together(&service, &told);
    assert!(drawn.iter().map(|(tokens, ..)| tokens.len()).sum::<usize>() > 4 * count, "answers");
    for (index, (drawn, chosen)) in drawn.iter().zip(&chosen).enumerate() {
        assert_eq!(drawn, chosen, "conversation {index}: {:?}", told[index].sampling);
    }
}

#[test]
fn an_error_is_the_one_requests_own() {
    let service = engine(None, &options(4, 64)).serve(&Serving::default());
    let good = service.tokenizer().encode_prompt(&TEXT[..200]);
    let first = service.submit(greedy(&good, 20)).unwrap();
    let failed = |request: Request| service.submit(request).unwrap().wait().unwrap_err();
    assert!(matches!(failed(greedy(&[], 5)), Error::EmptyPrompt));
    assert!(matches!(failed(greedy(&[u32::MAX], 5)), Error::UnknownToken { .. }));
    assert!(matches!(failed(greedy(&vec![1; 256], 5)), Error::PromptTooLong { prompt: 256, window: 256 }));
    let wild = Sampling { temperature: -1.0, ..Sampling::default() };
    assert!(matches!(failed(Request { sampling: wild, ..greedy(&good, 5) }), Error::Sampling(_)));
    assert!(matches!(failed(Request { stops: vec![String::new()], ..greedy(&good, 5) }), Error::Stop(_)));
    assert_eq!(first.wait().unwrap().0.len(), 20);
    assert_eq!(service.submit(greedy(&good, 0)).unwrap().wait().unwrap().2.finish, Finish::Length);
}

#[test]
fn a_full_queue_says_so_and_a_service_that_is_dropped_ends_its_answers() {
    // A window that nobody fills within the test.
    let long = Options { context_tokens: None, ..options(1, 64) };
    let service = engine(None, &long).serve(&Serving { waiting: 1, ..Serving::default() });
    let prompt = service.tokenizer().encode_prompt(&TEXT[..200]);
    let submit = || service.submit(greedy(&prompt, usize::MAX / 2));
    let taken = [submit().unwrap(), submit().unwrap()];
    // One runs, one waits.
    for _ in 0..3 {
        let refused = submit().unwrap().wait();
        assert!(matches!(refused, Err(Error::QueueFull { waiting: 1 })), "{refused:?}");
    }
    drop(service);
    for answer in taken {
        let end = answer.wait();
        assert!(matches!(end, Err(Error::Stopped)), "{end:?}");
    }
}

#[test]
fn reading_ahead_comes_to_the_end_of_all_weights() {
    let engine = engine(None, &options(1, 64));
    let (mut heard, mut bytes) = (vec![0], 0);
    engine.read_ahead(&mut |read, all| {
        heard.push(read);
        bytes = all;
    });
    assert!(heard.len() > 2 && heard.is_sorted_by(|before, after| before < after), "{heard:?}");
    assert_eq!(heard.last(), Some(&bytes));
}
