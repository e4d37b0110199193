//! Matrix products: every thread takes a contiguous share of the rows and streams it once for all tokens of the batch.
//!
//! Products that share an input go together: the input is packed once, and all of them are one piece of work for the pool. What
//! follows a product (bias, activation, the gate's product, the addition to the stream) is done by the worker that has the sums.

use std::ops::Range;

use kauri_arch::Linear;
use kauri_device::{Weight, formula};

use crate::activation::{self, Activations, GROUP};
use crate::detect::{Kernels, Strips};
use crate::pool::{Disjoint, Pool};
use crate::product::{self, Finish, Output, Product};

/// Most products that share an input.
pub const TOGETHER: usize = activation::KINDS;

/// One product of several on the same input.
pub struct Job<'a> {
    /// `y = weight x + bias`.
    pub linear: &'a Linear<Weight>,
    /// Another product of the same input and as many rows, for [`Finish::Gate`].
    pub gate: Option<&'a Linear<Weight>>,
    /// What becomes of it.
    pub finish: Finish,
    /// (tokens, rows).
    pub out: &'a mut [f32],
}

/// Memory for products, sized at load.
pub struct Scratch {
    kernels: Kernels,
    activations: Activations,
    workers: Vec<product::Scratch>,
    /// Two rows of weights for each thread.
    rows: Vec<f32>,
}

impl Scratch {
    /// For inputs of up to `tokens` rows of up to `columns` values, on `threads` threads.
    pub fn new(kernels: Kernels, tokens: usize, columns: usize, threads: usize) -> Self {
        Self {
            kernels,
            activations: Activations::new(tokens * columns),
            workers: (0..threads).map(|_| product::Scratch::new(tokens)).collect(),
            rows: vec![0.0; 2 * columns * threads],
        }
    }

    /// The instructions in use.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }
}

/// A job with its kernels, as all workers see it.
struct Shared<'a> {
    linear: &'a Linear<Weight>,
    gate: Option<&'a Linear<Weight>>,
    /// The kernels of both, if they have any.
    strips: Option<(Strips, Option<Strips>)>,
    finish: Finish,
    out: Disjoint<'a, f32>,
}

/// The kernel of a product, if it has one.
fn strips(kernels: Kernels, linear: &Linear<Weight>) -> Option<Strips> {
    let strips = kernels.strips(linear.weight.matrix().quant)?;
    (strips.correction.is_none() || (linear.columns as usize).is_multiple_of(GROUP)).then_some(strips)
}

/// Whether both products can be computed together, as a job with a gate.
pub fn go_together(kernels: Kernels, linear: &Linear<Weight>, gate: &Linear<Weight>) -> bool {
    let rows = |linear| strips(kernels, linear).map(|strips| strips.rows);
    linear.rows == gate.rows && rows(linear) == rows(gate)
}

