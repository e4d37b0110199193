//! `kauri tokenize`: text to token ids and back.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use anyhow::{Context, bail};
use clap::Args;
use kauri_engine::{Special, Tokenizer};
use serde_json::{Value as Json, json};

use crate::failure::{BadInput, about_model};
use crate::input;
use crate::library;
use crate::terminal::ASIDE;

/// The longest line of `--json`.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Turns the text on standard input into token ids, or ids into text.
///
/// Nothing is added: neither the token that begins a text, nor a line end to a text that is decoded. To a pipe the ids
/// go as one line with spaces between; a terminal shows one a line, with what it stands for.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A GGUF file (its vocabulary is enough), a safetensors directory, or kauri-nano (the default).
    #[arg(long, value_name = "NAME|PATH")]
    model: Option<String>,

    /// Let the text of special tokens become special tokens, and show them when decoding.
    #[arg(long)]
    special: bool,

    /// Turn ids (with spaces, commas or line ends between) into text.
    #[arg(long)]
    decode: bool,

    /// Read one JSON string (or list of ids) a line, print one list (or string) a line.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  echo -n \"Once upon a time\" | kauri tokenize
  echo \"915 755 258 515\" | kauri tokenize --decode
  echo '\"<|im_start|>user\"' | kauri tokenize --json --special --model model.gguf
  kauri tokenize < book.txt | wc -w                how many tokens a text has";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = arguments.model.as_deref().map(library::find).transpose()?;
    let name = path.as_deref();
    let converter = Converter {
        tokenizer: kauri_engine::tokenizer(name).map_err(|error| about_model(name, error))?,
        special: if arguments.special { Special::Parse } else { Special::Text },
        shows_special: arguments.special,
    };
    match (arguments.json, arguments.decode) {
        (true, decode) => each_line(|line| {
            if decode {
                let ids: Vec<u32> = serde_json::from_str(line)
                    .map_err(|error| BadInput(format!("expected a list of token ids: {error}")))?;
                Ok(json!(String::from_utf8_lossy(&converter.decode(&ids)?)))
            } else {
                let text: String =
                    serde_json::from_str(line).map_err(|error| BadInput(format!("expected a JSON string: {error}")))?;
                Ok(json!(converter.encode(&text)))
            }
        }),
        (false, true) => converter.print_text(),
        (false, false) => converter.print_ids(),
    }
}

/// A vocabulary, and what becomes of its special tokens.
struct Converter {
    tokenizer: Tokenizer,
    special: Special,
    shows_special: bool,
}

impl Converter {
    fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, self.special)
    }

    fn decode(&self, ids: &[u32]) -> anyhow::Result<Vec<u8>> {
        let vocab = self.tokenizer.vocab_size();
        if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab) {
            bail!(BadInput(format!("token {id} is not in the vocabulary of {vocab}")));
        }
        Ok(self.tokenizer.decode(ids, self.shows_special))
    }

    fn print_ids(&self) -> anyhow::Result<()> {
        let ids = self.encode(&input::standard_input()?);
        if io::stdout().is_terminal() {
            let mut stdout = anstream::stdout().lock();
            for id in ids {
                let piece = self.tokenizer.decode(&[id], true);
                writeln!(stdout, "{id:>8}  {ASIDE}{:?}{ASIDE:#}", String::from_utf8_lossy(&piece))?;
            }
        } else {
            let words: Vec<String> = ids.iter().map(u32::to_string).collect();
            writeln!(io::stdout().lock(), "{}", words.join(" "))?;
        }
        Ok(())
    }

    fn print_text(&self) -> anyhow::Result<()> {
        let text = input::standard_input()?;
        let separates = |letter: char| letter.is_whitespace() || matches!(letter, ',' | '[' | ']');
        let words = text.split(separates).filter(|word| !word.is_empty());
        let ids: Vec<u32> = words
            .map(|word| word.parse().map_err(|_| BadInput(format!("standard input: {word:?} is not a token id"))))
            .collect::<Result<_, _>>()?;
        let bytes = self.decode(&ids).context("standard input")?;
        let mut stdout = io::stdout().lock();
        stdout.write_all(&bytes)?;
        if stdout.is_terminal() {
            stdout.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Answers each line of standard input with a line, as soon as it is there: a program may keep the command running.
fn each_line(convert: impl Fn(&str) -> anyhow::Result<Json>) -> anyhow::Result<()> {
    let mut stdin = io::stdin().lock();
    let mut stdout = io::stdout().lock();
    for number in 1.. {
        let mut bytes = Vec::new();
        stdin.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            break;
        }
        if bytes.len() as u64 > LINE_BYTES_MAX {
            bail!(BadInput(format!("standard input, line {number}: over {} MiB", LINE_BYTES_MAX >> 20)));
        }
        let line = input::utf8(&format!("standard input, line {number}"), bytes)?;
        let converted = convert(&line).with_context(|| format!("standard input, line {number}"))?;
        writeln!(stdout, "{converted}")?;
        stdout.flush()?;
    }
    Ok(())
}
