//! `kauri fit`: how a model would lie in this machine's memory, and what would change with another window or quantisation.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use kauri_engine::catalog::Model;
use kauri_engine::{CacheType, Fitted, Memory, Misfit, OnGpu, Options, Placement, fit, is_model, measure};
use serde_json::{Value as Json, json};

use crate::failure::{BadInput, about_model};
use crate::foreseen::{self, Wish};
use crate::library::{self, Library};
use crate::model_options::EngineOptions;
use crate::terminal::{self, ASIDE, HEADING};

/// Shows what a model takes of memory, before a byte of it is loaded: weights, cache, states, scratch; and what would change. Of a model
/// of the catalog that is not on this machine it says so about, before it is pulled.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A name, or a path.
    #[arg(value_name = "MODEL")]
    model: Option<String>,

    #[command(flatten)]
    engine: EngineOptions,

    /// Load it, touch all that it may ever use, and compare. Linux only.
    #[arg(long)]
    measure: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri fit model.gguf
  kauri fit qwen3:8b:Q6_K --context 16384
  kauri fit model.gguf --context 32768 --cache-type q8_0
  kauri fit model.gguf --measure";

/// Windows that are tried, up to the trained one.
const WINDOWS_TOKENS: [u32; 5] = [2048, 8192, 32_768, 131_072, 1_048_576];
/// Quantisations with the bits that a weight of theirs takes, about.
const QUANTS_BITS: [(&str, f64); 5] = [("Q8_0", 8.5), ("Q6_K", 6.6), ("Q4_K_M", 4.9), ("Q3_K_M", 3.95), ("Q2_K", 3.0)];
const WIDTH: usize = 40;

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let name = match arguments.model.as_deref() {
        Some(word) if !is_model(word) => match of_the_web(word, arguments)? {
            Some(path) => Some(path),
            None => return Ok(()),
        },
        word => word.map(str::to_owned),
    };
    let name = name.as_deref();
    let options = arguments.engine.options();
    let fitted = fit(name, &options).map_err(|error| about_model(name, error))?;
    let measured = if arguments.measure { Some(measure(name, &options)?) } else { None };
    let windows =
        WINDOWS_TOKENS.into_iter().filter(|window| *window < fitted.trained_tokens).chain([fitted.trained_tokens]);
    let others: Vec<Fitted> =
        windows.filter_map(|window| fit(name, &Options { context_tokens: Some(window), ..options }).ok()).collect();
    let mut out = anstream::stdout().lock();
    if arguments.json {
        let mut json = to_json(&fitted);
        json["windows"] = Json::Array(others.iter().map(to_json).collect());
        if let Some(measured) = measured {
            json["resident_bytes"] = json!(measured.resident_bytes);
        }
        writeln!(out, "{json}")?;
        return Ok(());
    }
    for line in bars(&fitted) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    for other in &others {
        let total = terminal::bytes(other.sums.total_bytes());
        writeln!(out, "a window of {:>8} tokens   {total:>10}   {}", other.window_tokens, verdict(other.fits()))?;
    }
    for (quant, bits) in QUANTS_BITS {
        let weights = (fitted.parameters as f64 * bits / 8.0) as u64;
        let total = fitted.sums.total_bytes() - fitted.sums.weights_bytes + weights;
        let fits = fitted.weights_bytes_max().is_none_or(|most| weights <= most);
        writeln!(out, "weights in {quant:<8}            ~{:>9}   {}", terminal::bytes(total), verdict(fits))?;
    }
    if let Some(measured) = measured {
        let (foreseen, resident) = (measured.foreseen_bytes as f64, measured.resident_bytes as f64);
        let off = 100.0 * (foreseen - resident) / resident.max(1.0);
        let resident = terminal::bytes(measured.resident_bytes);
        writeln!(
            out,
            "\nresident after use: {resident}; foreseen were {} ({off:+.1}%)",
            terminal::bytes(measured.foreseen_bytes)
        )?;
    }
    Ok(())
}

fn verdict(fits: bool) -> &'static str {
    if fits { "fits" } else { "does not fit" }
}

