//! Directories of every family as GGUF files would have them: which of them can be, and why the others cannot.

use std::path::{Path, PathBuf};

use kauri_arch::renaming;
use kauri_formats::Checkpoint;

/// Families with no GGUF of their own, or whose GGUF has no place for something: a part of the reason.
const REFUSED: &[(&str, &str)] = &[
    ("falconh1", "scale"),
    // A GGUF has no smallest step.
    ("nemotronh", "step_limits"),
    ("vaultgemma", "a GGUF of this family"),
];

#[test]
fn every_family_can_be_renamed_but_those_that_say_why_not() {
    let (mut renamed, mut wrong) = (0, Vec::new());
    for directory in directories() {
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        // Of some, even the format of the tensors is not known here.
        let Ok(checkpoint) = Checkpoint::open(&directory) else { continue };
        if kauri_arch::identify(&checkpoint).is_err() {
            continue;
        }
        let reason = REFUSED.iter().find(|(family, _)| *family == name).map(|(_, reason)| *reason);
        match (renaming::to_gguf(&checkpoint), reason) {
            (Ok(_), None) => renamed += 1,
            (Ok(_), Some(_)) => wrong.push(format!("{name} can be renamed: take it from the list")),
            (Err(error), Some(reason)) if error.to_string().contains(reason) => {}
            (Err(error), _) => wrong.push(format!("{name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(renamed >= 35, "only {renamed} families were there");
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
