//! Adapters against llama.cpp, which applies them its own way; their bits in any company and however a prompt is cut; what is known
//! with one is never another's; and what is no adapter, or one of another model, is refused by name.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use kauri_arch::Shape;
use kauri_device::{Applied, Batch, CacheType, Choice, DeviceError, Executor, Plan, Weight};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_device_wgpu::{Reduction, WgpuExecutor};
use kauri_engine::{AdapterFile, Engine, Error, Options, Remembering, Request, Sampling, Serving, Submission};
use kauri_formats::Checkpoint;
use kauri_model::adapter::{self, Adapter};
use serde_json::Value as Json;
use tempfile::TempDir;

/// Models, and the adapters beside each that must give the same logits.
const MODELS: [(&str, &str, &[&str]); 4] = [
    ("llama", "model-f32.gguf", &["adapter.gguf"]),
    ("granitemoe", "model-f32.gguf", &["adapter.gguf"]),
    ("lfm2", "model-bf16.gguf", &["adapter.gguf"]),
    ("lfm2", "", &["peft", "peft/adapter_model.safetensors"]),
];
/// Those that are whole: one with pages alone, one with states.
const WITH_VOCABULARY: [(&str, &str, &[&str]); 2] = [MODELS[0], MODELS[3]];
/// The scale of the goldens.
const SCALE: f32 = 0.75;
/// Tokens of a page of the cache.
const PAGE: u32 = 16;
/// Pages that a sequence has.
const PAGES: u32 = 4;
/// Sequences of a batch.
const SEQUENCES: u32 = 4;

fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(folder)
}

fn model_file(family: &str, file: &str) -> PathBuf {
    golden("families").join(family).join(file)
}

fn adapter_file(family: &str, file: &str) -> PathBuf {
    golden("adapters").join(family).join(file)
}

/// The shape of a model with these adapters.
fn adapted(model: &Path, adapters: &[PathBuf]) -> Result<Shape<Weight>, adapter::Error> {
    let checkpoint = Checkpoint::open(model).expect("a golden");
    let names = kauri_arch::identify(&checkpoint).expect("a golden");
    let shape = kauri_model::load::weights(&checkpoint, &names).expect("a golden");
    let adapters = adapters.iter().map(|path| Adapter::open(path, &checkpoint)).collect::<Result<Vec<_>, _>>()?;
    adapter::apply(&shape, &names, &adapters)
}

fn plan() -> Plan {
    Plan {
        page_tokens: PAGE,
        pages: SEQUENCES * PAGES,
        batch_tokens: 100,
        batch_outputs: 100,
        slots: SEQUENCES,
        cache: CacheType::F32,
        ring: None,
    }
}

/// One sequence's part of a step.
struct Part<'a> {
    sequence: u32,
    tokens: &'a [u32],
    cached: usize,
    adapters: &'a [Applied],
}

struct Model {
    executor: CpuExecutor,
}

impl Model {
    fn new(shape: Shape<Weight>, isa: Isa) -> Self {
        let kernels = Kernels::new(isa).expect("a supported instruction set");
        Self { executor: CpuExecutor::new(shape, plan(), kernels, 2).expect("room for a small model") }
    }

    /// The logits of every token of every part, one part after the other.
    fn step(&mut self, parts: &[Part<'_>]) -> Vec<f32> {
        let mut batch = Batch::default();
        for part in parts {
            let pages: Vec<u32> = (part.sequence * PAGES..(part.sequence + 1) * PAGES).collect();
            batch.push(part.tokens, part.cached as u32, &pages, part.sequence, 64, part.tokens.len());
            batch.adapt(part.adapters);
        }
        self.executor.launch(&batch).expect("a CPU is not lost");
        let choices = vec![Choice::Logits; batch.tokens.len()];
        self.executor.sample(&choices).expect("a CPU is not lost").logits.to_vec()
    }

    /// The logits of a text of its own, read in pieces.
    fn read(&mut self, tokens: &[u32], piece: usize, adapters: &[Applied]) -> Vec<f32> {
        let pieces = tokens.chunks(piece).enumerate();
        let part = |(number, tokens)| Part { sequence: 1, tokens, cached: number * piece, adapters };
        pieces.flat_map(|piece| self.step(&[part(piece)])).collect()
    }
}

fn supported() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_supported())
}

