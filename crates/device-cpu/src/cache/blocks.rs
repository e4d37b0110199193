//! The caches of a model's blocks: blocks whose heads are alike share one, so that all of a token lies together.

use kauri_device::Plan;
use kauri_device::memory::Run;

use super::{Cache, Form};
use crate::pool::Pool;

/// The caches of a model's blocks.
pub struct Caches {
    caches: Vec<Cache>,
    of_blocks: Vec<Option<Share>>,
}

/// Where a block that keeps anything has its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// The number of its cache.
    cache: usize,
    /// Its own number there.
    block: usize,
}

impl Caches {
    /// Empty caches for every page of the plan, for blocks that keep keys and values in these forms. They lie in large pages where all threads
    /// share a memory; where there are several, small pages lie near the thread that stores a head, and a large one would have many heads.
    pub fn new(plan: &Plan, forms: impl Iterator<Item = Option<Form>>, pool: &Pool) -> Self {
        let (counts, of_blocks) = grouped(forms);
        let caches = counts.into_iter().map(|(form, blocks)| Cache::new(plan, form, blocks));
        let mut caches: Vec<_> = caches.collect();
        if pool.memories() == 1 {
            caches.iter_mut().for_each(Cache::prefer_large_pages);
        }
        Self { caches, of_blocks }
    }

    /// Bytes that [`Self::new`] asks the machine for.
    pub fn bytes(plan: &Plan, forms: impl Iterator<Item = Option<Form>>) -> u64 {
        let counts = grouped(forms).0.into_iter();
        counts.map(|(form, blocks)| Cache::bytes(plan, form, blocks)).fold(0, u64::saturating_add)
    }

    /// The cache of a block, if it has one, and the block's number in it.
    pub fn of(&self, block: usize) -> Option<(&Cache, usize)> {
        self.of_blocks[block].map(|share| (&self.caches[share.cache], share.block))
    }

    /// The same, to be written.
    pub fn of_mut(&mut self, block: usize) -> Option<(&mut Cache, usize)> {
        self.of_blocks[block].map(|share| (&mut self.caches[share.cache], share.block))
    }

    /// Walks over what a page has in memory, block by block.
    pub fn walk_page(&mut self, page: usize, run: &mut dyn FnMut(Run<'_>)) {
        for &Share { cache, block } in self.of_blocks.iter().flatten() {
            self.caches[cache].walk_page(block, page, run);
        }
    }

    /// Copies what a page has in memory to another.
    pub fn copy_page(&mut self, from: usize, to: usize) {
        self.caches.iter_mut().for_each(|cache| cache.copy_page(from, to));
    }
}

/// The forms, with how many blocks have each, and each block's share.
fn grouped(forms: impl Iterator<Item = Option<Form>>) -> (Vec<(Form, usize)>, Vec<Option<Share>>) {
    let mut counts: Vec<(Form, usize)> = Vec::new();
    let of_blocks = forms.map(|form| {
        let form = form?;
        let number = counts.iter().position(|&(other, _)| other == form).unwrap_or_else(|| {
            counts.push((form, 0));
            counts.len() - 1
        });
        let count = &mut counts[number].1;
        *count += 1;
        Some(Share { cache: number, block: *count - 1 })
    });
    let of_blocks = of_blocks.collect();
    (counts, of_blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_whose_heads_are_alike_share_a_cache() {
        let [wide, narrow] = [128, 64].map(|head_dim| Form::Heads { kv_heads: 2, head_dim });
        let rows = Form::Rows { start: 64, count: 512 };
        let (counts, of_blocks) = grouped([Some(wide), None, Some(narrow), Some(wide), Some(rows)].into_iter());
        assert_eq!(counts, [(wide, 2), (narrow, 1), (rows, 1)]);
        let share = |cache, block| Some(Share { cache, block });
        assert_eq!(of_blocks, [share(0, 0), None, share(1, 0), share(0, 1), share(2, 0)]);
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn caches_lie_in_large_pages_where_there_is_one_memory() {
        use kauri_device::CacheType;

        use super::super::Kept;
        use crate::aligned::tests::is_in_large_pages;

        let plan = Plan {
            page_tokens: 32,
            // More than an allocator keeps at hand.
            pages: 1 << 14,
            batch_tokens: 1,
            batch_outputs: 1,
            slots: 1,
            cache: CacheType::Q8_0,
            ring: None,
        };
        let pool = Pool::new(1);
        let form = Form::Heads { kv_heads: 2, head_dim: 128 };
        let caches = Caches::new(&plan, [Some(form)].into_iter(), &pool);
        let (cache, _) = caches.of(0).expect("the only block's");
        let Kept::Q8_0(bytes) = &cache.kept else { panic!("as planned") };
        for part in [&bytes.keys, &bytes.values] {
            assert!(is_in_large_pages(part).is_none_or(|found| found == (pool.memories() == 1)));
        }
    }
}
