//! `kauri cp`: another word for a model.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, bail};
use clap::Args;
use kauri_engine::DEFAULT_NAME;
use kauri_engine::catalog::Catalog;

use crate::failure::BadInput;
use crate::library::Library;

/// Gives a model another name, which every command takes; no file is copied. kauri rm takes the name away again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, visible_alias = "alias")]
pub struct Arguments {
    /// The model: any name, or a path.
    #[arg(value_name = "MODEL")]
    model: String,

    /// Its new name: small letters, digits and . _ - :
    #[arg(value_name = "NAME")]
    name: String,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri cp qwen3:8b:Q8_0 writer
  kauri cp ~/models/mine.gguf mine
  kauri rm mine";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let library = Library::open()?;
    if arguments.name == DEFAULT_NAME || library.catalog.model(&arguments.name).is_some() {
        bail!(BadInput(format!("{} is a model's own name already: choose another", arguments.name)));
    }
    library.parse(&arguments.model)?;
    // A path is kept whole: the alias is used from other folders, too.
    let target = fs::canonicalize(&arguments.model).ok().and_then(|path| path.to_str().map(str::to_owned));
    let mut aliases = library.catalog.aliases().clone();
    aliases.insert(arguments.name.clone(), target.unwrap_or_else(|| arguments.model.clone()));
    write(&library, &aliases)
}

/// Takes an alias away.
pub fn forget(library: &Library, name: &str) -> anyhow::Result<()> {
    let mut aliases = library.catalog.aliases().clone();
    aliases.remove(name);
    write(library, &aliases)
}

fn write(library: &Library, aliases: &BTreeMap<String, String>) -> anyhow::Result<()> {
    // A string of JSON is one of TOML, but for characters that no alias and no path has.
    let lines = aliases.iter().map(|(name, target)| {
        let text = |word: &String| serde_json::Value::String(word.clone()).to_string();
        format!("{} = {}\n", text(name), text(target))
    });
    let text = format!("# Written by kauri cp.\n[aliases]\n{}", lines.collect::<String>());
    Catalog::default().with(&text).map_err(|error| BadInput(error.to_string()))?;
    let path = &library.aliases;
    let folder = path.parent().context("the configuration has no folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let made = path.with_extension(format!("new-{}", std::process::id()));
    fs::write(&made, text).with_context(|| made.display().to_string())?;
    fs::rename(&made, path).with_context(|| path.display().to_string())
}