fn prompts(family: &str) -> Vec<Vec<u32>> {
    let text = fs::read(golden("families").join(family).join("reference.json")).expect("a golden");
    let reference: Json = serde_json::from_slice(&text).expect("a golden");
    let ids = |prompt: &Json| {
        let tokens = prompt["tokens"].as_array().expect("a list").iter();
        tokens.map(|id| id.as_u64().expect("an id") as u32).collect()
    };
    reference["prompts"].as_array().expect("a list").iter().take(2).map(ids).collect()
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn farthest(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max)
}

const ONE: &[Applied] = &[Applied { adapter: 0, scale: SCALE }];

#[test]
fn adapters_give_the_logits_that_llama_cpp_gives_with_them() {
    for (family, file, adapters) in MODELS {
        for adapter in adapters {
            let shape = adapted(&model_file(family, file), &[adapter_file(family, adapter)]).expect("a golden");
            for isa in supported() {
                let mut model = Model::new(shape.clone(), isa);
                for (number, tokens) in prompts(family).iter().enumerate() {
                    let expected = floats(&adapter_file(family, &format!("logits.{number}.f32")));
                    let apart = farthest(&model.read(tokens, 64, ONE), &expected);
                    println!("{family} {file} {adapter} with {}: {apart:.1e}", isa.name());
                    assert!(apart <= 2e-3, "{family} {file} {adapter} with {}: {apart}", isa.name());
                    let without = farthest(&model.read(tokens, 64, &[]), &expected);
                    assert!(without > 1.0, "{family}: the adapter changes nothing");
                }
            }
        }
    }
}

/// Adapters that PEFT has made and transformers applied: ranks and alphas of modules of their own; projections that are together, with rsLoRA.
#[test]
fn adapters_give_the_logits_that_transformers_gives_with_peft() {
    let tokens: Vec<u32> = (0..24).map(|place| 5 + place * 37 % 110).collect();
    for family in ["qwen3", "phi3"] {
        let shape = adapted(&model_file(family, ""), &[adapter_file(family, "peft")]).expect("a golden");
        let expected = floats(&adapter_file(family, "peft-logits.f32"));
        for isa in supported() {
            let mut model = Model::new(shape.clone(), isa);
            let apart = farthest(&model.read(&tokens, 64, ONE), &expected);
            println!("{family} with {}: {apart:.1e}", isa.name());
            assert!(apart <= 2e-3, "{family} with {}: {apart}", isa.name());
            assert!(farthest(&model.read(&tokens, 64, &[]), &expected) > 1.0, "{family}: the adapter changes nothing");
        }
    }
}

/// Bits: those of a model without any adapter for who has none, and the same in any company, any cut and any order for who has one.
#[test]
fn company_and_cut_change_no_bit_with_an_adapter_or_without() {
    for (family, file, adapters) in MODELS {
        let path = adapter_file(family, adapters[0]);
        let plain = adapted(&model_file(family, file), &[]).expect("a golden");
        let shape = adapted(&model_file(family, file), &[path.clone(), path]).expect("a golden");
        for isa in supported() {
            let tokens = &prompts(family)[1][..33];
            let none = Model::new(plain.clone(), isa).read(tokens, 64, &[]);
            let mut model = Model::new(shape.clone(), isa);
            let what = format!("{family} {file} with {}", isa.name());
            assert!(model.read(tokens, 64, &[]) == none, "{what}: loaded and not used");
            let both = [Applied { adapter: 0, scale: -0.5 }, Applied { adapter: 1, scale: 1.25 }];
            let second = [Applied { adapter: 1, scale: SCALE }];
            let all: [&[Applied]; 4] = [ONE, &[], &both, &second];
            let alone: Vec<Vec<f32>> = all.iter().map(|adapters| model.read(tokens, 64, adapters)).collect();
            assert!(alone[0] != none && alone[2] != alone[0], "{what}: adapters change nothing");
            assert!(alone[3] == alone[0], "{what}: the same adapter under another number");
            for piece in [1, 7, 20] {
                for (adapters, whole) in all.iter().zip(&alone) {
                    assert!(model.read(tokens, piece, adapters) == *whole, "{what}: in pieces of {piece}");
                }
            }
            // All of them together, in pieces of other lengths and in another order at each step.
            let mut found = vec![Vec::new(); all.len()];
            let mut done = [0; 4];
            for step in 0.. {
                let open = (0..all.len()).map(|place| (place + step) % all.len());
                let open: Vec<usize> = open.filter(|&one| done[one] < tokens.len()).collect();
                if open.is_empty() {
                    break;
                }
                let lengths: Vec<usize> =
                    open.iter().map(|&one| (1 + (step + one) % 5).min(tokens.len() - done[one])).collect();
                let part = |(&one, &length): (&usize, &usize)| Part {
                    sequence: one as u32,
                    tokens: &tokens[done[one]..done[one] + length],
                    cached: done[one],
                    adapters: all[one],
                };
                let parts: Vec<Part<'_>> = open.iter().zip(&lengths).map(part).collect();
                let logits = model.step(&parts);
                let vocab = logits.len() / lengths.iter().sum::<usize>();
                let mut rest = &logits[..];
                for (&one, &length) in open.iter().zip(&lengths) {
                    let (own, behind) = rest.split_at(length * vocab);
                    found[one].extend_from_slice(own);
                    done[one] += length;
                    rest = behind;
                }
            }
            assert!(found == alone, "{what}: in company");
        }
    }
}

