//! The pages of keys and values in memory.
//!
//! One block's cache is (pages, `kv_heads`, `page_tokens`, `head_dim`) for keys and the same for values: what one query head
//! reads of a page is contiguous. `prompt` decides which page belongs to whom.

use half::f16;
use half::slice::HalfFloatSliceExt;
use kauri_device::{CacheType, Plan};

/// Keys and values of one block.
pub struct Cache {
    /// Keys.
    pub keys: Store,
    /// Values.
    pub values: Store,
    page_tokens: usize,
    kv_heads: usize,
    head_dim: usize,
}

/// Stored vectors of `head_dim` values.
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
        let values = plan.pages as usize * page_tokens * kv_heads * head_dim;
        Self {
            keys: Store::new(plan.cache, values),
            values: Store::new(plan.cache, values),
            page_tokens,
            kv_heads,
            head_dim,
        }
    }

    /// Where the vector of `position` and `kv_head` starts, for the sequence with this page table.
    pub fn at(&self, pages: &[u32], position: usize, kv_head: usize) -> usize {
        let page = pages[position / self.page_tokens] as usize;
        ((page * self.kv_heads + kv_head) * self.page_tokens + position % self.page_tokens) * self.head_dim
    }
}

impl Store {
    fn new(kind: CacheType, values: usize) -> Self {
        match kind {
            CacheType::F32 => Self::F32(vec![0.0; values]),
            CacheType::F16 => Self::F16(vec![f16::ZERO; values]),
        }
    }

    /// Keeps one vector.
    pub fn write(&mut self, at: usize, vector: &[f32]) {
        match self {
            Self::F32(values) => values[at..at + vector.len()].copy_from_slice(vector),
            Self::F16(values) => values[at..at + vector.len()].convert_from_f32_slice(vector),
        }
    }

    /// Gives one vector back.
    pub fn read(&self, at: usize, vector: &mut [f32]) {
        match self {
            Self::F32(values) => vector.copy_from_slice(&values[at..at + vector.len()]),
            Self::F16(values) => values[at..at + vector.len()].convert_to_f32_slice(vector),
        }
    }
}
