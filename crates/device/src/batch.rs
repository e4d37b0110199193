//! What one step computes: new tokens of several sequences, and where their keys and values are kept.
//!
//! Prefill chunks and single decode tokens stand side by side; one sequence is a batch of one. `prompt` decides which pages
//! belong to whom; a device owns their bytes. A batch is filled again for every step and keeps its memory.

use std::ops::Range;

use kauri_formats::Quant;

/// Slots whose use is checked in one go.
const SLOTS_A_ROUND: u32 = 4096;

/// Most adapters that are loaded with a model.
pub const ADAPTERS_MAX: usize = 64;

/// The tokens of one step, ragged: sequence after sequence.
#[derive(Debug, Default)]
pub struct Batch {
    /// New token ids, all sequences one after the other.
    pub tokens: Vec<u32>,
    /// The sequences, in the order of their tokens.
    pub sequences: Vec<Sequence>,
    /// Page tables, one after the other; [`Sequence::pages`] cuts them.
    pub pages: Vec<u32>,
    /// Indices into `tokens` whose logits are wanted, ascending.
    pub outputs: Vec<u32>,
    /// What sequences have of adapters, one after the other; [`Sequence::adapters`] cuts them.
    pub adapters: Vec<Applied>,
}

/// An adapter that a sequence has, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Applied {
    /// Its number among those that were loaded with the model.
    pub adapter: u32,
    /// Factor on what it adds; not zero.
    pub scale: f32,
}

/// One sequence's share of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its new tokens, as a range of [`Batch::tokens`].
    pub tokens: Range<usize>,
    /// Tokens of it that are cached already: the position of its first new token.
    pub cached_tokens: u32,
    /// Its page table, as a range of [`Batch::pages`]: covers cached and new tokens.
    pub pages: Range<usize>,
    /// Where its state is kept, of the [`Plan::slots`]; no other sequence of the batch has the same. A sequence of which
    /// nothing is cached starts from a state of zeros, whatever lay there.
    pub slot: u32,
    /// The longest this sequence may become; settles what depends on length (the rope factors of some families) once for
    /// all its tokens.
    pub reach_tokens: u32,
    /// Where its prompt ends: a position, past the end where nothing of it was written. A device may compute a prompt's tokens by other sums than
    /// those that were written behind it; which ones it takes does not hang on how either are batched.
    pub prompt_end: u32,
    /// Where the second text of a pair begins: a position, past the end where there is but one text.
    pub second_start: u32,
    /// Its adapters, as a range of [`Batch::adapters`], in the order of their numbers.
    pub adapters: Range<usize>,
}

/// What a device is sized for at load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Tokens to a page of the cache: a multiple of 16.
    pub page_tokens: u32,
    /// Pages of the cache.
    pub pages: u32,
    /// Most tokens of one batch.
    pub batch_tokens: u32,
    /// Most rows of logits of one batch.
    pub batch_outputs: u32,
    /// Sequences that have a place for their state.
    pub slots: u32,
    /// How keys and values are kept.
    pub cache: CacheType,
    /// What layers with a window keep, where that is not pages like those of others. A device that has no rings clears it and
    /// keeps pages.
    pub ring: Option<Ring>,
}

/// Layers that look back over a window need no more of a sequence than that window, however long the sequence becomes. So their
/// keys and values belong to its slot: page `n` of the sequence lies in page `n % pages` of the slot's ring, over what slid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The longest window of these layers.
    pub window_tokens: u32,
    /// Pages of a slot's ring.
    pub pages: u32,
}

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheType {
    /// 4 bytes a value.
    F32,
    /// 2 bytes a value.
    F16,
    /// A byte a value, and a scale for 32.
    Q8_0,
    /// Half a byte a value, and a scale for 32.
    Q4_0,
}

impl CacheType {
    /// The storage type that a value goes through. A device may lay bytes out as it likes and let other neighbours share a
    /// scale, for as many bytes.
    pub fn quant(self) -> Quant {
        match self {
            Self::F32 => Quant::F32,
            Self::F16 => Quant::F16,
            Self::Q8_0 => Quant::Q8_0,
            Self::Q4_0 => Quant::Q4_0,
        }
    }

