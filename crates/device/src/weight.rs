//! Weights as loading hands them to a device: stored bytes of the file, still mapped, and short vectors as `f32`; beside a matrix,
//! what adapters add to its products.

use std::sync::Arc;

use kauri_formats::{Bytes, Quant, Tiles};

/// What fills a slot of a loaded shape.
#[derive(Clone, Debug)]
pub enum Weight {
    /// A matrix or table, as it is stored.
    Matrix(Matrix),
    /// Norm weights, biases, rope factors.
    Vector(Vec<f32>),
    /// A matrix, as it is stored, and what adapters add to its products.
    Adapted(Adapted),
}

/// A matrix and what adapters add to its products, for the sequences that have them: never merged.
#[derive(Clone, Debug)]
pub struct Adapted {
    /// The model's own.
    pub matrix: Matrix,
    /// One place for each adapter that is loaded; nothing where it leaves the matrix as it is.
    pub parts: Arc<[Option<LowRank>]>,
}

/// What one adapter adds: `factor * up (down x)` (LoRA: Hu 2021, arXiv:2106.09685, where they are `B` and `A`). Two matrices that are small
/// enough to be numbers as kernels want them.
#[derive(Clone, Debug)]
pub struct LowRank {
    /// Rows of `down`.
    pub rank: usize,
    /// `(rank, columns of the matrix)`.
    pub down: Arc<[f32]>,
    /// Turned: `(rank, rows of the matrix)`.
    pub up: Arc<[f32]>,
    /// What the adapter says of its own strength: alpha over the rank, or over its root. A sequence's scale comes on top.
    pub factor: f32,
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
    /// What its values are multiplied with, where the file has that apart: a factor for each tile of [`Quant::F8_E4M3`], one for all of
    /// other types.
    pub scales: Option<Tiles>,
}

impl Weight {
    /// The matrix in a slot that holds one.
    ///
    /// # Panics
    /// If the slot holds a vector: loading has checked the roles of all slots.
    pub fn matrix(&self) -> &Matrix {
        match self {
            Self::Matrix(matrix) | Self::Adapted(Adapted { matrix, .. }) => matrix,
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
            Self::Matrix(_) | Self::Adapted(_) => panic!("a matrix where a vector belongs"),
        }
    }

    /// What the adapter of this number adds to the products of the matrix in this slot, if anything.
    pub fn low_rank(&self, adapter: u32) -> Option<&LowRank> {
        match self {
            Self::Matrix(_) | Self::Vector(_) => None,
            Self::Adapted(adapted) => adapted.parts.get(adapter as usize)?.as_ref(),
        }
    }

    /// Whether some adapter adds something to the products of the matrix in this slot.
    pub fn is_adapted(&self) -> bool {
        match self {
            Self::Matrix(_) | Self::Vector(_) => false,
            Self::Adapted(_) => true,
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

    /// Writes the values of one row.
    pub fn dequantise(&self, row: usize, values: &mut [f32]) {
        self.quant.dequantise(self.row(row), values);
        if let Some(scales) = &self.scales {
            scales.multiply(row, values);
        }
    }

    /// All values, row after row.
    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.rows * self.columns];
        for (row, values) in values.chunks_exact_mut(self.columns.max(1)).enumerate() {
            self.dequantise(row, values);
        }
        values
    }

    /// Some of its rows, as they are stored; as `F32` where their factors lie apart.
    #[must_use]
    pub fn pick(&self, rows: &[usize]) -> Self {
        let Self { quant, columns, .. } = *self;
        if self.scales.is_none() {
            let data = Bytes::from(rows.iter().flat_map(|&row| self.row(row)).copied().collect::<Vec<u8>>());
            return Self { quant, rows: rows.len(), columns, data, scales: None };
        }
        let mut values = vec![0.0; columns];
        let mut data = Vec::with_capacity(4 * rows.len() * columns);
        for &row in rows {
            self.dequantise(row, &mut values);
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Self { quant: Quant::F32, rows: rows.len(), columns, data: Bytes::from(data), scales: None }
    }

    /// Bytes of all that is stored.
    pub fn bytes(&self) -> u64 {
        (self.data.len() + self.scales.as_ref().map_or(0, Tiles::bytes)) as u64
    }
}
