//! `Q4_K`: 256 values in 8 sub-blocks of 32, 4 bits each. `value = scale * sub_scale * code - minimum * sub_minimum`.
//!
//! ```text
//! byte  0..2     scale (f16)
//! byte  2..4     minimum (f16)
//! byte  4..16    eight 6-bit sub-scales and sub-minimums: see `affine_blocks::read_header`
//! byte 16..144   codes, 32 bytes for each pair of sub-blocks: byte 16 + 32 p + i holds value i of sub-block 2 p
//!                in its low nibble and value i of sub-block 2 p + 1 in its high nibble
//! ```

use super::affine_blocks::{self, Recipe};
use super::search::Sweep;

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 144], values: &mut [f32; 256]) {
    let (header, codes) = block.split_first_chunk().expect("a block opens with its header");
    let (scales, minimums) = affine_blocks::read_header(header);
    let pairs = codes.as_chunks::<32>().0.iter().zip(values.as_chunks_mut::<64>().0);
    for (pair, (codes, values)) in pairs.enumerate() {
        let (scale_low, scale_high) = (scales[2 * pair], scales[2 * pair + 1]);
        let (minimum_low, minimum_high) = (minimums[2 * pair], minimums[2 * pair + 1]);
        let (low, high) = values.split_at_mut(32);
        for i in 0..32 {
            low[i] = scale_low * (codes[i] & 15) as f32 - minimum_low;
            high[i] = scale_high * (codes[i] >> 4) as f32 - minimum_high;
        }
    }
}

const RECIPE: Recipe<32> = Recipe {
    limit: 15,
    sub_limit: 63,
    sweep: Sweep { first: -1.0, step: 0.1, steps: 20, absolute: false },
    weights: affine_blocks::large_values_first,
    mean_squares: 2.0,
};

/// The best fit, weighed by importance where it is known.
pub(super) fn quantise(values: &[f32; 256], importance: Option<&[f32; 256]>, block: &mut [u8; 144]) {
    let fit = affine_blocks::fit::<32, 8>(values, importance, &RECIPE);
    block[..16].copy_from_slice(&affine_blocks::header(&fit));
    for (pair, codes) in fit.codes.as_chunks::<64>().0.iter().enumerate() {
        for i in 0..32 {
            block[16 + 32 * pair + i] = codes[i] | codes[i + 32] << 4;
        }
    }
}
