//! `kauri debug`: what other engines can be compared with, in fixed formats.

mod grammar;
mod logits;
mod render;

use clap::{Args, Subcommand};

/// Prints what other engines can be compared with.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    instrument: Instrument,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri debug logits --tokens 915,755,258,515 > logits.f32
  kauri debug grammar --schema person.json < people.jsonl
  kauri debug render --model model.gguf < conversation.json";

/// What to print.
#[derive(Debug, Subcommand)]
enum Instrument {
    Grammar(grammar::Arguments),
    Logits(logits::Arguments),
    Render(render::Arguments),
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.instrument {
        Instrument::Grammar(arguments) => grammar::run(arguments),
        Instrument::Logits(arguments) => logits::run(arguments),
        Instrument::Render(arguments) => render::run(arguments),
    }
}
