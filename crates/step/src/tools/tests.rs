//! Every format against texts as models write them, against its own writer, and against hostile text.

mod grammars;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::answer::{Form, Reader};

fn tools() -> Vec<Tool> {
    let tool = |name: &str, parameters: Json| Tool {
        name: name.to_owned(),
        description: String::new(),
        parameters,
        is_strict: true,
    };
    let run = json!({
        "type": "object",
        "properties": {
            "code": { "type": "string" },
            "timeout": { "type": "number" },
            "opts": { "type": "object", "properties": { "tags": { "type": "array" }, "level": { "type": "integer" } } },
            "fast": { "type": "boolean" },
        },
        "required": ["code"],
    });
    let weather = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "unit": { "enum": ["si", "imperial"] } },
        "required": ["name"],
    });
    vec![
        tool("get_weather", weather),
        tool("run_python", run),
        tool("get", json!({ "type": "object", "properties": {} })),
    ]
}

fn listed(choice: &Choice, parallel: bool) -> Tools {
    Tools::new(tools(), choice, parallel).unwrap()
}

fn form(format: &'static Format) -> Form {
    Form { format, reasoning: None, tools: Some(listed(&Choice::Auto, true)), seed: 1 }
}

fn named(name: &str) -> &'static Format {
    FORMATS.iter().find(|format| format.name == name).copied().unwrap_or(&generic::FORMAT)
}

/// What was found, with neighbours joined and arguments as JSON.
#[derive(Debug, Default, PartialEq)]
struct Found {
    reasoning: String,
    text: String,
    calls: Vec<(String, String, Option<bool>)>,
    ids: Vec<String>,
}

impl Found {
    fn add(&mut self, deltas: Vec<Delta>) {
        for delta in deltas {
            match delta {
                Delta::Reasoning(text) => self.reasoning += &text,
                Delta::Text(text) => self.text += &text,
                Delta::Call { index, id, name } => {
                    assert_eq!(index as usize, self.calls.len());
                    assert!(tools().iter().any(|tool| tool.name == name), "{name}");
                    self.calls.push((name, String::new(), None));
                    self.ids.push(id);
                }
                Delta::Arguments { index, text } => {
                    let call = &mut self.calls[index as usize];
                    assert_eq!(call.2, None, "arguments behind the end");
                    call.1 += &text;
                }
                Delta::End { index, complete } => self.calls[index as usize].2 = Some(complete),
            }
        }
    }

    fn check(&self) {
        for (name, arguments, complete) in &self.calls {
            let value: Result<Json, _> = serde_json::from_str(arguments);
            assert!(value.is_ok_and(|value| value.is_object()), "{name}({arguments})");
            assert!(complete.is_some(), "{name} has no end");
        }
    }
}

fn read<'a>(mut reader: Reader, pieces: impl IntoIterator<Item = &'a str>) -> Found {
    let mut found = Found::default();
    for piece in pieces {
        reader.push(piece);
        found.add(reader.take());
    }
    reader.finish();
    found.add(reader.take());
    found.check();
    found
}

/// Reads a text whole, from every split into two, and a character at a time: all the same.
fn read_all(form: &Form, text: &str) -> Found {
    let whole = read(form.reader(), [text]);
    for (at, _) in text.char_indices() {
        assert_eq!(read(form.reader(), [&text[..at], &text[at..]]), whole, "cut at {at} of {text:?}");
    }
    let letters: Vec<String> = text.chars().map(String::from).collect();
    assert_eq!(read(form.reader(), letters.iter().map(String::as_str)), whole, "{text:?} by characters");
    whole
}

fn sample_calls() -> [(&'static str, Json); 2] {
    [
        ("get_weather", json!({ "name": "Hobart", "unit": "si" })),
        (
            "run_python",
            json!({
                "code": "def f(x):\n    return x < 3 and \"a\" != 'b'  # & \\ more [1] {2} </x>\té漢🎈",
                "timeout": 2.5,
                "opts": { "tags": ["a", "b"], "level": 3, "deep": { "list": [[], {}, null, true, -1e-7] } },
                "fast": false,
            }),
        ),
    ]
}

pub(crate) fn every_format() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().copied().chain([&generic::FORMAT])
}

