//! A row of logits with its mask, read and weighed in blocks: the loops that go over a whole vocabulary.
//!
//! Each is written so that the compiler makes vectors of it, and inlined always, so that it is compiled for the machine's widest vectors
//! where it is dispatched to them (half or a quarter of the time of the narrowest). Sums run in one order and nothing is contracted,
//! whatever the width: every machine gets the same bits. They are loops over numbers, since iterators are not always inlined into a function
//! of other instructions (1.9 ms instead of a tenth of one). Does not know what stages there are.

use super::{Candidate, EVERYTHING};

/// Tokens handled together: as many as a word of a mask has bits.
pub(super) const BLOCK: usize = 32;

/// A row of logits with its mask, read in blocks.
pub(super) struct Row<'a> {
    pub(super) logits: &'a [f32],
    pub(super) mask: Option<&'a [u32]>,
}

/// The bit of each token of a block in the mask's word: compared with a table, a block becomes a few vector operations.
const BITS: [u32; BLOCK] = {
    let mut bits = [0; BLOCK];
    let mut at = 0;
    while at < BLOCK {
        bits[at] = 1 << at;
        at += 1;
    }
    bits
};

impl Row<'_> {
    pub(super) fn blocks(&self) -> usize {
        self.logits.len().div_ceil(BLOCK)
    }

    #[inline(always)]
    fn allowed(&self, block: usize) -> u32 {
        self.mask.map_or(u32::MAX, |mask| mask.get(block).copied().unwrap_or(0))
    }

    /// The block's logits as they are, when it is full and the mask leaves nothing of it out: most blocks of most rows.
    #[inline(always)]
    fn whole_block(&self, block: usize) -> Option<&[f32; BLOCK]> {
        let logits = self.logits.get(block * BLOCK..)?.first_chunk()?;
        (self.allowed(block) == u32::MAX).then_some(logits)
    }

    #[inline(always)]
    fn block_max(&self, block: usize) -> f32 {
        match self.whole_block(block) {
            Some(logits) => largest_of_block(logits).min(f32::MAX),
            None => largest_of_block(&self.block(block)),
        }
    }

    /// The logits of a block, ready to be weighed where the largest of the row is `max`: as they are, but for infinity.
    #[inline(always)]
    fn ready(&self, block: usize, max: f32) -> [f32; BLOCK] {
        match self.whole_block(block).filter(|_| max < f32::MAX) {
            Some(logits) => *logits,
            None => self.block(block),
        }
    }

    /// The logits of a block, ready to choose from: minus infinity for what may not be chosen, is not a number or is
    /// beyond the row's end; the largest number for infinity.
    #[inline(always)]
    fn block(&self, block: usize) -> [f32; BLOCK] {
        let mut out = [f32::NEG_INFINITY; BLOCK];
        let allowed = self.allowed(block);
        if allowed == 0 {
            return out;
        }
        let logits = &self.logits[block * BLOCK..self.logits.len().min((block + 1) * BLOCK)];
        out[..logits.len()].copy_from_slice(logits);
        for at in 0..BLOCK {
            let number = if out[at] > f32::MAX { f32::MAX } else { out[at] };
            out[at] = if number > f32::NEG_INFINITY && allowed & BITS[at] != 0 { number } else { f32::NEG_INFINITY };
        }
        out
    }

    /// The tokens of a block that may be chosen, by rising id, with their logits.
    pub(super) fn tokens(&self, block: usize) -> impl Iterator<Item = (u32, f32)> {
        let first = (block * BLOCK) as u32;
        self.block(block)
            .into_iter()
            .enumerate()
            .filter(|&(_, logit)| logit > f32::NEG_INFINITY)
            .map(move |(at, logit)| (first + at as u32, logit))
    }
}

/// The largest of the numbers; minus infinity if there are none. Eight running maxima: the compiler makes vectors of them.
pub(super) fn largest(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = if value > *lane { value } else { *lane };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |max, &value| if value > max { value } else { max })
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The same of a block: half with half, so that blocks follow each other without waiting.
#[inline(always)]
fn largest_of_block(values: &[f32; BLOCK]) -> f32 {
    let mut halves = [f32::NEG_INFINITY; BLOCK];
    for at in 0..BLOCK {
        // What is not a number is none.
        halves[at] = larger(values[at], halves[at]);
    }
    for at in 0..16 {
        halves[at] = larger(halves[at], halves[at + 16]);
    }
    for at in 0..8 {
        halves[at] = larger(halves[at], halves[at + 8]);
    }
    for at in 0..4 {
        halves[at] = larger(halves[at], halves[at + 4]);
    }
    larger(larger(halves[0], halves[2]), larger(halves[1], halves[3]))
}

