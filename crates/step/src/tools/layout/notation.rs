//! What of a schema can be held to where a model writes values in a notation of its own, and not as JSON.
//!
//! `lark.rs` writes types, lists of values, properties, items and how many there are, bounds of numbers, and texts with a pattern or
//! bounds of their length; a schema that asks for more is refused here, with the keyword and its place. Schemas come as
//! `grammar/schema.rs` has checked them: patterns are in the syntax of the engine below, formats are patterns.

use serde_json::{Map, Value as Json, json};

use super::literal::Dialect;
use super::{Layout, Part};
use crate::grammar::Error;

/// What may stand in a text with a pattern or a bound: no beginning of a mark, and no line end, which belongs to some of them.
const PLAIN: &str = r"[^<\n]";
/// What bounds a number or a text.
const BOUNDS: [&str; 8] =
    ["pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];

/// Refuses what a layout's notation does not hold to.
pub(in crate::tools) fn check(layout: &Layout, schema: &Json) -> Result<(), Error> {
    for part in layout.calls.first().copied().unwrap_or_default() {
        match part {
            Part::Arguments(Dialect::Python | Dialect::PythonCall | Dialect::Bare(_)) => {
                let definitions = schema.get("$defs").and_then(Json::as_object).into_iter().flatten();
                definitions.map(|(_, schema)| schema).chain([schema]).try_for_each(|schema| value(part, schema, ""))?;
            }
            Part::Parameters(_) => parameters(schema)?,
            Part::Arguments(Dialect::Json)
            | Part::Text(_)
            | Part::Space(_)
            | Part::Name
            | Part::Number(_)
            | Part::Skip(..)
            | Part::Envelope(_) => {}
        }
    }
    Ok(())
}

/// What a tool that need not be obeyed is held to: an object; of names that are listed where a notation writes no others.
pub(in crate::tools) fn relaxed(layout: &Layout, schema: &Json) -> Json {
    let parts = layout.calls.first().copied().unwrap_or_default();
    if parts.iter().any(|part| matches!(part, Part::Arguments(Dialect::Json) | Part::Envelope(_))) {
        return json!({ "type": "object" });
    }
    let kind =
        |name: &str| if super::parameters::is_string(schema, name) { json!({ "type": "string" }) } else { json!({}) };
    let properties: Map<String, Json> = members(schema).map(|(name, _)| (name.clone(), kind(name))).collect();
    json!({ "type": "object", "properties": properties })
}

/// Parameters between tags: only texts are no JSON.
fn parameters(schema: &Json) -> Result<(), Error> {
    asks_only(schema, &["type", "properties", "required", "additionalProperties", "patternProperties", "$defs"], "")?;
    for (name, value) in members(schema) {
        if super::parameters::is_string(schema, name) {
            let at = format!("/properties/{name}");
            let is_listed = ["enum", "const"].iter().any(|key| value.get(*key).is_some());
            let known: &[&str] =
                if is_listed { &["type", "enum", "const"] } else { &["type", "pattern", "minLength", "maxLength"] };
            asks_only(value, known, &at)?;
            text(value, &at)?;
        }
    }
    listed(schema, "")
}

/// A value in Python's or a bare notation, and all within it.
fn value(part: &Part, schema: &Json, at: &str) -> Result<(), Error> {
    // Values that are listed are written as they are, a reference is followed where it leads.
    if ["const", "enum", "$ref"].iter().any(|key| schema.get(*key).is_some()) {
        return asks_only(schema, &["const", "enum", "$ref", "type", "$defs"], at);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(list) = schema.get(key).and_then(Json::as_array) {
            asks_only(schema, &[key, "$defs"], at)?;
            return list.iter().enumerate().try_for_each(|(n, one)| value(part, one, &format!("{at}/{key}/{n}")));
        }
    }
    let known = ["type", "properties", "required", "additionalProperties", "patternProperties", "items", "minItems"];
    let known: Vec<&str> = known.into_iter().chain(["maxItems", "$defs"]).chain(BOUNDS).collect();
    asks_only(schema, &known, at)?;
    if matches!(part, Part::Arguments(Dialect::Bare(_))) {
        text(schema, at)?;
    }
    for (name, member) in members(schema) {
        value(part, member, &format!("{at}/properties/{name}"))?;
    }
    listed(schema, at)?;
    schema.get("items").map_or(Ok(()), |items| value(part, items, &format!("{at}/items")))
}

/// Only properties that are listed are written, so that what is required must be.
fn listed(schema: &Json, at: &str) -> Result<(), Error> {
    let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
    let is_there = |name: &&str| schema.get("properties").is_some_and(|all| all.get(*name).is_some());
    if required.filter_map(Json::as_str).all(|name| is_there(&name)) { Ok(()) } else { Err(refused("required", at)) }
}

fn members(schema: &Json) -> impl Iterator<Item = (&String, &Json)> {
    schema.get("properties").and_then(Json::as_object).into_iter().flatten()
}

fn asks_only(schema: &Json, known: &[&str], at: &str) -> Result<(), Error> {
    let all = schema.as_object().into_iter().flatten();
    match all.map(|(keyword, _)| keyword).find(|keyword| !known.contains(&keyword.as_str())) {
        Some(keyword) => Err(refused(keyword, at)),
        None => Ok(()),
    }
}

fn text(schema: &Json, at: &str) -> Result<(), Error> {
    let pattern = schema.get("pattern").and_then(Json::as_str);
    if pattern.is_some_and(|pattern| whole(pattern).is_none()) { Err(refused("pattern", at)) } else { Ok(()) }
}

fn refused(keyword: &str, at: &str) -> Error {
    Error::Unsupported {
        keyword: keyword.to_owned(),
        pointer: at.to_owned(),
        reason: "this model writes arguments in a notation of its own, in which it is not followed".to_owned(),
    }
}

/// Whether a text or number is bounded by more than its type.
pub(super) fn is_bounded(schema: &Json) -> bool {
    BOUNDS.iter().any(|keyword| schema.get(*keyword).is_some())
}

/// The same schema for values of one type.
pub(super) fn only(schema: &Json, kind: &str) -> Json {
    let mut out = Map::new();
    for keyword in BOUNDS {
        if let Some(value) = schema.get(keyword) {
            out.insert(keyword.to_owned(), value.clone());
        }
    }
    out.insert("type".to_owned(), json!(kind));
    Json::Object(out)
}

/// How many items there must be, and may.
pub(super) fn items(schema: &Json) -> (u64, Option<u64>) {
    let count = |keyword: &str| schema.get(keyword).and_then(Json::as_u64);
    (count("minItems").unwrap_or(0), count("maxItems"))
}

/// The terminal of a text with a pattern or bounds of its length.
pub(super) fn terminal(schema: &Json) -> String {
    let count = |keyword: &str| schema.get(keyword).and_then(Json::as_u64);
    let most = count("maxLength").map(|most| most.to_string()).unwrap_or_default();
    let length = format!("/{PLAIN}{{{},{most}}}/", count("minLength").unwrap_or(0));
    match schema.get("pattern").and_then(Json::as_str).and_then(whole) {
        Some(pattern) => format!("/{pattern}/ & {length}"),
        None => length,
    }
}

/// A pattern that is found in a text, as one that the text matches as a whole. Anchors are understood where they begin or end one
/// of its alternatives; nothing where they stand elsewhere.
fn whole(pattern: &str) -> Option<String> {
    let branches: Option<Vec<String>> = branches(pattern).into_iter().map(anchored).collect();
    Some(format!("({})", branches?.join("|")))
}

fn anchored(branch: &str) -> Option<String> {
    const ANY: &str = "(.|\\n)*";
    let (before, rest) = branch.strip_prefix('^').map_or((ANY, branch), |rest| ("", rest));
    let (after, rest) = rest.strip_suffix('$').map_or((ANY, rest), |rest| ("", rest));
    let is_negation = |at: usize| rest[..at].ends_with('[');
    let is_plain = !rest.contains('$') && rest.match_indices('^').all(|(at, _)| is_negation(at));
    is_plain.then(|| format!("{before}({rest}){after}"))
}

/// The alternatives of a pattern; what is no syntax of it is written by its number, and so never mistaken.
fn branches(pattern: &str) -> Vec<&str> {
    let (mut depth, mut in_class, mut from, mut out) = (0_usize, false, 0, Vec::new());
    for (at, byte) in pattern.bytes().enumerate() {
        match byte {
            b'[' => in_class = true,
            b']' => in_class = false,
            b'(' if !in_class => depth += 1,
            b')' if !in_class => depth = depth.saturating_sub(1),
            b'|' if !in_class && depth == 0 => {
                out.push(&pattern[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    out.push(&pattern[from..]);
    out
}
