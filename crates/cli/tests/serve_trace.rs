//! `kauri serve --trace-to`: spans of requests, as a collector on loopback hears them; and a collector that is away, or never answers.

mod kauri;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use kauri::server::Server;
use serde_json::{Value as Json, json};

const CHAT: &str = "/v1/chat/completions";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// A collector: its address, and each span that it is sent.
fn collector() -> (String, Receiver<Json>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (heard, spans) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heard = heard.clone();
            std::thread::spawn(move || take(&stream, &heard));
        }
    });
    (address, spans)
}

/// Takes what comes on a connection, one request after the other.
fn take(mut stream: &TcpStream, heard: &Sender<Json>) {
    let mut lines = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(count) = line.strip_prefix("content-length: ") {
                length = count.parse().expect("a number");
            }
            head.push(line);
        }
        assert_eq!(head[0], "post /v1/traces http/1.1");
        assert!(head.contains(&"content-type: application/json".to_owned()), "{head:?}");
        let mut body = vec![0; length];
        lines.read_exact(&mut body).expect("all of it");
        let body: Json = serde_json::from_slice(&body).expect("JSON");
        let resource = &body["resourceSpans"][0];
        let name = json!({ "key": "service.name", "value": { "stringValue": "kauri" } });
        assert_eq!(resource["resource"]["attributes"][0], name);
        for span in resource["scopeSpans"][0]["spans"].as_array().expect("spans") {
            _ = heard.send(span.clone());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").expect("it is heard");
    }
}

fn next(spans: &Receiver<Json>) -> Json {
    spans.recv_timeout(Duration::from_mins(1)).expect("a span")
}

/// The value of an attribute, whatever its type; null where there is none.
fn attribute(span: &Json, key: &str) -> Json {
    let all = span["attributes"].as_array().expect("attributes");
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.and_then(|found| found["value"].as_object()?.values().next().cloned()).unwrap_or_default()
}

fn question(tokens: usize, is_stream: bool) -> Json {
    json!({
        "messages": [{ "role": "user", "content": "a secret" }], "max_tokens": tokens, "temperature": 0, "stream": is_stream,
        // The tokens with which kauri-nano ends.
        "logit_bias": { "8180": -100, "8182": -100 },
    })
}

#[test]
fn each_request_is_a_span() {
    let (address, spans) = collector();
    let mut server = Server::start(&["--trace-to", &address]);
    let said = server.request(
        "POST",
        CHAT,
        &[("traceparent", &format!("00-{TRACE}-{CALLER}-01")), ("tracestate", "a=b"), ("x-request-id", "mine")],
        &question(5, false).to_string(),
    );
    let (body, span) = (said.json(), next(&spans));
    assert_eq!((&span["name"], &span["kind"]), (&json!(format!("POST {CHAT}")), &json!(2)));
    assert_eq!((&span["traceId"], &span["parentSpanId"]), (&json!(TRACE), &json!(CALLER)));
    assert_eq!(span["traceState"], "a=b");
    assert!(span["spanId"].as_str().is_some_and(|id| id.len() == 16 && id != CALLER), "{span}");
    for (key, value) in [
        ("http.request.method", json!("POST")),
        ("http.route", json!(CHAT)),
        ("http.response.status_code", json!("200")),
        ("kauri.request_id", json!("mine")),
        ("gen_ai.response.model", json!("kauri-nano")),
        ("gen_ai.usage.input_tokens", json!(body["usage"]["prompt_tokens"].to_string())),
        ("gen_ai.usage.output_tokens", json!("5")),
        ("error.type", Json::Null),
    ] {
        assert_eq!(attribute(&span, key), value, "{key}: {span}");
    }
    let seconds = |key: &str| attribute(&span, key).as_f64().expect("seconds");
    let [queued, first] = ["time_in_queue", "time_to_first_token"].map(|key| seconds(&format!("gen_ai.latency.{key}")));
    let time = |key: &str| span[key].as_str().and_then(|time| time.parse::<u64>().ok()).expect("nanoseconds");
    let all = (time("endTimeUnixNano") - time("startTimeUnixNano")) as f64 / 1e9;
    assert!(0.0 < queued && queued < first && first < all, "{queued} {first} {all}");
    assert!(!span.to_string().contains("secret"), "{span}");

    // A stream, of a caller that says nothing, several answers together; and two that come to nothing.
    let mut several = question(4, true);
    several["n"] = json!(3);
    assert!(server.post(CHAT, &several).body.contains("[DONE]"));
    let span = next(&spans);
    assert!(span["traceId"].as_str().is_some_and(|id| id.len() == 32 && id != TRACE), "{span}");
    assert_eq!((&span["parentSpanId"], attribute(&span, "gen_ai.usage.output_tokens")), (&Json::Null, json!("12")));
    assert_eq!(server.post(CHAT, &json!({})).status, 400);
    let span = next(&spans);
    assert_eq!(attribute(&span, "http.response.status_code"), "400");
    assert_eq!(attribute(&span, "gen_ai.response.model"), Json::Null);
    assert_eq!(server.post("/nowhere", &json!({})).status, 404);
    assert_eq!(attribute(&next(&spans), "http.route"), "other");

    // One whose client hangs up; one that is not to be recorded; one that is not posted.
    let mut stream = server.connect();
    stream.write_all(server.text("POST", CHAT, &[], &question(1900, true).to_string()).as_bytes()).expect("sent");
    stream.read_exact(&mut [0; 100]).expect("it begins");
    drop(stream);
    assert_eq!(attribute(&next(&spans), "error.type"), "client_left");
    let unrecorded = format!("00-{TRACE}-{CALLER}-00");
    server.request("POST", CHAT, &[("traceparent", &unrecorded)], &question(1, false).to_string());
    server.get("/v1/models");
    // What is over when the server ends is sent before it does.
    server.ask(CHAT, &question(2, false));
    server.terminate();
    assert_eq!(server.wait(), Some(0));
    assert_eq!(attribute(&next(&spans), "gen_ai.usage.output_tokens"), "2");
    assert!(spans.try_recv().is_err(), "nothing else is sent");
}

#[test]
fn a_collector_that_is_away_is_in_nobodys_way() {
    // One takes connections and never answers, the other is not there.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().expect("an address"));
    let nobody = address(&TcpListener::bind("127.0.0.1:0").expect("a free port"));
    for url in [address(&silent), nobody] {
        let mut server = Server::start(&["--trace-to", &url]);
        for _ in 0..20 {
            assert_eq!(server.ask(CHAT, &question(3, false))["usage"]["completion_tokens"], 3);
        }
        server.wait_for_word("takes no spans");
        let lost = server.get("/metrics").body;
        let lost = lost.lines().find_map(|line| line.strip_prefix("kauri_trace_spans_lost_total "));
        assert!(lost.is_some_and(|lost| lost != "0"), "{lost:?}");
        server.ask(CHAT, &question(3, false));
        server.terminate();
        assert_eq!(server.wait(), Some(0), "it ends as ever");
    }
}

#[test]
fn what_is_no_collector_is_refused() {
    for address in ["127.0.0.1:4318", "ftp://a/", "grpc://127.0.0.1:4317"] {
        kauri::kauri(&["serve", "--trace-to", address], b"").refused(address, "http://127.0.0.1:4318");
    }
}
