//! `IQ2_XS`: 256 values in 16 sub-blocks of 16; each 8 values are a point of a 512-point book with signs.
//! `value = scale * (sub_scale + 1/2) / 4 * sign * coordinate`.
//!
//! ```text
//! byte  0..2     scale (f16)
//! byte  2..66    a u16 for each 8 values: point number in bits 0..9, seven signs in bits 9..16 (the eighth is parity)
//! byte 66..74    4-bit sub-scales: byte 66 + i holds sub-block 2 i in its low nibble and 2 i + 1 in its high nibble
//! ```

use super::f16;
use super::grids::{even_signs, iq2_xs::POINTS, write_signed};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 74], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 0);
    let (codes, scales) = block[2..].split_at(64);
    for (eight, (code, values)) in codes.as_chunks().0.iter().zip(values.as_chunks_mut::<8>().0).enumerate() {
        let code = u16::from_le_bytes(*code);
        let sub_scale = scales[eight / 4] >> (4 * (eight / 2 % 2)) & 15;
        let scale = scale * (0.5 + sub_scale as f32) * 0.25;
        write_signed(scale, POINTS[code as usize & 511], even_signs(u32::from(code >> 9)), values);
    }
}
