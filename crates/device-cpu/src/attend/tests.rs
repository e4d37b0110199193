//! Attention on every instruction set against the formula in `f64` on what the cache gives back, and against itself: the same
//! bits on any number of threads, in any batch, however a prompt is cut, whatever lies in places that nobody wrote.

mod speed;

use kauri_arch::{Attention, Linear};
use kauri_device::conformance::Random;
use kauri_device::memory::{self, Run};
use kauri_device::{Batch, CacheType, Extent, Matrix, Plan, Weight};
use kauri_formats::{Bytes, Quant};

use super::{Scratch, attend};
use crate::cache::{Cache, Form};
use crate::detect::{Isa, Kernels};
use crate::matmul::{self, Job, Source};
use crate::pool::Pool;
use crate::product::Finish;

const TYPES: [CacheType; 4] = [CacheType::F32, CacheType::F16, CacheType::Q8_0, CacheType::Q4_0];
const PAGE_TOKENS: u32 = 16;

/// One layer and the keys, values and queries of a sequence.
#[derive(Clone)]
struct Case {
    cache: CacheType,
    /// Layers that share the cache, of which this is one in the middle.
    blocks: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    tokens: usize,
    side_by_side: bool,
    window_tokens: Option<u32>,
    soft_cap: Option<f32>,
    alibi: Option<f32>,
    scale: f32,
    /// (tokens, heads, `head_dim`).
    queries: Vec<f32>,
    /// (tokens, `kv_heads`, `head_dim`).
    keys: Vec<f32>,
    /// The same.
    values: Vec<f32>,
}

impl Case {
    fn new(cache: CacheType, [heads, kv_heads, head_dim]: [usize; 3], tokens: usize) -> Self {
        let mut random = Random((heads * 31 + head_dim * 7 + tokens) as u64);
        Self {
            cache,
            blocks: 3,
            heads,
            kv_heads,
            head_dim,
            tokens,
            side_by_side: false,
            window_tokens: None,
            soft_cap: None,
            alibi: None,
            scale: 1.0 / (head_dim as f32).sqrt(),
            queries: random.values(tokens * heads * head_dim, 2.0),
            keys: random.values(tokens * kv_heads * head_dim, 2.0),
            values: random.values(tokens * kv_heads * head_dim, 1.0),
        }
    }

    fn attention(&self) -> Attention<Weight> {
        let linear = || Linear {
            rows: 0,
            columns: 0,
            weight: Weight::Matrix(Matrix {
                quant: Quant::F32,
                rows: 0,
                columns: 0,
                data: Bytes::from(Vec::new()),
                scales: None,
            }),
            bias: None,
        };
        Attention {
            heads: self.heads as u32,
            kv_heads: self.kv_heads as u32,
            head_dim: self.head_dim as u32,
            gated: false,
            q: linear(),
            k: linear(),
            v: linear(),
            output: linear(),
            q_norm: None,
            k_norm: None,
            rope: None,
            window_tokens: self.window_tokens,
            both_ways: false,
            soft_cap: self.soft_cap,
            scale: self.scale,
            alibi: self.alibi,
            sinks: None,
        }
    }

    fn plan(&self) -> Plan {
        let tokens = self.tokens as u32;
        // Twice as many pages as are needed, to leave places between that nobody writes.
        let pages = 2 * tokens.div_ceil(PAGE_TOKENS) + 3;
        Plan {
            page_tokens: PAGE_TOKENS,
            pages,
            batch_tokens: tokens,
            batch_outputs: 1,
            slots: 3,
            cache: self.cache,
            ring: None,
        }
    }

    fn form(&self) -> Form {
        Form::Heads { kv_heads: self.kv_heads as u32, head_dim: self.head_dim as u32 }
    }

    /// Every other page, in an order of its own, unless all are to stand side by side.
    fn pages(&self) -> Vec<u32> {
        let pages = 0..=self.tokens as u32 / PAGE_TOKENS;
        if self.side_by_side { pages.collect() } else { pages.rev().map(|page| 2 * page + 1).collect() }
    }
}

/// A cache and workers.
struct Bench {
    case: Case,
    block: usize,
    cache: Cache,
    pool: Pool,
    kernels: Kernels,
    scratch: Vec<Scratch>,
}

