//! Checkpoints whose matrices have their scales in tensors of their own: FP8 by tiles, rows and matrices, NVFP4 as two exporters write it.
//!
//! `tests/golden/scaled/make.py` makes them, and what they give, in numpy.

use std::fs;
use std::path::{Path, PathBuf};

use kauri_arch::Shape;
use kauri_device::{Batch, CacheType, Choice, Executor, Plan, Weight};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_device_cuda::{Arithmetic, CudaExecutor, Device};
use kauri_device_wgpu::{Reduction, WgpuExecutor};
use kauri_formats::{Checkpoint, Quant};
use kauri_model::{convert, quantize};
use serde_json::{Value as Json, json};

const FOLDERS: [&str; 5] = ["fp8", "fp8moe", "fp8channels", "nvfp4", "nvfp4moe"];
const CONTEXT: u32 = 64;
/// How far logits, whose spread is 1.6, may be on average where weights or activations are rounded: to bf16, or to bytes.
const ROUNDED_MEAN: f32 = 0.05;

#[test]
fn models_give_what_their_codes_and_scales_stand_for() {
    for folder in FOLDERS {
        let mut model = Model::of(folder, |shape, plan| on_cpu(shape, plan, Isa::Scalar));
        let (max, mean) = model.distance();
        println!("{folder}: max {max:.1e}, mean {mean:.1e}");
        assert!(max <= 2e-3 && mean <= 2e-4, "{folder}: max {max:.1e}, mean {mean:.1e}");
        assert_eq!(model.greedy(), model.expected_greedy, "{folder}");
    }
}

#[test]
fn fast_kernels_stay_near() {
    for isa in Isa::ALL.into_iter().filter(|isa| *isa != Isa::Scalar && isa.is_supported()) {
        for folder in FOLDERS {
            let (max, mean) = Model::of(folder, |shape, plan| on_cpu(shape, plan, isa)).distance();
            println!("{folder} with {}: max {max:.1e}, mean {mean:.1e}", isa.name());
            // Weights of eight bits meet activations as they are, those of four bits bytes.
            let (max_allowed, mean_allowed) =
                if folder.starts_with("fp8") { (2e-3, 2e-4) } else { (f32::MAX, ROUNDED_MEAN) };
            assert!(max <= max_allowed && mean <= mean_allowed, "{folder} with {}: {max:.1e}, {mean:.1e}", isa.name());
        }
    }
}

#[test]
fn a_gpu_gives_the_same() {
    let Ok(device) = Device::open().map_err(|reason| eprintln!("skipped on a GPU: {reason}")) else { return };
    for folder in FOLDERS {
        for (arithmetic, max_allowed, mean_allowed) in
            [(Arithmetic::Exact, 2e-3, 2e-4), (Arithmetic::Fast, f32::MAX, ROUNDED_MEAN)]
        {
            let mut model = Model::of(folder, |shape, plan| {
                Box::new(CudaExecutor::new(&device, &shape, plan, arithmetic).unwrap_or_else(|error| panic!("{error}")))
            });
            let (max, mean) = model.distance();
            println!("{folder} on a GPU: max {max:.1e}, mean {mean:.1e}");
            assert!(max <= max_allowed && mean <= mean_allowed, "{folder} on a GPU: {max:.1e}, {mean:.1e}");
        }
    }
}

