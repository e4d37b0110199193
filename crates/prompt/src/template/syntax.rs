//! From Jinja2's dialect to the engine's. The template is read here, tag by tag, with Jinja2's rules for whitespace
//! (`trim_blocks` and `lstrip_blocks` on, as transformers has them), and written again:
//!
//! - text as `{{ "text" }}`, so that printing it is counted like all printing;
//! - expressions as calls ([`super::expression`]);
//! - `{% generation %}` (a mark for training) and `{% block %}` as what is inside them;
//! - `{% include %}`, `{% import %}`, `{% extends %}` and every tag not in [`Writer::statement`]'s list: refused.
//!
//! Lines stay where they were, so that the engine's errors name the line of the template.

use super::Error;
use super::expression::{Parser, literal};
use super::tokens::{Tag, Token, cut};

/// The longest template taken, in bytes.
pub(super) const TEMPLATE_BYTES_MAX: usize = 1 << 20;

/// The most `elif` that may be open within each other.
const ALTERNATIVES_MAX: usize = 500;

/// Rewrites a template for the engine. Fails with [`Error::Syntax`], or [`Error::Limit`] for a source that is too long.
pub(super) fn rewrite(source: &str) -> Result<String, Error> {
    if source.len() > TEMPLATE_BYTES_MAX {
        return Err(Error::limit("template bytes", TEMPLATE_BYTES_MAX as u64));
    }
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut reader = Reader {
        source: source.strip_suffix('\n').unwrap_or(&source),
        at: 0,
        line: 1,
        line_starting: true,
        writer: Writer { out: String::new(), line: 1, alternatives: Vec::new() },
    };
    reader.read()?;
    Ok(reader.writer.out)
}

/// The kinds of tag, by what opens them.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Print,
    Statement,
    Comment,
}

