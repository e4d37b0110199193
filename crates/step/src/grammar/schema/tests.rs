//! What of a schema is enforced, refused, left out and limited. Does not know what a grammar makes of it.

use super::*;

fn checked(schema: &Value) -> Value {
    check(&schema.to_string()).unwrap_or_else(|error| panic!("{schema}: {error}")).schema
}

/// Keyword and place of what is refused.
fn refused(schema: &Value) -> (String, String) {
    match check(&schema.to_string()) {
        Err(Error::Unsupported { keyword, pointer, .. } | Error::Invalid { keyword, pointer, .. }) => {
            (keyword, pointer)
        }
        other => panic!("{schema}: {other:?}"),
    }
}

fn place(keyword: &str, pointer: &str) -> (String, String) {
    (keyword.to_owned(), pointer.to_owned())
}

#[test]
fn what_cannot_be_enforced_is_refused_by_keyword_and_place() {
    for (keyword, value) in [
        ("not", json!({ "type": "string" })),
        ("if", json!({ "type": "string" })),
        ("contains", json!({})),
        ("uniqueItems", json!(true)),
        ("$dynamicRef", json!("#x")),
        ("unevaluatedProperties", json!(false)),
        ("pattern", json!("(?!a)")),
        ("minimum", json!(1e300)),
        ("multipleOf", json!(0.123456789)),
        ("multipleOf", json!(10_007)),
        ("multipleOf", json!(1.0007)),
        ("$ref", json!("http://example.org/other")),
        ("minItems", json!(10_000_000)),
        ("minProperties", json!(3)),
        ("propertyNames", json!({ "minLength": 3 })),
    ] {
        let mut part = json!({ "then": true, "anyOf": [true] });
        part[keyword] = value;
        let schema = json!({ "properties": { "a/b": part } });
        assert_eq!(refused(&schema), place(keyword, "/properties/a~1b"), "{keyword}");
    }
    assert_eq!(refused(&json!({ "format": "regex" })), place("format: regex", ""));
    // Of two lists of items one would be left out.
    let two = json!({ "prefixItems": [true], "items": [{ "type": "null" }] });
    assert_eq!(refused(&json!({ "not": false, "items": two })), place("items", "/items"));
    assert_eq!(refused(&json!({ "const": 9007199254740993_u64 })), place("const", ""));
    assert_eq!(refused(&json!({ "enum": [[{ "a": 1e300 }]] })), place("enum", ""));
    assert_eq!(refused(&json!({ "$schema": "http://json-schema.org/draft-03/schema#" })), place("$schema", ""));
}

#[test]
fn what_makes_no_sense_is_refused_too() {
    for (keyword, value) in [
        ("type", json!("text")),
        ("type", json!([])),
        ("enum", json!("a")),
        ("required", json!(true)),
        ("properties", json!([])),
        ("minLength", json!(-1)),
        ("minLength", json!(1.5)),
        ("maximum", json!("9")),
        ("multipleOf", json!(0)),
        ("anyOf", json!([])),
        ("$ref", json!(7)),
        ("pattern", json!(7)),
        ("uniqueItems", json!("yes")),
        ("dependentRequired", json!({ "a": true })),
    ] {
        assert_eq!(refused(&json!({ keyword: value })).0, keyword);
    }
}

#[test]
fn what_says_nothing_is_left_out_and_remarked_where_it_may_surprise() {
    let schema = json!({
        "title": "T", "description": "D", "default": 1, "examples": [2], "deprecated": true, "contentEncoding": "base64",
        "not": false, "uniqueItems": false, "propertyNames": true, "if": true, "minContains": 1,
        "additinalProperties": false, "format": "chickenbutt"
    });
    let Checked { schema, notes } = check(&schema.to_string()).unwrap();
    assert_eq!(schema, json!({ "$defs": {} }));
    assert_eq!(
        notes,
        [
            "\"minContains\" at the top stands without \"contains\": it says nothing",
            "\"additinalProperties\" at the top is no keyword of JSON Schema: it says nothing",
            "\"format: chickenbutt\" at the top is no format of JSON Schema: it says nothing",
        ]
    );
}

