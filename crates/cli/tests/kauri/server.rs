//! A running `kauri serve`, and the plainest of clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

/// A server, until it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens, as `127.0.0.1:PORT`.
    pub address: String,
    /// What it wrote on standard error since it listens.
    words: Arc<Mutex<String>>,
}

/// What it said.
#[derive(Debug)]
pub struct Said {
    /// The status.
    pub status: u16,
    /// The headers, as they came but in small letters.
    pub headers: String,
    /// The body.
    pub body: String,
}

impl Server {
    /// Starts `kauri serve` with a port of its own and waits until it listens.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_as(arguments, |_| ())
    }

    /// The same for somebody whose environment is as `set` leaves it.
    pub fn start_as(arguments: &[&str], set: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kauri"));
        command
            .args(["serve", "--port", "0"])
            .args(if arguments.contains(&"--threads") { &[][..] } else { &["--threads", "1"] })
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        set(&mut command);
        let mut child = command.spawn().expect("the binary runs");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.unwrap_or_else(|| panic!("it says {line:?}")).to_owned();
        // What else it may say is not to fill the pipe.
        let words: Arc<Mutex<String>> = Arc::default();
        let heard = Arc::clone(&words);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut heard = heard.lock().expect("whole");
                heard.push_str(&line);
                heard.push('\n');
            }
        });
        Self { child, address, words }
    }

    /// Waits until it has written something with `part` in it on standard error; the line.
    pub fn wait_for_word(&self, part: &str) -> String {
        let start = Instant::now();
        loop {
            let words = self.words.lock().expect("whole").clone();
            if let Some(line) = words.lines().find(|line| line.contains(part)) {
                return line.to_owned();
            }
            assert!(start.elapsed() < Duration::from_mins(1), "it does not say {part:?}:\n{words}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A connection to it.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_mins(2))).expect("a time");
        stream
    }

    /// Sends a request as it is written here, with these headers, and reads to the end.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Said {
        let mut stream = self.connect();
        stream.write_all(self.text(method, path, headers, body).as_bytes()).expect("sent");
        let mut text = Vec::new();
        stream.read_to_end(&mut text).expect("an answer");
        Said::read(&String::from_utf8(text).expect("UTF-8"))
    }

    /// A request; in the old version of the protocol the answer ends with the connection.
    pub fn text(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut text = format!("{method} {path} HTTP/1.0\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            text.extend(["host: ", &self.address, "\r\n"]);
        }
        for (name, value) in headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text + "\r\n" + body
    }

    /// Posts JSON.
    pub fn post(&self, path: &str, body: &Json) -> Said {
        self.request("POST", path, &[("content-type", "application/json")], &body.to_string())
    }

    /// Posts JSON that must be answered.
    pub fn ask(&self, path: &str, body: &Json) -> Json {
        let said = self.post(path, body);
        assert_eq!(said.status, 200, "{body}: {}", said.body);
        said.json()
    }

    /// Gets a path.
    pub fn get(&self, path: &str) -> Said {
        self.request("GET", path, &[], "")
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to end, as the system does.
    pub fn terminate(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
    }

    /// Waits for its end: the exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let (first, headers) = head.split_once("\r\n").unwrap_or((head, ""));
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, headers: headers.to_ascii_lowercase(), body: body.to_owned() }
    }

    /// The body as JSON.
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The data of server-sent events; the last must be `[DONE]`.
    pub fn events(&self) -> Vec<Json> {
        assert!(self.headers.contains("content-type: text/event-stream"), "{}", self.headers);
        let data = self.body.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
        let mut data: Vec<&str> = data.map(|event| event.strip_prefix("data: ").expect("data")).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{}", self.body);
        data.into_iter().map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }
}
