//! The one integer kernel: packed rows times quantised activations, for a token as for a thousand.
//!
//! A strip of `LANES` rows is unpacked from the stored layout, a chunk of columns at a time, into a panel in the first-level
//! cache: unsigned bytes, four columns of every row beside each other. The kernel then runs over the tokens. Sums inside a
//! group are integers, exact in any order; the scaled sums run over groups in order, so that a row's result does not depend
//! on how many tokens there are, nor on how they are tiled.

use crate::activation::{self, Activations, Row};
use crate::pool::Disjoint;
use crate::vector::Vector;

/// Columns unpacked at a time: 16 KiB of bytes for sixteen rows, half a first-level cache.
const CHUNK: usize = 1024;
/// Most lanes of any instruction set.
const LANES_MAX: usize = 16;
/// Most tokens that the kernel holds in registers.
const TILE: usize = 8;

/// How one storage type becomes a panel.
pub trait Unpack {
    /// Columns of a stored block.
    const COLUMNS: usize;
    /// Bytes of a stored block.
    const BYTES: usize;
    /// Columns that share a scale: 16 or 32.
    const GROUP: usize;
    /// What is added to a value to make it an unsigned byte.
    const OFFSET: i32;
    /// Whether a group has a minimum that is subtracted.
    const MINIMUM: bool;

    /// Unpacks the block at `base + offsets[row]` of every row.
    ///
    /// # Safety
    /// Those places hold `BYTES` readable bytes each, `out` has room for a block, and the CPU has the instructions of `V`.
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[i32; LANES_MAX], out: Block);
}

/// Where one unpacked block goes.
#[derive(Clone, Copy)]
pub struct Block {
    bytes: *mut u8,
    scales: *mut f32,
    minimums: *mut f32,
}

impl Block {
    /// Sets columns `4 * index` to `4 * index + 3` of every row.
    ///
    /// # Safety
    /// `index` is under a quarter of the block's columns.
    #[inline(always)]
    pub unsafe fn columns<V: Vector>(self, index: usize, bytes: V::Bytes) {
        // SAFETY: inside the block by the caller's word.
        unsafe { V::store_bytes(bytes, self.bytes.add(index * V::LANES * 4)) };
    }

    /// Sets the scale of a group.
    ///
    /// # Safety
    /// `group` is one of the block's groups.
    #[inline(always)]
    pub unsafe fn scale<V: Vector>(self, group: usize, scale: V::Float) {
        // SAFETY: inside the block by the caller's word.
        unsafe { V::store(scale, self.scales.add(group * V::LANES)) };
    }

    /// Sets the minimum of a group.
    ///
    /// # Safety
    /// `group` is one of the block's groups, and the type has minimums.
    #[inline(always)]
    pub unsafe fn minimum<V: Vector>(self, group: usize, minimum: V::Float) {
        // SAFETY: inside the block by the caller's word.
        unsafe { V::store(minimum, self.minimums.add(group * V::LANES)) };
    }
}

/// One worker's scratch memory.
pub struct Panel {
    bytes: Vec<u8>,
    scales: Vec<f32>,
    minimums: Vec<f32>,
    /// Sums of every token: (tokens, lanes).
    sums: Vec<f32>,
}

impl Panel {
    /// Scratch for batches of up to `tokens` tokens.
    pub fn new(tokens: usize) -> Self {
        Self {
            bytes: vec![0; CHUNK * LANES_MAX],
            scales: vec![0.0; CHUNK / 16 * LANES_MAX],
            minimums: vec![0.0; CHUNK / 16 * LANES_MAX],
            sums: vec![0.0; tokens * LANES_MAX],
        }
    }
}

/// What the kernel needs of the activations beside their bytes, for one group size and offset: (tokens, groups).
#[derive(Default)]
pub struct Corrections {
    /// Minus the offset times the sum of the group.
    offsets: Vec<i32>,
    /// The scale times the sum of the group.
    sums: Vec<f32>,
}

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
    /// The activations.
    pub x: &'a Activations,
    /// Those of the matrix's type.
    pub corrections: &'a Corrections,
    /// How many tokens.
    pub tokens: usize,
    /// (tokens, rows).
    pub out: &'a Disjoint<'a, f32>,
}

