//! Products with many rows, in Hopper's matrix units (`kernels/matmul_sm90.cu`): rows in bf16 meet bf16 weights, which are made of the stored ones on
//! the way; of one matrix, of a gated pair, or of all experts at once, each with the rows of those that chose it.

use kauri_arch::{Activation, Dense, Linear, Moe};
use kauri_device::Buffer;
use kauri_formats::Quant;
use kauri_formats::scales::TILE_COLUMNS;

use crate::codes;
use crate::driver::{Arg, Failure, Gpu, Grid, Version};
use crate::experts;
use crate::matmul::{Form, Held, type_name};
use crate::ops::Cuda;
use crate::resident::Resident;
use crate::structure::Structure;

/// Rows of a tile, and those of a gated pair.
pub(crate) const TILE_ROWS: usize = 128;
const PAIR_ROWS: usize = 64;
/// Tokens of one at most.
pub(crate) const TILE_TOKENS_MAX: usize = 128;
/// Bytes of bf16 weights that are made at a time, and those of experts.
pub(crate) const MADE_BYTES: usize = 256 << 20;
pub(crate) const MADE_EXPERTS_BYTES: usize = 1 << 30;
/// The one generation that has these kernels.
pub(crate) const HOPPER: Version = Version(9, 0);
/// From so many tokens on they are taken: with bf16 weights, and with those that have to be made such first.
const FROM: usize = 9;
const FROM_QUANTISED: usize = 33;
/// With more tokens than that for an expert on average all experts are made bf16, whoever chose them.
const TOKENS_AN_EXPERT: usize = 8;
/// Experts at most.
const EXPERTS_MAX: usize = 512;

/// Whether there are kernels for so many rows at all.
pub(crate) fn takes(cuda: &Cuda, rows: usize) -> bool {
    !cuda.exact && cuda.gpu.capability == HOPPER && rows >= FROM
}

/// Whether the product of so many rows with a matrix of this type is quickest so. Numbers of single precision stay such.
pub(crate) fn is_best(cuda: &Cuda, weight: &Resident, rows: usize) -> bool {
    let as_stored = weight.quant == Quant::BF16 || codes::takes(cuda, weight, rows);
    let from = if as_stored { FROM } else { FROM_QUANTISED };
    takes(cuda, rows) && rows >= from && weight.quant != Quant::F32
}

/// An activation in the one formula that these kernels have: see `Curve` of `kernels/matmul.cuh`.
fn curve(activation: Activation) -> Option<[f32; 5]> {
    let most = f32::INFINITY;
    match activation {
        Activation::Silu => Some([1.0, 0.0, most, most, 0.0]),
        Activation::GeluTanh => Some([1.595_769, 0.071_354_8, most, most, 0.0]),
        Activation::SiluCut { limit, steepness } => Some([steepness, 0.0, limit, limit, 1.0]),
        Activation::Gelu | Activation::ReluSquared | Activation::Sigmoid | Activation::Tanh | Activation::Identity => {
            None
        }
    }
}

/// What a launch is of, beside its matrices: `MatmulTask` of `kernels/matmul.cuh`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Task {
    biases: [u64; 2],
    /// Where single precision goes, and bf16.
    to: u64,
    halves: u64,
    /// Of experts: the first row of each.
    pub(crate) starts: u64,
    pub(crate) rows: usize,
    pub(crate) tokens: usize,
    pub(crate) columns: usize,
    stride: usize,
    pub(crate) experts: usize,
    added: Option<f32>,
    curve: [f32; 5],
    gate_scale: f32,
    /// Whether the weights are the model's own, and not made in this step.
    is_stored: bool,
    /// Where the second of joined matrices goes, and the third.
    joined: [Joined; 2],
}

/// Where rows of one of several matrices go that lie one behind the other: `Joined` of `kernels/matmul.cuh`.
#[derive(Clone, Copy, Default)]
struct Joined {
    to: u64,
    first: usize,
    stride: usize,
}

