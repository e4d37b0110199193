//! Adapters: what low-rank products add to the rows of the sequences that have them (LoRA: Hu 2021, arXiv:2106.09685).
//!
//! What is added follows the product of the matrix itself, which stays as it is stored. A row of a sequence without an adapter is not
//! touched, and another's is computed by itself, rank after rank: its bits do not depend on who shares the step. No weight is
//! unpacked for it: both matrices are numbers, the second of them turned, so that each of its rows is added to the output as it lies.

use std::ops::Range;

use kauri_arch::{Dense, Ffn, Linear, Shape};
use kauri_device::{ADAPTERS_MAX, Adapted, Applied, Batch, Extent, LowRank, Plan, Sequence, Weight};

use crate::detect::Kernels;
use crate::pool::{Disjoint, Pool};

/// Values of a row of the output that are one piece of work.
const PIECE: usize = 512;
/// Multiplications that are worth a piece: in the time of fewer no other thread is awake.
const WORK_MIN: usize = 1 << 15;

/// What the sequences of a step have of adapters, and memory to add it. Sized at load.
pub struct Adapters {
    /// Rows of tokens.
    tokens: Uses,
    /// Rows of outputs.
    outputs: Uses,
    /// Rows of experts: a token and an expert that it chose.
    chosen: Uses,
    /// (rows, rank).
    low: Vec<f32>,
}

/// Who has what of adapters, among rows of one kind.
#[derive(Default)]
struct Uses {
    all: Vec<Use>,
    /// Use after use.
    rows: Vec<Row>,
}

/// All rows to which one adapter is added with one scale.
struct Use {
    applied: Applied,
    rows: Range<usize>,
}

/// A row to which something is added.
#[derive(Clone, Copy)]
struct Row {
    /// Of the input: that of its token.
    token: u32,
    /// Of the output.
    to: u32,
    /// Which expert's matrix it goes through.
    expert: u32,
}

/// What a product reads and where it goes.
pub struct Io<'a> {
    /// The input: rows of as many values as the matrix has columns.
    pub x: &'a [f32],
    /// Whether rows of the input are those of tokens, where those of the output are not.
    pub by_token: bool,
    /// Factor on what is added.
    pub factor: f32,
    /// The output: rows of as many values as the matrix has rows.
    pub out: &'a mut [f32],
}

/// The most values of low rank that a step has at a time.
pub fn values(shape: &Shape<Weight>, plan: &Plan) -> usize {
    let chosen = shape.ffns().filter_map(Ffn::moe).map(|moe| moe.chosen).max().unwrap_or(0);
    rank_max(shape) * chosen.max(1) as usize * plan.batch_tokens.max(plan.batch_outputs) as usize
}

/// The highest rank of an adapter of `shape`; zero where there is none.
fn rank_max(shape: &Shape<Weight>) -> usize {
    let mut most = 0;
    shape.for_each(|weight| match weight {
        Weight::Adapted(Adapted { parts, .. }) => {
            most = parts.iter().flatten().map(|part| part.rank).fold(most, usize::max);
        }
        Weight::Matrix(_) | Weight::Vector(_) => {}
    });
    most
}

/// Whether an adapter adds something to what makes the wide values of a network.
fn widens(dense: &Dense<Weight>) -> bool {
    dense.gate.iter().chain([&dense.up]).any(|linear| linear.weight.is_adapted())
}

impl Adapters {
    /// For the adapters of `shape`, if it has any.
    pub fn new(shape: &Shape<Weight>, plan: &Plan) -> Self {
        let low = vec![0.0; values(shape, plan)];
        let room = |rows: u32| if low.is_empty() { Uses::default() } else { Uses::with_room(rows as usize) };
        let chosen = shape.ffns().filter_map(Ffn::moe).map(|moe| moe.chosen).max().unwrap_or(0);
        let (tokens, outputs) = (room(plan.batch_tokens), room(plan.batch_outputs));
        Self { tokens, outputs, chosen: room(chosen * plan.batch_tokens), low }
    }

    /// Takes the batch that the next products are of.
    pub fn begin(&mut self, batch: &Batch) {
        self.tokens.set(batch, |sequence| sequence.tokens.clone());
        self.outputs.set(batch, |sequence| {
            let before = |token: usize| batch.outputs.partition_point(|&output| (output as usize) < token);
            before(sequence.tokens.start)..before(sequence.tokens.end)
        });
    }

    /// Whether a network's wide values have to be computed apart from what follows them.
    pub fn widen(&self, dense: &Dense<Weight>) -> bool {
        !self.tokens.all.is_empty() && widens(dense)
    }

    /// Adds what adapters add to the product of `linear` with rows of this extent.
    pub fn add(&mut self, pool: &mut Pool, kernels: Kernels, linear: &Linear<Weight>, extent: Extent, io: Io<'_>) {
        let uses = match extent {
            Extent::Tokens => &self.tokens,
            Extent::Outputs => &self.outputs,
        };
        if linear.weight.is_adapted() {
            uses.add(pool, kernels, &|_| linear, &mut self.low, io);
        }
    }

