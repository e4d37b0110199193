//! Code books of the `IQ1`, `IQ2` and `IQ3` types: short vectors of levels, which blocks name by number.
//!
//! One file per book holds its points; here is what they share. The `IQ2` and `IQ3` books hold magnitudes and the
//! blocks carry signs beside them. Which bits of a block make a number is the business of each type's own file.

pub mod iq1;
pub mod iq2_s;
pub mod iq2_xs;
pub mod iq2_xxs;
pub mod iq3_s;
pub mod iq3_xxs;

/// Unpacks a book: `LENGTH` coordinates of `16 / LENGTH` bits, lowest first, each the number of a level.
const fn expand<const LENGTH: usize, const POINTS: usize>(
    packed: &[u16; POINTS],
    levels: &[i8],
) -> [[i8; LENGTH]; POINTS] {
    let bits = 16 / LENGTH;
    let mut points = [[0; LENGTH]; POINTS];
    let mut index = 0;
    while index < POINTS * LENGTH {
        let (point, coordinate) = (index / LENGTH, index % LENGTH);
        points[point][coordinate] = levels[(packed[point] >> (bits * coordinate)) as usize & ((1 << bits) - 1)];
        index += 1;
    }
    points
}

/// The eight signs that seven stored bits stand for: the eighth makes the number of minus signs even.
#[inline(always)]
pub(super) fn even_signs(stored: u32) -> u8 {
    let stored = stored as u8 & 127;
    stored | (stored.count_ones() as u8 & 1) << 7
}

/// Writes one point: `scale` times each coordinate, negative where the bit in `signs` is set.
#[inline(always)]
pub(super) fn write_signed<const LENGTH: usize>(scale: f32, point: [i8; LENGTH], signs: u8, values: &mut [f32]) {
    for (j, (value, coordinate)) in values.iter_mut().zip(point).enumerate() {
        let sign = 1 - 2 * (signs >> j & 1) as i8;
        *value = scale * (coordinate * sign) as f32;
    }
}

/// Writes one point of the ternary book, shifted: `scale * (coordinate + shift)`.
#[inline(always)]
pub(super) fn write_shifted(scale: f32, point: [i8; 8], shift: f32, values: &mut [f32]) {
    for (value, coordinate) in values.iter_mut().zip(point) {
        *value = scale * (coordinate as f32 + shift);
    }
}
