//! `Q5_K`: 256 values in 8 sub-blocks of 32, 5 bits each. `value = scale * sub_scale * code - minimum * sub_minimum`.
//!
//! ```text
//! byte  0..2     scale (f16)
//! byte  2..4     minimum (f16)
//! byte  4..16    eight 6-bit sub-scales and sub-minimums: see `scales_6bit`
//! byte 16..48    fifth bits: bit s of byte 16 + i belongs to value i of sub-block s
//! byte 48..176   low four bits, 32 bytes for each pair of sub-blocks: byte 48 + 32 p + i holds value i of sub-block
//!                2 p in its low nibble and value i of sub-block 2 p + 1 in its high nibble
//! ```

use super::{f16, scales_6bit};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 176], values: &mut [f32; 256]) {
    let (scale, minimum) = (f16::scale(block, 0), f16::scale(block, 2));
    let (header, codes) = block.split_at(48);
    let (scales, minimums) = scales_6bit::unpack(header[4..16].as_array().expect("twelve bytes"));
    let fifth = &header[16..];
    let pairs = codes.as_chunks::<32>().0.iter().zip(values.as_chunks_mut::<64>().0);
    for (pair, (codes, values)) in pairs.enumerate() {
        let (scale_low, minimum_low) = (scale * scales[2 * pair] as f32, minimum * minimums[2 * pair] as f32);
        let (scale_high, minimum_high) = (
            scale * scales[2 * pair + 1] as f32,
            minimum * minimums[2 * pair + 1] as f32,
        );
        let (low, high) = values.split_at_mut(32);
        for i in 0..32 {
            let fifth = fifth[i] >> (2 * pair);
            low[i] = scale_low * ((codes[i] & 15) | (fifth & 1) << 4) as f32 - minimum_low;
            high[i] = scale_high * ((codes[i] >> 4) | (fifth >> 1 & 1) << 4) as f32 - minimum_high;
        }
    }
}
