//! `Q5_1`: 32 values, 5 bits each, a scale and a minimum. `value = scale * code + minimum`.
//!
//! ```text
//! byte  0..2    scale (f16)
//! byte  2..4    minimum (f16)
//! byte  4..8    fifth bits (u32): bit i belongs to value i
//! byte  8..24   low four bits: byte 8 + i holds value i in its low nibble and value i + 16 in its high nibble
//! ```

use super::f16;
use super::search::{self, Sweep};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 24], values: &mut [f32; 32]) {
    let (scale, minimum) = (f16::scale(block, 0), f16::scale(block, 2));
    let fifth = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
    for i in 0..16 {
        let low = u32::from(block[8 + i]);
        let first = (low & 15) | (fifth >> i & 1) << 4;
        let second = (low >> 4) | (fifth >> (i + 16) & 1) << 4;
        values[i] = scale * first as f32 + minimum;
        values[i + 16] = scale * second as f32 + minimum;
    }
}

/// With weights for the errors of the values, the best fit for them; without, the one that spans their range.
pub(super) fn quantise(values: &[f32; 32], weights: Option<&[f32; 32]>, block: &mut [u8; 24]) {
    let (scale, minimum, codes) = match weights {
        Some(weights) => {
            let fit = search::affine(values, 31, weights, &Sweep::BY_IMPORTANCE);
            (fit.scale, -fit.minimum, fit.codes)
        }
        None => search::affine_by_range(values, 31),
    };
    f16::store_scale(block, 0, scale);
    f16::store_scale(block, 2, minimum);
    let mut fifth = 0;
    for i in 0..16 {
        block[8 + i] = (codes[i] & 15) | (codes[i + 16] & 15) << 4;
        fifth |= u32::from(codes[i] >> 4) << i | u32::from(codes[i + 16] >> 4) << (i + 16);
    }
    block[4..8].copy_from_slice(&u32::to_le_bytes(fifth));
}
