//! `kauri bench serve`: many requests at once, on one engine in this process or on a server by its address: how much is written, and
//! how long each waits for it.
//!
//! The load is synthetic (prompts of pseudo-random tokens that may begin alike) or recorded. Either so many requests are open at any
//! time, each that ends making room for the next, or they come at moments of their own, at a rate or as the trace says.

mod event;
mod load;
mod peer;
mod replay;
mod report;
mod trace;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use kauri_engine::{Engine, Error, Reply, Request, Sampling, Service, Serving};
use serde_json::{Value as Json, json};

use super::terminal::Status;
use super::{Output, Paging, TOKENS_MAX, check_size, title};
use crate::cache_options::CacheOptions;
use crate::failure::{BadInput, about_model};
use crate::model_options::ModelOptions;
use load::{Length, Outline, Synthetic};
use peer::{Address, Form, Peer};
use replay::{Heard, Measured, Target};
use report::{Figures, Limits};
use trace::Slice;
use words::Words;

/// More at once than any machine here serves; a thread waits for each.
const CONCURRENCY_MAX: u32 = 1024;
const REQUESTS_MAX: u32 = 100_000;
/// Requests that are open at any time, where nothing else is said.
const CONCURRENCY: u32 = 8;
/// Requests of a synthetic load, where nothing else is said.
const REQUESTS: u32 = 32;
const TIME_SCALE_MAX: f64 = 1000.0;
const TEMPERATURE_MAX: f32 = 100.0;
const TIMEOUT_S_MAX: u32 = 86_400;
const EXAMPLES: &str = "\
Examples:
  kauri bench serve --model m.gguf --concurrency 16 --gen-tokens 128
  kauri bench serve --model m.gguf --rate 2.5 --prompt-tokens 100-2000 --ttft-limit-ms 1000
  kauri bench serve --url http://127.0.0.1:8080 --concurrency 16 --gen-tokens 128
  kauri bench serve --url http://127.0.0.1:8080 --trace conversation.jsonl --time-scale 2 --plot load.svg";

/// Measures a model under many requests at once, in this process or on a server.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOptions,

    #[command(flatten)]
    server: ServerOptions,

    #[command(flatten)]
    load: LoadOptions,

    /// How many run at once on the engine in this process; as many as are open, or 8, unless said otherwise.
    #[arg(long, value_name = "N", conflicts_with = "url")]
    sequences: Option<u32>,

    /// Tokens of prompts in a step of the engine in this process, while answers are being written.
    #[arg(long, value_name = "N", conflicts_with = "url", default_value_t = Serving::default().chunk_tokens, value_parser = clap::value_parser!(u32).range(1..))]
    chunk_tokens: u32,

    /// Tokens that the cache holds, all requests together: how many it gets here, or what the server has (for what could be known).
    #[arg(long, value_name = "N")]
    cache_tokens: Option<u32>,

    #[command(flatten)]
    paging: Paging,

    #[command(flatten)]
    cache: CacheOptions,

    /// Gigabytes of memory for pages that the cache has no room for.
    #[arg(long, value_name = "GB", conflicts_with = "url", default_value_t = 0.0)]
    cache_ram_gb: f64,

    /// Goodput counts answers whose first token came within so many milliseconds.
    #[arg(long, value_name = "MS")]
    ttft_limit_ms: Option<f64>,

    /// Goodput counts answers whose tokens came within so many milliseconds of each other, on average over the answer.
    #[arg(long, value_name = "MS")]
    itl_limit_ms: Option<f64>,

    #[command(flatten)]
    output: Output,
}

/// A server instead of an engine in this process.
#[derive(Args, Debug)]
#[command(next_help_heading = "A server")]
struct ServerOptions {
    /// A server that speaks OpenAI's protocol, such as <http://127.0.0.1:8080>; --model is then its name there.
    #[arg(long, value_name = "URL", conflicts_with_all = ["device", "threads", "context", "cache_type", "isa"])]
    url: Option<String>,

    /// How prompts are said; the first of these that the server takes unless said otherwise.
    #[arg(long, value_enum, requires = "url")]
    prompts: Option<Form>,

    /// A model with the server's vocabulary: prompts that are texts are then made of exactly as many tokens as wanted.
    #[arg(long, value_name = "NAME|PATH", requires = "url")]
    tokenizer: Option<String>,

    /// A file with the key that the server asks for.
    #[arg(long, value_name = "FILE", requires = "url")]
    key_file: Option<PathBuf>,

