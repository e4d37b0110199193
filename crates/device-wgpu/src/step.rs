//! The batch of a step as kernels read it: one buffer of words, written ahead of the step.
//!
//! ```text
//! word 0..3   tokens, outputs, sequences
//! word 3      tokens to a page
//! word 4..8   where tokens, sequences, outputs and page tables begin
//! then        a token: id, position, sequence, tokens that its sequence has with this step
//!             a sequence: first token, tokens, tokens cached, where its page table begins, slot, second text, reach, 0
//!             outputs: indices of tokens; page tables, one after the other
//! ```

use kauri_device::{Batch, Plan};

use crate::driver::{Failure, Gpu};

const HEADER: usize = 16;
const TOKEN_WORDS: usize = 4;
const SEQUENCE_WORDS: usize = 8;

/// Where the batch is.
pub(crate) struct Step {
    pub(crate) buffer: wgpu::Buffer,
    page_tokens: u32,
    words_max: usize,
    words: Vec<u32>,
    bytes: Vec<u8>,
}

impl Step {
    /// Sized for `plan`.
    pub(crate) fn new(gpu: &Gpu, plan: &Plan) -> Result<Self, Failure> {
        let [tokens, outputs] = [plan.batch_tokens, plan.batch_outputs].map(|count| count as usize);
        let words_max = HEADER + tokens * (TOKEN_WORDS + SEQUENCE_WORDS) + outputs + pages_listed_max(plan);
        let buffer = gpu.buffer("step", 4 * words_max as u64)?;
        let words = Vec::with_capacity(words_max);
        Ok(Self { buffer, page_tokens: plan.page_tokens, words_max, words, bytes: Vec::with_capacity(4 * words_max) })
    }

    /// Writes a batch, ahead of the work that is started next.
    pub(crate) fn send(&mut self, gpu: &Gpu, batch: &Batch) {
        let Self { words, .. } = self;
        let [tokens, outputs, sequences] = [batch.tokens.len(), batch.outputs.len(), batch.sequences.len()];
        let at_sequences = HEADER + TOKEN_WORDS * tokens;
        let at_outputs = at_sequences + SEQUENCE_WORDS * sequences;
        let at_pages = at_outputs + outputs;
        let page_tokens = self.page_tokens as usize;
        let header = [tokens, outputs, sequences, page_tokens, HEADER, at_sequences, at_outputs, at_pages];
        words.clear();
        words.extend(header.map(|word| word as u32));
        words.resize(HEADER, 0);
        for (index, sequence) in batch.sequences.iter().enumerate() {
            let end = sequence.positions().end;
            for (id, position) in batch.tokens[sequence.tokens.clone()].iter().zip(sequence.positions()) {
                words.extend([*id, position, index as u32, end]);
            }
        }
        for sequence in &batch.sequences {
            words.extend([
                sequence.tokens.start as u32,
                sequence.tokens.len() as u32,
                sequence.cached_tokens,
                (at_pages + sequence.pages.start) as u32,
                sequence.slot,
                sequence.second_start,
                sequence.reach_tokens,
                0,
            ]);
        }
        words.extend_from_slice(&batch.outputs);
        words.extend_from_slice(&batch.pages);
        assert!(words.len() <= self.words_max, "{} words of a step of {}", words.len(), self.words_max);
        self.bytes.clear();
        self.bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        gpu.write(&self.buffer, 0, &self.bytes);
    }
}

/// Entries that the page tables of a batch have together, at most: each sequence may name every page of the window it shares.
fn pages_listed_max(plan: &Plan) -> usize {
    let (pages, tokens) = (plan.pages as usize, plan.batch_tokens as usize);
    pages.saturating_mul(tokens).min(pages + (1 << 20))
}
