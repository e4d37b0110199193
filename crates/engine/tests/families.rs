//! Every family against the logits of its reference implementation, from GGUF and from safetensors, at every position.
//!
//! The repository carries one family per shape; where the shared fixtures are there, all of them run.

use std::path::{Path, PathBuf};

use kauri_arch::Shape;
use kauri_device::{Apart, Batch, CacheType, Choice, Ends, Executor, Plan, Ring, Split, Stage, Weight, apart, split};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};
use kauri_device_cuda::{Arithmetic, CudaExecutor, Device};
use kauri_device_wgpu::{Reduction, WgpuExecutor};
use kauri_formats::Checkpoint;
use serde_json::Value as Json;

const FAMILIES: &[&str] = &[
    "arcee",
    "baichuan",
    "baichuan13",
    "bailingmoe",
    "bailingmoe2",
    "bloom",
    "codeshell",
    "cohere2",
    "commandr",
    "cwm",
    "deepseek",
    "deepseek2",
    "deepseek2lite",
    "deepseek3",
    "dots1",
    "ernie45",
    "ernie45moe",
    "exaone",
    "exaone4",
    "exaonemoe",
    "falcon",
    "falconh1",
    "falconmamba",
    "flexolmo",
    "gemma",
    "gemma2",
    "gemma3",
    "glm",
    "glm4",
    "glm4moe",
    "glm4moelite",
    "gpt2",
    "gptj",
    "gptneox",
    "gptoss",
    "granite",
    "granitehybrid",
    "granitemoe",
    "graniteswa",
    "helium",
    "internlm2",
    "jais2",
    "jamba",
    "lfm2",
    "lfm2moe",
    "llama",
    "mamba",
    "mamba2",
    "mellum",
    "minicpm",
    "minicpm3",
    "minimaxm2",
    "ministral",
    "mistral",
    "mistral3",
    "mixtral",
    "mpt",
    "nemotron",
    "nemotronh",
    "nemotronhmoe",
    "olmo2",
    "olmo3",
    "olmoe",
    "orion",
    "pangu",
    "phi2",
    "phi3",
    "qwen",
    "qwen2",
    "qwen2moe",
    "qwen2vl",
    "qwen3",
    "qwen35",
    "qwen35moe",
    "qwen35vl",
    "qwen3moe",
    "qwen3next",
    "qwen3vl",
    "qwen3vlmoe",
    "refact",
    "rwkv7",
    "seedoss",
    "smollm3",
    "stablelm",
    "starcoder",
    "starcoder2",
    "vaultgemma",
    "xverse",
];

/// Whose choice of experts flips at some position when keys and values are rounded, by whatever kernels: 2.7 in a logit of the
/// formulas with a cache of F16, 7.5e-5 with one of F32.
const DELICATE: &[&str] = &["deepseek2lite"];

/// A loaded tiny model.
struct Model {
    executor: Box<dyn Executor>,
    vocab: usize,
    has_state: bool,
    has_experts: bool,
}

/// Tokens of a page.
const PAGE: u32 = 16;
/// Most tokens of a step where layers with a window keep rings: few, so that these go round several times.
const RING_STEP: usize = 7;
/// Slots of states.
const SLOTS: u32 = 3;
/// Tokens of the longest prompt that is cut into pieces.
const ROOM: usize = 96;

/// Rows that a GPU's products take as numbers.
const FEW: usize = 8;
/// The likeliest token stays where the reference sets it apart by more than this; and by half as much again as rounding to bf16 moves a logit of
/// models without experts and states, 0.34 at most.
const APART: f32 = 0.1;
const APART_ROUNDED: f32 = 0.5;
/// Rows that they take rounded to bf16, as do some CPUs any number.
const MANY: usize = 64;
/// How far logits of these models, which are 3 apart as a rule, may be on average where activations are rounded to bf16: twice and a half what
/// the formulas give with that rounding, 0.02.
const BF16_MEAN: f64 = 0.05;
/// The same of models where little decides much: twice what the formulas give for `MiniMax`-M2, 0.26.
const BF16_MEAN_OF_DELICATE: f64 = 0.5;

/// How far logits were from the reference.
#[derive(Clone, Copy, Default)]
struct Distance {
    max: f32,
    sum: f64,
    count: usize,
}

#[test]
fn families_match_their_reference_with_an_f32_cache() {
    for (family, directory) in directories() {
        for file in files(&directory) {
            matches_reference(&mut load(&file, CacheType::F32, Isa::Scalar), &family, &directory, &file);
        }
    }
}