    /// Seconds that a request to the server may take.
    #[arg(long, value_name = "SECONDS", requires = "url", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=i64::from(TIMEOUT_S_MAX)))]
    timeout: u32,
}

/// What is asked for.
#[derive(Args, Debug)]
#[command(next_help_heading = "The load")]
struct LoadOptions {
    /// How many requests are made: 32, or the whole trace, unless said otherwise.
    #[arg(long, value_name = "N")]
    requests: Option<u32>,

    /// How many are open at most: 8 where nothing says when they come, else 1024.
    #[arg(long, value_name = "C")]
    concurrency: Option<u32>,

    /// Requests that come per second, at random moments.
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,

    /// Requests made before, with tokens of their own, that do not count.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=i64::from(REQUESTS_MAX)))]
    warm_up: u32,

    /// How the tokens of answers are chosen: 0 takes the most likely.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,

    /// Tokens of each prompt, or a range such as 100-400.
    #[arg(long, value_name = "P", default_value = "256", conflicts_with = "trace")]
    prompt_tokens: Length,

    /// Tokens of each answer, or a range.
    #[arg(long, value_name = "N", default_value = "64", conflicts_with = "trace")]
    gen_tokens: Length,

    /// How much of each prompt is the beginning that all have, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, conflicts_with = "trace", value_parser = clap::value_parser!(u32).range(0..=100))]
    shared_prefix: u32,

    /// A recorded load: a table of Azure's, or Mooncake's lines of JSON.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// What the trace's times are multiplied with: 0.5 is twice as fast, 0 as fast as requests may be open.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "trace")]
    time_scale: f64,

    /// Requests of the trace that are left out at its start.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "trace")]
    from: u32,

    /// Divides the trace's lengths, those of the blocks that prompts share too.
    #[arg(long, value_name = "BY", default_value_t = 1, requires = "trace", value_parser = clap::value_parser!(u32).range(1..=512))]
    shrink: u32,

    /// Where longer prompts of the trace are cut.
    #[arg(long, value_name = "N", requires = "trace")]
    prompt_tokens_max: Option<u32>,

    /// Where longer answers of the trace end.
    #[arg(long, value_name = "N", requires = "trace")]
    gen_tokens_max: Option<u32>,

    /// What random moments, lengths and tokens come from.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// An engine in this process.
struct Local {
    service: Service,
    /// Tokens that its cache holds.
    cache_tokens: u64,
    sampling: Sampling,
}

/// Measures and reports.
///
/// # Errors
/// When a size cannot be met, the model cannot be loaded, nobody answers, or every request fails.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.check()?;
    let outlines = arguments.load.outlines()?;
    arguments.output.check()?;
    let mut figures = match &arguments.server.url {
        None => arguments.measure_engine(&outlines)?,
        Some(url) => arguments.measure_server(url, &outlines)?,
    };
    figures.load = arguments.load.words();
    arguments.output.draw(|| figures.picture())?;
    report::print(&figures, arguments.output.json)
}

