//! Models that read a text for a vector or a score, against their reference implementation: rows of every position, pooled vectors,
//! scores; from GGUF and from safetensors.

use std::path::{Path, PathBuf};

use kauri_device::{Batch, CacheType, Executor, Plan};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_engine::{Engine, Options, Passage, Pooling, Wanted};
use kauri_formats::Checkpoint;
use serde_json::Value as Json;

/// The most that rows and pooled vectors may differ from the reference by, in `f32`.
const TOLERANCE: f32 = 2e-4;
/// Slots for states.
const SLOTS: u32 = 4;

#[test]
fn rows_match_the_reference() {
    for directory in directories() {
        let texts = texts(&directory);
        for file in files(&directory) {
            for isa in [Isa::Scalar, Isa::best()] {
                let mut executor = load(&file, CacheType::F32, isa, 2);
                let mut most = 0.0f32;
                for text in &texts {
                    let expected = floats(&directory.join(text["rows_file"].as_str().expect("a file")));
                    let found = rows(&mut executor, &[&ids(&text["tokens"])]);
                    most = most.max(distance(&found, &expected));
                }
                println!("{} with {}: {most:.1e}", file.display(), isa.name());
                // Matrices in BF16 are exact in both; products sum in another order.
                assert!(most <= TOLERANCE, "{} with {}: {most:.1e}", file.display(), isa.name());
            }
        }
    }
}

/// Bits: alone, beside others, in another place of the batch, by any number of threads.
#[test]
fn a_text_has_the_same_rows_in_any_company() {
    for directory in directories() {
        let texts: Vec<Vec<u32>> = texts(&directory).iter().map(|text| ids(&text["tokens"])).collect();
        for file in files(&directory) {
            for cache in [CacheType::F32, CacheType::Q8_0] {
                let mut executor = load(&file, cache, Isa::best(), 1);
                let alone: Vec<Vec<f32>> = texts.iter().map(|text| rows(&mut executor, &[text])).collect();
                let all: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
                for threads in [1, 3] {
                    let mut executor = load(&file, cache, Isa::best(), threads);
                    let found = rows(&mut executor, &all);
                    assert!(bits(&found) == bits(&alone.concat()), "{}, {threads} threads", file.display());
                    let turned: Vec<&[u32]> = all.iter().rev().copied().collect();
                    let expected: Vec<f32> = alone.iter().rev().flatten().copied().collect();
                    assert!(bits(&rows(&mut executor, &turned)) == bits(&expected), "{}, turned", file.display());
                }
            }
        }
    }
}

/// The rows of all tokens of these texts, computed in one step.
fn rows(executor: &mut CpuExecutor, texts: &[&[u32]]) -> Vec<f32> {
    let pages: Vec<u32> = (0..executor.plan().pages).rev().collect();
    let mut places = pages.chunks_exact(executor.plan().pages as usize / SLOTS as usize);
    let mut batch = Batch::default();
    for (slot, text) in texts.iter().enumerate() {
        let place = places.next().expect("pages for all");
        batch.push(text, 0, place, slot as u32, text.len() as u32, text.len());
    }
    executor.launch(&batch).expect("a CPU is not lost");
    executor.rows().expect("a CPU is not lost").to_vec()
}

fn distance(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let differences = found.iter().zip(expected).map(|(found, expected)| (found - expected).abs());
    differences.fold(0.0, |most, difference| if difference.is_nan() { f32::INFINITY } else { most.max(difference) })
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn load(path: &Path, cache: CacheType, isa: Isa, threads: usize) -> CpuExecutor {
    let checkpoint = Checkpoint::open(path).unwrap_or_else(|error| panic!("{error}"));
    let names = kauri_arch::identify(&checkpoint).unwrap_or_else(|error| panic!("{error}"));
    let shape = kauri_model::load::weights(&checkpoint, &names).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan {
        page_tokens: 16,
        pages: 8 * SLOTS,
        batch_tokens: 256,
        batch_outputs: 256,
        slots: SLOTS,
        cache,
        ring: None,
    };
    CpuExecutor::new(shape, plan, Kernels::new(isa).expect("supported"), threads).expect("room for a small model")
}

/// Every golden of an encoder.
fn directories() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/encoders");
    let entries = std::fs::read_dir(root).expect("the goldens").map(|entry| entry.expect("an entry").path());
    let mut directories: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    directories.sort();
    assert!(!directories.is_empty(), "the goldens are missing");
    directories
}

/// The GGUF files of a directory, and the directory itself for its safetensors.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "gguf")).collect();
    if directory.join("model.safetensors").exists() {
        files.push(directory.to_owned());
    }
    assert!(!files.is_empty(), "{}: no model", directory.display());
    files
}

fn texts(directory: &Path) -> Vec<Json> {
    reference(directory)["texts"].as_array().expect("a list").clone()
}

