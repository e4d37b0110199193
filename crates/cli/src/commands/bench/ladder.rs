//! `kauri bench ladder`: the same prompt up the rungs, from the plainest engine that works to this one.
//!
//! Each rung adds one thing to the one before and says what it gained in each phase. The lower rungs run the same kernels
//! and the same forward pass with less; no second engine is kept for them. A rung that gains nothing says so too.

use clap::Args;
use kauri_engine::{Isa, Options, has_simd, inspect};
use serde_json::json;

use super::drive::Driver;
use super::plot::{Axis, Bar, Group, Picture};
use super::statistics::median;
use super::terminal::{self, Status, Table, Tone, figure};
use super::{Output, TOKENS_MAX, check_size, title};
use crate::model_options::ModelOptions;

/// How often a rung is timed; the median counts.
const REPEATS: u32 = 3;
/// Without a cache every token costs a whole prefill: so many of them, evenly spread over the answer, are timed.
const RECOMPUTED_MAX: u32 = 8;

/// Measures what each step from the plainest engine to this one gains.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOptions,

    /// Tokens of the prompt that is read.
    #[arg(long, value_name = "P", default_value_t = 64)]
    prompt_tokens: u32,

    /// Tokens that are written.
    #[arg(long, value_name = "N", default_value_t = 32)]
    gen_tokens: u32,

    #[command(flatten)]
    output: Output,
}

/// One way of running the model. Other devices get a rung when they exist.
struct Rung {
    name: &'static str,
    /// Whether keys and values are kept; else every token computes the whole sequence.
    cached: bool,
    /// The instructions; those asked for, or the best, where unset.
    isa: Option<Isa>,
    /// Whether every core works, or one.
    threaded: bool,
    /// Whether the weights are as they are stored, or all `f32`.
    stored: bool,
}

/// What a rung reached.
struct Reached {
    name: &'static str,
    /// In prefill and in decode.
    tokens_per_s: [f64; 2],
}

/// Measures and reports.
///
/// # Errors
/// As [`super::run`].
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    check_size("--prompt-tokens", arguments.prompt_tokens, TOKENS_MAX)?;
    check_size("--gen-tokens", arguments.gen_tokens, TOKENS_MAX)?;
    let rungs = rungs(arguments)?;
    let status = Status::new();
    let mut reached: Vec<Reached> = Vec::new();
    for (index, rung) in rungs.iter().enumerate() {
        let mut driver = load(arguments, rung)?;
        let adds_threads = rung.threaded && index > 0 && !rungs[index - 1].threaded;
        if adds_threads && driver.engine().threads() == 1 {
            continue;
        }
        if reached.is_empty() {
            arguments.output.check()?;
        }
        reached.push(climb(&mut driver, arguments, rung, &status)?);
    }
    drop(status);
    arguments.output.draw(|| picture(arguments, &reached))?;
    print(arguments, &reached)
}

/// The rungs that exist for this model.
fn rungs(arguments: &Arguments) -> anyhow::Result<Vec<Rung>> {
    let rung = |name, cached, isa, threaded, stored| Rung { name, cached, isa, threaded, stored };
    let mut rungs = vec![
        rung("no KV cache", false, Some(Isa::Scalar), false, false),
        rung("KV cache", true, Some(Isa::Scalar), false, false),
        rung("SIMD", true, None, false, false),
        rung("threads", true, None, true, false),
    ];
    if !has_simd() || arguments.model.options().isa == Some(Isa::Scalar) {
        rungs.retain(|rung| rung.name != "SIMD");
    }
    let tensors = inspect(arguments.model.located()?.as_deref())?.tensors;
    if tensors.iter().any(|tensor| !matches!(tensor.quant, "F32" | "F16" | "BF16")) {
        rungs.push(rung("quantised weights", true, None, true, true));
    } else if tensors.iter().any(|tensor| tensor.quant != "F32") {
        rungs.push(rung("16-bit weights", true, None, true, true));
    }
    Ok(rungs)
}

fn load(arguments: &Arguments, rung: &Rung) -> anyhow::Result<Driver> {
    let needed = arguments.prompt_tokens.saturating_add(arguments.gen_tokens);
    let own = arguments.model.options();
    let options = Options {
        isa: rung.isa.or(own.isa),
        threads: if rung.threaded { own.threads } else { Some(1) },
        context_tokens: own.context_tokens.or(Some(needed)),
        // The whole sequence fits one pass, so that recomputing it uses no cache of an earlier one.
        batch_tokens: needed.max(own.batch_tokens),
        full_precision: !rung.stored,
        ..own
    };
    Driver::load(arguments.model.located()?.as_deref(), &options, &[], needed)
}

