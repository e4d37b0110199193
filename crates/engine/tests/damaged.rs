//! A model file that holds what is no number: whichever tensor has it, no kernel makes logits of it that look like some.

use std::convert::Infallible;
use std::path::Path;

use kauri_arch::Shape;
use kauri_device::{Batch, CacheType, Choice, Executor, Matrix, Plan, Weight};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_formats::{Bytes, Checkpoint};

/// The first block or number of one of its weights after the other: a scale, for every type that the model has.
#[test]
fn one_number_that_is_none_leaves_no_logits() {
    let checked = check("models/kauri-nano-Q4_K_M.gguf", usize::MAX);
    assert!(checked > 50, "{checked} weights");
    // Attention with sinks, which give a row something to divide by that sees nothing.
    assert_eq!(check("tests/golden/families/gptoss", 11), 11);
}

/// Breaks up to so many weights of a model of the repository; gives back how many.
fn check(path: &str, most: usize) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let checkpoint = Checkpoint::open(path).expect("the model opens");
    let names = kauri_arch::identify(&checkpoint).expect("a known architecture");
    let stored = kauri_model::load::weights(&checkpoint, &names).expect("a whole model");
    let kernels: Vec<Kernels> = Isa::ALL.into_iter().filter_map(Kernels::new).collect();
    let rounding = kernels.iter().map(|kernels| kernels.rounding());
    let kernels: Vec<Kernels> = rounding.chain(kernels.iter().copied()).collect();
    let caches = [CacheType::Q8_0, CacheType::Q4_0, CacheType::F16, CacheType::F32];
    let mut number = 0;
    while let Some(shape) = broken(&stored, number).filter(|_| number < most) {
        // Each with every cache would take minutes.
        for (index, &kernels) in kernels.iter().enumerate() {
            let cache = caches[(number + index) % caches.len()];
            let logits = last_logits(shape.clone(), kernels, cache);
            let numbers = logits.iter().filter(|logit| !logit.is_nan()).count();
            assert_eq!(numbers, 0, "weight {number}, {}, {cache:?}: so many numbers", kernels.isa().name());
        }
        number += 1;
    }
    let sound = last_logits(stored, kernels[0], caches[0]);
    assert!(sound.iter().all(|logit| logit.is_finite()), "the model as it is");
    number
}

/// The model with its weight of that number broken, if it has more: the last one is the head's, whose first row is one logit of many.
fn broken(stored: &Shape<Weight>, number: usize) -> Option<Shape<Weight>> {
    let mut index = 0;
    let Ok(shape) = stored.try_map(&mut |weight| {
        index += 1;
        Ok::<Weight, Infallible>(match weight {
            weight if index != number + 1 => weight.clone(),
            Weight::Matrix(matrix) => {
                // Ones alone are no number in half precision, in which the first block's scale is, nor as brain floating-point.
                let mut data = matrix.data.to_vec();
                data[..matrix.quant.block_bytes()].fill(0xff);
                Weight::Matrix(Matrix { data: Bytes::from(data), ..matrix.clone() })
            }
            Weight::Vector(values) => {
                let mut values = values.clone();
                values[0] = f32::NAN;
                Weight::Vector(values)
            }
            Weight::Adapted(_) => unreachable!("a file has no adapters"),
        })
    });
    (index > number + 1).then_some(shape)
}

/// Those behind a prompt that begins with the first token of the vocabulary, whose row is the first of the embedding table.
fn last_logits(shape: Shape<Weight>, kernels: Kernels, cache: CacheType) -> Vec<f32> {
    let plan = Plan { page_tokens: 16, pages: 1, batch_tokens: 16, batch_outputs: 1, slots: 1, cache, ring: None };
    let mut executor = CpuExecutor::new(shape, plan, kernels, 1).expect("room for a small model");
    let tokens = [0, 5, 300, 70, 21];
    let mut batch = Batch::default();
    batch.push(&tokens, 0, &[0], 0, tokens.len() as u32, 1);
    executor.launch(&batch).expect("a CPU is not lost");
    executor.sample(&[Choice::Logits]).expect("a CPU is not lost").logits.to_vec()
}
