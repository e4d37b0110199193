//! Top-p's cut: the last of the fewest tokens whose probabilities reach p, without sorting.
//!
//! Where the probability is with few tokens, those near the largest logit are gathered and looked through; the rest need not be weighed
//! where the cut is the same whether they weigh the least or the most that the largest logits of their blocks allow. Where it is spread
//! over many, all are weighed and noted. A pass over what was noted gives the sums from three weights up, and between which two of them
//! the cut lies; an eighth of the blocks tell about where, and the next pass looks close by, until few tokens are left between two sums.
//! These are gathered and looked through; what the tokens above weigh is known for each span, and that is what the draw needs.

use fearless_simd::dispatch;

use super::row::{BLOCK, LANES, Row, blocks_from, blocks_with_bits, range_of};
use super::weights::{SPAN, Weighing, divide, exponential, sums_from, weigh_maxima, weigh_row, weight};
use super::{Candidate, Sampler, Workspace};

/// The most blocks, and tokens, that are gathered without knowing better.
const NEAR_BLOCKS_MAX: usize = 256;
const NEAR_TOKENS_MAX: usize = 1024;
/// How far below the largest logit the sums are looked for first, and behind all that weighs anything.
const DISTANCES: [f32; 4] = [4.0, 8.0, 12.0, 16.0];
const END: f32 = 88.0;
/// The sums of a later pass, and those of a pass over a sample of one block of so many.
const PROBES: usize = 3;
const SAMPLED: usize = 9;
const SAMPLE_ONE_OF: usize = 8;
/// The most tokens that are not worth another pass, and the most passes: of three, one leaves at most a third of the distance.
const GATHERED_MAX: f64 = 1536.0;
const PASSES_MAX: usize = 40;
/// Into how many parts candidates are divided at once, and how many are looked through one by one.
const PARTS: usize = 64;
const FEW: usize = 96;

/// Between which distances from the largest logit the cut lies, and how much the tokens up to each weigh: less than wanted, and enough.
#[derive(Clone, Copy, Debug)]
struct Between {
    near: f32,
    near_sum: f64,
    far: f32,
    far_sum: f64,
}

impl Between {
    /// Takes in the sums at rising distances.
    fn narrow<const COUNT: usize>(&mut self, distances: [f32; COUNT], sums: [f64; COUNT], target: f64) {
        for (distance, sum) in distances.into_iter().zip(sums) {
            if sum >= target {
                (self.far, self.far_sum) = (distance, sum);
                return;
            }
            (self.near, self.near_sum) = (distance, sum);
        }
    }

    fn width(&self) -> f32 {
        self.far - self.near
    }

    /// Distances that divide it into equal parts, between the two.
    fn even(&self) -> [f32; PROBES] {
        std::array::from_fn(|at| self.near + self.width() * ((at + 1) as f32 / (PROBES + 1) as f32))
    }

    /// The same with the two.
    fn sampled(&self) -> [f32; SAMPLED] {
        std::array::from_fn(|at| self.near + self.width() * (at as f32 / (SAMPLED - 1) as f32))
    }

    /// The most tokens that may be between the two.
    fn tokens_max(&self) -> f64 {
        (self.far_sum - self.near_sum) / weight(-self.far)
    }

    /// Whether more tokens are between the two than are gathered, and not all equal: nothing comes between these.
    fn is_wide(&self) -> bool {
        self.tokens_max() > GATHERED_MAX && self.width() > 1e-4
    }

    /// About how many tokens are in so much of it.
    fn tokens_within(&self, distances: [f32; PROBES]) -> f64 {
        let share = f64::from((distances[PROBES - 1] - distances[0]) / self.width());
        share * (self.far_sum - self.near_sum) / weight(-distances[PROBES - 1])
    }

    /// Three distances about where the sum would reach `target` if all were as the sample, whose sums these are.
    fn guess(&self, target: f64, sums: [f64; SAMPLED]) -> [f32; PROBES] {
        let (first, last) = (sums[0], sums[SAMPLED - 1]);
        let wanted = first + (last - first) * ((target - self.near_sum) / (self.far_sum - self.near_sum));
        let mut sampled = Self { near_sum: first, far_sum: last, ..*self };
        sampled.narrow(self.sampled(), sums, wanted);
        let share = (wanted - sampled.near_sum) / (sampled.far_sum - sampled.near_sum);
        let margin = self.width() / 96.0;
        // A share of nothing is no number.
        let share = if share > 0.0 { share.min(1.0) as f32 } else { 0.0 };
        let middle = (sampled.near + sampled.width() * share).clamp(self.near + margin, self.far - margin);
        [middle - margin, middle, middle + margin]
    }
}

