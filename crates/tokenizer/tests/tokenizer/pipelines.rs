//! Files of other kinds than byte-level BPE, against the `tokenizers` crate.

use kauri_formats::Source;
use kauri_tokenizer::{Special, Tokenizer};
use serde_json::{Value as Json, json};

use crate::making::{File, from_json, golden, small_unigram, texts, unpacked, vocabulary};

/// The crate's own reading of the same file, special tokens parsed.
fn expected(file: &Json, text: &str) -> Vec<u32> {
    let crate_ = tokenizers::Tokenizer::from_bytes(file.to_string()).unwrap();
    crate_.encode_fast(text, false).unwrap().get_ids().to_vec()
}

fn added(id: usize, content: &str, special: bool) -> Json {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
           "normalized": false, "special": special})
}

fn names(tokenizer: &Tokenizer) -> Vec<String> {
    let bytes = (0..tokenizer.vocab_size() as u32).map(|id| tokenizer.token_bytes(id).unwrap());
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
}

/// The Llama 2 vocabulary as BPE over characters, with merges worked out from its scores.
fn llama_as_bpe() -> Json {
    let checkpoint = unpacked(&golden("llama-spm.gguf.gz"));
    let Source::Gguf(metadata) = &checkpoint.source else { unreachable!() };
    let names: Vec<_> = metadata.strings("tokenizer.ggml.tokens").unwrap().iter().collect();
    let scores = metadata.f64s("tokenizer.ggml.scores").unwrap();
    let ids: std::collections::HashMap<_, _> = (259..names.len()).map(|id| (names[id], id)).collect();
    let mut wholes: Vec<_> = (259..names.len()).collect();
    wholes.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let mut merges = Vec::new();
    for id in wholes {
        let whole = names[id];
        let mut pairs: Vec<_> = whole
            .char_indices()
            .skip(1)
            .filter_map(|(at, _)| Some((*ids.get(&whole[..at])?, *ids.get(&whole[at..])?, at)))
            .collect();
        pairs.sort_unstable();
        merges.extend(pairs.iter().map(|&(_, _, at)| json!([whole[..at], whole[at..]])));
    }
    let name = |id: usize| names[id].to_owned();
    let vocab: serde_json::Map<_, _> = (0..names.len()).map(|id| (name(id), id.into())).collect();
    json!({
        "version": "1.0",
        "added_tokens": [added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
                  "vocab": vocab, "merges": merges}
    })
}

#[test]
fn sentencepiece_as_bpe() {
    let file = llama_as_bpe();
    let ours = from_json(&file).unwrap();
    let gguf = vocabulary("llama-spm");
    let theirs = tokenizers::Tokenizer::from_bytes(file.to_string()).unwrap();
    for text in texts() {
        let ids = ours.encode(&text, Special::Parse);
        assert_eq!(ids, theirs.encode_fast(&*text, false).unwrap().get_ids(), "{text:?}");
        assert_eq!(ids, gguf.encode(&text, Special::Parse), "{text:?}");
        assert_eq!(ours.encode_prompt(&text), gguf.encode_prompt(&text), "{text:?}");
        assert_eq!(ours.decode(&ids, true), gguf.decode(&ids, true), "{text:?}");
    }
    assert_eq!((ours.kind(), ours.prefix()), ("bpe", &[1][..]));
}

