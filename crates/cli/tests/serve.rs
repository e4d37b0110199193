//! `kauri serve`: the running server, asked as programs ask.

mod kauri;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use kauri::kauri;
use kauri::server::Server;
use serde_json::{Value as Json, json};

const CHAT: &str = "/v1/chat/completions";
const COMPLETE: &str = "/v1/completions";

fn chat(content: &str, more: &Json) -> Json {
    let mut body = json!({ "messages": [{ "role": "user", "content": content }], "temperature": 0, "max_tokens": 40 });
    for (name, value) in more.as_object().expect("fields") {
        body[name] = value.clone();
    }
    body
}

fn weather() -> Json {
    json!([{ "type": "function", "function": {
        "name": "get_weather", "description": "Get the current weather for a city.",
        "parameters": { "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] } } }])
}

fn content(answer: &Json) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_default()
}

#[test]
fn a_conversation_is_answered_whole_and_as_a_stream() {
    let server = Server::start(&[]);
    let body = chat("What is kauri?", &json!({ "model": "gpt-4o" }));
    let answer = server.ask(CHAT, &body);
    assert!(content(&answer).contains("inference engine"), "{answer}");
    assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!("kauri-nano")));
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let usage = &answer["usage"];
    let count = |name: &str| usage[name].as_u64().expect("a count");
    assert_eq!(count("total_tokens"), count("prompt_tokens") + count("completion_tokens"));
    assert!(answer["timings"]["ttft_ms"].as_f64().is_some_and(|time| time > 0.0), "{answer}");

    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({ "include_usage": true });
    let events = server.post(CHAT, &streamed).events();
    assert_eq!(events[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    let pieces = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(pieces.collect::<String>(), content(&answer));
    let [.., reason, usage] = &events[..] else { panic!("{events:?}") };
    assert_eq!(reason["choices"][0]["finish_reason"], "stop");
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], answer["usage"]["completion_tokens"]);
    assert!(events.iter().all(|event| event["id"] == events[0]["id"] && event["object"] == "chat.completion.chunk"));
}

#[test]
fn every_parameter_does_what_it_says() {
    let server = Server::start(&[]);
    let warm = json!({ "temperature": 1.2, "seed": 7, "n": 3 });
    let first = server.ask(CHAT, &chat("Tell me a story.", &warm));
    let texts: Vec<&Json> = (0..3).map(|index| &first["choices"][index]["message"]["content"]).collect();
    assert!(texts[0] != texts[1] && texts[1] != texts[2], "{first}");
    assert_eq!(first["choices"][2]["index"], 2);
    let again = server.ask(CHAT, &chat("Tell me a story.", &warm));
    assert_eq!(first["choices"], again["choices"], "the same seed gives the same answers");
    assert!(first["usage"]["prompt_tokens"].as_u64() < Some(40), "a prompt counts once: {first}");

    let stopped = server.ask(CHAT, &chat("What is kauri?", &json!({ "stop": ["inference", "zzz"] })));
    assert!(!content(&stopped).contains("inference") && content(&stopped).contains("local"), "{stopped}");
    let short = server.ask(CHAT, &chat("What is kauri?", &json!({ "max_completion_tokens": 3, "max_tokens": null })));
    assert_eq!(
        (&short["choices"][0]["finish_reason"], &short["usage"]["completion_tokens"]),
        (&json!("length"), &json!(3))
    );

    let likely =
        server.ask(CHAT, &chat("What is kauri?", &json!({ "logprobs": true, "top_logprobs": 2, "max_tokens": 4 })));
    let told = likely["choices"][0]["logprobs"]["content"].as_array().expect("tokens");
    assert_eq!(told.len(), 4);
    for token in told {
        // Greedy: the most likely is the one.
        assert_eq!(token["top_logprobs"][0]["token"], token["token"]);
        let [best, next] = [0, 1].map(|index| token["top_logprobs"][index]["logprob"].as_f64().expect("a number"));
        assert!(best <= 0.0 && next <= best && token["logprob"].as_f64() == Some(best), "{token}");
    }
    let text: String = told.iter().filter_map(|token| token["token"].as_str()).collect();
    assert_eq!(text, content(&likely));

    let known = |biased: &Json| content(biased).to_owned();
    let id = server.ask(COMPLETE, &json!({ "prompt": "Kauri", "max_tokens": 1, "logprobs": 1, "temperature": 0 }));
    assert!(id["choices"][0]["logprobs"]["tokens"].as_array().is_some_and(|tokens| tokens.len() == 1), "{id}");
    let plain = server.ask(CHAT, &chat("What is kauri?", &json!({ "max_tokens": 1 })));
    let biased = server.ask(CHAT, &chat("What is kauri?", &json!({ "max_tokens": 1, "logit_bias": { "100": 100 } })));
    assert_ne!(known(&plain), known(&biased), "a bias of 100 decides");

    let salted = chat(
        "Tell me about the sea and the wind and the birds above it, please.",
        &json!({ "cache_salt": "one", "max_tokens": 1 }),
    );
    let cached = |body: &Json| server.ask(CHAT, body)["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    assert_eq!(cached(&salted), Some(0));
    assert!(cached(&salted) > Some(0));
    let mut other = salted.clone();
    other["cache_salt"] = json!("two");
    assert_eq!(cached(&other), Some(0), "another salt shares nothing");
}

#[test]
fn likely_tokens_are_the_models_own_or_those_that_were_drawn_from() {
    let server = Server::start(&[]);
    for is_drawn in [false, true] {
        let more = json!({ "temperature": 1, "top_k": 2, "seed": 1, "max_tokens": 8, "logprobs": true, "top_logprobs": 5, "post_sampling_probs": is_drawn });
        let answer = server.ask(CHAT, &chat("Tell me a story.", &more));
        let told = answer["choices"][0]["logprobs"]["content"].as_array().expect("tokens");
        let of = |token: &Json| token["logprob"].as_f64().expect("a number").exp();
        let of_two = told.iter().map(|token| {
            let likely = token["top_logprobs"].as_array().expect("a list");
            // One that is all but certain leaves no other to draw.
            assert!(if is_drawn { (1..=2).contains(&likely.len()) } else { likely.len() == 5 }, "{token}");
            let mut first = likely.iter().take(2);
            let is_it = |one: &Json| one["token"] == token["token"] && (of(one) - of(token)).abs() < 1e-3;
            assert!(first.clone().any(is_it), "{token}");
            first.by_ref().map(of).sum::<f64>()
        });
        let least = of_two.fold(1.0, f64::min);
        assert_eq!(least > 0.999, is_drawn, "two of all tokens, or the two that were left: {least}");
    }
}

#[test]
fn a_number_is_refused_by_the_name_that_it_was_given_by() {
    let server = Server::start(&[]);
    let near = r#"{"messages": [{"role": "user", "content": "?"}], "presence_penalty": 2.0000000000000004}"#;
    assert_eq!(
        server.request("POST", CHAT, &[], near).json()["error"]["param"],
        "presence_penalty",
        "beside a limit is not on it"
    );
    for (path, body, part) in [
        (
            "/api/generate",
            json!({ "prompt": "?", "options": { "repeat_penalty": 0 } }),
            "repeat_penalty must be over 0",
        ),
        (
            "/api/generate",
            json!({ "prompt": "?", "options": { "repeat_last_n": -2 } }),
            "repeat_last_n: must be from 0",
        ),
        // Where a model is only loaded, too.
        ("/api/generate", json!({ "prompt": "", "options": { "stop": [""] } }), "stop[0] is empty"),
        ("/api/generate", json!({ "prompt": "", "options": { "logit_bias": { "x": 1 } } }), "logit_bias.x"),
        ("/api/generate", json!({ "prompt": "", "options": { "lora": [{ "id": 0 }] } }), "lora[0].scale"),
        (
            "/v1/messages",
            json!({ "messages": [{ "role": "user", "content": "?" }], "max_tokens": 1, "stop_sequences": [""] }),
            "stop_sequences[0] is empty",
        ),
        (
            "/v1/messages",
            json!({ "messages": [{ "role": "user", "content": "?" }], "max_completion_tokens": 1 }),
            "max_tokens: is missing",
        ),
    ] {
        let said = server.post(path, &body);
        assert!(said.status == 400 && said.body.contains(part), "{path} {body}: {said:?}");
    }
}

#[test]
fn answers_obey_schemas() {
    let server = Server::start(&[]);
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string", "maxLength": 12 }, "age": { "type": "integer", "minimum": 0, "maximum": 120 } },
        "required": ["name", "age"], "additionalProperties": false });
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "person", "strict": true, "schema": schema } });
    let more = json!({ "response_format": format, "temperature": 1.5, "seed": 3, "max_tokens": 200 });
    let answer = server.ask(CHAT, &chat("Invent a person.", &more));
    let person: Json = serde_json::from_str(content(&answer)).expect("JSON");
    assert!(person["name"].is_string() && person["age"].as_u64().is_some_and(|age| age <= 120), "{person}");
    let more = json!({ "response_format": { "type": "json_object" }, "max_tokens": 20 });
    assert!(content(&server.ask(CHAT, &chat("Invent a person.", &more))).starts_with('{'));

    // Whatever the model thinks before it, and for however long.
    for budget in [0, 5] {
        let thinking = json!({ "response_format": format, "temperature": 1.5, "seed": 3, "max_tokens": 200,
            "reasoning_effort": "low", "reasoning_budget": budget, "logit_bias": { "8187": 60 } });
        let answer = server.ask(CHAT, &chat("Invent a person.", &thinking));
        let person: Json = serde_json::from_str(content(&answer)).expect("JSON");
        assert!(person["name"].is_string() && person["age"].is_u64(), "{person}");
    }
    // What is no JSON.
    for (format, is_it) in [
        (json!({ "type": "regex", "regex": "[0-9]{4}-[0-9]{2}" }), (|text| text.len() == 7) as fn(&str) -> bool),
        (json!({ "type": "choice", "choices": ["dry land", "no idea"] }), |text| {
            ["dry land", "no idea"].contains(&text)
        }),
        (json!({ "type": "grammar", "grammar": "root ::= \"a\"+ \"b\"" }), |text| text.trim_start_matches('a') == "b"),
        (json!({ "type": "grammar", "syntax": "lark", "grammar": "start: \"(\" start \")\" | \"x\"" }), |text| {
            text.trim_matches(['(', ')']) == "x"
        }),
    ] {
        let answer =
            server.ask(CHAT, &chat("Is water wet?", &json!({ "response_format": format, "temperature": 1.5 })));
        assert!(is_it(content(&answer)), "{format}: {answer}");
    }
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": { "type": "string", "contentEncoding": "base64", "not": { "const": "a" } } } });
    let refused = server.post(CHAT, &chat("?", &json!({ "response_format": format })));
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert_eq!(refused.json()["error"]["param"], "not", "{}", refused.body);
}

