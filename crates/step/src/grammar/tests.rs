//! Each kind of grammar, on the vocabulary of the model in the repository. What schemas are refused for is tested beside `schema.rs`.

use std::time::Instant;

use kauri_formats::Checkpoint;
use kauri_tokenizer::Special;

use super::*;
use crate::tools::{Choice, Format, Signs, Tool, Tools};

/// The vocabulary of the model that is in the repository.
fn tokenizer() -> Tokenizer {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/kauri-nano-Q4_K_M.gguf");
    Tokenizer::from_checkpoint(&Checkpoint::open(path).unwrap()).unwrap()
}

struct Bench {
    tokenizer: Tokenizer,
    compiler: Compiler,
}

impl Bench {
    fn new() -> Self {
        let tokenizer = tokenizer();
        let compiler = Compiler::new(&tokenizer, tokenizer.vocab_size());
        Self { tokenizer, compiler }
    }

    fn compile(&self, grammar: &Grammar) -> Compiled {
        self.compiler.compile(grammar).unwrap_or_else(|error| panic!("{grammar:?}: {error}"))
    }

    fn schema(&self, schema: &Value) -> Compiled {
        self.compile(&Grammar::JsonSchema(schema.to_string()))
    }

    /// Whether a text obeys, each token of it asked of the mask where none is certain.
    fn obeys(&self, compiled: &Compiled, text: &str) -> bool {
        let mut constraint = compiled.start(&[]);
        self.tokenizer.encode(text, Special::Text).into_iter().all(|token| constraint.commit(token).is_ok())
            && constraint.may_end()
    }

    /// Whether what is hostile ends: with an error that has this in it, or as an answer whose steps stay within their limits.
    fn ends(&self, name: &str, grammar: &Grammar, error: Option<&str>) {
        let start = Instant::now();
        let result = self.compiler.compile(grammar);
        let took = start.elapsed();
        match (result, error) {
            (Err(found), Some(part)) => {
                println!("{name}: {took:.1?}, {found}");
                assert!(found.to_string().contains(part), "{name}: {found}");
            }
            (Ok(compiled), None) => {
                let (most, ended) = self.walk_within_limits(name, &compiled);
                println!("{name}: {took:.1?}, accepted; the longest step {most:.1?}{ended}");
            }
            (Err(found), None) => panic!("{name}: {found}"),
            (Ok(_), Some(part)) => panic!("{name} is accepted, instead of: {part}"),
        }
    }

    /// Writes 200 tokens, the longest that may be written in turn with the shortest; the longest step, and why it ended before that.
    fn walk_within_limits(&self, name: &str, compiled: &Compiled) -> (std::time::Duration, String) {
        let most = limits();
        let mut constraint = compiled.start(&[]);
        let mut longest = std::time::Duration::ZERO;
        for step in 0..200 {
            let start = Instant::now();
            let mask = constraint.advance().cloned();
            longest = longest.max(start.elapsed());
            let spent =
                constraint.matcher.last_step_stats().map_or((0, 0), |stats| (stats.lexer_cost, stats.all_items));
            // One derivative more than the fuel may be finished.
            assert!(spent.0 <= 2 * most.step_lexer_fuel && spent.1 <= most.step_max_items, "{name}, {step}: {spent:?}");
            let mask = match mask {
                Ok(mask) => mask,
                Err(error) => return (longest, format!("; {error}")),
            };
            let length = |id: &u32| self.tokenizer.token_bytes(*id).map_or(0, <[u8]>::len);
            let token = if step % 2 == 0 { mask.tokens().max_by_key(length) } else { mask.tokens().min_by_key(length) };
            let Some(token) = token else { break };
            if let Err(error) = constraint.commit(token) {
                return (longest, format!("; {error}"));
            }
        }
        (longest, String::new())
    }

    fn assert(&self, grammar: &Grammar, yes: &[&str], no: &[&str]) {
        let compiled = self.compile(grammar);
        yes.iter().for_each(|text| assert!(self.obeys(&compiled, text), "{grammar:?} lets {text:?} through"));
        no.iter().for_each(|text| assert!(!self.obeys(&compiled, text), "{grammar:?} keeps {text:?} out"));
    }
}

