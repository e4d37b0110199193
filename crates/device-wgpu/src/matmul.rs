//! Products of matrices with the rows of the batch.
//!
//! Few rows: a few threads share a row of a matrix, which is unpacked once for up to eight rows of the batch, and each output is summed in
//! one order, whatever else is computed. Many rows: tiles in the memory of a workgroup, of halves where there are matrix units, unless exact
//! results are wanted.

use kauri_arch::{Dense, Embed, Linear, Norm};
use kauri_device::{Buffer, Ops, reference};

use crate::driver::Words;
use crate::elementwise::{self, numbered};
use crate::ops::{NOTHING, Wgpu, bias_at};
use crate::resident::{Piece, Resident};
use crate::shader::{self, By, Entry, Kernel, RUN, Types};

/// From so many rows on a workgroup makes a tile of outputs, of so many rows and as many rows of the matrix.
pub(crate) const WIDE_FROM: usize = 17;
const TILE: usize = 64;

/// How such kernels take so many columns: by runs where they can, with sums in an order of their own.
pub(crate) fn by(wgpu: &Wgpu, types: &[Types], columns: usize) -> By {
    if columns.is_multiple_of(RUN) && !wgpu.exact && shader::has_runs(types) { By::Run } else { By::Eight }
}

/// `to = linear(from)`, or `to += added * linear(from)`.
pub(crate) fn linear(wgpu: &mut Wgpu, linear: &Linear<Resident>, from: Buffer, to: Buffer, added: Option<f32>) {
    products(wgpu, from, &[(linear, to)], added);
}

/// Products of one input, up to three in a launch where each matrix is in one piece.
pub(crate) fn products(wgpu: &mut Wgpu, from: Buffer, products: &[(&Linear<Resident>, Buffer)], added: Option<f32>) {
    let mut parts = Vec::new();
    for &(linear, to) in products {
        for &piece in wgpu.weights.pieces(&linear.weight) {
            parts.push(Part { linear, piece, to: wgpu.at(to) });
        }
    }
    if is_wide(wgpu, from) {
        parts.iter().for_each(|part| launch_wide(wgpu, from, part, added));
    } else {
        parts.chunks(3).for_each(|parts| launch(wgpu, from, parts, added));
    }
}

fn is_wide(wgpu: &Wgpu, from: Buffer) -> bool {
    !wgpu.exact && wgpu.rows(from) >= WIDE_FROM
}

fn launch_wide(wgpu: &mut Wgpu, from: Buffer, part: &Part<'_>, added: Option<f32>) {
    let (rows, columns) = (wgpu.rows(from), part.linear.columns as usize);
    let words = Words::of([rows, columns, wgpu.at(from), usize::from(added.is_some())]).float(added.unwrap_or(0.0));
    let words = part.words().into_iter().fold(words, Words::int);
    let (outputs, types) = (part.piece.rows, Types::of(part.linear.weight.quant));
    let bytes = outputs * part.linear.weight.row_bytes() + 4 * rows * (columns + outputs);
    let unit = wgpu.gpu.unit.filter(|unit| rows >= unit.rows_min as usize);
    let (kernel, [tile_outputs, tile_rows]) = match unit {
        Some(unit) => (Kernel::in_units(types, unit), unit.tile()),
        None => (Kernel::on(Entry::ProductWide, &[types], 1), [TILE; 2]),
    };
    wgpu.count(kernel.entry(), bytes, 2 * rows * columns * outputs);
    let grid = [outputs.div_ceil(tile_outputs), rows.div_ceil(tile_rows), 1];
    wgpu.start_on(kernel, None, &[part.piece.chunk], grid, words);
}

/// Some rows of a matrix, and where they go.
struct Part<'a> {
    linear: &'a Linear<Resident>,
    piece: Piece,
    to: usize,
}

impl Part<'_> {
    /// As `Part` of `shaders/product.wgsl`.
    fn words(&self) -> [usize; 7] {
        let Self { linear, piece, to } = self;
        let bias = linear.bias.map_or(NOTHING, |bias| bias.at + piece.first_row);
        let Resident { quant, rows, .. } = linear.weight;
        [piece.at, linear.weight.row_bytes(), piece.rows, to + piece.first_row, rows, bias, quant as usize]
    }
}

