//! `kauri serve` under load: who does not read and who sends slowly is in nobody's way, and many streams at once are each what they are alone.

mod kauri;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use kauri::server::Server;
use serde_json::{Value as Json, json};
use socket2::{Domain, Socket, Type};

const CHAT: &str = "/v1/chat/completions";
/// What the system takes for a client that does not read.
const RECEIVED_BYTES: usize = 64 << 10;

fn story(seed: usize, tokens: usize, is_stream: bool) -> Json {
    json!({
        "messages": [{ "role": "user", "content": format!("Tell me story number {seed}.") }],
        "temperature": 1, "seed": seed, "max_tokens": tokens, "stream": is_stream,
    })
}

/// A story that does not end before its time.
fn endless(seed: usize, tokens: usize) -> Json {
    let mut body = story(seed, tokens, true);
    // The tokens with which kauri-nano ends.
    body["logit_bias"] = json!({ "8180": -100, "8182": -100 });
    body
}

/// What a client heard of an answer that is streamed.
struct Heard {
    text: String,
    /// Until the first piece.
    first: Duration,
    /// Between any two pieces.
    gaps: Vec<Duration>,
}

/// A story that is streamed, to its end.
fn listen(server: &Server, body: &Json) -> Heard {
    let start = Instant::now();
    let mut stream = server.connect();
    stream.write_all(server.text("POST", CHAT, &[], &body.to_string()).as_bytes()).expect("sent");
    let (mut all, mut piece, mut times) = (Vec::new(), [0; 16 << 10], Vec::new());
    loop {
        let read = match stream.read(&mut piece) {
            // Who is stopped for a while reads on.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.expect("more"),
        };
        if read == 0 {
            break;
        }
        all.extend_from_slice(&piece[..read]);
        // The head and the role come before anything is written.
        if String::from_utf8_lossy(&all).matches("\n\ndata: ").count() > 0 {
            times.push(Instant::now());
        }
    }
    let all = String::from_utf8(all).expect("UTF-8");
    assert!(all.trim_end().ends_with("data: [DONE]"), "{all}");
    let events = all.split("\n\n").filter_map(|event| event.split_once("data: {").map(|(_, rest)| format!("{{{rest}")));
    let text = events.filter_map(|event| {
        let event: Json = serde_json::from_str(&event).expect("JSON");
        event["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
    });
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    Heard { text: text.collect(), first: times[0] - start, gaps }
}

/// A connection that comes from an address of this machine other than the usual one.
fn connect_from(server: &Server, address: [u8; 4]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    // A size of its own stays: else the system lets what nobody reads grow to megabytes, where it comes slowly.
    socket.set_recv_buffer_size(RECEIVED_BYTES).expect("a size");
    socket.bind(&SocketAddr::from((address, 0)).into()).expect("an address of this machine");
    let to: SocketAddr = server.address.parse().expect("an address");
    socket.connect(&to.into()).expect("it listens");
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(Duration::from_mins(2))).expect("a time");
    stream
}