#[test]
fn a_gpu_says_that_it_cannot_apply_adapters() {
    let shape = adapted(&model_file("llama", "model-f32.gguf"), &[adapter_file("llama", "adapter.gguf")]);
    let shape = shape.expect("a golden");
    let device = match kauri_device_wgpu::Device::open(true, Reduction::Best) {
        Ok(device) => device,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    match WgpuExecutor::new(&device, &shape, plan(), kauri_device_wgpu::Arithmetic::Fast) {
        Err(error @ DeviceError::Unsupported { .. }) => assert!(error.to_string().contains("--lora"), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("adapters would have been left out in silence"),
    }
}

fn options() -> Options {
    Options {
        threads: Some(2),
        batch_tokens: 64,
        batch_outputs: 4,
        sequences: 4,
        snapshots: 16,
        context_tokens: Some(256),
        ..Options::default()
    }
}

/// An engine with the adapter twice: for all, at the golden's scale, and on request.
fn engine(family: &str, file: &str, adapter: &str, with: bool) -> Engine {
    let path = adapter_file(family, adapter);
    let one = |name: &str, always| AdapterFile { name: name.to_owned(), path: path.clone(), scale: SCALE, always };
    let adapters = if with { vec![one("always", true), one("asked", false)] } else { Vec::new() };
    let model = model_file(family, file);
    Engine::load_with(model.to_str(), &options(), &adapters).expect("a golden")
}

fn request(prompt: &[u32], adapters: Option<&[Applied]>) -> Request {
    Request {
        prompt: prompt.to_vec(),
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        max_tokens: Some(24),
        adapters: adapters.map(<[_]>::to_vec),
        ..Request::default()
    }
}

/// What each of these has of adapters; the first two are the same.
fn ways() -> [Option<&'static [Applied]>; 5] {
    const OTHER: &[Applied] = &[Applied { adapter: 0, scale: -SCALE }];
    const BOTH: &[Applied] = &[Applied { adapter: 1, scale: 0.25 }, Applied { adapter: 0, scale: 1.0 }];
    [None, Some(ONE), Some(&[]), Some(OTHER), Some(BOTH)]
}

/// A prompt of several pages.
fn long_prompt() -> Vec<u32> {
    (0..100).map(|index| 5 + index * 37 % 110).collect()
}

/// One prompt with each of several adapters and scales, again and again: the tokens of an engine that never saw the others.
#[test]
fn what_is_known_with_one_adapter_is_no_others() {
    for (family, file, adapters) in WITH_VOCABULARY {
        let load = || engine(family, file, adapters[0], true);
        let alone = |adapters| {
            let mut engine = load();
            let mut session = engine.session();
            session.generate(&request(&long_prompt(), adapters), |_| ControlFlow::Continue(())).expect("an answer");
            session.tokens()[long_prompt().len()..].to_vec()
        };
        let expected = ways().map(alone);
        assert!(expected[0] == expected[1] && expected[0] != expected[2] && expected[0] != expected[3], "{family}");
        let none = {
            let mut engine = engine(family, file, adapters[0], false);
            let mut session = engine.session();
            session.generate(&request(&long_prompt(), None), |_| ControlFlow::Continue(())).expect("an answer");
            session.tokens()[long_prompt().len()..].to_vec()
        };
        assert_eq!(expected[2], none, "{family}: without its adapters it is the model itself");

        let mut shared = load();
        let mut session = shared.session();
        for round in 0..2 {
            for (way, expected) in ways().into_iter().zip(&expected) {
                let done =
                    session.generate(&request(&long_prompt(), way), |_| ControlFlow::Continue(())).expect("an answer");
                assert_eq!(session.tokens()[long_prompt().len()..], expected[..], "{family}, round {round}, {way:?}");
                // The one before had the same; a state cannot be taken back to a prompt's end.
                let may_know = way == Some(ONE) && family == "llama";
                assert_eq!(done.cached_tokens > 0, may_know, "{family}, round {round}, {way:?}");
            }
        }

        // All at once, then once more: what was computed with the same is known, and nothing else is.
        let service = load().serve(&Serving::default());
        for round in 0..2 {
            let submit = |way| service.submit(Submission::from(request(&long_prompt(), way))).expect("room");
            for ((way, expected), answer) in ways().into_iter().zip(&expected).zip(ways().map(submit)) {
                let (tokens, _, done) = answer.wait().expect("an answer");
                assert_eq!(tokens, *expected, "{family}, a service, round {round}, {way:?}");
                assert!(round == 0 || done.cached_tokens > 0, "{family}, {way:?}: computed again");
            }
        }
    }
}

#[test]
fn what_is_kept_on_disk_with_one_adapter_is_no_others() {
    for (family, file, adapters) in WITH_VOCABULARY {
        let folder = TempDir::new().expect("a folder");
        let remembering = Remembering { folder: Some(folder.path().to_owned()), ..Remembering::default() };
        let mut known = Vec::new();
        for round in 0..2 {
            for way in ways() {
                let mut engine = engine(family, file, adapters[0], true);
                engine.remember(&remembering).expect("the files are what they were");
                let mut session = engine.session();
                let done =
                    session.generate(&request(&long_prompt(), way), |_| ControlFlow::Continue(())).expect("an answer");
                known.push((session.tokens().to_vec(), done.cached_tokens));
                drop(session);
                engine.flush();
                let first = known.iter().position(|(tokens, _)| *tokens == known[known.len() - 1].0);
                let is_first = round == 0 && way != Some(ONE);
                assert_eq!(known[known.len() - 1].1 == 0, is_first, "{family}, round {round}, {way:?}, as {first:?}");
            }
        }
        assert!(known[..5].iter().zip(&known[5..]).all(|(one, again)| one.0 == again.0), "{family}");
    }
}

#[test]
fn a_request_for_an_adapter_that_is_not_there_is_refused() {
    let mut engine = engine("llama", "model-f32.gguf", "adapter.gguf", true);
    let mut session = engine.session();
    let mut refusal = |adapters: &[Applied]| {
        let asked = request(&[1, 2, 3], Some(adapters));
        session.generate(&asked, |_| ControlFlow::Continue(())).expect_err("it is none").to_string()
    };
    let one = |adapter, scale| Applied { adapter, scale };
    assert!(refusal(&[one(2, 1.0)]).contains("no adapter number 2"));
    assert!(refusal(&[one(1, 1.0), one(1, 0.5)]).contains("number 1 is named twice"));
    for scale in [f32::NAN, f32::INFINITY, 1e9] {
        assert!(refusal(&[one(0, scale)]).contains("scale"), "{scale}");
    }
}

/// What `change` makes of the settings and tensors of the PEFT adapter of lfm2.
fn changed_peft(change: impl FnOnce(&mut Json, &mut Vec<u8>)) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let read = |name: &str| fs::read(adapter_file("lfm2", "peft").join(name)).expect("a golden");
    let mut settings: Json = serde_json::from_slice(&read("adapter_config.json")).expect("a golden");
    let mut tensors = read("adapter_model.safetensors");
    change(&mut settings, &mut tensors);
    fs::write(folder.path().join("adapter_config.json"), settings.to_string()).expect("a file");
    fs::write(folder.path().join("adapter_model.safetensors"), tensors).expect("a file");
    folder
}

fn refused(model: &Path, adapter: &Path) -> String {
    adapted(model, &[adapter.to_owned()]).expect_err("it cannot be applied").to_string()
}

/// Renames tensors of a safetensors file.
fn rename(tensors: &mut Vec<u8>, from: &str, to: &str) {
    let length = u64::from_le_bytes(tensors[..8].try_into().expect("eight bytes")) as usize;
    let header = String::from_utf8(tensors[8..8 + length].to_vec()).expect("text");
    assert!(header.contains(from), "{from} is not there");
    let header = header.replace(from, to);
    *tensors = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &tensors[8 + length..]].concat();
}

