//! The house rules that the compiler and clippy do not check, as one list of small functions.
//!
//! A check reads a [`Tree`] and returns what it found; it never touches the disk, so each is tested on planted text.
//! The rules themselves are explained in ARCHITECTURE.md and CONTRIBUTING.md; here is only what enforces them.

mod dependencies;
mod layout;
mod manifests;
mod names;
mod switches;
mod tokens;
mod tree;
mod unsafety;
mod words;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use tree::Tree;

/// One check: it reads the tree and reports every place that breaks its rule.
type Check = fn(&Tree) -> Vec<Finding>;

/// Every check, by the name it is reported under.
const CHECKS: &[(&str, Check)] = &[
    // tidy: sorted
    ("crate arrows", dependencies::arrows),
    ("dependency reasons", dependencies::reasons),
    ("environment reads", switches::environment_reads),
    ("feature switches", switches::feature_switches),
    ("file length", layout::file_length),
    ("forbidden names", names::forbidden_names),
    ("forbidden words", words::forbidden_words),
    ("function length", layout::function_length),
    ("module docs", layout::module_docs),
    ("readable source", layout::readable),
    ("safety comments", unsafety::safety_comments),
    ("sorted blocks", layout::sorted_blocks),
    ("sorted registries", layout::sorted_registries),
    ("unfinished code", words::unfinished_code),
    ("unsafe forbidden", unsafety::forbidden),
    ("unsafe listed", unsafety::listed),
    ("workspace inheritance", manifests::inheritance),
    // tidy: end
];

/// One broken rule: where, what, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// Counted from 1.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Runs every check on the working tree at `root` and prints what they found.
pub(crate) fn command(root: &Path) -> ExitCode {
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::from(2);
        }
    };
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} checks, {} files, {} findings", CHECKS.len(), tree.files.len(), findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What every check has to say about `tree`, each message led by the name of its check.
fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, check) in CHECKS {
        for finding in check(tree) {
            findings.push(Finding { message: format!("{name}: {}", finding.message), ..finding });
        }
    }
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_working_tree_is_tidy() {
        let tree = Tree::read(&crate::repository()).expect("the working tree can be read");
        assert!(tree.files.iter().any(|file| file.path == "xtask/src/tidy.rs"), "the tree holds this very file");
        let findings: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    }

    #[test]
    fn a_finding_names_its_check_and_its_place() {
        let tree = Tree::planted(&[("crates/step/src/mask.rs", "//! Masks.\nfn later() { todo!() }\n")]);
        let found: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
        assert!(found.iter().any(|line| line.starts_with("crates/step/src/mask.rs:2: unfinished code: ")), "{found:?}");
    }
}
