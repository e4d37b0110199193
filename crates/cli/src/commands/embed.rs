//! `kauri embed`: texts to vectors.

use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use kauri_engine::{Engine, Options, Passage, Pooling, Wanted};

use crate::failure::{BadInput, about_model};
use crate::input;
use crate::model_options::ModelOptions;

/// Texts whose vectors are printed before more are read.
const TOGETHER: usize = 64;

/// Makes a vector of each text, of length one: texts of like meaning have vectors of like direction.
///
/// Texts are arguments, or lines of standard input. A vector is a line of numbers with spaces between. Any model will do; one
/// made for it does it well.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The texts; without any, every line of standard input is one.
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,

    /// How the rows of a text's tokens become one vector; as the model's makers say unless asked otherwise.
    #[arg(long, value_enum, value_name = "HOW")]
    pooling: Option<How>,

    /// Keep so many values of each vector, and bring it to length one again: for models made for that (Matryoshka).
    #[arg(long, value_name = "N")]
    dimensions: Option<u32>,

    /// Print one JSON object a line for each text: `embedding`, `tokens`.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    model: ModelOptions,
}

/// `--pooling`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    /// Their mean.
    Mean,
    /// The first.
    Cls,
    /// The last.
    Last,
    /// None: a vector for each token, as the model gives it, a line each or a list of lists.
    None,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri embed --model model.gguf \"Where is the lighthouse?\"
  kauri embed --model model.gguf --json < sentences.txt > vectors.jsonl
  kauri embed --model model.gguf --dimensions 256 \"a text\" \"another\"
  kauri inspect model.gguf                        how wide its vectors are, and how they are pooled";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (texts, named): (Vec<String>, _) =
        if arguments.texts.is_empty() { (lines()?, "standard input, line") } else { (arguments.texts.clone(), "text") };
    let path = arguments.model.located()?;
    let name = path.as_deref();
    let options = Options { reads: true, ..arguments.model.options() };
    let mut engine = Engine::load(name, &options).map_err(|error| about_model(name, error))?;
    let wanted = Wanted { pooling: arguments.pooling.map(Into::into), dimensions: arguments.dimensions };
    let width = wanted.pooling.unwrap_or(engine.pooling()) == Pooling::Each;
    let mut stdout = BufWriter::new(io::stdout().lock());
    for (number, texts) in texts.chunks(TOGETHER).enumerate() {
        let passages = passages(&engine, texts, number * TOGETHER + 1, named)?;
        let mut written = Ok(());
        engine.reader().embed(&passages, wanted, |index, values| {
            let tokens = passages[index].tokens.len();
            let rows = values.chunks_exact(values.len() / if width { tokens } else { 1 });
            let line = if arguments.json { json_line(rows, width, tokens) } else { plain_lines(rows) };
            if written.is_ok() {
                written = writeln!(stdout, "{line}");
            }
        })?;
        written?;
        stdout.flush()?;
    }
    Ok(())
}

/// The texts as the model reads them, each known to fit; an error says which does not, counted from `first`.
fn passages(engine: &Engine, texts: &[String], first: usize, named: &str) -> anyhow::Result<Vec<Passage>> {
    let passages = (first..).zip(texts).map(|(number, text)| {
        if text.trim().is_empty() {
            bail!(BadInput(format!("{named} {number} is empty: there is nothing to read")));
        }
        let passage = engine.passage(text);
        engine.check_passage(&passage).with_context(|| format!("{named} {number}"))?;
        Ok(passage)
    });
    passages.collect()
}

/// The lines of standard input.
pub fn lines() -> anyhow::Result<Vec<String>> {
    if io::stdin().is_terminal() {
        bail!(BadInput("nothing to read; give texts as arguments, or one a line on standard input".to_owned()));
    }
    let text = input::standard_input()?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        bail!(BadInput("standard input is empty; give one text a line".to_owned()));
    }
    Ok(lines)
}

fn json_line<'v>(rows: impl Iterator<Item = &'v [f32]>, listed: bool, tokens: usize) -> String {
    let rows: Vec<String> = rows.map(|row| format!("[{}]", numbers(row, ","))).collect();
    let rows = rows.join(",");
    let embedding = if listed { format!("[{rows}]") } else { rows };
    format!("{{\"embedding\":{embedding},\"tokens\":{tokens}}}")
}

fn plain_lines<'v>(rows: impl Iterator<Item = &'v [f32]>) -> String {
    rows.map(|row| numbers(row, " ")).collect::<Vec<_>>().join("\n")
}

/// As few digits as give the same `f32` again.
fn numbers(row: &[f32], between: &str) -> String {
    let mut line = String::with_capacity(row.len() * 13);
    for (index, value) in row.iter().enumerate() {
        let separator = if index == 0 { "" } else { between };
        write!(line, "{separator}{value}").expect("memory takes what is written");
    }
    line
}

impl From<How> for Pooling {
    fn from(how: How) -> Self {
        match how {
            How::Mean => Self::Mean,
            How::Cls => Self::First,
            How::Last => Self::Last,
            How::None => Self::Each,
        }
    }
}