#[test]
fn tools_are_called() {
    let server = Server::start(&[]);
    let ask = "What is the weather in London and Tokyo?";
    let answer = server.ask(CHAT, &chat(ask, &json!({ "tools": weather(), "max_tokens": 120 })));
    let calls = answer["choices"][0]["message"]["tool_calls"].as_array().expect("calls");
    let city = |call: &Json| -> Json {
        serde_json::from_str(call["function"]["arguments"].as_str().expect("text")).expect("JSON")
    };
    assert_eq!(calls.iter().map(city).collect::<Vec<_>>(), [json!({ "city": "London" }), json!({ "city": "Tokyo" })]);
    assert_eq!(
        (&answer["choices"][0]["finish_reason"], &answer["choices"][0]["message"]["content"]),
        (&json!("tool_calls"), &Json::Null)
    );

    // The same in pieces.
    let body = chat(ask, &json!({ "tools": weather(), "max_tokens": 120, "stream": true }));
    let events = server.post(CHAT, &body).events();
    let mut pieces = vec![(String::new(), String::new()); 2];
    for call in events.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array()).flatten() {
        let piece = &mut pieces[call["index"].as_u64().expect("a place") as usize];
        piece.0 += call["function"]["name"].as_str().unwrap_or_default();
        piece.1 += call["function"]["arguments"].as_str().unwrap_or_default();
    }
    let whole =
        |call: &Json| ["name", "arguments"].map(|part| call["function"][part].as_str().expect("text").to_owned());
    assert_eq!(pieces, calls.iter().map(|call| whole(call).into()).collect::<Vec<_>>());

    // One that is required comes, whatever is said and however warm it is, and as its schema says.
    let tools = json!([{ "type": "function", "function": { "name": "set_alarm", "parameters": { "type": "object",
        "properties": { "hour": { "type": "integer", "minimum": 0, "maximum": 23 }, "label": { "enum": ["work", "school"] } },
        "required": ["hour", "label"], "additionalProperties": false } } }]);
    for choice in [json!("required"), json!({ "type": "function", "function": { "name": "set_alarm" } })] {
        let more = json!({ "tools": tools, "tool_choice": choice, "temperature": 1.5, "seed": 5, "max_tokens": 200, "parallel_tool_calls": false });
        let answer = server.ask(CHAT, &chat("Hello! Who are you?", &more));
        let calls = answer["choices"][0]["message"]["tool_calls"].as_array().expect("calls");
        assert_eq!(calls.len(), 1, "{answer}");
        let arguments = city(&calls[0]);
        assert!(arguments["hour"].as_u64().is_some_and(|hour| hour < 24), "{arguments}");
        assert!(arguments["label"] == "work" || arguments["label"] == "school", "{arguments}");
    }
    // One whose schema cannot be enforced, which only compiling tells, is still called, unless it insists.
    let tool = |strict: bool| {
        let either = json!({ "oneOf": [{ "type": "number" }, { "type": "integer" }] });
        json!([{ "type": "function", "function": { "name": "count", "strict": strict,
            "parameters": { "type": "object", "properties": { "to": either }, "required": ["to"] } } }])
    };
    let more = json!({ "tool_choice": "required", "max_tokens": 60 });
    let with = |strict: bool| {
        let mut body = chat("Count!", &more);
        body["tools"] = tool(strict);
        body
    };
    assert_eq!(server.ask(CHAT, &with(false))["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "count");
    let refused = server.post(CHAT, &with(true));
    assert!(refused.status == 422 && refused.body.contains("the tool \\\"count\\\""), "{}", refused.body);
    assert_eq!(refused.json()["error"]["param"], "oneOf");
    let none = server.ask(CHAT, &chat(ask, &json!({ "tools": weather(), "tool_choice": "none" })));
    assert_eq!(none["choices"][0]["message"]["tool_calls"], Json::Null);

    // The results go back.
    let mut messages = json!([{ "role": "user", "content": ask }, answer["choices"][0]["message"]]);
    for call in calls {
        let result = json!({ "role": "tool", "tool_call_id": call["id"], "content": "{\"temperature\": 21}" });
        messages.as_array_mut().expect("a list").push(result);
    }
    let next =
        server.ask(CHAT, &json!({ "messages": messages, "tools": weather(), "temperature": 0, "max_tokens": 60 }));
    assert!(!content(&next).is_empty(), "{next}");
}

#[test]
fn text_is_continued_and_filled_in() {
    let server = Server::start(&[]);
    let body = json!({ "prompt": "Once upon a time", "temperature": 0, "max_tokens": 12, "echo": true });
    let answer = server.ask(COMPLETE, &body);
    let text = answer["choices"][0]["text"].as_str().expect("text");
    assert!(text.starts_with("Once upon a time, there was"), "{text}");
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let events = server.post(COMPLETE, &streamed).events();
    assert_eq!(events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect::<String>(), text);
    let several = json!({ "prompt": ["Once upon", "The"], "n": 2, "temperature": 0, "max_tokens": 2 });
    let choices = server.ask(COMPLETE, &several);
    let text = |index: usize| choices["choices"][index]["text"].as_str().expect("text");
    assert!(text(0) == text(1) && text(2) == text(3) && text(0) != text(2), "{choices}");
    let ids = server
        .ask(COMPLETE, &json!({ "prompt": [[915, 755, 258, 515]], "temperature": 0, "max_tokens": 2, "echo": true }));
    assert!(ids["choices"][0]["text"].as_str().is_some_and(|text| text.len() > 5), "{ids}");
    let between = json!({ "prompt": "def add(a, b):\n    return ", "suffix": "\n\nprint(add(1, 2))\n", "temperature": 0, "max_tokens": 8 });
    assert!(server.ask(COMPLETE, &between)["choices"][0]["text"].is_string());
}

#[test]
fn what_is_wrong_is_named() {
    let server = Server::start(&["--sequences", "2"]);
    for (more, param) in [
        (json!({ "temperature": -1 }), "temperature"),
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "top_p": 1e308 }), "top_p"),
        (json!({ "top_k": -7 }), "top_k"),
        (json!({ "max_tokens": 0 }), "max_tokens"),
        (json!({ "max_tokens": -1 }), "max_tokens"),
        (json!({ "max_tokens": 1.5 }), "max_tokens"),
        (json!({ "n": 0 }), "n"),
        (json!({ "n": 1_000_000 }), "n"),
        (json!({ "stop": vec!["a"; 17] }), "stop"),
        (json!({ "logit_bias": { "99999999": 1 } }), "logit_bias.99999999"),
        (json!({ "top_logprobs": 3 }), "top_logprobs"),
        (json!({ "logprobs": true, "top_logprobs": 21 }), "top_logprobs"),
        (json!({ "messages": [] }), "messages"),
        (
            json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "http://127.0.0.1:1/" } }] }] }),
            "messages[0].content[0].type",
        ),
        (json!({ "stream": "yes" }), "stream"),
        (json!({ "response_format": { "type": "yaml" } }), "response_format.type"),
        (json!({ "response_format": { "type": "regex" } }), "response_format.regex"),
        (json!({ "response_format": { "type": "regex", "regex": "(" } }), "response_format"),
        (json!({ "response_format": { "type": "grammar", "grammar": 1 } }), "response_format.grammar"),
        (
            json!({ "response_format": { "type": "grammar", "grammar": "", "syntax": "yacc" } }),
            "response_format.syntax",
        ),
        (json!({ "response_format": { "type": "choice", "choices": [] } }), "response_format.choices"),
        (json!({ "response_format": { "type": "choice", "choices": ["a", 1] } }), "response_format.choices"),
        (json!({ "max_time": 0 }), "max_time"),
        (json!({ "reasoning_budget": -1 }), "reasoning_budget"),
        (json!({ "reasoning_effort": "infinite" }), "reasoning_effort"),
        (json!({ "chat_template_kwargs": { "bos_token": "<|im_start|>" } }), "chat_template_kwargs.bos_token"),
        (json!({ "messages": [{ "role": "user", "content": "word ".repeat(5000) }] }), "messages"),
    ] {
        let said = server.post(CHAT, &chat("?", &more));
        assert_eq!(said.status, 400, "{more}: {}", said.body);
        let error = &said.json()["error"];
        assert_eq!(error["param"], param, "{more}: {error}");
        assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{error}");
    }
    for (body, part) in [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "object"),
        ("{\"messages\": [}", "not JSON"),
        ("{\"messages\": NaN}", "not JSON"),
    ] {
        let said = server.request("POST", CHAT, &[], body);
        assert!(said.status == 400 && said.body.contains(part), "{body:?}: {said:?}");
    }
    let prompt = server.post(COMPLETE, &json!({ "prompt": [1, 99_999_999] }));
    assert_eq!(prompt.status, 400, "{}", prompt.body);
    assert_eq!(server.get("/v1/nothing").status, 404);
    assert_eq!(server.get(CHAT).status, 405);
    assert_eq!(server.get("/v1/models/nobody").status, 404);
    assert_eq!(server.get("/v1/models").json()["data"][0]["id"], "kauri-nano");
    assert_eq!(server.get("/v1/models/kauri-nano").json()["context_length"], 2048);
    assert_eq!((server.get("/health").status, server.get("/ready").status), (200, 200));
    let mut stream = server.connect();
    let head = format!("POST {CHAT} HTTP/1.0\r\nhost: {}\r\ncontent-length: 99000000\r\n\r\n", server.address);
    stream.write_all(head.as_bytes()).expect("sent");
    let mut large = String::new();
    stream.read_to_string(&mut large).expect("an answer before the body");
    assert!(large.starts_with("HTTP/1.0 413"), "{large}");
    let deep = server.request("POST", CHAT, &[], &"[".repeat(1_000_000));
    assert_eq!(deep.status, 400, "{deep:?}");
}

