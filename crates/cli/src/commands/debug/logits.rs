//! `kauri debug logits`: the logits of every position of a sequence of tokens.

use std::io::{self, BufWriter, Write};

use clap::Args;
use kauri_engine::{Engine, Options};

use crate::failure::about_model;
use crate::model_options::ModelOptions;

/// Writes the logits of every token to standard output: raw little-endian f32, (tokens, vocab).
///
/// For comparisons with other engines, so in the arithmetic of `--exact` where `--fast` does not ask for that of `kauri run`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Token ids, with commas between; `kauri tokenize` gives those of a text.
    #[arg(long, value_name = "IDS", value_delimiter = ',', required = true)]
    tokens: Vec<u32>,

    /// Compute N tokens at a time; as many as fit a batch where not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    chunk: Option<u32>,

    /// Round where `kauri run` rounds to be quick. Without it, all that `--exact` makes exact is.
    #[arg(long, conflicts_with = "exact")]
    fast: bool,

    #[command(flatten)]
    model: ModelOptions,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri debug logits --tokens 915,755,258,515 > logits.f32
  kauri debug logits --model model.gguf --tokens 1,2,3 --cache-type f32 --isa scalar > reference.f32
  kauri debug logits --tokens 1,2,3 --chunk 1 | cmp - whole.f32     reading in pieces changes nothing";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let options = arguments.model.options();
    let chunk = arguments.chunk.unwrap_or(options.batch_tokens);
    let options = Options {
        batch_tokens: chunk,
        batch_outputs: chunk,
        // What is compared is the model, not how a kernel rounds.
        exact: !arguments.fast,
        // Sequences longer than the default window need no option of their own.
        context_tokens: options.context_tokens.or(u32::try_from(arguments.tokens.len()).ok()),
        ..options
    };
    let path = arguments.model.located()?;
    let name = path.as_deref();
    let mut engine = Engine::load(name, &options).map_err(|error| about_model(name, error))?;
    let mut stdout = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    engine.session().logits(&arguments.tokens, chunk as usize, |_, row| {
        if written.is_ok() {
            written = row.iter().try_for_each(|logit| stdout.write_all(&logit.to_le_bytes()));
        }
    })?;
    written?;
    stdout.flush()?;
    Ok(())
}
