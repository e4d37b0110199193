//! What the checks look at: the text of every file of ours, and the crates as cargo sees them.
//!
//! The only file of tidy that touches the disk or starts a program. It does not know any rule.

use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

use super::tokens::{self, Token};

/// A working tree in memory.
#[derive(Default)]
pub(super) struct Tree {
    /// Files that are text, sorted by path.
    pub(super) files: Vec<File>,
    /// Folders, sorted by path.
    pub(super) folders: Vec<String>,
    /// The crates of the workspace.
    pub(super) members: Vec<Member>,
}

/// One text file.
pub(super) struct File {
    /// Relative to the root, with forward slashes.
    pub(super) path: String,
    pub(super) text: String,
    /// For Rust: its tokens, or why it has none. `None` for every other file.
    pub(super) tokens: Option<Result<Vec<Token>, String>>,
}

/// One crate of the workspace.
#[derive(Default)]
pub(super) struct Member {
    /// The package's name.
    pub(super) name: String,
    /// Its `Cargo.toml`, relative to the root.
    pub(super) manifest: String,
    /// The root files of its library and its binaries, relative to the root.
    pub(super) roots: Vec<String>,
    pub(super) dependencies: Vec<Dependency>,
}

/// One dependency that a crate declares itself.
pub(super) struct Dependency {
    pub(super) name: String,
    /// A crate of this workspace, not of a registry.
    pub(super) local: bool,
    /// Declared for tests only.
    pub(super) development: bool,
}

/// What holds no text of ours: the history (in a second working tree `.git` is a file), build outputs, models, and
/// reference data written by other programs.
const SKIPPED: &[&str] = &[
    ".git",
    "crates/server/ui/dist",
    "crates/server/ui/node_modules",
    "crates/server/ui/playwright-report",
    "crates/server/ui/test-results",
    "fuzz/artifacts",
    "fuzz/corpus",
    "fuzz/target",
    "models",
    "target",
    "tests/golden",
];
/// A hidden folder is skipped unless it is one of these.
const HIDDEN: &[&str] = &[".cargo", ".ci"];
/// Longer files are data, not text that somebody reads.
const TEXT_BYTES_MAX: u64 = 1 << 20;

impl Tree {
    /// Reads the working tree at `root`.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let root = root.canonicalize().map_err(|error| format!("cannot read {}: {error}", root.display()))?;
        let mut tree = Self::default();
        tree.walk(&root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.folders.sort();
        tree.members = members(&root)?;
        Ok(tree)
    }

    /// Adds what lies in the folder `path` (relative to `root`, empty for the root itself) and below.
    fn walk(&mut self, root: &Path, path: &str) -> Result<(), String> {
        let blame = |error| format!("cannot read {}: {error}", root.join(path).display());
        for entry in fs::read_dir(root.join(path)).map_err(blame)? {
            let entry = entry.map_err(blame)?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            if SKIPPED.contains(&path.as_str()) {
                continue;
            }
            let kind = entry.file_type().map_err(blame)?;
            if kind.is_dir() {
                if !name.starts_with('.') || HIDDEN.contains(&name.as_str()) {
                    self.walk(root, &path)?;
                    self.folders.push(path);
                }
            } else if kind.is_file() && entry.metadata().map_err(blame)?.len() <= TEXT_BYTES_MAX {
                // A file that is not UTF-8 is a picture or a font: nothing to read there.
                let bytes = fs::read(entry.path()).map_err(blame)?;
                self.files.extend(String::from_utf8(bytes).ok().map(|text| File::new(&path, text)));
            }
        }
        Ok(())
    }

    /// The file at `path`.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Rust files with their tokens; files that cannot be split into tokens are reported by one check and skipped here.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &[Token])> {
        self.files.iter().filter_map(|file| match &file.tokens {
            Some(Ok(tokens)) => Some((file, tokens.as_slice())),
            _ => None,
        })
    }

    /// A tree of these files, `(path, text)`, and no crates: for tests.
    #[cfg(test)]
    pub(super) fn planted(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|&(path, text)| File::new(path, text.to_owned())).collect(), ..Self::default() }
    }
}

impl File {
    fn new(path: &str, text: String) -> Self {
        Self { path: path.to_owned(), tokens: (extension(path) == "rs").then(|| tokens::read(&text)), text }
    }
}

/// What stands after the last dot of `path`, or nothing.
pub(super) fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// The crates of the workspace at `root`, as cargo sees them. Resolves nothing, so it needs no network.
fn members(root: &Path) -> Result<Vec<Member>, String> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .map_err(|error| format!("cargo metadata failed: {error}"))?;
    Ok(metadata.packages.iter().map(|package| member(root, package)).collect())
}

fn member(root: &Path, package: &Package) -> Member {
    let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    Member {
        name: package.name.to_string(),
        manifest: relative(package.manifest_path.as_std_path()),
        roots: package
            .targets
            .iter()
            .filter(|target| target.is_lib() || target.is_bin())
            .map(|target| relative(target.src_path.as_std_path()))
            .collect(),
        dependencies: package
            .dependencies
            .iter()
            .map(|dependency| Dependency {
                name: dependency.name.clone(),
                local: dependency.path.is_some(),
                development: dependency.kind == DependencyKind::Development,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_tree_has_its_crates_and_no_build_outputs() {
        let tree = Tree::read(&crate::repository()).expect("the working tree can be read");
        let formats = tree.members.iter().find(|member| member.name == "kauri-formats").expect("formats is a member");
        assert_eq!(formats.manifest, "crates/formats/Cargo.toml");
        assert_eq!(formats.roots, ["crates/formats/src/lib.rs"]);
        assert!(formats.dependencies.iter().any(|d| d.name == "proptest" && d.development && !d.local));
        let cli = tree.members.iter().find(|member| member.name == "kauri-cli").expect("cli is a member");
        assert!(cli.dependencies.iter().any(|d| d.name == "kauri-server" && d.local && !d.development));
        assert!(tree.folders.iter().any(|folder| folder == "crates/formats/src"));
        assert!(!tree.files.iter().any(|file| file.path.starts_with("target/")));
    }
}
