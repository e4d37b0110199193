//! The seeds of the fuzzers (`fuzz/seeds`), each through its reader: `good-*` is accepted, `bad-*` refused.

use std::fs;
use std::path::PathBuf;

use kauri_formats::{Bytes, Metadata, Tensor, Value, gguf};

use crate::raw::*;

fn directory(target: &str) -> PathBuf {
    repository().join("fuzz/seeds").join(target)
}

fn run_all(target: &str, accepts: impl Fn(&[u8]) -> bool) {
    let mut counts = [0, 0];
    for entry in fs::read_dir(directory(target)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let good = name.starts_with("good-");
        assert!(good || name.starts_with("bad-"), "{name}");
        assert_eq!(accepts(&fs::read(&path).unwrap()), good, "{target}/{name}");
        counts[usize::from(good)] += 1;
    }
    assert!(counts[0] > 5 && counts[1] > 1, "{target}: {counts:?}");
}

#[test]
fn seeds_of_gguf() {
    run_all("gguf", |bytes| parse_gguf(bytes).is_ok());
}

#[test]
fn seeds_of_safetensors() {
    run_all("safetensors", |bytes| parse_safetensors(bytes).is_ok());
}

/// Writes the seeds anew: `cargo test -p kauri-formats write_seeds -- --ignored`.
#[test]
#[ignore = "writes into the repository"]
fn write_seeds() {
    for (target, seeds) in [("gguf", gguf_seeds()), ("safetensors", safetensors_seeds())] {
        fs::create_dir_all(directory(target)).unwrap();
        for (name, bytes) in seeds {
            fs::write(directory(target).join(name), bytes).unwrap();
        }
    }
}

fn gguf_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let tensor = |name: &str, dims: &[u64], offset| gguf_tensor(name, dims, TENSOR_F32, offset);
    let key = |kind, value: &[u8]| gguf_file(&[gguf_key("k", kind, value)], &[], 0);
    let of_tensors = |tensors: &[Vec<u8>]| gguf_file(&[], tensors, 64);
    let aligned = |to: u32| gguf_file(&[gguf_key("general.alignment", U32, to.to_le_bytes())], &[], 0);
    let deep = (0..6).fold(gguf_array(U8, 0, []), |inner, _| gguf_array(ARRAY, 1, inner));
    let golden = |name| fs::read(repository().join("tests/golden/formats").join(name)).unwrap();
    let mut good = of_tensors(&[tensor("a", &[8], 0), tensor("b", &[2, 4], 32)]);
    let cut = good[..good.len() - 1].to_vec();
    let v3 = good.clone();
    good[4] = 2;
    vec![
        ("good-written", written()),
        ("good-v2", good),
        ("good-v3", v3),
        ("good-part", golden("split-00001-of-00003.gguf")),
        ("good-empty", gguf_head(3, 0, 0)),
        ("bad-big-endian", golden("big-endian.gguf")),
        ("bad-v1", gguf_head(1, 0, 0)),
        ("bad-cut", cut),
        ("bad-key-count", gguf_head(3, 0, u64::MAX)),
        ("bad-tensor-count", gguf_head(3, 1 << 60, 0)),
        ("bad-string-length", key(STRING, &u64::MAX.to_le_bytes())),
        ("bad-array-count", key(ARRAY, &gguf_array(F32, 1 << 62, []))),
        ("bad-array-depth", key(ARRAY, &deep)),
        ("bad-value-type", key(13, &[0; 8])),
        ("bad-utf8", key(STRING, &gguf_string(b"\xff"))),
        ("bad-bool", key(BOOL, &[2])),
        ("bad-alignment-odd", aligned(33)),
        ("bad-alignment-zero", aligned(0)),
        ("bad-dims-none", of_tensors(&[gguf_tensor_of(0, "a", &[], TENSOR_F32, 0)])),
        ("bad-dims-five", of_tensors(&[tensor("a", &[1; 5], 0)])),
        ("bad-dims-most", of_tensors(&[gguf_tensor_of(u32::MAX, "a", &[1], TENSOR_F32, 0)])),
        ("bad-dims-product", of_tensors(&[tensor("a", &[1 << 32, 1 << 32], 0)])),
        ("bad-offset", of_tensors(&[tensor("a", &[8], u64::MAX - 31)])),
        ("bad-misaligned", of_tensors(&[tensor("a", &[8], 4)])),
        ("bad-overlap", of_tensors(&[tensor("a", &[9], 0), tensor("b", &[1], 32)])),
        ("bad-tensor-twice", of_tensors(&[tensor("a", &[1], 0), tensor("a", &[1], 32)])),
        ("bad-tensor-type", of_tensors(&[gguf_tensor("a", &[1], 999, 0)])),
    ]
}

/// A small model by the writer.
fn written() -> Vec<u8> {
    let mut metadata = Metadata::default();
    let strings = ["<s>", "▁a", "b"].into_iter().collect();
    for (key, value) in [
        ("general.architecture", Value::String("llama".to_owned())),
        ("llama.block_count", Value::Unsigned(1)),
        ("llama.rope.freq_base", Value::Float(1e4)),
        ("tokenizer.ggml.tokens", Value::Strings(strings)),
        ("tokenizer.ggml.scores", Value::Floats(vec![0.0, -1.0, -2.0])),
        ("tokenizer.ggml.token_type", Value::Signeds(vec![3, 1, 1])),
        ("tokenizer.ggml.add_bos_token", Value::Bool(true)),
        ("nested", Value::Nested(vec![Value::Unsigneds(vec![1])])),
    ] {
        metadata.insert(key.to_owned(), value);
    }
    let tensor =
        Tensor { quant: kauri_formats::Quant::Q8_0, dims: vec![3, 32], data: Bytes::from(vec![1; 102]), scales: None };
    gguf::write(Vec::new(), &metadata, [("token_embd.weight", &tensor)]).unwrap()
}

fn safetensors_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let file = |entries: &[String], data| safetensors_file(&format!("{{{}}}", entries.join(",")), data);
    let entry = |name, start: u64, end: u64| safetensors_entry(name, "I8", &(end - start).to_string(), start, end);
    let golden = fs::read(repository().join("tests/golden/formats/single/model.safetensors")).unwrap();
    vec![
        ("good-written", golden.clone()),
        ("good-empty", safetensors_file("{}", 0)),
        ("good-two", file(&[entry("b", 4, 8), entry("a", 0, 4)], 8)),
        ("bad-cut", golden[..golden.len() - 1].to_vec()),
        ("bad-length", u64::MAX.to_le_bytes().to_vec()),
        ("bad-json", safetensors_file("{\"a\":", 0)),
        ("bad-deep", safetensors_file(&format!("{{\"a\":{}", "[".repeat(300)), 0)),
        ("bad-type", file(&[safetensors_entry("a", "F8_E5M2", "1", 0, 1)], 1)),
        ("bad-product", file(&[safetensors_entry("a", "F32", "4294967296,4294967296", 0, 4)], 4)),
        ("bad-offsets", file(&[safetensors_entry("a", "I8", "4", 4, 0)], 4)),
        ("bad-outside", file(&[entry("a", 0, 5)], 4)),
        ("bad-overlap", file(&[entry("a", 0, 4), entry("b", 3, 8)], 8)),
        ("bad-gap", file(&[entry("a", 0, 3), entry("b", 4, 8)], 8)),
        ("bad-twice", file(&[entry("a", 0, 4), entry("a", 4, 8)], 8)),
        ("bad-dims", file(&[safetensors_entry("a", "I8", "1,1,1,1,1,1,1,1,1", 0, 1)], 1)),
    ]
}