fn launch(wgpu: &mut Wgpu, from: Buffer, parts: &[Part<'_>], added: Option<f32>) {
    let (rows, columns) = (wgpu.rows(from), parts[0].linear.columns as usize);
    let types: Vec<Types> = parts.iter().map(|part| Types::of(part.linear.weight.quant)).collect();
    let by = by(wgpu, &types, columns);
    let tokens = by.tokens(rows);
    let [product_rows, _] = wgpu.product_rows(tokens, by);
    let blocks: Vec<usize> = parts.iter().map(|part| part.piece.rows.div_ceil(product_rows)).collect();
    let words = Words::of([rows, columns, wgpu.at(from), blocks[0], blocks.get(1).copied().unwrap_or(0)]);
    let words = words.int(usize::from(added.is_some())).float(added.unwrap_or(0.0));
    let words = parts.iter().flat_map(Part::words).fold(words, Words::int);
    let chunks: Vec<usize> = parts.iter().map(|part| part.piece.chunk).collect();
    let grid = [blocks.iter().sum(), rows.div_ceil(tokens), 1];
    let outputs: usize = parts.iter().map(|part| part.piece.rows).sum();
    let stored: usize = parts.iter().map(|part| part.piece.rows * part.linear.weight.row_bytes()).sum();
    wgpu.count(Entry::Product, stored + 4 * rows * (columns + outputs), 2 * rows * columns * outputs);
    wgpu.start_on(Kernel::on(Entry::Product, &types, tokens as u32).by(by), None, &chunks, grid, words);
}

/// See [`kauri_device::Ops::gate_up`].
pub(crate) fn gate_up(wgpu: &mut Wgpu, norm: Option<&Norm<Resident>>, dense: &Dense<Resident>) {
    let from = wgpu.normed(norm);
    let whole = |wgpu: &Wgpu, linear: &Linear<Resident>| wgpu.weights.whole(&linear.weight);
    let gate = dense.gate.as_ref().and_then(|gate| Some((gate, whole(wgpu, gate)?)));
    let (Some((gate, gate_piece)), Some(up_piece), false) = (gate, whole(wgpu, &dense.up), is_wide(wgpu, from)) else {
        return reference::widen(wgpu, from, dense);
    };
    let (rows, up) = (wgpu.rows(from), &dense.up);
    let types = [gate, up].map(|linear| Types::of(linear.weight.quant));
    let by = by(wgpu, &types, gate.columns as usize);
    let tokens = by.tokens(rows);
    let words = Words::of([rows, gate.columns as usize, wgpu.at(from), wgpu.at(Buffer::Gate), up.rows as usize]);
    let words = [(gate, gate_piece), (up, up_piece)].into_iter().fold(words, |words, (linear, piece)| {
        let quant = linear.weight.quant as usize;
        let all = [piece.at, linear.weight.row_bytes(), bias_at(linear.bias.as_ref()), quant];
        all.into_iter().fold(words, Words::int)
    });
    let [number, limit, steepness] = numbered(dense.activation);
    let words = words.int(number as usize).float(limit).float(steepness).float(dense.gate_scale);
    let grid = [(up.rows as usize).div_ceil(wgpu.product_rows(tokens, by)[1]), rows.div_ceil(tokens), 1];
    let chunks = [gate_piece.chunk, up_piece.chunk];
    let (columns, outputs) = (gate.columns as usize, up.rows as usize);
    let stored = outputs * (gate.weight.row_bytes() + up.weight.row_bytes());
    wgpu.count(Entry::GateUp, stored + 4 * rows * (columns + outputs), 4 * rows * columns * outputs);
    wgpu.start_on(Kernel::on(Entry::GateUp, &types, tokens as u32).by(by), None, &chunks, grid, words);
}

/// See [`kauri_device::Ops::embed`].
pub(crate) fn embed(wgpu: &mut Wgpu, embed: &Embed<Resident>) {
    let tables = [Some((embed.table, embed.scale)), embed.places.map(|it| (it, 1.0)), embed.kinds.map(|it| (it, 1.0))];
    for (kind, table) in tables.into_iter().enumerate() {
        let Some((table, scale)) = table else { continue };
        for piece in wgpu.weights.pieces(&table).to_vec() {
            let words = Words::of([piece.at, table.row_bytes(), piece.first_row, piece.rows, table.quant as usize]);
            let words = words.int(table.columns).int(wgpu.at(Buffer::Stream)).float(scale).int(kind);
            let blocks = table.columns.div_ceil(8).div_ceil(wgpu.threads());
            let rows = wgpu.rows(Buffer::Stream);
            wgpu.count(Entry::Embed, rows * (table.row_bytes() + 4 * table.columns), 0);
            let kernel = Kernel::on(Entry::Embed, &[Types::of(table.quant)], 1);
            wgpu.start_on(kernel, None, &[piece.chunk], [blocks, rows, 1], words);
        }
    }
}

/// See [`kauri_device::Ops::head`].
pub(crate) fn head(wgpu: &mut Wgpu, norm: &Norm<Resident>, head: &kauri_arch::Head<Resident>) {
    elementwise::gather(wgpu);
    wgpu.norm(norm, 1, Buffer::Last, Buffer::Last);
    let Some(output) = &head.output else { return };
    linear(wgpu, output, Buffer::Last, Buffer::Logits, None);
    if head.scale != 1.0 || head.soft_cap.is_some() {
        elementwise::scale_logits(wgpu, head.scale, head.soft_cap);
    }
}