impl Bench {
    fn new(case: &Case, kernels: Kernels, threads: usize) -> Self {
        let (plan, pool) = (case.plan(), Pool::new(threads));
        Self {
            case: case.clone(),
            block: case.blocks / 2,
            cache: Cache::new(&plan, case.form(), case.blocks),
            kernels,
            scratch: (0..threads).map(|_| Scratch::new(&plan, case.head_dim)).collect(),
            pool,
        }
    }

    /// Fills every place with numbers that no sequence has.
    fn soil(&mut self, value: f32) {
        let plan = self.case.plan();
        let mut batch = Batch::default();
        let places = (plan.pages * PAGE_TOKENS) as usize;
        batch.push(&vec![0; places], 0, &(0..plan.pages).collect::<Vec<_>>(), 0, 0, 0);
        let values = vec![value; places * self.case.kv_heads * self.case.head_dim];
        (0..self.case.blocks).for_each(|block| {
            self.cache.store(block, &mut self.pool, self.kernels, &batch, [&values, &values]);
        });
    }

    /// Runs the tokens in pieces of these lengths, the last one for the rest.
    fn run(&mut self, pieces: &[usize]) -> Vec<f32> {
        let mut mixed = Vec::new();
        let mut start = 0usize;
        for &piece in pieces.iter().chain([&usize::MAX]) {
            let end = self.case.tokens.min(start.saturating_add(piece));
            let mut batch = Batch::default();
            batch.push(&vec![0; end - start], start as u32, &self.case.pages(), 0, 0, 0);
            mixed.extend(self.step(&batch, start..end));
            start = end;
        }
        mixed
    }

    /// Stores and attends for one batch of the case's tokens.
    fn step(&mut self, batch: &Batch, tokens: std::ops::Range<usize>) -> Vec<f32> {
        let case = &self.case;
        let of = |values: &[f32], heads: usize| {
            let width = heads * case.head_dim;
            values[tokens.start * width..tokens.end * width].to_vec()
        };
        let (keys, values) = (of(&case.keys, case.kv_heads), of(&case.values, case.kv_heads));
        let mut query = of(&case.queries, case.heads);
        let mut mixed = vec![f32::NAN; query.len()];
        let attention = case.attention();
        self.cache.store(self.block, &mut self.pool, self.kernels, batch, [&keys, &values]);
        let buffers = [query.as_mut_slice(), mixed.as_mut_slice()];
        attend(
            &mut self.pool,
            self.kernels,
            &mut self.scratch,
            (&attention).into(),
            batch,
            (&self.cache, self.block),
            (buffers, None),
        );
        mixed
    }

    /// The formula in `f64`, on what the cache gives back.
    fn expected(&self) -> Vec<f32> {
        let case = &self.case;
        let (pages, group) = (case.pages(), case.heads / case.kv_heads);
        let (places, first) = (self.cache.places(&pages), self.cache.first_head(self.block));
        let stored = |position: usize, head: usize| {
            let [mut key, mut value] = [vec![0.0; case.head_dim], vec![0.0; case.head_dim]];
            self.cache.read_key(places.of(position), first + head, &mut key);
            self.cache.read_value(places.of(position), first + head, &mut value);
            (key, value)
        };
        let mut all = vec![0.0; case.queries.len()];
        for kv_head in 0..case.kv_heads {
            let stored: Vec<_> = (0..case.tokens).map(|position| stored(position, kv_head)).collect();
            for (position, head) in (0..case.tokens)
                .flat_map(|token| (kv_head * group..(kv_head + 1) * group).map(move |head| (token, head)))
            {
                let at = (position * case.heads + head) * case.head_dim;
                let query = &case.queries[at..at + case.head_dim];
                let window = case.window_tokens.map_or(usize::MAX, |window| window as usize);
                let seen = &stored[(position + 1).saturating_sub(window)..=position];
                let slope =
                    case.alibi.map_or(0.0, |alibi| kauri_device::formula::slope(alibi, case.heads as u32, head as u32));
                let weight = |(index, (key, _)): (usize, &(Vec<f32>, Vec<f32>))| {
                    case.weight(query, key) - f64::from(slope) * (seen.len() - 1 - index) as f64
                };
                let weights: Vec<f64> = seen.iter().enumerate().map(weight).collect();
                let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = weights.iter().map(|weight| (weight - most).exp()).sum();
                for (index, mixed) in all[at..at + case.head_dim].iter_mut().enumerate() {
                    let terms = seen.iter().zip(&weights);
                    let total: f64 =
                        terms.map(|((_, value), weight)| (weight - most).exp() * f64::from(value[index])).sum();
                    *mixed = (total / sum) as f32;
                }
            }
        }
        all
    }
}

