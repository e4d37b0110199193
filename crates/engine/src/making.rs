//! Making model files: from a directory to a GGUF, from floats to fewer bits, and what tells how the bits are best spent.
//!
//! Composes what `model` writes with what only a vocabulary or a running model knows. Knows no command line.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::UNIX_EPOCH;

use kauri_arch::{Name, Shape, renaming};
use kauri_device::{CacheType, Matrix, Plan, Weight};
use kauri_device_cpu::Cpu;
use kauri_formats::{Bytes, Checkpoint, Quant, Source, Value};
use kauri_model::draft::{Draft, Planned};
use kauri_model::importance::Importance;
use kauri_model::{Wish, choose, convert, fit, load, mix, quantize, resolve};
use kauri_step::sample::Sampling;
use kauri_tokenizer::{Special, Tokenizer, export};
use serde_json::Value as Json;

use crate::decode::Request;
use crate::devices::{self, DeviceChoice};
use crate::engine::{Engine, Options};
use crate::events::Event;
use crate::observe::{self, Names};

/// Why a file cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model cannot be loaded.
    #[error(transparent)]
    Engine(#[from] crate::Error),
    /// The directory cannot be converted.
    #[error(transparent)]
    Convert(#[from] convert::Error),
    /// The vocabulary cannot be told in a GGUF.
    #[error("the vocabulary: {0}")]
    Vocabulary(#[from] kauri_tokenizer::Error),
    /// The GGUF would have another vocabulary than the directory.
    #[error(
        "a GGUF cannot say how this vocabulary splits text: the ids of a sample are others; please report the model, or convert with --skip-vocabulary-check"
    )]
    OtherVocabulary,
    /// A tensor cannot be stored otherwise.
    #[error(transparent)]
    Quantize(#[from] quantize::Error),
    /// The text is too short.
    #[error("the text has {tokens} tokens, which is no whole chunk of {chunk}; give more text or a smaller --context")]
    TextTooShort {
        /// Its tokens.
        tokens: usize,
        /// Tokens of a chunk.
        chunk: usize,
    },
}

/// Most answers that a text of a model's own is put together from.
const ANSWERS_MAX: u64 = 64;

/// A text of at least so many tokens that the model writes itself, as likely as it thinks: what it is given to read where nobody has another
/// text of its kind. The same each time; shorter if its answers are. Empty of a model that does not write.
///
/// # Errors
/// When the model cannot be loaded.
pub fn own_text(name: Option<&str>, tokens: usize, threads: Option<usize>) -> Result<String, Error> {
    let options = Options { device: DeviceChoice::Cpu, threads, ..Options::default() };
    let mut engine = Engine::load(name, &options)?;
    let (mut text, mut written) = (String::new(), 0);
    if !engine.writes {
        return Ok(text);
    }
    let prompt = Some(engine.text_tokens("")).filter(|prompt| !prompt.is_empty());
    let prompt = prompt.unwrap_or_else(|| engine.text_tokens("\n"));
    let end_tokens = engine.defaults().end_tokens.clone();
    for seed in 0..ANSWERS_MAX {
        let request = Request {
            prompt: prompt.clone(),
            sampling: Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed, ..Sampling::default() },
            max_tokens: Some(tokens.saturating_sub(written).max(1)),
            end_tokens: end_tokens.clone(),
            ..Request::default()
        };
        let mut session = engine.session();
        session.generate(&request, |event| {
            if let Event::Text(more) = event {
                text.push_str(more);
            }
            ControlFlow::Continue(())
        })?;
        written += session.tokens().len().saturating_sub(prompt.len());
        if written >= tokens {
            break;
        }
        text.push('\n');
    }
    Ok(text)
}

/// A text that asks for most of what splitting rules differ in.
const SAMPLE: &str = "Hello, World! It's 12345 o'clock;  naïve café — ÆTHER's\n\n\tdef f(x):\r\n    return x**2  # 3.14\n\
                      日本語と中文, 한국어. Привет, мир! 🙂🙂 THEY'LL don't   end \n \n";

