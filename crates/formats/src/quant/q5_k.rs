//! `Q5_K`: 256 values in 8 sub-blocks of 32, 5 bits each. `value = scale * sub_scale * code - minimum * sub_minimum`.
//!
//! ```text
//! byte  0..2     scale (f16)
//! byte  2..4     minimum (f16)
//! byte  4..16    eight 6-bit sub-scales and sub-minimums: see `affine_blocks::read_header`
//! byte 16..48    fifth bits: bit s of byte 16 + i belongs to value i of sub-block s
//! byte 48..176   low four bits, 32 bytes for each pair of sub-blocks: byte 48 + 32 p + i holds value i of sub-block
//!                2 p in its low nibble and value i of sub-block 2 p + 1 in its high nibble
//! ```

use super::affine_blocks::{self, Recipe};
use super::search::Sweep;

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 176], values: &mut [f32; 256]) {
    let (header, codes) = block.split_first_chunk().expect("a block opens with its header");
    let (scales, minimums) = affine_blocks::read_header(header);
    let (fifth, codes) = codes.split_at(32);
    let pairs = codes.as_chunks::<32>().0.iter().zip(values.as_chunks_mut::<64>().0);
    for (pair, (codes, values)) in pairs.enumerate() {
        let (scale_low, scale_high) = (scales[2 * pair], scales[2 * pair + 1]);
        let (minimum_low, minimum_high) = (minimums[2 * pair], minimums[2 * pair + 1]);
        let (low, high) = values.split_at_mut(32);
        for i in 0..32 {
            let fifth = fifth[i] >> (2 * pair);
            low[i] = scale_low * ((codes[i] & 15) | (fifth & 1) << 4) as f32 - minimum_low;
            high[i] = scale_high * ((codes[i] >> 4) | (fifth >> 1 & 1) << 4) as f32 - minimum_high;
        }
    }
}

const RECIPE: Recipe<32> = Recipe {
    limit: 31,
    sub_limit: 63,
    sweep: Sweep { first: -0.5, step: 0.1, steps: 15, absolute: false },
    weights: affine_blocks::large_values_first,
    mean_squares: 2.0,
};

/// The best fit, weighed by importance where it is known.
pub(super) fn quantise(values: &[f32; 256], importance: Option<&[f32; 256]>, block: &mut [u8; 176]) {
    let fit = affine_blocks::fit::<32, 8>(values, importance, &RECIPE);
    block[..16].copy_from_slice(&affine_blocks::header(&fit));
    block[16..48].fill(0);
    for (pair, codes) in fit.codes.as_chunks::<64>().0.iter().enumerate() {
        for i in 0..32 {
            block[16 + i] |= (codes[i] >> 4 | codes[i + 32] >> 4 << 1) << (2 * pair);
            block[48 + 32 * pair + i] = (codes[i] & 15) | (codes[i + 32] & 15) << 4;
        }
    }
}