/// Replaces equal numbers of bytes, everywhere.
fn replace(bytes: &mut [u8], from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty(), "{from} is not there");
    places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to.as_bytes()));
}

#[test]
fn what_peft_writes_and_is_not_applied_is_refused_by_name() {
    let model = model_file("lfm2", "");
    let with = |key: &str, value: Json| {
        let folder = changed_peft(|settings, _| settings[key] = value);
        refused(&model, folder.path())
    };
    for (key, value) in [
        ("use_dora", Json::from(true)),
        ("modules_to_save", Json::from(vec!["lm_head"])),
        ("bias", Json::from("all")),
        ("lora_bias", Json::from(true)),
        ("fan_in_fan_out", Json::from(true)),
        ("target_parameters", Json::from(vec!["experts.down_proj"])),
        ("init_lora_weights", Json::from("pissa_niter_16")),
        ("init_lora_weights", Json::from("OLoRA")),
        ("init_lora_weights", Json::from("lora_ga")),
        ("use_bdlora", serde_json::json!({ "nblocks": 2 })),
        ("kasa_config", serde_json::json!({ "beta": 1e-4 })),
        ("arrow_config", serde_json::json!({ "top_k": 3 })),
        ("monteclora_config", serde_json::json!({ "sample_scaler": 1e-4 })),
        ("peft_type", Json::from("IA3")),
        ("lora_alpha", Json::from("Infinity")),
        ("lora_alpha", Json::from(0)),
        ("lora_alpha", Json::Null),
        ("alpha_pattern", serde_json::json!({ "q_proj": "NaN" })),
        ("alpha_pattern", serde_json::json!({ "^q_proj": 4 })),
    ] {
        let said = with(key, value);
        assert!(said.contains(key), "{key}: {said}");
    }
    let tensors = |from: &str, to: &str| {
        let folder = changed_peft(|_, tensors| rename(tensors, from, to));
        refused(&model, folder.path())
    };
    let said = tensors("layers.0.conv.in_proj.lora_B", "layers.0.conv.in_proj.lora_M");
    assert!(said.contains("layers.0.conv.in_proj.lora_M.weight is none of a low-rank pair"), "{said}");
    let said = tensors("layers.0.conv.in_proj.lora_", "layers.9.conv.in_proj.lora_");
    assert!(said.contains("model.layers.9.conv.in_proj.weight, which this model does not have"), "{said}");
    let said = tensors("layers.0.conv.in_proj.lora_B", "layers.0.conv.xx_proj.lora_B");
    assert!(said.contains("is alone"), "{said}");
    let said = tensors("layers.0.conv.in_proj.lora_", "embed_tokens.lora_");
    assert!(said.contains("model.embed_tokens.weight, which is no matrix that inputs are multiplied with"), "{said}");
    let said = tensors("layers.0.conv.in_proj.lora_", "layers.0.conv.conv.lora_");
    assert!(said.contains("model.layers.0.conv.conv.weight"), "{said}");
    let said = tensors("\"F32\",\"shape\":[4,64]", "\"F32\",\"shape\":[2,128]");
    assert!(said.contains("dimensions"), "{said}");
    let folder = TempDir::new().expect("a folder");
    assert!(refused(&model, folder.path()).contains("adapter_config.json"));
}

