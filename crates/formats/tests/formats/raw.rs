//! Files put together byte by byte, so that any of them may be wrong.

use std::path::PathBuf;

use kauri_formats::{Bytes, Error, gguf, safetensors};

/// Numbers of GGUF value types.
pub const U8: u32 = 0;
pub const U16: u32 = 2;
pub const U32: u32 = 4;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;

/// Numbers of GGUF tensor types.
pub const TENSOR_F32: u32 = 0;
pub const TENSOR_Q4_K: u32 = 12;

pub fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub fn gguf_string(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

/// A key with a value of the type of this number.
pub fn gguf_key(name: &str, kind: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    [&gguf_string(name), &kind.to_le_bytes()[..], value.as_ref()].concat()
}

/// The value of an array: type and number of its elements, and these.
pub fn gguf_array(kind: u32, count: u64, elements: impl AsRef<[u8]>) -> Vec<u8> {
    [&kind.to_le_bytes(), &count.to_le_bytes()[..], elements.as_ref()].concat()
}

/// An entry of the tensor table; `dims` as in the file, innermost first.
pub fn gguf_tensor(name: &str, dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    gguf_tensor_of(dims.len() as u32, name, dims, kind, offset)
}

/// The same, with a number of dimensions that need not be theirs.
pub fn gguf_tensor_of(dims_count: u32, name: &str, dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut entry = gguf_string(name);
    entry.extend(dims_count.to_le_bytes());
    for dim in dims {
        entry.extend(dim.to_le_bytes());
    }
    entry.extend(kind.to_le_bytes());
    entry.extend(offset.to_le_bytes());
    entry
}

/// A version 3 file with the counts of what is in it.
pub fn gguf_file(keys: &[Vec<u8>], tensors: &[Vec<u8>], data_bytes: usize) -> Vec<u8> {
    let mut file = gguf_head(3, tensors.len() as u64, keys.len() as u64);
    for part in keys.iter().chain(tensors) {
        file.extend(part);
    }
    file.resize(file.len().next_multiple_of(32), 0);
    file.resize(file.len() + data_bytes, 0xa5);
    file
}

pub fn gguf_head(version: u32, tensors: u64, keys: u64) -> Vec<u8> {
    let counts = [tensors.to_le_bytes(), keys.to_le_bytes()].concat();
    [b"GGUF", &version.to_le_bytes()[..], &counts].concat()
}

pub fn parse_gguf(file: &[u8]) -> Result<gguf::Gguf, Error> {
    gguf::parse(&Bytes::from(file.to_vec()))
}

/// A file with this header and as much data.
pub fn safetensors_file(header: &str, data_bytes: usize) -> Vec<u8> {
    let mut file = gguf_string(header);
    file.resize(file.len() + data_bytes, 0xa5);
    file
}

/// An entry of the header.
pub fn safetensors_entry(name: &str, dtype: &str, shape: &str, start: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{start},{end}]}}"#)
}

pub fn parse_safetensors(file: &[u8]) -> Result<indexmap::IndexMap<String, kauri_formats::Tensor>, Error> {
    safetensors::parse(&Bytes::from(file.to_vec()))
}

/// The message of what must be refused.
#[track_caller]
pub fn refusal<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n'), "one line: {message}");
            message
        }
    }
}
