//! Latent attention's own: what becomes of queries and rows before and behind it.

use kauri_arch::{Latent, Linear};
use kauri_device::Buffer;

use crate::driver::Words;
use crate::elementwise;
use crate::ops::Wgpu;
use crate::resident::Resident;
use crate::shader::{Entry, Kernel, Types};

/// Rows of a buffer, head by head.
struct Rows {
    buffer: Buffer,
    /// Values of a head, all and those that the matrix meets or gives.
    row: usize,
    values: usize,
}

/// Each head's matrix times its part of a row; `copied` values are brought to the front.
fn heads(wgpu: &mut Wgpu, matrices: &[Linear<Resident>], turned: bool, from: &Rows, to: &Rows, copied: usize) {
    let first = &matrices[0].weight;
    let piece = wgpu.weights.pieces(first)[0];
    let table = wgpu.weights.table(first);
    let words = Words::of([table, first.row_bytes(), first.quant as usize, usize::from(turned)]);
    let words = [wgpu.at(from.buffer), from.row, from.values, wgpu.at(to.buffer), to.row, copied, to.values]
        .into_iter()
        .fold(words, Words::int);
    let blocks =
        if turned { to.values.div_ceil(8).div_ceil(wgpu.threads()) } else { to.values.div_ceil(wgpu.matrix_rows()) };
    let kernel = Kernel::on(Entry::Heads, &[Types::of(first.quant)], 1);
    wgpu.start_on(kernel, None, &[piece.chunk], [blocks, matrices.len(), wgpu.rows(from.buffer)], words);
}

/// See [`kauri_device::Ops::fold`].
pub(crate) fn fold(wgpu: &mut Wgpu, latent: &Latent<Resident>) {
    let [nope, rope, rank] = [latent.nope_dims, latent.rope_dims, latent.latent].map(|count| count as usize);
    let from = Rows { buffer: Buffer::Parts, row: nope + rope, values: nope };
    let to = Rows { buffer: Buffer::Query, row: rope + rank, values: rank };
    heads(wgpu, &latent.keys, latent.turned, &from, &to, rope);
    let (value, key, row) = (wgpu.at(Buffer::Value), wgpu.at(Buffer::Key), rope + rank);
    elementwise::copy(wgpu, 1, [value, rank, row], [key, row, 0], rope);
    elementwise::norm_at(wgpu, &latent.kv_norm, 1, wgpu.rows(Buffer::Key), [(value, row), (key + rope, row)]);
}

/// See [`kauri_device::Ops::unfold`].
pub(crate) fn unfold(wgpu: &mut Wgpu, latent: &Latent<Resident>) {
    let [rank, rows] = [latent.latent, latent.value_dims].map(|count| count as usize);
    let from = Rows { buffer: Buffer::Mixed, row: rank, values: rank };
    let to = Rows { buffer: Buffer::Parts, row: rows, values: rows };
    heads(wgpu, &latent.values, false, &from, &to, 0);
}
