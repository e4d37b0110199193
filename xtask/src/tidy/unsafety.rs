//! `unsafe` stands in a few named files, each use argued beside it and each file listed in `docs/unsafe.md`.

use std::collections::BTreeSet;

use super::Finding;
use super::tokens::{Token, begins};
use super::tree::{Tree, extension};

/// Where `unsafe` may stand.
const PLACES: &[&str] = &[
    "crates/formats/src/mapping.rs",
    "crates/formats/src/mapping/",
    "crates/device-cpu/",
    "crates/device-cuda/",
    "crates/device-wgpu/src/driver.rs",
    "crates/engine/tests/allocation.rs",
];
/// The crates that have such a place, and so cannot forbid it as a whole.
const CRATES: &[&str] = &["kauri-formats", "kauri-device-cpu", "kauri-device-cuda", "kauri-device-wgpu"];
/// The file that lists them.
const LIST: &str = "docs/unsafe.md";
/// How far above an `unsafe` its argument may stand, comments and attributes not counted.
const LINES_ABOVE: usize = 3;

/// Every other crate forbids `unsafe` in its root, and it stands nowhere else.
pub(super) fn forbidden(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in tree.members.iter().filter(|member| !CRATES.contains(&member.name.as_str())) {
        for (file, tokens) in tree.rust().filter(|(file, _)| member.roots.contains(&file.path)) {
            let forbid = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];
            if !(0..tokens.len()).any(|start| begins(&tokens[start..], &forbid)) {
                findings.push(Finding::new(&file.path, 1, "write `#![forbid(unsafe_code)]` below the module doc"));
            }
        }
    }
    for (path, line) in uses(tree) {
        if !PLACES.iter().any(|place| path.starts_with(place)) {
            findings.push(Finding::new(path, line, format!("`unsafe` may stand in {} only", PLACES.join(", "))));
        }
    }
    findings
}

/// Every `unsafe` has its argument right above it. The methods of an unsafe trait are argued once, above the trait; a method
/// of an `impl` of a trait, where the trait declares it.
pub(super) fn safety_comments(tree: &Tree) -> Vec<Finding> {
    let advice = "write `// SAFETY:` above it: why this is sound, checkable without leaving the file \
                  (`# Safety` for what a caller must uphold)";
    let mut findings = Vec::new();
    for (file, tokens) in tree.rust() {
        let inherits = inheriting(tokens, |line| is_argued(&file.text, line));
        for start in openings(tokens) {
            let is_method = tokens.get(start + 1).is_some_and(|next| next.text == "fn");
            let inherited = is_method && inherits.iter().any(|range| range.contains(&start));
            if !inherited && !is_argued(&file.text, tokens[start].line) {
                findings.push(Finding::new(&file.path, tokens[start].line, advice));
            }
        }
    }
    findings
}

