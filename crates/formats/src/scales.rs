//! What files keep apart from the values of a matrix: factors of its tiles, or the scales of its blocks.
//!
//! A GGUF has every scale inside its block. Checkpoints in safetensors have codes in one tensor and what they are multiplied with in
//! others; a [`Tensor`] has both. Kernels take codes where they lie and a factor for each tile ([`Tiles`]); scales of sixteen values each
//! go into the blocks that kernels read ([`Quant::NVFP4`]), when a part of the matrix is asked for.

use std::ops::Range;
use std::sync::Arc;

use crate::checkpoint::Tensor;
use crate::mapping::Bytes;
use crate::quant::Quant;

/// Columns of a tile are a multiple of this, where there are several side by side.
pub const TILE_COLUMNS: usize = 128;
/// The largest factor: what it is multiplied with stays finite.
const FACTOR_MAX: f32 = (1_u128 << 100) as f32;

/// What a tensor's file keeps apart, as it is stored.
#[derive(Clone, Debug)]
pub enum Scales {
    /// A factor for each tile of a matrix: `value = factor * stored value`.
    Tiles {
        /// (tiles down, tiles across), numbers of the type `quant`.
        factors: Bytes,
        /// F32, F16 or BF16.
        quant: Quant,
        /// Rows of a tile.
        rows: usize,
        /// Columns of a tile, a multiple of [`TILE_COLUMNS`] or all.
        columns: usize,
        /// Tiles side by side.
        across: usize,
    },
    /// A matrix in [`Quant::NVFP4`] whose codes are two neighbours to a byte, the first in its low half:
    /// `value = factor * scale * code`.
    Sixteens {
        /// A float of eight bits (E4M3, over zero) for each sixteen columns of a row.
        scales: Bytes,
        /// Of the whole matrix.
        factor: f32,
    },
}

/// Why a part of a tensor cannot be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScalesError {
    /// A factor is no number, or too large.
    #[error("a factor of its values is {value}; expected a finite number up to 2^100")]
    Factor {
        /// The factor.
        value: f32,
    },
    /// The scale of sixteen values is no number, or under zero.
    #[error(
        "a scale of sixteen of its values is the byte {byte:#04x}; expected one up to 0x7e, a number that is not negative"
    )]
    Scale {
        /// The byte.
        byte: u8,
    },
    /// The rows are no whole blocks, or not there.
    #[error("it has no rows of {columns} values from row {first} on that are whole blocks")]
    Rows {
        /// Values of a row.
        columns: usize,
        /// The first row that was asked for.
        first: usize,
    },
}

/// Factors for tiles of a matrix, side by side and below each other; those at its edges may be cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiles {
    /// (tiles down, tiles across).
    factors: Arc<[f32]>,
    across: usize,
    rows: usize,
    columns: usize,
    /// The matrix's first row, counted from that of the first tile.
    first: usize,
}

impl Tiles {
    /// Tiles of so many rows and columns, `across` of them side by side.
    ///
    /// # Panics
    /// Unless the factors are whole rows of tiles, and tiles side by side have a multiple of [`TILE_COLUMNS`] columns.
    pub fn new(factors: Arc<[f32]>, [rows, columns]: [usize; 2], across: usize) -> Self {
        assert!(rows > 0 && columns > 0 && across > 0 && factors.len().is_multiple_of(across), "tiles");
        assert!(across == 1 || columns.is_multiple_of(TILE_COLUMNS), "tiles of {columns} columns");
        Self { factors, across, rows, columns, first: 0 }
    }

    /// One factor for all of a matrix.
    pub fn whole(factor: f32) -> Self {
        Self::new(Arc::new([factor]), [usize::MAX; 2], 1)
    }

    /// The factors of a row, one for each [`Self::columns`].
    pub fn of_row(&self, row: usize) -> &[f32] {
        let down = (self.first + row) / self.rows;
        &self.factors[down * self.across..(down + 1) * self.across]
    }

    /// Columns of a tile.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The factor of all of the matrix, if there is but one.
    pub fn only(&self) -> Option<f32> {
        match &*self.factors {
            [factor] => Some(*factor),
            _ => None,
        }
    }

    /// Multiplies the values of a row.
    pub fn multiply(&self, row: usize, values: &mut [f32]) {
        for (values, factor) in values.chunks_mut(self.columns).zip(self.of_row(row)) {
            values.iter_mut().for_each(|value| *value *= factor);
        }
    }