#[test]
fn whole_numbers_may_be_bounded_as_other_languages_bound_them() {
    let bench = Bench::new();
    // What JavaScript's schema libraries say of every whole number.
    let safe =
        json!({ "type": "integer", "minimum": -9_007_199_254_740_991_i64, "maximum": 9_007_199_254_740_991_i64 });
    bench.assert(
        &Grammar::JsonSchema(safe.to_string()),
        &["0", "-1", "42", "9007199254740991", "-9007199254740991"],
        &["9007199254740992", "-9007199254740992", "10000000000000000", "1.5"],
    );
    let number = json!({ "type": "number", "minimum": 0, "maximum": 9_007_199_254_740_991_i64 });
    bench.assert(
        &Grammar::JsonSchema(number.to_string()),
        &["0", "0.5", "9007199254740991", "9007199254740990.5"],
        &["-1", "9007199254740992", "10000000000000000"],
    );
}

#[test]
fn each_kind_of_grammar_lets_through_what_it_says() {
    let bench = Bench::new();
    let schema = |schema: Value| Grammar::JsonSchema(schema.to_string());
    bench.assert(
        &Grammar::Json,
        &["1", "[1, {\"a\": null}]", "\"x\"", "{\n  \"a\": 1\n}"],
        &["", "{", "[1,]", "a", "01"],
    );
    bench.assert(&Grammar::JsonObject, &["{}", "{\"a\": [1]}"], &["1", "[]", "\"x\""]);
    bench.assert(&Grammar::Regex(r"^\d{2}-[a-c]+".to_owned()), &["12-abc"], &["12-", "12-d", "1-a", "12-a."]);
    bench.assert(&Grammar::Regex("a*".to_owned()), &["", "aaa"], &["b"]);
    bench.assert(
        &Grammar::Choice(vec!["yes".into(), "yes, sir".into(), "no.*".into()]),
        &["yes", "yes, sir", "no.*"],
        &["", "yes,", "nox"],
    );
    bench.assert(&Grammar::Lark("start: \"a\" b\nb: \"b\" b | \"c\"".to_owned()), &["ac", "abbbc"], &["ab", "c"]);
    bench.assert(
        &Grammar::Gbnf("root ::= \"a\" root? \"b\" | [x-z]{2}".to_owned()),
        &["ab", "aabb", "aaxybb", "zz"],
        &["aab", "x", "aabbb"],
    );
    bench.assert(&Grammar::Gbnf("root ::= [a]* \"ab\"".to_owned()), &["ab", "aaab"], &["aa", "abb"]);
    let person = json!({
        "type": "object",
        "properties": { "name": { "type": "string", "minLength": 1 }, "age": { "type": "integer", "minimum": 0, "maximum": 150 } },
        "required": ["name"], "additionalProperties": false
    });
    bench.assert(
        &schema(person),
        &["{\"name\":\"A\"}", "{ \"name\": \"Zoë\", \"age\": 150 }", "{\n  \"name\": \"A\"\n}"],
        &["{}", "{\"name\":\"\"}", "{\"name\":\"A\",\"age\":151}", "{\"name\":\"A\",\"b\":1}", "{\"name\":\"A\"} "],
    );
    let list = json!({ "$defs": { "n": { "type": ["object", "null"], "properties": { "next": { "$ref": "#/$defs/n" } }, "additionalProperties": false } }, "$ref": "#/$defs/n" });
    bench.assert(&schema(list), &["null", "{\"next\":{\"next\":null}}"], &["{\"next\":1}", "{\"last\":null}"]);
    // A name has one way to be written: no other escapes what holds for it.
    let named = json!({ "properties": { "x": { "type": "string" }, "y\n\"": false }, "additionalProperties": { "type": "integer" }, "type": "object" });
    bench.assert(
        &schema(named.clone()),
        &["{\"x\":\"a\",\"z\":1}", "{\"\\n\":1}", "{\"é\":1}"],
        &["{\"\\u0078\":1}", "{\"\\u0078\":\"a\"}", "{\"y\\n\\\"\":1}", "{\"y\\u000a\\\"\":1}", "{\"y\\n\\u0022\":1}"],
    );
    bench.assert(&schema(json!({ "type": "array", "items": named })), &["[{\"x\":\"a\"}]"], &["[{\"\\u0078\":1}]"]);
    let dependent = json!({ "type": "object", "properties": { "card": { "type": "integer" }, "address": { "type": "string" } }, "dependentRequired": { "card": ["address"] } });
    bench.assert(
        &schema(dependent),
        &["{}", "{\"address\":\"x\"}", "{\"card\":1,\"address\":\"x\"}"],
        &["{\"card\":1}"],
    );
    bench.assert(
        &schema(json!({ "type": "number", "multipleOf": 0.25, "minimum": -1, "exclusiveMaximum": 1 })),
        &["0.25", "-0.75", "0", "-1"],
        &["0.3", "1", "-1.25"],
    );
    bench.assert(
        &schema(json!({ "type": "string", "format": "date", "pattern": "^20" })),
        &["\"2024-02-29\""],
        &["\"2023-02-29\"", "\"1999-01-01\""],
    );
    bench.assert(
        &schema(json!({ "propertyNames": { "pattern": "^x-" }, "type": "object" })),
        &["{}", "{\"x-a\":1}"],
        &["{\"a\":1}"],
    );
}

