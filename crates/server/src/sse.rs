//! Answers as a stream: server-sent events, or a JSON object a line. What an event looks like is its dialect's affair.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use kauri_engine::Reply;
use serde::Serialize;
use tokio::time::{Instant, Sleep, sleep};

use crate::answers::Answers;
use crate::error::Problem;

/// How long nothing may be said: proxies and clients give up on connections that are silent.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// About how much is handed over at a time.
const FRAME_BYTES: usize = 16 << 10;

/// How a dialect writes an answer as it comes.
pub trait Dictation: Send + Unpin + 'static {
    /// What stands before everything.
    fn begin(&mut self, _out: &mut Page) {}
    /// Of answer number `choice` something is heard.
    fn hear(&mut self, choice: usize, reply: Reply, out: &mut Page);
    /// The answers ended before their time.
    fn fail(&mut self, problem: &Problem, out: &mut Page);
    /// What stands behind everything.
    fn end(&mut self, _out: &mut Page) {}
    /// Nothing was said for long.
    fn keep_alive(&mut self, _out: &mut Page) {}
}

/// What is written next.
#[derive(Debug, Default)]
pub struct Page(Vec<u8>);

impl Page {
    /// A server-sent event.
    pub fn event(&mut self, name: Option<&str>, data: &impl Serialize) {
        if let Some(name) = name {
            self.text("event: ");
            self.text(name);
            self.text("\n");
        }
        self.text("data: ");
        self.json(data);
        self.text("\n\n");
    }

    /// An object and a line end.
    pub fn line(&mut self, data: &impl Serialize) {
        self.json(data);
        self.text("\n");
    }

    pub fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is written, as it goes out; the page is empty again.
    pub fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.0))
    }

    fn json(&mut self, data: &impl Serialize) {
        serde_json::to_writer(&mut self.0, data).expect("what is told is JSON, and memory takes it");
    }
}

/// The kinds of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Events,
    Lines,
}

/// Answers as a response that goes on as they do.
pub fn stream(kind: Kind, answers: Answers, mut dictation: impl Dictation) -> Response {
    let mut page = Page::default();
    dictation.begin(&mut page);
    let silence = Box::pin(sleep(SILENCE_MAX));
    response(kind, Body::new(Stream { answers: Some(answers), dictation, page, silence }))
}

/// A response that goes on as its body does.
pub fn response(kind: Kind, body: Body) -> Response {
    let mut response = Response::new(body);
    let kind = match kind {
        Kind::Events => "text/event-stream",
        Kind::Lines => "application/x-ndjson",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that gather answers would hold a stream back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Stream<D> {
    /// Gone when all is said.
    answers: Option<Answers>,
    dictation: D,
    page: Page,
    silence: Pin<Box<Sleep>>,
}

impl<D: Dictation> http_body::Body for Stream<D> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        while let Some(answers) = this.answers.as_mut().filter(|_| this.page.0.len() < FRAME_BYTES) {
            match answers.poll_next(context) {
                Poll::Pending => break,
                Poll::Ready(Some((_, Reply::Failed(error)))) => {
                    this.dictation.fail(&error.into(), &mut this.page);
                    this.answers = None;
                }
                Poll::Ready(Some((choice, reply))) => this.dictation.hear(choice, reply, &mut this.page),
                Poll::Ready(None) => {
                    this.dictation.end(&mut this.page);
                    this.answers = None;
                }
            }
        }
        if this.page.is_empty() && this.answers.is_some() && this.silence.as_mut().poll(context).is_ready() {
            this.dictation.keep_alive(&mut this.page);
            this.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
            // The clock must be asked again to ring again.
            _ = this.silence.as_mut().poll(context);
        }
        if !this.page.is_empty() {
            this.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
            return Poll::Ready(Some(Ok(Frame::data(this.page.take()))));
        }
        if this.answers.is_none() { Poll::Ready(None) } else { Poll::Pending }
    }
}
