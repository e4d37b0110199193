//! The one integer kernel: packed rows times quantised activations, for a token as for a thousand.
//!
//! A strip of `LANES` rows is unpacked from the stored layout, a chunk of columns at a time, into a panel in the first-level
//! cache: unsigned bytes, four columns of every row beside each other. The kernel then runs over the tokens. Sums inside a
//! group are integers, exact in any order; the scaled sums run over groups in order, so that a row's result does not depend
//! on how many tokens there are, nor on how they are tiled.

use std::ops::Range;

use crate::activation::{self, Activations, Correction, Tile};
use crate::pool::Disjoint;
use crate::vector::Vector;

/// Columns of sixteen rows unpacked at a time: 16 KiB of bytes, half a first-level cache.
const CHUNK: usize = 1024;
/// Most lanes of any instruction set.
const LANES_MAX: usize = 16;
/// Most vectors of rows that are computed together.
const STRIPS_MAX: usize = 2;

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
    /// Whether the bytes take all eight bits: signed ones raised by 128. Otherwise they are under 128.
    const WIDE: bool = false;
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
    /// Sums of every token: (tokens, rows of a strip).
    sums: Vec<f32>,
}

impl Panel {
    /// Scratch for batches of up to `tokens` tokens.
    pub fn new(tokens: usize) -> Self {
        Self {
            bytes: vec![0; CHUNK * LANES_MAX],
            scales: vec![0.0; CHUNK / 16 * LANES_MAX],
            minimums: vec![0.0; CHUNK / 16 * LANES_MAX],
            sums: vec![0.0; tokens * LANES_MAX * STRIPS_MAX],
        }
    }
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
    /// (tokens, rows).
    pub out: &'a Disjoint<'a, f32>,
}

/// The correction that activations need for a storage type.
pub const fn correction<U: Unpack>() -> Correction {
    assert!(U::MINIMUM == (U::OFFSET == 0), "an offset or a minimum");
    Correction { group: U::GROUP, offset: U::OFFSET }
}

/// Rows of a strip.
pub const fn height<V: Vector>() -> usize {
    V::LANES * V::STRIPS
}

/// Computes the rows of strip number `strip` for all tokens.
///
/// # Safety
/// The CPU has the instructions of `V`; `product.matrix` holds `rows` rows of whole blocks of `U`; no other worker writes the
/// rows of this strip.
#[inline(always)]
pub unsafe fn strip<V: Vector, U: Unpack>(product: &Product<'_>, strip: usize, panel: &mut Panel) {
    let row_bytes = product.columns / U::COLUMNS * U::BYTES;
    let first = strip * height::<V>();
    let rows = first..product.rows.min(first + height::<V>());
    let stored = &product.matrix[rows.start * row_bytes..rows.end * row_bytes];
    let mut start = 0;
    while start < product.columns {
        // As many columns as the panel holds of these rows.
        let columns = (CHUNK / V::STRIPS).min(product.columns - start);
        // SAFETY: the rows hold the columns, and the panel has room for them; the CPU has the instructions.
        unsafe { fill::<V, U>(stored, row_bytes, start..start + columns, panel) };
        let part = Part {
            start,
            columns,
            rows: rows.clone(),
            bytes: panel.bytes.as_ptr(),
            scales: panel.scales.as_ptr(),
            minimums: panel.minimums.as_ptr(),
        };
        // SAFETY: the panel holds the part; the rest is the caller's contract.
        unsafe { tiles::<V, U>(product, &part, &mut panel.sums) };
        start += columns;
    }
}