#[test]
fn forced_tokens_are_what_must_come_and_the_mask_is_what_may() {
    let bench = Bench::new();
    let compiled = bench.schema(&json!({ "type": "object", "properties": { "temperature_celsius": { "const": true } }, "required": ["temperature_celsius"], "additionalProperties": false }));
    let mut constraint = compiled.start(&[7]);
    let mut text = Vec::new();
    let mut asked = 0;
    while !constraint.is_done() {
        let forced = constraint.forced();
        forced.iter().for_each(|&token| text.extend(bench.tokenizer.token_bytes(token).unwrap()));
        if constraint.is_done() {
            break;
        }
        let mask = constraint.advance().unwrap();
        assert!(!mask.allows(7), "an end where none may be");
        // The longest token that leaves no space between.
        let ids = (0..bench.tokenizer.vocab_size() as u32).filter(|&id| mask.allows(id));
        let bytes = |id: u32| bench.tokenizer.token_bytes(id).unwrap();
        let token =
            ids.filter(|&id| !bytes(id).iter().any(u8::is_ascii_whitespace)).max_by_key(|&id| bytes(id).len()).unwrap();
        text.extend(bytes(token));
        constraint.commit(token).unwrap();
        asked += 1;
    }
    assert_eq!(String::from_utf8(text).unwrap(), "{\"temperature_celsius\":true}");
    assert!(asked <= 6, "{asked} tokens were asked for");
    assert!(constraint.advance().unwrap().allows(7) && constraint.mask().count() == 1);
    assert_eq!(constraint.commit(5), Err(Error::Disobeyed(5)));
    assert!(constraint.forced().is_empty());
}

#[test]
fn special_tokens_never_obey_and_end_tokens_only_where_an_end_may_be() {
    let bench = Bench::new();
    let specials: Vec<u32> =
        (0..bench.tokenizer.vocab_size() as u32).filter(|&id| bench.tokenizer.is_special(id)).collect();
    assert!(!specials.is_empty());
    let end = bench.tokenizer.end_tokens()[0];
    let mut constraint = bench.compile(&Grammar::Regex(r"[^]*".to_owned())).start(&[end]);
    let mask = constraint.advance().unwrap();
    let allowed: Vec<u32> = specials.iter().copied().filter(|&id| mask.allows(id)).collect();
    assert_eq!(allowed, [end]);
    for &special in &specials {
        assert_eq!(constraint.commit(special), Err(Error::Disobeyed(special)));
    }
}

#[test]
fn two_answers_from_one_grammar_do_not_meet_and_equal_texts_are_compiled_once() {
    let bench = Bench::new();
    let grammar = Grammar::Choice(vec!["ab".to_owned(), "cd".to_owned()]);
    let compiled = bench.compile(&grammar);
    let (mut first, mut second) = (compiled.start(&[]), compiled.start(&[]));
    assert!(first.commit_bytes(b"a"));
    assert!(second.commit_bytes(b"cd") && second.is_done() && !first.is_done());
    assert!(first.commit_bytes(b"b") && first.is_done());
    assert!(Arc::ptr_eq(&compiled.prototype, &bench.compile(&grammar).prototype));
}

