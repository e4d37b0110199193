//! `BF16`: the upper half of an `f32`.
//!
//! ```text
//! byte   0        1
//!        emmmmmmm seeeeeee     little endian: sign, 8 bits of exponent, 7 of mantissa
//! ```

use half::bf16;

/// Exact: every `BF16` is an `f32`.
#[inline(always)]
pub(super) fn dequantise(block: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(block)) << 16)
}

/// Round to nearest, ties to even.
pub(super) fn quantise(value: f32) -> [u8; 2] {
    bf16::from_f32(value).to_le_bytes()
}
