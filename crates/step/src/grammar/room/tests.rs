//! Answers of a writer who takes any token that is allowed, with all the same chance, and never thinks of an end: under every
//! kind of grammar they end whole, with as little room as there may be.

use kauri_formats::Checkpoint;
use kauri_tokenizer::Tokenizer;
use serde_json::{Value, json};

use super::super::{Compiled, Compiler, Grammar};
use crate::sample::uniform;
use crate::tools::{Choice, Format, Tool, Tools};

struct Bench {
    tokenizer: Tokenizer,
    compiler: Compiler,
}

/// What was written with so much room: the text, the tokens, and whether something was changed for want of it.
struct Written {
    text: String,
    tokens: usize,
    is_short: bool,
}

impl Bench {
    fn new() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/kauri-nano-Q4_K_M.gguf");
        let tokenizer = Tokenizer::from_checkpoint(&Checkpoint::open(path).unwrap()).unwrap();
        let compiler = Compiler::new(&tokenizer, tokenizer.vocab_size());
        Self { tokenizer, compiler }
    }

    fn compile(&self, grammar: &Grammar) -> Compiled {
        self.compiler.compile(grammar).unwrap_or_else(|error| panic!("{grammar:?}: {error}"))
    }

    /// The tokens of the way that is found from the beginning.
    fn least(compiled: &Compiled) -> Option<usize> {
        let mut constraint = compiled.start(&[]);
        let certain = constraint.forced().len();
        constraint.find_end(usize::MAX).map(|way| certain + way.len())
    }

    /// As engines write: what is certain comes along, and where the answer may end the writer ends it now and then.
    fn write(&self, compiled: &Compiled, room: usize, seed: u64) -> Written {
        let mut constraint = compiled.start(&[]);
        let mut tokens = constraint.forced();
        let mut draws = 0;
        let mut draw = |of: usize| {
            draws += 1;
            (uniform(seed, draws) * of as f64) as usize
        };
        while tokens.len() < room && !constraint.is_done() {
            let allowed: Vec<u32> = constraint.advance().unwrap().tokens().collect();
            if allowed.is_empty() || constraint.may_end() && draw(20) == 0 {
                break;
            }
            let mut written = Vec::new();
            constraint.take(allowed[draw(allowed.len())], room - tokens.len(), &mut written).unwrap();
            if written.is_empty() {
                break;
            }
            tokens.append(&mut written);
        }
        let text = String::from_utf8_lossy(&self.tokenizer.decode(&tokens, false)).into_owned();
        Written { text, tokens: tokens.len(), is_short: constraint.is_short() }
    }

    /// Writes with the least room there is, with a little more and with plenty, and returns how many answers were shortened.
    fn hold(&self, about: &str, compiled: &Compiled, check: &dyn Fn(&str) -> bool) -> usize {
        let least = Self::least(compiled).unwrap_or_else(|| panic!("{about}: no end is found"));
        let mut shortened = 0;
        for room in [least, least + 1, least + 4, least + 15, least + 60] {
            for seed in 0..8 {
                let Written { text, tokens, is_short } = self.write(compiled, room, seed);
                assert!(tokens <= room, "{about}: {tokens} of {room} tokens, seed {seed}");
                assert!(check(&text), "{about}: seed {seed}, room {room} of at least {least}: {text:?}");
                shortened += usize::from(is_short);
            }
        }
        shortened
    }
}

fn schemas() -> Vec<Value> {
    let strict = |properties: Value| {
        let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    };
    vec![
        json!({ "type": "string" }),
        json!({ "type": "string", "minLength": 40 }),
        json!({ "type": "string", "minLength": 7, "maxLength": 9 }),
        json!({ "type": "string", "pattern": "^a+b[0-9]{3}c?$" }),
        json!({ "type": "string", "format": "date-time" }),
        json!({ "type": "string", "format": "uuid" }),
        json!({ "type": "number", "minimum": 1000, "maximum": 9999.5 }),
        json!({ "type": "integer", "multipleOf": 7 }),
        json!({ "enum": ["a long name of something", "another", { "b": [1, 2] }, null] }),
        json!({ "type": "array", "items": { "type": "string" } }),
        json!({ "type": "array", "items": { "enum": [1, 22, 333] }, "minItems": 4 }),
        json!({ "type": "array", "items": strict(json!({ "name": { "type": "string", "minLength": 3 }, "ok": { "type": "boolean" } })), "minItems": 2 }),
        strict(json!({ "a": { "type": "string" }, "b": { "type": "number" }, "c": { "enum": ["x", "yy", "zzz"] } })),
        json!({ "type": "object", "properties": { "first": { "type": "string" }, "second": { "type": "array", "items": { "type": "number" } }, "needed": { "type": "integer" } }, "required": ["needed"] }),
        strict(
            json!({ "outer": strict(json!({ "inner": strict(json!({ "list": { "type": "array", "items": { "type": "array", "items": { "type": "string" }, "minItems": 1 }, "minItems": 1 } })) })) }),
        ),
        json!({ "$ref": "#/$defs/tree", "$defs": { "tree": { "type": "object", "properties": { "value": { "type": "integer" }, "children": { "type": "array", "items": { "$ref": "#/$defs/tree" } } }, "required": ["value", "children"], "additionalProperties": false } } }),
        json!({ "anyOf": [{ "type": "object", "properties": { "kind": { "const": "text" }, "text": { "type": "string" } }, "required": ["kind", "text"] }, { "type": "array", "items": { "type": "integer" }, "minItems": 3 }] }),
        json!({ "type": "object", "additionalProperties": { "type": "string", "minLength": 5 }, "minProperties": 1 }),
        json!({}),
    ]
}

