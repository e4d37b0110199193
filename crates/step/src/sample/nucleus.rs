//! Top-p's cut: the last of the fewest tokens whose probabilities reach p, without sorting.
//!
//! Where the probability is with few tokens, those near the largest logit are gathered and looked through; the rest need not be weighed
//! where the cut is the same whether they weigh the least or the most that the largest logits of their blocks allow. Where it is spread
//! over many, all are weighed and noted, with the sums from a few weights up. The sum from a weight up is a smooth curve in most rows: where
//! it reaches p is guessed from the nearest of its points, and a pass over what was noted finds three more about the guess, until few tokens
//! are left between two of them. These are gathered and looked through; the tokens above are known as a sum for each span, which is what
//! the draw needs.

use fearless_simd::dispatch;

use super::row::{BLOCK, Row};
use super::weights::{SPAN, Weighing, divide, exponential, sums_from, weigh_maxima, weigh_row, weight};
use super::{Candidate, Sampler};

/// The most blocks whose tokens are gathered without knowing better.
const NEAR_BLOCKS_MAX: usize = 256;
/// How far below the largest logit the sums are known first, and behind all that weighs anything.
const DISTANCES: [f32; 3] = [5.0, 8.5, 12.0];
const END: f32 = 88.0;
/// The most tokens worth another pass, and the most passes: each leaves at most half of the distance, most a sixteenth.
const GATHERED: f64 = 512.0;
const PASSES_MAX: usize = 12;
/// Into how many parts candidates are divided at once, and how many are looked through one by one.
const PARTS: usize = 64;
const FEW: usize = 96;

/// How much the tokens up to a distance from the largest logit weigh.
#[derive(Clone, Copy, Debug)]
struct Point {
    distance: f32,
    sum: f64,
}

/// Between which distances the cut lies: behind the second point, and no farther than the third. The outer ones are their neighbours.
#[derive(Clone, Copy, Debug)]
struct Between([Point; 4]);

impl Between {
    fn new(total: f64) -> Self {
        // Nothing is above the largest.
        let (first, last) = (Point { distance: -1.0, sum: 0.0 }, Point { distance: END, sum: total });
        Self([first, first, last, last])
    }

    /// Takes in the sums at three rising distances between the two.
    fn narrow(&mut self, distances: [f32; 3], sums: [f64; 3], target: f64) {
        let Self([before, near, far, behind]) = *self;
        let [a, b, c] = std::array::from_fn(|at| Point { distance: distances[at], sum: sums[at] });
        let points = [before, near, a, b, c, far, behind];
        let reached = (2..5).find(|&at| points[at].sum >= target).unwrap_or(5);
        *self = Self(std::array::from_fn(|at| points[reached - 2 + at]));
    }

    /// The most tokens that may be between the two.
    fn tokens_max(&self) -> f64 {
        let Self([_, near, far, _]) = self;
        (far.sum - near.sum) / weight(-far.distance)
    }

    fn width(&self) -> f32 {
        self.0[2].distance - self.0[1].distance
    }

    /// Three distances about where the curve is thought to reach `target`.
    fn guess(&self, target: f64) -> [f32; 3] {
        let Self([_, near, far, _]) = self;
        if far.distance == END {
            return [1.5, 3.0, 6.0].map(|step| (near.distance + step).min(END));
        }
        let width = self.width();
        // As many tokens on each side as are gathered at most, or as far off as the curve may be misjudged.
        let tokens = (far.sum - near.sum) / weight(-0.5 * (near.distance + far.distance));
        let step = (width / 16.0).max(width * (0.4 * GATHERED / tokens) as f32).min(width / 2.0);
        let middle = self.inverse(target).clamp(near.distance + step / 4.0, far.distance - step / 4.0);
        [(middle - step).max(near.distance), middle, (middle + step).min(far.distance)]
    }

    /// The distance at which a polynomial through the points has the sum (Neville's scheme).
    fn inverse(&self, target: f64) -> f32 {
        let mut points = [(0.0, 0.0); 4];
        let mut count = 0;
        for point in self.0 {
            if point.distance < END && (count == 0 || points[count - 1].0 < point.sum) {
                points[count] = (point.sum, f64::from(point.distance));
                count += 1;
            }
        }
        for level in 1..count {
            for at in 0..count - level {
                let ((from, left), (to, _), (_, right)) = (points[at], points[at + level], points[at + 1]);
                points[at].1 = ((to - target) * left + (target - from) * right) / (to - from);
            }
        }
        points[0].1 as f32
    }
}

impl Sampler {
    /// The cut, among what `cut` keeps of a row whose largest logit is `max`.
    pub(super) fn top_p(&mut self, row: &Row<'_>, max: f32, cut: Candidate) -> Candidate {
        if let Some(found) = self.top_p_of_few(row, max, cut) {
            return found;
        }
        let what = Weighing::new(max, 1.0, cut);
        let ladder = |distances: [f32; 3]| distances.map(|distance| exponential(-distance));
        let Self { level, block_max, weights, span_weight, .. } = self;
        weights.resize(row.blocks(), [0.0; BLOCK]);
        span_weight.resize(row.blocks().div_ceil(SPAN), 0.0);
        let first = ladder(DISTANCES);
        let sums = dispatch!(*level, simd => weigh_row(simd, row, block_max, what, first, weights, span_weight));
        self.weights_max = max;
        let total: f64 = self.span_weight.iter().sum();
        let target = total * f64::from(self.sampling.top_p);
        let mut between = Between::new(total);
        between.narrow(DISTANCES, sums, target);
        for _ in 0..PASSES_MAX {
            // Where all are equal nothing comes between them.
            if between.tokens_max() <= GATHERED || between.width() < 1e-4 {
                break;
            }
            let distances = between.guess(target);
            let steps = ladder(distances);
            let sums = dispatch!(self.level, simd => sums_from(simd, &self.weights, steps));
            between.narrow(distances, sums, target);
        }
        let [near, far] = [between.0[1], between.0[2]].map(|point| exponential(-point.distance));
        let above = self.gather_between(row, far.max(f32::MIN_POSITIVE), near);
        let found = self.last_needed(target - above, max, cut);
        for candidate in self.candidates.iter().filter(|candidate| found.keeps(candidate.logit, candidate.token)) {
            let block = candidate.token as usize / BLOCK;
            self.span_weight[block / SPAN] += f64::from(self.weights[block][candidate.token as usize % BLOCK]);
        }
        self.span_cut = Some(found);
        found
    }

    /// The cut where it lies among few tokens, whatever the others weigh.
    fn top_p_of_few(&mut self, row: &Row<'_>, max: f32, cut: Candidate) -> Option<Candidate> {
        for distance in [4.0, 8.0, 16.0] {
            let floor = (max - distance).max(cut.logit);
            let near_blocks = self.block_max.iter().filter(|&&block_max| block_max >= floor).count();
            if near_blocks > NEAR_BLOCKS_MAX {
                return None;
            }
            self.gather(row, floor, cut);
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
        let Self { level, weights, span_weight, candidates, between, .. } = self;
        between.resize(weights.len(), 0);
        dispatch!(*level, simd => divide(simd, weights, low, above, span_weight, between));
        candidates.clear();
        for (block, &word) in between.iter().enumerate() {
            let mut bits = word;
            while bits != 0 {
                let token = block * BLOCK + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                candidates.push(Candidate { logit: row.logits[token].min(f32::MAX), token: token as u32 });
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
