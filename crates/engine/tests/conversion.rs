//! Directories made GGUF files: the same model, to the bit where the order of sums is the same, and the tensors that the format's own
//! converter writes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kauri_arch::Shape;
use kauri_arch::renaming::Origin;
use kauri_device::{Batch, CacheType, Choice, Executor, Plan, Weight};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_formats::{Checkpoint, Quant, Source, Tensor};
use kauri_model::{convert, quantize};

/// Tokens that are read.
const TOKENS: usize = 48;
/// How far logits may be where the file has queries and keys in another order, in which sums are then taken.
const OTHER_ORDER: f32 = 2e-4;
/// Families with a state, where such differences grow.
const DELICATE: f32 = 2e-3;

#[test]
fn a_converted_directory_is_the_same_model() {
    let mut same_bits = 0;
    for directory in directories() {
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(source) = Checkpoint::open(&directory) else { continue };
        let draft = convert::draft(&source, Vec::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let path = std::env::temp_dir().join(format!("kauri-converted-{name}-{}.gguf", std::process::id()));
        let types: Vec<Quant> = draft.tensors.iter().map(|tensor| tensor.quant).collect();
        let work = quantize::Work {
            draft: &draft,
            types: &types,
            importance: None,
            requantise: false,
            measure: false,
            threads: 1,
            fingerprint: String::new(),
        };
        quantize::write(&work, &path, &mut |_| true).unwrap_or_else(|error| panic!("{name}: {error}"));
        let made = Checkpoint::open(&path).unwrap();
        let (found, expected) = (logits(&made), logits(&source));
        std::fs::remove_file(&path).unwrap();
        let most = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let bits = found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
        println!("{name}: {}", if bits { "the same bits".to_owned() } else { format!("at most {most:.1e}") });
        let reordered = draft_reorders(&source);
        assert!(bits || reordered, "{name}: {most} where nothing changes its order");
        let limit = if name.starts_with("qwen3") || name.starts_with("deepseek") { DELICATE } else { OTHER_ORDER };
        assert!(most <= limit, "{name}: {most}");
        same_bits += usize::from(bits);
        same_tensors(&name, &directory, &made);
    }
    assert!(same_bits >= 20, "only {same_bits} directories gave the same bits");
}

/// Whether rows or columns are in another order in the file, or multiplied, or rope factors are numbers that were divided before.
fn draft_reorders(source: &Checkpoint) -> bool {
    let renamed = kauri_arch::renaming::to_gguf(source).unwrap();
    let differs = |from: &Origin| from.rows.is_some() || from.columns.is_some() || !from.factors.is_empty();
    !renamed.made.is_empty() || renamed.slots.iter().any(|(_, from)| differs(from))
}

/// Every tensor that the directory's own GGUF has in common with the new one has the same values; and the new one lacks none.
fn same_tensors(name: &str, directory: &Path, made: &Checkpoint) {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let Some(path) = entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "gguf")) else { return };
    let theirs = Checkpoint::open(&path).unwrap();
    let names = |checkpoint: &Checkpoint| checkpoint.tensors.keys().cloned().collect::<BTreeSet<_>>();
    let (ours, own) = (names(made), names(&theirs));
    // Latent attention has one matrix for keys and values in older files, two in newer ones.
    // The first layer of RWKV-7 has nothing before it that its values could be mixed with: three tensors that nobody reads.
    let spared = |tensor: &str| match name {
        "rwkv7" => tensor.starts_with("blk.0.time_mix_v"),
        // Queries, keys and values may be one matrix or three.
        "bailingmoe" => {
            ["attn_qkv", "attn_q", "attn_k", "attn_v"].contains(&tensor.split('.').nth(2).unwrap_or_default())
        }
        _ => false,
    };
    let apart = |name: &&String| {
        !spared(name) && !name.contains("attn_kv_b") && !name.contains("attn_k_b") && !name.contains("attn_v_b")
    };
    let differ: Vec<&String> = ours.symmetric_difference(&own).filter(apart).collect();
    assert!(differ.is_empty(), "{name}: {differ:?}");
    for tensor in ours.intersection(&own) {
        let (mut found, mut expected) = (values(&made.tensors[tensor]), values(&theirs.tensors[tensor]));
        // Queries and keys of layers without a rope may stand in any order, as long as both stand in the same.
        let any_order = ["baichuan13", "granitehybrid", "nemotronh", "nemotronhmoe", "smollm3"].contains(&name);
        if any_order && (tensor.ends_with("attn_q.weight") || tensor.ends_with("attn_k.weight")) {
            found.sort_by(f32::total_cmp);
            expected.sort_by(f32::total_cmp);
        }
        let off = found.iter().zip(&expected).filter(|(a, b)| (*a - *b).abs() > 1e-6 * b.abs()).count();
        assert_eq!((found.len(), off), (expected.len(), 0), "{name}: {tensor}");
    }
    let (Source::Gguf(found), Source::Gguf(expected)) = (&made.source, &theirs.source) else { return };
    for (key, value) in found.iter().filter(|(key, _)| key.contains('.') && !key.starts_with("general.")) {
        if let Some(other) = expected.f64(key) {
            let value = value.as_f64().unwrap_or(f64::NAN);
            let apart = key.contains("attention.key_length")
                || key.contains("attention.value_length")
                || key.contains("head_count_kv")
                // llama.cpp's converter has one number for all files of three of them; the other's is not from its configuration.
                || [
                    "chatglm.context_length",
                    "granitehybrid.context_length",
                    "nemotron_h.context_length",
                    "nemotron_h_moe.context_length",
                ]
                .contains(&key);
            assert!(apart || (value - other).abs() <= 1e-6 * other.abs(), "{name}: {key} is {value}, expected {other}");
        }
    }
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![0.0; tensor.dims.iter().product::<u64>() as usize];
    tensor.quant.dequantise(&tensor.data, &mut values);
    values
}

fn logits(checkpoint: &Checkpoint) -> Vec<f32> {
    let names = kauri_arch::identify(checkpoint).unwrap_or_else(|error| panic!("{error}"));
    let shape: Shape<Weight> = kauri_model::load::weights(checkpoint, &names).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan {
        page_tokens: 16,
        pages: 4,
        batch_tokens: TOKENS as u32,
        batch_outputs: TOKENS as u32,
        slots: 1,
        cache: CacheType::F32,
        ring: None,
    };
    let vocab = shape.vocab;
    let kernels = Kernels::new(Isa::Scalar).unwrap();
    let mut executor = CpuExecutor::new(shape, plan, kernels, 1).unwrap();
    let tokens: Vec<u32> = (0..TOKENS as u32).map(|index| (index * 37 + 11) % vocab).collect();
    let mut batch = Batch::default();
    batch.push(&tokens, 0, &[0, 1, 2, 3], 0, TOKENS as u32, TOKENS);
    executor.launch(&batch).unwrap();
    executor.sample(&[Choice::Logits; TOKENS]).unwrap().logits.to_vec()
}

fn directories() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let roots = [root.join("tests/golden/families"), root.join("../shared/fixtures/families")];
    let mut found: Vec<PathBuf> = Vec::new();
    for entries in roots.iter().filter_map(|root| std::fs::read_dir(root).ok()) {
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        found.extend(
            paths.filter(|path| path.join("config.json").is_file() && path.join("model.safetensors").is_file()),
        );
    }
    found.sort();
    found
}
