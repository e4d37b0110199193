//! Products of matrices with the rows of the batch, and the norms ahead of them.
//!
//! There are three ways. A few rows meet quantised weights as bytes, and other weights as they are, at the speed of the memory that
//! holds the matrix (`kernels/matvec.cu`). Many rows go the wide way (`wide.rs`). The plain way takes anything, in single precision, and is all there is where exact results are wanted.

use std::cell::Cell;
use std::sync::Arc;

use kauri_arch::{Dense, Ffn, Linear, Norm, NormKind, Shape};
use kauri_device::{Adapted, Buffer, DeviceError, Plan, Weight, reference};
use kauri_formats::Quant;
use kauri_formats::scales::TILE_COLUMNS;

use crate::detect::no_room;
use crate::driver::{Allocation, Gpu, Grid};
use crate::elementwise::{self, numbered};
use crate::ops::Cuda;
use crate::resident::Resident;
use crate::stream;
use crate::structure::Structure;
use crate::wide::{self, HOPPER, TILE_ROWS, TILE_TOKENS_MAX};

/// Rows of the matrix to a block of the plain kernels, and tokens.
const PLAIN_ROWS: usize = 4;
const PLAIN_TOKENS: usize = 8;
/// Tokens of a narrow launch at most, and warps of a block.
const NARROW_TOKENS: usize = 8;
const NARROW_WARPS: usize = 4;
/// Matrices of a narrow launch at most.
const PARTS: usize = 4;
/// A row that blocks which do not stay turn themselves has so many columns at most, and a launch so many blocks: those that run at a time.
const TURNED_COLUMNS_MAX: usize = 1024;
const TURNED_BLOCKS_A_PROCESSOR: usize = 8;
/// Columns of rows that a block keeps while it turns one, and its threads.
const KEPT_COLUMNS: std::ops::RangeInclusive<usize> = 1025..=4096;
const KEPT_THREADS: u32 = 256;
/// Rows that the narrow way takes of matrices in single precision, which have no wide one.
const SINGLE_ROWS_MAX: usize = 16;

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
    /// Rows as bf16, and those that a gated pair gives.
    pub(crate) halves: Allocation,
    pub(crate) gated: Allocation,
    /// Weights as bf16.
    pub(crate) made: Allocation,
    pub(crate) partials: Allocation,
    pub(crate) counters: Allocation,
    /// Of the wide values of a network, which may wait while attention runs, and of another buffer.
    held: [Cell<Option<Held>>; 2],
}

/// A buffer whose rows are somewhere in the form that the next product reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) buffer: Buffer,
    pub(crate) form: Form,
    /// Whether they are there alone, and not in the buffer: until a product has read them, or the buffer is written. Else until the next kernel
    /// starts.
    pub(crate) alone: bool,
}

/// The form of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// Where `codes` and `metas` are.
    Bytes,
    /// bf16 at a place.
    Halves(u64),
}

