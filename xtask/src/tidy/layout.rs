//! How a file is laid out: its doc, its length, the length of its functions, the order of its lists.
//!
//! Clippy counts the lines of functions too (`too-many-lines-threshold`); the count here is the same, so that a plain
//! `cargo test` sees what clippy would.

use std::collections::BTreeSet;

use super::Finding;
use super::tokens::{Token, begins, group_len};
use super::tree::{File, Tree, extension};

/// A file of this many lines is two files.
const FILE_LINES_MAX: usize = 800;
/// A function body of more lines of code than this is two functions.
const FUNCTION_LINES_MAX: usize = 70;
/// Paths that may hold longer files, and why.
const LONG_FILES: &[(&str, &str)] = &[
    ("crates/device-cpu/src/aarch64/", "kernels: an unrolled inner loop per type"),
    ("crates/device-cpu/src/x86_64/", "kernels: an unrolled inner loop per type"),
    ("crates/device-cuda/kernels/", "kernels: an unrolled inner loop per type"),
    ("crates/formats/src/quant/tables", "tables copied from the format's definition"),
];
/// Files that list the members of an open set, one `mod` a line.
const REGISTRIES: &[&str] = &[
    "crates/arch/src/families.rs",
    "crates/cli/src/commands.rs",
    "crates/cli/src/main.rs",
    "crates/device-cpu/src/quant.rs",
    "crates/formats/src/quant.rs",
    "crates/server/src/routes.rs",
    "crates/step/src/tools.rs",
];
/// What marks a list that is kept in order, and where it ends.
const SORTED: &str = "// tidy: sorted";
const SORTED_END: &str = "// tidy: end";

/// Every Rust file can be split into tokens, as all other checks need.
pub(super) fn readable(tree: &Tree) -> Vec<Finding> {
    let broken = |file: &File| match &file.tokens {
        Some(Err(error)) => Some(Finding::new(&file.path, 1, format!("is not Rust ({error}): fix or remove it"))),
        _ => None,
    };
    tree.files.iter().filter_map(broken).collect()
}

/// Every Rust file begins with a module doc.
pub(super) fn module_docs(tree: &Tree) -> Vec<Finding> {
    let has_doc = |tokens: &[Token]| {
        begins(tokens, &["#", "!", "[", "doc", "="])
            && tokens.get(5).is_some_and(|text| !text.text.trim_matches(['"', ' ']).is_empty())
    };
    tree.rust()
        .filter(|(_, tokens)| !has_doc(tokens))
        .map(|(file, _)| {
            Finding::new(&file.path, 1, "begin with `//!`: what this is, and what it deliberately does not know")
        })
        .collect()
}

/// No source file is longer than a person reads in one go.
pub(super) fn file_length(tree: &Tree) -> Vec<Finding> {
    let source = |file: &&File| {
        ["rs", "cu", "wgsl"].contains(&extension(&file.path))
            && !LONG_FILES.iter().any(|(path, _)| file.path.starts_with(path))
    };
    tree.files
        .iter()
        .filter(source)
        .filter(|file| file.text.lines().count() >= FILE_LINES_MAX)
        .map(|file| {
            let lines = file.text.lines().count();
            Finding::new(&file.path, FILE_LINES_MAX, format!("{lines} lines: cut it in two below {FILE_LINES_MAX}"))
        })
        .collect()
}

/// No function is longer than a screen, unless it says why with an `expect`.
pub(super) fn function_length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, tokens) in tree.rust() {
        for start in 0..tokens.len() {
            let Some(body) = function_body(&tokens[start..]) else {
                continue;
            };
            let lines = code_lines(body);
            if lines > FUNCTION_LINES_MAX && !is_excused(&tokens[..start]) {
                let name = &tokens[start + 1].text;
                let message = format!(
                    "`{name}` has {lines} lines: cut it in two below {}, or give a kernel its \
                     `#[expect(clippy::too_many_lines, reason = \"..\")]`",
                    FUNCTION_LINES_MAX + 1
                );
                findings.push(Finding::new(&file.path, tokens[start].line, message));
            }
        }
    }
    findings
}