/// `to = linear(rows)` of two or three matrices at once, of rows that are at `halves` in bf16: where these are stored so, one right behind the other. Says
/// whether they are.
pub(crate) fn joined(cuda: &Cuda, products: &[(&Linear<Resident>, u64)], halves: u64, tokens: usize) -> bool {
    let [(first, to), rest @ ..] = products else { return false };
    let mut joined = [Joined::default(); 2];
    if rest.is_empty() || rest.len() > joined.len() {
        return false;
    }
    let mut rows = 0;
    for (index, &(linear, to)) in products.iter().enumerate() {
        let weight = &linear.weight;
        let is_next = weight.at == first.weight.at + (2 * rows * weight.columns) as u64;
        let alike = weight.quant == Quant::BF16 && weight.columns == first.weight.columns && linear.bias.is_none();
        if !(is_next && alike && rows.is_multiple_of(TILE_ROWS)) {
            return false;
        }
        if let Some(index) = index.checked_sub(1) {
            joined[index] = Joined { to, first: rows, stride: weight.rows };
        }
        rows += weight.rows;
    }
    let Resident { at, columns, rows: stride, .. } = first.weight;
    let task = Task { to: *to, rows, tokens, columns, stride, is_stored: true, joined, ..Task::default() };
    cuda.note(launch(cuda, "matmul", halves, [at, at], &task));
    true
}

/// `to = linear(rows)`, or `to += added * linear(rows)`, of rows that are at `halves` in bf16.
pub(crate) fn product(
    cuda: &Cuda,
    linear: &Linear<Resident>,
    halves: u64,
    tokens: usize,
    to: u64,
    added: Option<f32>,
) -> Result<(), Failure> {
    let Resident { at, quant, rows, columns, .. } = linear.weight;
    let bias = linear.bias.map_or(0, |bias| bias.at);
    if codes::takes(cuda, &linear.weight, tokens) {
        let task = Task { biases: [bias, 0], to, rows, tokens, columns, stride: rows, added, ..Task::default() };
        return codes::launch(cuda, "matmul", halves, &[&linear.weight], 0, &task);
    }
    // Weights of other types are made bf16 as many rows at a time as there is room for.
    let room = cuda.products.made.bytes() / (2 * columns) / TILE_ROWS * TILE_ROWS;
    let most = if quant == Quant::BF16 { rows } else { room };
    for start in (0..rows).step_by(most) {
        let count = (rows - start).min(most);
        let place = if quant == Quant::BF16 { at } else { make(cuda, &linear.weight, start, count, 0) };
        let task = Task {
            biases: [after(bias, 4 * start), 0],
            to: to + 4 * start as u64,
            rows: count,
            tokens,
            columns,
            stride: rows,
            added,
            is_stored: quant == Quant::BF16,
            ..Task::default()
        };
        launch(cuda, "matmul", halves, [place, place], &task)?;
    }
    Ok(())
}

/// Whether [`pair`] knows this network.
pub(crate) fn is_pair(dense: &Dense<Resident>) -> bool {
    curve(dense.activation).is_some() && dense.up.rows.is_multiple_of(8)
}

/// The wide values of a gated network, of rows that are at `halves`: in bf16 to where [`product`] wants them, and unless they are to be there alone
/// to `Gate`.
pub(crate) fn pair(
    cuda: &Cuda,
    gate: &Linear<Resident>,
    dense: &Dense<Resident>,
    halves: u64,
    tokens: usize,
    alone: bool,
) -> Result<(), Failure> {
    let Resident { quant, rows, columns, .. } = gate.weight;
    let up = &dense.up;
    let bias = |linear: &Linear<Resident>, start: usize| linear.bias.map_or(0, |bias| after(bias.at, 4 * start));
    let half = cuda.products.made.bytes() / 2;
    let most = if quant == Quant::BF16 { rows } else { half / (2 * columns) / PAIR_ROWS * PAIR_ROWS };
    let (to, gated) = (if alone { 0 } else { cuda.at(Buffer::Gate) }, cuda.products.gated.at());
    let as_stored = codes::takes(cuda, &gate.weight, tokens);
    let most = if as_stored { rows } else { most };
    for start in (0..rows).step_by(most) {
        let count = (rows - start).min(most);
        let places = if quant == Quant::BF16 || as_stored {
            [gate.weight.at, up.weight.at]
        } else {
            [make(cuda, &gate.weight, start, count, 0), make(cuda, &up.weight, start, count, half)]
        };
        let task = Task {
            biases: [bias(gate, start), bias(up, start)],
            to: after(to, 4 * start),
            halves: gated + 2 * start as u64,
            rows: count,
            tokens,
            columns,
            stride: rows,
            curve: curve(dense.activation).expect("looked at before"),
            gate_scale: dense.gate_scale,
            is_stored: quant == Quant::BF16,
            ..Task::default()
        };
        if as_stored {
            codes::launch(cuda, "gate_up", halves, &[&gate.weight, &up.weight], 0, &task)?;
        } else {
            launch(cuda, "gate_up", halves, places, &task)?;
        }
    }
    cuda.products.hold(Held { buffer: Buffer::Gate, form: Form::Halves(gated), alone });
    Ok(())
}

