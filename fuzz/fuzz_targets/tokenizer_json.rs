//! Any bytes as `tokenizer.json`: what is accepted encodes and decodes any text, and text never becomes special.
#![no_main]

use kauri_tokenizer::{Special, Tokenizer};
use libfuzzer_sys::fuzz_target;

const TEXTS: [&str; 4] = [
    "Hello <|end|> wörld \u{4E2D}\u{6587} \u{1F600} 12345 it's\n\n  a\tb ",
    "\u{2581}\u{2581}a e\u{301} \u{AC01} \0 \u{FFFD} \u{200D}<s></s>[UNK]##",
    "llllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll",
    "",
];

fuzz_target!(|bytes: &[u8]| {
    let Ok(tokenizer) = Tokenizer::from_json(bytes, &serde_json::Map::new()) else {
        return;
    };
    for text in TEXTS {
        for special in [Special::Text, Special::Parse] {
            let ids = tokenizer.encode(text, special);
            let mut stream = tokenizer.stream();
            let mut streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
            streamed.push_str(&stream.finish());
            assert_eq!(streamed, String::from_utf8_lossy(&tokenizer.decode(&ids, false)));
        }
        tokenizer.encode_prompt(text);
    }
});