/// What stands between the braces of the function that `tokens` begin with, if they begin with one that has a body.
fn function_body(tokens: &[Token]) -> Option<&[Token]> {
    if tokens.first()?.text != "fn" || !tokens.get(1)?.is_word() {
        return None;
    }
    let mut at = 2;
    loop {
        match tokens.get(at)?.text.as_str() {
            "{" => return Some(&tokens[at + 1..at + group_len(&tokens[at..]) - 1]),
            "(" | "[" => at += group_len(&tokens[at..]),
            ";" => return None,
            _ => at += 1,
        }
    }
}

/// How many lines hold code: blank lines and comments do not count.
fn code_lines(tokens: &[Token]) -> usize {
    tokens.iter().flat_map(|token| token.line..=token.end_line).collect::<BTreeSet<_>>().len()
}

/// Whether the attributes at the end of `before` expect a long function.
fn is_excused(before: &[Token]) -> bool {
    let head = before.iter().rev().take_while(|token| !["{", "}", ";"].contains(&token.text.as_str()));
    let words: Vec<&str> = head.map(|token| token.text.as_str()).collect();
    ["expect", "too_many_lines", "reason"].iter().all(|word| words.contains(word))
}

/// The `mod` lines of a registry stand in the order that rustfmt gives them, also across blank lines.
pub(super) fn sorted_registries(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, tokens) in tree.rust().filter(|(file, _)| REGISTRIES.contains(&file.path.as_str())) {
        let modules = tokens.windows(3).filter(|window| window[0].text == "mod" && window[2].text == ";");
        let names: Vec<(&str, usize)> = modules.map(|window| (window[1].text.as_str(), window[1].line)).collect();
        findings.extend(first_disorder(&file.path, &names));
    }
    findings
}

/// The lines between the two marks stand in order.
pub(super) fn sorted_blocks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        let mut lines = file.text.lines().enumerate();
        while let Some((start, _)) = lines.find(|(_, line)| line.trim() == SORTED) {
            let mut entries = Vec::new();
            let mut closed = false;
            for (index, line) in lines.by_ref() {
                if line.trim() == SORTED_END {
                    closed = true;
                    break;
                }
                entries.push((line, index + 1));
            }
            if !closed {
                findings.push(Finding::new(&file.path, start + 1, format!("close the list with `{SORTED_END}`")));
            }
            findings.extend(first_disorder(&file.path, &outermost(&entries)));
        }
    }
    findings
}

/// The lines that begin an entry: those that are indented least, without comments and closing brackets.
fn outermost<'a>(lines: &[(&'a str, usize)]) -> Vec<(&'a str, usize)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_entry = |line: &str| !line.trim().is_empty() && !line.trim().starts_with(['/', '#', ')', ']', '}']);
    let entries: Vec<_> = lines.iter().filter(|(line, _)| is_entry(line)).collect();
    let least = entries.iter().map(|(line, _)| indent(line)).min().unwrap_or(0);
    let outermost = entries.into_iter().filter(|(line, _)| indent(line) == least);
    outermost.map(|&(line, number)| (line.trim().trim_end_matches([',', ';']), number)).collect()
}

/// The first entry that should stand before the one above it.
fn first_disorder(path: &str, entries: &[(&str, usize)]) -> Option<Finding> {
    let pair = entries.windows(2).find(|pair| version_order(pair[0].0) > version_order(pair[1].0))?;
    let ((above, _), (below, line)) = (pair[0], pair[1]);
    Some(Finding::new(path, line, format!("move `{below}` above `{above}`: this list is alphabetic")))
}

/// A key in the order that rustfmt sorts names: numbers by value, `_` before every letter.
fn version_order(name: &str) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for letter in name.chars() {
        match (letter.to_digit(10), chunks.last_mut()) {
            (Some(digit), Some(Chunk::Number(number))) => *number = number.saturating_mul(10) + u128::from(digit),
            (Some(digit), _) => chunks.push(Chunk::Number(u128::from(digit))),
            (None, Some(Chunk::Text(text))) => text.push(rank(letter)),
            (None, _) => chunks.push(Chunk::Text(rank(letter).to_string())),
        }
    }
    chunks
}

/// `_` sorts right after a space; everything else as it is.
const fn rank(letter: char) -> char {
    if letter == '_' { '!' } else { letter }
}

