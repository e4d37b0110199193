//! The default model's perplexity against its card: as trained (BF16), and quantised here to `Q8_0`.
//!
//! Computed as the card says: chunks of 1024 tokens from an empty cache, the second half of each scored. The card's figures are
//! for 20 chunks; the same 20 run here, where the shared models are beside the repository.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use kauri_arch::Shape;
use kauri_device::{Batch, CacheType, Choice, Executor, Matrix, Plan, Weight};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_device_cuda::{Arithmetic, CudaExecutor, Device};
use kauri_formats::{Bytes, Checkpoint, Quant};
use kauri_tokenizer::Tokenizer;

const CHUNK: usize = 1024;
/// Those that the card's figures are for.
const CHUNKS: usize = 20;
/// The perplexity on the card, as trained and in `Q8_0`.
const CARD: f64 = 39.91;
/// Tokens of one pass.
const PASS: usize = 256;

#[test]
fn perplexity_is_the_cards() {
    let Some((stored, tokens)) = default_model() else { return };
    for (what, shape) in [("BF16", stored.clone()), ("Q8_0", quantised(&stored, Quant::Q8_0, 1))] {
        let found = perplexity(shape, CacheType::F16, &tokens, CHUNKS);
        println!("{what}: {found:.3}, the card says {CARD}");
        assert!((found / CARD - 1.0).abs() < 0.005, "{what}: {found}, expected {CARD} within 0.5%");
    }
}

/// Bytes as activations move the perplexity of no type by more than 0.2%, against the same weights as numbers.
#[test]
fn bytes_as_activations_cost_little() {
    check_costs(&[Quant::Q6_K, Quant::Q4_K], 2);
}

/// The same for every type that can be written, and on all of the card's text.
#[test]
#[ignore = "takes minutes"]
fn bytes_as_activations_cost_little_in_any_type() {
    let all: Vec<Quant> = Quant::ALL.into_iter().filter(|quant| quant.can_quantise()).collect();
    check_costs(&all, CHUNKS);
}

/// Activations rounded to BF16 for weights that are BF16, as is done unless single precision is asked for: no more than bytes may cost.
#[test]
fn activations_rounded_as_the_weights_are_cost_little() {
    let Some((stored, tokens)) = default_model() else { return };
    let Some(rounding) = Kernels::new(Isa::best()).map(Kernels::rounding).filter(|kernels| kernels.rounds()) else {
        return eprintln!("skipped: this CPU has no products of BF16 numbers");
    };
    let numbers = perplexity(stored.clone(), CacheType::F16, &tokens, 4);
    let rounded = perplexity_with(rounding, stored, CacheType::F16, &tokens, 4);
    println!("BF16 activations: {rounded:.3}, {numbers:.3} as they are");
    assert!(rounded != numbers && (rounded / numbers - 1.0).abs() < 0.002, "{rounded}, expected {numbers} within 0.2%");
}

/// Weights rounded once more for a prompt, as is done unless single precision is asked for: no more than bytes may cost, against the same weights
/// as numbers, for each type that is.
#[test]
fn weights_rounded_for_a_prompt_cost_little() {
    let Some((stored, tokens)) = default_model() else { return };
    let Some(rounding) = Kernels::new(Isa::best()).map(Kernels::rounding).filter(|kernels| kernels.prefills()) else {
        return eprintln!("skipped: this CPU has no kernels of their own for prompts");
    };
    for quant in [Quant::Q2_K, Quant::Q3_K, Quant::Q4_K, Quant::Q5_K, Quant::Q6_K] {
        let shape = quantised(&stored, quant, 1);
        let numbers = perplexity(quantised(&shape, Quant::F32, 1), CacheType::F16, &tokens, CHUNKS);
        let bytes = perplexity(shape.clone(), CacheType::F16, &tokens, CHUNKS);
        let rounded = perplexity_with(rounding, shape, CacheType::F16, &tokens, CHUNKS);
        let (name, cost) = (quant.name(), rounded / numbers - 1.0);
        println!("{name}: {rounded:.3}, {bytes:.3} as stored, {numbers:.3} as numbers: {:+.3}%", 100.0 * cost);
        assert!(rounded != bytes && cost.abs() < 0.002, "{name}: {rounded}, expected {numbers} within 0.2%");
    }
}

/// Keys and values in bytes move the perplexity by less than 0.2%; in half bytes by more, which is what they are.
#[test]
fn keys_and_values_in_bytes_cost_little() {
    let Some((stored, tokens)) = default_model() else { return };
    let numbers = perplexity(stored.clone(), CacheType::F32, &tokens, 4);
    for (cache, allowed) in [(CacheType::F16, 0.0002), (CacheType::Q8_0, 0.002), (CacheType::Q4_0, 0.02)] {
        let found = perplexity(stored.clone(), cache, &tokens, 4);
        let cost = found / numbers - 1.0;
        println!("{cache:?}: {found:.3}, {numbers:.3} as numbers: {:+.3}%", 100.0 * cost);
        assert!(cost.abs() < allowed, "{cache:?}: {found}, expected {numbers} within {}%", 100.0 * allowed);
    }
}

