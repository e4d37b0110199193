//! The instruments with fixed faces: what other programs read of them, and that they agree with each other and with the
//! reference implementation.

mod kauri;

use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use kauri::{floats, kauri, output, output_of, read_json, repository, shared};
use serde_json::{Value as Json, json};

const VOCAB: usize = 8192;

#[test]
fn text_becomes_ids_and_ids_text() {
    let text = "Once upon a time";
    let ids = output_of(&["tokenize"], text.as_bytes());
    // The reference vectors of the default model begin with these.
    assert_eq!(ids, "915 755 258 515\n");
    assert_eq!(output_of(&["tokenize", "--decode"], ids.as_bytes()), text);
    assert_eq!(output_of(&["tokenize", "--decode"], b"[915, 755,258,515]"), text);
    assert_eq!(output_of(&["tokenize"], b""), "\n");
}

#[test]
fn lines_of_json_become_lines_of_json() {
    let texts = ["", "two\nlines", "kauri \u{1f333} \u{4f60}\u{597d}", " spaces  and\ttabs "];
    let lines: Vec<String> = texts.iter().map(|text| json!(text).to_string()).collect();
    let lines = lines.join("\n");
    let ids = output_of(&["tokenize", "--json"], lines.as_bytes());
    assert_eq!(ids.lines().count(), texts.len());
    let back = output_of(&["tokenize", "--json", "--decode"], ids.as_bytes());
    let back: Vec<String> = back.lines().map(|line| serde_json::from_str(line).expect("a string")).collect();
    assert_eq!(back, texts);
}

#[test]
fn a_vocabulary_alone_is_enough() {
    let golden = repository().join("tests/golden/tokenizers");
    let packed = fs::read(golden.join("llama-spm.gguf.gz")).expect("a golden");
    let mut bytes = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("packed well");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("llama-spm.gguf");
    fs::write(&file, bytes).expect("a file");

    let (texts, cases) = (read_json(&golden.join("texts.json")), read_json(&golden.join("llama-spm.json")));
    let cases = cases["cases"].as_array().expect("cases");
    let text_of = |case: &Json| texts[case["text_index"].as_u64().expect("an index") as usize]["text"].to_string();
    let lines: Vec<String> = cases.iter().map(text_of).collect();
    let arguments = ["tokenize", "--json", "--model", file.to_str().expect("UTF-8")];
    let found = output_of(&arguments, lines.join("\n").as_bytes());
    assert_eq!(found.lines().count(), cases.len());
    for (found, case) in found.lines().zip(cases) {
        assert_eq!(serde_json::from_str::<Json>(found).expect("JSON"), case["ids"], "{}", text_of(case));
    }
}

#[test]
fn special_tokens_come_only_where_they_are_asked_for() {
    let text = b"<|im_start|>user";
    let plain = output_of(&["tokenize"], text);
    let special = output_of(&["tokenize", "--special"], text);
    assert_eq!(special, "8181 341\n");
    assert!(plain.split(' ').count() > 2 && !plain.contains("8181"), "{plain}");
    assert_eq!(output_of(&["tokenize", "--decode"], plain.as_bytes()).as_bytes(), text);
    assert_eq!(output_of(&["tokenize", "--decode"], special.as_bytes()), "user");
    assert_eq!(output_of(&["tokenize", "--decode", "--special"], special.as_bytes()).as_bytes(), text);
}

