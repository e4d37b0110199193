//! Every format's grammar on a real vocabulary: it lets through what the format writes, and no call of anything else.

use kauri_formats::Checkpoint;
use kauri_tokenizer::Tokenizer;

use super::*;
use crate::grammar::{Compiled, Compiler, Grammar};

struct Bench {
    compiler: Compiler,
    special: Vec<u32>,
    /// The bytes of all others.
    texts: Vec<(Vec<u8>, u32)>,
}

impl Bench {
    fn new() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/kauri-nano-Q4_K_M.gguf");
        let tokenizer = Tokenizer::from_checkpoint(&Checkpoint::open(path).unwrap()).unwrap();
        let compiler = Compiler::new(&tokenizer, tokenizer.vocab_size());
        let special = (0..tokenizer.vocab_size() as u32).filter(|&id| tokenizer.is_special(id)).collect();
        let texts = (0..tokenizer.vocab_size() as u32).filter(|&id| !tokenizer.is_special(id)).filter_map(|id| {
            let bytes = tokenizer.token_bytes(id)?.to_vec();
            (!bytes.is_empty()).then_some((bytes, id))
        });
        let texts = texts.collect();
        Self { compiler, special, texts }
    }

    /// The marks of a format that stand for special tokens here, each with one, as far as there are any: a vocabulary of another model.
    fn marks(&self, format: &Format, are_special: bool) -> Vec<(&'static str, u32)> {
        let mut marks: Vec<&str> = format.marks().into_iter().filter(|mark| mark.len() > 4).collect();
        marks.sort_unstable();
        marks.dedup();
        let count = if are_special { self.special.len() } else { 0 };
        marks.into_iter().zip(self.special.iter().copied()).take(count).collect()
    }

    fn compile(&self, format: &Format, tools: &Tools, marks: &[(&str, u32)]) -> Compiled {
        self.compile_beside(format, tools, marks, None)
    }

    fn compile_beside(&self, format: &Format, tools: &Tools, marks: &[(&str, u32)], text: Option<&str>) -> Compiled {
        let token = |text: &str| marks.iter().find(|(mark, _)| *mark == text).map(|&(_, id)| id);
        let calls = format.calls(tools, &token, text).unwrap();
        let lark = calls.lark.clone();
        let grammar = Grammar::Calls(calls);
        self.compiler.compile(&grammar).unwrap_or_else(|error| panic!("{}: {error}\n{lark}", format.name))
    }

    /// Whether an answer may be this text; else how far it may. Each token is one that the mask allows: the longest that fits, since
    /// tokens of a text that is certain are cut as the vocabulary cuts it.
    fn obeys(&self, compiled: &Compiled, text: &str, marks: &[(&str, u32)]) -> Result<(), String> {
        let mut constraint = compiled.start(&[]);
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let mask = constraint.advance().map_err(|error| error.to_string())?;
            let mark =
                marks.iter().filter(|(mark, _)| rest.starts_with(mark.as_bytes())).max_by_key(|(mark, _)| mark.len());
            let token = match mark {
                Some(&(mark, id)) => Some((id, mark.len())).filter(|_| mask.allows(id)),
                None => self
                    .texts
                    .iter()
                    .filter(|(bytes, id)| mask.allows(*id) && rest.starts_with(bytes))
                    // A token over the edge of a mark that is one token is none.
                    .filter(|(bytes, _)| !marks.iter().any(|(mark, _)| holds(bytes, mark.as_bytes())))
                    .map(|(bytes, id)| (*id, bytes.len()))
                    .max_by_key(|(_, length)| *length),
            };
            let Some((id, length)) = token else {
                return Err(format!("there is no token for {:?}", String::from_utf8_lossy(rest)));
            };
            constraint.commit(id).map_err(|error| error.to_string())?;
            rest = &rest[length..];
        }
        if constraint.may_end() { Ok(()) } else { Err("it may not end here".to_owned()) }
    }
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn calls() -> [(&'static str, Json); 2] {
    [
        ("get_weather", json!({ "name": "Hobart", "unit": "si" })),
        ("run_python", json!({ "code": "print('a')\nprint(2)", "timeout": 2.5, "fast": false })),
    ]
}

#[test]
fn grammars_let_through_what_their_formats_write_and_no_other_call() {
    let bench = Bench::new();
    let calls = calls();
    let calls: Vec<(&str, &Json)> = calls.iter().map(|(name, arguments)| (*name, arguments)).collect();
    for (format, are_special) in every_format().flat_map(|format| [(format, false), (format, true)]) {
        let marks = bench.marks(format, are_special);
        let name = format.name;
        let (one, two) = (format.write(&calls[..1]), format.write(&calls));
        let is_bare = matches!(&format.kind, Kind::Layout(layout) if layout.first);
        for (choice, parallel) in [
            (Choice::Auto, true),
            (Choice::Auto, false),
            (Choice::Required, true),
            (Choice::Required, false),
            (Choice::Named("get_weather".to_owned()), false),
        ] {
            let about = format!("{name}, {choice:?}, several: {parallel}, special tokens: {are_special}");
            let compiled = bench.compile(format, &listed(&choice, parallel), &marks);
            let yes = |text: &str| {
                let obeys = bench.obeys(&compiled, text, &marks);
                assert!(obeys.is_ok(), "{about}: {text:?} is kept out: {}", obeys.unwrap_err());
            };
            let no = |text: &str| {
                assert!(bench.obeys(&compiled, text, &marks).is_err(), "{about}: {text:?} is let through");
            };
            yes(&one);
            if parallel {
                yes(&two);
            } else {
                no(&two);
            }
            no(&one.replacen("get_weather", "get_whether", 1));
            no(&one.replacen("si", "so", 1));
            no(&one.replacen("Hobart", "", 1).replacen("name", "mane", 1));
            no(&one[..one.len() - 1]);
            if choice == Choice::Auto {
                if !format.is_harmony() {
                    yes("Hello, \"world\"! 1 < 2");
                    yes("");
                }
                if !is_bare && !format.is_harmony() {
                    yes(&format!("Let me look.\n{one}"));
                }
            } else {
                no("Hello");
                no("");
                no(&format!("Let me look.\n{one}"));
            }
        }
    }
}

#[test]
fn what_a_tool_asks_for_is_enforced_or_refused_by_name() {
    let bench = Bench::new();
    let tool = |parameters: Json, is_strict: bool| Tool {
        name: "f".to_owned(),
        description: String::new(),
        parameters,
        is_strict,
    };
    let grammar = |tool: Tool| {
        let tools = Tools::new(vec![tool], &Choice::Required, false).unwrap();
        named("hermes").grammar(&tools, &|_| None, None)
    };
    let schema = json!({ "type": "object", "properties": { "a": { "not": { "type": "string", "pattern": "x" } } } });
    let error = grammar(tool(schema.clone(), true)).unwrap_err().to_string();
    assert!(error.contains("\"f\"") && error.contains("\"not\"") && error.contains("/properties/a"), "{error}");
    assert!(grammar(tool(schema, false)).is_ok());
    // References lead to where the schema lies in the format's own one.
    let tree = json!({
        "type": "object",
        "properties": { "tree": { "$ref": "#/$defs/tree" } },
        "required": ["tree"],
        "additionalProperties": false,
        "$defs": { "tree": { "type": "object", "properties": { "leaf": { "type": "integer" }, "next": { "$ref": "#/$defs/tree" } },
            "required": ["leaf"], "additionalProperties": false } },
    });
    for format in every_format() {
        let tools = Tools::new(vec![tool(tree.clone(), true)], &Choice::Required, false).unwrap();
        let compiled = bench.compile(format, &tools, &[]);
        let good = json!({ "tree": { "leaf": 1, "next": { "leaf": 2, "next": { "leaf": 3 } } } });
        let bad = json!({ "tree": { "leaf": 1, "next": { "leaf": 2, "next": { "leaf": "x" } } } });
        let obeys = |arguments: &Json| bench.obeys(&compiled, &format.write(&[("f", arguments)]), &[]);
        assert_eq!(obeys(&good), Ok(()), "{}: {}", format.name, format.write(&[("f", &good)]));
        assert!(obeys(&bad).is_err(), "{}", format.name);
    }
}

/// In every notation what is written obeys patterns and bounds, or the tool is refused with the keyword.
#[test]
fn patterns_and_bounds_hold_in_every_notation() {
    let bench = Bench::new();
    let tools = |schema: Json| {
        let properties = json!({ "value": schema });
        let parameters =
            json!({ "type": "object", "properties": properties, "required": ["value"], "additionalProperties": false });
        let tool = Tool { name: "f".to_owned(), description: String::new(), parameters, is_strict: true };
        Tools::new(vec![tool], &Choice::Required, false).unwrap()
    };
    let held = [
        (
            json!({ "type": "string", "pattern": "^[a-z]+[0-9]$|^none$" }),
            vec![json!("ab1"), json!("none")],
            vec![json!("ab"), json!("1"), json!("nones")],
        ),
        (json!({ "type": "string", "pattern": "b+" }), vec![json!("abbc"), json!("b")], vec![json!("ac"), json!("")]),
        (
            json!({ "type": "string", "minLength": 2, "maxLength": 3 }),
            vec![json!("ab"), json!("\u{e9}\u{e9}\u{e9}")],
            vec![json!("a"), json!("abcd")],
        ),
        (
            json!({ "type": "string", "format": "date" }),
            vec![json!("2024-02-29")],
            vec![json!("2023-02-29"), json!("x")],
        ),
        (json!({ "type": "string", "const": "fixed" }), vec![json!("fixed")], vec![json!("other")]),
        (
            json!({ "type": "integer", "minimum": 3, "maximum": 12 }),
            vec![json!(3), json!(12)],
            vec![json!(2), json!(13)],
        ),
        (json!({ "type": "number", "multipleOf": 0.5 }), vec![json!(1.5)], vec![json!(1.25)]),
        (
            json!({ "type": "array", "items": { "type": "string", "maxLength": 2 }, "minItems": 1, "maxItems": 2 }),
            vec![json!(["a"]), json!(["a", "bc"])],
            vec![json!([]), json!(["a", "b", "c"]), json!(["abc"])],
        ),
    ];
    for (schema, good, bad) in held {
        let tools = tools(schema.clone());
        for format in every_format() {
            let compiled = bench.compile(format, &tools, &[]);
            let written = |value: &Json| format.write(&[("f", &json!({ "value": value }))]);
            for value in &good {
                let text = written(value);
                assert_eq!(bench.obeys(&compiled, &text, &[]), Ok(()), "{}: {schema}: {text}", format.name);
            }
            for value in &bad {
                let text = written(value);
                assert!(bench.obeys(&compiled, &text, &[]).is_err(), "{}: {schema}: {text}", format.name);
            }
        }
    }
    // What a notation cannot be held to is refused by name; as JSON it is enforced.
    for (schema, keyword) in [
        (json!({ "type": "string", "allOf": [{ "pattern": "a" }, { "pattern": "b" }] }), "allOf"),
        (json!({ "type": "string", "pattern": "a(^b|c$)" }), "pattern"),
    ] {
        let tools = tools(schema);
        for (name, is_refused) in [("qwen-coder", true), ("gemma", true), ("hermes", false)] {
            let result = named(name).grammar(&tools, &|_| None, None);
            let message = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
            assert_eq!(result.is_err(), is_refused, "{name}: {message}");
            assert!(!is_refused || message.contains(keyword) && message.contains("/properties/value"), "{message}");
        }
    }
}

/// Where an answer may be a call or must obey a schema, it is one of the two and nothing else.
#[test]
fn an_answer_is_a_call_or_obeys_what_text_must() {
    let bench = Bench::new();
    let calls = calls();
    let calls: Vec<(&str, &Json)> = calls.iter().map(|(name, arguments)| (*name, arguments)).collect();
    let schema = json!({ "type": "object", "properties": { "answer": { "type": "integer" } }, "required": ["answer"], "additionalProperties": false });
    let text = Grammar::JsonSchema(schema.to_string()).beside().unwrap().unwrap();
    for format in every_format() {
        let compiled = bench.compile_beside(format, &listed(&Choice::Auto, true), &[], Some(&text));
        let json = "{\"answer\": 42}";
        let text = if format.is_harmony() { format!("<|channel|>final<|message|>{json}") } else { json.to_owned() };
        let obeys = |text: &str| bench.obeys(&compiled, text, &[]);
        assert_eq!(obeys(&text), Ok(()), "{}", format.name);
        assert_eq!(obeys(&format.write(&calls[..1])), Ok(()), "{}", format.name);
        for bad in [
            text.replace("42", "\"x\""),
            text.replace(json, "Hello"),
            format.write(&calls[..1]).replacen("Hobart", "", 1).replacen("name", "mane", 1),
        ] {
            assert!(obeys(&bad).is_err(), "{}: {bad}", format.name);
        }
    }
}
