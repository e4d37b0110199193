//! What tokens weigh: the exponential of their distance from the largest logit, of a whole row at a time, and sums of it.
//!
//! A sum runs in sixteen lanes over a span of blocks, then through a tree of the lanes, then over spans in double precision: in one order,
//! whatever the machine. Does not know what is looked for.

use fearless_simd::{Bytes, Select, Simd, SimdBase, SimdMask, SimdSplit, f32x16, u32x16};

use super::row::{BLOCK, Halves, LANES, Row, bits_of, halves};
use super::{Candidate, EVERYTHING};

/// Blocks whose weights are summed in lanes.
pub(super) const SPAN: usize = 32;

/// Below it the exponential of an f32 is nothing.
pub(super) const EXPONENT_MIN: f32 = -87.0;

/// Adding and taking away 1.5 * 2^23 rounds to a whole number.
const ROUND: f32 = 12_582_912.0;
/// ln 2 is the difference of the two: the first has so few bits that its product with a whole power is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = 2.121_944_4e-4;
/// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, fitted for the least of the largest relative errors of e^r, 1.1e-7.
const SERIES: [f32; 4] = [4.999_922_3e-1, 1.666_712e-1, 4.189_140_9e-2, 8.312_385e-3];

/// The weight of a token whose logit is `difference` from the largest.
pub(super) fn weight(difference: f32) -> f64 {
    f64::from(exponential(difference))
}

/// e to the power of a number that is not positive, within 1.8e-7 of it: 2 to the whole part of x / ln 2 by exponent bits, and a polynomial
/// for the rest. Only additions and products, so that every machine gets the same bits. What is smaller has never more weight (a test goes
/// through all numbers), so that weights may be compared in place of logits.
pub(super) fn exponential(x: f32) -> f32 {
    // What is below is replaced in the end, whatever becomes of it before.
    let whole = x * std::f32::consts::LOG2_E + ROUND;
    let power = whole - ROUND;
    let r = (x - power * LN_2_HIGH) + power * LN_2_LOW;
    let series = SERIES[0] + r * (SERIES[1] + r * (SERIES[2] + r * SERIES[3]));
    let near_one = 1.0 + (r + (r * r) * series);
    let scaled = f32::from_bits(near_one.to_bits().wrapping_add(whole.to_bits() << 23));
    if x > EXPONENT_MIN { scaled } else { 0.0 }
}

/// The same of sixteen numbers; nothing of what is not a number.
#[inline(always)]
fn exponentials<S: Simd>(simd: S, x: f32x16<S>) -> f32x16<S> {
    let whole = x * std::f32::consts::LOG2_E + ROUND;
    let power = whole - ROUND;
    let r = (x - power * LN_2_HIGH) + power * LN_2_LOW;
    let series = ((r * SERIES[3] + SERIES[2]) * r + SERIES[1]) * r + SERIES[0];
    let near_one = (r + (r * r) * series) + 1.0;
    let (near_one, whole): (u32x16<S>, u32x16<S>) = (near_one.bitcast(), whole.bitcast());
    let scaled: f32x16<S> = (near_one + (whole << 23)).bitcast();
    x.simd_gt(f32x16::splat(simd, EXPONENT_MIN)).select(scaled, f32x16::splat(simd, 0.0))
}

/// What is weighed: of a row whose largest logit is `max`, at a temperature, what the cut keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighing {
    max: f32,
    temperature: f32,
    /// One divided by it: a product is quicker than a quotient.
    inverse: f32,
    cut: Candidate,
}

impl Weighing {
    pub(super) fn new(max: f32, temperature: f32, cut: Candidate) -> Self {
        // Infinity times nothing would be no number.
        Self { max, temperature, inverse: (1.0 / temperature).min(f32::MAX), cut }
    }

    /// What a logit weighs.
    pub(super) fn weight(&self, logit: f32) -> f64 {
        weight((logit - self.max) * self.inverse)
    }

    /// Below it nothing weighs anything.
    fn least(&self) -> f32 {
        self.cut.logit.max(self.max + EXPONENT_MIN * self.temperature)
    }

