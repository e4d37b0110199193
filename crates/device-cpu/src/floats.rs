//! The floating-point kernel: rows widened to `f32`, times activations as they are.

use std::marker::PhantomData;
use std::ops::Range;

use half::{bf16, f16};
use kauri_formats::Quant;

use crate::activation::{Activations, Tile};
use crate::detect::Packing;
use crate::product::{
    self, Ahead, Fill, InRegisters, LANES_MAX, LaneScales, Multiply, NUMBERS, Panel, Part, Product, RowScales, Scratch,
    Tiles, offsets, offsets_of_whole,
};
use crate::quant::written_out;
use crate::vector::Vector;

/// A floating-point number as it is stored.
pub trait Element {
    /// Bytes of one.
    const BYTES: usize;

    /// Widens the number that starts at byte `byte` of each row's four.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn widen<V: Vector>(word: V::Bytes, byte: usize) -> V::Float;

    /// What numbers of a type with scales apart are multiplied with behind a column, up to the next tile.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn scale<V: Vector>(_: &LaneScales<'_>, _: usize) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::float(1.0) }
    }

    /// Number `index` of sixteen bytes of each row, times what [`Self::scale`] gave.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn number<V: Vector>(words: &[V::Bytes; 4], index: usize, _: V::Float) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { Self::widen::<V>(words[index * Self::BYTES / 4], index * Self::BYTES % 4) }
    }
}

impl Element for f32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn widen<V: Vector>(word: V::Bytes, _: usize) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::float_from_bits(word) }
    }
}

impl Element for f16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn widen<V: Vector>(word: V::Bytes, byte: usize) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { if byte == 0 { V::half_to_float::<0>(word) } else { V::half_to_float::<1>(word) } }
    }
}

impl Element for bf16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn widen<V: Vector>(word: V::Bytes, byte: usize) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe {
            V::float_from_bits(if byte == 0 { V::shift_left::<16>(word) } else { V::and(word, V::word(0xffff_0000)) })
        }
    }
}

/// A float of eight bits.
pub struct E4m3;

impl E4m3 {
    /// What [`Element::widen`] leaves out: the exponent of half precision begins eight powers of two lower.
    const LEFT_OUT: f32 = 256.0;
}

impl Element for E4m3 {
    const BYTES: usize = 1;

    /// The number divided by [`Self::LEFT_OUT`]: a sign, and seven bits that are the upper ones of a number in half precision, so that those
    /// under the normal ones need no care.
    #[inline(always)]
    unsafe fn widen<V: Vector>(word: V::Bytes, byte: usize) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe {
            let [signs, sizes] = [V::word(0x8000_8000), V::word(0x3f80_3f80)];
            // Bytes 0 and 2, or 1 and 3, in the two halves.
            let halves = if byte.is_multiple_of(2) {
                V::or(V::and(V::shift_left::<8>(word), signs), V::and(V::shift_left::<7>(word), sizes))
            } else {
                V::or(V::and(word, signs), V::and(V::shift_right::<1>(word), sizes))
            };
            if byte < 2 { V::half_to_float::<0>(halves) } else { V::half_to_float::<1>(halves) }
        }
    }

    #[inline(always)]
    unsafe fn scale<V: Vector>(scales: &LaneScales<'_>, column: usize) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { scales.at::<V>(column, Self::LEFT_OUT) }
    }

    #[inline(always)]
    unsafe fn number<V: Vector>(words: &[V::Bytes; 4], index: usize, scale: V::Float) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::mul(Self::widen::<V>(words[index / 4], index % 4), scale) }
    }
}

/// Weights stored as `E`.
pub struct Numbers<E>(PhantomData<E>);

/// What is to be done with the element of a storage type that is known only at run time.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<E: Element>(self) -> Self::Output;
}

/// Calls `visitor` with the element of `quant`, if that is a floating-point type.
pub fn visit<V: Visitor>(quant: Quant, visitor: V) -> Option<V::Output> {
    Some(match quant {
        Quant::F32 => visitor.visit::<f32>(),
        Quant::F16 => visitor.visit::<f16>(),
        Quant::BF16 => visitor.visit::<bf16>(),
        Quant::F8_E4M3 => visitor.visit::<E4m3>(),
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
        | Quant::F64 => return None,
    })
}

