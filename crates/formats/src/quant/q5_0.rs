//! `Q5_0`: 32 values, 5 bits each, one scale. `value = scale * (code - 16)`.
//!
//! ```text
//! byte  0..2    scale (f16)
//! byte  2..6    fifth bits (u32): bit i belongs to value i
//! byte  6..22   low four bits: byte 6 + i holds value i in its low nibble and value i + 16 in its high nibble
//! ```

use super::{f16, search};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 22], values: &mut [f32; 32]) {
    let scale = f16::scale(block, 0);
    let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    for i in 0..16 {
        let low = u32::from(block[6 + i]);
        let first = (low & 15) | (fifth >> i & 1) << 4;
        let second = (low >> 4) | (fifth >> (i + 16) & 1) << 4;
        values[i] = scale * (first as i32 - 16) as f32;
        values[i + 16] = scale * (second as i32 - 16) as f32;
    }
}

/// With weights for the errors of the values, the best scale for them; without, the one that reaches the largest value.
pub(super) fn quantise(values: &[f32; 32], weights: Option<&[f32; 32]>, block: &mut [u8; 22]) {
    let (scale, codes) = match weights {
        Some(weights) => search::symmetric(values, 16, weights),
        None => search::symmetric_by_extreme(values, 16),
    };
    f16::store_scale(block, 0, scale);
    let mut fifth = 0;
    for i in 0..16 {
        block[6 + i] = (codes[i] & 15) | (codes[i + 16] & 15) << 4;
        fifth |= u32::from(codes[i] >> 4) << i | u32::from(codes[i + 16] >> 4) << (i + 16);
    }
    block[2..6].copy_from_slice(&u32::to_le_bytes(fifth));
}