/// A GPU's perplexity is the CPU's within 0.5%, for each type that has fast kernels there.
#[test]
fn perplexity_on_a_gpu_is_the_cpus() {
    let device = match Device::open() {
        Ok(device) => device,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let Some((stored, tokens)) = own_model() else { return };
    let quants = [Quant::BF16, Quant::F16, Quant::Q8_0, Quant::Q6_K, Quant::Q5_K, Quant::Q4_K, Quant::Q4_0];
    for quant in quants {
        let shape = quantised(&stored, quant, 1);
        let made = CudaExecutor::new(&device, &shape, plan(CacheType::F16), Arithmetic::Fast);
        is_the_cpus(quant.name(), &mut made.expect("room"), shape, &tokens, 4);
    }
}

/// The same through Vulkan, on a GPU or, for the first of the types, on a driver that computes on the CPU and takes minutes for each.
#[test]
fn perplexity_through_wgpu_is_the_cpus() {
    through_wgpu(&[Quant::Q4_K, Quant::Q8_0], 1);
}

/// The same for every type that can be written and that there are kernels for.
#[test]
#[ignore = "takes minutes"]
fn perplexity_through_wgpu_is_the_cpus_in_any_type() {
    use Quant::{BF16, F16, F32, IQ4_NL, IQ4_XS, MXFP4, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0};
    let known = [F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4];
    let quants: Vec<Quant> = known.into_iter().filter(|quant| quant.can_quantise()).collect();
    through_wgpu(&quants, quants.len());
}

/// On a driver that computes on the CPU with the first `most_on_cpu` of the types.
fn through_wgpu(quants: &[Quant], most_on_cpu: usize) {
    use kauri_device_wgpu::{Arithmetic, Device, Reduction, WgpuExecutor};
    let device = match Device::open(true, Reduction::Best) {
        Ok(device) => device,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    println!("on {}, {}", device.name(), device.reduction());
    let Some((stored, tokens)) = own_model() else { return };
    let count = if device.is_software() { most_on_cpu } else { quants.len() };
    for &quant in &quants[..count] {
        let shape = quantised(&stored, quant, 1);
        let made = WgpuExecutor::new(&device, &shape, plan(CacheType::F16), Arithmetic::Fast);
        is_the_cpus(quant.name(), &mut made.expect("room"), shape, &tokens, 1);
    }
}

/// What the executor makes of the first chunks of the text, against the CPU.
fn is_the_cpus(name: &str, executor: &mut dyn Executor, shape: Shape<Weight>, tokens: &[u32], chunks: usize) {
    let found = perplexity_on(executor, shape.vocab as usize, tokens, chunks);
    let expected = perplexity(shape, CacheType::F16, tokens, chunks);
    let off_percent = 100.0 * (found / expected - 1.0);
    println!("{name}: {found:.3} on the GPU, {expected:.3} on the CPU: {off_percent:+.3}%");
    assert!(off_percent.abs() < 0.5, "{name}: {found}, expected {expected} within 0.5%");
}

/// The model that ships with the repository, and the card's text.
fn own_model() -> Option<(Shape<Weight>, Vec<u32>)> {
    let text = shared()?.join("eval.txt");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/kauri-nano-Q4_K_M.gguf");
    let checkpoint = Checkpoint::open(own).expect("the model opens");
    let tokenizer = Tokenizer::from_checkpoint(&checkpoint).expect("a vocabulary");
    let tokens = tokenizer.encode_prompt(&std::fs::read_to_string(text).expect("the text"));
    let names = kauri_arch::identify(&checkpoint).expect("a known architecture");
    let stored = kauri_model::load::weights(&checkpoint, &names).expect("a whole model");
    Some((stored, tokens))
}

fn check_costs(quants: &[Quant], chunks: usize) {
    let Some((stored, tokens)) = default_model() else { return };
    for &quant in quants {
        // Some types leave nothing of a model that was not trained for them, and what is left says nothing: then fewer of the
        // matrices are written so, the others as they are stored.
        let (every, shape, numbers) = [1, 2, 4, 8, 16, 32]
            .into_iter()
            .map(|every| {
                let shape = quantised(&stored, quant, every);
                let numbers = perplexity(quantised(&shape, Quant::F32, 1), CacheType::F16, &tokens, chunks);
                (every, shape, numbers)
            })
            .find(|&(_, _, numbers)| numbers < 2.0 * CARD)
            .expect("a model that stays one");
        let bytes = perplexity(shape, CacheType::F16, &tokens, chunks);
        let cost = bytes / numbers - 1.0;
        let (name, cost_percent) = (quant.name(), 100.0 * cost);
        println!(
            "{name}, one matrix of {every}: {bytes:.3}, {numbers:.3} with activations as they are: {cost_percent:+.3}%"
        );
        assert!(cost.abs() < 0.002, "{}: {bytes}, expected {numbers} within 0.2%", quant.name());
    }
}

/// The default model as it is stored, and the card's text.
fn default_model() -> Option<(Shape<Weight>, Vec<u32>)> {
    let shared = shared()?;
    let checkpoint = Checkpoint::open(shared.join("hf")).expect("the model opens");
    let tokenizer = Tokenizer::from_checkpoint(&checkpoint).expect("a vocabulary");
    let text = std::fs::read_to_string(shared.join("eval.txt")).expect("the text");
    let names = kauri_arch::identify(&checkpoint).expect("a known architecture");
    let stored = kauri_model::load::weights(&checkpoint, &names).expect("a whole model");
    Some((stored, tokenizer.encode_prompt(&text)))
}

/// The same model with one matrix of `every` written as `quant`, or as `Q8_0` where its rows are no whole number of blocks.
fn quantised(shape: &Shape<Weight>, quant: Quant, every: usize) -> Shape<Weight> {
    let mut number = 0usize;
    let Ok(shape) = shape.try_map(&mut |weight| {
        let Weight::Matrix(matrix) = weight else { return Ok::<Weight, Infallible>(weight.clone()) };
        number += 1;
        if !number.is_multiple_of(every) {
            return Ok(weight.clone());
        }
        let mut values = vec![0.0; matrix.rows * matrix.columns];
        matrix.quant.dequantise(&matrix.data, &mut values);
        let quant = if matrix.columns.is_multiple_of(quant.block_len()) { quant } else { Quant::Q8_0 };
        let mut data = Vec::new();
        quant.quantise(&values, matrix.columns, None, &mut data).expect("a type that can be written");
        Ok(Weight::Matrix(Matrix { quant, data: Bytes::from(data), ..matrix.clone() }))
    });
    shape
}

fn perplexity(shape: Shape<Weight>, cache: CacheType, tokens: &[u32], chunks: usize) -> f64 {
    let kernels = Kernels::new(Isa::best()).expect("the best is supported");
    perplexity_with(kernels, shape, cache, tokens, chunks)
}

fn perplexity_with(kernels: Kernels, shape: Shape<Weight>, cache: CacheType, tokens: &[u32], chunks: usize) -> f64 {
    let vocab = shape.vocab as usize;
    let mut executor = CpuExecutor::new(shape, plan(cache), kernels, 2).expect("room for a small model");
    perplexity_on(&mut executor, vocab, tokens, chunks)
}

fn plan(cache: CacheType) -> Plan {
    let pages = (CHUNK / 32) as u32;
    Plan { page_tokens: 32, pages, batch_tokens: PASS as u32, batch_outputs: PASS as u32, slots: 1, cache, ring: None }
}

fn perplexity_on(executor: &mut dyn Executor, vocab: usize, tokens: &[u32], chunks: usize) -> f64 {
    let pages = executor.plan().pages;
    let (mut sum, mut count) = (0.0, 0);
    for chunk in tokens.chunks_exact(CHUNK).take(chunks) {
        for start in (0..CHUNK).step_by(PASS) {
            let pages: Vec<u32> = (0..pages).collect();
            let mut batch = Batch::default();
            let scored = start >= CHUNK / 2;
            batch.push(
                &chunk[start..start + PASS],
                start as u32,
                &pages,
                0,
                CHUNK as u32,
                if scored { PASS } else { 0 },
            );
            executor.launch(&batch).expect("a CPU is not lost");
            if !scored {
                continue;
            }
            let sampled = executor.sample(&[Choice::Logits; PASS]).expect("a CPU is not lost");
            for (index, row) in sampled.logits.chunks_exact(vocab).enumerate().take(CHUNK - 1 - start) {
                let most = row.iter().copied().fold(f32::MIN, f32::max);
                let total: f64 = row.iter().map(|&logit| f64::from(logit - most).exp()).sum();
                sum += total.ln() - f64::from(row[chunk[start + index + 1] as usize] - most);
                count += 1;
            }
        }
    }
    (sum / f64::from(count)).exp()
}

fn shared() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/models/kauri-nano");
    if path.is_dir() {
        return Some(path);
    }
    eprintln!("skipped: the shared models are not beside the repository");
    None
}
