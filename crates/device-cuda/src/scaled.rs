//! Matrices whose factors lie apart, in the two layouts that kernels read: rows with their factors behind them (`kernels/types.cuh`), or all codes and
//! then all factors (`kernels/quant.cuh`).

use std::ops::Range;

use kauri_device::Matrix;
use kauri_formats::Quant;
use kauri_formats::scales::TILE_COLUMNS;

/// Bytes that are put together at a time.
const PIECE_BYTES: usize = 16 << 20;
/// Threads that do.
const THREADS: usize = 8;
/// Rows of codes of eight bits, and their factors, begin at a multiple of this many bytes.
const ALIGNMENT: usize = 16;

/// Whether a matrix is of a type that has factors apart, and so is laid out here.
pub(crate) fn is(matrix: &Matrix) -> bool {
    matches!(matrix.quant, Quant::F8_E4M3 | Quant::NVFP4)
}

/// Bytes on the device.
pub(crate) fn bytes(matrix: &Matrix, planes: bool) -> usize {
    if planes { matrix.data.len() + 4 * matrix.rows * factors(matrix) } else { matrix.rows * row_bytes(matrix) }
}

/// Factors of a row.
fn factors(matrix: &Matrix) -> usize {
    match matrix.quant {
        Quant::F8_E4M3 => matrix.columns.div_ceil(TILE_COLUMNS),
        _ => 1,
    }
}

/// Where the factors of a row begin, and what a row takes, where they stand behind it.
fn places(matrix: &Matrix) -> (usize, usize) {
    let (codes, factors) = (matrix.row_bytes(), 4 * factors(matrix));
    match matrix.quant {
        Quant::F8_E4M3 => {
            let codes = codes.next_multiple_of(ALIGNMENT);
            (codes, codes + factors.next_multiple_of(ALIGNMENT))
        }
        _ => (codes, codes + factors),
    }
}

fn row_bytes(matrix: &Matrix) -> usize {
    places(matrix).1
}

/// What takes bytes, and how far from the beginning they go.
type Send<'a, E> = dyn FnMut(&[u8], usize) -> Result<(), E> + 'a;

/// Calls `send` with the bytes of the device, piece after piece, and how far from the beginning each goes.
pub(crate) fn each<E>(matrix: &Matrix, planes: bool, send: &mut Send<'_, E>) -> Result<(), E> {
    let rows_of = |bytes: usize| (PIECE_BYTES / bytes.max(1)).max(1);
    if planes {
        send(&matrix.data, 0)?;
        let row_bytes = 4 * factors(matrix);
        for rows in pieces(matrix.rows, rows_of(row_bytes)) {
            let behind = matrix.data.len() + rows.start * row_bytes;
            send(&filled(rows, row_bytes, &|row, to| put_factors(matrix, row, to)), behind)?;
        }
        return Ok(());
    }
    let (codes, row_bytes) = places(matrix);
    for rows in pieces(matrix.rows, rows_of(row_bytes)) {
        let behind = rows.start * row_bytes;
        let put = |row: usize, to: &mut [u8]| {
            to[..matrix.row_bytes()].copy_from_slice(matrix.row(row));
            put_factors(matrix, row, &mut to[codes..]);
        };
        send(&filled(rows, row_bytes, &put), behind)?;
    }
    Ok(())
}

fn pieces(rows: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(most).map(move |start| start..rows.min(start + most))
}

/// The bytes of some rows, each written by `put`, by several threads.
fn filled(rows: Range<usize>, row_bytes: usize, put: &(dyn Fn(usize, &mut [u8]) + Sync)) -> Vec<u8> {
    let mut all = vec![0; rows.len() * row_bytes];
    let share = rows.len().div_ceil(THREADS);
    std::thread::scope(|scope| {
        for (index, bytes) in all.chunks_mut(share * row_bytes).enumerate() {
            let first = rows.start + index * share;
            scope.spawn(move || {
                bytes.chunks_exact_mut(row_bytes).enumerate().for_each(|(row, bytes)| put(first + row, bytes));
            });
        }
    });
    all
}

/// The factors of a row, one for each run of columns.
fn put_factors(matrix: &Matrix, row: usize, to: &mut [u8]) {
    let (of_row, columns) = match &matrix.scales {
        Some(scales) => (scales.of_row(row), scales.columns()),
        None => (&[1.0][..], usize::MAX),
    };
    for (index, bytes) in to.as_chunks_mut().0.iter_mut().take(factors(matrix)).enumerate() {
        *bytes = of_row[index * TILE_COLUMNS / columns].to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use kauri_formats::Tiles;

    use super::*;

    fn sent(matrix: &Matrix, planes: bool) -> Vec<u8> {
        let mut all = Vec::new();
        let Ok(()) = each(matrix, planes, &mut |bytes, behind| {
            assert_eq!(behind, all.len());
            all.extend_from_slice(bytes);
            Ok::<(), std::convert::Infallible>(())
        });
        assert_eq!(all.len(), bytes(matrix, planes));
        all
    }

    /// Three rows of 260 codes, in tiles of two rows and 128 columns.
    #[test]
    fn factors_of_tiles_are_repeated_for_rows() {
        let data: Vec<u8> = (0..3 * 260).map(|index| index as u8).collect();
        let scales = Some(Tiles::new([1.0, 2.0, 3.0, 4.0, 5.0, 6.0].into(), [2, 128], 3));
        let matrix = Matrix { quant: Quant::F8_E4M3, rows: 3, columns: 260, data: data.clone().into(), scales };
        let floats =
            |bytes: &[u8]| bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<_>>();
        let rows = sent(&matrix, false);
        for (row, bytes) in rows.chunks_exact(272 + 16).enumerate() {
            assert_eq!(bytes[..260], data[row * 260..(row + 1) * 260]);
            assert_eq!(bytes[260..272], [0; 12]);
            let expected = if row < 2 { [1.0, 2.0, 3.0, 0.0] } else { [4.0, 5.0, 6.0, 0.0] };
            assert_eq!(floats(&bytes[272..]), expected);
        }
        let planes = sent(&matrix, true);
        assert_eq!(planes[..780], data);
        assert_eq!(floats(&planes[780..]), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn blocks_of_nvfp4_have_their_factor_behind_each_row() {
        let matrix = Matrix {
            quant: Quant::NVFP4,
            rows: 2,
            columns: 64,
            data: vec![7; 72].into(),
            scales: Some(Tiles::whole(0.5)),
        };
        let expected = [&[7; 36][..], &0.5_f32.to_le_bytes()].concat().repeat(2);
        assert_eq!(sent(&matrix, false), expected);
        let without = sent(&Matrix { scales: None, ..matrix }, false);
        assert_eq!(without[36..40], 1.0_f32.to_le_bytes());
    }
}
