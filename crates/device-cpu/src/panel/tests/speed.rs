//! How fast products are on this machine: printed, nothing is asserted. Run by hand:
//! `cargo test --release -p kauri-device-cpu --lib -- --ignored --nocapture products_`.

use std::time::Instant;

use super::*;
use crate::aligned::Aligned;
use crate::ceilings;

/// Rows and columns of a matrix that the second-level cache holds.
const ROWS: usize = 2048;
const COLUMNS: usize = 1024;

/// One thread, everything in cache; where the best instructions have tiles, without those, too.
#[test]
#[ignore = "measures, run by hand"]
fn products_speed() {
    products_speed_of(Isa::best());
    if Isa::best() == Isa::Amx {
        products_speed_of(Isa::Avx512);
    }
}

fn products_speed_of(isa: Isa) {
    println!("{}", isa.name());
    let kernels = Kernels::new(isa).expect("this CPU has it").rounding();
    let (name, run) = ceilings::arithmetic(kernels.isa());
    let peak = ceilings::operations(&mut Pool::new(1), run);
    println!("{name}: {:.0} Gop/s", peak / 1e9);
    for quant in [Quant::Q8_0, Quant::Q4_0, Quant::Q4_K, Quant::Q5_K, Quant::Q6_K, Quant::BF16] {
        for tokens in [1, 2, 4, 8, 12, 16, 32, 64, 512] {
            let random = &mut Random(7);
            let linear = normal_matrix(quant, 1, random);
            let all = seconds(&linear, (kernels, 1), tokens, if tokens < 100 { 200 } else { 20 });
            let operations = 2.0 * (ROWS * COLUMNS * tokens) as f64 / all[0];
            println!("{}, {:4.1}% of the peak", rates(&linear, tokens, all[0]), 100.0 * operations / peak);
        }
    }
}

/// One thread: rows of activations to bytes, as `Q4_K` takes them.
#[test]
#[ignore = "measures, run by hand"]
fn products_quantised() {
    let kernels = Kernels::new(Isa::best()).expect("the best that this CPU has");
    let strips = kernels.strips(Quant::Q4_K, COLUMNS, 8, Phase::Decode).expect("a kernel");
    for tokens in [1, 8, 64] {
        let x = activations(tokens, COLUMNS, &mut Random(11));
        let mut packed = Activations::new(tokens * COLUMNS);
        packed.begin(tokens, COLUMNS, strips.packing.correction().into_iter());
        let (writer, rows) = (packed.writer(), Rows { first: 0, tokens });
        let once = |_| {
            let start = Instant::now();
            for (token, x) in x.chunks_exact(COLUMNS).enumerate() {
                // SAFETY: one row after the other.
                unsafe { kernels.quantise(&writer.bytes, rows.tile_of(token, strips.tokens), (token, 0), x) };
            }
            start.elapsed().as_secs_f64()
        };
        let quickest = (0..1000).map(once).fold(f64::INFINITY, f64::min);
        println!("{tokens:4} rows of {COLUMNS}: {:.2} ns a value", quickest * 1e9 / x.len() as f64);
    }
}

/// All threads, weights of 160 MB: the median of seven, and the quickest.
#[test]
#[ignore = "measures, run by hand"]
fn products_from_memory() {
    let kernels = Kernels::new(Isa::best()).expect("the best that this CPU has").rounding();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for quant in [Quant::Q8_0, Quant::Q4_0, Quant::Q4_K, Quant::Q6_K, Quant::BF16] {
        let random = &mut Random(7);
        let copies = 160_000_000 / normal_matrix(quant, 1, random).weight.matrix().data.len();
        let linear = normal_matrix(quant, copies, random);
        for tokens in [1, 2, 4, 8, 16] {
            let all = seconds(&linear, (kernels, threads), tokens, 7);
            println!("{}; quickest: {}", rates(&linear, tokens, all[3]), rates(&linear, tokens, all[0]));
        }
    }
}

/// What so many seconds mean.
fn rates(linear: &Linear<Weight>, tokens: usize, seconds: f64) -> String {
    let Matrix { quant, rows, columns, data, .. } = linear.weight.matrix();
    let weights = (rows * columns) as f64 / seconds / 1e9;
    let (name, operations, bytes) = (quant.name(), 2.0 * tokens as f64 * weights, data.len() as f64 / seconds / 1e9);
    format!("{name:5} {tokens:4} tokens: {operations:6.1} Gop/s, {weights:5.2} billion weights/s, {bytes:4.1} GB/s")
}

/// The seconds that the product with so many tokens takes each time, in order of size.
fn seconds(linear: &Linear<Weight>, (kernels, threads): (Kernels, usize), tokens: usize, times: usize) -> Vec<f64> {
    let (rows, columns) = (linear.rows as usize, linear.columns as usize);
    let x = activations(tokens, columns, &mut Random(11));
    let mut scratch = Scratch::new(kernels, tokens, columns, 0, threads);
    let (mut pool, mut out) = (Pool::new(threads), Aligned::new(tokens * rows));
    let mut once = || {
        let start = Instant::now();
        let job = Job { linear, gate: None, finish: Finish::Store, out: &mut out, then: None };
        matmul::linear(&mut pool, &mut scratch, Source::Rows(&x), (Extent::Outputs, tokens), &mut [job]);
        start.elapsed().as_secs_f64()
    };
    // A core that comes from other work runs wide instructions at half its speed for some milliseconds.
    let warm = Instant::now();
    while warm.elapsed().as_millis() < 50 {
        once();
    }
    let mut all: Vec<f64> = (0..times).map(|_| once()).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// A matrix as models have them, so many times below itself; the blocks of [`matrix`] hold numbers so small that they slow the CPU down.
fn normal_matrix(quant: Quant, copies: usize, random: &mut Random) -> Linear<Weight> {
    let values: Vec<f32> = (0..ROWS * COLUMNS).map(|_| 0.02 * random.normal()).collect();
    let mut data = Vec::new();
    quant.quantise(&values, COLUMNS, None, &mut data).expect("whole blocks");
    let (rows, data) = (ROWS * copies, data.repeat(copies));
    let weight = Weight::Matrix(Matrix { quant, rows, columns: COLUMNS, data: data.into(), scales: None });
    Linear { rows: rows as u32, columns: COLUMNS as u32, weight, bias: None }
}
