//! `Q8_0`: 32 values, 8 bits each, one scale. `value = scale * code`.
//!
//! ```text
//! byte  0..2    scale (f16)
//! byte  2..34   codes (i8)
//! ```

use super::{f16, search};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 34], values: &mut [f32; 32]) {
    let scale = f16::scale(block, 0);
    for (value, &code) in values.iter_mut().zip(&block[2..]) {
        *value = scale * (code as i8) as f32;
    }
}

/// The largest value becomes ±127.
pub(super) fn quantise(values: &[f32; 32], block: &mut [u8; 34]) {
    let scale = search::extreme(values).abs() / 127.0;
    let inverse = search::inverse(scale);
    f16::store_scale(block, 0, scale);
    for (code, value) in block[2..].iter_mut().zip(values) {
        *code = (value * inverse).round() as i8 as u8;
    }
}
