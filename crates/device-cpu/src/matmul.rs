//! Matrix products: every thread takes a contiguous share of the rows and streams it once for all tokens of the batch.

use kauri_device::{Matrix, formula};

use crate::pool::{Disjoint, Pool, share};

/// `out[t] = matrix x[t] + bias` for `tokens` rows of `x`: `x` is (tokens, columns), `out` is (tokens, rows).
///
/// `scratch` holds one row of `columns` values for each thread. The sum of each output runs in one fixed order, so that a
/// token's result does not depend on the other tokens or on the number of threads.
pub fn linear(
    pool: &mut Pool,
    matrix: &Matrix,
    bias: Option<&[f32]>,
    x: &[f32],
    tokens: usize,
    scratch: &mut [f32],
    out: &mut [f32],
) {
    let (rows, columns) = (matrix.rows, matrix.columns);
    let (x, out) = (&x[..tokens * columns], Disjoint::new(&mut out[..tokens * rows]));
    let scratch = Disjoint::new(scratch);
    let threads = pool.threads();
    pool.run(&|worker| {
        // SAFETY: each worker cuts the part of its own number.
        let weights = unsafe { scratch.slice(worker * columns..(worker + 1) * columns) };
        for row in share(worker, threads, rows) {
            matrix.quant.dequantise(matrix.row(row), weights);
            let bias = bias.map_or(0.0, |bias| bias[row]);
            for (token, x) in x.chunks_exact(columns).enumerate() {
                let at = token * rows + row;
                // SAFETY: rows are shared out without overlap, so this element belongs to this worker alone.
                let y = unsafe { out.slice(at..at + 1) };
                y[0] = formula::dot(weights, x) + bias;
            }
        }
    });
}