    /// Takes the rows of experts: those of each of `active` stand together, in the order of their tokens, which `order` says.
    pub fn choose(&mut self, active: &[u32], rows_of: &dyn Fn(u32) -> Range<usize>, order: &[u32]) {
        self.chosen.clear();
        for used in &self.tokens.all {
            let first = self.chosen.rows.len();
            let tokens = &self.tokens.rows[used.rows.clone()];
            for &expert in active {
                let rows = rows_of(expert).map(|row| Row { token: order[row], to: row as u32, expert });
                // Rows of tokens are in their order, too.
                let has = |row: &Row| tokens.binary_search_by_key(&row.token, |other| other.token).is_ok();
                self.chosen.rows.extend(rows.filter(has));
            }
            self.chosen.close(used.applied, first);
        }
    }

    /// Whether some of the networks of these experts have wide values that are computed apart from what follows them.
    pub fn widen_experts<'w>(&self, mut networks: impl Iterator<Item = &'w Dense<Weight>>) -> bool {
        !self.chosen.all.is_empty() && networks.any(widens)
    }

    /// Adds what adapters add to the products of experts with their rows.
    pub fn add_to_experts<'w>(
        &mut self,
        pool: &mut Pool,
        kernels: Kernels,
        linear: &(dyn Fn(u32) -> &'w Linear<Weight> + Sync),
        io: Io<'_>,
    ) {
        self.chosen.add(pool, kernels, linear, &mut self.low, io);
    }
}

impl Uses {
    /// One that need not grow where each row has one adapter.
    fn with_room(rows: usize) -> Self {
        Self { all: Vec::with_capacity(ADAPTERS_MAX), rows: Vec::with_capacity(rows) }
    }

    fn clear(&mut self) {
        self.all.clear();
        self.rows.clear();
    }

    /// Takes the sequences of a batch, each with these rows.
    fn set(&mut self, batch: &Batch, rows_of: impl Fn(&Sequence) -> Range<usize>) {
        self.clear();
        for (index, applied) in batch.adapters.iter().enumerate() {
            if batch.adapters[..index].contains(applied) {
                continue;
            }
            let first = self.rows.len();
            for sequence in &batch.sequences {
                if batch.adapters_of(sequence).contains(applied) {
                    let row = |row: usize| Row { token: row as u32, to: row as u32, expert: 0 };
                    self.rows.extend(rows_of(sequence).map(row));
                }
            }
            self.close(*applied, first);
        }
        // What a sequence has is added in one order, whoever has it, too.
        self.all.sort_by_key(|used| used.applied.adapter);
    }

    /// The use whose rows begin with this one is complete.
    fn close(&mut self, applied: Applied, first: usize) {
        let rows = first..self.rows.len();
        if !rows.is_empty() {
            self.all.push(Use { applied, rows });
        }
    }

    /// Adds `factor * up (down x)` of every use, each of its rows through the matrix that `linear` gives for it.
    fn add<'w>(
        &self,
        pool: &mut Pool,
        kernels: Kernels,
        linear: &(dyn Fn(u32) -> &'w Linear<Weight> + Sync),
        low: &mut [f32],
        io: Io<'_>,
    ) {
        let Io { x, by_token, factor, out } = io;
        let out = Disjoint::new(out);
        for Use { applied, rows } in &self.all {
            let rows = &self.rows[rows.clone()];
            let part = |row: &Row| -> Option<&LowRank> { linear(row.expert).weight.low_rank(applied.adapter) };
            let like = linear(rows[0].expert);
            let (width, columns) = (like.rows as usize, like.columns as usize);
            let Some(rank) = rows.iter().filter_map(part).map(|part| part.rank).max() else { continue };
            let low = &mut low[..rows.len() * rank];
            let grain = |pool: &Pool, count: usize, work: usize| pool.grain(count).max(WORK_MIN.div_ceil(work));
            let count = rows.len() * rank;
            let sums = Disjoint::new(low);
            pool.split(count, grain(pool, count, columns), &|_, places| {
                for place in places {
                    let row = &rows[place / rank];
                    let Some(part) = part(row).filter(|part| place % rank < part.rank) else { continue };
                    let from = if by_token { row.token } else { row.to } as usize;
                    let weights = &part.down[place % rank * columns..][..columns];
                    let sum = kernels.dot(weights, &x[from * columns..][..columns]);
                    // SAFETY: every place is one worker's.
                    unsafe { sums.slice(place..place + 1)[0] = sum * (part.factor * applied.scale * factor) };
                }
            });
            let pieces = width.div_ceil(PIECE);
            let count = rows.len() * pieces;
            pool.split(count, grain(pool, count, rank * PIECE.min(width)), &|_, places| {
                for place in places {
                    let (index, start) = (place / pieces, place % pieces * PIECE);
                    let Some(part) = part(&rows[index]) else { continue };
                    let (at, end) = (rows[index].to as usize * width, width.min(start + PIECE));
                    // SAFETY: the rows of a use are different ones, and every piece of one is one worker's.
                    let out = unsafe { out.slice(at + start..at + end) };
                    kernels.add_turned(&part.up, (width, start), &low[index * rank..][..part.rank], out);
                }
            });
        }
    }
}