    /// Bytes that the factors take.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.factors)
    }
}

impl Tensor {
    /// Everything that is stored of it, values first.
    pub fn stored(&self) -> impl Iterator<Item = &Bytes> + Clone {
        let apart = match self.scales.as_deref() {
            None => None,
            Some(Scales::Tiles { factors, .. }) => Some(factors),
            Some(Scales::Sixteens { scales, .. }) => Some(scales),
        };
        std::iter::once(&self.data).chain(apart)
    }

    /// Looks at all that a part of it would be made with.
    ///
    /// # Errors
    /// Those of [`Self::part`].
    pub fn check(&self, columns: usize) -> Result<(), ScalesError> {
        match self.scales.as_deref() {
            None => Ok(()),
            Some(Scales::Tiles { factors, quant, .. }) => {
                let mut values = vec![0.0; factors.len() / quant.block_bytes()];
                quant.dequantise(factors, &mut values);
                values.iter().try_for_each(|&factor| check(factor))
            }
            Some(Scales::Sixteens { .. }) if Quant::NVFP4.row_bytes(columns).is_none() => {
                Err(ScalesError::Rows { columns, first: 0 })
            }
            Some(Scales::Sixteens { scales, factor }) => check(*factor).and_then(|()| check_fine(scales)),
        }
    }

    /// The blocks of some rows of a matrix of so many columns, and their factors. Where nothing has to be put together, the blocks are where
    /// the file has them.
    ///
    /// # Errors
    /// When there are no such rows, or their scales make no numbers.
    pub fn part(&self, rows: Range<usize>, columns: usize) -> Result<(Bytes, Option<Tiles>), ScalesError> {
        let absent = || ScalesError::Rows { columns, first: rows.start };
        let in_place = || {
            let row_bytes = self.quant.row_bytes(columns)?;
            self.data.slice(rows.start.checked_mul(row_bytes)?..rows.end.checked_mul(row_bytes)?)
        };
        match self.scales.as_deref() {
            None => Ok((in_place().ok_or_else(absent)?, None)),
            Some(Scales::Tiles { factors, quant, rows: height, columns: width, across }) => {
                let (height, width, across) = (*height, *width, *across);
                let tiles = rows.start / height..rows.end.div_ceil(height);
                let row_bytes = across * quant.block_bytes();
                let stored = factors.get(tiles.start * row_bytes..tiles.end * row_bytes).ok_or_else(absent)?;
                let mut factors = vec![0.0; tiles.len() * across];
                quant.dequantise(stored, &mut factors);
                factors.iter().try_for_each(|&factor| check(factor))?;
                let first = rows.start - tiles.start * height;
                let tiles = Tiles { first, ..Tiles::new(factors.into(), [height, width], across) };
                Ok((in_place().ok_or_else(absent)?, Some(tiles)))
            }
            Some(Scales::Sixteens { scales, factor }) => {
                check(*factor)?;
                let whole = Quant::NVFP4.row_bytes(columns).is_some();
                let part = |bytes: &Bytes, each: usize| {
                    let row_bytes = columns / each;
                    bytes.slice(rows.start.checked_mul(row_bytes)?..rows.end.checked_mul(row_bytes)?)
                };
                let parts = part(&self.data, 2).zip(part(scales, 16)).filter(|_| whole);
                let (codes, scales) = parts.ok_or_else(absent)?;
                Ok((nvfp4_blocks(&codes, &scales)?, Some(Tiles::whole(*factor))))
            }
        }
    }
}

fn check(factor: f32) -> Result<(), ScalesError> {
    if factor.abs() <= FACTOR_MAX { Ok(()) } else { Err(ScalesError::Factor { value: factor }) }
}

fn check_fine(scales: &[u8]) -> Result<(), ScalesError> {
    match scales.iter().find(|&&byte| byte > 0x7e) {
        Some(&byte) => Err(ScalesError::Scale { byte }),
        None => Ok(()),
    }
}

/// Codes and scales as blocks of [`Quant::NVFP4`]: four scales, then eight bytes for each sixteen values, of which byte `i` has value `i` in its low
/// half and value `i + 8` in its high half.
fn nvfp4_blocks(codes: &[u8], scales: &[u8]) -> Result<Bytes, ScalesError> {
    check_fine(scales)?;
    let mut blocks = Vec::with_capacity(codes.len() + scales.len());
    for (codes, scales) in codes.as_chunks::<32>().0.iter().zip(scales.as_chunks::<4>().0) {
        blocks.extend(scales);
        for codes in codes.as_chunks::<8>().0 {
            let word = u64::from_le_bytes(*codes);
            blocks.extend((places(word as u32) | places((word >> 32) as u32) << 4).to_le_bytes());
        }
    }
    Ok(Bytes::from(blocks))
}

