//! A mixture of experts: the router's choice, and what the chosen make of a token. Which they are only the device knows.

use std::sync::Arc;

use kauri_arch::{Ffn, GroupRank, Linear, Moe, Norm, NormKind, Scoring, Shape};
use kauri_device::{Buffer, DeviceError, Ops, Plan, Share, Weight, reference};
use kauri_formats::Quant;
use kauri_formats::scales::TILE_COLUMNS;

use crate::detect::{DEVICE, lost, no_room};
use crate::driver::{Allocation, Arg, Gpu, Grid};
use crate::elementwise::{numbered, numbers};
use crate::matmul::{self, Also};
use crate::ops::{Cuda, Pending};
use crate::resident::Resident;
use crate::structure::Structure;
use crate::wide::{self, HOPPER};

/// From so many tokens on several of them have an expert in common, and its rows are read for all of them.
const FEW_FROM: usize = 9;
/// Groups of experts at most: a lane for each.
const GROUPS_MAX: u32 = 32;

/// Who is chosen, and what they make of a token half-way.
pub(crate) struct Scratch {
    /// (tokens, chosen).
    chosen: Allocation,
    /// Their weights: (tokens, chosen).
    shares: Allocation,
    /// (tokens, chosen, width).
    wide: Allocation,
    /// Blocks that have a score, while one of them is still to choose; 0 between launches.
    arrived: Allocation,
    /// Chosen experts of a token at most.
    slots: usize,
    /// What sorting tokens by expert takes, where there are kernels for that.
    pub(crate) grouped: Option<Grouped>,
}

/// Pairs of a token and an expert that it chose, sorted by expert.
pub(crate) struct Grouped {
    /// (experts + 1): the first pair of each.
    pub(crate) starts: Allocation,
    /// (tokens, chosen): which pair is where, and where a pair is.
    pub(crate) pairs: Allocation,
    pub(crate) places: Allocation,
    /// (pairs, hidden) and (pairs, width), bf16.
    pub(crate) gathered: Allocation,
    pub(crate) gated: Allocation,
    /// (pairs, hidden).
    pub(crate) joined: Allocation,
}

impl Scratch {
    /// Sized for the mixtures of `shape`.
    pub(crate) fn new(gpu: &Arc<Gpu>, shape: &Shape<Weight>, plan: &Plan) -> Result<Self, DeviceError> {
        let (mut chosen, mut wide) = (0, 0);
        for moe in shape.ffns().filter_map(Ffn::moe) {
            if moe.groups.is_some_and(|groups| groups.count > GROUPS_MAX) {
                let what = format!("experts in more than {GROUPS_MAX} groups");
                return Err(DeviceError::Unsupported { device: DEVICE, what });
            }
            chosen = chosen.max(moe.chosen as usize);
            wide = wide.max(moe.chosen as usize * moe.experts[0].up.rows as usize);
        }
        let tokens = plan.batch_tokens as usize;
        let make = |values: usize| {
            let bytes = 4 * values * tokens;
            gpu.allocate(bytes).map_err(no_room("experts", bytes as u64))
        };
        let grouped = if gpu.capability == HOPPER && chosen > 0 {
            let experts = shape.ffns().filter_map(Ffn::moe).map(|moe| moe.experts.len()).max().unwrap_or(0);
            let room = no_room("experts", 4 * experts as u64);
            Some(Grouped {
                starts: gpu.allocate(4 * (experts + 1)).map_err(room)?,
                pairs: make(chosen)?,
                places: make(chosen)?,
                gathered: make(chosen * (shape.hidden as usize).div_ceil(2))?,
                gated: make(wide.div_ceil(2))?,
                joined: make(chosen * shape.hidden as usize)?,
            })
        } else {
            None
        };
        let arrived = gpu.allocate(4).map_err(no_room("experts", 4))?;
        gpu.set(&arrived, 0).map_err(lost)?;
        Ok(Self { chosen: make(chosen)?, shares: make(chosen)?, wide: make(wide)?, arrived, slots: chosen, grouped })
    }

    /// Every array of values.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Allocation> {
        [&self.chosen, &self.shares, &self.wide].into_iter()
    }

    /// Chosen experts of a token at most.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }
}

