//! Types whose block is one value: `F32`, `F64` and the integers, little endian.
//!
//! Integers and doubles hold tables (positions, permutations); a model's arithmetic sees them rounded to `f32`.

/// `F32`, bit for bit.
pub(super) fn dequantise_f32(block: &[u8; 4], values: &mut [f32; 1]) {
    values[0] = f32::from_le_bytes(*block);
}

/// `F32`, bit for bit.
pub(super) fn quantise_f32(values: &[f32; 1], block: &mut [u8; 4]) {
    *block = values[0].to_le_bytes();
}

/// `F64`, rounded to nearest; beyond the range of `f32` it becomes an infinity.
pub(super) fn dequantise_f64(block: &[u8; 8], values: &mut [f32; 1]) {
    values[0] = f64::from_le_bytes(*block) as f32;
}

/// `I8`, exact.
pub(super) fn dequantise_i8(block: &[u8; 1], values: &mut [f32; 1]) {
    values[0] = i8::from_le_bytes(*block) as f32;
}

/// `I16`, exact.
pub(super) fn dequantise_i16(block: &[u8; 2], values: &mut [f32; 1]) {
    values[0] = i16::from_le_bytes(*block) as f32;
}

/// `I32`, rounded to nearest.
pub(super) fn dequantise_i32(block: &[u8; 4], values: &mut [f32; 1]) {
    values[0] = i32::from_le_bytes(*block) as f32;
}

/// `I64`, rounded to nearest.
pub(super) fn dequantise_i64(block: &[u8; 8], values: &mut [f32; 1]) {
    values[0] = i64::from_le_bytes(*block) as f32;
}