/// The token ranges whose unsafe methods are argued elsewhere: the bodies of argued unsafe traits and of all trait impls.
fn inheriting(tokens: &[Token], is_argued: impl Fn(usize) -> bool) -> Vec<std::ops::Range<usize>> {
    let body = |start: usize| {
        let open = start + tokens[start..].iter().position(|token| token.text == "{")?;
        let mut depth = 0usize;
        let close = tokens[open..].iter().position(|token| {
            match token.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        Some((open, open + close))
    };
    let range = |start: usize| {
        let before = start.checked_sub(1).is_some_and(|before| tokens[before].text == "unsafe");
        let (open, close) = body(start)?;
        let argued = match tokens[start].text.as_str() {
            "trait" => before && is_argued(tokens[start].line),
            "impl" => tokens[start..open].iter().any(|token| token.text == "for"),
            _ => false,
        };
        argued.then_some(open..close)
    };
    (0..tokens.len()).filter_map(range).collect()
}

/// Whether a comment right above `line` argues for it.
fn is_argued(text: &str, line: usize) -> bool {
    let above: Vec<&str> = text.lines().take(line - 1).collect();
    let mut code_lines = 0;
    for line in above.iter().rev().map(|line| line.trim()) {
        if line.starts_with("// SAFETY:") || line.starts_with("/// # Safety") {
            return true;
        }
        if !line.starts_with("//") && !line.starts_with("#[") {
            code_lines += 1;
        }
        if code_lines == LINES_ABOVE {
            return false;
        }
    }
    false
}

/// The list names every file with `unsafe` in it, and no other.
pub(super) fn listed(tree: &Tree) -> Vec<Finding> {
    let using: BTreeSet<&str> = uses(tree).map(|(path, _)| path).collect();
    let list = tree.file(LIST).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    let mut named = BTreeSet::new();
    for (index, line) in list.lines().enumerate() {
        for path in line.split('`').filter(|part| part.starts_with("crates/") && extension(part) == "rs") {
            // `folder/*.rs` stands for every file of the folder that uses `unsafe`.
            let folder = path.strip_suffix("*.rs");
            let meant = using.iter().filter(|file| match folder {
                Some(folder) => file.strip_prefix(folder).is_some_and(|name| !name.contains('/')),
                None => **file == path,
            });
            let before = named.len();
            named.extend(meant.copied());
            if named.len() == before {
                findings.push(Finding::new(LIST, index + 1, format!("`{path}` uses no `unsafe`: remove it here")));
            }
        }
    }
    for path in using.difference(&named) {
        findings.push(Finding::new(path, 1, format!("uses `unsafe`: add it to {LIST} with what for")));
    }
    findings
}

/// Every place that opens something unsafe, as path and line.
fn uses(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    tree.rust().flat_map(|(file, tokens)| openings(tokens).map(|start| (file.path.as_str(), tokens[start].line)))
}

/// Every token that opens something unsafe.
fn openings(tokens: &[Token]) -> impl Iterator<Item = usize> {
    (0..tokens.len()).filter(|&start| tokens[start].text == "unsafe" && !is_type(&tokens[start..]))
}

/// Whether the `unsafe` that `tokens` begin with belongs to the type of a function pointer, which does nothing by itself.
fn is_type(tokens: &[Token]) -> bool {
    let function = tokens.iter().take(4).position(|token| token.text == "fn");
    function.is_some_and(|at| tokens.get(at + 1).is_some_and(|next| next.text == "("))
}

#[cfg(test)]
mod tests {
    use super::super::tree::Member;
    use super::*;

    const NOWHERE: [usize; 0] = [];
    const PLACE: &str = "crates/device-cpu/src/pool.rs";

    fn lines(findings: Vec<Finding>) -> Vec<usize> {
        findings.into_iter().map(|finding| finding.line).collect()
    }

    fn root(package: &str, text: &str) -> Tree {
        let mut tree = Tree::planted(&[("crates/x/src/lib.rs", text)]);
        tree.members.push(Member {
            name: package.to_owned(),
            roots: vec!["crates/x/src/lib.rs".to_owned()],
            ..Member::default()
        });
        tree
    }

    #[test]
    fn a_root_that_does_not_forbid_is_found() {
        assert_eq!(lines(forbidden(&root("kauri-step", "//! .\n// #![forbid(unsafe_code)]\n"))), [1]);
        assert_eq!(lines(forbidden(&root("kauri-step", "//! .\n#![forbid(unsafe_code)]\n"))), NOWHERE);
        assert_eq!(lines(forbidden(&root("kauri-device-cpu", "//! .\n"))), NOWHERE);
    }

    #[test]
    fn a_use_outside_its_place_is_found() {
        let text = "fn f() {\n    // SAFETY: none.\n    unsafe { g() }\n}\n";
        assert_eq!(lines(forbidden(&Tree::planted(&[("crates/formats/src/gguf.rs", text)]))), [3]);
        assert_eq!(lines(forbidden(&Tree::planted(&[(PLACE, text)]))), NOWHERE);
    }

    #[test]
    fn a_use_without_an_argument_is_found() {
        let found = |text| lines(safety_comments(&Tree::planted(&[(PLACE, text)])));
        assert_eq!(found("fn f() {\n    unsafe { g() }\n}\n"), [2]);
        assert_eq!(found("unsafe fn f() {}\n"), [1]);
        assert_eq!(found("// SAFETY: far away.\na!();\nb!();\nc!();\nunsafe impl Send for S {}\n"), [5]);
    }

    #[test]
    fn a_use_with_an_argument_is_not_found() {
        let found = |text| lines(safety_comments(&Tree::planted(&[(PLACE, text)])));
        assert_eq!(
            found("fn f() {\n    // SAFETY: one\n    // two\n    let a =\n        unsafe { g() };\n}\n"),
            NOWHERE
        );
        assert_eq!(
            found("/// # Safety\n/// AVX2.\n#[inline]\n#[target_feature(enable = \"avx2\")]\nunsafe fn f() {}\n"),
            NOWHERE
        );
        assert_eq!(found("type F = unsafe extern \"C\" fn(u8);\n// unsafe {}\n"), NOWHERE);
    }

    #[test]
    fn methods_inherit_the_argument_of_their_trait() {
        let found = |text| lines(safety_comments(&Tree::planted(&[(PLACE, text)])));
        assert_eq!(found("/// # Safety\n/// AVX2.\nunsafe trait T {\n\n\n\n    unsafe fn f();\n}\n"), NOWHERE);
        assert_eq!(found("unsafe trait T {\n\n\n\n    unsafe fn f();\n}\n"), [1, 5]);
        assert_eq!(found("impl T for S {\n    unsafe fn f() {\n        unsafe { g() }\n    }\n}\n"), [3]);
        assert_eq!(found("impl S {\n    unsafe fn f() {}\n}\n"), [2]);
    }

    #[test]
    fn the_list_and_the_files_agree() {
        let text = "// SAFETY: none needed.\nunsafe impl Send for S {}\n";
        assert_eq!(
            listed(&Tree::planted(&[(PLACE, text), (LIST, "- `crates/device-cpu/src/pool.rs`: threads\n")])),
            []
        );
        assert_eq!(listed(&Tree::planted(&[(PLACE, text), (LIST, "- `crates/device-cpu/src/*.rs`: threads\n")])), []);
        let elsewhere = listed(&Tree::planted(&[(PLACE, text), (LIST, "- `crates/device-cpu/*.rs`: threads\n")]));
        assert_eq!(elsewhere.len(), 2);
        assert_eq!(listed(&Tree::planted(&[(PLACE, text)]))[0].path, PLACE);
        let stale = listed(&Tree::planted(&[(LIST, "# Unsafe\n- `crates/device-cpu/src/gone.rs`: threads\n")]));
        assert_eq!((stale[0].path.as_str(), stale[0].line), (LIST, 2));
    }
}
