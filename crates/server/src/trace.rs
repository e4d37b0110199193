//! Spans of requests for an OpenTelemetry collector: OTLP over HTTP, in its JSON form (`ExportTraceServiceRequest` of opentelemetry-proto).
//!
//! A request that is posted is a span from its headers to the end of its answer, below the span that the caller's `traceparent` names. A
//! thread of its own sends them, many at a time. A collector that is slow or away costs spans and nothing else: whoever ends a request
//! never waits, and spans that find no room are counted and dropped. Knows no engine and no dialect; no word of what was said is in a
//! span.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Uri};
use kauri_engine::{Done, Notice};
use serde_json::{Value as Json, json};

use crate::metrics::Metrics;
use crate::watched::{Watch, watched};

/// Spans that wait for the collector; more are dropped.
const WAITING_MAX: usize = 2048;
/// Most spans that are sent at a time.
const BATCH_MAX: usize = 512;
/// How long spans are gathered before they are sent.
const GATHER_TIME: Duration = Duration::from_secs(1);
/// How long the collector may take to take them.
const SEND_TIME_MAX: Duration = Duration::from_secs(3);
/// How long the last ones may take when the server ends.
const END_TIME_MAX: Duration = Duration::from_secs(4);
/// The longest `tracestate` that is passed on, as the recommendation has it.
const STATE_BYTES_MAX: usize = 512;

/// Where spans are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector(Uri);

impl Collector {
    /// From a collector's address; where it has no path, spans go to `/v1/traces`.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: an address of a collector is like http://127.0.0.1:4318");
        let address: Uri = text.parse().map_err(|_| wrong())?;
        let is_web = matches!(address.scheme_str(), Some("http" | "https")) && address.authority().is_some();
        if !is_web {
            return Err(wrong());
        }
        if address.path() != "/" {
            return Ok(Self(address));
        }
        format!("{}/v1/traces", text.trim_end_matches('/')).parse().map(Self).map_err(|_| wrong())
    }
}

/// Has spans sent when they are over.
pub struct Tracer {
    queue: SyncSender<Message>,
    metrics: Arc<Metrics>,
}

enum Message {
    Span(Box<Json>),
    /// Everything before this is to be sent now, and then it is to be said.
    End(SyncSender<()>),
}

/// A request that is being answered; its copies are the same.
#[derive(Clone, Debug)]
pub struct Span(Arc<Mutex<Facts>>);

/// What is told of a request.
#[derive(Debug)]
struct Facts {
    trace: String,
    id: String,
    parent: Option<Parent>,
    name: String,
    request_id: String,
    came: SystemTime,
    start: Instant,
    status: u16,
    is_complete: bool,
    has_failed: bool,
    answers: Option<Told>,
}

/// What is told of answers to a request, all together.
#[derive(Debug)]
struct Told {
    model: String,
    prompt_tokens: usize,
    cached_tokens: usize,
    output_tokens: usize,
    queued: Duration,
    time_to_first_token: Duration,
}

/// What a caller says of itself (W3C Trace Context, level 1).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    trace: String,
    span: String,
    is_recorded: bool,
    state: String,
}

impl Tracer {
    /// Starts the thread that sends. What becomes of the collector is said to `notice`, each time that it changes.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub fn start(collector: Collector, metrics: Arc<Metrics>, notice: Notice) -> std::io::Result<Self> {
        let (queue, spans) = sync_channel(WAITING_MAX);
        let exporter = Exporter { collector, metrics: Arc::clone(&metrics), notice, lost: None };
        thread::Builder::new().name("kauri-traces".to_owned()).spawn(move || exporter.run(&spans))?;
        Ok(Self { queue, metrics })
    }

    /// Ends a span with the body of the response.
    pub fn until_end_of(&self, span: Span, status: u16, body: Body) -> Body {
        span.facts().status = status;
        watched(body, Ending { span, queue: self.queue.clone(), metrics: Arc::clone(&self.metrics) })
    }

    /// Sees that what is over is sent, as far as the collector takes it in time.
    pub fn finish(&self) {
        let start = Instant::now();
        let (done, finished) = sync_channel(1);
        let mut message = Message::End(done);
        while let Err(TrySendError::Full(back)) = self.queue.try_send(message) {
            if start.elapsed() > END_TIME_MAX {
                return;
            }
            message = back;
            thread::sleep(Duration::from_millis(10));
        }
        _ = finished.recv_timeout(END_TIME_MAX.saturating_sub(start.elapsed()));
    }
}

impl Span {
    /// A request begins; nothing where its caller says that its trace is not recorded.
    pub fn begin(headers: &HeaderMap, name: String, request_id: String) -> Option<Self> {
        let parent = Parent::of(headers);
        if parent.as_ref().is_some_and(|parent| !parent.is_recorded) {
            return None;
        }
        let trace = parent.as_ref().map_or_else(|| random_digits() + &random_digits(), |parent| parent.trace.clone());
        Some(Self(Arc::new(Mutex::new(Facts {
            trace,
            id: random_digits(),
            parent,
            name,
            request_id,
            came: SystemTime::now(),
            start: Instant::now(),
            status: 0,
            is_complete: false,
            has_failed: false,
            answers: None,
        }))))
    }

