//! A GGUF file that is to be made: its settings, its tensors, and where the values of each come from.
//!
//! Nothing is read until a range of rows is asked for, so that a draft of any size takes no memory. This knows neither families
//! nor how types are chosen: `convert` and `quantize` do.

use std::borrow::Cow;
use std::ops::Range;

use kauri_formats::{Bytes, Checkpoint, Metadata, Quant, Source, Tensor};

use crate::mxfp4;

/// A file to be made.
#[derive(Debug)]
pub struct Draft {
    /// Its settings.
    pub metadata: Metadata,
    /// Its tensors, in the order of the file.
    pub tensors: Vec<Planned>,
}

/// A tensor to be made.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// Its dimensions, outermost first.
    pub dims: Vec<u64>,
    /// How its values are stored where they come from.
    pub quant: Quant,
    /// Where they come from.
    pub(crate) values: Values,
}

/// Where values come from.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// A tensor as it is stored.
    Stored(Bytes),
    /// Pieces of tensors, one after the other.
    Pieces(Vec<Piece>),
    /// Numbers that were computed.
    Made(Vec<f32>),
}

/// Rows of one tensor.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The tensor.
    pub(crate) tensor: Tensor,
    /// Values of a row of it; one where it is a vector.
    pub(crate) columns: usize,
    /// The first row.
    pub(crate) first: usize,
    /// From one row to the next.
    pub(crate) step: usize,
    /// How many.
    pub(crate) count: usize,
    /// Those rows in another order.
    pub(crate) rows: Option<Vec<u32>>,
    /// The columns in another order.
    pub(crate) order: Option<Vec<u32>>,
    /// What is done to each value.
    pub(crate) change: Change,
    /// What the values of so many rows are multiplied with, one after the other; none where they are not.
    pub(crate) factors: Vec<(usize, f32)>,
    /// The exponents, where the tensor is codes of MXFP4.
    pub(crate) scales: Option<Tensor>,
}

/// What is done to a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// This is added.
    Plus(f32),
    /// It becomes `-e^value`.
    NegativeExp,
}

impl Draft {
    /// The same file again; its tensors may be stored otherwise. Parts of a split file become one.
    ///
    /// `None` for a safetensors directory: that is what `convert` is for.
    pub fn of_gguf(checkpoint: &Checkpoint) -> Option<Self> {
        let Source::Gguf(source) = &checkpoint.source else { return None };
        let mut metadata = Metadata::default();
        for (key, value) in source.iter().filter(|(key, _)| !key.starts_with("split.")) {
            metadata.insert(key.to_owned(), value.clone());
        }
        let tensor = |(name, tensor): (&String, &Tensor)| Planned {
            name: name.clone(),
            dims: tensor.dims.clone(),
            quant: tensor.quant,
            values: Values::Stored(tensor.data.clone()),
        };
        Some(Self { metadata, tensors: checkpoint.tensors.iter().map(tensor).collect() })
    }
}

impl Planned {
    /// Values of a row.
    pub fn columns(&self) -> usize {
        self.dims.last().copied().unwrap_or(1) as usize
    }

    /// Rows, those of all matrices of a stack together.
    pub fn rows(&self) -> usize {
        self.dims.iter().rev().skip(1).product::<u64>() as usize
    }

    /// Rows of one matrix of a stack.
    pub fn rows_of_one(&self) -> usize {
        self.dims.iter().rev().nth(1).copied().unwrap_or(1) as usize
    }

    /// Bytes it takes as `quant`; `None` if its rows are no whole blocks of that.
    pub fn bytes(&self, quant: Quant) -> Option<u64> {
        Some(quant.row_bytes(self.columns())? as u64 * self.rows() as u64)
    }

