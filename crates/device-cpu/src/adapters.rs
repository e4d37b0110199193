//! Adapters: what low-rank products add to the rows of the sequences that have them (LoRA: Hu 2021, arXiv:2106.09685).
//!
//! Both products are those of `matmul`, of the rows that are meant and of no others: a row of a sequence without an adapter is not
//! touched, and what is added to another is summed in one order whoever shares the step. What is added follows the product of the
//! matrix itself, which stays as it is stored. Sequences that have the same of an adapter are computed together.

use std::ops::Range;

use kauri_arch::{Dense, Ffn, Linear, Shape};
use kauri_device::{Adapted, Applied, Batch, Extent, Plan, Sequence, Weight};

use crate::matmul::{self, Group, Input};
use crate::pool::Pool;
use crate::product::Finish;

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
    runs: Vec<Run>,
    /// Rows of the output, use after use.
    rows: Vec<u32>,
    /// The rows of the input that they come from, where those are others.
    from: Vec<u32>,
}

/// All rows to which one adapter is added with one scale.
struct Use {
    applied: Applied,
    runs: Range<usize>,
    rows: Range<usize>,
}

/// Some neighbouring rows of those.
#[derive(Clone, Copy)]
struct Run {
    /// Which of the use's rows is the first.
    first: usize,
    count: usize,
    /// The row of the output where the first one's goes; the others follow.
    to: usize,
    /// Which expert's matrix they go through.
    expert: u32,
}

/// What a product reads and where it goes.
pub struct Io<'a> {
    /// The input: rows of as many values as the matrix has columns.
    pub x: &'a [f32],
    /// Factor on what is added.
    pub factor: f32,
    /// The output: rows of as many values as the matrix has rows.
    pub out: &'a mut [f32],
}

/// The highest rank of an adapter of `shape`; zero where there is none.
pub fn rank_max(shape: &Shape<Weight>) -> usize {
    let mut most = 0;
    shape.for_each(|weight| match weight {
        Weight::Adapted(Adapted { parts, .. }) => {
            most = parts.iter().flatten().map(|part| part.down.rows as usize).fold(most, usize::max);
        }
        Weight::Matrix(_) | Weight::Vector(_) => {}
    });
    most
}

/// The most values of low rank that a step has at a time.
pub fn values(shape: &Shape<Weight>, plan: &Plan) -> usize {
    let chosen = shape.ffns().filter_map(Ffn::moe).map(|moe| moe.chosen).max().unwrap_or(0);
    rank_max(shape) * chosen.max(1) as usize * plan.batch_tokens.max(plan.batch_outputs) as usize
}

/// Whether an adapter adds something to what makes the wide values of a network.
fn widens(dense: &Dense<Weight>) -> bool {
    dense.gate.iter().chain([&dense.up]).any(|linear| linear.weight.is_adapted())
}

impl Adapters {
    /// For the adapters of `shape`, if it has any.
    pub fn new(shape: &Shape<Weight>, plan: &Plan) -> Self {
        let (tokens, outputs, chosen) = (Uses::default(), Uses::default(), Uses::default());
        Self { tokens, outputs, chosen, low: vec![0.0; values(shape, plan)] }
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
    pub fn add(
        &mut self,
        pool: &mut Pool,
        products: &mut matmul::Scratch,
        linear: &Linear<Weight>,
        extent: Extent,
        io: Io<'_>,
    ) {
        let uses = match extent {
            Extent::Tokens => &self.tokens,
            Extent::Outputs => &self.outputs,
        };
        if linear.weight.is_adapted() {
            uses.add(pool, products, &|_| linear, &uses.rows, &mut self.low, io);
        }
    }

    /// Takes the rows of experts, as they stand: those of each of `active` in the order of their tokens.
    pub fn choose(&mut self, active: &[u32], rows_of: &dyn Fn(u32) -> Range<usize>, order: &[u32]) {
        self.chosen.clear();
        for used in &self.tokens.all {
            let (first_run, first_row) = (self.chosen.runs.len(), self.chosen.rows.len());
            for &expert in active {
                for run in &self.tokens.runs[used.runs.clone()] {
                    let rows = rows_of(expert);
                    let before = |token| rows.start + order[rows.clone()].partition_point(|&other| other < token);
                    let to = before(run.to as u32)..before((run.to + run.count) as u32);
                    self.chosen.run(first_run, first_row, to, expert);
                }
            }
            self.chosen.close(used.applied, first_run, first_row);
        }
        let Uses { rows, from, .. } = &mut self.chosen;
        from.extend(rows.iter().map(|&row| order[row as usize]));
    }

    /// Whether some of the networks of these experts have wide values that are computed apart from what follows them.
    pub fn widen_experts<'w>(&self, mut networks: impl Iterator<Item = &'w Dense<Weight>>) -> bool {
        !self.chosen.all.is_empty() && networks.any(widens)
    }

