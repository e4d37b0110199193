//! A loaded model on a device, with everything that was settled at load.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kauri_arch::{RopeScaling, Shape, Summary};
use kauri_device::{Applied, CacheType, Executor, Ring, Weight};
use kauri_device_cpu::Isa;
use kauri_formats::{Checkpoint, Source, Tensor};
use kauri_model::fit::Placement;
use kauri_model::{load, memory, resolve};
use kauri_prompt::pages::Pages;
use kauri_prompt::store::Store;
use kauri_step::grammar::{Compiled, Compiler, Grammar};
use kauri_step::sample::Sampling;
use kauri_tokenizer::Tokenizer;
use serde_json::Value as Json;

use crate::adapters::{AdapterFacts, AdapterFile, Adapters};
use crate::chat::Chat;
use crate::devices::{self, DeviceChoice, Part};
use crate::dialogue::{Asked, Dialogue};
use crate::error::Error;
use crate::fitting::{self, Misfit, OnGpu};
use crate::large_pages::Copying;
use crate::reader;
use crate::session::Session;

/// How much is brought into memory before anybody hears of it.
const READ_AHEAD_BYTES: usize = 16 << 20;
/// The least that a system maps at a time.
const SYSTEM_PAGE_BYTES: usize = 4096;

/// What is settled when a model is loaded. The defaults suit one person at a terminal.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says one thing, and none excludes another")]
pub struct Options {
    /// Where to run.
    pub device: DeviceChoice,
    /// Layers that a GPU gets, the last ones, where the CPU is to have the others; as many as there is room for where unset.
    pub gpu_layers: Option<u32>,
    /// Of how many layers, the first that have experts, those stay on the CPU, while a GPU has all the rest. Where neither this nor the number of
    /// layers is set, whatever is expected to write tokens faster.
    pub cpu_experts: Option<u32>,
    /// CPU instructions; the best that the CPU has where unset.
    pub isa: Option<Isa>,
    /// CPU threads; one for each core where unset, not counting second threads of a core.
    pub threads: Option<usize>,
    /// The window in tokens; the model's own, up to a default, where unset.
    pub context_tokens: Option<u32>,
    /// How keys and values are kept; where unset, as bytes if activations are rounded to bytes too, in half precision otherwise.
    pub cache: Option<CacheType>,
    /// Tokens to a page of the cache, a multiple of 16: an instrument, to see what their size is worth.
    pub page_tokens: u32,
    /// Most tokens of one step; longer prompts are read in several.
    pub batch_tokens: u32,
    /// Most rows of logits of one step.
    pub batch_outputs: u32,
    /// Sequences that the cache has room for, each up to the window: as many as a service runs at once, and for instruments,
    /// which launch batches of their own.
    pub sequences: u32,
    /// Tokens that the cache has room for, all sequences together; as many as `sequences` may fill where unset.
    pub cache_tokens: Option<u32>,
    /// Where that is unset, most windows that the cache has room for: few sequences become as long as they may.
    pub cache_windows: Option<u32>,
    /// Places for snapshots of what sequences keep in slots, beside those of the sequences: the states of recurrent layers, and the
    /// rings of layers with a window. Other models need none.
    pub snapshots: u32,
    /// Whether layers with a window keep no more than that window of a sequence; where unset, if that takes at most half of the
    /// memory. It changes no token, but what is kept can only be gone on with where it ends, and at snapshots.
    pub rings: Option<bool>,
    /// Converts every matrix to `f32` in memory. An instrument, to show what quantised weights are worth: four bytes a
    /// value, and no better answers.
    pub full_precision: bool,
    /// On a GPU, too, each output is summed in one order, so that tokens do not depend on who shares a step or how a prompt is cut: slower
    /// by far. On a CPU that is always so; there a prompt meets weights as they are stored, as an answer does, and BF16 as numbers.
    pub exact: bool,
    /// Takes what the person who asked should know of where the model came to run.
    pub notice: fn(&str),
    /// Made to read texts for vectors and scores: several of them in a step, and no logits. A model that cannot write always is.
    pub reads: bool,
    /// Keeps the weights in memory, so that the system never takes them back.
    pub lock: bool,
    /// Copies the weights that a CPU reads into large pages, which it reads faster: all at load, or none; where unset, between the first steps,
    /// if there is room for them and for what the system keeps of the files, and the machine has one memory.
    pub large_pages: Option<bool>,
    /// Loads what does not fit: weights that are not in memory are read from the disk again and again.
    pub oversize: bool,
}