/// The path of a model that has a name, where it is here; else it is told what the catalog foresees.
fn of_the_web(word: &str, arguments: &Arguments) -> anyhow::Result<Option<String>> {
    let library = Library::open()?;
    if let Some(path) = library.find(word)? {
        return Ok(Some(library::path_text(&path)?));
    }
    let word_of = library.catalog.aliases().get(word).map_or(word, String::as_str);
    let Some((model, quant)) = library.catalog.model(word_of).filter(|_| !arguments.measure) else {
        bail!(library::absent(word));
    };
    foresee(model, quant.as_deref(), arguments)?;
    Ok(None)
}

/// What a model of the catalog would take, about.
fn foresee(model: &Model, quant: Option<&str>, arguments: &Arguments) -> anyhow::Result<()> {
    let options = arguments.engine.options();
    let wish = Wish { window_tokens: options.context_tokens, cache: options.cache };
    let (asked, trained) = (options.context_tokens.unwrap_or(1), model.context_tokens);
    if asked == 0 || asked > trained {
        bail!(BadInput(format!(
            "{}: a window of {asked} tokens: this model was trained for 1 to {trained}",
            model.name
        )));
    }
    let memory = Memory::of_this_machine();
    let memory = memory.as_ref();
    let named = quant.and_then(|quant| foreseen::all(model, wish, memory).find(|(name, _)| *name == quant));
    let chosen = named.or_else(|| foreseen::preferred(model, wish, memory));
    let Some((quant, fitted)) = chosen else { bail!(library::absent(&model.name)) };
    let mut out = anstream::stdout().lock();
    let windows = WINDOWS_TOKENS.into_iter().filter(|window| *window < trained).chain([trained]);
    let window = |window| Wish { window_tokens: Some(window), ..wish };
    let others =
        windows.filter_map(|tokens| foreseen::all(model, window(tokens), memory).find(|(name, _)| *name == quant));
    let others: Vec<Fitted> = others.map(|(_, fitted)| fitted).collect();
    if arguments.json {
        let mut json = to_json(&fitted);
        json["windows"] = Json::Array(others.iter().map(to_json).collect());
        let other = |(quant, fitted): (&str, Fitted)| json!({ "quant": quant, "fits": fitted.fits(), "weights_bytes": fitted.sums.weights_bytes });
        json["quants"] = Json::Array(foreseen::all(model, wish, memory).map(other).collect());
        json["quant"] = json!(quant);
        json["approximate"] = json!(true);
        writeln!(out, "{json}")?;
        return Ok(());
    }
    writeln!(out, "{} is not on this machine; by what the catalog says, in {quant} it takes about:\n", model.name)?;
    for line in bars(&fitted) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    for other in others {
        let total = terminal::bytes(other.sums.total_bytes());
        writeln!(out, "a window of {:>8} tokens  ~{total:>10}   {}", other.window_tokens, verdict(other.fits()))?;
    }
    for (quant, other) in foreseen::all(model, wish, memory) {
        let total = terminal::bytes(other.sums.total_bytes());
        writeln!(out, "weights in {quant:<8}           ~{total:>10}   {}", verdict(other.fits()))?;
    }
    Ok(())
}

/// The sums as a bar, and what each part of it is.
fn bars(fitted: &Fitted) -> Vec<String> {
    let sums = &fitted.sums;
    let parts = [
        ('#', "weights", sums.weights_bytes),
        ('+', "cache", sums.cache_bytes),
        ('~', "states", sums.state_bytes),
        ('-', "scratch", sums.scratch_bytes),
        ('.', "program", sums.program_bytes),
    ];
    let total = sums.total_bytes();
    let free = fitted.memory.as_ref().map_or(total, |memory| memory.free_bytes);
    let all = total.max(free).max(1);
    let mut bar = String::new();
    let mut sum = 0;
    for (letter, _, bytes) in parts {
        sum += bytes;
        let end = (sum as f64 / all as f64 * WIDTH as f64).round() as usize;
        while bar.len() < end.min(WIDTH) {
            bar.push(letter);
        }
    }
    let verdict = if fitted.fits() { "it fits".to_owned() } else { Misfit::of(fitted).advice };
    let limit = fitted.memory.as_ref().and_then(|memory| memory.limited_by.as_deref());
    let limit = limit.map_or(String::new(), |by| format!(" (limit of {by})"));
    let mut lines = Vec::new();
    if let Some(gpu) = &fitted.gpu {
        lines.extend(gpu_bar(gpu));
        if gpu.is_whole() {
            return lines;
        }
    }
    lines.push(format!(
        "{HEADING}memory{HEADING:#} [{bar:<WIDTH$}] {} of {} free{limit}: {verdict}",
        terminal::bytes(total),
        terminal::bytes(free)
    ));
    for (letter, name, bytes) in parts.into_iter().filter(|(.., bytes)| *bytes > 0) {
        let about = match name {
            "cache" => format!("{} tokens in {}", fitted.window_tokens, cache_name(fitted.cache)),
            "weights" => format!("{} parameters", terminal::count(fitted.parameters)),
            _ => String::new(),
        };
        lines.push(format!("  {letter} {name:<8} {:>10}  {ASIDE}{about}{ASIDE:#}", terminal::bytes(bytes)));
    }
    lines
}

