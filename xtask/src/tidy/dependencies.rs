//! Which crate may use which, and that every crate from outside has a stated reason.
//!
//! The table mirrors the arrows of ARCHITECTURE.md. What is not in it is forbidden.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::{Dependency, Member, Tree};

/// For each crate of the workspace, without the prefix `kauri-`: the crates of the workspace it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("formats", &[]),
    ("tokenizer", &["formats"]),
    ("arch", &["formats"]),
    ("device", &["arch", "formats"]),
    ("device-cpu", &["arch", "device", "formats"]),
    ("device-cuda", &["arch", "device", "formats"]),
    ("device-wgpu", &["arch", "device", "formats"]),
    ("model", &["arch", "device", "formats"]),
    ("prompt", &["tokenizer"]),
    ("step", &["tokenizer"]),
    (
        "engine",
        &[
            "arch",
            "device",
            "device-cpu",
            "device-cuda",
            "device-wgpu",
            "formats",
            "model",
            "prompt",
            "step",
            "tokenizer",
        ],
    ),
    ("server", &["engine"]),
    ("cli", &["engine", "server"]),
    ("xtask", &[]),
];

/// Arrows that only tests may use: from, to, and why.
const TEST_ARROWS: &[(&str, &str, &str)] =
    &[("step", "formats", "grammars are tested on the vocabulary of a model file")];

/// Every dependency inside the workspace is in the table.
pub(super) fn arrows(tree: &Tree) -> Vec<Finding> {
    tree.members.iter().flat_map(|member| forbidden_arrows(tree, member, ARROWS, TEST_ARROWS)).collect()
}

fn forbidden_arrows(
    tree: &Tree,
    member: &Member,
    arrows: &[(&str, &[&str])],
    test_arrows: &[(&str, &str, &str)],
) -> Vec<Finding> {
    let from = short(&member.name);
    let Some((_, allowed)) = arrows.iter().find(|(name, _)| *name == from) else {
        let message =
            format!("`{from}` is not in the table of crates: add it there and in ARCHITECTURE.md, and say why");
        return vec![Finding::new(&member.manifest, 1, message)];
    };
    let mut findings = Vec::new();
    for dependency in member.dependencies.iter().filter(|dependency| dependency.local) {
        let to = short(&dependency.name);
        let for_tests = dependency.development && test_arrows.iter().any(|&(a, b, _)| (a, b) == (from, to));
        if !allowed.contains(&to) && !for_tests {
            let message = format!(
                "`{from}` may not use `{to}`: move the code, or pass in what it needs (allowed: {})",
                if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") }
            );
            findings.push(Finding::new(&member.manifest, line_of(tree, member, dependency), message));
        }
    }
    findings
}

/// Every dependency from outside has an entry in `deny.toml`, and every entry there has a reason.
pub(super) fn reasons(tree: &Tree) -> Vec<Finding> {
    let text = tree.file("deny.toml").map_or("", |file| file.text.as_str());
    let reasons = match allowed_crates(text) {
        Ok(reasons) => reasons,
        Err(error) => return vec![Finding::new("deny.toml", 1, format!("cannot be read: {error}"))],
    };
    let mut findings = Vec::new();
    for (name, reason) in &reasons {
        if reason.trim().is_empty() {
            let line = 1 + text.lines().take_while(|line| !line.contains(&format!("\"{name}\""))).count();
            findings.push(Finding::new("deny.toml", line, format!("`{name}` is allowed without a reason: write it")));
        }
    }
    for member in &tree.members {
        for dependency in member.dependencies.iter().filter(|dependency| !dependency.local) {
            if !reasons.contains_key(&dependency.name) {
                let message = format!("`{}` is not in deny.toml: add it there with its reason", dependency.name);
                findings.push(Finding::new(&member.manifest, line_of(tree, member, dependency), message));
            }
        }
    }
    findings
}

