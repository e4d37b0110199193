//! The `kauri` command: reads the command line, runs one command, and turns its outcome into an exit code.
//!
//! Exit codes: 0 done, 1 it failed while working, 2 bad input or usage, 130 stopped by Ctrl-C. What people read goes to
//! standard error; what was asked for goes to standard output.
#![forbid(unsafe_code)]

mod cache_options;
mod commands;
mod failure;
mod foreseen;
mod input;
mod interrupt;
mod library;
mod lora_options;
mod measured;
mod model_options;
mod pulling;
mod terminal;
mod warming;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// Runs open-weight language models on your own hardware.
#[derive(Debug, Parser)]
#[command(name = "kauri", version, arg_required_else_help = true, styles = terminal::HELP_STYLES, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri run \"Why is decode slow?\"         answer one question with the model inside this program
  kauri run                               talk, a turn at a time
  kauri run model.gguf < question.txt     any GGUF file or safetensors directory
  kauri list                              models that have a name, and whether they fit here
  kauri run qwen3:4b \"Why?\"               pulled when it is not here, once you say so
  kauri inspect model.gguf                what is in a file
  kauri run --help                        each command has examples of its own";

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return failure::report_usage(&error),
    };
    match arguments.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
