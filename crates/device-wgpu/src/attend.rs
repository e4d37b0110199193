//! Attention over the pages of the cache; keys and values may be parts of one row.

use kauri_arch::{Attention, Latent, Norm, NormKind};
use kauri_device::Buffer;

use crate::cache::Kept;
use crate::driver::Words;
use crate::elementwise::or_nothing;
use crate::ops::Wgpu;
use crate::resident::Resident;
use crate::shader::{Entry, Kernel};

/// What attention is of.
pub(crate) struct Scores {
    heads: usize,
    kv_heads: usize,
    /// Values of a key, of a cached row of values, and the first of these that belongs to the value.
    key: usize,
    value_row: usize,
    value_start: usize,
    window_tokens: Option<u32>,
    both_ways: bool,
    scale: f32,
    soft_cap: Option<f32>,
    alibi: Option<f32>,
    sinks: Option<usize>,
}

impl From<&Attention<Resident>> for Scores {
    fn from(attention: &Attention<Resident>) -> Self {
        Self {
            heads: attention.heads as usize,
            kv_heads: attention.kv_heads as usize,
            key: attention.head_dim as usize,
            value_row: attention.head_dim as usize,
            value_start: 0,
            window_tokens: attention.window_tokens,
            both_ways: attention.both_ways,
            scale: attention.scale,
            soft_cap: attention.soft_cap,
            alibi: attention.alibi,
            sinks: attention.sinks.map(|sinks| sinks.at),
        }
    }
}

impl From<&Latent<Resident>> for Scores {
    fn from(latent: &Latent<Resident>) -> Self {
        Self {
            heads: latent.heads as usize,
            kv_heads: 1,
            key: latent.row() as usize,
            value_row: latent.row() as usize,
            value_start: latent.rope_dims as usize,
            window_tokens: None,
            both_ways: false,
            scale: latent.scale,
            soft_cap: None,
            alibi: None,
            sinks: None,
        }
    }
}

/// See [`kauri_device::Ops::attend`].
pub(crate) fn attend(wgpu: &mut Wgpu, block: usize, scores: &Scores) {
    let (rows, kept) = (wgpu.rows(Buffer::Query), &wgpu.kept[block]);
    let words = Words::of([wgpu.at(Buffer::Query), wgpu.at(Buffer::Mixed)]);
    let words = kept.cache.iter().fold(words, |words, array| words.int(array.at));
    let window = scores.window_tokens.map_or(i32::MAX as usize, |tokens| tokens.min(i32::MAX as u32) as usize);
    let sizes = [scores.heads, scores.kv_heads, scores.key, scores.value_row, scores.value_start, window];
    let words = sizes.into_iter().fold(words, Words::int).int(usize::from(scores.both_ways));
    let words = words.float(scores.scale).float(scores.soft_cap.unwrap_or(0.0)).int(or_nothing(scores.sinks));
    let words = words.float(scores.alibi.unwrap_or(0.0));
    let kernel = Kernel::cached(Entry::Attend, kept.kind);
    let sides = if scores.value_start > 0 { 1 } else { 2 };
    let head_bytes = kept.kind.head_bytes(scores.key as u32) as usize * scores.kv_heads;
    let width = scores.heads * (scores.key + scores.value_row);
    wgpu.count(Entry::Attend, sides * wgpu.seen() * head_bytes + 4 * rows * width, 2 * wgpu.seen() * width);
    wgpu.start_on(kernel, Some(block), &[], [scores.heads, rows, 1], words);
}

/// Norms of heads, ropes and the cache in one go, where heads are such that it can be. Says whether they were.
pub(crate) fn turn_and_store(wgpu: &mut Wgpu, block: usize, attention: &Attention<Resident>) -> bool {
    let plain = |norm: &Option<Norm<Resident>>| {
        norm.as_ref().is_none_or(|norm| {
            let one_head = norm.width == attention.head_dim && norm.weight.columns == norm.width as usize;
            one_head && norm.kind == NormKind::Rms && norm.bias.is_none()
        })
    };
    if attention.gated || !plain(&attention.q_norm) || !plain(&attention.k_norm) {
        return false;
    }
    let weight = |norm: &Option<Norm<Resident>>| or_nothing(norm.as_ref().map(|norm| norm.weight.at));
    let epsilon = |norm: &Option<Norm<Resident>>| norm.as_ref().map_or(0.0, |norm| norm.epsilon);
    let turns = attention.rope.map(|rope| wgpu.turns(rope));
    let (heads, kv_heads) = (attention.heads as usize, attention.kv_heads as usize);
    let words = [Buffer::Query, Buffer::Key, Buffer::Value]
        .into_iter()
        .fold(Words::default(), |words, buffer| words.int(wgpu.at(buffer)));
    let words = words.int(weight(&attention.q_norm)).int(weight(&attention.k_norm));
    let words = words.float(epsilon(&attention.q_norm)).float(epsilon(&attention.k_norm));
    let words = words.int(or_nothing(turns.map(|(at, ..)| at))).int(turns.map_or(0, |(_, pairs, _)| pairs));
    let words = words.int(usize::from(turns.is_some_and(|(.., is_halves)| is_halves)));
    let words = words.int(heads).int(kv_heads).int(attention.head_dim as usize);
    let kept = &wgpu.kept[block];
    let words = kept.cache.iter().fold(words, |words, array| words.int(array.at));
    let kernel = Kernel::cached(Entry::Turn, kept.kind);
    let rows = wgpu.rows(Buffer::Query);
    wgpu.start_on(kernel, Some(block), &[], [heads + 2 * kv_heads, rows, 1], words);
    true
}

/// See [`kauri_device::Ops::store`].
pub(crate) fn store(wgpu: &mut Wgpu, block: usize, attention: &Attention<Resident>) {
    let (heads, width) = (attention.kv_heads as usize, attention.head_dim as usize);
    put(wgpu, block, Buffer::Key, 0, heads, width);
    put(wgpu, block, Buffer::Value, 2, heads, width);
}

/// See [`kauri_device::Ops::store_rows`].
pub(crate) fn store_rows(wgpu: &mut Wgpu, block: usize, latent: &Latent<Resident>) {
    put(wgpu, block, Buffer::Key, 0, 1, latent.row() as usize);
}

/// Writes the heads of a buffer to a half of a cache, whose values are the array with this number.
fn put(wgpu: &mut Wgpu, block: usize, from: Buffer, array: usize, heads: usize, width: usize) {
    let Kept { cache, kind, .. } = &wgpu.kept[block];
    let words = Words::of([wgpu.at(from), heads, width, cache[array].at, cache[array + 1].at]);
    let kernel = Kernel::cached(Entry::Store, *kind);
    wgpu.start_on(kernel, Some(block), &[], [heads, wgpu.rows(from), 1], words);
}