impl Corrections {
    /// Room for the groups of `values` activations.
    pub fn new(values: usize) -> Self {
        Self { offsets: Vec::with_capacity(values / 16), sums: Vec::with_capacity(values / 16) }
    }

    /// Computes those of `U`; allocates nothing within the room it was made with.
    pub fn prepare<U: Unpack>(&mut self, x: &Activations, tokens: usize) {
        self.offsets.clear();
        self.sums.clear();
        for token in 0..tokens {
            let Row { scales, sums, .. } = x.row(token);
            for (group, sums) in sums.chunks_exact(U::GROUP / 16).enumerate() {
                let sum: i32 = sums.iter().sum();
                self.offsets.push(-U::OFFSET * sum);
                self.sums.push(scales[group * U::GROUP / activation::GROUP] * sum as f32);
            }
        }
    }
}

/// Computes the rows of strip number `strip` for all tokens.
///
/// # Safety
/// The CPU has the instructions of `V`; `product.matrix` holds `rows` rows of whole blocks of `U`; no other worker writes the
/// rows of this strip.
#[inline(always)]
pub unsafe fn strip<V: Vector, U: Unpack>(product: &Product<'_>, strip: usize, panel: &mut Panel) {
    let row_bytes = product.columns / U::COLUMNS * U::BYTES;
    let first = strip * V::LANES;
    let count = V::LANES.min(product.rows - first);
    // A short last strip reads its last row again in the lanes it does not have.
    let offsets: [i32; LANES_MAX] = std::array::from_fn(|lane| (lane.min(count - 1) * row_bytes) as i32);
    let base = product.matrix[first * row_bytes..(first + count) * row_bytes].as_ptr();
    let sums = &mut panel.sums[..product.tokens * V::LANES];
    sums.fill(0.0);
    let mut start = 0;
    while start < product.columns {
        let columns = CHUNK.min(product.columns - start);
        for block in 0..columns / U::COLUMNS {
            let groups = block * U::COLUMNS / U::GROUP * V::LANES;
            // SAFETY: block `block` of a chunk of at most CHUNK columns has its place in the panel, whose parts are sized for
            // the smallest group; its stored bytes lie in the rows that `base` and `offsets` were cut for.
            unsafe {
                let out = Block {
                    bytes: panel.bytes.as_mut_ptr().add(block * U::COLUMNS * V::LANES),
                    scales: panel.scales.as_mut_ptr().add(groups),
                    minimums: panel.minimums.as_mut_ptr().add(groups),
                };
                let number = start / U::COLUMNS + block;
                let next = base.wrapping_add(V::LANES * (row_bytes + number * U::BYTES));
                for line in (0..V::LANES * U::BYTES).step_by(64) {
                    V::prefetch(next.wrapping_add(line).cast());
                }
                U::unpack::<V>(base.add(number * U::BYTES), &offsets, out);
            }
        }
        let part = Part {
            start,
            columns,
            bytes: panel.bytes.as_ptr(),
            scales: panel.scales.as_ptr(),
            minimums: panel.minimums.as_ptr(),
        };
        // SAFETY: the panel holds the part; the rest is the caller's contract.
        unsafe { tiles::<V, U>(product, &part, sums) };
        start += columns;
    }
    for (token, sums) in sums.chunks_exact(V::LANES).enumerate() {
        let at = token * product.rows + first;
        // SAFETY: the rows of this strip belong to this worker alone.
        let out = unsafe { product.out.slice(at..at + count) };
        match product.bias {
            Some(bias) => {
                let bias = &bias[first..first + count];
                out.iter_mut().zip(sums).zip(bias).for_each(|((out, sum), bias)| *out = sum + bias);
            }
            None => out.copy_from_slice(&sums[..count]),
        }
    }
}

