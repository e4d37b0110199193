//! Measures a tokenizer: time to load, speed on a text, and time on long runs of one character.
//!
//! `cargo run --release -p kauri-tokenizer --example measure -- MODEL TEXT`, where MODEL is a GGUF file or a directory.

use std::error::Error;
use std::time::Instant;

use kauri_formats::Checkpoint;
use kauri_tokenizer::{Special, Tokenizer};

/// Short texts are repeated to this length.
const TEXT_BYTES_MIN: usize = 4_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(text)) = (arguments.next(), arguments.next()) else {
        return Err("usage: measure MODEL TEXT".into());
    };
    let checkpoint = Checkpoint::open(&model)?;
    let (tokenizer, first_s) = timed(|| Tokenizer::from_checkpoint(&checkpoint));
    let tokenizer = tokenizer?;
    let best_s = (0..9).map(|_| timed(|| Tokenizer::from_checkpoint(&checkpoint)).1).fold(first_s, f64::min);
    println!("{} tokens, load {:.1} ms, best of 10 {:.1} ms", tokenizer.vocab_size(), first_s * 1e3, best_s * 1e3);

    let text = std::fs::read_to_string(text)?;
    let text = text.repeat(TEXT_BYTES_MIN.div_ceil(text.len().max(1)));
    let megabytes = text.len() as f64 / 1e6;
    let encode = |_| timed(|| tokenizer.encode(&text, Special::Text));
    let (ids, encode_s) = (0..3).map(encode).min_by(|a, b| a.1.total_cmp(&b.1)).ok_or("nothing was measured")?;
    let (_, decode_s) = timed(|| tokenizer.decode(&ids, false));
    println!("encode {:.1} MB/s ({} ids), decode {:.0} MB/s", megabytes / encode_s, ids.len(), megabytes / decode_s);

    for character in ["a", " ", "\n", "7", "\u{4E2D}", "\u{1F600}", "\u{301}"] {
        print!("{character:?} times");
        for megabytes in [1, 2, 4, 8] {
            let text = character.repeat(megabytes * 1_000_000 / character.len());
            let (ids, seconds) = timed(|| tokenizer.encode(&text, Special::Text));
            print!("  {megabytes} MB {:.0} ms ({} ids)", seconds * 1e3, ids.len());
        }
        println!();
    }
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed().as_secs_f64())
}
