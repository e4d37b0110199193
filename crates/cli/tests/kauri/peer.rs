//! A tiny server that speaks OpenAI's protocol as servers do, well or badly: the other side of `kauri bench serve --url`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

/// What a server is like.
#[derive(Clone, Default)]
pub struct Habits {
    /// What it takes.
    pub takes: Takes,
    /// Fields that are refused.
    pub refuses: Vec<&'static str>,
    /// Tokens in an event.
    pub tokens_an_event: u64,
    /// Milliseconds before each event.
    pub event_ms: u64,
    /// Tells how many tokens there were, and how many of the prompt were known.
    pub counts: bool,
    /// Has no list of models.
    pub is_silent: bool,
    /// The key that it asks for.
    pub key: Option<&'static str>,
    /// What becomes of the requests after those that find out how to ask, in turn.
    pub fates: Vec<Fate>,
}

/// What a server takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takes {
    /// Everything.
    #[default]
    All,
    /// No prompts that are ids.
    Text,
    /// No plain completions.
    Chats,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is answered.
    Good,
    /// 500 and a message.
    Error,
    /// The connection ends in the middle of a chunk.
    Cut,
    /// The stream ends in order, without its last event.
    Half,
    /// After an event nothing comes any more.
    Stalled,
    /// An event is no JSON.
    Garbled,
    /// An event says that something is wrong.
    Told,
    /// A page of HTML.
    Page,
    /// A line without end.
    Endless,
    /// Not even a head.
    Silent,
}

/// A running server; it ends with the test's process.
pub struct Server {
    pub url: String,
    /// What it was asked, all of it.
    pub asked: Arc<Mutex<Vec<Json>>>,
}

struct State {
    habits: Habits,
    asked: Arc<Mutex<Vec<Json>>>,
    answered: AtomicUsize,
}

impl Server {
    /// Starts a server on a free port.
    pub fn start(habits: Habits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::default();
        let state = Arc::new(State { habits, asked: Arc::clone(&asked), answered: AtomicUsize::new(0) });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                // Whoever hangs up is not this side's business.
                thread::spawn(move || drop(state.answer(stream)));
            }
        });
        Self { url, asked }
    }

    /// What was asked to be answered in more tokens than a trial is.
    pub fn measured(&self) -> Vec<Json> {
        let asked = self.asked.lock().expect("whole");
        asked.iter().filter(|body| body["max_tokens"].as_u64() > Some(2)).cloned().collect()
    }
}

impl State {
    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?);
        let mut first = String::new();
        lines.read_line(&mut first)?;
        let (mut length, mut key) = (0, None);
        loop {
            let mut line = String::new();
            lines.read_line(&mut line)?;
            let line = line.trim().to_owned();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or((&line, ""));
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap_or(0),
                "authorization" => key = value.strip_prefix("Bearer ").map(str::to_owned),
                _ => {}
            }
        }
        if self.habits.key.is_some() && key.as_deref() != self.habits.key {
            return say(stream, "401 Unauthorized", r#"{"error":{"message":"no key"}}"#);
        }
        if first.starts_with("GET /v1/models ") && !self.habits.is_silent {
            return say(stream, "200 OK", r#"{"data":[{"id":"tiny","meta":{"n_vocab":512}}]}"#);
        }
        let is_chat = first.starts_with("POST /v1/chat/completions ");
        if !is_chat && (!first.starts_with("POST /v1/completions ") || self.habits.takes == Takes::Chats) {
            return say(stream, "404 Not Found", "<html>not here</html>");
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body)?;
        let body: Json = serde_json::from_slice(&body).expect("JSON");
        let refused = self.habits.refuses.iter().find(|name| !body[**name].is_null());
        if self.habits.takes == Takes::Text && body["prompt"].is_array() || refused.is_some() {
            let error = format!(r#"{{"error":{{"message":"{} is not known"}}}}"#, refused.unwrap_or(&"prompt"));
            return say(stream, "400 Bad Request", &error);
        }
        let is_trial = body["max_tokens"] == 2;
        self.asked.lock().expect("whole").push(body.clone());
        let fates = &self.habits.fates;
        let fate = if is_trial || fates.is_empty() {
            Fate::Good
        } else {
            fates[self.answered.fetch_add(1, Ordering::Relaxed) % fates.len()]
        };
        match fate {
            Fate::Error => say(stream, "500 Internal Server Error", r#"{"error":{"message":"out of luck"}}"#),
            Fate::Page => say(stream, "200 OK", "<html>welcome</html>"),
            Fate::Silent => {
                thread::sleep(Duration::from_secs(30));
                Ok(())
            }
            fate => self.write(&mut stream, &body, is_chat, fate),
        }
    }

    /// Streams an answer in chunks of the transfer, to its end or to that of `fate`.
    fn write(&self, stream: &mut TcpStream, body: &Json, is_chat: bool, fate: Fate) -> std::io::Result<()> {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes())?;
        if is_chat {
            event(stream, &json!({ "delta": { "role": "assistant", "content": null }, "finish_reason": null }))?;
        }
        let tokens = body["max_tokens"].as_u64().expect("a number");
        for _ in 0..tokens.div_ceil(self.habits.tokens_an_event.max(1)) {
            thread::sleep(Duration::from_millis(self.habits.event_ms));
            event(
                stream,
                &if is_chat {
                    json!({ "delta": { "content": "a" }, "finish_reason": null })
                } else {
                    json!({ "text": "a", "finish_reason": null })
                },
            )?;
            match fate {
                Fate::Good => {}
                Fate::Half => {
                    chunk(stream, "")?;
                    return stream.shutdown(Shutdown::Write);
                }
                Fate::Cut => {
                    stream.write_all(b"40\r\ndata: {\"choices\":[{")?;
                    return stream.shutdown(Shutdown::Both);
                }
                Fate::Stalled => {
                    thread::sleep(Duration::from_secs(30));
                    return Ok(());
                }
                Fate::Garbled => chunk(stream, "data: {\"choices\":[{\n\n")?,
                Fate::Told => chunk(stream, "data: {\"error\":{\"message\":\"the cache is on fire\"}}\n\n")?,
                Fate::Endless => loop {
                    chunk(stream, &"data: x".repeat(4096))?;
                },
                Fate::Error | Fate::Page | Fate::Silent => unreachable!("they have no stream"),
            }
        }
        event(
            stream,
            &if is_chat {
                json!({ "delta": {}, "finish_reason": "length" })
            } else {
                json!({ "text": "", "finish_reason": "length" })
            },
        )?;
        if self.habits.counts && !body["stream_options"].is_null() {
            let prompt = body["prompt"].as_array().map_or(100, Vec::len);
            let details = json!({ "cached_tokens": prompt / 2 });
            let usage =
                json!({ "prompt_tokens": prompt, "completion_tokens": tokens, "prompt_tokens_details": details });
            chunk(stream, &format!("data: {}\n\n", json!({ "choices": [], "usage": usage })))?;
        }
        chunk(stream, ": the end is near\n\ndata: [DONE]\n\n")?;
        chunk(stream, "")
    }
}

/// An event with a part of the answer.
fn event(stream: &mut TcpStream, choice: &Json) -> std::io::Result<()> {
    chunk(stream, &format!("data: {}\n\n", json!({ "choices": [choice] })))
}

/// A chunk of the transfer; the empty one is the last.
fn chunk(stream: &mut TcpStream, data: &str) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n{data}\r\n", data.len()).as_bytes())
}

/// A short answer.
fn say(mut stream: TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let kind = if body.starts_with('{') { "application/json" } else { "text/html" };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes())
}
