//! `IQ4_XS`: 256 values in 8 sub-blocks of 32, 4 bits each; codes name the levels of `IQ4_NL`.
//! `value = scale * (sub_scale - 32) * LEVELS[code]`.
//!
//! ```text
//! byte 0..2     scale (f16)
//! byte 2..4     high two bits of the 6-bit sub-scales (u16): bits 2 s and 2 s + 1 belong to sub-block s
//! byte 4..8     low four bits: byte 4 + i holds sub-block 2 i in its low nibble and 2 i + 1 in its high nibble
//! byte 8..136   codes, 16 bytes for each sub-block: byte i of them holds value i in its low nibble and value i + 16
//!               in its high nibble
//! ```

use super::f16;
use super::iq4_nl::{LEVELS, fit_scale, nearest_level};
use super::search::{extreme, inverse, mean_square, nearest};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 136], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 0);
    let high = u16::from_le_bytes([block[2], block[3]]);
    let codes = block[8..].as_chunks::<16>().0;
    for (sub, (codes, values)) in codes.iter().zip(values.as_chunks_mut::<32>().0).enumerate() {
        let low = block[4 + sub / 2] >> (4 * (sub % 2)) & 15;
        let sub_scale = i32::from(low) | i32::from(high >> (2 * sub) & 3) << 4;
        let scale = scale * (sub_scale - 32) as f32;
        for i in 0..16 {
            values[i] = scale * LEVELS[codes[i] as usize & 15] as f32;
            values[i + 16] = scale * LEVELS[codes[i] as usize >> 4] as f32;
        }
    }
}

/// The best fit, weighed by importance where it is known.
pub(super) fn quantise(values: &[f32; 256], importance: Option<&[f32; 256]>, block: &mut [u8; 136]) {
    let sub_blocks = values.as_chunks::<32>().0;
    let mean_square = 2.0 * mean_square(values);
    let scales: [f32; 8] = std::array::from_fn(|sub| {
        let importance = importance.map(|importance| &importance.as_chunks().0[sub]);
        fit_scale(&sub_blocks[sub], importance, mean_square)
    });
    let scale = -extreme(&scales) / 32.0;
    f16::store_scale(block, 0, scale);
    let inverse_scale = inverse(scale);
    let (mut high, mut low) = (0, [0; 4]);
    for (sub, values) in sub_blocks.iter().enumerate() {
        let sub_scale = nearest(inverse_scale * scales[sub], -32, 31);
        let inverse = inverse(scale * sub_scale as f32);
        for i in 0..16 {
            let codes = nearest_level(inverse * values[i]) | nearest_level(inverse * values[i + 16]) << 4;
            block[8 + 16 * sub + i] = codes;
        }
        let stored = (sub_scale + 32) as u8;
        low[sub / 2] |= (stored & 15) << (4 * (sub % 2));
        high |= u16::from(stored >> 4) << (2 * sub);
    }
    block[2..4].copy_from_slice(&u16::to_le_bytes(high));
    block[4..8].copy_from_slice(&low);
}