#[test]
fn every_schemas_answer_ends_whole_within_its_room() {
    let bench = Bench::new();
    for schema in schemas() {
        let compiled = bench.compile(&Grammar::JsonSchema(schema.to_string()));
        let obeys = |text: &str| {
            let mut constraint = compiled.start(&[]);
            serde_json::from_str::<Value>(text).is_ok()
                && constraint.commit_bytes(text.as_bytes())
                && constraint.may_end()
        };
        let shortened = bench.hold(&schema.to_string(), &compiled, &obeys);
        println!("{shortened:3} of 40 shortened, least {:3}: {schema}", Bench::least(&compiled).unwrap());
    }
}

#[test]
fn other_grammars_answers_end_whole_as_well() {
    let bench = Bench::new();
    for grammar in [
        Grammar::Regex(r"(ab)+c{2}(d|e)*f".to_owned()),
        Grammar::Regex(r"\d{4}-\d{2}-\d{2}( and [a-z]+)*\.".to_owned()),
        Grammar::Choice(vec!["yes".to_owned(), "no, not at all".to_owned()]),
        Grammar::Gbnf("root ::= \"(\" root* \")\" | [a-z]+ \";\"".to_owned()),
        Grammar::Lark("start: item (\", \" item)* \".\"\nitem: /[a-z]+/ | \"[\" start \"]\"".to_owned()),
    ] {
        let compiled = bench.compile(&grammar);
        let obeys = |text: &str| {
            let mut constraint = compiled.start(&[]);
            constraint.commit_bytes(text.as_bytes()) && constraint.may_end()
        };
        bench.hold(&format!("{grammar:?}"), &compiled, &obeys);
    }
}

/// Where the way from the very beginning is too long to be found: marks that are one token each in a model's vocabulary are a dozen
/// in this one.
const UNFOUND: [&str; 1] = ["deepseek, Required"];

#[test]
fn calls_end_whole_in_every_notation() {
    let bench = Bench::new();
    let tools = json!([
        { "name": "run", "parameters": { "type": "object", "properties": { "code": { "type": "string" }, "times": { "type": "integer" }, "tags": { "type": "array", "items": { "type": "string" } } }, "required": ["code", "times"], "additionalProperties": false } },
        { "name": "weather", "parameters": { "type": "object", "properties": { "city": { "type": "string" }, "unit": { "enum": ["si", "us"] } }, "required": ["city"], "additionalProperties": false } },
    ]);
    let (mut shortened, mut unfound) = (0, Vec::new());
    for format in crate::tools::tests::every_format() {
        for choice in [Choice::Required, Choice::Auto] {
            let tools = Tools::new(Tool::list(&tools).unwrap(), &choice, true).unwrap();
            let grammar = Grammar::Calls(format.calls(&tools, &|_| None, None).unwrap());
            let compiled = bench.compile(&grammar);
            let about = format!("{}, {choice:?}", format.name);
            if Bench::least(&compiled).is_none() {
                unfound.push(about);
                continue;
            }
            let whole = |text: &str| is_whole(format, &tools, text, choice == Choice::Required);
            shortened += bench.hold(&about, &compiled, &whole);
        }
    }
    assert_eq!(unfound, UNFOUND, "no end is found");
    assert!(shortened > 100, "{shortened} were shortened");
}

/// Whether an answer's calls are complete and have what is required, and there is one where there must be.
fn is_whole(format: &'static Format, tools: &Tools, text: &str, is_required: bool) -> bool {
    use crate::answer::Form;
    use crate::tools::Delta;
    let form = Form { format, reasoning: None, tools: Some(tools.clone()), seed: 0 };
    let mut reader = form.reader();
    reader.push(text);
    reader.finish();
    let (mut calls, mut is_complete): (Vec<(String, String)>, bool) = (Vec::new(), true);
    for delta in reader.take() {
        match delta {
            Delta::Call { name, .. } => calls.push((name, String::new())),
            Delta::Arguments { index, text } => calls[index as usize].1 += &text,
            Delta::End { complete, .. } => is_complete &= complete,
            Delta::Reasoning(_) | Delta::Text(_) => {}
        }
    }
    let has = |(name, arguments): &(String, String)| {
        let value: Value = serde_json::from_str(arguments).unwrap();
        match name.as_str() {
            "run" => value["code"].is_string() && value["times"].is_number(),
            _ => value["city"].is_string(),
        }
    };
    is_complete && calls.iter().all(has) && (!is_required || !calls.is_empty())
}

#[test]
fn with_room_enough_nothing_is_changed_and_with_too_little_the_beginning_is_kept() {
    let bench = Bench::new();
    let schema = json!({ "type": "object", "properties": { "a": { "enum": ["one", "two"] }, "b": { "type": "boolean" } }, "required": ["a", "b"], "additionalProperties": false });
    let compiled = bench.compile(&Grammar::JsonSchema(schema.to_string()));
    let least = Bench::least(&compiled).unwrap();
    for seed in 0..8 {
        let written = bench.write(&compiled, 400, seed);
        assert!(!written.is_short, "{:?}", written.text);
        let cut = bench.write(&compiled, least / 2, seed);
        assert!(!cut.is_short && serde_json::from_str::<Value>(&cut.text).is_err());
        assert!(compiled.start(&[]).accepted_bytes(cut.text.as_bytes()) == cut.text.len(), "{:?}", cut.text);
    }
}
