//! `kauri completions`: the script that lets a shell complete this command's words.

use std::io::{self, Write};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Prints the script that completes `kauri` in a shell.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri completions bash > ~/.local/share/bash-completion/completions/kauri
  kauri completions zsh > \"${fpath[1]}/_kauri\"
  kauri completions fish > ~/.config/fish/completions/kauri.fish";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Not straight to standard output: the generator has no error for a pipe that closes.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "kauri", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(())
}