struct Reader<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    /// Whether what was read last ended a line: only then is the indentation of the next tag dropped.
    line_starting: bool,
    writer: Writer,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn advance(&mut self, bytes: usize) {
        self.line += self.rest()[..bytes].matches('\n').count();
        self.at += bytes;
    }

    fn read(&mut self) -> Result<(), Error> {
        while let Some((offset, kind)) = next_tag(self.rest()) {
            let text = &self.rest()[..offset];
            let sign = self.rest()[offset + 2..].chars().next().filter(|sign| matches!(sign, '-' | '+'));
            let kept = match (sign, kind) {
                (Some('-'), _) => text.trim_end(),
                (Some(_), _) | (None, Kind::Print) => text,
                (None, _) => self.without_indentation(text),
            };
            self.writer.text(kept, self.line);
            self.advance(offset + 2 + sign.map_or(0, char::len_utf8));
            match kind {
                Kind::Print => self.print()?,
                Kind::Comment => self.comment()?,
                Kind::Statement => self.statement()?,
            }
        }
        let rest = self.rest();
        self.writer.text(rest, self.line);
        Ok(())
    }

    /// `lstrip_blocks`: blanks between the start of a line and a tag go.
    fn without_indentation(&self, text: &'a str) -> &'a str {
        let start = text.rfind('\n').map_or(0, |at| at + 1);
        let whole_line = start > 0 || self.line_starting;
        if whole_line && text[start..].trim().is_empty() { &text[..start] } else { text }
    }

    /// The end of a tag, whose first sign stands at the current position: what it swallows of the text behind it.
    fn close(&mut self, close: &str, kind: Kind) {
        let sign = self.rest().chars().next().filter(|_| !self.rest().starts_with(close));
        let start = self.at;
        self.advance(sign.map_or(0, char::len_utf8) + close.len());
        let blank = match (sign, kind) {
            (Some('-'), _) => self.rest().len() - self.rest().trim_start().len(),
            (None, Kind::Statement | Kind::Comment) => usize::from(self.rest().starts_with('\n')),
            _ => 0,
        };
        self.advance(blank);
        self.line_starting = self.source[start..self.at].ends_with('\n');
    }

    fn print(&mut self) -> Result<(), Error> {
        let line = self.line;
        let tag = self.tag("}}")?;
        let mut parser = Parser::new(tag.tokens, line);
        let expression = parser.tuple()?;
        parser.end()?;
        self.writer.tag("{{", &expression, "}}", line);
        self.close("}}", Kind::Print);
        Ok(())
    }

    fn tag(&mut self, close: &str) -> Result<Tag, Error> {
        let tag = cut(self.source, self.at, self.line, close)?;
        self.advance(tag.end - self.at);
        Ok(tag)
    }

    fn comment(&mut self) -> Result<(), Error> {
        let end = self.rest().find("#}").ok_or_else(|| Error::syntax(self.line, "a comment has no #}".to_owned()))?;
        let signed = end > 0 && matches!(self.rest().as_bytes()[end - 1], b'-' | b'+');
        self.advance(end - usize::from(signed));
        self.close("#}", Kind::Comment);
        Ok(())
    }

    fn statement(&mut self) -> Result<(), Error> {
        let line = self.line;
        let tag = self.tag("%}")?;
        if matches!(tag.tokens.as_slice(), [(Token::Name(name), _)] if name == "raw") {
            return self.raw(line);
        }
        self.writer.statement(tag.tokens, line)?;
        self.close("%}", Kind::Statement);
        Ok(())
    }

    /// `{% raw %}` to `{% endraw %}`: text, whatever is in it. The newline after `{% raw %}` stays.
    fn raw(&mut self, line: usize) -> Result<(), Error> {
        self.close("%}", Kind::Print);
        let start = self.at;
        while let Some(offset) = self.rest().find("{%") {
            let inside = &self.rest()[offset + 2..];
            let sign = inside.chars().next().filter(|sign| matches!(sign, '-' | '+'));
            let inside = &inside[sign.map_or(0, char::len_utf8)..];
            let end = inside.trim_start().strip_prefix("endraw").map(str::trim_start);
            let closes = end.is_some_and(|end| end.strip_prefix(['-', '+']).unwrap_or(end).starts_with("%}"));
            let text = &self.source[start..self.at + offset];
            if let (true, Some(end)) = (closes, end) {
                let text_line = self.line - self.source[start..self.at].matches('\n').count();
                let kept = match sign {
                    Some('-') => text.trim_end(),
                    Some(_) => text,
                    None => self.without_indentation(text),
                };
                self.writer.text(kept, text_line);
                self.advance(self.rest().len() - end.len());
                self.close("%}", Kind::Statement);
                return Ok(());
            }
            self.advance(offset + 2);
        }
        Err(Error::syntax(line, "raw has no endraw".to_owned()))
    }
}

fn next_tag(text: &str) -> Option<(usize, Kind)> {
    let mut from = 0;
    while let Some(offset) = text[from..].find('{') {
        let at = from + offset;
        match text.as_bytes().get(at + 1) {
            Some(b'{') => return Some((at, Kind::Print)),
            Some(b'%') => return Some((at, Kind::Statement)),
            Some(b'#') => return Some((at, Kind::Comment)),
            _ => from = at + 1,
        }
    }
    None
}

/// Writes the engine's template, each piece on the line that it had.
struct Writer {
    out: String,
    line: usize,
    /// For each `if` that is open, how many `elif` it has had: the engine's compiler nests each within the one before.
    alternatives: Vec<usize>,
}

impl Writer {
    fn tag(&mut self, open: &str, inside: &str, close: &str, line: usize) {
        self.out.push_str(open);
        self.out.push(' ');
        while self.line < line {
            self.out.push('\n');
            self.line += 1;
        }
        self.line += inside.matches('\n').count();
        self.out.push_str(inside);
        self.out.push(' ');
        self.out.push_str(close);
    }

    fn text(&mut self, text: &str, line: usize) {
        if !text.is_empty() {
            self.tag("{{", &literal(text), "}}", line);
        }
    }

