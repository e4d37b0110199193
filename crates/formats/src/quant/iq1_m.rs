//! `IQ1_M`: 256 values in 16 sub-blocks of 16; each 8 values are a point of a ternary 2048-point book, shifted.
//! `value = scale * (2 sub_scale + 1) * (coordinate ± 1/8)`.
//!
//! ```text
//! byte  0..32    low eight bits of the point numbers, one byte for each 8 values
//! byte 32..48    a nibble for each 8 values, low one first: high three bits of the point number in bits 0..3, and
//!                in bit 3 whether the shift is -1/8
//! byte 48..56    four u16; word w holds the 3-bit sub-scales of sub-blocks 4 w .. 4 w + 3 in bits 0..12, and in
//!                bits 12..16 bits 4 w and up of the scale (f16)
//! ```

use super::f16;
use super::grids::{iq1::POINTS, write_shifted};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 56], values: &mut [f32; 256]) {
    let (low, high) = (&block[..32], &block[32..48]);
    let words: [u16; 4] = std::array::from_fn(|w| u16::from_le_bytes(block[48..].as_chunks().0[w]));
    let scale = words.iter().enumerate().map(|(w, word)| (word >> 12) << (4 * w)).sum::<u16>();
    let scale = f16::scale(&scale.to_le_bytes(), 0);
    for (eight, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let sub = eight / 2;
        let scale = scale * (2 * (words[sub / 4] >> (3 * (sub % 4)) & 7) + 1) as f32;
        let high = high[eight / 2] >> (4 * (eight % 2));
        let shift = if high & 8 == 0 { 0.125 } else { -0.125 };
        write_shifted(scale, POINTS[low[eight] as usize | (high as usize & 7) << 8], shift, values);
    }
}
