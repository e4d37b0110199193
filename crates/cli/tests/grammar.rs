//! `kauri debug grammar` and answers under a constraint, through the binary.

mod kauri;

use std::io::Write as _;

use kauri::{kauri, output_of};
use serde_json::Value as Json;
use tempfile::NamedTempFile;

const SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string","maxLength":5},"age":{"type":"integer"}},"required":["name"],"additionalProperties":false}"#;

fn file(text: &str, extension: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(extension).tempfile().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn path(file: &NamedTempFile) -> &str {
    file.path().to_str().expect("UTF-8")
}

#[test]
fn lines_are_accepted_or_rejected_at_a_byte() {
    let schema = file(SCHEMA, ".json");
    let lines = "{\"age\":1,\"name\":\"Zoë\"}\n{ \"name\": \"A\", \"age\": 7 }\r\n{\"age\":7}\n{\"name\":\"Zoë\"\n{\"name\":\"abcdefgh\"}\n\n[1]";
    let out = output_of(&["debug", "grammar", "--schema", path(&schema)], lines.as_bytes());
    assert_eq!(out, "accept\naccept\nreject 2\nreject 14\nreject 14\nreject 0\nreject 0\n");
    let out = output_of(&["debug", "grammar", "--regex", r"\d{4}-\d\d"], b"2026-11\n2026-1\n2026-1x\n2026-111\n");
    assert_eq!(out, "accept\nreject 6\nreject 6\nreject 7\n");
    let lark = file("start: \"(\" start \")\" | \"x\"", ".lark");
    assert_eq!(output_of(&["debug", "grammar", "--lark", path(&lark)], b"((x))\n((x)"), "accept\nreject 4\n");
    let gbnf = file("root ::= \"(\" root \")\" | \"x\"", ".gbnf");
    assert_eq!(output_of(&["debug", "grammar", "--gbnf", path(&gbnf)], b"((x))\n((y)"), "accept\nreject 2\n");
}

#[test]
fn what_cannot_be_enforced_is_refused_with_its_keyword() {
    let refused = |text: &str, part: &str| {
        let schema = file(text, ".json");
        kauri(&["debug", "grammar", "--schema", path(&schema)], b"1\n").refused(text, part);
        kauri(&["run", "--json-schema", path(&schema), "Hello"], b"").refused(text, part);
    };
    refused(r#"{"properties":{"a":{"not":{"type":"null"}}}}"#, "\"not\" at /properties/a cannot be enforced");
    refused(r#"{"type":"strin"}"#, "\"type\" at the top is wrong");
    refused("{", "the JSON schema cannot be read");
    kauri(&["debug", "grammar", "--regex", "(?=a)"], b"").refused("looking ahead", "looking ahead");
    kauri(&["debug", "grammar", "--schema", "/nowhere.json"], b"").refused("no file", "cannot be opened");
    kauri(&["debug", "grammar"], b"").refused("nothing to hold lines against", "--schema");
}

#[test]
fn stats_go_to_standard_error() {
    let ran = kauri(&["debug", "grammar", "--regex", "[a-z]+", "--stats"], b"abc\n");
    assert!(ran.stderr.contains("first mask after") && ran.stderr.contains("masks "), "{}", ran.stderr);
    assert_eq!(ran.success(), "accept\n");
}

#[test]
fn an_answer_obeys_its_schema() {
    let schema = file(SCHEMA, ".json");
    let arguments = [
        "run",
        "--json-schema",
        path(&schema),
        "--seed",
        "3",
        "--temperature",
        "2",
        "--max-tokens",
        "200",
        "Who are you?",
    ];
    let text = output_of(&arguments, b"");
    let value: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert!(value["name"].as_str().is_some_and(|name| name.chars().count() <= 5), "{text}");
    let chosen = output_of(&["run", "--regex", "yes|no", "--json", "Is water wet?"], b"");
    let last: Json = serde_json::from_str(chosen.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["finish"], "complete");
    let chosen = output_of(&["run", "--choice", "dry land", "--choice", "no idea", "Is water wet?"], b"");
    assert!(["dry land\n", "no idea\n"].contains(&chosen.as_str()), "{chosen:?}");
}