impl Arguments {
    fn check(&self) -> Result<(), BadInput> {
        for (flag, size, most) in [
            ("--requests", self.load.requests, REQUESTS_MAX),
            ("--concurrency", self.load.concurrency, CONCURRENCY_MAX),
            ("--sequences", self.sequences, CONCURRENCY_MAX),
            ("--cache-tokens", self.cache_tokens, u32::MAX),
            ("--prompt-tokens-max", self.load.prompt_tokens_max, TOKENS_MAX),
            ("--gen-tokens-max", self.load.gen_tokens_max, TOKENS_MAX),
        ] {
            size.map_or(Ok(()), |size| check_size(flag, size, most))?;
        }
        let positive = [
            ("--rate", self.load.rate, "how many requests come per second, such as 2.5"),
            ("--ttft-limit-ms", self.ttft_limit_ms, "how many milliseconds the first token may take, such as 500"),
            ("--itl-limit-ms", self.itl_limit_ms, "how many milliseconds the next token may take, such as 50"),
        ];
        for (flag, value, what) in positive {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value > 0.0)) {
                return Err(BadInput(format!("{flag} {value}: give {what}")));
            }
        }
        if self.server.url.is_some() && self.cache.cache_dir.is_some() {
            return Err(BadInput("--cache-dir is for an engine in this process: leave it out, or --url".to_owned()));
        }
        let temperature = self.load.temperature;
        if !(0.0..=TEMPERATURE_MAX).contains(&temperature) {
            return Err(BadInput(format!("--temperature {temperature}: give a number from 0 to {TEMPERATURE_MAX}")));
        }
        let scale = self.load.time_scale;
        if !(0.0..=TIME_SCALE_MAX).contains(&scale) {
            return Err(BadInput(format!(
                "--time-scale {scale}: give a factor from 0 to {TIME_SCALE_MAX}, such as 0.5"
            )));
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        Limits { first_ms: self.ttft_limit_ms, between_ms: self.itl_limit_ms }
    }

    fn measure_engine(&self, outlines: &[Outline]) -> anyhow::Result<Figures> {
        let local = self.load_engine(outlines)?;
        let measured = self.load.measure(&local, outlines)?;
        let mut figures = Figures::of(measured, self.limits())?;
        let cache_tokens = local.cache_tokens;
        figures.title = title(&self.model);
        figures.ideal_share = load::ideal_share(outlines, Some(cache_tokens));
        figures.preemptions = Some(local.service.status().preemptions);
        figures.about = self.about(&json!({ "model": figures.title, "cache_tokens": cache_tokens }));
        Ok(figures)
    }

    fn measure_server(&self, url: &str, outlines: &[Outline]) -> anyhow::Result<Figures> {
        let tokenizer = self.server.tokenizer.as_deref();
        let vocabulary = tokenizer.map(|name| kauri_engine::tokenizer(Some(name))).transpose();
        let vocabulary = vocabulary.map_err(|error| about_model(tokenizer, error))?;
        let about_words = |what| BadInput(format!("--tokenizer {}: {what}", tokenizer.unwrap_or_default()));
        let peer = Peer::connect(&Address {
            url,
            model: self.model.model.as_deref(),
            form: self.server.prompts,
            words: vocabulary.as_ref().map(Words::of).transpose().map_err(about_words)?,
            vocab: vocabulary.as_ref().map(|vocabulary| vocabulary.vocab_size() as u32),
            key_file: self.server.key_file.as_deref(),
            temperature: self.load.temperature,
            timeout: Duration::from_secs(u64::from(self.server.timeout)),
        })?;
        let measured = self.load.measure(&peer, outlines)?;
        let mut figures = Figures::of(measured, self.limits())?;
        figures.title = format!("{} at {url}", peer.model());
        figures.ideal_share = load::ideal_share(outlines, self.cache_tokens.map(u64::from));
        let about = json!({ "model": peer.model(), "url": url, "prompts": peer.form().name() });
        figures.about = self.about(&about);
        Ok(figures)
    }

    /// What scripts are told of who answered, and of the load.
    fn about(&self, target: &Json) -> Json {
        let load = &self.load;
        let mut about = json!({
            "trace": load.trace.as_ref().map(|path| path.display().to_string()),
            "concurrency": load.concurrency.or_else(|| (!load.is_timed()).then_some(CONCURRENCY)),
            "rate": load.rate,
            "temperature": load.temperature,
            "seed": load.seed,
        });
        if let (Json::Object(about), Json::Object(target)) = (&mut about, target) {
            about.extend(target.clone());
        }
        about
    }

    fn load_engine(&self, outlines: &[Outline]) -> anyhow::Result<Local> {
        let needed = outlines.iter().map(|outline| outline.prompt_tokens().saturating_add(outline.gen_tokens)).max();
        let needed = needed.unwrap_or(1);
        let sequences = self.sequences.or(self.load.concurrency).unwrap_or(CONCURRENCY);
        let mut options = self.model.options();
        options.page_tokens = self.paging.page_tokens;
        options.sequences = sequences;
        options.batch_outputs = sequences;
        options.snapshots = sequences;
        options.batch_tokens = options.batch_tokens.max(sequences);
        options.cache_tokens = self.cache_tokens;
        options.context_tokens = options.context_tokens.or(Some(needed));
        let remembering = self.cache.remembering(self.cache_ram_gb);
        let path = self.model.located()?;
        let mut engine = match Engine::load(path.as_deref(), &options) {
            Err(Error::Window(window)) if window.asked == needed => {
                let trained = window.trained;
                bail!(BadInput(format!(
                    "these sizes need a window of {needed} tokens, but the model's is {trained}; ask for fewer tokens"
                )))
            }
            loaded => loaded.map_err(|error| about_model(path.as_deref(), error))?,
        };
        if engine.window_tokens() < needed {
            let window = engine.window_tokens();
            bail!(BadInput(format!(
                "these sizes need a window of {needed} tokens, but there is room for {window}; ask for fewer tokens, \
                 or give more with --context or --cache-tokens"
            )));
        }
        engine.remember(&remembering)?;
        let plan = *engine.executor().plan();
        let cache_tokens = u64::from(plan.pages) * u64::from(plan.page_tokens);
        let sampling = Sampling { temperature: self.load.temperature, ..Sampling::default() };
        let rules = Serving { chunk_tokens: self.chunk_tokens, waiting: self.load.open(), ..Serving::default() };
        Ok(Local { service: engine.serve(&rules), cache_tokens, sampling })
    }
}

