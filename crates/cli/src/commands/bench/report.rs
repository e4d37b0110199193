//! The figures of the plain bench as JSON, as tables and as a picture.

use std::fmt::Write;

use anyhow::Result;
use kauri_engine::CacheType;
use serde_json::{Value as Json, json};

use super::costs::{self, OpShare};
use super::plot::{Axis, Bar, Group, Line, Picture};
use super::speed::{Phase, Speed, SpeedArguments};
use super::statistics::{median, quantile};
use super::terminal::{self, Table, Tone, figure, percent};
use super::title;

const OP_COLUMNS: [&str; 9] =
    ["calls", "ms", "of time", "GB/s", "Gop/s", "of bandwidth", "of arithmetic", "of limit", "limit"];

/// Prints the figures as the arguments ask.
///
/// # Errors
/// When standard output is closed.
pub fn print(speed: &Speed, arguments: &SpeedArguments) -> Result<()> {
    let text = if arguments.output.json {
        format!("{}\n", json(speed, arguments))
    } else {
        tables(speed, arguments, terminal::is_coloured())
    };
    Ok(terminal::print(&text)?)
}

fn json(speed: &Speed, arguments: &SpeedArguments) -> Json {
    let ops_of = |phase: &'static str, measured: &Phase| {
        let shares = costs::shares(&measured.costs, &speed.ceilings);
        shares.into_iter().map(move |op| op_json(phase, &op)).collect::<Vec<_>>()
    };
    let ops = [ops_of("prefill", &speed.prefill), ops_of("decode", &speed.decode)].concat();
    let frontiers = speed.frontiers.iter().map(|frontier| {
        json!({
            "depth_tokens": frontier.depth_tokens,
            "prefill_tokens_per_s": frontier.prefill_tokens_per_s,
            "decode_tokens_per_s": frontier.decode_tokens_per_s,
        })
    });
    json!({
        "model": speed.model,
        "device": speed.device,
        "threads": speed.threads,
        "cache_type": cache_name(speed.cache),
        "prompt_tokens": arguments.prompt_tokens,
        "gen_tokens": arguments.gen_tokens,
        "batch": arguments.batch,
        "depth": arguments.depth,
        "repeat": arguments.repeat,
        "load_ms": 1e3 * speed.load_seconds,
        "ttft_ms": 1e3 * speed.first_token_seconds,
        "prefill_tokens_per_s": speed.prefill.tokens_per_s,
        "decode_tokens_per_s": speed.decode.tokens_per_s,
        "forward_ms": { "prefill": passes_json(&speed.prefill), "decode": passes_json(&speed.decode) },
        "per_pass": { "prefill": counts_json(&speed.prefill), "decode": counts_json(&speed.decode) },
        "bandwidth_gb_per_s": speed.ceilings.bandwidth_bytes_per_s / 1e9,
        "peak_ops_per_s": speed.ceilings.operations_per_s,
        "arithmetic": speed.ceilings.arithmetic,
        "ops": ops,
        "furthest": { "prefill": furthest_name(speed, &speed.prefill), "decode": furthest_name(speed, &speed.decode) },
        "frontiers": frontiers.collect::<Vec<_>>(),
    })
}

fn op_json(phase: &str, op: &OpShare) -> Json {
    json!({
        "phase": phase,
        "name": op.cost.name,
        "calls": op.cost.calls,
        "bytes": op.cost.bytes,
        "operations": op.cost.operations,
        "seconds": op.cost.seconds,
        "share_of_time": op.of_time,
        "share_of_bandwidth": op.of_bandwidth,
        "share_of_arithmetic": op.of_arithmetic,
        "share_of_limit": op.of_limit(),
        "limit": op.of_limit().is_finite().then(|| op.limit.name()),
    })
}

fn passes_json(phase: &Phase) -> Json {
    let milliseconds = |seconds: f64| 1e3 * seconds;
    json!({
        "p50": milliseconds(median(&phase.pass_seconds)),
        "p90": milliseconds(quantile(&phase.pass_seconds, 0.9)),
        "all": phase.pass_seconds.iter().copied().map(milliseconds).collect::<Vec<_>>(),
    })
}

fn counts_json(phase: &Phase) -> Json {
    let [calls, bytes] = phase.a_pass();
    json!({ "calls": calls, "bytes": bytes })
}

fn furthest_name(speed: &Speed, phase: &Phase) -> Option<&'static str> {
    costs::furthest(&costs::shares(&phase.costs, &speed.ceilings)).map(|op| op.cost.name)
}

fn tables(speed: &Speed, arguments: &SpeedArguments, coloured: bool) -> String {
    let ceilings = &speed.ceilings;
    let limits = if ceilings.bandwidth_bytes_per_s > 0.0 {
        let [bytes, operations] =
            [ceilings.bandwidth_bytes_per_s, ceilings.operations_per_s].map(|rate| figure(rate / 1e9));
        format!("this machine, just measured: {bytes} GB/s, {operations} Gop/s ({})", ceilings.arithmetic)
    } else {
        "what this device allows at most was not measured".to_owned()
    };
    let mut text = format!(
        "{}\n{}, {} cache, loaded in {} ms\n{limits}\n\n",
        Tone::Heading.paint(&title(&arguments.model), coloured),
        speed.device,
        cache_name(speed.cache),
        figure(1e3 * speed.load_seconds),
    );
    text.push_str(&phases(speed, arguments).lines(coloured));
    for (name, phase) in [("prefill", &speed.prefill), ("decode", &speed.decode)] {
        text.push('\n');
        text.push_str(&ops(name, speed, phase, coloured));
    }
    if !speed.frontiers.is_empty() {
        let mut table = Table::default();
        table.row(Tone::Heading, ["behind tokens", "prefill tok/s", "decode tok/s"]);
        for frontier in &speed.frontiers {
            let speeds = [frontier.prefill_tokens_per_s, frontier.decode_tokens_per_s].map(figure);
            table.row(Tone::Plain, [vec![frontier.depth_tokens.to_string()], speeds.to_vec()].concat());
        }
        text.push('\n');
        text.push_str(&table.lines(coloured));
    }
    text
}

