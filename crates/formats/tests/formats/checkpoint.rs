//! Opening by path: what is recognised, what is refused as what, models of several files, files that change.

use std::fs;
use std::path::{Path, PathBuf};

use kauri_formats::{Checkpoint, Error, Source};

use crate::raw::*;

fn golden(name: &str) -> PathBuf {
    repository().join("tests/golden/formats").join(name)
}

/// A directory with these files.
fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

/// The refusal of a lone file, without its path.
fn refused(name: &str, content: &[u8]) -> String {
    let directory = directory(&[(name, content)]);
    let path = directory.path().join(name);
    let message = refusal(Checkpoint::open(&path));
    let prefix = format!("{}: ", path.display());
    message.strip_prefix(&prefix).unwrap_or_else(|| panic!("{message}")).to_owned()
}

/// The refusal of a directory, without its path.
fn refused_directory(files: &[(&str, &[u8])]) -> String {
    let directory = directory(files);
    let message = refusal(Checkpoint::open(directory.path()));
    message.replace(&directory.path().display().to_string(), "DIR")
}

fn shard(tensor: &str) -> Vec<u8> {
    safetensors_file(&format!("{{{}}}", safetensors_entry(tensor, "I8", "4", 0, 4)), 4)
}

fn copy_golden(names: &[&str], to: &Path) {
    for name in names {
        fs::copy(golden(name), to.join(Path::new(name).file_name().unwrap())).unwrap();
    }
}

#[test]
fn what_is_no_model_is_refused_as_what_it_is() {
    assert_eq!(refused("a.gguf", b""), "the file is empty; expected a GGUF or safetensors file");
    assert!(refused("a.gguf", b"GGUF\x03").starts_with("truncated: version at byte 4"));
    assert!(refused("a.gguf", b"\x93NUMPY\x01\x00").starts_with("not a model file: it begins with bytes [93, 4e, 55"));
    for (name, text) in
        [("a.gguf", "<!DOCTYPE html>"), ("README.md", "# Über\n\ttext"), ("a.safetensors", "not found\r\n")]
    {
        assert!(refused(name, text.as_bytes()).starts_with("this is a text file, not a model"), "{name}");
    }
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    assert!(refused("a.safetensors", pointer).starts_with("this is a Git LFS pointer"));
    assert!(refused("a.gguf", b"FUGG\x00\x00\x00\x03").starts_with("big-endian GGUF"));
}

#[test]
fn pickles_are_refused_whatever_their_name() {
    for (name, content) in [
        ("model.bin", &b"PK\x03\x04\x00\x00\x08"[..]),
        ("model.gguf", b"PK\x03\x04\x00\x00\x08"),
        ("model.pt", b"\x80\x02}q\x00."),
        ("model.safetensors", b"\x80\x04\x95\x00\x00"),
        ("model.ckpt", b"\x00\x01\x02\x03\xff"),
        ("model.pth", b"\xff\xff"),
    ] {
        let message = refused(name, content);
        let expected = "pickle checkpoints can run code when they are read; convert it to safetensors or GGUF";
        assert_eq!(message, expected, "{name}");
    }
    let message = refused_directory(&[("config.json", b"{}"), ("pytorch_model.bin", b"PK\x03\x04")]);
    assert!(message.starts_with("DIR/pytorch_model.bin: pickle checkpoints can run code"), "{message}");
}

#[test]
fn formats_from_before_gguf_are_refused_by_name() {
    for (magic, name) in [(0x67676d6c_u32, "ggml"), (0x67676d66, "ggmf"), (0x67676a74, "ggjt"), (0x67676c61, "ggla")] {
        let message = refused("old.bin", &[&magic.to_le_bytes()[..], &[1, 0, 0, 0]].concat());
        assert!(message.starts_with(&format!("this is a legacy {name} file")), "{message}");
    }
}