#[test]
fn what_a_format_writes_it_reads_back() {
    let calls = sample_calls();
    let calls: Vec<(&str, &Json)> = calls.iter().map(|(name, arguments)| (*name, arguments)).collect();
    for format in every_format() {
        for count in 1..=2 {
            let text = format.write(&calls[..count]);
            let found = read_all(&form(format), &text);
            assert_eq!(found.text, "", "{}: {text}", format.name);
            assert_eq!(found.calls.len(), count, "{}: {text}\n{found:?}", format.name);
            for ((name, arguments, complete), (wanted, json)) in found.calls.iter().zip(&calls) {
                assert_eq!((name.as_str(), *complete), (*wanted, Some(true)), "{}: {text}", format.name);
                assert_eq!(&serde_json::from_str::<Json>(arguments).unwrap(), *json, "{}: {text}", format.name);
            }
        }
    }
}

/// What `(format, text)` is read as: text, and calls as `name(arguments)`.
fn check(format: &str, text: &str, shown: &str, calls: &[&str]) {
    let found = read_all(&form(named(format)), text);
    let written: Vec<String> = found.calls.iter().map(|(name, arguments, _)| format!("{name}({arguments})")).collect();
    assert_eq!((found.text.as_str(), written.as_slice()), (shown, calls.map_owned().as_slice()), "{format}: {text}");
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for [&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|&text| text.to_owned()).collect()
    }
}

const HOBART: &str = r#"get_weather({"name":"Hobart"})"#;

/// Texts as models write them: format, text, what of it is shown, calls.
const CASES: &[(&str, &str, &str, &[&str])] = &[
    (
        "hermes",
        "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"name\": \"Hobart\"}}\n</tool_call>\n",
        "Let me see.",
        &[HOBART],
    ),
    (
        "hermes",
        "<tool_call>{\"arguments\": {\"name\": \"Hobart\"}, \"name\": \"get_weather\"}</tool_call> and <tool_call>{\"name\": \"get\", \"arguments\": null}",
        " and",
        &[HOBART, "get({})"],
    ),
    (
        "hermes",
        "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"arguments\": \"{\\\"name\\\": \\\"Hobart\\\"}\"}}</tool_call>",
        "",
        &[HOBART],
    ),
    ("hermes", "<tool_call>{\"name\": \"get\"}</tool_call>", "", &["get({})"]),
    (
        "qwen-coder",
        "<tool_call>\n<function=run_python>\n<parameter=code>\n\nif a < b:\n    print('</p')\n\n</parameter>\n<parameter=timeout>\n3\n</parameter>\n<parameter=fast>\nTrue\n</parameter>\n</function>\n</tool_call>",
        "",
        &["run_python({\"code\":\"\\nif a < b:\\n    print('</p')\\n\",\"timeout\":3,\"fast\":true})"],
    ),
    ("qwen-coder", "<tool_call>\n<function=get>\n</function>\n</tool_call>", "", &["get({})"]),
    (
        "llama",
        "{\"name\": \"get_weather\", \"parameters\": {\"name\": \"Hobart\"}}; {\"name\": \"get\", \"parameters\": {}}",
        "",
        &[HOBART, "get({})"],
    ),
    ("llama", "<|python_tag|>get_weather.call(name=\"Hobart\")", "", &[HOBART]),
    ("llama", "Sure: {\"name\": \"get\", \"parameters\": {}}", "Sure: {\"name\": \"get\", \"parameters\": {}}", &[]),
    (
        "mistral",
        "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"name\": \"Hobart\"}, \"id\": \"a1b2c3d4e\"}]",
        "",
        &[HOBART],
    ),
    (
        "mistral-args",
        "[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{\"name\": \"Hobart\"}[TOOL_CALLS]get[ARGS]{}",
        "",
        &[HOBART, "get({})"],
    ),
    (
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"name\": \"Hobart\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        &[HOBART, "get({})"],
    ),
    (
        "dsml",
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"run_python\">\n<｜DSML｜parameter name=\"code\" string=\"true\">1</｜DSML｜parameter>\n<｜DSML｜parameter name=\"x\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        "",
        &["run_python({\"code\":\"1\",\"x\":1})"],
    ),
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"name\": \"Hobart\"}<|call|>",
        "I look.",
        &[HOBART],
    ),
    ("harmony", " to=functions.get<|channel|>commentary json<|message|>{}<|call|>", "", &["get({})"]),
    ("harmony", "<|channel|>final<|message|>It is <b>.<|return|>", "It is <b>.", &[]),
    (
        "gemma",
        "<|tool_call>call:run_python{code:<|\"|>a < \"b\"<|\"|>,opts:{<|\"|>tags<|\"|>:[<|\"|>x<|\"|>],level:3},fast:true}<tool_call|>",
        "",
        &["run_python({\"code\":\"a < \\\"b\\\"\",\"opts\":{\"tags\":[\"x\"],\"level\":3},\"fast\":true})"],
    ),
    (
        "function-gemma",
        "<start_function_call>call:get_weather{name:<escape>Hobart<escape>}<end_function_call>",
        "",
        &[HOBART],
    ),
    ("granite", "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"name\": \"Hobart\"}}]", "", &[HOBART]),
    (
        "glm",
        "<think></think>\n<tool_call>get_weather\n<arg_key>name</arg_key>\n<arg_value>Hobart</arg_value>\n</tool_call>\n<tool_call>get</tool_call>",
        "<think></think>",
        &[HOBART, "get({})"],
    ),
    (
        "lfm2",
        "<|tool_call_start|>[get_weather(name='Hob' \"x\"), get()]<|tool_call_end|>",
        "",
        &["get_weather({\"name\":\"Hob\"})"],
    ),
    (
        "lfm2",
        "<|tool_call_start|>[run_python(code='''it's\n''', opts={'tags': ('a', \"b\"), \"level\": None}, fast=True), get()]<|tool_call_end|>Done.",
        "Done.",
        &[
            "run_python({\"code\":\"it's\\n\",\"opts\":{\"tags\":[\"a\",\"b\"],\"level\":null},\"fast\":true})",
            "get({})",
        ],
    ),
    (
        "kimi",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"name\": \"Hobart\"}<|tool_call_end|><|tool_calls_section_end|>",
        "",
        &[HOBART],
    ),
    (
        "command-r",
        "Action:```json\n[\n    {\n        \"tool_name\": \"get_weather\",\n        \"parameters\": {\"name\": \"Hobart\"}\n    }\n]```",
        "",
        &[HOBART],
    ),
    (
        "command-r7b",
        "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"name\": \"Hobart\"}}\n]<|END_ACTION|>",
        "",
        &[HOBART],
    ),
    (
        "minimax",
        "<tool_calls>\n{\"name\": \"get\", \"arguments\": {}}\n{\"name\": \"get\", \"arguments\": {}}\n</tool_calls>",
        "",
        &["get({})"; 2],
    ),
    ("functionary", "<function=get_weather>{\"name\": \"Hobart\"}</function>", "", &[HOBART]),
];

