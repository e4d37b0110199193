//! Top-p's cut: the last of the fewest tokens whose probabilities reach p, without sorting.
//!
//! Where the probability is with few tokens, those near the largest logit are gathered and looked through; the rest need not be weighed
//! where the cut is the same whether they weigh the least or the most that the largest logits of their blocks allow. Where it is spread
//! over many, all are weighed, and a pass finds between which two of a few logits the cut lies; after two only what is between them is
//! gathered and looked through.

use fearless_simd::dispatch;

use super::row::{BLOCK, LADDER, Row, Weighing, split, weigh_ladder, weigh_tokens};
use super::{Candidate, Sampler, weight};

/// The most blocks whose tokens are gathered without knowing better.
const NEAR_BLOCKS_MAX: usize = 256;
/// How far below the largest logit the cut is looked for first.
const DISTANCES: [f32; LADDER] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 16.0];
/// Into how many parts candidates are divided at once, and how many are looked through one by one.
const PARTS: usize = 64;
const FEW: usize = 96;

impl Sampler {
    /// The cut, among what `cut` keeps of a row whose largest logit is `max`.
    pub(super) fn top_p(&mut self, row: &Row<'_>, max: f32, cut: Candidate) -> Candidate {
        if let Some(found) = self.top_p_of_few(row, max, cut) {
            return found;
        }
        let weighing = Weighing { max, temperature: 1.0, cut };
        let mut ladder = DISTANCES.map(|distance| max - distance);
        let Self { level, block_max, weights, .. } = self;
        weights.resize(row.blocks(), [0.0; BLOCK]);
        let (total, sums) = dispatch!(*level, _ => weigh_tokens(row, block_max, weighing, &ladder, weights));
        self.weights_max = max;
        let target = total * f64::from(self.sampling.top_p);
        let (mut low, mut high) = between(&ladder, &sums, target, cut.logit);
        // Steps of the same width within the one that was found.
        let top = high.min(max);
        ladder = std::array::from_fn(|step| top - (top - low) * ((step + 1) as f32 / (LADDER + 1) as f32));
        if low > f32::MIN {
            let Self { level, block_max, weights, .. } = self;
            let sums = dispatch!(*level, _ => weigh_ladder(row, block_max, weighing, &ladder, weights));
            let (inner_low, inner_high) = between(&ladder, &sums, target, low);
            (low, high) = (inner_low, if inner_high == f32::INFINITY { high } else { inner_high });
        }
        let above = self.gather_between(row, weighing, low, high);
        let gathered: f64 = self.candidates.iter().map(|&candidate| self.weight_of(candidate, max)).sum();
        if above < target && target <= above + gathered {
            return self.last_needed(target - above, max, cut);
        }
        // The passes were rounded otherwise than the sums.
        self.gather_between(row, weighing, f32::MIN, f32::INFINITY);
        self.last_needed(target, max, cut)
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
                for &block_max in &self.block_max {
                    let is_far = block_max < floor;
                    let each = weight(block_max.min(floor) - max);
                    least += if is_far && cut.logit == f32::MIN { each } else { 0.0 };
                    most += BLOCK as f64 * each;
                }
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

    /// Gathers the tokens from `low` up to `high`, and returns the weight of those from there up.
    fn gather_between(&mut self, row: &Row<'_>, weighing: Weighing, low: f32, high: f32) -> f64 {
        let Self { level, block_max, weights, candidates, .. } = self;
        candidates.clear();
        dispatch!(*level, _ => {
            let mut above = 0.0;
            for block in 0..weights.len() {
                if block_max[block] < low {
                    continue;
                }
                let logits = weighing.kept(row, block);
                let (heavy, mut bits) = split(&logits, &weights[block], low, high);
                above += f64::from(heavy);
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

/// Between which two of the falling logits of a ladder the sums from each up reach `target`: at the first itself or above the second; `least`
/// where they do not, and infinity where the first step does.
fn between(ladder: &[f32; LADDER], sums: &[f64; LADDER], target: f64, least: f32) -> (f32, f32) {
    let step = sums.iter().position(|&sum| sum >= target).unwrap_or(LADDER);
    let low = ladder.get(step).map_or(least, |low| low.max(least));
    (low, if step == 0 { f32::INFINITY } else { ladder[step - 1].max(low) })
}
