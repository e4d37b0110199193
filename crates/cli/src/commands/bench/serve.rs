//! `kauri bench serve`: many requests on one engine, in this process: how much is written, and how long each waits for it.
//!
//! The load is synthetic: prompts of pseudo-random tokens that may begin alike, answers of one length. Either so many requests are
//! open at any time (each that ends makes room for the next), or they come at a rate, at random moments, whether the ones before
//! are done or not; then a wait counts from the moment at which the request came.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use kauri_engine::{Engine, Error, Reply, Request, Sampling, Service, Serving};
use serde_json::{Value as Json, json};

use super::drive::Random;
use super::statistics::quantile;
use super::terminal::{self, Status, Table, Tone, figure};
use super::{TOKENS_MAX, check_size, title};
use crate::failure::{BadInput, about_model};
use crate::model_options::ModelOptions;

/// More at once than any machine here serves.
const CONCURRENCY_MAX: u32 = 256;
const REQUESTS_MAX: u32 = 100_000;
/// The shares of requests that waited no longer than what is reported.
const SHARES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

/// Measures the model under many requests at once.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOptions,

    /// How many requests are made.
    #[arg(long, value_name = "N", default_value_t = 32)]
    requests: u32,

    /// How many are open at any time; also how many run at once.
    #[arg(long, value_name = "C", default_value_t = 8)]
    concurrency: u32,

    /// Instead: requests that come per second, at random moments.
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,

    /// Tokens of each prompt.
    #[arg(long, value_name = "P", default_value_t = 256)]
    prompt_tokens: u32,

    /// Tokens of each answer.
    #[arg(long, value_name = "N", default_value_t = 64)]
    gen_tokens: u32,

    /// How much of each prompt is the beginning that all have, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    shared_prefix: u32,

    /// Tokens of prompts in a step while answers are being written.
    #[arg(long, value_name = "N", default_value_t = Serving::default().chunk_tokens, value_parser = clap::value_parser!(u32).range(1..))]
    chunk_tokens: u32,

    /// What the random moments and tokens come from.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,

    /// One JSON object on standard output instead of tables.
    #[arg(long)]
    json: bool,
}

/// What became of one request.
#[derive(Default)]
struct Served {
    first_ms: f64,
    between_ms: Vec<f64>,
    output_tokens: usize,
    cached_tokens: usize,
    failed: bool,
}

/// What became of all of them.
struct Measured {
    served: Vec<Served>,
    seconds: f64,
    preemptions: u64,
}

/// Measures and reports.
///
/// # Errors
/// When a size cannot be met, or the model cannot be loaded.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.check()?;
    let service = arguments.load()?;
    let prompts = arguments.prompts(service.vocab());
    let status = Status::new();
    status.say("warming up");
    // Touches every weight, so that no request waits for the disk; its tokens are nobody else's.
    let warm = arguments.request(&[1, 2, 3]);
    service.submit(Request { max_tokens: Some(1), ..warm })?.wait()?;
    status.say(&format!("{} requests", prompts.len()));
    let measured = arguments.measure(&service, &prompts);
    drop(status);
    print(arguments, &measured)
}

impl Arguments {
    fn check(&self) -> Result<(), BadInput> {
        check_size("--requests", self.requests, REQUESTS_MAX)?;
        check_size("--concurrency", self.concurrency, CONCURRENCY_MAX)?;
        check_size("--prompt-tokens", self.prompt_tokens, TOKENS_MAX)?;
        check_size("--gen-tokens", self.gen_tokens, TOKENS_MAX)?;
        match self.rate {
            Some(rate) if !(rate.is_finite() && rate > 0.0) => {
                Err(BadInput(format!("--rate {rate}: give how many requests come per second, such as 2.5")))
            }
            _ => Ok(()),
        }
    }

    fn load(&self) -> anyhow::Result<Service> {
        let needed = self.prompt_tokens.saturating_add(self.gen_tokens);
        let mut options = self.model.options();
        options.sequences = self.concurrency;
        options.batch_outputs = self.concurrency;
        options.snapshots = self.concurrency;
        options.batch_tokens = options.batch_tokens.max(self.concurrency);
        options.context_tokens = options.context_tokens.or(Some(needed));
        let engine = match Engine::load(self.model.model.as_deref(), &options) {
            Err(Error::Window(window)) if window.asked == needed => {
                let trained = window.trained;
                anyhow::bail!(BadInput(format!(
                    "these sizes need a window of {needed} tokens, but the model's is {trained}; ask for fewer tokens"
                )))
            }
            loaded => loaded.map_err(|error| about_model(self.model.model.as_deref(), error))?,
        };
        let waiting = if self.rate.is_some() { self.requests } else { self.concurrency };
        Ok(engine.serve(&Serving { chunk_tokens: self.chunk_tokens, waiting, ..Serving::default() }))
    }

    /// All prompts: the same beginning, then each its own tokens.
    fn prompts(&self, vocab: u32) -> Vec<Vec<u32>> {
        let mut random = Random::new(self.seed);
        let common = (u64::from(self.prompt_tokens) * u64::from(self.shared_prefix) / 100) as u32;
        let beginning: Vec<u32> = (0..common).map(|_| random.below(vocab)).collect();
        let prompt = |_| {
            let own = (common..self.prompt_tokens).map(|_| random.below(vocab));
            beginning.iter().copied().chain(own).collect()
        };
        (0..self.requests).map(prompt).collect()
    }