#[test]
fn calls_are_read_as_models_write_them() {
    for (format, text, shown, calls) in CASES {
        check(format, text, shown, calls);
    }
}

#[test]
fn what_breaks_off_is_completed() {
    let cases = [
        ("{\"name\": \"get_weather\", \"arguments\": {\"name\": \"Hob", r#"{"name":"Hob"}"#),
        ("{\"name\": \"get_weather\", \"arguments\": {\"name\": \"a\\", r#"{"name":"a"}"#),
        ("{\"name\": \"get_weather\", \"arguments\": {\"name\": \"a\\ud83c", r#"{"name":"a"}"#),
        ("{\"name\": \"get_weather\", \"arguments\": {\"name\"", "{}"),
        ("{\"name\": \"get_weather\", \"arguments\": {\"a\": 1, \"b\": ", r#"{"a":1}"#),
        ("{\"name\": \"get_weather\", \"arguments\": {\"a\": [1, {\"b\": tr", r#"{"a":[1,{}]}"#),
        ("{\"name\": \"get_weather\", \"arguments\": {\"a\": 1 2}}</tool_call>", r#"{"a":1}"#),
        ("{\"name\": \"get_weather\", \"arguments\": {\"a\": nope}}</tool_call>", "{}"),
        ("{\"name\": \"get_weather\", \"arguments\": [1]}</tool_call>", "text"),
    ];
    for (text, arguments) in cases {
        let found = read_all(&form(named("hermes")), &format!("<tool_call>{text}"));
        if arguments == "text" {
            assert!(found.calls.is_empty() && found.text.starts_with("<tool_call>"), "{text}: {found:?}");
        } else {
            let call = ("get_weather".to_owned(), arguments.to_owned(), Some(false));
            assert_eq!((found.text.as_str(), found.calls), ("", vec![call]), "{text}");
        }
    }
    // A line end in a string, a comma too many, a brace too many: what is meant is plain.
    let lenient =
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"name\": \"a\nb\", \"l\": [1,],}}}</tool_call>after";
    check("hermes", lenient, "after", &["get_weather({\"name\":\"a\\nb\",\"l\":[1]})"]);
}

#[test]
fn text_never_becomes_a_call_of_an_unlisted_tool() {
    let unlisted = [
        ("hermes", "<tool_call>\n{\"name\": \"delete\", \"arguments\": {}}\n</tool_call>"),
        ("hermes", "<tool_call>\n{\"name\": \"get_weather2\", \"arguments\": {}}\n</tool_call>"),
        ("hermes", "<tool_call>\n{\"name\": [\"get\"], \"arguments\": {}}\n</tool_call>"),
        ("hermes", "the tag <tool_call> opens a call"),
        ("hermes", "<tool_call>"),
        ("glm", "<tool_call>get_weather2\n<arg_key>name</arg_key>\n<arg_value>x</arg_value>\n</tool_call>"),
        ("mistral-args", "[TOOL_CALLS]get_weather2[ARGS]{}"),
        ("mistral-args", "[TOOL_CALLS]ge[ARGS]{}"),
        ("kimi", "<|tool_calls_section_begin|><|tool_call_begin|>functions.gets:0<|tool_call_argument_begin|>{}"),
        ("lfm2", "<|tool_call_start|>[get_it(a=1)]<|tool_call_end|>"),
        ("gemma", "<|tool_call>call:gett{}<tool_call|>"),
        ("qwen-coder", "<tool_call>\n<function=gett>\n</function>\n</tool_call>"),
        ("deepseek-v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>rm<｜tool▁sep｜>{}<｜tool▁call▁end｜>"),
    ];
    for (format, text) in unlisted {
        check(format, text, text, &[]);
    }
    let found = read_all(
        &form(named("harmony")),
        "<|channel|>commentary to=functions.rm <|constrain|>json<|message|>{}<|call|>",
    );
    assert_eq!((found.text.as_str(), found.calls.len()), ("{}", 0));
}

#[test]
fn marks_within_strings_are_strings_and_a_tag_may_begin_anew() {
    let code =
        "<tool_call>{\"name\": \"run_python\", \"arguments\": {\"code\": \"<tool_call>{}</tool_call>\"}}</tool_call>";
    check("hermes", code, "", &["run_python({\"code\":\"<tool_call>{}</tool_call>\"})"]);
    let nested = "<tool_call><tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call></tool_call>";
    check("hermes", nested, "<tool_call></tool_call>", &["get({})"]);
    // A call that never closes its brace, and the next one behind it.
    let two = "<tool_call>{\"name\": \"get\", \"arguments\": {}\n<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>";
    check("hermes", two, "", &["get({})"; 2]);
}

#[test]
fn one_call_is_enough_where_only_one_is_wanted() {
    let calls = sample_calls();
    let calls: Vec<(&str, &Json)> = calls.iter().map(|(name, arguments)| (*name, arguments)).collect();
    for format in every_format() {
        let tools = Some(listed(&Choice::Auto, false));
        let form = Form { format, reasoning: None, tools, seed: 1 };
        let mut reader = form.reader();
        reader.push(&format.write(&calls));
        assert!(reader.is_over(), "{}", format.name);
        let mut found = Found::default();
        found.add(reader.take());
        assert_eq!(found.calls.len(), 1, "{}", format.name);
    }
}

#[test]
fn ids_are_the_models_own_or_made_of_what_it_wrote() {
    let text = generic::FORMAT.write(&[("get", &json!({})), ("get", &json!({}))]);
    let ids = |seed| read(Form { seed, ..form(&generic::FORMAT) }.reader(), [text.as_str()]).ids;
    let first = ids(1);
    assert!(first.iter().all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    assert_ne!(first[0], first[1]);
    assert_eq!(first, ids(1));
    assert_ne!(first, ids(2));
    let kimi = named("kimi").write(&[("get", &json!({})), ("get_weather", &json!({}))]);
    assert_eq!(read(form(named("kimi")).reader(), [kimi.as_str()]).ids, ["functions.get:0", "functions.get_weather:1"]);
}

#[test]
fn a_megabyte_of_arguments_takes_linear_time() {
    for format in every_format() {
        let long = "x<\"\\ ".repeat(200_000);
        let text = format.write(&[("run_python", &json!({ "code": long }))]);
        let mut reader = form(format).reader();
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let mut at = rest.len().min(5);
            while !rest.is_char_boundary(at) {
                at += 1;
            }
            let (piece, more) = rest.split_at(at);
            pieces.push(piece);
            rest = more;
        }
        let mut arguments = String::new();
        for piece in pieces {
            reader.push(piece);
            for delta in reader.take() {
                if let Delta::Arguments { text, .. } = delta {
                    arguments += &text;
                }
            }
        }
        assert_eq!(serde_json::from_str::<Json>(&arguments).unwrap()["code"], long, "{}", format.name);
    }
    // Openings without end, and what is a call until its last byte.
    for text in [
        "<tool_call>".repeat(100_000),
        format!("<tool_call>{{\"arguments\": {}", "{\"a\": ".repeat(200_000)),
        format!("<tool_call>{{\"arguments\": {{\"a\": \"{}", "<tool_call>{\\\"arguments\\\": ".repeat(100_000)),
        format!("<tool_call>{{\"name\": \"get\", \"arguments\": {}", "[".repeat(1 << 20)),
        " ".repeat(1 << 20),
        format!("<tool_call>{}", "\n".repeat(1 << 20)),
    ] {
        let found = read(form(&generic::FORMAT).reader(), [text.as_str()]);
        assert!(found.calls.len() <= 1);
    }
}

#[test]
fn lists_are_checked() {
    let list = |text: &str| Tool::list(&serde_json::from_str(text).unwrap());
    assert_eq!(list("{}").unwrap_err().to_string(), "tools: must be a list of tools");
    assert_eq!(list("[{}]").unwrap_err().to_string(), "tools[0]: must have a function with a name");
    let error = list(r#"[{"function": {"name": "a", "parameters": 1}}]"#).unwrap_err();
    assert_eq!(error.to_string(), "tools[0].function.parameters: must be a JSON schema, an object");
    let named = |names: &[&str], choice: &Choice| {
        let list = names.iter().map(|name| Tool { name: (*name).to_owned(), ..tools()[2].clone() }).collect();
        Tools::new(list, choice, true).map(|tools| tools.list().len()).map_err(|error| error.to_string())
    };
    assert_eq!(named(&["a", "b"], &Choice::Auto), Ok(2));
    assert_eq!(named(&["a", "b"], &Choice::Named("b".to_owned())), Ok(1));
    let missing = named(&["a"], &Choice::Named("b".to_owned()));
    assert_eq!(missing, Err("tool_choice: there is no tool \"b\" in the list".to_owned()));
    for names in [&["a", "a"][..], &["a b"], &[""], &["é"], &[], &["x"; 513], &["y\"}"]] {
        assert!(named(names, &Choice::Auto).is_err(), "{names:?}");
    }
}

#[test]
fn registry_is_one_format_a_name() {
    let mut names: Vec<&str> = every_format().map(|format| format.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), every_format().count());
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
        any::<i16>().prop_map(|eighths| Json::from(f64::from(eighths) / 8.0)),
        "[a-z\"'\\\\\n<>{}\\[\\],:é🎈 ]{0,12}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
            proptest::collection::btree_map("[a-z]{1,5}", inner, 0..3)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn any_arguments_are_read_back(
        members in proptest::collection::btree_map("[a-z]{1,6}", any_json(), 0..4),
        cut in 0_usize..1000,
    ) {
        let arguments = Json::Object(members.clone().into_iter().collect());
        for format in every_format() {
            let is_raw = ["qwen-coder", "seed", "glm"].contains(&format.name);
            // Text between marks is what it looks like: a string that reads as a number is one, but for a string's schema.
            if is_raw && members.values().any(Json::is_string) {
                continue;
            }
            let text = format.write(&[("run_python", &arguments)]);
            let mut at = cut.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            let found = read(form(format).reader(), [&text[..at], &text[at..]]);
            prop_assert_eq!(found.calls.len(), 1, "{}: {}", format.name, text);
            let read: Json = serde_json::from_str(&found.calls[0].1).unwrap();
            prop_assert_eq!(&read, &arguments, "{}: {}", format.name, text);
        }
    }

    #[test]
    fn any_text_is_read_without_panic_and_alike(
        parts in proptest::collection::vec((0_usize..64, "[a-z\"'{}\\[\\]():,\\\\0-9.<>é\n ]{0,6}"), 0..14),
        cut in 0_usize..200,
    ) {
        for format in every_format() {
            let marks = format.marks();
            let words = ["get", "get_weather", "\"name\": ", "\"arguments\": {", "{\"name\": \"get\", "];
            let mut text = String::new();
            for (which, between) in &parts {
                let all = marks.len() + words.len();
                let which = which % all;
                text += if which < marks.len() { marks[which] } else { words[which - marks.len()] };
                text += between;
            }
            let mut at = cut.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            let whole = read(form(format).reader(), [text.as_str()]);
            prop_assert_eq!(read(form(format).reader(), [&text[..at], &text[at..]]), whole);
        }
    }
}
