//! Directories of every family as GGUF files would have them: which of them can be, and why the others cannot.

use std::path::{Path, PathBuf};

use kauri_arch::renaming;
use kauri_formats::{Checkpoint, Source};

#[test]
fn every_family_can_be_renamed() {
    let (mut renamed, mut wrong) = (0, Vec::new());
    for directory in directories() {
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        // Of some, even the format of the tensors is not known here.
        let Ok(checkpoint) = Checkpoint::open(&directory) else { continue };
        if kauri_arch::identify(&checkpoint).is_err() {
            continue;
        }
        match renaming::to_gguf(&checkpoint) {
            Ok(_) => renamed += 1,
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(renamed >= 38, "only {renamed} families were there");
}

/// A model of a family that has a GGUF, with something that such a file has no place for.
#[test]
fn what_a_file_cannot_say_is_refused_with_the_first_difference() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directory = root.join("tests/golden/families/gptoss");
    let mut checkpoint = Checkpoint::open(&directory).unwrap();
    renaming::to_gguf(&checkpoint).unwrap();
    let Source::Safetensors(description) = &mut checkpoint.source else { panic!("not a directory") };
    // A GGUF does not say that whole pairs turn: its readers know that of the family.
    description.config["rope_parameters"]["truncate"] = true.into();
    let error = renaming::to_gguf(&checkpoint).unwrap_err().to_string();
    assert!(error.contains("in the directory") && error.contains("in the file"), "{error}");
}

fn directories() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let roots = [root.join("tests/golden/families"), root.join("../shared/fixtures/families")];
    let mut found: Vec<PathBuf> = Vec::new();
    for entries in roots.iter().filter_map(|root| std::fs::read_dir(root).ok()) {
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        found.extend(
            paths.filter(|path| path.join("config.json").is_file() && path.join("model.safetensors").is_file()),
        );
    }
    found.sort();
    found
}
