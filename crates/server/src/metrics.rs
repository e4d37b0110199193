//! Counts and times, as Prometheus reads them (text exposition format 0.0.4).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kauri_engine::{Done, Status};

/// Upper ends of the ranges that times are counted in, in seconds.
const RANGES_S: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// What a server counts.
#[derive(Default)]
pub struct Metrics {
    /// By endpoint and status. Endpoints are those of the table, so that nobody can make them many.
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    prompt_tokens: AtomicU64,
    cached_tokens: AtomicU64,
    output_tokens: AtomicU64,
    queued: Times,
    first_token: Times,
    token: Times,
    /// Spans that no collector took.
    pub spans_lost: AtomicU64,
    /// Connections that are open.
    pub connections: Level,
}

/// What goes up and down.
#[derive(Default)]
pub struct Level(AtomicU64);

impl Level {
    pub fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A histogram of times.
#[derive(Default)]
struct Times {
    ranges: [AtomicU64; RANGES_S.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl Metrics {
    /// A request to an endpoint was answered so.
    pub fn answered(&self, endpoint: &str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = requests.get_mut(&(endpoint.to_owned(), status)) {
            *count += 1;
        } else {
            requests.insert((endpoint.to_owned(), status), 1);
        }
    }

    /// An answer is over.
    pub fn done(&self, done: &Done) {
        let add = |counter: &AtomicU64, count: usize| _ = counter.fetch_add(count as u64, Ordering::Relaxed);
        add(&self.prompt_tokens, done.prompt_tokens);
        add(&self.cached_tokens, done.cached_tokens);
        add(&self.output_tokens, done.output_tokens);
        if done.output_tokens > 0 {
            self.queued.add(done.queued);
            self.first_token.add(done.time_to_first_token);
        }
        if done.output_tokens > 1 {
            self.token.add(done.decode / (done.output_tokens as u32 - 1));
        }
    }

    /// All of it, with the tasks that there are, and how things stand with each model.
    pub fn text(&self, tasks: u64, models: &[(String, Status)]) -> String {
        let mut out = Text::default();
        out.head("kauri_requests_total", "counter", "Requests by endpoint and status.");
        for ((endpoint, status), count) in &*self.requests.lock().unwrap_or_else(PoisonError::into_inner) {
            out.value(&format!("kauri_requests_total{{endpoint=\"{endpoint}\",status=\"{status}\"}}"), count);
        }
        for (name, counter, what) in [
            ("kauri_prompt_tokens_total", &self.prompt_tokens, "Tokens of prompts of answers that are over."),
            ("kauri_prompt_cached_tokens_total", &self.cached_tokens, "Of those, how many were known."),
            ("kauri_output_tokens_total", &self.output_tokens, "Tokens of answers that are over."),
            ("kauri_trace_spans_lost_total", &self.spans_lost, "Spans of traces that the collector did not take."),
        ] {
            out.head(name, "counter", what);
            out.value(name, counter.load(Ordering::Relaxed));
        }
        self.queued.text(
            "kauri_time_in_queue_seconds",
            "From a request to the first step that reads of its prompt.",
            &mut out,
        );
        self.first_token.text(
            "kauri_time_to_first_token_seconds",
            "From a request to the first token of its answer.",
            &mut out,
        );
        self.token.text("kauri_time_per_output_token_seconds", "Between tokens, on average over an answer.", &mut out);
        for (name, value, what) in [
            ("kauri_connections", self.connections.0.load(Ordering::Relaxed), "Connections that are open."),
            ("kauri_tasks", tasks, "Tasks of the network's threads; at rest, one for each connection and few more."),
        ] {
            out.head(name, "gauge", what);
            out.value(name, value);
        }
        out.gauges(models);
        out.0
    }
}

impl Times {
    fn add(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        if let Some(range) = RANGES_S.iter().position(|&end| seconds <= end) {
            self.ranges[range].fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn text(&self, name: &str, what: &str, out: &mut Text) {
        out.head(name, "histogram", what);
        let mut so_far = 0;
        for (end, count) in RANGES_S.iter().zip(&self.ranges) {
            so_far += count.load(Ordering::Relaxed);
            out.value(&format!("{name}_bucket{{le=\"{end}\"}}"), so_far);
        }
        let count = self.count.load(Ordering::Relaxed);
        out.value(&format!("{name}_bucket{{le=\"+Inf\"}}"), count);
        out.value(&format!("{name}_sum"), self.sum_us.load(Ordering::Relaxed) as f64 / 1e6);
        out.value(&format!("{name}_count"), count);
    }
}

#[derive(Default)]
struct Text(String);

/// A gauge of a model: its name, what it says, and its value.
type Gauge = (&'static str, &'static str, fn(&Status) -> f64);

/// The last three are what gateways for inference look at by default, by the name that one engine gave them.
const GAUGES: [Gauge; 11] = [
    ("kauri_requests_waiting", "Requests that wait.", |status| f64::from(status.waiting)),
    ("kauri_requests_running", "Answers that are being written.", |status| f64::from(status.running)),
    ("kauri_requests_parked", "Answers that wait for their clients to take what was written.", |status| {
        f64::from(status.parked)
    }),
    ("kauri_cache_used_ratio", "Share of the cache that running requests hold.", used),
    ("kauri_cache_pages_free", "Pages of the cache that hold nothing.", |status| f64::from(status.pages_free)),
    ("kauri_cache_pages_cached", "Pages that are known and that nobody uses.", |status| f64::from(status.pages_cached)),
    ("kauri_cache_pages_used", "Pages that running requests hold.", |status| f64::from(status.pages_used)),
    ("kauri_prefix_cached_ratio", "Share of the tokens of prompts that were known.", known),
    ("vllm:num_requests_waiting", "Requests that wait.", |status| f64::from(status.waiting)),
    ("vllm:num_requests_running", "Answers that are being written.", |status| f64::from(status.running)),
    ("vllm:kv_cache_usage_perc", "Share of the cache that running requests hold.", used),
];

fn used(status: &Status) -> f64 {
    let all = status.pages_free + status.pages_cached + status.pages_used;
    if all == 0 { 0.0 } else { f64::from(status.pages_used) / f64::from(all) }
}

fn known(status: &Status) -> f64 {
    if status.prompt_tokens == 0 { 0.0 } else { status.cached_tokens as f64 / status.prompt_tokens as f64 }
}

impl Text {
    fn head(&mut self, name: &str, kind: &str, what: &str) {
        writeln!(self.0, "# HELP {name} {what}\n# TYPE {name} {kind}").expect("text can always be written");
    }

    fn value(&mut self, name: &str, value: impl std::fmt::Display) {
        writeln!(self.0, "{name} {value}").expect("text can always be written");
    }

    fn gauges(&mut self, models: &[(String, Status)]) {
        for (name, what, value) in GAUGES {
            self.head(name, "gauge", what);
            let label = if name.starts_with("vllm:") { "model_name" } else { "model" };
            for (model, status) in models {
                self.value(&format!("{name}{{{label}=\"{model}\"}}"), value(status));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kauri_engine::Finish;

    use super::*;

    /// The dashboard for Grafana, which asks for these by name.
    const DASHBOARD: &str = include_str!("../../../deploy/grafana.json");

    #[test]
    fn the_dashboard_names_what_there_is() {
        let served = Metrics::default().text(0, &[]);
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let names = DASHBOARD.split(|letter| !is_part(letter)).filter(|word| word.starts_with("kauri_"));
        let names: std::collections::BTreeSet<&str> = names.collect();
        assert!(names.len() >= 10, "{names:?}");
        for name in names {
            let base = name.strip_suffix("_bucket").unwrap_or(name);
            let kind = if base == name { "" } else { "histogram" };
            assert!(served.contains(&format!("# TYPE {base} {kind}")), "{name} is not served");
        }
    }

    #[test]
    fn counts_come_out_as_they_went_in() {
        let metrics = Metrics::default();
        metrics.answered("/v1/models", 200);
        metrics.answered("/v1/models", 200);
        let ms = Duration::from_millis;
        metrics.done(&Done {
            finish: Finish::EndToken,
            prompt_tokens: 10,
            cached_tokens: 4,
            output_tokens: 5,
            reasoning_tokens: 0,
            queued: ms(2),
            time_to_first_token: ms(30),
            prefill: ms(30),
            decode: ms(8),
        });
        let status = Status { waiting: 3, pages_free: 1, pages_used: 3, ..Status::default() };
        let text = metrics.text(3, &[("nano".to_owned(), status)]);
        for line in [
            "kauri_requests_total{endpoint=\"/v1/models\",status=\"200\"} 2",
            "kauri_prompt_cached_tokens_total 4",
            "kauri_time_in_queue_seconds_sum 0.002",
            "kauri_time_to_first_token_seconds_bucket{le=\"0.025\"} 0",
            "kauri_time_to_first_token_seconds_bucket{le=\"0.05\"} 1",
            "kauri_time_to_first_token_seconds_sum 0.03",
            "kauri_time_per_output_token_seconds_bucket{le=\"0.0025\"} 1",
            "kauri_connections 0",
            "kauri_tasks 3",
            "kauri_requests_waiting{model=\"nano\"} 3",
            "kauri_cache_used_ratio{model=\"nano\"} 0.75",
            "vllm:num_requests_waiting{model_name=\"nano\"} 3",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
}