    /// What the tokens of a block weigh.
    #[inline(always)]
    fn weigh<S: Simd>(&self, simd: S, row: &Row<'_>, block: usize) -> Halves<S> {
        let logits = row.ready(simd, block, self.max);
        let mut weights = logits;
        for half in 0..2 {
            let mut difference = logits[half] - self.max;
            if self.inverse != 1.0 {
                difference = difference * self.inverse;
            }
            weights[half] = exponentials(simd, difference);
        }
        self.only_kept(simd, block, logits, weights)
    }

    /// The weights of what the cut keeps of a block. What is not a number weighs nothing, and is not compared with success.
    #[inline(always)]
    fn only_kept<S: Simd>(&self, simd: S, block: usize, logits: Halves<S>, mut weights: Halves<S>) -> Halves<S> {
        if self.cut == EVERYTHING {
            return weights;
        }
        let cut = f32x16::splat(simd, self.cut.logit);
        let (cut_block, at) = (self.cut.token as usize / BLOCK, self.cut.token % BLOCK as u32);
        // Of those equal to the cut, the tokens up to it are kept.
        let equals = match block.cmp(&cut_block) {
            std::cmp::Ordering::Less => u32::MAX,
            std::cmp::Ordering::Equal => u32::MAX >> (31 - at),
            std::cmp::Ordering::Greater => 0,
        };
        for half in 0..2 {
            let kept = match equals {
                u32::MAX => logits[half].simd_ge(cut),
                0 => logits[half].simd_gt(cut),
                _ => logits[half].simd_gt(cut) | (logits[half].simd_ge(cut) & bits_of(simd, equals, half)),
            };
            weights[half] = kept.select(weights[half], f32x16::splat(simd, 0.0));
        }
        weights
    }
}

/// The sum of the lanes.
#[inline(always)]
fn sum<S: Simd>(lanes: f32x16<S>) -> f64 {
    let (low, high) = lanes.split();
    let (low, high) = (low + high).split();
    let [a, b, c, d]: [f32; 4] = (low + high).into();
    f64::from((a + c) + (b + d))
}

/// The sums of a ladder, a vector for each half of a block: one alone would wait for itself.
type Sums<S, const STEPS: usize> = [[f32x16<S>; STEPS]; 2];

/// Adds what weighs at least as much as each step of a ladder.
#[inline(always)]
fn climb<S: Simd, const STEPS: usize>(simd: S, weights: Halves<S>, ladder: [f32; STEPS], sums: &mut Sums<S, STEPS>) {
    for half in 0..2 {
        for step in 0..STEPS {
            let is_up = weights[half].simd_ge(f32x16::splat(simd, ladder[step]));
            sums[half][step] = is_up.select(sums[half][step] + weights[half], sums[half][step]);
        }
    }
}

/// Notes the weight of every span and, as far as there is room, of every token. `block_max` are the largest logits of blocks.
#[inline(always)]
pub(super) fn weigh_row<S: Simd>(
    simd: S,
    row: &Row<'_>,
    block_max: &[f32],
    what: Weighing,
    noted: &mut [[f32; BLOCK]],
    spans: &mut [f64],
) {
    let least = what.least();
    for span in 0..spans.len() {
        let mut all = f32x16::splat(simd, 0.0);
        for block in span * SPAN..block_max.len().min((span + 1) * SPAN) {
            if block_max[block] >= least {
                let weights = what.weigh(simd, row, block);
                all = (all + weights[0]) + weights[1];
                if let Some(out) = noted.get_mut(block) {
                    weights[0].store_slice(&mut out[..LANES]);
                    weights[1].store_slice(&mut out[LANES..]);
                }
            } else if let Some(out) = noted.get_mut(block) {
                *out = [0.0; BLOCK];
            }
        }
        spans[span] = sum(all);
    }
}

/// Of weights that were noted, the sums of those that are at least as much as each step of the ladder, in one of so many blocks.
#[inline(always)]
pub(super) fn sums_from<S: Simd, const STEPS: usize>(
    simd: S,
    noted: &[[f32; BLOCK]],
    ladder: [f32; STEPS],
    one_of: usize,
) -> [f64; STEPS] {
    let mut totals = [0.0; STEPS];
    let mut block = 0;
    while block < noted.len() {
        let mut sums = [[f32x16::splat(simd, 0.0); STEPS]; 2];
        let end = noted.len().min(block + SPAN * one_of);
        while block < end {
            climb(simd, halves(simd, &noted[block]), ladder, &mut sums);
            block += one_of;
        }
        for step in 0..STEPS {
            totals[step] += sum(sums[0][step] + sums[1][step]);
        }
    }
    totals
}

