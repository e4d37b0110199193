//! `IQ2_XXS`: 256 values in 8 sub-blocks of 32; each 8 values are a point of a 256-point book with signs.
//! `value = scale * (sub_scale + 1/2) / 4 * sign * coordinate`.
//!
//! ```text
//! byte 0..2     scale (f16)
//! byte 2..66    8 bytes for each sub-block: four point numbers (u8), then a u32 with four times seven bits of
//!               signs (bits 7 l and up for point l; the eighth is parity) and the sub-scale in bits 28..32
//! ```

use super::f16;
use super::grids::{even_signs, iq2_xxs::POINTS, write_signed};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 66], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 0);
    for (codes, values) in block[2..].as_chunks::<8>().0.iter().zip(values.as_chunks_mut::<32>().0) {
        let signs = u32::from_le_bytes([codes[4], codes[5], codes[6], codes[7]]);
        let scale = scale * (0.5 + (signs >> 28) as f32) * 0.25;
        for (l, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            write_signed(scale, POINTS[codes[l] as usize], even_signs(signs >> (7 * l)), values);
        }
    }
}
