//! Everything that a person may get wrong: one line on standard error that says what, where and what to do, exit code 2,
//! and nothing on standard output.

mod kauri;

use std::fs;
use std::path::{Path, PathBuf};

use kauri::{kauri, repository};

/// A file or folder that is no model, and what the error says of it.
fn no_models(folder: &Path) -> Vec<(PathBuf, &'static str)> {
    let nano = fs::read(repository().join("models/kauri-nano-Q4_K_M.gguf")).expect("the default model");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("a file");
        path
    };
    let directory = folder.join("model-without-config");
    fs::create_dir(&directory).expect("a folder");
    vec![
        (folder.join("missing.gguf"), "No such file"),
        (directory, "config.json is missing"),
        (file("empty.gguf", b""), "the file is empty"),
        (file("header.gguf", &nano[..1000]), "header.gguf: "),
        (file("half.gguf", &nano[..nano.len() / 2]), "half.gguf: "),
        (file("magic.gguf", b"\x01\x02\x03\x04\x05\x06\x07\x08\x09"), "not a model file"),
        (file("notes.txt", b"These are my notes.\n"), "this is a text file"),
        (file("pickle.bin", b"\x80\x02}q\x00X\x05\x00\x00\x00stateq\x01K\x01s."), "pickle"),
        (file("alien.gguf", &alien()), "alien.gguf: unknown architecture \"nonesuch\""),
    ]
}

/// A sound GGUF file of an architecture that nobody knows.
fn alien() -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let string_type = 8_u32.to_le_bytes();
    let counts = [0_u64.to_le_bytes(), 1_u64.to_le_bytes()].concat();
    let pair = [&text("general.architecture"), &string_type[..], &text("nonesuch")].concat();
    [b"GGUF", &3_u32.to_le_bytes()[..], &counts, &pair].concat()
}

#[test]
fn files_that_are_no_models_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, part) in no_models(folder.path()) {
        let path = path.to_str().expect("UTF-8");
        kauri(&["run", "--model", path, "Hi"], b"").refused(path, part);
        kauri(&["run", path, "Hi"], b"").refused(path, part);
        kauri(&["inspect", path], b"").refused(path, part);
        kauri(&["inspect", path, "--json"], b"").refused(path, part);
        kauri(&["debug", "logits", "--model", path, "--tokens", "1"], b"").refused(path, part);
    }
    // The tokenizer alone needs no known architecture, but a vocabulary.
    let alien = folder.path().join("alien.gguf");
    kauri(&["tokenize", "--model", alien.to_str().expect("UTF-8")], b"Hi").refused("alien", "alien.gguf: ");
}

#[test]
fn prompts_that_cannot_be_answered_are_refused() {
    let long = "word ".repeat(3000);
    kauri(&["run"], long.as_bytes()).refused("a long prompt", "the window holds 2048");
    kauri(&["run", "--raw", "--context", "32", &long[..500]], b"").refused("a long text", "the window holds 32");
    kauri(&["run"], b"").refused("nothing", "the prompt is empty");
    kauri(&["run", ""], b"").refused("an empty prompt", "the prompt is empty");
    kauri(&["run", " \n "], b"").refused("a blank prompt", "the prompt is empty");
    kauri(&["run", "--raw", ""], b"").refused("an empty text", "the prompt is empty");
    kauri(&["run", "-"], b"ab\xffc").refused("other bytes", "byte 2 is 0xff");
    kauri(&["tokenize"], b"\xe2\x82").refused("a cut character", "byte 0 is 0xe2");
}

#[test]
fn options_out_of_range_are_refused() {
    for (option, value, part) in [
        ("--temperature", "NaN", "'NaN' for '--temperature"),
        ("--temperature", "-1", "'-1' for '--temperature"),
        ("--temperature", "hot", "a number from 0"),
        ("--top-p", "2", "a number over 0, to 1"),
        ("--min-p", "-0.1", "a number from 0 to 1"),
        ("--top-k", "-3", "--top-k"),
        ("--top-p", "0", "over 0"),
        ("--repeat-penalty", "0", "over 0"),
        ("--frequency-penalty", "2.1", "from -2 to 2"),
        ("--presence-penalty", "inf", "--presence-penalty"),
        ("--seed", "x", "--seed"),
        ("--max-tokens", "0", "--max-tokens"),
        ("--stop", "", "cannot be empty"),
        ("--context", "0", "0 tokens"),
        ("--context", "2049", "trained for 1 to 2048"),
        ("--threads", "0", "--threads"),
        ("--cache-type", "f8", "possible values: "),
        ("--isa", "mmx", "possible values: "),
    ] {
        kauri(&["run", "Hi", option, value], b"").refused(&format!("{option} {value}"), part);
    }
}

#[test]
fn usage_that_makes_no_sense_is_refused() {
    for (arguments, part) in [
        (&["frobnicate"][..], "unrecognized subcommand 'frobnicate'"),
        (&["run", "--modle", "x"], "'--modle' found; a similar argument exists: '--model' (see kauri run --help)"),
        (&["run", "Why", "is"], "quote the whole prompt"),
        (&["run", "--model", "kauri-nano", "kauri-nano", "Hi"], "quote it, or leave --model out"),
        (&["run", "--raw", "--system", "x", "y"], "cannot be used with"),
        (&["completions", "dos"], "possible values"),
        (&["debug", "logits"], "--tokens"),
        (&["debug", "logits", "--tokens", "1,x"], "'x' for '--tokens"),
        (&["debug", "logits", "--tokens", "1,8192"], "token 8192 is not in the vocabulary of 8192"),
        (&["debug", "logits", "--tokens", "1", "--chunk", "0"], "--chunk"),
        (&["perplexity"], "<FILE>"),
        (&["perplexity", "missing.txt"], "missing.txt: cannot be opened"),
    ] {
        kauri(arguments, b"").refused(&arguments.join(" "), part);
    }
}

#[test]
fn standard_input_that_makes_no_sense_is_refused() {
    for (arguments, stdin, part) in [
        (&["debug", "render"][..], &b"{\"messages\": ["[..], "standard input: not JSON at byte 14"),
        (&["debug", "render"], b"[]", "expected one JSON object"),
        (&["debug", "render", "--template", "missing.jinja"], b"{}", "missing.jinja: cannot be opened"),
        (&["tokenize", "--decode"], b"12 x", "\"x\" is not a token id"),
        (&["tokenize", "--decode"], b"8192", "token 8192 is not in the vocabulary of 8192"),
        (&["tokenize", "--json"], b"Hi\n", "line 1: expected a JSON string"),
        (&["tokenize", "--json", "--decode"], b"[-1]\n", "line 1: expected a list of token ids"),
        (&["tokenize", "--json", "--decode"], b"[9000]\n", "line 1: token 9000"),
    ] {
        kauri(arguments, stdin).refused(&arguments.join(" "), part);
    }
}

#[test]
fn texts_and_bases_without_sense_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (short, other) = (file("short.txt", b"A few words."), file("other.txt", b"abc\xff"));
    kauri(&["perplexity", &short], b"").refused("a short text", "no whole chunk of 1024");
    kauri(&["perplexity", &other], b"").refused("other bytes", "other.txt is not UTF-8 text: byte 3 is 0xff");
    kauri(&["perplexity", &short, "--kl-base", &short], b"").refused("no base", "is no file that --save-logits wrote");
    kauri(&["perplexity", &short, "--context", "2"], b"").refused("a tiny context", "at least 4");
    let template = file("bad.jinja", b"{% if %}");
    kauri(&["debug", "render", "--template", &template], b"{}").refused("a template", "line 1");
}
