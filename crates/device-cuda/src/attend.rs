//! Attention over the pages of the cache; keys and values may be parts of one row.

use std::sync::Arc;

use kauri_arch::{Attention, Latent, Linear, Mixer, Norm, NormKind, Shape};
use kauri_device::{Buffer, DeviceError, Plan, Weight};

use crate::cache::Cache;
use crate::detect::{lost, no_room};
use crate::driver::{Allocation, Arg, Gpu, Grid};
use crate::matmul::{self, Also, Form, Held};
use crate::ops::{Cuda, Pending};
use crate::resident::Resident;
use crate::structure::Structure;

/// Values of a head at most, as in `kernels/plain_attend.cu`.
pub(crate) const VALUES_MAX: u32 = 512;
/// Warps of a block there, and of one that turns heads.
const WARPS: usize = 4;
const TURN_WARPS: usize = 8;

/// What attention is of.
pub(crate) struct Scores {
    heads: usize,
    kv_heads: usize,
    /// Values of a key, and of a value.
    key: usize,
    value: usize,
    /// The first of a cached row that belongs to the value.
    value_start: usize,
    window_tokens: Option<u32>,
    both_ways: bool,
    scale: f32,
    soft_cap: Option<f32>,
    alibi: Option<f32>,
    sinks: u64,
}

impl From<&Attention<Resident>> for Scores {
    fn from(attention: &Attention<Resident>) -> Self {
        Self {
            heads: attention.heads as usize,
            kv_heads: attention.kv_heads as usize,
            key: attention.head_dim as usize,
            value: attention.head_dim as usize,
            value_start: 0,
            window_tokens: attention.window_tokens,
            both_ways: attention.both_ways,
            scale: attention.scale,
            soft_cap: attention.soft_cap,
            alibi: attention.alibi,
            sinks: attention.sinks.map_or(0, |sinks| sinks.at),
        }
    }
}

impl From<&Latent<Resident>> for Scores {
    fn from(latent: &Latent<Resident>) -> Self {
        Self {
            heads: latent.heads as usize,
            kv_heads: 1,
            key: latent.row() as usize,
            value: latent.latent as usize,
            value_start: latent.rope_dims as usize,
            window_tokens: None,
            both_ways: false,
            scale: latent.scale,
            soft_cap: None,
            alibi: None,
            sinks: 0,
        }
    }
}

impl Scores {
    /// As `Attention` of `kernels/plain_attend.cu`.
    fn words(&self) -> [u64; 5] {
        let pair = |a: usize, b: usize| a as u64 | (b as u64) << 32;
        let window = self.window_tokens.map_or(i32::MAX as usize, |tokens| tokens.min(i32::MAX as u32) as usize);
        let bits = |number: f32| number.to_bits() as usize;
        let [cap, alibi] = [self.soft_cap, self.alibi].map(|number| bits(number.unwrap_or(0.0)));
        [
            pair(self.key, self.value),
            pair(self.value_start, self.heads),
            pair(self.kv_heads, window),
            pair(usize::from(self.both_ways), bits(self.scale)),
            pair(cap, alibi),
        ]
    }
}

/// Memory that parts of a context are added in.
pub(crate) struct Scratch {
    partials: Allocation,
    counters: Allocation,
}

impl Scratch {
    /// Sized for the attention of `shape`.
    pub(crate) fn new(gpu: &Arc<Gpu>, shape: &Shape<Weight>, plan: &Plan) -> Result<Self, DeviceError> {
        let (mut partials, mut counters) = (0, 0);
        for attention in shape.mixers().filter_map(Mixer::attention) {
            let (heads, kv_heads) = (attention.heads as usize, attention.kv_heads as usize);
            let sizes = (0..32).map(|size| (1 << size).min(plan.batch_tokens as usize));
            for tiles in sizes {
                let parts = tiles * splits(gpu.processors, tiles, heads, kv_heads, attention.head_dim as usize);
                partials = partials.max(4 * parts * heads * (attention.head_dim as usize + 2));
                counters = counters.max(4 * tiles * head_blocks(heads, kv_heads));
            }
        }
        let make = |bytes: usize| {
            let memory = gpu.allocate(bytes).map_err(no_room("attention", bytes as u64))?;
            gpu.set(&memory, 0).map_err(lost)?;
            Ok(memory)
        };
        Ok(Self { partials: make(partials)?, counters: make(counters)? })
    }
}

