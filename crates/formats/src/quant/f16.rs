//! `F16`: IEEE half precision, and the half-precision scales inside the other types' blocks.
//!
//! ```text
//! byte   0        1
//!        mmmmmmmm seeeeemm     little endian: sign, 5 bits of exponent, 10 of mantissa
//! ```

use half::f16;
use half::slice::HalfFloatSliceExt;

/// How many values are converted at a time: `half` asks once per call which instructions the CPU has.
const RUN: usize = 64;

/// Any number of values. Unlike other types' this takes the whole run, since one value alone is slow to convert.
pub(super) fn dequantise(blocks: &[u8], values: &mut [f32]) {
    for (bytes, values) in blocks.chunks(2 * RUN).zip(values.chunks_mut(RUN)) {
        let mut halves = [f16::ZERO; RUN];
        let halves = &mut halves[..values.len()];
        for (half, bytes) in halves.iter_mut().zip(bytes.as_chunks().0) {
            *half = f16::from_le_bytes(*bytes);
        }
        halves.convert_to_f32_slice(values);
    }
}

/// Round to nearest, ties to even.
pub(super) fn quantise(value: f32) -> [u8; 2] {
    f16::from_f32(value).to_le_bytes()
}

/// The half-precision scale at `bytes[at..at + 2]`.
#[inline(always)]
pub(super) fn scale(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Stores a scale at `bytes[at..at + 2]`, rounded to half precision.
pub(super) fn store_scale(bytes: &mut [u8], at: usize, scale: f32) {
    bytes[at..at + 2].copy_from_slice(&quantise(scale));
}
