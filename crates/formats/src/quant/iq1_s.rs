//! `IQ1_S`: 256 values in 8 sub-blocks of 32; each 8 values are a point of a ternary 2048-point book, shifted.
//! `value = scale * (2 sub_scale + 1) * (coordinate ± 1/8)`.
//!
//! ```text
//! byte  0..2     scale (f16)
//! byte  2..34    low eight bits of the point numbers, one byte for each 8 values
//! byte 34..50    a u16 for each sub-block: high three bits of point l in bits 3 l and up, the sub-scale in
//!                bits 12..15, and in bit 15 whether the shift is -1/8
//! ```

use super::f16;
use super::grids::{iq1::POINTS, write_shifted};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 50], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 0);
    let (low, high) = block[2..].split_at(32);
    for (sub, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let high = u16::from_le_bytes(high.as_chunks().0[sub]);
        let scale = scale * (2 * (high >> 12 & 7) + 1) as f32;
        let shift = if high >> 15 == 0 { 0.125 } else { -0.125 };
        for (l, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let point = low[4 * sub + l] as usize | ((high >> (3 * l) & 7) as usize) << 8;
            write_shifted(scale, POINTS[point], shift, values);
        }
    }
}
