//! Latent attention's own: what becomes of queries and rows before and behind it.

use kauri_arch::{Latent, NormKind};
use kauri_device::Buffer;

use crate::driver::{Arg, Grid};
use crate::ops::Cuda;
use crate::resident::Resident;

/// Rows, or threads, of a block, as in `kernels/latent.cu`.
const ROWS: usize = 128;

/// See [`kauri_device::Ops::fold`].
pub(crate) fn fold(cuda: &Cuda, latent: &Latent<Resident>) {
    let [heads, nope, rope, rank] =
        [latent.heads, latent.nope_dims, latent.rope_dims, latent.latent].map(|count| count as usize);
    let tokens = cuda.rows(Buffer::Query);
    let keys = &latent.keys[0].weight;
    let blocks = if latent.turned { rank.div_ceil(8).div_ceil(ROWS) } else { rank.div_ceil(ROWS) };
    let mut grid = Grid::new([blocks, heads, tokens], ROWS as u32);
    grid.shared_bytes = 4 * nope.next_multiple_of(4);
    let arguments = [
        cuda.count(Buffer::Query).into(),
        cuda.weights.table(keys).into(),
        keys.quant_number(),
        latent.turned.into(),
        cuda.at(Buffer::Parts).into(),
        cuda.at(Buffer::Query).into(),
        nope.into(),
        rope.into(),
        rank.into(),
    ];
    cuda.launch("fold", grid, &arguments);
    let norm = &latent.kv_norm;
    let arguments = [
        cuda.count(Buffer::Key).into(),
        cuda.at(Buffer::Value).into(),
        cuda.at(Buffer::Key).into(),
        norm.weight.at.into(),
        norm.bias.map_or(0, |bias| bias.at).into(),
        rope.into(),
        rank.into(),
        (norm.kind == NormKind::Layer).into(),
        norm.epsilon.into(),
    ];
    cuda.launch("fold_key", Grid::new([1, tokens, 1], 256), &arguments);
}

/// See [`kauri_device::Ops::unfold`].
pub(crate) fn unfold(cuda: &Cuda, latent: &Latent<Resident>) {
    let [heads, rank, rows] = [latent.heads, latent.latent, latent.value_dims].map(|count| count as usize);
    let values = &latent.values[0].weight;
    let mut grid = Grid::new([rows.div_ceil(ROWS), heads, cuda.rows(Buffer::Mixed)], ROWS as u32);
    grid.shared_bytes = 4 * rank.next_multiple_of(4);
    let (table, quant): (Arg<'_>, _) = (cuda.weights.table(values).into(), values.quant_number());
    let (mixed, parts) = (cuda.at(Buffer::Mixed).into(), cuda.at(Buffer::Parts).into());
    let arguments = [cuda.count(Buffer::Mixed).into(), table, quant, mixed, parts, rank.into(), rows.into()];
    cuda.launch("unfold", grid, &arguments);
}
