//! How fast products are on this machine, one thread, everything in cache: printed, nothing is asserted. Run by hand:
//! `cargo test --release -p kauri-device-cpu --lib -- --ignored --nocapture products_speed`.

use std::time::Instant;

use super::*;
use crate::ceilings;

#[test]
#[ignore = "measures, run by hand"]
fn products_speed() {
    speed(Kernels::new(Isa::best()).expect("the best that this CPU has"));
}

fn speed(kernels: Kernels) {
    let (name, run) = ceilings::arithmetic(kernels.isa());
    let peak = ceilings::operations(&mut Pool::new(1), run);
    println!("{name}: {:.0} Gop/s", peak / 1e9);
    let (rows, columns) = (2048, 1024);
    for quant in [Quant::Q8_0, Quant::Q4_0, Quant::Q4_K, Quant::Q6_K, Quant::BF16] {
        for tokens in [1, 8, 512] {
            let random = &mut Random(7);
            let linear = normal_matrix(quant, rows, columns, random);
            let x = activations(tokens, columns, random);
            let mut scratch = Scratch::new(kernels, tokens, columns, 0, 1);
            let mut out = vec![0.0; tokens * rows];
            let mut pool = Pool::new(1);
            let mut seconds = f64::MAX;
            for _ in 0..if tokens < 100 { 200 } else { 20 } {
                let start = Instant::now();
                matmul::linear(
                    &mut pool,
                    &mut scratch,
                    &x,
                    tokens,
                    &mut [Job { linear: &linear, gate: None, finish: Finish::Store, out: &mut out }],
                );
                seconds = seconds.min(start.elapsed().as_secs_f64());
            }
            let operations = 2.0 * (rows * columns * tokens) as f64 / seconds;
            println!(
                "{:5} {tokens:4} tokens: {:6.1} Gop/s, {:4.1}% of the peak; {:5.2} billion weights/s, {:4.1} GB/s",
                quant.name(),
                operations / 1e9,
                100.0 * operations / peak,
                (rows * columns) as f64 / seconds / 1e9,
                linear.weight.matrix().data.len() as f64 / seconds / 1e9
            );
        }
    }
}

/// A matrix as models have them; the blocks of [`matrix`] hold numbers so small that they slow the CPU down.
fn normal_matrix(quant: Quant, rows: usize, columns: usize, random: &mut Random) -> Linear<Weight> {
    let values: Vec<f32> = (0..rows * columns).map(|_| 0.02 * random.normal()).collect();
    let mut data = Vec::new();
    quant.quantise(&values, columns, None, &mut data).expect("whole blocks");
    let weight = Weight::Matrix(Matrix { quant, rows, columns, data: data.into() });
    Linear { rows: rows as u32, columns: columns as u32, weight, bias: None }
}
