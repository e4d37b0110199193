//! `kauri bench`: how fast a model runs here, and how far that is from what this machine allows.
//!
//! It drives the device itself, with pseudo-random tokens: no text, no sampler and no conversation stand between the
//! figures and the forward pass. The names in the JSON are fixed; tables and plots are for people and may change.

mod costs;
mod drive;
mod ladder;
mod plot;
mod report;
mod reuse;
mod serve;
mod speed;
mod statistics;
mod terminal;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use kauri_engine::{DEFAULT_NAME, Options};

use crate::failure::BadInput;
use crate::model_options::ModelOptions;

/// No model has a longer window.
const TOKENS_MAX: u32 = 1 << 24;
const EXAMPLES: &str = "\
Examples:
  kauri bench                                    the model inside this program
  kauri bench --model m.gguf --batch 8           eight sequences at once
  kauri bench --model m.gguf --depth 4096        an answer at the end of a long context
  kauri bench --frontiers --plot speed.svg       how speed falls as the context grows, and the picture
  kauri bench ladder --plot ladder.svg           what each step from the plainest engine to this one gains
  kauri bench reuse --prompt-tokens 2000         what a remembered conversation saves, after a restart too
  kauri bench serve --concurrency 8              many requests at once, and how long each waits
  kauri bench serve --url http://127.0.0.1:8080  the same on a server";

/// Measures how fast a model runs here, as a share of what this machine allows.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    kind: Option<Kind>,
    #[command(flatten)]
    speed: speed::SpeedArguments,
}

/// What else there is to measure.
#[derive(Debug, Subcommand)]
enum Kind {
    Ladder(ladder::Arguments),
    Reuse(reuse::Arguments),
    Serve(Box<serve::Arguments>),
}

/// How the figures come out, whatever was measured.
#[derive(Args, Debug)]
struct Output {
    /// One JSON object on standard output instead of tables.
    #[arg(long)]
    json: bool,

    /// Draws the figures into this file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// An instrument of its own.
#[derive(Args, Debug)]
struct Paging {
    /// Tokens to a page of the cache, to see what their size is worth; 32 is what every other command has.
    #[arg(long, value_name = "N", default_value_t = Options::default().page_tokens, value_parser = page_tokens)]
    page_tokens: u32,
}

fn page_tokens(text: &str) -> Result<u32, &'static str> {
    let tokens = text.parse().ok().filter(|tokens| (16..=512u32).contains(tokens) && tokens.is_multiple_of(16));
    tokens.ok_or("give a multiple of 16, up to 512")
}

/// Runs the command.
///
/// # Errors
/// When a size cannot be met, the model not be loaded, the plot not be written, or the device is lost.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.kind {
        None => speed::run(&arguments.speed),
        Some(Kind::Ladder(ladder)) => ladder::run(ladder),
        Some(Kind::Reuse(reuse)) => reuse::run(reuse),
        Some(Kind::Serve(serve)) => serve::run(serve),
    }
}

impl Output {
    /// Refuses a plot that cannot be written, before minutes are spent on measuring it.
    fn check(&self) -> Result<(), BadInput> {
        let Some(path) = &self.plot else { return Ok(()) };
        match OpenOptions::new().create(true).truncate(false).write(true).open(path) {
            Ok(_) => Ok(()),
            Err(error) => Err(BadInput(format!("--plot {}: {error}; name a file that can be written", path.display()))),
        }
    }

    /// Writes the plot where one was asked for.
    fn draw(&self, picture: impl FnOnce() -> plot::Picture) -> anyhow::Result<()> {
        let Some(path) = &self.plot else { return Ok(()) };
        fs::write(path, picture().finish()).with_context(|| format!("--plot {}", path.display()))
    }
}

/// Refuses a size outside `1..=most`.
fn check_size(flag: &str, size: u32, most: u32) -> Result<(), BadInput> {
    if (1..=most).contains(&size) {
        return Ok(());
    }
    Err(BadInput(format!("{flag} {size}: give a number from 1 to {most}")))
}

/// What people call the model: the name without the folders before it.
fn title(model: &ModelOptions) -> String {
    let name = model.model.as_deref().unwrap_or(DEFAULT_NAME);
    let last = Path::new(name).file_name();
    last.map_or_else(|| name.to_owned(), |last| last.to_string_lossy().into_owned())
}
