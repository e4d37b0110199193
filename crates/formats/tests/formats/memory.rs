//! Files made to take as much memory as they can: never more than their own size and 64 MiB.
//!
//! Each is opened in a process of its own, whose highest resident set (the mapped file included) is asked of the system.

use std::fs;
use std::path::Path;
use std::process::Command;

use kauri_formats::Checkpoint;

use crate::raw::*;

const FILE_VARIABLE: &str = "KAURI_TEST_FILE";
const EXTRA_BYTES_MAX: u64 = 64 << 20;

/// What the other process runs: opens the file it is given, and prints the most memory it ever had, in bytes.
#[test]
#[ignore = "the other half of the tests of this file, run by them"]
fn child() {
    let Some(path) = std::env::var_os(FILE_VARIABLE) else {
        return;
    };
    let opened = Checkpoint::open(Path::new(&path));
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    let outcome = opened.map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
    println!("peak={} {outcome}", kilobytes << 10);
}

/// Opens the file elsewhere, checks the memory that took, and gives back what came of it.
fn open_elsewhere(path: &Path, file_bytes: u64) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::child", "--ignored", "--nocapture"])
        .env(FILE_VARIABLE, path)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let result = printed.split("peak=").nth(1).unwrap_or_else(|| panic!("{printed}"));
    let (peak, outcome) = result.lines().next().unwrap().split_once(' ').unwrap();
    let peak: u64 = peak.parse().unwrap();
    assert!(peak <= file_bytes + EXTRA_BYTES_MAX, "{peak} bytes for a file of {file_bytes}: {outcome}");
    eprintln!("{peak} bytes for a file of {file_bytes}: {outcome}");
    outcome.to_owned()
}

fn open_gguf(file: &[u8]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, file).unwrap();
    open_elsewhere(&path, file.len() as u64)
}

fn array_of(kind: u32, count: usize, element: &[u8]) -> Vec<u8> {
    let array = gguf_array(kind, count as u64, element.repeat(count));
    gguf_file(&[gguf_key("a", ARRAY, array)], &[], 0)
}

const REFUSED: &str = "memory for settings and tensor table, in bytes";

#[test]
fn arrays_of_numbers() {
    assert_eq!(open_gguf(&array_of(U8, 7_000_000, &[1])), "accepted");
    assert!(open_gguf(&array_of(U8, 30_000_000, &[1])).contains(REFUSED));
}

#[test]
fn arrays_of_strings_and_of_arrays() {
    assert_eq!(open_gguf(&array_of(STRING, 5_000_000, &[0; 8])), "accepted");
    assert!(open_gguf(&array_of(STRING, 15_000_000, &[0; 8])).contains(REFUSED));
    let empty = gguf_array(U8, 0, []);
    assert_eq!(open_gguf(&array_of(ARRAY, 700_000, &empty)), "accepted");
    let of_one = gguf_array(U8, 1, [0]);
    assert_eq!(open_gguf(&array_of(ARRAY, 500_000, &of_one)), "accepted");
    assert!(open_gguf(&array_of(ARRAY, 2_000_000, &of_one)).contains(REFUSED));
}

#[test]
fn keys() {
    let keys = |count: u32| {
        let keys: Vec<_> = (0..count).map(|i| gguf_key(&i.to_string(), U8, [1])).collect();
        open_gguf(&gguf_file(&keys, &[], 0))
    };
    assert_eq!(keys(250_000), "accepted");
    assert!(keys(1_000_000).contains(REFUSED));
}

#[test]
fn tensors() {
    let tensors = |count: u64| {
        let alignment = gguf_key("general.alignment", U32, 1_u32.to_le_bytes());
        let tensor = |i: u64| gguf_tensor(&i.to_string(), &[1], 24, i);
        let tensors: Vec<_> = (0..count).map(tensor).collect();
        open_gguf(&gguf_file(&[alignment], &tensors, count as usize))
    };
    assert_eq!(tensors(150_000), "accepted");
    assert!(tensors(1_000_000).contains(REFUSED));
}

fn open_directory(config: &str, header: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let model = safetensors_file(header, 0);
    fs::write(directory.path().join("config.json"), config).unwrap();
    fs::write(directory.path().join("model.safetensors"), &model).unwrap();
    open_elsewhere(directory.path(), (config.len() + model.len()) as u64)
}

#[test]
fn safetensors_headers() {
    let header = |count: u32| {
        let entry = |i: u32| safetensors_entry(&i.to_string(), "I8", "0", 0, 0);
        let entries: Vec<_> = (0..count).map(entry).collect();
        format!("{{{}}}", entries.join(","))
    };
    assert_eq!(open_directory("{}", &header(130_000)), "accepted");
    assert!(open_directory("{}", &header(500_000)).contains(REFUSED));
}

#[test]
fn settings() {
    let config = |count: usize, element: &str| format!("{{\"a\":[{}0]}}", format!("{element},").repeat(count));
    for (element, few) in [(r#"{"a":0}"#, 60_000), ("0", 280_000), ("[0]", 60_000), (r#""x""#, 280_000)] {
        assert_eq!(open_directory(&config(few, element), "{}"), "accepted", "{element}");
        assert!(open_directory(&config(few * 5, element), "{}").contains(REFUSED), "{element}");
    }
    let keys: Vec<_> = (0..280_000).map(|i| format!("\"{i}\":0")).collect();
    assert_eq!(open_directory(&format!("{{{}}}", keys.join(",")), "{}"), "accepted");
}
