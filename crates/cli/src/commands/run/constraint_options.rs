//! What an answer must obey, as options.

use std::path::PathBuf;

use clap::Args;
use kauri_engine::grammar::Grammar;
use kauri_engine::{Engine, Error};

use super::answer::eprint_aside;
use crate::failure::BadInput;
use crate::input;

/// What the answer must obey.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What the answer must obey")]
#[group(multiple = false)]
pub struct ConstraintOptions {
    /// JSON that is valid for this schema.
    #[arg(long, value_name = "FILE")]
    json_schema: Option<PathBuf>,

    /// A JSON object, whatever is in it.
    #[arg(long)]
    json_object: bool,

    /// A grammar in Lark's notation, or in that of llama.cpp where the file's name ends in .gbnf.
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,

    /// A regular expression that the whole answer matches.
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,

    /// One of several texts: given once for each, and the whole answer is one of them.
    #[arg(long, value_name = "TEXT")]
    choice: Vec<String>,
}

impl ConstraintOptions {
    /// What was given, read from its file.
    pub fn read(&self) -> anyhow::Result<Option<Grammar>> {
        if let Some(file) = &self.json_schema {
            return Ok(Some(Grammar::JsonSchema(input::file(file)?)));
        }
        if let Some(file) = &self.grammar {
            let text = input::file(file)?;
            let is_gbnf = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gbnf"));
            return Ok(Some(if is_gbnf { Grammar::Gbnf(text) } else { Grammar::Lark(text) }));
        }
        if !self.choice.is_empty() {
            return Ok(Some(Grammar::Choice(self.choice.clone())));
        }
        let object = self.json_object.then_some(Grammar::JsonObject);
        Ok(self.regex.clone().map(Grammar::Regex).or(object))
    }
}

/// Compiles it for a model, which keeps it, and says what of it says nothing.
pub fn check(engine: &Engine, grammar: &Grammar) -> anyhow::Result<()> {
    let compiled = engine.compile(grammar).map_err(|error| match error {
        Error::Grammar(error) => BadInput(error.to_string()).into(),
        other => anyhow::Error::from(other),
    })?;
    compiled.notes().iter().for_each(|note| eprint_aside(note));
    Ok(())
}
