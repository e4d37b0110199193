//! A row of logits with its mask, read in blocks: the loops that go over a whole vocabulary.
//!
//! What goes over a row is written in vectors of sixteen lanes (`fearless_simd`) and inlined always, so that it is compiled for the machine's
//! widest vectors where it is dispatched to them; narrower ones take several instructions for the same lanes. Sums run in one order and
//! nothing is contracted, whatever the width: every machine gets the same bits. Loops are over numbers, since iterators are not always
//! inlined into a function of other instructions (1.9 ms instead of a tenth of one). Does not know what stages there are.

use fearless_simd::{Select, Simd, SimdBase, SimdMask, f32x16, mask32x16};

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
            let usable = out[half].simd_gt(nothing);
            // As it is where it is not a number, which is replaced.
            let number = out[half].min(f32x16::splat(simd, f32::MAX));
            out[half] = usable.select(number, nothing);
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

/// Notes the largest logit of every block.
#[inline(always)]
pub(super) fn block_maxima<S: Simd>(simd: S, row: &Row<'_>, out: &mut [f32]) {
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    let grouped = groups.len() * LANES;
    for group in 0..groups.len() {
        let mut maxima = [f32x16::splat(simd, f32::NEG_INFINITY); LANES];
        for at in 0..LANES {
            let [first, second] = row.clean(simd, group * LANES + at);
            maxima[at] = first.max(second);
        }
        // Two and two, so that a lane is left of each.
        for left in [8, 4, 2, 1] {
            for at in 0..left {
                let (a, b) = (maxima[2 * at], maxima[2 * at + 1]);
                maxima[at] = a.unzip_low(b).max(a.unzip_high(b));
            }
        }
        maxima[0].store_slice(&mut groups[group]);
    }
    for at in 0..rest.len() {
        rest[at] = largest(&row.block(grouped + at));
    }
}
