//! Whether a model fits this machine, before a byte of it is asked for: what it takes, what is free, and what to do about it.
//!
//! A window or a cache that nobody asked for gives way; what somebody asked for is kept or refused, with the numbers.

use std::path::Path;

use kauri_arch::Shape;
use kauri_device::{CacheType, Plan, Weight, apart, split};
use kauri_device_cpu::Sizes;
use kauri_formats::Checkpoint;
use kauri_model::fit::{self, Layers, Placement, Sums};
use kauri_model::memory::{self, Memory};
use kauri_model::{Wish, load, resolve};

use crate::devices;
use crate::engine::Options;
use crate::error::Error;

/// Most texts that are read in one step.
const TEXTS_A_STEP: u32 = 16;
/// Bytes of the program where the system does not say what it has.
const PROGRAM_BYTES: u64 = 6_000_000;
/// What the program has resident when an answer is there for each byte that it had before the model was opened, its vocabulary apart: 2.3 (with
/// a window of 64 tokens) to 2.7 (of 512) were measured of builds of development and release, whose code lies differently.
const PROGRAM_SHARE: f64 = 2.5;
/// Bytes of an entry of a vocabulary: as settings of the file, and as the tokenizer has it. Measured with 8,192 and 151,936 entries.
const TOKEN_BYTES: u64 = 70;

/// How a model would lie in memory.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// What it takes.
    pub sums: Sums,
    /// What there is; nothing where the system does not say.
    pub memory: Option<Memory>,
    /// The window.
    pub window_tokens: u32,
    /// How keys and values are kept.
    pub cache: CacheType,
    /// The longest trained context.
    pub trained_tokens: u32,
    /// Values of all weights.
    pub parameters: u64,
    /// Bytes of weights that one decoded token reads.
    pub bytes_per_token: u64,
    /// Whether it runs on the CPU, from the machine's own memory.
    pub on_cpu: bool,
    /// What of it goes to a GPU, where one runs it; [`Self::sums`] are what is left for the CPU if that is not all.
    pub gpu: Option<OnGpu>,
}

/// What of a model goes to a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnGpu {
    /// What it is.
    pub placement: Placement,
    /// Layers that the model has.
    pub all_layers: u32,
    /// Those of them that have experts.
    pub with_experts: u32,
    /// Bytes that it takes there, with what stands beside it.
    pub bytes: u64,
    /// Bytes that are free there; nothing where it does not say.
    pub free_bytes: Option<u64>,
    /// Where there was a choice: the other placement, and tokens a second that may be expected of this one and of that.
    pub other: Option<(Placement, [f64; 2])>,
}

impl OnGpu {
    /// Whether the CPU has nothing of the model.
    pub fn is_whole(&self) -> bool {
        match self.placement {
            Placement::Last(layers) => layers >= self.all_layers,
            Placement::AllButExperts(layers) => layers == 0 || self.with_experts == 0,
        }
    }
}

impl Fitted {
    /// Whether there is room for it.
    pub fn fits(&self) -> bool {
        let none_here = self.gpu.is_some_and(|gpu| gpu.is_whole());
        none_here || self.memory.as_ref().is_none_or(|memory| self.sums.total_bytes() <= memory.free_bytes)
    }

    /// Whether there is room for it and for its weights once more, as the system knows of what is free.
    pub fn has_room_for_weights_twice(&self) -> bool {
        let bytes = self.sums.total_bytes().saturating_add(self.sums.weights_bytes);
        self.memory.as_ref().is_some_and(|memory| bytes <= memory.free_bytes)
    }

    /// The most bytes that weights may have beside all the rest; none where that alone is too much.
    pub fn weights_bytes_max(&self) -> Option<u64> {
        let free = self.memory.as_ref()?.free_bytes;
        free.checked_sub(self.sums.total_bytes() - self.sums.weights_bytes)
    }
}

