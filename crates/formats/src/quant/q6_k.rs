//! `Q6_K`: 256 values in 16 sub-blocks of 16, 6 bits each. `value = scale * sub_scale * (code - 32)`.
//!
//! The block is two halves of 128 values; half `h` is four runs of 32 values, `i` counts within a run:
//!
//! ```text
//! byte   0..128   low four bits: byte 64 h + i holds runs 0 (low nibble) and 2 (high), byte 64 h + 32 + i runs 1 and 3
//! byte 128..192   high two bits: byte 128 + 32 h + i holds run r in bits 2 r and 2 r + 1
//! byte 192..208   sub-scales (i8), one for every 16 values in order
//! byte 208..210   scale (f16)
//! ```

use super::f16;
use super::search::{ZERO_BELOW, extreme, nearest, symmetric};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 210], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 208);
    let scales: [f32; 16] = std::array::from_fn(|sub| scale * (block[192 + sub] as i8) as f32);
    let codes = unpack(block);
    for ((values, codes), scale) in values.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0).zip(scales)
    {
        for i in 0..16 {
            values[i] = scale * codes[i] as f32;
        }
    }
}

/// The codes, -32 to 31, in the order of the values.
#[inline(always)]
fn unpack(block: &[u8; 210]) -> [i8; 256] {
    let mut codes = [0; 256];
    let (low, high) = (&block[..128], &block[128..192]);
    for (half, codes) in codes.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let (low, high) = (&low[64 * half..][..64], &high[32 * half..][..32]);
        for i in 0..32 {
            codes[i] = ((low[i] & 15) | (high[i] & 3) << 4) as i8 - 32;
            codes[i + 32] = ((low[i + 32] & 15) | (high[i] >> 2 & 3) << 4) as i8 - 32;
            codes[i + 64] = ((low[i] >> 4) | (high[i] >> 4 & 3) << 4) as i8 - 32;
            codes[i + 96] = ((low[i + 32] >> 4) | (high[i] >> 6) << 4) as i8 - 32;
        }
    }
    codes
}

/// The best fit, weighed by importance where it is known, else by the squares of the values.
pub(super) fn quantise(values: &[f32; 256], importance: Option<&[f32; 256]>, block: &mut [u8; 210]) {
    block.fill(0);
    let sub_blocks = values.as_chunks::<16>().0;
    let fits: [_; 16] = std::array::from_fn(|sub| {
        let values = &sub_blocks[sub];
        let weights = match importance {
            Some(importance) => importance.as_chunks().0[sub],
            None => values.map(|value| value * value),
        };
        symmetric(values, 32, &weights)
    });
    let scales = fits.map(|(scale, _)| scale);
    let largest = extreme(&scales);
    if largest.abs() < ZERO_BELOW {
        return;
    }
    let inverse = -128.0 / largest;
    f16::store_scale(block, 208, 1.0 / inverse);
    let stored = f16::scale(block, 208);
    let mut codes = [0; 256];
    for (sub, codes) in codes.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let sub_scale = nearest(inverse * scales[sub], -128, 127) as i8;
        block[192 + sub] = sub_scale as u8;
        let scale = stored * sub_scale as f32;
        *codes = if scale == 0.0 {
            fits[sub].1
        } else {
            sub_blocks[sub].map(|value| (nearest(value / scale, -32, 31) + 32) as u8)
        };
    }
    pack(&codes, block);
}

/// Stores codes, 0 to 63, in the order of the values.
fn pack(codes: &[u8; 256], block: &mut [u8; 210]) {
    let (low, high) = block.split_at_mut(128);
    for (half, codes) in codes.as_chunks::<128>().0.iter().enumerate() {
        for i in 0..32 {
            let runs = [codes[i], codes[i + 32], codes[i + 64], codes[i + 96]];
            low[64 * half + i] = (runs[0] & 15) | (runs[2] & 15) << 4;
            low[64 * half + 32 + i] = (runs[1] & 15) | (runs[3] & 15) << 4;
            high[32 * half + i] = runs[0] >> 4 | (runs[1] >> 4) << 2 | (runs[2] >> 4) << 4 | (runs[3] >> 4) << 6;
        }
    }
}
