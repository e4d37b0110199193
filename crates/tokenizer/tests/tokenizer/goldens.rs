//! Ids and bytes against llama.cpp, SentencePiece and the `tokenizers` crate, which nobody here wrote.
//!
//! `tests/golden/tokenizers` holds a share of the vectors that always runs; all of them run where `../shared` is there.

use std::fmt::Write as _;
use std::path::Path;

use kauri_formats::Checkpoint;
use kauri_tokenizer::{Special, Tokenizer};
use serde_json::{Map, Value as Json};

use crate::making::{Entry, File, golden, json, shared, texts, unpacked};

fn ids(value: &Json) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn bytes(value: &Json) -> Vec<u8> {
    let digits = value.as_str().unwrap();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// What was compared for one vocabulary, and what did not agree.
#[derive(Default)]
struct Tally {
    upstream: usize,
    cases: usize,
    /// Cases where the vector of the tokenizer that the model was trained with replaces llama.cpp's.
    trained: usize,
    detokenised: usize,
    /// Sequences where llama.cpp takes out a space that the tokens hold.
    tidied: usize,
    wrong: String,
}

impl Tally {
    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: &T, expected: &T) {
        if found != expected {
            writeln!(self.wrong, "{what}: {found:?}, expected {expected:?}").unwrap();
        }
    }
}

fn compare(folder: &Path, name: &str) -> Tally {
    let tokenizer = Tokenizer::from_checkpoint(&unpacked(&folder.join(format!("{name}.gguf.gz")))).unwrap();
    let vectors = json(&folder.join(format!("{name}.json")));
    let texts = json(&folder.join("texts.json"));
    let mut tally = Tally::default();
    for vector in vectors["upstream_vectors"].as_array().unwrap() {
        let text = vector["text"].as_str().unwrap();
        tally.equal(&format!("{text:?}"), &tokenizer.encode(text, Special::Text), &ids(&vector["ids"]));
        tally.upstream += 1;
    }
    for case in vectors["cases"].as_array().unwrap() {
        let text = texts[case["text_index"].as_u64().unwrap() as usize]["text"].as_str().unwrap();
        let trained = case.get("hf_ids").or(case.get("sentencepiece_ids"));
        let expected = ids(trained.unwrap_or(&case["ids"]));
        tally.trained += usize::from(trained.is_some());
        tally.equal(&format!("{text:?}"), &tokenizer.encode(text, Special::Text), &expected);
        let prompt = case.get("ids_with_special").map_or(expected, ids);
        tally.equal(&format!("prompt {text:?}"), &tokenizer.encode_prompt(text), &prompt);
        tally.cases += 1;
    }
    for sequence in vectors["detokenise"].as_array().unwrap() {
        let sequence_ids = ids(&sequence["ids"]);
        let pieces: Vec<_> = sequence_ids.iter().map(|&id| tokenizer.token_bytes(id).unwrap().to_vec()).collect();
        let expected: Vec<_> = sequence["pieces_hex"].as_array().unwrap().iter().map(bytes).collect();
        tally.equal("pieces", &pieces, &expected);
        for (key, special) in [("bytes_hex", false), ("bytes_hex_keep_special", true)] {
            let found = tokenizer.decode(&sequence_ids, special);
            let expected = bytes(&sequence[key]);
            if found != expected && tokenizer.kind() == "bpe" && without_spaces(&found) == expected {
                tally.tidied += usize::from(!special);
                continue;
            }
            tally.equal(&format!("{sequence_ids:?}"), &found, &expected);
        }
        tally.detokenised += 1;
    }
    tally
}

/// llama.cpp's clean-up, as far as the vectors show it: no space before `!`.
fn without_spaces(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).replace(" !", "!").into_bytes()
}