/// See [`kauri_device::Ops::route`]; also notes who was chosen.
pub(crate) fn route(cuda: &Cuda, moe: &Moe<Resident>) {
    choose(cuda, moe, cuda.hidden);
}

/// The same, with so many values of a row of the mixture set to zero.
fn choose(cuda: &Cuda, moe: &Moe<Resident>, zeros: usize) {
    let mut grid = Grid { ahead: true, ..Grid::new([1, cuda.rows(Buffer::Scores), 1], 32) };
    grid.shared_bytes = 9 * moe.experts.len();
    let routing = routing(cuda, moe, &Structure::new());
    let arguments =
        [cuda.count(Buffer::Scores).into(), cuda.at(Buffer::Mixture).into(), zeros.into(), (&routing).into()];
    cuda.launch("route", grid, &arguments);
}

/// `Routing` of `kernels/route.cuh`, behind what there is of a structure.
fn routing(cuda: &Cuda, moe: &Moe<Resident>, structure: &Structure) -> Structure {
    let scoring = match moe.scoring {
        Scoring::Softmax => 0,
        Scoring::Sigmoid => 1,
        Scoring::SoftmaxOfChosen => 2,
    };
    let (groups, kept, two_best) = moe.groups.map_or((0, 0, false), |groups| {
        let two_best = match groups.rank {
            GroupRank::Best => false,
            GroupRank::TwoBest => true,
        };
        (groups.count, groups.kept, two_best)
    });
    structure
        .place(cuda.at(Buffer::Scores))
        .place(cuda.experts.chosen.at())
        .place(cuda.experts.shares.at())
        .place(moe.selection_bias.map_or(0, |bias| bias.at))
        .int(moe.experts.len())
        .int(moe.chosen as usize)
        .int(scoring)
        .int(groups as usize)
        .int(kept as usize)
        .int(usize::from(two_best))
        .int(usize::from(moe.normalised.is_some()))
        .float(moe.normalised.unwrap_or(0.0))
        .float(moe.scale)
        .aligned(8)
}

/// Whether all experts are stored alike, in types that have fast kernels.
pub(crate) fn are_alike(moe: &Moe<Weight>) -> bool {
    let fits = |linear: &Linear<Weight>, like: &Linear<Weight>| {
        let (matrix, like) = (linear.weight.matrix(), like.weight.matrix());
        matrix.quant == like.quant
            && matmul::is_fast(matrix.quant)
            && matrix.columns.is_multiple_of(if matrix.quant == Quant::F8_E4M3 { TILE_COLUMNS } else { 32 })
            && linear.bias.is_none()
    };
    let first = &moe.experts[0];
    let Some(first_gate) = &first.gate else { return false };
    let gates = moe.experts.iter().all(|expert| expert.gate.as_ref().is_some_and(|gate| fits(gate, first_gate)));
    gates && moe.experts.iter().all(|expert| fits(&expert.up, first_gate) && fits(&expert.down, &first.down))
}

/// Bytes from one expert to the next, where the fast kernels take them.
fn stride(cuda: &Cuda, moe: &Moe<Resident>) -> Option<u64> {
    let first = &moe.experts[0];
    let gate = first.gate.as_ref()?;
    let second =
        moe.experts.get(1).map_or(gate.weight.at, |expert| expert.gate.as_ref().map_or(0, |gate| gate.weight.at));
    let stride = second.wrapping_sub(gate.weight.at);
    let fast = |linear: &Linear<Resident>, quant| {
        let Resident { columns, planes, .. } = linear.weight;
        let laid = planes == matmul::wants_planes(quant, columns) && (planes || quant != Quant::F8_E4M3);
        linear.weight.quant == quant
            && matmul::is_fast(quant)
            && columns.is_multiple_of(32)
            && laid
            && linear.bias.is_none()
    };
    let lies = |linear: &Linear<Resident>, first: &Linear<Resident>, index: u64| {
        linear.weight.at == first.weight.at.wrapping_add(index * stride)
    };
    let fits = moe.experts.iter().zip(0..).all(|(expert, index)| {
        let (up, down) = (&expert.up, &expert.down);
        let laid = lies(up, &first.up, index) && lies(down, &first.down, index);
        let is_gated = expert.gate.as_ref().is_some_and(|its| fast(its, gate.weight.quant) && lies(its, gate, index));
        laid && is_gated && fast(up, gate.weight.quant) && fast(down, first.down.weight.quant)
    });
    (fits && !cuda.exact).then_some(stride)
}