#[test]
fn a_shared_mask_is_the_one_that_would_have_been_worked_out() {
    let bench = Bench::new();
    let grammar = Grammar::Choice(vec!["abc".to_owned(), "abd".to_owned(), "xyz".to_owned()]);
    let compiled = bench.compile(&grammar);
    let walk = |compiled: &Compiled, text: &[u8]| {
        let mut constraint = compiled.start(&[]);
        text.iter().for_each(|byte| assert!(constraint.commit_bytes(&[*byte])));
        constraint.advance().unwrap().clone()
    };
    for text in [&b""[..], b"a", b"ab", b"x", b"", b"a", b"ab"] {
        let alone = Compiler::new(&bench.tokenizer, bench.tokenizer.vocab_size()).compile(&grammar).unwrap();
        assert_eq!(walk(&compiled, text), walk(&alone, text), "{text:?}");
    }
    assert_eq!(compiled.prototype.shared.lock().unwrap().len(), 4);
}

#[test]
fn bytes_tell_where_a_text_stops_obeying() {
    let bench = Bench::new();
    let compiled = bench.schema(&json!({ "enum": ["green", "grey"] }));
    assert_eq!(compiled.start(&[]).accepted_bytes(b"\"green\""), 7);
    assert_eq!(compiled.start(&[]).accepted_bytes(b"\"gray\""), 3);
    assert_eq!(compiled.start(&[]).accepted_bytes(b"x"), 0);
}

