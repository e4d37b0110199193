//! What the GPU allows at most, measured: streaming reads of its memory, and the widest arithmetic of its matrix units.

use std::sync::Arc;

use kauri_device::Ceilings;

use crate::driver::{Failure, Gpu, Grid};

/// Bytes that are streamed: several times the largest second-level cache.
const BYTES: usize = 1 << 30;
/// Products of 16 by 8 by 16 that each warp does.
const PRODUCTS: usize = 4096;
const OPERATIONS_A_PRODUCT: usize = 2 * 16 * 8 * 16;
const WARPS_A_BLOCK: usize = 8;
/// Runs of which the best counts.
const RUNS: usize = 5;

/// Zero where it cannot be measured.
pub(crate) fn measure(gpu: &Arc<Gpu>) -> Ceilings {
    Ceilings {
        bandwidth_bytes_per_s: bandwidth(gpu).unwrap_or(0.0),
        operations_per_s: operations(gpu).unwrap_or(0.0),
        arithmetic: "bf16 (mma)",
    }
}

fn bandwidth(gpu: &Arc<Gpu>) -> Result<f64, Failure> {
    gpu.bind()?;
    let (memory, sum) = (gpu.allocate(BYTES)?, gpu.allocate(4)?);
    gpu.set(&memory, 0)?;
    let grid = Grid::new([4 * gpu.processors as usize, 1, 1], 256);
    let seconds =
        best(gpu, || gpu.launch("stream", grid, &[memory.at().into(), (BYTES / 16).into(), sum.at().into()]))?;
    Ok(BYTES as f64 / seconds)
}

fn operations(gpu: &Arc<Gpu>) -> Result<f64, Failure> {
    gpu.bind()?;
    let sum = gpu.allocate(4)?;
    let blocks = 4 * gpu.processors as usize;
    let grid = Grid::new([blocks, 1, 1], 32 * WARPS_A_BLOCK as u32);
    let seconds = best(gpu, || gpu.launch("multiply", grid, &[PRODUCTS.into(), sum.at().into()]))?;
    Ok((blocks * WARPS_A_BLOCK * PRODUCTS * OPERATIONS_A_PRODUCT) as f64 / seconds)
}

/// The shortest of some runs, in seconds.
fn best(gpu: &Gpu, run: impl Fn() -> Result<(), Failure>) -> Result<f64, Failure> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        best = best.min(gpu.time(&run)?);
    }
    Ok(best)
}