#[test]
fn only_those_who_may_come_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.txt");
    std::fs::write(&file, "alice sk-0123456789abcdef\n").expect("written");
    let server =
        Server::start(&["--api-key-file", file.to_str().expect("a name"), "--allow-origin", "https://chat.example"]);
    let status = |headers: &[(&str, &str)], path: &str| server.request("GET", path, headers, "").status;
    assert_eq!(status(&[], "/health"), 200);
    for path in ["/v1/models", "/v1/nothing", CHAT, COMPLETE, "/metrics", "/api/tags"] {
        assert_eq!(status(&[], path), 401, "{path}");
        assert_eq!(status(&[("authorization", "Bearer sk-wrong")], path), 401, "{path}");
    }
    let key = ("authorization", "Bearer sk-0123456789abcdef");
    assert_eq!(status(&[key], "/v1/models"), 200);
    assert_eq!(status(&[("x-api-key", "sk-0123456789abcdef")], "/v1/models"), 200);
    assert_eq!(status(&[key, ("host", "evil.example")], "/v1/models"), 403);
    assert_eq!(status(&[key, ("origin", "https://evil.example")], "/v1/models"), 403);
    assert_eq!(status(&[key, ("origin", "null")], "/v1/models"), 403);
    let ours = server.request("GET", "/v1/models", &[key, ("origin", "https://chat.example")], "");
    assert!(ours.headers.contains("access-control-allow-origin: https://chat.example"), "{}", ours.headers);
    let before = server.request(
        "OPTIONS",
        CHAT,
        &[("origin", "https://chat.example"), ("access-control-request-headers", "authorization")],
        "",
    );
    assert!(
        before.status == 204 && before.headers.contains("access-control-allow-headers: authorization"),
        "{before:?}"
    );
    assert!(!before.headers.contains("allow-credentials"), "{before:?}");

    kauri(&["serve", "--host", "0.0.0.0", "--port", "0"], b"").refused("open to all", "--api-key-file");
    kauri(&["serve", "missing.gguf", "--port", "0"], b"").refused("no model", "missing.gguf");
    kauri(&["serve", "kauri-nano", "kauri-nano"], b"").refused("twice", "two models are called");
    let port = server.address.rsplit(':').next().expect("a port").to_owned();
    kauri(&["serve", "--port", &port], b"").refused("in use", &server.address);
}