/// Below it the exponential of an f32 is nothing.
pub(super) const EXPONENT_MIN: f32 = -87.0;

/// The weight of a token whose logit is `difference` from the largest.
pub(super) fn weight(difference: f32) -> f64 {
    f64::from(exponential(difference))
}

/// What is weighed: of a row whose largest logit is `max`, at a temperature, what the cut keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighing {
    pub(super) max: f32,
    pub(super) temperature: f32,
    pub(super) cut: Candidate,
}

impl Weighing {
    /// The least logit of a block that is kept: of those equal to the cut's, the tokens up to it are.
    #[inline(always)]
    fn floor(&self, block: usize) -> f32 {
        if block <= self.cut.token as usize / BLOCK { self.cut.logit } else { self.cut.logit.next_up() }
    }

    /// Whether the cut goes through the middle of a block.
    #[inline(always)]
    fn divides(&self, block: usize) -> bool {
        block == self.cut.token as usize / BLOCK
    }

    /// Below it nothing weighs anything.
    fn least(&self) -> f32 {
        self.cut.logit.max(self.max + EXPONENT_MIN * self.temperature)
    }

    /// The logits of a block, minus infinity for what is not kept.
    #[inline(always)]
    pub(super) fn kept(&self, row: &Row<'_>, block: usize) -> [f32; BLOCK] {
        let mut logits = row.ready(block, self.max);
        if self.cut == EVERYTHING {
            // What is not a number weighs nothing, and is not compared with success.
            return logits;
        }
        let floor = self.floor(block);
        for at in 0..BLOCK {
            logits[at] = if logits[at] >= floor { logits[at] } else { f32::NEG_INFINITY };
        }
        if self.divides(block) {
            let behind = self.cut.token as usize % BLOCK + 1;
            for at in behind..BLOCK {
                logits[at] = if logits[at] > self.cut.logit { logits[at] } else { f32::NEG_INFINITY };
            }
        }
        logits
    }
}

/// Notes the largest logit of every block.
#[inline(always)]
pub(super) fn block_maxima(row: &Row<'_>, out: &mut [f32]) {
    for block in 0..out.len() {
        out[block] = row.block_max(block);
    }
}

/// Notes the weight of every block, whose largest logits are `block_max`.
#[inline(always)]
pub(super) fn weigh_blocks(row: &Row<'_>, block_max: &[f32], what: Weighing, out: &mut [f64]) {
    let least = what.least();
    for block in 0..out.len() {
        out[block] = 0.0;
        if block_max[block] >= least {
            out[block] = f64::from(sum(&weights(&what.kept(row, block), what.max, what.temperature)));
        }
    }
}

/// How many logits a pass compares with.
pub(super) const LADDER: usize = 8;

/// Notes the weight of every token, and returns the sum of all and of those from each logit of the ladder up.
#[inline(always)]
pub(super) fn weigh_tokens(
    row: &Row<'_>,
    block_max: &[f32],
    what: Weighing,
    ladder: &[f32; LADDER],
    out: &mut [[f32; BLOCK]],
) -> (f64, [f64; LADDER]) {
    let least = what.least();
    let mut total = 0.0;
    let mut sums = [0.0; LADDER];
    for block in 0..out.len() {
        out[block] = [0.0; BLOCK];
        if block_max[block] >= least {
            let logits = what.kept(row, block);
            out[block] = weights(&logits, what.max, what.temperature);
            total += f64::from(sum(&out[block]));
            climb(&logits, &out[block], ladder, &mut sums);
        }
    }
    (total, sums)
}