/// See [`kauri_device::Ops::experts`].
pub(crate) fn experts(cuda: &mut Cuda, norm: Option<&Norm<Resident>>, moe: &Moe<Resident>) {
    let input = if norm.is_some() { Buffer::Normed } else { Buffer::Stream };
    let stride = stride(cuda, moe);
    let router = [(&moe.router, Buffer::Scores)];
    let tokens = cuda.rows(Buffer::Stream);
    if let (Some(norm), Some(stride)) = (norm, stride)
        && tokens == 1
        && is_single(norm, moe)
    {
        return chosen_single(cuda, norm, moe, stride);
    }
    let all = stride.filter(|_| wide::takes_experts(cuda, moe, tokens));
    let also = match (all, stride) {
        (Some(_), _) => Also::Halves,
        (None, Some(_)) => Also::Bytes,
        (None, None) => Also::Numbers,
    };
    matmul::products(cuda, norm, Buffer::Stream, &router, None, also);
    // The fast ways write the mixture whole: nobody needs zeros there.
    choose(cuda, moe, if stride.is_some() { 0 } else { cuda.hidden });
    match (all, stride) {
        (Some(stride), _) => cuda.note(wide::mixture(cuda, moe, stride, cuda.products.halves.at(), tokens)),
        (None, Some(stride)) if tokens >= FEW_FROM && cuda.experts.grouped.is_some() => {
            chosen_few(cuda, input, moe, stride);
        }
        (None, Some(stride)) => chosen_fast(cuda, input, moe, stride),
        (None, None) => chosen(cuda, input, moe),
    }
    let Some(shared) = &moe.shared else { return };
    reference::widen(cuda, input, &shared.dense);
    cuda.linear(&shared.dense.down, Buffer::Gate, Buffer::Branch);
    let Some(gate) = &shared.gate else { return cuda.join(Share::Whole) };
    cuda.linear(gate, input, Buffer::Scores);
    cuda.join(Share::Gate);
}

/// What the chosen experts make of `input`, whose bytes are there, to `Mixture`: two kernels for all of them.
fn chosen_fast(cuda: &Cuda, input: Buffer, moe: &Moe<Resident>, stride: u64) {
    up_fast(cuda, input, moe, stride).start(cuda, None);
}

/// The first of the two, and what is left to do of the rows that are where it says.
fn up_fast(cuda: &Cuda, input: Buffer, moe: &Moe<Resident>, stride: u64) -> Down {
    let first = &moe.experts[0];
    let gate = first.gate.as_ref().expect("looked at before");
    let (wanted, width, tokens) = (moe.chosen as usize, first.up.rows as usize, cuda.rows(input));
    let wide = cuda.experts.wide.at();
    let up = Narrow {
        weights: [gate.weight.at, first.up.weight.at],
        stride,
        to: wide,
        rows: width,
        wanted,
        experts: moe.experts.len(),
        columns: cuda.hidden,
        inputs: tokens,
    };
    let gating = (numbered(first.activation), first.gate_scale);
    let grid = Grid { ahead: true, ..Grid::new([width.div_ceil(4), tokens * wanted, 1], 128) };
    let name = format!("experts_gate_up_{}", matmul::type_name(gate.weight.quant));
    cuda.launch(&name, grid, &[(&up.structure(cuda, cuda.at(input), None, gating)).into()]);
    matmul::turn_rows(cuda, None, wide, tokens * wanted, width, 0, [true, false]);
    let weights = [first.down.weight.at, 0];
    let to = cuda.at(Buffer::Mixture);
    let down = Narrow { weights, to, rows: cuda.hidden, columns: width, inputs: tokens * wanted, ..up };
    Down { product: down, tokens, name: matmul::type_name(first.down.weight.quant) }
}

/// A narrow launch of chosen experts.
#[derive(Clone, Copy)]
struct Narrow {
    /// The one matrix, or a pair; of the first expert.
    weights: [u64; 2],
    stride: u64,
    to: u64,
    rows: usize,
    wanted: usize,
    experts: usize,
    columns: usize,
    inputs: usize,
}