/// What a new file is made of.
pub struct Origin {
    /// The file to be.
    pub draft: Draft,
    /// What tells this source from another, or from itself when it is changed.
    pub fingerprint: String,
}

/// Opens what a new file is made of: a GGUF file as it is, or a directory as a GGUF would have it.
///
/// # Errors
/// When it is no model, or one that a GGUF cannot hold.
pub fn source(name: Option<&str>, check_vocabulary: bool) -> Result<Origin, Error> {
    let checkpoint = resolve::open(name).map_err(crate::Error::from)?;
    let fingerprint = fingerprint(&checkpoint);
    if let Some(draft) = Draft::of_gguf(&checkpoint) {
        return Ok(Origin { draft, fingerprint });
    }
    let Source::Safetensors(directory) = &checkpoint.source else { unreachable!("what is no GGUF is a directory") };
    let names = kauri_arch::identify(&checkpoint).map_err(crate::Error::from)?;
    let vocabulary = match export::to_gguf(directory, names.vocab as usize) {
        Ok(vocabulary) => vocabulary,
        Err(kauri_tokenizer::Error::NoTokenizer) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let has_vocabulary = !vocabulary.is_empty();
    let text = |text: &str| Value::String(text.to_owned());
    let mut entries = vec![("general.type".to_owned(), text("model"))];
    let path = name.map(Path::new).and_then(|path| std::fs::canonicalize(path).ok());
    if let Some(name) = path.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()) {
        entries.push(("general.name".to_owned(), text(name)));
    }
    for (key, json) in [("temp", "temperature"), ("top_k", "top_k"), ("top_p", "top_p"), ("min_p", "min_p")] {
        if let Some(number) = directory.generation.get(json).and_then(Json::as_f64) {
            let value =
                if key == "top_k" { Value::Signed(number as i64) } else { Value::Float(f64::from(number as f32)) };
            entries.push((format!("general.sampling.{key}"), value));
        }
    }
    let mut draft = convert::draft(&checkpoint, entries)?;
    for (key, value) in vocabulary {
        draft.metadata.insert(key, value);
    }
    if has_vocabulary && check_vocabulary && !export::agrees(directory, &draft.metadata, SAMPLE)? {
        return Err(Error::OtherVocabulary);
    }
    Ok(Origin { draft, fingerprint })
}

