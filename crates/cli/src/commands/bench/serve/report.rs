//! The figures of a load as JSON, as a table and as a picture. The names in the JSON are fixed.

use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::super::plot::{Axis, Bar, Group, Line, Picture};
use super::super::statistics::quantile;
use super::super::terminal::{self, Table, Tone, figure};
use super::replay::{Measured, Served};

/// The shares of requests that waited no longer than what is reported.
const SHARES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
/// Moments at which the picture shows how things went.
const MOMENTS: u32 = 12;

/// What was measured, and on whom.
#[derive(Debug)]
pub struct Figures {
    /// Who answered, for people.
    pub title: String,
    /// The load, for people.
    pub load: String,
    /// More for scripts, about who answered and the load.
    pub about: Json,
    /// The most that a request may wait.
    pub limits: Limits,
    /// The share of the prompts' tokens that could be known.
    pub ideal_share: f64,
    /// How often a request was sent back to the queue, where it is known.
    pub preemptions: Option<u64>,
    seconds: f64,
    errors: usize,
    first_error: Option<String>,
    good: usize,
    served: Vec<Served>,
    first_ms: Vec<f64>,
    between_ms: Vec<f64>,
    whole_ms: Vec<f64>,
}

/// The most that a good answer lets wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Milliseconds to the first token.
    pub first_ms: Option<f64>,
    /// Milliseconds between two tokens, on average over the answer.
    pub between_ms: Option<f64>,
}

impl Limits {
    fn are_any(self) -> bool {
        self.first_ms.is_some() || self.between_ms.is_some()
    }

    fn hold(self, served: &Served) -> bool {
        let holds = |limit: Option<f64>, value: f64| limit.is_none_or(|limit| value <= limit);
        holds(self.first_ms, served.first_ms()) && holds(self.between_ms, served.mean_between_ms().unwrap_or(0.0))
    }
}

impl Figures {
    /// What a measurement says.
    ///
    /// # Errors
    /// When every request failed.
    pub fn of(measured: Measured, limits: Limits) -> anyhow::Result<Self> {
        let first_error = measured.served.iter().find_map(|one| one.error.clone());
        let all = measured.served.len();
        let served: Vec<Served> = measured.served.into_iter().filter(|one| one.error.is_none()).collect();
        if let (true, Some(error)) = (served.is_empty(), &first_error) {
            anyhow::bail!("all {all} requests failed; the first: {error}");
        }
        Ok(Self {
            title: String::new(),
            load: String::new(),
            about: Json::Null,
            limits,
            ideal_share: 0.0,
            preemptions: None,
            seconds: measured.seconds,
            errors: all - served.len(),
            first_error,
            good: served.iter().filter(|one| limits.hold(one)).count(),
            first_ms: served.iter().map(Served::first_ms).collect(),
            between_ms: served.iter().flat_map(Served::between_ms).collect(),
            whole_ms: served.iter().map(Served::whole_ms).collect(),
            served,
        })
    }

    fn requests(&self) -> usize {
        self.served.len() + self.errors
    }

    fn output_tokens(&self) -> u64 {
        self.served.iter().map(Served::output_tokens).sum()
    }

    fn prompt_tokens(&self) -> u64 {
        self.served.iter().map(|one| one.heard.prompt_tokens.unwrap_or(one.prompt_tokens)).sum()
    }

    fn output_tokens_per_s(&self) -> f64 {
        self.output_tokens() as f64 / self.seconds
    }

    /// The share of the prompts' tokens that was known; none where nobody said it.
    fn cached_share(&self) -> Option<f64> {
        let cached: Vec<u64> = self.served.iter().filter_map(|one| one.heard.cached_tokens).collect();
        (!cached.is_empty()).then(|| cached.iter().sum::<u64>() as f64 / self.prompt_tokens() as f64)
    }