    /// The rows as they are stored, if they are stored as `quant`.
    pub(crate) fn stored(&self, quant: Quant, rows: Range<usize>) -> Option<Cow<'_, [u8]>> {
        if self.quant != quant {
            return None;
        }
        let row_bytes = quant.row_bytes(self.columns())?;
        match &self.values {
            Values::Stored(bytes) => bytes.get(rows.start * row_bytes..rows.end * row_bytes).map(Cow::Borrowed),
            Values::Pieces(pieces) if pieces.iter().all(|piece| piece.scales.is_some()) => {
                let mut blocks = Vec::with_capacity(rows.len() * row_bytes);
                for (piece, within) in self.cut(pieces, rows) {
                    blocks.extend_from_slice(&piece.blocks(within)?);
                }
                Some(Cow::Owned(blocks))
            }
            Values::Pieces(_) | Values::Made(_) => None,
        }
    }

    /// Appends the values of the rows to `out`.
    pub(crate) fn values(&self, rows: Range<usize>, out: &mut Vec<f32>) {
        let columns = self.columns();
        let start = out.len();
        match &self.values {
            Values::Stored(bytes) => {
                let row_bytes = self.quant.row_bytes(columns).unwrap_or_default();
                out.resize(start + rows.len() * columns, 0.0);
                self.quant.dequantise(&bytes[rows.start * row_bytes..rows.end * row_bytes], &mut out[start..]);
            }
            Values::Made(values) => out.extend_from_slice(&values[rows.start * columns..rows.end * columns]),
            Values::Pieces(pieces) => {
                for (piece, within) in self.cut(pieces, rows) {
                    piece.values(within, out);
                }
            }
        }
    }

    /// The pieces that rows of the tensor lie in, and which rows of each.
    fn cut<'a>(&self, pieces: &'a [Piece], rows: Range<usize>) -> Vec<(&'a Piece, Range<usize>)> {
        let columns = self.columns();
        let mut found = Vec::new();
        let mut first = 0;
        for piece in pieces {
            // A vector's rows are its values.
            let last = first + piece.count;
            let wanted = rows.start * columns / piece.columns..rows.end * columns / piece.columns;
            let within = wanted.start.max(first)..wanted.end.min(last);
            if !within.is_empty() {
                found.push((piece, within.start - first..within.end - first));
            }
            first = last;
        }
        found
    }
}

impl Piece {
    /// Where row `row` of the piece is in the tensor.
    fn place(&self, row: usize) -> usize {
        let row = self.rows.as_ref().map_or(row, |rows| rows[row] as usize);
        self.first + row * self.step
    }

    /// Whether values are as they are stored.
    pub(crate) fn is_plain(&self) -> bool {
        self.change == Change::None && self.factors.is_empty()
    }

    fn values(&self, rows: Range<usize>, out: &mut Vec<f32>) {
        let (quant, columns, start) = (self.tensor.quant, self.columns, out.len());
        out.resize(start + rows.len() * columns, 0.0);
        let new = &mut out[start..];
        if self.scales.is_some() {
            if let Some(blocks) = self.blocks(rows) {
                Quant::MXFP4.dequantise(&blocks, new);
            }
            return;
        }
        let put = |row: usize, count: usize, values: &mut [f32]| {
            // Looked at when the draft was made.
            let Ok((data, scales)) = self.tensor.part(row..row + count, columns) else { return };
            quant.dequantise(&data, values);
            if let Some(scales) = scales {
                values.chunks_exact_mut(columns).enumerate().for_each(|(row, values)| scales.multiply(row, values));
            }
        };
        if self.rows.is_none() && self.step == 1 {
            put(self.place(rows.start), rows.len(), new);
        } else {
            for (row, values) in rows.clone().zip(new.chunks_exact_mut(columns)) {
                put(self.place(row), 1, values);
            }
        }
        if let Some(order) = &self.order {
            let mut row = vec![0.0; columns];
            for values in new.chunks_exact_mut(columns) {
                row.copy_from_slice(values);
                values.iter_mut().zip(order).for_each(|(value, &from)| *value = row[from as usize]);
            }
        }
        match self.change {
            Change::None => {}
            Change::Plus(plus) => new.iter_mut().for_each(|value| *value += plus),
            Change::NegativeExp => new.iter_mut().for_each(|value| *value = -value.exp()),
        }
        let mut last = 0;
        for &(count, factor) in &self.factors {
            let (first, end) = (rows.start.max(last), rows.end.min(last + count));
            if first < end {
                let part = (first - rows.start) * columns..(end - rows.start) * columns;
                new[part].iter_mut().for_each(|value| *value *= factor);
            }
            last += count;
        }
    }

    /// Rows of codes and exponents, put together.
    fn blocks(&self, rows: Range<usize>) -> Option<Bytes> {
        let scales = self.scales.as_ref()?;
        mxfp4::blocks(&self.tensor.data, &scales.data, self.columns / 32, rows.map(|row| self.place(row)))
    }
}
