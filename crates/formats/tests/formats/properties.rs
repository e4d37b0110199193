//! Any bytes at all: never a panic, and what is accepted lies in the file.

use kauri_formats::{Quant, Tensor};
use proptest::prelude::*;

use crate::raw::*;

/// Every tensor has as many bytes as its type and dimensions say.
fn check(tensors: &indexmap::IndexMap<String, Tensor>, file_bytes: usize) {
    for (name, tensor) in tensors {
        let columns = tensor.dims.last().copied().unwrap_or(1) as usize;
        let rows: u64 = tensor.dims.iter().rev().skip(1).product();
        assert_eq!(tensor.quant.row_bytes(columns).unwrap() * rows as usize, tensor.data.len(), "{name}");
        assert!(tensor.data.len() <= file_bytes, "{name}");
    }
}

/// A file, and edits to it: bytes overwritten, or a number of eight bytes, which hits counts and offsets.
fn mutated(file: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let length = file.len();
    let number = prop_oneof![any::<u64>(), 0..64_u64, (0..64_u32).prop_map(|bit| 1 << bit), Just(u64::MAX)];
    let byte = (0..length, any::<u8>().prop_map(|byte| vec![byte]));
    let eight = (0..length, number.prop_map(|number| number.to_le_bytes().to_vec()));
    let edits = prop::collection::vec(prop_oneof![byte, eight], 1..4);
    (edits, prop_oneof![3 => Just(length), 1 => 0..length]).prop_map(move |(edits, kept)| {
        let mut file = file.clone();
        for (at, bytes) in edits {
            let end = length.min(at + bytes.len());
            file[at..end].copy_from_slice(&bytes[..end - at]);
        }
        file.truncate(kept);
        file
    })
}

fn valid_gguf() -> Vec<u8> {
    let strings = [gguf_string("x"), gguf_string("yz")].concat();
    let nested = [gguf_array(U8, 2, [1, 2]), gguf_array(STRING, 1, gguf_string("n"))].concat();
    let keys = [
        gguf_key("general.alignment", U32, 32_u32.to_le_bytes()),
        gguf_key("s", STRING, gguf_string("text")),
        gguf_key("strings", ARRAY, gguf_array(STRING, 2, strings)),
        gguf_key("nested", ARRAY, gguf_array(ARRAY, 2, nested)),
        gguf_key("b", BOOL, [1]),
    ];
    let tensors = [
        gguf_tensor("a", &[8, 2], TENSOR_F32, 0),
        gguf_tensor("q", &[256, 2], TENSOR_Q4_K, 64),
        gguf_tensor("i", &[1, 1, 1, 4], Quant::I8.ggml().unwrap(), 352),
    ];
    gguf_file(&keys, &tensors, 356)
}

fn valid_safetensors() -> Vec<u8> {
    let entries = [
        r#""__metadata__":{"format":"pt"}"#.to_owned(),
        safetensors_entry("a", "F32", "2,3", 0, 24),
        safetensors_entry("b", "BF16", "4", 24, 32),
        safetensors_entry("none", "I8", "0", 32, 32),
    ];
    safetensors_file(&format!("{{{}}}", entries.join(",")), 32)
}

#[test]
fn the_files_to_mutate_are_valid() {
    check(&parse_gguf(&valid_gguf()).unwrap().tensors, 2048);
    check(&parse_safetensors(&valid_safetensors()).unwrap(), 2048);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_as_gguf(bytes in prop::collection::vec(any::<u8>(), 0..300), counts in any::<(u8, u8)>()) {
        let _ = parse_gguf(&bytes);
        let headed = [gguf_head(3, u64::from(counts.0), u64::from(counts.1)), bytes].concat();
        let _ = parse_gguf(&headed).map(|gguf| check(&gguf.tensors, headed.len()));
    }

    #[test]
    fn a_mutated_gguf(file in mutated(valid_gguf())) {
        let _ = parse_gguf(&file).map(|gguf| check(&gguf.tensors, file.len()));
    }

    #[test]
    fn any_bytes_as_safetensors(bytes in prop::collection::vec(any::<u8>(), 0..300), header in ".{0,100}") {
        let _ = parse_safetensors(&bytes);
        let _ = parse_safetensors(&safetensors_file(&header, bytes.len()));
    }

    #[test]
    fn a_mutated_safetensors(file in mutated(valid_safetensors())) {
        let _ = parse_safetensors(&file).map(|tensors| check(&tensors, file.len()));
    }
}
