//! `kauri run` with the model inside the binary: answers, continuations, events, pipes.
//!
//! What the model says was taken from its card, and from a reference engine: greedy answers of these weights.

mod kauri;

use std::io::Read;
use std::process::{Command, Stdio};

use kauri::{kauri, output, output_of, repository};
use serde_json::Value as Json;

/// Greedy, and short.
const BRIEF: [&str; 4] = ["--temperature", "0", "--max-tokens", "8"];

#[test]
fn a_prompt_is_answered() {
    let ran = kauri(&[&["run", "What is kauri?"], &BRIEF[..]].concat(), b"");
    assert_eq!(ran.stderr, "");
    assert_eq!(ran.success(), "Kauri is a local inference engine for language\n");
}

#[test]
fn plain_text_is_continued() {
    let text = output(&["run", "--raw", "Once upon a time", "--temperature", "0", "--max-tokens", "10"]);
    assert_eq!(text, ", there was a little girl named Lily. She\n");
}

#[test]
fn standard_input_is_the_prompt() {
    let expected = "Kauri is a local inference engine for language\n";
    assert_eq!(output_of(&[&["run"], &BRIEF[..]].concat(), b"What is kauri?\n"), expected);
    assert_eq!(output_of(&[&["run", "-"], &BRIEF[..]].concat(), b"What is kauri?\r\n"), expected);
    assert_eq!(output_of(&[&["run", "kauri-nano"], &BRIEF[..]].concat(), b"What is kauri?"), expected);
}

#[test]
fn events_are_one_object_a_line() {
    let text = output(&[&["run", "What is kauri?", "--json", "--seed", "7"], &BRIEF[..]].concat());
    let events: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (done, texts) = events.split_last().expect("events");
    let answer: String = texts
        .iter()
        .map(|event| {
            assert_eq!(event["type"], "text");
            event["text"].as_str().expect("a text").to_owned()
        })
        .collect();
    assert_eq!(answer, "Kauri is a local inference engine for language");
    assert!(texts.len() > 1, "the answer came in one piece");
    assert_eq!(done["type"], "done");
    assert_eq!(done["finish"], "length");
    assert_eq!(done["output_tokens"], 8);
    assert_eq!(done["cached_tokens"], 0);
    assert_eq!(done["seed"], 7);
    assert!(done["prompt_tokens"].as_u64().expect("a count") > 5);
    for speed in ["time_to_first_token_ms", "prefill_tokens_per_s", "decode_tokens_per_s"] {
        assert!(done[speed].as_f64().expect("a number") > 0.0, "{speed}");
    }
}

#[test]
fn the_model_ends_its_answer_and_a_stop_string_ends_it_sooner() {
    let whole = output(&["run", "What is kauri?", "--temperature", "0"]);
    assert!(whole.contains("engine") && whole.ends_with(".\n"), "{whole}");
    let cut = output(&["run", "What is kauri?", "--temperature", "0", "--stop", "cal inf", "--stop", "never seen"]);
    assert_eq!(cut, "Kauri is a lo\n");
}

#[test]
fn the_seed_settles_the_answer() {
    let told = |seed: &str| output(&["run", "--raw", "The", "--temperature", "2", "--max-tokens", "8", "--seed", seed]);
    assert_eq!(told("1"), told("1"));
    assert!((2..6).any(|seed| told(&seed.to_string()) != told("1")), "the seed does nothing");
}

#[test]
fn threads_and_cuts_do_not_change_the_answer() {
    let told = |threads: &str| output(&[&["run", "Tell me a story.", "--threads", threads], &BRIEF[..]].concat());
    assert_eq!(told("1"), told("2"));
}