    /// Adds what adapters add to the products of experts with their rows: of the input of all, or of rows as they stand.
    pub fn add_to_experts<'w>(
        &mut self,
        pool: &mut Pool,
        products: &mut matmul::Scratch,
        linear: &(dyn Fn(u32) -> &'w Linear<Weight> + Sync),
        by_token: bool,
        io: Io<'_>,
    ) {
        let uses = &self.chosen;
        uses.add(pool, products, linear, if by_token { &uses.from } else { &uses.rows }, &mut self.low, io);
    }
}

impl Uses {
    fn clear(&mut self) {
        self.all.clear();
        self.runs.clear();
        self.rows.clear();
        self.from.clear();
    }

    /// Takes the sequences of a batch, each with these rows.
    fn set(&mut self, batch: &Batch, rows_of: impl Fn(&Sequence) -> Range<usize>) {
        self.clear();
        for (index, applied) in batch.adapters.iter().enumerate() {
            if batch.adapters[..index].contains(applied) {
                continue;
            }
            let (first_run, first_row) = (self.runs.len(), self.rows.len());
            let having = batch.sequences.iter().filter(|&sequence| batch.adapters_of(sequence).contains(applied));
            having.for_each(|sequence| self.run(first_run, first_row, rows_of(sequence), 0));
            self.close(*applied, first_run, first_row);
        }
        // What a sequence has is added in one order, whoever has it, too.
        self.all.sort_by_key(|used| used.applied.adapter);
    }

    /// The use that began with these takes more rows; neighbours of the last go with them.
    fn run(&mut self, first_run: usize, first_row: usize, to: Range<usize>, expert: u32) {
        if to.is_empty() {
            return;
        }
        let first = self.rows.len() - first_row;
        self.rows.extend(to.clone().map(|row| row as u32));
        match self.runs[first_run..].last_mut() {
            Some(run) if run.expert == expert && run.to + run.count == to.start => run.count += to.len(),
            Some(_) | None => self.runs.push(Run { first, count: to.len(), to: to.start, expert }),
        }
    }

    /// The use that began with these is complete.
    fn close(&mut self, applied: Applied, first_run: usize, first_row: usize) {
        let (runs, rows) = (first_run..self.runs.len(), first_row..self.rows.len());
        if !runs.is_empty() {
            self.all.push(Use { applied, runs, rows });
        }
    }

    /// Adds `factor * up (down x)` of every use, each of its rows through the matrix that `linear` gives for it.
    fn add<'w>(
        &self,
        pool: &mut Pool,
        products: &mut matmul::Scratch,
        linear: &(dyn Fn(u32) -> &'w Linear<Weight> + Sync),
        from: &[u32],
        low: &mut [f32],
        io: Io<'_>,
    ) {
        let Io { x, factor, out } = io;
        for Use { applied, runs, rows } in &self.all {
            let (all, order) = (&self.runs[runs.clone()], &from[rows.clone()]);
            let part = |run: &Run| linear(run.expert).weight.low_rank(applied.adapter);
            let kind = |run: &Run| {
                part(run).map(|part| {
                    let quants = [&part.down, &part.up].map(|linear| linear.weight.matrix().quant);
                    (part.down.rows, quants, part.factor.to_bits())
                })
            };
            // Stacked experts are all alike; where they are not, those that are go together.
            for runs in all.chunk_by(|one, next| kind(one) == kind(next)) {
                let Some(like) = part(&runs[0]) else { continue };
                let (first, last) = (runs[0].first, &runs[runs.len() - 1]);
                let order = &order[first..last.first + last.count];
                let part_of = |index: usize| (part(&runs[index]).unwrap_or(like), &runs[index]);
                let down = |index: usize| {
                    let (part, run) = part_of(index);
                    Group {
                        linear: &part.down,
                        gate: None,
                        tokens: (run.first - first, run.count),
                        to: run.first - first,
                    }
                };
                let up = |index: usize| {
                    let (part, run) = part_of(index);
                    Group { linear: &part.up, gate: None, tokens: (run.first - first, run.count), to: run.to }
                };
                let input = Input { x, order: Some(order), tokens: order.len() };
                matmul::grouped(pool, products, input, (runs.len(), &down), Finish::Store, low);
                let input = Input { x: low, order: None, tokens: order.len() };
                let finish = Finish::Add(factor * like.factor * applied.scale);
                matmul::grouped(pool, products, input, (runs.len(), &up), finish, out);
            }
        }
    }
}
