//! The default model's perplexity against its card: as trained (BF16), and quantised here to `Q8_0`.
//!
//! Computed as the card says: chunks of 1024 tokens from an empty cache, the second half of each scored. The card's figures are
//! for 20 chunks; the same 20 run here, where the shared models are beside the repository.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use kauri_arch::Shape;
use kauri_device::{Batch, CacheType, Choice, Executor, Matrix, Plan, Weight};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_formats::{Bytes, Checkpoint, Quant};
use kauri_tokenizer::Tokenizer;

const CHUNK: usize = 1024;
const CHUNKS: usize = 20;
/// Tokens of one pass.
const PASS: usize = 256;

#[test]
fn perplexity_is_the_cards() {
    let Some(shared) = shared() else { return };
    let checkpoint = Checkpoint::open(shared.join("hf")).expect("the model opens");
    let tokenizer = Tokenizer::from_checkpoint(&checkpoint).expect("a vocabulary");
    let text = std::fs::read_to_string(shared.join("eval.txt")).expect("the text");
    let tokens = tokenizer.encode_prompt(&text);
    let names = kauri_arch::identify(&checkpoint).expect("a known architecture");
    let stored = kauri_model::load::weights(&checkpoint, &names).expect("a whole model");
    for (what, shape, card) in [("BF16", stored.clone(), 39.91), ("Q8_0", quantised(&stored, Quant::Q8_0), 39.91)] {
        let found = perplexity(shape, &tokens);
        println!("{what}: {found:.3}, the card says {card}");
        assert!((found / card - 1.0).abs() < 0.005, "{what}: {found}, expected {card} within 0.5%");
    }
}

/// The same model with every matrix written as `quant`.
fn quantised(shape: &Shape<Weight>, quant: Quant) -> Shape<Weight> {
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

fn perplexity(shape: Shape<Weight>, tokens: &[u32]) -> f64 {
    let vocab = shape.vocab as usize;
    let pages = (CHUNK / 32) as u32;
    let plan =
        Plan { page_tokens: 32, pages, batch_tokens: PASS as u32, batch_outputs: PASS as u32, cache: CacheType::F16 };
    let kernels = Kernels::new(Isa::best()).expect("the best is supported");
    let mut executor = CpuExecutor::new(shape, plan, kernels, 2);
    let (mut sum, mut count) = (0.0, 0);
    for chunk in tokens.chunks_exact(CHUNK).take(CHUNKS) {
        for start in (0..CHUNK).step_by(PASS) {
            let pages: Vec<u32> = (0..pages).collect();
            let mut batch = Batch::default();
            let scored = start >= CHUNK / 2;
            batch.push(&chunk[start..start + PASS], start as u32, &pages, CHUNK as u32, if scored { PASS } else { 0 });
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
