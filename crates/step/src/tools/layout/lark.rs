//! The grammar of an answer with calls, as text in the dialect of Lark that llguidance reads.
//!
//! Arguments that are JSON obey the whole schema (`%json`), and so does what is written as JSON in other notations: numbers, values
//! between tags that are no strings, Python's strings. Of the rest of a model's own notation `notation.rs` makes sure that nothing
//! is asked for that is not written here.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::{Map, Value as Json, json};

use super::literal::{Dialect, quoted};
use super::notation;
use super::parameters::is_string;
use super::{Keys, Layout, Marks, Part, write};
use crate::grammar::spaced;
use crate::tools::{Ask, Tool};

/// How deep schemas are followed in a model's own notation.
const DEPTH_MAX: usize = 16;

/// The grammar of an answer that calls `tools`; `token` gives the id of a text that is one special token. An answer that may be no
/// call obeys `text`, a rule's body, and is free without.
pub(in crate::tools) fn grammar(
    layout: &Layout,
    tools: &[Tool],
    ask: Ask,
    token: &dyn Fn(&str) -> Option<u32>,
    text: Option<&str>,
) -> String {
    let mut writer =
        Writer { token, rules: String::new(), count: 0, definitions: Map::new(), referred: HashMap::new() };
    let names: Vec<String> = (0..tools.len()).map(|index| format!("call_{index}")).collect();
    let call = layout.calls.first().copied().unwrap_or_default();
    // What opens a section stands in the rules of text, too: there it ends the text.
    let opens = if layout.open.is_empty() { call } else { layout.open };
    let trigger = opens.first().and_then(|part| if let Part::Text(text) = part { Some(*text) } else { None });
    let skipped = usize::from(trigger.is_some());
    let own = layout.open.is_empty();
    for (tool, name) in tools.iter().zip(&names) {
        writer.definitions = tool.parameters.get("$defs").and_then(Json::as_object).cloned().unwrap_or_default();
        writer.referred.clear();
        let parts = writer.parts(&call[if own { skipped } else { 0 }..], tool);
        let _ = writeln!(writer.rules, "{name}: {parts}");
    }
    let calls = format!("({})", names.join(" | "));
    let open = writer.marks(&layout.open[if own { 0 } else { skipped }..]);
    let (between, close) = (writer.marks(layout.between), writer.marks(layout.close));
    let is_section = !layout.between.is_empty() || !layout.close.is_empty();
    let more = if is_section && ask.parallel { format!("({between} {calls})*") } else { String::new() };
    let _ = writeln!(writer.rules, "section: {open} {calls} {more} {close}");
    let begin = trigger.map(|text| writer.mark(text)).unwrap_or_default();
    let gap = literal(layout.gap);
    let again = if !is_section && ask.parallel { format!("({gap} {begin} section)*") } else { String::new() };
    let before = if layout.first { "FREE" } else { "TEXT" };
    let head = match trigger {
        Some(text) if (writer.token)(text).is_some() => format!("{before} {begin}"),
        Some(_) => {
            let _ = writeln!(writer.rules, "head[lazy]: {before} {begin}");
            "head".to_owned()
        }
        None => String::new(),
    };
    // Where a call needs no mark, most models write none.
    let optional = if layout.first && trigger.is_some() { "?" } else { "" };
    let at_once = format!("{begin}{optional} section {again}");
    let start = if ask.required {
        at_once
    } else if text.is_some() {
        // Nothing may stand before a call that is none of what the text must obey.
        format!("{at_once} | text")
    } else if layout.first {
        format!("FREE | section{}", if trigger.is_some() { format!(" | {head} section") } else { String::new() })
    } else {
        // Behind the only call nothing is read.
        if ask.parallel { format!("({head} section)* text") } else { format!("{head} section | text") }
    };
    let (rules, text) = (writer.rules, text.unwrap_or("TEXT"));
    format!("start: {start}\ntext: {text}\n{rules}{TERMINALS}")
}

