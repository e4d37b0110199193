//! `BF16`: the upper half of an `f32`.
//!
//! ```text
//! byte   0        1
//!        emmmmmmm seeeeeee     little endian: sign, 8 bits of exponent, 7 of mantissa
//! ```

use half::bf16;

/// Exact: every `BF16` is an `f32`.
#[inline(always)]
pub(super) fn dequantise(block: &[u8; 2], values: &mut [f32; 1]) {
    values[0] = f32::from_bits(u32::from(u16::from_le_bytes(*block)) << 16);
}

/// Round to nearest, ties to even.
pub(super) fn quantise(values: &[f32; 1], block: &mut [u8; 2]) {
    *block = bf16::from_f32(values[0]).to_le_bytes();
}
