//! What every model file becomes: where it came from, and named tensors over mapped bytes.
//!
//! Names and settings stay as the file has them; what they mean is the business of `arch`. What is no GGUF and no safetensors
//! is refused here by what it is, pickles first of all: reading one can run code.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

use crate::error::Error;
use crate::gguf;
use crate::mapping::Bytes;
use crate::metadata::{Metadata, Value};
use crate::quant::Quant;
use crate::safetensors;
use crate::scales::Scales;

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
///
/// JSON has no infinity. Published files have a bare `Infinity`, `-Infinity` or `NaN`, or the object
/// `{"__float__": "Infinity"}`; all of these become the strings `"Infinity"`, `"-Infinity"`, `"NaN"`, which nobody
/// can mistake for a finite number.
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
    /// `1_Pooling/config.json`, as sentence-transformers writes it; empty when absent.
    pub pooling: Map<String, Json>,
}

/// One tensor: its type, its dimensions and its bytes.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// How its values are stored.
    pub quant: Quant,
    /// Dimensions, outermost first: a matrix is `(rows, columns)`, and a row is contiguous.
    pub dims: Vec<u64>,
    /// The stored bytes: as many as type and dimensions say, at no particular alignment. Where [`Scales::Sixteens`] are apart, codes alone.
    pub data: Bytes,
    /// What the file keeps apart from the values.
    pub scales: Option<Box<Scales>>,
}

impl Checkpoint {
    /// Opens a GGUF file (any part of a split one), a `.safetensors` file or a model directory. Which it is, the content
    /// says, not the name.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if path.is_dir() {
            return safetensors::open_directory(path);
        }
        let bytes = map(path).map_err(|error| error.in_file(path))?;
        match Kind::of(&bytes, path).map_err(|error| error.in_file(path))? {
            Kind::Gguf => gguf::open_all(path, &bytes),
            Kind::Safetensors => safetensors::open_file(path),
        }
    }

    /// Opens an adapter: a GGUF file, or a directory as PEFT writes it, by its own name or that of a file in it. That it is one, and of
    /// which model, its settings say.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub fn open_adapter(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if path.is_dir() {
            return safetensors::open_adapter(path);
        }
        let is_of_directory = |name: &str| name == "adapter_config.json" || name.ends_with(".safetensors");
        if path.file_name().and_then(|name| name.to_str()).is_some_and(is_of_directory) {
            return safetensors::open_adapter(path.parent().unwrap_or(Path::new(".")));
        }
        Self::open(path)
    }

    /// Reads a GGUF file linked into the binary. [`Aligned`](crate::mapping::Aligned) puts it at a good address.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_static(bytes: &'static [u8]) -> Result<Self, Error> {
        Self::from_bytes(&Bytes::from_static(bytes))
    }

    /// Reads a whole GGUF file that is in memory already.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_bytes(bytes: &Bytes) -> Result<Self, Error> {
        let gguf = gguf::parse(bytes)?;
        gguf.refuse_part()?;
        Ok(Self { paths: Vec::new(), source: Source::Gguf(gguf.metadata), tensors: gguf.tensors })
    }

    /// Whether the files still are what they were when they were opened. One `fstat` a file: cheap enough to ask before
    /// every step. [`mapping`](crate::mapping) says what it protects from, and what it cannot.
    ///
    /// # Errors
    /// [`Error::Changed`].
    pub fn verify_unchanged(&self) -> Result<(), Error> {
        let mut verified: Option<&Bytes> = None;
        for bytes in self.mapped() {
            if verified.is_none_or(|verified| !verified.same_mapping(bytes)) {
                bytes.verify_unchanged().map_err(|change| {
                    let changed = Error::Changed { change: change.to_string() };
                    match self.paths.as_slice() {
                        [only] => changed.in_file(only),
                        _ => changed,
                    }
                })?;
            }
            verified = Some(bytes);
        }
        Ok(())
    }

    /// Keeps all files in memory, so that the system never takes their pages back: reads what is not there yet.
    ///
    /// # Errors
    /// Those of the operating system, which limits how much a process may keep.
    pub fn lock(&self) -> io::Result<()> {
        self.files().try_for_each(Bytes::lock)
    }

    /// One range of bytes of each file that has tensors.
    pub fn files(&self) -> impl Iterator<Item = &Bytes> {
        let mut last: Option<&Bytes> = None;
        let stored = self.tensors.values().flat_map(Tensor::stored);
        stored.filter(move |&bytes| !last.replace(bytes).is_some_and(|last| last.same_mapping(bytes)))
    }

    /// Every range of bytes that is read after opening; those of a file stand together.
    fn mapped(&self) -> impl Iterator<Item = &Bytes> {
        let (metadata, tokenizer) = match &self.source {
            Source::Gguf(metadata) => (Some(metadata), None),
            Source::Safetensors(directory) => (None, directory.tokenizer.as_ref()),
        };
        let strings = metadata.into_iter().flat_map(Metadata::iter);
        let strings = strings.filter_map(|(_, value)| match value {
            Value::Strings(strings) => Some(strings.bytes()),
            _ => None,
        });
        let tensors = self.tensors.values().flat_map(Tensor::stored);
        strings.chain(tokenizer).chain(tensors)
    }
}

