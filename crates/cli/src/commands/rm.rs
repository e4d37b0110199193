//! `kauri rm`: takes a pulled model away.

use std::io::{self, Write};

use anyhow::bail;
use clap::Args;
use kauri_engine::local;
use serde_json::json;

use crate::failure::BadInput;
use crate::library::Library;
use crate::terminal;

/// Takes the files of a pulled model away; those that another model shares stay. Files of your own are never touched.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A name as kauri list shows it, or an alias, of which only the alias goes.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Print one JSON object for each model.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri rm qwen3:8b:Q8_0
  kauri rm hf:unsloth/Qwen3-8B-GGUF:Q4_K_M";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let library = Library::open()?;
    for name in &arguments.names {
        let (freed, files) = if library.catalog.aliases().contains_key(name) {
            super::cp::forget(&library, name)?;
            (0, Vec::new())
        } else {
            let reference = library.parse(name)?;
            let files = local::files(&library.places, &reference);
            match local::remove(&library.places, &reference) {
                Ok(freed) => (freed, files),
                Err(error) => bail!(BadInput(format!("{name}: {error}"))),
            }
        };
        let mut out = io::stdout().lock();
        if arguments.json {
            writeln!(out, "{}", json!({ "name": name, "files": files, "freed_bytes": freed }))?;
        } else {
            let (name, freed) = (terminal::printable(name), terminal::bytes(freed));
            writeln!(out, "{name}: {}gone, {freed} freed", which(&files))?;
        }
    }
    Ok(())
}

/// Which files of a repository they were: it may have others.
fn which(files: &[String]) -> String {
    match files {
        [] => String::new(),
        [file] => format!("{} is ", terminal::printable(file)),
        [first, .., last] => {
            format!("{} to {}, {} files, are ", terminal::printable(first), terminal::printable(last), files.len())
        }
    }
}
