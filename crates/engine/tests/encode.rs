//! What it takes the CPU to start a step through Vulkan or Metal: a figure for `docs/log.md`, and no test of it.
//!
//! Layers are those of the default model, as many as a model of eight billion weights has: what a step takes the CPU depends on the
//! number of kernels and not on the size of what they read.
//!
//! `cargo test --release -p kauri-engine --test encode -- --ignored --nocapture`

use std::path::Path;
use std::time::Instant;

use kauri_device::{Batch, CacheType, Choice, Executor, Plan};
use kauri_device_wgpu::{Arithmetic, Device, Reduction, WgpuExecutor};
use kauri_formats::Checkpoint;

/// Layers of the 8b shape.
const LAYERS: usize = 36;
/// Steps that are timed.
const STEPS: u32 = 200;

#[test]
#[ignore = "a measurement"]
fn a_step_is_started() {
    let device = match Device::open(true, Reduction::Best) {
        Ok(device) => device,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/kauri-nano-Q4_K_M.gguf");
    let checkpoint = Checkpoint::open(own).expect("the model opens");
    let names = kauri_arch::identify(&checkpoint).expect("a known architecture");
    let mut shape = kauri_model::load::weights(&checkpoint, &names).expect("a whole model");
    let blocks = shape.blocks.clone();
    shape.blocks = blocks.into_iter().cycle().take(LAYERS).collect();
    let plan = Plan {
        page_tokens: 32,
        pages: 16,
        batch_tokens: 64,
        batch_outputs: 1,
        slots: 1,
        cache: CacheType::F16,
        ring: None,
    };
    let mut executor = WgpuExecutor::new(&device, &shape, plan, Arithmetic::Fast).expect("room");
    let pages: Vec<u32> = (0..plan.pages).collect();
    let mut seconds = Vec::new();
    for position in 0..STEPS {
        let mut batch = Batch::default();
        batch.push(&[7], position, &pages, 0, 1, 1);
        let start = Instant::now();
        executor.launch(&batch).expect("a device that is there");
        seconds.push(start.elapsed().as_secs_f64());
        executor.sample(&[Choice::Greedy { mask: None }]).expect("a device that is there");
    }
    seconds.sort_by(f64::total_cmp);
    let ms = |share: f64| 1e3 * seconds[(share * (seconds.len() - 1) as f64) as usize];
    println!(
        "{}: {} kernels, {LAYERS} layers; started in {:.3} ms at best, {:.3} at the median, {:.3} at nine tenths",
        device.name(),
        executor.dispatches(),
        ms(0.0),
        ms(0.5),
        ms(0.9)
    );
}
