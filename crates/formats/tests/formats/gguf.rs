//! GGUF: what the reader takes, what it refuses and in which words, what the writer writes.

use indexmap::IndexMap;
use kauri_formats::metadata::Strings;
use kauri_formats::{Bytes, Error, Metadata, Quant, Tensor, Value, gguf};

use crate::raw::*;

fn refused(file: &[u8]) -> String {
    refusal(parse_gguf(file))
}

fn refused_key(key: Vec<u8>) -> String {
    refused(&gguf_file(&[key], &[], 0))
}

fn refused_tensors(tensors: &[Vec<u8>]) -> String {
    refused(&gguf_file(&[], tensors, 4096))
}

#[test]
fn a_valid_file_of_either_version_is_read() {
    let keys = [gguf_key("a", U32, 7_u32.to_le_bytes())];
    let tensors = [gguf_tensor("t", &[4, 2], TENSOR_F32, 0)];
    let mut file = gguf_file(&keys, &tensors, 32);
    for version in [2_u8, 3] {
        file[4] = version;
        let gguf = parse_gguf(&file).unwrap();
        assert_eq!(gguf.metadata.u64("a"), Some(7));
        let tensor = &gguf.tensors["t"];
        assert_eq!((tensor.quant, tensor.dims.as_slice()), (Quant::F32, &[2, 4][..]));
        assert_eq!(&*tensor.data, &[0xa5; 32]);
    }
}

