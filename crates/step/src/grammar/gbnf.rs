//! GBNF, the grammars of llama.cpp, rewritten for the engine below.
//!
//! A grammar whose rules do not call themselves is one regular expression, and becomes one. Else each character becomes a
//! piece of its own, so that no piece is the beginning of another, and the engine's habit of taking the longest piece changes
//! nothing.
//!
//! Format: <https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md>.

use std::collections::HashMap;
use std::fmt::Write;

use super::error::Error;
use super::pattern;

/// The most bytes of a grammar.
const BYTES_MAX: usize = 1 << 18;
/// The most rules.
const RULES_MAX: usize = 2000;
/// The most groups inside each other.
const DEPTH_MAX: usize = 50;
/// The most times that something is repeated by number.
const REPEAT_MAX: u32 = 1000;
/// The most bytes of the regular expression that rules without circles come to.
const EXPRESSION_BYTES_MAX: usize = 1 << 18;

const KIND: &str = "GBNF grammar";

/// The same grammar in Lark's notation.
pub(super) fn to_lark(text: &str) -> Result<String, Error> {
    if text.len() > BYTES_MAX {
        return Err(Error::Limit { kind: KIND, what: "bytes", limit: BYTES_MAX });
    }
    let grammar = read(text)?;
    let root = *grammar.names.get("root").ok_or_else(|| wrong("no rule is called \"root\""))?;
    if let Some((name, _)) = grammar.names.iter().find(|&(_, &index)| grammar.rules[index].is_none()) {
        return Err(wrong(format!("the rule {name:?} is called and not written")));
    }
    if grammar.has_circle(root) {
        return Ok(grammar.rules_in_lark(root));
    }
    let mut out = String::new();
    grammar.expression(grammar.rule(root), &mut out)?;
    Ok(format!("start: /{out}/"))
}

fn wrong(reason: impl Into<String>) -> Error {
    Error::Syntax { kind: KIND, reason: reason.into() }
}

enum Node {
    /// A character, or one of a class: an expression for exactly one.
    Character(String),
    Rule(usize),
    Sequence(Vec<Self>),
    Choice(Vec<Self>),
    Repeat(Box<Self>, u32, Option<u32>),
}

#[derive(Default)]
struct Grammar {
    names: HashMap<String, usize>,
    rules: Vec<Option<Node>>,
}

impl Grammar {
    fn rule(&self, index: usize) -> &Node {
        self.rules[index].as_ref().expect("every rule is written")
    }

    fn index(&mut self, name: &str) -> usize {
        let next = self.rules.len();
        let index = *self.names.entry(name.to_owned()).or_insert(next);
        if index == next {
            self.rules.push(None);
        }
        index
    }

    /// Whether some rule that `root` needs calls itself.
    fn has_circle(&self, root: usize) -> bool {
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            No,
            Open,
            Closed,
        }
        let mut seen = vec![Seen::No; self.rules.len()];
        let mut path = vec![(root, false)];
        while let Some((index, leaving)) = path.pop() {
            if leaving {
                seen[index] = Seen::Closed;
                continue;
            }
            match seen[index] {
                Seen::Open => return true,
                Seen::Closed => continue,
                Seen::No => seen[index] = Seen::Open,
            }
            path.push((index, true));
            let mut called = Vec::new();
            calls(self.rule(index), &mut called);
            if called.iter().any(|&next| seen[next] == Seen::Open) {
                return true;
            }
            path.extend(called.into_iter().filter(|&next| seen[next] == Seen::No).map(|next| (next, false)));
        }
        false
    }

    fn expression(&self, node: &Node, out: &mut String) -> Result<(), Error> {
        if out.len() > EXPRESSION_BYTES_MAX {
            return Err(Error::Limit { kind: KIND, what: "bytes as one expression", limit: EXPRESSION_BYTES_MAX });
        }
        match node {
            Node::Character(one) => out.push_str(one),
            Node::Rule(index) => self.expression(self.rule(*index), out)?,
            Node::Sequence(parts) => {
                out.push_str("(?:");
                parts.iter().try_for_each(|part| self.expression(part, out))?;
                out.push(')');
            }
            Node::Choice(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    out.push_str(if at == 0 { "(?:" } else { "|" });
                    self.expression(part, out)?;
                }
                out.push(')');
            }
            Node::Repeat(part, least, most) => {
                out.push_str("(?:");
                self.expression(part, out)?;
                out.push(')');
                push_bounds(out, *least, *most);
            }
        }
        Ok(())
    }

    fn rules_in_lark(&self, root: usize) -> String {
        let mut out = format!("start: r{root}\n");
        for index in 0..self.rules.len() {
            write!(out, "r{index}: ").expect("writing to a string");
            lark(self.rule(index), &mut out);
            out.push('\n');
        }
        out
    }
}

