//! The plain bench: prefill and decode of one model, timed, then measured operation by operation.

use clap::Args;
use kauri_engine::{CacheType, Ceilings, DEFAULT_NAME, OpCost, Options};

use super::drive::Driver;
use super::statistics::median;
use super::terminal::Status;
use super::{Output, Paging, TOKENS_MAX, check_size, report};
use crate::failure::BadInput;
use crate::lora_options::LoraOptions;
use crate::model_options::ModelOptions;

/// Sequences that a bench keeps at once: each has a window of cache.
const BATCH_MAX: u32 = 256;
/// More repeats tell nothing that these do not.
const REPEAT_MAX: u32 = 1000;

/// What is measured.
#[derive(Args, Debug)]
pub struct SpeedArguments {
    #[command(flatten)]
    pub model: ModelOptions,

    #[command(flatten)]
    pub lora: LoraOptions,

    /// Tokens of the prompt that is read.
    #[arg(long, value_name = "P", default_value_t = 512)]
    pub prompt_tokens: u32,

    /// Tokens that are written.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub gen_tokens: u32,

    /// Sequences that are read and written at once.
    #[arg(long, value_name = "B", default_value_t = 1)]
    pub batch: u32,

    /// Tokens that are in the cache before writing begins.
    #[arg(long, value_name = "D", default_value_t = 0)]
    pub depth: u32,

    /// How often each is timed; the median counts.
    #[arg(long, value_name = "R", default_value_t = 3)]
    pub repeat: u32,

    /// Also measures both behind ever longer contexts, up to the window; takes a while.
    #[arg(long)]
    pub frontiers: bool,

    #[command(flatten)]
    pub(super) paging: Paging,

    #[command(flatten)]
    pub(super) output: Output,
}

/// What was measured.
pub struct Speed {
    /// The model as it was asked for.
    pub model: String,
    /// The device in words.
    pub device: String,
    /// CPU threads.
    pub threads: usize,
    /// How keys and values were kept.
    pub cache: CacheType,
    /// What loading took.
    pub load_seconds: f64,
    /// Reading the prompt.
    pub prefill: Phase,
    /// Writing.
    pub decode: Phase,
    /// Median seconds from the start of reading until every sequence has its first token.
    pub first_token_seconds: f64,
    /// What the machine allows, measured after the runs.
    pub ceilings: Ceilings,
    /// Speed behind longer contexts, the shortest first; empty where not asked for.
    pub frontiers: Vec<Frontier>,
}

/// One of the two phases.
pub struct Phase {
    /// Tokens of all sequences per second; median over the repeats.
    pub tokens_per_s: f64,
    /// Seconds of every forward pass of every repeat.
    pub pass_seconds: Vec<f64>,
    /// What each kind of operation cost, in one more run.
    pub costs: Vec<OpCost>,
    /// Forward passes of a run.
    pub passes: usize,
}

impl Phase {
    /// Operations that a forward pass starts, which are kernels on a GPU, and bytes that they must move.
    pub fn a_pass(&self) -> [f64; 2] {
        let sum = |of: fn(&OpCost) -> u64| self.costs.iter().map(of).sum::<u64>() as f64;
        [sum(|cost| cost.calls), sum(|cost| cost.bytes)].map(|sum| sum / self.passes.max(1) as f64)
    }
}

/// Speed behind a context.
pub struct Frontier {
    /// Tokens in the cache before.
    pub depth_tokens: u32,
    /// Tokens of all sequences per second.
    pub prefill_tokens_per_s: f64,
    /// Tokens of all sequences per second.
    pub decode_tokens_per_s: f64,
}

/// Measures and reports.
///
/// # Errors
/// As [`super::run`].
pub fn run(arguments: &SpeedArguments) -> anyhow::Result<()> {
    let needed = arguments.needed_tokens()?;
    let (path, adapters) = (arguments.model.located()?, arguments.lora.applied());
    let mut driver = Driver::load(path.as_deref(), &arguments.options(needed), &adapters, needed)?;
    arguments.output.check()?;
    let speed = measure(&mut driver, arguments)?;
    arguments.output.draw(|| report::picture(&speed, arguments))?;
    report::print(&speed, arguments)
}

impl SpeedArguments {
    /// The longest that a sequence becomes.
    fn needed_tokens(&self) -> Result<u32, BadInput> {
        check_size("--prompt-tokens", self.prompt_tokens, TOKENS_MAX)?;
        check_size("--gen-tokens", self.gen_tokens, TOKENS_MAX)?;
        check_size("--batch", self.batch, BATCH_MAX)?;
        check_size("--repeat", self.repeat, REPEAT_MAX)?;
        Ok(self.prompt_tokens.max(self.depth.saturating_add(self.gen_tokens)))
    }

    /// So many tokens of every sequence.
    fn of_all(&self, tokens: u32) -> f64 {
        f64::from(tokens) * f64::from(self.batch)
    }

