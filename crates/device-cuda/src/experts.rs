//! A mixture of experts: the router's choice, and what the chosen make of a token. Which they are only the device knows.

use std::sync::Arc;

use kauri_arch::{Ffn, GroupRank, Linear, Moe, Norm, Scoring, Shape};
use kauri_device::{Buffer, DeviceError, Ops, Plan, Share, Weight, reference};

use crate::detect::{DEVICE, no_room};
use crate::driver::{Allocation, Gpu, Grid, Structure};
use crate::elementwise::{numbered, numbers};
use crate::matmul;
use crate::ops::Cuda;
use crate::resident::Resident;

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
    /// Chosen experts of a token at most.
    slots: usize,
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
        Ok(Self { chosen: make(chosen)?, shares: make(chosen)?, wide: make(wide)?, slots: chosen })
    }

    /// Every array.
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
    let count = moe.experts.len();
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
    let arguments = [
        cuda.count(Buffer::Scores).into(),
        cuda.at(Buffer::Scores).into(),
        cuda.experts.chosen.at().into(),
        cuda.experts.shares.at().into(),
        cuda.at(Buffer::Mixture).into(),
        moe.selection_bias.map_or(0, |bias| bias.at).into(),
        count.into(),
        moe.chosen.into(),
        scoring.into(),
        groups.into(),
        kept.into(),
        two_best.into(),
        moe.normalised.is_some().into(),
        moe.normalised.unwrap_or(0.0).into(),
        moe.scale.into(),
        cuda.hidden.into(),
    ];
    let mut grid = Grid::new([1, cuda.rows(Buffer::Scores), 1], 32);
    grid.shared_bytes = 9 * count;
    cuda.launch("route", grid, &arguments);
}

/// Whether all experts are stored alike, in types that have fast kernels.
pub(crate) fn are_alike(moe: &Moe<Weight>) -> bool {
    let fits = |linear: &Linear<Weight>, like: &Linear<Weight>| {
        let (matrix, like) = (linear.weight.matrix(), like.weight.matrix());
        matrix.quant == like.quant
            && matmul::is_fast(matrix.quant)
            && matrix.columns.is_multiple_of(32)
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
        let laid = planes == matmul::wants_planes(quant, columns);
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
    matmul::products(cuda, norm, Buffer::Stream, &router, None, stride.is_some());
    cuda.route(moe);
    match stride {
        Some(stride) => chosen_fast(cuda, input, moe, stride),
        None => chosen(cuda, input, moe),
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
    let first = &moe.experts[0];
    let gate = first.gate.as_ref().expect("looked at before");
    let (wanted, width, tokens) = (moe.chosen as usize, first.up.rows as usize, cuda.rows(input));
    let Scratch { chosen, shares, wide, .. } = &cuda.experts;
    let [number, limit, steepness] = numbered(first.activation);
    let structure = |[weight, up, to]: [u64; 3], rows: usize, values: u64, columns: usize, inputs: usize| {
        let structure = Structure::new()
            .place(weight)
            .place(up)
            .place(stride)
            .place(stride)
            .place(chosen.at())
            .place(shares.at())
            .place(to)
            .int(rows)
            .int(wanted)
            .int(moe.experts.len());
        matmul::vectors(cuda, &structure, values, columns, [0, inputs])
            .int(0)
            .float(1.0)
            .int(number as usize)
            .float(limit)
            .float(steepness)
            .float(first.gate_scale)
    };
    let places = [gate.weight.at, first.up.weight.at, wide.at()];
    let up = structure(places, width, cuda.at(input), cuda.hidden, tokens);
    let grid = Grid { ahead: true, ..Grid::new([width.div_ceil(4), tokens * wanted, 1], 128) };
    cuda.launch(&format!("experts_gate_up_{}", matmul::type_name(gate.weight.quant)), grid, &[(&up).into()]);
    matmul::turn_rows(cuda, None, wide.at(), tokens * wanted, width, 0, [true, false]);
    let places = [first.down.weight.at, 0, cuda.at(Buffer::Mixture)];
    let down = structure(places, cuda.hidden, wide.at(), width, tokens * wanted);
    let grid = Grid { ahead: true, ..Grid::new([cuda.hidden.div_ceil(4), tokens, 1], 128) };
    cuda.launch(&format!("experts_down_{}", matmul::type_name(first.down.weight.quant)), grid, &[(&down).into()]);
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