    fn statement(&mut self, tokens: Vec<(Token, usize)>, line: usize) -> Result<(), Error> {
        let mut parser = Parser::new(tokens, line);
        let name = parser.name()?;
        let inside = match name.as_str() {
            "for" => for_loop(&mut parser)?,
            "if" | "elif" => {
                self.count_alternative(&name, &parser)?;
                format!("{name} {}", parser.tuple()?)
            }
            "set" => set(&mut parser)?,
            "macro" => format!("macro {}{}", parser.name()?, signature(&mut parser)?),
            "call" => call_block(&mut parser)?,
            "filter" => format!("filter {}", filter_chain(&mut parser)?),
            "with" => with(&mut parser)?,
            "endif" => {
                self.alternatives.pop();
                name
            }
            "else" | "endfor" | "endset" | "endcall" | "endfilter" | "endwith" | "break" | "continue" => name,
            "endmacro" => {
                if parser.peek().is_some() {
                    parser.name()?;
                }
                name
            }
            "generation" | "endgeneration" | "block" | "endblock" => {
                while parser.peek().is_some() {
                    parser.name()?;
                }
                return Ok(());
            }
            "include" | "import" | "from" | "extends" => {
                return Err(parser.error(format!("{{% {name} %}} reads another file: refused")));
            }
            _ => return Err(parser.error(format!("{{% {name} %}} is no tag of chat templates"))),
        };
        parser.end()?;
        self.tag("{%", &inside, "%}", line);
        Ok(())
    }
}

impl Writer {
    fn count_alternative(&mut self, name: &str, parser: &Parser) -> Result<(), Error> {
        match self.alternatives.last_mut() {
            Some(count) if name == "elif" => *count += 1,
            _ => self.alternatives.push(0),
        }
        if self.alternatives.iter().sum::<usize>() > ALTERNATIVES_MAX {
            return Err(parser.error(format!("over {ALTERNATIVES_MAX} elif within each other")));
        }
        Ok(())
    }
}

fn for_loop(parser: &mut Parser) -> Result<String, Error> {
    let target = target(parser)?;
    if !parser.take_word("in") {
        return Err(parser.error("expected in"));
    }
    let iterable = parser.loop_tuple()?;
    let mut out = format!("for {target} in _kauri_iterate({iterable})");
    if parser.take_word("if") {
        out = out + " if " + &parser.expression()?;
    }
    if parser.take_word("recursive") {
        out += " recursive";
    }
    Ok(out)
}

/// What a loop or an assignment gives values to: `a`, `a, b` or `(a, b)`.
fn target(parser: &mut Parser) -> Result<String, Error> {
    let bracketed = parser.take_sign("(");
    let mut names = vec![parser.name()?];
    let mut is_tuple = false;
    while parser.take_sign(",") {
        is_tuple = true;
        if parser.at_word("in") || parser.at_sign("=") || parser.at_sign(")") {
            break;
        }
        names.push(parser.name()?);
    }
    if bracketed {
        parser.expect_sign(")")?;
    }
    Ok(match (is_tuple, names.as_slice()) {
        (true, [name]) => format!("({name},)"),
        _ => names.join(", "),
    })
}

fn set(parser: &mut Parser) -> Result<String, Error> {
    let names = target(parser)?;
    if parser.take_sign(".") {
        let attribute = parser.name()?;
        parser.expect_sign("=")?;
        return Ok(format!("set {names}.{attribute} = _kauri_keep({})", parser.tuple()?));
    }
    if parser.take_sign("=") {
        return Ok(format!("set {names} = {}", parser.tuple()?));
    }
    if parser.take_sign("|") {
        Ok(format!("set {names} | {}", filter_chain(parser)?))
    } else {
        Ok(format!("set {names}"))
    }
}

fn filter_chain(parser: &mut Parser) -> Result<String, Error> {
    let mut chain = parser.filter("")?;
    while parser.take_sign("|") {
        chain = parser.filter(&chain)?;
    }
    Ok(chain.trim_start_matches('|').to_owned())
}

