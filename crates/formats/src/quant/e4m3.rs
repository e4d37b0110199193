//! `F8_E4M3`: a float of eight bits (Micikevicius 2022, arXiv:2209.05433), finite but for its one NaN.
//!
//! ```text
//! byte 0        seeeemmm     sign, 4 bits of exponent (bias 7), 3 of mantissa
//! ```

/// Exact. The NaN, 0x7f with either sign, is read as the 480 that its bits would be: a file that has it computes something, and no
/// kernel has to look for it.
#[inline(always)]
pub(super) fn dequantise(block: [u8; 1]) -> f32 {
    let [byte] = block;
    let (sign, exponent, mantissa) = (u32::from(byte >> 7) << 31, u32::from(byte >> 3 & 15), u32::from(byte & 7));
    let size =
        if exponent == 0 { (mantissa as f32 / 512.0).to_bits() } else { (exponent + 127 - 7) << 23 | mantissa << 20 };
    f32::from_bits(sign | size)
}
