//! A token's logits are the same bits whatever is computed beside them: on any number of threads, in any batch, however the
//! prompt is cut, from a fresh cache or one that keeps of the prompt. On the default model with real text, for every instruction set that the
//! CPU has.

mod experts;
mod latent;

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use kauri_arch::Shape;
use kauri_device::{Batch, CacheType, Choice, Executor, Matrix, Plan, Weight};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_engine::{Engine, Event, Options, Request, Sampling};
use kauri_formats::{Bytes, Quant};
use kauri_tokenizer::Tokenizer;

const TEXT: &str = include_str!("../../../ARCHITECTURE.md");
/// Past one segment of attention, and a whole number of neither pages nor chunks.
const TOKENS: usize = 311;
/// Positions at the end whose logits are compared.
const COMPARED: usize = 3;
/// Tokens of a page of the cache.
const PAGE: u32 = 32;
/// Sequences of the largest batch.
const SEQUENCES: usize = 17;

#[test]
fn threads_do_not_change_a_logit() {
    for_each_setup(|setup, tokens| {
        let alone = setup.executor(1).read(tokens, TOKENS);
        for threads in [2, 5] {
            let found = setup.executor(threads).read(tokens, TOKENS);
            assert!(found == alone, "{threads} threads, {setup}");
        }
    });
}

#[test]
fn the_cut_of_a_prompt_does_not_change_a_logit() {
    for_each_setup(|setup, tokens| {
        let mut model = setup.executor(2);
        let whole = model.read(tokens, TOKENS);
        for chunk in [1, 7, 64, 300] {
            assert!(model.read(tokens, chunk) == whole, "chunks of {chunk}, {setup}");
        }
    });
}

/// Sequences of different lengths: each one's next token alone, beside one to sixteen others, and beside a prompt.
#[test]
fn batch_mates_do_not_change_a_logit() {
    for_each_setup(|setup, tokens| {
        let mut model = setup.executor(2);
        let lengths: Vec<usize> = (0..SEQUENCES).map(|sequence| 1 + sequence * 17 % 43).collect();
        let texts: Vec<&[u32]> = lengths.iter().zip(0..).map(|(&length, at)| &tokens[at..][..=length]).collect();
        for (sequence, text) in texts.iter().enumerate() {
            model.step(&[Part::prompt(sequence, &text[..text.len() - 1], 0, 0)]);
        }
        let next = |sequence: usize| {
            Part::prompt(sequence, &texts[sequence][lengths[sequence]..], lengths[sequence], 1).written()
        };
        let alone: Vec<Vec<u32>> = (0..SEQUENCES).map(|sequence| model.step(&[next(sequence)])).collect();
        for count in 2..=SEQUENCES {
            let steps: Vec<_> = (0..count).map(next).collect();
            assert!(model.step(&steps) == alone[..count].concat(), "a batch of {count}, {setup}");
        }
        let prompt = Part::prompt(0, texts[1], 0, texts[1].len());
        let read = model.step(&[prompt]);
        let mixed = model.step(&[next(2), prompt, next(3)]);
        assert!(mixed == [&alone[2][..], &read, &alone[3]].concat(), "beside a prompt, {setup}");
    });
}

/// An answer that is computed once more, as that of a sequence is that was sent back: in one step with its prompt, and cut anywhere.
#[test]
fn what_was_written_is_the_same_logits_when_it_is_computed_again() {
    for_each_setup(|setup, tokens| {
        let (mut model, prompt, end) = (setup.executor(2), 37, 60);
        model.step(&[Part::prompt(0, &tokens[..prompt], 0, 0)]);
        let written = |token: usize| Part::prompt(0, &tokens[token..=token], token, 1).written();
        let written: Vec<u32> = (prompt..end).flat_map(|token| model.step(&[written(token)])).collect();
        for cut in [0, 1, prompt - 1, prompt, prompt + 1, prompt + 8, end - 1] {
            let part = |range: std::ops::Range<usize>| Part {
                outputs: range.len().min(range.end.saturating_sub(prompt)),
                prompt_end: prompt,
                ..Part::prompt(1, &tokens[range.clone()], range.start, 0)
            };
            let ranges = [0..cut, cut..end].into_iter().filter(|range| !range.is_empty());
            let again: Vec<u32> = ranges.flat_map(|range| model.step(&[part(range)])).collect();
            assert!(again == written, "cut at {cut}, {setup}");
        }
    });
}

