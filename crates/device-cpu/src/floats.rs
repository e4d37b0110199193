//! Products with rows of floating-point weights, straight from where the file is mapped.
//!
//! A lane is a column: rows are contiguous, so nothing is packed. Each output has one chain of lanes that runs over the columns
//! in order and is summed at the end, whatever the number of rows or tokens beside it.

use std::ops::Range;

use half::{bf16, f16};

use kauri_formats::Quant;

use crate::pool::Disjoint;
use crate::vector::{Stored, Vector};

/// Most lanes of any instruction set.
const LANES_MAX: usize = 16;

/// One product, as all workers see it.
pub struct Product<'a> {
    /// The matrix's stored bytes.
    pub matrix: &'a [u8],
    /// Its rows.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
    /// Added to each row.
    pub bias: Option<&'a [f32]>,
    /// (tokens, columns).
    pub x: &'a [f32],
    /// How many tokens.
    pub tokens: usize,
    /// (tokens, rows).
    pub out: &'a Disjoint<'a, f32>,
}

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `f32`.
    Single,
    /// `f16`.
    Half,
    /// `bf16`.
    Brain,
}

impl Format {
    /// The format of a storage type, if it is a floating-point one.
    pub fn of(quant: Quant) -> Option<Self> {
        match quant {
            Quant::F32 => Some(Self::Single),
            Quant::F16 => Some(Self::Half),
            Quant::BF16 => Some(Self::Brain),
            Quant::Q4_0
            | Quant::Q4_1
            | Quant::Q5_0
            | Quant::Q5_1
            | Quant::Q8_0
            | Quant::Q2_K
            | Quant::Q3_K
            | Quant::Q4_K
            | Quant::Q5_K
            | Quant::Q6_K
            | Quant::IQ2_XXS
            | Quant::IQ2_XS
            | Quant::IQ2_S
            | Quant::IQ3_XXS
            | Quant::IQ3_S
            | Quant::IQ1_S
            | Quant::IQ1_M
            | Quant::IQ4_NL
            | Quant::IQ4_XS
            | Quant::TQ1_0
            | Quant::TQ2_0
            | Quant::MXFP4
            | Quant::NVFP4
            | Quant::Q1_0
            | Quant::Q2_0
            | Quant::I8
            | Quant::I16
            | Quant::I32
            | Quant::I64
            | Quant::F64 => None,
        }
    }
}

/// Computes some rows for all tokens.
///
/// # Safety
/// The CPU has the instructions of `V`; `product.matrix` holds the rows; no other worker writes them.
#[inline(always)]
pub unsafe fn rows<V: Vector>(product: &Product<'_>, format: Format, rows: Range<usize>) {
    // SAFETY: the caller's contract is the same.
    unsafe {
        match format {
            Format::Single => stored::<V, f32>(product, rows),
            Format::Half => stored::<V, f16>(product, rows),
            Format::Brain => stored::<V, bf16>(product, rows),
        }
    }
}

/// The rows in tiles of eight and tokens in tiles of two, or four of each, as far as they go.
///
/// # Safety
/// As [`rows`], of weights stored as `E`.
#[inline(always)]
unsafe fn stored<V: Vector, E: Stored>(product: &Product<'_>, rows: Range<usize>) {
    let mut row = rows.start;
    while row < rows.end {
        let (left, mut token) = (rows.end - row, 0);
        let height = if product.tokens >= 4 && left >= 4 {
            4
        } else if left >= 8 {
            8
        } else {
            1
        };
        while token < product.tokens {
            let width = product.tokens - token;
            // SAFETY: the tile's rows and tokens exist; the rest is the caller's contract.
            token += unsafe {
                match (height, width) {
                    (4, 4..) => tile::<V, E, 4, 4>(product, row, token),
                    (4, _) => tile::<V, E, 4, 1>(product, row, token),
                    (8, 2..) => tile::<V, E, 8, 2>(product, row, token),
                    (8, _) => tile::<V, E, 8, 1>(product, row, token),
                    (_, 4..) => tile::<V, E, 1, 4>(product, row, token),
                    _ => tile::<V, E, 1, 1>(product, row, token),
                }
            };
        }
        row += height;
    }
}

/// `R` rows times `T` tokens; gives back `T`.
///
/// # Safety
/// As [`stored`]; the rows and tokens exist.
#[inline(always)]
unsafe fn tile<V: Vector, E: Stored, const R: usize, const T: usize>(
    product: &Product<'_>,
    row: usize,
    token: usize,
) -> usize {
    let columns = product.columns;
    let bytes = size_of::<E>();
    let weights: [&[u8]; R] =
        std::array::from_fn(|r| &product.matrix[(row + r) * columns * bytes..(row + r + 1) * columns * bytes]);
    let x: [&[f32]; T] = std::array::from_fn(|t| &product.x[(token + t) * columns..(token + t + 1) * columns]);
    let whole = columns / V::LANES * V::LANES;
    let mut totals = [[0.0; T]; R];
    // Loops, not closures: a closure is compiled without the instruction set of the function around it.
    // SAFETY: vectors end at `whole`, inside the slices above; the rest is copied into arrays of a vector's size.
    unsafe {
        let mut sums = [[V::float(0.0); T]; R];
        let (mut w, mut x_vectors) = ([V::float(0.0); R], [V::float(0.0); T]);
        for column in (0..whole).step_by(V::LANES) {
            for r in 0..R {
                w[r] = E::load::<V>(weights[r].as_ptr().add(column * bytes).cast());
            }
            for t in 0..T {
                x_vectors[t] = V::load(x[t].as_ptr().add(column));
            }
            add::<V, R, T>(&mut sums, &w, &x_vectors);
        }
        if whole < columns {
            for r in 0..R {
                let mut rest = [0u8; LANES_MAX * 4];
                rest[..(columns - whole) * bytes].copy_from_slice(&weights[r][whole * bytes..]);
                w[r] = E::load::<V>(rest.as_ptr().cast());
            }
            for t in 0..T {
                let mut rest = [0.0f32; LANES_MAX];
                rest[..columns - whole].copy_from_slice(&x[t][whole..]);
                x_vectors[t] = V::load(rest.as_ptr());
            }
            add::<V, R, T>(&mut sums, &w, &x_vectors);
        }
        for r in 0..R {
            for t in 0..T {
                totals[r][t] = V::sum(sums[r][t]);
            }
        }
    }
    for t in 0..T {
        let at = (token + t) * product.rows + row;
        // SAFETY: these rows belong to this worker alone.
        let out = unsafe { product.out.slice(at..at + R) };
        for (r, out) in out.iter_mut().enumerate() {
            *out = totals[r][t] + product.bias.map_or(0.0, |bias| bias[row + r]);
        }
    }
    T
}

/// One vector of columns into every sum of a tile.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn add<V: Vector, const R: usize, const T: usize>(
    sums: &mut [[V::Float; T]; R],
    weights: &[V::Float; R],
    x: &[V::Float; T],
) {
    for r in 0..R {
        for t in 0..T {
            // SAFETY: the caller's contract is the same.
            sums[r][t] = unsafe { V::mul_add(weights[r], x[t], sums[r][t]) };
        }
    }
}
