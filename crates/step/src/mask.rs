//! Which tokens may come next: a bit for each row of the logits.
//!
//! Does not know why a token may not: grammars, and whoever else forbids one, write bits here, and samplers and devices read
//! them.

/// A set of tokens, 32 to a word and the lowest first. Made once for an answer and filled again for every token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mask {
    words: Vec<u32>,
}

impl Mask {
    /// A mask over `vocabulary` tokens that allows none.
    pub fn none(vocabulary: usize) -> Self {
        Self { words: vec![0; vocabulary.div_ceil(32)] }
    }

    /// The bits, as [`crate::sample::Sampler::sample`] and devices take them.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Whether `token` may come next.
    pub fn allows(&self, token: u32) -> bool {
        self.words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// How many tokens may come next.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no token may come next.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The tokens that may come next, by rising id.
    pub fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 32).then_some(at as u32 * 32 + bit)
            })
        })
    }

    /// Allows one token; nothing beyond the vocabulary.
    pub fn allow(&mut self, token: u32) {
        if let Some(word) = self.words.get_mut(token as usize / 32) {
            *word |= 1 << (token % 32);
        }
    }

    /// Allows exactly the tokens of `words` that `within` allows too.
    pub(crate) fn fill(&mut self, words: &[u32], within: &Self) {
        for (at, word) in self.words.iter_mut().enumerate() {
            *word = words.get(at).copied().unwrap_or(0) & within.words.get(at).copied().unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_tokens_and_nothing_lies_beyond_the_vocabulary() {
        let mut mask = Mask::none(70);
        assert_eq!((mask.words().len(), mask.count()), (3, 0));
        for token in [0, 31, 32, 69, 96, u32::MAX] {
            mask.allow(token);
        }
        assert_eq!(mask.words(), [1 | 1 << 31, 1, 1 << 5]);
        assert!(mask.allows(69) && !mask.allows(68) && !mask.allows(u32::MAX));
        assert_eq!(mask.tokens().collect::<Vec<_>>(), [0, 31, 32, 69]);
    }

    #[test]
    fn a_filled_mask_allows_what_both_do() {
        let mut within = Mask::none(64);
        [1, 2, 40].into_iter().for_each(|token| within.allow(token));
        let mut mask = Mask::none(64);
        mask.allow(63);
        mask.fill(&[0b0110_0000_0000_0000_0000_0000_0000_0110], &within);
        assert_eq!((mask.allows(1), mask.allows(2), mask.allows(40), mask.allows(63)), (true, true, false, false));
    }
}