impl Narrow {
    /// `ExpertsMatvec` of `kernels/matvec.cuh`; with the activation as kernels are told it, and the factor on the gate.
    fn structure(
        &self,
        cuda: &Cuda,
        values: u64,
        added: Option<f32>,
        ([number, limit, steepness], gate_scale): ([f32; 3], f32),
    ) -> Structure {
        let structure = Structure::new()
            .place(self.weights[0])
            .place(self.weights[1])
            .place(self.stride)
            .place(self.stride)
            .place(cuda.experts.chosen.at())
            .place(cuda.experts.shares.at())
            .place(self.to)
            .int(self.rows)
            .int(self.wanted)
            .int(self.experts);
        matmul::vectors(cuda, &structure, values, self.columns, [0, self.inputs])
            .int(usize::from(added.is_some()))
            .float(added.unwrap_or(1.0))
            .int(number as usize)
            .float(limit)
            .float(steepness)
            .float(gate_scale)
    }
}

/// The last product of chosen experts, whose inputs are there.
#[derive(Clone, Copy)]
pub(crate) struct Down {
    product: Narrow,
    tokens: usize,
    /// The ending of the kernel.
    name: &'static str,
}

impl Down {
    /// To `Mixture`, or added to the stream.
    pub(crate) fn start(&self, cuda: &Cuda, added: Option<f32>) {
        let to = if added.is_some() { cuda.at(Buffer::Stream) } else { self.product.to };
        let down = Narrow { to, ..self.product };
        let grid = Grid { ahead: true, ..Grid::new([down.rows.div_ceil(4), self.tokens, 1], 128) };
        let structure = down.structure(cuda, cuda.experts.wide.at(), added, ([0.0; 3], 1.0));
        cuda.launch(&format!("experts_down_{}", self.name), grid, &[(&structure).into()]);
    }
}

/// Columns of a row whose scores one kernel computes, at most.
const SCORED_COLUMNS_MAX: usize = 4096;
/// Experts that the kernel of a router's scores chooses from itself, at most: `ROUTED` of `kernels/matvec.cuh`.
const ROUTED_MAX: usize = 256;

/// Whether one kernel turns a token's row, scores the experts and chooses from them.
fn is_single(norm: &Norm<Resident>, moe: &Moe<Resident>) -> bool {
    let (first, router) = (&moe.experts[0], &moe.router);
    let as_bytes = |linear: &Linear<Resident>| matmul::reads_bytes(linear.weight.quant);
    moe.shared.is_none()
        && norm.kind == NormKind::Rms
        && norm.bias.is_none()
        && router.bias.is_none()
        && router.weight.quant == Quant::F32
        && router.columns.is_multiple_of(32)
        && router.columns as usize <= SCORED_COLUMNS_MAX
        && moe.experts.len() <= ROUTED_MAX
        && first.gate.as_ref().is_some_and(as_bytes)
        && as_bytes(&first.down)
}

/// The whole branch of one token; the last product is left for the addition to the stream.
fn chosen_single(cuda: &Cuda, norm: &Norm<Resident>, moe: &Moe<Resident>, stride: u64) {
    let scratch = &cuda.products;
    let row = Structure::new()
        .place(moe.router.weight.at)
        .place(cuda.at(Buffer::Stream))
        .place(norm.weight.at)
        .place(scratch.codes.at())
        .place(scratch.metas.at())
        .place(cuda.experts.arrived.at())
        .int(cuda.hidden)
        .float(norm.epsilon);
    let grid = Grid { ahead: true, ..Grid::new([moe.experts.len() + 1, 1, 1], 128) };
    cuda.launch("row_route_f32", grid, &[(&routing(cuda, moe, &row)).into()]);
    cuda.leave(Pending::Down(up_fast(cuda, Buffer::Stream, moe, stride)));
}