/// What the model's makers recommend, and what ends an answer.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Sampling settings; the model's own distribution where they say nothing.
    pub sampling: Sampling,
    /// Whether they say anything.
    pub is_stated: bool,
    /// Tokens that end an answer.
    pub end_tokens: Vec<u32>,
}

/// A loaded model.
#[expect(clippy::struct_excessive_bools, reason = "each says one thing of the model, and none excludes another")]
pub struct Engine {
    pub(crate) executor: Box<dyn Executor>,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) pages: Pages,
    pub(crate) defaults: Defaults,
    /// Sequences that may grow longer than this take other rope factors than shorter ones.
    pub(crate) long_from_tokens: Option<u32>,
    /// Whether a sequence has a state: of recurrent layers, or the rings of layers with a window. It cannot be taken back to an
    /// earlier token.
    pub(crate) has_state: bool,
    /// The rings, where they are all that there is of a state: they can be taken back as far as nothing lies over what is seen.
    pub(crate) ring: Option<Ring>,
    pub(crate) vocab: u32,
    /// Width of a row.
    pub(crate) hidden: u32,
    /// What becomes of a text that is read.
    pub(crate) summary: Arc<Summary<Weight>>,
    /// Whether tokens see those behind them.
    pub(crate) both_ways: bool,
    pub(crate) writes: bool,
    /// Most tokens of texts that are read in one step.
    pub(crate) step_tokens: usize,
    /// How a model that judges is asked, where its file says it.
    pub(crate) question: Option<String>,
    pub(crate) dialogue: Option<Arc<Dialogue>>,
    pub(crate) window_tokens: u32,
    /// What is remembered outside of the cache.
    pub(crate) store: Option<Store>,
    pub(crate) full_precision: bool,
    /// Whether the weights are used where the files are mapped, and there is room for all of them.
    is_mapped: bool,
    /// Weights that are to be copied between steps.
    copying: Copying,
    pub(crate) adapters: Arc<Adapters>,
    /// Made when the first grammar comes.
    pub(crate) grammars: Arc<OnceLock<Compiler>>,
    threads: usize,
    load_time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            device: DeviceChoice::Auto,
            gpu_layers: None,
            cpu_experts: None,
            isa: None,
            threads: None,
            context_tokens: None,
            cache: None,
            page_tokens: kauri_model::fit::PAGE_TOKENS,
            batch_tokens: 512,
            batch_outputs: 1,
            sequences: 1,
            cache_tokens: None,
            cache_windows: None,
            snapshots: 0,
            rings: None,
            full_precision: false,
            exact: false,
            notice: |_| {},
            reads: false,
            lock: false,
            large_pages: None,
            oversize: false,
        }
    }
}

impl Options {
    /// What is asked of the device.
    fn device_asked(&self, threads: usize, foreseen: Option<OnGpu>) -> devices::Asked {
        let Self { device: choice, isa, exact, notice, reads, .. } = *self;
        let foreseen = foreseen.map_or(Placement::Last(u32::MAX), |gpu| gpu.placement);
        let part = self.placement().map_or(Part::Foreseen(foreseen), Part::Asked);
        // Vectors are compared with such as another program made, and kept for years.
        devices::Asked { choice, isa, threads, exact, rounding: !exact && !reads, part, notice }
    }