    /// One object.
    pub fn json(&self) -> Json {
        let each = |tokens: u64| tokens as f64 / self.served.len() as f64;
        let goodput = self.limits.are_any().then(|| {
            json!({
                "ttft_limit_ms": self.limits.first_ms,
                "itl_limit_ms": self.limits.between_ms,
                "requests": self.good,
                "requests_per_s": self.good as f64 / self.seconds,
            })
        });
        let mut object = json!({
            "requests": self.requests(),
            "errors": self.errors,
            "first_error": self.first_error,
            "seconds": self.seconds,
            "prompt_tokens": each(self.prompt_tokens()),
            "gen_tokens": each(self.output_tokens()),
            "requests_per_s": self.served.len() as f64 / self.seconds,
            "prompt_tokens_per_s": self.prompt_tokens() as f64 / self.seconds,
            "output_tokens_per_s": self.output_tokens_per_s(),
            "ttft_ms": quantiles(&self.first_ms),
            "itl_ms": quantiles(&self.between_ms),
            "latency_ms": quantiles(&self.whole_ms),
            "goodput": goodput,
            "cached_token_share": self.cached_share(),
            "ideal_cached_token_share": self.ideal_share,
            "preemptions": self.preemptions,
        });
        if let (Json::Object(object), Json::Object(about)) = (&mut object, self.about.clone()) {
            object.extend(about);
        }
        object
    }

    /// The text for people.
    pub fn tables(&self, coloured: bool) -> String {
        let mut text = format!("{}: {} requests, {}\n\n", self.title, self.requests(), self.load);
        let mut table = Table::default();
        table.row(Tone::Heading, ["wait", "p50 ms", "p90 ms", "p99 ms"]);
        for (name, values) in self.waits().iter().filter(|(_, values)| !values.is_empty()) {
            let cells = SHARES.map(|(_, share)| figure(quantile(values, share)));
            table.row(Tone::Plain, std::iter::once((*name).to_owned()).chain(cells));
        }
        text += &table.lines(coloured);
        let prompts = figure(self.prompt_tokens() as f64 / self.served.len() as f64);
        let answers = figure(self.output_tokens() as f64 / self.served.len() as f64);
        let per_s = figure(self.output_tokens_per_s());
        let seconds = figure(self.seconds);
        let _ = writeln!(
            text,
            "\n{per_s} tokens a second written in {seconds} s, in answers of {answers} to prompts of {prompts} tokens"
        );
        let ideal = 100.0 * self.ideal_share;
        let _ = match self.cached_share() {
            Some(share) => {
                writeln!(
                    text,
                    "{:.1} % of the prompts' tokens were known, at best {ideal:.1} % could be",
                    100.0 * share
                )
            }
            None => writeln!(text, "nobody said how many of the prompts' tokens were known; {ideal:.1} % could be"),
        };
        if self.limits.are_any() {
            let per_s = figure(self.good as f64 / self.seconds);
            let _ = writeln!(text, "{} requests were answered within the limits, {per_s} a second", self.good);
        }
        if let Some(preemptions) = self.preemptions.filter(|&preemptions| preemptions > 0) {
            let _ = writeln!(text, "requests were sent back to the queue {preemptions} times");
        }
        if let Some(error) = &self.first_error {
            let _ = writeln!(
                text,
                "{}",
                Tone::Marked.paint(&format!("{} failed; the first: {error}", self.errors), coloured)
            );
        }
        text
    }

    /// Waits as bars; below them how much was written, and how many were open, over the time that it took.
    pub fn picture(&self) -> Picture {
        let per_s = figure(self.output_tokens_per_s());
        let subtitle = format!("{} requests, {}; {per_s} tokens a second written", self.requests(), self.load);
        let mut picture = Picture::new(&self.title, &subtitle);
        let bar = |values: &[f64], share| {
            let value = if values.is_empty() { 0.0 } else { quantile(values, share) };
            Bar { value, text: format!("{} ms", figure(value)) }
        };
        let groups = SHARES.map(|(name, share)| Group {
            label: name.to_owned(),
            bars: [bar(&self.first_ms, share), bar(&self.between_ms, share)],
        });
        picture.bars("Milliseconds waited", ["for the first token", "between tokens"], &groups, Axis::Logarithmic);
        let [written, open] = self.course();
        let lines = [Line { name: "tokens a second", points: written }, Line { name: "requests open", points: open }];
        picture.lines("Over the seconds that it took", &lines);
        picture
    }