/// Looks how the model called `name` (the default one where unset) would lie in memory, without loading it.
///
/// # Errors
/// When the file cannot be used, or the window does not suit it; that it does not fit is no error here.
pub fn fit(name: Option<&str>, options: &Options) -> Result<Fitted, Error> {
    memory::program_bytes();
    let checkpoint = resolve::open(name)?;
    let names = kauri_arch::identify(&checkpoint)?;
    let mut shape = load::weights(&checkpoint, &names)?;
    Ok(settle(&checkpoint, &mut shape, options)?.1)
}

/// The sizes for a model, such that it fits if it can; a model that is to read loses what it would write with.
pub(crate) fn settle(
    checkpoint: &Checkpoint,
    shape: &mut Shape<Weight>,
    options: &Options,
) -> Result<(Plan, Fitted), Error> {
    if options.reads || shape.reads_both_ways() {
        shape.head.output = None;
    }
    let cache = options.cache.unwrap_or_else(|| devices::cache(options.device, options.isa, shape));
    let first = sized(checkpoint, shape, options, options.context_tokens, cache)?;
    if first.1.fits() {
        return Ok(first);
    }
    let caches = match options.cache {
        None if cache != CacheType::Q8_0 => vec![cache, CacheType::Q8_0],
        Some(_) | None => vec![cache],
    };
    let windows = match options.context_tokens {
        Some(asked) => vec![asked],
        None => [first.1.window_tokens].into_iter().chain(fit::shorter_windows(first.1.window_tokens)).collect(),
    };
    for window in windows {
        for &cache in &caches {
            let tried = sized(checkpoint, shape, options, Some(window), cache)?;
            if tried.1.fits() {
                return Ok(tried);
            }
        }
    }
    Ok(first)
}

fn sized(
    checkpoint: &Checkpoint,
    shape: &Shape<Weight>,
    options: &Options,
    window_tokens: Option<u32>,
    cache: CacheType,
) -> Result<(Plan, Fitted), Error> {
    let wish = Wish {
        window_tokens,
        cache,
        page_tokens: options.page_tokens.clamp(16, 4096).next_multiple_of(16),
        batch_tokens: options.batch_tokens,
        batch_outputs: options.batch_outputs,
        sequences: options.sequences.max(1),
        cache_tokens: options.cache_tokens,
        cache_windows: options.cache_windows,
        snapshots: options.snapshots,
        rings: options.rings,
    };
    let (mut plan, window_tokens) = fit::plan(shape, &wish)?;
    let both_ways = shape.reads_both_ways();
    if options.reads || both_ways {
        // There is one state for all texts of a step, if there are states.
        let texts = if shape.state_values_per_sequence() > 0 { 1 } else { TEXTS_A_STEP };
        plan = fit::for_reading(&plan, window_tokens, texts, both_ways);
    }
    let on_gpu = devices::on_gpu(options.device, options.isa) && options.gpu_layers != Some(0);
    let gpu = on_gpu.then(|| on_gpu_of(shape, &plan, options));
    let here = gpu.filter(|gpu| !gpu.is_whole()).map(|gpu| {
        plan.ring = None;
        match gpu.placement {
            Placement::Last(layers) => split::part(shape, 0..(gpu.all_layers - layers) as usize).0,
            Placement::AllButExperts(layers) => apart::parts(shape, layers as usize).1,
        }
    });
    let sizes = Sizes::of(here.as_ref().unwrap_or(shape), &plan, devices::threads(options.threads));
    let files_bytes = weights_bytes(checkpoint, shape, options);
    let sums = Sums {
        weights_bytes: here.as_ref().map_or(files_bytes, |here| fit::stored_bytes(here).min(files_bytes)),
        cache_bytes: sizes.cache_bytes,
        state_bytes: sizes.state_bytes,
        scratch_bytes: sizes.scratch_bytes,
        program_bytes: program_bytes(shape.vocab),
    };
    let fitted = Fitted {
        sums,
        memory: Memory::of_this_machine(),
        window_tokens,
        cache,
        trained_tokens: shape.context_tokens,
        parameters: fit::parameters(shape),
        bytes_per_token: fit::bytes_per_token(shape),
        on_cpu: !on_gpu,
        gpu,
    };
    Ok((plan, fitted))
}