    /// How the rows of latent attention are kept, which are keys and values at once: never in less than half precision.
    #[must_use]
    pub fn of_rows(self) -> Self {
        match self {
            Self::F32 => Self::F32,
            Self::F16 | Self::Q8_0 | Self::Q4_0 => Self::F16,
        }
    }

    /// Bytes of one head's key, or of its value, of one token; scales are counted. A head whose width is not a whole number
    /// of blocks is padded.
    pub fn head_bytes(self, head_dim: u32) -> u64 {
        let quant = self.quant();
        (head_dim as usize).div_ceil(quant.block_len()) as u64 * quant.block_bytes() as u64
    }
}

impl Plan {
    /// The sizes that layers have whose keys and values are in rings: as many pages as all slots have, those of a slot one after the
    /// other.
    #[must_use]
    pub fn of_rings(&self) -> Option<Self> {
        Some(Self { pages: self.slots.saturating_mul(self.ring?.pages), ..*self })
    }
}

impl Ring {
    /// The smallest for a window and steps of up to so many tokens of a sequence: no token of a step lies over what another of the
    /// step sees.
    pub fn new(window_tokens: u32, step_tokens: u32, page_tokens: u32) -> Self {
        // So many tokens in a row, wherever they begin: the last of a page and then whole pages.
        let tokens = window_tokens.saturating_add(step_tokens).saturating_sub(2);
        Self { window_tokens, pages: tokens.div_ceil(page_tokens) + 1 }
    }

    /// Whether a sequence that was computed up to `computed` tokens can go on behind the first `tokens` of them: whether what the
    /// next token sees is still there.
    pub fn holds(&self, computed: usize, tokens: usize, page_tokens: usize) -> bool {
        let first = (tokens + 1).saturating_sub(self.window_tokens as usize) / page_tokens;
        computed.div_ceil(page_tokens) <= first + self.pages as usize
    }

    /// The page of the ring of `slot`, of all rings, in which page `page` of its sequence lies.
    fn page(self, slot: u32, page: usize) -> u32 {
        slot * self.pages + (page % self.pages as usize) as u32
    }
}

impl Batch {
    /// An empty batch that need not grow for as many tokens, outputs and pages as `plan` has.
    pub fn with_room(plan: &Plan) -> Self {
        let [tokens, outputs, pages] = [plan.batch_tokens, plan.batch_outputs, plan.pages].map(|count| count as usize);
        Self {
            tokens: Vec::with_capacity(tokens),
            // A sequence in a batch has a token in it.
            sequences: Vec::with_capacity(tokens),
            pages: Vec::with_capacity(pages),
            outputs: Vec::with_capacity(outputs),
            adapters: Vec::with_capacity(ADAPTERS_MAX),
        }
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.sequences.clear();
        self.pages.clear();
        self.outputs.clear();
        self.adapters.clear();
    }

    /// Adds a sequence's new tokens; logits are wanted for the last `outputs` of them.
    ///
    /// # Panics
    /// If more outputs are wanted than there are tokens.
    pub fn push(
        &mut self,
        tokens: &[u32],
        cached_tokens: u32,
        pages: &[u32],
        slot: u32,
        reach_tokens: u32,
        outputs: usize,
    ) {
        assert!(outputs <= tokens.len(), "{outputs} outputs of {} tokens", tokens.len());
        let (token_start, page_start) = (self.tokens.len(), self.pages.len());
        self.tokens.extend_from_slice(tokens);
        self.pages.extend_from_slice(pages);
        let end = self.tokens.len();
        self.outputs.extend((end - outputs..end).map(|index| index as u32));
        self.sequences.push(Sequence {
            tokens: token_start..end,
            cached_tokens,
            pages: page_start..self.pages.len(),
            slot,
            reach_tokens,
            prompt_end: u32::MAX,
            second_start: u32::MAX,
            adapters: self.adapters.len()..self.adapters.len(),
        });
    }

    /// The same batch as layers see it whose keys and values are in rings: with the pages that these lie in. Keeps the memory of `to`.
    pub fn on_rings(&self, ring: &Ring, to: &mut Self) {
        to.clone_from(self);
        for sequence in &self.sequences {
            for (page, place) in to.pages[sequence.pages.clone()].iter_mut().enumerate() {
                *place = ring.page(sequence.slot, page);
            }
        }
    }

