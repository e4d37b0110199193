//! Models by name, with the real binary and a hub on loopback: list, show, pull, run, cp, rm, fit, doctor.

mod kauri;
#[allow(dead_code, reason = "the tests of pulling use the rest")]
#[path = "../../model/tests/pull/mock.rs"]
mod mock;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use kauri::{Ran, repository};
use mock::Server;
use serde_json::Value as Json;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Runs `kauri` as somebody whose home is `home` and whose hub is `hub`.
fn kauri_at(home: &Path, hub: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kauri"));
    command.args(arguments).env("HOME", home).env("HF_ENDPOINT", hub).env("HF_TOKEN", "secret").env("NO_PROXY", "*");
    for name in ["HF_HOME", "HF_HUB_CACHE", "HF_TOKEN_PATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
    let output = command.stdin(Stdio::null()).output().expect("the binary runs");
    Ran {
        code: output.status.code().expect("no signal"),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

fn json_lines(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A hub that has the default model as `a/nano-GGUF`; `sha256sum` says what its digest is.
fn hub() -> Server {
    let file = repository().join("models/kauri-nano-Q4_K_M.gguf");
    let bytes = fs::read(&file).expect("the default model");
    let output = Command::new("sha256sum").arg(&file).output().expect("sha256sum runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (sha, size) = (text.split(' ').next().expect("a digest"), bytes.len());
    let server = Server::start();
    server.put(
        "/api/models/a/nano-GGUF/revision/main",
        format!(
            r#"{{"sha":"{COMMIT}","siblings":[{{"rfilename":"nano-Q4_K_M.gguf","size":{size},"lfs":{{"sha256":"{sha}","size":{size}}}}}]}}"#
        ),
    );
    server.put(&format!("/a/nano-GGUF/resolve/{COMMIT}/nano-Q4_K_M.gguf"), bytes);
    server
}

#[test]
fn a_model_is_pulled_run_renamed_and_removed() {
    let (home, server) = (tempfile::tempdir().expect("a folder"), hub());
    let kauri = |arguments: &[&str]| kauri_at(home.path(), &server.base, arguments);
    let answer = |name: &str, more: &[&str]| {
        let words = ["run", name, "Hello", "--raw", "--max-tokens", "4", "--temperature", "0"];
        kauri(&[&words[..], more].concat())
    };
    let name = "hf:a/nano-GGUF";
    answer(name, &["--offline"]).refused("offline", "--offline");
    assert!(server.asked().is_empty(), "offline asks nobody");
    answer(name, &[]).refused("nobody to ask", "to pull; say --yes");
    let plan = json_lines(&kauri(&["pull", name, "--dry-run", "--json"]).success());
    assert!(plan[0]["missing_bytes"].as_u64().expect("a size") > 1_000_000, "{plan:?}");
    let first = answer(name, &["--yes"]).success();
    assert_eq!(first, answer("kauri-nano", &[]).success(), "the same model");
    server.state.lock().expect("no panic").always = Some(mock::Trouble::Status(500, None));
    assert_eq!(answer(name, &["--offline"]).success(), first, "what is here needs no hub");

    kauri(&["cp", name, "mine"]).success();
    assert_eq!(answer("mine", &[]).success(), first);
    let listed = json_lines(&kauri(&["list", "--local", "--json"]).success());
    let names: Vec<&str> = listed.iter().filter_map(|line| line["name"].as_str()).collect();
    assert_eq!(names, ["kauri-nano", "hf:a/nano-GGUF:Q4_K_M", "mine"]);
    assert!(listed.iter().all(|line| line["fits"] == true && line["decode_tokens_per_s"].as_f64() > Some(1.0)));
    kauri(&["rm", "mine"]).success();
    let gone = json_lines(&kauri(&["rm", name, "--json"]).success());
    assert!(gone[0]["freed_bytes"].as_u64() > Some(1_000_000), "{gone:?}");
    assert_eq!(gone[0]["files"], serde_json::json!(["nano-Q4_K_M.gguf"]), "{gone:?}");
    kauri(&["rm", name]).refused("again", "not on this disk");
    kauri(&["rm", "kauri-nano"]).refused("inside", "part of this program");
    answer(name, &["--offline"]).refused("gone", "not on this machine");
}

#[test]
fn names_that_lead_elsewhere_are_refused_by_every_command() {
    let (home, server) = (tempfile::tempdir().expect("a folder"), Server::start());
    let names =
        ["hf:../../etc", "hf:a/../b", "ollama:../../x", "hf:a/b:../x", "hf:a/b:weights.pt", "nonesuch:7b", "a\u{7}b"];
    for name in names {
        for command in ["pull", "show", "rm"] {
            kauri_at(home.path(), &server.base, &[command, name]).refused(name, "");
        }
        kauri_at(home.path(), &server.base, &["inspect", "--model", name]).refused(name, "");
    }
    kauri_at(home.path(), &server.base, &["pull", "hf:a/b:weights.pt"]).refused("a pickle", "pickle");
    kauri_at(home.path(), &server.base, &["pull", "qwen3:8bb"]).refused("nearly", "which knows qwen3:8b");
    assert!(server.asked().is_empty(), "nobody is asked for what cannot be a name");
    assert_eq!(fs::read_dir(home.path()).expect("a folder").count(), 0);
}

/// What is not here is said to be so by commands that pull nothing, and foreseen by the catalog.
#[test]
fn a_model_that_is_not_here_is_foreseen_and_said_to_be_absent() {
    let home = tempfile::tempdir().expect("a folder");
    let kauri = |arguments: &[&str]| kauri_at(home.path(), "http://127.0.0.1:9", arguments);
    let json = |arguments: &[&str]| serde_json::from_str::<Json>(&kauri(arguments).success()).expect("JSON");
    let size = |fit: &Json, field: &str| fit[field].as_u64().unwrap_or_else(|| panic!("{field}: {fit}"));
    let fit = json(&["fit", "qwen3:8b:Q6_K", "--json", "--context", "4096", "--cache-type", "f16"]);
    assert_eq!((&fit["approximate"], &fit["quant"]), (&Json::from(true), &Json::from("Q6_K")), "{fit}");
    assert!((6_000_000_000..8_000_000_000).contains(&size(&fit, "weights_bytes")), "{fit}");
    assert_eq!(size(&fit, "cache_bytes"), 4096 * 147_456);
    let window =
        |tokens: u64| fit["windows"].as_array().and_then(|all| all.iter().find(|fit| fit["window_tokens"] == tokens));
    assert_eq!(window(2048).map(|fit| size(fit, "cache_bytes")), Some(2048 * 147_456), "{fit}");
    assert_eq!(fit["quants"].as_array().map(Vec::len), Some(6), "{fit}");
    let said = kauri(&["fit", "qwen3:8b"]).success();
    assert!(said.contains("not on this machine") && said.contains("weights in Q2_K"), "{said}");
    kauri(&["fit", "qwen3:8b", "--context", "999999"]).refused("too long a window", "trained for 1 to 40960");
    for command in ["tokenize", "inspect"] {
        let ran = kauri(&[command, "--model", "qwen3:8b"]);
        assert!(!ran.stderr.contains("--offline"), "{}", ran.stderr);
        ran.refused(command, "kauri pull qwen3:8b");
    }
    kauri(&["fit", "hf:a/b"]).refused("no catalog knows it", "kauri pull hf:a/b");
    kauri(&["pull", "./nothing.gguf"]).refused("no such file", "there is no such file");
    kauri(&["run", "--model", "owner/repo", "hello"]).refused("a repository", "hf:owner/repo would be the hub's");
}

#[test]
fn the_catalog_is_shown_and_added_to() {
    let home = tempfile::tempdir().expect("a folder");
    let kauri = |arguments: &[&str]| kauri_at(home.path(), "http://127.0.0.1:9", arguments);
    let shown: Json = serde_json::from_str(&kauri(&["show", "qwen3:30b-a3b", "--json"]).success()).expect("JSON");
    assert!(shown["active_parameters"].as_f64() < shown["parameters"].as_f64(), "{shown}");
    assert_eq!(shown["path"], Json::Null);
    let found = json_lines(&kauri(&["search", "ranks", "--json"]).success());
    assert!(found.iter().any(|line| line["name"] == "bge-reranker:v2-m3"), "{found:?}");
    let config = home.path().join(".config/kauri");
    fs::create_dir_all(&config).expect("a folder");
    let model = "[[model]]\nname = \"house:7b\"\nfamily = \"llama\"\nparameters_b = 7.2\ncontext_tokens = 32768\nlicence = \"ours\"\n\
                 repository = \"us/house\"\nfile = \"house-{quant}.gguf\"\nquants = { Q4_K_M = 4.4 }\n";
    fs::write(config.join("models.toml"), model).expect("a file");
    assert!(kauri(&["search", "house"]).success().contains("house:7b"));
    fs::write(config.join("models.toml"), "[[model]]\nname = 3\n").expect("a file");
    kauri(&["show", "qwen3:8b"]).refused("a wrong file", "models.toml: line 2");
}

#[test]
fn sums_and_the_machine_are_told() {
    let home = tempfile::tempdir().expect("a folder");
    let kauri = |arguments: &[&str]| kauri_at(home.path(), "http://127.0.0.1:9", arguments);
    let json = |arguments: &[&str]| serde_json::from_str::<Json>(&kauri(arguments).success()).expect("JSON");
    let fit = json(&["fit", "--json", "--device", "cpu", "--context", "1024", "--cache-type", "f16"]);
    let parts = ["weights_bytes", "cache_bytes", "state_bytes", "scratch_bytes", "program_bytes"];
    let sum: u64 = parts.iter().filter_map(|part| fit[part].as_u64()).sum();
    assert_eq!((fit["total_bytes"].as_u64(), fit["fits"].as_bool()), (Some(sum), Some(true)), "{fit}");
    let half = json(&["fit", "--json", "--device", "cpu", "--context", "512", "--cache-type", "f16"]);
    assert_eq!(fit["cache_bytes"].as_u64(), half["cache_bytes"].as_u64().map(|bytes| 2 * bytes));
    assert!(kauri(&["fit"]).success().contains("it fits"));
    // What of a model a GPU would have is told without one.
    let experts = repository().join("tests/golden/families/olmoe/model-f32.gguf");
    let experts = experts.to_str().expect("UTF-8");
    let split = ["fit", experts, "--device", "wgpu", "--cpu-experts", "1"];
    let said = kauri(&split).success();
    assert!(said.contains("all but the experts of the first 1 of ") && said.contains("memory ["), "{said}");
    let (split, whole) =
        (json(&[&split[..], &["--json"]].concat()), json(&["fit", experts, "--device", "wgpu", "--json"]));
    assert_eq!((split["gpu"]["cpu_experts"].as_u64(), whole["gpu"]["cpu_experts"].as_u64()), (Some(1), Some(0)));
    assert!(split["gpu"]["bytes"].as_u64() < whole["gpu"]["bytes"].as_u64(), "{split} {whole}");
    kauri(&["fit", experts, "--cpu-experts", "1", "--gpu-layers", "1"]).refused("both", "cannot be used with");
    kauri(&["run", "--device", "cpu", "--cpu-experts", "1", "Hello"]).refused("no GPU", "--cpu-experts");
    let doctor = json(&["doctor", "--json"]);
    assert!(doctor["bandwidth_bytes_per_s"].as_f64() > Some(1e8) && doctor["cores"].as_u64() > Some(0), "{doctor}");
    let report = kauri(&["doctor", "--report"]).success();
    assert!(!report.contains(&home.path().display().to_string()), "a report says nothing of whose machine it is");
}