#[test]
fn inspection_has_the_fixed_fields() {
    let text = output(&["inspect", "--json"]);
    assert_eq!(text.lines().count(), 1);
    let found: Json = serde_json::from_str(&text).expect("JSON");
    assert_eq!(found["architecture"], "qwen3");
    assert_eq!(found["shape"]["layers"], 8);
    assert_eq!(found["shape"]["hidden"], 512);
    assert_eq!(found["shape"]["vocab"], VOCAB);
    assert_eq!(found["shape"]["context_tokens"], 2048);
    assert_eq!(found["shape"]["blocks"][0]["count"], 8);
    // Counted by hand from the card: embedding, norms, and eight blocks.
    let block = 512 * (512 + 128 + 128 + 512) + 3 * 512 * 1280 + 2 * 512 + 2 * 64;
    assert_eq!(found["parameters"], VOCAB * 512 + 512 + 8 * block);
    assert_eq!(found["active_parameters"], found["parameters"]);
    // Keys and values of two heads of 64 in eight layers, two bytes each.
    assert_eq!(found["kv_bytes_per_token"], 2 * 2 * 64 * 8 * 2);
    assert_eq!(found["state_bytes_per_sequence"], 0);
    assert!(found["bytes_per_token"].as_u64().expect("a count") > 10_000_000);
    let tensors = found["tensors"].as_array().expect("a list");
    // Embedding, last norm, and eleven tensors a block.
    assert_eq!(tensors.len(), 2 + 8 * 11);
    let bytes: u64 = tensors.iter().map(|tensor| tensor["bytes"].as_u64().expect("a count")).sum();
    assert_eq!(found["bytes"], bytes);
}

#[test]
fn inspection_reads_well() {
    let text = output(&["inspect"]);
    for part in ["qwen3", "8 layers", "25.2 M", "2048 tokens", "8 query heads", "Q4_K", "bpe, 8192 tokens"] {
        let part = part.replace("8 query heads", "8 heads");
        assert!(text.contains(&part), "{part} is not in {text}");
    }
    assert!(!text.contains('\x1b'), "colours in a pipe");
    assert!(output(&["inspect", "kauri-nano", "--tensors"]).contains("blk.7.ffn_up.weight"));
    assert!(output(&["inspect", "--template"]).starts_with("{%- if tools %}"));
}

#[test]
fn logits_are_those_of_the_reference() {
    let own = repository().join("tests/golden/families/qwen3");
    let prompt = read_json(&own.join("reference.json"))["prompts"][1].clone();
    let expected = fs::read(own.join(prompt["logits_file"].as_str().expect("a file"))).expect("the reference");
    near(&logits(&own.join("model-bf16.gguf"), &prompt["tokens"], &[]), &floats(&expected), 2e-3);
}

#[test]
fn logits_of_the_default_model_are_those_of_the_reference() {
    let (Some(model), Some(reference)) = (shared("models/kauri-nano/hf"), shared("models/kauri-nano/ref")) else {
        return;
    };
    for (name, prompt) in read_json(&reference.join("index.json")).as_object().expect("prompts") {
        let expected = floats(&fs::read(reference.join(format!("{name}.logits.f32"))).expect("the reference"));
        let found = logits(&model, &prompt["tokens"], &[]);
        let kept = prompt["logits_for_positions"].as_array().expect("positions");
        for (row, position) in expected.chunks_exact(VOCAB).zip(kept) {
            let position = position.as_u64().expect("a position") as usize;
            near(&found[position * VOCAB..][..VOCAB], row, 2e-3);
        }
        assert_eq!(expected.len(), kept.len() * VOCAB);
    }
}

#[test]
fn reading_in_pieces_changes_no_bit() {
    let tokens = json!([8181, 341, 198, 665, 325, 263, 2184]);
    let model = repository().join("models/kauri-nano-Q4_K_M.gguf");
    let whole = logits(&model, &tokens, &[]);
    assert_eq!(whole.len(), 7 * VOCAB);
    assert_eq!(logits(&model, &tokens, &["--chunk", "1"]), whole);
    assert_eq!(logits(&model, &tokens, &["--chunk", "3", "--threads", "1"]), whole);
}

