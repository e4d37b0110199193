//! Four hundred schemas with labelled instances (`../shared/fixtures/schemas`, from `JSONSchemaBench`), on a vocabulary of 150,000
//! tokens: what is accepted, what is refused and why, and what masks take.
//!
//! Skips with a printed reason where the schemas are not there.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kauri_formats::{Bytes, Checkpoint};
use kauri_step::grammar::{Compiler, Constraint, Error, Grammar};
use kauri_tokenizer::{Special, Tokenizer};
use serde_json::Value;

fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

fn unpacked(path: &Path) -> Tokenizer {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    Tokenizer::from_checkpoint(&Checkpoint::from_bytes(&Bytes::from(bytes)).unwrap()).unwrap()
}

/// What was measured.
#[derive(Default)]
struct Tally {
    accepted: usize,
    refused: BTreeMap<String, usize>,
    right: [usize; 2],
    /// Accepted with their properties in the schema's order.
    reordered: usize,
    wrong: Vec<String>,
    compile: Vec<Duration>,
    first_mask: Vec<Duration>,
    masks: Vec<Duration>,
    forced_tokens: usize,
    tokens: usize,
}

#[test]
fn labelled_instances_are_accepted_and_rejected_as_labelled() {
    let Some(schemas) = shared("fixtures/schemas/schemas.jsonl") else { return };
    let Some(vocabulary) = shared("fixtures/tokenizers/qwen2.gguf.gz") else { return };
    let tokenizer = unpacked(&vocabulary);
    let start = Instant::now();
    let compiler = Compiler::new(&tokenizer, tokenizer.vocab_size());
    let prepared = start.elapsed();
    let mut tally = Tally::default();
    for line in std::fs::read_to_string(schemas).unwrap().lines() {
        measure(&compiler, &tokenizer, &serde_json::from_str(line).unwrap(), &mut tally);
    }
    let refused: usize = tally.refused.values().sum();
    let all = tally.accepted + refused;
    println!("{} tokens, prepared in {prepared:.0?}", tokenizer.vocab_size());
    println!("schemas: {} accepted, {refused} refused ({:.1}%)", tally.accepted, 100.0 * refused as f64 / all as f64);
    tally.refused.iter().for_each(|(reason, count)| println!("  {count:4}  {reason}"));
    let [rejected, accepted] = tally.right;
    let [reordered, wrong] = [tally.reordered, tally.wrong.len()];
    println!(
        "instances: {accepted} valid accepted ({reordered} put in order), {rejected} invalid rejected, {wrong} otherwise"
    );
    tally.wrong.iter().for_each(|wrong| println!("  {wrong}"));
    println!("forced: {} of {} tokens of valid instances", tally.forced_tokens, tally.tokens);
    let times = [("compile", &mut tally.compile), ("first mask", &mut tally.first_mask), ("mask", &mut tally.masks)];
    for (name, times) in times {
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let [p50, p90, p99, most] = [0.5, 0.9, 0.99, 1.0].map(at);
        println!("{name}: {} times, p50 {p50:.1?}, p90 {p90:.1?}, p99 {p99:.1?}, most {most:.1?}", times.len());
    }
    assert!(tally.wrong.is_empty(), "{} instances are not as labelled", tally.wrong.len());
    assert!(refused * 100 < all * 22, "{refused} of {all} schemas are refused");
}

fn measure(compiler: &Compiler, tokenizer: &Tokenizer, record: &Value, tally: &mut Tally) {
    let id = record["id"].as_str().unwrap();
    let start = Instant::now();
    let compiled = match compiler.compile(&Grammar::JsonSchema(record["schema"].to_string())) {
        Ok(compiled) => compiled,
        Err(error) => {
            println!("{id}: {error}");
            *tally.refused.entry(reason(&error)).or_default() += 1;
            return;
        }
    };
    tally.accepted += 1;
    tally.compile.push(start.elapsed());
    compiled.start(&[]).advance().unwrap();
    tally.first_mask.push(start.elapsed());
    for (index, test) in record["tests"].as_array().unwrap().iter().enumerate() {
        let valid = test["valid"].as_bool().unwrap();
        let data = &test["data"];
        for text in [data.to_string(), serde_json::to_string_pretty(data).unwrap()] {
            let mut accepted = accepts(compiled.start(&[]), tokenizer, &text, tally);
            if accepted && valid {
                count_forced(compiled.start(&[]), tokenizer, &text, tally);
            }
            if !accepted {
                // A grammar writes properties in one order; whether a value is valid does not depend on it.
                accepted = accepts(compiled.start(&[]), tokenizer, &compiled.as_written(&text), tally);
                tally.reordered += usize::from(accepted);
            }
            if accepted == valid {
                tally.right[usize::from(valid)] += 1;
            } else {
                let python = &test["python_jsonschema"];
                let text: String = text.chars().take(300).collect();
                tally.wrong.push(format!("{id} test {index}: labelled {valid}, python says {python}: {text}"));
            }
        }
    }
}

fn accepts(mut constraint: Constraint, tokenizer: &Tokenizer, text: &str, tally: &mut Tally) -> bool {
    for token in tokenizer.encode(text, Special::Text) {
        let start = Instant::now();
        let masked = constraint.advance().is_ok();
        tally.masks.push(start.elapsed());
        if !masked || constraint.commit(token).is_err() {
            return false;
        }
    }
    constraint.may_end()
}

/// How much of a text need not be asked of a model. What is forced must be what the text has.
fn count_forced(mut constraint: Constraint, tokenizer: &Tokenizer, text: &str, tally: &mut Tally) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let forced = constraint.forced();
        let bytes: Vec<u8> = forced.iter().flat_map(|&id| tokenizer.token_bytes(id).unwrap()).copied().collect();
        let follows = String::from_utf8_lossy(rest);
        assert!(rest.starts_with(&bytes), "{:?} was forced where {follows:?} follows", String::from_utf8_lossy(&bytes));
        rest = &rest[bytes.len()..];
        tally.forced_tokens += forced.len();
        tally.tokens += forced.len();
        if rest.is_empty() {
            break;
        }
        let mask = constraint.advance().unwrap();
        // The longest token that goes on with the text, of those that are allowed.
        let fits = |id: &u32| {
            let bytes = tokenizer.token_bytes(*id).unwrap_or_default();
            !bytes.is_empty() && rest.starts_with(bytes) && mask.allows(*id)
        };
        let longest = |id: &u32| tokenizer.token_bytes(*id).unwrap_or_default().len();
        let token = tokenizer.encode(&String::from_utf8_lossy(rest), Special::Text).into_iter().next().filter(fits);
        let token = token.or_else(|| (0..tokenizer.vocab_size() as u32).filter(fits).max_by_key(longest));
        let token = token.unwrap_or_else(|| panic!("the mask allows no token of {:?}", String::from_utf8_lossy(rest)));
        constraint.commit(token).unwrap();
        rest = &rest[longest(&token)..];
        tally.tokens += 1;
    }
    assert!(constraint.may_end(), "{text}");
}

fn reason(error: &Error) -> String {
    match error {
        Error::Unsupported { keyword, reason, .. } => format!("{keyword}: {reason}"),
        Error::Invalid { keyword, .. } => format!("{keyword} is wrong"),
        Error::Limit { what, .. } => format!("more {what} than accepted"),
        Error::Syntax { reason, .. } => reason.clone(),
        Error::Impossible { .. } => "nothing obeys it".to_owned(),
        Error::InTool { error, .. } => reason(error),
        Error::TooComplex(_) | Error::NoToken | Error::Disobeyed(_) => error.to_string(),
    }
}
