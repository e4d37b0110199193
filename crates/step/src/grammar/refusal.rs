//! What the engine below says against a grammar, in our words where they are known.
//!
//! It says what and not where. A keyword that stands in one place of a schema only is found there.

use serde_json::Value;

use super::{Error, Grammar};

/// The refusal that the engine's `message` about `grammar` comes to.
pub(super) fn refusal(grammar: &Grammar, message: &str) -> Error {
    let kind = grammar.kind();
    let mut lines = message.lines().filter(|line| !line.trim().is_empty() && !line.contains("non-verbose"));
    let first = lines.next().unwrap_or("it gives no reason").trim();
    let unsupported = |keyword: &str, reason: &str| Error::Unsupported {
        keyword: keyword.to_owned(),
        pointer: only_place(grammar, keyword).unwrap_or_default(),
        reason: reason.to_owned(),
    };
    let has = |part: &str| message.contains(part);
    if has("oneOf constraints are not supported") {
        unsupported(
            "oneOf",
            "two of its schemas may hold for the same value, and none can be left out while it is written",
        )
    } else if has("min/maxProperties only supported") {
        let is_least = !places(grammar, "minProperties").is_empty();
        unsupported(
            if is_least { "minProperties" } else { "maxProperties" },
            "how many of the properties listed were written is counted only where all are required",
        )
    } else if has("not disjoint") || has("are disjoint") {
        unsupported("patternProperties", first)
    } else if has("circular references with sibling keys") {
        unsupported("$ref", "it leads back to a place that is still being merged with what stands beside it")
    } else if has("NoExtension") {
        Error::Impossible { kind, reason: "there is no text that it comes to an end with".to_owned() }
    } else if has("nsatisfiable") {
        Error::Impossible { kind, reason: first.trim_start_matches("Unsatisfiable schema: ").to_owned() }
    } else if ["too large", "too complex", "too big", "limit", "fuel", "exceeded", "Unable to determine"]
        .into_iter()
        .any(has)
    {
        Error::TooComplex(first.to_owned())
    } else {
        Error::Syntax { kind, reason: first.to_owned() }
    }
}

/// Where a keyword stands, if that is one place.
fn only_place(grammar: &Grammar, keyword: &str) -> Option<String> {
    let mut places = places(grammar, keyword);
    places.pop().filter(|_| places.is_empty())
}

/// Where a keyword stands in a schema: what has its name and a value that it may have.
fn places(grammar: &Grammar, keyword: &str) -> Vec<String> {
    let mut places = Vec::new();
    if let Grammar::JsonSchema(text) = grammar
        && let Ok(schema) = serde_json::from_str(text)
    {
        find(&schema, keyword, "", &mut places);
    }
    places
}

fn find(value: &Value, keyword: &str, at: &str, places: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, part) in object {
                let is_it = match part {
                    Value::Array(_) => keyword == "oneOf",
                    Value::Number(_) => keyword.ends_with("Properties"),
                    Value::String(_) => keyword == "$ref",
                    Value::Object(_) => keyword == "patternProperties",
                    Value::Null | Value::Bool(_) => false,
                };
                if key == keyword && is_it {
                    places.push(at.to_owned());
                }
                if !matches!(key.as_str(), "const" | "enum" | "default" | "examples") {
                    find(part, keyword, &super::schema::inside(at, key), places);
                }
            }
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, part)| find(part, keyword, &format!("{at}/{index}"), places));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_names_the_keyword_and_its_place_where_that_is_one() {
        let refused = |schema: &Value, message: &str| match refusal(&Grammar::JsonSchema(schema.to_string()), message) {
            Error::Unsupported { keyword, pointer, .. } => (keyword, pointer),
            other => panic!("{other:?}"),
        };
        let named = |keyword: &str, pointer: &str| (keyword.to_owned(), pointer.to_owned());
        let count = "min/maxProperties only supported when all keys are required";
        let inner = json!({ "properties": { "a": {}, "minProperties": {} }, "maxProperties": 1 });
        let schema = json!({ "properties": { "x/y": inner }, "default": { "maxProperties": 2 } });
        assert_eq!(refused(&schema, count), named("maxProperties", "/properties/x~1y"));
        let schema = json!({ "items": { "properties": { "a": {} }, "minProperties": 1, "maxProperties": 2 } });
        assert_eq!(refused(&schema, count), named("minProperties", "/items"));
        let one_of = "oneOf constraints are not supported";
        let schema = json!({ "anyOf": [{}, { "oneOf": [{}, {}] }], "properties": { "oneOf": {} } });
        assert_eq!(refused(&schema, one_of), named("oneOf", "/anyOf/1"));
        // Which of two it is, nobody says.
        assert_eq!(refused(&json!({ "oneOf": [{ "oneOf": [{}] }] }), one_of), named("oneOf", ""));
    }
}