#[test]
fn what_is_not_there_is_refused() {
    let message = refusal(Checkpoint::open("/no/such/model.gguf"));
    assert!(message.starts_with("/no/such/model.gguf: cannot open: "), "{message}");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_without_waiting_for_it() {
    let message = refusal(Checkpoint::open("/dev/zero"));
    assert!(message.starts_with("/dev/zero: not a regular file"), "{message}");
}

#[test]
fn a_directory_needs_config_and_tensors() {
    let model = shard("t");
    let message = refused_directory(&[("model.safetensors", &model)]);
    let expected = "DIR: config.json is missing; a model directory holds config.json beside its safetensors files";
    assert_eq!(message, expected);
    let lone = directory(&[("model.safetensors", &model)]);
    let message = refusal(Checkpoint::open(lone.path().join("model.safetensors")));
    assert!(message.contains("config.json is missing"), "{message}");
    assert!(refused_directory(&[("config.json", b"{}")]).contains("model.safetensors is missing; a model directory"));
    let message = refused_directory(&[("a.gguf", b"GGUF")]);
    assert!(message.ends_with("the directory holds GGUF files: give the path of one of them"), "{message}");
    let message = refused_directory(&[("config.json", b"{"), ("model.safetensors", &model)]);
    assert!(message.starts_with("DIR/config.json: settings: EOF"), "{message}");
}

#[test]
fn a_safetensors_directory_is_read_with_its_settings() {
    let single = Checkpoint::open(golden("single")).unwrap();
    let Source::Safetensors(settings) = &single.source else { panic!() };
    assert_eq!(settings.config["time_step_limit"][1], "Infinity");
    assert_eq!(settings.chat_template.as_deref(), Some("{{ x }}"));
    assert!(settings.tokenizer.is_none() && settings.generation.is_empty());
    assert_eq!(single.tensors.len(), 8);

    let sharded = Checkpoint::open(golden("sharded")).unwrap();
    let Source::Safetensors(settings) = &sharded.source else { panic!() };
    assert_eq!(settings.generation["eos_token_id"], 2);
    assert_eq!(settings.chat_template.as_deref(), Some("{{ messages }}\n"));
    assert_eq!(settings.tokenizer.as_deref(), Some(&b"{\"version\": \"1.0\"}\n"[..]));
    assert_eq!((sharded.tensors.len(), sharded.paths.len()), (4, 2));

    let by_shard = Checkpoint::open(golden("sharded/model-00002-of-00002.safetensors")).unwrap();
    assert_eq!(by_shard.tensors.len(), 4);
    let by_file = Checkpoint::open(golden("single/model.safetensors")).unwrap();
    assert_eq!(by_file.tensors.len(), 8);
}

#[test]
fn an_index_names_plain_files_that_are_there() {
    let index = |shard: &str| format!(r#"{{"weight_map":{{"t":"{shard}"}}}}"#);
    let refused = |shard: &str| {
        let index = index(shard);
        refused_directory(&[("config.json", b"{}"), ("model.safetensors.index.json", index.as_bytes())])
    };
    for name in [
        "../up.safetensors",
        "/etc/x.safetensors",
        "a/b.safetensors",
        r"a\\b.safetensors",
        "C:x.safetensors",
        "..",
        "",
        "x.bin",
        r"x\u0000.safetensors",
        "./x.safetensors",
    ] {
        let message = refused(name);
        assert!(message.contains("name of a shard: expected a plain file name"), "{name}: {message}");
    }
    let message = refused("gone.safetensors");
    let expected = "DIR/gone.safetensors: this shard is missing; model.safetensors.index.json names it";
    assert_eq!(message, expected);
}

#[test]
fn index_and_shards_must_agree() {
    let refused = |index: &str, shards: &[(&str, &[u8])]| {
        let base: [(&str, &[u8]); 2] = [("config.json", b"{}"), ("model.safetensors.index.json", index.as_bytes())];
        refused_directory(&[&base, shards].concat())
    };
    let (t, u) = (shard("t"), shard("u"));
    let index = r#"{"weight_map":{"t":"1.safetensors","u":"2.safetensors"}}"#;
    let message = refused(index, &[("1.safetensors", &t), ("2.safetensors", &t)]);
    assert!(message.contains("tensor `t`, already in an earlier shard, occurs twice"), "{message}");
    let promised = index.replace("\"u\"", "\"v\"");
    let message = refused(&promised, &[("1.safetensors", &t), ("2.safetensors", &u)]);
    assert!(message.ends_with("tensor `v`: the index names it, but no shard holds it"), "{message}");
    let message = refused(r#"{"metadata":{}}"#, &[]);
    assert!(message.contains("missing field `weight_map`"), "{message}");
    let message = refused(index, &[("1.safetensors", b"PK\x03\x04"), ("2.safetensors", &u)]);
    assert!(message.starts_with("DIR/1.safetensors: pickle"), "{message}");
}

const PARTS: [&str; 3] = ["split-00001-of-00003.gguf", "split-00002-of-00003.gguf", "split-00003-of-00003.gguf"];

#[test]
fn any_part_of_a_split_model_opens_all() {
    for part in PARTS {
        let checkpoint = Checkpoint::open(golden(part)).unwrap();
        let names: Vec<&String> = checkpoint.tensors.keys().collect();
        let expected = ["blk.0.weight", "blk.1.weight", "blk.2.weight", "blk.3.weight", "blk.4.weight"];
        assert_eq!(names, expected);
        let Source::Gguf(metadata) = &checkpoint.source else { panic!() };
        assert_eq!(metadata.str("general.name"), Some("in three parts"));
        assert_eq!(checkpoint.paths, PARTS.map(golden));
    }
}

#[test]
fn a_split_model_that_does_not_fit_together_is_refused() {
    let open = |directory: &tempfile::TempDir, name: &str| {
        let message = refusal(Checkpoint::open(directory.path().join(name)));
        message.replace(&directory.path().display().to_string(), "DIR")
    };
    let missing = tempfile::tempdir().unwrap();
    copy_golden(&[PARTS[0], PARTS[2]], missing.path());
    let message = open(&missing, PARTS[0]);
    let expected = "part 2 of 3 is missing; all parts of a model must be in one directory";
    assert_eq!(message, format!("DIR/{}: {expected}", PARTS[1]));

    let renamed = tempfile::tempdir().unwrap();
    fs::copy(golden(PARTS[0]), renamed.path().join("model.gguf")).unwrap();
    assert!(open(&renamed, "model.gguf").contains("expected a name that ends like -00001-of-00003.gguf"));

    let swapped = tempfile::tempdir().unwrap();
    copy_golden(&PARTS, swapped.path());
    fs::copy(golden(PARTS[0]), swapped.path().join(PARTS[1])).unwrap();
    assert!(open(&swapped, PARTS[0]).contains("expected those of the part that the file's name says"));

    let key = |name, value: u16| gguf_key(name, U16, value.to_le_bytes());
    let keys = |number, count| [key("split.no", number), key("split.count", count), key("split.tensors.count", 3)];
    let part = |number, tensor: &str| gguf_file(&keys(number, 2), &[gguf_tensor(tensor, &[8], TENSOR_F32, 0)], 32);
    let (first, second, again) = (part(0, "a"), part(1, "b"), part(1, "a"));
    let names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
    let miscounted = directory(&[(names[0], &first), (names[1], &second)]);
    assert!(open(&miscounted, names[1]).contains("found 3, while the parts hold 2"));
    let twice = directory(&[(names[0], &first), (names[1], &again)]);
    assert!(open(&twice, names[0]).contains("tensor `a`, already in an earlier part, occurs twice"));

    for (number, count, message) in [(7, 2, "found 7"), (0, 5000, "5000 is over the limit of 4096")] {
        let odd = directory(&[("m.gguf", &gguf_file(&keys(number, count), &[], 0))]);
        assert!(open(&odd, "m.gguf").contains(message));
    }
}

#[test]
fn a_file_cut_after_opening_is_an_error_and_no_crash() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let tensor = gguf_tensor("t", &[1 << 16], TENSOR_F32, 0);
    fs::write(&path, gguf_file(&[], &[tensor], 1 << 18)).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    checkpoint.verify_unchanged().unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let error = checkpoint.verify_unchanged().unwrap_err();
    assert!(matches!(error.fault(), Error::Changed { .. }));
    let message = error.to_string();
    assert!(message.contains("it had 262208 bytes and now has 4096"), "{message}");
    assert!(message.starts_with(&path.display().to_string()), "{message}");
}

#[test]
fn a_change_of_any_file_of_a_model_is_noticed() {
    for name in ["model-00002-of-00002.safetensors", "tokenizer.json"] {
        let directory = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(golden("sharded")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
        }
        let checkpoint = Checkpoint::open(directory.path()).unwrap();
        checkpoint.verify_unchanged().unwrap();
        let changed = fs::File::options().append(true).open(directory.path().join(name)).unwrap();
        changed.set_len(1).unwrap();
        assert!(checkpoint.verify_unchanged().is_err(), "{name}");
    }
}

#[test]
fn a_model_linked_into_the_binary_is_read() {
    static MODEL: &[u8] = include_bytes!("../../../../tests/golden/formats/all-types.gguf");
    let checkpoint = Checkpoint::from_static(MODEL).unwrap();
    assert!(checkpoint.paths.is_empty() && checkpoint.verify_unchanged().is_ok());
    assert_eq!(checkpoint.tensors["vector.f32"].data.len(), 28);
}