#[test]
fn drafts_differ_where_they_do() {
    let old = |schema: Value| {
        let mut schema = schema;
        schema["$schema"] = json!("http://json-schema.org/draft-04/schema#");
        checked(&schema)
    };
    // Beside a reference nothing counted up to draft 7.
    let beside = json!({ "$ref": "#/definitions/a", "type": "string", "definitions": { "a": { "type": "null" } } });
    assert_eq!(old(beside.clone())["type"], Value::Null);
    assert_eq!(checked(&beside)["type"], "string");
    let mut marked = beside.clone();
    marked["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    let notes = check(&marked.to_string()).unwrap().notes;
    let said = "stands beside \"$ref\", which up to draft 7 is all of a schema";
    assert_eq!(notes, [format!("\"type\" at the top {said}: it says nothing")]);
    // Lists of items were prefixes.
    assert_eq!(
        old(json!({ "items": [true, false], "additionalItems": false })),
        checked(&json!({ "prefixItems": [true, false], "items": false }))
    );
    assert_eq!(old(json!({ "const": 1 })), json!({ "$defs": {} }));
    assert_eq!(old(json!({ "minimum": 1, "exclusiveMinimum": true }))["exclusiveMinimum"], true);
}

#[test]
fn dependencies_become_alternatives() {
    let schema = json!({ "properties": { "a": true, "b": true }, "dependentRequired": { "a": ["b"] } });
    let expected = json!({ "allOf": [
        { "properties": { "a": true, "b": true } },
        { "anyOf": [{ "properties": { "a": false } }, { "required": ["b", "a"] }] }
    ], "$defs": {} });
    assert_eq!(checked(&schema), expected);
}

#[test]
fn circles_are_told_from_recursion() {
    let tree = json!({ "$defs": { "t": { "properties": { "left": { "$ref": "#/$defs/t" } } } }, "$ref": "#/$defs/t" });
    assert_eq!(checked(&tree)["$ref"], "#/$defs/0");
    let circle = json!({ "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/b" }] }, "b": { "$ref": "#/$defs/a" } }, "$ref": "#/$defs/a" });
    assert_eq!(refused(&circle), place("$ref", "/$defs/a"));
    assert_eq!(refused(&json!({ "$ref": "#" })), place("$ref", ""));
}

#[test]
fn sizes_are_limited() {
    let limited = |text: &str, part: &str| {
        let error = check(text).expect_err(part).to_string();
        assert!(error.starts_with("the JSON schema has more than ") && error.contains(part), "{error}");
    };
    limited(&" ".repeat(BYTES_MAX + 1), "bytes");
    limited(&format!("{}true{}", "{\"items\":".repeat(10_000), "}".repeat(10_000)), "127 levels");
    limited(&json!({ "enum": vec![0; SUBSCHEMAS_MAX + 1] }).to_string(), "subschemas");
    limited(&json!({ "allOf": vec![json!({ "pattern": "a" }); PATTERNS_MAX + 1] }).to_string(), "patterns");
    limited(&json!({ "allOf": vec![json!({ "pattern": "a" }); 4] }).to_string(), "for the same string");
    let meet = json!({ "allOf": [
        { "properties": { "a": { "format": "date", "pattern": "1" } } },
        { "properties": { "b": true }, "additionalProperties": { "allOf": [{ "pattern": "2" }, { "pattern": "3" }] } }
    ] });
    limited(&meet.to_string(), "for the same string");
    limited(&json!({ "oneOf": vec![true; ONE_OF_MAX + 1] }).to_string(), "alternatives");
    let names: Map<String, Value> = (0..20).map(|n| (format!("^{n}$"), Value::Bool(true))).collect();
    limited(&json!({ "patternProperties": names }).to_string(), "patternProperties");
    // A few lines that merge to more than any memory holds: alternatives, and definitions within definitions.
    let ten: Vec<Value> = (0..10).map(|n| json!({ "required": [n.to_string()] })).collect();
    limited(&json!({ "allOf": vec![json!({ "anyOf": ten }); 10] }).to_string(), "merged");
    let mut definitions = Map::new();
    for n in 0..40 {
        let next = json!({ "allOf": [{ "$ref": format!("#/$defs/d{}", n + 1) }, { "type": "object" }] });
        definitions.insert(format!("d{n}"), json!({ "properties": { "a": next, "b": next } }));
    }
    definitions.insert("d40".to_owned(), json!({ "type": "object" }));
    limited(&json!({ "$defs": definitions, "$ref": "#/$defs/d0" }).to_string(), "merged");
}