impl LoadOptions {
    fn outlines(&self) -> Result<Vec<Outline>, BadInput> {
        let mut outlines = match &self.trace {
            Some(path) => trace::read(path, &self.slice())?,
            None => self.synthetic().outlines(),
        };
        if let Some(rate) = self.rate {
            load::arrive(&mut outlines, rate, self.seed)?;
        }
        Ok(outlines)
    }

    fn slice(&self) -> Slice {
        Slice {
            from: self.from,
            requests: self.requests.unwrap_or(REQUESTS_MAX),
            time_scale: self.time_scale,
            shrink: self.shrink,
            prompt_tokens_max: self.prompt_tokens_max,
            gen_tokens_max: self.gen_tokens_max,
        }
    }

    fn synthetic(&self) -> Synthetic {
        Synthetic {
            requests: self.requests.unwrap_or(REQUESTS),
            prompt_tokens: self.prompt_tokens,
            gen_tokens: self.gen_tokens,
            shared_percent: self.shared_prefix,
            seed: self.seed,
        }
    }

    /// Whether requests have moments.
    fn is_timed(&self) -> bool {
        self.rate.is_some() || (self.trace.is_some() && self.time_scale > 0.0)
    }

    /// Requests that may be open at any time.
    fn open(&self) -> u32 {
        self.concurrency.unwrap_or(if self.is_timed() { CONCURRENCY_MAX } else { CONCURRENCY })
    }

    /// The load in words.
    fn words(&self) -> String {
        match (self.rate, self.is_timed()) {
            (Some(rate), _) => format!("{rate} a second"),
            (None, true) => "as they came".to_owned(),
            (None, false) => format!("{} at a time", self.open()),
        }
    }

    /// Warms up, then makes all requests.
    fn measure<T: Target>(&self, target: &T, outlines: &[Outline]) -> anyhow::Result<Measured> {
        let status = Status::new();
        status.say("warming up");
        let warm_up: Vec<Outline> =
            (0..self.warm_up as usize).map(|index| outlines[index % outlines.len()].warm_up(index)).collect();
        let warmed = replay::replay(target, &warm_up, self.seed, self.open(), |_| ());
        if let Some(error) = warmed.served.iter().find_map(|one| one.error.as_ref()) {
            bail!("warming up failed: {error}");
        }
        let total = outlines.len();
        Ok(replay::replay(target, outlines, self.seed, self.open(), |done| status.say(&format!("{done} of {total}"))))
    }
}

impl Target for Local {
    type Asked = Request;

    fn prepare(&self, prompt: Vec<u32>, gen_tokens: u32) -> Request {
        Request {
            prompt,
            sampling: self.sampling,
            stops: Vec::new(),
            max_tokens: Some(gen_tokens as usize),
            // As long as was asked for, whatever the model would say.
            end_tokens: Vec::new(),
            ..Request::default()
        }
    }

    fn ask(&self, asked: Request, heard: &mut Heard) -> Result<(), String> {
        let answer = self.service.submit(asked).map_err(|error| error.to_string())?;
        for reply in answer {
            match reply {
                Reply::Token { .. } => heard.token(),
                Reply::Done(done) => {
                    heard.cached_tokens = Some(done.cached_tokens as u64);
                    return Ok(());
                }
                Reply::Failed(error) => return Err(error.to_string()),
                Reply::Queued
                | Reply::Prefill { .. }
                | Reply::Rest(_)
                | Reply::Reasoning(_)
                | Reply::Call { .. }
                | Reply::Arguments { .. }
                | Reply::CallEnd { .. } => {}
            }
        }
        Err("the engine has stopped".to_owned())
    }

    fn vocab(&self) -> u32 {
        self.service.vocab()
    }
}
