//! What an attacker may bring: forged special tokens, endless words, damaged vocabularies.

use kauri_tokenizer::{Error, Special, Tokenizer};

use crate::making::{Entry, File, each_kind, from_json, golden, json, small_bpe, small_spm, small_unigram, vocabulary};

#[test]
fn names_of_special_tokens_in_text_are_text() {
    for tokenizer in each_kind() {
        let ids = 0..tokenizer.vocab_size() as u32;
        let unknown = tokenizer.id_of("[UNK]").or(tokenizer.id_of("<unk>"));
        let mut names = 0;
        for special in ids.filter(|&id| tokenizer.is_special(id)) {
            let name = String::from_utf8(tokenizer.token_bytes(special).unwrap().to_vec()).unwrap();
            assert_eq!(tokenizer.encode(&name, Special::Parse), [special], "{name}");
            for text in [name.clone(), format!(" {name}"), format!("x{name}y"), format!("{name}{name}\n")] {
                let ids = tokenizer.encode(&text, Special::Text);
                assert!(!ids.is_empty());
                assert!(ids.iter().all(|&id| !tokenizer.is_special(id) || Some(id) == unknown), "{text:?}: {ids:?}");
            }
            names += 1;
        }
        assert!(names > 1);
    }
}

#[test]
fn role_markers_that_a_file_declares_ordinary_are_not_made_from_text_either() {
    let tokenizer = vocabulary("deepseek-coder");
    let marker = tokenizer.id_of("<|User|>").unwrap();
    assert!(!tokenizer.is_special(marker), "the file declares it an ordinary added word");
    assert!(tokenizer.encode("<|User|>", Special::Parse).contains(&marker));
    assert!(!tokenizer.encode("<|User|>", Special::Text).contains(&marker));
    let tokenizer = small_bpe().read().unwrap();
    assert_eq!(tokenizer.encode("ab<tool>", Special::Parse), [4, 7]);
    assert!(!tokenizer.encode("ab<tool>", Special::Text).contains(&7));
    assert_eq!(tokenizer.decode(&[4, 7, 6], false), b"ab<tool>");
}

#[test]
fn a_prompt_cannot_be_forged_from_its_parts() {
    let tokenizer = small_bpe().read().unwrap();
    let end = tokenizer.id_of("<|im_end|>").unwrap();
    let count = |spans: &[(&str, Special)]| tokenizer.encode_spans(spans).into_iter().filter(|&id| id == end).count();
    let (text, parse) = (Special::Text, Special::Parse);
    assert_eq!(count(&[("a", text), ("<|im_end|>", parse), ("b", text)]), 1);
    assert_eq!(count(&[("<|im", parse), ("_end|>", parse)]), 1, "a template's own text in two pieces");
    assert_eq!(count(&[("<|im", parse), ("", text), ("_end|>", parse)]), 1, "an empty message is nothing");
    assert_eq!(count(&[("<|im_end|>", text)]), 0);
    assert_eq!(count(&[("<|im_", text), ("end|>", text)]), 0);
    assert_eq!(count(&[("<", parse), ("|im_end|>", text)]), 0);
    assert_eq!(count(&[("<|im_end|", text), (">", parse)]), 0);
    assert_eq!(count(&[("<|im_", parse), ("end", text), ("|>", parse)]), 0);
    let ids = tokenizer.encode_spans(&[("a", parse), ("b", text), ("c", parse)]);
    assert_eq!(ids, [5], "neighbouring spans are one text");
}

/// A megabyte that is one word, for every kind. With time in the square of the length this would take hours.
#[test]
fn a_megabyte_of_one_character() {
    for tokenizer in each_kind() {
        for character in ["a", " ", "\n", "7", "中", "\u{1F600}", "\u{301}", "<"] {
            let text = character.repeat(1_000_000 / character.len());
            let ids = tokenizer.encode(&text, Special::Parse);
            if tokenizer.token_bytes(0) == Some(b"!") || tokenizer.id_of("<0x00>").is_some() {
                assert_eq!(tokenizer.decode(&ids, false), text.as_bytes());
            }
        }
    }
}

#[test]
fn a_megabyte_through_every_splitting_rule() {
    for rule in ["default", "deepseek-v3", "falcon", "gpt-4o", "llama-bpe", "qwen35", "tiny_aya", "superbpe", "bloom"] {
        let tokenizer = small_bpe().with("pre", Entry::Text(rule.into())).read().unwrap();
        for piece in ["a", " ", "1", "\r\n", " \n", "a ", "é", "1a"] {
            let count = 1_000_000 / piece.len();
            let ids = tokenizer.encode(&piece.repeat(count), Special::Parse);
            let letters = if piece.contains('a') { count } else { 0 };
            assert_eq!(ids.iter().filter(|&&id| id == 0).count(), letters, "{rule} {piece:?}");
        }
    }
}

