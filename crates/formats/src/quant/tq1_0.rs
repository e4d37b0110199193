//! `TQ1_0`: 256 ternary values, five to a byte, one scale. `value = scale * digit`, digits -1, 0, 1.
//!
//! ```text
//! byte  0..32   values   0..160   byte i holds values i, i + 32, .. i + 128
//! byte 32..48   values 160..240   byte 32 + i holds values 160 + i, 160 + i + 16, .. 160 + i + 64
//! byte 48..52   values 240..256   byte 48 + i holds values 240 + i, 240 + i + 4, .. 240 + i + 12
//! byte 52..54   scale (f16)
//! ```
//!
//! A byte is a fraction of 256 in base 3, rounded up: times 3, the carry out of eight bits is the first digit plus one,
//! and what remains times 3 gives the next.

use super::f16;
use super::search;

/// First byte, bytes, digits per byte, first value of each of the three parts.
const PARTS: [(usize, usize, usize, usize); 3] = [(0, 32, 5, 0), (32, 16, 5, 160), (48, 4, 4, 240)];

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 54], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 52);
    for (first_byte, bytes, digits, first_value) in PARTS {
        for i in 0..bytes {
            let mut fraction = block[first_byte + i];
            for digit in 0..digits {
                let product = u16::from(fraction) * 3;
                values[first_value + bytes * digit + i] = scale * ((product >> 8) as i16 - 1) as f32;
                fraction = product as u8;
            }
        }
    }
}

/// The largest value becomes ±1.
pub(super) fn quantise(values: &[f32; 256], block: &mut [u8; 54]) {
    let scale = search::extreme(values).abs();
    let inverse = search::inverse(scale);
    f16::store_scale(block, 52, scale);
    for (first_byte, bytes, digits, first_value) in PARTS {
        for i in 0..bytes {
            let number = (0..5).fold(0, |number, digit| {
                let used = digit < digits;
                number * 3 + if used { ternary(values[first_value + bytes * digit + i] * inverse) } else { 0 }
            });
            block[first_byte + i] = (u32::from(number) * 256).div_ceil(243) as u8;
        }
    }
}

/// 0, 1 or 2 for the nearest of -1, 0 and 1. Also for `TQ2_0`.
pub(super) fn ternary(value: f32) -> u8 {
    (value.round() + 1.0).clamp(0.0, 2.0) as u8
}