/// What only the engine below finds out is refused with its keyword and place, too, and of a tool with its name.
#[test]
fn what_is_found_while_compiling_is_refused_by_keyword_and_place() {
    let bench = Bench::new();
    let either = json!({ "oneOf": [{ "type": "number" }, { "type": "integer" }] });
    let some = json!({ "type": "object", "properties": { "a": { "type": "null" }, "b": { "type": "null" } } });
    let counted = |keyword: &str, count: u32| {
        let mut schema = some.clone();
        schema[keyword] = json!(count);
        schema
    };
    let overlapping = json!({ "patternProperties": { "^a": { "type": "null" }, "b$": { "type": "string" } } });
    for (keyword, at, schema) in [
        ("maxProperties", "/properties/x", counted("maxProperties", 1)),
        ("minProperties", "/properties/x", counted("minProperties", 1)),
        ("oneOf", "/properties/x", either),
        ("patternProperties", "/properties/x", overlapping),
    ] {
        let whole = json!({ "type": "object", "properties": { "x": schema } });
        let refused = bench.compiler.compile(&Grammar::JsonSchema(whole.to_string())).unwrap_err();
        let Error::Unsupported { keyword: found, pointer, .. } = &refused else { panic!("{refused:?}") };
        assert_eq!((found.as_str(), pointer.as_str()), (keyword, at), "{refused}");
        let calls = |is_strict: bool| {
            let parameters = [json!({ "type": "object" }), whole.clone(), json!({ "type": "object" })];
            let tools = parameters.into_iter().enumerate().map(|(index, parameters)| Tool {
                name: format!("tool{index}"),
                description: String::new(),
                parameters,
                is_strict,
            });
            let tools = Tools::new(tools.collect(), &Choice::Required, true).unwrap();
            let signs = Signs { template: "<tool_call>", has_token: &|_| false };
            Grammar::Calls(Format::of(&signs).calls(&tools, &|_| None, None).unwrap())
        };
        let error = bench.compiler.compile(&calls(true)).unwrap_err();
        assert_eq!(error, refused.in_tool("tool1"));
        bench.compile(&calls(false));
    }
    // Where all that is listed is required, how many there are is counted.
    let mut schema = counted("maxProperties", 3);
    schema["required"] = json!(["a", "b"]);
    let compiled = bench.schema(&schema);
    assert!(bench.obeys(&compiled, r#"{"a": null, "b": null, "c": 1}"#));
    assert!(!bench.obeys(&compiled, r#"{"a": null, "b": null, "c": 1, "d": 2}"#));
}

/// A hostile schema or grammar ends with an error that names the limit; or it is small for what follows it, and every step of an answer
/// stays within what a step may spend. What they take is printed, and stands in docs/log.md.
#[test]
fn hostile_grammars_end_with_an_error_that_says_why() {
    let bench = Bench::new();
    let chain: serde_json::Map<String, Value> = (0..900)
        .map(|n| {
            (
                format!("d{n}"),
                json!({ "allOf": [{ "$ref": format!("#/$defs/d{}", n + 1) }, { "required": [format!("k{n}")] }] }),
            )
        })
        .chain([("d900".to_owned(), json!(true))])
        .collect();
    let hostile = [
        ("deep", "{\"items\":".repeat(10_000) + "true" + &"}".repeat(10_000), Some("more than 127 levels")),
        ("deep list", "[".repeat(10_000) + &"]".repeat(10_000), Some("more than 127 levels")),
        ("large", format!("{{\"description\":\"{}\"}}", "a".repeat(10 << 20)), Some("more than 1048576 bytes")),
        ("circle", json!({ "$ref": "#" }).to_string(), Some("leads back to itself")),
        ("circle of two", json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "allOf": [{ "$ref": "#/$defs/a" }] } }, "$ref": "#/$defs/a" }).to_string(), Some("leads back to itself")),
        ("pattern", json!({ "type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}b$" }).to_string(), None),
        ("pattern of repeats", json!({ "type": "string", "pattern": "^(a+)+(b*)*(a|a?)+$" }).to_string(), None),
        ("long pattern", json!({ "type": "string", "pattern": "(a|b)".repeat(2000) }).to_string(), Some("more than 8192")),
        ("repetitions", json!({ "type": "string", "pattern": "a{1000000}" }).to_string(), Some("more than 100000")),
        ("groups", json!({ "type": "string", "pattern": "(".repeat(1000) + &")".repeat(1000) }).to_string(), Some("more than 50 groups")),
        ("patterns", json!({ "type": "string", "allOf": (0..60).map(|n| json!({ "pattern": format!("(a|b)*a(a|b){{{n}}}") })).collect::<Vec<_>>() }).to_string(), Some("more than 3 patterns")),
        ("alternatives", json!({ "allOf": (0..30).map(|n| json!({ "anyOf": [{ "required": [format!("a{n}")] }, { "required": [format!("b{n}")] }] })).collect::<Vec<_>>() }).to_string(), Some("more than 200000 parts")),
        ("names", json!({ "patternProperties": (0..12).map(|n| (format!("(a|b)*{n}(a|b){{{n}}}$"), json!(true))).collect::<serde_json::Map<_, _>>() }).to_string(), None),
        ("chain", json!({ "$defs": chain, "$ref": "#/$defs/d0" }).to_string(), Some("more than 200000 parts")),
        ("counts", json!({ "type": "array", "minItems": 1_000_000, "items": { "type": "array", "minItems": 1_000_000 } }).to_string(), None),
        ("choices", json!({ "enum": (0..15_000).map(|n| format!("{n:0>60}")).collect::<Vec<_>>() }).to_string(), None),
        ("more choices", json!({ "enum": (0..30_000).collect::<Vec<_>>() }).to_string(), Some("more than 20000 subschemas")),
        ("oneOf", json!({ "oneOf": (0..300).map(|n| json!({ "type": "object", "required": [format!("k{n}")] })).collect::<Vec<_>>() }).to_string(), Some("two of its schemas")),
    ];
    for (name, text, error) in hostile {
        bench.ends(name, &Grammar::JsonSchema(text), error);
    }
    let rules = (0..3000).map(|n| format!("r{n}: r{} r{}\n", n + 1, n + 1)).collect::<Vec<_>>().concat();
    let lark = [
        ("lark circle", "start: start".to_owned(), Some("nothing obeys the Lark grammar")),
        ("lark deep", format!("start: {}\"a\"{}", "(".repeat(5000), ")".repeat(5000)), Some("too deeply nested")),
        ("lark schema", "start: %json {\"not\": true}".to_owned(), Some("%json is not supported")),
        ("lark large", format!("start: \"{}\"", "a".repeat(10 << 20)), Some("more than 262144 bytes")),
        ("lark pattern", "start: /((a|b)*a(a|b){30}){40}/".to_owned(), None),
        ("lark rules", rules + "start: r0\nr3000: \"a\"\n", None),
    ];
    for (name, text, error) in lark {
        bench.ends(name, &Grammar::Lark(text), error);
    }
    let deep = format!("root ::= {}\"a\"{}", "(".repeat(10_000), ")".repeat(10_000));
    bench.ends("gbnf deep", &Grammar::Gbnf(deep), Some("GBNF grammar"));
    bench.ends("regex deep", &Grammar::Regex("(".repeat(5000) + &")".repeat(5000)), Some("more than 8192"));
    bench.ends("choices", &Grammar::Choice(vec!["a".to_owned(); 3000]), Some("more than 2000 texts"));
}

