//! `Q4_0`: 32 values, 4 bits each, one scale. `value = scale * (code - 8)`.
//!
//! ```text
//! byte  0..2    scale (f16)
//! byte  2..18   codes: byte 2 + i holds value i in its low nibble and value i + 16 in its high nibble
//! ```

use super::{f16, search};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 18], values: &mut [f32; 32]) {
    let scale = f16::scale(block, 0);
    for i in 0..16 {
        let codes = block[2 + i];
        values[i] = scale * ((codes & 15) as i32 - 8) as f32;
        values[i + 16] = scale * ((codes >> 4) as i32 - 8) as f32;
    }
}

/// With weights for the errors of the values, the best scale for them; without, the one that reaches the largest value.
pub(super) fn quantise(values: &[f32; 32], weights: Option<&[f32; 32]>, block: &mut [u8; 18]) {
    let (scale, codes) = match weights {
        Some(weights) => search::symmetric(values, 8, weights),
        None => search::symmetric_by_extreme(values, 8),
    };
    f16::store_scale(block, 0, scale);
    for i in 0..16 {
        block[2 + i] = codes[i] | codes[i + 16] << 4;
    }
}
