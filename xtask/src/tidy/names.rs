//! Names that say nothing are no names for files, folders, modules or crates.

use super::Finding;
use super::tree::Tree;

/// What a name may not be, nor end in after a `_` or a `-`.
const FORBIDDEN: &[&str] = &["common", "core", "helper", "helpers", "manager", "misc", "util", "utils"];

/// No folder, Rust file, inline module or crate has a name that says nothing.
pub(super) fn forbidden_names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in tree.folders.iter().filter(|folder| is_forbidden(last(folder, '/'))) {
        findings.push(finding(folder, 1, last(folder, '/')));
    }
    for member in tree.members.iter().filter(|member| is_forbidden(&member.name)) {
        findings.push(finding(&member.manifest, 1, &member.name));
    }
    for (file, tokens) in tree.rust() {
        let name = last(&file.path, '/').trim_end_matches(".rs");
        if is_forbidden(name) {
            findings.push(finding(&file.path, 1, name));
        }
        for pair in tokens.windows(3).filter(|three| three[0].text == "mod" && three[2].text == "{") {
            if is_forbidden(&pair[1].text) {
                findings.push(finding(&file.path, pair[1].line, &pair[1].text));
            }
        }
    }
    findings
}

fn finding(path: &str, line: usize, name: &str) -> Finding {
    Finding::new(path, line, format!("`{name}` says nothing: name it after what it holds, in the field's own words"))
}

fn is_forbidden(name: &str) -> bool {
    FORBIDDEN.contains(&last(last(name, '_'), '-'))
}

/// What stands after the last `separator`, or everything.
fn last(text: &str, separator: char) -> &str {
    text.rsplit(separator).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::super::tree::Member;
    use super::*;

    #[test]
    fn a_file_a_module_a_folder_and_a_crate_are_found() {
        let mut tree = Tree::planted(&[
            ("crates/step/src/utils.rs", "//! .\n"),
            ("crates/step/src/cache_manager.rs", "//! .\n"),
            ("crates/step/src/mask.rs", "//! .\nmod helpers {}\n"),
        ]);
        tree.folders.push("crates/step/src/misc".to_owned());
        tree.members.push(Member {
            name: "kauri-core".to_owned(),
            manifest: "crates/core/Cargo.toml".to_owned(),
            ..Member::default()
        });
        let places: Vec<_> = forbidden_names(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect();
        let expected = [
            ("crates/step/src/misc", 1),
            ("crates/core/Cargo.toml", 1),
            ("crates/step/src/utils.rs", 1),
            ("crates/step/src/cache_manager.rs", 1),
            ("crates/step/src/mask.rs", 2),
        ];
        assert_eq!(places, expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn a_name_that_only_contains_such_a_word_is_not_found() {
        let tree = Tree::planted(&[("crates/prompt/src/common_prefix.rs", "//! .\nmod cores {}\n")]);
        assert_eq!(forbidden_names(&tree), []);
    }
}
