//! Words that must not reach the repository: paths of one developer's machine, registry mirrors, unfinished work.
//!
//! The words are put together from halves here, so that this file does not contain what it looks for.

use super::Finding;
use super::tokens::begins;
use super::tree::Tree;

/// Written by cargo or by lawyers, not by us.
const FOREIGN: &[&str] = &["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

/// A word, how it is recognised, and what to do about it.
struct Word {
    text: &'static str,
    kind: Kind,
    advice: &'static str,
}

enum Kind {
    /// Anywhere.
    Anywhere,
    /// Not as a part of a longer word.
    Whole,
    /// An absolute path: nothing before it that could belong to a path.
    Path,
}

const DEVELOPER: &str = "a path of one machine: write it relative to the repository, or take it as an argument";
const REGISTRY: &str = "a registry's host: cargo knows where its registry is";
const LATER: &str = "unfinished work: finish it, or write it down where work is planned";

const WORDS: &[Word] = &[
    Word::new(concat!("/ho", "me/"), Kind::Path, DEVELOPER),
    Word::new(concat!("/ro", "ot/"), Kind::Path, DEVELOPER),
    Word::new(concat!("/Us", "ers/"), Kind::Path, DEVELOPER),
    Word::new(concat!("/wo", "rk/"), Kind::Path, DEVELOPER),
    Word::new(concat!("arti", "factory"), Kind::Anywhere, REGISTRY),
    Word::new(concat!("index.", "crates.io"), Kind::Anywhere, REGISTRY),
    Word::new(concat!("py", "pi.org"), Kind::Anywhere, REGISTRY),
    Word::new(concat!("registry.", "npmjs"), Kind::Anywhere, REGISTRY),
    Word::new(concat!("FIX", "ME"), Kind::Whole, LATER),
    Word::new(concat!("XX", "X"), Kind::Whole, LATER),
];

/// Macros that stand for code that is not there, or that is only there while somebody looks for a mistake.
const MACROS: &[&str] = &["dbg", "todo", "unimplemented"];

impl Word {
    const fn new(text: &'static str, kind: Kind, advice: &'static str) -> Self {
        Self { text, kind, advice }
    }

    fn is_in(&self, line: &str) -> bool {
        line.match_indices(self.text).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + self.text.len()..].chars().next();
            let joins = |letter: char| letter.is_alphanumeric() || letter == '_';
            match self.kind {
                Kind::Anywhere => true,
                Kind::Whole => !before.is_some_and(joins) && !after.is_some_and(joins),
                Kind::Path => !before.is_some_and(|letter| joins(letter) || ".-~})]>*/".contains(letter)),
            }
        })
    }
}

/// No text of ours holds one of the words.
pub(super) fn forbidden_words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| !FOREIGN.contains(&file.path.as_str())) {
        for (index, line) in file.text.lines().enumerate() {
            for word in WORDS.iter().filter(|word| word.is_in(line)) {
                findings.push(Finding::new(&file.path, index + 1, format!("`{}` is {}", word.text, word.advice)));
            }
        }
    }
    findings
}

/// No code calls a macro that stands for missing code.
pub(super) fn unfinished_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, tokens) in tree.rust() {
        for (index, token) in tokens.iter().enumerate() {
            for name in MACROS.iter().filter(|&&name| begins(&tokens[index..], &[name, "!"])) {
                findings.push(Finding::new(&file.path, token.line, format!("`{name}!` has no place here: remove it")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_in(text: &str) -> usize {
        forbidden_words(&Tree::planted(&[("docs/a.md", text)])).len()
    }

    #[test]
    fn each_word_is_found_at_its_line() {
        for word in WORDS {
            let found = forbidden_words(&Tree::planted(&[("docs/a.md", &format!("fine\nsee {}\n", word.text))]));
            assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2], "{}", word.text);
        }
    }

    #[test]
    fn parts_of_other_words_and_paths_are_not_found() {
        assert_eq!(words_in(concat!("IQ2_XX", "S, AXX", "X, ../wo", "rk/, tests/wo", "rk/, ~/ro", "ot/")), 0);
        assert_eq!(words_in(concat!("`/wo", "rk/a`, \"/ro", "ot/b\"")), 2);
    }

    #[test]
    fn what_others_wrote_is_not_searched() {
        assert_eq!(forbidden_words(&Tree::planted(&[("Cargo.lock", concat!("XX", "X"))])), []);
    }

    #[test]
    fn each_unfinished_macro_is_found_in_code_only() {
        for name in MACROS {
            let text = format!("// {name}!()\nfn f() {{ let _ = \"{name}!()\"; {name}!(); }}\n");
            let found = unfinished_code(&Tree::planted(&[("a.rs", &text)]));
            assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2], "{name}");
        }
    }
}
