//! `kauri serve` under load: who does not read and who sends slowly is in nobody's way, and many streams at once are each what they are alone.

mod kauri;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use kauri::server::Server;
use serde_json::{Value as Json, json};

const CHAT: &str = "/v1/chat/completions";

fn story(seed: usize, tokens: usize, is_stream: bool) -> Json {
    json!({
        "messages": [{ "role": "user", "content": format!("Tell me story number {seed}.") }],
        "temperature": 1, "seed": seed, "max_tokens": tokens, "stream": is_stream,
    })
}

/// The text of a story that is streamed, and the longest time between two pieces of it.
fn listen(server: &Server, body: &Json) -> (String, Duration) {
    let mut stream = server.connect();
    stream.write_all(server.text("POST", CHAT, &[], &body.to_string()).as_bytes()).expect("sent");
    let (mut all, mut piece) = (Vec::new(), [0; 16 << 10]);
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        let read = stream.read(&mut piece).expect("more");
        longest = longest.max(last.elapsed());
        last = Instant::now();
        if read == 0 {
            break;
        }
        all.extend_from_slice(&piece[..read]);
    }
    let all = String::from_utf8(all).expect("UTF-8");
    assert!(all.trim_end().ends_with("data: [DONE]"), "{all}");
    let events = all.split("\n\n").filter_map(|event| event.split_once("data: {").map(|(_, rest)| format!("{{{rest}")));
    let text = events.filter_map(|event| {
        let event: Json = serde_json::from_str(&event).expect("JSON");
        event["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
    });
    (text.collect(), longest)
}

/// Connections that ask for long answers and read none of them, and connections that never come to the end of a request.
fn nuisances(server: &Server, count: usize) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for index in 0..count {
        let mut deaf = server.connect();
        let body = story(index, 300, true).to_string();
        deaf.write_all(server.text("POST", CHAT, &[], &body).as_bytes()).expect("sent");
        open.push(deaf);
        let mut slow = server.connect();
        let begun: &[u8] = match index % 3 {
            0 => b"POST /v1/chat/comp",
            1 => b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-a: b",
            _ => b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n{\"messages\": [",
        };
        slow.write_all(begun).expect("sent");
        open.push(slow);
    }
    open
}

#[test]
fn who_does_not_read_and_who_sends_slowly_is_in_nobodys_way() {
    let server = Server::start(&["--sequences", "8", "--receive-time", "2", "--send-time", "2", "--connections", "40"]);
    let alone: Vec<String> = (0..4).map(|seed| listen(&server, &story(seed, 40, true)).0).collect();
    let mut open = nuisances(&server, 12);
    std::thread::scope(|scope| {
        let server = &server;
        let good: Vec<_> = (0..4).map(|seed| scope.spawn(move || listen(server, &story(seed, 40, true)).0)).collect();
        for (seed, text) in good.into_iter().map(|good| good.join().expect("an answer")).enumerate() {
            assert_eq!(text, alone[seed], "story {seed}");
        }
    });
    // Who sends slowly is told, or cut off.
    for slow in open.iter_mut().skip(1).step_by(2) {
        let mut said = Vec::new();
        // Where what was sent is not read any more, the end of a connection is an error.
        let ended = slow.read_to_end(&mut said);
        assert!(!ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it is waited for without end");
        assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&said));
    }
    // More than there is room for are turned away, and room comes back.
    let crowd: Vec<TcpStream> = (0..60).map(|_| server.connect()).collect();
    let start = Instant::now();
    drop((crowd, open));
    while server.get("/health").status != 200 {
        assert!(start.elapsed() < Duration::from_secs(20), "no room comes back");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Bytes of memory that the server has.
fn memory_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    1024 * line.split_whitespace().nth(1).and_then(|count| count.parse::<u64>().ok()).expect("a number")
}

/// `cargo test -p kauri-cli --test serve_load -- --ignored --nocapture`
#[test]
#[ignore = "a minute of load"]
fn many_streams_at_once_are_each_what_they_are_alone() {
    const STREAMS: usize = 256;
    let server =
        Server::start(&["--sequences", "256", "--waiting", "512", "--threads", "2", "--cache-tokens", "65536"]);
    let alone: Vec<String> = (0..STREAMS).map(|seed| listen(&server, &story(seed, 64, true)).0).collect();
    let start = Instant::now();
    let (mut rounds, mut memory) = (0, Vec::new());
    while start.elapsed() < Duration::from_mins(1) {
        std::thread::scope(|scope| {
            let server = &server;
            let all: Vec<_> =
                (0..STREAMS).map(|seed| scope.spawn(move || listen(server, &story(seed, 64, true)).0)).collect();
            for (seed, text) in all.into_iter().map(|one| one.join().expect("an answer")).enumerate() {
                assert_eq!(text, alone[seed], "story {seed} in round {rounds}");
            }
        });
        rounds += 1;
        memory.push(memory_bytes(&server));
    }
    let (first, last) = (memory[memory.len() / 4], memory[memory.len() - 1]);
    println!("{rounds} rounds of {STREAMS} streams; memory {first} bytes after a quarter, {last} at the end");
    assert!(last as f64 <= first as f64 * 1.05, "{memory:?}");
}

/// Fails today: who does not read fills the queue, and a good client from the same address is sent away (`docs/log.md`).
/// `cargo test -p kauri-cli --test serve_load -- --ignored --nocapture`
#[test]
#[ignore = "hundreds of connections; a goal that is not reached"]
fn good_clients_beside_a_thousand_bad_ones() {
    let server = Server::start(&[
        "--sequences",
        "32",
        "--waiting",
        "64",
        "--threads",
        "2",
        "--receive-time",
        "600",
        "--send-time",
        "600",
    ]);
    let measure = |what: &str| {
        let mut longest: Vec<Duration> = std::thread::scope(|scope| {
            let server = &server;
            let all: Vec<_> =
                (0..16).map(|seed| scope.spawn(move || listen(server, &story(seed, 200, true)).1)).collect();
            all.into_iter().map(|one| one.join().expect("an answer")).collect()
        });
        longest.sort_unstable();
        println!("{what}: the longest pause of 16 good clients {:?}, of the median one {:?}", longest[15], longest[8]);
    };
    measure("alone");
    let open = nuisances(&server, 400);
    measure("beside 400 that do not read and 400 that send slowly");
    drop(open);
}
