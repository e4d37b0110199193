//! `kauri imatrix`: what in a model matters, from a text that it reads.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kauri_engine::making::Study;
use serde_json::json;

use super::quantize::making;
use crate::failure::BadInput;
use crate::input;
use crate::interrupt::{self, Second};
use crate::terminal::Progress;

/// Chunks of so many tokens.
const CONTEXT_TOKENS: u16 = 512;

/// Reads a text and keeps how much each input of each matrix mattered, so that quantisation spends its bits there.
///
/// A few hundred kilobytes of text like what the model will read are enough. Ctrl-C keeps what was seen so far.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The text, UTF-8.
    #[arg(value_name = "TEXT")]
    text: PathBuf,

    /// The file to make, a GGUF of the type imatrix, as llama.cpp has it.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// A GGUF file, a safetensors directory, or kauri-nano (the default); best with weights as they were trained.
    #[arg(long, value_name = "NAME|PATH")]
    model: Option<String>,

    /// Tokens of a chunk, each read from an empty cache.
    #[arg(long, value_name = "N", default_value_t = CONTEXT_TOKENS, value_parser = clap::value_parser!(u16).range(8..))]
    context: u16,

    /// Read only N chunks, taken evenly from the text.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,

    /// CPU threads; one for each core unless said otherwise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri imatrix text.txt --model model-BF16.gguf -o model.imatrix.gguf
  kauri quantize model-BF16.gguf model-Q4_K_M.gguf --type q4_k_m --imatrix model.imatrix.gguf";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let text = input::file(&arguments.text)?;
    interrupt::catch(Second::Ends)?;
    let progress = Progress::start("reading the first chunk");
    let name = arguments.model.as_deref();
    let limits = [usize::from(arguments.context), arguments.chunks.map_or(usize::MAX, |chunks| chunks as usize)];
    let found = Study::new(name, &text, limits, arguments.threads.map(usize::from)).and_then(|mut study| {
        study.importance(&mut |done, all| {
            progress.show(|| format!("chunk {done} of {all}"));
            !interrupt::is_requested()
        })
    });
    progress.clear();
    let (importance, chunks) = found.map_err(|error| making::about(name, error))?;
    let output = &arguments.output;
    // Never a half file under its own name.
    let mut next = output.as_os_str().to_owned();
    next.push(".partial");
    let file =
        File::create(&next).map_err(|error| BadInput(format!("{}: cannot be written: {error}", output.display())))?;
    let mut file = BufWriter::new(file);
    importance
        .write(&mut file, &arguments.text.display().to_string(), chunks as u64, u64::from(arguments.context))
        .and_then(|()| file.flush())
        .and_then(|()| fs::rename(&next, output))
        .with_context(|| format!("{}: cannot be written", output.display()))?;
    if arguments.json {
        let tokens = chunks * usize::from(arguments.context);
        let object = json!({ "file": output, "tensors": importance.len(), "chunks": chunks, "tokens": tokens });
        writeln!(anstream::stdout(), "{object}")?;
    } else {
        writeln!(
            anstream::stderr(),
            "{}: {} matrices seen at {chunks} x {} tokens",
            output.display(),
            importance.len(),
            arguments.context
        )?;
    }
    Ok(())
}