fn push_bounds(out: &mut String, least: u32, most: Option<u32>) {
    match (least, most) {
        (0, None) => out.push('*'),
        (1, None) => out.push('+'),
        (0, Some(1)) => out.push('?'),
        (_, None) => write!(out, "{{{least},}}").expect("writing to a string"),
        (_, Some(most)) => write!(out, "{{{least},{most}}}").expect("writing to a string"),
    }
}

fn calls(node: &Node, out: &mut Vec<usize>) {
    match node {
        Node::Character(_) => {}
        Node::Rule(index) => out.push(*index),
        Node::Sequence(parts) | Node::Choice(parts) => parts.iter().for_each(|part| calls(part, out)),
        Node::Repeat(part, ..) => calls(part, out),
    }
}

fn lark(node: &Node, out: &mut String) {
    match node {
        Node::Character(one) => write!(out, "/{one}/").expect("writing to a string"),
        Node::Rule(index) => write!(out, "r{index}").expect("writing to a string"),
        Node::Sequence(parts) if parts.is_empty() => out.push_str("\"\""),
        Node::Sequence(parts) => {
            out.push('(');
            parts.iter().for_each(|part| {
                lark(part, out);
                out.push(' ');
            });
            out.push(')');
        }
        Node::Choice(parts) => {
            for (at, part) in parts.iter().enumerate() {
                out.push_str(if at == 0 { "(" } else { " | " });
                lark(part, out);
            }
            out.push(')');
        }
        Node::Repeat(part, least, most) => {
            out.push('(');
            lark(part, out);
            out.push(')');
            push_bounds(out, *least, *most);
        }
    }
}