impl Scratch {
    /// Sized for the widest input of `shape`; `slots` rows of it at most for each token.
    pub(crate) fn new(gpu: &Arc<Gpu>, shape: &Shape<Weight>, plan: &Plan, slots: usize) -> Result<Self, DeviceError> {
        let (mut columns, mut made) = (0, 0);
        shape.for_each(|weight| match weight {
            Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) => {
                columns = columns.max(matrix.columns);
                let rows = matrix.rows.next_multiple_of(TILE_ROWS);
                made = made.max((4 * rows * matrix.columns).min(wide::MADE_BYTES));
            }
            Weight::Vector(_) => {}
        });
        for moe in shape.ffns().filter_map(Ffn::moe) {
            let up = &moe.experts[0].up;
            let all = 4 * moe.experts.len() * up.rows as usize * up.columns as usize;
            made = made.max(all.min(wide::MADE_EXPERTS_BYTES));
        }
        let rows = slots.max(1) * plan.batch_tokens as usize;
        let wide = usize::from(gpu.capability == HOPPER);
        let partials = 4 * 2 * gpu.processors as usize * TILE_ROWS * TILE_TOKENS_MAX;
        let halves = 2 * wide * plan.batch_tokens as usize * columns;
        let sizes = [
            rows * columns,
            rows * columns.div_ceil(32) * 8,
            halves,
            halves,
            wide * made,
            wide * partials,
            wide * 4 * 65536,
        ];
        let mut made = sizes.into_iter().map(|bytes| {
            let memory = gpu.allocate(bytes).map_err(no_room("activations", bytes as u64))?;
            gpu.set(&memory, 0).map_err(crate::detect::lost)?;
            Ok(memory)
        });
        let mut next = || made.next().expect("seven sizes");
        let (codes, metas, halves, gated) = (next()?, next()?, next()?, next()?);
        let (made, partials, counters) = (next()?, next()?, next()?);
        Ok(Self { codes, metas, halves, gated, made, partials, counters, held: [const { Cell::new(None) }; 2] })
    }

    /// Notes what the kernel started last wrote.
    pub(crate) fn hold(&self, held: Held) {
        self.slot(held.buffer).set(Some(held));
    }

    /// Another kernel starts: forgets rows that are in their buffer, too.
    pub(crate) fn let_go(&self) {
        self.held.iter().for_each(|slot| slot.set(slot.get().filter(|held| held.alone)));
    }

    /// Another batch comes.
    pub(crate) fn forget_all(&self) {
        self.held.iter().for_each(|slot| slot.set(None));
    }

    /// A buffer is written, or a product has read it.
    pub(crate) fn forget(&self, buffer: Buffer) {
        let slot = self.slot(buffer);
        slot.set(slot.get().filter(|held| held.buffer != buffer));
    }

    /// What is held of a buffer.
    fn held(&self, buffer: Buffer) -> Option<Held> {
        self.slot(buffer).get().filter(|held| held.buffer == buffer)
    }

    fn slot(&self, buffer: Buffer) -> &Cell<Option<Held>> {
        &self.held[usize::from(buffer != Buffer::Gate)]
    }

    /// Where rows of a buffer are that are not in it.
    pub(crate) fn alone(&self, buffer: Buffer) -> Option<u64> {
        match self.held(buffer)? {
            Held { form: Form::Halves(place), alone: true, .. } => Some(place),
            Held { .. } => None,
        }
    }
}

/// What else is wanted of the input of products, beside what they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Also {
    Nothing,
    /// The rows as numbers, as bytes, or as bf16.
    Numbers,
    Bytes,
    Halves,
}

/// The products of one input: `to = linear(norm(from))` each, or `to += added * linear(norm(from))`.
pub(crate) fn products(
    cuda: &Cuda,
    norm: Option<&Norm<Resident>>,
    from: Buffer,
    products: &[(&Linear<Resident>, Buffer)],
    added: Option<f32>,
    also: Also,
) {
    let columns = products[0].0.columns as usize;
    let mut ways: Vec<Way> = products.iter().map(|(linear, _)| way(cuda, linear, cuda.rows(from))).collect();
    match also {
        Also::Nothing | Also::Numbers => {}
        Also::Bytes => ways.push(Way::Bytes),
        Also::Halves => ways.push(Way::Wide),
    }
    let held = cuda.products.held(from).filter(|_| norm.is_none());
    cuda.products.forget(from);
    products.iter().for_each(|&(_, to)| cuda.products.forget(to));
    let as_is = held.filter(|held| match held.form {
        Form::Bytes => ways.iter().all(|way| *way == Way::Bytes),
        Form::Halves(_) => ways.iter().all(|way| *way == Way::Wide),
    });
    assert!(as_is.is_some() || held.is_none_or(|held| !held.alone), "rows of {from:?} are where no product reads them");
    let turning = Turning::of(cuda, norm, from, products, &ways, also).filter(|_| as_is.is_none());
    let input =
        if as_is.is_some() || turning.is_some() { from } else { prepare(cuda, norm, from, &ways, columns, also) };
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
            narrow(cuda, input, &now, added, turning.as_ref());
        }
    }
    let halves = match as_is.map(|held| held.form) {
        Some(Form::Halves(place)) => place,
        Some(Form::Bytes) | None => cuda.products.halves.at(),
    };
    let places: Vec<_> = products.iter().map(|&(linear, to)| (linear, cuda.at(to))).collect();
    let all_wide = added.is_none() && ways.iter().all(|way| *way == Way::Wide);
    if all_wide && wide::joined(cuda, &places, halves, cuda.rows(from)) {
        return;
    }
    for (&(linear, to), way) in products.iter().zip(&ways) {
        match way {
            Way::Plain => plain(cuda, linear, input, to, added),
            Way::Wide => cuda.note(wide::product(cuda, linear, halves, cuda.rows(from), cuda.at(to), added)),
            Way::Bytes | Way::Numbers => {}
        }
    }
}

