//! Any bytes as a GGUF file: read in full if accepted, written, and read again.
#![no_main]

use kauri_formats::{Bytes, Value, gguf};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = gguf::parse(&Bytes::from(bytes.to_vec())) else {
        return;
    };
    for (_, value) in read.metadata.iter() {
        if let Value::Strings(strings) = value {
            assert!((0..strings.len()).all(|index| strings.get(index).is_some()));
        }
    }
    for tensor in read.tensors.values() {
        let columns = tensor.dims.last().copied().unwrap_or(1) as usize;
        let rows: u64 = tensor.dims.iter().rev().skip(1).product();
        assert_eq!(
            tensor.quant.row_bytes(columns).unwrap() * rows as usize,
            tensor.data.len()
        );
    }
    let tensors = read.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let written = gguf::write(Vec::new(), &read.metadata, tensors).expect("what was read can be written");
    let again = gguf::parse(&Bytes::from(written)).expect("what was written can be read");
    assert_eq!(again.tensors.len(), read.tensors.len());
});
