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
