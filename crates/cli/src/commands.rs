//! The commands: one file each, listed here in alphabetic order.

mod bench;
mod completions;
mod convert;
mod cp;
mod debug;
mod doctor;
mod embed;
mod fit;
mod imatrix;
mod inspect;
mod list;
mod perplexity;
mod pull;
mod quantize;
mod rerank;
mod rm;
mod run;
mod serve;
mod show;
mod tokenize;

use clap::Subcommand;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Bench(bench::Arguments),
    Completions(completions::Arguments),
    Convert(convert::Arguments),
    Cp(cp::Arguments),
    Debug(debug::Arguments),
    Doctor(doctor::Arguments),
    Embed(embed::Arguments),
    Fit(fit::Arguments),
    Imatrix(imatrix::Arguments),
    Inspect(inspect::Arguments),
    List(list::Arguments),
    Perplexity(perplexity::Arguments),
    Pull(pull::Arguments),
    Quantize(quantize::Arguments),
    Rerank(rerank::Arguments),
    Rm(rm::Arguments),
    Run(Box<run::Arguments>),
    Search(list::SearchArguments),
    Serve(Box<serve::Arguments>),
    Show(show::Arguments),
    Tokenize(tokenize::Arguments),
}

impl Command {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Bench(arguments) => bench::run(&arguments),
            Self::Completions(arguments) => completions::run(&arguments),
            Self::Convert(arguments) => convert::run(&arguments),
            Self::Cp(arguments) => cp::run(&arguments),
            Self::Debug(arguments) => debug::run(&arguments),
            Self::Doctor(arguments) => doctor::run(&arguments),
            Self::Embed(arguments) => embed::run(&arguments),
            Self::Fit(arguments) => fit::run(&arguments),
            Self::Imatrix(arguments) => imatrix::run(&arguments),
            Self::Inspect(arguments) => inspect::run(&arguments),
            Self::List(arguments) => list::run(&arguments),
            Self::Perplexity(arguments) => perplexity::run(&arguments),
            Self::Pull(arguments) => pull::run(&arguments),
            Self::Quantize(arguments) => quantize::run(&arguments),
            Self::Rerank(arguments) => rerank::run(&arguments),
            Self::Rm(arguments) => rm::run(&arguments),
            Self::Run(arguments) => run::run(&arguments),
            Self::Search(arguments) => list::search(&arguments),
            Self::Serve(arguments) => serve::run(&arguments),
            Self::Show(arguments) => show::run(&arguments),
            Self::Tokenize(arguments) => tokenize::run(&arguments),
        }
    }
}
