//! The default model through Vulkan or Metal: limits of drivers that allow less, and what it takes the CPU to start a step, which is a
//! figure for `docs/log.md` and no test of it.
//!
//! `cargo test --release -p kauri-engine --test wgpu -- --ignored --nocapture`, with the layers of the file that `KAURI_MODEL` names, if it
//! names one.

use std::path::Path;
use std::time::Instant;

use kauri_arch::Shape;
use kauri_device::{Batch, CacheType, Change, Choice, DeviceError, Draw, Effect, Executor, Plan, Weight, draw};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_device_wgpu::{Arithmetic, Device, Reduction, WgpuExecutor};
use kauri_formats::Checkpoint;
use kauri_step::sample::uniform;

/// The default model.
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/kauri-nano-Q4_K_M.gguf");
/// Layers of the 8b shape: what a step takes the CPU depends on the number of kernels and not on the size of what they read.
const LAYERS: usize = 36;
/// Steps that are timed; of the layers of a file a tenth of them.
const STEPS: u32 = 200;

const PLAN: Plan =
    Plan { page_tokens: 32, pages: 16, batch_tokens: 4, batch_outputs: 1, slots: 1, cache: CacheType::F16, ring: None };

/// The default model and a device for it that allows so many bytes in one piece; nothing where there is none.
fn opened(binding_bytes_max: u64) -> Option<(Shape<Weight>, Device)> {
    let device = Device::open_within(true, Reduction::Best, binding_bytes_max);
    let device = device.inspect_err(|reason| eprintln!("skipped: {reason}")).ok()?;
    Some((loaded(Path::new(OWN)), device))
}

/// The weights of a file.
fn loaded(path: &Path) -> Shape<Weight> {
    let checkpoint = Checkpoint::open(path).expect("the model opens");
    let names = kauri_arch::identify(&checkpoint).expect("a known architecture");
    kauri_model::load::weights(&checkpoint, &names).expect("a whole model")
}

/// What follows a few tokens, as logits.
fn logits(device: &Device, shape: &Shape<Weight>) -> Vec<f32> {
    let mut executor = WgpuExecutor::new(device, shape, PLAN, Arithmetic::Fast).expect("room");
    let mut batch = Batch::default();
    batch.push(&[5, 1000, 17, 3], 0, &[0], 0, 4, 1);
    executor.launch(&batch).expect("a device that is there");
    executor.sample(&[Choice::Logits]).expect("a device that is there").logits.to_vec()
}

/// Bits: weights in many buffers, the largest matrix cut between its rows, are the same weights.
#[test]
fn a_driver_that_allows_little_in_one_piece_changes_no_bit() {
    let limit = 1 << 20;
    let Some((shape, small)) = opened(limit) else { return };
    let mut largest = 0;
    shape.for_each(|weight| {
        if let Weight::Matrix(matrix) = weight {
            largest = largest.max(matrix.data.len() as u64);
        }
    });
    assert!(largest > 2 * limit, "the largest matrix has {largest} bytes: it should be cut more than once");
    let (_, large) = opened(u64::MAX).expect("opened before");
    assert!(logits(&small, &shape) == logits(&large, &shape));
}

/// An answer whose tokens the GPU draws: of its own logits as they are defined to be drawn, and of a CPU's, which are in another order of sums, but
/// for draws between two tokens.
#[test]
fn an_answer_is_drawn_as_on_a_cpu() {
    const TOKENS: u32 = 40;
    let Some((shape, device)) = opened(u64::MAX) else { return };
    let mut gpu = WgpuExecutor::new(&device, &shape, PLAN, Arithmetic::Fast).expect("room");
    let kernels = Kernels::new(Isa::Scalar).expect("every CPU has them");
    let mut cpu = CpuExecutor::new(shape, PLAN, kernels, 2).expect("room for a small model");
    let pages: Vec<u32> = (0..PLAN.pages).collect();
    let (mut text, mut others) = (vec![5], 0);
    for position in 0..TOKENS {
        let mut batch = Batch::default();
        batch.push(&text[position as usize..], position, &pages, 0, 1, 1);
        let repeated = |&token: &u32| Change { token, effect: Effect::Repeated(1.2) };
        let changes: Vec<Change> = text.iter().rev().take(8).map(repeated).collect();
        let mask: Vec<u32> = (0..512_u32).map(|word| word.wrapping_mul(0x9e37_79b9) | 0x5555_5555).collect();
        let usual = Draw {
            temperature: 0.9,
            top_k: 0,
            top_p: 1.0,
            below_max: f32::INFINITY,
            uniform: uniform(11, u64::from(position)),
            changes: &[],
            mask: None,
        };
        let draw = match position % 4 {
            0 => usual,
            1 => Draw { top_k: 40, top_p: 0.95, changes: &changes, ..usual },
            2 => Draw { below_max: 4.0, mask: Some(&mask), ..usual },
            _ => Draw { top_p: 0.9, changes: &changes, mask: Some(&mask), ..usual },
        };
        gpu.launch(&batch).expect("a device that is there");
        let launched = gpu.dispatches();
        let token = gpu.sample(&[Choice::Draw(draw)]).expect("a device that is there").tokens[0];
        assert_eq!(gpu.dispatches() - launched, [3, 7, 3, 7][position as usize % 4], "kernels of a draw");
        let rows = gpu.sample(&[Choice::Logits]).expect("a device that is there").logits;
        assert_eq!(token, draw::choose(rows, &draw), "position {position}, of its own logits");
        cpu.launch(&batch).expect("a CPU");
        let row = cpu.sample(&[Choice::Logits]).expect("a CPU").logits;
        let beside = [-2e-3, 0.0, 2e-3].map(|step| {
            let uniform = (draw.uniform + step).clamp(0.0, 1.0 - 1e-9);
            draw::choose(row, &Draw { uniform, ..draw })
        });
        assert!(beside.contains(&token), "position {position}: {token:?}, a CPU {beside:?}");
        others += usize::from(token != beside[1]);
        text.push(token.expect("some token may be chosen"));
    }
    assert!(others <= 2, "{others} of {TOKENS} tokens are others");
    assert!(text.iter().collect::<std::collections::HashSet<_>>().len() > 8, "an answer: {text:?}");
}

