//! Which rows of a step meet weights in which way.

use kauri_device::Batch;

use crate::activation::Rows;
use crate::detect::{Kernels, Phase};

/// Neighbouring rows of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The rows.
    pub rows: Rows,
    /// What they are to their sequences.
    pub phase: Phase,
}

/// All rows of a step, in order.
#[derive(Debug, Default)]
pub struct Runs(Vec<Run>);

impl Runs {
    /// With room for steps of so many rows.
    pub fn new(rows: usize) -> Self {
        Self(Vec::with_capacity(rows.max(1)))
    }

    /// Those of a batch, where kernels differ by phase; else all of them as one.
    pub fn begin(&mut self, kernels: Kernels, batch: &Batch) {
        self.0.clear();
        if !kernels.prefills() {
            return self.add(batch.tokens.len(), Phase::Decode);
        }
        for sequence in &batch.sequences {
            let [prompt, written] = sequence.phases();
            self.add(prompt.len(), Phase::Prefill);
            self.add(written.len(), Phase::Decode);
        }
    }

    /// So many rows that are outputs: their logits are the same whatever they are the end of.
    pub fn of_outputs(&mut self, rows: usize) {
        self.0.clear();
        self.add(rows, Phase::Decode);
    }

    /// Adds so many rows.
    fn add(&mut self, count: usize, phase: Phase) {
        let first = self.0.last().map_or(0, |run| run.rows.first + run.rows.tokens);
        match self.0.last_mut() {
            _ if count == 0 => {}
            Some(run) if run.phase == phase => run.rows.tokens += count,
            _ => self.0.push(Run { rows: Rows { first, tokens: count }, phase }),
        }
    }

    /// The runs.
    pub fn iter(&self) -> impl Iterator<Item = Run> + Clone + '_ {
        self.0.iter().copied()
    }

    /// The phases that there are.
    pub fn phases(&self) -> impl Iterator<Item = Phase> + Clone + '_ {
        [Phase::Prefill, Phase::Decode].into_iter().filter(|&phase| self.iter().any(|run| run.phase == phase))
    }

    /// The phase of the only row.
    pub fn only(&self) -> Phase {
        self.0.first().map_or(Phase::Decode, |run| run.phase)
    }

    /// The run of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn of(&self, row: usize) -> Run {
        let behind = self.0.partition_point(|run| run.rows.first <= row);
        self.0[behind - 1]
    }

    /// Rows in all.
    pub fn rows(&self) -> usize {
        self.0.last().map_or(0, |run| run.rows.first + run.rows.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_phase_are_a_run() {
        let mut runs = Runs::new(8);
        for (count, phase) in [(1, Phase::Decode), (1, Phase::Decode), (0, Phase::Prefill), (3, Phase::Prefill)] {
            runs.add(count, phase);
        }
        runs.add(2, Phase::Decode);
        let each: Vec<_> = runs.iter().map(|run| (run.rows.first, run.rows.tokens, run.phase)).collect();
        assert_eq!(each, [(0, 2, Phase::Decode), (2, 3, Phase::Prefill), (5, 2, Phase::Decode)]);
        assert_eq!(runs.rows(), 7);
        let of: Vec<_> = (0..7).map(|row| runs.of(row).rows.first).collect();
        assert_eq!(of, [0, 0, 2, 2, 2, 5, 5]);
    }
}