    /// One of its answers is over, by this model.
    pub fn answered(&self, model: &str, done: &Done) {
        let mut facts = self.facts();
        let told = facts.answers.get_or_insert_with(|| Told {
            model: model.to_owned(),
            prompt_tokens: 0,
            cached_tokens: 0,
            output_tokens: 0,
            queued: done.queued,
            time_to_first_token: done.time_to_first_token,
        });
        told.prompt_tokens += done.prompt_tokens;
        told.cached_tokens += done.cached_tokens;
        told.output_tokens += done.output_tokens;
        told.queued = told.queued.min(done.queued);
        told.time_to_first_token = told.time_to_first_token.min(done.time_to_first_token);
    }

    /// One of its answers failed.
    pub fn failed(&self) {
        self.facts().has_failed = true;
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands a span over when the body is let go of.
struct Ending {
    span: Span,
    queue: SyncSender<Message>,
    metrics: Arc<Metrics>,
}

impl Watch for Ending {
    fn ended(&mut self) {
        self.span.facts().is_complete = true;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let span = Box::new(self.span.facts().json());
        if self.queue.try_send(Message::Span(span)).is_err() {
            self.metrics.spans_lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Facts {
    /// A `Span` of the protocol.
    fn json(&self) -> Json {
        let end = self.came + self.start.elapsed();
        let mut attributes = vec![
            text("http.request.method", "POST"),
            text("http.route", self.name.split_once(' ').map_or("", |(_, route)| route)),
            count("http.response.status_code", u64::from(self.status)),
            text("kauri.request_id", &self.request_id),
        ];
        if let Some(told) = &self.answers {
            attributes.extend([
                text("gen_ai.response.model", &told.model),
                count("gen_ai.usage.input_tokens", told.prompt_tokens as u64),
                count("gen_ai.usage.cache_read.input_tokens", told.cached_tokens as u64),
                count("gen_ai.usage.output_tokens", told.output_tokens as u64),
                // By the names that another engine gave them: the conventions have none for spans.
                seconds("gen_ai.latency.time_in_queue", told.queued),
                seconds("gen_ai.latency.time_to_first_token", told.time_to_first_token),
            ]);
        }
        if !self.is_complete {
            attributes.push(text("error.type", "client_left"));
        } else if self.has_failed {
            attributes.push(text("error.type", "answer_failed"));
        } else if self.status >= 500 {
            attributes.push(text("error.type", &self.status.to_string()));
        }
        let is_fault = self.has_failed || self.status >= 500;
        let mut span = json!({
            "traceId": self.trace,
            "spanId": self.id,
            "name": self.name,
            // A server's.
            "kind": 2,
            "startTimeUnixNano": nanoseconds(self.came),
            "endTimeUnixNano": nanoseconds(end),
            "attributes": attributes,
            "status": if is_fault { json!({ "code": 2 }) } else { json!({}) },
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = parent.span.as_str().into();
            span["traceState"] = parent.state.as_str().into();
        }
        span
    }
}

fn attribute(key: &str, value: &Json) -> Json {
    json!({ "key": key, "value": value })
}

fn text(key: &str, value: &str) -> Json {
    attribute(key, &json!({ "stringValue": value }))
}

/// Whole numbers of 64 bits are text in the JSON of the protocol.
fn count(key: &str, value: u64) -> Json {
    attribute(key, &json!({ "intValue": value.to_string() }))
}

fn seconds(key: &str, time: Duration) -> Json {
    attribute(key, &json!({ "doubleValue": time.as_secs_f64() }))
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

/// Sixteen hexadecimal digits that nobody else has, and not all zero.
fn random_digits() -> String {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{:016x}", KEY.hash_one(NEXT.fetch_add(1, Ordering::Relaxed)).max(1))
}

impl Parent {
    /// What a request's headers say; nothing where they say nothing that makes sense.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut parent = Self::parse(headers.get("traceparent")?.to_str().ok()?)?;
        for state in headers.get_all("tracestate").iter().filter_map(|state: &HeaderValue| state.to_str().ok()) {
            if !parent.state.is_empty() {
                parent.state.push(',');
            }
            parent.state.push_str(state);
        }
        if parent.state.len() > STATE_BYTES_MAX {
            parent.state.clear();
        }
        Some(parent)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '-');
        let digits = |part: Option<&str>, count: usize| {
            let part = part?;
            let is_hex = part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
            (part.len() == count && is_hex).then(|| part.to_owned())
        };
        let version = digits(parts.next(), 2)?;
        let (trace, span) = (digits(parts.next(), 32)?, digits(parts.next(), 16)?);
        let flags = digits(parts.next(), 2)?;
        // Later versions may say more; this one may not.
        let is_known = version != "ff" && (version != "00" || parts.next().is_none());
        let is_named = [&trace, &span].iter().all(|id| id.bytes().any(|digit| digit != b'0'));
        let is_recorded = u8::from_str_radix(&flags, 16).ok()? & 1 == 1;
        (is_known && is_named).then_some(Self { trace, span, is_recorded, state: String::new() })
    }
}

/// The thread's side.
struct Exporter {
    collector: Collector,
    metrics: Arc<Metrics>,
    notice: Notice,
    /// Spans that were lost since the collector does not take them.
    lost: Option<u64>,
}

impl Exporter {
    fn run(mut self, spans: &Receiver<Message>) {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("kauri/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(SEND_TIME_MAX));
        let agent: ureq::Agent = config.build().into();
        while let Ok(mut next) = spans.recv() {
            let (mut batch, mut ended) = (Vec::new(), None);
            let until = Instant::now() + GATHER_TIME;
            loop {
                match next {
                    Message::Span(span) => batch.push(*span),
                    Message::End(done) => ended = Some(done),
                }
                if ended.is_some() || batch.len() >= BATCH_MAX {
                    break;
                }
                next = match spans.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(message) => message,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                };
            }
            if !batch.is_empty() {
                self.send(&agent, &batch);
            }
            // Whoever asked may not wait any more.
            ended.into_iter().for_each(|done| _ = done.send(()));
        }
    }

    fn send(&mut self, agent: &ureq::Agent, batch: &[Json]) {
        let count = batch.len() as u64;
        let request = agent.post(self.collector.0.clone()).content_type("application/json");
        let failure = match request.send(export(batch).to_string()) {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answers {}", answer.status())),
            Err(error) => Some(error.to_string()),
        };
        let address = &self.collector.0;
        match (failure, self.lost) {
            (None, None) => {}
            (None, Some(lost)) => {
                (self.notice)(&format!("traces: {address} takes spans again; {lost} were dropped"));
                self.lost = None;
            }
            (Some(failure), lost) => {
                if lost.is_none() {
                    (self.notice)(&format!(
                        "traces: {address} takes no spans ({failure}); they are dropped until it does"
                    ));
                }
                self.metrics.spans_lost.fetch_add(count, Ordering::Relaxed);
                self.lost = Some(lost.unwrap_or(0) + count);
            }
        }
    }
}

/// What the collector is sent.
fn export(spans: &[Json]) -> Json {
    let version = env!("CARGO_PKG_VERSION");
    json!({ "resourceSpans": [{
        "resource": { "attributes": [text("service.name", "kauri"), text("service.version", version)] },
        "scopeSpans": [{ "scope": { "name": "kauri-server", "version": version }, "spans": spans }],
    }] })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const CALLER: &str = "00f067aa0ba902b7";

    #[test]
    fn a_caller_says_where_it_stands_or_nothing() {
        let parent = Parent::parse(&format!("00-{TRACE}-{CALLER}-01")).expect("as the recommendation has it");
        assert_eq!((&*parent.trace, &*parent.span, parent.is_recorded), (TRACE, CALLER, true));
        assert!(!Parent::parse(&format!("00-{TRACE}-{CALLER}-fe")).expect("other flags").is_recorded);
        assert!(Parent::parse(&format!("01-{TRACE}-{CALLER}-01-more")).is_some(), "a later version says more");
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("00-{TRACE}-{CALLER}"),
            format!("00-{TRACE}-{CALLER}-01-more"),
            format!("ff-{TRACE}-{CALLER}-01"),
            format!("00-{}-{CALLER}-01", TRACE.to_uppercase()),
            format!("00-{zeros}-{CALLER}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{TRACE}0-{CALLER}-01"),
            format!("00-{TRACE}-{CALLER}-+1"),
            "00-é".to_owned(),
        ] {
            assert_eq!(Parent::parse(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn addresses_of_collectors_are_addresses() {
        let parsed = |text: &str| Collector::parse(text).map(|collector| collector.0.to_string());
        assert_eq!(parsed("http://127.0.0.1:4318"), Ok("http://127.0.0.1:4318/v1/traces".to_owned()));
        assert_eq!(parsed("https://c.example/"), Ok("https://c.example/v1/traces".to_owned()));
        assert_eq!(parsed("https://c.example/otlp/x"), Ok("https://c.example/otlp/x".to_owned()));
        for wrong in ["", "127.0.0.1:4318", "ftp://a", "/v1/traces", "http://", "grpc://a:4317"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_ends_a_request_never_waits_for_the_collector() {
        let metrics = Arc::<Metrics>::default();
        // Nobody takes anything from the queue.
        let (queue, spans) = sync_channel(WAITING_MAX);
        let tracer = Tracer { queue, metrics: Arc::clone(&metrics) };
        for _ in 0..3 * WAITING_MAX {
            let span = Span::begin(&HeaderMap::new(), "POST /".to_owned(), "r".to_owned()).expect("it is recorded");
            drop(tracer.until_end_of(span, 200, Body::empty()));
        }
        assert_eq!(metrics.spans_lost.load(Ordering::Relaxed), 2 * WAITING_MAX as u64);
        assert_eq!(spans.try_iter().count(), WAITING_MAX);
    }

    #[test]
    fn what_is_not_to_be_recorded_is_not() {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", format!("00-{TRACE}-{CALLER}-00").parse().unwrap());
        assert!(Span::begin(&headers, String::new(), String::new()).is_none());
    }
}
