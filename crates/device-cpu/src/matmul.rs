//! Matrix products: every thread takes a contiguous share of the rows and streams it once for all tokens of the batch.
//!
//! Products that share an input go together: the input is quantised once, and all of them are one piece of work for the pool.

use std::ops::Range;

use kauri_arch::Linear;
use kauri_device::{Matrix, Weight, formula};

use crate::activation::{self, Activations, GROUP};
use crate::detect::{Kernels, Strips};
use crate::floats;
use crate::panel::{Panel, Product};
use crate::pool::{Disjoint, Pool, share};

/// Most products that share an input.
pub const TOGETHER: usize = activation::KINDS;

/// One product of several on the same input.
pub struct Job<'a> {
    /// `y = weight x + bias`.
    pub linear: &'a Linear<Weight>,
    /// (tokens, rows).
    pub out: &'a mut [f32],
}

/// Memory for products, sized at load.
pub struct Scratch {
    kernels: Kernels,
    activations: Activations,
    panels: Vec<Panel>,
    /// One row of weights for each thread.
    rows: Vec<f32>,
}

impl Scratch {
    /// For inputs of up to `tokens` rows of up to `columns` values, on `threads` threads.
    pub fn new(kernels: Kernels, tokens: usize, columns: usize, threads: usize) -> Self {
        Self {
            kernels,
            activations: Activations::new(tokens * columns),
            panels: (0..threads).map(|_| Panel::new(tokens)).collect(),
            rows: vec![0.0; columns * threads],
        }
    }

    /// The instructions in use.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }
}

/// Computes all `jobs` on the same `tokens` rows of `x`.
///
/// The sum of each output runs in one fixed order, so that a token's result does not depend on the other tokens, on how the
/// rows are shared out, or on the number of threads.
pub fn linear(pool: &mut Pool, scratch: &mut Scratch, x: &[f32], tokens: usize, jobs: &mut [Job<'_>]) {
    let Some(columns) = jobs.first().map(|job| job.linear.columns as usize).filter(|_| tokens > 0) else { return };
    let x = &x[..tokens * columns];
    let kernels = scratch.kernels;
    let strips: [Option<Strips>; TOGETHER] = std::array::from_fn(|index| {
        jobs.get(index)
            .filter(|_| columns.is_multiple_of(GROUP))
            .and_then(|job| kernels.strips(job.linear.weight.matrix().quant))
    });
    let threads = pool.threads();
    if strips.iter().any(Option::is_some) {
        let rows = activation::Rows { tokens, columns, widest: kernels.widest_tile() };
        scratch.activations.begin(rows, strips.iter().flatten().map(|strips| strips.correction));
        let writer = scratch.activations.writer();
        let quantise = |tokens: Range<usize>| {
            for token in tokens {
                // SAFETY: tokens are shared out without overlap.
                unsafe { kernels.quantise(&writer, token, &x[token * columns..(token + 1) * columns]) };
            }
        };
        // A single row is the caller's: waking others would take longer.
        if tokens == 1 { quantise(0..1) } else { pool.run(&|worker| quantise(share(worker, threads, tokens))) }
    }
    let panels = Disjoint::new(&mut scratch.panels);
    let rows = Disjoint::new(&mut scratch.rows);
    let activations = &scratch.activations;
    let mut outs = jobs.iter_mut().map(|job| (job.linear, Disjoint::new(&mut *job.out)));
    let outs: [Option<(&Linear<Weight>, Disjoint<'_, f32>)>; TOGETHER] = std::array::from_fn(|_| outs.next());
    pool.run(&|worker| {
        // SAFETY: each worker takes the panel and the row of its own number.
        let (panel, weights) =
            unsafe { (&mut panels.slice(worker..worker + 1)[0], rows.slice(worker * columns..(worker + 1) * columns)) };
        for (index, (linear, out)) in outs.iter().flatten().enumerate() {
            let matrix = linear.weight.matrix();
            let bias = linear.bias.as_ref().map(Weight::vector);
            let Some(strips) = strips[index] else {
                let rows = share(worker, threads, matrix.rows);
                match kernels.format(matrix.quant) {
                    Some(format) => {
                        let (count, matrix) = (matrix.rows, &*matrix.data);
                        let product = floats::Product { matrix, rows: count, columns, bias, x, tokens, out };
                        // SAFETY: loading checked the matrix's size; rows are shared out without overlap.
                        unsafe { kernels.floats(&product, format, rows) };
                    }
                    None => scalar(matrix, bias, x, weights, rows, out),
                }
                continue;
            };
            let (rows, matrix) = (matrix.rows, &*matrix.data);
            let product = Product { matrix, rows, columns, bias, x: activations, out };
            for strip in share(worker, threads, rows.div_ceil(strips.rows)) {
                // SAFETY: `strips` came from `Kernels`, which exists only where the CPU has the instructions; loading checked
                // the matrix's size; strips are shared out without overlap.
                unsafe { (strips.run)(&product, strip, panel) };
            }
        }
    });
}

/// The rows `rows` of one product, dequantised one after the other.
fn scalar(
    matrix: &Matrix,
    bias: Option<&[f32]>,
    x: &[f32],
    weights: &mut [f32],
    rows: Range<usize>,
    out: &Disjoint<'_, f32>,
) {
    for row in rows {
        matrix.quant.dequantise(matrix.row(row), weights);
        let bias = bias.map_or(0.0, |bias| bias[row]);
        for (token, x) in x.chunks_exact(matrix.columns).enumerate() {
            let at = token * matrix.rows + row;
            // SAFETY: rows are shared out without overlap, so this element belongs to this worker alone.
            let y = unsafe { out.slice(at..at + 1) };
            y[0] = formula::dot(weights, x) + bias;
        }
    }
}