/// Columns that sixteen bytes hold of the narrowest numbers: the panel has room for whole ones.
const RUN: usize = 16;

/// A vector of rows.
struct Rows<'a> {
    stored: &'a [u8],
    row_bytes: usize,
    offsets: [isize; LANES_MAX],
}

impl<'a> Rows<'a> {
    /// The rows of vector `part` of a strip, whose stored bytes are `stored`.
    #[inline(always)]
    fn new<V: Vector>(stored: &'a [u8], row_bytes: usize, part: usize) -> Self {
        Self { stored, row_bytes, offsets: offsets::<V>(stored, row_bytes, part) }
    }

    /// The same of a strip that is known to be whole.
    #[inline(always)]
    fn of_whole<V: Vector>(stored: &'a [u8], row_bytes: usize, part: usize) -> Self {
        Self { stored, row_bytes, offsets: offsets_of_whole::<V>(row_bytes, part) }
    }

    /// Sixteen bytes of each row from `column` on, zeros behind its end.
    ///
    /// # Safety
    /// The rows have the column; the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn columns<V: Vector, E: Element>(&self, column: usize) -> [V::Bytes; 4] {
        let at = column * E::BYTES;
        // SAFETY: reads end with the row, or lie in an array.
        unsafe {
            if at + 16 <= self.row_bytes {
                return V::columns16(self.stored.as_ptr().add(at), &self.offsets);
            }
            let mut rest = [0; LANES_MAX * 16];
            for (lane, rest) in rest.chunks_exact_mut(16).enumerate() {
                let start = self.offsets[lane] as usize;
                let bytes = &self.stored[start + at..start + self.row_bytes];
                rest[..bytes.len()].copy_from_slice(bytes);
            }
            V::columns16(rest.as_ptr(), &std::array::from_fn(|lane| lane as isize * 16))
        }
    }
}

impl<V: Vector, E: Element> Fill<V> for Numbers<E> {
    type Tiles = Sums;
    const PACKING: Packing = Packing::Numbers;
    const COLUMNS: usize = NUMBERS / (V::LANES * V::FLOAT_STRIPS);
    const COLUMNS_FOR_FEW: usize = 32;
    const FILLING: usize = product::EVEN;

    fn row_bytes(columns: usize) -> usize {
        columns * E::BYTES
    }

    #[inline(always)]
    unsafe fn fill(
        stored: &[u8],
        row_bytes: usize,
        columns: Range<usize>,
        scales: RowScales<'_>,
        mut ahead: Ahead,
        panel: &mut Panel,
    ) {
        let width = columns.len().next_multiple_of(RUN);
        let run = 16 / E::BYTES;
        let each = ahead.each(columns.len().div_ceil(run) * V::FLOAT_STRIPS);
        for part in 0..V::FLOAT_STRIPS {
            let rows = Rows::new::<V>(stored, row_bytes, part);
            let scales = scales.of_lanes::<V>(part);
            // SAFETY: the panel has room for `width` columns of every vector of rows; the rows hold the columns.
            unsafe {
                let out = panel.numbers.as_mut_ptr().add(part * width * V::LANES);
                for column in (0..columns.len()).step_by(run) {
                    ahead.ask::<V>(each);
                    let words = rows.columns::<V, E>(columns.start + column);
                    let scale = E::scale::<V>(&scales, columns.start + column);
                    for index in 0..run {
                        let number = E::number::<V>(&words, index, scale);
                        V::store(number, out.add((column + index) * V::LANES));
                    }
                }
            }
        }
    }
}

