//! What `Q2_K`, `Q4_K` and `Q5_K` share: 256 values in equal sub-blocks, each with a small integer scale and minimum
//! that multiply the block's own. `value = scale * sub_scale * code - minimum * sub_minimum`.
//!
//! Here is how such a block is fitted, and the header of `Q4_K` and `Q5_K`; where codes lie is each type's business.

use half::f16 as Half;

use super::f16;
use super::search::{Sweep, affine, mean_square, nearest, positive, weigh};

/// How a type is fitted; `SUB` values in a sub-block.
pub(super) struct Recipe<const SUB: usize> {
    /// Largest code.
    pub(super) limit: i32,
    /// Largest sub-scale and sub-minimum.
    pub(super) sub_limit: i32,
    /// The scales tried when there is no importance.
    pub(super) sweep: Sweep,
    /// The error weights when there is no importance.
    pub(super) weights: fn(&[f32; SUB]) -> [f32; SUB],
    /// With importance, this many times the block's mean square is added to the square of a value.
    pub(super) mean_squares: f32,
}

/// The weights of `Q4_K` and `Q5_K` without importance: errors count more where values are large.
pub(super) fn large_values_first<const SUB: usize>(values: &[f32; SUB]) -> [f32; SUB] {
    let root_mean_square = mean_square(values).sqrt();
    values.map(|value| root_mean_square + value.abs())
}

/// A fitted block of `SUBS` sub-blocks.
pub(super) struct Fit<const SUBS: usize> {
    pub(super) scale: Half,
    pub(super) minimum: Half,
    pub(super) sub_scales: [u8; SUBS],
    pub(super) sub_minimums: [u8; SUBS],
    pub(super) codes: [u8; 256],
}

/// Fits a block: each sub-block on its own, then the sub-scales to one scale, then the codes to what that left of them.
pub(super) fn fit<const SUB: usize, const SUBS: usize>(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    recipe: &Recipe<SUB>,
) -> Fit<SUBS> {
    let sub_blocks = values.as_chunks::<SUB>().0;
    let weights: [[f32; SUB]; SUBS] = match importance {
        None => std::array::from_fn(|sub| (recipe.weights)(&sub_blocks[sub])),
        Some(importance) => {
            let mean_square = recipe.mean_squares * mean_square(values);
            std::array::from_fn(|sub| {
                let mut weights = [0.0; SUB];
                weigh(&sub_blocks[sub], &importance[SUB * sub..], mean_square, &mut weights);
                weights
            })
        }
    };
    let sweep = if importance.is_some() { &Sweep::BY_IMPORTANCE } else { &recipe.sweep };
    let fits: [_; SUBS] = std::array::from_fn(|sub| affine(&sub_blocks[sub], recipe.limit, &weights[sub], sweep));

    let totals = importance.map(|_| weights.map(|weights| weights.iter().sum::<f32>()));
    let (scale, sub_scales) = share(&std::array::from_fn(|sub| fits[sub].scale), recipe.sub_limit, totals.as_ref());
    let (minimum, sub_minimums) =
        share(&std::array::from_fn(|sub| fits[sub].minimum), recipe.sub_limit, totals.as_ref());
    let (scale, minimum) = (Half::from_f32(scale), Half::from_f32(minimum));

    let mut codes = [0; 256];
    for (sub, codes) in codes.as_chunks_mut::<SUB>().0.iter_mut().enumerate() {
        let scale = scale.to_f32() * sub_scales[sub] as f32;
        let minimum = minimum.to_f32() * sub_minimums[sub] as f32;
        *codes = if scale == 0.0 {
            fits[sub].codes
        } else {
            sub_blocks[sub].map(|value| nearest((value + minimum) / scale, 0, recipe.limit) as u8)
        };
    }
    Fit { scale, minimum, sub_scales, sub_minimums, codes }
}

/// One scale for all, and each as an integer up to `limit` times that.
fn share<const N: usize>(scales: &[f32; N], limit: i32, weights: Option<&[f32; N]>) -> (f32, [u8; N]) {
    if let Some(weights) = weights {
        return positive(scales, limit, weights);
    }
    let maximum = scales.iter().copied().fold(0.0, f32::max);
    let inverse = if maximum > 0.0 { limit as f32 / maximum } else { 0.0 };
    (maximum / limit as f32, scales.map(|scale| nearest(inverse * scale, 0, limit) as u8))
}

/// The scale and the minimum of each of the 8 sub-blocks, from the header of a `Q4_K` or `Q5_K` block:
///
/// ```text
/// byte  0..2              scale (f16)
/// byte  2..4              minimum (f16)
/// byte  4 + i   (i < 4)   bits 0..6  sub-scale i                   bits 6..8  upper two bits of sub-scale i + 4
/// byte  8 + i   (i < 4)   bits 0..6  sub-minimum i                 bits 6..8  upper two bits of sub-minimum i + 4
/// byte 12 + i   (i < 4)   bits 0..4  low bits of sub-scale i + 4   bits 4..8  low bits of sub-minimum i + 4
/// ```
#[inline(always)]
pub(super) fn read_header(header: &[u8; 16]) -> ([f32; 8], [f32; 8]) {
    let (scale, minimum) = (f16::scale(header, 0), f16::scale(header, 2));
    let (mut scales, mut minimums) = ([0.0; 8], [0.0; 8]);
    for i in 0..4 {
        let (scale_byte, minimum_byte, both) = (header[4 + i], header[8 + i], header[12 + i]);
        scales[i] = scale * (scale_byte & 63) as f32;
        minimums[i] = minimum * (minimum_byte & 63) as f32;
        scales[4 + i] = scale * ((both & 15) | (scale_byte >> 6) << 4) as f32;
        minimums[4 + i] = minimum * ((both >> 4) | (minimum_byte >> 6) << 4) as f32;
    }
    (scales, minimums)
}

/// The header of a fitted `Q4_K` or `Q5_K` block, as [`read_header`] draws it.
pub(super) fn header(fit: &Fit<8>) -> [u8; 16] {
    let mut header = [0; 16];
    header[0..2].copy_from_slice(&fit.scale.to_le_bytes());
    header[2..4].copy_from_slice(&fit.minimum.to_le_bytes());
    for i in 0..4 {
        let (scale, minimum) = (fit.sub_scales[4 + i], fit.sub_minimums[4 + i]);
        header[4 + i] = fit.sub_scales[i] | (scale >> 4) << 6;
        header[8 + i] = fit.sub_minimums[i] | (minimum >> 4) << 6;
        header[12 + i] = (scale & 15) | (minimum & 15) << 4;
    }
    header
}