/// What goes to a GPU, and why that.
fn gpu_bar(gpu: &OnGpu) -> Vec<String> {
    let OnGpu { bytes, free_bytes, .. } = *gpu;
    let filled =
        free_bytes.map_or(0, |free| (bytes as f64 / free.max(bytes).max(1) as f64 * WIDTH as f64).round() as usize);
    let bar = "#".repeat(filled);
    let rest = if gpu.is_whole() { "" } else { "; the CPU has the rest" };
    let free = free_bytes.map_or("an unknown part".to_owned(), |free| format!("{} free", terminal::bytes(free)));
    let what = placed(gpu, gpu.placement);
    let mut lines =
        vec![format!("{HEADING}GPU   {HEADING:#} [{bar:<WIDTH$}] {} of {free}: {what}{rest}", terminal::bytes(bytes))];
    if let Some((other, [speed, other_speed])) = gpu.other {
        let other = placed(gpu, other);
        lines.push(format!(
            "  {ASIDE}up to {speed:.1} tokens a second so, by what each memory reads; {other_speed:.1} with {other}{ASIDE:#}"
        ));
    }
    lines
}

/// What of a model a placement puts on the GPU.
fn placed(gpu: &OnGpu, placement: Placement) -> String {
    match placement {
        Placement::Last(layers) if layers >= gpu.all_layers => format!("all {} layers", gpu.all_layers),
        Placement::Last(layers) => format!("the last {layers} of {} layers", gpu.all_layers),
        Placement::AllButExperts(layers) => {
            format!("all but the experts of the first {layers} of {} layers that have some", gpu.with_experts)
        }
    }
}

fn cache_name(cache: CacheType) -> &'static str {
    match cache {
        CacheType::F32 => "f32",
        CacheType::F16 => "f16",
        CacheType::Q8_0 => "q8_0",
        CacheType::Q4_0 => "q4_0",
    }
}

fn to_json(fitted: &Fitted) -> Json {
    let sums = &fitted.sums;
    json!({
        "device": if fitted.on_cpu { "cpu" } else { "gpu" },
        "fits": fitted.fits(),
        "window_tokens": fitted.window_tokens,
        "cache_type": cache_name(fitted.cache),
        "weights_bytes": sums.weights_bytes,
        "cache_bytes": sums.cache_bytes,
        "state_bytes": sums.state_bytes,
        "scratch_bytes": sums.scratch_bytes,
        "program_bytes": sums.program_bytes,
        "total_bytes": sums.total_bytes(),
        "free_bytes": fitted.memory.as_ref().map(|memory| memory.free_bytes),
        "gpu": fitted.gpu.map(|gpu| json!({
            "layers": match gpu.placement {
                Placement::Last(layers) => layers,
                Placement::AllButExperts(_) => gpu.all_layers,
            },
            "all_layers": gpu.all_layers,
            "cpu_experts": match gpu.placement {
                Placement::Last(_) => 0,
                Placement::AllButExperts(layers) => layers,
            },
            "layers_with_experts": gpu.with_experts,
            "tokens_per_s_at_most": gpu.other.map(|(_, [speed, _])| speed),
            "tokens_per_s_at_most_otherwise": gpu.other.map(|(_, [_, other])| other),
            "bytes": gpu.bytes,
            "free_bytes": gpu.free_bytes,
        })),
        "limited_by": fitted.memory.as_ref().and_then(|memory| memory.limited_by.clone()),
        "weights_bytes_max": fitted.weights_bytes_max(),
    })
}