/// Terminals that rules may use.
const TERMINALS: &str = r#"TEXT: /(.|\n)*/
FREE: /([^{ \n\t\r](.|\n)*)?/
DIGITS: /[0-9]{1,4}/
INTEGER: /-?(0|[1-9][0-9]{0,17})/
NUMBER: /-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,3})?/
STRING: /"([^"\\\x00-\x1f\x7f]|\\["\\nrt'])*"/
BARE: /[^<]*/
"#;

struct Writer<'a> {
    token: &'a dyn Fn(&str) -> Option<u32>,
    rules: String,
    count: usize,
    /// What references of the tool lead to, and the rules made of it.
    definitions: Map<String, Json>,
    referred: HashMap<String, String>,
}

impl Writer<'_> {
    /// A text that may be one special token.
    fn mark(&self, text: &str) -> String {
        match (self.token)(text) {
            Some(id) => format!("<[{id}]>"),
            None => literal(text),
        }
    }

    /// A rule of its own; returns its name.
    fn rule(&mut self, options: &str, body: &str) -> String {
        let name = format!("rule_{}", self.count);
        self.count += 1;
        let _ = writeln!(self.rules, "{name}{options}: {body}");
        name
    }

    /// Parts that are the same in every call.
    fn marks(&self, parts: &[Part]) -> String {
        let texts = parts.iter().map(|part| match part {
            Part::Text(text) => self.mark(text),
            Part::Space(text) => literal(text),
            _ => String::new(),
        });
        texts.collect::<Vec<_>>().join(" ")
    }

    /// The parts of a call of one tool.
    fn parts(&mut self, parts: &[Part], tool: &Tool) -> String {
        let texts: Vec<String> = parts
            .iter()
            .map(|part| match *part {
                Part::Text(text) => self.mark(text),
                Part::Space(text) => literal(text),
                Part::Name => literal(&tool.name),
                Part::Number(end) => format!("DIGITS {}", self.mark(end)),
                Part::Skip(text, end) => format!("{} {}", literal(text), self.mark(end)),
                Part::Arguments(Dialect::Json) => json_rule(&tool.parameters, &tool.parameters),
                Part::Arguments(dialect) => self.object(dialect, &tool.parameters, 0),
                Part::Envelope(keys) => {
                    let envelope = envelope(keys, tool);
                    json_rule(&envelope, &envelope)
                }
                Part::Parameters(marks) => self.parameters(marks, &tool.parameters),
            })
            .collect();
        texts.join(" ")
    }

    fn parameters(&mut self, marks: &Marks, schema: &Json) -> String {
        let mut all = Vec::new();
        for (name, value) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
            let is_string = is_string(schema, name);
            let open = self.mark(marks.open);
            let (name_end, before) = (self.mark(marks.name_end), marks.before_value(is_string));
            let before = if marks.kinds.is_some() || before.trim().is_empty() {
                literal(before)
            } else {
                let space = &before[..before.len() - before.trim_start().len()];
                format!("{} {}", literal(space), self.mark(before.trim_start()))
            };
            let (after, end) = (literal(marks.after_value()), self.mark(marks.value_end));
            let listed = value.get("const").map(std::slice::from_ref);
            let text = match listed.or_else(|| value.get("enum").and_then(Json::as_array).map(Vec::as_slice)) {
                Some(values) if is_string => {
                    let values = values.iter().filter_map(Json::as_str).map(literal);
                    format!("({}) {after} {end}", values.collect::<Vec<_>>().join(" | "))
                }
                _ if is_string && notation::is_bounded(value) => {
                    let text = self.bounded(value);
                    format!("{text} {after} {end}")
                }
                _ if is_string && (self.token)(marks.value_end).is_some() => format!("TEXT {end}"),
                _ if is_string => {
                    let end = literal(&format!("{}{}", marks.after_value(), marks.value_end));
                    self.rule("[lazy]", &format!("TEXT {end}"))
                }
                _ => format!("{} {after} {end}", json_rule(value, schema)),
            };
            let between = literal(marks.between);
            let quoted = literal(name);
            let rule = self.rule("", &format!("{open} {quoted} {name_end} {before} {text} {between}"));
            all.push(if requires(name, schema) { rule } else { format!("{rule}?") });
        }
        all.join(" ")
    }

    /// A text with a pattern or bounds of its length, in which no mark begins; returns a terminal's name.
    fn bounded(&mut self, schema: &Json) -> String {
        let name = format!("BOUNDED_{}", self.count);
        self.count += 1;
        let _ = writeln!(self.rules, "{name}: {}", notation::terminal(schema));
        name
    }

    /// An object with its brackets, but for the one that opens a Python call.
    fn object(&mut self, dialect: Dialect, schema: &Json, depth: usize) -> String {
        let is_call = dialect == Dialect::PythonCall && depth == 0;
        let (comma, colon) = match dialect {
            Dialect::Bare(_) => (",", ":"),
            _ if is_call => (", ", "="),
            Dialect::Json | Dialect::Python | Dialect::PythonCall => (", ", ": "),
        };
        let none = Map::new();
        let members = schema.get("properties").and_then(Json::as_object).unwrap_or(&none);
        let (mut first, mut rest) = (self.rule("", "\"\""), self.rule("", "\"\""));
        for (key, value) in members.iter().rev() {
            let key_text = match dialect {
                Dialect::Bare(_) if depth == 0 => literal(key),
                _ if is_call => literal(key),
                Dialect::Bare(mark) => format!("{} {} {}", self.mark(mark), literal(key), self.mark(mark)),
                Dialect::Json | Dialect::Python | Dialect::PythonCall => literal(&quoted(key)),
            };
            let value = self.value(dialect, value, depth + 1);
            let member = self.rule("", &format!("{key_text} \"{colon}\" {value}"));
            let needed = requires(key, schema);
            let or = |other: &str| if needed { String::new() } else { format!(" | {other}") };
            let (next_first, next_rest) =
                (format!("{member} {rest}{}", or(&first)), format!("\"{comma}\" {member} {rest}{}", or(&rest)));
            (first, rest) = (self.rule("", &next_first), self.rule("", &next_rest));
        }
        if is_call { format!("{first} \")\"") } else { format!("\"{{\" {first} \"}}\"") }
    }

    /// A value in a model's own notation; returns a rule's name.
    fn value(&mut self, dialect: Dialect, schema: &Json, depth: usize) -> String {
        if let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
            return self.referred(dialect, reference, depth);
        }
        let listed = schema.get("const").map(std::slice::from_ref);
        if let Some(values) = listed.or_else(|| schema.get("enum").and_then(Json::as_array).map(Vec::as_slice)) {
            let values: Vec<String> = values.iter().map(|value| self.constant(dialect, value)).collect();
            return self.rule("", &values.join(" | "));
        }
        if let Some(choices) = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(*key)?.as_array())
            && depth < DEPTH_MAX
        {
            let choices: Vec<String> = choices.iter().map(|choice| self.value(dialect, choice, depth + 1)).collect();
            return self.rule("", &choices.join(" | "));
        }
        let kinds: Vec<&str> = match schema.get("type") {
            Some(Json::String(kind)) => vec![kind],
            Some(Json::Array(kinds)) => kinds.iter().filter_map(Json::as_str).collect(),
            _ => vec!["string", "number", "boolean", "null", "array", "object"],
        };
        let body: Vec<String> = kinds.iter().map(|kind| self.kind(kind, dialect, schema, depth)).collect();
        self.rule("", &body.join(" | "))
    }

    /// What a reference leads to; returns a rule's name. It may lead back to itself.
    fn referred(&mut self, dialect: Dialect, reference: &str, depth: usize) -> String {
        if let Some(rule) = self.referred.get(reference) {
            return rule.clone();
        }
        let definition = reference.strip_prefix("#/$defs/").and_then(|name| self.definitions.get(name)).cloned();
        let name = format!("rule_{}", self.count);
        self.count += 1;
        self.referred.insert(reference.to_owned(), name.clone());
        let value = self.value(dialect, &definition.unwrap_or(Json::Bool(true)), depth + 1);
        let _ = writeln!(self.rules, "{name}: {value}");
        name
    }

    fn constant(&self, dialect: Dialect, value: &Json) -> String {
        if let (Dialect::Bare(mark), Json::String(text)) = (dialect, value) {
            return format!("{} {} {}", self.mark(mark), literal(text), self.mark(mark));
        }
        let mut text = String::new();
        write::value(dialect, value, 1, &mut text);
        literal(&text)
    }

    fn kind(&mut self, kind: &str, dialect: Dialect, schema: &Json, depth: usize) -> String {
        let python = matches!(dialect, Dialect::Python | Dialect::PythonCall);
        match kind {
            "string" if notation::is_bounded(schema) => match dialect {
                Dialect::Bare(mark) => {
                    let text = self.bounded(schema);
                    format!("{0} {text} {0}", self.mark(mark))
                }
                Dialect::Json | Dialect::Python | Dialect::PythonCall => {
                    let schema = notation::only(schema, "string");
                    json_rule(&schema, &schema)
                }
            },
            "string" => match dialect {
                Dialect::Bare(mark) if (self.token)(mark).is_some() => format!("{0} TEXT {0}", self.mark(mark)),
                Dialect::Bare(mark) => format!("{0} BARE {0}", self.mark(mark)),
                Dialect::Json | Dialect::Python | Dialect::PythonCall => "STRING".to_owned(),
            },
            "integer" | "number" if notation::is_bounded(schema) => {
                let schema = notation::only(schema, kind);
                json_rule(&schema, &schema)
            }
            "integer" => "INTEGER".to_owned(),
            "number" => "NUMBER".to_owned(),
            "boolean" if python => "\"True\" | \"False\"".to_owned(),
            "boolean" => "\"true\" | \"false\"".to_owned(),
            "null" => if python { "\"None\"" } else { "\"null\"" }.to_owned(),
            "array" if depth < DEPTH_MAX => {
                let any = json!({ "type": ["string", "number", "boolean", "null"] });
                let item = self.value(dialect, schema.get("items").unwrap_or(&any), depth + 1);
                let comma = if matches!(dialect, Dialect::Bare(_)) { "\",\"" } else { "\", \"" };
                let (least, most) = notation::items(schema);
                let more = match most {
                    Some(0 | 1) => String::new(),
                    Some(most) => format!("({comma} {item}){{{},{}}}", least.saturating_sub(1), most - 1),
                    None => format!("({comma} {item}){{{},}}", least.saturating_sub(1)),
                };
                let all = format!("{item} {more}");
                match (least, most) {
                    (_, Some(0)) => "\"[]\"".to_owned(),
                    (0, _) => format!("\"[\" ({all})? \"]\""),
                    _ => format!("\"[\" {all} \"]\""),
                }
            }
            "object" if depth < DEPTH_MAX => self.object(dialect, schema, depth),
            // Deeper than anything that is asked for.
            _ => "\"\"".to_owned(),
        }
    }
}

