//! Vocabularies for tests: those of the repository, and small ones made on the spot.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use kauri_formats::{Bytes, Checkpoint};
use kauri_tokenizer::{Error, Tokenizer};
use serde_json::{Map, Value as Json};

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the vectors in the repository.
pub fn golden(name: &str) -> PathBuf {
    repository().join("tests/golden/tokenizers").join(name)
}

/// A path beside the repository, where more vectors may be.
pub fn shared(path: &str) -> Option<PathBuf> {
    let path = repository().join("../shared").join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

pub fn json(path: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The texts that go with the vectors.
pub fn texts() -> Vec<String> {
    let texts = json(&golden("texts.json"));
    texts.as_array().unwrap().iter().map(|entry| entry["text"].as_str().unwrap().to_owned()).collect()
}

pub fn unpacked(path: &Path) -> Checkpoint {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    Checkpoint::from_bytes(&Bytes::from(bytes)).unwrap()
}

/// A vocabulary of the repository: `bert-bge`, `deepseek-coder` or `llama-spm`.
pub fn vocabulary(name: &str) -> Tokenizer {
    Tokenizer::from_checkpoint(&unpacked(&golden(&format!("{name}.gguf.gz")))).unwrap()
}

/// One of each kind.
pub fn each_kind() -> Vec<Tokenizer> {
    ["bert-bge", "deepseek-coder", "llama-spm"].map(vocabulary).into_iter().chain([unigram()]).collect()
}

pub fn from_json(json: &Json) -> Result<Tokenizer, Error> {
    Tokenizer::from_json(json.to_string().as_bytes(), &Map::new())
}

/// The metadata of a GGUF file, to be changed and read.
#[derive(Clone)]
pub struct File {
    entries: Vec<(String, Entry)>,
}

#[derive(Clone)]
pub enum Entry {
    Text(String),
    Number(u32),
    Truth(bool),
    Texts(Vec<String>),
    Numbers(Vec<i32>),
    Fractions(Vec<f32>),
    Bytes(Vec<u8>),
}

impl File {
    pub fn new(model: &str) -> Self {
        Self { entries: Vec::new() }.with("model", Entry::Text(model.into()))
    }

    /// Sets `tokenizer.ggml.<key>`.
    pub fn with(mut self, key: &str, entry: Entry) -> Self {
        let key = format!("tokenizer.ggml.{key}");
        self.entries.retain(|(other, _)| *other != key);
        self.entries.push((key, entry));
        self
    }

    pub fn texts(self, key: &str, texts: &[&str]) -> Self {
        self.with(key, Entry::Texts(texts.iter().map(|&text| text.to_owned()).collect()))
    }

    pub fn without(mut self, key: &str) -> Self {
        self.entries.retain(|(other, _)| *other != format!("tokenizer.ggml.{key}"));
        self
    }

    pub fn read(&self) -> Result<Tokenizer, Error> {
        Tokenizer::from_checkpoint(&Checkpoint::from_bytes(&Bytes::from(self.bytes())).unwrap())
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        bytes.extend((self.entries.len() as u64).to_le_bytes());
        for (key, entry) in &self.entries {
            text(key, &mut bytes);
            entry.write(&mut bytes);
        }
        bytes
    }
}

impl Entry {
    fn write(&self, bytes: &mut Vec<u8>) {
        let mut array = |kind: u32, count: usize| {
            bytes.extend(9u32.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend((count as u64).to_le_bytes());
        };
        match self {
            Self::Text(value) => {
                bytes.extend(8u32.to_le_bytes());
                text(value, bytes);
            }
            Self::Number(value) => {
                bytes.extend(4u32.to_le_bytes());
                bytes.extend(value.to_le_bytes());
            }
            Self::Truth(value) => {
                bytes.extend(7u32.to_le_bytes());
                bytes.push(u8::from(*value));
            }
            Self::Texts(values) => {
                array(8, values.len());
                for value in values {
                    text(value, bytes);
                }
            }
            Self::Numbers(values) => {
                array(5, values.len());
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
            Self::Fractions(values) => {
                array(6, values.len());
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
            Self::Bytes(values) => {
                array(0, values.len());
                bytes.extend(values);
            }
        }
    }
}

fn text(value: &str, bytes: &mut Vec<u8>) {
    bytes.extend((value.len() as u64).to_le_bytes());
    bytes.extend(value.as_bytes());
}

/// A byte-level vocabulary of eight tokens.
pub fn small_bpe() -> File {
    File::new("gpt2")
        .with("pre", Entry::Text("gpt-2".into()))
        .texts("tokens", &["a", "b", "c", "Ġ", "ab", "abc", "<|im_end|>", "<tool>"])
        .with("token_type", Entry::Numbers(vec![1, 1, 1, 1, 1, 1, 3, 4]))
        .texts("merges", &["a b", "ab c"])
        .with("eos_token_id", Entry::Number(6))
}

/// A SentencePiece vocabulary without byte tokens.
pub fn small_spm() -> File {
    File::new("llama")
        .texts("tokens", &["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab"])
        .with("token_type", Entry::Numbers(vec![2, 3, 3, 1, 1, 1, 1, 1]))
        .with("scores", Entry::Fractions(vec![0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -0.5, -0.7]))
}

/// A unigram vocabulary of a few words.
pub fn small_unigram() -> File {
    let tokens = ["<pad>", "</s>", "<unk>", "▁", "a", "b", "ab", "▁a", "▁ab", "ba", "中", "▁中", "aaaa"];
    let scores = vec![0.0, 0.0, 0.0, -2.0, -3.0, -3.1, -4.0, -3.5, -5.2, -4.1, -6.0, -9.5, -4.4];
    File::new("t5")
        .texts("tokens", &tokens)
        .with("token_type", Entry::Numbers([vec![3, 3, 2], vec![1; 10]].concat()))
        .with("scores", Entry::Fractions(scores))
        .with("add_space_prefix", Entry::Truth(true))
}

pub fn unigram() -> Tokenizer {
    small_unigram().read().unwrap()
}
