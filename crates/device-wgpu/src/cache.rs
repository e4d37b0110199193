//! What one block keeps between steps, keys and values and states, in one buffer: where what lies, and what a page or a slot is in it.

use kauri_arch::{Block, Mixer};
use kauri_device::{CacheType, Plan};

use crate::driver::{Failure, Gpu};

/// An array of a block's memory: as many equal pieces as there are pages, or slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Array {
    /// Its first word.
    pub(crate) at: usize,
    /// Words of a page, or of a slot.
    pub(crate) words: usize,
}

/// The memory of one block.
pub(crate) struct Kept {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) kind: CacheType,
    /// Values and scales of keys, then of values; of rows that are both, the same twice.
    pub(crate) cache: [Array; 4],
    /// Of convolutions or what was shifted last, of recurrences, of a network that leans.
    pub(crate) tail: Array,
    pub(crate) recurrent: Array,
    pub(crate) shifted: Array,
    is_of_rows: bool,
}

impl Kept {
    /// Sized for what `block` keeps.
    pub(crate) fn new<W>(gpu: &Gpu, plan: &Plan, block: &Block<W>) -> Result<Self, Failure> {
        let (kind, [values, scales], is_of_rows) = layout(plan, block);
        let mut words = 0;
        let mut array = |each: usize, count: u32| {
            let array = Array { at: words, words: each };
            words += each * count as usize;
            array
        };
        let mut cache = [Array::default(); 4];
        for half in 0..if is_of_rows { 1 } else { 2 } {
            cache[2 * half] = array(values * plan.page_tokens as usize, plan.pages);
            cache[2 * half + 1] = array(scales * plan.page_tokens as usize, plan.pages);
        }
        if is_of_rows {
            (cache[2], cache[3]) = (cache[0], cache[1]);
        }
        let state = block.state();
        let [tail, recurrent, shifted] =
            [state.tail, state.recurrent, state.shifted].map(|values| array(values as usize, plan.slots));
        let buffer = gpu.buffer("kept", 4 * words as u64)?;
        Ok(Self { buffer, kind, cache, tail, recurrent, shifted, is_of_rows })
    }

    /// Bytes of a block's memory.
    pub(crate) fn bytes<W>(plan: &Plan, block: &Block<W>) -> u64 {
        let (_, words, is_of_rows) = layout(plan, block);
        let places = u64::from(plan.pages) * u64::from(plan.page_tokens);
        let each = words.into_iter().sum::<usize>() as u64 * if is_of_rows { 1 } else { 2 };
        4 * (places * each + block.state().values() * u64::from(plan.slots))
    }

    /// Where a page is in each array, and its bytes there.
    pub(crate) fn page_runs(&self, page: usize) -> impl Iterator<Item = (u64, u64)> {
        let arrays = &self.cache[..if self.is_of_rows { 2 } else { 4 }];
        arrays.iter().map(move |array| array.run(page)).filter(|(_, bytes)| *bytes > 0)
    }

    /// Where the state of a slot is in each array, and its bytes there.
    pub(crate) fn state_runs(&self, slot: usize) -> impl Iterator<Item = (u64, u64)> {
        let arrays = [self.tail, self.recurrent, self.shifted].into_iter();
        arrays.map(move |array| array.run(slot)).filter(|(_, bytes)| *bytes > 0)
    }
}

impl Array {
    fn run(self, index: usize) -> (u64, u64) {
        (4 * (self.at + index * self.words) as u64, 4 * self.words as u64)
    }
}

/// How a block keeps keys and values, the words of a token's values and scales on one side, and whether there is but one side.
fn layout<W>(plan: &Plan, block: &Block<W>) -> (CacheType, [usize; 2], bool) {
    let latent = block.mixer().and_then(Mixer::latent);
    let attention = block.mixer().and_then(Mixer::attention);
    match (latent, attention) {
        (Some(latent), _) => {
            let kind = plan.cache.of_rows();
            (kind, row_words(kind, latent.row() as usize), true)
        }
        (None, Some(attention)) => {
            let words = row_words(plan.cache, attention.head_dim as usize);
            (plan.cache, words.map(|words| words * attention.kv_heads as usize), false)
        }
        (None, None) => (plan.cache, [0; 2], false),
    }
}

/// Words of the values and of the scales of a head's key, or of its value, of one token: as in `shaders/cache.wgsl`.
fn row_words(kind: CacheType, width: usize) -> [usize; 2] {
    let (fours, blocks) = (width.div_ceil(4), width.div_ceil(32));
    match kind {
        CacheType::F32 => [4 * fours, 0],
        CacheType::F16 => [2 * fours, 0],
        CacheType::Q8_0 => [8 * blocks, blocks.div_ceil(2)],
        CacheType::Q4_0 => [4 * blocks, blocks.div_ceil(2)],
    }
}
