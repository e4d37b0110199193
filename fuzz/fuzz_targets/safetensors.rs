//! Any bytes as a safetensors file: what is accepted fills the data to the byte.
#![no_main]

use kauri_formats::{Bytes, safetensors};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(tensors) = safetensors::parse(&Bytes::from(bytes.to_vec())) else {
        return;
    };
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let data: usize = tensors.values().map(|tensor| tensor.data.len()).sum();
    assert_eq!(8 + header + data, bytes.len());
});
