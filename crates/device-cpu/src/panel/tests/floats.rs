//! Products of floating-point weights against sums in `f64`, on each instruction set that this CPU has.

use half::{bf16, f16};
use kauri_arch::Linear;
use kauri_device::{Matrix, Weight};
use kauri_formats::{Quant, Tiles};

use super::blocks::Random;
use super::{activations, for_each_isa, multiply};
use crate::detect::{Kernels, Packing, Phase};

/// A matrix of random weights and the numbers that it holds.
pub fn matrix(quant: Quant, rows: usize, columns: usize, random: &mut Random) -> (Linear<Weight>, Vec<f32>) {
    scaled(quant, (rows, columns), 1.0, random)
}

/// The same, so many times as large.
fn scaled(
    quant: Quant,
    (rows, columns): (usize, usize),
    scale: f32,
    random: &mut Random,
) -> (Linear<Weight>, Vec<f32>) {
    let mut data = Vec::new();
    let mut weights = Vec::new();
    for _ in 0..rows * columns {
        let weight = random.normal() * scale;
        match quant {
            Quant::F16 => {
                data.extend(f16::from_f32(weight).to_le_bytes());
                weights.push(f16::from_f32(weight).to_f32());
            }
            Quant::BF16 => {
                data.extend(bf16::from_f32(weight).to_le_bytes());
                weights.push(bf16::from_f32(weight).to_f32());
            }
            _ => {
                data.extend(weight.to_le_bytes());
                weights.push(weight);
            }
        }
    }
    let weight = Weight::Matrix(Matrix { quant, rows, columns, data: data.into(), scales: None });
    (Linear { rows: rows as u32, columns: columns as u32, weight, bias: None }, weights)
}

/// Tiles that are full and that are not, of rows, columns and tokens; widths that tiles do not take.
const SIZES: [(usize, usize, usize); 13] = [
    (1, 32, 1),
    (15, 64, 7),
    (16, 32, 8),
    (17, 96, 9),
    (33, 1056, 17),
    (31, 1024, 33),
    (64, 33, 5),
    (5, 40, 16),
    (40, 96, 18),
    (33, 1056, 8),
    (30, 552, 3),
    (33, 1152, 8),
    (21, 2048, 12),
];

#[test]
fn products_of_numbers_equal_sums_in_f64_in_any_batch() {
    for_each_isa(|kernels| {
        for quant in [Quant::F32, Quant::F16, Quant::BF16] {
            let random = &mut Random(5);
            for (rows, columns, tokens) in SIZES {
                let (linear, weights) = matrix(quant, rows, columns, random);
                let x = activations(tokens, columns, random);
                check(kernels, &linear, &weights, &x);
            }
        }
    });
}

#[test]
fn products_of_pairs_equal_sums_of_rounded_activations_in_any_batch() {
    for_each_isa(|kernels| {
        let kernels = kernels.rounding();
        if !kernels.rounds() {
            eprintln!("skipped: {} multiplies no such pairs", kernels.isa().name());
            return;
        }
        // Other types meet activations as they are all the same.
        for quant in [Quant::BF16, Quant::F16, Quant::F32] {
            let random = &mut Random(7);
            for (rows, columns, tokens) in SIZES {
                let (linear, weights) = matrix(quant, rows, columns, random);
                check(kernels, &linear, &weights, &activations(tokens, columns, random));
            }
        }
    });
}

/// Products and sums on both sides of the smallest number that has all of its digits: some instructions take those below for zeros.
#[test]
fn products_of_the_smallest_numbers_are_the_same_in_any_batch() {
    const SMALL: f32 = 1.0 / (1_u64 << 63) as f32;
    for_each_isa(|kernels| {
        let random = &mut Random(8);
        for (rows, columns, tokens) in [(64, 1024, 2), (33, 2112, 5), (96, 96, 17)] {
            let (linear, _) = scaled(Quant::BF16, (rows, columns), SMALL, random);
            let x: Vec<f32> = activations(tokens, columns, random).into_iter().map(|x| x * SMALL).collect();
            for kernels in [kernels, kernels.rounding()] {
                in_any_batch(kernels, &linear, &x);
            }
        }
    });
}

