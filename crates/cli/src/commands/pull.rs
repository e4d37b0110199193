//! `kauri pull`: brings a model here.

use std::io::{self, Write};

use anyhow::bail;
use clap::Args;
use kauri_engine::local;
use kauri_engine::resolve::is_model;
use serde_json::json;

use crate::failure::{BadInput, print_line};
use crate::library::Library;
use crate::terminal;

/// Brings a model here, whole and verified; what was cut short goes on where it was.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A name of the catalog (kauri list), `hf:OWNER/REPO[:QUANT]`, `ollama:NAME[:TAG]`, `oci:HOST/NAME[:TAG]`, or an address.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Say what would be pulled, and how large it is.
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object for each model.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri pull qwen3:8b                              the quantisation that suits this machine
  kauri pull qwen3:8b:Q8_0
  kauri pull hf:unsloth/Qwen3-8B-GGUF:Q4_K_M       any repository of the hub
  kauri pull https://example.org/m-Q4_K_M.gguf#sha256=...";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let library = Library::open()?;
    for name in &arguments.names {
        let reference = library.parse(name)?;
        let Some(plan) = library.plan(&reference)? else {
            let is_here = local::find(&library.places, &reference).is_some_and(|path| is_model(name) || path.exists());
            bail!(BadInput(if is_here {
                format!("{name} is of this machine already: there is nothing to pull")
            } else {
                format!(
                    "{name}: there is no such file, and a path is no name that could be pulled: give hf:OWNER/REPO, or a name of kauri list"
                )
            }));
        };
        let missing = library.puller().missing_bytes(&plan);
        if arguments.dry_run {
            report(arguments.json, &plan.name, plan.bytes(), missing, None)?;
            continue;
        }
        if !arguments.json && missing > 0 {
            print_line(&format!("{}: {} to pull", plan.name, terminal::bytes(missing)));
        }
        let path = library.pull(&plan)?;
        let path = local::find(&library.places, &reference).unwrap_or(path);
        report(arguments.json, &plan.name, plan.bytes(), 0, Some(&path.display().to_string()))?;
    }
    Ok(())
}

fn report(is_json: bool, name: &str, bytes: u64, missing: u64, path: Option<&str>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if is_json {
        return writeln!(out, "{}", json!({ "name": name, "bytes": bytes, "missing_bytes": missing, "path": path }));
    }
    let missing = if missing > 0 { format!(", {} of it missing", terminal::bytes(missing)) } else { String::new() };
    let path = path.map_or(String::new(), |path| format!("\n{path}"));
    writeln!(out, "{}: {}{missing}{}", terminal::printable(name), terminal::bytes(bytes), terminal::printable(&path))
}