#[test]
fn wgpu_refuses_them_in_words() {
    let device = match kauri_device_wgpu::Device::open(true, Reduction::Best) {
        Ok(device) => device,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    for folder in FOLDERS {
        let checkpoint = Checkpoint::open(golden(folder)).unwrap();
        let made = WgpuExecutor::new(&device, &weights(&checkpoint), plan(), kauri_device_wgpu::Arithmetic::Fast);
        let message = made.err().expect("refused").to_string();
        assert!(message.contains("weights stored as"), "{message}");
    }
}

/// As GGUF, where there is no place for factors of tiles: matrices become bf16.
#[test]
fn a_converted_model_stays_near() {
    for folder in FOLDERS {
        let source = Checkpoint::open(golden(folder)).unwrap();
        let draft = convert::draft(&source, Vec::new()).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let types: Vec<Quant> = draft.tensors.iter().map(|tensor| tensor.quant).collect();
        assert!(types.iter().all(|quant| matches!(quant, Quant::BF16 | Quant::F32)), "{folder}: {types:?}");
        let path = std::env::temp_dir().join(format!("kauri-scaled-{folder}-{}.gguf", std::process::id()));
        let work = quantize::Work {
            draft: &draft,
            types: &types,
            importance: None,
            requantise: false,
            measure: false,
            threads: 1,
            fingerprint: String::new(),
        };
        quantize::write(&work, &path, &mut |_| true).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let (max, mean) = Model::open(&path, folder, |shape, plan| on_cpu(shape, plan, Isa::Scalar)).distance();
        fs::remove_file(&path).unwrap();
        println!("{folder} as GGUF: max {max:.1e}, mean {mean:.1e}");
        assert!(mean <= ROUNDED_MEAN, "{folder} as GGUF: {mean:.1e}");
    }
}

/// What is wrong with a file is said by the name of the tensor or the setting.
#[test]
fn broken_files_are_refused_by_name() {
    type Break = fn(&mut File);
    let cases: [(&str, Break, &str); 17] = [
        ("fp8", |file| file.drop(Q_FACTORS), "`model.layers.0.self_attn.q_proj.weight` is F8_E4M3: its factors"),
        ("fp8", |file| file.shape(Q_FACTORS, json!([2, 1])), "(1, 2) for tiles of 128 rows and 128 columns"),
        ("fp8", |file| file.kind(Q_FACTORS, "I32"), "type I32 is not supported; expected one of F32, F16, BF16"),
        (
            "fp8",
            |file| file.fill(Q_FACTORS, &f32::NAN.to_le_bytes()),
            "q_proj.weight cannot be used: a factor of its values is NaN",
        ),
        ("fp8", |file| file.fill(Q_FACTORS, &f32::MAX.to_le_bytes()), "expected a finite number up to 2^100"),
        ("fp8", |file| file.rename(Q_FACTORS, "model.layers.0.self_attn.q_proj.weight_scales"), "its factors"),
        ("fp8", |file| file.set("/weight_block_size", json!([128, 96])), "weight_block_size: expected two numbers"),
        ("fp8", |file| file.set("/weight_block_size", json!([0, 128])), "weight_block_size: expected two numbers"),
        ("fp8", |file| file.set("/fmt", json!("e5m2")), "quantization_config.fmt: expected e4m3, found"),
        (
            "fp8",
            |file| file.set("/quant_method", json!("awq")),
            "quantization_config.quant_method: expected fp8, fbgemm_fp8",
        ),
        (
            "fp8channels",
            |file| file.set("/format", json!("int-quantized")),
            "quantization_config.format: expected float-quantized",
        ),
        (
            "fp8channels",
            |file| file.set("/config_groups/group_0/weights/type", json!("int")),
            "group_0.weights.type: expected float",
        ),
        ("nvfp4", |file| file.set("/quant_algo", json!("W4A8_AWQ")), "quant_algo: expected FP8 or NVFP4"),
        (
            "nvfp4",
            |file| file.drop("model.layers.0.mlp.up_proj.weight_scale_2"),
            "is NVFP4: its `model.layers.0.mlp.up_proj.weight_scale_2`",
        ),
        (
            "nvfp4",
            |file| file.fill("model.layers.0.mlp.up_proj.weight_scale", &[0x7f]),
            "up_proj.weight cannot be used: a scale of sixteen",
        ),
        (
            "nvfp4",
            |file| file.shape("model.layers.0.mlp.up_proj.weight_scale", json!([64, 8])),
            "(128, 4), one for sixteen values of",
        ),
        (
            "nvfp4moe",
            |file| file.fill("model.layers.0.mlp.experts.1.up_proj.weight_global_scale", &[0; 4]),
            "a factor of its values is inf",
        ),
    ];
    for (folder, breaks, expected) in cases {
        let mut file = File::read(folder);
        breaks(&mut file);
        let message = file.refusal();
        assert!(message.contains(expected), "{folder}: {message:?} instead of {expected:?}");
    }
    // What is broken is what was broken.
    assert_eq!(File::read("fp8").refusal(), "");
}

const Q_FACTORS: &str = "model.layers.0.self_attn.q_proj.weight_scale_inv";

/// A checkpoint in memory, to be spoilt.
struct File {
    config: Json,
    header: Json,
    data: Vec<u8>,
}

impl File {
    fn read(folder: &str) -> Self {
        let config = serde_json::from_slice(&fs::read(golden(folder).join("config.json")).unwrap()).unwrap();
        let bytes = fs::read(golden(folder).join("model.safetensors")).unwrap();
        let length = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        Self { config, header: serde_json::from_slice(&bytes[8..length]).unwrap(), data: bytes[length..].to_vec() }
    }

    /// What is said when it is loaded; nothing if it can be.
    fn refusal(&self) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), self.config.to_string()).unwrap();
        let header = self.header.to_string();
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &self.data].concat();
        fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
        let checkpoint = match Checkpoint::open(folder.path()) {
            Ok(checkpoint) => checkpoint,
            Err(error) => return error.to_string(),
        };
        let names = kauri_arch::identify(&checkpoint).unwrap();
        kauri_model::load::weights(&checkpoint, &names).err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn set(&mut self, setting: &str, value: Json) {
        *self.config["quantization_config"].pointer_mut(setting).unwrap() = value;
    }

    fn shape(&mut self, tensor: &str, shape: Json) {
        self.header[tensor]["shape"] = shape;
        let dims = self.header[tensor]["shape"].as_array().unwrap();
        let count: u64 = dims.iter().map(|dim| dim.as_u64().unwrap()).product();
        let each = self.range(tensor).len() as u64 / count;
        assert!(each > 0, "as many bytes as before");
    }

    fn kind(&mut self, tensor: &str, kind: &str) {
        self.header[tensor]["dtype"] = json!(kind);
    }

    fn range(&self, tensor: &str) -> std::ops::Range<usize> {
        let offset = |index: usize| self.header[tensor]["data_offsets"][index].as_u64().unwrap() as usize;
        offset(0)..offset(1)
    }

    /// Its first bytes become those.
    fn fill(&mut self, tensor: &str, bytes: &[u8]) {
        let start = self.range(tensor).start;
        self.data[start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn rename(&mut self, tensor: &str, to: &str) {
        let entry = self.header.as_object_mut().unwrap().remove(tensor).unwrap();
        self.header[to] = entry;
    }

    /// It becomes one that nobody looks for, so that no bytes are without a tensor.
    fn drop(&mut self, tensor: &str) {
        self.rename(tensor, "visual.nothing");
    }
}

/// A model on a device, and what is expected of it.
struct Model {
    executor: Box<dyn Executor>,
    vocab: usize,
    tokens: Vec<u32>,
    expected: Vec<f32>,
    expected_greedy: Vec<u32>,
}

impl Model {
    fn of(folder: &str, make: impl FnOnce(Shape<Weight>, Plan) -> Box<dyn Executor>) -> Self {
        Self::open(&golden(folder), folder, make)
    }

    /// The model at `path`, of which is expected what is of that in `folder`.
    fn open(path: &Path, folder: &str, make: impl FnOnce(Shape<Weight>, Plan) -> Box<dyn Executor>) -> Self {
        let shape = weights(&Checkpoint::open(path).unwrap_or_else(|error| panic!("{error}")));
        let reference: Json =
            serde_json::from_slice(&fs::read(golden(folder).join("reference.json")).unwrap()).unwrap();
        let ids = |list: &Json| list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let bytes = fs::read(golden(folder).join("logits.f32")).unwrap();
        Self {
            vocab: shape.vocab as usize,
            executor: make(shape, plan()),
            tokens: ids(&reference["tokens"]),
            expected: bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            expected_greedy: ids(&reference["greedy"]),
        }
    }

    /// The largest difference of a logit from what is expected, and the mean, over all positions: read together, and one by one.
    fn distance(&mut self) -> (f32, f32) {
        let tokens = self.tokens.clone();
        let mut differences = Vec::new();
        for piece in [tokens.len(), 1] {
            let mut found = Vec::new();
            for (number, piece) in tokens.chunks(piece).enumerate() {
                found.extend(self.read(piece, number * piece.len(), piece.len()));
            }
            differences.extend(found.iter().zip(&self.expected).map(|(found, expected)| (found - expected).abs()));
        }
        assert!(differences.iter().all(|difference| difference.is_finite()));
        assert_eq!(differences.len(), 2 * self.expected.len());
        let mean = differences.iter().sum::<f32>() / differences.len() as f32;
        (differences.into_iter().fold(0.0, f32::max), mean)
    }

    /// The likeliest tokens behind the text.
    fn greedy(&mut self) -> Vec<u32> {
        let mut text = self.tokens.clone();
        let mut logits = self.read(&text.clone(), 0, 1);
        for _ in 0..self.expected_greedy.len() {
            let token = (0..self.vocab).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32;
            logits = self.read(&[token], text.len(), 1);
            text.push(token);
        }
        text.split_off(self.tokens.len())
    }

    fn read(&mut self, tokens: &[u32], cached: usize, outputs: usize) -> Vec<f32> {
        let mut batch = Batch::default();
        batch.push(tokens, cached as u32, &[0, 1, 2, 3], 0, CONTEXT, outputs);
        self.executor.launch(&batch).unwrap();
        self.executor.sample(&vec![Choice::Logits; outputs]).unwrap().logits.to_vec()
    }
}

fn plan() -> Plan {
    let cache = CacheType::F32;
    Plan { page_tokens: 16, pages: 4, batch_tokens: CONTEXT, batch_outputs: CONTEXT, slots: 1, cache, ring: None }
}

fn on_cpu(shape: Shape<Weight>, plan: Plan, isa: Isa) -> Box<dyn Executor> {
    Box::new(CpuExecutor::new(shape, plan, Kernels::new(isa).unwrap(), 2).unwrap())
}

fn weights(checkpoint: &Checkpoint) -> Shape<Weight> {
    let names = kauri_arch::identify(checkpoint).unwrap_or_else(|error| panic!("{error}"));
    kauri_model::load::weights(checkpoint, &names).unwrap_or_else(|error| panic!("{error}"))
}

fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/scaled").join(folder)
}
