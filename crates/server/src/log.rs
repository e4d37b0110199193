//! A line of each request on standard error, when its answer is over: as text for people, or as JSON for programs.
//!
//! What was said is never in it: no text of a request or an answer, and no key but its name.

use std::io::Write;
use std::time::{Duration, Instant};

use axum::body::Body;
use serde::Serialize;

use crate::watched::{Watch, watched};
use crate::wire::now;

/// What is written of each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Log {
    /// Nothing.
    #[default]
    Nothing,
    /// Words in a row.
    Text,
    /// An object a line.
    Json,
}

/// What is told of a request.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// When its answer was over.
    pub time: String,
    pub request_id: String,
    pub method: String,
    /// Without what stands behind a question mark.
    pub path: String,
    pub status: u16,
    /// The name of the key, or the address.
    pub caller: String,
    /// From the request's headers to the end of its answer.
    pub ms: f64,
    /// Of the answer's body.
    pub bytes: u64,
    /// Whether the answer was sent to its end.
    pub is_complete: bool,
}

impl Log {
    /// Watches an answer to its end.
    pub fn watch(self, body: Body, line: Line, came: Instant) -> Body {
        if self == Self::Nothing { body } else { watched(body, Writer { log: self, line, came }) }
    }

    fn text(self, line: &Line) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Json => serde_json::to_string(line).unwrap_or_default() + "\n",
            Self::Text => {
                let Line { time, request_id, method, path, status, caller, ms, bytes, is_complete } = line;
                let cut = if *is_complete { "" } else { " cut" };
                // What a client sent as a path may be anything that is visible; quoting keeps a line one line.
                format!("{time} {status} {method} {path:?} {caller} {ms:.1}ms {bytes}B {request_id}{cut}\n")
            }
        }
    }
}

/// Writes the line when it is dropped.
struct Writer {
    log: Log,
    line: Line,
    came: Instant,
}

impl Watch for Writer {
    fn sent(&mut self, bytes: u64) {
        self.line.bytes += bytes;
    }

    fn ended(&mut self) {
        self.line.is_complete = true;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.line.time = now();
        self.line.ms = rounded_ms(self.came.elapsed());
        // A line at once, so that lines of different threads do not mix; where nobody takes it, nobody wants it.
        _ = std::io::stderr().lock().write_all(self.log.text(&self.line).as_bytes());
    }
}

fn rounded_ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 1e2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line {
            time: "2026-01-02T03:04:05Z".to_owned(),
            request_id: "req-1".to_owned(),
            method: "POST".to_owned(),
            path: "/v1/models/a\nb".to_owned(),
            status: 200,
            caller: "alice".to_owned(),
            ms: 12.34,
            bytes: 7,
            is_complete: false,
        }
    }

    #[test]
    fn a_request_is_one_line() {
        assert_eq!(
            Log::Text.text(&line()),
            "2026-01-02T03:04:05Z 200 POST \"/v1/models/a\\nb\" alice 12.3ms 7B req-1 cut\n"
        );
        let json = Log::Json.text(&line());
        assert_eq!(json.matches('\n').count(), 1);
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((&read["path"], &read["is_complete"]), (&"/v1/models/a\nb".into(), &false.into()));
    }
}
