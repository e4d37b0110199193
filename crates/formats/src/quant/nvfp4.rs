//! `NVFP4`: 64 values in 4 sub-blocks of 16, each value a 4-bit float (E2M1), each sub-block an 8-bit scale (UE4M3).
//! `value = sub_scale / 2 * LEVELS[code]`, with the doubled levels of `MXFP4`.
//!
//! ```text
//! byte 0..4     sub-scales: 4 bits of exponent (bias 7) over 3 of mantissa; 127 is no number and read as 0
//! byte 4..36    codes, 8 bytes for each sub-block: byte i of them holds value i in its low nibble and value i + 8 in
//!               its high nibble
//! ```

use super::mxfp4::{LEVELS, nearest_level};
use super::search::extreme;

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 36], values: &mut [f32; 64]) {
    let (scales, codes) = block.split_at(4);
    for (sub, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = half_scale(scales[sub]);
        for i in 0..8 {
            let codes = codes[8 * sub + i];
            values[i] = scale * LEVELS[codes as usize & 15] as f32;
            values[i + 8] = scale * LEVELS[codes as usize >> 4] as f32;
        }
    }
}

/// The largest value of a sub-block becomes the largest level, 6.
pub(super) fn quantise(values: &[f32; 64], block: &mut [u8; 36]) {
    for (sub, values) in values.as_chunks::<16>().0.iter().enumerate() {
        block[sub] = nearest_scale(extreme(values).abs() / 6.0);
        let scale = half_scale(block[sub]);
        for i in 0..8 {
            block[4 + 8 * sub + i] = nearest_level(values[i], scale) | nearest_level(values[i + 8], scale) << 4;
        }
    }
}

/// Half of the scale a byte stands for. Bit 7 is unused.
pub const fn half_scale(byte: u8) -> f32 {
    let (exponent, mantissa) = ((byte >> 3 & 15) as u32, (byte & 7) as u32);
    if byte == 127 {
        0.0
    } else if exponent == 0 {
        mantissa as f32 / 1024.0
    } else {
        f32::from_bits((exponent + 127 - 8) << 23 | mantissa << 20)
    }
}

/// The byte of the scale nearest to `scale`, which is not negative; ties up, at most 448.
fn nearest_scale(scale: f32) -> u8 {
    const LARGEST: u32 = 126;
    const SMALLEST_NORMAL: f32 = 1.0 / 64.0;
    let byte = if scale < SMALLEST_NORMAL {
        ((scale * 512.0 + 0.5) as u32).min(7)
    } else {
        // The top of the bits of an f32 is exponent over mantissa too: drop 20 bits, rounded, and move the bias to 7.
        ((scale.to_bits() + (1 << 19)) >> 20) - ((127 - 7) << 3)
    };
    byte.min(LARGEST) as u8
}