/// Blocks for the heads of a tile: sixteen query heads at most that share a key-value head.
fn head_blocks(heads: usize, kv_heads: usize) -> usize {
    kv_heads * (heads / kv_heads).div_ceil(16)
}

/// Parts of a context at most: work for all blocks that processors have room for at a time, and none that waits for them.
fn splits(processors: u32, tiles: usize, heads: usize, kv_heads: usize, dim: usize) -> usize {
    let blocks = processors as usize * (PROCESSOR_BYTES / block_bytes(dim)).clamp(1, 4);
    (blocks / (tiles * head_blocks(heads, kv_heads)) / 2 * 2).clamp(2, SPLITS_MAX)
}

/// Shared memory of a block for heads of so many values, and what processors have.
fn block_bytes(dim: usize) -> usize {
    256 * (2 * dim + 16)
}
const PROCESSOR_BYTES: usize = 227 << 10;

/// Parts of a context at most, and the least tokens of one.
const SPLITS_MAX: usize = 64;
const SPLIT_TOKENS: usize = 128;

/// Whether there is attention in matrix units for it.
fn is_fast(cuda: &Cuda, cache: &Cache, scores: &Scores) -> bool {
    let dim = scores.key;
    let kept = match cache.kind() {
        "f16" => true,
        "q8" => dim.is_multiple_of(32),
        _ => false,
    };
    let shaped = scores.value_start == 0
        && scores.alibi.is_none()
        && scores.value == dim
        && [64, 80, 96, 128, 192, 256].contains(&dim);
    !cuda.exact && kept && shaped
}

/// Whether every sequence has one token: parts of its context are shared out.
fn is_one_each(cuda: &Cuda) -> bool {
    cuda.rows(Buffer::Query) == cuda.sequences
}

/// Attention in matrix units. `output`: the product that reads nothing else, if there is one.
fn attend_fast(cuda: &Cuda, cache: &Cache, scores: &Scores, output: Option<&Linear<Resident>>) {
    let Scores { heads, kv_heads, key: dim, .. } = *scores;
    let one_each = is_one_each(cuda);
    let turn = match cuda.take_pending() {
        Some(Pending::Turn(turn)) => Some(turn),
        Some(Pending::Down(_)) | None => None,
    };
    let [keys, key_scales, values, value_scales] = cache.places();
    let [pages, tiles] = cuda.step.tables();
    let page_tokens = cuda.step.batch()[5] as usize;
    let splits = splits(cuda.gpu.processors, cuda.tiles.max(1), heads, kv_heads, dim);
    let reads = output.map_or(Also::Numbers, |output| matmul::reads(cuda, output, cuda.rows(Buffer::Query)));
    let bytes = reads == Also::Bytes && one_each && dim.is_multiple_of(32);
    let scratch = &cuda.products;
    let when = |wanted: bool, place: u64| if wanted { place } else { 0 };
    let structure = Structure::new()
        .place(cuda.at(Buffer::Query))
        .place(when(reads != Also::Halves, cuda.at(Buffer::Mixed)))
        .place(when(reads == Also::Halves, scratch.halves.at()))
        .place(when(bytes, scratch.codes.at()))
        .place(when(bytes, scratch.metas.at()))
        .place(keys)
        .place(values)
        .place(key_scales)
        .place(value_scales)
        .place((page_tokens * kv_heads * dim) as u64)
        .place(dim as u64)
        .place((kv_heads * dim) as u64)
        .place(pages)
        .place(tiles)
        .place(scores.sinks)
        .place(cuda.attention.partials.at())
        .place(cuda.attention.counters.at())
        .int(page_tokens)
        .int(heads)
        .int(kv_heads)
        .int(scores.window_tokens.map_or(0, |tokens| tokens.min(i32::MAX as u32) as usize))
        .int(usize::from(scores.both_ways))
        .int(splits)
        .int(SPLIT_TOKENS)
        .float(scores.scale)
        .float(scores.soft_cap.unwrap_or(0.0));
    let structure = turning(cuda, &structure, turn.as_ref());
    let (name, blocks) = if one_each {
        // More blocks than there are parts would only be in the way of the next kernel's.
        let parts = splits.min(cuda.longest.div_ceil(SPLIT_TOKENS).max(1));
        ("decode", [parts, head_blocks(heads, kv_heads), cuda.tiles])
    } else {
        ("prefill", [heads, cuda.tiles, 1])
    };
    let mut grid = Grid { ahead: true, ..Grid::new(blocks, 128) };
    grid.shared_bytes = block_bytes(dim) + if turn.is_some() { 48 * dim + 256 } else { 0 };
    cuda.launch(&format!("attend_{name}_{dim}"), grid, &[(&structure).into()]);
    let buffer = Buffer::Mixed;
    match reads {
        Also::Halves => scratch.hold(Held { buffer, form: Form::Halves(scratch.halves.at()), alone: true }),
        Also::Bytes if bytes => scratch.hold(Held { buffer, form: Form::Bytes, alone: false }),
        Also::Bytes | Also::Numbers | Also::Nothing => {}
    }
}

