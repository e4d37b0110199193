//! Products of matrices with the rows of the batch, and the norms ahead of them.
//!
//! There are three ways. A few rows meet quantised weights as bytes, and other weights as they are, at the speed of the memory that
//! holds the matrix (`kernels/matvec.cu`). Many rows meet bf16 weights, made of the stored ones on the way, in Hopper's matrix units
//! (`kernels/matmul_sm90.cu`). The plain way takes anything, in single precision, and is all there is where exact results are wanted.

use std::sync::Arc;

use kauri_arch::{Dense, Linear, Norm, NormKind, Shape};
use kauri_device::{Buffer, DeviceError, Plan, Weight, reference};
use kauri_formats::Quant;

use crate::detect::no_room;
use crate::driver::{Allocation, Arg, Failure, Gpu, Grid, Structure, Version};
use crate::elementwise::{self, numbered};
use crate::ops::Cuda;
use crate::resident::Resident;

/// Rows of the matrix to a block of the plain kernels, and tokens.
const PLAIN_ROWS: usize = 4;
const PLAIN_TOKENS: usize = 8;
/// Tokens of a narrow launch at most, and warps of a block.
const NARROW_TOKENS: usize = 8;
const NARROW_WARPS: usize = 4;
/// Matrices of a narrow launch at most.
const PARTS: usize = 4;
/// From so many tokens on the wide way is taken: with bf16 weights, and with those that have to be made such first.
const WIDE_FROM: usize = 9;
const WIDE_FROM_QUANTISED: usize = 33;
/// Rows of a tile of the wide kernels.
const TILE_ROWS: usize = 128;
/// Tokens of one at most.
const TILE_TOKENS_MAX: usize = 128;
/// Bytes of bf16 weights that are made at a time.
const MADE_BYTES: usize = 256 << 20;
/// The one generation that has the wide kernels.
const HOPPER: Version = Version(9, 0);

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    /// With rows of bytes, or of numbers.
    Bytes,
    Numbers,
    Wide,
}

/// Memory that products work in.
pub(crate) struct Scratch {
    /// Rows as bytes, (rows, columns), and what belongs to each 32 of them.
    pub(crate) codes: Allocation,
    pub(crate) metas: Allocation,
    /// Rows as bf16.
    halves: Allocation,
    /// Weights as bf16.
    made: Allocation,
    partials: Allocation,
    counters: Allocation,
}

impl Scratch {
    /// Sized for the widest input of `shape`; `slots` rows of it at most for each token.
    pub(crate) fn new(gpu: &Arc<Gpu>, shape: &Shape<Weight>, plan: &Plan, slots: usize) -> Result<Self, DeviceError> {
        let mut columns = 0;
        shape.for_each(|weight| match weight {
            Weight::Matrix(matrix) => columns = columns.max(matrix.columns),
            Weight::Vector(_) => {}
        });
        let rows = slots.max(1) * plan.batch_tokens as usize;
        let wide = usize::from(gpu.capability == HOPPER);
        let partials = 4 * 2 * gpu.processors as usize * TILE_ROWS * TILE_TOKENS_MAX;
        let sizes = [
            rows * columns,
            rows * columns.div_ceil(32) * 8,
            2 * wide * plan.batch_tokens as usize * columns,
            wide * MADE_BYTES,
            wide * partials,
            wide * 4 * 65536,
        ];
        let mut made = sizes.into_iter().map(|bytes| {
            let memory = gpu.allocate(bytes).map_err(no_room("activations", bytes as u64))?;
            gpu.set(&memory, 0).map_err(crate::detect::lost)?;
            Ok(memory)
        });
        let mut next = || made.next().expect("six sizes");
        let (codes, metas, halves) = (next()?, next()?, next()?);
        Ok(Self { codes, metas, halves, made: next()?, partials: next()?, counters: next()? })
    }
}