    /// What of a model a GPU is to have, where somebody said it.
    pub(crate) fn placement(&self) -> Option<Placement> {
        self.gpu_layers.map(Placement::Last).or_else(|| self.cpu_experts.map(Placement::AllButExperts))
    }
}

impl Engine {
    /// Loads the model called `name` (the default one where unset).
    ///
    /// # Errors
    /// When the file, the description, a tensor, the vocabulary or the template cannot be used, or the device not be had.
    pub fn load(name: Option<&str>, options: &Options) -> Result<Self, Error> {
        Self::load_with(name, options, &[])
    }

    /// Loads the model called `name` with adapters, which get the numbers of their order here.
    ///
    /// # Errors
    /// As [`Engine::load`] says; when an adapter is none, or one of another model.
    pub fn load_with(name: Option<&str>, options: &Options, adapters: &[AdapterFile]) -> Result<Self, Error> {
        let start = Instant::now();
        memory::program_bytes();
        let checkpoint = resolve::open(name)?;
        let names = kauri_arch::identify(&checkpoint)?;
        let mut shape = load::weights(&checkpoint, &names)?;
        if options.full_precision {
            shape = load::in_f32(&shape)?;
        }
        let (adapters, mut shape) = Adapters::load(adapters, &checkpoint, &names, shape)?;
        let vocabulary = || Tokenizer::from_checkpoint(&checkpoint);
        // Whether a model has what judges is said by its vocabulary, too; for all others that can wait until it is known to fit.
        let known = if options.reads { Some(vocabulary()?) } else { None };
        if let Some(judges) = known.as_ref().and_then(|tokenizer| reader::answers(&checkpoint, &shape, tokenizer)) {
            shape.summary = judges;
        }
        let (plan, fitted) = fitting::settle(&checkpoint, &mut shape, options)?;
        if !fitted.fits() && !options.oversize {
            return Err(Error::DoesNotFit(Misfit::of(&fitted)));
        }
        let tokenizer = known.map_or_else(vocabulary, Ok)?;
        let (window_tokens, both_ways) = (fitted.window_tokens, shape.reads_both_ways());
        let is_mapped = fitted.on_cpu && fitted.fits() && !options.full_precision;
        let copying = if is_mapped { Copying::begin(&checkpoint, &fitted, options) } else { Copying::default() };
        if options.lock {
            checkpoint.lock().map_err(Error::Lock)?;
        }
        let defaults = defaults(&checkpoint, &tokenizer);
        let dialogue = chat_template(&checkpoint)
            .map(|source| Dialogue::new(source, &tokenizer, &defaults.end_tokens))
            .transpose()?;
        let dialogue = dialogue.map(Arc::new);
        let question = match &checkpoint.source {
            Source::Gguf(metadata) => metadata.str("tokenizer.chat_template.rerank").map(str::to_owned),
            Source::Safetensors(_) => None,
        };
        let (long_from_tokens, vocab) = (long_from_tokens(&shape), shape.vocab);
        let (is_recurrent, hidden) = (shape.state_values_per_sequence() > 0, shape.hidden);
        let (summary, writes) = (Arc::new(shape.summary.clone()), shape.head.output.is_some());
        let threads = devices::threads(options.threads);
        let executor = devices::executor(options.device_asked(threads, fitted.gpu), shape, plan)?;
        checkpoint.verify_unchanged()?;
        // Which a device may do without.
        let ring = executor.plan().ring;
        Ok(Self {
            executor,
            checkpoint,
            tokenizer,
            pages: Pages::new(plan.pages),
            defaults,
            long_from_tokens,
            has_state: is_recurrent || ring.is_some(),
            ring: ring.filter(|_| !is_recurrent),
            vocab,
            hidden,
            summary,
            both_ways,
            writes,
            step_tokens: options.batch_tokens.min(plan.batch_tokens).max(1) as usize,
            question,
            dialogue,
            window_tokens,
            store: None,
            full_precision: options.full_precision,
            is_mapped,
            copying,
            adapters: Arc::new(adapters),
            grammars: Arc::default(),
            threads,
            load_time: start.elapsed(),
        })
    }