/// Some unpacked columns of a strip.
struct Part {
    /// The first.
    start: usize,
    /// How many.
    columns: usize,
    bytes: *const u8,
    scales: *const f32,
    minimums: *const f32,
}

/// Adds the products of unpacked columns with all tokens.
///
/// # Safety
/// As [`strip`]; `part` is unpacked.
#[inline(always)]
unsafe fn tiles<V: Vector, U: Unpack>(product: &Product<'_>, part: &Part, sums: &mut [f32]) {
    let mut token = 0;
    while token < product.tokens {
        // SAFETY: the tile's tokens exist; the rest is the caller's contract.
        token += unsafe {
            match product.tokens - token {
                TILE.. => tile::<V, U, TILE>(product, part, token, sums),
                4.. => tile::<V, U, 4>(product, part, token, sums),
                2.. => tile::<V, U, 2>(product, part, token, sums),
                _ => tile::<V, U, 1>(product, part, token, sums),
            }
        };
    }
}

/// Adds the products of unpacked columns with tokens `token` to `token + T - 1`; gives back `T`.
///
/// # Safety
/// As [`tiles`]; the tokens exist.
#[inline(always)]
unsafe fn tile<V: Vector, U: Unpack, const T: usize>(
    product: &Product<'_>,
    part: &Part,
    token: usize,
    sums: &mut [f32],
) -> usize {
    let Part { start, columns, bytes, scales, minimums } = *part;
    let groups_per_row = product.columns / U::GROUP;
    let first_group = start / U::GROUP;
    let x: [Row<'_>; T] = std::array::from_fn(|t| product.x.row(token + t));
    let values: [*const i8; T] = x.map(|row| row.values[start..start + columns].as_ptr());
    let x_scales: [*const f32; T] = x.map(|row| row.scales[start / activation::GROUP..].as_ptr());
    let correction = |t: usize| (token + t) * groups_per_row + first_group;
    let offsets: [*const i32; T] = std::array::from_fn(|t| product.corrections.offsets[correction(t)..].as_ptr());
    let x_sums: [*const f32; T] = std::array::from_fn(|t| product.corrections.sums[correction(t)..].as_ptr());
    let at = sums[token * V::LANES..(token + T) * V::LANES].as_mut_ptr();
    // SAFETY: the slices above were cut to what is read here: `columns` values of each token, their groups' scales and
    // corrections; the panel holds as many; the CPU has the instructions by the caller's word.
    unsafe {
        // Loops, not closures: a closure is compiled without the instruction set of the function around it.
        let mut total = [V::float(0.0); T];
        for t in 0..T {
            total[t] = V::load(at.add(t * V::LANES));
        }
        for group in 0..columns / U::GROUP {
            let scale = V::load(scales.add(group * V::LANES));
            let mut weights = [V::byte(0); activation::GROUP / 4];
            for index in 0..U::GROUP / 4 {
                weights[index] = V::load_bytes(bytes.add((group * U::GROUP + index * 4) * V::LANES));
            }
            for t in 0..T {
                // The next tile's activations come from the second-level cache in short runs that no hardware foresees.
                if T == TILE {
                    V::prefetch(values[t].wrapping_add(TILE * product.columns + group * U::GROUP));
                }
                let mut sum = V::int(*offsets[t].add(group));
                for index in 0..U::GROUP / 4 {
                    sum = V::dot(sum, weights[index], values[t].add(group * U::GROUP + index * 4));
                }
                let scale = V::mul(scale, V::float(*x_scales[t].add(group * U::GROUP / activation::GROUP)));
                total[t] = V::mul_add(V::to_float(sum), scale, total[t]);
                if U::MINIMUM {
                    let minimum = V::load(minimums.add(group * V::LANES));
                    total[t] = V::sub_mul(minimum, V::float(*x_sums[t].add(group)), total[t]);
                }
            }
        }
        for (t, total) in total.into_iter().enumerate() {
            V::store(total, at.add(t * V::LANES));
        }
    }
    T
}

#[cfg(test)]
mod tests;
