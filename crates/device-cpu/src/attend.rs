//! Attention over the paged cache: every (token, head) pair is one piece of work, summed over positions in order.

use kauri_arch::Attention;
use kauri_device::{Batch, Weight, formula};

use crate::cache::Cache;
use crate::pool::{Disjoint, Pool};

/// `mixed[t] = softmax(scale * query[t] K^T) V`; both are (tokens, heads, `head_dim`). `scratch` holds for each thread one
/// score per place of the cache and two vectors of `head_dim`.
pub fn attend(
    pool: &mut Pool,
    attention: &Attention<Weight>,
    batch: &Batch,
    cache: &Cache,
    query: &[f32],
    scratch: &mut [f32],
    mixed: &mut [f32],
) {
    let heads = attention.heads as usize;
    let head_dim = attention.head_dim as usize;
    let threads = pool.threads();
    let scratch_each = scratch.len() / threads;
    let (scratch, mixed) = (Disjoint::new(scratch), Disjoint::new(mixed));
    pool.run(&|worker| {
        // SAFETY: each worker cuts the part of its own number.
        let scratch = unsafe { scratch.slice(worker * scratch_each..(worker + 1) * scratch_each) };
        let (vector, scores) = scratch.split_at_mut(head_dim);
        for sequence in &batch.sequences {
            let pages = &batch.pages[sequence.pages.clone()];
            for (token, position) in sequence.tokens.clone().zip(sequence.positions()) {
                let first = attention.window_tokens.map_or(0, |window| (position + 1).saturating_sub(window));
                for head in 0..heads {
                    let item = token * heads + head;
                    // Later tokens see more: dealing items out in turn keeps the shares even.
                    if item % threads != worker {
                        continue;
                    }
                    let range = item * head_dim..(item + 1) * head_dim;
                    let kv_head = head / (heads / attention.kv_heads as usize);
                    let seen = first as usize..position as usize + 1;
                    let scores = &mut scores[..seen.len()];
                    for (score, place) in scores.iter_mut().zip(seen.clone()) {
                        cache.keys.read(cache.at(pages, place, kv_head), vector);
                        *score = formula::dot(&query[range.clone()], vector) * attention.scale;
                        if let Some(cap) = attention.soft_cap {
                            *score = formula::soft_cap(*score, cap);
                        }
                    }
                    formula::softmax(scores);
                    // SAFETY: items are dealt out without overlap, so these values belong to this worker alone.
                    let sum = unsafe { mixed.slice(range) };
                    sum.fill(0.0);
                    for (weight, place) in scores.iter().zip(seen) {
                        cache.values.read(cache.at(pages, place, kv_head), vector);
                        sum.iter_mut().zip(vector.iter()).for_each(|(sum, value)| *sum += weight * value);
                    }
                }
            }
        }
    });
}