    /// A conversation; one at a time.
    pub fn session(&mut self) -> Session<'_> {
        Session::new(self)
    }

    /// The prompt that asks for the next answer of a conversation.
    ///
    /// # Errors
    /// When the model has no template, or the template refuses the conversation.
    pub fn chat_tokens(&self, chat: &Chat) -> Result<Vec<u32>, Error> {
        Ok(self.dialogue.as_ref().ok_or(Error::NoTemplate)?.ask(chat)?.tokens)
    }

    /// The prompt that asks for the next answer of a conversation, and how that answer is to be read: reasoning, calls, text. Where
    /// the conversation has calls that this engine's model wrote, their tokens are those that it wrote.
    ///
    /// # Errors
    /// When the model has no template, or the template refuses the conversation.
    pub fn ask(&self, chat: &Chat) -> Result<Asked, Error> {
        let asked = self.dialogue.as_ref().ok_or(Error::NoTemplate)?.ask(chat)?;
        asked.constrained(&self.tokenizer, |grammar| self.compile(grammar))
    }

    /// The prompt that continues plain text, with the token that begins a text where the vocabulary wants one.
    pub fn text_tokens(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode_prompt(text)
    }

    /// Compiles what answers must obey. The first time, the vocabulary is prepared for it: a third of a second for 150,000 tokens.
    ///
    /// # Errors
    /// When it cannot be enforced, names a keyword that cannot, or is too large.
    pub fn compile(&self, grammar: &Grammar) -> Result<Compiled, Error> {
        let compiler = self.grammars.get_or_init(|| Compiler::new(&self.tokenizer, self.vocab as usize));
        Ok(compiler.compile(grammar)?)
    }

    /// Compiles what the answer to `asked` must obey where its text obeys `grammar`: that, or a call of a tool.
    ///
    /// # Errors
    /// As [`Engine::compile`] says.
    pub fn compile_for(&self, asked: &Asked, grammar: &Grammar) -> Result<Compiled, Error> {
        self.compile(&asked.beside(&self.tokenizer, grammar)?)
    }

    /// The vocabulary.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// What the model's makers recommend.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Whether the model has a chat template.
    pub fn has_template(&self) -> bool {
        self.dialogue.is_some()
    }

    /// The adapters that were loaded with it, in the order of their numbers.
    pub fn adapters(&self) -> &[AdapterFacts] {
        &self.adapters.facts
    }

    /// What a request has of them, in the order of their numbers: what it says, or those that all have.
    ///
    /// # Errors
    /// When an adapter or a scale is none.
    pub fn applied(&self, wanted: Option<&[Applied]>) -> Result<Vec<Applied>, Error> {
        self.adapters.of(wanted)
    }

    /// Tokens that fit the window.
    pub fn window_tokens(&self) -> u32 {
        self.window_tokens
    }

    /// Rows of the logits.
    pub fn vocab(&self) -> u32 {
        self.vocab
    }

    /// CPU threads that it was given.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// How keys and values are kept.
    pub fn cache(&self) -> CacheType {
        self.executor.plan().cache
    }

    /// Pages of a prompt between snapshots of states, where `wished` are: a snapshot that is larger than as many pages is worth more of
    /// them.
    pub(crate) fn snapshot_pages(&self, wished: u32) -> u32 {
        wished.max(self.executor.plan().ring.map_or(1, |ring| ring.pages))
    }

    /// Brings the weights into memory, where they are used from there and fit: the first answer does not wait for the disk then. `told` hears
    /// again and again how many of their bytes are there, and how many there are; on a GPU nothing, for loading has brought them already.
    pub fn read_ahead(&self, told: &mut dyn FnMut(u64, u64)) {
        if !self.is_mapped {
            return;
        }
        let stored = self.checkpoint.tensors.values().flat_map(Tensor::stored);
        let all = stored.clone().map(|bytes| bytes.len() as u64).sum();
        let mut read = 0;
        for piece in stored.flat_map(|bytes| bytes.chunks(READ_AHEAD_BYTES)) {
            // A byte of each page of the system is enough.
            std::hint::black_box(piece.iter().step_by(SYSTEM_PAGE_BYTES).fold(0, |sum, byte| sum ^ byte));
            read += piece.len() as u64;
            told(read, all);
        }
    }

    /// Copies some of the weights that are to lie in large pages; whether there were any left. To be called between steps that write, when
    /// nobody waits for a first token.
    pub fn copy_weights(&mut self) -> bool {
        self.copying.next()
    }

    /// What loading took.
    pub fn load_time(&self) -> Duration {
        self.load_time
    }

    /// Whether the model's files still are what they were at load. To be asked after a step and before its results are used:
    /// the weights are mapped, not copied.
    ///
    /// # Errors
    /// When one of them was changed or shortened.
    pub fn verify_unchanged(&self) -> Result<(), Error> {
        Ok(self.checkpoint.verify_unchanged()?)
    }

    /// The device that runs it: for instruments, which launch batches of their own.
    pub fn executor(&mut self) -> &mut dyn Executor {
        &mut *self.executor
    }
}

