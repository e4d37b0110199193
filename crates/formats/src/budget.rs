//! The memory that reading one model may take beside its mapping.
//!
//! Counts in a file are promises of whoever made it. Whatever is allocated for one is drawn from here first, so that a
//! file of any content costs its own size and [`MEMORY_BYTES_MAX`] at most.

use crate::error::Error;

/// Memory that settings and tensor tables of a model may take together, in bytes. A vocabulary of a million tokens takes
/// half of it.
pub const MEMORY_BYTES_MAX: u64 = 56 << 20;

/// How much is left.
pub(crate) struct Budget {
    drawn: u64,
    max: u64,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { drawn: 0, max: MEMORY_BYTES_MAX }
    }

    /// Draws the memory of `count` things of `size` bytes, before they are allocated.
    pub(crate) fn draw(&mut self, count: u64, size: usize) -> Result<(), Error> {
        self.drawn = self.drawn.saturating_add(count.saturating_mul(size as u64));
        if self.drawn > self.max {
            return Err(Error::Limit {
                what: "memory for settings and tensor table, in bytes".to_owned(),
                value: self.drawn,
                max: self.max,
            });
        }
        Ok(())
    }

    /// Allows as much more as a file has bytes that reading it does not touch: a model of a terabyte may have a longer
    /// table than one of a megabyte.
    pub(crate) fn extend(&mut self, bytes: u64) {
        self.max = self.max.saturating_add(bytes);
    }
}
