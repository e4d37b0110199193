//! What a family writes into a weight slot: which tensor, which part of it, and what it must look like.

use std::fmt;
use std::ops::Range;

/// The tensor that fills a weight slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// The tensor's name in this file.
    pub tensor: String,
    /// The dimensions that the whole tensor must have, outermost first; those of one count for nothing.
    pub dims: Vec<u64>,
    /// The rows that belong to the slot, where several slots share one tensor. A stack of matrices is one of all their rows, a
    /// stack of vectors one of all their values.
    pub rows: Option<Range<u64>>,
    /// From one of these rows to the next; one, but where slots take turns.
    pub step: u64,
    /// What the slot is used for.
    pub role: Role,
}

/// How a slot is used, which settles how it is kept in memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// An operand of a matrix product, or a table of rows: stays as it is stored.
    Matrix,
    /// A matrix in MXFP4 whose codes are this tensor, `(.., rows, columns / 32, 16)` bytes with two neighbours in each, and whose
    /// exponents are another: put together when it is loaded.
    Coded {
        /// The tensor of the exponents, one for 32 columns.
        scales: String,
        /// Its dimensions.
        scales_dims: Vec<u64>,
    },
    /// Norm weights, biases, factors: a few values, kept as `f32` with `plus` added to each.
    Vector {
        /// What the file leaves out (one, where norm weights are stored around zero).
        plus: f32,
    },
    /// A few values kept as `f32`, each as `-e^value`: decays, where the file keeps their logarithms.
    NegativeExp,
    /// As many ones, of no tensor: the weight of a norm that has none.
    Ones,
}

impl Name {
    /// Stored values of a row: one, where the slot is a vector.
    pub fn columns(&self) -> u64 {
        match self.role {
            Role::Matrix => self.dims.last().copied().unwrap_or(1),
            Role::Coded { .. } => self.dims.iter().rev().take(2).product(),
            Role::Vector { .. } | Role::NegativeExp | Role::Ones => 1,
        }
    }

    /// The rows of the tensor that belong to the slot.
    pub fn slot_rows(&self) -> Range<u64> {
        let all = self.dims.iter().product::<u64>() / self.columns().max(1);
        self.rows.clone().unwrap_or(0..all)
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