/// The template in the file, if any.
pub(crate) fn chat_template(checkpoint: &Checkpoint) -> Option<&str> {
    match &checkpoint.source {
        Source::Gguf(metadata) => metadata.str("tokenizer.chat_template"),
        Source::Safetensors(directory) => directory.chat_template.as_deref(),
    }
}

fn defaults(checkpoint: &Checkpoint, tokenizer: &Tokenizer) -> Defaults {
    let mut end_tokens = tokenizer.end_tokens().to_vec();
    let number = |gguf: &str, json: &str| match &checkpoint.source {
        Source::Gguf(metadata) => metadata.f64(&format!("general.sampling.{gguf}")),
        Source::Safetensors(directory) => directory.generation.get(json).and_then(Json::as_f64),
    };
    if let Source::Safetensors(directory) = &checkpoint.source {
        let stated = directory.generation.get("eos_token_id").or_else(|| directory.config.get("eos_token_id"));
        let ids = stated.map(|ids| ids.as_array().map_or(std::slice::from_ref(ids), Vec::as_slice)).unwrap_or_default();
        end_tokens.extend(ids.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()));
        end_tokens.sort_unstable();
        end_tokens.dedup();
    }
    let usual = Sampling::default();
    let names = [("temp", "temperature"), ("top_k", "top_k"), ("top_p", "top_p"), ("min_p", "min_p")];
    let is_stated = names.iter().any(|(gguf, json)| number(gguf, json).is_some());
    let sampling = Sampling {
        temperature: number("temp", "temperature").map_or(usual.temperature, |value| value as f32),
        top_k: number("top_k", "top_k").map_or(usual.top_k, |value| value as u32),
        top_p: number("top_p", "top_p").map_or(usual.top_p, |value| value as f32),
        min_p: number("min_p", "min_p").map_or(usual.min_p, |value| value as f32),
        ..usual
    };
    // A recommendation that makes no sense is not worth refusing the model for.
    let sampling = if sampling.validate().is_ok() { sampling } else { usual };
    Defaults { sampling, is_stated, end_tokens }
}

/// The length past which some layer takes its long rope factors.
fn long_from_tokens(shape: &Shape<Weight>) -> Option<u32> {
    let ropes = shape.mixers().filter_map(|mixer| match mixer.latent() {
        Some(latent) => Some(latent.rope),
        None => mixer.attention()?.rope,
    });
    ropes
        .filter_map(|rope| match shape.ropes[rope].scaling {
            RopeScaling::LongShort { original_context_tokens, .. } => Some(original_context_tokens),
            RopeScaling::None
            | RopeScaling::Linear { .. }
            | RopeScaling::Llama3 { .. }
            | RopeScaling::Yarn { .. }
            | RopeScaling::Each(_) => None,
        })
        .min()
}
