//! Answers under a constraint: they obey it whatever the model would rather say, alone and among others, and are a function of
//! the request alone.

use std::ops::ControlFlow;

use kauri_engine::grammar::Grammar;
use kauri_engine::tools::{Choice, Tool};
use kauri_engine::{
    Chat, Done, Engine, Error, Event, Finish, Options, Reply, Request, Sampling, Serving, Submission, Tools,
};
use serde_json::{Value as Json, json};

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "temperature_celsius": { "type": "integer", "minimum": -90, "maximum": 60 },
    "weather_condition": { "enum": ["sunny", "cloudy", "raining"] },
    "days_until_change": { "type": "array", "items": { "type": "boolean" }, "minItems": 2, "maxItems": 3 }
  },
  "required": ["temperature_celsius", "weather_condition", "days_until_change"],
  "additionalProperties": false
}"#;

fn engine(threads: usize, batch_tokens: u32, running: u32) -> Engine {
    let options = Options {
        threads: Some(threads),
        batch_tokens: batch_tokens.max(running),
        batch_outputs: running,
        sequences: running,
        context_tokens: Some(512),
        ..Options::default()
    };
    Engine::load(None, &options).expect("the model inside")
}

/// A request that a model answers with anything but JSON.
fn request(engine: &Engine, grammar: Option<&Grammar>, seed: u64, temperature: f32) -> Request {
    Request {
        prompt: engine.text_tokens("Once upon a time there was a forecast:\n"),
        sampling: Sampling { temperature, seed, ..Sampling::default() },
        stops: Vec::new(),
        max_tokens: Some(400),
        end_tokens: engine.defaults().end_tokens.clone(),
        constraint: grammar.map(|grammar| engine.compile(grammar).expect("it compiles")),
        ..Request::default()
    }
}

fn answer(engine: &mut Engine, request: &Request) -> Result<(String, Done), Error> {
    let mut text = String::new();
    let done = engine.session().generate(request, |event| {
        if let Event::Text(more) = event {
            text += more;
        }
        ControlFlow::Continue(())
    })?;
    Ok((text, done))
}

/// Checked here by hand, with nothing of what made it.
fn obeys(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Json>(text) else { return false };
    let object = value.as_object().expect("an object");
    let names: Vec<&str> = object.keys().map(String::as_str).collect();
    let days = value["days_until_change"].as_array().expect("a list");
    names == ["temperature_celsius", "weather_condition", "days_until_change"]
        && value["temperature_celsius"].as_i64().is_some_and(|degrees| (-90..=60).contains(&degrees))
        && [json!("sunny"), json!("cloudy"), json!("raining")].contains(&value["weather_condition"])
        && (2..=3).contains(&days.len())
        && days.iter().all(Json::is_boolean)
}

#[test]
fn answers_obey_at_any_temperature_and_end_by_themselves() {
    let mut engine = engine(2, 512, 1);
    let grammar = Grammar::JsonSchema(SCHEMA.to_owned());
    for (seed, temperature) in [(0, 0.0), (1, 1.5), (2, 1.5), (3, 1.5), (4, 4.0)] {
        let request = request(&engine, Some(&grammar), seed, temperature);
        let (text, done) = answer(&mut engine, &request).expect("an answer");
        assert!(obeys(&text), "seed {seed}: {text:?}");
        assert_eq!(done.finish, Finish::Complete);
        assert_eq!(done.prompt_tokens, request.prompt.len());
    }
    let free = request(&engine, None, 1, 1.0);
    assert!(serde_json::from_str::<Json>(&answer(&mut engine, &free).expect("an answer").0).is_err());
}