/// The same for some dozens of tokens, sorted by expert.
fn chosen_few(cuda: &Cuda, input: Buffer, moe: &Moe<Resident>, stride: u64) {
    let (first, tokens) = (&moe.experts[0], cuda.rows(input));
    let gate = first.gate.as_ref().expect("looked at before");
    let grouped = cuda.experts.grouped.as_ref().expect("looked at before");
    let (wanted, all, width) = (moe.chosen as usize, moe.experts.len(), first.up.rows as usize);
    group(cuda, grouped, tokens, wanted, all);
    let [number, limit, steepness] = numbered(first.activation);
    let launch = |name: String, [weight, up, to]: [u64; 3], rows: usize, values: u64, columns: usize, inputs: usize| {
        let structure = Structure::new()
            .place(weight)
            .place(up)
            .place(stride)
            .place(grouped.starts.at())
            .place(grouped.pairs.at())
            .place(to)
            .int(rows)
            .int(wanted);
        let structure = matmul::vectors(cuda, &structure, values, columns, [0, inputs])
            .int(number as usize)
            .float(limit)
            .float(steepness)
            .float(first.gate_scale);
        let outputs = if up == 0 { 16 } else { 8 };
        let grid = Grid { ahead: true, ..Grid::new([rows.div_ceil(outputs), all, 1], 128) };
        cuda.launch(&name, grid, &[(&structure).into()]);
    };
    let (up, down) = (&first.up.weight, &first.down.weight);
    let wide = cuda.experts.wide.at();
    let name = format!("experts_few_up_{}", matmul::type_name(up.quant));
    launch(name, [gate.weight.at, up.at, wide], width, cuda.at(input), cuda.hidden, tokens);
    matmul::turn_rows(cuda, None, wide, tokens * wanted, width, 0, [true, false]);
    let name = format!("experts_few_down_{}", matmul::type_name(down.quant));
    launch(name, [down.at, 0, grouped.joined.at()], cuda.hidden, wide, width, tokens * wanted);
    join(cuda, grouped, tokens, wanted);
}

/// Sorts who was chosen by expert.
pub(crate) fn group(cuda: &Cuda, grouped: &Grouped, tokens: usize, wanted: usize, experts: usize) {
    let mut grid = Grid { ahead: true, ..Grid::new([1, 1, 1], 1024) };
    grid.shared_bytes = 33 * 4 * experts;
    let arguments = [
        cuda.experts.chosen.at().into(),
        tokens.into(),
        wanted.into(),
        experts.into(),
        grouped.starts.at().into(),
        grouped.pairs.at().into(),
        grouped.places.at().into(),
    ];
    cuda.launch("group_pairs", grid, &arguments);
}

/// What experts made of their tokens, weighed and added: to `Mixture`.
pub(crate) fn join(cuda: &Cuda, grouped: &Grouped, tokens: usize, wanted: usize) {
    let arguments = [
        grouped.joined.at().into(),
        grouped.places.at().into(),
        cuda.experts.shares.at().into(),
        cuda.at(Buffer::Mixture).into(),
        wanted.into(),
        cuda.hidden.into(),
        false.into(),
        Arg::Float(1.0),
    ];
    cuda.launch("join_pairs", Grid { ahead: true, ..Grid::new([tokens, 1, 1], 256) }, &arguments);
}

/// What the chosen experts make of `input`, to `Mixture`.
fn chosen(cuda: &Cuda, input: Buffer, moe: &Moe<Resident>) {
    let first = &moe.experts[0];
    let (wanted, width, tokens) = (moe.chosen as usize, first.up.rows as usize, cuda.rows(input));
    let table = cuda.weights.table(&first.up.weight);
    let [number, limit, steepness] = numbers(first.activation);
    let Scratch { chosen, wide, .. } = &cuda.experts;
    let arguments = [
        cuda.count(input).into(),
        table.into(),
        chosen.at().into(),
        cuda.at(input).into(),
        wide.at().into(),
        cuda.hidden.into(),
        width.into(),
        number,
        limit,
        steepness,
        first.gate_scale.into(),
    ];
    cuda.launch("experts_up", Grid::new([width.div_ceil(4), wanted, tokens], 128), &arguments);
    let arguments = [
        cuda.count(input).into(),
        table.into(),
        chosen.at().into(),
        cuda.at(Buffer::Scores).into(),
        wide.at().into(),
        cuda.at(Buffer::Mixture).into(),
        cuda.hidden.into(),
        width.into(),
        wanted.into(),
        moe.experts.len().into(),
    ];
    cuda.launch("experts_down", Grid::new([cuda.hidden.div_ceil(4), tokens, 1], 128), &arguments);
}
