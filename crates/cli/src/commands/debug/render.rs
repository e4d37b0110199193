//! `kauri debug render`: a chat template on a conversation, byte for byte.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kauri_engine::Template;
use kauri_engine::template::Json;

use crate::failure::BadInput;
use crate::input;

/// Renders a chat template on the conversation that standard input holds as JSON.
///
/// Standard input is one object: `messages`, `tools`, `add_generation_prompt`, `bos_token`, `eos_token`, `now` (the clock,
/// ISO 8601) and any variable that the template asks for. Standard output is the text and nothing else.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A file with the template.
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    template: Option<PathBuf>,

    /// The model whose template to use; kauri-nano where neither is given.
    #[arg(long, value_name = "NAME|PATH")]
    model: Option<String>,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | kauri debug render
  kauri debug render --template chat.jinja < conversation.json
  kauri debug render --model model.gguf < conversation.json";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let model = arguments.model.as_deref();
    let (name, source) = if let Some(path) = &arguments.template {
        (path.display().to_string(), input::file(path)?)
    } else {
        let source = kauri_engine::template_source(model)?
            .ok_or_else(|| BadInput("this model has no chat template; give one with --template FILE".to_owned()))?;
        (model.unwrap_or(kauri_engine::DEFAULT_NAME).to_owned(), source)
    };
    let template = Template::compile(&source).map_err(kauri_engine::Error::from).context(name)?;
    let conversation =
        Json::parse(&input::standard_input()?).map_err(kauri_engine::Error::from).context("standard input")?;
    let variables = conversation
        .as_object()
        .ok_or_else(|| BadInput("standard input: expected one JSON object with messages and the like".to_owned()))?;
    let text = template.render(variables).map_err(kauri_engine::Error::from)?;
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