impl Case {
    fn weight(&self, query: &[f32], key: &[f32]) -> f64 {
        let dot: f64 = query.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
        let score = dot * f64::from(self.scale);
        self.soft_cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
    }
}

/// All kernels that this machine runs, of every instruction set.
fn all_kernels() -> Vec<Kernels> {
    Isa::ALL.into_iter().flat_map(Kernels::all_of).collect()
}

fn best() -> Kernels {
    Kernels::new(Isa::best()).expect("the best that this CPU has")
}

/// The largest difference, and the root of the mean of its square over that of the expected values.
fn difference(found: &[f32], expected: &[f32]) -> (f32, f64) {
    assert_eq!(found.len(), expected.len());
    let (mut most, mut squares, mut size) = (0.0f32, 0.0, 0.0);
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.is_finite(), "{found} where {expected} was expected");
        most = most.max((found - expected).abs());
        squares += f64::from(found - expected).powi(2);
        size += f64::from(*expected).powi(2);
    }
    (most, (squares / size.max(1e-30)).sqrt())
}

/// What rounding queries and weights to bytes may cost: at most, and in the mean as a share of the size of the result.
const BYTES: (f32, f64) = (0.015, 0.01);
/// Twice that where one channel of a query is far larger than the others.
const BYTES_WITH_OUTLIERS: (f32, f64) = (0.02, 0.02);

fn check(case: &Case, what: &str, bytes: (f32, f64)) {
    for (number, kernels) in all_kernels().into_iter().enumerate() {
        let mut bench = Bench::new(case, kernels, 2);
        let found = bench.run(&[]);
        let (most, mean) = difference(&found, &bench.expected());
        let (most_allowed, mean_allowed) = match case.cache {
            CacheType::Q8_0 | CacheType::Q4_0 if kernels.isa() != Isa::Scalar => bytes,
            CacheType::F32 | CacheType::F16 | CacheType::Q8_0 | CacheType::Q4_0 => (1e-5, 2e-6),
        };
        assert!(
            most <= most_allowed && mean <= mean_allowed,
            "{what}, {:?} on {}, number {number}: {most} at most, {mean} in the mean; {most_allowed} and {mean_allowed} are allowed",
            case.cache,
            kernels.isa().name()
        );
    }
}

#[test]
fn equals_the_formula_on_awkward_heads() {
    for cache in TYPES {
        for head_dim in [64, 80, 96, 128, 256, 24] {
            for (heads, kv_heads) in [(2, 2), (4, 2), (3, 1), (8, 1)] {
                let case = Case::new(cache, [heads, kv_heads, head_dim], 71);
                check(&case, &format!("{heads} heads on {kv_heads} of {head_dim}"), BYTES);
            }
        }
    }
}

#[test]
fn equals_the_formula_on_awkward_lengths() {
    for cache in TYPES {
        for tokens in [1, 15, 16, 17, 31, 32, 33, 255, 256, 257, 550] {
            check(&Case::new(cache, [4, 2, 32], tokens), &format!("{tokens} tokens"), BYTES);
        }
    }
}

#[test]
fn equals_the_formula_on_awkward_windows() {
    for cache in TYPES {
        for window in [1, 3, 16, 31, 256, 257] {
            let case = Case { window_tokens: Some(window), ..Case::new(cache, [4, 2, 32], 530) };
            check(&case, &format!("a window of {window}"), BYTES);
            let case = Case { soft_cap: Some(1.5), ..case };
            check(&case, &format!("a window of {window} and a soft cap"), BYTES);
            let case = Case { soft_cap: None, alibi: Some(8.0), ..case };
            check(&case, &format!("a window of {window} and linear biases"), BYTES);
        }
    }
}

