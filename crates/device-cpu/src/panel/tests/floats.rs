//! Products of floating-point weights against sums in `f64`, on each instruction set that this CPU has.

use half::{bf16, f16};
use kauri_arch::Linear;
use kauri_device::{Matrix, Weight};
use kauri_formats::Quant;

use super::blocks::Random;
use super::{activations, for_each_isa, multiply};

/// A matrix of random weights and the numbers that it holds.
fn matrix(quant: Quant, rows: usize, columns: usize, random: &mut Random) -> (Linear<Weight>, Vec<f32>) {
    let mut data = Vec::new();
    let mut weights = Vec::new();
    for _ in 0..rows * columns {
        let weight = random.normal();
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
    let weight = Weight::Matrix(Matrix { quant, rows, columns, data: data.into() });
    (Linear { rows: rows as u32, columns: columns as u32, weight, bias: None }, weights)
}

#[test]
fn products_of_numbers_equal_sums_in_f64_in_any_batch() {
    for_each_isa(|kernels| {
        for quant in [Quant::F32, Quant::F16, Quant::BF16] {
            let random = &mut Random(5);
            // Tiles that are full and that are not, of rows, tokens and columns; widths that tiles do not take.
            for (rows, columns, tokens) in [
                (1, 32, 1),
                (15, 64, 7),
                (16, 32, 8),
                (17, 96, 9),
                (33, 1056, 17),
                (31, 1024, 33),
                (64, 33, 5),
                (5, 40, 16),
            ] {
                let (linear, weights) = matrix(quant, rows, columns, random);
                let x = activations(tokens, columns, random);
                let out = multiply(kernels, &linear, &x, 1);
                for (token, x) in x.chunks_exact(columns).enumerate() {
                    let alone = multiply(kernels, &linear, x, 1);
                    let name = format!("{} {} {rows}x{columns}, token {token}", kernels.isa().name(), quant.name());
                    for (row, weights) in weights.chunks_exact(columns).enumerate() {
                        let found = out[token * rows + row];
                        assert_eq!(found.to_bits(), alone[row].to_bits(), "{name} of {tokens}, row {row}");
                        let products = || weights.iter().zip(x).map(|(&weight, &x)| f64::from(weight) * f64::from(x));
                        // Activations keep all their bits; sums are in single precision.
                        let tolerance = 1e-5 * products().map(f64::abs).sum::<f64>();
                        let sum = products().sum::<f64>();
                        assert!((f64::from(found) - sum).abs() <= tolerance, "{name}, row {row}: {found}, {sum}");
                    }
                }
            }
        }
    });
}