/// Maps a file, which must be one: a pipe would wait for ever.
pub(crate) fn map(path: &Path) -> Result<Bytes, Error> {
    let io = |action| move |reason| Error::Io { action, reason };
    if !fs::metadata(path).map_err(io("open"))?.is_file() {
        return Err(Error::NotAFile);
    }
    Bytes::map(&File::open(path).map_err(io("open"))?).map_err(io("map"))
}

/// Extensions of pickles, where the content says nothing.
pub(crate) const PICKLE_EXTENSIONS: [&str; 5] = ["bin", "pt", "pth", "ckpt", "pkl"];

/// Fails if a file that should be safetensors is something else: a pickle, a pointer, a page of text.
pub(crate) fn refuse_others(bytes: &[u8], path: &Path) -> Result<(), Error> {
    match Kind::of(bytes, path)? {
        Kind::Safetensors => Ok(()),
        Kind::Gguf => Err(Error::Value {
            what: "content".to_owned(),
            expected: "safetensors, as the name says",
            found: "GGUF".to_owned(),
        }),
    }
}

/// What a file is.
enum Kind {
    Gguf,
    Safetensors,
}

impl Kind {
    /// Looks at the first bytes; the name helps only where these say nothing.
    fn of(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        const HEAD_BYTES: usize = 256;
        let head = &bytes[..bytes.len().min(HEAD_BYTES)];
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match head {
            [] => Err(Error::Empty),
            [b'G', b'G', b'U', b'F', ..] => Ok(Self::Gguf),
            [b'F', b'U', b'G', b'G', ..] => Err(Error::BigEndian),
            [b'l', b'm', b'g', b'g', ..] => Err(Error::Legacy { magic: "ggml" }),
            [b'f', b'm', b'g', b'g', ..] => Err(Error::Legacy { magic: "ggmf" }),
            [b't', b'j', b'g', b'g', ..] => Err(Error::Legacy { magic: "ggjt" }),
            [b'a', b'l', b'g', b'g', ..] => Err(Error::Legacy { magic: "ggla" }),
            // A zip archive, as torch.save makes; a bare pickle of protocol 2 to 5.
            [b'P', b'K', 3, 4, ..] | [0x80, 2..=5, ..] => Err(Error::Pickle),
            _ if head.starts_with(b"version https://git-lfs") => Err(Error::LfsPointer),
            _ if is_text(head) => Err(Error::Text),
            _ if extension == "safetensors" => Ok(Self::Safetensors),
            _ if PICKLE_EXTENSIONS.contains(&extension) => Err(Error::Pickle),
            _ => Err(Error::UnknownMagic { first: head[..head.len().min(4)].to_vec() }),
        }
    }
}

/// Whether a file's first bytes are text: UTF-8 (the last character may be cut) without control characters.
fn is_text(head: &[u8]) -> bool {
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or(""),
        Err(_) => return false,
    };
    !valid.is_empty() && !valid.contains(|c: char| c.is_control() && !c.is_ascii_whitespace())
}