#[test]
fn stats_go_to_standard_error() {
    let ran = kauri(&[&["run", "What is kauri?", "--stats"], &BRIEF[..]].concat(), b"");
    for part in ["first token after", "prefill", "decode", "tok/s", "8 tokens", "ended by --max-tokens"] {
        assert!(ran.stderr.contains(part), "{part} is not in {}", ran.stderr);
    }
    assert!(!ran.stderr.contains('\x1b'), "colours in a pipe");
    assert!(!ran.success().contains("tok/s"));
}

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kauri"))
        .args(["run", "Tell me a story.", "--seed", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut first = [0; 3];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("an answer");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_answer_with_what_is_written() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kauri"))
        // Sampling at this temperature wanders until the window is full.
        .args(["run", "--raw", "Once", "--temperature", "3", "--seed", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut first = [0; 1];
    stdout.read_exact(&mut first).expect("an answer");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).expect("the rest");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert_eq!(rest.last(), Some(&b'\n'));
}

#[test]
fn the_window_is_what_was_asked_for() {
    for window in ["20", "32", "33"] {
        let arguments = ["run", "--raw", "--json", "--temperature", "0", "--context", window, "Once upon a time"];
        let events = output(&arguments);
        let done: Json = serde_json::from_str(events.lines().last().expect("an event")).expect("JSON");
        let tokens =
            done["prompt_tokens"].as_u64().expect("a count") + done["output_tokens"].as_u64().expect("a count");
        assert_eq!((done["finish"].as_str(), tokens.to_string().as_str()), (Some("window"), window));
    }
    kauri(&["run", "--context", "2", "Why is decode slow?"], b"").refused("window", "the window holds 2");
}

/// A model file that another program shortens while it is read ends in one line, whenever that happens.
#[cfg(unix)]
#[test]
fn a_model_that_is_shortened_meanwhile_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    for delay_ms in [3, 30, 150] {
        let path = folder.path().join("nano.gguf");
        std::fs::copy(repository().join("models/kauri-nano-Q4_K_M.gguf"), &path).expect("a copy");
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the copy");
        let shorten = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(delay_ms));
            file.set_len(300_000).expect("shorter");
        });
        let model = path.to_str().expect("UTF-8");
        let ran = kauri(&["run", "--raw", "--model", model, "--isa", "scalar", "--max-tokens", "1500", "Once"], b"");
        shorten.join().expect("shortened");
        assert!(matches!(ran.code, 1 | 2), "after {delay_ms} ms: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "after {delay_ms} ms: {}", ran.stderr);
    }
}

const TOOLS: &str = r#"[{"type": "function", "function": {"name": "get_weather", "description": "Get the current weather for a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city."}}, "required": ["city"]}}}]"#;

#[test]
fn calls_of_tools_are_lines_of_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tools.json");
    std::fs::write(&file, TOOLS).expect("written");
    let file = file.to_str().expect("a name");
    let ask = |more: &[&str]| {
        let question = "What is the weather in London and Tokyo?";
        kauri(&[&["run", question, "--tools", file, "--temperature", "0"], more].concat(), b"")
    };
    let call = |city: &str| format!("{{\"name\":\"get_weather\",\"arguments\":{{\"city\":\"{city}\"}}}}\n");
    assert_eq!(ask(&[]).success(), call("London") + &call("Tokyo"));
    assert_eq!(ask(&["--one-call"]).success(), call("London"));
    let events = ask(&["--json"]).success();
    let events: Vec<Json> = events.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let calls: Vec<&Json> = events.iter().filter(|event| event["type"] == "tool_call").collect();
    assert_eq!(calls.len(), 2, "{events:?}");
    assert_eq!(calls[1]["index"], 1);
    assert_eq!(calls[1]["arguments"]["city"], "Tokyo");
    assert_eq!((&calls[0]["complete"], &events[events.len() - 1]["finish"]), (&Json::from(true), &Json::from("end")));

    std::fs::write(file, "{").expect("written");
    ask(&[]).refused("no JSON", "not JSON");
    std::fs::write(file, "[{\"name\": \"a b\"}]").expect("written");
    ask(&[]).refused("a bad name", "tools[0].function.name");
    kauri(&["run", "?", "--tools", "missing.json"], b"").refused("no file", "missing.json");
    kauri(&["run", "--one-call", "?"], b"").refused("no tools", "--tools");
}
