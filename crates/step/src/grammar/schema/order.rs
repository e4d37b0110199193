//! The order in which a schema lists properties, for values that come in another one.
//!
//! What order an object's properties are in says nothing about whether it is valid, but a grammar writes them in one order only.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// The same value with properties in the order in which the checked `schema` has them written; others behind, as they are.
pub(in crate::grammar) fn in_order(value: &Value, schema: &Value) -> Value {
    arranged(value, &expanded(&[schema], value, schema), schema)
}

/// `schemas` are all that say something about the value.
fn arranged(value: &Value, schemas: &[&Map<String, Value>], root: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut names: Vec<&String> =
                schemas.iter().filter_map(|schema| schema.get("properties")?.as_object()).flat_map(Map::keys).collect();
            let required = schemas
                .iter()
                .filter_map(|schema| schema.get("required")?.as_array())
                .flatten()
                .filter_map(Value::as_str);
            let required: Vec<String> = required.map(str::to_owned).collect();
            names.extend(&required);
            names.extend(object.keys());
            let mut out = Map::new();
            for name in names {
                if let Some(part) = object.get(name).filter(|_| !out.contains_key(name)) {
                    let said = schemas.iter().flat_map(|schema| {
                        let named = schema.get("properties").and_then(|map| map.get(name));
                        let patterns = schema.get("patternProperties").and_then(Value::as_object);
                        named
                            .into_iter()
                            .chain(patterns.into_iter().flat_map(Map::values))
                            .chain(schema.get("additionalProperties"))
                    });
                    let said: Vec<&Value> = said.collect();
                    out.insert(name.clone(), arranged(part, &expanded(&said, part, root), root));
                }
            }
            Value::Object(out)
        }
        Value::Array(list) => {
            let items = list.iter().enumerate().map(|(index, part)| {
                let said = schemas.iter().flat_map(|schema| {
                    let prefix = schema.get("prefixItems").and_then(|list| list.get(index));
                    prefix.into_iter().chain(schema.get("items"))
                });
                let said: Vec<&Value> = said.collect();
                arranged(part, &expanded(&said, part, root), root)
            });
            Value::Array(items.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// These schemas and all that they refer to or are made of, in the order in which they are merged.
/// Where one of several may hold, the first that knows all properties of the value is taken, and all where none does.
fn expanded<'s>(schemas: &[&'s Value], value: &Value, root: &'s Value) -> Vec<&'s Map<String, Value>> {
    let mut out = Vec::new();
    let mut seen = HashSet::new();
    let mut open: Vec<&Value> = schemas.iter().rev().copied().collect();
    while let Some(schema) = open.pop() {
        let Value::Object(object) = schema else { continue };
        if !seen.insert(std::ptr::from_ref(object)) {
            continue;
        }
        out.push(object);
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let Some(list) = object.get(keyword).and_then(Value::as_array) else { continue };
            let knows = |schema: &&Value| keyword != "allOf" && knows_all(schema, value, root);
            match list.iter().find(knows) {
                Some(one) => open.push(one),
                None => open.extend(list.iter().rev()),
            }
        }
        let target = object.get("$ref").and_then(Value::as_str).and_then(|target| root.pointer(&target[1..]));
        open.extend(target);
    }
    out
}

/// Whether a schema names all properties of an object.
fn knows_all(schema: &Value, value: &Value, root: &Value) -> bool {
    let schemas = expanded(&[schema], value, root);
    let knows = |name: &String| {
        schemas.iter().any(|schema| schema.get("properties").is_some_and(|map| map.get(name).is_some()))
    };
    value.as_object().is_some_and(|object| object.keys().all(knows))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn properties_come_as_the_schema_lists_them_at_every_depth() {
        let schema = json!({
            "allOf": [
                { "properties": { "b": { "items": { "$ref": "#/$defs/0" } }, "a": true } },
                { "anyOf": [{ "required": ["z"] }, { "properties": { "c": true } }] }
            ],
            "$defs": { "0": { "properties": { "y": true, "x": { "$ref": "#/$defs/0" } } } }
        });
        let value = json!({ "other": 1, "c": 2, "a": 3, "b": [{ "x": { "x": 4, "y": 5 }, "y": 6 }], "z": 7 });
        let either = json!({ "anyOf": [
            { "properties": { "text": true, "type": true } }, { "properties": { "data": true, "type": true } }
        ] });
        assert_eq!(in_order(&json!({ "type": 1, "data": 2 }), &either).to_string(), r#"{"data":2,"type":1}"#);
        let expected = r#"{"b":[{"y":6,"x":{"y":5,"x":4}}],"a":3,"c":2,"z":7,"other":1}"#;
        assert_eq!(in_order(&value, &schema).to_string(), expected);
    }
}
