//! `kauri bench serve` as scripts see it: against a server by its address, good or broken, and on the engine in the process; loads
//! made up and recorded. No test here says how fast anything must be.

mod kauri;

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use kauri::peer::{Fate, Habits, Server, Takes};
use kauri::{Ran, kauri, repository};
use serde_json::Value as Json;

const SMALL: [&str; 6] = ["--prompt-tokens", "12", "--gen-tokens", "4", "--requests", "6"];

fn serve(arguments: &[&str]) -> Ran {
    kauri(&[&["bench", "serve"], arguments].concat(), b"")
}

/// The object of a run that must have succeeded.
fn json(arguments: &[&str]) -> Json {
    let text = serve(&[arguments, &["--json"]].concat()).success();
    assert_eq!(text.lines().count(), 1, "one object on one line");
    serde_json::from_str(&text).expect("JSON")
}

fn number(object: &Json, name: &str) -> f64 {
    object[name].as_f64().unwrap_or_else(|| panic!("{name} is no number in {object}"))
}

fn trace() -> PathBuf {
    repository().join("tests/golden/traces/mooncake_conversation.jsonl")
}

#[test]
fn a_server_is_asked_in_the_form_that_it_takes() {
    let usual = || Habits { counts: true, ..Habits::default() };
    let servers = [
        ("ids", usual()),
        ("ids", Habits { refuses: vec!["ignore_eos", "min_tokens"], ..usual() }),
        ("ids", Habits { refuses: vec!["stream_options"], is_silent: true, ..usual() }),
        ("text", Habits { takes: Takes::Text, ..usual() }),
        ("chat", Habits { takes: Takes::Chats, refuses: vec!["ignore_eos"], ..usual() }),
    ];
    for (form, habits) in servers {
        let is_known = !habits.is_silent;
        let server = Server::start(habits);
        let object = json(&[&["--url", &server.url, "--temperature", "0.5"], &SMALL[..]].concat());
        assert_eq!((&object["prompts"], &object["errors"], &object["requests"]), (&form.into(), &0.into(), &6.into()));
        assert_eq!(object["model"] == "tiny", is_known);
        assert_eq!(number(&object, "gen_tokens"), 4.0);
        assert!(number(&object, "output_tokens_per_s") > 0.0);
        let asked = server.measured();
        assert_eq!(asked.len(), 7, "one to warm up, and six");
        assert!(asked.iter().all(|body| body["stream"] == true && body["temperature"] == 0.5));
        if form == "ids" {
            let ids = asked.iter().flat_map(|body| body["prompt"].as_array().expect("ids"));
            let most = if is_known { 512 } else { 30_000 };
            assert!(ids.clone().count() == 7 * 12 && ids.clone().all(|id| id.as_u64() < Some(most)), "{asked:?}");
        }
    }
}

#[test]
fn what_the_server_counts_is_believed() {
    let server = Server::start(Habits { tokens_an_event: 4, counts: true, ..Habits::default() });
    let url = format!("{}/v1/", server.url);
    let object =
        json(&["--url", &url, "--prompt-tokens", "20", "--gen-tokens", "12", "--requests", "3", "--model", "m"]);
    assert_eq!((number(&object, "gen_tokens"), number(&object, "cached_token_share")), (12.0, 0.5));
    assert!(object["itl_ms"]["p50"].is_number(), "three events have two gaps: {object}");
    assert!(server.measured().iter().all(|body| body["model"] == "m" && body["ignore_eos"] == true));
    // Who counts nothing is believed by his events.
    let server = Server::start(Habits { tokens_an_event: 4, ..Habits::default() });
    let object = json(&["--url", &server.url, "--gen-tokens", "12", "--requests", "3"]);
    assert_eq!((number(&object, "gen_tokens"), &object["cached_token_share"]), (3.0, &Json::Null));
}

