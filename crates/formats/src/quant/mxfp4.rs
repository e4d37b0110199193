//! `MXFP4`: 32 values, each a 4-bit float (E2M1), one power of two as scale (E8M0). OCP Microscaling Formats 1.0.
//! `value = 2^(exponent - 128) * LEVELS[code]`.
//!
//! ```text
//! byte 0        exponent
//! byte 1..17    codes: byte 1 + i holds value i in its low nibble and value i + 16 in its high nibble
//! ```

use super::search::extreme;

/// Twice the E2M1 values, so that they are integers; the sign is bit 3. Shared with `NVFP4`.
pub const LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 17], values: &mut [f32; 32]) {
    let scale = half_power_of_two(block[0]);
    for i in 0..16 {
        let codes = block[1 + i];
        values[i] = scale * LEVELS[codes as usize & 15] as f32;
        values[i + 16] = scale * LEVELS[codes as usize >> 4] as f32;
    }
}

/// The exponent is that of the largest value, less the two of the largest level; then each value its nearest level.
pub(super) fn quantise(values: &[f32; 32], block: &mut [u8; 17]) {
    let exponent = (extreme(values).abs().to_bits() >> 23) as u8;
    block[0] = exponent.saturating_sub(2);
    let scale = half_power_of_two(block[0]);
    for i in 0..16 {
        block[1 + i] = nearest_level(values[i], scale) | nearest_level(values[i + 16], scale) << 4;
    }
}

/// The code of the level which times `scale` is nearest to `value`; the first of equals.
pub(super) fn nearest_level(value: f32, scale: f32) -> u8 {
    let error = |code: usize| (LEVELS[code] as f32 * scale - value).abs();
    (1..16).fold(0, |best, code| if error(code) < error(best) { code } else { best }) as u8
}

/// `2^(exponent - 128)`, half of what the exponent says because the levels are doubled. All 256 are finite: the format's
/// one NaN (255) is read as the power it would be, as ggml does.
fn half_power_of_two(exponent: u8) -> f32 {
    match exponent {
        0 => f32::from_bits(0x0020_0000),
        1..=255 => f32::from_bits(if exponent == 1 { 0x0040_0000 } else { u32::from(exponent - 1) << 23 }),
    }
}
