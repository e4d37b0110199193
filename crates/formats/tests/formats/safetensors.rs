//! safetensors: what the header's reader takes, and what it refuses and in which words.

use kauri_formats::Quant;

use crate::raw::*;

fn refused(header: &str, data_bytes: usize) -> String {
    refusal(parse_safetensors(&safetensors_file(header, data_bytes)))
}

fn refused_entry(entry: &str, data_bytes: usize) -> String {
    refused(&format!("{{{entry}}}"), data_bytes)
}

#[test]
fn a_valid_file_is_read() {
    let entries = [
        r#""__metadata__":{"format":"pt"}"#.to_owned(),
        safetensors_entry("b", "BF16", "2,3", 4, 16),
        safetensors_entry("scalar", "F32", "", 0, 4),
        safetensors_entry("none", "I64", "0,7", 4, 4),
    ];
    let tensors = parse_safetensors(&safetensors_file(&format!("{{{}}}", entries.join(",")), 12 + 4)).unwrap();
    assert_eq!(tensors.keys().collect::<Vec<_>>(), ["b", "scalar", "none"]);
    let b = &tensors["b"];
    assert_eq!((b.quant, b.dims.as_slice(), b.data.len()), (Quant::BF16, &[2, 3][..], 12));
    assert_eq!((tensors["scalar"].dims.len(), tensors["none"].data.len()), (0, 0));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let file = safetensors_file(&format!("{{{}}}", safetensors_entry("t", "I8", "4", 0, 4)), 4);
    assert!(parse_safetensors(&file).is_ok());
    for length in 0..file.len() {
        let message = refusal(parse_safetensors(&file[..length]));
        assert!(message.starts_with("truncated: "), "{length}: {message}");
    }
}

#[test]
fn a_header_longer_than_file_or_limit_is_refused() {
    let with_length = |length: u64| [&length.to_le_bytes(), &b"{}"[..]].concat();
    let refused = |length| refusal(parse_safetensors(&with_length(length)));
    assert_eq!(refused(3), "truncated: the safetensors header at byte 8 needs 3 bytes, the file has 2 more");
    for length in [100_000_001, u64::MAX] {
        let expected = format!("length of the safetensors header, in bytes: {length} is over the limit of 100000000");
        assert_eq!(refused(length), expected);
    }
}

#[test]
fn types_that_are_not_read_are_refused_by_name() {
    for dtype in ["U16", "BOOL", "F8_E5M2", "F8_E8M0", "U64", "f32", ""] {
        let message = refused_entry(&safetensors_entry("a.b", dtype, "1", 0, 1), 1);
        assert!(message.starts_with(&format!("tensor `a.b`: type `{dtype}` is not supported")), "{message}");
    }
}

#[test]
fn names_and_fields_occur_once() {
    let entry = |start, end| safetensors_entry("t", "I8", "1", start, end);
    assert_eq!(refused_entry(&[entry(0, 1), entry(1, 2)].join(","), 2), "tensor `t` occurs twice");
    let twice = r#""t":{"dtype":"I8","dtype":"I8","shape":[1],"data_offsets":[0,1]}"#;
    assert!(refused_entry(twice, 1).contains("duplicate field `dtype`"));
}

#[test]
fn shapes_and_offsets_must_agree() {
    for (shape, start, end) in [
        ("3", 0, 4),
        ("", 0, 4),
        ("4", 4, 0),
        ("4294967296,4294967296", 0, 4),
        ("18446744073709551615,2", 0, 4),
        ("4", u64::MAX, u64::MAX),
    ] {
        let message = refused_entry(&safetensors_entry("t", "I8", shape, start, end), 4);
        assert!(message.starts_with("tensor `t`: dimensions ["), "{message}");
    }
    let outside = refused_entry(&safetensors_entry("t", "I8", "5", 0, 5), 4);
    assert_eq!(outside, "truncated: data of tensor `t` at byte 0 needs 5 bytes, the file has 4 more");
}

#[test]
fn the_data_is_filled_without_gap_or_overlap() {
    let entry = |name, start: u64, end: u64| safetensors_entry(name, "I8", &(end - start).to_string(), start, end);
    let refused = |entries: &[String]| refused_entry(&entries.join(","), 8);
    let message = refused(&[entry("b", 3, 8), entry("a", 0, 4)]);
    assert_eq!(message, "tensors `a` and `b` overlap at byte 3 of the data");
    assert!(refused(&[entry("a", 0, 8), entry("b", 2, 4)]).contains("overlap"));
    assert!(refused(&[entry("a", 0, 3), entry("b", 4, 8)]).contains("found 1 bytes of no tensor"));
    assert!(refused(&[entry("a", 2, 8)]).starts_with("data at byte 0: "));
    assert!(refused(&[entry("a", 0, 7)]).starts_with("data at byte 7: "));
    assert!(refused(&[]).contains("found 8 bytes of no tensor"));
}

#[test]
fn a_header_that_is_no_table_is_refused() {
    for header in ["", "[]", "{", "null", "{}x", "{\"t\":1}", "{\"t\":{}}", "\u{feff}{}"] {
        let message = refused(header, 0);
        assert!(message.starts_with("safetensors header: "), "{header}: {message}");
    }
    let fields = |extra: &str| format!(r#""t":{{"dtype":"I8","shape":[1],"data_offsets":[0,1]{extra}}}"#);
    assert!(refused_entry(&fields(r#","more":1"#), 1).contains("unknown field `more`"));
    let negative = fields("").replace("[1]", "[-1]");
    assert!(refused_entry(&negative, 1).contains("expected u64"));
    let three = fields("").replace("[0,1]", "[0,1,2]");
    assert!(refused_entry(&three, 1).contains("trailing characters"));
}

#[test]
fn dimensions_names_and_depth_are_limited() {
    let dims = |count: usize| vec!["1"; count].join(",");
    let entry = |dims: &str| safetensors_entry("t", "I8", dims, 0, 1);
    assert!(parse_safetensors(&safetensors_file(&format!("{{{}}}", entry(&dims(8))), 1)).is_ok());
    assert!(refused_entry(&entry(&dims(9)), 1).contains("expected at most 8 dimensions"));
    assert!(refused_entry(&entry(&dims(1_000_000)), 1).contains("expected at most 8 dimensions"));
    let long = safetensors_entry(&"n".repeat(1025), "I8", "1", 0, 1);
    assert!(refused_entry(&long, 1).contains("1025 is over the limit of 1024"));
    let deep = format!(r#""t":{}{}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(refused_entry(&deep, 0).starts_with("safetensors header: "));
    let metadata = format!(r#""__metadata__":{}{}"#, "[".repeat(100_000), "]".repeat(100_000));
    let _ = parse_safetensors(&safetensors_file(&format!("{{{metadata}}}"), 0));
}