    fn options(&self, needed_tokens: u32) -> Options {
        let mut options = self.model.options();
        options.page_tokens = self.paging.page_tokens;
        options.sequences = self.batch;
        options.batch_outputs = self.batch;
        options.batch_tokens = options.batch_tokens.max(self.batch);
        // Frontiers go as far as the model does; without them, no more cache is taken than is used.
        if !self.frontiers {
            options.context_tokens = options.context_tokens.or(Some(needed_tokens));
        }
        options
    }
}

fn measure(driver: &mut Driver, arguments: &SpeedArguments) -> anyhow::Result<Speed> {
    let status = Status::new();
    let (prompt, steps, depth) = (arguments.prompt_tokens, arguments.gen_tokens, arguments.depth);
    let (prompt_tokens, gen_tokens) = (arguments.of_all(prompt), arguments.of_all(steps));

    // Touches every weight and all that a prompt is read into once: the first repeat waits neither for the disk nor for memory that the
    // system has yet to clear, as others' benches do not.
    status.say("warming up");
    driver.prefill(0, prompt)?;
    driver.decode(0, 1)?;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for repeat in 0..arguments.repeat {
        status.say(&format!("prefill {} of {}", repeat + 1, arguments.repeat));
        read.push(driver.prefill(0, prompt)?);
        if repeat == 0 && depth > prompt {
            status.say(&format!("filling the cache to {depth} tokens"));
            driver.prefill(prompt, depth - prompt)?;
        }
        status.say(&format!("decode {} of {}", repeat + 1, arguments.repeat));
        written.push(driver.decode(depth, steps)?);
    }
    status.say("measuring every operation");
    let read_costs = driver.measured(|driver| driver.prefill(0, prompt))?;
    let written_costs = driver.measured(|driver| driver.decode(depth, steps))?;
    status.say("measuring the machine");
    let ceilings = driver.engine().executor().ceilings();
    let frontiers = if arguments.frontiers { frontiers(driver, arguments, &status)? } else { Vec::new() };
    let engine = driver.engine();
    let read_seconds = totals(&read);
    Ok(Speed {
        model: arguments.model.model.clone().unwrap_or_else(|| DEFAULT_NAME.to_owned()),
        device: engine.executor().name(),
        threads: engine.threads(),
        cache: engine.cache(),
        load_seconds: engine.load_time().as_secs_f64(),
        first_token_seconds: median(&read_seconds),
        prefill: Phase {
            tokens_per_s: prompt_tokens / median(&read_seconds),
            passes: read[0].len(),
            pass_seconds: read.concat(),
            costs: read_costs,
        },
        decode: Phase {
            tokens_per_s: gen_tokens / median(&totals(&written)),
            passes: written[0].len(),
            pass_seconds: written.concat(),
            costs: written_costs,
        },
        ceilings,
        frontiers,
    })
}

/// Reads and writes behind each depth in turn, filling the cache between them.
fn frontiers(driver: &mut Driver, arguments: &SpeedArguments, status: &Status) -> anyhow::Result<Vec<Frontier>> {
    let (prompt, steps) = (arguments.prompt_tokens, arguments.gen_tokens);
    let deepest = driver.engine().window_tokens() - prompt.max(steps);
    let mut frontiers = Vec::new();
    let mut filled = 0;
    for depth in depths(prompt, deepest) {
        status.say(&format!("behind {depth} of {deepest} tokens"));
        if depth > filled {
            driver.prefill(filled, depth - filled)?;
        }
        let read: f64 = driver.prefill(depth, prompt)?.iter().sum();
        let written: f64 = driver.decode(depth, steps)?.iter().sum();
        filled = depth + prompt;
        frontiers.push(Frontier {
            depth_tokens: depth,
            prefill_tokens_per_s: arguments.of_all(prompt) / read,
            decode_tokens_per_s: arguments.of_all(steps) / written,
        });
    }
    Ok(frontiers)
}

/// 0, then `first` doubled again and again, then `deepest`.
fn depths(first: u32, deepest: u32) -> Vec<u32> {
    let doubled = std::iter::successors(Some(first), |depth| depth.checked_mul(2));
    let mut depths = vec![0];
    depths.extend(doubled.take_while(|&depth| depth < deepest));
    if deepest > 0 {
        depths.push(deepest);
    }
    depths
}

fn totals(runs: &[Vec<f64>]) -> Vec<f64> {
    runs.iter().map(|passes| passes.iter().sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::depths;

    #[test]
    fn depths_double_and_end_at_the_window() {
        assert_eq!(depths(512, 1536), [0, 512, 1024, 1536]);
        assert_eq!(depths(512, 7680), [0, 512, 1024, 2048, 4096, 7680]);
        assert_eq!(depths(512, 512), [0, 512]);
        assert_eq!(depths(8, 5), [0, 5]);
        assert_eq!(depths(8, 0), [0]);
    }
}