/// Alphas of modules of their own, and the root of the rank.
#[test]
fn alphas_of_modules_and_the_root_of_the_rank_are_heeded() {
    let model = model_file("lfm2", "");
    let tokens = &prompts("lfm2")[0];
    let read = |adapter: &Path, scale: f32| {
        let shape = adapted(&model, &[adapter.to_owned()]).expect("an adapter");
        Model::new(shape, Isa::Scalar).read(tokens, 64, &[Applied { adapter: 0, scale }])
    };
    let own = adapter_file("lfm2", "peft");
    // 8 over 4, and 8 over 2.
    let rooted = changed_peft(|settings, _| settings["use_rslora"] = Json::from(true));
    assert!(read(rooted.path(), 0.5) == read(&own, 1.0));
    let all = changed_peft(|settings, _| {
        settings["lora_alpha"] = Json::from(16.0);
        settings["alpha_pattern"] = serde_json::json!({ "conv.in_proj": 8.0, "nobody": 3.0 });
    });
    assert!(farthest(&read(all.path(), 0.5), &read(&own, 1.0)) > 0.01);
    let all = changed_peft(|settings, _| settings["lora_alpha"] = Json::from(16.0));
    assert!(read(all.path(), 0.5) == read(&own, 1.0));
}

#[test]
fn what_is_no_adapter_of_this_model_is_refused_by_name() {
    let llama = model_file("llama", "model-f32.gguf");
    let own = adapter_file("llama", "adapter.gguf");
    let said = refused(&llama, &adapter_file("lfm2", "adapter.gguf"));
    assert!(said.contains("an adapter of a lfm2 model, and this one is llama"), "{said}");
    assert!(refused(&llama, &llama).contains("is no adapter: general.type is model, expected adapter"));
    assert!(refused(&llama, &adapter_file("lfm2", "peft")).contains("convert_lora_to_gguf.py"));
    assert!(refused(&model_file("lfm2", ""), &adapter_file("lfm2", "adapter.gguf")).contains("as PEFT wrote it"));
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let folder = TempDir::new().expect("a folder");
        let (path, mut bytes) = (folder.path().join("adapter.gguf"), fs::read(&own).expect("a golden"));
        change(&mut bytes);
        fs::write(&path, bytes).expect("a file");
        refused(&llama, &path)
    };
    let said = changed(&|bytes| replace(bytes, "blk.0.attn_q.weight", "blk.0.attn_k.weighs"));
    assert!(said.contains("blk.0.attn_k.weighs, which this model does not have"), "{said}");
    let said = changed(&|bytes| replace(bytes, "blk.0.attn_output", "blk.0.attn_normxx"));
    assert!(said.contains("does not have"), "{said}");
    let said = changed(&|bytes| {
        replace(bytes, "blk.0.ffn_up.weight", "blk.9.ffn_up.weight");
        replace(bytes, "blk.0.attn_k.weight", "blk.0.ffn_up.weight");
    });
    assert!(said.contains("blk.0.ffn_up.weight.lora_b has dimensions (16, 4), expected (160, 4)"), "{said}");
    let said = changed(&|bytes| {
        let at = bytes.windows(18).position(|bytes| bytes == b"adapter.lora.alpha").expect("the setting");
        bytes[at + 22..at + 26].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    assert!(said.contains("adapter.lora.alpha") && said.contains("a finite number"), "{said}");
}

/// No byte of an adapter that is another makes the program fall over.
#[test]
fn a_damaged_adapter_is_read_or_refused() {
    let llama = model_file("llama", "model-f32.gguf");
    let bytes = fs::read(adapter_file("llama", "adapter.gguf")).expect("a golden");
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("adapter.gguf");
    let head = 4096.min(bytes.len());
    let mut refusals = 0;
    for at in (0..head).step_by(7) {
        for value in [0, 0xff, bytes[at] ^ 1] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            fs::write(&path, damaged).expect("a file");
            refusals += usize::from(adapted(&llama, std::slice::from_ref(&path)).is_err());
        }
    }
    for length in [0, 3, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).expect("a file");
        assert!(adapted(&llama, std::slice::from_ref(&path)).is_err(), "cut to {length} bytes");
    }
    assert!(refusals > 100, "{refusals} refusals");
}

