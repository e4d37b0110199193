//! Activations as the integer kernels read them: bytes with one scale for 32 neighbours.
//!
//! Quantised once for all the products that share an input.

use crate::pool::Disjoint;
use crate::vector::Vector;

/// Columns that share a scale.
pub const GROUP: usize = 32;

/// Quantised rows of activations, sized at load.
pub struct Activations {
    /// (tokens, columns).
    values: Vec<i8>,
    /// (tokens, columns / 32).
    scales: Vec<f32>,
    /// Sums of the values of each 16 columns: (tokens, columns / 16).
    sums: Vec<i32>,
    columns: usize,
}

/// One token's row.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// The values, from -127 to 127.
    pub values: &'a [i8],
    /// What one step of a value stands for, for each 32 columns.
    pub scales: &'a [f32],
    /// The sum of the values of each 16 columns.
    pub sums: &'a [i32],
}

/// One token's row, to be written.
pub struct RowMut<'a> {
    values: &'a mut [i8],
    scales: &'a mut [f32],
    sums: &'a mut [i32],
}

impl Activations {
    /// Room for `values` activations in all.
    pub fn new(values: usize) -> Self {
        let (values, scales, sums) = (vec![0; values], vec![0.0; values.div_ceil(GROUP)], vec![0; values.div_ceil(16)]);
        Self { values, scales, sums, columns: 0 }
    }

    /// Starts over with rows of `columns` values, a multiple of 32.
    pub fn begin(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// The row of `token`.
    pub fn row(&self, token: usize) -> Row<'_> {
        let columns = self.columns;
        Row {
            values: &self.values[token * columns..][..columns],
            scales: &self.scales[token * columns / GROUP..][..columns / GROUP],
            sums: &self.sums[token * columns / 16..][..columns / 16],
        }
    }

    /// All rows, to be written by several workers.
    pub fn rows_mut(&mut self) -> RowsMut<'_> {
        RowsMut {
            values: Disjoint::new(&mut self.values),
            scales: Disjoint::new(&mut self.scales),
            sums: Disjoint::new(&mut self.sums),
            columns: self.columns,
        }
    }
}

/// All rows, to be written by several workers.
pub struct RowsMut<'a> {
    values: Disjoint<'a, i8>,
    scales: Disjoint<'a, f32>,
    sums: Disjoint<'a, i32>,
    columns: usize,
}

impl RowsMut<'_> {
    /// The row of `token`.
    ///
    /// # Safety
    /// No other use of the same row.
    pub unsafe fn row(&self, token: usize) -> RowMut<'_> {
        let range = |each: usize| token * self.columns / each..(token + 1) * self.columns / each;
        // SAFETY: rows do not overlap, and this one is in use once by the caller's word.
        unsafe {
            RowMut {
                values: self.values.slice(range(1)),
                scales: self.scales.slice(range(GROUP)),
                sums: self.sums.slice(range(16)),
            }
        }
    }
}

impl RowMut<'_> {
    /// Quantises one row: the formula.
    pub fn quantise(&mut self, x: &[f32]) {
        let groups = x.as_chunks::<GROUP>().0.iter().zip(self.values.as_chunks_mut::<GROUP>().0);
        let outputs = self.scales.iter_mut().zip(self.sums.as_chunks_mut::<2>().0);
        for ((x, values), (scale, sums)) in groups.zip(outputs) {
            let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            *scale = most / 127.0;
            let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
            for (value, x) in values.iter_mut().zip(x) {
                // The product is within ±127 up to rounding; not-a-number becomes zero.
                *value = (x * inverse).round_ties_even() as i8;
            }
            for (sum, values) in sums.iter_mut().zip(values.as_chunks::<16>().0) {
                *sum = values.iter().map(|&value| i32::from(value)).sum();
            }
        }
    }

    /// The same in vectors: the same values, not-a-number apart.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub unsafe fn quantise_with<V: Vector>(&mut self, x: &[f32]) {
        let groups = x.as_chunks::<GROUP>().0.iter().zip(self.values.as_chunks_mut::<GROUP>().0);
        let outputs = self.scales.iter_mut().zip(self.sums.as_chunks_mut::<2>().0);
        for ((x, values), (scale, sums)) in groups.zip(outputs) {
            // SAFETY: vectors lie inside the arrays of a group, whose length is a whole number of them.
            unsafe {
                let mut most = V::float(0.0);
                for at in (0..GROUP).step_by(V::LANES) {
                    let value = V::load(x.as_ptr().add(at));
                    most = V::max(V::max(value, V::sub(V::float(0.0), value)), most);
                }
                let most = V::most(most);
                *scale = most / 127.0;
                let inverse = V::float(if most > 0.0 { 127.0 / most } else { 0.0 });
                for half in 0..2 {
                    let mut sum = V::float(0.0);
                    for at in (16 * half..16 * half + 16).step_by(V::LANES) {
                        let value = V::round(V::mul(V::load(x.as_ptr().add(at)), inverse));
                        V::store_narrow(value, values.as_mut_ptr().add(at));
                        sum = V::add(sum, value);
                    }
                    // Whole numbers of this size are exact.
                    sums[half] = V::sum(sum) as i32;
                }
            }
        }
    }
}
