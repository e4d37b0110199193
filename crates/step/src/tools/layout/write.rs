//! Calls as a model writes them: for templates that leave them out, and to check the parser against.

use std::fmt::Write;

use serde_json::Value as Json;

use super::literal::Dialect;
use super::{Layout, Part};

/// Writes calls, each with its name and its arguments, which are an object.
pub(in crate::tools) fn write(layout: &Layout, calls: &[(&str, &Json)]) -> String {
    let mut out = String::new();
    let put = |parts: &[Part], out: &mut String| {
        for part in parts {
            if let Part::Text(text) | Part::Space(text) = part {
                out.push_str(text);
            }
        }
    };
    put(layout.open, &mut out);
    for (index, (name, arguments)) in calls.iter().enumerate() {
        if index > 0 {
            put(layout.between, &mut out);
            out.push_str(layout.gap);
        }
        for part in layout.calls.first().copied().unwrap_or_default() {
            write_part(part, index, name, arguments, &mut out);
        }
    }
    put(layout.close, &mut out);
    out
}

fn write_part(part: &Part, index: usize, name: &str, arguments: &Json, out: &mut String) {
    match part {
        Part::Text(text) | Part::Space(text) => out.push_str(text),
        Part::Name => out.push_str(name),
        Part::Number(end) => {
            out.push_str(&index.to_string());
            out.push_str(end);
        }
        Part::Skip(text, end) => {
            out.push_str(text);
            out.push_str(end);
        }
        Part::Arguments(dialect) => value(*dialect, arguments, 0, out),
        Part::Envelope(keys) => {
            let _ = write!(out, "{{\"{}\": ", keys.name[0]);
            value(Dialect::Json, &Json::from(name), 0, out);
            let _ = write!(out, ", \"{}\": ", keys.arguments[0]);
            value(Dialect::Json, arguments, 0, out);
            out.push('}');
        }
        Part::Parameters(marks) => {
            for (key, argument) in arguments.as_object().into_iter().flatten() {
                out.push_str(marks.open);
                out.push_str(key);
                out.push_str(marks.name_end);
                out.push_str(marks.before_value(argument.is_string()));
                match argument {
                    Json::String(text) => out.push_str(text),
                    other => value(Dialect::Json, other, 0, out),
                }
                out.push_str(marks.after_value());
                out.push_str(marks.value_end);
                out.push_str(marks.between);
            }
        }
    }
}

/// Writes a value in a dialect, as models are taught to: with a space behind commas and colons where the dialect has them.
pub(super) fn value(dialect: Dialect, json: &Json, depth: usize, out: &mut String) {
    let is_call = dialect == Dialect::PythonCall && depth == 0;
    let (comma, colon) = match dialect {
        Dialect::Bare(_) => (",", ":"),
        _ if is_call => (", ", "="),
        Dialect::Json | Dialect::Python | Dialect::PythonCall => (", ", ": "),
    };
    let is_python = matches!(dialect, Dialect::Python | Dialect::PythonCall);
    match json {
        Json::Object(members) => {
            out.push_str(if is_call { "" } else { "{" });
            for (index, (key, member)) in members.iter().enumerate() {
                out.push_str(if index > 0 { comma } else { "" });
                if is_call || depth == 0 && matches!(dialect, Dialect::Bare(_)) {
                    out.push_str(key);
                } else {
                    value(dialect, &Json::from(key.as_str()), depth + 1, out);
                }
                out.push_str(colon);
                value(dialect, member, depth + 1, out);
            }
            out.push(if is_call { ')' } else { '}' });
        }
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { comma } else { "" });
                value(dialect, item, depth + 1, out);
            }
            out.push(']');
        }
        Json::String(text) => match dialect {
            Dialect::Bare(mark) => [mark, text, mark].iter().for_each(|part| out.push_str(part)),
            Dialect::Json | Dialect::Python | Dialect::PythonCall => out.push_str(&super::quoted(text)),
        },
        Json::Bool(true) if is_python => out.push_str("True"),
        Json::Bool(false) if is_python => out.push_str("False"),
        Json::Null if is_python => out.push_str("None"),
        Json::Bool(_) | Json::Null | Json::Number(_) => out.push_str(&json.to_string()),
    }
}
