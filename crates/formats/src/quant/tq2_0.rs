//! `TQ2_0`: 256 ternary values, two bits each, one scale. `value = scale * (code - 1)`.
//!
//! The block is two halves of 128 values; half `h` is four runs `r` of 32 values, `i` counts within a run:
//!
//! ```text
//! byte  0..64   codes: byte 32 h + i holds value i of run r in bits 2 r and 2 r + 1
//! byte 64..66   scale (f16)
//! ```

use super::q2_k::pack_two_bits;
use super::tq1_0::ternary;
use super::{f16, search};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 66], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 64);
    for (run, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let codes = &block[32 * (run / 4)..][..32];
        for i in 0..32 {
            values[i] = scale * ((codes[i] >> (2 * (run % 4)) & 3) as i8 - 1) as f32;
        }
    }
}

/// The largest value becomes ±1.
pub(super) fn quantise(values: &[f32; 256], block: &mut [u8; 66]) {
    let scale = search::extreme(values).abs();
    let inverse = search::inverse(scale);
    f16::store_scale(block, 64, scale);
    block[..64].copy_from_slice(&pack_two_bits(&values.map(|value| ternary(value * inverse))));
}
