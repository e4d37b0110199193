//! Keys and values of one block: which arrays there are, and what a page is in each of them.

use std::sync::Arc;

use kauri_device::{CacheType, Plan};

use crate::driver::{Allocation, Failure, Gpu};

/// The cache of one block. See `kernels/cache.cuh` for what lies where.
pub(crate) struct Cache {
    /// Codes and scales of keys, then of values; those of rows are keys alone.
    arrays: [Option<Allocation>; 4],
    kind: CacheType,
    pages: usize,
}

impl Cache {
    /// Of keys and values.
    pub(crate) fn new(gpu: &Arc<Gpu>, plan: &Plan, kv_heads: usize, head_dim: usize) -> Result<Self, Failure> {
        Self::sized(gpu, plan, plan.cache, kv_heads, head_dim, 2)
    }

    /// Of rows that are keys and values at once.
    pub(crate) fn of_rows(gpu: &Arc<Gpu>, plan: &Plan, width: usize) -> Result<Self, Failure> {
        Self::sized(gpu, plan, plan.cache.of_rows(), 1, width, 1)
    }

    fn sized(
        gpu: &Arc<Gpu>,
        plan: &Plan,
        kind: CacheType,
        heads: usize,
        width: usize,
        halves: usize,
    ) -> Result<Self, Failure> {
        let places = plan.pages as usize * plan.page_tokens as usize;
        let (codes, scales) = head_bytes(kind, width);
        let mut arrays = [None, None, None, None];
        for half in 0..halves {
            for (array, bytes) in [codes, scales].into_iter().enumerate().filter(|&(_, bytes)| bytes > 0) {
                let allocation = gpu.allocate(places * heads * bytes)?;
                gpu.set(&allocation, 0)?;
                arrays[2 * half + array] = Some(allocation);
            }
        }
        Ok(Self { arrays, kind, pages: plan.pages as usize })
    }

    /// Bytes of a block's cache.
    pub(crate) fn bytes(plan: &Plan, kind: CacheType, heads: usize, width: usize, halves: usize) -> u64 {
        let (codes, scales) = head_bytes(kind, width);
        let places = u64::from(plan.pages) * u64::from(plan.page_tokens);
        places * (heads * (codes + scales) * halves) as u64
    }

    /// Where codes and scales of keys and of values are; of rows, the same twice.
    pub(crate) fn places(&self) -> [u64; 4] {
        let at = |index: usize| self.arrays[index].as_ref().map_or(0, Allocation::at);
        let values = if self.arrays[2].is_some() { 2 } else { 0 };
        [at(0), at(1), at(values), at(values + 1)]
    }

    /// The ending of the kernels that know this way of keeping.
    pub(crate) fn kind(&self) -> &'static str {
        match self.kind {
            CacheType::F32 => "f32",
            CacheType::F16 => "f16",
            CacheType::Q8_0 => "q8",
            CacheType::Q4_0 => "q4",
        }
    }

    /// Where a page is in each array, and its bytes there.
    pub(crate) fn runs(&self, page: usize) -> impl Iterator<Item = (u64, usize)> {
        self.arrays.iter().flatten().map(move |array| {
            let bytes = array.bytes() / self.pages;
            (array.at() + (page * bytes) as u64, bytes)
        })
    }

    /// Every array.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Allocation> {
        self.arrays.iter().flatten()
    }
}

/// Bytes of the codes and of the scales of a head's key, or of its value, of one token.
fn head_bytes(kind: CacheType, width: usize) -> (usize, usize) {
    let (wide, scales) = (width.next_multiple_of(32), width.div_ceil(32) * 2);
    match kind {
        CacheType::F32 => (4 * width, 0),
        CacheType::F16 => (2 * width, 0),
        CacheType::Q8_0 => (wide, scales),
        CacheType::Q4_0 => (wide / 2, scales),
    }
}