/// `to = linear(from)`, or `to += added * linear(from)`.
pub(crate) fn linear(cuda: &Cuda, linear: &Linear<Resident>, from: Buffer, to: Buffer, added: Option<f32>) {
    products(cuda, None, from, &[(linear, to)], added, Also::Nothing);
}

/// See [`kauri_device::Ops::gate_up`].
pub(crate) fn gate_up(cuda: &mut Cuda, norm: Option<&Norm<Resident>>, dense: &Dense<Resident>) {
    let from = Buffer::Stream;
    let rows = cuda.rows(from);
    let Some(gate) = &dense.gate else {
        products(cuda, norm, from, &[(&dense.up, Buffer::Up)], None, Also::Nothing);
        return reference::finish_gate(cuda, dense);
    };
    let (way, columns) = (way(cuda, gate, rows), gate.columns as usize);
    let alike = gate.weight.quant == dense.up.weight.quant && way == self::way(cuda, &dense.up, rows);
    cuda.products.forget(Buffer::Gate);
    if alike && way == Way::Wide && wide::is_pair(dense) {
        prepare(cuda, norm, from, &[way], columns, Also::Nothing);
        let alone = self::way(cuda, &dense.down, rows) == Way::Wide;
        return cuda.note(wide::pair(cuda, gate, dense, cuda.products.halves.at(), rows, alone));
    }
    if !alike || !matches!(way, Way::Bytes | Way::Numbers) {
        products(cuda, norm, from, &[(gate, Buffer::Gate), (&dense.up, Buffer::Up)], None, Also::Nothing);
        return reference::finish_gate(cuda, dense);
    }
    let part = Part { gate: Some(gate), linear: &dense.up, to: cuda.at(Buffer::Gate), stride: gate.rows as usize };
    let one = Few { start: 0, count: 1, room: 1, mixed: false };
    let turning = Turning::fitting(cuda, norm, from, way, &[part], one);
    let input = if turning.is_some() { from } else { prepare(cuda, norm, from, &[way], columns, Also::Nothing) };
    // Blocks that stay can give the row as the next product reads it: one kernel less, or one in which each block would turn all of it.
    let reads_bytes = reads(cuda, &dense.down, rows) == Also::Bytes;
    let in_codes = reads_bytes && Staying::of(cuda, &[part], one).is_some_and(|staying| staying.gives_codes(&part));
    each_few(rows, |start, count, room| {
        let few = Few { start, count, room, mixed: false };
        let network = Gated { dense, in_codes: in_codes && rows == 1 };
        let structure = narrow_structure(cuda, input, &[part], few, None, Some(&network), turning.as_ref());
        let name = format!("gate_up_{}", type_name(gate.weight.quant));
        launch_narrow(cuda, ["", &name], few, &[part], &structure, turning.as_ref());
    });
    if in_codes && rows == 1 {
        cuda.products.hold(Held { buffer: Buffer::Gate, form: Form::Bytes, alone: false });
    }
}

/// A gated network whose pair of matrices is launched, and whether its output goes to where rows of bytes are, too.
#[derive(Clone, Copy)]
struct Gated<'a> {
    dense: &'a Dense<Resident>,
    in_codes: bool,
}

/// The one row of a step that every block of a narrow product turns itself into what it reads: one kernel less to wait for.
#[derive(Clone, Copy)]
struct Turning<'a> {
    norm: Option<&'a Norm<Resident>>,
    from: u64,
    /// Of shared memory for the row.
    bytes: usize,
}

impl<'a> Turning<'a> {
    /// For these products, if it is quicker so.
    fn of(
        cuda: &Cuda,
        norm: Option<&'a Norm<Resident>>,
        from: Buffer,
        products: &[(&Linear<Resident>, Buffer)],
        ways: &[Way],
        also: Also,
    ) -> Option<Self> {
        let way = ways[0];
        if also != Also::Nothing || from == Buffer::Last || ways.iter().any(|other| *other != way) {
            return None;
        }
        let first = products[0].0.weight.quant;
        let mixed = way == Way::Bytes && products.iter().any(|(linear, _)| linear.weight.quant != first);
        let few = Few { start: 0, count: 1, room: 1, mixed };
        let parts: Vec<_> = products.iter().map(|&(linear, _)| Part { gate: None, linear, to: 0, stride: 0 }).collect();
        Self::fitting(cuda, norm, from, way, &parts, few)
    }

