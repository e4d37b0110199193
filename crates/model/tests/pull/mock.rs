//! A hub and a registry on loopback, and all that may go wrong on the way to them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// What a server does to a request for a file.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// Nothing: what comes behind it in a list is for a later request.
    None,
    /// Sends so many bytes of the body and hangs up.
    Cut(usize),
    /// Answers with this status and, perhaps, `Retry-After`.
    Status(u16, Option<u32>),
    /// Sends more than it was asked for.
    Longer,
    /// Says that it sends more, and does.
    Announces(u64),
    /// Sends parts of something else.
    OtherPart,
}

/// What a server was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub headers: HashMap<String, String>,
    pub at: std::time::Instant,
}

impl Asked {
    pub fn token(&self) -> Option<&str> {
        self.headers.get("authorization").map(String::as_str)
    }
}

#[derive(Default)]
pub struct State {
    /// Texts and files by their path.
    pub files: HashMap<String, Vec<u8>>,
    /// Redirects by their path.
    pub redirects: HashMap<String, String>,
    /// What becomes of the next requests for files, in order.
    pub troubles: Vec<Trouble>,
    /// What becomes of every request.
    pub always: Option<Trouble>,
    /// Paths that want this token.
    pub wanted: Option<(String, String)>,
    /// What is said to who has none.
    pub challenge: Option<String>,
    /// Whether parts are given.
    pub gives_no_parts: bool,
    pub asked: Vec<Asked>,
}

/// A server that ends with the test.
pub struct Server {
    pub base: String,
    pub state: Arc<Mutex<State>>,
    /// Bytes of files that were sent.
    pub sent: Arc<AtomicU64>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (state, sent) = (Arc::new(Mutex::new(State::default())), Arc::new(AtomicU64::new(0)));
        let server = Self { base, state: Arc::clone(&state), sent: Arc::clone(&sent) };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, sent) = (Arc::clone(&state), Arc::clone(&sent));
                thread::spawn(move || while answer(&stream, &state, &sent).is_some() {});
            }
        });
        server
    }

    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.state.lock().unwrap().files.insert(path.to_owned(), bytes.into());
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }

    pub fn trouble(&self, troubles: &[Trouble]) {
        self.state.lock().unwrap().troubles = troubles.to_vec();
    }

    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }
}

/// Answers one request; nothing when the connection is over.
fn answer(stream: &TcpStream, state: &Mutex<State>, sent: &AtomicU64) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut state = state.lock().unwrap();
    let asked = Asked { path: path.clone(), headers, at: std::time::Instant::now() };
    state.asked.push(asked.clone());
    let mut stream = stream;
    if let Some((start, token)) = &state.wanted
        && path.starts_with(start)
        && asked.token() != Some(&format!("Bearer {token}"))
    {
        let challenge = state.challenge.as_ref().map_or(String::new(), |text| format!("WWW-Authenticate: {text}\r\n"));
        return write!(stream, "HTTP/1.1 401 No\r\n{challenge}Content-Length: 0\r\n\r\n").ok();
    }
    if let Some(target) = state.redirects.get(path.split('?').next()?) {
        return write!(stream, "HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n").ok();
    }
    let is_file = !path.contains("/api/") && !path.contains("/manifests/") && !path.contains("/token");
    let trouble =
        state.always.clone().or_else(|| (is_file && !state.troubles.is_empty()).then(|| state.troubles.remove(0)));
    if let Some(Trouble::Status(status, wait)) = trouble {
        let wait = wait.map_or(String::new(), |wait| format!("Retry-After: {wait}\r\n"));
        return write!(stream, "HTTP/1.1 {status} No\r\n{wait}Content-Length: 0\r\n\r\n").ok();
    }
    let Some(bytes) = state.files.get(path.split('?').next()?).cloned() else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").ok();
    };
    let gives_parts = !state.gives_no_parts;
    drop(state);
    send(stream, &asked, &bytes, trouble.as_ref(), gives_parts, sent)
}

fn send(
    mut stream: &TcpStream,
    asked: &Asked,
    bytes: &[u8],
    trouble: Option<&Trouble>,
    gives_parts: bool,
    sent: &AtomicU64,
) -> Option<()> {
    let range = asked.headers.get("range").filter(|_| gives_parts).and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (first < bytes.len()).then(|| first..(last + 1).min(bytes.len()))
    });
    let mut head = String::from(if range.is_some() { "HTTP/1.1 206 Part\r\n" } else { "HTTP/1.1 200 OK\r\n" });
    let shift = usize::from(matches!(trouble, Some(Trouble::OtherPart)));
    if let Some(range) = &range {
        write!(head, "Content-Range: bytes {}-{}/{}\r\n", range.start + shift, range.end - 1 + shift, bytes.len())
            .ok()?;
    }
    let mut body = range.map_or(bytes, |range| &bytes[range]).to_vec();
    let mut most = body.len();
    match trouble {
        Some(Trouble::Cut(count)) => {
            write!(head, "Content-Length: {}\r\n", body.len()).ok()?;
            most = (*count).min(body.len().saturating_sub(1));
        }
        // Without a length, the end of the connection is the end of the body.
        Some(Trouble::Longer) => {
            body.extend(b"and more");
            most = body.len();
            head.push_str("Connection: close\r\n");
        }
        Some(Trouble::Announces(more)) => {
            body.extend(vec![0; *more as usize]);
            most = body.len();
            write!(head, "Content-Length: {most}\r\n").ok()?;
        }
        Some(Trouble::None | Trouble::Status(..) | Trouble::OtherPart) | None => {
            write!(head, "Content-Length: {}\r\n", body.len()).ok()?;
        }
    }
    stream.write_all(format!("{head}ETag: \"one\"\r\n\r\n").as_bytes()).ok()?;
    let written = stream.write_all(&body[..most]);
    sent.fetch_add(most as u64, Ordering::SeqCst);
    let is_over = written.is_err() || matches!(trouble, Some(Trouble::Cut(_) | Trouble::Longer));
    if is_over {
        let _ = stream.shutdown(std::net::Shutdown::Both);
        return None;
    }
    Some(())
}
