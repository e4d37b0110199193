//! Adapters by way of the commands: a server whose clients choose them by name, by number and for all, and `kauri run`.

mod kauri;

use kauri::server::Server;
use kauri::{kauri, output, repository};
use serde_json::{Value as Json, json};

const COMPLETE: &str = "/v1/completions";

fn golden(path: &str) -> String {
    repository().join("tests/golden").join(path).to_str().expect("UTF-8").to_owned()
}

fn model() -> String {
    format!("base={}", golden("families/llama/model-f32.gguf"))
}

fn adapter() -> String {
    golden("adapters/llama/adapter.gguf")
}

/// A prompt of several pages, and what else is asked.
fn asked(more: &Json) -> Json {
    let prompt: Vec<u32> = (0..70).map(|index| 5 + index * 37 % 400).collect();
    let mut body = json!({ "prompt": prompt, "temperature": 0, "max_tokens": 24, "model": "base" });
    for (name, value) in more.as_object().expect("fields") {
        body[name] = value.clone();
    }
    body
}

fn text(answer: &Json) -> String {
    answer["choices"][0]["text"].as_str().expect("text").to_owned()
}

#[test]
fn clients_choose_adapters_by_name_by_number_and_for_all() {
    let plain = Server::start(&[&model()]);
    let none = text(&plain.ask(COMPLETE, &asked(&json!({}))));
    assert_eq!(plain.get("/lora-adapters").json(), json!([]));
    let refused = plain.post(COMPLETE, &asked(&json!({ "lora": [{ "id": 0, "scale": 1 }] })));
    assert_eq!(refused.status, 400, "{}", refused.body);
    drop(plain);

    let (whole, half) = (format!("whole={}", adapter()), format!("half={}:0.5", adapter()));
    let server = Server::start(&[&model(), "--lora", &whole, "--lora", &half]);
    let ask = |more: &Json| text(&server.ask(COMPLETE, &asked(more)));
    let (whole, half) = (ask(&json!({ "model": "whole" })), ask(&json!({ "model": "half" })));
    assert!(whole != none && half != none && whole != half, "{none:?} {whole:?} {half:?}");
    assert_eq!(ask(&json!({})), none, "who asks for the model gets none");
    let one = |id: u32, scale: f32| json!({ "id": id, "scale": scale });
    for (more, expected) in [
        (json!({ "lora": [one(0, 1.0)] }), &whole),
        (json!({ "lora": [one(1, 1.0)] }), &whole),
        (json!({ "lora": [one(1, 0.0), one(0, 0.5)] }), &half),
        (json!({ "lora": [one(0, 0.0)] }), &none),
        (json!({ "lora": [], "model": "whole" }), &none),
        (json!({ "lora": null, "model": "half" }), &half),
        (json!({ "model": "nobody" }), &none),
    ] {
        assert_eq!(ask(&more), *expected, "{more}");
    }
    assert_eq!(server.ask(COMPLETE, &asked(&json!({ "model": "half" })))["model"], "half");

    // All at once, each several times.
    std::thread::scope(|scope| {
        let ways = [(json!({}), &none), (json!({ "model": "whole" }), &whole), (json!({ "model": "half" }), &half)];
        let ask = &ask;
        for (more, expected) in ways.iter().cycle().take(24).cloned() {
            scope.spawn(move || assert_eq!(ask(&more), *expected, "{more}, beside others"));
        }
    });

    let list = server.get("/v1/models").json();
    let card = |id: &str| list["data"].as_array().expect("a list").iter().find(|card| card["id"] == id).cloned();
    assert!(card("base").is_some_and(|card| card.get("parent").is_none()), "{list}");
    assert!(card("half").is_some_and(|card| card["parent"] == "base"), "{list}");
    assert_eq!(Some(server.get("/v1/models/half").json()), card("half"));
    assert_eq!(server.get("/v1/models/third").status, 404);

    let known = server.get("/lora-adapters").json();
    assert_eq!((&known[0]["name"], &known[0]["scale"]), (&json!("whole"), &json!(0.0)), "{known}");
    assert_eq!((&known[1]["id"], &known[1]["path"]), (&json!(1), &json!(adapter())), "{known}");
    let set = server.ask("/lora-adapters", &json!([one(1, 0.5)]));
    assert_eq!(set[1]["scale"], 0.5);
    assert_eq!(ask(&json!({})), half, "for all that say nothing");
    assert_eq!(ask(&json!({ "model": "whole" })), whole, "but not for who asks for another");
    server.ask("/lora-adapters", &json!([]));
    assert_eq!(ask(&json!({})), none);
    for (body, field) in [
        (json!([one(2, 1.0)]), "[0].id"),
        (json!([{ "id": 0 }]), "[0].scale"),
        (json!({}), "the body"),
        (json!(7), "the body"),
    ] {
        let refused = server.post("/lora-adapters", &body);
        assert!(refused.status == 400 && refused.body.contains(field), "{body}: {}", refused.body);
    }
    let refused = server.post(COMPLETE, &asked(&json!({ "lora": [one(0, 1.0), one(0, 0.5)] })));
    assert!(refused.status == 400 && refused.body.contains("lora[1].id"), "{}", refused.body);
}

