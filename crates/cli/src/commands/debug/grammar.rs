//! `kauri debug grammar`: which texts a schema or a grammar lets through.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use kauri_engine::grammar::{Compiler, Constraint, Grammar};
use kauri_engine::{Special, Tokenizer};

use crate::failure::{BadInput, about_model};
use crate::input;
use crate::library;

/// The longest line.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Says of each line of standard input whether it obeys a schema or a grammar: `accept`, or `reject` and the byte where it
/// stops obeying.
///
/// An instance of a schema may have its properties in any order: it is put in the schema's, in which they are written.
/// A schema or grammar that cannot be enforced is refused with the keyword.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A GGUF file (its vocabulary is enough), a safetensors directory, or kauri-nano (the default).
    #[arg(long, value_name = "NAME|PATH")]
    model: Option<String>,

    #[command(flatten)]
    source: Source,

    /// Print to standard error what compiling and masks took.
    #[arg(long)]
    stats: bool,
}

/// What lines are held against.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Source {
    /// A JSON schema; lines are JSON.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,

    /// A regular expression that lines match as a whole.
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,

    /// A grammar in Lark's notation.
    #[arg(long, value_name = "FILE")]
    lark: Option<PathBuf>,

    /// A grammar in the notation of llama.cpp.
    #[arg(long, value_name = "FILE")]
    gbnf: Option<PathBuf>,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri debug grammar --schema person.json < people.jsonl
  echo 2026-11-22 | kauri debug grammar --regex '\\d{4}-\\d{2}-\\d{2}'
  kauri debug grammar --model model.gguf --gbnf chess.gbnf --stats < games.txt";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = arguments.model.as_deref().map(library::find).transpose()?;
    let name = path.as_deref();
    let tokenizer = kauri_engine::tokenizer(name).map_err(|error| about_model(name, error))?;
    let grammar = arguments.source.read()?;
    let mut times = Times::default();
    let start = Instant::now();
    let compiler = Compiler::new(&tokenizer, tokenizer.vocab_size());
    times.vocabulary = start.elapsed();
    let start = Instant::now();
    let compiled = compiler.compile(&grammar).map_err(|error| BadInput(error.to_string()))?;
    times.compile = start.elapsed();
    if arguments.stats {
        compiled.start(&[]).advance()?;
        times.first_mask = start.elapsed();
        compiled.notes().iter().for_each(|note| eprintln!("{note}"));
    }
    let mut stdin = io::stdin().lock();
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    while let Some(text) = next_line(&mut stdin, &mut line)? {
        let mut obeys =
            |text: &str| obeys(&mut compiled.start(&[]), &tokenizer, text, arguments.stats.then_some(&mut times.masks));
        match obeys(&text)? {
            Some(byte) if obeys(&compiled.as_written(&text))?.is_some() => writeln!(stdout, "reject {byte}")?,
            None | Some(_) => writeln!(stdout, "accept")?,
        }
    }
    stdout.flush()?;
    if arguments.stats {
        eprint!("{}", times.table());
    }
    Ok(())
}

impl Source {
    fn read(&self) -> anyhow::Result<Grammar> {
        Ok(match (&self.schema, &self.regex, &self.lark, &self.gbnf) {
            (Some(file), ..) => Grammar::JsonSchema(input::file(file)?),
            (_, Some(text), ..) => Grammar::Regex(text.clone()),
            (_, _, Some(file), _) => Grammar::Lark(input::file(file)?),
            (.., Some(file)) => Grammar::Gbnf(input::file(file)?),
            (None, None, None, None) => bail!(BadInput("give a schema, a regular expression or a grammar".to_owned())),
        })
    }
}

/// The next line without its end.
fn next_line(stdin: &mut impl BufRead, line: &mut Vec<u8>) -> anyhow::Result<Option<String>> {
    line.clear();
    let read = stdin.take(LINE_BYTES_MAX + 1).read_until(b'\n', line).context("standard input: cannot be read")?;
    if read == 0 {
        return Ok(None);
    }
    if line.len() as u64 > LINE_BYTES_MAX {
        bail!(BadInput(format!("a line of standard input is over {} MiB", LINE_BYTES_MAX >> 20)));
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    Ok(Some(input::utf8("standard input", std::mem::take(line))?))
}

/// None where a text obeys as a whole, else the first byte that does not, or its end where more must follow.
fn obeys(
    constraint: &mut Constraint,
    tokenizer: &Tokenizer,
    text: &str,
    mut masks: Option<&mut Vec<Duration>>,
) -> anyhow::Result<Option<usize>> {
    let mut rest = text.as_bytes();
    for token in tokenizer.encode(text, Special::Text) {
        if let Some(masks) = &mut masks {
            let start = Instant::now();
            constraint.advance()?;
            masks.push(start.elapsed());
        }
        let bytes = tokenizer.token_bytes(token).unwrap_or_default();
        // Some vocabularies put a space before every text; it is none of the line's.
        let Some(after) = rest.strip_prefix(bytes).filter(|_| constraint.commit(token).is_ok()) else {
            return Ok(bytewise(constraint, text, text.len() - rest.len()));
        };
        rest = after;
    }
    Ok((!constraint.may_end()).then_some(text.len()))
}

/// The same from a place where the text's own tokens do not go on: the longest beginning that obeys.
fn bytewise(constraint: &mut Constraint, text: &str, from: usize) -> Option<usize> {
    let rest = &text.as_bytes()[from..];
    let accepted = constraint.accepted_bytes(rest);
    let whole = accepted == rest.len() && constraint.commit_bytes(rest) && constraint.may_end();
    (!whole).then_some(from + accepted)
}

#[derive(Default)]
struct Times {
    vocabulary: Duration,
    compile: Duration,
    first_mask: Duration,
    masks: Vec<Duration>,
}

impl Times {
    fn table(&mut self) -> String {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let mut out = format!(
            "vocabulary {:.0} ms; compile {:.2} ms; first mask after {:.2} ms\n",
            milliseconds(self.vocabulary),
            milliseconds(self.compile),
            milliseconds(self.first_mask)
        );
        self.masks.sort_unstable();
        if let Some(last) = self.masks.len().checked_sub(1) {
            let [p50, p99, most] =
                [0.5, 0.99, 1.0].map(|share| self.masks[(last as f64 * share) as usize].as_secs_f64() * 1e6);
            let count = self.masks.len();
            writeln!(out, "masks {count}; p50 {p50:.1} us; p99 {p99:.1} us; most {most:.1} us")
                .expect("writing to a string");
        }
        out
    }
}
