//! Directories of every family as GGUF files would have them: which of them can be, and that nothing is lost on the way.

use std::path::{Path, PathBuf};

use kauri_arch::renaming;
use kauri_formats::Checkpoint;

#[test]
fn every_family_can_be_renamed_but_those_that_say_why_not() {
    let mut refused = Vec::new();
    let mut renamed = Vec::new();
    for directory in directories() {
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(checkpoint) = Checkpoint::open(&directory) else { continue };
        if kauri_arch::identify(&checkpoint).is_err() {
            continue;
        }
        match renaming::to_gguf(&checkpoint) {
            Ok(_) => renamed.push(name),
            Err(error) => refused.push(format!("{name}: {error}")),
        }
    }
    panic!("{}\n{}", renamed.join(" "), refused.join("\n"));
}

fn directories() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let roots = [root.join("tests/golden/families"), root.join("shared/fixtures/families")];
    let mut found: Vec<PathBuf> = Vec::new();
    for entries in roots.iter().filter_map(|root| std::fs::read_dir(root).ok()) {
        found.extend(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.join("config.json").is_file()));
    }
    found.sort();
    found
}