#[test]
fn who_hangs_up_is_cancelled_and_who_is_served_is_served_to_the_end() {
    let mut server = Server::start(&["--sequences", "1", "--waiting", "0", "--drain-time", "120"]);
    let long = chat(
        "Tell me a story.",
        &json!({ "max_tokens": 1900, "stream": true, "logit_bias": endless(), "temperature": 1 }),
    );
    let begin = || {
        let mut stream = server.connect();
        let text = server.text("POST", CHAT, &[], &long.to_string());
        stream.write_all(text.as_bytes()).expect("sent");
        let mut some = [0; 600];
        stream.read_exact(&mut some).expect("a beginning");
        assert!(some.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&some));
        stream
    };
    let stream = begin();
    let full = server.post(CHAT, &chat("Hello!", &json!({})));
    assert_eq!(full.status, 503, "{}", full.body);
    assert!(full.headers.contains("retry-after: 1"), "{}", full.headers);
    drop(stream);
    let start = Instant::now();
    while server.post(CHAT, &chat("Hello!", &json!({ "max_tokens": 1 }))).status != 200 {
        assert!(start.elapsed() < Duration::from_secs(5), "it goes on for nobody");
        std::thread::sleep(Duration::from_millis(10));
    }

    let mut stream = begin();
    server.terminate();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the rest");
    assert!(rest.trim_end().ends_with("data: [DONE]"), "{}", &rest[rest.len() - 300..]);
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn texts_are_read_counted_and_measured() {
    let server = Server::start(&[]);
    let ids = server.ask("/tokenize", &json!({ "content": "Once upon a time" }));
    assert_eq!(ids["tokens"], json!([915, 755, 258, 515]));
    assert_eq!(server.ask("/detokenize", &json!({ "tokens": ids["tokens"] }))["content"], "Once upon a time");
    let marked = json!({ "content": "<|im_start|>", "parse_special": true });
    assert_eq!(server.ask("/tokenize", &marked)["count"], 1);
    assert!(server.ask("/tokenize", &json!({ "content": "<|im_start|>" }))["count"].as_u64() > Some(3));
    let messages = json!({ "messages": [{ "role": "user", "content": "What is kauri?" }] });
    // As many as it would take to answer.
    assert_eq!(server.ask("/tokenize", &messages)["count"], 16);
    assert_eq!(server.post("/detokenize", &json!({ "tokens": [99_999_999] })).status, 400);

    let read = |body: &Json| server.ask("/v1/embeddings", body)["data"].clone();
    let vectors = read(&json!({ "input": ["a cat", "a dog", "a cat"] }));
    assert!(vectors[0]["embedding"] == vectors[2]["embedding"] && vectors[0]["embedding"] != vectors[1]["embedding"]);
    let packed = read(&json!({ "input": "a cat", "encoding_format": "base64", "dimensions": 3 }));
    assert_eq!(packed[0]["embedding"].as_str().map(str::len), Some(16));
    for (body, param) in [
        (json!({ "input": [] }), "input"),
        (json!({ "input": [1, "a"] }), "input"),
        (json!({ "input": "a", "dimensions": 0 }), "dimensions"),
        (json!({ "input": "a", "encoding_format": "hex" }), "encoding_format"),
        (json!({ "input": "a", "pooling": "sum" }), "pooling"),
    ] {
        let refused = server.post("/v1/embeddings", &body);
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!(param)), "{body}");
    }
    assert_eq!(server.post("/v1/embeddings", &json!({ "input": "" })).status, 400);
    let ranking = server.post("/rerank", &json!({ "query": "cats", "documents": ["a cat", "a dog"] }));
    assert!(ranking.status == 400 && ranking.body.contains("no reranker"), "{}", ranking.body);

    server.ask(CHAT, &chat("Hello!", &json!({ "max_tokens": 4 })));
    let text = server.get("/metrics").body;
    for line in [
        "kauri_requests_total{endpoint=\"/tokenize\",status=\"200\"} 4",
        "kauri_output_tokens_total 4",
        "kauri_requests_waiting{model=\"kauri-nano\"} 0",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_other_dialects_say_the_same_in_their_own_words() {
    let server = Server::start(&[]);
    let expected = content(&server.ask(CHAT, &chat("What is kauri?", &json!({})))).to_owned();
    let messages = json!([{ "role": "user", "content": "What is kauri?" }]);

    let body = json!({ "messages": messages, "temperature": 0, "max_tokens": 40 });
    let message = server.ask("/v1/messages", &body);
    assert_eq!((&message["content"][0]["text"], &message["stop_reason"]), (&json!(expected), &json!("end_turn")));
    let refused = server.post("/v1/messages", &json!({ "messages": messages }));
    assert!(refused.status == 400 && refused.json()["error"]["type"] == "invalid_request_error", "{}", refused.body);
    let count = server.ask("/v1/messages/count_tokens", &json!({ "messages": messages }));
    assert_eq!(count["input_tokens"], 16);

    let options = json!({ "temperature": 0, "num_predict": 40 });
    let lines =
        server.post("/api/chat", &json!({ "model": "kauri-nano:latest", "messages": messages, "options": options }));
    assert!(lines.headers.contains("application/x-ndjson"), "{}", lines.headers);
    let lines: Vec<Json> = lines.body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.iter().filter_map(|line| line["message"]["content"].as_str()).collect::<String>(), expected);
    assert!(
        lines
            .last()
            .is_some_and(|line| line["done"] == true && line["done_reason"] == "stop" && line["eval_count"].is_u64())
    );
    let generated =
        server.ask("/api/generate", &json!({ "prompt": "What is kauri?", "options": options, "stream": false }));
    assert_eq!(generated["response"], expected);
    assert_eq!(server.ask("/api/generate", &json!({ "model": "kauri-nano" }))["done_reason"], "load");
    let refused = server.post("/api/chat", &json!({ "messages": messages, "options": { "temperature": -1 } }));
    assert!(
        refused.status == 400 && refused.json()["error"].as_str().is_some_and(|error| error.contains("temperature"))
    );
    assert_eq!(server.get("/api/tags").json()["models"][0]["details"]["family"], "qwen3");
    assert_eq!(server.post("/api/show", &json!({ "model": "nobody" })).status, 404);
    assert!(server.get("/api/version").json()["version"].is_string());
    assert_eq!(
        server.ask("/api/embed", &json!({ "input": ["a", "b"] }))["embeddings"].as_array().map(Vec::len),
        Some(2)
    );

    let response =
        server.ask("/v1/responses", &json!({ "input": "What is kauri?", "temperature": 0, "max_output_tokens": 40 }));
    assert_eq!(
        (&response["output"][0]["content"][0]["text"], &response["status"]),
        (&json!(expected), &json!("completed"))
    );
    for question in ["What is kauri?", "What is a kauri?", "Hello!"] {
        streams_say_what_whole_answers_say(&server, question);
    }
    let kept = server.post("/v1/responses", &json!({ "input": "?", "previous_response_id": "resp_1" }));
    assert_eq!((kept.status, &kept.json()["error"]["param"]), (400, &json!("previous_response_id")));
    let filled = server.ask("/infill", &json!({ "input_prefix": "def add(a, b):\n    return ", "input_suffix": "\n", "n_predict": 8, "temperature": 0 }));
    assert!(filled["content"].is_string() && filled["tokens_predicted"].as_u64() <= Some(8), "{filled}");
}

