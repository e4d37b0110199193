//! Top-p's cut: the last of the fewest tokens whose probabilities reach p, without sorting.
//!
//! All tokens are weighed once. Where the probability is with few of them, those are gathered and looked through. Where it is spread
//! over many, a sample of the row says between which two logits the cut must lie; one pass sums what is above and gathers what is
//! between, and only that is looked through. A sample that was wrong is found out by the sums, and everything is gathered.

use fearless_simd::dispatch;

use super::row::{BLOCK, Row, Weighing, split, weigh_tokens};
use super::{Candidate, Sampler};

/// The most blocks whose tokens are gathered without knowing better.
const NEAR_BLOCKS_MAX: usize = 512;
/// About how many blocks a sample has.
const SAMPLE_BLOCKS: usize = 160;
/// Sixteenths of a logit below the largest that a sample tells apart.
const SAMPLE_STEPS: usize = 1024;
/// How many standard deviations of the sample the cut is looked for within.
const SAMPLE_DEVIATIONS: f64 = 5.0;
/// Into how many parts candidates are divided at once, and how many are looked through one by one.
const PARTS: usize = 64;
const FEW: usize = 96;

impl Sampler {
    /// The cut, among what `cut` keeps of a row whose largest logit is `max`.
    pub(super) fn top_p(&mut self, row: &Row<'_>, max: f32, cut: Candidate) -> Candidate {
        let weighing = Weighing { max, temperature: 1.0, cut };
        self.weights.resize(row.blocks(), [0.0; BLOCK]);
        let total = dispatch!(self.level, _ => weigh_tokens(row, &self.block_max, weighing, &mut self.weights));
        self.weights_max = max;
        let target = total * f64::from(self.sampling.top_p);
        let (mut near, mut floor) = (0.0, f32::INFINITY);
        for distance in [4.0, 8.0, 16.0, f32::INFINITY] {
            let lower = (max - distance).max(cut.logit);
            if self.block_max.iter().filter(|&&block_max| block_max >= lower).count() > NEAR_BLOCKS_MAX {
                break;
            }
            floor = lower;
            self.gather(row, floor, cut);
            near = self.gathered_weight();
            if near >= target || floor == cut.logit || distance == f32::INFINITY {
                return self.last_needed(target, max, cut);
            }
        }
        let missing = target - near;
        let (low, high) = self.bracket(row, weighing, floor, missing / (total - near));
        let above = self.gather_between(row, weighing, low, high, floor);
        let between = self.gathered_weight();
        if above < missing && missing <= above + between {
            return self.last_needed(missing - above, max, cut);
        }
        self.gather_between(row, weighing, f32::MIN, floor, floor);
        self.last_needed(missing, max, cut)
    }

    fn gathered_weight(&self) -> f64 {
        let weights = self.weights.as_flattened();
        self.candidates.iter().map(|candidate| f64::from(weights[candidate.token as usize])).sum()
    }

    /// Two logits between which the tokens below `floor` probably reach `share` of their weight, by a sample of the row.
    fn bracket(&self, row: &Row<'_>, weighing: Weighing, floor: f32, share: f64) -> (f32, f32) {
        let Weighing { max, cut, .. } = weighing;
        let mut steps = [0.0_f64; SAMPLE_STEPS];
        let (mut total, mut squares) = (0.0, 0.0);
        let every = (row.blocks() / SAMPLE_BLOCKS).max(1);
        for block in (0..row.blocks()).step_by(every).filter(|&block| self.block_max[block] >= cut.logit) {
            for (token, logit) in row.tokens(block).filter(|&(token, logit)| logit < floor && cut.keeps(logit, token)) {
                let weight = f64::from(self.weights[block][token as usize % BLOCK]);
                steps[(((max - logit) * 16.0) as usize).min(SAMPLE_STEPS - 1)] += weight;
                total += weight;
                squares += weight * weight;
            }
        }
        let margin = SAMPLE_DEVIATIONS * squares.sqrt();
        let [first, last] = [share * total - margin, share * total + margin];
        let (mut high, mut low, mut sum) = (floor, cut.logit, 0.0);
        for (step, weight) in steps.iter().enumerate() {
            let upper = max - step as f32 / 16.0;
            if sum <= first {
                high = high.min(upper);
            }
            sum += weight;
            if sum >= last && step + 1 < SAMPLE_STEPS {
                // A little lower: what was rounded may have come into the next step.
                low = low.max(upper - 2.0 / 16.0);
                break;
            }
        }
        // And a little higher, too.
        (low, (high + 1.0 / 16.0).min(floor))
    }

    /// Gathers the tokens between two logits, `low` among them, and returns the weight of those from `high` up to `floor`.
    fn gather_between(&mut self, row: &Row<'_>, weighing: Weighing, low: f32, high: f32, floor: f32) -> f64 {
        let Self { level, block_max, weights, candidates, .. } = self;
        candidates.clear();
        dispatch!(*level, _ => {
            let mut above = 0.0;
            for (block, (&block_max, weights)) in block_max.iter().zip(weights.iter()).enumerate() {
                if block_max < low {
                    continue;
                }
                let logits = weighing.kept(row, block);
                let (heavy, mut bits) = split(&logits, weights, low, high);
                above += f64::from(heavy);
                if block_max >= floor {
                    above -= f64::from(split(&logits, weights, floor, floor).0);
                }
                while bits != 0 {
                    let at = bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    candidates.push(Candidate { logit: logits[at], token: (block * BLOCK + at) as u32 });
                }
            }
            above
        })
    }

    /// Of the candidates, in the order of the stages, the one with which their weights reach `missing`: the last, if they do not;
    /// `cut`, if there is none.
    fn last_needed(&mut self, mut missing: f64, max: f32, cut: Candidate) -> Candidate {
        let weights = self.weights.as_flattened();
        let mut within = &mut self.candidates[..];
        while within.len() > FEW {
            let logits = within.iter().map(|candidate| candidate.logit);
            let (low, high) = logits.fold((max, f32::MIN), |(low, high), logit| (low.min(logit), high.max(logit)));
            // Half a part less: rounding must not make one more of them.
            let scale = (PARTS as f32 - 0.5) / (high - low);
            if !scale.is_finite() {
                break;
            }
            let part = |candidate: &Candidate| ((high - candidate.logit) * scale) as usize;
            let mut sums = [0.0_f64; PARTS];
            for candidate in within.iter() {
                sums[part(candidate)] += f64::from(weights[candidate.token as usize]);
            }
            let mut chosen = 0;
            while chosen + 1 < PARTS && sums[chosen] < missing {
                missing -= sums[chosen];
                chosen += 1;
            }
            // The ones wanted to the front.
            let mut count = 0;
            for at in 0..within.len() {
                if part(&within[at]) == chosen {
                    within.swap(at, count);
                    count += 1;
                }
            }
            within = &mut within[..count];
        }
        within.sort_unstable_by(|a, b| a.order(*b));
        for candidate in within.iter() {
            missing -= f64::from(weights[candidate.token as usize]);
            if missing <= 0.0 {
                return *candidate;
            }
        }
        within.last().copied().unwrap_or(cut)
    }
}