    /// Says that what the sequence that was added last has from this position on was written behind its prompt.
    pub fn write(&mut self, prompt_end: u32) {
        self.sequences.last_mut().expect("a sequence that was added").prompt_end = prompt_end;
    }

    /// Says that the sequence that was added last is a pair of texts, the second of which begins at this position.
    pub fn pair(&mut self, second_start: u32) {
        self.sequences.last_mut().expect("a sequence that was added").second_start = second_start;
    }

    /// Says what the sequence that was added last has of adapters, each once and in the order of their numbers.
    pub fn adapt(&mut self, adapters: &[Applied]) {
        let start = self.adapters.len();
        self.adapters.extend_from_slice(adapters);
        self.sequences.last_mut().expect("a sequence that was added").adapters = start..self.adapters.len();
    }

    /// What a sequence has of adapters.
    pub fn adapters_of(&self, sequence: &Sequence) -> &[Applied] {
        &self.adapters[sequence.adapters.clone()]
    }

    /// Checks that the batch fits what a device was sized for: a mistake above the seam, not an outcome.
    ///
    /// # Panics
    /// With what does not fit.
    pub fn check(&self, plan: &Plan, vocab: u32) {
        assert!(
            self.tokens.len() <= plan.batch_tokens as usize,
            "{} tokens in a batch of {}",
            self.tokens.len(),
            plan.batch_tokens
        );
        assert!(
            self.outputs.len() <= plan.batch_outputs as usize,
            "{} outputs of {}",
            self.outputs.len(),
            plan.batch_outputs
        );
        assert!(self.tokens.iter().all(|&token| token < vocab), "a token past the vocabulary of {vocab}");
        assert!(self.outputs.iter().all(|&index| (index as usize) < self.tokens.len()), "an output past the tokens");
        assert!(self.pages.iter().all(|&page| page < plan.pages), "a page past the {} of the cache", plan.pages);
        // A bit a slot, in several rounds where there are more slots than bits: linear in the sequences for any plan that fits a machine.
        for first in (0..plan.slots).step_by(SLOTS_A_ROUND as usize) {
            let mut seen = [0u64; SLOTS_A_ROUND as usize / 64];
            let slots = self.sequences.iter().map(|sequence| sequence.slot);
            for slot in slots.filter(|slot| (first..first.saturating_add(SLOTS_A_ROUND)).contains(slot)) {
                let (word, bit) = ((slot - first) as usize / 64, 1 << (slot % 64));
                assert!(seen[word] & bit == 0, "two sequences in slot {slot}");
                seen[word] |= bit;
            }
        }
        for sequence in &self.sequences {
            assert!(sequence.slot < plan.slots, "slot {} of {}", sequence.slot, plan.slots);
            let length = sequence.cached_tokens as usize + sequence.tokens.len();
            let room = sequence.pages.len() * plan.page_tokens as usize;
            assert!(length <= room, "{length} tokens on {room} places of the cache");
            let page_tokens = plan.page_tokens as usize;
            let fits = |ring: Ring| ring.holds(length, sequence.cached_tokens as usize, page_tokens);
            assert!(plan.ring.is_none_or(fits), "{} tokens at once, {:?}", sequence.tokens.len(), plan.ring);
        }
    }
}

impl Clone for Batch {
    fn clone(&self) -> Self {
        Self {
            tokens: self.tokens.clone(),
            sequences: self.sequences.clone(),
            pages: self.pages.clone(),
            outputs: self.outputs.clone(),
            adapters: self.adapters.clone(),
        }
    }

    /// Keeps the memory, which a derived implementation would not.
    fn clone_from(&mut self, other: &Self) {
        self.tokens.clone_from(&other.tokens);
        self.sequences.clone_from(&other.sequences);
        self.pages.clone_from(&other.pages);
        self.outputs.clone_from(&other.outputs);
        self.adapters.clone_from(&other.adapters);
    }
}

impl Sequence {
    /// Positions of its new tokens.
    pub fn positions(&self) -> Range<u32> {
        self.cached_tokens..self.cached_tokens + self.tokens.len() as u32
    }

