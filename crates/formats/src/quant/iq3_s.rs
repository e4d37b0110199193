//! `IQ3_S`: 256 values in 8 sub-blocks of 32; each 4 values are a point of a 512-point book with signs.
//! `value = scale * (2 sub_scale + 1) * sign * coordinate`.
//!
//! ```text
//! byte   0..2     scale (f16)
//! byte   2..66    low eight bits of the point numbers, one byte for each 4 values
//! byte  66..74    ninth bits of the point numbers: bit j of byte 66 + i belongs to point 8 i + j
//! byte  74..106   signs, one byte for each 8 values, bit j for value j
//! byte 106..110   4-bit sub-scales: byte 106 + i holds sub-block 2 i in its low nibble and 2 i + 1 in its high nibble
//! ```

use super::f16;
use super::grids::{iq3_s::POINTS, write_signed};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 110], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 0);
    let (low, ninth) = (&block[2..66], &block[66..74]);
    let (signs, scales) = (&block[74..106], &block[106..110]);
    for (four, values) in values.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let sub_scale = scales[four / 16] >> (4 * (four / 8 % 2)) & 15;
        let scale = scale * (1 + 2 * sub_scale) as f32;
        let ninth = (ninth[four / 8] >> (four % 8)) as usize & 1;
        let signs = signs[four / 2] >> (4 * (four % 2));
        write_signed(scale, POINTS[low[four] as usize | ninth << 8], signs, values);
    }
}
