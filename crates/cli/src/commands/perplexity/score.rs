//! The arithmetic of perplexity and divergence: rows of logits in, means out.

/// The natural logarithms of the probabilities of every token, as logits and what normalises them.
#[derive(Clone, Debug)]
pub struct LogProbabilities<'r> {
    logits: &'r [f32],
    /// The logarithm of the sum of the exponentials of the logits.
    log_sum: f64,
}

/// How surprised the model was: the mean of the negative logarithms, and its error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surprise {
    count: u64,
    sum: f64,
    sum_of_squares: f64,
}

/// How far predictions are from those of a base: the Kullback-Leibler divergence from the base, a token at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Divergence {
    count: u64,
    sum: f64,
    max: f64,
    same_top: u64,
}

impl<'r> LogProbabilities<'r> {
    /// Normalises a row of logits, (vocab).
    pub fn new(logits: &'r [f32]) -> Self {
        let top = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - top).exp()).sum();
        Self { logits, log_sum: top + sum.ln() }
    }

    /// That of one token.
    pub fn of(&self, token: u32) -> f64 {
        f64::from(self.logits[token as usize]) - self.log_sum
    }

    /// That of every token in order.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        self.logits.iter().map(|&logit| f64::from(logit) - self.log_sum)
    }

    /// The likeliest token, the first of several.
    pub fn top(&self) -> usize {
        let mut top = 0;
        for (token, &logit) in self.logits.iter().enumerate() {
            if logit > self.logits[top] {
                top = token;
            }
        }
        top
    }
}

impl Surprise {
    /// Counts a token with this negative logarithm of its probability.
    pub fn add(&mut self, surprise: f64) {
        self.count += 1;
        self.sum += surprise;
        self.sum_of_squares += surprise * surprise;
    }

    /// Tokens counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exponential of the mean.
    pub fn perplexity(&self) -> f64 {
        (self.sum / self.count as f64).exp()
    }

    /// The standard error of the perplexity.
    pub fn standard_error(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let mean = self.sum / self.count as f64;
        let variance = (self.sum_of_squares / self.count as f64 - mean * mean).max(0.0);
        (variance / (self.count - 1) as f64).sqrt() * self.perplexity()
    }
}

impl Divergence {
    /// Counts a token that both predict.
    pub fn add(&mut self, base: &LogProbabilities<'_>, own: &LogProbabilities<'_>) {
        let divergence: f64 = base.iter().zip(own.iter()).map(|(base, own)| base.exp() * (base - own)).sum();
        self.count += 1;
        self.sum += divergence;
        self.max = self.max.max(divergence);
        self.same_top += u64::from(base.top() == own.top());
    }

    /// The mean over all tokens.
    pub fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }

    /// That of the token where it is largest.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The share of tokens for which both hold the same token likeliest.
    pub fn same_top_share(&self) -> f64 {
        self.same_top as f64 / self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perplexity_of_even_odds_is_the_number_of_choices() {
        let row = [3.0; 5];
        let mut surprise = Surprise::default();
        for token in 0..5 {
            surprise.add(-LogProbabilities::new(&row).of(token));
        }
        assert!((surprise.perplexity() - 5.0).abs() < 1e-12);
        assert!(surprise.standard_error() < 1e-6);
    }

    #[test]
    fn the_error_is_that_of_the_mean() {
        // Logarithms 1 and 3: mean 2, variance 1, error of the mean 1 with one degree of freedom.
        let mut surprise = Surprise::default();
        surprise.add(1.0);
        surprise.add(3.0);
        assert!((surprise.standard_error() - 2.0_f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn divergence_follows_its_definition() {
        let (even, tilted) = ([0.0, 0.0], [0.75_f32.ln(), 0.25_f32.ln()]);
        let mut divergence = Divergence::default();
        divergence.add(&LogProbabilities::new(&even), &LogProbabilities::new(&tilted));
        let expected = 0.5 * (0.5_f64 / 0.75).ln() + 0.5 * (0.5_f64 / 0.25).ln();
        assert!((divergence.mean() - expected).abs() < 1e-7, "{}", divergence.mean());
        // The first of equals is the top.
        assert_eq!(divergence.same_top_share(), 1.0);
        divergence.add(&LogProbabilities::new(&[0.0, 1.0]), &LogProbabilities::new(&tilted));
        assert_eq!(divergence.same_top_share(), 0.5);
    }

    #[test]
    fn large_logits_do_not_overflow() {
        assert!(LogProbabilities::new(&[1e30, 0.0]).of(0).abs() < 1e-12);
    }
}
