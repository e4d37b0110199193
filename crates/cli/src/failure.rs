//! How a command's error becomes one line on standard error and an exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::error::ErrorKind;
use kauri_engine::{DEFAULT_NAME, Error};

use crate::terminal;

const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
/// What shells report of a program that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// Bad input or usage, told apart from a failure while working.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

/// Ctrl-C ended the command; whoever pressed it knows why, so nothing is said.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Prints the error on one line and gives the exit code that belongs to it.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if is_closed_pipe(error) {
        // Whoever read our output has seen enough.
        return ExitCode::SUCCESS;
    }
    if error.is::<Interrupted>() {
        return ExitCode::from(INTERRUPTED);
    }
    print_line(&format!("{error:#}"));
    ExitCode::from(if is_input(error) { BAD_INPUT } else { FAILED })
}

/// Prints what the command line's parser found: help and the version as they are, anything wrong on one line.
pub fn report_usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A pipe that closes has seen enough of the help.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(BAD_INPUT)
        }
        _ => {
            print_line(&one_line(&error.render().to_string()));
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// Says which model an error is about, where the error itself does not.
pub fn about_model(name: Option<&str>, error: Error) -> anyhow::Error {
    match &error {
        Error::Architecture(_)
        | Error::Weights(_)
        | Error::Window(_)
        | Error::DoesNotFit(_)
        | Error::Lock(_)
        | Error::Tokenizer(_)
        | Error::Template(_)
        | Error::NotFinite => anyhow::Error::new(error).context(name.unwrap_or(DEFAULT_NAME).to_owned()),
        // Files are named by who reads them; the rest is not about the model.
        Error::File(_)
        | Error::Adapter(_)
        | Error::UnknownAdapter { .. }
        | Error::AdapterTwice { .. }
        | Error::AdapterScale { .. }
        | Error::Sampling(_)
        | Error::Stop(_)
        | Error::Grammar(_)
        | Error::Tools(_)
        | Error::NoTemplate
        | Error::EmptyPrompt
        | Error::PromptTooLong { .. }
        | Error::EmptyText
        | Error::TextTooLong { .. }
        | Error::OnlyReads
        | Error::NoJudge
        | Error::Dimensions { .. }
        | Error::UnknownToken { .. }
        | Error::NoDevice(_)
        | Error::ResidentUnknown
        | Error::QueueFull { .. }
        | Error::Unread
        | Error::StepLost(_)
        | Error::Stopped
        | Error::Device(_) => error.into(),
    }
}

/// Prints one line that begins with the program's name. There is nowhere to report that standard error is gone.
pub fn print_line(message: &str) {
    let style = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let message = terminal::printable(message).replace('\n', " ");
    let _ = writeln!(anstream::stderr(), "{style}kauri:{style:#} {message}");
}

/// The parser's message without its usage and with its hints behind it; a list goes behind the colon that announces it.
fn one_line(message: &str) -> String {
    let mut line = String::new();
    let mut help = None;
    for part in message.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if let Some(usage) = part.strip_prefix("Usage: ") {
            // The words before the first option or argument are the command.
            let command: Vec<&str> = usage.split(' ').take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
            help = Some(format!(" (see {} --help)", command.join(" ")));
            break;
        }
        if part.starts_with("For more information") {
            break;
        }
        let part = part.trim_start_matches("error: ").trim_start_matches("tip: ");
        if !line.is_empty() {
            line.push_str(if line.ends_with(':') || part.starts_with('[') { " " } else { "; " });
        }
        line.push_str(part);
    }
    line + &help.unwrap_or_default()
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.map(io::Error::kind).any(|kind| kind == io::ErrorKind::BrokenPipe)
}

fn is_input(error: &anyhow::Error) -> bool {
    let engine = |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref::<Error>().is_some_and(Error::is_input);
    error.downcast_ref::<BadInput>().is_some() || error.chain().any(|cause| cause.is::<BadInput>() || engine(cause))
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_parser_message_becomes_one_line() {
        let message = "error: unexpected argument '--modle' found\n\n  tip: a similar argument exists: '--model'\n\n\
                       Usage: kauri run --model <NAME|PATH> [MODEL]\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(message),
            "unexpected argument '--modle' found; a similar argument exists: '--model' (see kauri run --help)"
        );
        let message =
            "error: the following required arguments were not provided:\n  <FILE>\n\nUsage: kauri perplexity <FILE>\n";
        assert_eq!(
            one_line(message),
            "the following required arguments were not provided: <FILE> (see kauri perplexity --help)"
        );
        let message = "error: invalid value 'x' for '<SHELL>'\n  [possible values: bash, zsh]\n\nFor more information, try '--help'.\n";
        assert_eq!(one_line(message), "invalid value 'x' for '<SHELL>' [possible values: bash, zsh]");
    }

    #[test]
    fn input_is_told_from_failure_through_context() {
        let input = anyhow::Error::new(BadInput("no".to_owned())).context("line 3");
        assert!(is_input(&input));
        let outer: anyhow::Error =
            Err::<(), _>(io::Error::other("disk")).context(BadInput("x".to_owned())).unwrap_err();
        assert!(is_input(&outer));
        assert!(!is_input(&anyhow::anyhow!("disk on fire")));
        assert!(is_closed_pipe(&anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing")));
    }
}
