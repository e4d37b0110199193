//! How fast attention is on this machine: printed, nothing is asserted. Run by hand:
//! `cargo test --release -p kauri-device-cpu --lib -- --ignored --nocapture attention_speed`.

use std::time::Instant;

use super::*;

/// Tokens in the cache at the end.
const TOKENS: usize = 2048;

/// One thread, keys and values in the second-level cache; where the best instructions have tiles, without those, too.
#[test]
#[ignore = "measures, run by hand"]
fn attention_speed() {
    for cache in [CacheType::Q8_0, CacheType::Q4_0] {
        for isa in [Isa::best(), Isa::Avx512].into_iter().filter(|isa| isa.is_supported()) {
            let case = Case { side_by_side: true, ..Case::new(cache, [16, 8, 128], TOKENS) };
            let mut bench = Bench::new(&case, Kernels::new(isa).expect("as was asked"), 1);
            bench.run(&[]);
            for tokens in [1, 2, 4, 8, 512] {
                let first = TOKENS - tokens;
                let seconds = bench.quickest(first..TOKENS, if tokens == 512 { 10 } else { 200 });
                let seen: usize = (first..TOKENS).map(|position| position + 1).sum();
                let operations = (4 * case.heads * case.head_dim * seen) as f64;
                let (name, rate, micros) = (isa.name(), operations / seconds / 1e9, seconds * 1e6);
                println!("{cache:?} {name:8} {tokens:4} tokens behind {first}: {rate:6.1} Gop/s, {micros:8.0} us");
            }
        }
    }
}

/// All threads, one token behind as many layers' keys and values as no cache holds, one layer after the other: the median of a hundred and one.
#[test]
#[ignore = "measures, run by hand"]
fn attention_from_memory() {
    const LAYERS: usize = 28;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for cache in [CacheType::Q8_0, CacheType::Q4_0, CacheType::F16] {
        let case = Case { blocks: LAYERS, side_by_side: true, ..Case::new(cache, [16, 8, 128], TOKENS) };
        let mut bench = Bench::new(&case, best(), threads);
        for block in 0..LAYERS {
            bench.block = block;
            bench.run(&[]);
        }
        let mut once = || {
            let seconds = (0..LAYERS).map(|block| {
                bench.block = block;
                bench.quickest(TOKENS - 1..TOKENS, 1)
            });
            seconds.sum::<f64>()
        };
        let mut all: Vec<f64> = (0..101).map(|_| once()).collect();
        all.sort_by(f64::total_cmp);
        let bytes = (LAYERS * TOKENS * case.kv_heads) as f64 * 2.0 * cache.head_bytes(case.head_dim as u32) as f64;
        let micros = |seconds: f64| seconds * 1e6 / LAYERS as f64;
        let [median, quickest] = [all[50], all[0]].map(micros);
        println!("{cache:?}: {median:5.0} us a layer, {:5.1} GB/s; quickest {quickest:5.0} us", bytes / all[50] / 1e9);
    }
}

impl Bench {
    /// The seconds that attention of tokens whose keys are in the cache takes, the quickest of so many times.
    fn quickest(&mut self, tokens: std::ops::Range<usize>, times: usize) -> f64 {
        let width = self.case.heads * self.case.head_dim;
        let mut query = self.case.queries[tokens.start * width..tokens.end * width].to_vec();
        let (mut mixed, attention) = (vec![0.0; query.len()], self.case.attention());
        let mut batch = Batch::default();
        batch.push(&vec![0; tokens.len()], tokens.start as u32, &self.case.pages(), 0, 0, 0);
        let mut once = || {
            let start = Instant::now();
            let buffers = [query.as_mut_slice(), mixed.as_mut_slice()];
            attend(
                &mut self.pool,
                self.kernels,
                &mut self.scratch,
                (&attention).into(),
                &batch,
                (&self.cache, self.block),
                (buffers, None),
            );
            start.elapsed().as_secs_f64()
        };
        (0..times).map(|_| once()).fold(f64::INFINITY, f64::min)
    }
}