/// Connections that ask for answers of so many tokens and read none of them, and connections that never come to the end of a request.
fn nuisances(server: &Server, count: usize, tokens: usize, from: [u8; 4]) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for index in 0..count {
        let mut deaf = connect_from(server, from);
        let body = endless(index, tokens).to_string();
        deaf.write_all(server.text("POST", CHAT, &[], &body).as_bytes()).expect("sent");
        open.push(deaf);
        let mut slow = connect_from(server, from);
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
    let alone: Vec<String> = (0..4).map(|seed| listen(&server, &story(seed, 40, true)).text).collect();
    let mut open = nuisances(&server, 12, 300, [127, 0, 0, 1]);
    std::thread::scope(|scope| {
        let server = &server;
        let good: Vec<_> =
            (0..4).map(|seed| scope.spawn(move || listen(server, &story(seed, 40, true)).text)).collect();
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

/// Rounds in which the program may come to what it takes: what each thread set aside of memory for many is touched little by little.
const WARM_UP_ROUNDS: usize = 12;
const MEASURED: Duration = Duration::from_mins(2);

/// `cargo test --workspace --test serve_load -- --ignored --nocapture many_streams`
#[test]
#[ignore = "three minutes of load and more"]
fn many_streams_at_once_are_each_what_they_are_alone() {
    const STREAMS: usize = 256;
    let server =
        Server::start(&["--sequences", "256", "--waiting", "512", "--threads", "2", "--cache-tokens", "65536"]);
    let alone: Vec<String> = (0..STREAMS).map(|seed| listen(&server, &story(seed, 64, true)).text).collect();
    let start = Instant::now();
    let (mut rounds, mut curve, mut warm) = (0, Vec::new(), None);
    while warm.is_none_or(|(since, _): (Instant, u64)| since.elapsed() < MEASURED) {
        std::thread::scope(|scope| {
            let server = &server;
            let all: Vec<_> =
                (0..STREAMS).map(|seed| scope.spawn(move || listen(server, &story(seed, 64, true)).text)).collect();
            for (seed, one) in all.into_iter().enumerate() {
                let text =
                    one.join().unwrap_or_else(|_| panic!("story {seed} in round {rounds} got no answer, see above"));
                assert_eq!(text, alone[seed], "story {seed} in round {rounds}");
            }
        });
        rounds += 1;
        let bytes = memory_bytes(&server);
        curve.push((start.elapsed(), bytes));
        if rounds == WARM_UP_ROUNDS {
            warm = Some((Instant::now(), bytes));
        }
    }
    println!("{rounds} rounds of {STREAMS} streams; memory behind each:");
    curve.iter().for_each(|(time, bytes)| println!("{:6.1} s {:7.1} MB", time.as_secs_f64(), *bytes as f64 / 1e6));
    let warm = warm.expect("it is over behind the warm-up").1;
    let most = curve[WARM_UP_ROUNDS - 1..].iter().map(|&(_, bytes)| bytes).max().expect("there is one");
    assert!(most as f64 <= warm as f64 * 1.05, "memory grows from {warm} to {most} bytes: {curve:?}");
}

/// A gauge or counter without labels, or with those of the one model.
fn gauge(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").body;
    let line =
        text.lines().find(|line| line.split([' ', '{']).next() == Some(name)).unwrap_or_else(|| panic!("{text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn who_does_not_read_holds_no_place_and_hears_everything_when_they_do() {
    let server = Server::start(&["--sequences", "2"]);
    // As one that reads hears it.
    let body = endless(1, 1500);
    let alone = listen(&server, &body).text;
    let mut deaf: Vec<TcpStream> = Vec::new();
    for _ in 0..2 {
        let mut stream = connect_from(&server, [127, 0, 0, 1]);
        stream.write_all(server.text("POST", CHAT, &[], &body.to_string()).as_bytes()).expect("sent");
        deaf.push(stream);
    }
    let start = Instant::now();
    while gauge(&server, "kauri_requests_parked") < 2 {
        assert!(start.elapsed() < Duration::from_mins(1), "they keep their places:\n{}", server.get("/metrics").body);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(gauge(&server, "kauri_requests_running"), 0);
    assert_eq!(gauge(&server, "kauri_cache_pages_used"), 0, "nor pages");
    // Others are answered meanwhile, at once.
    assert!(!listen(&server, &story(0, 4, true)).text.is_empty());
    // One hangs up, and the other reads at last.
    deaf.pop();
    let mut all = String::new();
    deaf.pop().expect("the other").read_to_string(&mut all).expect("the rest");
    let events = all.split("\n\n").filter_map(|event| event.split_once("data: {").map(|(_, rest)| format!("{{{rest}")));
    let text: String = events
        .filter_map(|event| {
            let event: Json = serde_json::from_str(&event).expect("JSON");
            event["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
        })
        .collect();
    assert_eq!(text, alone, "nothing is lost or said twice");
    let start = Instant::now();
    while gauge(&server, "kauri_requests_parked") > 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "who is gone stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The places of all, sorted: the middle one, the one at 99 of 100, and the last.
fn ranks(mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort_unstable();
    [times.len() / 2, times.len() * 99 / 100, times.len() - 1].map(|place| times[place])
}

/// Sixteen good clients, and how long they waited: until the first piece, and between two.
fn good_clients(server: &Server, what: &str) -> [Duration; 3] {
    let heard: Vec<Heard> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..16).map(|seed| scope.spawn(move || listen(server, &endless(seed, 200)))).collect();
        all.into_iter().map(|one| one.join().expect("an answer")).collect()
    });
    let first = ranks(heard.iter().map(|heard| heard.first).collect());
    let gaps = ranks(heard.into_iter().flat_map(|heard| heard.gaps).collect());
    println!(
        "{what}: first piece p50 {:?}, longest {:?}; between pieces p50 {:?}, p99 {:?}, longest {:?}",
        first[0], first[2], gaps[0], gaps[1], gaps[2]
    );
    gaps
}

/// Waits until those that came have been taken in or refused: as many are there as a second ago.
fn settle(server: &Server) {
    let count = || {
        let states = ["parked", "waiting", "running"];
        states.iter().map(|state| gauge(server, &format!("kauri_requests_{state}"))).sum::<u64>()
    };
    let (mut before, mut since) = (count(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(50));
        let now = count();
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
}

/// Sixteen good clients alone, and beside a thousand connections that read nothing and a thousand that send slowly from an address.
fn good_clients_beside_a_thousand_bad_ones(from: [u8; 4], more: &[&str]) {
    let mut arguments = vec!["--threads", "2", "--receive-time", "600", "--send-time", "600"];
    arguments.extend(more);
    let server = Server::start(&arguments);
    good_clients(&server, "warming up");
    let alone = good_clients(&server, "alone");
    let open = nuisances(&server, 1000, 1900, from);
    let tell = |when: &str| {
        let [parked, waiting] = ["kauri_requests_parked", "kauri_requests_waiting"].map(|name| gauge(&server, name));
        println!("{when}: parked {parked}, waiting {waiting}");
    };
    // They come one after the other, and not while the good ones do.
    settle(&server);
    tell("before");
    let beside =
        good_clients(&server, &format!("beside 1000 that do not read and 1000 that send slowly, from {from:?}"));
    tell("afterwards");
    drop(open);
    println!("p99 between pieces grows {:.2} times", beside[1].as_secs_f64() / alone[1].as_secs_f64());
    assert!(beside[1] <= 2 * alone[1], "p99 between pieces was {:?} and is {:?}", alone[1], beside[1]);
}

/// `cargo test --workspace --test serve_load -- --ignored --nocapture good_clients_beside_bad_ones_from_elsewhere`
#[test]
#[ignore = "two thousand connections, and a machine that has nothing else to do"]
fn good_clients_beside_bad_ones_from_elsewhere() {
    good_clients_beside_a_thousand_bad_ones([127, 0, 0, 2], &[]);
}

/// As behind a proxy: nobody can tell the good ones from the bad ones before these do not read. The queue is to take all of them.
#[test]
#[ignore = "two thousand connections, and a machine that has nothing else to do"]
fn good_clients_beside_bad_ones_from_their_own_address() {
    good_clients_beside_a_thousand_bad_ones([127, 0, 0, 1], &["--waiting", "2000"]);
}

/// Nanoseconds that the threads of the network have had a processor, those that read requests included: they have one name.
fn network_ns(server: &Server) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.id())).expect("Linux");
    let of = |task: std::path::PathBuf| {
        let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        let spent = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        let spent = spent.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        if name.starts_with("kauri-network") { spent } else { 0 }
    };
    tasks.map(|task| of(task.expect("a thread").path())).sum()
}

/// Threads of the network are told apart from those of the engine by their names; what the kernel does for them is in it.
/// `cargo test -p kauri-cli --test serve_load -- --ignored --nocapture what_a_streamed`
#[test]
#[ignore = "a measurement"]
fn what_a_streamed_token_costs_the_server() {
    const TOKENS: usize = 500;
    for streams in [1, 16] {
        let count = streams.to_string();
        let server = Server::start(&["--threads", "1", "--sequences", &count, "--cache-tokens", "16384"]);
        listen(&server, &endless(0, 8));
        let before = network_ns(&server);
        std::thread::scope(|scope| {
            for seed in 0..streams {
                let server = &server;
                scope.spawn(move || listen(server, &endless(seed, TOKENS)));
            }
        });
        let spent = network_ns(&server) - before;
        let each_us = spent as f64 / 1e3 / (streams * TOKENS) as f64;
        println!("{streams} streams of {TOKENS} tokens: {each_us:.1} us of a processor for each token");
        assert!(each_us < 50.0, "{each_us} us");
    }
}
