//! `kauri bench` as scripts see it: the fields of its JSON, the order of the ladder, the plot as a file, and what bad sizes
//! get. No test here says how fast anything must be.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value as Json;

const SMALL: [&str; 4] = ["--prompt-tokens", "8", "--gen-tokens", "4"];

fn bench(arguments: &[&str]) -> Output {
    let kauri = env!("CARGO_BIN_EXE_kauri");
    Command::new(kauri).arg("bench").args(arguments).output().expect("kauri starts")
}

fn json(arguments: &[&str]) -> Json {
    let output = bench(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    assert_eq!(errors, "", "{arguments:?}: quiet when piped");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), 1, "one object on one line");
    serde_json::from_str(&text).expect("JSON")
}

/// The number at a path, which must be finite (JSON has no other) and over zero.
fn positive(object: &Json, name: &str) -> f64 {
    let value = object[name].as_f64();
    value.filter(|&value| value > 0.0).unwrap_or_else(|| panic!("{name} is {} in {object}", object[name]))
}

/// One run with everything on, shared by the tests that look at parts of it.
fn measured() -> &'static Json {
    static MEASURED: OnceLock<Json> = OnceLock::new();
    MEASURED.get_or_init(|| {
        let sizes = ["--batch", "2", "--depth", "12", "--repeat", "2", "--threads", "2"];
        json(&[&SMALL[..], &sizes, &["--context", "64", "--frontiers", "--json"]].concat())
    })
}

#[test]
fn the_json_has_every_field_as_a_positive_number() {
    let object = measured();
    let numbers =
        ["prefill_tokens_per_s", "decode_tokens_per_s", "ttft_ms", "load_ms", "bandwidth_gb_per_s", "peak_ops_per_s"];
    for name in numbers {
        positive(object, name);
    }
    assert_eq!((&object["batch"], &object["depth"]), (&Json::from(2), &Json::from(12)));
    assert_eq!((&object["model"], &object["threads"]), (&Json::from("kauri-nano"), &Json::from(2)));
    // Two repeats: the prompts of both sequences fit one pass; the answer takes a pass for every token.
    for (phase, passes) in [("prefill", 2), ("decode", 8)] {
        let times = &object["forward_ms"][phase];
        assert_eq!(times["all"].as_array().map(Vec::len), Some(passes), "{phase}: {times}");
        assert!(positive(times, "p50") <= positive(times, "p90"));
    }
}

#[test]
fn every_operation_is_counted_in_both_phases() {
    let object = measured();
    let ops = object["ops"].as_array().expect("a list");
    for phase in ["prefill", "decode"] {
        let ops: Vec<&Json> = ops.iter().filter(|op| op["phase"] == phase).collect();
        for name in ["embed", "qkv", "attend", "attention output", "gate+up", "down", "head"] {
            let op = ops.iter().find(|op| op["name"] == name).unwrap_or_else(|| panic!("no {name} in {phase}"));
            for figure in ["calls", "bytes", "seconds", "share_of_time", "share_of_bandwidth", "share_of_limit"] {
                positive(op, figure);
            }
            assert_eq!(op["operations"] == 0, name == "embed", "{op}");
        }
        let whole: f64 = ops.iter().map(|op| positive(op, "share_of_time")).sum();
        assert!((whole - 1.0).abs() < 1e-6, "{phase}: the shares of time sum to {whole}");
        // One pass reads both prompts; an answer takes one for each of its four tokens.
        let passes = if phase == "prefill" { 1.0 } else { 4.0 };
        for figure in ["calls", "bytes"] {
            let sum: f64 = ops.iter().map(|op| positive(op, figure)).sum();
            assert_eq!(positive(&object["per_pass"][phase], figure) * passes, sum, "{phase}: {figure}");
        }
        assert!(ops.iter().any(|op| op["name"] == object["furthest"][phase]));
    }
}

#[test]
fn frontiers_reach_the_end_of_the_window() {
    let object = measured();
    let frontiers = object["frontiers"].as_array().expect("a list");
    let depths: Vec<&Json> = frontiers.iter().map(|frontier| &frontier["depth_tokens"]).collect();
    assert_eq!(depths, [0, 8, 16, 32, 56]);
    for frontier in frontiers {
        positive(frontier, "prefill_tokens_per_s");
        positive(frontier, "decode_tokens_per_s");
    }
}

#[test]
fn the_rungs_are_in_order_and_the_plot_is_xml() {
    let plot = plot_path("ladder");
    let path = plot.to_str().expect("text");
    let object = json(&[&["ladder"], &SMALL[..], &["--threads", "2", "--json", "--plot", path]].concat());
    let rungs = object["rungs"].as_array().expect("a list");
    let names: Vec<&Json> = rungs.iter().map(|rung| &rung["name"]).collect();
    assert_eq!(names, with_simd(&["no KV cache", "KV cache", "SIMD", "threads", "quantised weights"]));
    for rung in rungs {
        positive(rung, "prefill_tokens_per_s");
        positive(rung, "decode_tokens_per_s");
    }
    let svg = fs::read_to_string(plot).expect("a plot");
    assert_well_formed(&svg);
    assert!(svg.contains(">quantised weights</text>"));
}