/// The products of one input: `to = linear(norm(from))` each, or `to += added * linear(norm(from))`. Where it is
/// wanted, the input is made bytes in any case.
pub(crate) fn products(
    cuda: &Cuda,
    norm: Option<&Norm<Resident>>,
    from: Buffer,
    products: &[(&Linear<Resident>, Buffer)],
    added: Option<f32>,
    also_bytes: bool,
) {
    let mut ways: Vec<Way> = products.iter().map(|(linear, _)| way(cuda, linear, cuda.rows(from))).collect();
    if also_bytes {
        ways.push(Way::Bytes);
    }
    let input = prepare(cuda, norm, from, &ways, products[0].0.columns as usize);
    for wanted in [Way::Bytes, Way::Numbers] {
        let mut rest: Vec<_> =
            products.iter().zip(&ways).filter(|(_, way)| **way == wanted).map(|(it, _)| *it).collect();
        while !rest.is_empty() {
            // Bytes of several types go in one launch; numbers by type.
            let first = rest[0].0.weight.quant;
            let fits = |linear: &Linear<Resident>| wanted == Way::Bytes || linear.weight.quant == first;
            let (mut now, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(linear, _)| fits(linear));
            rest = now.split_off(now.len().min(PARTS));
            rest.extend(later);
            narrow(cuda, input, &now, added);
        }
    }
    for (&(linear, to), way) in products.iter().zip(&ways) {
        match way {
            Way::Plain => plain(cuda, linear, input, to, added),
            Way::Wide => cuda.note(wide(cuda, linear, cuda.rows(from), cuda.at(to), added)),
            Way::Bytes | Way::Numbers => {}
        }
    }
}

/// `to = linear(from)`, or `to += added * linear(from)`.
pub(crate) fn linear(cuda: &Cuda, linear: &Linear<Resident>, from: Buffer, to: Buffer, added: Option<f32>) {
    products(cuda, None, from, &[(linear, to)], added, false);
}

/// See [`kauri_device::Ops::gate_up`].
pub(crate) fn gate_up(cuda: &mut Cuda, norm: Option<&Norm<Resident>>, dense: &Dense<Resident>) {
    let from = Buffer::Stream;
    let rows = cuda.rows(from);
    let Some(gate) = &dense.gate else {
        products(cuda, norm, from, &[(&dense.up, Buffer::Up)], None, false);
        return reference::finish_gate(cuda, dense);
    };
    let way = way(cuda, gate, rows);
    let alike = gate.weight.quant == dense.up.weight.quant && way == self::way(cuda, &dense.up, rows);
    if !alike || !matches!(way, Way::Bytes | Way::Numbers) {
        products(cuda, norm, from, &[(gate, Buffer::Gate), (&dense.up, Buffer::Up)], None, false);
        return reference::finish_gate(cuda, dense);
    }
    let input = prepare(cuda, norm, from, &[way], gate.columns as usize);
    each_few(rows, |start, count, room| {
        let part = Part { gate: Some(gate), linear: &dense.up, to: cuda.at(Buffer::Gate), stride: gate.rows as usize };
        let structure =
            narrow_structure(cuda, cuda.at(input), &[part], [start, count], (room, false), None, Some(dense));
        let blocks = part.blocks(room, false);
        launch_narrow(cuda, &format!("gate_up_{}_t{room}", type_name(gate.weight.quant)), blocks, &structure);
    });
}

/// How the product of so many rows with a matrix is best computed.
fn way(cuda: &Cuda, linear: &Linear<Resident>, rows: usize) -> Way {
    let Resident { quant, columns, planes, .. } = linear.weight;
    if cuda.exact || rows == 0 || !columns.is_multiple_of(32) {
        return Way::Plain;
    }
    let narrow = match quant {
        Quant::Q8_0 | Quant::Q4_0 | Quant::Q6_K if planes => Way::Bytes,
        Quant::Q4_K | Quant::Q5_K => Way::Bytes,
        Quant::BF16 | Quant::F16 | Quant::F32 => Way::Numbers,
        _ => return Way::Plain,
    };
    let from = if quant == Quant::BF16 { WIDE_FROM } else { WIDE_FROM_QUANTISED };
    // Numbers of single precision stay such.
    let wide = rows >= from && quant != Quant::F32 && cuda.gpu.capability == HOPPER;
    if wide { Way::Wide } else { narrow }
}

/// Whether bytes of this type lie in planes where the fast kernels take them.
pub(crate) fn wants_planes(quant: Quant, columns: usize) -> bool {
    matches!(quant, Quant::Q8_0 | Quant::Q4_0 | Quant::Q6_K) && columns.is_multiple_of(32)
}

