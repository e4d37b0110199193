//! Random schemas, and random tokens of those that masks allow: what comes of it is a valid instance, as a judge says who has read the
//! specification and nothing of the program. A slice with fixed seeds; the ignored test walks fifty times as many.
//!
//! The judge is judged by the labelled instances of the fixtures, where they are there.

#[path = "walks/judge.rs"]
mod judge;

use std::collections::BTreeMap;
use std::path::Path;

use kauri_formats::Checkpoint;
use kauri_step::grammar::{Compiled, Compiler, Error, Grammar};
use kauri_step::sample::uniform;
use kauri_tokenizer::Tokenizer;
use serde_json::{Map, Value, json};

const SEEDS: u64 = 400;
/// Walks through one schema, and how many tokens one may take.
const WALKS: u64 = 4;
const TOKENS_MAX: usize = 160;

/// Draws that depend on a seed and their number alone.
struct Dice {
    seed: u64,
    drawn: u64,
}

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.drawn += 1;
        (uniform(self.seed, self.drawn) * count as f64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

const NAMES: [&str; 8] = ["a", "b", "name", "x-1", "ünï", "the \"quoted\"", "temperature_celsius", "id"];
const PATTERNS: [&str; 8] =
    ["^[a-z]+$", "^x-", "b+", "^(yes|no)$", "^[0-9]{2,4}$", "[A-Z][a-z]*$", "^.{3,5}$", "a|é|漢"];

/// A schema of all that is enforced; `depth` more levels may follow.
fn schema(dice: &mut Dice, depth: usize) -> Value {
    let kinds = if depth == 0 { 7 } else { 13 };
    match dice.below(kinds) {
        0 => string(dice),
        1 => number(dice, "integer"),
        2 => number(dice, "number"),
        3 => json!({ "type": dice.pick(&["boolean", "null"]) }),
        4 => {
            let all = [json!(1), json!("one"), json!(null), json!([1, "a"]), json!({ "k": true }), json!("é\n\"")];
            let (one, other) = (dice.pick(&all), dice.pick(&all));
            if dice.one_in(2) { json!({ "const": one }) } else { json!({ "enum": [one, other, false] }) }
        }
        5 => json!({ "type": ["string", "null"], "maxLength": 5 }),
        6 => json!({ "$ref": "#/$defs/node" }),
        7 | 8 => array(dice, depth - 1),
        9 | 10 => object(dice, depth - 1),
        11 => {
            let keyword = dice.pick(&["anyOf", "anyOf", "oneOf"]);
            let branches: Vec<Value> = (0..=dice.below(3)).map(|_| schema(dice, depth - 1)).collect();
            json!({ keyword: branches })
        }
        _ => {
            let (first, second) = (schema(dice, depth - 1), schema(dice, depth - 1));
            let mut both = json!({ "allOf": [first] });
            if dice.one_in(2) {
                both["allOf"] = json!([both["allOf"][0], second]);
            }
            both
        }
    }
}

fn string(dice: &mut Dice) -> Value {
    let mut out = json!({ "type": "string" });
    match dice.below(5) {
        0 => out["pattern"] = json!(dice.pick(&PATTERNS)),
        1 => out["format"] = json!(dice.pick(&["ipv4", "ipv6", "uuid", "date"])),
        2 | 3 => {
            let least = dice.below(4);
            out["minLength"] = json!(least);
            out["maxLength"] = json!(least + dice.below(20));
        }
        _ => {}
    }
    out
}

fn number(dice: &mut Dice, kind: &str) -> Value {
    let mut out = json!({ "type": kind });
    let least = dice.below(2000) as i64 - 1000;
    let step = if kind == "integer" { json!(dice.pick(&[2, 5, 7])) } else { json!(dice.pick(&[0.5, 0.25, 3.0])) };
    match dice.below(5) {
        0 => {
            out["minimum"] = json!(least);
            out["maximum"] = json!(least + dice.below(300) as i64);
        }
        1 => {
            out["exclusiveMinimum"] = json!(least);
            out["exclusiveMaximum"] = json!(least + 2 + dice.below(50) as i64);
        }
        2 => {
            out["multipleOf"] = step;
            out["minimum"] = json!(-50);
            out["maximum"] = json!(90);
        }
        3 => out["maximum"] = json!(least as f64 / 8.0),
        _ => {}
    }
    out
}

fn array(dice: &mut Dice, depth: usize) -> Value {
    let mut out = json!({ "type": "array" });
    if !dice.one_in(4) {
        out["items"] = schema(dice, depth);
    }
    if dice.one_in(3) {
        out["prefixItems"] = (0..=dice.below(2)).map(|_| schema(dice, depth)).collect();
    }
    if dice.one_in(2) {
        let least = dice.below(3);
        out["minItems"] = json!(least);
        out["maxItems"] = json!(least + dice.below(3));
    }
    out
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    let mut properties = Map::new();
    for _ in 0..dice.below(4) {
        let name = dice.pick(&NAMES);
        properties.insert(name.to_owned(), schema(dice, depth));
    }
    let mut required: Vec<&str> = properties.keys().filter(|_| dice.one_in(2)).map(String::as_str).collect();
    if dice.one_in(8) {
        required.push("extra");
    }
    let mut out = json!({ "type": "object", "required": required, "properties": properties });
    match dice.below(5) {
        0 => {}
        1 => out["additionalProperties"] = schema(dice, depth),
        2 => out["patternProperties"] = json!({ dice.pick(&["^x-", "^[0-9]+$"]): schema(dice, depth) }),
        _ => out["additionalProperties"] = json!(false),
    }
    if dice.one_in(6) {
        out["maxProperties"] = json!(1 + dice.below(3));
    }
    out
}

/// A whole schema, with the definition that others refer to: a list or a tree of itself.
fn whole(dice: &mut Dice) -> Value {
    let mut out = schema(dice, 3);
    let next = json!({ "$ref": "#/$defs/node" });
    let node = if dice.one_in(2) {
        json!({ "type": ["object", "null"], "properties": { "next": next, "v": string(dice) }, "additionalProperties": false })
    } else {
        json!({ "anyOf": [{ "type": "array", "items": next, "maxItems": 3 }, { "type": "integer" }] })
    };
    out["$defs"] = json!({ "node": node });
    out
}

#[derive(Default, Debug)]
struct Tally {
    compiled: u64,
    refused: BTreeMap<String, u64>,
    ended: u64,
    /// Room ended before there was a way to an end.
    cut_off: u64,
    /// Ended with a number that no machine has.
    beyond_numbers: u64,
}

#[test]
fn whatever_masks_allow_ends_in_a_valid_instance() {
    walk_all(SEEDS);
}

#[test]
#[ignore = "takes minutes"]
fn whatever_masks_allow_ends_in_a_valid_instance_at_length() {
    walk_all(50 * SEEDS);
}

fn walk_all(seeds: u64) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/kauri-nano-Q4_K_M.gguf");
    let tokenizer = Tokenizer::from_checkpoint(&Checkpoint::open(path).unwrap()).unwrap();
    let compiler = Compiler::new(&tokenizer, tokenizer.vocab_size());
    let mut tally = Tally::default();
    for seed in 0..seeds {
        let mut dice = Dice { seed, drawn: 0 };
        let schema = whole(&mut dice);
        match compiler.compile(&Grammar::JsonSchema(schema.to_string())) {
            Ok(compiled) => {
                tally.compiled += 1;
                for walk_number in 0..WALKS {
                    walk(&compiled, &tokenizer, &schema, &mut dice, walk_number, &mut tally);
                }
            }
            Err(error) => *tally.refused.entry(reason(&error, &schema)).or_default() += 1,
        }
    }
    println!("{tally:#?}");
    assert!(tally.compiled * 2 > seeds, "most schemas are refused: {tally:#?}");
    assert!(tally.ended * 4 > tally.compiled * WALKS * 3, "most walks have no end: {tally:#?}");
}

