//! Walks rows block by block: slices on one side, one type's fixed-size arrays on the other.
//!
//! Lengths are checked by the caller; what is in a block is the business of the types.

use super::search;

/// Runs one type's dequantiser over every block: `BYTES` bytes become `VALUES` values.
#[inline(always)]
pub(super) fn dequantise<const BYTES: usize, const VALUES: usize>(
    blocks: &[u8],
    values: &mut [f32],
    dequantise: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    for (block, values) in blocks.as_chunks().0.iter().zip(values.as_chunks_mut().0) {
        dequantise(block, values);
    }
}

/// The same for types whose block is one value.
#[inline(always)]
pub(super) fn dequantise_values<const BYTES: usize>(
    blocks: &[u8],
    values: &mut [f32],
    dequantise: impl Fn([u8; BYTES]) -> f32,
) {
    for (block, value) in blocks.as_chunks().0.iter().zip(values) {
        *value = dequantise(*block);
    }
}

/// What is to be quantised: whole rows, a row a whole number of blocks.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) values: &'a [f32],
    /// Values in a row; not zero.
    pub(super) columns: usize,
    /// How much an error in each column matters, from activations seen by the model; `columns` long.
    pub(super) importance: Option<&'a [f32]>,
}

impl Rows<'_> {
    /// For types that have no use for importance.
    pub(super) fn quantise<const BYTES: usize, const VALUES: usize>(
        self,
        out: &mut [u8],
        quantise: impl Fn(&[f32; VALUES], &mut [u8; BYTES]),
    ) {
        for (values, block) in self.values.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
            quantise(values, block);
        }
    }

    /// For types whose block is one value.
    pub(super) fn quantise_values<const BYTES: usize>(self, out: &mut [u8], quantise: impl Fn(f32) -> [u8; BYTES]) {
        for (value, block) in self.values.iter().zip(out.as_chunks_mut().0) {
            *block = quantise(*value);
        }
    }

    /// For types that turn importance into weights themselves: the quantiser sees that of its block's columns.
    pub(super) fn quantise_by_importance<const BYTES: usize, const VALUES: usize>(
        self,
        out: &mut [u8],
        quantise: impl Fn(&[f32; VALUES], Option<&[f32; VALUES]>, &mut [u8; BYTES]),
    ) {
        let blocks_per_row = self.columns / VALUES;
        let importance = self.importance.map(|importance| importance.as_chunks().0);
        for (i, (values, block)) in self.values.as_chunks().0.iter().zip(out.as_chunks_mut().0).enumerate() {
            quantise(values, importance.map(|importance| &importance[i % blocks_per_row]), block);
        }
    }

    /// For types whose error weights depend on the whole row: the quantiser sees one weight for each value.
    pub(super) fn quantise_by_weight<const BYTES: usize, const VALUES: usize>(
        self,
        out: &mut [u8],
        quantise: impl Fn(&[f32; VALUES], Option<&[f32; VALUES]>, &mut [u8; BYTES]),
    ) {
        let row_bytes = self.columns / VALUES * BYTES;
        let mut weights = vec![0.0; if self.importance.is_some() { self.columns } else { 0 }];
        for (values, out) in self.values.chunks_exact(self.columns).zip(out.chunks_exact_mut(row_bytes)) {
            let weighted = self.importance.map(|importance| {
                search::weigh(values, importance, search::mean_square(values), &mut weights);
                &*weights
            });
            let row = Rows { values, columns: self.columns, importance: weighted };
            row.quantise_by_importance(out, &quantise);
        }
    }
}