#[test]
fn broken_answers_are_counted_and_the_first_is_told() {
    let fates = [
        (Fate::Error, "500: out of luck"),
        (Fate::Cut, "Peer disconnected"),
        (Fate::Half, "the stream broke off after 1 tokens"),
        (Fate::Stalled, "no whole answer within 1 s (--timeout)"),
        (Fate::Garbled, "an event of the stream is not JSON"),
        (Fate::Told, "the server said in the stream: the cache is on fire"),
        (Fate::Page, "the answer is no stream of events but text/html"),
        (Fate::Endless, "a line of the stream is longer than 1048576 bytes"),
        (Fate::Silent, "no whole answer within 1 s (--timeout)"),
    ];
    let one = ["--concurrency", "1", "--warm-up", "0", "--timeout", "1"];
    for (fate, reason) in fates {
        let server = Server::start(Habits { fates: vec![Fate::Good, fate, fate], ..Habits::default() });
        let object = json(&[&["--url", &server.url], &SMALL[..4], &one, &["--requests", "3"]].concat());
        assert_eq!((&object["requests"], &object["errors"]), (&3.into(), &2.into()), "{fate:?}: {object}");
        let told = object["first_error"].as_str().unwrap_or_default();
        assert!(told.contains(reason), "{fate:?}: {told}");
        assert_eq!(number(&object, "gen_tokens"), 4.0, "{fate:?}: what broke off is not measured");
    }
    let server = Server::start(Habits { fates: vec![Fate::Error], ..Habits::default() });
    let ran = serve(&[&["--url", &server.url], &SMALL[..], &one].concat());
    assert_eq!((ran.code, ran.stdout.len()), (1, 0), "{ran:?}");
    assert!(ran.stderr.contains("all 6 requests failed; the first: 500: out of luck"), "{}", ran.stderr);
    let ran = serve(&[&["--url", &server.url], &SMALL[..]].concat());
    assert!(ran.code == 1 && ran.stderr.contains("warming up failed: 500: out of luck"), "{ran:?}");
}

#[test]
fn who_does_not_answer_or_not_so_is_named() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let ran = serve(&["--url", &format!("http://{nobody}")]);
    assert!(ran.code == 1 && ran.stderr.contains("Connection refused"), "{ran:?}");
    let none = Server::start(Habits { takes: Takes::Chats, refuses: vec!["messages"], ..Habits::default() });
    let ran = serve(&["--url", &none.url]);
    let reason = "no form of prompt is answered there; the first was with 404: <html>not here</html>";
    assert!(ran.code == 1 && ran.stderr.contains(reason) && ran.stderr.lines().count() == 1, "{ran:?}");
    let locked = Server::start(Habits { key: Some("sesame"), ..Habits::default() });
    let ran = serve(&["--url", &locked.url]);
    assert!(ran.code == 1 && ran.stderr.contains("name a file with it: --key-file"), "{ran:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    fs::write(&key, "sesame\n").expect("written");
    let object = json(&[&["--url", &locked.url, "--key-file", key.to_str().expect("text")], &SMALL[..]].concat());
    assert_eq!(object["errors"], 0);
}

#[test]
fn texts_are_as_long_as_wanted_in_the_servers_own_vocabulary() {
    let server = Server::start(Habits { takes: Takes::Text, ..Habits::default() });
    let nano = repository().join("models/kauri-nano-Q4_K_M.gguf");
    let nano = nano.to_str().expect("text");
    json(&[
        "--url",
        &server.url,
        "--tokenizer",
        nano,
        "--prompt-tokens",
        "30-60",
        "--gen-tokens",
        "3",
        "--requests",
        "9",
    ]);
    let asked = server.measured();
    let texts: Vec<&str> = asked.iter().map(|body| body["prompt"].as_str().expect("a text")).collect();
    let lines: Vec<String> = texts.iter().map(|text| Json::from(*text).to_string()).collect();
    let ids = kauri(&["tokenize", "--model", nano, "--json"], lines.join("\n").as_bytes()).success();
    let lengths: Vec<usize> = ids.lines().map(|line| line.split(',').count()).collect();
    assert!(lengths.len() == 10 && lengths.iter().all(|length| (30..=60).contains(length)), "{lengths:?}");
    assert!(lengths.iter().any(|length| *length != lengths[0]), "a range: {lengths:?}");
}