/// `Turning` of `kernels/attend.cuh`, behind what there is of a structure.
fn turning(cuda: &Cuda, structure: &Structure, turn: Option<&Turn>) -> Structure {
    let Some(turn) = turn else {
        return structure.place(0).place(0).place(0).place(0).place(0).int(0).int(0).float(0.0).float(0.0);
    };
    structure
        .place(cuda.at(Buffer::Key))
        .place(cuda.at(Buffer::Value))
        .place(turn.norms[0])
        .place(turn.norms[1])
        .place(turn.turns)
        .int(turn.pairs)
        .int(usize::from(turn.halves))
        .float(turn.epsilons[0])
        .float(turn.epsilons[1])
}

/// What becomes of queries, keys and values between their products and attention: norms of heads, ropes, the cache. In one go, where heads are such
/// that it can be.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    block: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    /// Of queries and keys; 0 where there is none.
    norms: [u64; 2],
    epsilons: [f32; 2],
    /// Angles, or 0; how many pairs a head has, and whether they are halves.
    turns: u64,
    pairs: usize,
    halves: bool,
}

impl Turn {
    fn new(cuda: &Cuda, block: usize, attention: &Attention<Resident>) -> Option<Self> {
        let norms = [&attention.q_norm, &attention.k_norm].map(Option::as_ref);
        let plain = |norm: &Norm<Resident>| {
            let one_head = norm.width == attention.head_dim && norm.weight.columns == norm.width as usize;
            one_head && norm.kind == NormKind::Rms && norm.bias.is_none()
        };
        if attention.gated || !norms.iter().flatten().all(|norm| plain(norm)) {
            return None;
        }
        let (turns, pairs, halves) = attention.rope.map_or((0, 0, false), |rope| cuda.turns(rope));
        Some(Self {
            block,
            heads: attention.heads as usize,
            kv_heads: attention.kv_heads as usize,
            dim: attention.head_dim as usize,
            norms: norms.map(|norm| norm.map_or(0, |norm| norm.weight.at)),
            epsilons: norms.map(|norm| norm.map_or(0.0, |norm| norm.epsilon)),
            turns,
            pairs,
            halves,
        })
    }