/// One answer of random tokens, those that are certain taken where they are, held to its end by the room that it has.
fn walk(compiled: &Compiled, tokenizer: &Tokenizer, schema: &Value, dice: &mut Dice, number: u64, tally: &mut Tally) {
    let about = |what: &str, written: &[u32]| {
        let text = String::from_utf8_lossy(&tokenizer.decode(written, true)).into_owned();
        format!("{what}: seed {}, walk {number}: {schema}: {text:?}", dice.seed)
    };
    let mut constraint = compiled.start(&[]);
    let mut written = if number.is_multiple_of(2) { constraint.forced() } else { Vec::new() };
    let mut draws = Dice { seed: dice.seed ^ number << 32, drawn: dice.drawn };
    while written.len() < TOKENS_MAX && !constraint.is_done() && !(constraint.may_end() && draws.one_in(6)) {
        if let Err(error) = constraint.advance() {
            panic!("{}", about(&error.to_string(), &written));
        }
        let allowed: Vec<u32> = constraint.mask().tokens().collect();
        if allowed.is_empty() {
            break;
        }
        // What is short ends things more often than what is drawn among all.
        let token = if draws.one_in(2) {
            let length = |token: &u32| tokenizer.token_bytes(*token).map_or(0, <[u8]>::len);
            let shortest = allowed.iter().map(length).min().unwrap_or(0);
            draws.pick(&allowed.iter().copied().filter(|token| length(token) == shortest).collect::<Vec<_>>())
        } else {
            draws.pick(&allowed)
        };
        let left = TOKENS_MAX - written.len();
        if let Err(error) = constraint.take(token, left, &mut written) {
            panic!("{}", about(&format!("{token} was allowed, and {error}"), &written));
        }
    }
    if !constraint.may_end() {
        tally.cut_off += 1;
        return;
    }
    let Ok(text) = String::from_utf8(tokenizer.decode(&written, true)) else {
        panic!("{}", about("no UTF-8", &written));
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(value) => {
            tally.ended += 1;
            let valid = judge::is_valid(&value, schema, schema).unwrap_or_else(|error| panic!("{error}: {schema}"));
            assert!(valid, "{}", about("not valid", &written));
        }
        Err(error) if error.to_string().starts_with("number out of range") => tally.beyond_numbers += 1,
        Err(error) => panic!("{}", about(&error.to_string(), &written)),
    }
}