/// A run of digits, or a run of anything else.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Chunk {
    Number(u128),
    Text(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn found(check: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        check(&Tree::planted(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn text_that_is_not_rust_is_found() {
        assert_eq!(found(readable, "a.rs", "fn f( {"), [1]);
        assert_eq!(found(readable, "a.rs", "fn f() {}"), NOWHERE);
    }

    #[test]
    fn a_missing_or_empty_or_late_module_doc_is_found() {
        assert_eq!(found(module_docs, "tests/a.rs", "fn f() {}"), [1]);
        assert_eq!(found(module_docs, "a.rs", "//!\nfn f() {}"), [1]);
        assert_eq!(found(module_docs, "a.rs", "#![forbid(unsafe_code)]\n//! Late.\n"), [1]);
        assert_eq!(found(module_docs, "a.rs", "/// A function's.\nfn f() {}"), [1]);
        assert_eq!(found(module_docs, "a.rs", "// Licence.\n//! What it is.\nfn f() {}"), NOWHERE);
    }

    #[test]
    fn a_file_of_800_lines_is_found_and_one_of_799_is_not() {
        assert_eq!(found(file_length, "a.rs", &"//\n".repeat(800)), [800]);
        assert_eq!(found(file_length, "a.rs", &"//\n".repeat(799)), NOWHERE);
        assert_eq!(found(file_length, "crates/formats/src/quant/tables.rs", &"//\n".repeat(800)), NOWHERE);
    }

    fn function(head: &str, lines: usize) -> String {
        format!(
            "{head}fn f<const N: usize>(x: [u8; N]) -> u8 {{\n// Why.\n\n{}}}\nfn g() {{}}\n",
            "a();\n".repeat(lines)
        )
    }

    #[test]
    fn a_function_over_70_lines_is_found_and_one_of_70_is_not() {
        assert_eq!(found(function_length, "a.rs", &function("", 71)), [1]);
        assert_eq!(found(function_length, "a.rs", &function("", 70)), NOWHERE);
    }

    #[test]
    fn a_long_function_may_say_why() {
        let expect = "#[expect(clippy::too_many_lines, reason = \"one unrolled loop\")]\npub ";
        assert_eq!(found(function_length, "a.rs", &function(expect, 90)), NOWHERE);
        assert_eq!(found(function_length, "a.rs", &function("#[expect(clippy::too_many_lines)]\n", 90)), [2]);
        let elsewhere = format!("{expect}fn e() {{}}\n");
        assert_eq!(found(function_length, "a.rs", &function(&elsewhere, 90)), [3]);
    }

    #[test]
    fn a_function_without_a_body_has_no_length() {
        assert_eq!(found(function_length, "a.rs", "trait T { fn f(); }\ntype F = fn(u8) -> u8;\n"), NOWHERE);
    }

    #[test]
    fn a_registry_out_of_order_is_found_across_blank_lines() {
        let path = "crates/arch/src/families.rs";
        assert_eq!(found(sorted_registries, path, "mod qwen2;\n\nmod llama;\n"), [3]);
        assert_eq!(
            found(sorted_registries, path, "mod gemma_text;\nmod llama;\nmod qwen2;\npub mod qwen10;\n"),
            NOWHERE
        );
        assert_eq!(found(sorted_registries, "crates/arch/src/shape.rs", "mod b;\n\nmod a;\n"), NOWHERE);
    }

    #[test]
    fn a_sorted_block_out_of_order_is_found() {
        let block = |lines: &str| format!("fn f() {{\n    {SORTED}\n{lines}    {SORTED_END}\n}}\n");
        assert_eq!(found(sorted_blocks, "a.rs", &block("    b,\n    a,\n")), [4]);
        assert_eq!(
            found(sorted_blocks, "a.rs", &block("    a,\n    // Why.\n    ab(\n        0,\n    ),\n    b,\n")),
            NOWHERE
        );
    }

    #[test]
    fn a_sorted_block_without_an_end_is_found() {
        assert_eq!(found(sorted_blocks, "a.rs", &format!("{SORTED}\n// a\n")), [1]);
    }

    #[test]
    fn numbers_sort_by_value_and_underscores_first() {
        let sorted = ["gemma2", "gemma_text", "iq2_s", "iq2_xs", "q4_k", "q10", "qwen_a", "qwena"];
        assert!(sorted.iter().map(|name| version_order(name)).is_sorted());
    }
}