/// What of a model a GPU gets: what somebody asked for; else as much as there is room for, where it says how much there is.
fn on_gpu_of(shape: &Shape<Weight>, plan: &Plan, options: &Options) -> OnGpu {
    let all_layers = shape.blocks.len() as u32;
    let (sizes, free_bytes) = (Layers::of(shape, plan), devices::gpu_free_bytes(options.device, options.isa));
    let (whole, with_experts) = (Placement::Last(all_layers), sizes.with_experts());
    let rates = || devices::rates(devices::threads(options.threads));
    let asked = options.placement().map(|asked| match asked {
        Placement::Last(layers) => Placement::Last(layers.min(all_layers)),
        Placement::AllButExperts(0) => whole,
        Placement::AllButExperts(_) if with_experts == 0 => whole,
        Placement::AllButExperts(layers) => Placement::AllButExperts(layers.min(with_experts)),
    });
    let room = free_bytes.filter(|&free| asked.is_none() && sizes.bytes(whole) > free);
    let placements = room.map_or_else(|| vec![asked.unwrap_or(whole)], |free| sizes.placements(free, rates));
    let speed = |placement| 1.0 / sizes.token_seconds(placement, &rates());
    let other = placements.get(1).map(|&other| (other, [speed(placements[0]), speed(other)]));
    let placement = placements[0];
    OnGpu { placement, all_layers, with_experts, bytes: sizes.bytes(placement), free_bytes, other }
}

/// The program with its vocabulary.
fn program_bytes(vocab: u32) -> u64 {
    let before = memory::program_bytes().unwrap_or(PROGRAM_BYTES);
    (PROGRAM_SHARE * before as f64) as u64 + TOKEN_BYTES * u64::from(vocab)
}

/// The files whole, since all of them is mapped; what was made of them besides; adapters.
fn weights_bytes(checkpoint: &Checkpoint, shape: &Shape<Weight>, options: &Options) -> u64 {
    let files: u64 =
        checkpoint.paths.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len()).sum();
    let stored = fit::stored_bytes(shape);
    let model = if options.full_precision { files.saturating_add(stored) } else { files.max(stored) };
    model.saturating_add(fit::adapters_bytes(shape))
}

/// A model that there is no room for, with what would be.
#[derive(Debug, thiserror::Error)]
#[error(
    "it does not fit: it takes {} ({} of weights, {} of cache for {window_tokens} tokens, {} besides), and {} are free{}; {advice}",
    gigabytes(sums.total_bytes()), gigabytes(sums.weights_bytes), gigabytes(sums.cache_bytes),
    gigabytes(sums.total_bytes() - sums.weights_bytes - sums.cache_bytes), gigabytes(*free_bytes), limit
)]
pub struct Misfit {
    /// What it takes.
    pub sums: Sums,
    /// What is free.
    pub free_bytes: u64,
    /// The window.
    pub window_tokens: u32,
    /// Who says that no more is free.
    limit: String,
    /// What would fit.
    pub advice: String,
}

impl Misfit {
    /// Of a model that does not fit.
    pub fn of(fitted: &Fitted) -> Self {
        let memory = fitted.memory.as_ref();
        Self {
            sums: fitted.sums,
            free_bytes: memory.map_or(0, |memory| memory.free_bytes),
            window_tokens: fitted.window_tokens,
            limit: memory
                .and_then(|memory| memory.limited_by.as_ref())
                .map_or(String::new(), |by| format!(" (limit of {by})")),
            advice: advice(fitted),
        }
    }
}