    fn waits(&self) -> [(&'static str, &Vec<f64>); 3] {
        [("first token", &self.first_ms), ("between tokens", &self.between_ms), ("whole answer", &self.whole_ms)]
    }

    /// Tokens written a second, and requests open, around moments of equal distance.
    fn course(&self) -> [Vec<(f64, f64)>; 2] {
        let width = self.seconds / f64::from(MOMENTS);
        let (mut written, mut open) = (Vec::new(), Vec::new());
        for moment in 0..MOMENTS {
            let (from, to) = (f64::from(moment) * width, f64::from(moment + 1) * width);
            let middle = format!("{:.2}", f64::midpoint(from, to)).parse().unwrap_or(from);
            let tokens = self.served.iter().flat_map(|one| &one.heard.token_s);
            let tokens = tokens.filter(|&&at| (from..to).contains(&at)).count();
            let time_open = |one: &Served| (one.over_s.min(to) - one.came_s.max(from)).max(0.0);
            written.push((middle, tokens as f64 / width));
            open.push((middle, self.served.iter().map(time_open).sum::<f64>() / width));
        }
        [written, open]
    }
}

/// Prints the figures.
///
/// # Errors
/// When standard output is closed.
pub fn print(figures: &Figures, as_json: bool) -> anyhow::Result<()> {
    let text = if as_json { format!("{}\n", figures.json()) } else { figures.tables(terminal::is_coloured()) };
    Ok(terminal::print(&text)?)
}

/// Null where nothing was measured: an answer of one token has nothing between its tokens.
fn quantiles(values: &[f64]) -> Json {
    if values.is_empty() {
        return Json::Null;
    }
    SHARES.iter().map(|&(name, share)| (name.to_owned(), json!(quantile(values, share)))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::replay::Heard;
    use super::*;

    fn served(came_s: f64, token_s: &[f64], error: Option<&str>) -> Served {
        let mut heard = Heard::new(Instant::now());
        heard.token_s = token_s.to_vec();
        let over_s = token_s.last().copied().unwrap_or(came_s);
        Served { came_s, over_s, prompt_tokens: 10, heard, error: error.map(str::to_owned) }
    }

    fn measured() -> Measured {
        let mut known = served(1.0, &[1.5, 1.6, 1.7], None);
        known.heard.cached_tokens = Some(4);
        known.heard.output_tokens = Some(5);
        Measured {
            served: vec![served(0.0, &[0.1, 0.2, 0.5, 2.0], None), known, served(0.0, &[9.0], Some("lost"))],
            seconds: 2.0,
        }
    }

    #[test]
    fn what_failed_is_counted_and_not_measured() {
        let figures = Figures::of(measured(), Limits::default()).unwrap();
        let json = figures.json();
        assert_eq!((&json["requests"], &json["errors"], &json["first_error"]), (&json!(3), &json!(1), &json!("lost")));
        assert_eq!(json["output_tokens_per_s"], json!(4.5), "4 chunks and 5 counted tokens in 2 s");
        assert_eq!(json["cached_token_share"], json!(0.2), "4 of 20");
        assert_eq!(json["ttft_ms"]["p99"], json!(500.0));
        assert_eq!(json["goodput"], Json::Null);
        let text = figures.tables(false);
        assert!(text.contains("1 failed; the first: lost"), "{text}");
        let nothing = Measured { served: vec![served(0.0, &[], Some("lost"))], seconds: 1.0 };
        let error = Figures::of(nothing, Limits::default()).unwrap_err().to_string();
        assert_eq!(error, "all 1 requests failed; the first: lost");
    }

    #[test]
    fn a_good_answer_keeps_both_limits() {
        let good = |first_ms, between_ms| {
            let limits = Limits { first_ms, between_ms };
            Figures::of(measured(), limits).unwrap().json()["goodput"]["requests"].clone()
        };
        assert_eq!(good(Some(499.0), None), 1);
        assert_eq!(good(Some(501.0), None), 2);
        // 1.9 s for three gaps, and 0.2 s for the four that the server counted.
        assert_eq!(good(None, Some(51.0)), 1);
        assert_eq!(good(Some(100.1), Some(51.0)), 0);
        assert_eq!(good(Some(501.0), Some(700.0)), 2);
    }

    #[test]
    fn the_course_counts_every_token_once() {
        let figures = Figures::of(measured(), Limits::default()).unwrap();
        let [written, open] = figures.course();
        let width = 2.0 / f64::from(MOMENTS);
        // The last token comes as the measurement ends.
        let tokens: f64 = written.iter().map(|point| point.1 * width).sum();
        assert!((tokens - 6.0).abs() < 1e-9, "{written:?}");
        let seconds: f64 = open.iter().map(|point| point.1 * width).sum();
        assert!((seconds - 2.7).abs() < 1e-9, "{open:?}");
    }
}
