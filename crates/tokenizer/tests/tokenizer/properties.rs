//! What holds for any text and any ids.

use kauri_tokenizer::{Special, Tokenizer};
use proptest::prelude::*;

use crate::making::{each_kind, from_json, golden, json, vocabulary};

/// Text of all sorts: any characters, and those that tokenizers treat in their own ways.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[ a-zA-Z0-9'.,\\n\\r\\t]{0,40}",
        "[\u{300}-\u{30F}é\u{AC00}-\u{AC20}中文\u{1F600}-\u{1F610}\u{200D}\u{2581}]{0,20}",
        Just("<|im_start|>".to_owned()),
        Just("<s></s>[CLS]<unk>".to_owned()),
        " {1,200}",
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn byte_level() -> Vec<Tokenizer> {
    vec![vocabulary("deepseek-coder"), from_json(&json(&golden("bpe-512.json"))).unwrap()]
}

fn streamed(tokenizer: &Tokenizer, ids: &[u32], special: bool) -> String {
    let mut stream = tokenizer.stream();
    if special {
        stream = stream.keep_special();
    }
    let mut text: String = ids.iter().map(|&id| stream.push(id).to_owned()).collect();
    text.push_str(stream.finish());
    text
}

#[test]
fn byte_level_text_comes_back() {
    let tokenizers = byte_level();
    proptest!(ProptestConfig::with_cases(400), |(text in text())| {
        for tokenizer in &tokenizers {
            for special in [Special::Text, Special::Parse] {
                let ids = tokenizer.encode(&text, special);
                prop_assert_eq!(String::from_utf8(tokenizer.decode(&ids, true)).unwrap(), &*text);
            }
        }
    });
}

#[test]
fn sentencepiece_text_comes_back() {
    let tokenizer = vocabulary("llama-spm");
    proptest!(ProptestConfig::with_cases(300), |(text in text())| {
        let ids = tokenizer.encode(&text, Special::Text);
        let expected = text.replace('\u{2581}', " ");
        prop_assert_eq!(String::from_utf8(tokenizer.decode(&ids, true)).unwrap(), expected);
    });
}

#[test]
fn streaming_gives_what_decoding_gives() {
    let tokenizers: Vec<_> = each_kind().into_iter().chain(byte_level()).collect();
    let ids = proptest::collection::vec(prop_oneof![0..600u32, any::<u32>(), 0..40_000u32], 0..60);
    proptest!(ProptestConfig::with_cases(400), |(ids in ids, special in any::<bool>())| {
        for tokenizer in &tokenizers {
            let whole = String::from_utf8_lossy(&tokenizer.decode(&ids, special)).into_owned();
            prop_assert_eq!(streamed(tokenizer, &ids, special), whole);
        }
    });
}

#[test]
fn streaming_gives_whole_characters() {
    let tokenizer = vocabulary("deepseek-coder");
    proptest!(ProptestConfig::with_cases(200), |(text in text())| {
        let mut stream = tokenizer.stream().keep_special();
        let mut found = String::new();
        for id in tokenizer.encode(&text, Special::Text) {
            found.push_str(stream.push(id));
            prop_assert!(text.starts_with(&found));
        }
        prop_assert_eq!(stream.finish(), "");
        prop_assert_eq!(found, text);
    });
}

#[test]
fn where_spans_of_text_end_leaves_no_trace() {
    let tokenizers = each_kind();
    proptest!(ProptestConfig::with_cases(200), |(parts in proptest::collection::vec(text(), 0..4))| {
        let spans: Vec<_> = parts.iter().map(|part| (part.as_str(), Special::Text)).collect();
        for tokenizer in &tokenizers {
            prop_assert_eq!(tokenizer.encode_spans(&spans), tokenizer.encode(&parts.concat(), Special::Text));
        }
    });
}

#[test]
fn text_never_becomes_special() {
    let tokenizers = each_kind();
    let unknown: Vec<_> =
        tokenizers.iter().map(|tokenizer| tokenizer.id_of("[UNK]").or(tokenizer.id_of("<unk>"))).collect();
    proptest!(ProptestConfig::with_cases(300), |(text in text())| {
        for (tokenizer, unknown) in tokenizers.iter().zip(&unknown) {
            let ids = tokenizer.encode(&text, Special::Text);
            prop_assert!(ids.iter().all(|&id| !tokenizer.is_special(id) || Some(id) == *unknown));
        }
    });
}
