//! How many tokens of prompts a step reads while answers are being written: as many as make it about twice as long as without, so that who
//! reads along sees little more of another's prompt. Some are read in any case: with fewer, places stand empty whose prompts are not read, and less
//! is written in all.
//!
//! What a step takes is nearly what writing takes and so much for each token of a prompt. Both are fitted to the steps behind (least
//! squares, the latest counting most). It has no clock: it is told what steps took.

use std::time::Duration;

/// What is left of a step's weight with each that follows: the last twenty count.
const MEMORY: f64 = 0.95;
/// The fewest tokens that are read. Sixteen at a time, with prompts of 600 tokens to kauri-nano on two cores of a Xeon, wrote 471 tokens a second with
/// chunks of 128, 442 with 64, 438 with 48 and 333 with 16.
const TOKENS_MIN: u32 = 48;
/// How many times as long as foreseen a step may have taken, to be believed: the system may have had others run meanwhile.
const SURPRISE_MAX: f64 = 3.0;
/// By how much what a token costs may change with a step.
const CHANGE_MAX: f64 = 1.25;
/// The least variance of tokens in a step, squared tokens, that says what one costs.
const VARIANCE_MIN: f64 = 4.0;

/// The size of the next chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    most: u32,
    /// Seconds of a token of a prompt, once one was read.
    each_s: Option<f64>,
    /// Sums over steps in which answers were written, by weight: of ones, tokens of prompts, seconds, and products of these.
    steps: f64,
    tokens: f64,
    seconds: f64,
    tokens_tokens: f64,
    tokens_seconds: f64,
}

impl Chunk {
    /// Of `most` tokens at most, which are read until more is known.
    pub(super) fn new(most: u32) -> Self {
        Self { most, each_s: None, steps: 0.0, tokens: 0.0, seconds: 0.0, tokens_tokens: 0.0, tokens_seconds: 0.0 }
    }

    /// A step took so long that wrote so many answers and read so many tokens of prompts.
    pub(super) fn learn(&mut self, answers: u32, tokens: u32, time: Duration) {
        let (tokens, seconds) = (f64::from(tokens), time.as_secs_f64());
        if answers == 0 {
            // Too much, as there is more to a step; it is put right by those with answers.
            if tokens > 0.0 {
                self.each_s.get_or_insert(seconds / tokens);
            }
            return;
        }
        let foreseen_s = self.writing_s().map(|writing_s| writing_s + self.each_s.unwrap_or(seconds) * tokens);
        let seconds = foreseen_s.map_or(seconds, |foreseen_s| seconds.min(foreseen_s * SURPRISE_MAX));
        let sums = [
            (&mut self.steps, 1.0),
            (&mut self.tokens, tokens),
            (&mut self.seconds, seconds),
            (&mut self.tokens_tokens, tokens * tokens),
            (&mut self.tokens_seconds, tokens * seconds),
        ];
        for (sum, more) in sums {
            *sum = *sum * MEMORY + more;
        }
        let variance = self.tokens_tokens / self.steps - (self.tokens / self.steps).powi(2);
        if tokens > 0.0 && variance > VARIANCE_MIN {
            let covariance = self.tokens_seconds / self.steps - self.tokens * self.seconds / self.steps.powi(2);
            let fitted_s = covariance / variance;
            self.each_s = Some(match self.each_s {
                Some(before_s) => fitted_s.clamp(before_s / CHANGE_MAX, before_s * CHANGE_MAX),
                None => fitted_s.max(0.0),
            });
        }
    }

    /// The most tokens of prompts that the next step should read, if it writes answers, too.
    pub(super) fn tokens(&self) -> u32 {
        let as_long = self.writing_s().zip(self.each_s).map_or(f64::INFINITY, |(writing_s, each_s)| writing_s / each_s);
        (as_long as u32).max(TOKENS_MIN).min(self.most)
    }

    /// Seconds of a step that reads nothing.
    fn writing_s(&self) -> Option<f64> {
        let each_s = self.each_s.unwrap_or(0.0);
        (self.steps > 0.0).then(|| ((self.seconds - each_s * self.tokens) / self.steps).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps on a machine where writing takes so many milliseconds and each token so many more; the sizes of the chunks.
    fn chunks(chunk: &mut Chunk, writing_ms: f64, each_ms: f64, steps: u32) -> Vec<u32> {
        let step = |index: u32| {
            // Prompts come now and then, several steps long, and every ninth step is a surprise.
            let tokens = if index % 16 < 6 { chunk.tokens() } else { 0 };
            let ms = writing_ms + each_ms * f64::from(tokens);
            let ms = if index % 9 == 8 { ms * 2.0 } else { ms * (1.0 + 0.1 * f64::from(index % 3)) };
            chunk.learn(16, tokens, Duration::from_secs_f64(ms / 1e3));
            tokens
        };
        (0..steps).map(step).filter(|&tokens| tokens > 0).collect()
    }

    #[test]
    fn a_step_that_reads_takes_about_twice_as_long() {
        let mut chunk = Chunk::new(128);
        assert_eq!(chunk.tokens(), 128, "nothing is known yet");
        chunk.learn(0, 20, Duration::from_millis(10));
        let sizes = chunks(&mut chunk, 24.0, 0.34, 320);
        assert!(sizes[24..].iter().all(|size| (52..=104).contains(size)), "70 would be right: {sizes:?}");
        // Fewer write now, and then more again.
        let sizes = chunks(&mut chunk, 6.8, 0.34, 320);
        assert!(sizes[24..].iter().all(|&size| size == TOKENS_MIN), "20 would be right: {sizes:?}");
        let sizes = chunks(&mut chunk, 30.0, 0.34, 320);
        assert!(sizes[24..].iter().all(|size| (62..=126).contains(size)), "88 would be right: {sizes:?}");
    }

    #[test]
    fn where_reading_costs_next_to_nothing_as_much_is_read_as_may_be() {
        let mut chunk = Chunk::new(128);
        // The first prompt was short, and its step took what steps take.
        chunk.learn(0, 20, Duration::from_millis(5));
        let sizes = chunks(&mut chunk, 5.0, 0.005, 320);
        assert!(sizes[24..].iter().all(|&size| size == 128), "{sizes:?}");
    }

    #[test]
    fn prompts_go_on_where_reading_is_slow_and_no_bound_is_passed() {
        let mut chunk = Chunk::new(128);
        chunk.learn(0, 100, Duration::from_secs(6));
        let sizes = chunks(&mut chunk, 300.0, 60.0, 160);
        assert!(sizes[4..].iter().all(|&size| size == TOKENS_MIN), "{sizes:?}");
        let mut chunk = Chunk::new(4);
        assert_eq!(chunk.tokens(), 4);
        chunk.learn(0, 100, Duration::from_secs(6));
        assert!(chunks(&mut chunk, 300.0, 60.0, 160).iter().all(|&size| size == 4));
    }
}