/// The files that it was read from, how long they are and when they were written.
fn fingerprint(checkpoint: &Checkpoint) -> String {
    let mut text = String::new();
    for path in &checkpoint.paths {
        let metadata = std::fs::metadata(path).ok();
        let written = metadata.as_ref().and_then(|metadata| metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        let length = metadata.map_or(0, |metadata| metadata.len());
        let _ = write!(text, "{} {length} {}; ", path.display(), written.map_or(0, |written| written.as_nanos()));
    }
    text
}

/// A model that reads a text, to find what of it matters.
pub struct Study {
    checkpoint: Checkpoint,
    shape: Shape<Weight>,
    plan: Plan,
    cpu: Cpu,
    matrices: Names,
    chunks: Vec<Vec<u32>>,
}

impl Study {
    /// Loads the model and cuts the text in chunks of `chunk_tokens`, at most so many of them, evenly taken.
    ///
    /// # Errors
    /// When the model cannot be loaded, or the text has no whole chunk.
    pub fn new(
        name: Option<&str>,
        text: &str,
        [chunk_tokens, chunks_max]: [usize; 2],
        threads: Option<usize>,
    ) -> Result<Self, Error> {
        let checkpoint = resolve::open(name).map_err(crate::Error::from)?;
        let names = kauri_arch::identify(&checkpoint).map_err(crate::Error::from)?;
        let shape = load::weights(&checkpoint, &names).map_err(crate::Error::from)?;
        let tokenizer = Tokenizer::from_checkpoint(&checkpoint).map_err(crate::Error::from)?;
        let chunk_tokens = chunk_tokens.min(shape.context_tokens as usize);
        let chunks = chunks(&tokenizer, text, chunk_tokens, chunks_max)?;
        let wish = Wish {
            window_tokens: Some(chunk_tokens as u32),
            cache: CacheType::F16,
            page_tokens: fit::PAGE_TOKENS,
            batch_tokens: chunk_tokens as u32,
            batch_outputs: (chunk_tokens as u32).min(OUTPUTS_MAX),
            sequences: 1,
            cache_tokens: None,
            cache_windows: None,
            snapshots: 0,
            rings: Some(false),
        };
        let (plan, _) = fit::plan(&shape, &wish).map_err(crate::Error::from)?;
        let matrices = matrices(&checkpoint, &names, &shape)?;
        let cpu = devices::cpu_alone(threads, &shape, &plan)?;
        Ok(Self { checkpoint, shape, plan, cpu, matrices, chunks })
    }

    /// How much each input of each matrix mattered, and how many chunks were read; `tell` is told how many of how many, and says
    /// whether to go on.
    ///
    /// # Errors
    /// When the model's files changed underneath.
    pub fn importance(&mut self, tell: &mut dyn FnMut(usize, usize) -> bool) -> Result<(Importance, usize), Error> {
        let mut seen = Importance::default();
        for (done, chunk) in self.chunks.iter().enumerate() {
            observe::read(&mut self.cpu, &self.shape, &self.plan, chunk, &self.matrices, &mut seen);
            self.checkpoint.verify_unchanged().map_err(crate::Error::from)?;
            if !tell(done + 1, self.chunks.len()) {
                return Ok((seen, done + 1));
            }
        }
        Ok((seen, self.chunks.len()))
    }

    /// How much the model minds an error in each tensor of `draft`: how far its predictions move when that tensor alone is stored
    /// with three bits, for the error that this makes in what the matrix gives.
    ///
    /// # Errors
    /// When the model's files changed underneath, or hold what is no number.
    pub fn minds(
        &mut self,
        draft: &Draft,
        importance: Option<&Importance>,
        tell: &mut dyn FnMut(usize, usize),
    ) -> Result<HashMap<String, f64>, Error> {
        let Self { checkpoint, shape, plan, cpu, matrices, chunks } = self;
        let mut base = Vec::new();
        for chunk in &*chunks {
            base.push(observe::logits(cpu, shape, plan, chunk).to_vec());
        }
        let open: Vec<&Planned> = draft.tensors.iter().filter(|tensor| mix::may_change(tensor)).collect();
        let mut minds = HashMap::new();
        for (done, tensor) in open.iter().enumerate() {
            let quant = mix::fitting(Quant::Q3_K, tensor.columns());
            let means = importance.and_then(|importance| importance.means(&tensor.name));
            let changed = shape.try_map(&mut |weight| match weight {
                Weight::Matrix(matrix)
                    if matrices.get(&observe::place(matrix)).is_some_and(|(name, _)| *name == tensor.name) =>
                {
                    let [index, _] = matrices[&observe::place(matrix)].1;
                    let means = means.as_deref().and_then(|means| means.chunks_exact(matrix.columns).nth(index));
                    stored_as(matrix, quant, means).map(Weight::Matrix)
                }
                Weight::Matrix(_) | Weight::Vector(_) | Weight::Adapted(_) => Ok(weight.clone()),
            })?;
            let (mut sum, mut rows) = (0.0, 0);
            for (chunk, base) in chunks.iter().zip(&base) {
                let found = observe::logits(cpu, &changed, plan, chunk);
                let vocab = shape.vocab as usize;
                for (base, found) in base.chunks_exact(vocab).zip(found.chunks_exact(vocab)) {
                    sum += divergence(base, found);
                    rows += 1;
                }
            }
            checkpoint.verify_unchanged().map_err(crate::Error::from)?;
            let error = choose::error(tensor, importance, quant)?;
            if error > 0.0 {
                minds.insert(tensor.name.clone(), sum / f64::from(rows) / error);
            }
            tell(done + 1, open.len());
        }
        Ok(minds)
    }
}

/// Rows of logits of a chunk that are looked at.
const OUTPUTS_MAX: u32 = 64;

/// Whole chunks of a text, evenly taken, each begun as the vocabulary begins a text.
fn chunks(tokenizer: &Tokenizer, text: &str, chunk_tokens: usize, chunks_max: usize) -> Result<Vec<Vec<u32>>, Error> {
    let mut tokens = tokenizer.prefix().to_vec();
    tokens.extend(tokenizer.encode(text, Special::Text));
    let all = tokens.len() / chunk_tokens;
    if all == 0 {
        return Err(Error::TextTooShort { tokens: tokens.len(), chunk: chunk_tokens });
    }
    let count = all.min(chunks_max);
    let chunk = |index: usize| {
        let mut chunk = tokens[index * all / count * chunk_tokens..][..chunk_tokens].to_vec();
        if let Some(&begin) = tokenizer.prefix().first() {
            chunk[0] = begin;
        }
        chunk
    };
    Ok((0..count).map(chunk).collect())
}

/// A matrix stored otherwise.
fn stored_as(matrix: &Matrix, quant: Quant, means: Option<&[f32]>) -> Result<Matrix, Error> {
    let values = matrix.values();
    let mut bytes = Vec::new();
    let refused = |error: kauri_formats::quant::QuantError| quantize::Error::Type {
        tensor: "of the model".to_owned(),
        reason: error.to_string(),
    };
    quant.quantise(&values, matrix.columns, means, &mut bytes).map_err(refused)?;
    Ok(Matrix { quant, data: Bytes::from(bytes), scales: None, ..*matrix })
}

/// The Kullback-Leibler divergence of what `found` predicts from what `base` does.
fn divergence(base: &[f32], found: &[f32]) -> f64 {
    let normaliser = |row: &[f32]| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        f64::from(most) + row.iter().map(|logit| f64::from(logit - most).exp()).sum::<f64>().ln()
    };
    let (base_normaliser, found_normaliser) = (normaliser(base), normaliser(found));
    let terms = base.iter().zip(found).map(|(base, found)| {
        let (base, found) = (f64::from(*base) - base_normaliser, f64::from(*found) - found_normaliser);
        base.exp() * (base - found)
    });
    terms.sum::<f64>().max(0.0)
}