#[test]
fn a_rung_that_would_change_nothing_is_left_out() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/families/qwen3/model-bf16.gguf");
    let object = json(&[&["ladder", "--model", model], &SMALL[..], &["--threads", "1", "--json"]].concat());
    let rungs = object["rungs"].as_array().expect("a list");
    let names: Vec<&Json> = rungs.iter().map(|rung| &rung["name"]).collect();
    assert_eq!(names, with_simd(&["no KV cache", "KV cache", "SIMD", "16-bit weights"]));
}

/// The rungs of this machine: a CPU without vector kernels has no rung for them.
fn with_simd<'a>(rungs: &[&'a str]) -> Vec<&'a str> {
    rungs.iter().copied().filter(|name| *name != "SIMD" || kauri_engine::has_simd()).collect()
}

#[test]
fn tables_and_plot_of_the_same_run() {
    let plot = plot_path("speed");
    let path = plot.to_str().expect("text");
    let output = bench(&[&SMALL[..], &["--repeat", "1", "--context", "32", "--frontiers", "--plot", path]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && text.starts_with("kauri-nano\n"), "{text}");
    assert!(text.contains("most to gain: ") && text.contains("behind tokens"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours when piped");
    let svg = fs::read_to_string(plot).expect("a plot");
    assert_well_formed(&svg);
    assert!(svg.contains("<polyline"), "frontiers are lines");
}

#[test]
fn bad_sizes_are_one_line_and_exit_code_2() {
    let missing = plot_path("missing").join("plot.svg");
    let cases: [(&[&str], &str); 9] = [
        (&["--prompt-tokens", "0"], "--prompt-tokens 0"),
        (&["--gen-tokens", "0"], "--gen-tokens 0"),
        (&["--batch", "0"], "--batch 0"),
        (&["--repeat", "0"], "--repeat 0"),
        (&["--prompt-tokens", "9000"], "window of 9000 tokens"),
        (&["--depth", "4294967295"], "window of 4294967295 tokens"),
        (&["--prompt-tokens", "80", "--context", "64"], "--context is 64"),
        (&["--plot", missing.to_str().expect("text")], "plot.svg"),
        (&["ladder", "--prompt-tokens", "2048"], "window of 2080 tokens"),
    ];
    for (arguments, expected) in cases {
        let output = bench(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(expected) && errors.lines().count() == 1, "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

fn plot_path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{name}.svg"));
    let _ = fs::remove_file(&path);
    path
}

/// Every element is closed in its turn, every attribute quoted, and no marked character stands free in text.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some((text, after)) = rest.split_once('<') {
        assert_is_text(text);
        let (tag, after) = after.split_once('>').expect("every tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        assert!(!tag.contains('<'), "<{tag}>");
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        assert!(!name.is_empty() && !open.is_empty() || name == "svg", "<{tag}> outside of the picture");
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "left open: {open:?}, left over: {rest:?}");
}

fn assert_is_text(text: &str) {
    assert!(!text.contains('>'), "{text}");
    for (_, after) in text.match_indices('&').map(|(at, _)| text.split_at(at + 1)) {
        let known = ["amp;", "lt;", "gt;", "quot;", "apos;"];
        assert!(known.iter().any(|name| after.starts_with(name)), "{text}");
    }
}

#[test]
fn serving_reports_what_was_written_and_how_long_each_waited() {
    let sizes =
        ["--prompt-tokens", "70", "--gen-tokens", "5", "--requests", "6", "--concurrency", "3", "--threads", "2"];
    let object = json(&[&["serve"], &sizes[..], &["--shared-prefix", "100", "--json"]].concat());
    assert_eq!((&object["requests"], &object["errors"]), (&Json::from(6), &Json::from(0)));
    positive(&object, "output_tokens_per_s");
    for name in ["ttft_ms", "itl_ms"] {
        let times = &object[name];
        assert!(positive(times, "p50") <= positive(times, "p90") && positive(times, "p90") <= positive(times, "p99"));
    }
    // All prompts are one, and all but the first find its two full pages, those that came with it too.
    let share = positive(&object, "cached_token_share");
    assert!((5.0 * 64.0 / (6.0 * 70.0)..1.0).contains(&share), "{share}");
    let object = json(&[&["serve"], &sizes[..], &["--rate", "200", "--json"]].concat());
    assert_eq!((&object["errors"], &object["cached_token_share"]), (&Json::from(0), &Json::from(0.0)));
    for (flag, value) in [("--rate", "0"), ("--concurrency", "0"), ("--gen-tokens", "100000000")] {
        let output = bench(&["serve", flag, value]);
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
    }
}

#[test]
fn a_remembered_conversation_is_known_whole_after_a_restart() {
    let sizes =
        ["--prompt-tokens", "100", "--gen-tokens", "8", "--turn-tokens", "4", "--repeat", "1", "--threads", "2"];
    let object = json(&[&["reuse", "--json"], &sizes[..]].concat());
    for way in ["cold", "warm", "restarted"] {
        positive(&object["ttft_ms"], way);
    }
    let cached = |way: &str| object["cached_token_share"][way].as_f64().map(|share| (share * 112.0).round());
    assert_eq!(cached("cold"), Some(0.0));
    // Of 112 tokens: all but the last of the eight that were written, and three full pages.
    assert_eq!((cached("warm"), cached("restarted")), (Some(107.0), Some(96.0)));
    let output = bench(&["reuse", "--repeat", "0"]);
    assert_eq!(output.status.code(), Some(2));
}
