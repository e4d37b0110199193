//! The one integer kernel: packed rows times quantised activations, for a token as for a thousand.
//!
//! A panel holds unsigned bytes, four columns of every row beside each other. Sums inside a group are integers, exact in any order;
//! the scaled sums run over groups in order.

use std::marker::PhantomData;
use std::ops::Range;

use crate::activation::{self, Activations, Correction, Tile};
use crate::product::{Ahead, CHUNK, LANES_MAX, Multiply, Panel, Part};
use crate::vector::Vector;

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

/// Weights as unsigned bytes, unpacked by `U`.
pub struct Bytes<U>(PhantomData<U>);

/// The correction that activations need for a storage type.
pub const fn correction<U: Unpack>() -> Correction {
    assert!(U::MINIMUM == (U::OFFSET == 0), "an offset or a minimum");
    Correction { group: U::GROUP, offset: U::OFFSET }
}

impl<V: Vector, U: Unpack> Multiply<V> for Bytes<U> {
    const STRIPS: usize = V::STRIPS;
    const COLUMNS: usize = CHUNK / V::STRIPS;
    // The largest block.
    const COLUMNS_FOR_FEW: usize = 256;

    type Input = Input;

    fn row_bytes(columns: usize) -> usize {
        columns / U::COLUMNS * U::BYTES
    }

    #[inline(always)]
    unsafe fn fill(stored: &[u8], row_bytes: usize, columns: Range<usize>, mut ahead: Ahead, panel: &mut Panel) {
        let count = stored.len() / row_bytes;
        let blocks = columns.start / U::COLUMNS..columns.end / U::COLUMNS;
        let each = ahead.each(blocks.len() * V::STRIPS);
        for part in 0..V::STRIPS {
            // A short last strip reads its last row again in the lanes that it does not have.
            let offsets: [i32; LANES_MAX] =
                std::array::from_fn(|lane| ((part * V::LANES + lane).min(count - 1) * row_bytes) as i32);
            for (index, block) in blocks.clone().enumerate() {
                let column = part * columns.len() + index * U::COLUMNS;
                let group = column / U::GROUP * V::LANES;
                // SAFETY: the places lie in the panel, whose parts are sized for the smallest group; the stored block lies in
                // each of the rows that the offsets lead to.
                unsafe {
                    let out = Block {
                        bytes: panel.bytes.as_mut_ptr().add(column * V::LANES),
                        scales: panel.scales.as_mut_ptr().add(group),
                        minimums: panel.minimums.as_mut_ptr().add(group),
                    };
                    ahead.ask::<V>(each);
                    U::unpack::<V>(stored.as_ptr().add(block * U::BYTES), &offsets, out);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn single<const R: usize>(_: &[u8], _: usize, _: &Activations, _: Tile) -> Option<[V::Float; R]> {
        None
    }

    fn input(x: &Activations, part: &Part, tile: Tile) -> Input {
        let first = part.start / activation::GROUP;
        let (scales, groups) = (part.columns / activation::GROUP, part.columns / U::GROUP);
        let (offsets, sums) = x.corrections(const { correction::<U>() }, tile, part.start / U::GROUP);
        Input {
            values: x.values(tile, first)[..part.columns * tile.width].as_ptr(),
            scales: x.scales(tile, first)[..scales * tile.width].as_ptr(),
            offsets: offsets[..groups * tile.width].as_ptr(),
            sums: sums[..groups * tile.width].as_ptr(),
        }
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        part: &Part,
        panel: &Panel,
        input: &Input,
        mut ahead: Ahead,
        total: &mut [[V::Float; T]; R],
    ) {
        let groups = part.columns / U::GROUP;
        let each = ahead.each(groups);
        for number in 0..groups {
            // SAFETY: the caller's contract is the same, and the part has the group.
            unsafe {
                ahead.ask::<V>(each);
                group::<V, U, R, T>(part.columns, panel, input, number, total);
            }
        }
    }
}

/// The quantised activations of one tile, from the first column of a part on.
pub struct Input {
    values: *const i8,
    scales: *const f32,
    offsets: *const i32,
    sums: *const f32,
}

/// Adds the products of one group of columns.
///
/// # Safety
/// The panel and the input hold `columns` columns, and the group; the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn group<V: Vector, U: Unpack, const R: usize, const T: usize>(
    columns: usize,
    panel: &Panel,
    input: &Input,
    number: usize,
    total: &mut [[V::Float; T]; R],
) {
    let (shared, first) = (number * U::GROUP / activation::GROUP, number * U::GROUP % activation::GROUP);
    // SAFETY: panel and input have the group, of `U::GROUP` columns.
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
                let column = r * columns + number * U::GROUP + index * 4;
                weights[r] = V::load_bytes(panel.bytes.as_ptr().add(column * V::LANES));
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
            let place = (r * columns / U::GROUP + number) * V::LANES;
            let scale = V::load(panel.scales.as_ptr().add(place));
            let minimum = if U::MINIMUM { V::load(panel.minimums.as_ptr().add(place)) } else { scale };
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