#[test]
fn no_part_of_a_stop_string_is_streamed() {
    let server = Server::start(&[]);
    let text = content(&server.ask(CHAT, &chat("What is kauri?", &json!({})))).to_owned();
    // From within a word to within another: pieces of text end between.
    for (start, end) in [(5, 25), (13, 40), (text.len() - 12, text.len() - 1)] {
        let wanted = json!({ "stop": text[start..end], "stream": true });
        let events = server.post(CHAT, &chat("What is kauri?", &wanted)).events();
        let pieces = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
        assert_eq!(pieces.collect::<String>(), text[..start], "up to {:?}", &text[start..end]);
        let reason = events.iter().find_map(|event| event["choices"][0]["finish_reason"].as_str());
        assert_eq!(reason, Some("stop"));
    }
}

/// The dialects whose streams are events with names: the pieces, and what it took.
fn streams_say_what_whole_answers_say(server: &Server, question: &str) {
    let events = |path: &str, mut body: Json| -> Vec<Json> {
        body["stream"] = json!(true);
        let said = server.post(path, &body);
        let data = said.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).expect("JSON")).collect()
    };
    let pieces = |events: &[Json], kind: &str, path: &str| -> String {
        let pieces = events.iter().filter(|event| event["type"] == kind);
        pieces.map(|event| event.pointer(path).and_then(Json::as_str).expect("a piece")).collect()
    };
    let body = json!({ "messages": [{ "role": "user", "content": question }], "temperature": 0, "max_tokens": 40 });
    let (whole, told) = (server.ask("/v1/messages", &body), events("/v1/messages", body));
    assert_eq!(json!(pieces(&told, "content_block_delta", "/delta/text")), whole["content"][0]["text"]);
    let end = told.iter().find(|event| event["type"] == "message_delta").expect("an end");
    assert_eq!(end["usage"]["output_tokens"], whole["usage"]["output_tokens"], "{end}");

    let body = json!({ "input": question, "temperature": 0, "max_output_tokens": 40 });
    let (whole, told) = (server.ask("/v1/responses", &body), events("/v1/responses", body));
    let text = json!(pieces(&told, "response.output_text.delta", "/delta"));
    assert_eq!(text, whole["output"][0]["content"][0]["text"]);
    let end = told.last().expect("an end");
    assert_eq!(end["response"]["usage"]["output_tokens"], whole["usage"]["output_tokens"], "{end}");
}