/// Unpacks some columns of some rows, `LANES` rows after the other.
///
/// # Safety
/// `stored` holds one row or more of `row_bytes` bytes, each with whole blocks up to the last column; the panel has room; the
/// CPU has the instructions of `V`.
#[inline(always)]
unsafe fn fill<V: Vector, U: Unpack>(stored: &[u8], row_bytes: usize, columns: Range<usize>, panel: &mut Panel) {
    let count = stored.len() / row_bytes;
    let blocks = columns.start / U::COLUMNS..columns.end / U::COLUMNS;
    for part in 0..V::STRIPS {
        // A short last strip reads its last row again in the lanes that it does not have.
        let offsets: [i32; LANES_MAX] =
            std::array::from_fn(|lane| ((part * V::LANES + lane).min(count - 1) * row_bytes) as i32);
        let next = stored.as_ptr().wrapping_add((V::STRIPS + part) * V::LANES * row_bytes);
        for (index, block) in blocks.clone().enumerate() {
            let column = part * columns.len() + index * U::COLUMNS;
            let group = column / U::GROUP * V::LANES;
            // SAFETY: the places lie in the panel, whose parts are sized for the smallest group; the stored block lies in each
            // of the rows that the offsets lead to.
            unsafe {
                let out = Block {
                    bytes: panel.bytes.as_mut_ptr().add(column * V::LANES),
                    scales: panel.scales.as_mut_ptr().add(group),
                    minimums: panel.minimums.as_mut_ptr().add(group),
                };
                // The rows of the next strip follow these in memory: asked for as a stream, while these are computed.
                let ahead = next.wrapping_add(block * U::BYTES * V::LANES);
                for line in (0..V::LANES * U::BYTES).step_by(64) {
                    V::prefetch(ahead.wrapping_add(line).cast());
                }
                U::unpack::<V>(stored.as_ptr().add(block * U::BYTES), &offsets, out);
            }
        }
    }
}

/// Some unpacked columns of a strip.
struct Part {
    /// The first column.
    start: usize,
    /// How many.
    columns: usize,
    /// The strip's rows.
    rows: Range<usize>,
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
    let rows = product.x.rows();
    let mut token = 0;
    while token < rows.tokens {
        let at = rows.tile(token);
        let sums = &mut sums[token * height::<V>()..(token + at.width) * height::<V>()];
        // SAFETY: the caller's contract is the same, and the tile is as wide.
        unsafe {
            match (V::STRIPS, at.width) {
                (1, 8) => tile::<V, U, 1, 8>(product, part, at, sums),
                (1, 4) => tile::<V, U, 1, 4>(product, part, at, sums),
                (1, 2) => tile::<V, U, 1, 2>(product, part, at, sums),
                (1, 1) => tile::<V, U, 1, 1>(product, part, at, sums),
                (2, 6) => tile::<V, U, 2, 6>(product, part, at, sums),
                (2, 4) => tile::<V, U, 2, 4>(product, part, at, sums),
                (2, 2) => tile::<V, U, 2, 2>(product, part, at, sums),
                (2, 1) => tile::<V, U, 2, 1>(product, part, at, sums),
                other => unreachable!("strips and tokens of a tile: {other:?}"),
            }
        }
        token += at.width;
    }
}

/// The activations of one tile, from the first column of a part on.
struct Input {
    values: *const i8,
    scales: *const f32,
    offsets: *const i32,
    sums: *const f32,
}

impl Input {
    /// Checks that everything is there for all columns of the part.
    fn new<U: Unpack>(product: &Product<'_>, part: &Part, tile: Tile) -> Self {
        let first = part.start / activation::GROUP;
        let (scales, groups) = (part.columns / activation::GROUP, part.columns / U::GROUP);
        let (offsets, sums) = product.x.corrections(const { correction::<U>() }, tile, part.start / U::GROUP);
        Self {
            values: product.x.values(tile, first)[..part.columns * tile.width].as_ptr(),
            scales: product.x.scales(tile, first)[..scales * tile.width].as_ptr(),
            offsets: offsets[..groups * tile.width].as_ptr(),
            sums: sums[..groups * tile.width].as_ptr(),
        }
    }
}

/// Adds the products of `R` times `LANES` rows of unpacked columns with the `T` tokens of a tile.
///
/// # Safety
/// As [`tiles`]; the tile is `T` wide, and `V::STRIPS` is `R`.
#[inline(always)]
unsafe fn tile<V: Vector, U: Unpack, const R: usize, const T: usize>(
    product: &Product<'_>,
    part: &Part,
    tile: Tile,
    sums: &mut [f32],
) {
    let input = Input::new::<U>(product, part, tile);
    let at = sums[..T * height::<V>()].as_mut_ptr();
    // Loops, not closures: a closure is compiled without the instruction set of the function around it.
    // SAFETY: sums of all rows and tokens lie in the slice; the rest is the caller's contract.
    unsafe {
        let mut total = [[V::float(0.0); T]; R];
        if part.start > 0 {
            for r in 0..R {
                for t in 0..T {
                    total[r][t] = V::load(at.add((t * R + r) * V::LANES));
                }
            }
        }
        for number in 0..part.columns / U::GROUP {
            group::<V, U, R, T>(part, &input, number, &mut total);
        }
        let last = part.start + part.columns == product.columns;
        if last && part.rows.len() == height::<V>() {
            for r in 0..R {
                let row = part.rows.start + r * V::LANES;
                let bias = match product.bias {
                    Some(bias) => V::load(bias[row..row + V::LANES].as_ptr()),
                    None => V::float(0.0),
                };
                for t in 0..T {
                    let at = (tile.token + t) * product.rows + row;
                    V::store(V::add(total[r][t], bias), product.out.slice(at..at + V::LANES).as_mut_ptr());
                }
            }
            return;
        }
        for r in 0..R {
            for t in 0..T {
                V::store(total[r][t], at.add((t * R + r) * V::LANES));
            }
        }
        if last {
            finish(product, &part.rows, tile, sums);
        }
    }
}

