//! `kauri rerank`: how well documents answer a query.

use std::io::{self, Write};

use anyhow::{Context, bail};
use clap::Args;
use kauri_engine::{Engine, Options};
use serde_json::json;

use super::embed;
use crate::failure::{BadInput, about_model};
use crate::model_options::ModelOptions;
use crate::terminal;

/// Sorts the lines of standard input by how well they answer a query, the best first.
///
/// Each is printed behind its score, from 0 to 1. It takes a model made for it, a reranker.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What is asked.
    #[arg(value_name = "QUERY")]
    query: String,

    /// Print only so many.
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// Print one JSON object a line for each document: `index`, the number of its line from 0, and `score`.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    model: ModelOptions,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri rerank --model reranker.gguf \"Who keeps the lighthouse?\" < paragraphs.txt
  kauri rerank --model reranker.gguf \"red shoes\" --top 3 --json < products.txt";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.query.trim().is_empty() {
        bail!(BadInput("the query is empty; say what is asked".to_owned()));
    }
    let documents = embed::lines()?;
    let path = arguments.model.located()?;
    let name = path.as_deref();
    let options = Options { reads: true, ..arguments.model.options() };
    let mut engine = Engine::load(name, &options).map_err(|error| about_model(name, error))?;
    let pairs = (1..).zip(&documents).map(|(number, document)| {
        if document.trim().is_empty() {
            bail!(BadInput(format!("standard input, line {number} is empty: there is nothing to read")));
        }
        let pair = engine.pair(&arguments.query, document)?;
        engine.check_passage(&pair).with_context(|| format!("standard input, line {number}, with the query"))?;
        Ok(pair)
    });
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    let mut scores = Vec::with_capacity(pairs.len());
    engine.reader().judge(&pairs, |index, score| scores.push((index, score)))?;
    // Among equals the first in the input.
    scores.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let mut stdout = io::stdout().lock();
    for (index, score) in scores.into_iter().take(arguments.top.unwrap_or(usize::MAX)) {
        if arguments.json {
            writeln!(stdout, "{}", json!({ "index": index, "score": score }))?;
        } else {
            writeln!(stdout, "{score:.4}  {}", terminal::printable(&documents[index]))?;
        }
    }
    Ok(())
}