#[test]
fn an_adapter_without_a_name_is_for_everybody() {
    let server = Server::start(&[&model(), "--lora", &format!("{}:0.75", adapter())]);
    assert_eq!(server.get("/lora-adapters").json()[0]["scale"], 0.75);
    let all = text(&server.ask(COMPLETE, &asked(&json!({}))));
    let said = text(&server.ask(COMPLETE, &asked(&json!({ "lora": [{ "id": 0, "scale": 0.75 }] }))));
    let none = text(&server.ask(COMPLETE, &asked(&json!({ "lora": [] }))));
    assert!(all == said && all != none, "{all:?} {said:?} {none:?}");
}

#[test]
fn what_others_get_is_changed_by_who_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.txt");
    let (alice, bob) = ("sk-0123456789abcdef", "sk-fedcba9876543210");
    std::fs::write(&file, format!("alice {alice} admin\nbob {bob} open=4\n")).expect("written");
    let (model, whole) = (model(), format!("whole={}", adapter()));
    let server = Server::start(&[&model, "--lora", &whole, "--api-key-file", file.to_str().expect("UTF-8")]);
    let ask = |method: &str, key: &str, body: &str| {
        let said = server.request(method, "/lora-adapters", &[("x-api-key", key)], body);
        (said.status, said.json())
    };
    let half = json!([{ "id": 0, "scale": 0.5 }]).to_string();
    let (status, refused) = ask("POST", bob, &half);
    assert!(status == 403 && refused["error"]["code"] == "not_admin", "{refused}");
    assert_eq!(ask("GET", bob, "").1[0]["scale"], 0.0, "nothing is changed");
    assert_eq!((ask("POST", alice, &half).0, &ask("GET", bob, "").1[0]["scale"]), (200, &json!(0.5)));
    drop(server);

    // Without keys, who is on this machine; and nobody where others reach it.
    let open = ["--host", "0.0.0.0", "--allow-anyone"];
    let all = Server::start(&[&[&model[..], "--lora", &whole], &open[..]].concat());
    let refused = all.post("/lora-adapters", &json!([]));
    assert!(refused.status == 403 && refused.body.contains("not_admin"), "{}", refused.body);
}

#[test]
fn run_applies_adapters_and_refuses_what_is_none() {
    let path = golden("families/llama/model-f32.gguf");
    let run = |more: &[&str]| {
        let words = ["run", &path, "To be or", "--raw", "--temperature", "0", "--max-tokens", "16", "--threads", "1"];
        output(&[&words[..], more].concat())
    };
    let (none, whole) = (run(&[]), run(&["--lora", &adapter()]));
    assert!(none != whole && whole == run(&["--lora", &format!("named={}:1.0", adapter())]), "{none:?} {whole:?}");
    let refused = |lora: &str, part: &str| {
        kauri(&["run", &path, "--lora", lora, "hello", "--raw"], b"").refused(lora, part);
    };
    refused("/nowhere.gguf", "/nowhere.gguf");
    refused(&path, "general.type");
    refused(&golden("adapters/lfm2/adapter.gguf"), "an adapter of a lfm2 model");
    refused(&golden("adapters/lfm2/peft"), "convert_lora_to_gguf.py");
    let several = kauri(&["serve", &model(), &format!("other={path}"), "--lora", &adapter(), "--port", "0"], b"");
    several.refused("several models", "--lora goes with one model");
}
