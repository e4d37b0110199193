//! A row of logits with its mask, read in blocks: the loops that go over a whole vocabulary.
//!
//! What goes over a row is written in vectors of sixteen lanes (`fearless_simd`) and inlined always, so that it is compiled for the machine's
//! widest vectors where it is dispatched to them; narrower ones take several instructions for the same lanes. Sums run in one order and
//! nothing is contracted, whatever the width: every machine gets the same bits. Loops are over numbers, since iterators are not always
//! inlined into a function of other instructions (1.9 ms instead of a tenth of one). Does not know what stages there are.

use fearless_simd::{Select, Simd, SimdBase, SimdMask, f32x16, mask32x16, u32x16};

/// Tokens handled together: as many as a word of a mask has bits.
pub(super) const BLOCK: usize = 32;
/// The lanes of a vector.
pub(super) const LANES: usize = 16;

/// A block in vectors.
pub(super) type Halves<S> = [f32x16<S>; 2];

/// A row of logits with its mask, read in blocks.
pub(super) struct Row<'a> {
    pub(super) logits: &'a [f32],
    pub(super) mask: Option<&'a [u32]>,
}

impl Row<'_> {
    pub(super) fn blocks(&self) -> usize {
        self.logits.len().div_ceil(BLOCK)
    }

    #[inline(always)]
    fn allowed(&self, block: usize) -> u32 {
        self.mask.map_or(u32::MAX, |mask| mask.get(block).copied().unwrap_or(0))
    }

    /// The logits of sixteen blocks from `block` on, where all are there and the mask leaves nothing of them out.
    #[inline(always)]
    fn whole(&self, block: usize) -> Option<&[[f32; BLOCK]; LANES]> {
        let logits = self.logits.as_chunks().0.get(block..)?.first_chunk()?;
        let Some(mask) = self.mask else { return Some(logits) };
        let words: &[u32; LANES] = mask.get(block..)?.first_chunk()?;
        (words.iter().fold(u32::MAX, |all, word| all & word) == u32::MAX).then_some(logits)
    }

    /// The logits of a block ready to be weighed where the largest of the row is `max`: as they are where the mask leaves nothing of it out,
    /// but for infinity. What is not a number may be among them.
    #[inline(always)]
    pub(super) fn ready<S: Simd>(&self, simd: S, block: usize, max: f32) -> Halves<S> {
        match self.logits.get(block * BLOCK..).and_then(|rest| rest.first_chunk()) {
            Some(logits) if max < f32::MAX && self.allowed(block) == u32::MAX => halves(simd, logits),
            _ => self.clean(simd, block),
        }
    }

    /// The logits of a block ready to choose from: minus infinity for what may not be chosen, is not a number or is beyond the row's end;
    /// the largest number for infinity.
    #[inline(always)]
    fn clean<S: Simd>(&self, simd: S, block: usize) -> Halves<S> {
        let nothing = f32x16::splat(simd, f32::NEG_INFINITY);
        let allowed = self.allowed(block);
        if allowed == 0 {
            return [nothing; 2];
        }
        let Some(logits) = self.logits.get(block * BLOCK..).and_then(|rest| rest.first_chunk()) else {
            return halves(simd, &self.block(block));
        };
        let mut out = halves(simd, logits);
        for half in 0..2 {
            // Whatever the smaller of the two is where one is not a number, it is replaced.
            let number = out[half].min(f32x16::splat(simd, f32::MAX));
            out[half] = out[half].simd_gt(nothing).select(number, nothing);
        }
        if allowed != u32::MAX {
            for half in 0..2 {
                out[half] = bits_of(simd, allowed, half).select(out[half], nothing);
            }
        }
        out
    }

    /// The same, a number at a time.
    fn block(&self, block: usize) -> [f32; BLOCK] {
        let mut out = [f32::NEG_INFINITY; BLOCK];
        let allowed = self.allowed(block);
        let logits = &self.logits[block * BLOCK..self.logits.len().min((block + 1) * BLOCK)];
        for (at, &logit) in logits.iter().enumerate() {
            if logit > f32::NEG_INFINITY && allowed >> at & 1 == 1 {
                out[at] = logit.min(f32::MAX);
            }
        }
        out
    }

    /// The tokens of a block that may be chosen, by rising id, with their logits.
    pub(super) fn tokens(&self, block: usize) -> impl Iterator<Item = (u32, f32)> {
        let first = (block * BLOCK) as u32;
        let logits = if self.allowed(block) == 0 { [f32::NEG_INFINITY; BLOCK] } else { self.block(block) };
        let tokens = logits.into_iter().enumerate().filter(|&(_, logit)| logit > f32::NEG_INFINITY);
        tokens.map(move |(at, logit)| (first + at as u32, logit))
    }
}