/// The sums of the weights that were noted, from each logit of the ladder up: rounded a little otherwise than others.
#[inline(always)]
pub(super) fn weigh_ladder(
    row: &Row<'_>,
    block_max: &[f32],
    what: Weighing,
    ladder: &[f32; LADDER],
    noted: &[[f32; BLOCK]],
) -> [f64; LADDER] {
    let mut sums = [0.0; LADDER];
    for block in 0..noted.len() {
        if block_max[block] >= ladder[LADDER - 1] {
            climb(&what.kept(row, block), &noted[block], ladder, &mut sums);
        }
    }
    sums
}

/// Adds what a block weighs from each logit of the ladder up. Sums of lanes, kept in memory, are slower.
#[inline(always)]
fn climb(logits: &[f32; BLOCK], weights: &[f32; BLOCK], ladder: &[f32; LADDER], sums: &mut [f64; LADDER]) {
    for step in 0..LADDER {
        sums[step] += f64::from(split(logits, weights, f32::INFINITY, ladder[step]).0);
    }
}

/// The same as [`weigh_blocks`] from weights that were noted.
#[inline(always)]
pub(super) fn sum_blocks(row: &Row<'_>, block_max: &[f32], what: Weighing, noted: &[[f32; BLOCK]], out: &mut [f64]) {
    let least = what.least();
    for block in 0..out.len() {
        out[block] = 0.0;
        if block_max[block] >= least {
            let logits = what.kept(row, block);
            let mut weights = noted[block];
            for at in 0..BLOCK {
                weights[at] = if logits[at] > f32::NEG_INFINITY { weights[at] } else { 0.0 };
            }
            out[block] = f64::from(sum(&weights));
        }
    }
}

/// Of the tokens of a block, the sum of the weights of those from `above` up, and a bit for each of those between `low` (included) and
/// `above`.
#[inline(always)]
pub(super) fn split(logits: &[f32; BLOCK], weights: &[f32; BLOCK], low: f32, above: f32) -> (f32, u32) {
    let (mut heavy, mut bits) = ([0.0; BLOCK], [0_u32; BLOCK]);
    for at in 0..BLOCK {
        heavy[at] = if logits[at] >= above { weights[at] } else { 0.0 };
        bits[at] = if logits[at] >= low && logits[at] < above { BITS[at] } else { 0 };
    }
    let mut all = 0;
    for at in 0..BLOCK {
        all |= bits[at];
    }
    (sum(&heavy), all)
}

/// The sum of a block, in eight lanes and in one order.
#[inline(always)]
fn sum(weights: &[f32; BLOCK]) -> f32 {
    let (mut lanes, mut sum) = ([0.0; 8], 0.0);
    for at in 0..BLOCK {
        lanes[at % 8] += weights[at];
    }
    for lane in 0..8 {
        sum += lanes[lane];
    }
    sum
}

/// The weights of a block. What is not a number weighs nothing; infinity must have been made a number.
#[inline(always)]
fn weights(logits: &[f32; BLOCK], max: f32, temperature: f32) -> [f32; BLOCK] {
    let mut weights = [0.0; BLOCK];
    if temperature == 1.0 {
        // The same bits without a division.
        for at in 0..BLOCK {
            weights[at] = exponential(logits[at] - max);
        }
    } else {
        for at in 0..BLOCK {
            weights[at] = exponential((logits[at] - max) / temperature);
        }
    }
    weights
}

/// e to the power of a number that is not positive, within 2 units in the last place: 2 to the whole part of
/// x / ln 2 by exponent bits, and the Taylor series of e^r for the rest, |r| <= ln 2 / 2. Only additions and products,
/// so that every machine gets the same bits and the compiler can make vectors of it.
#[inline(always)]
pub(super) fn exponential(x: f32) -> f32 {
    // Adding and taking away 1.5 * 2^23 rounds to a whole number.
    const ROUND: f32 = 12_582_912.0;
    // What is below is replaced in the end, whatever becomes of it before.
    let whole = x * std::f32::consts::LOG2_E + ROUND;
    let power = whole - ROUND;
    // ln 2 is the difference of the two: the first has so few bits that its product with the power is exact.
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = 2.121_944_4e-4;
    let r = (x - power * LN_2_HIGH) + power * LN_2_LOW;
    let series =
        1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0))))));
    let scale = f32::from_bits((whole.to_bits().wrapping_add(127)) << 23);
    if x > EXPONENT_MIN { series * scale } else { 0.0 }
}