#[test]
fn templates_render_byte_for_byte() {
    let conversation = json!({ "messages": [{ "role": "user", "content": "Hi" }], "add_generation_prompt": true });
    let stdin = conversation.to_string();
    assert_eq!(
        output_of(&["debug", "render"], stdin.as_bytes()),
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let template = folder.path().join("chat.jinja");
    fs::write(&template, "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}{{ strftime_now('%Y') }}")
        .expect("a file");
    let stdin =
        br#"{"messages": [{"role": "user", "content": "<s>"}], "bos_token": "<s>", "now": "2026-03-14T09:26:53"}"#;
    let template = template.to_str().expect("UTF-8");
    assert_eq!(output_of(&["debug", "render", "--template", template], stdin), "<s>[<s>]2026");
}

#[test]
fn perplexity_is_what_the_logits_say() {
    let text = fs::read_to_string(repository().join("models/README.md")).expect("the card");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("text.txt");
    fs::write(&file, &text[..900]).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let found = output(&["perplexity", file, "--context", "64", "--chunks", "2", "--json", "--cache-type", "f32"]);
    let found: Json = serde_json::from_str(&found).expect("JSON");

    let ids: Vec<usize> = output_of(&["tokenize"], &text.as_bytes()[..900])
        .split_whitespace()
        .map(|id| id.parse().expect("an id"))
        .collect();
    let mut sum = 0.0;
    for chunk in ids.chunks_exact(64).take(2) {
        // Perplexity rounds where `kauri run` does.
        let all = logits(&repository().join("models/kauri-nano-Q4_K_M.gguf"), &json!(chunk), &["--fast"]);
        for position in 32..63 {
            let row = &all[position * VOCAB..][..VOCAB];
            let total: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            sum -= f64::from(row[chunk[position + 1]]) - total.ln();
        }
    }
    let expected = (sum / 62.0).exp();
    let perplexity = found["perplexity"].as_f64().expect("a number");
    assert!((perplexity / expected - 1.0).abs() < 1e-5, "{perplexity}, not {expected}");
    assert_eq!(found["tokens"], 62);
    assert!(found["standard_error"].as_f64().expect("a number") > 0.0);
}

#[test]
fn divergence_from_itself_is_none_and_from_another_some() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base.bin");
    let text = repository().join("models/README.md");
    let [base, text] = [&base, &text].map(|path| path.to_str().expect("UTF-8"));
    let short = ["perplexity", text, "--context", "64", "--json"];
    output(&[&short[..], &["--chunks", "2", "--save-logits", base, "--cache-type", "f32"]].concat());
    let compare = |more: &[&str]| -> Json {
        let text = output(&[&["perplexity", text, "--json", "--kl-base", base], more].concat());
        serde_json::from_str(&text).expect("JSON")
    };
    let same = compare(&["--cache-type", "f32"]);
    assert_eq!(same["tokens"], 62);
    assert!(same["kl_divergence"].as_f64().expect("a number").abs() < 1e-6, "{same}");
    assert!(same["same_top_share"].as_f64().expect("a number") > 0.98, "{same}");
    // The default cache rounds keys and values.
    let other = compare(&["--chunks", "1"]);
    assert_eq!(other["tokens"], 31);
    assert!(other["kl_divergence"] != same["kl_divergence"], "{other}");
    kauri(&["perplexity", text, "--kl-base", base, "--context", "32"], b"").refused("another context", "--context 32");
}

#[test]
fn every_command_teaches_by_examples() {
    for command in
        ["", "completions", "debug", "debug logits", "debug render", "inspect", "perplexity", "run", "tokenize"]
    {
        let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let help = output(&words);
        assert!(help.contains("Examples:\n  "), "{command}: {help}");
        assert!(!help.contains('\x1b'), "{command}: colours in a pipe");
    }
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = output(&["completions", shell]);
        assert!(script.contains("perplexity") && script.contains("max-tokens"), "{shell}");
    }
}

/// Raw logits of `tokens`, (tokens, vocab).
fn logits(model: &Path, tokens: &Json, more: &[&str]) -> Vec<f32> {
    let ids: Vec<String> = tokens.as_array().expect("a list").iter().map(Json::to_string).collect();
    let (model, ids) = (model.to_str().expect("UTF-8"), ids.join(","));
    let arguments = ["debug", "logits", "--cache-type", "f32", "--model", model, "--tokens", &ids];
    let ran = kauri(&[&arguments[..], more].concat(), b"");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    floats(&ran.stdout)
}

fn near(found: &[f32], expected: &[f32], most: f32) {
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        // The negation also catches what is no number.
        assert!((found - expected).abs() <= most, "logit {index}: {found}, not {expected}");
    }
}