/// Where the limit comes before the model would end, what it must obey is closed in time, and the limit is what ended it.
#[test]
fn answers_end_whole_where_their_tokens_end() {
    let schema = json!({
        "type": "object",
        "properties": {
            "title": { "type": "string" },
            "lines": { "type": "array", "items": { "type": "string" } },
            "author": { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] }
        },
        "required": ["title", "lines", "author"],
        "additionalProperties": false
    });
    let grammar = Grammar::JsonSchema(schema.to_string());
    let mut engine = engine(2, 64, 4);
    let mut requests = Vec::new();
    for most in [40, 60, 90] {
        for seed in 0..4 {
            let mut request = request(&engine, Some(&grammar), seed, 1.5);
            request.max_tokens = Some(most);
            requests.push(request);
        }
    }
    // The window is a limit, too.
    let mut last = request(&engine, Some(&grammar), 5, 1.5);
    last.max_tokens = None;
    last.prompt = engine.text_tokens(&"word ".repeat(600))[..512 - 50].to_vec();
    requests.push(last);
    let mut shortened = 0;
    let alone: Vec<_> = requests.iter().map(|request| answer(&mut engine, request).expect("an answer")).collect();
    for (request, (text, done)) in requests.iter().zip(&alone) {
        let value = serde_json::from_str::<Json>(text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
        assert!(
            value["title"].is_string() && value["lines"].is_array() && value["author"]["name"].is_string(),
            "{text}"
        );
        assert!(request.max_tokens.is_none_or(|most| done.output_tokens <= most), "{done:?}");
        match done.finish {
            Finish::Length => shortened += usize::from(request.max_tokens.is_some()),
            Finish::Window => assert!(request.max_tokens.is_none()),
            _ => assert_eq!(done.finish, Finish::Complete),
        }
    }
    assert!(shortened > 6, "{shortened} were shortened");
    let service = engine.serve(&Serving::default());
    let answers: Vec<_> = requests.iter().map(|request| service.submit(request.clone()).unwrap()).collect();
    for (index, (answer, (text, done))) in answers.into_iter().zip(&alone).enumerate() {
        let (_, got, together) = answer.wait().expect("an answer");
        assert_eq!((&got, &together.finish), (text, &done.finish), "request {index}");
    }
}

