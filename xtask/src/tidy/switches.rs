//! What may change the program from outside: features in one lookup file, the environment in the command line only.

use super::Finding;
use super::tokens::{Token, begins, group_len};
use super::tree::Tree;

/// The one file that asks which features are on.
const FEATURE_FILE: &str = "crates/engine/src/devices.rs";
/// The folder that may read the environment.
const ENVIRONMENT_FOLDER: &str = "crates/cli/";
/// The functions that read it.
const READS: &[&str] = &["var", "var_os", "vars", "vars_os"];

/// `cfg(feature = ..)` stands in one file.
pub(super) fn feature_switches(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, tokens) in tree.rust().filter(|(file, _)| file.path != FEATURE_FILE) {
        for (index, token) in tokens.iter().enumerate() {
            if switches_on_feature(&tokens[index..]) {
                let message = format!("features are asked for in {FEATURE_FILE} only: pick the device there");
                findings.push(Finding::new(&file.path, token.line, message));
            }
        }
    }
    findings
}

/// Whether `tokens` begin with `cfg(..)`, `cfg_attr(..)` or `cfg!(..)` over a feature.
fn switches_on_feature(tokens: &[Token]) -> bool {
    let arguments = match tokens {
        [name, bang, rest @ ..] if name.text == "cfg" && bang.text == "!" => rest,
        [name, rest @ ..] if name.text == "cfg" || name.text == "cfg_attr" => rest,
        _ => return false,
    };
    begins(arguments, &["("])
        && arguments[..group_len(arguments)].windows(2).any(|pair| begins(pair, &["feature", "="]))
}

/// The environment is read by the command line only; tests and build scripts may.
pub(super) fn environment_reads(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let library =
        |path: &str| path.starts_with("crates/") && path.contains("/src/") && !path.starts_with(ENVIRONMENT_FOLDER);
    for (file, tokens) in tree.rust().filter(|(file, _)| library(&file.path)) {
        for (index, token) in tokens.iter().enumerate() {
            if reads_environment(&tokens[index..]) {
                let message = "only the command line reads the environment: take the value as an option";
                findings.push(Finding::new(&file.path, token.line, message));
            }
        }
    }
    findings
}

/// Whether `tokens` begin with `env::var` or its likes, or with `env::{..}` that names one of them.
fn reads_environment(tokens: &[Token]) -> bool {
    if !begins(tokens, &["env", ":", ":"]) {
        return false;
    }
    let rest = &tokens[3..];
    let names = if begins(rest, &["{"]) { &rest[..group_len(rest)] } else { &rest[..rest.len().min(1)] };
    names.iter().any(|name| READS.contains(&name.text.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn found(check: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        check(&Tree::planted(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_feature_switch_outside_its_file_is_found() {
        let attribute = "#[cfg(all(unix, feature = \"cuda\"))]\nmod cuda;\n";
        assert_eq!(found(feature_switches, "crates/engine/src/lib.rs", attribute), [1]);
        assert_eq!(found(feature_switches, FEATURE_FILE, attribute), NOWHERE);
        assert_eq!(
            found(feature_switches, "crates/cli/src/main.rs", "fn f() {\nif cfg!(feature = \"cuda\") {}\n}"),
            [2]
        );
        assert_eq!(found(feature_switches, "a.rs", "#[cfg_attr(feature = \"cuda\", ignore)]\nfn f() {}"), [1]);
    }

    #[test]
    fn other_switches_are_not_found() {
        let text = "// cfg(feature = \"cuda\")\n#[cfg(test)]\n#[cfg(target_feature = \"avx2\")]\nfn f() {}\n";
        assert_eq!(found(feature_switches, "a.rs", text), NOWHERE);
    }

    #[test]
    fn an_environment_read_is_found() {
        let path = "crates/engine/src/lib.rs";
        assert_eq!(found(environment_reads, path, "fn f() {\nstd::env::var(\"A\");\n}"), [2]);
        assert_eq!(found(environment_reads, path, "use std::env::{self, var_os};"), [1]);
        assert_eq!(found(environment_reads, path, "fn f() { env!(\"A\"); std::env::temp_dir(); }"), NOWHERE);
    }

    #[test]
    fn the_command_line_tests_and_build_scripts_may_read_it() {
        for path in
            ["crates/cli/src/main.rs", "crates/engine/tests/a.rs", "crates/engine/build.rs", "xtask/src/main.rs"]
        {
            assert_eq!(found(environment_reads, path, "fn f() { std::env::var(\"A\"); }"), NOWHERE, "{path}");
        }
    }
}