/// Adds the products of one group of columns.
///
/// # Safety
/// As [`tile`]; the part has the group.
#[inline(always)]
unsafe fn group<V: Vector, U: Unpack, const R: usize, const T: usize>(
    part: &Part,
    input: &Input,
    number: usize,
    total: &mut [[V::Float; T]; R],
) {
    let (shared, first) = (number * U::GROUP / activation::GROUP, number * U::GROUP % activation::GROUP);
    // SAFETY: part and input have the group, of `U::GROUP` columns.
    unsafe {
        let values = input.values.add(shared * T * activation::GROUP + first);
        let mut sum = [[V::int(0); T]; R];
        let signed = U::WIDE && V::SIGNED;
        if U::OFFSET != 0 && !signed {
            for t in 0..T {
                let offset = V::int(*input.offsets.add(number * T + t));
                for r in 0..R {
                    sum[r][t] = offset;
                }
            }
        }
        // The weights of four columns meet all tokens before the next: many sums that do not wait for each other.
        for index in 0..U::GROUP / 4 {
            let mut weights = [V::byte(0); R];
            for r in 0..R {
                let column = r * part.columns + number * U::GROUP + index * 4;
                weights[r] = V::load_bytes(part.bytes.add(column * V::LANES));
                if signed {
                    weights[r] = V::xor(weights[r], V::byte(0x80));
                }
            }
            for t in 0..T {
                let x = V::word(values.add(t * activation::GROUP + index * 4).cast::<u32>().read_unaligned());
                for r in 0..R {
                    sum[r][t] = dot::<V, U>(sum[r][t], weights[r], x);
                }
            }
        }
        for r in 0..R {
            let place = (r * part.columns / U::GROUP + number) * V::LANES;
            let scale = V::load(part.scales.add(place));
            let minimum = if U::MINIMUM { V::load(part.minimums.add(place)) } else { scale };
            for t in 0..T {
                let mut scaled = V::mul(V::to_float(sum[r][t]), scale);
                if U::MINIMUM {
                    scaled = V::sub_mul(minimum, V::float(*input.sums.add(number * T + t)), scaled);
                }
                total[r][t] = V::mul_add(scaled, V::float(*input.scales.add(shared * T + t)), total[r][t]);
            }
        }
    }
}

/// Writes the sums of a strip that is shorter than others: (tokens, rows of a strip).
///
/// # Safety
/// No other worker writes these rows.
unsafe fn finish(product: &Product<'_>, rows: &Range<usize>, tile: Tile, sums: &[f32]) {
    for (t, sums) in sums.chunks_exact(sums.len() / tile.width).enumerate() {
        let at = (tile.token + t) * product.rows;
        // SAFETY: the caller's contract is the same.
        let out = unsafe { product.out.slice(at + rows.start..at + rows.end) };
        for (row, (out, sum)) in rows.clone().zip(out.iter_mut().zip(sums)) {
            *out = sum + product.bias.map_or(0.0, |bias| bias[row]);
        }
    }
}

/// The quickest product for the bytes of `U`: signed where they are wide and that suits the instruction set.
///
/// # Safety
/// As [`Vector::dot`].
#[inline(always)]
unsafe fn dot<V: Vector, U: Unpack>(sum: V::Int, weights: V::Bytes, x: V::Bytes) -> V::Int {
    // SAFETY: the caller's contract is the same.
    unsafe {
        match (U::WIDE, V::SIGNED) {
            (false, _) => V::dot_low(sum, weights, x),
            (true, false) => V::dot(sum, weights, x),
            (true, true) => V::dot_signed(sum, weights, x),
        }
    }
}

#[cfg(test)]
mod tests;