/// A value that obeys a schema, which is part of `root`.
fn json_rule(schema: &Json, root: &Json) -> String {
    let mut schema = spaced(schema.clone());
    if let (Json::Object(object), Some(definitions)) = (&mut schema, root.get("$defs")) {
        object.entry("$defs").or_insert_with(|| definitions.clone());
    }
    format!("%json {schema}")
}

/// A text of the grammar; nothing where it is empty.
fn literal(text: &str) -> String {
    if text.is_empty() { String::new() } else { quoted(text) }
}

/// The schema of an envelope: references into the arguments' schema lead to where it lies now.
fn envelope(keys: &Keys, tool: &Tool) -> Json {
    let (name, arguments) = (keys.name[0], keys.arguments[0]);
    let mut schema = tool.parameters.clone();
    move_references(&mut schema, &format!("#/properties/{arguments}"), 0);
    json!({
        "type": "object",
        "properties": { name: { "const": tool.name }, arguments: schema },
        "required": [name, arguments],
        "additionalProperties": false,
    })
}

fn move_references(schema: &mut Json, to: &str, depth: usize) {
    if depth > 64 {
        return;
    }
    match schema {
        Json::Object(members) => {
            if let Some(Json::String(reference)) = members.get_mut("$ref")
                && let Some(path) = reference.strip_prefix('#')
            {
                *reference = format!("{to}{path}");
            }
            members.values_mut().for_each(|member| move_references(member, to, depth + 1));
        }
        Json::Array(items) => items.iter_mut().for_each(|item| move_references(item, to, depth + 1)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn requires(key: &str, schema: &Json) -> bool {
    schema.get("required").and_then(Json::as_array).is_some_and(|all| all.iter().any(|one| one == key))
}