#[test]
fn families_match_their_reference_on_a_gpu() {
    let Some(device) = gpu() else { return };
    for (family, directory) in directories() {
        for file in files(&directory) {
            matches_reference(
                &mut load_on(&device, &file, CacheType::F32, Arithmetic::Exact),
                &family,
                &directory,
                &file,
            );
            keeps_to_the_reference_in_haste(&device, &family, &directory, &file);
        }
    }
}

/// The fast arithmetic. Few rows meet weights that are numbers as they are: the likeliest token stays, as on a CPU. Many meet them rounded to
/// bf16, which moves a logit by 0.02 on average, and by more where an expert changes places, or where the norm of what a state gives makes much
/// of little: there it is the distance that counts.
fn keeps_to_the_reference_in_haste(device: &Device, family: &str, directory: &Path, file: &Path) {
    let cache = if DELICATE.contains(&family) { CacheType::F32 } else { CacheType::F16 };
    let mut model = load_on(device, file, cache, Arithmetic::Fast);
    let mut distances = [Distance::default(); 2];
    for prompt in prompts(directory) {
        let tokens = ids(&prompt["tokens"]);
        let expected = floats(&directory.join(prompt["logits_file"].as_str().expect("a file")));
        for (distance, piece) in distances.iter_mut().zip([FEW, MANY]) {
            let found = model.logits_in_pieces(&tokens, tokens.len() as u32, piece);
            distance.add(&found, &expected);
            if piece == FEW {
                same_likeliest(&format!("{family} on a GPU"), &found, &expected, model.vocab, APART);
            }
        }
    }
    let [few, many] = distances;
    println!("{family}, fast: {FEW} rows at a time {few}; {MANY} rows {many}");
    assert!(many.mean() <= model.rounded_mean_max(), "{family} from {}: {many}", file.display());
}

/// What a CPU that multiplies BF16 in pairs does where nobody asks for more: activations meet BF16 weights rounded.
#[test]
fn families_stay_near_their_reference_with_rounded_activations() {
    let kernels = Kernels::new(Isa::best()).expect("the best is supported").rounding();
    if !kernels.rounds() {
        return eprintln!("skipped: this CPU multiplies no brain floating-point numbers in pairs");
    }
    for (family, directory) in directories() {
        for file in files(&directory) {
            let cache = if DELICATE.contains(&&*family) { CacheType::F32 } else { CacheType::F16 };
            let mut model = load_with(&file, cache, kernels);
            let mut distance = Distance::default();
            for prompt in prompts(&directory) {
                let tokens = ids(&prompt["tokens"]);
                let expected = floats(&directory.join(prompt["logits_file"].as_str().expect("a file")));
                let found = model.logits_in_pieces(&tokens, tokens.len() as u32, MANY);
                distance.add(&found, &expected);
                if !model.has_experts && !model.has_state {
                    same_likeliest(&format!("{family}, rounded"), &found, &expected, model.vocab, APART_ROUNDED);
                }
            }
            println!("{family} from {}, rounded: {distance}", file.display());
            assert!(distance.mean() <= model.rounded_mean_max(), "{family} from {}: {distance}", file.display());
        }
    }
}

/// Through Vulkan, on a GPU or on a driver that computes on the CPU: single precision throughout.
#[test]
fn families_match_their_reference_through_wgpu() {
    match_their_reference(Reduction::Best);
}

/// The same with kernels as subgroups of 32 threads have them, whatever the driver has.
#[test]
fn families_match_their_reference_through_wgpu_with_thirty_two_lanes() {
    match_their_reference(Reduction::Memory(32));
}