#[test]
fn an_adapter_counts_in_what_a_model_takes() {
    let path = adapter_file("llama", "adapter.gguf");
    let model = model_file("llama", "model-f32.gguf");
    let bytes = |adapters: &[PathBuf]| {
        let shape = adapted(&model, adapters).expect("a golden");
        (kauri_model::fit::adapters_bytes(&shape), kauri_model::fit::stored_bytes(&shape))
    };
    let (none, plain) = bytes(&[]);
    let (one, stored) = bytes(&[path]);
    assert_eq!((none, stored), (0, plain));
    // Rank 4 beside every matrix, one layer's values left alone: four bytes a number.
    let matrices = |layers: u64, sizes: &[u64]| layers * sizes.iter().map(|size| 4 * size).sum::<u64>();
    let others = matrices(3, &[128, 80, 128, 224, 224, 224]) + matrices(2, &[80]) + matrices(1, &[576]);
    assert_eq!(one, 4 * others);
}

/// A file that is missing is said so.
#[test]
fn a_missing_adapter_is_said() {
    let adapter =
        AdapterFile { name: "none".to_owned(), path: "/nowhere/adapter.gguf".into(), scale: 1.0, always: true };
    match Engine::load_with(None, &options(), &[adapter]) {
        Err(Error::Adapter(error)) => assert!(error.to_string().contains("/nowhere/adapter.gguf"), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("there is no such file"),
    }
}
