//! `Q3_K`: 256 values in 16 sub-blocks of 16, 3 bits each. `value = scale * (sub_scale - 32) * (code - 4)`.
//!
//! The block is two halves of 128 values; half `h` is four runs `r` of 32 values, `i` counts within a run:
//!
//! ```text
//! byte   0..32    third bits: byte i, bit 4 h + r
//! byte  32..96    low two bits: byte 32 + 32 h + i holds run r in bits 2 r and 2 r + 1
//! byte  96..108   6-bit sub-scales, one for every 16 values in order; sub-scale s has
//!                 its low four bits in byte 96 + s % 8 (low nibble for s < 8, else high nibble) and
//!                 its high two bits in byte 104 + s % 4, bits 2 (s / 4) and 2 (s / 4) + 1
//! byte 108..110   scale (f16)
//! ```

use super::f16;
use super::q2_k::pack_two_bits;
use super::search::{extreme, mean_square, nearest, symmetric, symmetric_by_descent, weigh};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 110], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 108);
    let scales = unpack_scales(block[96..108].as_array().expect("twelve bytes"));
    for (sub, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = scale * scales[sub] as f32;
        let (half, run, odd) = (sub / 8, sub / 2 % 4, sub % 2);
        let third = &block[16 * odd..][..16];
        let low = &block[32 + 32 * half + 16 * odd..][..16];
        for i in 0..16 {
            let code = (low[i] >> (2 * run) & 3) | (third[i] >> (4 * half + run) & 1) << 2;
            values[i] = scale * (code as i8 - 4) as f32;
        }
    }
}

/// The sub-scales, -32 to 31.
fn unpack_scales(packed: &[u8; 12]) -> [i8; 16] {
    std::array::from_fn(|sub| {
        let low = packed[sub % 8] >> (4 * (sub / 8)) & 15;
        let high = packed[8 + sub % 4] >> (2 * (sub / 4)) & 3;
        (low | high << 4) as i8 - 32
    })
}

/// The best fit, weighed by importance where it is known.
pub(super) fn quantise(values: &[f32; 256], importance: Option<&[f32; 256]>, block: &mut [u8; 110]) {
    let (scale, sub_scales, mut codes) = match importance {
        Some(importance) => fit_by_importance(values, importance),
        None => fit(values),
    };
    f16::store_scale(block, 108, scale);
    let scale = f16::scale(block, 108);
    for (sub, codes) in codes.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = scale * (sub_scales[sub] as i8 - 32) as f32;
        if scale != 0.0 {
            for i in 0..16 {
                codes[i] = (nearest(values[16 * sub + i] / scale, -4, 3) + 4) as u8;
            }
        }
    }
    for i in 0..32 {
        block[i] = (0..8).map(|run| (codes[32 * run + i] >> 2) << run).sum();
    }
    block[32..96].copy_from_slice(&pack_two_bits(&codes));
    block[96..108].copy_from_slice(&pack_scales(&sub_scales));
}

/// Scale, sub-scales (0 to 63) and codes (0 to 7): large values count most.
fn fit(values: &[f32; 256]) -> (f32, [u8; 16], [u8; 256]) {
    let fits: [_; 16] = std::array::from_fn(|sub| symmetric_by_descent(&values.as_chunks::<16>().0[sub], 4));
    let largest = extreme(&fits.map(|(scale, _)| scale));
    let codes = std::array::from_fn(|i| fits[i / 16].1[i % 16]);
    if largest == 0.0 {
        return (0.0, [0; 16], codes);
    }
    let inverse = -32.0 / largest;
    (1.0 / inverse, fits.map(|(scale, _)| (nearest(inverse * scale, -32, 31) + 32) as u8), codes)
}

/// Scale, sub-scales (0 to 63) and codes (0 to 7), with the importance of each value's column.
fn fit_by_importance(values: &[f32; 256], importance: &[f32; 256]) -> (f32, [u8; 16], [u8; 256]) {
    let mean_square = 2.0 * mean_square(values);
    let mut totals = [0.0; 16];
    let fits: [_; 16] = std::array::from_fn(|sub| {
        let values = &values.as_chunks::<16>().0[sub];
        let mut weights = [0.0; 16];
        weigh(values, &importance[16 * sub..], mean_square, &mut weights);
        totals[sub] = weights.iter().sum();
        symmetric(values, 4, &weights)
    });
    let (scale, sub_scales) = symmetric(&fits.map(|(scale, _)| scale), 32, &totals);
    (scale, sub_scales, std::array::from_fn(|i| fits[i / 16].1[i % 16]))
}

/// Sub-scales, 0 to 63, where [`unpack_scales`] finds them.
fn pack_scales(sub_scales: &[u8; 16]) -> [u8; 12] {
    let mut packed = [0; 12];
    for (sub, scale) in sub_scales.iter().enumerate() {
        packed[sub % 8] |= (scale & 15) << (4 * (sub / 8));
        packed[8 + sub % 4] |= (scale >> 4) << (2 * (sub / 4));
    }
    packed
}
