//! What is remembered outside of the cache: found again after a restart, by sessions and by services, with the same tokens; and what is
//! damaged, another model's or gone is computed.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kauri_engine::{CacheType, Engine, Options, Remembering, Request, Sampling, Serving};
use tempfile::TempDir;

/// Tokens to a page.
const PAGE: usize = 32;
/// The one inside, a model with the states of convolutions, and one with the rings of layers that have a window.
const MODELS: [Option<&str>; 3] = [None, Some("lfm2"), Some("gptoss")];

/// An engine with a folder, and what it says.
struct Remembers {
    engine: Engine,
    said: Arc<Mutex<Vec<String>>>,
}

fn open(model: Option<&str>, folder: Option<&Path>, options: &Options) -> Remembers {
    let golden = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families").join(name);
    let path: Option<PathBuf> = model.map(golden);
    let mut engine = Engine::load(path.as_deref().and_then(Path::to_str), options).expect("a small model");
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let notice = Arc::new(move |text: &str| heard.lock().expect("nobody panics with it").push(text.to_owned()));
    let remembering = Remembering { folder: folder.map(Path::to_owned), notice, ..Remembering::default() };
    engine.remember(&remembering).expect("the files are what they were");
    Remembers { engine, said }
}

fn options() -> Options {
    Options { threads: Some(2), batch_tokens: 64, context_tokens: Some(512), rings: Some(true), ..Options::default() }
}

/// A prompt of `count` tokens that every model here has.
fn prompt(count: u32) -> Vec<u32> {
    (0..count).map(|index| 5 + index * 37 % 400).collect()
}

fn request(prompt: &[u32]) -> Request {
    Request {
        prompt: prompt.to_vec(),
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        stops: Vec::new(),
        max_tokens: Some(80),
        end_tokens: Vec::new(),
        ..Request::default()
    }
}

impl Remembers {
    /// Answers in a session of its own: prompt and answer, and how many tokens of the prompt were known.
    fn answer(&mut self, prompt: &[u32]) -> (Vec<u32>, usize) {
        let mut session = self.engine.session();
        let done = session.generate(&request(prompt), |_| ControlFlow::Continue(())).expect("an answer");
        (session.tokens().to_vec(), done.cached_tokens)
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().expect("nobody panics with it").clone()
    }
}

#[test]
fn a_session_goes_on_after_a_restart() {
    for model in MODELS {
        let folder = TempDir::new().expect("a folder");
        let first = prompt(150);
        let (written, _) = open(model, None, &options()).answer(&first);
        let turn = [&written[..], &[7, 8, 9, 10]].concat();
        let expected = open(model, None, &options()).answer(&turn);
        assert_eq!(expected.1, 0);

        let mut engine = open(model, Some(folder.path()), &options());
        assert_eq!(engine.answer(&first), (written.clone(), 0));
        engine.engine.flush();
        let known = (turn.len() - 1) / PAGE * PAGE;
        // The end of the answer is on the last page that it filled.
        let filled = written.len() / PAGE * PAGE;
        assert_eq!(engine.answer(&turn), (expected.0.clone(), filled.min(known)), "another session, {model:?}");
        drop(engine);
        let mut engine = open(model, Some(folder.path()), &options());
        let (again, cached) = engine.answer(&turn);
        assert_eq!((&again, cached), (&expected.0, known), "after a restart, {model:?}");
        // From the end of the first prompt, elsewhere.
        let other = [&first[..], &[11; 40]].concat();
        let expected = open(model, None, &options()).answer(&other).0;
        assert_eq!(engine.answer(&other), (expected, 128), "another turn, {model:?}");
        assert_eq!(engine.said(), Vec::<String>::new());
    }
}

