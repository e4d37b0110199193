//! `Q2_0`: 64 values, two bits each, one scale. `value = scale * (code - 1)`, so -1, 0, 1 or 2 times the scale.
//!
//! ```text
//! byte 0..2     scale (f16)
//! byte 2..18    codes: byte 2 + i holds value 4 i + j in bits 2 j and 2 j + 1
//! ```

use super::{f16, search};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 18], values: &mut [f32; 64]) {
    let scale = f16::scale(block, 0);
    for (values, codes) in values.as_chunks_mut::<4>().0.iter_mut().zip(&block[2..]) {
        for (j, value) in values.iter_mut().enumerate() {
            *value = scale * ((codes >> (2 * j) & 3) as i8 - 1) as f32;
        }
    }
}

/// The largest value becomes ±1: the format's fourth level is for weights trained to use it.
pub(super) fn quantise(values: &[f32; 64], block: &mut [u8; 18]) {
    let scale = search::extreme(values).abs();
    let inverse = search::inverse(scale);
    f16::store_scale(block, 0, scale);
    for (codes, values) in block[2..].iter_mut().zip(values.as_chunks::<4>().0) {
        let code = |value: f32| ((value * inverse).round() + 1.0).clamp(0.0, 3.0) as u8;
        *codes = values.iter().enumerate().map(|(j, &value)| code(value) << (2 * j)).sum();
    }
}
