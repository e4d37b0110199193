//! What a model takes of the machine's memory on this device beside its weights, before any of it is asked for.
//!
//! Counted is what a step touches; what is only reserved costs nothing.

use kauri_arch::{Ffn, Shape};
use kauri_device::{Adapted, Buffer, Plan, Weight};
use kauri_formats::Quant;

use crate::cache::blocks::Caches;
use crate::ops::{forms_of_pages, forms_of_rings};
use crate::{adapters, experts, latent};

/// Bytes of a quantised activation: the byte itself, and its share of scales and sums.
const QUANTISED_BYTES: f64 = 1.0 + 4.0 / 128.0 + 8.0 / 16.0;
/// Bytes of a worker's stack and tables that it touches.
const WORKER_BYTES: u64 = 512 << 10;

/// Bytes by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Keys and values, as this device lays them out.
    pub cache_bytes: u64,
    /// States of recurrent layers, snapshots included.
    pub state_bytes: u64,
    /// Activations, and what products and attention work in.
    pub scratch_bytes: u64,
}

impl Sizes {
    /// For a model sized by `plan`, on `threads` threads.
    pub fn of(shape: &Shape<Weight>, plan: &Plan, threads: usize) -> Self {
        let states = (4 * shape.state_values_per_sequence()).saturating_mul(u64::from(plan.slots));
        Self {
            cache_bytes: cache_bytes(shape, plan),
            state_bytes: states,
            scratch_bytes: scratch(shape, plan) + threads as u64 * WORKER_BYTES,
        }
    }

    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.cache_bytes.saturating_add(self.state_bytes).saturating_add(self.scratch_bytes)
    }
}

/// Bytes of keys and values, those in rings and of every page.
pub(crate) fn cache_bytes(shape: &Shape<Weight>, plan: &Plan) -> u64 {
    let rings = plan.of_rings().map_or(0, |rings| Caches::bytes(&rings, forms_of_rings(shape, plan)));
    Caches::bytes(plan, forms_of_pages(shape, plan)).saturating_add(rings)
}

fn scratch(shape: &Shape<Weight>, plan: &Plan) -> u64 {
    let tokens = u64::from(plan.batch_tokens);
    let buffers: u64 = Buffer::ALL.iter().map(|buffer| 4 * buffer.values(shape, plan) as u64).sum();
    let (mut columns, mut quantised) = (0, false);
    shape.for_each(|weight| match weight {
        Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) => {
            columns = columns.max(matrix.columns as u64);
            quantised |= !matches!(matrix.quant, Quant::F32 | Quant::F16 | Quant::BF16);
        }
        Weight::Vector(_) => {}
    });
    let values = (tokens * columns).max(experts::values(shape, plan) as u64).max(latent::values(shape, plan) as u64);
    let each = if quantised { QUANTISED_BYTES } else { 4.0 };
    let moes = shape.ffns().filter_map(Ffn::moe).map(|moe| {
        let width = moe.experts.iter().map(|expert| u64::from(expert.up.rows)).max().unwrap_or(0);
        4 * u64::from(moe.chosen) * tokens * (2 * width + u64::from(shape.hidden))
    });
    let low = 4 * adapters::values(shape, plan) as u64;
    buffers + (each * values as f64) as u64 + moes.max().unwrap_or(0) + low
}