#[test]
fn deep_schemas_have_a_deep_stack_and_others_the_callers() {
    assert_eq!(levels("1"), 0);
    assert_eq!(levels(r#"{"a": [1, {"b": "]]}{[\"{"}, []]}"#), 3);
    let nested = |count: usize| (0..count).fold(json!({ "type": "null" }), |schema, _| json!({ "items": schema }));
    let lowered = |schema: &Value| Grammar::JsonSchema(schema.to_string()).lower().unwrap().levels();
    assert!(lowered(&nested(20)) <= LEVELS_HERE_MAX && lowered(&nested(100)) > LEVELS_HERE_MAX);
    // Each definition within the next, as deep as a text may be: more than the caller's stack holds.
    let mut definitions = serde_json::Map::new();
    for n in 0..60 {
        let mut deep = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        (0..40).for_each(|_| deep = json!({ "items": deep }));
        definitions.insert(format!("d{n}"), deep);
    }
    definitions.insert("d60".to_owned(), json!({ "type": "null" }));
    let chain = json!({ "$defs": definitions, "$ref": "#/$defs/d0" });
    assert!(lowered(&chain) > 1000);
    // A thread of a test has 2 MB.
    let bench = Bench::new();
    assert!(bench.obeys(&bench.schema(&chain), "[[[]]]"));
}

/// Where the time to the first mask goes: `cargo test -p kauri-step --lib compiling_is_measured -- --ignored --nocapture`.
#[test]
#[ignore = "measures; asserts nothing"]
fn compiling_is_measured() {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/");
    let Ok(schemas) = std::fs::read_to_string(format!("{shared}schemas/schemas.jsonl")) else { return };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(format!("{shared}tokenizers/qwen2.gguf.gz")).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut bytes).unwrap();
    let tokenizer =
        Tokenizer::from_checkpoint(&Checkpoint::from_bytes(&kauri_formats::Bytes::from(bytes)).unwrap()).unwrap();
    let compiler = Compiler::new(&tokenizer, tokenizer.vocab_size());
    let mut times = Vec::new();
    for _ in 0..5 {
        for line in schemas.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let grammar = Grammar::JsonSchema(record["schema"].to_string());
            let start = Instant::now();
            let Ok(Lowered { grammar: lowered, .. }) = grammar.lower() else { continue };
            let lowered_at = Instant::now();
            let parser = compiler.factory.create_parser_from_init_default(GrammarInit::Serialized(lowered));
            let Ok(parser) = parser else { continue };
            let mut matcher = Matcher::new(Ok(parser));
            let parsed_at = Instant::now();
            let Ok(_) = matcher.compute_mask() else { continue };
            let end = Instant::now();
            times.push([lowered_at - start, parsed_at - lowered_at, end - parsed_at, end - start]);
        }
    }
    for (part, name) in ["reading the schema", "the parser", "the mask", "all"].into_iter().enumerate() {
        let mut part: Vec<_> = times.iter().map(|times| times[part]).collect();
        part.sort_unstable();
        let at = |share: f64| part[((part.len() - 1) as f64 * share) as usize];
        println!("{name:20} p50 {:8.1?} p90 {:8.1?} p99 {:8.1?}", at(0.5), at(0.9), at(0.99));
    }
}
