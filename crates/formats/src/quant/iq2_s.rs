//! `IQ2_S`: 256 values in 16 sub-blocks of 16; each 8 values are a point of a 1024-point book with signs.
//! `value = scale * (sub_scale + 1/2) / 4 * sign * coordinate`.
//!
//! ```text
//! byte  0..2     scale (f16)
//! byte  2..34    low eight bits of the point numbers, one byte for each 8 values
//! byte 34..66    signs, one byte for each 8 values, bit j for value j
//! byte 66..74    high two bits of the point numbers: bits 2 l and 2 l + 1 of byte 66 + i belong to point 4 i + l
//! byte 74..82    4-bit sub-scales: byte 74 + i holds sub-block 2 i in its low nibble and 2 i + 1 in its high nibble
//! ```

use super::f16;
use super::grids::{iq2_s::POINTS, write_signed};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 82], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 0);
    let (low, signs) = (&block[2..34], &block[34..66]);
    let (high, scales) = (&block[66..74], &block[74..82]);
    for (eight, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let sub_scale = scales[eight / 4] >> (4 * (eight / 2 % 2)) & 15;
        let scale = scale * (0.5 + sub_scale as f32) * 0.25;
        let high = (high[eight / 4] >> (2 * (eight % 4))) as usize & 3;
        write_signed(scale, POINTS[low[eight] as usize | high << 8], signs[eight], values);
    }
}
