//! What every model file becomes: where it came from, and named tensors over mapped bytes.
//!
//! Names and settings stay as the file has them; what they mean is the business of `arch`.

use std::path::PathBuf;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

use crate::mapping::Bytes;
use crate::metadata::Metadata;
use crate::quant::Quant;

/// An opened model: settings and tensors, memory-mapped.
#[derive(Debug)]
pub struct Checkpoint {
    /// The files it was read from, in order; empty for a model linked into the binary.
    pub paths: Vec<PathBuf>,
    /// Settings, as the format keeps them.
    pub source: Source,
    /// Tensors by the file's own names, in file order.
    pub tensors: IndexMap<String, Tensor>,
}

/// The settings that came with the tensors.
#[derive(Debug)]
pub enum Source {
    /// One or more GGUF files.
    Gguf(Metadata),
    /// A directory in the Hugging Face layout.
    Safetensors(Box<Directory>),
}

/// The JSON files of a safetensors directory.
#[derive(Debug, Default)]
pub struct Directory {
    /// `config.json`.
    pub config: Map<String, Json>,
    /// `generation_config.json`, empty when absent.
    pub generation: Map<String, Json>,
    /// `tokenizer.json` as it is, if there.
    pub tokenizer: Option<Bytes>,
    /// `tokenizer_config.json`, empty when absent.
    pub tokenizer_config: Map<String, Json>,
    /// `chat_template.jinja` if there, else the template in `tokenizer_config.json`.
    pub chat_template: Option<String>,
}

/// One tensor: its type, its dimensions and its bytes.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// How its values are stored.
    pub quant: Quant,
    /// Dimensions, outermost first: a matrix is `(rows, columns)`, and a row is contiguous.
    pub dims: Vec<u64>,
    /// The stored bytes.
    pub data: Bytes,
}