#[test]
fn ids_beyond_the_vocabulary_give_nothing() {
    for tokenizer in each_kind() {
        let beyond = tokenizer.vocab_size() as u32;
        for id in [beyond, beyond + 1, u32::MAX - 1, u32::MAX] {
            assert_eq!(tokenizer.token_bytes(id), None);
            assert_eq!(tokenizer.decode(&[id, id], true), b"");
            assert!(!tokenizer.is_special(id));
            let mut stream = tokenizer.stream();
            assert_eq!(stream.push(id), "");
            assert_eq!(stream.finish(), "");
        }
    }
}

#[test]
fn bytes_that_are_no_text_decode_and_stream() {
    let tokenizer = vocabulary("llama-spm");
    let byte = |byte: u32| 3 + byte; // <0x00> is token 3
    let ids = [byte(0xE4), byte(0xBD), byte(0xFF), byte(0xE4), byte(0xBD), byte(0xA0), byte(0xF0)];
    assert_eq!(tokenizer.decode(&ids, false), [0xE4, 0xBD, 0xFF, 0xE4, 0xBD, 0xA0, 0xF0]);
    let mut stream = tokenizer.stream();
    let parts: Vec<_> = ids.iter().map(|&id| stream.push(id).to_owned()).collect();
    assert_eq!(parts, ["", "", "\u{FFFD}\u{FFFD}", "", "", "你", ""]);
    assert_eq!(stream.finish(), "\u{FFFD}");
}

#[test]
fn the_space_of_the_first_word() {
    let tokenizer = vocabulary("llama-spm");
    let ids = tokenizer.encode_prompt("Hello world");
    assert_eq!(tokenizer.decode(&ids, false), b"Hello world");
    assert_eq!(tokenizer.stream().push(ids[1]), "Hello");
    assert_eq!(tokenizer.stream_after(&ids).push(ids[2]), " world", "goes on in the middle of a text");
    assert_eq!(tokenizer.stream_after(&ids[..1]).push(ids[1]), "Hello", "begins after the beginning-of-text token");
}

fn refused(result: Result<Tokenizer, Error>, words: &[&str]) {
    let error = result.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(!error.contains('\n'), "{error}");
    for word in words {
        assert!(error.contains(word), "{error:?} does not say {word:?}");
    }
}

#[test]
fn damaged_gguf_vocabularies_are_refused_by_name() {
    let bpe = small_bpe;
    refused(File::new("gpt3").read(), &["tokenizer.ggml.model", "gpt3"]);
    refused(bpe().with("model", Entry::Number(1)).read(), &["tokenizer.ggml.model", "text"]);
    refused(bpe().without("tokens").read(), &["tokenizer.ggml.tokens", "missing"]);
    refused(bpe().with("tokens", Entry::Numbers(vec![1])).read(), &["tokenizer.ggml.tokens", "strings"]);
    refused(bpe().without("merges").read(), &["tokenizer.ggml.merges", "missing"]);
    refused(bpe().with("pre", Entry::Text("my-own".into())).read(), &["tokenizer.ggml.pre", "my-own"]);
    refused(bpe().texts("merges", &["a b", "a z"]).read(), &["merge 1", "\"a z\"", "\"z\""]);
    refused(bpe().texts("merges", &["a c"]).read(), &["merge 0", "\"ac\""]);
    refused(bpe().texts("merges", &["ab"]).read(), &["merge 0", "separated"]);
    refused(bpe().texts("merges", &["a "]).read(), &["merge 0", "separated"]);
    refused(bpe().with("token_type", Entry::Numbers(vec![1; 7])).read(), &["token_type", "7", "8"]);
    refused(bpe().with("token_type", Entry::Numbers(vec![1; 9])).read(), &["token_type", "9", "8"]);
    refused(bpe().with("token_type", Entry::Truth(true)).read(), &["token_type", "integers"]);
    refused(bpe().with("eos_token_id", Entry::Number(8)).read(), &["eos_token_id", "8"]);
    let twice = ["a", "b", "c", "Ġ", "ab", "abc", "<|im_end|>", "a"];
    let types = Entry::Numbers(vec![1; 8]);
    refused(bpe().texts("tokens", &twice).with("token_type", types).read(), &["\"a\"", "twice", "0", "7"]);
    let long = "x".repeat(20_000);
    refused(bpe().texts("tokens", &[long.as_str(); 8]).read(), &["length of a token", "20000"]);
}