#[test]
fn other_versions_and_byte_orders_are_refused_by_name() {
    for (version, message) in [
        (0, "GGUF version 0 is not supported; expected version 2 or 3"),
        (1, "GGUF version 1 is not supported; expected version 2 or 3"),
        (4, "GGUF version 4 is not supported; expected version 2 or 3"),
        (3 << 24, "big-endian GGUF is not supported; convert the model again as little-endian"),
    ] {
        assert_eq!(refused(&gguf_head(version, 0, 0)), message);
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let keys = [
        gguf_key("a", U32, 7_u32.to_le_bytes()),
        gguf_key("s", ARRAY, gguf_array(STRING, 2, [gguf_string("x"), gguf_string("yz")].concat())),
    ];
    let tensors = [gguf_tensor("t", &[8], TENSOR_F32, 0), gguf_tensor("u", &[8], TENSOR_F32, 32)];
    let file = gguf_file(&keys, &tensors, 64);
    assert!(parse_gguf(&file).is_ok());
    for length in 0..file.len() {
        let message = refused(&file[..length]);
        assert!(message.starts_with("truncated: "), "{length}: {message}");
    }
}

#[test]
fn counts_and_lengths_past_the_file_are_refused() {
    for count in [1, 1 << 32, u64::MAX / 13, u64::MAX] {
        assert!(refused(&gguf_head(3, count, 0)).starts_with("truncated: tensor table at byte 24"));
        assert!(refused(&gguf_head(3, 0, count)).starts_with("truncated: metadata at byte 24"));
        for kind in [U8, U16, F32, BOOL, STRING, ARRAY] {
            let message = refused_key(gguf_key("a", ARRAY, gguf_array(kind, count.max(1 << 20), [])));
            assert!(message.starts_with("truncated: metadata key `a`"), "{message}");
        }
        let long = count.max(1 << 20).to_le_bytes();
        assert!(refused_key(gguf_key("a", STRING, long)).starts_with("truncated: metadata key `a`"));
        let message = refused_key(gguf_key("a", ARRAY, gguf_array(STRING, 1, long)));
        assert!(message.starts_with("truncated: metadata key `a`"), "{message}");
        assert!(refused_key([&long[..], &[0; 64]].concat()).contains("is over the limit of 65535"));
        assert!(refused_tensors(&[long.to_vec(), vec![0; 64]]).contains("is over the limit of 1024"));
    }
}

#[test]
fn unknown_types_are_refused() {
    assert_eq!(refused_key(gguf_key("a", 13, [0; 8])), "metadata key `a`: expected a type of value, 0 to 12, found 13");
    assert!(refused_key(gguf_key("a", ARRAY, gguf_array(u32::MAX, 0, []))).contains("found 4294967295"));
    for number in [4, 5, 31, 36, 43, u32::MAX] {
        let message = refused_tensors(&[gguf_tensor("t", &[32], number, 0)]);
        let expected = format!("tensor `t`: type {number} is not supported; expected one of the types of ggml");
        assert_eq!(message, expected);
    }
}

#[test]
fn values_that_cannot_be_are_refused() {
    assert!(refused_key(gguf_key("a", BOOL, [2])).contains("expected a truth value, 0 or 1, found 2"));
    assert!(refused_key(gguf_key("a", ARRAY, gguf_array(BOOL, 2, [1, 9]))).contains("found 9"));
    let message = refused_key(gguf_key("a", STRING, gguf_string(b"\xff\xfe")));
    assert_eq!(message, "metadata key `a`: expected UTF-8 text, found other bytes");
    assert!(refused_key(gguf_key("a", ARRAY, gguf_array(STRING, 1, gguf_string(b"\xc3")))).contains("UTF-8"));
}

#[test]
fn arrays_nest_four_deep_and_no_deeper() {
    let nested = |depth: usize| {
        let inner = gguf_array(U8, 1, [5]);
        (1..depth).fold(inner, |inner, _| gguf_array(ARRAY, 1, inner))
    };
    let gguf = parse_gguf(&gguf_file(&[gguf_key("a", ARRAY, nested(4))], &[], 0)).unwrap();
    let mut value = gguf.metadata.get("a").unwrap();
    for _ in 1..4 {
        let Value::Nested(values) = value else { panic!("{value:?}") };
        value = &values[0];
    }
    assert!(matches!(value, Value::Unsigneds(values) if *values == [5]));
    for depth in [5, 100_000] {
        let message = refused_key(gguf_key("a", ARRAY, nested(depth)));
        assert_eq!(message, "metadata key `a`: depth of nested arrays: 5 is over the limit of 4");
    }
}

#[test]
fn names_occur_once() {
    let key = || gguf_key("a\nb", U8, [1]);
    assert_eq!(refused(&gguf_file(&[key(), key()], &[], 0)), r"metadata key `a\nb` occurs twice");
    let tensor = |offset| gguf_tensor("t", &[8], TENSOR_F32, offset);
    assert_eq!(refused_tensors(&[tensor(0), tensor(32)]), "tensor `t` occurs twice");
}

#[test]
fn dimensions_that_cannot_be_are_refused() {
    for count in [0, 5, u32::MAX] {
        let message = refused_tensors(&[gguf_tensor_of(count, "t", &[1; 5], TENSOR_F32, 0)]);
        assert_eq!(message, format!("tensor `t`: number of dimensions: expected 1 to 4, found {count}"));
    }
    let zero = refused_tensors(&[gguf_tensor("t", &[4, 0], TENSOR_F32, 0)]);
    assert_eq!(zero, "tensor `t`: dimensions [0, 4]: expected none of them zero");
    let part = refused_tensors(&[gguf_tensor("t", &[255, 2], TENSOR_Q4_K, 0)]);
    let expected = "rows of whole Q4_K blocks (256 values), less than 2^63 bytes in all";
    assert_eq!(part, format!("tensor `t`: dimensions [2, 255]: expected {expected}"));
    for dims in [
        &[1 << 32, 1 << 32][..],
        &[1 << 16, 1 << 16, 1 << 16, 1 << 16],
        &[u64::MAX],
        &[1 << 62],
        &[1 << 61],
        &[u64::MAX, u64::MAX, u64::MAX, u64::MAX],
    ] {
        let message = refused_tensors(&[gguf_tensor("t", dims, TENSOR_F32, 0)]);
        assert!(message.contains("less than 2^63 bytes in all"), "{message}");
    }
}

#[test]
fn tensors_outside_the_data_are_refused() {
    for offset in [32, 1 << 40, u64::MAX - 31] {
        let file = gguf_file(&[], &[gguf_tensor("t", &[8], TENSOR_F32, offset)], 63);
        assert!(refused(&file).starts_with("truncated: tensor `t` at byte "));
    }
    let file = gguf_file(&[], &[gguf_tensor("t", &[1 << 40], TENSOR_F32, 0)], 64);
    assert_eq!(refused(&file), "truncated: tensor `t` at byte 64 needs 4398046511104 bytes, the file has 64 more");
    let misaligned = refused_tensors(&[gguf_tensor("t", &[8], TENSOR_F32, 33)]);
    assert_eq!(misaligned, "tensor `t`: offset 33 is not a multiple of the alignment 32");
}

#[test]
fn tensors_share_no_byte_but_may_stand_in_any_order() {
    let tensor = |name, values, offset| gguf_tensor(name, &[values], TENSOR_F32, offset);
    let message = refused_tensors(&[tensor("b", 8, 32), tensor("a", 9, 0)]);
    assert_eq!(message, "tensors `a` and `b` overlap at byte 32 of the data");
    assert!(refused_tensors(&[tensor("a", 8, 0), tensor("b", 8, 0)]).contains("overlap at byte 0"));
    let file = gguf_file(&[], &[tensor("b", 8, 64), tensor("a", 8, 0)], 96);
    let gguf = parse_gguf(&file).unwrap();
    assert_eq!(gguf.tensors.keys().collect::<Vec<_>>(), ["b", "a"]);
}

#[test]
fn the_alignment_is_a_power_of_two_within_reason() {
    let file = |alignment: u32, offset| {
        let key = gguf_key("general.alignment", U32, alignment.to_le_bytes());
        gguf_file(&[key], &[gguf_tensor("t", &[8], TENSOR_F32, offset)], 4096)
    };
    for alignment in [0, 3, 33, 1 << 21, u32::MAX] {
        let message = refused(&file(alignment, 0));
        let expected = "metadata key `general.alignment`: expected a power of two up to 1048576";
        assert_eq!(message, format!("{expected}, found {alignment}"));
    }
    let text = gguf_key("general.alignment", STRING, gguf_string("32"));
    assert!(refused_key(text).ends_with("found `32`"));
    assert!(parse_gguf(&file(1, 7)).is_ok());
    assert!(refused(&file(64, 32)).contains("not a multiple of the alignment 64"));
}

#[test]
fn a_part_of_a_split_model_does_not_stand_alone_in_memory() {
    let key = |name, value: u16| gguf_key(name, U16, value.to_le_bytes());
    let file = gguf_file(&[key("split.no", 1), key("split.count", 3)], &[], 0);
    let error = refusal(kauri_formats::Checkpoint::from_bytes(&Bytes::from(file)));
    assert_eq!(error, "the rest of a model in 3 files is missing; this is part 2 alone");
}

fn sample() -> (Metadata, IndexMap<String, Tensor>) {
    let mut metadata = Metadata::default();
    let nested = vec![Value::Unsigneds(vec![1, 2]), Value::Strings(Strings::from_iter(["a", ""]))];
    for (key, value) in [
        ("general.alignment", Value::Unsigned(64)),
        ("wide", Value::Unsigned(1 << 40)),
        ("signed", Value::Signed(-(1 << 40))),
        ("narrow", Value::Float(0.5)),
        ("exact", Value::Float(0.1)),
        ("nan", Value::Float(f64::NAN)),
        ("bool", Value::Bool(true)),
        ("text", Value::String("né".to_owned())),
        ("strings", Value::Strings(Strings::from_iter(["x", "", "yz"]))),
        ("signeds", Value::Signeds(vec![-1, 1])),
        ("floats", Value::Floats(vec![0.1, f64::INFINITY])),
        ("bools", Value::Bools(vec![true, false])),
        ("nested", Value::Nested(nested)),
    ] {
        metadata.insert(key.to_owned(), value);
    }
    let tensor = |quant, dims: &[u64], bytes: usize| Tensor {
        quant,
        dims: dims.to_vec(),
        data: Bytes::from((0..bytes).map(|i| i as u8).collect::<Vec<_>>()),
        scales: None,
    };
    let tensors = [
        ("a".to_owned(), tensor(Quant::F32, &[3], 12)),
        ("b".to_owned(), tensor(Quant::Q8_0, &[2, 64], 136)),
        ("c".to_owned(), tensor(Quant::F16, &[2, 1, 3, 1], 12)),
    ];
    (metadata, IndexMap::from(tensors))
}

fn write(metadata: &Metadata, tensors: &IndexMap<String, Tensor>) -> Vec<u8> {
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    gguf::write(Vec::new(), metadata, named).unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    let (metadata, tensors) = sample();
    let file = write(&metadata, &tensors);
    let read = parse_gguf(&file).unwrap();
    assert_eq!(format!("{:?}", readable(&read.metadata)), format!("{:?}", readable(&metadata)));
    assert_eq!(read.tensors.len(), tensors.len());
    for ((name, written), (read_name, read)) in tensors.iter().zip(&read.tensors) {
        assert_eq!((name, written.quant, &written.dims), (read_name, read.quant, &read.dims));
        assert_eq!(*written.data, *read.data);
    }
    assert_eq!(write(&read.metadata, &read.tensors), file, "the same again");
}

/// Metadata as text, arrays of strings in full.
fn readable(metadata: &Metadata) -> Vec<(String, String)> {
    fn text(value: &Value) -> String {
        match value {
            Value::Strings(strings) => format!("{:?}", strings.iter().collect::<Vec<_>>()),
            Value::Nested(values) => format!("{:?}", values.iter().map(text).collect::<Vec<_>>()),
            plain => format!("{plain:?}"),
        }
    }
    metadata.iter().map(|(key, value)| (key.to_owned(), text(value))).collect()
}

#[test]
fn a_tensor_may_be_written_in_pieces_but_not_in_part() {
    let slot = gguf::Slot { name: "t", quant: Quant::F32, dims: &[2, 4] };
    let slots = [slot.clone(), gguf::Slot { name: "u", ..slot }];
    let start = || gguf::Writer::new(Vec::new(), &Metadata::default(), &slots).unwrap();
    let mut writer = start();
    for piece in [&[1; 20][..], &[2; 12], &[3; 32]] {
        writer.data(piece).unwrap();
    }
    assert!(writer.data(&[0]).is_err());
    let gguf = parse_gguf(&writer.finish().unwrap()).unwrap();
    assert_eq!(*gguf.tensors["t"].data, [[1; 20].as_slice(), &[2; 12]].concat());
    assert_eq!(*gguf.tensors["u"].data, [3; 32]);

    let mut writer = start();
    assert!(writer.data(&[0; 33]).unwrap_err().to_string().contains("takes 32 bytes"));
    let mut writer = start();
    writer.data(&[0; 32]).unwrap();
    assert!(writer.finish().unwrap_err().to_string().contains("tensor 1 is not complete"));
}

#[test]
fn what_gguf_cannot_hold_is_not_written() {
    let write = |quant, dims: &[u64]| {
        let slot = gguf::Slot { name: "t", quant, dims };
        gguf::Writer::new(Vec::new(), &Metadata::default(), &[slot]).map(|_| ())
    };
    for dims in [&[][..], &[1, 1, 1, 1, 1], &[3, 0], &[u64::MAX, 2]] {
        assert!(write(Quant::F32, dims).is_err(), "{dims:?}");
    }
    assert!(write(Quant::Q4_K, &[255]).unwrap_err().to_string().contains("Q4_K cannot hold"));
    let mut metadata = Metadata::default();
    metadata.insert("general.alignment".to_owned(), Value::Unsigned(33));
    assert!(gguf::Writer::new(Vec::new(), &metadata, &[]).is_err());
    let mut metadata = Metadata::default();
    metadata.insert("k".to_owned(), Value::Nested(vec![Value::Bool(true)]));
    assert!(gguf::Writer::new(Vec::new(), &metadata, &[]).is_err());
}

#[test]
fn memory_is_refused_before_it_is_taken() {
    let key = gguf_key("a", ARRAY, gguf_array(U8, 8 << 20, vec![0; 8 << 20]));
    let error = parse_gguf(&gguf_file(&[key], &[], 0)).unwrap_err();
    assert!(matches!(error, Error::Limit { max: 58_720_256, .. }), "{error}");
}