/// The same through the front door, where the sampler and the kept cache have their say.
#[test]
fn answers_are_the_same_tokens_on_any_threads_and_from_any_cache() {
    let mut answers = Vec::new();
    for (threads, batch_tokens) in [(1, 512), (2, 7), (5, 64)] {
        let options = Options { threads: Some(threads), batch_tokens, context_tokens: Some(512), ..Options::default() };
        let mut engine = Engine::load(None, &options).expect("the model inside");
        let prompt = engine.text_tokens(&TEXT[..900]);
        let mut session = engine.session();
        for start in [prompt.len(), prompt.len() / 2, prompt.len()] {
            let sampling = Sampling { seed: 5, ..Sampling::default() };
            let request = |prompt: &[u32]| Request {
                prompt: prompt.to_vec(),
                sampling,
                stops: Vec::new(),
                max_tokens: Some(12),
                ..Request::default()
            };
            // Leaves some of the prompt in the cache, and an answer that was another one.
            session.generate(&request(&prompt[..start]), |_| ControlFlow::Continue(())).expect("an answer");
            let mut text = String::new();
            let done = session.generate(&request(&prompt), |event| {
                if let Event::Text(more) = event {
                    text += more;
                }
                ControlFlow::Continue(())
            });
            done.expect("an answer");
            answers.push((text, session.tokens().to_vec()));
        }
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
}

/// Weights where the system keeps their file, and copied elsewhere.
#[test]
fn answers_are_the_same_tokens_wherever_the_weights_lie() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/kauri-nano-Q4_K_M.gguf");
    let bytes = std::fs::metadata(path).expect("the model's file").len();
    let answers = [false, true].map(|large_pages| {
        let options = Options {
            threads: Some(2),
            context_tokens: Some(512),
            large_pages: Some(large_pages),
            ..Options::default()
        };
        let mut engine = Engine::load(Some(path), &options).expect("the model's file");
        if let Some(mapped) = mapped_bytes(path) {
            // What is copied is no longer the file's, but for less than a large page at each end.
            let wanted = if large_pages { 0..4 << 20 } else { bytes..bytes + (1 << 20) };
            assert!(wanted.contains(&mapped), "{mapped} of {bytes} bytes are the file's");
        } else {
            println!("not looked at where the weights lie: this system does not say");
        }
        let prompt = engine.text_tokens(&TEXT[..900]);
        let sampling = Sampling { seed: 5, ..Sampling::default() };
        let request = Request { prompt, sampling, max_tokens: Some(12), ..Request::default() };
        let mut session = engine.session();
        session.generate(&request, |_| ControlFlow::Continue(())).expect("an answer");
        session.tokens().to_vec()
    });
    assert_eq!(answers[0], answers[1]);
}

/// Bytes of memory where a file is mapped, as Linux says.
fn mapped_bytes(path: &str) -> Option<u64> {
    let path = std::fs::canonicalize(path).ok()?;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let lines = maps.lines().filter(|line| line.ends_with(path.to_str().expect("a path in letters")));
    let range = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(u64::from_str_radix(end, 16).ok()? - u64::from_str_radix(start, 16).ok()?)
    };
    lines.map(range).sum()
}

/// What the same numbers are computed with.
struct Setup {
    shape: Shape<Weight>,
    weights: &'static str,
    cache: CacheType,
    isa: Isa,
    rounding: bool,
}

/// A model on the CPU, and how much of its cache a sequence gets.
struct Model {
    executor: CpuExecutor,
    sequence_pages: u32,
}

/// A sequence's part of a step.
#[derive(Clone, Copy)]
struct Part<'a> {
    /// Its number.
    sequence: usize,
    /// Its new tokens.
    tokens: &'a [u32],
    /// How many it has in the cache.
    cached: usize,
    /// For how many of the last tokens logits are wanted.
    outputs: usize,
    /// Where its prompt ends.
    prompt_end: usize,
}

impl<'a> Part<'a> {
    /// Of a prompt.
    fn prompt(sequence: usize, tokens: &'a [u32], cached: usize, outputs: usize) -> Self {
        Self { sequence, tokens, cached, outputs, prompt_end: TOKENS }
    }

    /// Behind one.
    fn written(self) -> Self {
        Self { prompt_end: self.cached, ..self }
    }
}

/// Calls `test` with every setup and the text.
fn for_each_setup(test: impl Fn(&Setup, &[u32])) {
    static SETUPS: LazyLock<(Vec<Setup>, Vec<u32>)> = LazyLock::new(setups);
    let (setups, tokens) = &*SETUPS;
    setups.iter().for_each(|setup| test(setup, tokens));
}