/// Whether all experts together are quickest for so many tokens.
pub(crate) fn takes_experts(cuda: &Cuda, moe: &Moe<Resident>, tokens: usize) -> bool {
    let first = &moe.experts[0];
    let shapes = first.up.rows.is_multiple_of(8) && first.up.columns.is_multiple_of(8);
    let as_stored = codes::fits(cuda, &first.up.weight) && codes::fits(cuda, &first.down.weight);
    takes(cuda, tokens)
        && (as_stored || tokens * moe.chosen as usize > TOKENS_AN_EXPERT * moe.experts.len())
        && moe.experts.len() <= EXPERTS_MAX
        && shapes
        && curve(first.activation).is_some()
        && cuda.experts.grouped.is_some()
}

/// What the chosen experts make of the rows at `halves`, to `Mixture`. `stride`: bytes from one expert to the next.
pub(crate) fn mixture(
    cuda: &Cuda,
    moe: &Moe<Resident>,
    stride: u64,
    halves: u64,
    tokens: usize,
) -> Result<(), Failure> {
    let first = &moe.experts[0];
    let gate = first.gate.as_ref().expect("looked at before");
    let grouped = cuda.experts.grouped.as_ref().expect("looked at before");
    let (count, all, hidden) = (moe.chosen as usize, moe.experts.len(), cuda.hidden);
    let pairs = tokens * count;
    let (starts, order) = (grouped.starts.at(), grouped.pairs.at());
    experts::group(cuda, grouped, tokens, count, all);
    let arguments = [
        halves.into(),
        starts.into(),
        order.into(),
        grouped.gathered.at().into(),
        count.into(),
        hidden.into(),
        all.into(),
    ];
    cuda.launch("gather_pairs", Grid { ahead: true, ..Grid::new([pairs, 1, 1], 128) }, &arguments);
    let task = Task {
        halves: grouped.gated.at(),
        rows: first.up.rows as usize,
        tokens: pairs,
        columns: hidden,
        stride: first.up.rows as usize,
        curve: curve(first.activation).expect("looked at before"),
        gate_scale: first.gate_scale,
        ..Task::default()
    };
    let weights = [&gate.weight, &first.up.weight];
    each_expert(cuda, "experts_gate_up", &weights, stride, all, grouped.gathered.at(), starts, &task)?;
    let task = Task {
        to: grouped.joined.at(),
        rows: hidden,
        tokens: pairs,
        columns: first.down.columns as usize,
        stride: hidden,
        ..Task::default()
    };
    each_expert(cuda, "experts", &[&first.down.weight], stride, all, grouped.gated.at(), starts, &task)?;
    experts::join(cuda, grouped, tokens, count);
    Ok(())
}

/// A grouped launch: with weights as they are stored, or for as many experts at a time as there is room to make bf16. `weights`: those of the first
/// expert.
fn each_expert(
    cuda: &Cuda,
    name: &str,
    weights: &[&Resident],
    stride: u64,
    experts: usize,
    halves: u64,
    starts: u64,
    task: &Task,
) -> Result<(), Failure> {
    if weights.iter().all(|weight| codes::fits(cuda, weight)) {
        let task = Task { starts, experts, ..*task };
        return codes::launch(cuda, name, halves, weights, stride, &task);
    }
    let bytes = 2 * task.rows * task.columns;
    let room = cuda.products.made.bytes() / weights.len();
    let most = (room / bytes).max(1);
    for first in (0..experts).step_by(most) {
        let count = (experts - first).min(most);
        let mut places = [0; 2];
        for (index, (place, weight)) in places.iter_mut().zip(weights).enumerate() {
            let of_first = Resident { at: weight.at + first as u64 * stride, ..**weight };
            *place = make_all(cuda, &of_first, [0, weight.rows], index * room, (count, stride));
        }
        if weights.len() == 1 {
            places[1] = places[0];
        }
        let task = Task { starts: starts + 4 * first as u64, experts: count, ..*task };
        launch(cuda, name, halves, places, &task)?;
    }
    Ok(())
}

