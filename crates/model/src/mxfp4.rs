//! MXFP4 whose codes and exponents are two tensors, as safetensors have it, in the blocks that kernels read.

use kauri_formats::Bytes;

/// Bytes of a block: an exponent and 32 codes.
const BLOCK: usize = 17;

/// The rows `rows` of a matrix of `groups` times 32 columns: `codes` has 16 bytes for each group of a row, `exponents` one.
///
/// A file's byte holds neighbours, the first in its low half; a block's byte holds value `i` and value `i + 16`.
pub fn blocks(codes: &[u8], exponents: &[u8], groups: usize, rows: impl Iterator<Item = usize>) -> Option<Bytes> {
    let mut blocks = Vec::with_capacity(rows.size_hint().0 * groups * BLOCK);
    for row in rows {
        let codes = codes.get(row * groups * 16..(row + 1) * groups * 16)?.as_chunks::<16>().0;
        let exponents = exponents.get(row * groups..(row + 1) * groups)?;
        for (codes, exponent) in codes.iter().zip(exponents) {
            let code = |place: usize| codes[place / 2] >> (4 * (place % 2)) & 15;
            blocks.push(*exponent);
            blocks.extend((0..16).map(|place| code(place) | code(place + 16) << 4));
        }
    }
    Some(Bytes::from(blocks))
}

#[cfg(test)]
mod tests {
    use kauri_formats::Quant;

    use super::*;

    #[test]
    fn values_are_where_they_were_and_rows_may_be_left_out() {
        // Three rows of one group whose codes count up from the number of the row; exponent 127 is one.
        let codes: Vec<u8> = (0..3u8)
            .flat_map(|row| (0..16u8).map(move |byte| ((row + 2 * byte) % 16) | (((row + 2 * byte + 1) % 16) << 4)))
            .collect();
        let found = blocks(&codes, &[127, 128, 126], 1, (0..3).step_by(2)).expect("inside");
        assert_eq!(found.len(), 2 * BLOCK);
        let levels = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];
        let mut values = [0.0; 64];
        Quant::MXFP4.dequantise(&found, &mut values);
        for (place, value) in values.iter().enumerate() {
            let (row, scale) = if place < 32 { (0, 1.0) } else { (2, 0.5) };
            assert_eq!(*value, scale * levels[(row + place % 32) % 16], "{place}");
        }
        assert!(blocks(&codes, &[127], 1, 0..3).is_none(), "too few exponents");
    }
}