fn setups() -> (Vec<Setup>, Vec<u32>) {
    let checkpoint = kauri_model::resolve::open(None).expect("the model inside");
    let tokenizer = Tokenizer::from_checkpoint(&checkpoint).expect("a vocabulary");
    let tokens = tokenizer.encode_prompt(TEXT)[..TOKENS].to_vec();
    let names = kauri_arch::identify(&checkpoint).expect("a known architecture");
    let mut stored = kauri_model::load::weights(&checkpoint, &names).expect("a whole model");
    let mut setups = Vec::new();
    let mut mixed = experts::mixed(&stored);
    let mut latent = latent::mixed(&stored);
    // Fewer layers take less time.
    latent.blocks.truncate(2);
    stored.blocks.truncate(3);
    mixed.blocks.truncate(3);
    let brains = converted(&stored, Quant::BF16);
    let kinds = [
        ("Q4_K_M", stored.clone(), CacheType::F16),
        ("Q8_0", converted(&stored, Quant::Q8_0), CacheType::F32),
        ("BF16", brains.clone(), CacheType::F16),
        ("experts' Q4_K_M", mixed.clone(), CacheType::F16),
        ("latent Q8_0", latent.clone(), CacheType::F16),
        ("latent BF16", converted(&latent, Quant::BF16), CacheType::F32),
        ("experts' BF16", converted(&mixed, Quant::BF16), CacheType::F16),
        ("Q4_K_M", stored.clone(), CacheType::Q8_0),
        ("Q8_0", converted(&stored, Quant::Q8_0), CacheType::Q4_0),
    ];
    let vectors = || Isa::ALL.into_iter().filter(|&isa| isa != Isa::Scalar && isa.is_supported());
    for (weights, shape, cache) in kinds {
        setups.extend(vectors().map(|isa| Setup { shape: shape.clone(), weights, cache, isa, rounding: false }));
    }
    // Where a CPU multiplies BF16 in pairs, for what it rounds, and where it has kernels of their own for prompts.
    let rounding = |isa| Kernels::new(isa).expect("supported, as was asked before").rounding();
    for isa in vectors().filter(|&isa| rounding(isa).rounds()) {
        setups.push(Setup { shape: brains.clone(), weights: "BF16", cache: CacheType::F32, isa, rounding: true });
    }
    for isa in vectors().filter(|&isa| rounding(isa).prefills()) {
        for (weights, shape) in [("Q4_K_M", &stored), ("experts' Q4_K_M", &mixed)] {
            setups.push(Setup { shape: shape.clone(), weights, cache: CacheType::Q8_0, isa, rounding: true });
        }
    }
    // The formulas take a hundred times as long, and are one loop for every type of weights.
    for (weights, mut shape) in [("Q4_K_M", stored), ("experts' Q4_K_M", mixed), ("latent Q8_0", latent)] {
        shape.blocks.truncate(1);
        setups.push(Setup { shape, weights, cache: CacheType::F16, isa: Isa::Scalar, rounding: false });
    }
    (setups, tokens)
}

/// The same model with every matrix written as `quant`.
fn converted(shape: &Shape<Weight>, quant: Quant) -> Shape<Weight> {
    let Ok(shape) = shape.try_map(&mut |weight| {
        let Weight::Matrix(matrix) = weight else { return Ok::<Weight, Infallible>(weight.clone()) };
        let mut values = vec![0.0; matrix.rows * matrix.columns];
        matrix.quant.dequantise(&matrix.data, &mut values);
        let mut data = Vec::new();
        quant.quantise(&values, matrix.columns, None, &mut data).expect("a type that can be written");
        Ok(Weight::Matrix(Matrix { quant, data: Bytes::from(data), ..matrix.clone() }))
    });
    shape
}

impl Setup {
    fn executor(&self, threads: usize) -> Model {
        let sequence_pages = (TOKENS as u32).div_ceil(PAGE);
        let plan = Plan {
            page_tokens: PAGE,
            pages: sequence_pages * SEQUENCES as u32,
            batch_tokens: TOKENS as u32,
            batch_outputs: 64,
            slots: SEQUENCES as u32,
            cache: self.cache,
            ring: None,
        };
        let kernels = Kernels::new(self.isa).expect("supported, as was asked before");
        let kernels = if self.rounding { kernels.rounding() } else { kernels };
        let executor = CpuExecutor::new(self.shape.clone(), plan, kernels, threads).expect("room for a small model");
        Model { executor, sequence_pages }
    }
}

impl Model {
    /// Reads `tokens` from an empty cache in pieces of `chunk`; the bits of the logits of the last [`COMPARED`] positions.
    fn read(&mut self, tokens: &[u32], chunk: usize) -> Vec<u32> {
        let mut bits = Vec::new();
        for (index, piece) in tokens.chunks(chunk).enumerate() {
            let start = index * chunk;
            let outputs = (start + piece.len()).saturating_sub(tokens.len() - COMPARED).min(piece.len());
            bits.extend(self.step(&[Part::prompt(0, piece, start, outputs)]));
        }
        bits
    }

    /// One launch of some sequences. Gives the bits of the logits that are wanted.
    fn step(&mut self, sequences: &[Part<'_>]) -> Vec<u32> {
        let mut batch = Batch::default();
        for &Part { sequence, tokens, cached, outputs, prompt_end } in sequences {
            let first = sequence as u32 * self.sequence_pages;
            // Backwards, so that pages are nowhere in order.
            let pages: Vec<u32> = (first..first + self.sequence_pages).rev().collect();
            batch.push(tokens, cached as u32, &pages, sequence as u32, TOKENS as u32, outputs);
            batch.write(prompt_end as u32);
        }
        self.executor.launch(&batch).expect("a CPU is not lost");
        let choices = vec![Choice::Logits; batch.outputs.len()];
        let sampled = self.executor.sample(&choices).expect("a CPU is not lost");
        assert!(sampled.logits.iter().all(|logit| logit.is_finite()));
        sampled.logits.iter().map(|logit| logit.to_bits()).collect()
    }
}

impl std::fmt::Display for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rounding = if self.rounding { ", rounding" } else { "" };
        write!(f, "{} weights, {:?} cache, {}{rounding}", self.weights, self.cache, self.isa.name())
    }
}