fn signature(parser: &mut Parser) -> Result<String, Error> {
    parser.expect_sign("(")?;
    let mut parameters = Vec::new();
    while !parser.take_sign(")") {
        if !parameters.is_empty() {
            parser.expect_sign(",")?;
        }
        let name = parser.name()?;
        parameters.push(if parser.take_sign("=") { format!("{name}={}", parser.expression()?) } else { name });
    }
    Ok(format!("({})", parameters.join(",")))
}

fn call_block(parser: &mut Parser) -> Result<String, Error> {
    let parameters = if parser.at_sign("(") { signature(parser)? } else { String::new() };
    Ok(format!("call{parameters} {}", parser.expression()?))
}

fn with(parser: &mut Parser) -> Result<String, Error> {
    let mut assignments = Vec::new();
    while parser.peek().is_some() {
        if !assignments.is_empty() {
            parser.expect_sign(",")?;
        }
        let name = parser.name()?;
        parser.expect_sign("=")?;
        assignments.push(format!("{name} = {}", parser.expression()?));
    }
    Ok(format!("with {}", assignments.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::{Json, Object, Template};
    use super::*;

    #[test]
    fn whitespace_follows_jinjas_rules() {
        let text = |source: &str| {
            let variables = Object::from_iter([("x".to_owned(), Json::from(true))]);
            Template::compile(source).unwrap().render(&variables).unwrap()
        };
        // What jinja2 3.1.6 prints with trim_blocks and lstrip_blocks.
        assert_eq!(text("a\n  {% if x %}\n b\n{% endif %}\n\nc\n"), "a\n b\n\nc");
        assert_eq!(text("a {%- if x -%} b {%- endif %} c"), "ab c");
        assert_eq!(text("a  {% if x %}b{% endif %}"), "a  b");
        assert_eq!(text("a\n  {%+ if x %}b{% endif +%}\nc"), "a\n  b\nc");
        assert_eq!(text("  {{ x }}\n{{ x }} {# c #}\n d"), "  True\nTrue  d");
        assert_eq!(text("a\n {#- c -#} \n b"), "ab");
        assert_eq!(text("{% raw %}\n{{ x }}{% y %} {%- endraw -%} \n z"), "\n{{ x }}{% y %}z");
        assert_eq!(text("{% set y = {'a': {'b': 1}} %}\r\nq"), "q");
    }

    #[test]
    fn lines_stay_where_they_were() {
        let rewritten = rewrite("a\n\n{%- if x %}\n  b{{ y\n }}\n{# c\n #}{% endif -%}\n\nz").unwrap();
        let line_of = |needle: &str| rewritten[..rewritten.find(needle).unwrap()].matches('\n').count() + 1;
        assert_eq!(line_of("if x"), 3);
        assert_eq!(line_of("y }}"), 4);
        assert_eq!(line_of("endif"), 7);
        assert_eq!(line_of("\"z"), 9);
    }

    #[test]
    fn other_files_and_unknown_tags_are_refused() {
        for (source, message) in [
            ("{% include 'a' %}", "include"),
            ("{% import 'a' as b %}", "import"),
            ("{% from 'a' import b %}", "from"),
            ("\n{% extends 'a' %}", "line 2"),
            ("{% autoescape true %}", "autoescape"),
            ("{{ _kauri_list() }}", "reserved"),
            ("{% if %}", "value"),
            ("{{ a b }}", "end here"),
            ("{% raw %}", "endraw"),
            ("{# a", "comment"),
            ("{{ loop.cycle() }}", "cycle"),
            ("{{ loop.cycle(*[]) }}", "cycle"),
            ("{{ loop.cycle(a=1) }}", "cycle"),
        ] {
            let error = rewrite(source).unwrap_err().to_string();
            assert!(error.contains(message), "{source}: {error}");
        }
        let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(rewrite(&deep).is_err());
        assert!(rewrite(&format!("{{{{ {}1 }}}}", "-".repeat(100_000))).is_err());
        assert!(matches!(rewrite(&" ".repeat(TEMPLATE_BYTES_MAX + 1)), Err(Error::Limit { .. })));
    }
}