impl Sampler {
    /// The cut, among what `cut` keeps of a row whose largest logit is `max`.
    pub(super) fn top_p(&mut self, row: &Row<'_>, max: f32, cut: Candidate) -> Candidate {
        match self.top_p_of_few(row, max, cut) {
            Some(found) => found,
            None => self.top_p_of_many(row, max, cut),
        }
    }

    /// The cut wherever it lies: everything is weighed.
    pub(super) fn top_p_of_many(&mut self, row: &Row<'_>, max: f32, cut: Candidate) -> Candidate {
        let what = Weighing::new(max, 1.0, cut);
        let Self { level, work: Workspace { block_max, weights, span_weight, .. }, .. } = self;
        weights.resize(row.blocks(), [0.0; BLOCK]);
        span_weight.resize(row.blocks().div_ceil(SPAN), 0.0);
        dispatch!(*level, simd => weigh_row(simd, row, block_max, what, weights, span_weight));
        self.weights_max = max;
        let total: f64 = self.work.span_weight.iter().sum();
        let target = total * f64::from(self.sampling.top_p);
        let (above, is_many) = self.close_in(total, target);
        let found = match is_many.then(|| self.equal_logit(row)).flatten() {
            Some(logit) => self.last_of_equals(target - above, logit),
            None => self.last_of_gathered(row, target - above, max, cut),
        };
        self.span_cut = Some(found);
        found
    }

    /// Finds few tokens, or only equal ones, of which one is the cut; what those above them weigh, and whether they are many.
    fn close_in(&mut self, total: f64, target: f64) -> (f64, bool) {
        // Nothing is above the largest.
        let mut between = Between { near: -0.1, near_sum: 0.0, far: END, far_sum: total };
        between.narrow(DISTANCES, self.sums_at(DISTANCES, 1), target);
        let mut misses = 0;
        for _ in 0..PASSES_MAX {
            if !between.is_wide() {
                break;
            }
            let width = between.width();
            let mut distances = between.even();
            if between.far == END {
                distances = [2.0, 5.0, 10.0].map(|step| (between.near + step).min(END));
            } else if misses < 2 {
                distances = between.guess(target, self.sums_at(between.sampled(), SAMPLE_ONE_OF));
                if between.tokens_within(distances) <= GATHERED_MAX {
                    let [near, _, far] = distances;
                    let [above, reached] = self.divide_at(near, far);
                    if above < target && target <= reached {
                        return (above, false);
                    }
                    between.narrow([near, far], [above, reached], target);
                    misses += 1;
                    continue;
                }
            }
            between.narrow(distances, self.sums_at(distances, 1), target);
            // Behind a miss the next guess is better, beside a sum that is known; not so where tokens stand unlike the sample's.
            misses = if between.width() > width / 3.0 { misses + 1 } else { 0 };
        }
        let is_many = between.tokens_max() > GATHERED_MAX;
        (self.divide_at(between.near, between.far)[0], is_many)
    }

    /// What the tokens up to each distance from the largest logit weigh, in one of so many blocks.
    fn sums_at<const COUNT: usize>(&self, distances: [f32; COUNT], one_of: usize) -> [f64; COUNT] {
        let ladder = distances.map(|distance| exponential(-distance));
        dispatch!(self.level, simd => sums_from(simd, &self.work.weights, ladder, one_of))
    }

    /// The cut where it lies among few tokens, whatever the others weigh.
    pub(super) fn top_p_of_few(&mut self, row: &Row<'_>, max: f32, cut: Candidate) -> Option<Candidate> {
        for distance in [4.0, 8.0, 16.0] {
            let floor = (max - distance).max(cut.logit);
            let Self { level, work: Workspace { block_max, places, candidates, .. }, .. } = self;
            places.resize(block_max.len() + LANES, 0);
            let count = dispatch!(*level, simd => blocks_from(simd, block_max, floor, places));
            if count > NEAR_BLOCKS_MAX {
                return None;
            }
            candidates.clear();
            for &block in &places[..count] {
                let near =
                    row.tokens(block as usize).filter(|&(token, logit)| logit >= floor && cut.keeps(logit, token));
                candidates.extend(near.map(|(token, logit)| Candidate { logit, token }));
            }
            if self.work.candidates.len() > NEAR_TOKENS_MAX {
                return None;
            }
            let near: f64 = self.work.candidates.iter().map(|candidate| weight(candidate.logit - max)).sum();
            // Of each block but those, the largest token weighs this and no other more; a block that was gathered may have more below.
            let (mut least, mut most) = (0.0, 0.0);
            if floor > cut.logit {
                let maxima = &self.work.block_max;
                let (far, all) = dispatch!(self.level, simd => weigh_maxima(simd, maxima, max, floor));
                (least, most) = (if cut.logit == f32::MIN { far } else { 0.0 }, BLOCK as f64 * all);
            }
            let share = f64::from(self.sampling.top_p);
            let [first, last] = [least, most].map(|rest| (near + rest) * share);
            if last <= near || floor == cut.logit {
                let found = self.last_needed(last, max, cut);
                if first == last || self.last_needed(first, max, cut) == found {
                    return Some(found);
                }
            }
        }
        None
    }

