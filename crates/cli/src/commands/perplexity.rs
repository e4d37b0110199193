//! `kauri perplexity`: how well a model predicts a text, and how far it is from another one.
//!
//! Counted as llama.cpp does, so that figures compare: the text is tokenised whole and cut into chunks of the context;
//! each chunk is read from an empty cache, its first token replaced by the one that begins a text where the vocabulary
//! has that habit, and the tokens of its second half count. What is left at the end of the text does not.

mod saved;
mod score;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use kauri_engine::{Engine, Options, Special};
use serde_json::json;

use self::saved::{Header, Reader, Writer};
use self::score::{Divergence, LogProbabilities, Surprise};
use crate::failure::{BadInput, about_model};
use crate::input;
use crate::model_options::ModelOptions;
use crate::terminal::{self, Progress};

/// Chunks of this many tokens where no --context is given and the model can have them.
const CONTEXT_TOKENS: u32 = 1024;
/// Rows of probabilities of one step at most: each is as long as the vocabulary.
const OUTPUTS_MAX: u32 = 512;
/// Fewer would leave nothing to count in the second half.
const CONTEXT_TOKENS_MIN: u32 = 4;

/// Says how well the model predicts a text: the lower, the better.
///
/// The text is cut into chunks of --context tokens, read one by one; the tokens of each second half count. With
/// --save-logits the predictions are kept, so that --kl-base can say how far another form of the model is from this one.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The text, UTF-8.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Read only the first N chunks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,

    /// Keep the probabilities of every counted token in FILE.
    #[arg(long, value_name = "FILE", conflicts_with = "kl_base")]
    save_logits: Option<PathBuf>,

    /// Compare with the probabilities that --save-logits kept for the same text.
    #[arg(long, value_name = "FILE")]
    kl_base: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    model: ModelOptions,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri perplexity book.txt --context 1024 --chunks 20
  kauri perplexity book.txt --model model-Q4_K_M.gguf --json
  kauri perplexity book.txt --model model-BF16.gguf --save-logits base.bin
  kauri perplexity book.txt --model model-Q4_K_M.gguf --kl-base base.bin      what quantisation cost";

/// What was found.
struct Outcome {
    surprise: Surprise,
    divergence: Option<Divergence>,
    header: Header,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let text = input::file(&arguments.file)?;
    let base = arguments.kl_base.as_deref().map(Reader::open).transpose()?;
    let options = arguments.model.options();
    if let (Some(base), Some(asked)) = (&base, options.context_tokens) {
        base.check_context(asked)?;
    }
    let asked = base.as_ref().map(|base| base.header().context).or(options.context_tokens);
    let options = Options { context_tokens: asked, batch_outputs: options.batch_tokens.min(OUTPUTS_MAX), ..options };
    let path = arguments.model.located()?;
    let name = path.as_deref();
    let mut engine = Engine::load(name, &options).map_err(|error| about_model(name, error))?;
    if !engine.writes() {
        bail!(kauri_engine::Error::OnlyReads);
    }
    let context = asked.unwrap_or(CONTEXT_TOKENS.min(engine.window_tokens()));
    if context < CONTEXT_TOKENS_MIN {
        bail!(BadInput(format!(
            "--context {context}: perplexity needs chunks of at least {CONTEXT_TOKENS_MIN} tokens"
        )));
    }
    let chunks_max = [arguments.chunks, base.as_ref().map(|base| base.header().chunks)].into_iter().flatten().min();
    let tokens = chunks(&engine, &text, context, chunks_max).map_err(|tokens| {
        BadInput(format!(
            "{}: the text has {tokens} tokens, which is no whole chunk of {context}; give more text or a smaller --context",
            arguments.file.display(),
        ))
    })?;
    let header = Header { vocab: engine.vocab(), context, chunks: (tokens.len() / context as usize) as u32 };
    if let Some(base) = &base {
        base.check(header.vocab, &tokens)?;
    }
    let writer = arguments.save_logits.as_deref().map(|path| Writer::create(path, header, &tokens)).transpose()?;
    let outcome = measure(&mut engine, &tokens, header, writer, base)?;
    print(arguments, &outcome)
}

