//! Every crate takes its licence and its lints from the workspace.
//!
//! Knows `Cargo.toml` files as text; which crates depend on which is the business of `dependencies`.

use super::Finding;
use super::tree::Tree;

/// What every crate inherits: where it stands, and the table that says so.
const INHERITED: &[(&[&str], &str)] = &[
    (&["package", "license"], "write `license.workspace = true` under `[package]`"),
    (&["lints"], "write `[lints]` with `workspace = true`"),
];

/// Every crate of the workspace inherits what it must.
pub(super) fn inheritance(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in tree.members.iter().filter_map(|member| tree.file(&member.manifest)) {
        match manifest.text.parse::<toml::Table>() {
            Ok(table) => {
                let missing = INHERITED.iter().filter(|(place, _)| !inherits(&table, place));
                findings.extend(missing.map(|(_, advice)| Finding::new(&manifest.path, 1, *advice)));
            }
            Err(error) => findings.push(Finding::new(&manifest.path, 1, error.message())),
        }
    }
    findings
}

/// Whether `place` in `table` reads `workspace = true`.
fn inherits(table: &toml::Table, place: &[&str]) -> bool {
    let mut value = table.get(place[0]);
    for key in place[1..].iter().chain(&["workspace"]) {
        value = value.and_then(|value| value.get(key));
    }
    value.and_then(toml::Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::super::tree::Member;
    use super::*;

    fn found(manifest: &str) -> Vec<Finding> {
        let mut tree = Tree::planted(&[("crates/step/Cargo.toml", manifest)]);
        tree.members.push(Member { manifest: "crates/step/Cargo.toml".to_owned(), ..Member::default() });
        inheritance(&tree)
    }

    #[test]
    fn a_crate_that_inherits_is_not_found() {
        assert_eq!(found("[package]\nlicense.workspace = true\n[lints]\nworkspace = true\n"), []);
    }

    #[test]
    fn a_licence_or_lints_of_its_own_are_found() {
        assert_eq!(found("[package]\nlicense = \"MIT\"\n[lints]\nworkspace = true\n").len(), 1);
        assert_eq!(found("[package]\nlicense.workspace = true\n[lints]\nworkspace = false\n").len(), 1);
        assert_eq!(found("[package]\nlicense.workspace = true\n").len(), 1);
    }

    #[test]
    fn a_manifest_that_is_not_toml_is_found() {
        assert_eq!(found("[package").len(), 1);
    }
}