/// Why a schema is refused, without its places; what is wrong with it is never the reason: none of them is.
fn reason(error: &Error, schema: &Value) -> String {
    match error {
        Error::Unsupported { keyword, .. } => keyword.clone(),
        Error::Limit { what, .. } => format!("more {what} than accepted"),
        Error::Impossible { .. } => "nothing obeys it".to_owned(),
        Error::TooComplex(_) => "too complex".to_owned(),
        Error::Invalid { .. } | Error::Syntax { .. } | Error::InTool { .. } | Error::NoToken | Error::Disobeyed(_) => {
            panic!("{error}: {schema}")
        }
    }
}

#[test]
fn the_judge_agrees_with_the_labels() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/schemas/schemas.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let (mut agreed, mut unknown) = (0, 0);
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let schema = &record["schema"];
        for test in record["tests"].as_array().unwrap() {
            match judge::is_valid(&test["data"], schema, schema) {
                Ok(valid) => {
                    assert_eq!(Some(valid), test["valid"].as_bool(), "{}: {schema}: {}", record["id"], test["data"]);
                    agreed += 1;
                }
                Err(_) => unknown += 1,
            }
        }
    }
    println!("{agreed} labels as the judge has them; {unknown} instances have keywords that it does not know");
    assert!(agreed >= 400, "{agreed} instances were judged");
}