/// The tokens of the text that make whole chunks, each begun as the vocabulary begins a text; for a text that has no whole
/// chunk, how many tokens it has.
fn chunks(engine: &Engine, text: &str, context: u32, chunks_max: Option<u32>) -> Result<Vec<u32>, usize> {
    let tokenizer = engine.tokenizer();
    let mut tokens = tokenizer.prefix().to_vec();
    tokens.extend(tokenizer.encode(text, Special::Text));
    let whole = tokens.len() / context as usize;
    if whole == 0 {
        return Err(tokens.len());
    }
    let wanted = chunks_max.map_or(whole, |most| whole.min(most as usize));
    tokens.truncate(wanted * context as usize);
    if let Some(&begin) = tokenizer.prefix().first() {
        for chunk in tokens.chunks_mut(context as usize) {
            chunk[0] = begin;
        }
    }
    Ok(tokens)
}

/// Reads chunk after chunk and counts the second halves.
fn measure(
    engine: &mut Engine,
    tokens: &[u32],
    header: Header,
    mut writer: Option<Writer>,
    mut base: Option<Reader>,
) -> anyhow::Result<Outcome> {
    let mut surprise = Surprise::default();
    let mut divergence = base.is_some().then(Divergence::default);
    let progress = Progress::start("reading the first chunk");
    let context = header.context as usize;
    let batch = engine.executor().plan().batch_tokens as usize;
    let mut session = engine.session();
    for (number, chunk) in tokens.chunks_exact(context).enumerate() {
        let mut failure = Ok(());
        session.logits(chunk, batch, |position, row| {
            if position >= context / 2 && position + 1 < context && failure.is_ok() {
                failure = (|| {
                    let own = LogProbabilities::new(row);
                    surprise.add(-own.of(chunk[position + 1]));
                    if let Some(writer) = &mut writer {
                        writer.write(&own)?;
                    }
                    if let (Some(base), Some(divergence)) = (&mut base, &mut divergence) {
                        divergence.add(&base.read()?, &own);
                    }
                    Ok(())
                })();
            }
        })?;
        failure.map_err(|error: io::Error| anyhow::Error::new(error).context("saved probabilities"))?;
        progress.show(|| {
            let (done, all) = (number + 1, header.chunks);
            format!("chunk {done} of {all}: perplexity {:.4} so far", surprise.perplexity())
        });
    }
    if let Some(writer) = writer {
        writer.finish()?;
    }
    if !surprise.perplexity().is_finite() {
        return Err(kauri_engine::Error::NotFinite.into());
    }
    Ok(Outcome { surprise, divergence, header })
}

fn print(arguments: &Arguments, outcome: &Outcome) -> anyhow::Result<()> {
    let Outcome { surprise, divergence, header } = outcome;
    let mut stdout = anstream::stdout().lock();
    if arguments.json {
        let mut object = json!({
            "perplexity": surprise.perplexity(),
            "standard_error": surprise.standard_error(),
            "tokens": surprise.count(),
            "chunks": header.chunks,
            "context": header.context,
        });
        if let Some(divergence) = divergence {
            object["kl_divergence"] = json!(divergence.mean());
            object["kl_divergence_max"] = json!(divergence.max());
            object["same_top_share"] = json!(divergence.same_top_share());
        }
        writeln!(stdout, "{object}")?;
        return Ok(());
    }
    let heading = terminal::HEADING;
    writeln!(
        stdout,
        "{heading}perplexity{heading:#}     {:.4} ± {:.4} ({} tokens counted, {} x {} read)",
        surprise.perplexity(),
        surprise.standard_error(),
        surprise.count(),
        header.chunks,
        header.context
    )?;
    if let Some(divergence) = divergence {
        writeln!(
            stdout,
            "{heading}KL divergence{heading:#}  {:.6} mean, {:.6} at most\n{heading}same top{heading:#}       {:.2}%",
            divergence.mean(),
            divergence.max(),
            divergence.same_top_share() * 100.0
        )?;
    }
    Ok(())
}