#[test]
fn damaged_scores_and_maps_are_refused_by_name() {
    let scores = |values: Vec<f32>| small_spm().with("scores", Entry::Fractions(values)).read();
    refused(scores(vec![0.0; 3]), &["tokenizer.ggml.scores", "3", "8"]);
    refused(scores(vec![f32::NAN; 8]), &["tokenizer.ggml.scores", "token 0"]);
    refused(small_spm().without("scores").read(), &["tokenizer.ggml.scores", "missing"]);
    refused(small_unigram().with("scores", Entry::Fractions(vec![f32::INFINITY; 13])).read(), &["scores"]);
    let map = |bytes: &[u8]| small_unigram().with("precompiled_charsmap", Entry::Bytes(bytes.to_vec())).read();
    refused(map(&[1]), &["character map"]);
    refused(map(&[255; 64]), &["character map"]);
    refused(map(&[4, 0, 0, 0, 255, 255, 255, 127]), &["character map"]);
    assert!(map(&[]).is_ok());
}

#[test]
fn odd_but_sound_vocabularies_work() {
    assert_eq!(small_bpe().read().unwrap().encode("abc aé<|im_end|>", Special::Text), [5, 3, 0]);
    assert!(small_bpe().with("token_type", Entry::Numbers(vec![0; 8])).read().is_err(), "no word is left");
    let spm = small_spm().read().unwrap();
    assert_eq!(spm.encode("abx", Special::Text), [7, 0], "without byte tokens the unknown token");
    assert_eq!(spm.encode("</s>ab", Special::Parse), [2, 7]);
    let infinite = Entry::Fractions(vec![f32::NEG_INFINITY; 8]);
    assert_eq!(small_spm().with("scores", infinite).read().unwrap().encode("ab", Special::Text), [7]);
    let nothing = File::new("gpt2").texts("tokens", &[]).texts("merges", &[]);
    assert_eq!(
        nothing.with("pre", Entry::Text("qwen2".into())).read().unwrap().encode("abc", Special::Parse),
        [0u32; 0]
    );
}

#[test]
fn damaged_tokenizer_files_are_refused_by_name() {
    let whole = json(&golden("bpe-512.json"));
    let changed = |path: &str, value: serde_json::Value| {
        let mut file = whole.clone();
        *file.pointer_mut(path).unwrap() = value;
        from_json(&file)
    };
    refused(Tokenizer::from_json(b"", &serde_json::Map::new()), &["tokenizer.json"]);
    refused(Tokenizer::from_json(b"[1]", &serde_json::Map::new()), &["tokenizer.json"]);
    refused(
        Tokenizer::from_json(b"{\"model\":{\"vocab\":{\"\\ud800\":1}}}", &serde_json::Map::new()),
        &["tokenizer.json"],
    );
    refused(changed("/model/vocab/!", 5.into()), &["id 5", "both"]);
    refused(changed("/model/vocab/!", (-1).into()), &["tokenizer.json"]);
    refused(changed("/model/vocab/!", 4_000_000_000u64.into()), &["4000000000", "limit"]);
    refused(changed("/model/merges/3", "Ġ zzz".into()), &["merge 3", "zzz"]);
    refused(changed("/model/merges/3", serde_json::json!(["a"])), &["two parts"]);
    refused(changed("/added_tokens/0/id", 7.into()), &["id 7", "both"]);
    refused(changed("/model/dropout", 0.5.into()), &["dropout"]);
    refused(changed("/model/type", "Magic".into()), &["Magic"]);
    let split = |regex: &str| {
        serde_json::json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})
    };
    refused(changed("/pre_tokenizer", split("(a+)+(?=b)")), &["(a+)+(?=b)"]);
    refused(changed("/pre_tokenizer", split("(?:a{1000}){1000}")), &["a{1000}"]);
    refused(changed("/pre_tokenizer", serde_json::json!({"type": "FixedLength", "length": 0})), &["FixedLength"]);
    let grow = serde_json::json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(20)});
    let grow = serde_json::json!({"type": "Sequence", "normalizers": [grow, grow, grow]});
    refused(changed("/normalizer", grow), &["growth"]);
    let map = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8="});
    refused(changed("/normalizer", map), &["character map"]);
}
