//! Weights as loading hands them to a device: stored bytes of the file, still mapped, and short vectors as `f32`.

use kauri_formats::{Bytes, Quant};

/// What fills a slot of a loaded shape.
#[derive(Clone, Debug)]
pub enum Weight {
    /// A matrix or table, as it is stored.
    Matrix(Matrix),
    /// Norm weights, biases, rope factors.
    Vector(Vec<f32>),
}

/// A matrix `(rows, columns)`; a row is a run of blocks, rows follow each other without a gap.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// How its values are stored.
    pub quant: Quant,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// `rows * quant.row_bytes(columns)` bytes.
    pub data: Bytes,
}

impl Weight {
    /// The matrix in a slot that holds one.
    ///
    /// # Panics
    /// If the slot holds a vector: loading has checked the roles of all slots.
    pub fn matrix(&self) -> &Matrix {
        match self {
            Self::Matrix(matrix) => matrix,
            Self::Vector(_) => panic!("a vector where a matrix belongs"),
        }
    }

    /// The vector in a slot that holds one.
    ///
    /// # Panics
    /// If the slot holds a matrix: loading has checked the roles of all slots.
    pub fn vector(&self) -> &[f32] {
        match self {
            Self::Vector(values) => values,
            Self::Matrix(_) => panic!("a matrix where a vector belongs"),
        }
    }
}

impl Matrix {
    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.columns / self.quant.block_len() * self.quant.block_bytes()
    }

    /// The stored bytes of one row.
    pub fn row(&self, row: usize) -> &[u8] {
        let bytes = self.row_bytes();
        &self.data[row * bytes..(row + 1) * bytes]
    }
}
