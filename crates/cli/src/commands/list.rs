//! `kauri list` and `kauri search`: the models that are here and those that could be, with what suits this machine.

use std::io::{self, Write};

use clap::Args;
use kauri_engine::catalog::Model;
use kauri_engine::local::{self, Local};
use kauri_engine::{DEFAULT_NAME, Memory, Options, fit};
use serde_json::{Value as Json, json};

use crate::foreseen;
use crate::library::Library;
use crate::measured;
use crate::terminal::{self, ASIDE, HEADING};

/// Lists models: those on this machine, then those of the catalog, whether they fit, and about how fast they would write.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Only what is on this machine.
    #[arg(long)]
    local: bool,

    /// Only what fits.
    #[arg(long)]
    fits: bool,

    /// Print one JSON object a line for each model.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri list --local
  kauri list --fits
  kauri list --json | jq -r 'select(.decode_tokens_per_s > 10) | .name'";

/// Looks for models in the catalog: by name, family, licence or purpose (writes, embeds, ranks).
#[derive(Args, Debug)]
pub struct SearchArguments {
    /// A part of what is looked for.
    #[arg(value_name = "WORD")]
    word: String,

    /// Print one JSON object a line for each model.
    #[arg(long)]
    json: bool,
}

/// A model on a line.
struct Line {
    name: String,
    place: &'static str,
    quant: Option<String>,
    bytes: u64,
    fits: bool,
    /// Bytes that a token reads.
    token_bytes: u64,
    about: String,
    path: Option<String>,
}

/// Runs `kauri list`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let library = Library::open()?;
    let mut lines = vec![built_in()];
    lines.extend(local::list(&library.places).into_iter().map(here));
    for (alias, target) in library.catalog.aliases() {
        let reference = library.parse(target).ok();
        let path = reference.and_then(|reference| local::find(&library.places, &reference));
        if let Some(path) = path {
            let local = Local { name: alias.clone(), source: path, bytes: 0, quant: None };
            lines.push(Line { about: format!("another name of {target}"), ..here(local) });
        }
    }
    if !arguments.local {
        let memory = Memory::of_this_machine();
        lines.extend(library.catalog.models().iter().filter_map(|model| known(model, memory.as_ref())));
    }
    lines.retain(|line| line.fits || !arguments.fits);
    print(&library, &lines, arguments.json)
}

/// Runs `kauri search`.
pub fn search(arguments: &SearchArguments) -> anyhow::Result<()> {
    let library = Library::open()?;
    let memory = Memory::of_this_machine();
    let found = library.catalog.search(&arguments.word);
    let lines: Vec<Line> = found.filter_map(|model| known(model, memory.as_ref())).collect();
    if lines.is_empty() && !arguments.json {
        let word = terminal::printable(&arguments.word).into_owned();
        writeln!(
            io::stderr(),
            "nothing in the catalog says {word:?}; the hub has more: https://huggingface.co/models?library=gguf&search={word}"
        )?;
    }
    print(&library, &lines, arguments.json)
}

fn built_in() -> Line {
    let local = Local {
        name: DEFAULT_NAME.to_owned(),
        source: DEFAULT_NAME.into(),
        bytes: 0,
        quant: Some("Q4_K_M".to_owned()),
    };
    Line { path: None, about: "inside this program".to_owned(), ..here(local) }
}

/// A model of this machine: its file says all, also how large it is where nobody else does.
fn here(local: Local) -> Line {
    let path = local.source.display().to_string();
    let fitted = fit(Some(&path), &Options::default());
    let (fits, token_bytes, about) = match &fitted {
        Ok(fitted) => {
            (fitted.fits(), fitted.bytes_per_token, format!("{} parameters", terminal::count(fitted.parameters)))
        }
        Err(error) => (false, 0, format!("cannot be used: {error}")),
    };
    let Local { name, mut bytes, quant, .. } = local;
    if bytes == 0 {
        bytes = fitted.map_or(0, |fitted| fitted.sums.weights_bytes);
    }
    Line { name, place: "local", quant, bytes, fits, token_bytes, about, path: Some(path) }
}

/// A model of the catalog, in the quantisation that would be pulled.
fn known(model: &Model, memory: Option<&Memory>) -> Option<Line> {
    let (quant, fitted) = foreseen::preferred(model, foreseen::Wish::default(), memory)?;
    let purpose = model.purpose.word();
    Some(Line {
        name: model.name.clone(),
        place: "catalog",
        quant: Some(quant.to_owned()),
        bytes: fitted.sums.weights_bytes,
        fits: fitted.fits(),
        token_bytes: fitted.bytes_per_token,
        about: format!("{:.2} B parameters, {purpose}, {}", model.parameters_b, model.licence),
        path: None,
    })
}

fn print(library: &Library, lines: &[Line], is_json: bool) -> anyhow::Result<()> {
    let bandwidth = if lines.is_empty() { 0.0 } else { measured::bandwidth(library) };
    let speed = |line: &Line| (line.token_bytes > 0).then(|| bandwidth / line.token_bytes as f64);
    let mut out = anstream::stdout().lock();
    if is_json {
        for line in lines {
            writeln!(out, "{}", to_json(line, speed(line)))?;
        }
        return Ok(());
    }
    let width = lines.iter().map(|line| line.name.len()).max().unwrap_or(0).min(60);
    if !lines.is_empty() {
        writeln!(
            out,
            "{HEADING}{:<width$}  {:<10} {:>10}  {:<5} {:>9}{HEADING:#}",
            "name", "quant", "size", "fits", "tokens/s"
        )?;
    }
    for line in lines {
        let about = if line.place == "catalog" { format!("to pull; {}", line.about) } else { line.about.clone() };
        let size = if line.place == "catalog" {
            format!("~{}", terminal::bytes(line.bytes))
        } else {
            terminal::bytes(line.bytes)
        };
        let fits = if line.fits { "yes" } else { "no" };
        let speed = speed(line).filter(|_| line.fits).map_or("-".to_owned(), at_most);
        let quant = line.quant.as_deref().unwrap_or("-");
        let row = format!("{:<width$}  {quant:<10} {size:>10}  {fits:<5} {speed:>9}", line.name);
        writeln!(out, "{}  {ASIDE}{}{ASIDE:#}", terminal::printable(&row), terminal::printable(&about))?;
    }
    Ok(())
}

/// A speed that is not reached, in tokens a second; of a slow one with a digit more, so that no model is said to write nothing.
fn at_most(speed: f64) -> String {
    if speed < 10.0 { format!("<{speed:.1}") } else { format!("<{speed:.0}") }
}

fn to_json(line: &Line, speed: Option<f64>) -> Json {
    json!({
        "name": line.name,
        "place": line.place,
        "quant": line.quant,
        "bytes": line.bytes,
        "fits": line.fits,
        "decode_tokens_per_s": speed,
        "about": line.about,
        "path": line.path,
    })
}

#[cfg(test)]
mod tests {
    use super::at_most;

    #[test]
    fn a_slow_model_is_not_said_to_write_nothing() {
        assert_eq!([0.31, 4.26, 606.4].map(at_most), ["<0.3", "<4.3", "<606"]);
    }
}