impl<V: Vector, E: Element> Multiply<V> for Numbers<E> {
    #[inline(always)]
    unsafe fn single<const R: usize>(
        stored: &[u8],
        row_bytes: usize,
        scales: RowScales<'_>,
        x: &Activations,
        tile: Tile,
        mut ahead: Ahead,
    ) -> [V::Float; R] {
        let run = 16 / E::BYTES;
        let (x, columns) = (x.numbers(tile, 0), row_bytes / E::BYTES);
        let each = ahead.each(columns.div_ceil(run) * R);
        let rows: [Rows<'_>; R] = std::array::from_fn(|part| Rows::of_whole::<V>(stored, row_bytes, part));
        let scales: [LaneScales<'_>; R] = std::array::from_fn(|part| scales.of_lanes::<V>(part));
        // SAFETY: the rows hold the columns; there is an activation for each.
        unsafe {
            let mut total = [V::float(0.0); R];
            // Vectors of rows in turn, sixteen bytes of each row at a time: sums that do not wait for each other. Each is a cache line behind
            // the one before: rows a power of two apart share few places in the first-level cache, too few for lines of all of them.
            let (whole, line) = (columns / run * run, 4 * run);
            let mut scale = [V::float(0.0); R];
            for step in (0..(R - 1) * line + whole).step_by(run) {
                written_out!(r in [0, 1, 2, 3] {
                    let column = step.wrapping_sub(r * line);
                    if r < R && column < whole {
                        // A tile ends with a line.
                        if column % line == 0 {
                            scale[r] = E::scale::<V>(&scales[r], column);
                        }
                        ahead.ask::<V>(each);
                        let words = rows[r].columns::<V, E>(column);
                        for index in 0..run {
                            let number = E::number::<V>(&words, index, scale[r]);
                            total[r] = V::mul_add(number, V::float(*x.get_unchecked(column + index)), total[r]);
                        }
                    }
                });
            }
            for r in 0..R {
                if whole < columns {
                    let words = rows[r].columns::<V, E>(whole);
                    let scale = E::scale::<V>(&scales[r], whole);
                    for index in 0..columns - whole {
                        let number = E::number::<V>(&words, index, scale);
                        total[r] = V::mul_add(number, V::float(*x.get_unchecked(whole + index)), total[r]);
                    }
                }
            }
            total
        }
    }
}

/// The product of widened weights.
pub struct Sums;

impl<V: Vector> Tiles<V> for Sums {
    const STRIPS: usize = V::FLOAT_STRIPS;
    const TOKENS: usize = V::TOKENS;

    #[inline(always)]
    unsafe fn tile(product: &Product<'_>, part: &Part, tile: Tile, ahead: Ahead, scratch: &mut Scratch) {
        // SAFETY: the caller's contract is the same.
        unsafe { product::in_registers::<V, Self>(product, part, tile, ahead, scratch) };
    }
}

/// The activations of some tokens of a tile, from the first column of a part on.
pub struct Input {
    numbers: *const f32,
    /// Tokens of the tile.
    width: usize,
}

impl<V: Vector> InRegisters<V> for Sums {
    type Input = Input;
    const EIGHT: bool = false;

    fn input(x: &Activations, _: Packing, columns: Range<usize>, tile: Tile, first: usize) -> Input {
        let numbers = x.numbers(tile, columns.start)[first..columns.len() * tile.width].as_ptr();
        Input { numbers, width: tile.width }
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        part: &Part,
        panel: &Panel,
        input: &Input,
        mut ahead: Ahead,
        total: &mut [[V::Float; T]; R],
    ) {
        let width = part.columns.next_multiple_of(RUN);
        let each = ahead.each(part.columns.div_ceil(RUN));
        // SAFETY: the panel and the input hold the part's columns.
        unsafe {
            for column in 0..part.columns {
                if column % RUN == 0 {
                    ahead.ask::<V>(each);
                }
                let mut weights = [V::float(0.0); R];
                for r in 0..R {
                    weights[r] = V::load(panel.numbers.as_ptr().add((r * width + column) * V::LANES));
                }
                for t in 0..T {
                    let x = V::float(*input.numbers.add(column * input.width + t));
                    for r in 0..R {
                        total[r][t] = V::mul_add(weights[r], x, total[r][t]);
                    }
                }
            }
        }
    }
}
