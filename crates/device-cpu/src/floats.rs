//! The floating-point kernel: rows widened to `f32`, times activations as they are.

use std::marker::PhantomData;
use std::ops::Range;

use half::{bf16, f16};
use kauri_formats::Quant;

use crate::activation::{Activations, Tile};
use crate::product::{LANES_MAX, Multiply, NUMBERS, Panel, Part};
use crate::vector::Vector;

/// A floating-point number as it is stored.
pub trait Element {
    /// Bytes of one.
    const BYTES: usize;

    /// Widens the numbers in sixteen bytes of each row, `16 / BYTES` columns, which [`Vector::columns16`] read.
    ///
    /// # Safety
    /// `out` has room for (16 / `BYTES`, `LANES`) numbers; the CPU has the instructions of `V`.
    unsafe fn widen<V: Vector>(words: [V::Bytes; 4], out: *mut f32);
}

impl Element for f32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn widen<V: Vector>(words: [V::Bytes; 4], out: *mut f32) {
        for index in 0..4 {
            // SAFETY: by the caller's contract.
            unsafe { V::store(V::float_from_bits(words[index]), out.add(index * V::LANES)) };
        }
    }
}

impl Element for f16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn widen<V: Vector>(words: [V::Bytes; 4], out: *mut f32) {
        for index in 0..4 {
            // SAFETY: by the caller's contract.
            unsafe {
                V::store(V::half_to_float::<0>(words[index]), out.add(2 * index * V::LANES));
                V::store(V::half_to_float::<1>(words[index]), out.add((2 * index + 1) * V::LANES));
            }
        }
    }
}

impl Element for bf16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn widen<V: Vector>(words: [V::Bytes; 4], out: *mut f32) {
        for index in 0..4 {
            // SAFETY: by the caller's contract.
            unsafe {
                let (first, second) = (V::shift_left::<16>(words[index]), V::and(words[index], V::word(0xffff_0000)));
                V::store(V::float_from_bits(first), out.add(2 * index * V::LANES));
                V::store(V::float_from_bits(second), out.add((2 * index + 1) * V::LANES));
            }
        }
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
const RUN: usize = 8;

impl<V: Vector, E: Element> Multiply<V> for Numbers<E> {
    const STRIPS: usize = V::FLOAT_STRIPS;
    const COLUMNS: usize = NUMBERS / (V::LANES * V::FLOAT_STRIPS);

    type Input = *const f32;

    fn row_bytes(columns: usize) -> usize {
        columns * E::BYTES
    }

    #[inline(always)]
    unsafe fn fill(stored: &[u8], row_bytes: usize, columns: Range<usize>, panel: &mut Panel) {
        let count = stored.len() / row_bytes;
        let width = columns.len().next_multiple_of(RUN);
        let run = 16 / E::BYTES;
        let whole = columns.len() / run * run;
        for part in 0..V::FLOAT_STRIPS {
            // A short last strip reads its last row again in the lanes that it does not have.
            let offsets: [i32; LANES_MAX] =
                std::array::from_fn(|lane| ((part * V::LANES + lane).min(count - 1) * row_bytes) as i32);
            let start = columns.start * E::BYTES;
            let next = stored.as_ptr().wrapping_add((V::FLOAT_STRIPS + part) * V::LANES * row_bytes + start * V::LANES);
            // SAFETY: the panel has room for `width` columns of every vector of rows; reads end with the row, or lie in an array.
            unsafe {
                let out = panel.numbers.as_mut_ptr().add(part * width * V::LANES);
                for column in (0..whole).step_by(run) {
                    // The rows of the next strip follow these in memory: asked for as a stream, while these are computed.
                    for line in (0..V::LANES * 16).step_by(64) {
                        V::prefetch(next.wrapping_add(column * E::BYTES * V::LANES + line).cast());
                    }
                    let words = V::columns16(stored.as_ptr().add(start + column * E::BYTES), &offsets);
                    E::widen::<V>(words, out.add(column * V::LANES));
                }
                if whole < columns.len() {
                    let mut rest = [0; LANES_MAX * 16];
                    for (lane, rest) in rest.chunks_exact_mut(16).enumerate() {
                        let end = offsets[lane] as usize + columns.end * E::BYTES;
                        let bytes = &stored[offsets[lane] as usize + start + whole * E::BYTES..end];
                        rest[..bytes.len()].copy_from_slice(bytes);
                    }
                    let words = V::columns16(rest.as_ptr(), &std::array::from_fn(|lane| lane as i32 * 16));
                    E::widen::<V>(words, out.add(whole * V::LANES));
                }
            }
        }
    }

    fn input(x: &Activations, part: &Part, tile: Tile) -> *const f32 {
        x.numbers(tile, part.start)[..part.columns * tile.width].as_ptr()
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        part: &Part,
        panel: &Panel,
        input: &*const f32,
        total: &mut [[V::Float; T]; R],
    ) {
        let width = part.columns.next_multiple_of(RUN);
        // SAFETY: the panel and the input hold the part's columns.
        unsafe {
            for column in 0..part.columns {
                let mut weights = [V::float(0.0); R];
                for r in 0..R {
                    weights[r] = V::load(panel.numbers.as_ptr().add((r * width + column) * V::LANES));
                }
                for t in 0..T {
                    let x = V::float(*input.add(column * T + t));
                    for r in 0..R {
                        total[r][t] = V::mul_add(weights[r], x, total[r][t]);
                    }
                }
            }
        }
    }
}