/// Of weights that were noted, notes what those from `above` up come to in every span, and a bit for each of those from `low` up to it.
#[inline(always)]
pub(super) fn divide<S: Simd>(
    simd: S,
    noted: &[[f32; BLOCK]],
    low: f32,
    above: f32,
    spans: &mut [f64],
    between: &mut [u32],
) {
    let (low, above) = (f32x16::splat(simd, low), f32x16::splat(simd, above));
    for span in 0..spans.len() {
        let mut sums = [f32x16::splat(simd, 0.0); 2];
        for block in span * SPAN..noted.len().min((span + 1) * SPAN) {
            let weights = halves(simd, &noted[block]);
            let mut bits = [0; 2];
            for half in 0..2 {
                let is_above = weights[half].simd_ge(above);
                sums[half] = is_above.select(sums[half] + weights[half], sums[half]);
                bits[half] = (weights[half].simd_ge(low) & !is_above).to_bitmask() as u32;
            }
            between[block] = bits[0] | bits[1] << LANES;
        }
        spans[span] = sum(sums[0] + sums[1]);
    }
}

/// Notes the weight of every span from weights that were noted, as far as the cut keeps them.
#[inline(always)]
pub(super) fn sum_spans<S: Simd>(
    simd: S,
    row: &Row<'_>,
    block_max: &[f32],
    what: Weighing,
    noted: &[[f32; BLOCK]],
    spans: &mut [f64],
) {
    let least = what.least();
    for span in 0..spans.len() {
        let mut all = f32x16::splat(simd, 0.0);
        for block in span * SPAN..block_max.len().min((span + 1) * SPAN) {
            if block_max[block] >= least {
                let logits = row.ready(simd, block, what.max);
                let weights = what.only_kept(simd, block, logits, halves(simd, &noted[block]));
                all = (all + weights[0]) + weights[1];
            }
        }
        spans[span] = sum(all);
    }
}

/// The weights of the blocks of a span.
#[inline(always)]
pub(super) fn weigh_span<S: Simd>(
    simd: S,
    row: &Row<'_>,
    block_max: &[f32],
    what: Weighing,
    span: usize,
) -> [f64; SPAN] {
    let least = what.least();
    let mut out = [0.0; SPAN];
    for at in 0..SPAN.min(block_max.len() - span * SPAN) {
        let block = span * SPAN + at;
        if block_max[block] >= least {
            let [first, second] = what.weigh(simd, row, block);
            out[at] = sum(first + second);
        }
    }
    out
}

/// What the largest tokens of blocks weigh: the sum of those below `floor`, and of all, where those from there up count as the floor.
#[inline(always)]
pub(super) fn weigh_maxima<S: Simd>(simd: S, block_max: &[f32], max: f32, floor: f32) -> (f64, f64) {
    let (mut far, mut all) = (0.0, 0.0);
    let (chunks, rest) = block_max.as_chunks::<LANES>();
    let floors = f32x16::splat(simd, floor);
    let mut chunk = 0;
    while chunk < chunks.len() {
        let mut sums = [f32x16::splat(simd, 0.0); 2];
        let end = chunks.len().min(chunk + SPAN);
        while chunk < end {
            let logits = f32x16::from_slice(simd, &chunks[chunk]);
            let is_near = logits.simd_ge(floors);
            let weights = exponentials(simd, is_near.select(floors, logits) - max);
            sums[0] = is_near.select(sums[0], sums[0] + weights);
            sums[1] = sums[1] + weights;
            chunk += 1;
        }
        far += sum(sums[0]);
        all += sum(sums[1]);
    }
    for &logit in rest {
        let each = weight(logit.min(floor) - max);
        all += each;
        far += if logit < floor { each } else { 0.0 };
    }
    (far, all)
}