/// A GPU takes every family either way, from either kind of file. A driver that computes on the CPU, which takes minutes for all, takes each in
/// one of the ways, every third with 32 lanes and the others as it adds up best, and from one file: both give the same weights.
fn match_their_reference(reduction: Reduction) {
    let device = match kauri_device_wgpu::Device::open(true, reduction) {
        Ok(device) => device,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    println!("on {}, {}", device.name(), device.reduction());
    for (number, (family, directory)) in directories().into_iter().enumerate() {
        if device.is_software() && number.is_multiple_of(3) == (reduction == Reduction::Best) {
            continue;
        }
        let most = if device.is_software() { 1 } else { usize::MAX };
        for file in files(&directory).into_iter().take(most) {
            let mut model = open(&file, CacheType::F32, |shape, plan| {
                Box::new(
                    WgpuExecutor::new(&device, &shape, plan, kauri_device_wgpu::Arithmetic::Fast)
                        .unwrap_or_else(|error| panic!("{family}: {error}")),
                )
            });
            matches_reference(&mut model, &family, &directory, &file);
        }
    }
}

/// Kernels of a layer for one token: what a driver takes for each is what such a step takes.
#[test]
fn a_layer_takes_few_kernels_through_wgpu() {
    let device = match kauri_device_wgpu::Device::open(true, Reduction::Best) {
        Ok(device) => device,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    for (family, directory) in directories() {
        let most = match family.as_str() {
            "llama" | "qwen3" | "phi3" => 9,
            "mixtral" | "qwen3moe" => 12,
            _ => continue,
        };
        for file in files(&directory) {
            let checkpoint = Checkpoint::open(&file).unwrap_or_else(|error| panic!("{error}"));
            let names = kauri_arch::identify(&checkpoint).unwrap_or_else(|error| panic!("{error}"));
            let shape = kauri_model::load::weights(&checkpoint, &names).unwrap_or_else(|error| panic!("{error}"));
            let layers = shape.blocks.len();
            let plan = plan(CacheType::F16);
            let arithmetic = kauri_device_wgpu::Arithmetic::Fast;
            let made = WgpuExecutor::new(&device, &shape, plan, arithmetic);
            let mut executor = made.unwrap_or_else(|error| panic!("{family}: {error}"));
            let mut batch = Batch::default();
            batch.push(&[1], 0, &[0], 0, 1, 1);
            executor.launch(&batch).expect("a device that is there");
            let kernels = executor.dispatches();
            println!("{family}: {kernels} kernels for {layers} layers");
            // The embedding; the row that is wanted, its norm, the output, and what is done to logits.
            assert!(kernels <= most * layers + 5, "{family}: {kernels} kernels for {layers} layers");
        }
    }
}

/// The logits of every prompt and what is likeliest to follow it.
fn matches_reference(model: &mut Model, family: &str, directory: &Path, file: &Path) {
    let mut distance = Distance::default();
    for prompt in prompts(directory) {
        let tokens = ids(&prompt["tokens"]);
        let expected = floats(&directory.join(prompt["logits_file"].as_str().expect("a file")));
        distance.add(&model.logits(&tokens, tokens.len() as u32), &expected);
        let greedy = ids(&prompt["greedy"]);
        assert_eq!(model.greedy(&tokens, greedy.len()), greedy, "{family}: greedy from {}", file.display());
    }
    println!("{family} {}: {distance}", file.extension().and_then(|end| end.to_str()).unwrap_or("directory"));
    assert!(distance.max <= 2e-3 && distance.mean() <= 2e-4, "{family} from {}: {distance}", file.display());
}

#[test]
fn families_keep_the_likeliest_token_with_the_default_cache() {
    for (family, directory) in directories() {
        for file in files(&directory) {
            for isa in fast() {
                let cache = if DELICATE.contains(&family.as_str()) { CacheType::F32 } else { CacheType::F16 };
                let mut model = load(&file, cache, isa);
                for prompt in prompts(&directory) {
                    let tokens = ids(&prompt["tokens"]);
                    let expected = floats(&directory.join(prompt["logits_file"].as_str().expect("a file")));
                    let what = format!("{family} with {}", isa.name());
                    same_likeliest(&what, &model.logits(&tokens, tokens.len() as u32), &expected, model.vocab, APART);
                }
            }
        }
    }
}

/// Bits of every family, from either file: the prompt whole, in pieces, beside others and in another slot, after other sequences had the state.
#[test]
fn bits_do_not_depend_on_the_cut_of_a_prompt_or_on_its_company() {
    for (family, directory) in directories() {
        for file in files(&directory) {
            for isa in fast().chain([Isa::Scalar]) {
                let mut model = load(&file, CacheType::F32, isa);
                let tokens = ids(&prompts(&directory).last().expect("a prompt")["tokens"]);
                let tokens = &tokens[..tokens.len().min(ROOM)];
                let what = format!("{family} with {}", isa.name());
                let whole = model.pieces(tokens, tokens.len(), &[], 0);
                for piece in [1, 7, 64] {
                    assert!(model.pieces(tokens, piece, &[], 0) == whole, "{what}: in pieces of {piece}");
                }
                let others = [&tokens[3..20], &tokens[5..6]];
                assert!(model.pieces(tokens, 9, &others, 2) == whole, "{what}: beside others");
                assert!(model.pieces(tokens, 64, &others, 1) == whole, "{what}: beside others, in their slot");
            }
        }
    }
}

/// Bits: layers that keep a ring of their window give what they give with everything kept; in another slot, beside others, and after the
/// ring was copied, put aside and brought back.
#[test]
fn a_ring_changes_no_bit() {
    let mut models = 0;
    for (family, directory) in directories() {
        let files = files(&directory);
        let file = files.first().expect("a model");
        for isa in [Isa::best(), Isa::Scalar] {
            for cache in [CacheType::F32, CacheType::F16, CacheType::Q8_0, CacheType::Q4_0] {
                let Some(mut ringed) = load_ringed(file, cache, isa) else { continue };
                let tokens = ids(&prompts(&directory).last().expect("a prompt")["tokens"]);
                let tokens: Vec<u32> = tokens.into_iter().cycle().take(ROOM).collect();
                let tokens = &tokens[..];
                let what = format!("{family} with {} and a cache of {cache:?}", isa.name());
                let mut paged = load(file, cache, isa);
                let whole = paged.pieces(tokens, tokens.len(), &[], 0);
                assert!(ringed.executor.page_bytes() < paged.executor.page_bytes(), "{what}: pages as large as before");
                assert!(ringed.pieces(tokens, RING_STEP, &[], 2) == whole, "{what}: in pieces of {RING_STEP}");
                let others = [&tokens[3..20], &tokens[5..6]];
                assert!(ringed.pieces(tokens, 3, &others, 1) == whole, "{what}: beside others");
                assert!(ringed.interrupted(tokens) == whole, "{what}: put aside and brought back");
                models += 1;
            }
        }
    }
    println!("{models} models of a cache and an instruction set");
    assert!(models > 0, "no family here has a window");
}

/// Bits: a model that two devices share gives what it gives on one; with others beside it, after its state was put aside and brought back,
/// and from pages that were.
#[test]
fn two_devices_change_no_bit() {
    for (family, directory) in directories() {
        let file = &files(&directory)[0];
        let tokens = ids(&prompts(&directory).last().expect("a prompt")["tokens"]);
        let tokens: Vec<u32> = tokens.into_iter().cycle().take(ROOM).collect();
        let others = [&tokens[3..20], &tokens[5..6]];
        for (isa, cache) in [(Isa::best(), CacheType::Q8_0), (Isa::Scalar, CacheType::F32)] {
            let kernels = Kernels::new(isa).expect("a supported instruction set");
            let stage = |part: &Shape<Weight>, ends, plan| -> Box<dyn Stage> {
                Box::new(CpuExecutor::part(part.clone(), ends, plan, kernels, 2).expect("room for a small model"))
            };
            let whole = load(file, cache, isa).pieces(&tokens, tokens.len(), &[], 0);
            for front in [1, usize::MAX] {
                let mut shared = open(file, cache, |shape, plan| halves(&shape, plan, front, stage, stage));
                let what = format!("{family} with {}, {}", isa.name(), shared.executor.name());
                assert!(shared.pieces(&tokens, 9, &others, 2) == whole, "{what}: beside others");
                assert!(shared.interrupted(&tokens) == whole, "{what}: put aside and brought back");
                assert!(shared.moved(&tokens) == whole, "{what}: from other pages");
            }
        }
    }
}

/// Bits: so it is with a model whose experts another device has, those of its first layer that has some, or of all.
#[test]
fn experts_on_another_device_change_no_bit() {
    let mut families = 0;
    for (family, directory) in directories() {
        let file = &files(&directory)[0];
        let tokens = ids(&prompts(&directory).last().expect("a prompt")["tokens"]);
        let tokens: Vec<u32> = tokens.into_iter().cycle().take(ROOM).collect();
        let others = [&tokens[3..20], &tokens[5..6]];
        for (isa, cache) in [(Isa::best(), CacheType::Q8_0), (Isa::Scalar, CacheType::F32)] {
            let kernels = Kernels::new(isa).expect("a supported instruction set");
            let stage = |part: &Shape<Weight>, ends, plan| -> Box<dyn Stage> {
                Box::new(CpuExecutor::part(part.clone(), ends, plan, kernels, 2).expect("room for a small model"))
            };
            let mut plain = load(file, cache, isa);
            if !plain.has_experts {
                break;
            }
            let whole = plain.pieces(&tokens, tokens.len(), &[], 0);
            for layers in [1, usize::MAX] {
                let mut shared = open(file, cache, |shape, plan| without_experts(&shape, plan, layers, kernels, stage));
                let what = format!("{family} with {}, {}", isa.name(), shared.executor.name());
                assert!(shared.pieces(&tokens, 9, &others, 2) == whole, "{what}: beside others");
                assert!(shared.interrupted(&tokens) == whole, "{what}: put aside and brought back");
                assert!(shared.moved(&tokens) == whole, "{what}: from other pages");
                families += 1;
            }
        }
    }
    assert!(families > 0, "no family here has experts");
}

/// A model whose first so many layers that have experts have them on the CPU, and all else on a device.
fn without_experts(
    shape: &Shape<Weight>,
    plan: Plan,
    layers: usize,
    kernels: Kernels,
    stage: impl Fn(&Shape<Weight>, Ends, Plan) -> Box<dyn Stage>,
) -> Box<dyn Executor> {
    let (rest, experts) = apart::parts(shape, layers);
    let experts = CpuExecutor::part(experts, Ends::NONE, plan, kernels, 2).expect("room for a small model");
    Box::new(Apart::new(shape, stage(&rest, Ends::BOTH, plan), Box::new(experts), layers))
}

/// Puts a part of a shape on a device.
type OnDevice<'a> = dyn Fn(&Shape<Weight>, Ends, Plan) -> Box<dyn Stage> + 'a;

/// A GPU that has half of the layers, the first or the last; or all but the experts of one of them, or of all.
#[test]
fn families_match_their_reference_on_a_cpu_and_a_gpu() {
    let (cuda, wgpu) = (gpu(), kauri_device_wgpu::Device::open(true, Reduction::Best));
    let on_cuda = |part: &Shape<Weight>, ends, plan| -> Box<dyn Stage> {
        let device = cuda.as_ref().expect("asked for only where there is one");
        Box::new(
            CudaExecutor::part(device, part, ends, plan, Arithmetic::Exact).unwrap_or_else(|error| panic!("{error}")),
        )
    };
    let on_wgpu = |part: &Shape<Weight>, ends, plan| -> Box<dyn Stage> {
        let device = wgpu.as_ref().expect("asked for only where there is one");
        let arithmetic = kauri_device_wgpu::Arithmetic::Fast;
        Box::new(WgpuExecutor::part(device, part, ends, plan, arithmetic).unwrap_or_else(|error| panic!("{error}")))
    };
    let on_cpu = |part: &Shape<Weight>, ends, plan| -> Box<dyn Stage> {
        let kernels = Kernels::new(Isa::Scalar).expect("a supported instruction set");
        Box::new(CpuExecutor::part(part.clone(), ends, plan, kernels, 2).expect("room for a small model"))
    };
    let mut gpus: Vec<&OnDevice<'_>> = Vec::new();
    cuda.is_some().then(|| gpus.push(&on_cuda));
    wgpu.is_ok().then(|| gpus.push(&on_wgpu));
    if gpus.is_empty() {
        return eprintln!("skipped: there is no GPU here, nor what stands in for one");
    }
    for (family, directory) in directories() {
        let file = &files(&directory)[0];
        for &on_gpu in &gpus {
            let mut behind = open(file, CacheType::F32, |shape, plan| halves(&shape, plan, 1, on_cpu, on_gpu));
            matches_reference(&mut behind, &family, &directory, file);
            let mut before = open(file, CacheType::F32, |shape, plan| halves(&shape, plan, usize::MAX, on_gpu, on_cpu));
            matches_reference(&mut before, &family, &directory, file);
            if !before.has_experts {
                continue;
            }
            let kernels = Kernels::new(Isa::Scalar).expect("a supported instruction set");
            for layers in [1, usize::MAX] {
                let mut shared =
                    open(file, CacheType::F32, |shape, plan| without_experts(&shape, plan, layers, kernels, on_gpu));
                matches_reference(&mut shared, &family, &directory, file);
            }
        }
    }
}

/// A model whose first so many layers, all but one at most, are on one device and the others on another.
fn halves(
    shape: &Shape<Weight>,
    plan: Plan,
    front: usize,
    first: impl Fn(&Shape<Weight>, Ends, Plan) -> Box<dyn Stage>,
    last: impl Fn(&Shape<Weight>, Ends, Plan) -> Box<dyn Stage>,
) -> Box<dyn Executor> {
    let all = shape.blocks.len();
    let front = front.min(all - 1);
    let (before, begins) = split::part(shape, 0..front);
    let (behind, closes) = split::part(shape, front..all);
    let stages = vec![(first(&before, begins, plan), front), (last(&behind, closes, plan), all - front)];
    Box::new(Split::new(shape, stages))
}

#[test]
fn quantised_models_match_the_reference_on_the_same_weights() {
    let Some(shared) = shared("quant_models") else { return };
    let index: Json = read_json(&shared.join("index.json"));
    let tokens = ids(&index["tokens"]);
    let device = gpu();
    for entry in index["models"].as_array().expect("a list") {
        let file = shared.join(entry["file"].as_str().expect("a file"));
        let expected = floats(&shared.join(entry["logits_file"].as_str().expect("a file")));
        let mut model = load(&file, CacheType::F32, Isa::Scalar);
        let mut distance = Distance::default();
        distance.add(&model.logits(&tokens, tokens.len() as u32), &expected);
        println!("{}: {distance}", file.display());
        assert!(distance.max <= 2e-3 && distance.mean() <= 2e-4, "{}: {distance}", file.display());
        let greedy = ids(&entry["greedy"]);
        assert_eq!(model.greedy(&tokens, greedy.len()), greedy, "{}", file.display());
        if let Some(device) = &device {
            let found = load_on(device, &file, CacheType::F16, Arithmetic::Fast).logits(&tokens, tokens.len() as u32);
            same_likeliest(&format!("{} on a GPU", file.display()), &found, &expected, model.vocab, APART);
        }
        for isa in fast() {
            let found = load(&file, CacheType::F16, isa).logits(&tokens, tokens.len() as u32);
            same_likeliest(&format!("{} with {}", file.display(), isa.name()), &found, &expected, model.vocab, APART);
        }
    }
}

/// The instruction sets of this CPU, the scalar one where it has no other.
fn fast() -> impl Iterator<Item = Isa> {
    let best = Isa::best();
    Isa::ALL.into_iter().filter(move |&isa| isa == best || isa != Isa::Scalar && isa.is_supported())
}

impl Model {
    /// The most that logits may be off on average where activations are rounded to bf16.
    fn rounded_mean_max(&self) -> f64 {
        if self.has_experts || self.has_state { BF16_MEAN_OF_DELICATE } else { BF16_MEAN }
    }

    /// The logits of every token, the prompt read in pieces of 64: (tokens, vocab).
    fn logits(&mut self, tokens: &[u32], reach: u32) -> Vec<f32> {
        self.logits_in_pieces(tokens, reach, 64)
    }

    /// The same in pieces of so many.
    fn logits_in_pieces(&mut self, tokens: &[u32], reach: u32, most: usize) -> Vec<f32> {
        let mut all = Vec::new();
        for (number, piece) in tokens.chunks(most).enumerate() {
            self.launch(piece, (number * most) as u32, reach, piece.len());
            let choices = vec![Choice::Logits; piece.len()];
            all.extend_from_slice(self.executor.sample(&choices).expect("a CPU is not lost").logits);
        }
        all
    }

    /// The bits of the logits of every token, the prompt read in pieces of `piece`, each beside pieces of `others`, in `slot`.
    fn pieces(&mut self, tokens: &[u32], piece: usize, others: &[&[u32]], slot: u32) -> Vec<u32> {
        let pages: Vec<u32> = (0..self.executor.plan().pages).collect();
        let (own, rest) = pages.split_at(ROOM / PAGE as usize);
        let reach = tokens.len() as u32;
        let mut bits = Vec::new();
        for (number, piece) in (0..).zip(tokens.chunks(piece)) {
            let start = bits.len() / self.vocab;
            let mut batch = Batch::default();
            let mut places = rest.chunks_exact(2);
            for (other, tokens) in others.iter().enumerate().filter(|(_, tokens)| number < tokens.len()) {
                let other_slot = (slot + 1 + other as u32) % SLOTS;
                let place = places.next().expect("pages for all");
                batch.push(&tokens[number..=number], number as u32, place, other_slot, reach, 0);
            }
            batch.push(piece, start as u32, own, slot, reach, piece.len());
            self.executor.launch(&batch).expect("a CPU is not lost");
            let choices = vec![Choice::Logits; piece.len()];
            let sampled = self.executor.sample(&choices).expect("a CPU is not lost");
            bits.extend(sampled.logits.iter().map(|logit| logit.to_bits()));
        }
        bits
    }

    /// The bits of the logits of every token, the second half read in another slot than the first, to which what the first left was brought by
    /// way of a third and as bytes, while another sequence had its slot.
    fn interrupted(&mut self, tokens: &[u32]) -> Vec<u32> {
        let pages: Vec<u32> = (0..self.executor.plan().pages).collect();
        let (own, rest) = pages.split_at(ROOM / PAGE as usize);
        let mut bits = Vec::new();
        let half = tokens.len() / 2;
        for (slot, part) in [(0, 0..half), (2, half..tokens.len())] {
            for (index, piece) in tokens[part.clone()].chunks(RING_STEP).enumerate() {
                let start = part.start + index * RING_STEP;
                bits.extend(self.step(piece, start, own, slot));
            }
            if slot == 0 {
                let mut kept = vec![0; self.executor.state_bytes()];
                self.executor.copy_state(0, 1).expect("a CPU is not lost");
                for (index, piece) in tokens.chunks(RING_STEP).take(rest.len()).enumerate() {
                    self.step(piece, index * RING_STEP, rest, 0);
                }
                self.executor.read_state(1, &mut kept).expect("a CPU is not lost");
                self.executor.write_state(2, &kept).expect("as many bytes");
            }
        }
        bits
    }

    /// The bits of the logits of every token, the second half read from other pages, to which the first half's were brought.
    fn moved(&mut self, tokens: &[u32]) -> Vec<u32> {
        let pages: Vec<u32> = (0..self.executor.plan().pages).collect();
        let (own, rest) = pages.split_at(ROOM / PAGE as usize);
        let half = tokens.len() / 2;
        let mut bits = self.step(&tokens[..half], 0, own, 0);
        let mut page = vec![0; self.executor.page_bytes()];
        for (&from, &to) in own.iter().zip(rest) {
            self.executor.read_page(from, &mut page).expect("a CPU is not lost");
            self.executor.write_page(to, &page).expect("as many bytes");
        }
        bits.extend(self.step(&tokens[half..], half, &rest[..own.len()], 0));
        bits
    }

    /// The bits of the logits of all `tokens`, in one step.
    fn step(&mut self, tokens: &[u32], start: usize, pages: &[u32], slot: u32) -> Vec<u32> {
        let mut batch = Batch::default();
        batch.push(tokens, start as u32, pages, slot, ROOM as u32, tokens.len());
        self.executor.launch(&batch).expect("a CPU is not lost");
        let choices = vec![Choice::Logits; tokens.len()];
        let sampled = self.executor.sample(&choices).expect("a CPU is not lost");
        sampled.logits.iter().map(|logit| logit.to_bits()).collect()
    }

    /// The likeliest continuation of `count` tokens.
    fn greedy(&mut self, tokens: &[u32], count: usize) -> Vec<u32> {
        let reach = (tokens.len() + count) as u32;
        let mut written = Vec::new();
        for (number, piece) in tokens.chunks(64).enumerate() {
            let last = number == tokens.len().div_ceil(64) - 1;
            self.launch(piece, number as u32 * 64, reach, usize::from(last));
        }
        while written.len() < count {
            let sampled = self.executor.sample(&[Choice::Greedy { mask: None }]).expect("a CPU is not lost");
            let token = sampled.tokens[0].expect("logits are numbers");
            self.launch(&[token], (tokens.len() + written.len()) as u32, reach, 1);
            written.push(token);
        }
        written
    }

    fn launch(&mut self, tokens: &[u32], cached: u32, reach: u32, outputs: usize) {
        let pages: Vec<u32> = (0..self.executor.plan().pages).collect();
        let mut batch = Batch::default();
        batch.push(tokens, cached, &pages, 0, reach, outputs);
        self.executor.launch(&batch).expect("a CPU is not lost");
    }
}

impl Distance {
    fn add(&mut self, found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let difference = (found - expected).abs();
            assert!(!difference.is_nan());
            self.max = self.max.max(difference);
            self.sum += f64::from(difference);
            self.count += 1;
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

impl std::fmt::Display for Distance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "max {:.1e}, mean {:.1e} over {} logits", self.max, self.mean(), self.count)
    }
}

/// The likeliest token agrees wherever the reference sets it apart by more than so much.
fn same_likeliest(what: &str, found: &[f32], expected: &[f32], vocab: usize, apart: f32) {
    let likeliest = |row: &[f32]| (0..vocab).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("a vocabulary");
    for (position, (found, expected)) in found.chunks(vocab).zip(expected.chunks(vocab)).enumerate() {
        let best = likeliest(expected);
        let second = (0..vocab).filter(|&token| token != best).map(|token| expected[token]).fold(f32::MIN, f32::max);
        if expected[best] - second > apart {
            assert_eq!(likeliest(found), best, "{what}: position {position}");
        }
    }
}

fn load(path: &Path, cache: CacheType, isa: Isa) -> Model {
    load_with(path, cache, Kernels::new(isa).expect("a supported instruction set"))
}

fn load_with(path: &Path, cache: CacheType, kernels: Kernels) -> Model {
    open(path, cache, |shape, plan| {
        Box::new(CpuExecutor::new(shape, plan, kernels, 2).expect("room for a small model"))
    })
}

/// The same where layers with a window keep rings, if there are any.
fn load_ringed(path: &Path, cache: CacheType, isa: Isa) -> Option<Model> {
    let checkpoint = Checkpoint::open(path).unwrap_or_else(|error| panic!("{error}"));
    let names = kauri_arch::identify(&checkpoint).unwrap_or_else(|error| panic!("{error}"));
    let window_tokens = names.widest_window().filter(|&window| (window as usize) < ROOM)?;
    let kernels = Kernels::new(isa).expect("a supported instruction set");
    let ring = Some(Ring::new(window_tokens, RING_STEP as u32, PAGE));
    let model = open(path, cache, |shape, plan| {
        let plan = Plan { ring, ..plan };
        Box::new(CpuExecutor::new(shape, plan, kernels, 2).expect("room for a small model"))
    });
    Some(model)
}

fn load_on(device: &Device, path: &Path, cache: CacheType, arithmetic: Arithmetic) -> Model {
    open(path, cache, |shape, plan| {
        Box::new(CudaExecutor::new(device, &shape, plan, arithmetic).unwrap_or_else(|error| panic!("{error}")))
    })
}

/// The GPU of this machine, if it has one.
fn gpu() -> Option<Device> {
    Device::open().map_err(|reason| eprintln!("skipped on a GPU: {reason}")).ok()
}

fn open(path: &Path, cache: CacheType, make: impl FnOnce(Shape<Weight>, Plan) -> Box<dyn Executor>) -> Model {
    let checkpoint = Checkpoint::open(path).unwrap_or_else(|error| panic!("{error}"));
    let names = kauri_arch::identify(&checkpoint).unwrap_or_else(|error| panic!("{error}"));
    let shape = kauri_model::load::weights(&checkpoint, &names).unwrap_or_else(|error| panic!("{error}"));
    let plan = plan(cache);
    let (vocab, has_state) = (shape.vocab as usize, shape.state_values_per_sequence() > 0);
    let has_experts = shape.ffns().any(|ffn| ffn.moe().is_some());
    Model { executor: make(shape, plan), vocab, has_state, has_experts }
}

fn plan(cache: CacheType) -> Plan {
    let (batch_outputs, ring) = (ROOM as u32, None);
    Plan { page_tokens: PAGE, pages: 24, batch_tokens: 100, batch_outputs, slots: SLOTS, cache, ring }
}

/// Every family directory to test: the repository's own and, where they are there, the shared ones.
fn directories() -> Vec<(String, PathBuf)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families");
    let mut found = Vec::new();
    for root in [Some(own), shared("families")].into_iter().flatten() {
        let here = FAMILIES.iter().map(|family| ((*family).to_owned(), root.join(family)));
        found.extend(here.filter(|(_, directory)| directory.is_dir()));
    }
    assert!(!found.is_empty(), "the repository's own goldens are missing");
    found
}

/// The GGUF files of a family directory, and the directory itself for its safetensors.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "gguf")).collect();
    if directory.join("model.safetensors").exists() {
        files.push(directory.to_owned());
    }
    files
}

fn prompts(directory: &Path) -> Vec<Json> {
    read_json(&directory.join("reference.json"))["prompts"].as_array().expect("a list").clone()
}

fn shared(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    eprintln!("skipped: the shared fixtures are not beside the repository ({folder})");
    None
}

fn ids(list: &Json) -> Vec<u32> {
    list.as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn read_json(path: &Path) -> Json {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}