fn assert_agrees(folder: &Path, names: &[&str]) {
    let mut wrong = String::new();
    for name in names {
        let tally = compare(folder, name);
        let Tally { upstream, cases, trained, detokenised, tidied, .. } = tally;
        eprintln!(
            "{name}: {upstream} upstream vectors, {cases} texts ({trained} as trained), \
             {detokenised} sequences ({tidied} with a space that llama.cpp drops)"
        );
        assert!(upstream > 0 && cases > 0 && detokenised > 0);
        if !tally.wrong.is_empty() {
            let lines = tally.wrong.lines().count();
            let first: Vec<_> =
                tally.wrong.lines().take(8).map(|line| line.chars().take(400).collect::<String>()).collect();
            writeln!(wrong, "{name}: {lines} differ\n{}", first.join("\n")).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn vocabularies_of_the_repository() {
    assert_agrees(&golden(""), &["bert-bge", "deepseek-coder", "llama-spm"]);
}

#[test]
fn all_shared_vocabularies() {
    let Some(folder) = shared("fixtures/tokenizers") else {
        return;
    };
    let index = json(&folder.join("index.json"));
    let names: Vec<_> = index.as_array().unwrap().iter().map(|entry| entry["vocab"].as_str().unwrap()).collect();
    assert!(names.len() >= 10);
    assert_agrees(&folder, &names);
    for entry in index.as_array().unwrap() {
        let name = entry["vocab"].as_str().unwrap();
        let tokenizer = Tokenizer::from_checkpoint(&unpacked(&folder.join(format!("{name}.gguf.gz")))).unwrap();
        assert_eq!(tokenizer.vocab_size() as u64, entry["n_tokens"].as_u64().unwrap(), "{name}");
        assert_eq!(tokenizer.bos().map(u64::from), entry["bos"].as_u64(), "{name}");
        if name != "bert-bge" {
            assert_eq!(tokenizer.eos().map(u64::from), entry["eos"].as_u64(), "{name}");
        }
        assert_eq!(!tokenizer.prefix().is_empty(), entry["add_bos"].as_bool().unwrap(), "{name}");
    }
}

/// Our reading of a `tokenizer.json` against the `tokenizers` crate's.
fn assert_as_the_crate(json: &[u8], texts: &[&str]) {
    let ours = Tokenizer::from_json(json, &Map::new()).unwrap();
    let theirs = tokenizers::Tokenizer::from_bytes(json).unwrap();
    for text in texts {
        let expected = theirs.encode_fast(*text, false).unwrap();
        assert_eq!(ours.encode(text, Special::Parse), expected.get_ids(), "{text:?}");
    }
}

#[test]
fn a_small_tokenizer_json() {
    let json = std::fs::read(golden("bpe-512.json")).unwrap();
    let texts = texts();
    assert_as_the_crate(&json, &texts.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn tokenizers_of_the_shared_families() {
    let Some(folder) = shared("fixtures/families") else {
        return;
    };
    let own = std::fs::read(golden("bpe-512.json")).unwrap();
    let texts = texts();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path().join("tokenizer.json");
        let Ok(json) = std::fs::read(&path) else { continue };
        count += 1;
        if json != own {
            assert_as_the_crate(&json, &texts.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
    assert!(count > 20, "{count} families");
}

#[test]
fn the_default_model_reads_alike_from_both_files() {
    let Some(folder) = shared("models/kauri-nano") else {
        return;
    };
    let gguf = Tokenizer::from_checkpoint(&Checkpoint::open(folder.join("kauri-nano-Q4_K_M.gguf")).unwrap()).unwrap();
    let hf = Tokenizer::from_checkpoint(&Checkpoint::open(folder.join("hf")).unwrap()).unwrap();
    let text = std::fs::read_to_string(folder.join("eval.txt")).unwrap();
    let expected = gguf.encode(&text, Special::Text);
    assert_eq!(hf.encode(&text, Special::Text), expected);
    assert_eq!(gguf.decode(&expected, false), text.as_bytes());
    let json = std::fs::read(folder.join("hf/tokenizer.json")).unwrap();
    let texts = texts();
    let texts: Vec<_> = texts.iter().map(String::as_str).chain([text.as_str()]).collect();
    assert_as_the_crate(&json, &texts);
    for text in texts {
        assert_eq!(gguf.encode(text, Special::Parse), hf.encode(text, Special::Parse));
    }
    for tokenizer in [&gguf, &hf] {
        assert_eq!(tokenizer.eos(), tokenizer.id_of("<|im_end|>"));
        assert_eq!(tokenizer.pad(), tokenizer.id_of("<|endoftext|>"));
        assert!(tokenizer.end_tokens().contains(&8180) && tokenizer.end_tokens().contains(&8182));
        assert!(tokenizer.prefix().is_empty());
        assert_eq!((tokenizer.kind(), tokenizer.vocab_size()), ("bpe", 8192));
    }
}

/// The file of a Qwen vocabulary does not say that its model was trained on text in form NFC.
#[test]
fn text_is_normalised_as_the_model_was_trained() {
    let file = File::new("gpt2").texts("tokens", &["e", "Ã", "©", "Ã©", "Ì", "ģ"]).texts("merges", &["Ã ©"]);
    let encode = |rule: &str| {
        let file = file.clone().with("pre", Entry::Text(rule.into()));
        file.read().unwrap().encode("e\u{301}", Special::Text)
    };
    assert_eq!(encode("qwen2"), [3]);
    assert_eq!(encode("llama-bpe"), [0, 4, 5]);
}