fn read(text: &str) -> Result<Grammar, Error> {
    let mut reader = Reader { text, at: 0, depth: 0, grammar: Grammar::default() };
    loop {
        reader.space(true);
        if reader.rest().is_empty() {
            return Ok(reader.grammar);
        }
        let name = reader.name()?;
        reader.space(false);
        if !reader.take("::=") {
            return Err(reader.fault("\"::=\" is missing behind a rule's name"));
        }
        let index = reader.grammar.index(&name);
        let node = reader.choice()?;
        if reader.grammar.rules[index].replace(node).is_some() {
            return Err(wrong(format!("the rule {name:?} is written twice")));
        }
        if reader.grammar.rules.len() > RULES_MAX {
            return Err(Error::Limit { kind: KIND, what: "rules", limit: RULES_MAX });
        }
        if !reader.rest().is_empty() && !reader.rest().starts_with(['\n', '\r']) {
            return Err(reader.fault("a rule ends here, but its line does not"));
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    grammar: Grammar,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn fault(&self, what: &str) -> Error {
        let line = self.text[..self.at].matches('\n').count() + 1;
        wrong(format!("line {line}: {what}"))
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    /// Skips blanks and remarks, and line ends where a rule goes on.
    fn space(&mut self, lines: bool) {
        loop {
            let rest = self.rest();
            let blanks = |next: char| next == ' ' || next == '\t' || lines && (next == '\n' || next == '\r');
            self.at += rest.len() - rest.trim_start_matches(blanks).len();
            if !self.rest().starts_with('#') {
                return;
            }
            self.at += self.rest().find(['\n', '\r']).unwrap_or(self.rest().len());
        }
    }

    fn name(&mut self) -> Result<String, Error> {
        let rest = self.rest();
        let end =
            rest.find(|next: char| !next.is_ascii_alphanumeric() && next != '-' && next != '_').unwrap_or(rest.len());
        if end == 0 {
            return Err(self.fault("a rule's name is missing"));
        }
        self.at += end;
        Ok(rest[..end].to_owned())
    }

    fn choice(&mut self) -> Result<Node, Error> {
        let mut parts = Vec::new();
        loop {
            // Behind `::=`, `(` and `|` a line may end.
            self.space(true);
            parts.push(self.sequence()?);
            if !self.take("|") {
                return Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Choice(parts) });
            }
        }
    }

    fn sequence(&mut self) -> Result<Node, Error> {
        let mut parts = Vec::new();
        loop {
            self.space(self.depth > 0);
            let Some(first) = self.rest().chars().next() else { break };
            let mut node = match first {
                '"' => self.literal()?,
                '[' => Node::Character(self.class()?),
                '.' => {
                    self.at += 1;
                    Node::Character(r"[\x{0}-\x{10ffff}]".to_owned())
                }
                '(' => self.group()?,
                _ if first.is_ascii_alphanumeric() || first == '_' || first == '-' => {
                    let name = self.name()?;
                    Node::Rule(self.grammar.index(&name))
                }
                _ => break,
            };
            while let Some((least, most)) = self.bounds()? {
                node = Node::Repeat(Box::new(node), least, most);
            }
            parts.push(node);
        }
        Ok(Node::Sequence(parts))
    }

    fn group(&mut self) -> Result<Node, Error> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::Limit { kind: KIND, what: "groups inside each other", limit: DEPTH_MAX });
        }
        let node = self.choice()?;
        self.space(true);
        self.depth -= 1;
        if self.take(")") { Ok(node) } else { Err(self.fault("a group is not closed")) }
    }

    fn bounds(&mut self) -> Result<Option<(u32, Option<u32>)>, Error> {
        self.space(self.depth > 0);
        for (sign, bounds) in [("*", (0, None)), ("+", (1, None)), ("?", (0, Some(1)))] {
            if self.take(sign) {
                return Ok(Some(bounds));
            }
        }
        if !self.take("{") {
            return Ok(None);
        }
        let end = self.rest().find('}').ok_or_else(|| self.fault("a brace is not closed"))?;
        let inside = &self.rest()[..end];
        let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
        let number = |text: &str| match text.trim().parse::<u32>() {
            Ok(count) if count <= REPEAT_MAX => Ok(count),
            Ok(_) => Err(Error::Limit { kind: KIND, what: "repetitions by number", limit: REPEAT_MAX as usize }),
            Err(_) => Err(self.fault("a number of repetitions is missing")),
        };
        let least = if least.trim().is_empty() { 0 } else { number(least)? };
        let most = if most.trim().is_empty() { None } else { Some(number(most)?) };
        if most.is_some_and(|most| most < least) {
            return Err(self.fault("a number of repetitions is out of order"));
        }
        self.at += end + 1;
        Ok(Some((least, most)))
    }

    fn literal(&mut self) -> Result<Node, Error> {
        self.at += 1;
        let mut parts = Vec::new();
        while !self.take("\"") {
            let character = self.character()?;
            parts.push(Node::Character(pattern::literal(character.encode_utf8(&mut [0; 4]))));
        }
        Ok(Node::Sequence(parts))
    }

    fn class(&mut self) -> Result<String, Error> {
        self.at += 1;
        let mut out = String::from(if self.take("^") { "[^" } else { "[" });
        let empty = out.len();
        while !self.take("]") {
            let first = self.character()?;
            out.push_str(&pattern::literal(first.encode_utf8(&mut [0; 4])));
            if self.rest().starts_with('-') && !self.rest().starts_with("-]") {
                self.at += 1;
                let last = self.character()?;
                if last < first {
                    return Err(self.fault("a range within brackets is out of order"));
                }
                out.push('-');
                out.push_str(&pattern::literal(last.encode_utf8(&mut [0; 4])));
            }
        }
        match (out.len() == empty, empty) {
            (true, 1) => Err(self.fault("empty brackets match nothing")),
            (true, _) => Ok(r"[\x{0}-\x{10ffff}]".to_owned()),
            (false, _) => Ok(out + "]"),
        }
    }

    /// The next character of a literal or a class.
    fn character(&mut self) -> Result<char, Error> {
        let mut rest = self.rest().chars();
        let open = || "a literal or a bracket is not closed";
        let first = rest.next().filter(|&next| next != '\n').ok_or_else(|| self.fault(open()))?;
        self.at += first.len_utf8();
        if first != '\\' {
            return Ok(first);
        }
        let letter = rest.next().ok_or_else(|| self.fault(open()))?;
        self.at += letter.len_utf8();
        let digits = match letter {
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ if letter.is_ascii_alphanumeric() => return Err(self.fault(&format!("\\{letter} means nothing"))),
            other => return Ok(other),
        };
        let text = self.rest().get(..digits).ok_or_else(|| self.fault("hexadecimal digits are missing"))?;
        let code = u32::from_str_radix(text, 16).ok().and_then(char::from_u32);
        self.at += digits;
        code.ok_or_else(|| self.fault("hexadecimal digits give no character"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_without_circles_are_one_expression() {
        let text = "# a remark\nroot ::= \"a\" [^b-d\\]]{2,3} ( x | \"\" )* # more\nx ::=\n  \"\\x41\" | .+\n";
        let lark = to_lark(text).unwrap();
        let pattern = lark.strip_prefix("start: /").unwrap().strip_suffix('/').unwrap();
        let pattern = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        assert!(
            pattern.is_match("axyA") && pattern.is_match("axx") && !pattern.is_match("ab]") && !pattern.is_match("ax")
        );
    }

    #[test]
    fn rules_that_call_themselves_stay_rules_of_single_characters() {
        let lark = to_lark("root ::= \"ab\" root? | [0-9]").unwrap();
        assert_eq!(lark, "start: r0\nr0: (((/a/ /b/ ) (r0)? ) | (/[0-9]/ ))\n");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, reason) in [
            ("x ::= \"a\"", "no rule is called"),
            ("root ::= y", "\"y\" is called and not written"),
            ("root ::= \"a\"\nroot ::= \"b\"", "written twice"),
            ("root = \"a\"", "line 1: \"::=\" is missing"),
            ("root ::= (\"a\"", "not closed"),
            ("root ::= \"a", "not closed"),
            ("root ::= [a", "not closed"),
            ("root ::= \"a\"{3,2}", "out of order"),
            ("root ::= \"a\"{9999}", "more than 1000 repetitions"),
            ("root ::= \"a\" %", "line 1: a rule ends here"),
            ("root ::= \"\\q\"", "\\q means nothing"),
        ] {
            let error = to_lark(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let deep = format!("root ::= {}", "(".repeat(60));
        assert!(to_lark(&deep).unwrap_err().to_string().contains("inside each other"));
        let doubling = (0..40).map(|n| format!("r{n} ::= r{} r{}\n", n + 1, n + 1)).collect::<Vec<_>>().concat();
        let error = to_lark(&format!("root ::= r0\n{doubling}r40 ::= \"a\"")).unwrap_err().to_string();
        assert!(error.contains("as one expression"), "{error}");
    }
}
