//! A loaded model, driven batch by batch with pseudo-random tokens, and the time of every forward pass.

use std::time::Instant;

use anyhow::bail;
use kauri_engine::{AdapterFile, Applied, Batch, Choice, Engine, Error, OpCost, Options};

use crate::failure::BadInput;

/// A model and the sequences that are measured on it.
pub struct Driver {
    engine: Engine,
    /// What every sequence has of adapters.
    adapters: Vec<Applied>,
    batch: Batch,
    batch_tokens: usize,
    /// The pages of each sequence: enough for a whole window.
    pages: Vec<Vec<u32>>,
    /// The token that each sequence decodes next.
    next: Vec<u32>,
    random: Random,
}

/// Numbers that look random and are the same on every run (xorshift64*: Vigna 2016, doi:10.1145/2845077).
pub(super) struct Random(u64);

impl Driver {
    /// Loads the model called `name`, with adapters that every sequence has, for `options.sequences` sequences of `needed_tokens` each. Without a window in the
    /// options the model's own is taken.
    ///
    /// # Errors
    /// When the model cannot be loaded, or the tokens do not fit its window.
    pub fn load(
        name: Option<&str>,
        options: &Options,
        adapters: &[AdapterFile],
        needed_tokens: u32,
    ) -> anyhow::Result<Self> {
        let too_small = |whose: &str, window: u32| {
            BadInput(format!(
                "these sizes need a window of {needed_tokens} tokens, but {whose} is {window}; ask for fewer tokens"
            ))
        };
        if let Some(window) = options.context_tokens.filter(|&window| window < needed_tokens) {
            bail!(too_small("--context", window));
        }
        let mut engine = match Engine::load_with(name, options, adapters) {
            Err(Error::Window(window)) if window.asked == needed_tokens => {
                bail!(too_small("the model's", window.trained))
            }
            loaded => loaded?,
        };
        if !engine.writes() {
            bail!(Error::OnlyReads);
        }
        if engine.window_tokens() < needed_tokens {
            bail!(too_small("the window", engine.window_tokens()));
        }
        // What an answer would do with its first tokens.
        while engine.copy_weights() {}
        let plan = *engine.executor().plan();
        let pages_each = plan.pages / options.sequences;
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        Ok(Self {
            adapters: engine.applied(None)?,
            batch: Batch::default(),
            batch_tokens: plan.batch_tokens as usize,
            pages: (0..options.sequences)
                .map(|sequence| (sequence * pages_each..(sequence + 1) * pages_each).collect())
                .collect(),
            next: (0..options.sequences).map(|_| random.below(engine.vocab())).collect(),
            random,
            engine,
        })
    }

    /// The model.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Reads `tokens` new tokens of every sequence behind `depth` cached ones, in passes as full as the device takes them;
    /// the logits of each sequence's last token are computed and a token is chosen. Gives the seconds of each pass.
    ///
    /// # Errors
    /// When the device is lost, or the logits are not numbers.
    pub fn prefill(&mut self, depth: u32, tokens: u32) -> anyhow::Result<Vec<f64>> {
        let (tokens, vocab) = (tokens as usize, self.engine.vocab());
        let mut seconds = Vec::new();
        for sequence in 0..self.pages.len() {
            let mut done = 0;
            while done < tokens {
                if self.batch.tokens.len() == self.batch_tokens {
                    seconds.push(self.pass()?);
                }
                let count = (self.batch_tokens - self.batch.tokens.len()).min(tokens - done);
                let piece: Vec<u32> = (0..count).map(|_| self.random.below(vocab)).collect();
                let outputs = usize::from(done + count == tokens);
                self.push(sequence, &piece, depth + done as u32, outputs);
                done += count;
            }
        }
        seconds.push(self.pass()?);
        Ok(seconds)
    }

    /// Writes `steps` tokens of every sequence behind `depth` cached ones, each the most likely after the one before it.
    /// Gives the seconds of each pass.
    ///
    /// # Errors
    /// As [`Driver::prefill`].
    pub fn decode(&mut self, depth: u32, steps: u32) -> anyhow::Result<Vec<f64>> {
        let step = |step| {
            for sequence in 0..self.pages.len() {
                let token = self.next[sequence];
                self.push(sequence, &[token], depth + step, 1);
                self.batch.write(depth + step);
            }
            self.pass()
        };
        (0..steps).map(step).collect()
    }

    /// What every operation cost while `run` ran.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn measured(&mut self, run: impl FnOnce(&mut Self) -> anyhow::Result<Vec<f64>>) -> anyhow::Result<Vec<OpCost>> {
        self.engine.executor().measure(true);
        run(self)?;
        let costs = self.engine.executor().measured().to_vec();
        self.engine.executor().measure(false);
        Ok(costs)
    }

    fn push(&mut self, sequence: usize, tokens: &[u32], depth: u32, outputs: usize) {
        let reach = self.engine.window_tokens();
        self.batch.push(tokens, depth, &self.pages[sequence], sequence as u32, reach, outputs);
        self.batch.adapt(&self.adapters);
    }

    /// Runs the batch, empties it, and keeps the tokens that were chosen where every sequence got one.
    fn pass(&mut self) -> anyhow::Result<f64> {
        let choices = vec![Choice::Greedy { mask: None }; self.batch.outputs.len()];
        let start = Instant::now();
        self.engine.executor().launch(&self.batch)?;
        let sampled = self.engine.executor().sample(&choices)?;
        let seconds = start.elapsed().as_secs_f64();
        let Some(tokens) = sampled.tokens.iter().copied().collect::<Option<Vec<u32>>>() else {
            return Err(Error::NotFinite.into());
        };
        self.engine.verify_unchanged()?;
        if tokens.len() == self.next.len() {
            self.next = tokens;
        }
        self.batch.clear();
        Ok(seconds)
    }
}

impl Random {
    /// The numbers of a seed.
    pub(super) fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number under `limit`.
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32;
        ((u64::from(high) * u64::from(limit)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn random_tokens_are_in_the_vocabulary_and_spread_over_it() {
        let mut random = Random(1);
        let mut seen = [0u32; 10];
        (0..1000).for_each(|_| seen[random.below(10) as usize] += 1);
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
    }
}