fn climb(driver: &mut Driver, arguments: &Arguments, rung: &Rung, status: &Status) -> anyhow::Result<Reached> {
    let (prompt, steps) = (arguments.prompt_tokens, arguments.gen_tokens);
    // Touches every weight once, so that no rung waits for the disk.
    driver.decode(0, 1)?;
    status.say(&format!("{}: prefill", rung.name));
    let read = (0..REPEATS).map(|_| seconds(driver.prefill(0, prompt)));
    let read = read.collect::<anyhow::Result<Vec<f64>>>()?;
    status.say(&format!("{}: decode", rung.name));
    let step_seconds = if rung.cached {
        let written = (0..REPEATS).map(|_| seconds(driver.decode(prompt, steps)));
        median(&written.collect::<anyhow::Result<Vec<f64>>>()?) / f64::from(steps)
    } else {
        let lengths = recomputed(prompt, steps);
        let count = lengths.len() as f64;
        let each = lengths.into_iter().map(|tokens| seconds(driver.prefill(0, tokens)));
        each.sum::<anyhow::Result<f64>>()? / count
    };
    Ok(Reached { name: rung.name, tokens_per_s: [f64::from(prompt) / median(&read), step_seconds.recip()] })
}

/// The lengths of the sequence, its new token included, at which a token is timed without a cache.
fn recomputed(prompt: u32, steps: u32) -> Vec<u32> {
    let count = steps.min(RECOMPUTED_MAX);
    let at = |index| u64::from(steps) * (2 * u64::from(index) + 1) / (2 * u64::from(count));
    (0..count).map(|index| prompt + 1 + at(index) as u32).collect()
}

fn seconds(passes: anyhow::Result<Vec<f64>>) -> anyhow::Result<f64> {
    Ok(passes?.iter().sum())
}

fn print(arguments: &Arguments, reached: &[Reached]) -> anyhow::Result<()> {
    if arguments.output.json {
        let rungs = reached.iter().map(|rung| {
            json!({
                "name": rung.name,
                "prefill_tokens_per_s": rung.tokens_per_s[0],
                "decode_tokens_per_s": rung.tokens_per_s[1],
            })
        });
        let object = json!({
            "model": title(&arguments.model),
            "prompt_tokens": arguments.prompt_tokens,
            "gen_tokens": arguments.gen_tokens,
            "rungs": rungs.collect::<Vec<_>>(),
        });
        return Ok(terminal::print(&format!("{object}\n"))?);
    }
    let mut table = Table::default();
    table.row(Tone::Heading, ["rung", "prefill tok/s", "gain", "decode tok/s", "gain"]);
    for (index, rung) in reached.iter().enumerate() {
        let mut cells = vec![rung.name.to_owned()];
        for (speed, gain) in rung.tokens_per_s.into_iter().zip(gains(reached, index)) {
            cells.extend([figure(speed), gain]);
        }
        table.row(Tone::Plain, cells);
    }
    let coloured = terminal::is_coloured();
    let heading = format!(
        "{}: a prompt of {} tokens and an answer of {}\n\n",
        title(&arguments.model),
        arguments.prompt_tokens,
        arguments.gen_tokens
    );
    Ok(terminal::print(&(heading + &table.lines(coloured)))?)
}

/// How many times as fast a rung is as the one before, in prefill and in decode; nothing for the first.
fn gains(reached: &[Reached], index: usize) -> [String; 2] {
    let Some(before) = index.checked_sub(1).map(|before| &reached[before]) else {
        return [String::new(), String::new()];
    };
    [0, 1].map(|phase| format!("{} x", figure(reached[index].tokens_per_s[phase] / before.tokens_per_s[phase])))
}

fn picture(arguments: &Arguments, reached: &[Reached]) -> Picture {
    let subtitle = format!(
        "{}: a prompt of {} tokens and an answer of {}; each gain is over the rung above",
        title(&arguments.model),
        arguments.prompt_tokens,
        arguments.gen_tokens
    );
    let mut picture = Picture::new("Up the ladder", &subtitle);
    let groups: Vec<Group> = reached
        .iter()
        .enumerate()
        .map(|(index, rung)| {
            let gains = gains(reached, index);
            let bar = |phase: usize| {
                let (value, gain) = (rung.tokens_per_s[phase], &gains[phase]);
                let gain = if gain.is_empty() { String::new() } else { format!(" ({gain})") };
                Bar { value, text: figure(value) + &gain }
            };
            Group { label: rung.name.to_owned(), bars: [bar(0), bar(1)] }
        })
        .collect();
    picture.bars("Tokens per second, logarithmic", ["prefill", "decode"], &groups, Axis::Logarithmic);
    picture
}

#[cfg(test)]
mod tests {
    use super::{Reached, gains, recomputed};

    #[test]
    fn a_gain_is_over_the_rung_before() {
        let reached = [[10.0, 2.0], [20.0, 1.0]].map(|tokens_per_s| Reached { name: "", tokens_per_s });
        assert_eq!(gains(&reached, 0), ["", ""]);
        assert_eq!(gains(&reached, 1), ["2.00 x", "0.500 x"]);
    }

    #[test]
    fn tokens_without_a_cache_are_timed_evenly_over_the_answer() {
        assert_eq!(recomputed(64, 1), [65]);
        assert_eq!(recomputed(8, 4), [9, 10, 11, 12]);
        assert_eq!(recomputed(64, 32), [67, 71, 75, 79, 83, 87, 91, 95]);
        assert!(recomputed(1, 1000).iter().all(|&length| length <= 1001));
    }
}
