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

use super::affine_blocks::{self, Recipe};
use super::f16;
use super::search::Sweep;

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

const RECIPE: Recipe<16> = Recipe {
    limit: 3,
    sub_limit: 15,
    sweep: Sweep { first: -0.5, step: 0.1, steps: 15, absolute: true },
    weights: |values| values.map(f32::abs),
    mean_squares: 1.0,
};

/// The best fit, weighed by importance where it is known.
pub(super) fn quantise(values: &[f32; 256], importance: Option<&[f32; 256]>, block: &mut [u8; 84]) {
    let fit = affine_blocks::fit::<16, 16>(values, importance, &RECIPE);
    for sub in 0..16 {
        block[sub] = fit.sub_scales[sub] | fit.sub_minimums[sub] << 4;
    }
    block[16..80].copy_from_slice(&pack_two_bits(&fit.codes));
    block[80..82].copy_from_slice(&fit.scale.to_le_bytes());
    block[82..84].copy_from_slice(&fit.minimum.to_le_bytes());
}

/// Codes of two bits where this type, `Q3_K` and `TQ2_0` keep them.
pub(super) fn pack_two_bits(codes: &[u8; 256]) -> [u8; 64] {
    std::array::from_fn(|byte| {
        let first = byte / 32 * 128 + byte % 32;
        (0..4).map(|run| (codes[first + 32 * run] & 3) << (2 * run)).sum()
    })
}