/// The rows of `from` behind its norm, in all the forms that are wanted; gives where they are as numbers.
fn prepare(cuda: &Cuda, norm: Option<&Norm<Resident>>, from: Buffer, ways: &[Way], columns: usize) -> Buffer {
    let to = if norm.is_some() { Buffer::Normed } else { from };
    let (bytes, halves) = (ways.contains(&Way::Bytes), ways.contains(&Way::Wide));
    if !bytes && !halves && (norm.is_none() || ways.contains(&Way::Plain)) {
        if let Some(norm) = norm {
            elementwise::norm(cuda, norm, 1, from, to);
        }
        return to;
    }
    let values = if norm.is_some() { cuda.at(to) } else { 0 };
    turn_rows(cuda, norm, cuda.at(from), cuda.rows(from), columns, values, [bytes, halves]);
    to
}

/// Rows to bytes, or to bf16, behind their norm.
pub(crate) fn turn_rows(
    cuda: &Cuda,
    norm: Option<&Norm<Resident>>,
    from: u64,
    rows: usize,
    columns: usize,
    values: u64,
    [bytes, halves]: [bool; 2],
) {
    let scratch = &cuda.products;
    let when = |wanted: bool, place: &Allocation| if wanted { place.at() } else { 0 };
    let structure = Structure::new()
        .place(from)
        .place(norm.map_or(0, |norm| norm.weight.at))
        .place(norm.and_then(|norm| norm.bias).map_or(0, |bias| bias.at))
        .place(values)
        .place(when(bytes, &scratch.codes))
        .place(when(bytes, &scratch.metas))
        .place(when(halves, &scratch.halves))
        .int(columns)
        .aligned(8)
        .int(columns)
        .int(columns)
        .int(usize::from(norm.is_some_and(|norm| norm.kind == NormKind::Layer)))
        .float(norm.map_or(0.0, |norm| norm.epsilon));
    let threads = columns.div_ceil(4).next_multiple_of(32).min(1024) as u32;
    let grid = Grid { ahead: true, ..Grid::new([rows, 1, 1], threads) };
    cuda.launch("norm_rows", grid, &[(&structure).into()]);
}

/// One matrix of a narrow launch.
#[derive(Clone, Copy)]
struct Part<'a> {
    /// The first of a gated pair.
    gate: Option<&'a Linear<Resident>>,
    linear: &'a Linear<Resident>,
    to: u64,
    stride: usize,
}

impl Part<'_> {
    /// Blocks for its rows, in a launch for so many tokens, beside others of other types or not.
    fn blocks(&self, room: usize, mixed: bool) -> usize {
        let quant = self.linear.weight.quant;
        let alone = self.gate.is_none() && !mixed && !matches!(quant, Quant::Q4_0 | Quant::Q4_K | Quant::Q5_K);
        let rows = match room {
            1 if alone => 1,
            1 | 2 => 2,
            _ => 4,
        };
        let outputs = NARROW_WARPS * rows / if self.gate.is_some() { 2 } else { 1 };
        (self.linear.rows as usize).div_ceil(outputs)
    }
}

/// Products with a few rows, several matrices at once.
fn narrow(cuda: &Cuda, input: Buffer, products: &[(&Linear<Resident>, Buffer)], added: Option<f32>) {
    let parts: Vec<Part<'_>> = products
        .iter()
        .map(|&(linear, to)| Part { gate: None, linear, to: cuda.at(to), stride: linear.rows as usize })
        .collect();
    let first = products[0].0.weight.quant;
    let alike = products.iter().all(|(linear, _)| linear.weight.quant == first);
    let name = if alike { type_name(first) } else { "mixed" };
    each_few(cuda.rows(input), |start, count, room| {
        let structure = narrow_structure(cuda, cuda.at(input), &parts, [start, count], (room, !alike), added, None);
        let blocks = parts.iter().map(|part| part.blocks(room, !alike)).sum();
        launch_narrow(cuda, &format!("matvec_{name}_t{room}"), blocks, &structure);
    });
}

/// A few rows after the other: the first, how many, and for how many the kernel is.
fn each_few(rows: usize, mut launch: impl FnMut(usize, usize, usize)) {
    for start in (0..rows).step_by(NARROW_TOKENS) {
        let count = (rows - start).min(NARROW_TOKENS);
        launch(start, count, count.next_power_of_two());
    }
}

