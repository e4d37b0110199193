//! Everything that can be wrong with a model file, one line of text each.
//!
//! Messages go to a person: they say which file, which field or tensor, what was found and what was expected. Names taken
//! from a file are quoted, escaped and cut, so that a hostile file can neither break the line nor drive the terminal.

use std::io;
use std::path::Path;

/// Why a model file was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A fault in a named file.
    #[error("{file}: {fault}")]
    In {
        /// The path as it was given, or the directory's path and the file's name.
        file: String,
        /// What is wrong with it; never another `In`.
        fault: Box<Error>,
    },

    /// The operating system refused.
    #[error("cannot {action}: {reason}")]
    Io {
        /// What was tried: "open", "map", "read".
        action: &'static str,
        /// What the system answered.
        reason: io::Error,
    },

    // What a file is, where that is no model.
    /// Zero bytes.
    #[error("the file is empty; expected a GGUF or safetensors file")]
    Empty,
    /// A pipe, a device or another thing that cannot be mapped.
    #[error("not a regular file; expected a GGUF or safetensors file, or a model directory")]
    NotAFile,
    /// Readable text.
    #[error("this is a text file, not a model; expected a GGUF or safetensors file, or a model directory")]
    Text,
    /// The stand-in that git keeps for a large file.
    #[error("this is a Git LFS pointer, not the model itself; run `git lfs pull` to fetch the file")]
    LfsPointer,
    /// A Python pickle, bare or in a zip archive.
    #[error("pickle checkpoints can run code when they are read; convert it to safetensors or GGUF")]
    Pickle,
    /// A format from before GGUF.
    #[error("this is a legacy {magic} file from before GGUF; convert the original model to GGUF again")]
    Legacy {
        /// Its magic, as text.
        magic: &'static str,
    },
    /// None of the above.
    #[error("not a model file: it begins with bytes {first:02x?}; expected a GGUF or safetensors file")]
    UnknownMagic {
        /// The first bytes, at most four.
        first: Vec<u8>,
    },
    /// A GGUF file of the other byte order.
    #[error("big-endian GGUF is not supported; convert the model again as little-endian")]
    BigEndian,
    /// A GGUF version other than 2 and 3.
    #[error("GGUF version {version} is not supported; expected version 2 or 3")]
    Version {
        /// The version in the file.
        version: u32,
    },

    // What a file says, where that cannot be.
    /// The file ends before something that it announces.
    #[error("truncated: {what} at byte {at} needs {needed} bytes, the file has {left} more")]
    Truncated {
        /// The field or tensor.
        what: String,
        /// Its offset from the start of the file.
        at: u64,
        /// The bytes it takes.
        needed: u64,
        /// The bytes from there to the end of the file.
        left: u64,
    },
    /// More of something than is accepted.
    #[error("{what}: {value} is over the limit of {max}")]
    Limit {
        /// The field.
        what: String,
        /// What the file asks for.
        value: u64,
        /// What is accepted.
        max: u64,
    },
    /// A field with a value that it cannot have.
    #[error("{what}: expected {expected}, found {found}")]
    Value {
        /// The field.
        what: String,
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A name that may occur once and occurs again.
    #[error("{what} occurs twice")]
    Duplicate {
        /// The key, tensor or field.
        what: String,
    },
    /// A tensor of a type that kauri does not read.
    #[error("tensor {tensor}: type {found} is not supported; expected one of {expected}")]
    TensorType {
        /// Its name, quoted.
        tensor: String,
        /// Name or number of the type.
        found: String,
        /// What is read.
        expected: &'static str,
    },
    /// A tensor whose dimensions make no sense.
    #[error("tensor {tensor}: dimensions {dims:?}: expected {expected}")]
    TensorDims {
        /// Its name, quoted.
        tensor: String,
        /// The dimensions as they stand in the file, at most the first eight.
        dims: Vec<u64>,
        /// What is accepted.
        expected: String,
    },
    /// A tensor that does not start where it may.
    #[error("tensor {tensor}: offset {offset} is not a multiple of the alignment {alignment}")]
    Misaligned {
        /// Its name, quoted.
        tensor: String,
        /// Offset in the data section, in bytes.
        offset: u64,
        /// Of the file, in bytes.
        alignment: u64,
    },
    /// Two tensors that share bytes.
    #[error("tensors {tensor} and {other} overlap at byte {offset} of the data")]
    Overlap {
        /// The name of the one that starts first, quoted.
        tensor: String,
        /// The name of the one that starts inside it, quoted.
        other: String,
        /// Offset in the data section, in bytes.
        offset: u64,
    },
    /// Text that is no JSON, or not the JSON that belongs there.
    #[error("{what}: {reason}")]
    Json {
        /// The file or the part of it.
        what: &'static str,
        /// With line and column.
        reason: String,
    },

    // What a model of several files lacks.
    /// A file that must be there.
    #[error("{name} is missing; {expected}")]
    MissingFile {
        /// Its name, or names that would do.
        name: String,
        /// Why it must be there.
        expected: String,
    },
    /// A tensor that the index promises.
    #[error("tensor {tensor}: the index names it, but no shard holds it")]
    MissingTensor {
        /// Its name, quoted.
        tensor: String,
    },
    /// A file that changed under an open checkpoint.
    #[error("the file changed while it was in use ({change}); open the model again")]
    Changed {
        /// What differs.
        change: String,
    },
}

impl Error {
    /// Adds the file to a fault, unless it names one already.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::In { .. } => self,
            fault => Self::In { file: path.display().to_string(), fault: Box::new(fault) },
        }
    }

    /// The fault itself, without the file.
    #[must_use]
    pub fn fault(&self) -> &Self {
        match self {
            Self::In { fault, .. } => fault,
            fault => fault,
        }
    }
}

/// A name from a file, fit for a message: quoted, control characters escaped, cut after 80 characters.
pub(crate) fn quoted(name: &str) -> String {
    const SHOWN_CHARS: usize = 80;
    let mut shown: String = name.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_files_stay_on_one_line() {
        assert_eq!(quoted("a\n\u{1b}[31mb"), "`a\\n\\u{1b}[31mb`");
        assert_eq!(quoted(&"x".repeat(500)), format!("`{}…`", "x".repeat(80)));
    }

    #[test]
    fn a_fault_names_its_file_once() {
        let error = Error::Empty.in_file(Path::new("inner.gguf")).in_file(Path::new("outer"));
        assert_eq!(error.to_string(), "inner.gguf: the file is empty; expected a GGUF or safetensors file");
        assert!(matches!(error.fault(), Error::Empty));
    }
}
