//! What an answer must obey, as `response_format` says it: in the words of `OpenAI` where it has them.

use kauri_engine::grammar::Grammar;
use serde_json::Value as Json;

use crate::document::schema;
use crate::error::Problem;

schema!(pub format_schema, { "oneOf": [
    { "type": "null" },
    { "type": "object", "required": ["type"], "properties": { "type": { "type": "string", "enum": ["text", "json_object"] } } },
    { "type": "object", "required": ["type"], "properties": {
        "type": { "type": "string", "enum": ["json_schema"] },
        "json_schema": { "type": "object", "required": ["schema"], "properties": { "schema": { "type": ["object", "boolean"] } } },
        "schema": { "type": ["object", "boolean"], "description": "Where there is no `json_schema`." },
    } },
    { "type": "object", "required": ["type", "regex"], "properties": {
        "type": { "type": "string", "enum": ["regex"] },
        "regex": { "type": "string", "description": "What the whole answer matches (ECMA-262)." },
    } },
    { "type": "object", "required": ["type", "grammar"], "properties": {
        "type": { "type": "string", "enum": ["grammar"] },
        "grammar": { "type": "string" },
        "syntax": { "type": ["string", "null"], "enum": ["gbnf", "lark", null], "description": "gbnf where it is not said." },
    } },
    { "type": "object", "required": ["type", "choices"], "properties": {
        "type": { "type": "string", "enum": ["choice"] },
        "choices": { "type": "array", "minItems": 1, "items": { "type": "string" }, "description": "One of them is the whole answer." },
    } },
] });

/// Reads the format found at `place`; nothing where it is text.
///
/// # Errors
/// Names what is none.
pub fn read_format(format: Option<&Json>, place: &str) -> Result<Option<Grammar>, Problem> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(None) };
    match format.get("type").and_then(Json::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(Grammar::JsonObject)),
        Some("json_schema") => {
            let (inner, at) = match format.get("json_schema") {
                Some(inner) => (inner, format!("{place}.json_schema.schema")),
                None => (format, format!("{place}.schema")),
            };
            match inner.get("schema") {
                Some(schema @ (Json::Object(_) | Json::Bool(_))) => Ok(Some(Grammar::JsonSchema(schema.to_string()))),
                Some(_) => Err(Problem::field(&at, "must be a JSON schema")),
                None => Err(Problem::field(&at, "is missing")),
            }
        }
        Some("regex") => Ok(Some(Grammar::Regex(text(format, place, "regex")?))),
        Some("grammar") => {
            let grammar = text(format, place, "grammar")?;
            match format.get("syntax") {
                None | Some(Json::Null) => Ok(Some(Grammar::Gbnf(grammar))),
                Some(syntax) if syntax == "gbnf" => Ok(Some(Grammar::Gbnf(grammar))),
                Some(syntax) if syntax == "lark" => Ok(Some(Grammar::Lark(grammar))),
                Some(_) => Err(Problem::field(&format!("{place}.syntax"), "must be gbnf or lark")),
            }
        }
        Some("choice") => {
            let list = format.get("choices").and_then(Json::as_array).filter(|list| !list.is_empty());
            let texts = list.and_then(|list| list.iter().map(|text| text.as_str().map(str::to_owned)).collect());
            let wrong =
                || Problem::field(&format!("{place}.choices"), "must be a list of strings, and not an empty one");
            Ok(Some(Grammar::Choice(texts.ok_or_else(wrong)?)))
        }
        _ => {
            let kinds = "must be text, json_object, json_schema, regex, grammar or choice";
            Err(Problem::field(&format!("{place}.type"), kinds))
        }
    }
}

/// A text that a format must have.
fn text(format: &Json, place: &str, name: &str) -> Result<String, Problem> {
    match format.get(name) {
        Some(Json::String(text)) => Ok(text.clone()),
        Some(_) => Err(Problem::field(&format!("{place}.{name}"), "must be a string")),
        None => Err(Problem::field(&format!("{place}.{name}"), "is missing")),
    }
}
