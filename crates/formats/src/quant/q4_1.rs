//! `Q4_1`: 32 values, 4 bits each, a scale and a minimum. `value = scale * code + minimum`.
//!
//! ```text
//! byte  0..2    scale (f16)
//! byte  2..4    minimum (f16)
//! byte  4..20   codes: byte 4 + i holds value i in its low nibble and value i + 16 in its high nibble
//! ```

use super::f16;
use super::search::{self, Sweep};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 20], values: &mut [f32; 32]) {
    let (scale, minimum) = (f16::scale(block, 0), f16::scale(block, 2));
    for i in 0..16 {
        let codes = block[4 + i];
        values[i] = scale * (codes & 15) as f32 + minimum;
        values[i + 16] = scale * (codes >> 4) as f32 + minimum;
    }
}

/// With weights for the errors of the values, the best fit for them; without, the one that spans their range.
pub(super) fn quantise(values: &[f32; 32], weights: Option<&[f32; 32]>, block: &mut [u8; 20]) {
    let (scale, minimum, codes) = match weights {
        Some(weights) => {
            let fit = search::affine(values, 15, weights, &Sweep::BY_IMPORTANCE);
            (fit.scale, -fit.minimum, fit.codes)
        }
        None => search::affine_by_range(values, 15),
    };
    f16::store_scale(block, 0, scale);
    f16::store_scale(block, 2, minimum);
    for i in 0..16 {
        block[4 + i] = codes[i] | codes[i + 16] << 4;
    }
}