/// `Matvec` of `kernels/matvec.cuh`.
fn narrow_structure(
    cuda: &Cuda,
    input: u64,
    parts: &[Part<'_>],
    [start, count]: [usize; 2],
    (room, mixed): (usize, bool),
    added: Option<f32>,
    gated: Option<&Dense<Resident>>,
) -> Structure {
    let mut structure = Structure::new();
    let mut first_block = 0;
    let bias = |linear: &Linear<Resident>| linear.bias.map_or(0, |bias| bias.at);
    for part in parts {
        let (weight, up) = part.gate.map_or((part.linear, None), |gate| (gate, Some(part.linear)));
        structure = structure
            .place(weight.weight.at)
            .place(up.map_or(0, |up| up.weight.at))
            .place(bias(weight))
            .place(up.map_or(0, bias))
            .place(part.to + 4 * (start * part.stride) as u64)
            .int(weight.rows as usize)
            .int(part.stride)
            .int(weight.weight.quant.ggml() as usize)
            .int(first_block);
        first_block += part.blocks(room, mixed);
    }
    for _ in parts.len()..PARTS {
        structure = structure.place(0).place(0).place(0).place(0).place(0).place(0).place(0);
    }
    let columns = parts[0].linear.columns as usize;
    let structure = vectors(cuda, &structure.int(parts.len()), input, columns, [start, count]);
    let [number, limit, steepness] = gated.map_or([0.0; 3], |dense| numbered(dense.activation));
    structure
        .int(usize::from(added.is_some()))
        .float(added.unwrap_or(0.0))
        .int(number as usize)
        .float(limit)
        .float(steepness)
        .float(gated.map_or(1.0, |dense| dense.gate_scale))
}

/// `Vectors` of `kernels/matvec.cuh`.
pub(crate) fn vectors(
    cuda: &Cuda,
    structure: &Structure,
    values: u64,
    columns: usize,
    [start, count]: [usize; 2],
) -> Structure {
    let scratch = &cuda.products;
    (*structure)
        .place(scratch.codes.at() + (start * columns) as u64)
        .place(scratch.metas.at() + (start * columns / 32 * 8) as u64)
        .place(values + 4 * (start * columns) as u64)
        .int(columns)
        .int(count)
}

fn launch_narrow(cuda: &Cuda, name: &str, blocks: usize, structure: &Structure) {
    let grid = Grid { ahead: true, ..Grid::new([blocks, 1, 1], 32 * NARROW_WARPS as u32) };
    cuda.launch(name, grid, &[structure.into()]);
}

/// The ending of the kernels for a type.
pub(crate) fn type_name(quant: Quant) -> &'static str {
    match quant {
        Quant::Q8_0 => "q8_0",
        Quant::Q4_0 => "q4_0",
        Quant::Q4_K => "q4_k",
        Quant::Q5_K => "q5_k",
        Quant::Q6_K => "q6_k",
        Quant::BF16 => "bf16",
        Quant::F16 => "f16",
        _ => "f32",
    }
}

/// Whether there are kernels of [`type_name`] for it.
pub(crate) fn is_fast(quant: Quant) -> bool {
    matches!(
        quant,
        Quant::Q8_0 | Quant::Q4_0 | Quant::Q4_K | Quant::Q5_K | Quant::Q6_K | Quant::BF16 | Quant::F16 | Quant::F32
    )
}

/// The product with many rows, whose bf16 forms are there.
fn wide(cuda: &Cuda, linear: &Linear<Resident>, tokens: usize, to: u64, added: Option<f32>) -> Result<(), Failure> {
    let Resident { at, quant, rows, columns, .. } = linear.weight;
    let scratch = &cuda.products;
    let bias = linear.bias.map_or(0, |bias| bias.at);
    // Weights of other types are made bf16 as many rows at a time as there is room for.
    let most = if quant == Quant::BF16 { rows } else { (MADE_BYTES / (2 * columns)) / TILE_ROWS * TILE_ROWS };
    for start in (0..rows).step_by(most.max(TILE_ROWS)) {
        let count = (rows - start).min(most.max(TILE_ROWS));
        let place = if quant == Quant::BF16 {
            at
        } else {
            make_halves(cuda, &linear.weight, start, count);
            scratch.made.at()
        };
        let bias = if bias == 0 { 0 } else { bias + 4 * start as u64 };
        let part = [place, bias, to + 4 * start as u64];
        wide_part(cuda, part, [count, columns, tokens, rows], added)?;
    }
    Ok(())
}

