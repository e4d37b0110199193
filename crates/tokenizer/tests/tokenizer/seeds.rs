//! The seeds of the fuzzer (`fuzz/seeds/tokenizer_json`): `good-*` is accepted, `bad-*` refused; none does harm.

use kauri_tokenizer::{Special, Tokenizer};
use serde_json::{Map, Value as Json, json};

use crate::making::repository;

#[test]
fn seeds_of_tokenizer_json() {
    let mut counts = [0, 0];
    for entry in std::fs::read_dir(repository().join("fuzz/seeds/tokenizer_json")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let result = Tokenizer::from_json(&std::fs::read(&path).unwrap(), &Map::new());
        assert_eq!(result.is_ok(), name.starts_with("good-"), "{name}: {:?}", result.err());
        counts[usize::from(result.is_ok())] += 1;
        if let Ok(tokenizer) = result {
            let text = "Hello <|end|> wörld 中 \u{1F600} 123\n";
            let ids = tokenizer.encode(text, Special::Parse);
            tokenizer.decode(&ids, true);
        }
    }
    assert!(counts.iter().all(|&count| count >= 5), "{counts:?}");
}

/// Writes the seeds anew: `cargo test -p kauri-tokenizer write_seeds -- --ignored`.
#[test]
#[ignore = "writes into the repository"]
fn write_seeds() {
    let folder = repository().join("fuzz/seeds/tokenizer_json");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, file) in seeds() {
        std::fs::write(folder.join(name), file.to_string()).unwrap();
    }
    std::fs::write(folder.join("bad-json"), "{\"model\":{\"vocab\":").unwrap();
    std::fs::write(folder.join("bad-empty"), "").unwrap();
}

/// A file with three steps and two added tokens.
fn file(steps: [Json; 2], model: Json) -> Json {
    let added = |id: u32, content: &str, special: bool| {
        json!({"id": id, "content": content, "special": special, "single_word": false, "lstrip": false,
               "rstrip": false, "normalized": false})
    };
    let [normalizer, pre_tokenizer] = steps;
    let mut file = json!({"added_tokens": [added(9, "<|end|>", true), added(10, "  ", false)],
                          "post_processor": null, "decoder": null});
    file["normalizer"] = normalizer;
    file["pre_tokenizer"] = pre_tokenizer;
    file["model"] = model;
    file
}

fn bpe() -> Json {
    json!({"type": "BPE", "vocab": {"H": 0, "e": 1, "l": 2, "o": 3, "Ġ": 4, "ll": 5, "llo": 6},
           "merges": ["l l", "ll o"]})
}

fn marked() -> Json {
    json!({"type": "BPE", "byte_fallback": true, "vocab": {"▁": 0, "H": 1, "▁H": 2, "<0x0A>": 3}, "merges": ["▁ H"]})
}

fn wordpiece() -> Json {
    json!({"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
           "vocab": {"?": 0, "hel": 1, "##lo": 2}})
}

fn unigram() -> Json {
    json!({"type": "Unigram", "unk_id": 0, "vocab": [["?", 0.0], ["▁", -1.0], ["▁He", -2.5], ["llo", -3.0]]})
}

fn byte_level() -> Json {
    json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})
}

fn metaspace() -> Json {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true})
}

fn replace() -> Json {
    json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})
}

fn split(regex: &str) -> Json {
    json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false},
        {"type": "Digits", "individual_digits": true}, byte_level()]})
}

fn with(mut model: Json, key: &str, value: Json) -> Json {
    model[key] = value;
    model
}

fn seeds() -> Vec<(&'static str, Json)> {
    let bert = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                      "strip_accents": null, "lowercase": true});
    let words = json!({"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0}});
    let pairs = with(bpe(), "merges", json!([["l", "l"], "ll o"]));
    let good = [
        ("good-bytes", file([json!({"type": "NFC"}), byte_level()], pairs)),
        ("good-split", file([Json::Null, split("\\p{N}{1,3}|\\s+(?!\\S)|\\s+")], bpe())),
        ("good-marked", file([replace(), Json::Null], marked())),
        ("good-bpe-plain", file([json!({"type": "Lowercase"}), json!({"type": "Whitespace"})], bpe())),
        ("good-wordpiece", file([bert, json!({"type": "BertPreTokenizer"})], wordpiece())),
        ("good-unigram", file([json!({"type": "NFKC"}), metaspace()], unigram())),
        ("good-wordlevel", file([Json::Null, metaspace()], words)),
    ];
    good.into_iter().chain(bad_models()).chain(bad_steps()).collect()
}

fn bad_models() -> Vec<(&'static str, Json)> {
    let bytes = |model: Json| file([Json::Null, byte_level()], model);
    let bare = |model: Json| file([Json::Null, Json::Null], model);
    vec![
        ("bad-merge", bytes(with(bpe(), "merges", json!(["l l", "l z"])))),
        ("bad-merge-plain", file([replace(), Json::Null], with(bpe(), "merges", json!(["l lllllllllllllll"])))),
        ("bad-id", bytes(with(bpe(), "vocab", json!({"a": 4_294_967_295u64})))),
        ("bad-id-twice", bytes(with(bpe(), "vocab", json!({"a": 1, "b": 1})))),
        ("bad-dropout", bytes(with(bpe(), "dropout", 0.5.into()))),
        ("bad-unknown", bare(with(unigram(), "unk_id", 99.into()))),
        ("bad-empty-token", bare(with(unigram(), "vocab", json!([["", -1.0]])))),
        ("bad-word-length", bare(with(wordpiece(), "max_input_chars_per_word", u64::MAX.into()))),
    ]
}

fn bad_steps() -> Vec<(&'static str, Json)> {
    let map = json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8="});
    vec![
        ("bad-map", file([map, Json::Null], bpe())),
        ("bad-step", file([json!({"type": "Reverse"}), Json::Null], bpe())),
        ("bad-fixed-length", file([Json::Null, json!({"type": "FixedLength", "length": 0})], bpe())),
        ("bad-pattern", file([Json::Null, split("(a+)+(?=b)")], bpe())),
    ]
}
