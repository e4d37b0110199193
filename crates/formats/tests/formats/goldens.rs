//! Files of other writers, against what the formats' reference implementations read from them
//! (`tests/golden/formats/make.py`): keys, values, names, types, dimensions and a sum over the bytes of each tensor.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::{Crc, read::GzDecoder};
use indexmap::IndexMap;
use kauri_formats::{Bytes, Checkpoint, Error, Metadata, Source, Tensor, Value, gguf, safetensors};
use serde_json::{Value as Json, json};

use crate::raw::repository;

fn expected(group: &str) -> Json {
    let text = fs::read_to_string(repository().join("tests/golden/formats/expected.json")).unwrap();
    serde_json::from_str::<Json>(&text).unwrap()[group].take()
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The value of a key as bytes, as `make.py` has them.
fn canonical(value: &Value) -> Vec<u8> {
    let text = |text: &str| [text.as_bytes(), b"\0"].concat();
    match value {
        Value::Unsigned(value) => format!("{value},").into_bytes(),
        Value::Signed(value) => format!("{value},").into_bytes(),
        Value::Float(value) => value.to_le_bytes().to_vec(),
        Value::Bool(value) => format!("{},", u8::from(*value)).into_bytes(),
        Value::String(value) => text(value),
        Value::Strings(values) => values.iter().flat_map(text).collect(),
        Value::Unsigneds(values) => values.iter().flat_map(|v| format!("{v},").into_bytes()).collect(),
        Value::Signeds(values) => values.iter().flat_map(|v| format!("{v},").into_bytes()).collect(),
        Value::Floats(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Value::Bools(values) => values.iter().flat_map(|&v| format!("{},", u8::from(v)).into_bytes()).collect(),
        Value::Nested(values) => values.iter().flat_map(canonical).collect(),
    }
}

/// One file, without the files that belong to it.
fn read(bytes: &Bytes, name: &str) -> Result<(Metadata, IndexMap<String, Tensor>), Error> {
    if name.ends_with(".safetensors") {
        return Ok((Metadata::default(), safetensors::parse(bytes)?));
    }
    let gguf = gguf::parse(bytes)?;
    Ok((gguf.metadata, gguf.tensors))
}

#[test]
fn files_of_the_reference_writers_are_read_in_full() {
    let root = repository().join("tests/golden/formats");
    for (name, expected) in expected("here").as_object().unwrap() {
        let bytes = Bytes::map(&File::open(root.join(name)).unwrap()).unwrap();
        let (metadata, tensors) = read(&bytes, name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let keys: Json =
            metadata.iter().map(|(key, value)| (key.to_owned(), json!(crc32(&canonical(value))))).collect();
        assert_eq!(keys, expected.get("keys").cloned().unwrap_or(json!({})), "{name}");
        let tensors: Json = tensors
            .iter()
            .map(|(name, t)| json!([name, t.quant.name(), t.dims, t.data.len(), crc32(&t.data)]))
            .collect();
        assert_eq!(tensors, expected["tensors"], "{name}");
    }
    let message = Checkpoint::open(root.join("big-endian.gguf")).unwrap_err().to_string();
    assert!(message.contains("big-endian GGUF is not supported"), "{message}");
}

/// Counts and the sum over everything, as `make.py` has them.
fn digest(metadata: &Metadata, tensors: &IndexMap<String, Tensor>) -> Json {
    let mut lines = String::new();
    for (key, value) in metadata.iter() {
        writeln!(lines, "{key} {}", crc32(&canonical(value))).unwrap();
    }
    for (name, tensor) in tensors {
        let dims: Vec<String> = tensor.dims.iter().map(u64::to_string).collect();
        let (kind, dims, size) = (tensor.quant.name(), dims.join("x"), tensor.data.len());
        writeln!(lines, "{name} {kind} {dims} {size} {}", crc32(&tensor.data)).unwrap();
    }
    let crc = crc32(lines.trim_end_matches('\n').as_bytes());
    json!({"keys": metadata.iter().len(), "tensors": tensors.len(), "crc32": crc})
}

/// The file, unpacked into `scratch` if need be.
fn unpacked(path: &Path, scratch: &Path) -> PathBuf {
    if path.extension().is_none_or(|extension| extension != "gz") {
        return path.to_owned();
    }
    let target = scratch.join(path.file_stem().unwrap());
    let mut packed = GzDecoder::new(File::open(path).unwrap());
    io::copy(packed.by_ref(), &mut File::create(&target).unwrap()).unwrap();
    target
}

/// Families with tensors of types that are refused by name.
const REFUSED: [(&str, &str); 1] = [("families/deepseek4/model.safetensors", "`F8_E8M0` is not supported")];

#[test]
fn shared_models_are_read_in_full() {
    let root = repository().join("../shared/fixtures");
    if !root.exists() {
        eprintln!("skipped: no shared fixtures at {}", root.display());
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut read = 0;
    for (name, expected) in expected("shared").as_object().unwrap() {
        let opened = Checkpoint::open(unpacked(&root.join(name), scratch.path()));
        if let Some((_, message)) = REFUSED.iter().find(|(refused, _)| refused == name) {
            assert!(opened.unwrap_err().to_string().contains(message), "{name}");
            continue;
        }
        let checkpoint = opened.unwrap_or_else(|error| panic!("{error}"));
        checkpoint.verify_unchanged().unwrap();
        let none = Metadata::default();
        let metadata = match &checkpoint.source {
            Source::Gguf(metadata) => metadata,
            Source::Safetensors(directory) => {
                assert!(directory.config.contains_key("model_type") && directory.tokenizer.is_some(), "{name}");
                &none
            }
        };
        assert_eq!(&digest(metadata, &checkpoint.tensors), expected, "{name}");
        read += 1;
    }
    assert!(read > 60, "only {read} models read");
}