/// The eight half bytes of a word, each in the low half of a byte.
const fn places(word: u32) -> u64 {
    let mut spread = word as u64;
    spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Bytes {
        Bytes::from(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    /// Three rows of 200 ones, tiles of two rows and 128 columns.
    fn tiled(factors: &[f32]) -> Tensor {
        let scales = Scales::Tiles { factors: floats(factors), quant: Quant::F32, rows: 2, columns: 128, across: 2 };
        Tensor {
            quant: Quant::F8_E4M3,
            dims: vec![3, 200],
            data: Bytes::from(vec![0x38; 600]),
            scales: Some(Box::new(scales)),
        }
    }

    #[test]
    fn a_part_has_the_factors_of_its_rows() {
        let tensor = tiled(&[2.0, 3.0, 5.0, 7.0]);
        for (rows, expected) in [(0..3, vec![[2.0, 3.0], [2.0, 3.0], [5.0, 7.0]]), (1..3, vec![[2.0, 3.0], [5.0, 7.0]])]
        {
            let (bytes, tiles) = tensor.part(rows.clone(), 200).unwrap();
            let tiles = tiles.unwrap();
            assert_eq!(bytes.len(), 200 * rows.len());
            for (row, expected) in expected.iter().enumerate() {
                let mut values = vec![0.0; 200];
                Quant::F8_E4M3.dequantise(&bytes[200 * row..200 * (row + 1)], &mut values);
                tiles.multiply(row, &mut values);
                assert!(values[..128].iter().all(|&value| value == expected[0]), "{rows:?}, row {row}");
                assert!(values[128..].iter().all(|&value| value == expected[1]), "{rows:?}, row {row}");
            }
        }
        assert_eq!(tensor.part(2..4, 200).unwrap_err(), ScalesError::Rows { columns: 200, first: 2 });
    }

    #[test]
    fn factors_that_are_no_numbers_are_refused_where_they_are_read() {
        let tensor = tiled(&[2.0, 3.0, f32::NAN, 7.0]);
        assert!(tensor.part(0..2, 200).is_ok());
        assert!(matches!(tensor.part(1..3, 200), Err(ScalesError::Factor { .. })));
        assert!(matches!(tiled(&[f32::MAX; 4]).part(0..1, 200), Err(ScalesError::Factor { .. })));
    }

    #[test]
    fn scales_of_sixteen_go_into_blocks() {
        // Codes count up from 0, two to a byte; scales are 1, 2, 0.5 and 448.
        let codes: Vec<u8> = (0..32).map(|byte| (2 * byte % 16) | ((2 * byte + 1) % 16) << 4).collect();
        let tensor = |scales: [u8; 4], factor| Tensor {
            quant: Quant::NVFP4,
            dims: vec![1, 64],
            data: Bytes::from(codes.clone()),
            scales: Some(Box::new(Scales::Sixteens { scales: Bytes::from(scales.to_vec()), factor })),
        };
        let (blocks, tiles) = tensor([0x38, 0x40, 0x30, 0x7e], 0.75).part(0..1, 64).unwrap();
        let mut values = [0.0; 64];
        Quant::NVFP4.dequantise(&blocks, &mut values);
        tiles.unwrap().multiply(0, &mut values);
        let levels = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];
        for (place, value) in values.iter().enumerate() {
            assert_eq!(*value, 0.75 * [1.0, 2.0, 0.5, 448.0][place / 16] * levels[place % 16], "{place}");
        }
        assert_eq!(
            tensor([0x38, 0x40, 0x7f, 0x38], 1.0).part(0..1, 64).unwrap_err(),
            ScalesError::Scale { byte: 0x7f }
        );
        assert_eq!(
            tensor([0x38, 0x40, 0x38, 0x80], 1.0).part(0..1, 64).unwrap_err(),
            ScalesError::Scale { byte: 0x80 }
        );
        assert!(matches!(tensor([0x38; 4], f32::INFINITY).part(0..1, 64), Err(ScalesError::Factor { .. })));
        assert_eq!(tensor([0x38; 4], 1.0).part(0..1, 48).unwrap_err(), ScalesError::Rows { columns: 48, first: 0 });
    }
}