/// One token, the first, takes nearly all weight of all queries: the others must not round to nothing.
#[test]
fn a_sink_does_not_hide_the_rest() {
    for cache in TYPES {
        let mut case = Case::new(cache, [2, 1, 64], 600);
        let unit = |index: usize| if index.is_multiple_of(64) { 1.0 } else { 0.0 };
        case.queries.iter_mut().enumerate().for_each(|(index, value)| *value += 8.0 * unit(index));
        case.keys[..64].iter_mut().enumerate().for_each(|(index, value)| *value += 6.0 * unit(index));
        // As in trained models, the sink's own value is small.
        case.values[..64].iter_mut().for_each(|value| *value *= 0.01);
        check(&case, "a sink", BYTES_WITH_OUTLIERS);
    }
}

/// Some channels of keys and queries are far larger than others, and each in its own block.
#[test]
fn outlying_channels_are_bearable() {
    for cache in TYPES {
        let mut case = Case::new(cache, [2, 1, 128], 300);
        for (index, key) in case.keys.iter_mut().enumerate().filter(|(index, _)| index % 128 == 5) {
            *key += 30.0 + (index % 7) as f32 * 0.1;
        }
        check(&case, "an outlying channel", BYTES_WITH_OUTLIERS);
    }
}

#[test]
fn the_same_bits_on_any_threads_and_however_the_prompt_is_cut() {
    let cuts = [vec![1; 40], vec![255, 1, 1, 256, 7], vec![513, 17], vec![700, 1, 1, 1, 80]];
    for (number, kernels) in all_kernels().into_iter().enumerate() {
        let shapes = [(2, 1, None), (6, 2, Some(300)), (3, 3, None), (4, 1, None)];
        for (cache, shape) in TYPES.into_iter().flat_map(|cache| shapes.map(|shape| (cache, shape))) {
            let (heads, kv_heads, window_tokens) = shape;
            let case = Case { window_tokens, ..Case::new(cache, [heads, kv_heads, 40], 790) };
            let whole = Bench::new(&case, kernels, 1).run(&[]);
            // The formulas are one loop, and slow.
            let threads = if kernels.isa() == Isa::Scalar { &[5][..] } else { &[1, 2, 5, 16] };
            for &threads in threads {
                for pieces in &cuts {
                    let found = Bench::new(&case, kernels, threads).run(pieces);
                    let place = found.iter().zip(&whole).position(|(a, b)| a.to_bits() != b.to_bits());
                    let name = format!("{}, number {number}, {cache:?}", kernels.isa().name());
                    assert_eq!(place, None, "{name}, {heads} on {kv_heads}, {threads} threads, {pieces:?}");
                }
            }
        }
    }
}

/// The rows of a token do not depend on what else is in the batch.
#[test]
fn the_same_bits_in_any_batch() {
    for (cache, kernels) in
        TYPES.into_iter().flat_map(|cache| all_kernels().into_iter().map(move |kernels| (cache, kernels)))
    {
        let case = Case::new(cache, [4, 2, 64], 40);
        let whole = Bench::new(&case, kernels, 2).run(&[]);
        let mut bench = Bench::new(&case, kernels, 5);
        bench.run(&[20]);
        // The tail once more, as two sequences on the same cache, with an empty one between.
        let pages = case.pages();
        let mut batch = Batch::default();
        batch.push(&[0; 12], 20, &pages, 0, 0, 0);
        batch.push(&[], 0, &[], 1, 0, 0);
        batch.push(&[0; 8], 32, &pages, 2, 0, 0);
        let found = bench.step(&batch, 20..40);
        assert_eq!(found, whole[20 * 4 * 64..], "{cache:?} on {}", kernels.isa().name());
    }
}

/// What was in a place before it was written is as if it had never been, even if it was no number.
#[test]
fn old_places_do_not_matter() {
    for cache in TYPES {
        for kernels in all_kernels() {
            let case = Case::new(cache, [4, 2, 32], 37);
            let clean = Bench::new(&case, kernels, 2).run(&[]);
            for soil in [f32::NAN, f32::INFINITY, -3e38, 0.0] {
                let mut bench = Bench::new(&case, kernels, 2);
                bench.soil(soil);
                assert_eq!(bench.run(&[5, 1, 9]), clean, "{cache:?} on {} after {soil}", kernels.isa().name());
            }
        }
    }
}

