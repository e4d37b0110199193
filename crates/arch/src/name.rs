//! What a family writes into a weight slot: which tensor, which part of it, and what it must look like.

use std::fmt;
use std::ops::Range;

/// The tensor that fills a weight slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// The tensor's name in this file.
    pub tensor: String,
    /// The dimensions that the whole tensor must have, outermost first.
    pub dims: Vec<u64>,
    /// The rows that belong to the slot, where several slots share one tensor.
    pub rows: Option<Range<u64>>,
    /// What the slot is used for.
    pub role: Role,
}

/// How a slot is used, which settles how it is kept in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// An operand of a matrix product, or a table of rows: stays as it is stored.
    Matrix,
    /// Norm weights, biases, factors: a few values, kept as `f32` with `plus` added to each.
    Vector {
        /// What the file leaves out (one, where norm weights are stored around zero).
        plus: f32,
    },
}

impl Name {
    /// The dimensions of the slot: those of the tensor, or of its part.
    pub fn slot_dims(&self) -> Vec<u64> {
        let mut dims = self.dims.clone();
        if let (Some(rows), Some(outer)) = (&self.rows, dims.first_mut()) {
            *outer = rows.end - rows.start;
        }
        dims
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rows {
            Some(rows) => write!(f, "{} (rows {} to {})", self.tensor, rows.start, rows.end),
            None => f.write_str(&self.tensor),
        }
    }
}
