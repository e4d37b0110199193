//! The pages of keys and values in memory, laid out for the attention kernels.
//!
//! A block's values are (pages, `kv_heads`, `page_tokens`, `head_dim`): a token's vector is contiguous. Its keys are (pages,
//! `kv_heads`, `page_tokens` / 16, `head_dim`, 16): sixteen neighbouring tokens stand side by side, so that their scores are the
//! lanes of a vector and no sum runs across lanes. `prompt` decides which page belongs to whom.

use half::f16;
use half::slice::HalfFloatSliceExt;
use kauri_device::{CacheType, Plan};

/// Tokens whose keys stand side by side.
pub const SIDE: usize = 16;

/// Keys and values of one block.
pub struct Cache {
    /// As said above.
    pub keys: Store,
    /// As said above.
    pub values: Store,
    page_tokens: usize,
    kv_heads: usize,
    head_dim: usize,
}

/// Stored numbers.
pub enum Store {
    /// As computed.
    F32(Vec<f32>),
    /// Rounded to half precision.
    F16(Vec<f16>),
}

impl Cache {
    /// An empty cache for every page of the plan.
    pub fn new(plan: &Plan, kv_heads: usize, head_dim: usize) -> Self {
        let page_tokens = plan.page_tokens as usize;
        assert!(page_tokens.is_multiple_of(SIDE), "pages of {page_tokens} tokens; the CPU needs a multiple of {SIDE}");
        // One vector more than there are values: kernels read whole vectors.
        let values = plan.pages as usize * page_tokens * kv_heads * head_dim + SIDE;
        let [keys, values] = [(); 2].map(|()| Store::new(plan.cache, values));
        Self { keys, values, page_tokens, kv_heads, head_dim }
    }

    /// Where the value vector of `position` and `kv_head` starts, for the sequence with this page table.
    pub fn value_at(&self, pages: &[u32], position: usize, kv_head: usize) -> usize {
        self.start(pages, position, kv_head) + position % self.page_tokens * self.head_dim
    }

    /// Where the keys of the sixteen tokens around `position` start.
    pub fn keys_at(&self, pages: &[u32], position: usize, kv_head: usize) -> usize {
        self.start(pages, position, kv_head) + position % self.page_tokens / SIDE * SIDE * self.head_dim
    }

    /// Keeps the key and the value of one token and head.
    pub fn write(&mut self, pages: &[u32], position: usize, kv_head: usize, key: &[f32], value: &[f32]) {
        let key_at = self.keys_at(pages, position, kv_head) + position % SIDE;
        let value_at = self.value_at(pages, position, kv_head);
        self.keys.scatter(key_at, SIDE, key);
        self.values.write(value_at, value);
    }

    /// Gives the key of one token and head back.
    pub fn read_key(&self, pages: &[u32], position: usize, kv_head: usize, key: &mut [f32]) {
        self.keys.gather(self.keys_at(pages, position, kv_head) + position % SIDE, SIDE, key);
    }

    /// Gives the value of one token and head back.
    pub fn read_value(&self, pages: &[u32], position: usize, kv_head: usize, value: &mut [f32]) {
        self.values.gather(self.value_at(pages, position, kv_head), 1, value);
    }

    fn start(&self, pages: &[u32], position: usize, kv_head: usize) -> usize {
        let page = pages[position / self.page_tokens] as usize;
        (page * self.kv_heads + kv_head) * self.page_tokens * self.head_dim
    }
}

impl Store {
    fn new(kind: CacheType, values: usize) -> Self {
        match kind {
            CacheType::F32 => Self::F32(vec![0.0; values]),
            CacheType::F16 => Self::F16(vec![f16::ZERO; values]),
        }
    }

    fn write(&mut self, at: usize, vector: &[f32]) {
        match self {
            Self::F32(values) => values[at..at + vector.len()].copy_from_slice(vector),
            Self::F16(values) => values[at..at + vector.len()].convert_from_f32_slice(vector),
        }
    }

    fn scatter(&mut self, at: usize, step: usize, vector: &[f32]) {
        match self {
            Self::F32(values) => {
                values[at..].iter_mut().step_by(step).zip(vector).for_each(|(place, &value)| *place = value);
            }
            Self::F16(values) => {
                values[at..]
                    .iter_mut()
                    .step_by(step)
                    .zip(vector)
                    .for_each(|(place, &value)| *place = f16::from_f32(value));
            }
        }
    }

    fn gather(&self, at: usize, step: usize, vector: &mut [f32]) {
        match self {
            Self::F32(values) => {
                vector.iter_mut().zip(values[at..].iter().step_by(step)).for_each(|(value, place)| *value = *place);
            }
            Self::F16(values) => {
                vector
                    .iter_mut()
                    .zip(values[at..].iter().step_by(step))
                    .for_each(|(value, place)| *value = place.to_f32());
            }
        }
    }
}