/// What every matrix is called in a GGUF.
fn matrices(checkpoint: &Checkpoint, names: &Shape<Name>, shape: &Shape<Weight>) -> Result<Names, Error> {
    let mut called = Vec::new();
    let mut weights = Vec::new();
    if let Source::Gguf(_) = &checkpoint.source {
        names.for_each(|name| called.push(name.clone()));
        shape.for_each(|weight| weights.push(weight.clone()));
    } else {
        let renamed = renaming::to_gguf(checkpoint).map_err(convert::Error::from)?;
        called.extend(renamed.slots.into_iter().map(|(name, _)| name));
        // Ropes have no matrices, and a GGUF has tensors for what a directory has numbers for.
        let shape = Shape { ropes: Vec::new(), ..shape.clone() };
        shape.for_each(|weight| weights.push(weight.clone()));
    }
    if called.len() != weights.len() {
        return Err(Error::Engine(crate::Error::NoDevice(
            "this directory keeps its matrices together in another way than a GGUF: run kauri convert first".to_owned(),
        )));
    }
    let mut matrices = Names::new();
    for (name, weight) in called.into_iter().zip(&weights) {
        if let Weight::Matrix(matrix) = weight {
            let count = if name.dims.len() > 2 { name.dims[0] as usize } else { 1 };
            let all = name.dims.iter().product::<u64>() / name.columns().max(1);
            let index = name.slot_rows().start as usize * count / all.max(1) as usize;
            // What is shared is first a table: only as a matrix is it met.
            matrices.insert(observe::place(matrix), (name.tensor, [index, count]));
        }
    }
    Ok(matrices)
}