    /// For a launch.
    fn fitting(
        cuda: &Cuda,
        norm: Option<&'a Norm<Resident>>,
        from: Buffer,
        way: Way,
        parts: &[Part<'_>],
        few: Few,
    ) -> Option<Self> {
        let columns = parts[0].linear.columns as usize;
        let narrow = matches!(way, Way::Bytes | Way::Numbers) && parts.len() <= PARTS;
        if narrow && cuda.rows(from) == 1 && Staying::of(cuda, parts, few).is_some() {
            return Some(Self { norm, from: cuda.at(from), bytes: 0 });
        }
        let blocks: usize = parts.iter().map(|part| part.blocks(few)).sum();
        let bytes = match way {
            Way::Bytes => columns + columns / 4,
            Way::Numbers if norm.is_some() => 4 * columns,
            Way::Numbers | Way::Plain | Way::Wide => return None,
        };
        let fits = cuda.rows(from) == 1
            && columns <= TURNED_COLUMNS_MAX
            && blocks <= TURNED_BLOCKS_A_PROCESSOR * cuda.gpu.processors as usize;
        fits.then(|| Self { norm, from: cuda.at(from), bytes })
    }
}

/// How the product of so many rows with a matrix is best computed.
fn way(cuda: &Cuda, linear: &Linear<Resident>, rows: usize) -> Way {
    let Resident { quant, columns, planes, .. } = linear.weight;
    if cuda.exact || rows == 0 || !columns.is_multiple_of(32) {
        return Way::Plain;
    }
    let narrow = match quant {
        Quant::Q8_0 | Quant::Q4_0 | Quant::Q6_K if planes => Way::Bytes,
        Quant::F8_E4M3 if planes => Way::Numbers,
        Quant::Q4_K | Quant::Q5_K => Way::Bytes,
        Quant::BF16 | Quant::F16 | Quant::F32 => Way::Numbers,
        _ => return Way::Plain,
    };
    if quant == Quant::F32 && rows > SINGLE_ROWS_MAX {
        return Way::Plain;
    }
    if wide::is_best(cuda, &linear.weight, rows) { Way::Wide } else { narrow }
}

/// Whether the product of so many rows with a matrix reads them as bytes, or as bf16.
pub(crate) fn reads(cuda: &Cuda, linear: &Linear<Resident>, rows: usize) -> Also {
    match way(cuda, linear, rows) {
        Way::Bytes => Also::Bytes,
        Way::Wide => Also::Halves,
        Way::Plain | Way::Numbers => Also::Numbers,
    }
}

/// Whether bytes of this type lie in planes where the fast kernels take them.
pub(crate) fn wants_planes(quant: Quant, columns: usize) -> bool {
    match quant {
        Quant::F8_E4M3 => columns.is_multiple_of(TILE_COLUMNS),
        _ => matches!(quant, Quant::Q8_0 | Quant::Q4_0 | Quant::Q6_K) && columns.is_multiple_of(32),
    }
}

/// The rows of `from` behind its norm, in all the forms that are wanted; gives where they are as numbers, if those are.
fn prepare(
    cuda: &Cuda,
    norm: Option<&Norm<Resident>>,
    from: Buffer,
    ways: &[Way],
    columns: usize,
    also: Also,
) -> Buffer {
    // Rows of outputs are normalised where they are: there is no other place for so few.
    let to = if norm.is_some() && from != Buffer::Last { Buffer::Normed } else { from };
    let (bytes, halves) = (ways.contains(&Way::Bytes), ways.contains(&Way::Wide));
    if !bytes && !halves && (norm.is_none() || ways.contains(&Way::Plain)) {
        if let Some(norm) = norm {
            elementwise::norm(cuda, norm, 1, from, to);
        }
        return to;
    }
    // Experts, and who asks for the rows of outputs, read numbers beside what products do.
    let numbers = ways.iter().any(|way| matches!(way, Way::Numbers | Way::Plain));
    let read = numbers || also != Also::Nothing || from == Buffer::Last;
    let values = if norm.is_some() && read { cuda.at(to) } else { 0 };
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
    let structure = norm_structure(&Structure::new().place(from), norm)
        .place(values)
        .place(when(bytes, &scratch.codes))
        .place(when(bytes, &scratch.metas))
        .place(when(halves, &scratch.halves))
        .int(columns)
        .aligned(8)
        .int(columns)
        .int(columns);
    // One row is turned a little sooner by more threads.
    let (name, threads) = if rows > 1 && KEPT_COLUMNS.contains(&columns) {
        ("norm_rows_kept", KEPT_THREADS)
    } else {
        ("norm_rows", columns.div_ceil(4).next_multiple_of(32).min(1024) as u32)
    };
    let grid = Grid { ahead: true, ..Grid::new([rows, 1, 1], threads) };
    cuda.launch(name, grid, &[(&structure).into()]);
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

/// Rows of a narrow launch: the first, how many, for how many the kernel is, and whether its matrices are of several types.
#[derive(Clone, Copy)]
struct Few {
    start: usize,
    count: usize,
    room: usize,
    mixed: bool,
}

/// A narrow launch of blocks that stay: how many, the first of each matrix, and what each is.
struct Staying {
    blocks: usize,
    firsts: Vec<usize>,
    shared_bytes: usize,
}

impl Staying {
    /// For one row, where there are kernels for it.
    fn of(cuda: &Cuda, parts: &[Part<'_>], few: Few) -> Option<Self> {
        let quant = parts[0].linear.weight.quant;
        let alike = parts.iter().all(|part| part.linear.weight.quant == quant);
        let bytes: Vec<_> = parts.iter().map(Part::bytes).collect();
        let columns = parts[0].linear.columns as usize;
        let shared_bytes = stream::shared_bytes(&cuda.gpu, quant, columns)?;
        let large = bytes.iter().sum::<usize>() >= cuda.streamed_from(quant);
        let blocks = cuda.gpu.processors as usize;
        let firsts = stream::first_blocks(blocks, &bytes);
        // Halves have nothing that a code is which is no number.
        let regular = parts.iter().all(|part| {
            part.gate.into_iter().chain([part.linear]).all(|linear| cuda.weights.is_regular(&linear.weight))
        });
        (alike && large && regular && few.room == 1).then_some(Self { blocks, firsts, shared_bytes })
    }

    /// Whether the output of a pair comes in codes without a loss: dealt out by 32 rows to blocks that have room for them, it takes no more rounds.
    fn gives_codes(&self, pair: &Part<'_>) -> bool {
        let rows = pair.linear.rows as usize;
        let rounds = 2 * rows.div_ceil(32).div_ceil(self.blocks);
        let least = rows.div_ceil(stream::WARPS).div_ceil(self.blocks);
        rows.is_multiple_of(32) && rounds * stream::WARPS <= stream::CODED_ROWS && rounds <= least.next_multiple_of(2)
    }
}

impl Part<'_> {
    /// Bytes of its matrix, or of the pair.
    fn bytes(&self) -> usize {
        let Resident { quant, rows, columns, .. } = self.linear.weight;
        let matrices = 1 + usize::from(self.gate.is_some());
        matrices * rows * (columns / quant.block_len()) * quant.block_bytes()
    }

    /// Blocks for its rows in such a launch.
    fn blocks(&self, few: Few) -> usize {
        let quant = self.linear.weight.quant;
        let alone = self.gate.is_none()
            && !few.mixed
            && !matches!(quant, Quant::Q4_0 | Quant::Q4_K | Quant::Q5_K | Quant::F8_E4M3);
        let rows = match few.room {
            1 if alone => 1,
            1 | 2 => 2,
            _ => 4,
        };
        let outputs = NARROW_WARPS * rows / if self.gate.is_some() { 2 } else { 1 };
        (self.linear.rows as usize).div_ceil(outputs)
    }
}

/// Products with a few rows, several matrices at once.
fn narrow(
    cuda: &Cuda,
    input: Buffer,
    products: &[(&Linear<Resident>, Buffer)],
    added: Option<f32>,
    turning: Option<&Turning<'_>>,
) {
    let parts: Vec<_> = products
        .iter()
        .map(|&(linear, to)| Part { gate: None, linear, to: cuda.at(to), stride: linear.rows as usize })
        .collect();
    let first = products[0].0.weight.quant;
    let mixed = products.iter().any(|(linear, _)| linear.weight.quant != first);
    let name = if mixed { "mixed" } else { type_name(first) };
    each_few(cuda.rows(input), |start, count, room| {
        let few = Few { start, count, room, mixed };
        let structure = narrow_structure(cuda, input, &parts, few, added, None, turning);
        launch_narrow(cuda, ["matvec_", name], few, &parts, &structure, turning);
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
    input: Buffer,
    parts: &[Part<'_>],
    few: Few,
    added: Option<f32>,
    gated: Option<&Gated<'_>>,
    turning: Option<&Turning<'_>>,
) -> Structure {
    let mut structure = Structure::new();
    let staying = Staying::of(cuda, parts, few);
    let mut first_block = 0;
    let bias = |linear: &Linear<Resident>| linear.bias.map_or(0, |bias| bias.at);
    for (index, part) in parts.iter().enumerate() {
        let first = staying.as_ref().map_or(first_block, |staying| staying.firsts[index]);
        let (weight, up) = part.gate.map_or((part.linear, None), |gate| (gate, Some(part.linear)));
        structure = structure
            .place(weight.weight.at)
            .place(up.map_or(0, |up| up.weight.at))
            .place(bias(weight))
            .place(up.map_or(0, bias))
            .place(part.to + 4 * (few.start * part.stride) as u64)
            .int(weight.rows as usize)
            .int(part.stride)
            .int(type_number(weight.weight.quant))
            .int(first);
        first_block += part.blocks(few);
    }
    for _ in parts.len()..PARTS {
        structure = structure.place(0).place(0).place(0).place(0).place(0).place(0).place(0);
    }
    let columns = parts[0].linear.columns as usize;
    let structure = vectors(cuda, &structure.int(parts.len()), cuda.at(input), columns, [few.start, few.count]);
    let [number, limit, steepness] = gated.map_or([0.0; 3], |gated| numbered(gated.dense.activation));
    let numbers = if reads_bytes(parts[0].linear.weight.quant) { 0 } else { cuda.at(input) };
    let structure = structure
        .int(usize::from(added.is_some()))
        .float(added.unwrap_or(0.0))
        .int(number as usize)
        .float(limit)
        .float(steepness)
        .float(gated.map_or(1.0, |gated| gated.dense.gate_scale))
        .place(turning.map_or(numbers, |turning| turning.from));
    let codes = gated.filter(|gated| gated.in_codes).map(|_| &cuda.products);
    norm_structure(&structure, turning.and_then(|turning| turning.norm))
        .int(staying.map_or(0, |staying| staying.blocks))
        .place(codes.map_or(0, |scratch| scratch.codes.at()))
        .place(codes.map_or(0, |scratch| scratch.metas.at()))
}

/// `RowNorm` of `kernels/codes.cuh`.
fn norm_structure(structure: &Structure, norm: Option<&Norm<Resident>>) -> Structure {
    (*structure)
        .place(norm.map_or(0, |norm| norm.weight.at))
        .place(norm.and_then(|norm| norm.bias).map_or(0, |bias| bias.at))
        .int(usize::from(norm.is_some_and(|norm| norm.kind == NormKind::Layer)))
        .float(norm.map_or(0.0, |norm| norm.epsilon))
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

fn launch_narrow(
    cuda: &Cuda,
    [kind, name]: [&str; 2],
    few: Few,
    parts: &[Part<'_>],
    structure: &Structure,
    turning: Option<&Turning<'_>>,
) {
    if let Some(staying) = Staying::of(cuda, parts, few) {
        let Staying { blocks, shared_bytes, .. } = staying;
        let grid = Grid { ahead: true, shared_bytes, ..Grid::new([blocks, 1, 1], stream::THREADS) };
        return cuda.launch(&format!("stream_{name}"), grid, &[structure.into()]);
    }
    let blocks = parts.iter().map(|part| part.blocks(few)).sum();
    let mut grid = Grid { ahead: true, ..Grid::new([blocks, 1, 1], 32 * NARROW_WARPS as u32) };
    if let Some(turning) = turning {
        grid.shared_bytes = turning.bytes;
        return cuda.launch(&format!("{kind}{name}_turned"), grid, &[structure.into()]);
    }
    cuda.launch(&format!("{kind}{name}_t{}", few.room), grid, &[structure.into()]);
}

/// A type's number in a launch of several; types that are in none of these have none.
fn type_number(quant: Quant) -> usize {
    quant.ggml().map_or(0, |number| number as usize)
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
        Quant::F8_E4M3 => "f8_e4m3",
        _ => "f32",
    }
}

/// Whether those kernels read rows of bytes.
pub(crate) fn reads_bytes(quant: Quant) -> bool {
    matches!(quant, Quant::Q8_0 | Quant::Q4_0 | Quant::Q4_K | Quant::Q5_K | Quant::Q6_K)
}

/// Whether there are kernels of [`type_name`] for it.
pub(crate) fn is_fast(quant: Quant) -> bool {
    matches!(
        quant,
        Quant::Q8_0
            | Quant::Q4_0
            | Quant::Q4_K
            | Quant::Q5_K
            | Quant::Q6_K
            | Quant::BF16
            | Quant::F16
            | Quant::F32
            | Quant::F8_E4M3
    )
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