#[test]
fn a_constrained_answer_depends_on_nothing_but_its_request() {
    let grammar = Grammar::JsonSchema(SCHEMA.to_owned());
    let mut answers = Vec::new();
    for (threads, batch_tokens) in [(1, 512), (2, 3), (3, 64)] {
        let mut engine = engine(threads, batch_tokens, 1);
        let request = request(&engine, Some(&grammar), 7, 1.0);
        let (text, done) = answer(&mut engine, &request).expect("an answer");
        answers.push((text, done.output_tokens));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
}

#[test]
fn a_service_gives_each_what_it_gets_alone() {
    let grammars = [
        Some(Grammar::JsonSchema(SCHEMA.to_owned())),
        None,
        Some(Grammar::Regex(r"[a-z]{3,20} \d{4}-\d{2}-\d{2}".to_owned())),
        Some(Grammar::Choice(vec!["yes".to_owned(), "no".to_owned(), "perhaps another time".to_owned()])),
        Some(Grammar::JsonObject),
    ];
    let mut engine = engine(2, 16, 4);
    let requests: Vec<Request> = (0..20)
        .map(|index: usize| {
            let grammar = grammars[index % grammars.len()].as_ref();
            let mut request = request(&engine, grammar, index as u64, if index.is_multiple_of(3) { 0.0 } else { 1.2 });
            request.max_tokens = Some(5 + index * 7 % 90);
            request.stops = if index % 4 == 1 { vec!["_".to_owned()] } else { Vec::new() };
            request
        })
        .collect();
    let alone: Vec<_> = requests.iter().map(|request| answer(&mut engine, request).expect("an answer")).collect();
    let finishes: Vec<&Finish> = alone.iter().map(|(_, done)| &done.finish).collect();
    for finish in [Finish::Complete, Finish::Length, Finish::Stop("_".to_owned())] {
        assert!(finishes.contains(&&finish), "none ended with {finish:?}: {finishes:?}");
    }
    let service = engine.serve(&Serving { chunk_tokens: 4, ..Serving::default() });
    let answers: Vec<_> =
        requests.iter().map(|request| service.submit(Submission::from(request.clone())).unwrap()).collect();
    for (index, (answer, (text, done))) in answers.into_iter().zip(&alone).enumerate() {
        let (tokens, got, together) = answer.wait().expect("an answer");
        assert_eq!((&got, &together.finish), (text, &done.finish), "request {index}");
        assert_eq!((tokens.len(), together.output_tokens), (done.output_tokens, done.output_tokens), "request {index}");
        assert_eq!(together.prompt_tokens, done.prompt_tokens);
    }
}

#[test]
fn limits_and_stops_hold_within_what_is_certain() {
    let mut engine = engine(1, 512, 1);
    // Nothing of this is left to choose.
    let text = "the answer is forty-two, and so it has been all along";
    let grammar = Grammar::Choice(vec![text.to_owned()]);
    let mut request = request(&engine, Some(&grammar), 0, 1.0);
    let (all, done) = answer(&mut engine, &request).expect("an answer");
    assert_eq!((all.as_str(), &done.finish), (text, &Finish::Complete));
    let tokens = done.output_tokens;
    for most in [1, 3, tokens - 1] {
        request.max_tokens = Some(most);
        let (part, done) = answer(&mut engine, &request).expect("an answer");
        assert_eq!((done.output_tokens, &done.finish), (most, &Finish::Length));
        assert!(text.starts_with(&part) && part.len() < text.len(), "{part:?}");
    }
    request.max_tokens = None;
    request.stops = vec![", and".to_owned()];
    let (part, done) = answer(&mut engine, &request).expect("an answer");
    assert_eq!((part.as_str(), done.finish), ("the answer is forty-two", Finish::Stop(", and".to_owned())));
    request.stops.clear();
    // The window ends before the text does.
    let filler = engine.text_tokens(&"word ".repeat(600));
    let room = 6;
    request.prompt = filler[..512 - room].to_vec();
    let (part, done) = answer(&mut engine, &request).expect("an answer");
    assert_eq!((done.finish, done.output_tokens), (Finish::Window, room));
    assert!(text.starts_with(&part), "{part:?}");
}

/// What ends reasoning is more than its mark, and none of it is the answer's; a model that would end the answer while it thinks ends its
/// thoughts and answers.
#[test]
fn what_comes_behind_reasoning_obeys_however_that_ends() {
    let mut engine = engine(2, 512, 4);
    let grammar = Grammar::JsonSchema(SCHEMA.to_owned());
    let opening = engine.tokenizer().id_of("<think>").expect("a token");
    let parameters = json!({ "type": "object", "properties": { "celsius": { "type": "integer" } },
        "required": ["celsius"], "additionalProperties": false });
    let list = Tool::list(&json!([{ "name": "report", "parameters": parameters }])).expect("a list of tools");
    let mut requests = Vec::new();
    for (budget, calls) in [(Some(0), false), (Some(3), false), (None, false), (Some(0), true), (None, true)] {
        let mut chat = Chat::new();
        chat.set_reasoning(true);
        budget.into_iter().for_each(|tokens| chat.set_reasoning_budget(tokens));
        if calls {
            chat.set_tools(Tools::new(list.clone(), &Choice::Required, false).expect("tools"));
        }
        chat.push("user", "What is the weather?");
        let asked = engine.ask(&chat).expect("a prompt");
        let mut request = request(&engine, Some(&grammar), 3, 1.2);
        // It thinks, and ends the answer as soon as it may.
        let ends = request.end_tokens.iter().map(|&end| (end, if budget.is_none() { 100.0 } else { -100.0 }));
        request.logit_bias = ends.chain([(opening, 60.0)]).collect();
        request.constraint = if calls { asked.constraint } else { request.constraint };
        (request.prompt, request.reading) = (asked.tokens, asked.reading);
        requests.push((calls, request));
    }
    let mut alone = Vec::new();
    for (index, (calls, request)) in requests.iter().enumerate() {
        let (mut text, mut arguments) = (String::new(), String::new());
        let done = engine.session().generate(request, |event| {
            match event {
                Event::Text(more) => text += more,
                Event::Arguments { text: more, .. } => arguments += more,
                _ => {}
            }
            ControlFlow::Continue(())
        });
        let done = done.unwrap_or_else(|error| panic!("request {index}: {error}"));
        assert!(done.reasoning_tokens > 0, "request {index} did not think: {text:?}");
        if *calls {
            let value: Json = serde_json::from_str(&arguments).unwrap_or_else(|error| panic!("{error}: {arguments:?}"));
            assert!(value["celsius"].is_i64() && text.is_empty(), "request {index}: {arguments} {text:?}");
        } else {
            assert!(obeys(&text), "request {index}: {text:?}");
        }
        alone.push((text, arguments));
    }
    let service = engine.serve(&Serving::default());
    let answers: Vec<_> = requests.iter().map(|(_, request)| service.submit(request.clone()).unwrap()).collect();
    for (answer, alone) in answers.into_iter().zip(&alone) {
        let (mut text, mut arguments) = (String::new(), String::new());
        for reply in answer {
            match reply {
                Reply::Token { text: more, .. } | Reply::Rest(more) => text += &more,
                Reply::Arguments { text: more, .. } => arguments += &more,
                Reply::Failed(error) => panic!("{error}"),
                _ => {}
            }
        }
        assert_eq!((text, arguments), *alone);
    }
}

#[test]
fn what_cannot_be_enforced_is_refused_before_any_token() {
    let engine = engine(1, 512, 1);
    let grammar = Grammar::JsonSchema(json!({ "properties": { "a": { "not": {} } } }).to_string());
    let error = engine.compile(&grammar).expect_err("no");
    assert!(error.is_input());
    let message = error.to_string();
    assert!(message.starts_with("\"not\" at /properties/a cannot be enforced"), "{message}");
}
