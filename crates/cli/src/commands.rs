//! The commands: one file each, listed here in alphabetic order.

mod bench;
mod completions;
mod convert;
mod debug;
mod embed;
mod imatrix;
mod inspect;
mod perplexity;
mod quantize;
mod rerank;
mod run;
mod serve;
mod tokenize;

use clap::Subcommand;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Bench(bench::Arguments),
    Completions(completions::Arguments),
    Convert(convert::Arguments),
    Debug(debug::Arguments),
    Embed(embed::Arguments),
    Imatrix(imatrix::Arguments),
    Inspect(inspect::Arguments),
    Perplexity(perplexity::Arguments),
    Quantize(quantize::Arguments),
    Rerank(rerank::Arguments),
    Run(Box<run::Arguments>),
    Serve(serve::Arguments),
    Tokenize(tokenize::Arguments),
}

impl Command {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Bench(arguments) => bench::run(&arguments),
            Self::Completions(arguments) => completions::run(&arguments),
            Self::Convert(arguments) => convert::run(&arguments),
            Self::Debug(arguments) => debug::run(&arguments),
            Self::Embed(arguments) => embed::run(&arguments),
            Self::Imatrix(arguments) => imatrix::run(&arguments),
            Self::Inspect(arguments) => inspect::run(&arguments),
            Self::Perplexity(arguments) => perplexity::run(&arguments),
            Self::Quantize(arguments) => quantize::run(&arguments),
            Self::Rerank(arguments) => rerank::run(&arguments),
            Self::Run(arguments) => run::run(&arguments),
            Self::Serve(arguments) => serve::run(&arguments),
            Self::Tokenize(arguments) => tokenize::run(&arguments),
        }
    }
}