fn reference(directory: &Path) -> Json {
    let path = directory.join("reference.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

fn ids(list: &Json) -> Vec<u32> {
    list.as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Through the engine: texts become the reference's tokens, and several at once its vectors, in every way of pooling.
#[test]
fn vectors_match_the_reference() {
    for directory in directories() {
        let texts = texts(&directory);
        for file in files(&directory) {
            let mut engine = engine(&file, 512);
            let passages: Vec<Passage> =
                texts.iter().map(|text| engine.passage(text["text"].as_str().expect("text"))).collect();
            for (passage, text) in passages.iter().zip(&texts) {
                assert_eq!(passage.tokens, ids(&text["tokens"]), "{}: {text}", file.display());
            }
            assert!(!engine.writes());
            for (name, pooling) in [("mean", Pooling::Mean), ("cls", Pooling::First), ("last", Pooling::Last)] {
                let wanted = Wanted { pooling: Some(pooling), dimensions: None };
                let found = vectors(&mut engine, &passages, wanted);
                for (found, text) in found.iter().zip(&texts) {
                    let expected = numbers(&text["pooled"][name]);
                    let most = distance(found, &expected);
                    assert!(most <= TOLERANCE, "{}, {name}: {most:.1e}", file.display());
                }
            }
            let usual = vectors(&mut engine, &passages, Wanted::default());
            let stated = reference(&directory)["pooling"].as_str().map(str::to_owned);
            if let Some(stated) = stated {
                assert_eq!(engine.pooling().name(), stated, "{}", file.display());
                assert!(distance(&usual[0], &numbers(&texts[0]["pooled"][&stated])) <= TOLERANCE);
            }
            let wanted = Wanted { pooling: None, dimensions: Some(8) };
            let cut = &vectors(&mut engine, &passages, wanted)[0];
            let length = usual[0][..8].iter().map(|value| value * value).sum::<f32>().sqrt();
            let expected: Vec<f32> = usual[0][..8].iter().map(|value| value / length).collect();
            assert!(distance(cut, &expected) <= 1e-6, "{}", file.display());
        }
    }
}

#[test]
fn scores_match_the_reference() {
    let mut seen = 0;
    for directory in directories() {
        let pairs = reference(&directory)["pairs"].as_array().expect("a list").clone();
        for file in files(&directory) {
            let mut engine = engine(&file, 512);
            assert_eq!(engine.judges(), !pairs.is_empty(), "{}", file.display());
            let passages = pairs.iter().map(|pair| {
                let texts = ["query", "document"].map(|key| pair[key].as_str().expect("text"));
                engine.pair(texts[0], texts[1]).expect("a reranker")
            });
            let passages: Vec<Passage> = passages.collect();
            for (passage, pair) in passages.iter().zip(&pairs) {
                assert_eq!(passage.tokens, ids(&pair["tokens"]), "{}: {pair}", file.display());
            }
            let mut scores = Vec::new();
            let judged = engine.reader().judge(&passages, |_, score| scores.push(score));
            assert_eq!(judged.is_ok(), !pairs.is_empty(), "{}", file.display());
            for (score, pair) in scores.iter().zip(&pairs) {
                let expected = pair["score"].as_f64().expect("a number") as f32;
                let difference = (score - expected).abs();
                println!("{}: {score}, {difference:.1e}", file.display());
                assert!(difference <= TOLERANCE, "{}: {score}, expected {expected}", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "no reranker among the goldens");
}

/// Bits, of a model that writes: the vector does not depend on how many tokens a step has, nor on the company.
#[test]
fn vectors_of_a_decoder_do_not_depend_on_the_cut() {
    let text = "Once upon a time there was a lighthouse on a rock, far out at sea. ".repeat(12);
    let texts = ["The keeper wrote down the weather.", &text, "Rain."];
    for pooling in [Pooling::Mean, Pooling::First, Pooling::Last, Pooling::Each] {
        let wanted = Wanted { pooling: Some(pooling), dimensions: None };
        let found = [512, 37, 1].map(|batch_tokens| {
            let mut engine = engine_of(None, batch_tokens);
            let passages: Vec<Passage> = texts.iter().map(|text| engine.passage(text)).collect();
            assert!(passages[1].tokens.len() > 100);
            vectors(&mut engine, &passages, wanted).iter().map(|vector| bits(vector)).collect::<Vec<_>>()
        });
        assert!(found[0] == found[1] && found[1] == found[2], "pooling {}", pooling.name());
    }
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let directory = directories().remove(0);
    let mut engine = engine(&directory, 512);
    let long = engine.passage(&"milk ".repeat(400));
    let mut reader = engine.reader();
    let refused = reader.embed(std::slice::from_ref(&long), Wanted::default(), |_, _| panic!("no vector"));
    assert!(refused.expect_err("too long").to_string().contains("402 tokens, but the window holds 128"));
    let short = Passage { tokens: long.tokens[..5].to_vec(), ..long };
    let wanted = Wanted { pooling: None, dimensions: Some(33) };
    let refused = reader.embed(std::slice::from_ref(&short), wanted, |_, _| panic!("no vector"));
    assert!(refused.expect_err("too many").to_string().contains("1 to 32"));
    let empty = Passage { tokens: Vec::new(), ..short.clone() };
    assert!(reader.embed(&[empty], Wanted::default(), |_, _| panic!("no vector")).is_err());
    drop(reader);
    let refused = engine.session().sync(&short.tokens, 100, |_| std::ops::ControlFlow::Continue(()));
    assert!(refused.expect_err("it only reads").to_string().contains("only reads"));
}

/// The vectors of these texts, in order.
fn vectors(engine: &mut Engine, passages: &[Passage], wanted: Wanted) -> Vec<Vec<f32>> {
    let mut found = Vec::new();
    let read = engine.reader().embed(passages, wanted, |index, vector| {
        assert_eq!(index, found.len());
        found.push(vector.to_vec());
    });
    read.unwrap_or_else(|error| panic!("{error}"));
    found
}

fn engine(path: &Path, batch_tokens: u32) -> Engine {
    engine_of(path.to_str(), batch_tokens)
}

fn engine_of(name: Option<&str>, batch_tokens: u32) -> Engine {
    let options = Options { reads: true, batch_tokens, cache: Some(CacheType::F32), ..Options::default() };
    Engine::load(name, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn numbers(list: &Json) -> Vec<f32> {
    list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number") as f32).collect()
}