#[test]
fn a_space_only_before_the_first_text() {
    let mut file = llama_as_bpe();
    file["normalizer"] = Json::Null;
    file["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
    let ours = from_json(&file).unwrap();
    for text in ["Hello world", "a</s>b  c", "</s>Hello", " x"] {
        assert_eq!(ours.encode(text, Special::Parse), expected(&file, text), "{text:?}");
    }
}

fn bert() -> Json {
    let gguf = vocabulary("bert-bge");
    let names = names(&gguf);
    let vocab: serde_json::Map<_, _> = names
        .iter()
        .enumerate()
        .map(|(id, name)| {
            let name = match name.strip_prefix(' ') {
                Some(word) => word.to_owned(),
                None if gguf.is_special(id as u32) => name.clone(),
                None => format!("##{name}"),
            };
            (name, id.into())
        })
        .collect();
    json!({
        "version": "1.0",
        "added_tokens": [added(0, "[PAD]", true), added(100, "[UNK]", true), added(101, "[CLS]", true),
                         added(102, "[SEP]", true), added(103, "[MASK]", true)],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                       "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab}
    })
}

#[test]
fn wordpiece() {
    let file = bert();
    let ours = from_json(&file).unwrap();
    let theirs = tokenizers::Tokenizer::from_bytes(file.to_string()).unwrap();
    let gguf = vocabulary("bert-bge");
    let mut unlike = 0;
    for text in texts() {
        let ids = ours.encode(&text, Special::Parse);
        assert_eq!(ids, theirs.encode_fast(&*text, false).unwrap().get_ids(), "{text:?}");
        // Files of the two kinds drop accents in two ways.
        unlike += usize::from(gguf.encode(&text, Special::Parse) != ids);
    }
    assert!(unlike <= 15, "{unlike} of 185 texts");
    assert_eq!(ours.encode_prompt("Hello, World!"), gguf.encode_prompt("Hello, World!"));
    assert_eq!(ours.decode(&ours.encode_prompt("Hello, World!"), false), b"hello, world!");
    assert_eq!(ours.kind(), "wordpiece");
    let forged = ours.encode("[SEP] [MASK] [UNK]", Special::Text);
    assert!(!forged.contains(&102) && !forged.contains(&103), "{forged:?}");
}

/// The small unigram vocabulary as a `tokenizer.json`.
fn unigram() -> Json {
    let scores = [0.0, 0.0, 0.0, -2.0, -3.0, -3.1, -4.0, -3.5, -5.2, -4.1, -6.0, -9.5, -4.4];
    let names = names(&small_unigram().read().unwrap());
    let vocab: Vec<_> = names.iter().zip(scores).map(|(name, score)| json!([name.replace(' ', "▁"), score])).collect();
    json!({
        "version": "1.0",
        "added_tokens": [added(0, "<pad>", true), added(1, "</s>", true), added(2, "<unk>", true)],
        "normalizer": null,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false},
        "post_processor": null,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false},
        "model": {"type": "Unigram", "unk_id": 2, "byte_fallback": false, "vocab": vocab}
    })
}

#[test]
fn unigram_from_both_files_and_the_crate() {
    let file = unigram();
    let (ours, gguf) = (from_json(&file).unwrap(), small_unigram().read().unwrap());
    let mut texts: Vec<String> =
        ["ab", "aaaaab ba", "中a中", "b  a", "xyz ab", "abababab aaaaaaaaa", "ab</s>ba"].map(str::to_owned).into();
    // All words of four letters over the vocabulary's letters.
    for number in 0..256u32 {
        texts.push((0..4).map(|at| ['a', 'b', 'c', ' '][(number >> (2 * at) & 3) as usize]).collect());
    }
    for text in texts.iter().filter(|text| !text.starts_with(' ')) {
        let expected = expected(&file, text);
        assert_eq!(ours.encode(text, Special::Parse), expected, "{text:?}");
        assert_eq!(gguf.encode(text, Special::Parse), expected, "{text:?}");
    }
    assert_eq!((ours.kind(), gguf.kind()), ("spm", "spm"));
    assert_eq!(gguf.encode_prompt("ab").last(), Some(&1), "the vocabulary puts its end token last");
    assert_eq!(gguf.decode(&gguf.encode("ab ba", Special::Text), false), b"ab ba");
}

#[test]
fn unigram_spaces() {
    use crate::making::Entry;
    let file: File = small_unigram().with("remove_extra_whitespaces", Entry::Truth(true));
    let single = file.read().unwrap();
    let plain = single.encode("ab ba", Special::Text);
    assert_eq!(single.encode("  ab   ba ", Special::Text), plain);
    assert_ne!(small_unigram().read().unwrap().encode("  ab   ba ", Special::Text), plain);
}

#[test]
fn other_models_run() {
    let file = json!({
        "version": "1.0", "added_tokens": [added(3, "<end>", true)], "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "hello": 1, "world": 2}}
    });
    let ours = from_json(&file).unwrap();
    assert_eq!(ours.encode("Hello big WORLD<end>", Special::Parse), [1, 0, 2, 3]);
    assert_eq!(ours.encode("world <end>", Special::Text), [2, 0]);
}

#[test]
fn long_words() {
    for file in [bert(), unigram(), llama_as_bpe()] {
        let tokenizer = from_json(&file).unwrap();
        for character in ["a", " ", "中", "\u{301}"] {
            let text = character.repeat(300_000 / character.len());
            tokenizer.encode(&text, Special::Parse);
        }
    }
}