/// The crates that `deny.toml` allows, each with its reason (empty when it gives none).
fn allowed_crates(text: &str) -> Result<BTreeMap<String, String>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let entries = table.get("bans").and_then(|bans| bans.get("allow")).and_then(toml::Value::as_array);
    let mut reasons = BTreeMap::new();
    for entry in entries.ok_or("it has no `allow` list in `[bans]`")? {
        let field = |name| entry.get(name).and_then(toml::Value::as_str);
        let name = entry.as_str().or_else(|| field("crate")).ok_or("an entry of `allow` names no crate")?;
        // A specification may end in a version, `name@1` or `name:1`.
        let name = name.split(['@', ':']).next().unwrap_or(name);
        reasons.insert(name.to_owned(), field("reason").unwrap_or_default().to_owned());
    }
    Ok(reasons)
}

fn short(package: &str) -> &str {
    package.strip_prefix("kauri-").unwrap_or(package)
}

/// The line of the manifest that declares `dependency`, or 1 if it is not written plainly.
fn line_of(tree: &Tree, member: &Member, dependency: &Dependency) -> usize {
    let declares =
        |line: &str| line.strip_prefix(dependency.name.as_str()).is_some_and(|rest| rest.starts_with(['.', ' ', '=']));
    let text = tree.file(&member.manifest).map_or("", |file| file.text.as_str());
    text.lines().position(declares).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, dependency: Dependency) -> Member {
        Member {
            name: name.to_owned(),
            manifest: format!("crates/{}/Cargo.toml", short(name)),
            roots: Vec::new(),
            dependencies: vec![dependency],
        }
    }

    fn inside(name: &str, development: bool) -> Dependency {
        Dependency { name: name.to_owned(), local: true, development }
    }

    fn outside(name: &str) -> Dependency {
        Dependency { name: name.to_owned(), local: false, development: false }
    }

    #[test]
    fn a_forbidden_arrow_is_found_at_its_line() {
        let mut tree = Tree::planted(&[(
            "crates/step/Cargo.toml",
            "[dependencies]\nserde = \"1\"\nkauri-device.workspace = true\n",
        )]);
        tree.members = vec![member("kauri-step", inside("kauri-device", false))];
        let found = arrows(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/step/Cargo.toml", 3));
        assert!(found[0].message.contains("`step` may not use `device`"), "{}", found[0].message);
    }

    #[test]
    fn an_allowed_arrow_is_not_found() {
        let mut tree = Tree::planted(&[]);
        tree.members = vec![member("kauri-step", inside("kauri-tokenizer", false))];
        assert_eq!(arrows(&tree), []);
    }

    #[test]
    fn a_test_arrow_serves_tests_only() {
        let tree = Tree::planted(&[]);
        let found = |development| {
            let member = member("kauri-device", inside("kauri-device-cpu", development));
            forbidden_arrows(&tree, &member, ARROWS, &[("device", "device-cpu", "a real device to test with")]).len()
        };
        assert_eq!((found(true), found(false)), (0, 1));
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        let mut tree = Tree::planted(&[]);
        tree.members = vec![member("kauri-cache", inside("kauri-formats", false))];
        assert!(arrows(&tree)[0].message.contains("`cache` is not in the table"));
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (from, to) in ARROWS.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to))) {
            let place = |name: &str| ARROWS.iter().position(|(crate_name, _)| *crate_name == name);
            assert!(place(to).is_some() && place(to) < place(from), "`{to}` must stand before `{from}`");
        }
    }

    #[test]
    fn a_dependency_without_an_entry_is_found() {
        let mut tree = Tree::planted(&[("deny.toml", "[bans]\nallow = [{ crate = \"half\", reason = \"f16\" }]\n")]);
        tree.members = vec![member("kauri-step", outside("rand"))];
        assert!(reasons(&tree)[0].message.contains("`rand` is not in deny.toml"));
        tree.members = vec![member("kauri-step", outside("half"))];
        assert_eq!(reasons(&tree), []);
    }

    #[test]
    fn an_entry_without_a_reason_is_found() {
        let planted = "[bans]\nallow = [\n  { crate = \"half@2\", reason = \"f16\" },\n  \"rand\",\n]\n";
        let found = reasons(&Tree::planted(&[("deny.toml", planted)]));
        assert_eq!(found, [Finding::new("deny.toml", 4, "`rand` is allowed without a reason: write it")]);
    }

    #[test]
    fn a_missing_list_is_found() {
        assert!(reasons(&Tree::planted(&[]))[0].message.contains("no `allow` list"));
    }
}