#[test]
fn a_trace_is_replayed_at_its_moments_with_its_blocks() {
    let server = Server::start(Habits { counts: true, ..Habits::default() });
    let trace = trace();
    let slice = ["--trace", trace.to_str().expect("text"), "--from", "10", "--requests", "20", "--shrink", "64"];
    let rest = [
        "--warm-up",
        "0",
        "--url",
        &server.url,
        "--time-scale",
        "0.1",
        "--gen-tokens-max",
        "5",
        "--prompt-tokens-max",
        "100",
    ];
    let object = json(&[&slice[..], &rest].concat());
    assert_eq!((&object["requests"], &object["errors"]), (&20.into(), &0.into()));
    let text = fs::read_to_string(&trace).expect("the slice");
    let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let lines = &lines[10..30];
    let span_s = number(&lines[19], "timestamp") - number(&lines[0], "timestamp");
    assert!(number(&object, "seconds") >= 0.1 * span_s / 1e3, "{object}");
    // The server saw every prompt; equal names of blocks are equal tokens, and different ones are not.
    let asked = server.measured();
    let find = |line: &Json| {
        let tokens = ((line["input_length"].as_u64().expect("a length") / 64).max(1) as usize).min(100);
        let gen_tokens = (line["output_length"].as_u64().expect("a length") / 64).clamp(1, 5);
        (tokens, gen_tokens)
    };
    let first = asked.iter().map(|body| body["prompt"].as_array().expect("ids")[..8].to_vec());
    let common = lines.iter().filter(|line| line["hash_ids"][0] == 0 && find(line).1 > 2).count();
    let most = first.clone().map(|one| first.clone().filter(|other| *other == one).count()).max();
    assert!(common > 1 && most == Some(common), "{common} begin with block 0, {most:?} alike");
    for body in &asked {
        let length = body["prompt"].as_array().expect("ids").len();
        let gen_tokens = body["max_tokens"].as_u64().expect("a number");
        assert!(lines.iter().any(|line| find(line) == (length, gen_tokens)), "{length} and {gen_tokens}");
    }
}

/// Three talks that take turns, each asking all that was said before and two blocks more: all but the end of what a turn asks can
/// be known, if the cache holds all three.
fn talks() -> String {
    let turn = |turn: u32, talk: u32| {
        let blocks: Vec<u32> = (0..2 + 2 * turn).map(|block| 100 * talk + block).collect();
        let (tokens, moment) = (512 * blocks.len() - 100, 1000 * (3 * turn + talk));
        serde_json::json!({ "timestamp": moment, "input_length": tokens, "output_length": 1, "hash_ids": blocks })
            .to_string()
    };
    (0..5).flat_map(|number| (0..3).map(move |talk| turn(number, talk) + "\n")).collect()
}

#[test]
fn the_engine_knows_again_what_the_traces_own_names_allow() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("talks.jsonl");
    fs::write(&path, talks()).expect("written");
    let (talks, recorded) = (path.to_str().expect("text"), trace());
    let recorded = recorded.to_str().expect("text");
    let mut ideals = Vec::new();
    for (trace, cache_tokens) in [(talks, "640"), (talks, "800"), (talks, "4000"), (recorded, "600")] {
        let slice = ["--trace", trace, "--requests", "16", "--time-scale", "0", "--shrink", "16", "--warm-up", "0"];
        let caps = ["--prompt-tokens-max", "320", "--gen-tokens-max", "2", "--concurrency", "1"];
        let object = json(&[&slice[..], &caps, &["--cache-tokens", cache_tokens]].concat());
        assert_eq!(object["errors"], 0);
        let (share, ideal) = (number(&object, "cached_token_share"), number(&object, "ideal_cached_token_share"));
        assert!((share - ideal).abs() < 0.02, "{trace} with {cache_tokens}: {share} is not {ideal}");
        ideals.push(ideal);
    }
    assert!(ideals[..3].is_sorted_by(|less, more| less < more) && ideals[3] > 0.05, "{ideals:?}");
}

