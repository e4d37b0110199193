//! The batch of a step, on the device at fixed places, so that a recorded step finds the next batch where it found the last.

use std::sync::Arc;

use kauri_device::{Batch, Plan};

use crate::driver::{Allocation, Failure, Gpu, Grid, Pinned};

/// Bytes of the structures in `kernels/plain.cuh`.
const TOKEN_BYTES: usize = 16;
const SEQUENCE_BYTES: usize = 32;
const TILE_BYTES: usize = 20;
/// Neighbouring tokens of a sequence that attention takes at once.
const TILE_TOKENS: usize = 64;
/// Counts at the head of what is sent.
const COUNTS: usize = 8;

/// Where the batch is, and how it gets there.
pub(crate) struct Step {
    gpu: Arc<Gpu>,
    staged: Pinned,
    sent: Allocation,
    _memory: Allocation,
    counts: u64,
    tokens: u64,
    sequences: u64,
    outputs: u64,
    pages: u64,
    tiles: u64,
    page_tokens: u64,
    /// Double words that were staged.
    words: Vec<u32>,
}

impl Step {
    /// Sized for `plan`.
    pub(crate) fn new(gpu: &Arc<Gpu>, plan: &Plan) -> Result<Self, Failure> {
        let [tokens, outputs, pages] = [plan.batch_tokens, plan.batch_outputs, plan.pages].map(|count| count as usize);
        // Sequences that share pages each name them; more than this a step cannot hold.
        let listed = pages_listed_max(plan);
        let words = COUNTS
            + tokens.next_multiple_of(4)
            + tokens * SEQUENCE_BYTES / 4
            + outputs
            + listed
            + tokens * TILE_BYTES / 4;
        let sizes = [
            64,
            TOKEN_BYTES * tokens,
            SEQUENCE_BYTES * tokens,
            4 * outputs,
            4 * listed.max(pages),
            TILE_BYTES * tokens,
        ];
        let mut starts = [0; 6];
        let mut bytes = 0;
        for (start, size) in starts.iter_mut().zip(sizes) {
            *start = bytes as u64;
            bytes += size.next_multiple_of(256);
        }
        let memory = gpu.allocate(bytes)?;
        gpu.set(&memory, 0)?;
        let [counts, tokens, sequences, outputs, pages, tiles] = starts.map(|start| memory.at() + start);
        let (staged, sent) = (gpu.pin(4 * words)?, gpu.allocate(4 * words)?);
        let page_tokens = u64::from(plan.page_tokens);
        let words = Vec::with_capacity(words);
        let gpu = gpu.clone();
        Ok(Self {
            gpu,
            staged,
            sent,
            _memory: memory,
            counts,
            tokens,
            sequences,
            outputs,
            pages,
            tiles,
            page_tokens,
            words,
        })
    }

    /// Sends a batch. What was sent before has arrived: whoever starts a step has waited for the one before the last.
    pub(crate) fn send(&mut self, batch: &Batch) -> Result<(), Failure> {
        let Self { words, .. } = self;
        words.clear();
        let counts = [batch.tokens.len(), batch.outputs.len(), batch.sequences.len(), batch.pages.len()];
        words.extend(counts.map(|count| count as u32));
        words.push(tiles(batch) as u32);
        words.resize(COUNTS, 0);
        words.extend_from_slice(&batch.tokens);
        words.resize(COUNTS + batch.tokens.len().next_multiple_of(4), 0);
        for sequence in &batch.sequences {
            words.extend([
                sequence.tokens.start as u32,
                sequence.tokens.len() as u32,
                sequence.cached_tokens,
                sequence.pages.start as u32,
                sequence.slot,
                sequence.second_start,
                sequence.reach_tokens,
                0,
            ]);
        }
        words.extend_from_slice(&batch.outputs);
        words.extend_from_slice(&batch.pages);
        for sequence in &batch.sequences {
            let end = sequence.positions().end;
            for start in (0..sequence.tokens.len()).step_by(TILE_TOKENS) {
                let count = (sequence.tokens.len() - start).min(TILE_TOKENS);
                let (token, position) = (sequence.tokens.start + start, sequence.cached_tokens + start as u32);
                words.extend([token as u32, count as u32, position, end, sequence.pages.start as u32]);
            }
        }
        // The last copy out of the staging memory is over when everything before this is.
        self.gpu.wait()?;
        let bytes = 4 * words.len();
        let staged = self.staged.bytes_mut().as_chunks_mut().0.iter_mut();
        staged.zip(words.iter()).for_each(|(to, word)| *to = word.to_le_bytes());
        self.gpu.send(&self.staged, 0, bytes, self.sent.at())
    }

    /// Lays out what was sent; there are so many tokens and tiles at most.
    pub(crate) fn begin(&self, tokens: usize, tiles: usize) -> Result<(), Failure> {
        let grid = Grid::new([tokens.div_ceil(128).max(4), 1, 1], 128);
        let Self { counts, tokens, sequences, outputs, pages, tiles: places, .. } = *self;
        let [sent, counts, tokens, sequences, outputs, pages, places] =
            [self.sent.at(), counts, tokens, sequences, outputs, pages, places].map(Into::into);
        self.gpu.launch("begin", grid, &[sent, counts, tokens, sequences, outputs, pages, places, tiles.into()])
    }

    /// The batch as kernels are given it.
    pub(crate) fn batch(&self) -> [u64; 6] {
        [self.counts, self.tokens, self.sequences, self.outputs, self.pages, self.page_tokens]
    }

    /// Where the page tables are, and the tiles.
    pub(crate) fn tables(&self) -> [u64; 2] {
        [self.pages, self.tiles]
    }

    /// Where the number of tokens is.
    pub(crate) fn token_count(&self) -> u64 {
        self.counts
    }

    /// Where the number of outputs is.
    pub(crate) fn output_count(&self) -> u64 {
        self.counts + 4
    }
}

/// Tiles that attention takes a batch in.
pub(crate) fn tiles(batch: &Batch) -> usize {
    batch.sequences.iter().map(|sequence| sequence.tokens.len().div_ceil(TILE_TOKENS)).sum()
}

/// Tokens of the longest sequence of a batch, with those of the batch.
pub(crate) fn longest(batch: &Batch) -> usize {
    batch.sequences.iter().map(|sequence| sequence.positions().end as usize).max().unwrap_or(0)
}

/// Entries that the page tables of a batch have together, at most: each sequence may name every page of the window it shares.
fn pages_listed_max(plan: &Plan) -> usize {
    let (pages, tokens) = (plan.pages as usize, plan.batch_tokens as usize);
    pages.saturating_mul(tokens).min(pages + (1 << 20))
}
