//! `Q2_K`: 256 values in 16 sub-blocks of 16, 2 bits each. `value = scale * sub_scale * code - minimum * sub_minimum`.
//!
//! The block is two halves of 128 values; half `h` is four runs `r` of 32 values, `i` counts within a run:
//!
//! ```text
//! byte  0..16   one byte for every 16 values in order: sub-scale in the low nibble, sub-minimum in the high nibble
//! byte 16..80   codes: byte 16 + 32 h + i holds value i of run r in bits 2 r and 2 r + 1
//! byte 80..82   scale (f16)
//! byte 82..84   minimum (f16)
//! ```

use super::f16;

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 84], values: &mut [f32; 256]) {
    let (scale, minimum) = (f16::scale(block, 80), f16::scale(block, 82));
    for (sub, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = scale * (block[sub] & 15) as f32;
        let minimum = minimum * (block[sub] >> 4) as f32;
        let (half, run, odd) = (sub / 8, sub / 2 % 4, sub % 2);
        let codes = &block[16 + 32 * half + 16 * odd..][..16];
        for i in 0..16 {
            values[i] = scale * (codes[i] >> (2 * run) & 3) as f32 - minimum;
        }
    }
}
