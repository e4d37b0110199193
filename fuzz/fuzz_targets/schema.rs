//! Any text as a JSON schema, an expression, a grammar: what is accepted gives masks, and what a mask allows can be committed.
#![no_main]

use std::sync::LazyLock;

use kauri_formats::Checkpoint;
use kauri_step::grammar::{Compiler, Grammar};
use kauri_tokenizer::Tokenizer;
use libfuzzer_sys::fuzz_target;

static MODEL: &[u8] = include_bytes!("../../models/kauri-nano-Q4_K_M.gguf");
static COMPILER: LazyLock<Compiler> = LazyLock::new(|| {
    let checkpoint = Checkpoint::from_static(MODEL).expect("the model of the repository");
    let tokenizer = Tokenizer::from_checkpoint(&checkpoint).expect("its vocabulary");
    Compiler::new(&tokenizer, tokenizer.vocab_size())
});

fuzz_target!(|text: &str| {
    let all = [Grammar::JsonSchema, Grammar::Regex, Grammar::Gbnf];
    for grammar in all.map(|kind| kind(text.to_owned())) {
        let Ok(compiled) = COMPILER.compile(&grammar) else { continue };
        let mut constraint = compiled.start(&[]);
        for step in 0..20_u32 {
            constraint.forced();
            if constraint.is_done() || constraint.advance().is_err() {
                break;
            }
            let words = constraint.mask().words();
            let ids: Vec<u32> = (0..words.len() as u32 * 32).filter(|&id| constraint.mask().allows(id)).collect();
            constraint.commit(ids[step as usize * 7919 % ids.len()]).expect("what the mask allows");
        }
    }
});