/// Rows of a matrix to bf16.
fn make_halves(cuda: &Cuda, weight: &Resident, start: usize, rows: usize) {
    let Resident { at, quant, columns, .. } = *weight;
    let unit = match quant {
        Quant::Q8_0 => 16,
        Quant::F16 | Quant::F32 => 8,
        _ => 32,
    };
    let blocks_a_row = columns / quant.block_len();
    let arguments = [
        at.into(),
        rows.into(),
        columns.into(),
        Arg::Place((start * blocks_a_row) as u64),
        Arg::Place((weight.rows * blocks_a_row) as u64),
        cuda.products.made.at().into(),
        columns.into(),
    ];
    let grid = Grid { ahead: true, ..Grid::new([(rows * columns / unit).div_ceil(256), 1, 1], 256) };
    cuda.launch(&format!("dequantise_{}", type_name(quant)), grid, &arguments);
}

/// A launch of the wide kernel: (rows, columns) of bf16 weights, with a bias, to columns of rows of `stride` values.
fn wide_part(
    cuda: &Cuda,
    [weight, bias, to]: [u64; 3],
    [rows, columns, tokens, stride]: [usize; 4],
    added: Option<f32>,
) -> Result<(), Failure> {
    let scratch = &cuda.products;
    let tile = tokens.next_power_of_two().clamp(16, TILE_TOKENS_MAX);
    let stages = match tile {
        16 => 11,
        32 => 10,
        64 => 8,
        _ => 6,
    };
    let processors = cuda.gpu.processors as usize;
    let tiles = rows.div_ceil(TILE_ROWS) * tokens.div_ceil(tile);
    let splits = if tile == TILE_TOKENS_MAX { 1 } else { (processors / tiles).clamp(1, (columns / 256).max(1)) };
    let x = Gpu::map(scratch.halves.at(), tokens, columns, tile)?;
    let weights = Gpu::map(weight, rows, columns, TILE_ROWS / 2)?;
    let mut structure = Structure::new();
    for word in x.into_iter().chain(weights).chain(weights) {
        structure = structure.place(word);
    }
    let structure = structure
        .place(bias)
        .place(0)
        .place(to)
        .place(0)
        .place(0)
        .place(scratch.partials.at())
        .place(scratch.counters.at())
        .int(rows)
        .int(tokens)
        .int(columns)
        .int(stride)
        .int(0)
        .int(splits)
        .int(usize::from(added.is_some()))
        .float(added.unwrap_or(0.0))
        .float(0.0)
        .float(0.0)
        .float(0.0)
        .float(0.0)
        .float(0.0)
        .float(1.0)
        .aligned(64);
    let mut grid = Grid { ahead: true, ..Grid::new([(tiles * splits).min(processors), 1, 1], 384) };
    grid.shared_bytes = stages * (16384 + 128 * tile) + 1024;
    cuda.launch(&format!("matmul_n{tile}"), grid, &[(&structure).into()]);
    Ok(())
}

/// The plain way.
fn plain(cuda: &Cuda, linear: &Linear<Resident>, from: Buffer, to: Buffer, added: Option<f32>) {
    let Resident { at, quant, rows, columns, .. } = linear.weight;
    let arguments = [
        cuda.count(from).into(),
        at.into(),
        linear.bias.map_or(0, |bias| bias.at).into(),
        rows.into(),
        columns.into(),
        cuda.at(from).into(),
        cuda.at(to).into(),
        added.is_some().into(),
        added.unwrap_or(0.0).into(),
    ];
    let blocks = [rows.div_ceil(PLAIN_ROWS), cuda.rows(from).div_ceil(PLAIN_TOKENS), 1];
    cuda.launch(&format!("linear_{}", quant.name()), Grid::new(blocks, 32 * PLAIN_ROWS as u32), &arguments);
}
