//! Calls from end to end: what a template writes its format reads back, what kauri-nano wrote is found again in the cache, and (when
//! asked for) how well it calls.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use kauri_engine::template::{Json, Object, Template};
use kauri_engine::tools::{Choice, Delta, Format, Signs, Tool};
use kauri_engine::{
    Answer, Call, Chat, Engine, Event, Finish, Form, Message, Options, Reply, Request, Sampling, Service, Serving,
    Tools,
};

const TOOLS: &str = r#"[
    {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters":
        {"type": "object", "properties": {"name": {"type": "string"}, "unit": {"type": "string"}}, "required": ["name"]}}},
    {"type": "function", "function": {"name": "run_python", "description": "Runs code.", "parameters":
        {"type": "object", "properties": {"code": {"type": "string"}, "timeout": {"type": "number"},
            "opts": {"type": "object"}}, "required": ["code"]}}}
]"#;

const ARGUMENTS: [(&str, &str); 2] = [
    ("get_weather", r#"{"name": "Hobart", "unit": "si"}"#),
    (
        "run_python",
        r#"{"code": "def f(x):\n    return x < 3 and \"a\" != 'b'  # & é", "timeout": 2.5, "opts": {"tags": ["a", "b"], "level": 3}}"#,
    ),
];

fn tools() -> Tools {
    let list = Tool::list(&serde_json::from_str(TOOLS).unwrap()).unwrap();
    Tools::new(list, &Choice::Auto, true).unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Which format each template of the collection must be told as; where it stands in `leaves_out`, its own text has no calls.
const FORMATS: &[(&str, &str)] = &[
    ("Apriel-1.6-15b-Thinker-fixed", "apriel"),
    ("Bielik-11B-v3.0-Instruct", "hermes"),
    ("ByteDance-Seed-OSS", "seed"),
    ("CohereForAI-c4ai-command-r-plus-tool_use", "command-r"),
    ("CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command-r7b"),
    ("GLM-4.6", "glm"),
    ("GigaChat3-10B-A1.8B", "gigachat"),
    ("HuggingFaceTB-SmolLM3-3B", "generic"),
    ("Kimi-K2-Instruct", "kimi"),
    ("LFM2-8B-A1B", "lfm2"),
    ("LFM2.5-Instruct", "lfm2"),
    ("MiMo-VL", "hermes"),
    ("MiniMax-M1", "minimax"),
    ("MiroThinker", "mirothinker"),
    ("Mistral-Small-3.2-24B-Instruct-2506", "mistral-args"),
    ("NVIDIA-Nemotron-Nano-v2", "nemotron"),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"),
    ("Qwen-QwQ-32B", "hermes"),
    ("Qwen-Qwen2.5-7B-Instruct", "hermes"),
    ("Qwen-Qwen3-0.6B", "hermes"),
    ("Qwen3-Coder", "qwen-coder"),
    ("Spark2.5", "glm"),
    ("chatml", "generic"),
    ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek"),
    ("deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1"),
    ("deepseek-ai-DeepSeek-V4", "dsml"),
    ("gemma-it", "generic"),
    ("gemma4_31b_chat_template", "gemma"),
    ("gemma4_e2b_chat_template", "gemma"),
    ("google-gemma-2-2b-it", "generic"),
    ("google-gemma-4-31B-it-interleaved", "gemma"),
    ("ibm-granite-granite-3.3-2B-Instruct", "granite"),
    ("ibm-granite-granite-4.0", "hermes"),
    ("laguna_v8_chat_template", "glm"),
    ("llama-2-chat", "generic"),
    ("llama-3-instruct", "generic"),
    ("llama-cpp-deepseek-r1", "deepseek"),
    ("llama-cpp-rwkv-world", "generic"),
    ("meetkai-functionary-medium-v3.1", "functionary"),
    ("meta-llama-Llama-3.1-8B-Instruct", "llama"),
    ("meta-llama-Llama-3.2-3B-Instruct", "llama"),
    ("microsoft-Phi-3.5-mini-instruct", "generic"),
    ("mistral-instruct", "generic"),
    ("mistralai-Mistral-Nemo-Instruct-2407", "mistral"),
    ("moonshotai-Kimi-K2", "kimi"),
    ("nemotron3nano_chat_template", "qwen-coder"),
    ("openai-gpt-oss-120b", "harmony"),
    ("phi-3", "generic"),
    ("poolside-Laguna-XS-2.1", "glm"),
    ("poolside-Laguna-XS.2", "glm"),
    ("qwen2.5-instruct", "hermes"),
    ("unsloth-mistral-Devstral-Small-2507", "mistral-args"),
];

#[test]
fn what_the_repositorys_templates_write_is_read_back() {
    // Qwen 3, Qwen 3 Coder, DeepSeek R1 (distilled), Llama 3.1, Mistral Nemo and GPT-OSS write calls.
    round_trips(&repository().join("tests/golden/templates"), 6);
}

#[test]
fn what_the_collections_templates_write_is_read_back() {
    let folder = repository().join("../shared/fixtures/templates");
    if !folder.exists() {
        eprintln!("skipped: {} is not there", folder.display());
        return;
    }
    round_trips(&folder, 36);
}

/// Renders calls with every template of a folder and reads them back; at least so many templates write calls.
fn round_trips(folder: &Path, least: usize) {
    let mut passed = 0;
    let mut wrong = Vec::new();
    let mut names: Vec<String> = std::fs::read_dir(folder.join("jinja"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    for name in names {
        let source = std::fs::read_to_string(folder.join(format!("jinja/{name}.jinja"))).unwrap();
        let signs = Signs { template: &source, has_token: &|_| false };
        let format = Format::of(&signs);
        assert!(Format::told_of(&signs).count() <= 1, "{name} is told as several formats");
        let wanted = FORMATS.iter().find(|(template, _)| *template == name).map(|(_, format)| *format);
        if Some(format.name) != wanted {
            wrong.push(format!("{name} is told as {}", format.name));
        }
        let template = Template::compile(&source).unwrap();
        let Some((count, text)) = (1..=2).rev().find_map(|count| Some((count, written(&template, count)?))) else {
            println!("{name:50} {:15} writes no calls", format.name);
            continue;
        };
        println!("{name:50} {:15} {count} calls: {:?}", format.name, text.chars().take(40).collect::<String>());
        let form = Form { format, reasoning: None, tools: Some(tools()), seed: 0 };
        let whole = read(&form, &[&text]);
        assert_eq!(whole.len(), count, "{name}: {text}");
        for ((name_read, arguments), (wanted, json)) in whole.iter().zip(ARGUMENTS) {
            assert_eq!(name_read, wanted, "{name}: {text}");
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(value(arguments), value(json), "{name}: {text}");
        }
        for (at, _) in text.char_indices() {
            assert_eq!(read(&form, &[&text[..at], &text[at..]]), whole, "{name}, cut at {at}");
        }
        let letters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(read(&form, &letters.iter().map(String::as_str).collect::<Vec<_>>()), whole, "{name}");
        passed += 1;
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(passed >= least, "{passed} templates instead of {least}");
}

fn read(form: &Form, pieces: &[&str]) -> Vec<(String, String)> {
    let mut reader = form.reader();
    let mut calls: Vec<(String, String)> = Vec::new();
    let mut deltas = Vec::new();
    for piece in pieces {
        reader.push(piece);
        deltas.append(&mut reader.take());
    }
    reader.finish();
    deltas.append(&mut reader.take());
    for delta in deltas {
        match delta {
            Delta::Call { name, .. } => calls.push((name, String::new())),
            Delta::Arguments { index, text } => calls[index as usize].1 += &text,
            Delta::End { complete, .. } => assert!(complete),
            Delta::Reasoning(_) | Delta::Text(_) => {}
        }
    }
    calls
}

/// What a template writes for a message with so many calls, behind what it writes to ask for it; nothing where it leaves calls out.
fn written(template: &Template, count: usize) -> Option<String> {
    let list = Json::parse(TOOLS).unwrap();
    let text = |text: &str| Json::from(text);
    let object = |members: Vec<(&str, Json)>| {
        Json::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Object>())
    };
    let render = |messages: Vec<Json>, ask: bool| {
        let mut variables = Object::new();
        variables.insert("messages".to_owned(), Json::Array(messages));
        variables.insert("tools".to_owned(), list.clone());
        variables.insert("add_generation_prompt".to_owned(), ask.into());
        for (name, value) in [("bos_token", "<s>"), ("eos_token", "</s>"), ("now", "2026-03-14T09:26:53")] {
            variables.insert(name.to_owned(), text(value));
        }
        template.render(&variables).ok()
    };
    let user = || object(vec![("role", text("user")), ("content", text("?"))]);
    let asked = render(vec![user()], true)?;
    // Templates want the message in different ways.
    for (content, is_string) in [(text(""), false), (Json::Null, false), (text(""), true), (Json::Null, true)] {
        let calls = ARGUMENTS[..count].iter().enumerate().map(|(index, (name, arguments))| {
            let arguments = if is_string { text(arguments) } else { Json::parse(arguments).unwrap() };
            let function = object(vec![("name", text(name)), ("arguments", arguments)]);
            object(vec![
                ("id", text(["a1b2c3d4e", "f1g2h3i4j"][index])),
                ("type", text("function")),
                ("function", function),
            ])
        });
        let message = object(vec![
            ("role", text("assistant")),
            ("content", content),
            ("tool_calls", Json::Array(calls.collect())),
        ]);
        let Some(whole) = render(vec![user(), message], false) else { continue };
        let same = asked.char_indices().zip(whole.char_indices()).take_while(|(a, b)| a == b).count();
        let at = whole.char_indices().nth(same).map_or(whole.len(), |(at, _)| at);
        // Where a mark begins as the prompt's end does, it belongs to the answer.
        let at = whole[..at].rfind(['<', '[', '\n']).map_or(at, |before| if at - before < 24 { before } else { at });
        let rest = &whole[at..];
        let all = ["Hobart", "def f"][..count].iter().all(|value| rest.contains(value));
        if all {
            return Some(rest.to_owned());
        }
    }
    None
}

fn options() -> Options {
    Options { threads: Some(1), ..Options::default() }
}

const WEATHER: &str = r#"[{"type": "function", "function": {"name": "get_weather", "description": "Get the current weather for a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city."}}, "required": ["city"]}}}]"#;

fn weather_chat() -> Chat {
    let mut chat = Chat::new();
    chat.set_reasoning(false);
    let list = Tool::list(&serde_json::from_str(WEATHER).unwrap()).unwrap();
    chat.set_tools(Tools::new(list, &Choice::Auto, true).unwrap());
    chat.push("user", "What is the weather in London and Tokyo?");
    chat
}

/// What was said in an answer, as a client keeps it.
#[derive(Default)]
struct Heard {
    message: Message,
    complete: bool,
}

impl Heard {
    fn hear(&mut self, event: &Event<'_>) {
        "assistant".clone_into(&mut self.message.role);
        match *event {
            Event::Text(text) => self.message.content += text,
            Event::Call { id, name, .. } => {
                self.message.calls.push(Call { id: id.to_owned(), name: name.to_owned(), arguments: String::new() });
            }
            Event::Arguments { index, text } => self.message.calls[index as usize].arguments += text,
            Event::CallEnd { complete, .. } => self.complete = complete,
            Event::Prefill { .. } | Event::Reasoning(_) => {}
        }
    }
}

fn with_results(chat: &mut Chat, message: &Message) {
    chat.add(message.clone());
    for call in &message.calls {
        chat.add(Message {
            role: "tool".to_owned(),
            content: "{\"temperature\": 21}".to_owned(),
            call_id: Some(call.id.clone()),
            name: Some(call.name.clone()),
            ..Message::default()
        });
    }
}

#[test]
fn a_call_that_comes_back_is_in_the_cache_to_its_end() {
    let mut engine = Engine::load(None, &options()).expect("kauri-nano loads");
    let end_tokens = engine.defaults().end_tokens.clone();
    let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
    let mut chat = weather_chat();
    let mut session = engine.session();
    let mut known = Vec::new();
    for turn in 0..2 {
        let asked = session.engine().ask(&chat).unwrap();
        assert!(asked.tokens.starts_with(&known), "turn {turn}: the prompt does not begin with what was written");
        let request = Request {
            prompt: asked.tokens.clone(),
            sampling: greedy,
            max_tokens: Some(200),
            end_tokens: end_tokens.clone(),
            reading: asked.reading,
            ..Request::default()
        };
        let mut heard = Heard::default();
        let done = session
            .generate(&request, |event| {
                heard.hear(&event);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(done.cached_tokens, known.len(), "turn {turn}");
        if turn == 0 {
            assert_eq!(done.finish, Finish::EndToken);
            let names: Vec<&str> = heard.message.calls.iter().map(|call| call.name.as_str()).collect();
            assert_eq!(names, ["get_weather", "get_weather"], "{:?}", heard.message);
            assert!(heard.complete && heard.message.calls[0].arguments.contains("London"), "{:?}", heard.message);
        }
        known = session.tokens().to_vec();
        // As a client that reads JSON and writes it in its own way.
        for call in &mut heard.message.calls {
            let value: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
            call.arguments = serde_json::to_string_pretty(&value).unwrap();
        }
        with_results(&mut chat, &heard.message);
    }
    // A conversation that differs before the call is what the template makes of it.
    let mut other = weather_chat();
    other.set_system("Be brief.");
    let last = chat.messages()[1].clone();
    with_results(&mut other, &last);
    let tokens = session.engine().ask(&other).unwrap().tokens;
    let text = String::from_utf8(session.engine().tokenizer().decode(&tokens, true)).unwrap();
    assert!(text.contains("Be brief.") && text.contains("London") && text.contains("temperature"), "{text}");
}

#[test]
fn a_service_tells_of_calls_and_finds_them_again() {
    let engine = Engine::load(None, &Options { sequences: 2, batch_outputs: 2, ..options() }).unwrap();
    let end_tokens = engine.defaults().end_tokens.clone();
    let service = engine.serve(&Serving::default());
    let mut chat = weather_chat();
    let mut known = 0;
    for turn in 0..2 {
        let asked = service.ask(&chat).unwrap();
        let prompt = asked.tokens.clone();
        let request = Request {
            prompt: asked.tokens,
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            max_tokens: Some(120),
            end_tokens: end_tokens.clone(),
            reading: asked.reading,
            ..Request::default()
        };
        let mut message = Message { role: "assistant".to_owned(), ..Message::default() };
        let mut written = 0;
        for reply in service.submit(request).unwrap() {
            match reply {
                Reply::Token { text, .. } => {
                    written += 1;
                    message.content += &text;
                }
                Reply::Rest(text) => message.content += &text,
                Reply::Call { id, name, .. } => message.calls.push(Call { id, name, arguments: String::new() }),
                Reply::Arguments { index, text } => message.calls[index as usize].arguments += &text,
                Reply::Done(done) if turn == 1 => {
                    // The service keeps whole pages.
                    assert!(done.cached_tokens + 32 > known, "{} of {known}", done.cached_tokens);
                }
                Reply::Failed(error) => panic!("{error}"),
                Reply::Queued
                | Reply::Prefill { .. }
                | Reply::Reasoning(_)
                | Reply::CallEnd { .. }
                | Reply::Done(_) => {}
            }
        }
        if turn == 0 {
            assert_eq!(message.calls.len(), 2, "{message:?}");
            known = prompt.len() + written;
        }
        with_results(&mut chat, &message);
    }
}

/// Where a call is asked for, a call is what comes, whatever the model would rather say.
#[test]
fn a_call_that_is_required_is_made() {
    let engine = Engine::load(None, &Options { sequences: 2, batch_outputs: 2, ..options() }).unwrap();
    let end_tokens = engine.defaults().end_tokens.clone();
    let service = engine.serve(&Serving::default());
    let list = Tool::list(&serde_json::from_str(TOOLS).unwrap()).unwrap();
    let named = Choice::Named("run_python".to_owned());
    for (choice, is_free) in [(Choice::Required, false), (named.clone(), false), (named, true)] {
        let mut chat = Chat::new();
        chat.set_reasoning(is_free);
        chat.set_tools(Tools::new(list.clone(), &choice, false).unwrap());
        chat.push("user", "Tell me a story about a fox.");
        let asked = service.ask(&chat).unwrap();
        let request = Request {
            prompt: asked.tokens,
            sampling: Sampling { temperature: 1.2, seed: 7, ..Sampling::default() },
            max_tokens: Some(300),
            end_tokens: end_tokens.clone(),
            reading: asked.reading,
            constraint: asked.constraint,
            ..Request::default()
        };
        let mut heard = Heard::default();
        let mut finish = None;
        for reply in service.submit(request).unwrap() {
            match reply {
                Reply::Token { text, .. } | Reply::Rest(text) => heard.hear(&Event::Text(&text)),
                Reply::Call { index, id, name } => heard.hear(&Event::Call { index, id: &id, name: &name }),
                Reply::Arguments { index, text } => heard.hear(&Event::Arguments { index, text: &text }),
                Reply::CallEnd { index, complete } => heard.hear(&Event::CallEnd { index, complete }),
                Reply::Done(done) => finish = Some(done.finish),
                Reply::Failed(error) => panic!("{error}"),
                Reply::Queued | Reply::Prefill { .. } | Reply::Reasoning(_) => {}
            }
        }
        let message = &heard.message;
        assert_eq!(message.calls.len(), 1, "{choice:?}: {message:?}, {finish:?}");
        if let Choice::Named(name) = &choice {
            assert_eq!(message.calls[0].name, *name);
        }
        if finish != Some(Finish::Length) {
            let value: serde_json::Value = serde_json::from_str(&message.calls[0].arguments).unwrap();
            let needed = if message.calls[0].name == "run_python" { "code" } else { "name" };
            assert!(heard.complete && value[needed].is_string(), "{message:?}");
        }
    }
}

#[test]
fn an_answer_ends_when_its_time_is_over() {
    let mut engine = Engine::load(None, &options()).unwrap();
    let prompt = engine.text_tokens("Once upon a time");
    let time_max = Some(std::time::Duration::from_millis(20));
    let request = Request { prompt, time_max, ..Request::default() };
    let done = engine.session().generate(&request, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(done.finish, Finish::Time);
}

/// How well kauri-nano calls: `cargo test -p kauri-engine --test tools -- --ignored --nocapture`.
#[test]
#[ignore = "answers 330 requests four times: minutes"]
fn kauri_nano_calls() {
    let file = repository().join("../shared/models/kauri-nano/eval_tools.json");
    let Ok(text) = std::fs::read_to_string(&file) else {
        eprintln!("skipped: {} is not there", file.display());
        return;
    };
    let requests: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let engine = Engine::load(None, &Options { sequences: 8, batch_outputs: 8, ..Options::default() }).unwrap();
    let service = engine.serve(&Serving { waiting: 1000, ..Serving::default() });
    println!(
        "{:22} {:>6} {:>7} {:>7} {:>9} {:>7} {:>13} {:>6}",
        "", "asked", "called", "parsed", "functions", "exact", "none, rightly", "obey"
    );
    assert!(requests.len() > 100, "{} requests", requests.len());
    let warm = |seed| Sampling { temperature: 1.5, seed, ..Sampling::default() };
    let ways = [
        ("greedy", Sampling { temperature: 0.0, ..Sampling::default() }),
        ("T=1.5, seed 1", warm(1)),
        ("T=1.5, seed 2", warm(2)),
        ("T=1.5, seed 3", warm(3)),
    ];
    for (name, sampling, is_held) in
        ways.into_iter().flat_map(|(name, sampling)| [(name, sampling, false), (name, sampling, true)])
    {
        let answers = answers(&service, &requests, sampling, is_held);
        let mut counts = [0; 6];
        let (mut expecting, mut silent, mut calling) = (0, 0, 0);
        for (request, answer) in requests.iter().zip(answers) {
            let expected = request["expected"].as_array().unwrap();
            let (outcome, all_obey) = outcome(&service, answer, expected, &request["tools"]);
            calling += usize::from(outcome[0]);
            counts[5] += usize::from(outcome[0] && all_obey);
            assert!(!is_held || all_obey, "{name}: a held answer does not obey: {request}");
            if expected.is_empty() {
                silent += 1;
                counts[4] += usize::from(!outcome[0]);
                continue;
            }
            expecting += 1;
            for (count, is_so) in counts.iter_mut().zip(outcome) {
                *count += usize::from(is_so);
            }
        }
        let share = |count: usize, of: usize| format!("{:.0}%", 100.0 * count as f64 / of as f64);
        let name = if is_held { format!("{name}, held") } else { name.to_owned() };
        println!(
            "{name:22} {expecting:>6} {:>7} {:>7} {:>9} {:>7} {:>13} {:>6}",
            share(counts[0], expecting),
            share(counts[1], expecting),
            share(counts[2], expecting),
            share(counts[3], expecting),
            share(counts[4], silent),
            // Of all answers with a call, expected or not.
            share(counts[5], calling),
        );
    }
}

/// Asks everything at once; `is_held` says whether calls must obey.
fn answers(service: &Service, requests: &[serde_json::Value], sampling: Sampling, is_held: bool) -> Vec<Answer> {
    let end_tokens = &service.defaults().end_tokens;
    requests
        .iter()
        .map(|request| {
            let mut chat = Chat::new();
            chat.set_reasoning(false);
            let list = Tool::list(&request["tools"]).unwrap();
            chat.set_tools(Tools::new(list, &Choice::Auto, true).unwrap());
            for message in request["messages"].as_array().unwrap() {
                chat.push(message["role"].as_str().unwrap(), message["content"].as_str().unwrap());
            }
            let asked = service.ask(&chat).unwrap();
            let request = Request {
                prompt: asked.tokens,
                sampling,
                max_tokens: Some(256),
                end_tokens: end_tokens.clone(),
                reading: asked.reading,
                constraint: asked.constraint.filter(|_| is_held),
                ..Request::default()
            };
            service.submit(request).unwrap()
        })
        .collect()
}

/// Of an answer, whether it called, the calls parse, the functions are right, and everything is.
fn outcome(
    service: &Service,
    answer: Answer,
    expected: &[serde_json::Value],
    tools: &serde_json::Value,
) -> ([bool; 4], bool) {
    let mut heard = Heard::default();
    let (mut complete, mut tokens) = (true, Vec::new());
    for reply in answer {
        match reply {
            Reply::Token { id, text, .. } => {
                tokens.push(id);
                heard.hear(&Event::Text(&text));
            }
            Reply::Rest(text) => heard.hear(&Event::Text(&text)),
            Reply::Call { index, id, name } => heard.hear(&Event::Call { index, id: &id, name: &name }),
            Reply::Arguments { index, text } => heard.hear(&Event::Arguments { index, text: &text }),
            Reply::CallEnd { complete: whole, .. } => complete &= whole,
            Reply::Failed(error) => panic!("{error}"),
            Reply::Queued | Reply::Prefill { .. } | Reply::Reasoning(_) | Reply::Done(_) => {}
        }
    }
    let written = String::from_utf8_lossy(&service.tokenizer().decode(&tokens, true)).into_owned();
    let calls = &heard.message.calls;
    let parsed = !calls.is_empty() && complete && !heard.message.content.contains("<tool_call>");
    let names = calls.iter().map(|call| call.name.as_str());
    let right = parsed && names.eq(expected.iter().map(|call| call["name"].as_str().unwrap()));
    let same = calls.iter().zip(expected).all(|(call, expected)| {
        serde_json::from_str::<serde_json::Value>(&call.arguments).unwrap() == expected["arguments"]
    });
    let called = written.contains("<tool_call>");
    let all_obey = complete && calls.iter().all(|call| obeys(call, tools)) && parsed == called;
    ([called, parsed, right, right && same], all_obey)
}

/// Whether a call is of one of the tools and has its arguments, each of its type: all that the schemas of the file say.
fn obeys(call: &Call, tools: &serde_json::Value) -> bool {
    let function = |tool: &serde_json::Value| tool.get("function").unwrap_or(tool).clone();
    let tool = tools.as_array().unwrap().iter().map(function).find(|tool| tool["name"] == call.name.as_str());
    let Some(schema) = tool.map(|tool| tool["parameters"].clone()) else { return false };
    let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
    let is_of = |value: &serde_json::Value, schema: &serde_json::Value| match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    required.iter().all(|name| arguments.get(name.as_str().unwrap()).is_some())
        && arguments.as_object().unwrap().iter().all(|(name, value)| {
            let schema = &schema["properties"][name];
            let listed = schema["enum"].as_array();
            is_of(value, schema) && listed.is_none_or(|listed| listed.contains(value))
        })
}
