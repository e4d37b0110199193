//! Top-p's cut: the last of the fewest tokens whose probabilities reach p, without sorting.
//!
//! Where the probability is with few tokens, those near the largest logit are gathered and looked through; the rest need not be weighed
//! where the cut is the same whether they weigh the least or the most that the largest logits of their blocks allow. Where it is spread
//! over many, all are weighed and noted. A pass over what was noted gives the sums from three weights up, and between which two of them
//! the cut lies; an eighth of the blocks tell about where, and the next pass looks close by, until few tokens are left between two sums.
//! These are gathered and looked through; what the tokens above weigh is known for each span, and that is what the draw needs.

use fearless_simd::dispatch;

use super::row::{BLOCK, LANES, Row, blocks_from, blocks_with_bits};
use super::weights::{SPAN, Weighing, divide, exponential, sums_from, weigh_maxima, weigh_row, weight};
use super::{Candidate, Sampler};

/// The most blocks whose tokens are gathered without knowing better.
const NEAR_BLOCKS_MAX: usize = 256;
/// How far below the largest logit the sums are looked for first, and behind all that weighs anything.
const DISTANCES: [f32; PROBES] = [6.0, 9.0, 12.0];
const END: f32 = 88.0;
/// The sums of a pass, and those of a pass over a sample of one block of so many.
const PROBES: usize = 3;
const SAMPLED: usize = 9;
const SAMPLE_ONE_OF: usize = 8;
/// The most tokens that are not worth another pass, and the most passes: two leave at most a quarter of the distance.
const GATHERED_MAX: f64 = 512.0;
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

    /// Whether another pass would leave fewer tokens, and that is worth it. Where all are equal nothing comes between them.
    fn is_wide(&self) -> bool {
        (self.far_sum - self.near_sum) / weight(-self.far) > GATHERED_MAX && self.width() > 1e-4
    }

    /// Three distances about where the sum would reach `target` if all were as the sample, whose sums these are.
    fn guess(&self, target: f64, sums: [f64; SAMPLED]) -> [f32; PROBES] {
        let (first, last) = (sums[0], sums[SAMPLED - 1]);
        let wanted = first + (last - first) * ((target - self.near_sum) / (self.far_sum - self.near_sum));
        let mut sampled = Self { near_sum: first, far_sum: last, ..*self };
        sampled.narrow(self.sampled(), sums, wanted);
        let share = (wanted - sampled.near_sum) / (sampled.far_sum - sampled.near_sum);
        let margin = self.width() / 64.0;
        // A share of nothing is no number.
        let share = if share > 0.0 { share.min(1.0) as f32 } else { 0.0 };
        let middle = (sampled.near + sampled.width() * share).clamp(self.near + margin, self.far - margin);
        [middle - margin, middle, middle + margin]
    }
}

impl Sampler {
    /// The cut, among what `cut` keeps of a row whose largest logit is `max`.
    pub(super) fn top_p(&mut self, row: &Row<'_>, max: f32, cut: Candidate) -> Candidate {
        if let Some(found) = self.top_p_of_few(row, max, cut) {
            return found;
        }
        let what = Weighing::new(max, 1.0, cut);
        let Self { level, block_max, weights, span_weight, .. } = self;
        weights.resize(row.blocks(), [0.0; BLOCK]);
        span_weight.resize(row.blocks().div_ceil(SPAN), 0.0);
        dispatch!(*level, simd => weigh_row(simd, row, block_max, what, weights, span_weight));
        self.weights_max = max;
        let total: f64 = self.span_weight.iter().sum();
        let target = total * f64::from(self.sampling.top_p);
        let between = self.close_in(total, target);
        let [near, far] = [between.near, between.far].map(|distance| exponential(-distance));
        let above = self.gather_between(row, far.max(f32::MIN_POSITIVE), near);
        let found = self.last_needed(target - above, max, cut);
        for candidate in self.candidates.iter().filter(|candidate| found.keeps(candidate.logit, candidate.token)) {
            let block = candidate.token as usize / BLOCK;
            self.span_weight[block / SPAN] += f64::from(self.weights[block][candidate.token as usize % BLOCK]);
        }
        self.span_cut = Some(found);
        found
    }

    /// Passes over the weights that were noted until few tokens, or only equal ones, are between two sums.
    fn close_in(&self, total: f64, target: f64) -> Between {
        // Nothing is above the largest.
        let mut between = Between { near: -0.1, near_sum: 0.0, far: END, far_sum: total };
        let mut distances = DISTANCES;
        for _ in 0..PASSES_MAX {
            let width = between.width();
            between.narrow(distances, self.sums_at(distances, 1), target);
            if !between.is_wide() {
                break;
            }
            distances = if between.far == END {
                [1.5, 3.0, 6.0].map(|step| (between.near + step).min(END))
            } else if between.width() > width / 3.0 && width < DISTANCES[0] {
                // The sample was no good.
                between.even()
            } else {
                between.guess(target, self.sums_at(between.sampled(), SAMPLE_ONE_OF))
            };
        }
        between
    }

    /// What the tokens up to each distance from the largest logit weigh, in one of so many blocks.
    fn sums_at<const COUNT: usize>(&self, distances: [f32; COUNT], one_of: usize) -> [f64; COUNT] {
        let ladder = distances.map(|distance| exponential(-distance));
        dispatch!(self.level, simd => sums_from(simd, &self.weights, ladder, one_of))
    }

    /// The cut where it lies among few tokens, whatever the others weigh.
    fn top_p_of_few(&mut self, row: &Row<'_>, max: f32, cut: Candidate) -> Option<Candidate> {
        for distance in [4.0, 8.0, 16.0] {
            let floor = (max - distance).max(cut.logit);
            let Self { level, block_max, places, candidates, .. } = self;
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
            let near: f64 = self.candidates.iter().map(|candidate| weight(candidate.logit - max)).sum();
            // Of each block but those, the largest token weighs this and no other more; a block that was gathered may have more below.
            let (mut least, mut most) = (0.0, 0.0);
            if floor > cut.logit {
                let maxima = &self.block_max;
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
        if self.weights_max == max {
            f64::from(self.weights[candidate.token as usize / BLOCK][candidate.token as usize % BLOCK])
        } else {
            weight(candidate.logit - max)
        }
    }

    /// Gathers the tokens that weigh from `low` up to `above`, notes what those from there up come to in each span, and returns their sum.
    fn gather_between(&mut self, row: &Row<'_>, low: f32, above: f32) -> f64 {
        let Self { level, weights, span_weight, candidates, between, places, .. } = self;
        between.resize(weights.len(), 0);
        places.resize(weights.len() + LANES, 0);
        let count = dispatch!(*level, simd => {
            divide(simd, weights, low, above, span_weight, between);
            blocks_with_bits(simd, between, places)
        });
        candidates.clear();
        for &block in &places[..count] {
            let mut bits = between[block as usize];
            while bits != 0 {
                let token = block * BLOCK as u32 + bits.trailing_zeros();
                bits &= bits - 1;
                candidates.push(Candidate { logit: row.logits[token as usize].min(f32::MAX), token });
            }
        }
        span_weight.iter().sum()
    }

    /// Of the candidates, in the order of the stages, the one with which their weights reach `missing`: the last, if they do not;
    /// `cut`, if there is none. The candidates stay, in another order.
    fn last_needed(&mut self, mut missing: f64, max: f32, cut: Candidate) -> Candidate {
        let mut candidates = std::mem::take(&mut self.candidates);
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
        self.candidates = candidates;
        found
    }
}