/// A place behind another, if that is one.
fn after(place: u64, bytes: usize) -> u64 {
    if place == 0 { 0 } else { place + bytes as u64 }
}

/// Rows of a matrix to bf16, so many bytes behind the beginning of the memory for it.
fn make(cuda: &Cuda, weight: &Resident, start: usize, rows: usize, behind: usize) -> u64 {
    make_all(cuda, weight, [start, rows], behind, (1, 0))
}

/// The same of several matrices that lie `stride` bytes apart, one behind the other.
fn make_all(
    cuda: &Cuda,
    weight: &Resident,
    [start, rows]: [usize; 2],
    behind: usize,
    (count, stride): (usize, u64),
) -> u64 {
    let Resident { at, quant, columns, .. } = *weight;
    let unit = match quant {
        Quant::Q8_0 => 16,
        Quant::BF16 | Quant::F16 | Quant::F32 | Quant::F8_E4M3 => 8,
        _ => 32,
    };
    let blocks_a_row = columns / if quant == Quant::F8_E4M3 { TILE_COLUMNS } else { quant.block_len() };
    let to = cuda.products.made.at() + behind as u64;
    let arguments = [
        at.into(),
        rows.into(),
        columns.into(),
        Arg::Place((start * blocks_a_row) as u64),
        Arg::Place((weight.rows * blocks_a_row) as u64),
        to.into(),
        columns.into(),
        stride.into(),
    ];
    let grid = Grid { ahead: true, ..Grid::new([(rows * columns / unit).div_ceil(256), count, 1], 256) };
    cuda.launch(&format!("dequantise_{}", type_name(quant)), grid, &arguments);
    to
}

/// Starts `name`, of bf16 rows and the weights of one matrix, twice, or of a pair.
fn launch(cuda: &Cuda, name: &str, halves: u64, weights: [u64; 2], task: &Task) -> Result<(), Failure> {
    let Task { rows, tokens, columns, .. } = *task;
    let grouped = task.starts != 0;
    let each = if grouped { tokens.div_ceil(task.experts) } else { tokens };
    let tile = each.next_power_of_two().clamp(16, TILE_TOKENS_MAX);
    let stages = match tile {
        16 => 11,
        32 => 10,
        64 => 8,
        _ => 6,
    };
    let processors = cuda.gpu.processors as usize;
    let tile_rows = if name.ends_with("gate_up") { PAIR_ROWS } else { TILE_ROWS };
    let tiles = rows.div_ceil(tile_rows) * tokens.div_ceil(tile);
    let splits = if grouped { 1 } else { (processors / tiles).clamp(1, (columns / 256).max(1)) };
    let blocks = if grouped { processors } else { (tiles * splits).min(processors) };
    let x = Gpu::map(halves, tokens, columns, tile)?;
    let all_rows = rows * task.experts.max(1);
    let [first, second] = weights.map(|at| Gpu::map(at, all_rows, columns, 64));
    let mut structure = Structure::new();
    for word in x.into_iter().chain(first?).chain(second?) {
        structure = structure.place(word);
    }
    let structure = task_structure(cuda, &structure, task, splits);
    let mut grid = Grid { ahead: true, ..Grid::new([blocks, 1, 1], 384) };
    grid.shared_bytes = stages * (16384 + 128 * tile) + 1024;
    cuda.launch(&format!("{name}_n{tile}"), grid, &[(&structure).into()]);
    Ok(())
}

/// A task, behind what there is of a structure.
pub(crate) fn task_structure(cuda: &Cuda, structure: &Structure, task: &Task, splits: usize) -> Structure {
    let mut structure = structure
        .place(task.biases[0])
        .place(task.biases[1])
        .place(task.to)
        .place(task.halves)
        .place(task.starts)
        .place(cuda.products.partials.at())
        .place(cuda.products.counters.at())
        .int(task.rows)
        .int(task.tokens)
        .int(task.columns)
        .int(task.stride)
        .int(task.experts)
        .int(splits)
        .int(usize::from(task.added.is_some()))
        .float(task.added.unwrap_or(0.0));
    for number in task.curve {
        structure = structure.float(number);
    }
    structure = structure.float(task.gate_scale).int(usize::from(task.is_stored)).aligned(8);
    for Joined { to, first, stride } in task.joined {
        structure = structure.place(to).int(first).int(stride);
    }
    structure.aligned(64)
}