/// More keys and values than may be in one piece: what had no room is named, with what to do.
#[test]
fn what_has_no_room_is_named() {
    let Some((shape, device)) = opened(1 << 20) else { return };
    let plan = Plan { pages: 1 << 12, ..PLAN };
    let error = WgpuExecutor::new(&device, &shape, plan, Arithmetic::Fast).err().expect("it has no room");
    assert!(matches!(error, DeviceError::OutOfMemory { what: "keys and values", .. }), "{error}");
    assert!(error.to_string().contains("try a smaller --context"), "{error}");
}

/// Of a file whose weights the device has, hardly a page stays in memory behind them; who reads it again finds what was there.
#[cfg(target_os = "linux")]
#[test]
fn a_file_is_let_go_of_once_it_was_sent() {
    let Some((_, device)) = opened(u64::MAX) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    std::fs::copy(OWN, &path).expect("a copy");
    let shape = loaded(&path);
    let read_kib = resident_kib(&path);
    let first = logits(&device, &shape);
    let sent_kib = resident_kib(&path);
    let mut weights_kib = 0;
    shape.for_each(|weight| {
        if let Weight::Matrix(matrix) = weight {
            weights_kib += matrix.data.len() / 1024;
        }
    });
    println!("{weights_kib} KiB of weights; in memory {read_kib} before and {sent_kib} after they were sent");
    // What is read brings its neighbours along.
    assert!(sent_kib < read_kib + weights_kib / 8, "{sent_kib} KiB are in memory, {read_kib} before");
    assert!(logits(&device, &shape) == first, "sent a second time they are the same weights");
}

/// KiB of a file's mappings that are in memory for this process.
#[cfg(target_os = "linux")]
fn resident_kib(path: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("what is mapped");
    let (name, mut is_own, mut kib) = (path.to_str().expect("a path"), false, 0);
    for line in maps.lines() {
        // A line for a mapping, with its file, is followed by lines with a colon behind their name.
        if !line.split_whitespace().next().is_some_and(|word| word.ends_with(':')) {
            is_own = line.ends_with(name);
        } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| is_own) {
            kib += size.trim().trim_end_matches(" kB").parse::<usize>().expect("a number");
        }
    }
    kib
}

#[test]
#[ignore = "a measurement"]
fn a_step_is_started() {
    let Some((mut shape, device)) = opened(u64::MAX) else { return };
    let steps = if let Some(path) = std::env::var_os("KAURI_MODEL") {
        shape = loaded(Path::new(&path));
        STEPS / 10
    } else {
        let blocks = shape.blocks.clone();
        shape.blocks = blocks.into_iter().cycle().take(LAYERS).collect();
        STEPS
    };
    let layers = shape.blocks.len();
    let mut executor = WgpuExecutor::new(&device, &shape, PLAN, Arithmetic::Fast).expect("room");
    let pages: Vec<u32> = (0..PLAN.pages).collect();
    let mut seconds = Vec::new();
    for position in 0..steps {
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
        "{}: {layers} layers; a step is started in {:.3} ms at best, {:.3} at the median, {:.3} at nine tenths",
        device.name(),
        ms(0.0),
        ms(0.5),
        ms(0.9)
    );
}
