//! What an answer must obey, as `response_format` says it.

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
        _ => Err(Problem::field(&format!("{place}.type"), "must be text, json_object or json_schema")),
    }
}