    fn request(&self, prompt: &[u32]) -> Request {
        Request {
            prompt: prompt.to_vec(),
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            stops: Vec::new(),
            max_tokens: Some(self.gen_tokens as usize),
            // As long as was asked for, whatever the model would say.
            end_tokens: Vec::new(),
        }
    }

    fn measure(&self, service: &Service, prompts: &[Vec<u32>]) -> Measured {
        let served = Mutex::new(Vec::with_capacity(prompts.len()));
        let next = AtomicU32::new(0);
        let keep = |one: Served| served.lock().expect("nobody panics with it").push(one);
        let start = Instant::now();
        thread::scope(|scope| match self.rate {
            None => {
                for _ in 0..self.concurrency.min(self.requests) {
                    let (next, keep) = (&next, &keep);
                    scope.spawn(move || {
                        while let Some(prompt) = prompts.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                            keep(serve(service, self.request(prompt), Instant::now()));
                        }
                    });
                }
            }
            Some(rate) => {
                let mut random = Random::new(self.seed ^ 0x6172_7269_7661_6c73);
                let mut comes = Duration::ZERO;
                for prompt in prompts {
                    // Exponential gaps: moments that know nothing of each other.
                    let share = (f64::from(random.below(1 << 30)) + 1.0) / f64::from(1 << 30);
                    comes += Duration::from_secs_f64(-share.ln() / rate);
                    thread::sleep(comes.saturating_sub(start.elapsed()));
                    let keep = &keep;
                    scope.spawn(move || keep(serve(service, self.request(prompt), start + comes)));
                }
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        let served = served.into_inner().expect("nobody panics with it");
        Measured { served, seconds, preemptions: service.status().preemptions }
    }
}

/// Makes one request, which came at `came`, and hears its answer.
fn serve(service: &Service, request: Request, came: Instant) -> Served {
    let mut served = Served { failed: true, ..Served::default() };
    let Ok(answer) = service.submit(request) else { return served };
    let mut before = came;
    for reply in answer {
        match reply {
            Reply::Token { .. } => {
                let now = Instant::now();
                let waited_ms = (now - before).as_secs_f64() * 1e3;
                before = now;
                match served.output_tokens {
                    0 => served.first_ms = waited_ms,
                    _ => served.between_ms.push(waited_ms),
                }
                served.output_tokens += 1;
            }
            Reply::Done(done) => (served.cached_tokens, served.failed) = (done.cached_tokens, false),
            Reply::Prefill { .. } | Reply::Rest(_) | Reply::Failed(_) => {}
        }
    }
    served
}

fn print(arguments: &Arguments, measured: &Measured) -> anyhow::Result<()> {
    let served: Vec<&Served> = measured.served.iter().filter(|served| !served.failed).collect();
    let errors = measured.served.len() - served.len();
    anyhow::ensure!(!served.is_empty(), "all {errors} requests failed");
    let output: usize = served.iter().map(|served| served.output_tokens).sum();
    let cached: usize = served.iter().map(|served| served.cached_tokens).sum();
    let output_tokens_per_s = output as f64 / measured.seconds;
    let cached_share = cached as f64 / (served.len() as f64 * f64::from(arguments.prompt_tokens));
    let first: Vec<f64> = served.iter().map(|served| served.first_ms).collect();
    let between: Vec<f64> = served.iter().flat_map(|served| served.between_ms.iter().copied()).collect();
    if arguments.json {
        let object = json!({
            "model": title(&arguments.model),
            "requests": measured.served.len(),
            "errors": errors,
            "seconds": measured.seconds,
            "prompt_tokens": arguments.prompt_tokens,
            "gen_tokens": arguments.gen_tokens,
            "concurrency": arguments.rate.is_none().then_some(arguments.concurrency),
            "rate": arguments.rate,
            "output_tokens_per_s": output_tokens_per_s,
            "ttft_ms": quantiles(&first),
            "itl_ms": quantiles(&between),
            "cached_token_share": cached_share,
            "preemptions": measured.preemptions,
        });
        return Ok(terminal::print(&format!("{object}\n"))?);
    }
    let load = match arguments.rate {
        None => format!("{} at a time", arguments.concurrency),
        Some(rate) => format!("{rate} a second"),
    };
    let heading = format!(
        "{}: {} requests, {load}, with prompts of {} tokens and answers of {}\n\n",
        title(&arguments.model),
        measured.served.len(),
        arguments.prompt_tokens,
        arguments.gen_tokens
    );
    let mut table = Table::default();
    table.row(Tone::Heading, ["wait", "p50 ms", "p90 ms", "p99 ms"]);
    for (name, values) in [("first token", &first), ("between tokens", &between)].iter().filter(|row| !row.1.is_empty())
    {
        let cells = SHARES.map(|(_, share)| figure(quantile(values, share)));
        table.row(Tone::Plain, std::iter::once((*name).to_owned()).chain(cells));
    }
    let rest = format!(
        "\n{} tokens a second written; {:.1} % of the prompts' tokens were known; {errors} errors; {} sent back to the queue\n",
        figure(output_tokens_per_s),
        100.0 * cached_share,
        measured.preemptions
    );
    Ok(terminal::print(&(heading + &table.lines(terminal::is_coloured()) + &rest))?)
}

/// Null where nothing was measured: an answer of one token has nothing between its tokens.
fn quantiles(values: &[f64]) -> Json {
    if values.is_empty() {
        return Json::Null;
    }
    SHARES.iter().map(|&(name, share)| (name.to_owned(), json!(quantile(values, share)))).collect()
}
