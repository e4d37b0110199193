//! `Q1_0`: 128 values, one bit each, one scale. `value = ±scale`.
//!
//! ```text
//! byte 0..2     scale (f16)
//! byte 2..18    bit j of byte 2 + i belongs to value 8 i + j: 1 for plus, 0 for minus
//! ```

use super::f16;

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 18], values: &mut [f32; 128]) {
    let scale = f16::scale(block, 0);
    for (values, bits) in values.as_chunks_mut::<8>().0.iter_mut().zip(&block[2..]) {
        for (j, value) in values.iter_mut().enumerate() {
            *value = if bits >> j & 1 == 1 { scale } else { -scale };
        }
    }
}

/// The scale is the mean magnitude, which has the least square error.
pub(super) fn quantise(values: &[f32; 128], block: &mut [u8; 18]) {
    let scale = values.iter().map(|value| value.abs()).sum::<f32>() / 128.0;
    f16::store_scale(block, 0, scale);
    for (bits, values) in block[2..].iter_mut().zip(values.as_chunks::<8>().0) {
        *bits = values.iter().enumerate().map(|(j, value)| u8::from(*value >= 0.0) << j).sum();
    }
}
