//! `IQ3_XXS`: 256 values in 8 sub-blocks of 32; each 4 values are a point of a 256-point book with signs.
//! `value = scale * (sub_scale + 1/2) / 2 * sign * coordinate`.
//!
//! ```text
//! byte  0..2     scale (f16)
//! byte  2..66    point numbers, one byte for each 4 values
//! byte 66..98    a u32 for each sub-block: four times seven bits of signs (bits 7 l and up for the eight values l;
//!                the eighth is parity), and the sub-scale in bits 28..32
//! ```

use super::f16;
use super::grids::{even_signs, iq3_xxs::POINTS, write_signed};

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 98], values: &mut [f32; 256]) {
    let scale = f16::scale(block, 0);
    let (codes, signs) = block[2..].split_at(64);
    for (sub, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (codes, signs) = (&codes[8 * sub..][..8], u32::from_le_bytes(signs.as_chunks().0[sub]));
        let scale = scale * (0.5 + (signs >> 28) as f32) * 0.5;
        for (l, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let signs = even_signs(signs >> (7 * l));
            let (first, second) = values.split_at_mut(4);
            write_signed(scale, POINTS[codes[2 * l] as usize], signs, first);
            write_signed(scale, POINTS[codes[2 * l + 1] as usize], signs >> 4, second);
        }
    }
}