#[test]
fn models_are_loaded_when_they_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let nano = kauri::repository().join("models/kauri-nano-Q4_K_M.gguf");
    let copies = ["a", "b", "c"].map(|name| {
        let copy = folder.path().join(format!("{name}.gguf"));
        std::fs::copy(&nano, &copy).expect("copied");
        copy.to_str().expect("a name").to_owned()
    });
    let mut server = Server::start(&[&copies[0], &copies[1], &format!("other={}", copies[2]), "--loaded", "2"]);
    let states = || -> Vec<(String, String)> {
        let models = server.get("/v1/models").json();
        let word = |model: &Json, name: &str| model[name].as_str().expect("a word").to_owned();
        models["data"]
            .as_array()
            .expect("models")
            .iter()
            .map(|model| (word(model, "id"), word(model, "state")))
            .collect()
    };
    let states_are = |expected: [&str; 3]| {
        let states = states();
        assert_eq!(states.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b", "other"]);
        assert_eq!(states.iter().map(|(_, state)| state.as_str()).collect::<Vec<_>>(), expected);
    };
    states_are(["loaded", "loaded", "unloaded"]);
    let heard = changes(&server);
    hears(&heard, &[("a", "loaded"), ("b", "loaded"), ("other", "unloaded")]);
    let long = json!({ "model": "a", "max_tokens": 300, "stream": true, "temperature": 1, "logit_bias": endless() });
    let long = chat("Tell me a story.", &long).to_string();
    let mut stream = server.connect();
    stream.write_all(server.text("POST", CHAT, &[], &long).as_bytes()).expect("sent");
    let mut some = [0; 600];
    stream.read_exact(&mut some).expect("a beginning");
    let ask = |model: &str| server.ask(CHAT, &chat("What is kauri?", &json!({ "model": model })));
    assert_eq!(ask("b")["model"], "b");
    // The one that was asked for longest ago goes, and what it writes is written to its end.
    let answer = ask("other");
    assert!(answer["model"] == "other" && content(&answer).contains("inference engine"), "{answer}");
    states_are(["unloaded", "loaded", "loaded"]);
    hears(&heard, &[("other", "loading"), ("a", "unloaded"), ("other", "loaded")]);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the rest");
    let end = &rest[rest.len().saturating_sub(600)..];
    assert!(end.trim_end().ends_with("data: [DONE]") && end.contains("\"finish_reason\":\""), "{end}");

    // Several are there, and none of this name.
    let nobody = server.post(CHAT, &chat("?", &json!({ "model": "nobody" })));
    assert!(nobody.status == 404 && nobody.body.contains("a, b, other"), "{}", nobody.body);
    assert_eq!(server.post(CHAT, &chat("?", &json!({ "model": "../../etc/passwd" }))).status, 404);
    // One whose file is gone cannot be loaded, and the others go on.
    std::fs::write(&copies[0], b"no model").expect("written");
    let failed = server.post(CHAT, &chat("?", &json!({ "model": "a" })));
    assert!(failed.status == 503 && failed.headers.contains("retry-after"), "{failed:?}");
    states_are(["failed", "loaded", "loaded"]);
    hears(&heard, &[("a", "failed")]);
    assert_eq!(ask("b")["model"], "b");
    // A model is let go of when its time is over.
    server.ask("/api/generate", &json!({ "model": "b", "keep_alive": 0 }));
    let start = Instant::now();
    while states()[1].1 != "unloaded" {
        assert!(start.elapsed() < Duration::from_secs(10), "it stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    hears(&heard, &[("b", "unloaded")]);
    // Nobody waits for who listens.
    server.terminate();
    assert_eq!(server.wait(), Some(0));
    assert!(heard.recv().is_err(), "the stream is over, and nothing else was said");
}

#[test]
fn a_model_that_answers_is_not_let_go_of() {
    let server = Server::start(&[]);
    let state = || server.get("/v1/models").json()["data"][0]["state"].clone();
    let mut answering = server.connect();
    let long = json!({ "max_tokens": 1900, "stream": true, "logit_bias": endless() });
    let text = server.text("POST", CHAT, &[], &chat("Tell me a story.", &long).to_string());
    answering.write_all(text.as_bytes()).expect("sent");
    answering.read_exact(&mut [0; 600]).expect("a beginning");
    server.ask("/api/generate", &json!({ "model": "kauri-nano", "keep_alive": 0 }));
    // It is looked at once a second; the answer goes on, for it is not read.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(state(), "loaded");
    drop(answering);
    let start = Instant::now();
    while state() != "unloaded" {
        assert!(start.elapsed() < Duration::from_secs(10), "it stays");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A bias against both tokens that end an answer of kauri-nano.
fn endless() -> Json {
    json!({ "8180": -100, "8182": -100 })
}

/// Hears these changes next, one after the other.
fn hears(heard: &Receiver<Json>, expected: &[(&str, &str)]) {
    let next = || heard.recv_timeout(Duration::from_mins(1)).expect("a change");
    for &(id, state) in expected {
        let mut change = next();
        // What is over at once may be told by its end alone.
        if change["state"] == "loading" && state != "loading" {
            change = next();
        }
        assert_eq!((&change["id"], &change["state"]), (&json!(id), &json!(state)), "{change}");
        assert_eq!(change["reason"].is_string(), state == "failed", "{change}");
    }
}

/// What `/events` says from now on.
fn changes(server: &Server) -> Receiver<Json> {
    let (sender, receiver) = channel();
    let mut stream = server.connect();
    stream.write_all(server.text("GET", "/events", &[], "").as_bytes()).expect("sent");
    std::thread::spawn(move || {
        // What was heard last of each model: how far it is, while it is loaded.
        let mut loading: BTreeMap<String, f64> = BTreeMap::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let change: Json = serde_json::from_str(data).expect("JSON");
            let id = change["id"].as_str().expect("a name").to_owned();
            let before = loading.remove(&id);
            if change["state"] == "loading" {
                let progress = change["progress"].as_f64().expect("how far it is");
                assert!(progress <= 1.0 && before.is_none_or(|before| before < progress), "{before:?} and {change}");
                loading.insert(id, progress);
                // That it comes along is said as often as it does.
                if before.is_some() {
                    continue;
                }
            } else {
                assert!(change["progress"].is_null(), "{change}");
            }
            _ = sender.send(change);
        }
    });
    receiver
}
