//! The stages that are no plain cut: top-n-sigma's spread, typical and XTC, which keep other sets than the first of the order, and the
//! temperature and mirostat, which look at the whole of what is left.

use super::{BLOCK, Candidate, Row, Sampler, draw_of, exponential, weight};

impl Sampler {
    /// The cut of top-n-sigma.
    pub(super) fn sigma(&mut self, row: &Row<'_>, max: f32) -> Candidate {
        let (mut count, mut sum, mut squares) = (0.0_f64, 0.0_f64, 0.0_f64);
        for block in 0..row.blocks() {
            for (_, logit) in row.tokens(block) {
                let below = f64::from(logit) - f64::from(max);
                count += 1.0;
                sum += below;
                squares += below * below;
            }
        }
        let variance = (squares / count - (sum / count) * (sum / count)).max(0.0);
        let logit = f64::from(max) - f64::from(self.sampling.top_n_sigma) * variance.sqrt();
        Candidate { logit: (logit as f32).clamp(f32::MIN, max), token: u32::MAX }
    }

    /// Takes out of the row what is not typical.
    ///
    /// With d the difference of a logit from the largest and W the sum of all weights, a token's surprise is ln W - d and the entropy
    /// ln W - mean d: their distance is that of d from its mean, and no logarithm is needed.
    pub(super) fn typical(&mut self, logits: &mut [f32], mask: Option<&[u32]>, max: f32, cut: Candidate) {
        self.gather(&Row { logits, mask }, cut.logit, cut);
        let (mut total, mut sum) = (0.0, 0.0);
        for candidate in &self.work.candidates {
            let below = candidate.logit - max;
            total += weight(below);
            sum += weight(below) * f64::from(below);
        }
        let mean = sum / total;
        let distance = |candidate: &Candidate| (f64::from(candidate.logit - max) - mean).abs();
        self.work.candidates.sort_unstable_by(|a, b| distance(a).total_cmp(&distance(b)).then(a.token.cmp(&b.token)));
        let mut missing = total * f64::from(self.sampling.typical_p);
        for candidate in &self.work.candidates {
            if missing <= 0.0 {
                logits[candidate.token as usize] = f32::NEG_INFINITY;
            }
            missing -= weight(candidate.logit - max);
        }
    }

    /// XTC: takes the most probable tokens out of the row, but for the last of those over the threshold. Whether it took any.
    pub(super) fn exclude_top(
        &mut self,
        logits: &mut [f32],
        mask: Option<&[u32]>,
        max: f32,
        cut: Candidate,
        position: u64,
    ) -> bool {
        if draw_of(self.sampling.seed, position, 1) >= f64::from(self.sampling.xtc_probability) {
            return false;
        }
        let row = Row { logits, mask };
        let least = self.weigh(&row, max, cut, 1.0) * f64::from(self.sampling.xtc_threshold);
        self.gather(&row, cut.logit, cut);
        self.work.candidates.retain(|candidate| weight(candidate.logit - max) >= least);
        self.work.candidates.sort_unstable_by(|a, b| a.order(*b));
        self.work.candidates.pop();
        for candidate in &self.work.candidates {
            logits[candidate.token as usize] = f32::NEG_INFINITY;
        }
        !self.work.candidates.is_empty()
    }

    /// The temperature for this token.
    pub(super) fn temperature(&mut self, row: &Row<'_>, max: f32, cut: Candidate) -> f32 {
        let sampling = self.sampling;
        if sampling.temperature_range == 0.0 {
            return sampling.temperature;
        }
        let (mut count, mut total, mut sum) = (0.0_f64, 0.0, 0.0);
        for block in (0..row.logits.len().div_ceil(BLOCK)).filter(|&block| self.work.block_max[block] >= cut.logit) {
            for (_, logit) in row.tokens(block).filter(|&(token, logit)| cut.keeps(logit, token)) {
                let below = logit - max;
                count += 1.0;
                total += weight(below);
                sum += weight(below) * f64::from(below);
            }
        }
        let entropy = natural_logarithm(total) - sum / total;
        let largest = natural_logarithm(count);
        let share = if count > 1.0 { (entropy / largest).clamp(0.0, 1.0) } else { 0.0 };
        let power = if share > 0.0 {
            exponential((f64::from(sampling.temperature_exponent) * natural_logarithm(share)) as f32)
        } else {
            0.0
        };
        let lower = (sampling.temperature - sampling.temperature_range).max(0.0);
        let upper = sampling.temperature + sampling.temperature_range;
        // A temperature of nothing would divide by it; this small, the largest has all the probability.
        (lower + (upper - lower) * power).max(1e-6)
    }

    /// The cut of mirostat: what surprises no more than it may.
    pub(super) fn mirostat(&mut self, row: &Row<'_>, max: f32, cut: Candidate, temperature: f32) -> Candidate {
        if self.sampling.mirostat_tau == 0.0 {
            return cut;
        }
        let total = self.weigh(row, max, cut, temperature);
        // p >= 2^-s where (logit - max) / temperature >= ln total - s ln 2.
        let least = natural_logarithm(total) - self.surprise_max * std::f64::consts::LN_2;
        let logit = f64::from(max) + least * f64::from(temperature);
        // The most probable stays, whatever it costs.
        cut.stricter(Candidate { logit: (logit as f32).clamp(f32::MIN, max), token: u32::MAX })
    }
}

/// The natural logarithm of a number over 0, within a few units in the last place, by additions, products and quotients alone: no two
/// machines' libraries agree on the last bit. The series of the inverse hyperbolic tangent, behind the exponent's share.
pub(super) fn natural_logarithm(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let mut series = 0.0;
    for term in (0..12).rev() {
        series = series * square + 1.0 / f64::from(2 * term + 1);
    }
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * ratio * series
}