    /// What a token weighs at temperature 1.
    fn weight_of(&self, candidate: Candidate, max: f32) -> f64 {
        if self.weights_max == max { self.noted(candidate) } else { weight(candidate.logit - max) }
    }

    /// The same, where it was noted.
    fn noted(&self, candidate: Candidate) -> f64 {
        f64::from(self.work.weights[candidate.token as usize / BLOCK][candidate.token as usize % BLOCK])
    }

    /// Finds the tokens between two distances from the largest logit, notes what those nearer come to in each span, and returns the sums of
    /// these and of both.
    fn divide_at(&mut self, near: f32, far: f32) -> [f64; 2] {
        // What weighs nothing is not needed by any cut.
        let (low, above) = (exponential(-far).max(f32::MIN_POSITIVE), exponential(-near));
        let Self { level, work: Workspace { weights, span_weight, between, .. }, .. } = self;
        between.resize(weights.len(), 0);
        let reached = dispatch!(*level, simd => divide(simd, weights, low, above, span_weight, between));
        [span_weight.iter().sum(), reached]
    }

    /// The logit of the tokens that were found, where it is the same of all.
    fn equal_logit(&self, row: &Row<'_>) -> Option<f32> {
        let (least, most) = dispatch!(self.level, simd => range_of(simd, row, &self.work.between));
        (least == most).then_some(least)
    }

    /// Of the tokens that were found, which all have this logit, the one with which their weights reach `missing`.
    fn last_of_equals(&mut self, missing: f64, logit: f32) -> Candidate {
        let mut found = Candidate { logit, token: 0 };
        let mut left = u32::MAX;
        for (block, &word) in self.work.between.iter().enumerate().filter(|&(_, &word)| word != 0) {
            let first = Candidate { logit, token: block as u32 * BLOCK as u32 + word.trailing_zeros() };
            let each = self.noted(first);
            if left == u32::MAX {
                left = (missing / each).ceil().max(1.0) as u32;
            }
            let taken = left.min(word.count_ones());
            let last = (1..taken).fold(word, |word, _| word & (word - 1)).trailing_zeros();
            found.token = block as u32 * BLOCK as u32 + last;
            self.work.span_weight[block / SPAN] += f64::from(taken) * each;
            left -= taken;
            if left == 0 {
                break;
            }
        }
        found
    }

    /// Of the tokens that were found, the one with which their weights reach `missing`.
    fn last_of_gathered(&mut self, row: &Row<'_>, missing: f64, max: f32, cut: Candidate) -> Candidate {
        let Self { level, work: Workspace { candidates, between, places, .. }, .. } = self;
        places.resize(between.len() + LANES, 0);
        let count = dispatch!(*level, simd => blocks_with_bits(simd, between, places));
        candidates.clear();
        for &block in &places[..count] {
            let mut bits = between[block as usize];
            while bits != 0 {
                let token = block * BLOCK as u32 + bits.trailing_zeros();
                bits &= bits - 1;
                candidates.push(Candidate { logit: row.logits[token as usize].min(f32::MAX), token });
            }
        }
        let found = self.last_needed(missing, max, cut);
        for &candidate in &self.work.candidates {
            let share = f64::from(u8::from(found.keeps(candidate.logit, candidate.token)));
            self.work.span_weight[candidate.token as usize / BLOCK / SPAN] += share * self.noted(candidate);
        }
        found
    }

    /// Of the candidates, in the order of the stages, the one with which their weights reach `missing`: the last, if they do not;
    /// `cut`, if there is none. The candidates stay, in another order.
    fn last_needed(&mut self, mut missing: f64, max: f32, cut: Candidate) -> Candidate {
        let mut candidates = std::mem::take(&mut self.work.candidates);
        let mut within = &mut candidates[..];
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
                sums[part(candidate)] += self.weight_of(*candidate, max);
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
        let mut found = within.last().copied().unwrap_or(cut);
        for candidate in within.iter() {
            missing -= self.weight_of(*candidate, max);
            if missing <= 0.0 {
                found = *candidate;
                break;
            }
        }
        self.work.candidates = candidates;
        found
    }
}