    /// Its new tokens that are the prompt's, and those that were written behind it, as ranges of [`Batch::tokens`].
    pub fn phases(&self) -> [Range<usize>; 2] {
        let prompt = self.prompt_end.saturating_sub(self.cached_tokens) as usize;
        let end = self.tokens.start + prompt.min(self.tokens.len());
        [self.tokens.start..end, end..self.tokens.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        page_tokens: 16,
        pages: 4,
        batch_tokens: 8,
        batch_outputs: 8,
        slots: 5000,
        cache: CacheType::F16,
        ring: None,
    };

    fn batch(slots: &[u32]) -> Batch {
        let mut batch = Batch::default();
        slots.iter().for_each(|&slot| batch.push(&[1], 0, &[0], slot, 16, 1));
        batch
    }

    #[test]
    fn sequences_in_slots_of_their_own_are_a_batch() {
        batch(&[0, 63, 64, 4095, 4096, 4999]).check(&PLAN, 2);
    }

    #[test]
    #[should_panic(expected = "two sequences in slot 63")]
    fn two_sequences_in_one_slot_are_none() {
        batch(&[63, 64, 63]).check(&PLAN, 2);
    }

    #[test]
    #[should_panic(expected = "two sequences in slot 4097")]
    fn nor_are_two_in_a_high_slot() {
        batch(&[1, 4097, 4098, 4097]).check(&PLAN, 2);
    }

    #[test]
    #[should_panic(expected = "slot 5000 of 5000")]
    fn nor_is_one_past_the_last() {
        batch(&[5000]).check(&PLAN, 2);
    }

    /// Every position that a token of a step sees lies where it was written, in pages of any size, and one page less is too few.
    #[test]
    fn a_ring_has_room_for_a_window_and_a_step() {
        for (window, step, page_tokens) in [(1, 1, 16), (16, 1, 16), (9, 24, 16), (17, 33, 32), (128, 512, 32)] {
            let ring = Ring::new(window, step, page_tokens);
            let page_of = |position: u32| position / page_tokens;
            // Where a step begins: anywhere in a page.
            let starts = 4 * ring.pages * page_tokens..(4 * ring.pages + 1) * page_tokens;
            let pages = |start: u32| page_of(start + step - 1) - page_of(start + 1 - window) + 1;
            assert_eq!(starts.map(pages).max(), Some(ring.pages), "{ring:?}");
        }
    }

    #[test]
    fn a_ring_holds_what_nothing_lies_over() {
        let (ring, page_tokens) = (Ring { window_tokens: 20, pages: 3 }, 16);
        for computed in 1..200usize {
            // Which page of the sequence lies in each page of the ring.
            let mut lies = [usize::MAX; 3];
            (0..computed.div_ceil(page_tokens)).for_each(|page| lies[page % 3] = page);
            for tokens in 1..=computed {
                let mut seen = tokens.saturating_sub(19) / page_tokens..tokens.div_ceil(page_tokens);
                let expected = seen.all(|page| lies[page % 3] == page);
                assert_eq!(ring.holds(computed, tokens, page_tokens), expected, "{tokens} of {computed}");
            }
        }
    }

    #[test]
    fn layers_with_rings_see_the_pages_of_their_slot() {
        let ring = Ring { window_tokens: 20, pages: 3 };
        let (mut batch, mut rings) = (Batch::default(), Batch::default());
        batch.push(&[1], 70, &[9, 8, 7, 6, 5], 2, 80, 1);
        batch.push(&[1, 2], 0, &[4], 0, 80, 1);
        batch.on_rings(&ring, &mut rings);
        assert_eq!(rings.pages, [6, 7, 8, 6, 7, 0]);
        assert_eq!(
            (&rings.tokens, &rings.sequences, &rings.outputs),
            (&batch.tokens, &batch.sequences, &batch.outputs)
        );
    }

    #[test]
    #[should_panic(expected = "40 tokens at once")]
    fn a_step_that_would_lie_over_what_it_sees_is_none() {
        let mut batch = Batch::default();
        batch.push(&[1; 40], 20, &[0, 1, 2, 3], 0, 64, 1);
        let plan = Plan { batch_tokens: 64, ring: Some(Ring { window_tokens: 20, pages: 2 }), ..PLAN };
        batch.check(&plan, 2);
    }
}
