//! `kauri convert`, `quantize` and `imatrix`: the files they make, what they say, and what they refuse.

mod kauri;

use std::path::PathBuf;

use kauri::{kauri, output, repository};
use serde_json::Value as Json;

fn golden(name: &str) -> String {
    repository().join("tests/golden/families").join(name).to_str().expect("UTF-8").to_owned()
}

/// A path in a folder that is gone when the test is over.
fn place(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("UTF-8").to_owned()
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_directory_becomes_a_file_that_says_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (golden("qwen3"), place(&folder, "qwen3.gguf"));
    let said = json(&output(&["convert", &source, &target, "--json"]));
    assert_eq!(said["bytes"], std::fs::metadata(&target).expect("a file").len());
    let logits = |model: &str| {
        let ran = kauri(&["debug", "logits", "--model", model, "--tokens", "1,20,300,41,5", "--isa", "scalar"], b"");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    assert_eq!(logits(&target), logits(&source));
    let ids = |model: &str| {
        kauri(&["tokenize", "--model", model, "--json"], b"\"The king's 42 ships, and\\n\\n  more\"\n").success()
    };
    assert_eq!(ids(&target), ids(&source));
    let again = kauri(&["convert", &source, &target], b"");
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    output(&["convert", &source, &target, "--force", "--type", "f16"]);
}

#[test]
fn what_matters_is_found_and_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = place(&folder, "text.txt");
    std::fs::write(&text, "Once upon a time there was a little girl who loved to play in the park. ".repeat(40))
        .unwrap();
    let matrix = place(&folder, "nano.imatrix.gguf");
    let said = json(&output(&["imatrix", &text, "-o", &matrix, "--context", "64", "--chunks", "3", "--json"]));
    // Seven matrices a layer, and the head.
    assert_eq!((said["tensors"].as_u64(), said["chunks"].as_u64()), (Some(57), Some(3)));
    let target = place(&folder, "nano.gguf");
    let nano = repository().join("models/kauri-nano-Q4_K_M.gguf");
    let nano = nano.to_str().expect("UTF-8");
    let refused = kauri(&["quantize", nano, &target, "--type", "q4_0"], b"");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--requantise"), "{}", refused.stderr);
    let rule = "blk\\.0\\.attn_v=q8_0";
    let arguments =
        ["quantize", nano, &target, "--type", "q4_0", "--requantise", "--imatrix", &matrix, "--tensor-type", rule];
    let said = json(&output(&[&arguments[..], &["--json", "--measure"]].concat()));
    let of =
        |name: &str| said["tensors"].as_array().unwrap().iter().find(|tensor| tensor["name"] == name).unwrap().clone();
    assert_eq!(of("blk.0.attn_v.weight")["quant"], "Q8_0");
    assert_eq!(of("blk.0.ffn_down.weight")["quant"], "Q4_1");
    assert_eq!(of("blk.5.ffn_down.weight")["quant"], "Q4_0");
    assert!(of("blk.5.ffn_down.weight")["rmse"].as_f64().unwrap() > 0.0);
    let small = place(&folder, "small.gguf");
    let said = json(&output(&[
        "quantize",
        nano,
        &small,
        "--target-size",
        "11MB",
        "--requantise",
        "--imatrix",
        &matrix,
        "--json",
    ]));
    let bytes = said["bytes"].as_u64().unwrap();
    assert!(bytes <= 11_000_000 && bytes > 10_700_000, "{bytes}");
    assert!(
        !output(&["run", "--model", &small, "--raw", "Once upon a time", "--max-tokens", "4", "--temperature", "0"])
            .is_empty()
    );
}

#[test]
fn what_cannot_be_made_is_refused_in_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = place(&folder, "out.gguf");
    let nano = repository().join("models/kauri-nano-Q4_K_M.gguf");
    let nano = nano.to_str().expect("UTF-8");
    let text = place(&folder, "text.txt");
    std::fs::write(&text, "short").unwrap();
    let cases: [(&[&str], &str); 8] = [
        (&["quantize", nano, &target, "--type", "q9"], "there is no such mix"),
        (&["quantize", nano, &target, "--target-size", "6 parsecs"], "no unit of size"),
        (&["quantize", nano, &target], "--type"),
        (&["quantize", nano, &target, "--type", "q8_0", "--tensor-type", "nothing=q8_0"], "no tensor of this model"),
        (&["quantize", nano, &target, "--type", "q8_0", "--imatrix", nano], "no importance matrix"),
        (&["quantize", nano, &target, "--target-size", "1MB", "--requantise"], "more than the 1000000 asked for"),
        (&["imatrix", &text, "-o", &target], "no whole chunk"),
        (&["convert", nano, &target], "no directory"),
    ];
    for (arguments, said) in cases {
        let ran = kauri(arguments, b"");
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(said) && ran.stderr.trim_end().lines().count() == 1,
            "{arguments:?}: {}",
            ran.stderr
        );
        assert!(!PathBuf::from(&target).exists());
    }
}