#[test]
fn a_service_finds_what_a_session_kept_and_the_other_way_round() {
    for model in MODELS {
        let folder = TempDir::new().expect("a folder");
        let first = prompt(150);
        let (written, _) = open(model, Some(folder.path()), &options()).answer(&first);
        let turn = [&written[..], &[7, 8, 9, 10]].concat();
        let expected = open(model, None, &options()).answer(&turn).0;
        let serving = Options { sequences: 2, batch_outputs: 2, snapshots: 4, ..options() };
        let service = open(model, Some(folder.path()), &serving).engine.serve(&Serving::default());
        let (tokens, _, done) = service.submit(request(&turn)).expect("room").wait().expect("an answer");
        assert!([&turn[..], &tokens].concat().starts_with(&expected), "{model:?}");
        assert_eq!(done.cached_tokens, (turn.len() - 1) / PAGE * PAGE, "{model:?}");
        assert!(service.status().restored_tokens > 0, "{model:?}");
        drop(service);
        let third = [&turn[..], &tokens, &[3, 4, 5]].concat();
        let expected = open(model, None, &options()).answer(&third).0;
        let (again, cached) = open(model, Some(folder.path()), &options()).answer(&third);
        assert_eq!(again, expected, "{model:?}");
        // A service knows its last token only by its effect.
        assert!(cached >= (third.len() - 4) / PAGE * PAGE, "{cached} of {}, {model:?}", third.len());
    }
}

#[test]
fn what_is_damaged_or_gone_is_computed_and_said() {
    for model in MODELS {
        let folder = TempDir::new().expect("a folder");
        let first = prompt(150);
        let (expected, _) = open(model, Some(folder.path()), &options()).answer(&first);
        let files: Vec<PathBuf> = fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
            .filter(|entry| entry.path().is_dir())
            .flat_map(|model| fs::read_dir(model.path()).expect("a folder"))
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert!(files.len() >= 7, "{files:?}");
        for path in &files {
            let mut bytes = fs::read(path).expect("a file");
            // In the content: a wrong number in a key, not a file that looks odd.
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
            fs::write(path, bytes).expect("a file");
        }
        let mut engine = open(model, Some(folder.path()), &options());
        assert_eq!(engine.answer(&first), (expected.clone(), 0), "{model:?}");
        assert!(engine.said()[0].contains("damaged"), "{:?}", engine.said());
        drop(engine);
        // What was damaged is replaced.
        assert_eq!(open(model, Some(folder.path()), &options()).answer(&first), (expected.clone(), 128), "{model:?}");
        let mut engine = open(model, Some(folder.path()), &options());
        fs::remove_dir_all(folder.path()).expect("a folder");
        assert_eq!(engine.answer(&first), (expected, 0), "{model:?}");
        assert!(engine.said()[0].contains("cannot be read"), "{:?}", engine.said());
    }
}

#[test]
fn what_was_computed_in_another_way_is_another_models() {
    let folder = TempDir::new().expect("a folder");
    let first = prompt(100);
    open(None, Some(folder.path()), &options()).answer(&first);
    let others = [
        Options { cache: Some(CacheType::F32), ..options() },
        Options { isa: Some(kauri_engine::Isa::Scalar), cache: Some(CacheType::Q8_0), ..options() },
        Options { full_precision: true, cache: Some(CacheType::Q8_0), ..options() },
    ];
    for other in others {
        let mut engine = open(None, Some(folder.path()), &other);
        assert_eq!(engine.answer(&first[..70]).1, 0, "{other:?}");
        assert_eq!(engine.said(), Vec::<String>::new());
    }
    // The same, with what changes no bit.
    let same = Options { threads: Some(1), batch_tokens: 7, context_tokens: Some(256), ..options() };
    assert_eq!(open(None, Some(folder.path()), &same).answer(&first[..70]).1, 64);
}

#[test]
fn a_disk_limit_is_kept() {
    let folder = TempDir::new().expect("a folder");
    let mut engine = open(None, None, &options()).engine;
    let most = 1_000_000;
    let remembering =
        Remembering { folder: Some(folder.path().to_owned()), folder_bytes_max: most, ..Remembering::default() };
    engine.remember(&remembering).expect("the model inside");
    let service = engine.serve(&Serving::default());
    for start in 0..8 {
        let prompt: Vec<u32> = prompt(300).iter().map(|token| token + start).collect();
        service.submit(Request { max_tokens: Some(1), ..request(&prompt) }).expect("room").wait().expect("an answer");
    }
    drop(service);
    let files = fs::read_dir(folder.path()).expect("a folder").flatten().filter(|entry| entry.path().is_dir());
    let files = files.flat_map(|model| fs::read_dir(model.path()).expect("a folder")).flatten();
    let sum: u64 = files.map(|file| file.metadata().expect("a file").len()).sum();
    assert!(sum > most / 2 && sum <= most, "{sum}");
}