/// A matrix of any codes that are numbers, with these tiles, and its values.
fn tiled(rows: usize, columns: usize, scales: Option<Tiles>, random: &mut Random) -> (Linear<Weight>, Vec<f32>) {
    let code = |code: u8| if code & 0x7f == 0x7f { code - 1 } else { code };
    let data: Vec<u8> = (0..rows * columns).map(|_| code(random.next() as u8)).collect();
    let matrix = Matrix { quant: Quant::F8_E4M3, rows, columns, data: data.into(), scales };
    let values = matrix.values();
    let weight = Weight::Matrix(matrix);
    (Linear { rows: rows as u32, columns: columns as u32, weight, bias: None }, values)
}

#[test]
fn products_of_eight_bits_with_factors_apart_equal_sums_in_f64_in_any_batch() {
    for_each_isa(|kernels| {
        let random = &mut Random(6);
        for (rows, columns, tokens) in SIZES.into_iter().chain([(40, 1160, 3), (129, 200, 12), (130, 384, 1)]) {
            // Tiles of 128 rows, of a few, so that a vector of rows lies in several; one for each row; one for all.
            for [height, width] in [[128, 128], [7, 256], [1, columns], [rows, columns]] {
                let across = columns.div_ceil(width);
                let factors: Vec<f32> = (0..rows.div_ceil(height) * across).map(|_| random.normal()).collect();
                let scales = Some(Tiles::new(factors.into(), [height, width], across));
                let (linear, values) = tiled(rows, columns, scales, random);
                check(kernels, &linear, &values, &activations(tokens, columns, random));
            }
            let (linear, values) = tiled(rows, columns, None, random);
            check(kernels, &linear, &values, &activations(tokens, columns, random));
        }
    });
}

#[test]
fn every_float_of_eight_bits_is_what_the_formula_says() {
    // A row for each code, whose product with one is the code's value.
    let data: Vec<u8> = (0..=255u8).flat_map(|code| std::iter::once(code).chain([0; 31])).collect();
    let matrix = Matrix { quant: Quant::F8_E4M3, rows: 256, columns: 32, data: data.into(), scales: None };
    let values = matrix.values();
    let linear = Linear { rows: 256, columns: 32, weight: Weight::Matrix(matrix), bias: None };
    let x: Vec<f32> = std::iter::once(1.0).chain([0.0; 31]).collect();
    for_each_isa(|kernels| {
        for (code, found) in multiply(kernels, &linear, &x, 1).into_iter().enumerate() {
            assert_eq!(found, values[32 * code], "{}, code {code:#04x}", kernels.isa().name());
        }
    });
}

/// Holds every output against the sum in `f64`, and against the same token's alone.
fn check(kernels: Kernels, linear: &Linear<Weight>, weights: &[f32], x: &[f32]) {
    let (rows, columns) = (linear.rows as usize, linear.columns as usize);
    let out = in_any_batch(kernels, linear, x);
    let quant = linear.weight.matrix().quant;
    let strips = kernels.strips(quant, columns, 1, Phase::Decode).expect("a kernel");
    let rounds = matches!(strips.packing, Packing::Brains | Packing::Thirds(1));
    let rounded = |x: f32| if rounds { bf16::from_f32(x).to_f32() } else { x };
    for (token, x) in x.chunks_exact(columns).enumerate() {
        let name = format!("{} {} {rows}x{columns}, token {token}", kernels.isa().name(), quant.name());
        for (row, weights) in weights.chunks_exact(columns).enumerate() {
            let found = out[token * rows + row];
            let products = || weights.iter().zip(x).map(|(&weight, &x)| f64::from(weight) * f64::from(rounded(x)));
            // Activations keep all their bits, or all that they are rounded to; sums are in single precision.
            let tolerance = 1e-5 * products().map(f64::abs).sum::<f64>();
            let sum = products().sum::<f64>();
            assert!((f64::from(found) - sum).abs() <= tolerance, "{name}, row {row}: {found}, {sum}");
        }
    }
}

/// All products; holds each token's against those of the token alone, to the bit.
fn in_any_batch(kernels: Kernels, linear: &Linear<Weight>, x: &[f32]) -> Vec<f32> {
    let (rows, columns) = (linear.rows as usize, linear.columns as usize);
    let (out, name) = (multiply(kernels, linear, x, 1), kernels.isa().name());
    for (token, x) in x.chunks_exact(columns).enumerate() {
        for (row, alone) in multiply(kernels, linear, x, 1).into_iter().enumerate() {
            let (found, quant) = (out[token * rows + row], linear.weight.matrix().quant.name());
            let at = format_args!("{name} {quant} {rows}x{columns}, token {token}, row {row}: {found:e}, {alone:e}");
            assert_eq!(found.to_bits(), alone.to_bits(), "{at}");
        }
    }
    out
}