/// What would fit instead.
fn advice(fitted: &Fitted) -> String {
    let free = fitted.memory.as_ref().map_or(0, |memory| memory.free_bytes);
    let sums = fitted.sums;
    let fixed = sums.total_bytes() - sums.cache_bytes;
    let each = sums.cache_bytes as f64 / f64::from(fitted.window_tokens.max(1));
    let window = free.checked_sub(fixed).map(|room| (room as f64 / each.max(1e-9)) as u32);
    if let Some(window) =
        window.filter(|&window| window >= fit::SHORTEST_WINDOW_TOKENS && window < fitted.window_tokens)
    {
        return format!("a window of {window} tokens would fit: --context {window}");
    }
    let smallest = Sums { cache_bytes: (each * f64::from(fit::SHORTEST_WINDOW_TOKENS)) as u64, ..sums };
    let room = free.checked_sub(smallest.total_bytes() - smallest.weights_bytes);
    match room.map(|room| (room, room as f64 * 8.0 / fitted.parameters.max(1) as f64)) {
        Some((room, bits)) if bits >= 2.0 => {
            format!(
                "weights of up to {} would fit, which is {bits:.1} bits each: take a smaller quantisation",
                gigabytes(room)
            )
        }
        Some(_) | None => {
            "no quantisation of it would fit: take a smaller model, or close what uses the memory".to_owned()
        }
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.2} GB", bytes as f64 / 1e9)
}

/// What a model takes when all of it was used, beside what was foreseen.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// What was foreseen, in bytes.
    pub foreseen_bytes: u64,
    /// What is resident, shared pages counted in part, in bytes.
    pub resident_bytes: u64,
}