#[test]
fn goodput_counts_what_kept_the_limits() {
    let server = Server::start(Habits { event_ms: 3, ..Habits::default() });
    let url = ["--url", &server.url];
    let goodput = |limits: &[&str]| json(&[&url, &SMALL[..], limits].concat())["goodput"].clone();
    assert_eq!(goodput(&[]), Json::Null);
    assert_eq!(goodput(&["--ttft-limit-ms", "60000", "--itl-limit-ms", "60000"])["requests"], 6);
    assert_eq!(goodput(&["--ttft-limit-ms", "2"])["requests"], 0);
    // A busy machine reads two events in one go, but never in one nanosecond.
    assert_eq!(goodput(&["--itl-limit-ms", "0.000001"])["requests"], 0);
}

#[test]
fn people_get_a_table_and_a_picture() {
    let folder = tempfile::tempdir().expect("a folder");
    let plot = folder.path().join("load.svg");
    let server = Server::start(Habits { fates: vec![Fate::Good, Fate::Good, Fate::Error], ..Habits::default() });
    let path = plot.to_str().expect("text");
    let text = serve(&[&["--url", &server.url, "--warm-up", "0", "--plot", path], &SMALL[..]].concat()).success();
    for part in ["tiny at http://127.0.0.1", "first token", "whole answer", "2 failed; the first: 500: out of luck"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let svg = fs::read_to_string(plot).expect("a picture");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("between tokens"), "{svg}");
}

#[test]
fn bad_loads_and_addresses_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let (table, none) =
        (file("a.csv", "t_seconds,context_tokens,generated_tokens\n0,5,x\n"), file("b.csv", "a,b\n1,2\n"));
    let good = file("c.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,3,3\n");
    let (line, empty) = (file("d.jsonl", "{\"timestamp\":0,\"input_length\":-5}\n"), file("e.jsonl", ""));
    let url = ["--url", "http://127.0.0.1:9"];
    for (arguments, part) in [
        (&["--rate", "0"][..], "--rate 0: give how many requests come per second"),
        (&["--rate", "nan"], "--rate NaN"),
        (&["--rate", "1e-320"], "nobody lives as long"),
        (&["--temperature", "101"], "--temperature 101: give a number from 0 to 100"),
        (&["--concurrency", "0"], "--concurrency 0: give a number from 1 to 1024"),
        (&["--requests", "100001"], "--requests 100001"),
        (&["--gen-tokens", "100000000"], "--gen-tokens"),
        (&["--prompt-tokens", "9-3"], "from the least to the most"),
        (&["--shared-prefix", "101"], "--shared-prefix"),
        (&["--ttft-limit-ms=-1"], "--ttft-limit-ms -1"),
        (&["--itl-limit-ms", "inf"], "--itl-limit-ms inf"),
        (&["--prompt-tokens", "9000000"], "ask for fewer tokens"),
        (&["--cache-tokens", "32"], "there is room for 32"),
        (&["--time-scale", "2"], "--trace"),
        (&["--trace", "missing.csv"], "missing.csv: No such file"),
        (&["--trace", &table], "a.csv: line 2: \"x\" is not a number of tokens"),
        (&["--trace", &none], "b.csv: neither lines of JSON nor a table"),
        (&["--trace", &line], "d.jsonl: line 1: "),
        (&["--trace", &empty], "e.jsonl: empty"),
        (&["--trace", &good, "--from", "1"], "has 1 requests, none from --from 1 on"),
        (&["--trace", &good, "--time-scale=-1"], "--time-scale -1"),
        (&["--trace", &good, "--gen-tokens", "4"], "cannot be used with"),
        (&["--url", "https://127.0.0.1"], "only plain HTTP is spoken here"),
        (&["--url", "127.0.0.1:80"], "--url 127.0.0.1:80"),
        (&[url[0], url[1], "--threads", "2"], "cannot be used with"),
        (&[url[0], url[1], "--sequences", "2"], "cannot be used with"),
        (&[url[0], url[1], "--key-file", "missing"], "--key-file missing: No such file"),
        (&[url[0], url[1], "--key-file", &none], "not one line with a key"),
        (&[url[0], url[1], "--tokenizer", "missing.gguf"], "missing.gguf"),
        (&["--prompts", "ids"], "--url"),
        (&["--plot", "/nonexistent/a.svg"], "--plot /nonexistent/a.svg"),
    ] {
        serve(arguments).refused(&arguments.join(" "), part);
    }
}
