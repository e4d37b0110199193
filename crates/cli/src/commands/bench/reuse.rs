//! `kauri bench reuse`: how long the second turn of a conversation waits for its first token: computed whole, with the first turn in the
//! cache, and after a restart with what was kept in a folder.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use kauri_engine::{Done, Engine, Request, Sampling, Service, Serving, Submission};
use serde_json::json;

use super::drive::Random;
use super::statistics::median;
use super::terminal::{self, Status, Table, Tone, figure, percent};
use super::{TOKENS_MAX, check_size, title};
use crate::cache_options::CacheOptions;
use crate::failure::{BadInput, about_model};
use crate::model_options::ModelOptions;

/// A salt under which nothing is known.
const COLD: u64 = 1;
const CONVERSATIONS_MAX: u32 = 1000;

/// Measures what remembering a conversation saves.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOptions,

    /// Tokens of the first prompt.
    #[arg(long, value_name = "P", default_value_t = 2000)]
    prompt_tokens: u32,

    /// Tokens of the first answer.
    #[arg(long, value_name = "N", default_value_t = 64)]
    gen_tokens: u32,

    /// Tokens that the second turn adds.
    #[arg(long, value_name = "T", default_value_t = 32)]
    turn_tokens: u32,

    /// Conversations, of which the median counts.
    #[arg(long, value_name = "R", default_value_t = 3)]
    repeat: u32,

    /// A folder for what is kept; one that is removed afterwards unless said otherwise.
    #[command(flatten)]
    cache: CacheOptions,

    /// One JSON object on standard output instead of a table.
    #[arg(long)]
    json: bool,
}

/// How second turns began: the wait for the first token, and how much of the prompt was known.
struct Begun {
    way: &'static str,
    first_ms: Vec<f64>,
    cached_share: Vec<f64>,
}

/// A folder that is removed when the measurement is over.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the system's folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Measures and reports.
///
/// # Errors
/// When a size cannot be met, or the model cannot be loaded.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for (flag, size) in [
        ("--prompt-tokens", arguments.prompt_tokens),
        ("--gen-tokens", arguments.gen_tokens),
        ("--turn-tokens", arguments.turn_tokens),
    ] {
        check_size(flag, size, TOKENS_MAX)?;
    }
    check_size("--repeat", arguments.repeat, CONVERSATIONS_MAX)?;
    let mut cache = arguments.cache.clone();
    let scratch = std::env::temp_dir().join(format!("kauri-bench-reuse-{}", std::process::id()));
    let _scratch = cache.cache_dir.is_none().then(|| Scratch(scratch.clone()));
    cache.cache_dir.get_or_insert(scratch);
    let status = Status::new();
    status.say("without a folder");
    let (mut cold, mut warm, mut restarted) =
        (Begun::new("computed whole"), Begun::new("first turn in the cache"), Begun::new("after a restart"));
    let service = arguments.load(None)?;
    let prompts = arguments.prompts(service.vocab());
    let (mut turns, mut random) = (Vec::new(), Random::new(2));
    for prompt in &prompts {
        let (answer, ..) = service.submit(arguments.request(prompt))?.wait()?;
        let more: Vec<u32> = (0..arguments.turn_tokens).map(|_| random.below(service.vocab())).collect();
        let turn = [&prompt[..], &answer, &more].concat();
        cold.note(&arguments.second(&service, &turn, COLD)?);
        // The same again, since the cold one may have taken the room.
        service.submit(arguments.request(prompt))?.wait()?;
        warm.note(&arguments.second(&service, &turn, 0)?);
        turns.push(turn);
    }
    drop(service);
    status.say("with a folder");
    let service = arguments.load(Some(&cache))?;
    for prompt in &prompts {
        service.submit(arguments.request(prompt))?.wait()?;
    }
    drop(service);
    let service = arguments.load(Some(&cache))?;
    for turn in &turns {
        restarted.note(&arguments.second(&service, turn, 0)?);
    }
    drop(status);
    print(arguments, &[cold, warm, restarted])
}