/// Computes all `jobs` on the same `tokens` rows of `x`.
///
/// The sum of each output runs in one fixed order, so that a token's result does not depend on the other tokens, on how the
/// rows are shared out, or on the number of threads.
///
/// # Panics
/// If a gate and its product do not [go together](go_together).
pub fn linear(pool: &mut Pool, scratch: &mut Scratch, x: &[f32], tokens: usize, jobs: &mut [Job<'_>]) {
    let Some(columns) = jobs.first().map(|job| job.linear.columns as usize).filter(|_| tokens > 0) else { return };
    let x = &x[..tokens * columns];
    let kernels = scratch.kernels;
    let mut each = jobs.iter_mut().map(|Job { linear, gate, finish, out }| {
        assert!(gate.is_none_or(|gate| go_together(kernels, linear, gate)), "a gate that goes with its product");
        let strips = strips(kernels, linear).map(|own| (own, gate.and_then(|gate| strips(kernels, gate))));
        Shared { linear, gate: *gate, strips, finish: *finish, out: Disjoint::new(out) }
    });
    let jobs: [Option<Shared<'_>>; TOGETHER] = std::array::from_fn(|_| each.next());
    pack(pool, scratch, x, tokens, &jobs);
    let count = jobs.iter().flatten().map(Shared::units).sum::<usize>();
    let workers = Disjoint::new(&mut scratch.workers);
    let rows = Disjoint::new(&mut scratch.rows);
    let activations = &scratch.activations;
    pool.split(count, pool.grain(count), &|thread, units| {
        // SAFETY: each thread takes the memory of its own number.
        let (scratch, weights) = unsafe {
            let columns = 2 * columns;
            (&mut workers.slice(thread..thread + 1)[0], rows.slice(thread * columns..(thread + 1) * columns))
        };
        let mut first = 0;
        for job in jobs.iter().flatten() {
            let count = job.units();
            let own = units.start.clamp(first, first + count) - first..units.end.clamp(first, first + count) - first;
            first += count;
            match job.strips {
                // SAFETY: pieces do not overlap.
                None => unsafe { scalar(job, x, weights, own) },
                Some(strips) => {
                    for strip in own {
                        // SAFETY: pieces do not overlap.
                        unsafe { job.strip(kernels, strips, activations, strip, scratch) };
                    }
                }
            }
        }
    });
}

/// Packs the input in the ways that the jobs want it.
fn pack(pool: &mut Pool, scratch: &mut Scratch, x: &[f32], tokens: usize, jobs: &[Option<Shared<'_>>; TOGETHER]) {
    let kernels = scratch.kernels;
    let columns = x.len() / tokens;
    let strips =
        || jobs.iter().flatten().filter_map(|job| job.strips).flat_map(|(own, gate)| [Some(own), gate]).flatten();
    let quantised = strips().any(|strips| strips.correction.is_some());
    let as_they_are = strips().any(|strips| strips.correction.is_none());
    let rows = activation::Rows { tokens, columns, widest: kernels.widest_tile() };
    scratch.activations.begin(rows, strips().filter_map(|strips| strips.correction));
    let writer = scratch.activations.writer();
    let pack = |tokens: Range<usize>| {
        for token in tokens {
            let x = &x[token * columns..(token + 1) * columns];
            // SAFETY: tokens are shared out without overlap.
            unsafe {
                if quantised {
                    kernels.quantise(&writer, token, x);
                }
                if as_they_are {
                    writer.pack(token, x);
                }
            }
        }
    };
    if quantised || as_they_are {
        pool.split(tokens, pool.grain(tokens), &|_, tokens| pack(tokens));
    }
}

impl Shared<'_> {
    /// In how many parts it is computed: strips of rows, or rows.
    fn units(&self) -> usize {
        let rows = self.linear.rows as usize;
        self.strips.map_or(rows, |(own, _)| rows.div_ceil(own.rows))
    }

    /// Computes the rows of one strip.
    ///
    /// # Safety
    /// `strips` are those of this job, for instructions that the CPU has; no other worker computes the same strip.
    unsafe fn strip(
        &self,
        kernels: Kernels,
        strips: (Strips, Option<Strips>),
        x: &Activations,
        strip: usize,
        scratch: &mut product::Scratch,
    ) {
        let (rows, columns) = (self.linear.rows as usize, self.linear.columns as usize);
        let output = Output {
            finish: self.finish,
            bias: self.linear.bias.as_ref().map(Weight::vector),
            held_bias: self.gate.and_then(|gate| gate.bias.as_ref()).map(Weight::vector),
            rows,
            height: strips.0.rows,
            out: &self.out,
        };
        // SAFETY: loading checked the sizes of the matrices; the rest is the caller's contract.
        unsafe {
            if let (Some(gate), Some(strips)) = (self.gate, strips.1) {
                let matrix = &*gate.weight.matrix().data;
                (strips.run)(&Product { matrix, rows, columns, x, output: None }, strip, scratch);
                scratch.hold();
            }
            let matrix = &*self.linear.weight.matrix().data;
            let output = Some((&output, kernels.finisher()));
            (strips.0.run)(&Product { matrix, rows, columns, x, output }, strip, scratch);
        }
    }
}

/// The rows `rows` of one job, dequantised one after the other; `weights` has room for two.
///
/// # Safety
/// No other worker computes the same rows.
unsafe fn scalar(job: &Shared<'_>, x: &[f32], weights: &mut [f32], rows: Range<usize>) {
    let matrix = job.linear.weight.matrix();
    let (weights, gate_weights) = weights.split_at_mut(matrix.columns);
    let bias = |linear: &Linear<Weight>, row: usize| linear.bias.as_ref().map_or(0.0, |bias| bias.vector()[row]);
    for row in rows {
        matrix.quant.dequantise(matrix.row(row), weights);
        if let Some(gate) = job.gate {
            let gate = gate.weight.matrix();
            gate.quant.dequantise(gate.row(row), gate_weights);
        }
        for (token, x) in x.chunks_exact(matrix.columns).enumerate() {
            let at = token * matrix.rows + row;
            let sum = formula::dot(weights, x) + bias(job.linear, row);
            // SAFETY: this element belongs to this worker alone.
            let place = &mut unsafe { job.out.slice(at..at + 1) }[0];
            *place = match (job.finish, job.gate) {
                (Finish::Store, _) => sum,
                (Finish::Add(scale), _) => *place + scale * sum,
                (Finish::Activate(activation), _) => formula::activate(activation, sum),
                (Finish::Gate(activation), Some(gate)) => {
                    let gate = formula::dot(gate_weights, x) + bias(gate, row);
                    formula::activate(activation, gate) * sum
                }
                (Finish::Gate(_), None) => unreachable!("a gate's product goes with it"),
            };
        }
    }
}