/// The two phases, a row each.
fn phases(speed: &Speed, arguments: &SpeedArguments) -> Table {
    let of = match arguments.batch {
        1 => String::new(),
        batch => format!(" x {batch} sequences"),
    };
    let behind = match arguments.depth {
        0 => String::new(),
        depth => format!(" behind {depth}"),
    };
    let mut table = Table::default();
    let columns = ["phase", "tok/s", "pass p50 ms", "pass p90 ms", "first token ms"];
    table.row(Tone::Heading, columns);
    let rows = [
        (format!("prefill {}{of}", arguments.prompt_tokens), &speed.prefill, Some(speed.first_token_seconds)),
        (format!("decode {}{behind}{of}", arguments.gen_tokens), &speed.decode, None),
    ];
    for (name, phase, first) in rows {
        let cells = [
            name,
            figure(phase.tokens_per_s),
            figure(1e3 * median(&phase.pass_seconds)),
            figure(1e3 * quantile(&phase.pass_seconds, 0.9)),
            first.map_or_else(String::new, |seconds| figure(1e3 * seconds)),
        ];
        table.row(Tone::Plain, cells);
    }
    table
}

/// Every kind of operation of a phase, a row each, and which of them has the most to gain.
fn ops(name: &str, speed: &Speed, phase: &Phase, coloured: bool) -> String {
    let shares = costs::shares(&phase.costs, &speed.ceilings);
    let furthest = costs::furthest(&shares);
    let mut table = Table::default();
    table.row(Tone::Heading, [&[name], &OP_COLUMNS[..]].concat());
    for op in &shares {
        let is_furthest = furthest.is_some_and(|furthest| furthest.cost.name == op.cost.name);
        let cells = [
            op.cost.name.to_owned(),
            op.cost.calls.to_string(),
            figure(1e3 * op.cost.seconds),
            percent(op.of_time),
            figure(op.bytes_per_s() / 1e9),
            figure(op.operations_per_s() / 1e9),
            percent(op.of_bandwidth),
            percent(op.of_arithmetic),
            percent(op.of_limit()),
            if op.of_limit().is_finite() { op.limit.name() } else { "-" }.to_owned(),
        ];
        table.row(if is_furthest { Tone::Marked } else { Tone::Plain }, cells);
    }
    let mut text = table.lines(coloured);
    let [calls, bytes] = phase.a_pass();
    let _ = writeln!(text, "a pass: {} calls, {} MB", figure(calls), figure(bytes / 1e6));
    if let Some(op) = furthest {
        let _ = writeln!(
            text,
            "most to gain: {}, {} of the time at {} of its limit ({})",
            op.cost.name,
            percent(op.of_time),
            percent(op.of_limit()),
            op.limit.name()
        );
    }
    text
}

/// The shares of every operation, and the frontiers where they were measured.
pub fn picture(speed: &Speed, arguments: &SpeedArguments) -> Picture {
    let subtitle = format!(
        "{}: prefill {} tok/s, decode {} tok/s",
        speed.device,
        figure(speed.prefill.tokens_per_s),
        figure(speed.decode.tokens_per_s)
    );
    let mut picture = Picture::new(&title(&arguments.model), &subtitle);
    for (name, phase) in [("Prefill", &speed.prefill), ("Decode", &speed.decode)] {
        let shares = costs::shares(&phase.costs, &speed.ceilings);
        let groups: Vec<Group> = shares
            .iter()
            .map(|op| Group {
                label: op.cost.name.to_owned(),
                bars: [op.of_time, op.of_limit()].map(|share| {
                    let value = if share.is_finite() { share } else { 0.0 };
                    Bar { value, text: percent(share) }
                }),
            })
            .collect();
        picture.bars(name, ["share of time", "share of this machine's limit"], &groups, Axis::Share);
    }
    if !speed.frontiers.is_empty() {
        let line = |name, of: fn(&super::speed::Frontier) -> f64| Line {
            name,
            points: speed.frontiers.iter().map(|frontier| (f64::from(frontier.depth_tokens), of(frontier))).collect(),
        };
        let lines = [
            line("prefill", |frontier| frontier.prefill_tokens_per_s),
            line("decode", |frontier| frontier.decode_tokens_per_s),
        ];
        picture.lines("Tokens per second behind a context of so many tokens", &lines);
    }
    picture
}

fn cache_name(cache: CacheType) -> &'static str {
    match cache {
        CacheType::F32 => "f32",
        CacheType::F16 => "f16",
        CacheType::Q8_0 => "q8_0",
        CacheType::Q4_0 => "q4_0",
    }
}