impl Arguments {
    fn load(&self, cache: Option<&CacheOptions>) -> anyhow::Result<Service> {
        let needed = (self.prompt_tokens + self.gen_tokens).saturating_add(self.turn_tokens + 1);
        let mut options = self.model.options();
        options.context_tokens = options.context_tokens.or(Some(needed));
        // Room for a conversation, the same under the cold salt, and one more.
        options.cache_tokens = Some(needed.saturating_mul(3).saturating_add(96));
        options.snapshots = 8;
        let path = self.model.located()?;
        let name = path.as_deref();
        let mut engine = Engine::load(name, &options).map_err(|error| about_model(name, error))?;
        if let Some(cache) = cache {
            engine.remember(&cache.remembering(0.0))?;
        }
        if engine.window_tokens() < needed {
            let window = engine.window_tokens();
            anyhow::bail!(BadInput(format!("these sizes need a window of {needed} tokens, but it is {window}")));
        }
        let service = engine.serve(&Serving::default());
        // Touches every weight, so that nothing waits for the disk but what is measured.
        let warm = Submission { salt: COLD + 1, ..self.request(&[1, 2, 3]).into() };
        service.submit(warm)?.wait()?;
        Ok(service)
    }

    fn prompts(&self, vocab: u32) -> Vec<Vec<u32>> {
        let mut random = Random::new(1);
        let mut prompt = |_| (0..self.prompt_tokens).map(|_| random.below(vocab)).collect();
        (0..self.repeat).map(&mut prompt).collect()
    }

    fn request(&self, prompt: &[u32]) -> Request {
        Request {
            prompt: prompt.to_vec(),
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            stops: Vec::new(),
            max_tokens: Some(self.gen_tokens as usize),
            end_tokens: Vec::new(),
            ..Request::default()
        }
    }

    /// The second turn, as far as its first token.
    fn second(&self, service: &Service, turn: &[u32], salt: u64) -> anyhow::Result<Done> {
        let request = Request { max_tokens: Some(1), ..self.request(turn) };
        Ok(service.submit(Submission { salt, ..request.into() })?.wait()?.2)
    }
}

impl Begun {
    fn new(way: &'static str) -> Self {
        Self { way, first_ms: Vec::new(), cached_share: Vec::new() }
    }

    fn note(&mut self, done: &Done) {
        self.first_ms.push(done.time_to_first_token.as_secs_f64() * 1e3);
        self.cached_share.push(done.cached_tokens as f64 / done.prompt_tokens as f64);
    }
}

fn print(arguments: &Arguments, ways: &[Begun; 3]) -> anyhow::Result<()> {
    let [cold, warm, restarted] = ways.each_ref().map(|begun| median(&begun.first_ms));
    if arguments.json {
        let object = json!({
            "model": title(&arguments.model),
            "prompt_tokens": arguments.prompt_tokens,
            "gen_tokens": arguments.gen_tokens,
            "turn_tokens": arguments.turn_tokens,
            "repeat": arguments.repeat,
            "ttft_ms": { "cold": cold, "warm": warm, "restarted": restarted },
            "cached_token_share": {
                "cold": median(&ways[0].cached_share),
                "warm": median(&ways[1].cached_share),
                "restarted": median(&ways[2].cached_share),
            },
        });
        return Ok(terminal::print(&format!("{object}\n"))?);
    }
    let heading = format!(
        "{}: the second turn of a conversation of {} tokens and an answer of {}, with {} more\n\n",
        title(&arguments.model),
        arguments.prompt_tokens,
        arguments.gen_tokens,
        arguments.turn_tokens
    );
    let mut table = Table::default();
    table.row(Tone::Heading, ["second turn", "first token ms", "of cold", "known"]);
    for begun in ways {
        let first = median(&begun.first_ms);
        let cells = [begun.way.to_owned(), figure(first), percent(first / cold), percent(median(&begun.cached_share))];
        table.row(Tone::Plain, cells);
    }
    Ok(terminal::print(&(heading + &table.lines(terminal::is_coloured())))?)
}
