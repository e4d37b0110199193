//! Whether a value is valid for a schema, read off the specification (2020-12): nothing of what makes masks is used here.
//!
//! Knows the keywords that this folder's schemas have; any other is an error, so that nothing is passed over.

use std::net::{Ipv4Addr, Ipv6Addr};

use regex::Regex;
use serde_json::{Map, Value};

/// Whether `value` is valid for `schema`, a part of `root`; the keyword where one is not known.
pub fn is_valid(value: &Value, schema: &Value, root: &Value) -> Result<bool, String> {
    let object = match schema {
        Value::Bool(always) => return Ok(*always),
        Value::Object(object) => object,
        _ => return Err(format!("{schema} is no schema")),
    };
    for (keyword, said) in object {
        if !holds(value, keyword, said, object, root)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn holds(
    value: &Value,
    keyword: &str,
    said: &Value,
    object: &Map<String, Value>,
    root: &Value,
) -> Result<bool, String> {
    let list = || said.as_array().ok_or_else(|| format!("{keyword} is no list"));
    Ok(match keyword {
        "$defs" | "definitions" | "$schema" | "title" | "description" | "default" | "examples" => true,
        "$ref" => {
            let pointer = said.as_str().and_then(|text| text.strip_prefix('#')).ok_or("a reference elsewhere")?;
            is_valid(value, root.pointer(pointer).ok_or("a reference to nothing")?, root)?
        }
        "type" => {
            let names = said.as_array().map_or(std::slice::from_ref(said), Vec::as_slice);
            names.iter().any(|name| is_of_type(value, name.as_str().unwrap_or_default()))
        }
        "enum" => list()?.iter().any(|one| is_same(one, value)),
        "const" => is_same(said, value),
        "anyOf" => count_valid(value, list()?, root)? > 0,
        "oneOf" => count_valid(value, list()?, root)? == 1,
        "allOf" => count_valid(value, list()?, root)? == list()?.len(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
            value.as_f64().is_none_or(|number| number_holds(number, keyword, said.as_f64().unwrap_or(f64::NAN)))
        }
        "minLength" | "maxLength" | "pattern" | "format" => match value.as_str() {
            Some(text) => string_holds(text, keyword, said)?,
            None => true,
        },
        "items" | "prefixItems" | "minItems" | "maxItems" => match value.as_array() {
            Some(items) => array_holds(items, keyword, said, object, root)?,
            None => true,
        },
        "properties"
        | "patternProperties"
        | "additionalProperties"
        | "required"
        | "minProperties"
        | "maxProperties" => match value.as_object() {
            Some(members) => object_holds(members, keyword, said, object, root)?,
            None => true,
        },
        _ => return Err(keyword.to_owned()),
    })
}

fn count_valid(value: &Value, schemas: &[Value], root: &Value) -> Result<usize, String> {
    schemas.iter().map(|schema| is_valid(value, schema, root).map(usize::from)).sum()
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

/// Numbers are the same where their values are.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        _ => a == b,
    }
}

fn number_holds(number: f64, keyword: &str, said: f64) -> bool {
    match keyword {
        "minimum" => number >= said,
        "maximum" => number <= said,
        "exclusiveMinimum" => number > said,
        "exclusiveMaximum" => number < said,
        _ => (number / said).fract() == 0.0,
    }
}

fn string_holds(text: &str, keyword: &str, said: &Value) -> Result<bool, String> {
    let length = || said.as_u64().ok_or_else(|| format!("{keyword} is no count"));
    let count = text.chars().count() as u64;
    Ok(match keyword {
        "minLength" => count >= length()?,
        "maxLength" => count <= length()?,
        "pattern" => {
            let pattern = Regex::new(said.as_str().unwrap_or_default()).map_err(|error| error.to_string())?;
            pattern.is_match(text)
        }
        _ => match said.as_str().unwrap_or_default() {
            "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
            "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
            "uuid" => {
                let parts: Vec<&str> = text.split('-').collect();
                parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
                    && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
            }
            "date" => is_date(text),
            other => return Err(format!("format {other}")),
        },
    })
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    if !digits || !parts.iter().map(|part| part.len()).eq([4, 2, 2]) {
        return false;
    }
    let [year, month, day] = [0, 1, 2].map(|at| parts[at].parse::<u32>().unwrap_or(0));
    let leaps = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leaps),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// Whether each item is valid for its schema.
fn all_valid<'a>(mut pairs: impl Iterator<Item = (&'a Value, &'a Value)>, root: &Value) -> Result<bool, String> {
    pairs.try_fold(true, |all, (item, schema)| Ok(all && is_valid(item, schema, root)?))
}

fn array_holds(
    items: &[Value],
    keyword: &str,
    said: &Value,
    object: &Map<String, Value>,
    root: &Value,
) -> Result<bool, String> {
    let prefix = object.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    match keyword {
        "minItems" => Ok(items.len() as u64 >= said.as_u64().ok_or("minItems is no count")?),
        "maxItems" => Ok(items.len() as u64 <= said.as_u64().ok_or("maxItems is no count")?),
        "prefixItems" => all_valid(items.iter().zip(prefix), root),
        _ => all_valid(items.iter().skip(prefix.len()).map(|item| (item, said)), root),
    }
}

fn object_holds(
    members: &Map<String, Value>,
    keyword: &str,
    said: &Value,
    object: &Map<String, Value>,
    root: &Value,
) -> Result<bool, String> {
    let listed = |name: &str| object.get("properties").is_some_and(|listed| listed.get(name).is_some());
    let patterns = |said: &Value| -> Result<Vec<(Regex, Value)>, String> {
        let compiled = |(text, schema): (&String, &Value)| {
            Regex::new(text).map(|pattern| (pattern, schema.clone())).map_err(|error| error.to_string())
        };
        said.as_object().ok_or("patternProperties is no object")?.iter().map(compiled).collect()
    };
    let mut all = true;
    match keyword {
        "required" => {
            all = said
                .as_array()
                .ok_or("required is no list")?
                .iter()
                .all(|name| members.contains_key(name.as_str().unwrap_or_default()));
        }
        "minProperties" => all = members.len() as u64 >= said.as_u64().ok_or("minProperties is no count")?,
        "maxProperties" => all = members.len() as u64 <= said.as_u64().ok_or("maxProperties is no count")?,
        "properties" => {
            for (name, schema) in said.as_object().ok_or("properties is no object")? {
                all &= members.get(name).map_or(Ok(true), |value| is_valid(value, schema, root))?;
            }
        }
        "patternProperties" => {
            for (pattern, schema) in patterns(said)? {
                for (_, value) in members.iter().filter(|(name, _)| pattern.is_match(name)) {
                    all &= is_valid(value, &schema, root)?;
                }
            }
        }
        _ => {
            let patterns = object.get("patternProperties").map_or(Ok(Vec::new()), patterns)?;
            let is_free = |name: &str| !listed(name) && !patterns.iter().any(|(pattern, _)| pattern.is_match(name));
            for (_, value) in members.iter().filter(|(name, _)| is_free(name)) {
                all &= is_valid(value, said, root)?;
            }
        }
    }
    Ok(all)
}