/// Loads the model called `name`, touches all that it may ever use, and looks what that takes. An instrument.
///
/// # Errors
/// Those of loading; where the system does not say what is resident.
pub fn measure(name: Option<&str>, options: &Options) -> Result<Resident, Error> {
    let foreseen_bytes = fit(name, options)?.sums.total_bytes();
    let mut engine = crate::engine::Engine::load(name, &Options { lock: true, ..*options })?;
    let tokens = engine.executor().plan().batch_tokens as usize;
    let text = engine.text_tokens("a b c d e f g h");
    let prompt: Vec<u32> = text.iter().copied().cycle().take(tokens.min(engine.window_tokens() as usize - 1)).collect();
    engine.session().sync(&prompt, prompt.len() as u32 + 1, |_| std::ops::ControlFlow::Continue(()))?;
    let executor = engine.executor();
    let (pages, slots) = (executor.plan().pages, executor.plan().slots);
    let zeros = vec![0; executor.page_bytes().max(executor.state_bytes())];
    let (page, state) = (executor.page_bytes(), executor.state_bytes());
    for number in 0..pages {
        executor.write_page(number, &zeros[..page])?;
    }
    for number in 0..slots {
        executor.write_state(number, &zeros[..state])?;
    }
    drop(zeros);
    let resident_bytes = memory::resident_bytes(Path::new("/")).ok_or(Error::ResidentUnknown)?;
    Ok(Resident { foreseen_bytes, resident_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::DeviceChoice;

    fn fitted(free_bytes: u64) -> Fitted {
        let sums = Sums { weights_bytes: 4 << 30, cache_bytes: 1 << 30, program_bytes: 1 << 20, ..Sums::default() };
        let memory = Memory { total_bytes: 16 << 30, free_bytes, limited_by: Some("/job".to_owned()) };
        Fitted {
            sums,
            memory: Some(memory),
            window_tokens: 8192,
            cache: CacheType::F16,
            trained_tokens: 32_768,
            parameters: 8_000_000_000,
            bytes_per_token: 4 << 30,
            on_cpu: true,
            gpu: None,
        }
    }

    #[test]
    fn a_misfit_says_what_would_fit() {
        assert!(fitted(6 << 30).fits());
        let said = |free| Misfit::of(&fitted(free)).to_string();
        assert!(said((9 << 30) / 2).contains("--context 40"), "{}", said((9 << 30) / 2));
        assert!(said(3 << 30).contains("bits each"), "{}", said(3 << 30));
        assert!(said(1 << 20).contains("smaller model"), "{}", said(1 << 20));
        assert!(
            said(3 << 30).contains("limit of /job") && said(3 << 30).contains("3.22 GB are free"),
            "{}",
            said(3 << 30)
        );
    }

    #[test]
    fn nobodys_window_gives_way_and_somebodys_does_not() {
        let options = Options { oversize: true, ..Options::default() };
        let found = fit(None, &options).unwrap();
        assert!(found.fits(), "{:?}", found.sums);
        let huge = Options { sequences: u32::MAX, cache: Some(CacheType::F32), ..options };
        let found = fit(None, &huge).unwrap();
        assert!(!found.fits(), "{:?}", found.sums);
        let asked = Options { context_tokens: Some(600), ..huge };
        assert_eq!(fit(None, &asked).unwrap().window_tokens, 600);
        let wide = Options { sequences: 100_000, cache: Some(CacheType::F32), ..Options::default() };
        assert!(fit(None, &wide).unwrap().window_tokens <= 2048);
    }

    /// So that a refusal does not wait for a vocabulary: one that cannot be used is not looked at.
    #[test]
    fn what_does_not_fit_is_refused_before_its_vocabulary_is_read() {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families/helium");
        let model = model.to_str();
        let load = |options: &Options| crate::engine::Engine::load(model, options).map(|_| ()).unwrap_err();
        let options = Options { device: DeviceChoice::Cpu, ..Options::default() };
        assert!(matches!(load(&options), Error::Tokenizer(_)), "{}", load(&options));
        let huge = Options { sequences: u32::MAX, cache: Some(CacheType::F32), ..options };
        assert!(matches!(load(&huge), Error::DoesNotFit(_)), "{}", load(&huge));
    }

    #[test]
    fn layers_that_a_gpu_has_are_not_counted_here() {
        let options = Options { device: DeviceChoice::Wgpu, ..Options::default() };
        let of = |gpu_layers| fit(None, &Options { gpu_layers, ..options }).unwrap();
        let (whole, some, none) = (of(Some(99)), of(Some(3)), of(Some(0)));
        assert_eq!(whole.gpu.map(|gpu| (gpu.placement, gpu.all_layers)), Some((Placement::Last(8), 8)));
        assert_eq!(some.gpu.map(|gpu| (gpu.placement, gpu.all_layers)), Some((Placement::Last(3), 8)));
        assert_eq!((none.gpu, none.on_cpu), (None, true));
        assert!(some.gpu.unwrap().bytes < whole.gpu.unwrap().bytes);
        assert!(some.sums.weights_bytes < none.sums.weights_bytes, "{:?} {:?}", some.sums, none.sums);
        assert!(some.sums.cache_bytes < none.sums.cache_bytes, "{:?} {:?}", some.sums, none.sums);
    }

    #[test]
    fn experts_that_a_cpu_keeps_are_counted_here() {
        const HIDDEN: u64 = 32;
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families/bailingmoe2");
        let options = Options { device: DeviceChoice::Wgpu, ..Options::default() };
        let of = |cpu_experts| fit(model.to_str(), &Options { cpu_experts, ..options }).unwrap();
        let (whole, one, all) = (of(Some(0)), of(Some(1)), of(Some(99)));
        let [whole_gpu, one_gpu, all_gpu] = [&whole, &one, &all].map(|fitted| fitted.gpu.unwrap());
        assert!(whole_gpu.is_whole() && whole_gpu.placement == Placement::Last(whole_gpu.all_layers), "{whole_gpu:?}");
        assert_eq!(one_gpu.placement, Placement::AllButExperts(1));
        assert_eq!(all_gpu.placement, Placement::AllButExperts(all_gpu.with_experts));
        assert!(all_gpu.bytes < one_gpu.bytes && one_gpu.bytes < whole_gpu.bytes, "{one_gpu:?} {all_gpu:?}");
        // What one has more the other has less, but for the norm in front of experts, which both have.
        let norms = u64::from(all_gpu.with_experts - 1) * 4 * HIDDEN;
        assert_eq!(one_gpu.bytes - all_gpu.bytes + norms, all.sums.weights_bytes - one.sums.weights_bytes);
        assert_eq!((one.sums.cache_bytes, all.sums.cache_bytes), (0, 0));
    }
}