    /// By a kernel of its own.
    pub(crate) fn start(&self, cuda: &Cuda) {
        let cache = cuda.caches[self.block].as_ref().expect("a block with attention");
        let [keys, key_scales, values, value_scales] = cache.places();
        let structure = Structure::new()
            .place(cuda.at(Buffer::Query))
            .place(cuda.at(Buffer::Key))
            .place(cuda.at(Buffer::Value))
            .place(self.norms[0])
            .place(self.norms[1])
            .place(self.turns)
            .place(keys)
            .place(key_scales)
            .place(values)
            .place(value_scales)
            .int(self.heads)
            .int(self.kv_heads)
            .int(self.dim)
            .int(self.pairs)
            .int(usize::from(self.halves))
            .float(self.epsilons[0])
            .float(self.epsilons[1])
            .int(0);
        let grid = Grid::new([1, cuda.rows(Buffer::Query), 1], 32 * TURN_WARPS as u32);
        let grid = Grid { ahead: true, shared_bytes: 4 * TURN_WARPS * self.dim, ..grid };
        let batch = cuda.step.batch();
        cuda.launch(&format!("turn_{}", cache.kind()), grid, &[(&batch).into(), (&structure).into()]);
    }
}

/// Norms of heads, ropes and the cache in one go, now or in attention itself, where heads are such that it can be. Says whether they were.
pub(crate) fn turn_and_store(cuda: &Cuda, block: usize, attention: &Attention<Resident>) -> bool {
    let Some(turn) = Turn::new(cuda, block, attention) else { return false };
    let cache = cuda.caches[block].as_ref().expect("a block with attention");
    if is_fast(cuda, cache, &attention.into()) && is_one_each(cuda) {
        cuda.leave(Pending::Turn(turn));
    } else {
        turn.start(cuda);
    }
    true
}

/// See [`kauri_device::Ops::attend`].
pub(crate) fn attend(cuda: &Cuda, block: usize, scores: &Scores, output: Option<&Linear<Resident>>) {
    let cache = cuda.caches[block].as_ref().expect("a block with attention");
    if is_fast(cuda, cache, scores) {
        return attend_fast(cuda, cache, scores, output);
    }
    let (batch, words) = (cuda.step.batch(), scores.words());
    let [keys, key_scales, values, value_scales] = cache.places().map(Arg::from);
    let (query, mixed) = (cuda.at(Buffer::Query).into(), cuda.at(Buffer::Mixed).into());
    let arguments =
        [(&batch).into(), query, mixed, keys, key_scales, values, value_scales, scores.sinks.into(), (&words).into()];
    let mut grid = Grid::new([scores.heads, cuda.rows(Buffer::Query), 1], 32 * WARPS as u32);
    grid.shared_bytes = 4 * (scores.key + WARPS * scores.value + 2 * WARPS);
    cuda.launch(&format!("attend_{}", cache.kind()), grid, &arguments);
}

/// See [`kauri_device::Ops::store`].
pub(crate) fn store(cuda: &Cuda, block: usize, attention: &Attention<Resident>) {
    let cache = cuda.caches[block].as_ref().expect("a block with attention");
    let [keys, key_scales, values, value_scales] = cache.places();
    let (heads, width) = (attention.kv_heads as usize, attention.head_dim as usize);
    put(cuda, cache.kind(), Buffer::Key, [keys, key_scales], heads, width);
    put(cuda, cache.kind(), Buffer::Value, [values, value_scales], heads, width);
}

/// See [`kauri_device::Ops::store_rows`].
pub(crate) fn store_rows(cuda: &Cuda, block: usize, latent: &Latent<Resident>) {
    let cache = cuda.caches[block].as_ref().expect("a block with attention");
    let [rows, scales, ..] = cache.places();
    put(cuda, cache.kind(), Buffer::Key, [rows, scales], 1, latent.row() as usize);
}

/// Writes the heads of a buffer to a half of a cache.
fn put(cuda: &Cuda, kind: &str, from: Buffer, places: [u64; 2], heads: usize, width: usize) {
    let batch = cuda.step.batch();
    let [codes, scales] = places.map(Arg::from);
    let grid = Grid::new([heads, cuda.rows(from), 1], width.next_multiple_of(32).min(256) as u32);
    let arguments = [(&batch).into(), cuda.at(from).into(), codes, scales, width.into()];
    cuda.launch(&format!("store_{kind}"), grid, &arguments);
}