/// A block's numbers as vectors.
#[inline(always)]
pub(super) fn halves<S: Simd>(simd: S, values: &[f32; BLOCK]) -> Halves<S> {
    [f32x16::from_slice(simd, &values[..LANES]), f32x16::from_slice(simd, &values[LANES..])]
}

/// The bits of a half's tokens in a block's word.
#[inline(always)]
pub(super) fn bits_of<S: Simd>(simd: S, word: u32, half: usize) -> mask32x16<S> {
    mask32x16::from_bitmask(simd, u64::from(word >> (half * LANES) & 0xffff))
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

/// Notes the largest logit of every block, and returns the largest of all.
#[inline(always)]
pub(super) fn block_maxima<S: Simd>(simd: S, row: &Row<'_>, out: &mut [f32]) -> f32 {
    let nothing = f32x16::splat(simd, f32::NEG_INFINITY);
    let mut all = nothing;
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    let grouped = groups.len() * LANES;
    for group in 0..groups.len() {
        let mut maxima = [nothing; LANES];
        match row.whole(group * LANES) {
            Some(logits) => {
                for at in 0..LANES {
                    let [first, second] = halves(simd, &logits[at]);
                    // What is not a number is not greater.
                    let first = first.simd_gt(nothing).select(first, nothing);
                    maxima[at] = second.simd_gt(first).select(second, first);
                }
            }
            None => {
                for at in 0..LANES {
                    let [first, second] = row.clean(simd, group * LANES + at);
                    maxima[at] = first.max(second);
                }
            }
        }
        // Two and two, so that a lane is left of each.
        for left in [8, 4, 2, 1] {
            for at in 0..left {
                let (a, b) = (maxima[2 * at], maxima[2 * at + 1]);
                maxima[at] = a.unzip_low(b).max(a.unzip_high(b));
            }
        }
        let maxima = maxima[0].min(f32x16::splat(simd, f32::MAX));
        maxima.store_slice(&mut groups[group]);
        all = all.max(maxima);
    }
    for at in 0..rest.len() {
        rest[at] = largest(&row.block(grouped + at));
    }
    let lanes: [f32; LANES] = all.into();
    largest(&lanes).max(largest(rest))
}

/// Notes the places of lanes, of which the first has number `first`, at the beginning of `out`, which has room for all; how many they are.
#[inline(always)]
fn note<S: Simd>(simd: S, lanes: mask32x16<S>, first: usize, out: &mut [u32]) -> usize {
    let places = u32x16::from_fn(simd, |lane| lane as u32) + first as u32;
    places.compress(lanes).store_slice(&mut out[..LANES]);
    lanes.to_bitmask().count_ones() as usize
}

/// Notes the blocks whose largest logit is at least `floor`, by rising number, and returns how many. There is room for [`LANES`] more than all.
#[inline(always)]
pub(super) fn blocks_from<S: Simd>(simd: S, block_max: &[f32], floor: f32, out: &mut [u32]) -> usize {
    let (chunks, rest) = block_max.as_chunks::<LANES>();
    let mut count = 0;
    for chunk in 0..chunks.len() {
        let lanes = f32x16::from_slice(simd, &chunks[chunk]).simd_ge(f32x16::splat(simd, floor));
        count += note(simd, lanes, chunk * LANES, &mut out[count..]);
    }
    for at in 0..rest.len() {
        out[count] = (chunks.len() * LANES + at) as u32;
        count += usize::from(rest[at] >= floor);
    }
    count
}

/// The same of blocks with a bit in their words.
#[inline(always)]
pub(super) fn blocks_with_bits<S: Simd>(simd: S, words: &[u32], out: &mut [u32]) -> usize {
    let (chunks, rest) = words.as_chunks::<LANES>();
    let mut count = 0;
    for chunk in 0..chunks.len() {
        let lanes = u32x16::from_slice(simd, &chunks[chunk]).simd_gt(u32x16::splat(simd, 0));
        count += note(simd, lanes, chunk * LANES, &mut out[count..]);
    }
    for at in 0..rest.len() {
        out[count] = (chunks.len() * LANES + at) as u32;
        count += usize::from(rest[at] != 0);
    }
    count
}