/// A query, key or value that is no number, among bytes no finite one: nothing that looks like a number comes of it, in no row that sees it. Among
/// bytes, nothing changes for others.
#[test]
fn what_is_no_number_is_in_every_row_that_sees_it() {
    let (tokens, broken) = (67, 40);
    for (cache, kernels) in TYPES.into_iter().flat_map(|cache| all_kernels().into_iter().map(move |of| (cache, of))) {
        for (part, head_dim, value) in [
            ("query", 32, f32::NAN),
            ("query", 160, f32::INFINITY),
            ("key", 32, f32::NAN),
            ("key", 160, f32::NEG_INFINITY),
            ("value", 32, f32::NAN),
            ("value", 160, f32::INFINITY),
        ] {
            let of_bytes = matches!(cache, CacheType::Q8_0 | CacheType::Q4_0);
            let value = if of_bytes { value } else { f32::NAN };
            let mut case = Case::new(cache, [4, 2, head_dim], tokens);
            let sound = Bench::new(&case, kernels, 2).run(&[]);
            let (values, heads) = match part {
                "query" => (&mut case.queries, 4),
                "key" => (&mut case.keys, 2),
                _ => (&mut case.values, 2),
            };
            // The last value of the second head, and so of one query's or of two queries' rows.
            values[(broken * heads + 2) * head_dim - 1] = value;
            for pieces in [&[][..], &[5, 1, 33, 1]] {
                let found = Bench::new(&case, kernels, 2).run(pieces);
                for (row, (found, sound)) in found.chunks(head_dim).zip(sound.chunks(head_dim)).enumerate() {
                    let (token, head) = (row / 4, row % 4);
                    let name = format!("{cache:?} on {}, {part}, token {token}, head {head}", kernels.isa().name());
                    let sees = match part {
                        "query" => token == broken && head == 1,
                        _ => token >= broken && head >= 2,
                    };
                    if sees {
                        assert!(found.iter().any(|value| value.is_nan()), "{name}: {found:?}");
                    } else if of_bytes {
                        let same = found.iter().zip(sound).all(|(found, sound)| found.to_bits() == sound.to_bits());
                        assert!(same, "{name}: {found:?} for {sound:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_empty_batch_is_no_work() {
    for cache in TYPES {
        let case = Case::new(cache, [4, 2, 32], 4);
        assert!(Bench::new(&case, best(), 2).step(&Batch::default(), 0..0).is_empty(), "{cache:?}");
    }
}

#[test]
fn the_cache_gives_back_what_was_stored() {
    // What may be lost, as a share of the largest value that shares a scale.
    for (cache, lost) in [
        (CacheType::F32, 0.0),
        (CacheType::F16, 1.0 / 2048.0),
        // Half a step, and what is lost of the scale in half precision.
        (CacheType::Q8_0, 0.5 / 127.0 + 1.0 / 2048.0),
        // The side that has one step less may be cut by half a step more.
        (CacheType::Q4_0, 1.0 / 8.0 + 1.0 / 2048.0),
    ] {
        let case = Case::new(cache, [2, 2, 80], 37);
        let mut bench = Bench::new(&case, best(), 2);
        bench.run(&[1, 5, 20]);
        let pages = case.pages();
        for (position, head) in (0..37).flat_map(|position| [(position, 0), (position, 1)]) {
            let place = bench.cache.places(&pages).of(position);
            let at = (position * 2 + head) * 80;
            let mut found = [vec![0.0; 80], vec![0.0; 80]];
            bench.cache.read_key(place, bench.cache.first_head(bench.block) + head, &mut found[0]);
            bench.cache.read_value(place, bench.cache.first_head(bench.block) + head, &mut found[1]);
            for (found, stored) in found.iter().zip([&case.keys, &case.values]) {
                for (found, stored) in found.iter().zip(&stored[at..at + 80]) {
                    assert!((found - stored).abs() <= 2.0 * lost, "{cache:?}: {found} for {stored} at {position}");
                }
            }
        }
    }
}

#[test]
fn every_instruction_set_keeps_the_same() {
    for (cache, head_dim) in TYPES.into_iter().flat_map(|cache| [24, 80, 128, 160].map(|head_dim| (cache, head_dim))) {
        let case = Case::new(cache, [2, 2, head_dim], 53);
        let kept = |kernels| {
            let mut bench = Bench::new(&case, kernels, 2);
            // Neighbourhoods that begin, go on and end in the middle, and whole ones.
            bench.run(&[1, 3, 20]);
            let (pages, mut all) = (case.pages(), Vec::new());
            for (position, head) in (0..53).flat_map(|position| [(position, 0), (position, 1)]) {
                let (place, mut vector) = (bench.cache.places(&pages).of(position), vec![0.0; head_dim]);
                bench.cache.read_key(place, bench.cache.first_head(bench.block) + head, &mut vector);
                all.extend(vector.iter().map(|value| value.to_bits()));
                bench.cache.read_value(place, bench.cache.first_head(bench.block) + head, &mut vector);
                all.extend(vector.iter().map(|value| value.to_bits()));
            }
            all
        };
        let expected = kept(Kernels::new(Isa::Scalar).expect("every CPU has them"));
        for kernels in all_kernels() {
            assert!(kept(kernels) == expected, "{cache:?}, heads of {head_dim}, on {}", kernels.isa().name());
        }
    }
}

/// What one layer stores is not seen by those that share its cache, page by page and head by head.
#[test]
fn layers_that_share_a_cache_keep_apart() {
    for cache in TYPES {
        let case = Case::new(cache, [2, 2, 40], 90);
        let kept = |bench: &mut Bench, block: usize| {
            let pages = case.pages().into_iter().flat_map(|page| {
                let mut walk = |run: &mut dyn FnMut(Run<'_>)| bench.cache.walk_page(block, page as usize, run);
                let bytes = memory::count(&mut walk);
                let mut page = vec![0; bytes];
                memory::copy_out("a page", bytes, &mut walk, &mut page).expect("as long as it is");
                page
            });
            pages.collect::<Vec<_>>()
        };
        let mut bench = Bench::new(&case, best(), 2);
        bench.run(&[7, 40]);
        let [before, own, behind] = [0, 1, 2].map(|block| kept(&mut bench, block));
        assert!(before == behind && before != own, "{cache:?}: one layer was stored");
        for block in [0, 2] {
            bench.block = block;
            bench.run(&[90]);
            assert!(kept(&mut bench, block) == own, "{cache:?}: the same in layer {block}");
        }
        assert!(kept(&mut bench, 1) == own, "{cache:?}: others were stored");
    }
}

/// What one token's heads are packed to by the threads that have them, for the product behind.
#[test]
fn heads_packed_as_they_are_written_give_the_same_bits() {
    const WIDTH: usize = 4 * 128;
    let (case, random) = (Case::new(CacheType::Q8_0, [4, 2, 128], 300), &mut Random(41));
    let (last, mut data) = (case.tokens - 1, Vec::new());
    Quant::Q8_0.quantise(&random.values(32 * WIDTH, 1.0), WIDTH, None, &mut data).expect("whole blocks");
    let matrix = Matrix { quant: Quant::Q8_0, rows: 32, columns: WIDTH, data: data.into(), scales: None };
    let linear = Linear { rows: 32, columns: WIDTH as u32, weight: Weight::Matrix(matrix), bias: None };
    for kernels in all_kernels() {
        let name = kernels.isa().name();
        for threads in [1, 2, 3] {
            let mut bench = Bench::new(&case, kernels, threads);
            let expected = bench.run(&[last]).split_off(last * WIDTH);
            let mut batch = Batch::default();
            batch.push(&[0], last as u32, &case.pages(), 0, 0, 0);
            let mut project = |follows: bool| {
                let mut products = matmul::Scratch::new(bench.kernels, 1, WIDTH, 0, threads);
                let (mut query, mut mixed) = (case.queries[last * WIDTH..].to_vec(), vec![f32::NAN; WIDTH]);
                let mut out = vec![0.0; 32];
                let following = if follows { products.follow(&linear, 1, &mixed, case.head_dim) } else { None };
                let is_packed = following.is_some();
                let (scratch, cache) = (&mut bench.scratch, (&bench.cache, bench.block));
                let to = ([query.as_mut_slice(), mixed.as_mut_slice()], following);
                attend(&mut bench.pool, bench.kernels, scratch, (&case.attention()).into(), &batch, cache, to);
                assert!(mixed == expected, "{name} {threads} threads");
                if is_packed {
                    // It is read where it was packed.
                    mixed.fill(1.0);
                }
                let job = Job { linear: &linear, gate: None, finish: Finish::Store, out: &mut out, then: None };
                matmul::linear(&mut bench.pool, &mut products, Source::Rows(&mixed), (Extent::Tokens, 1), &mut [job]);
                out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            assert!(project(true) == project(false), "{name} {threads} threads");
        }
    }
}
