//! What is asked for: how many requests, when each comes, how long its prompt and its answer are, and which prompts begin alike.
//!
//! A prompt is a row of pieces. A piece has a name and a length, and its tokens are the first ones of an endless sequence that its
//! name stands for: equal pieces are equal tokens, whoever reads them. It knows no vocabulary until it is asked for tokens.

use std::collections::{BTreeSet, HashMap};
use std::str::FromStr;
use std::time::Duration;

use super::super::TOKENS_MAX;
use super::super::drive::Random;
use crate::failure::BadInput;

/// Names of pieces that only one request has; those below are of whoever named them.
const OWN: u64 = 1 << 40;
/// Names of pieces that warm the machine up and are nobody else's.
const WARM_UP: u64 = 1 << 48;

/// A number of tokens, or the range that each request draws its own from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// The least.
    pub least: u32,
    /// The most.
    pub most: u32,
}

/// The beginning of a sequence of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which sequence.
    pub name: u64,
    /// How much of it.
    pub tokens: u32,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// When it comes, from the start; as soon as somebody can make it where unset.
    pub comes: Option<Duration>,
    /// Its prompt.
    pub pieces: Vec<Piece>,
    /// Tokens of its answer.
    pub gen_tokens: u32,
}

/// A load that nobody recorded.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// How many requests.
    pub requests: u32,
    /// Of each prompt.
    pub prompt_tokens: Length,
    /// Of each answer.
    pub gen_tokens: Length,
    /// How much of each prompt is the beginning that all have.
    pub shared_percent: u32,
    /// Where the lengths come from.
    pub seed: u64,
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| {
            let number = text.trim().parse().ok().filter(|number| (1..=TOKENS_MAX).contains(number));
            number.ok_or_else(|| format!("give a number from 1 to {TOKENS_MAX}, or a range such as 100-400"))
        };
        let length = Self { least: number(least)?, most: number(most)? };
        if length.least > length.most {
            return Err("a range goes from the least to the most, such as 100-400".to_owned());
        }
        Ok(length)
    }
}

impl Length {
    fn draw(self, random: &mut Random) -> u32 {
        self.least + random.below(self.most - self.least + 1)
    }
}

impl Synthetic {
    /// The requests, without moments.
    pub fn outlines(&self) -> Vec<Outline> {
        let mut random = Random::new(self.seed ^ 0x6c65_6e67_7468_7321);
        let outline = |index| {
            let prompt_tokens = self.prompt_tokens.draw(&mut random);
            let common = (u64::from(prompt_tokens) * u64::from(self.shared_percent) / 100) as u32;
            let pieces = [
                Piece { name: 0, tokens: common },
                Piece { name: OWN + u64::from(index), tokens: prompt_tokens - common },
            ];
            Outline {
                comes: None,
                pieces: pieces.into_iter().filter(|piece| piece.tokens > 0).collect(),
                gen_tokens: self.gen_tokens.draw(&mut random),
            }
        };
        (0..self.requests).map(outline).collect()
    }
}

impl Outline {
    /// A request of which the trace knows only lengths, the `index`th of it.
    pub fn alone(comes: Duration, prompt_tokens: u32, gen_tokens: u32, index: usize) -> Self {
        let own = Piece { name: OWN + index as u64, tokens: prompt_tokens };
        Self { comes: Some(comes), pieces: vec![own], gen_tokens }
    }

    /// Tokens of the prompt.
    pub fn prompt_tokens(&self) -> u32 {
        self.pieces.iter().map(|piece| piece.tokens).sum()
    }

    /// The prompt in tokens under `vocab`.
    pub fn prompt(&self, seed: u64, vocab: u32) -> Vec<u32> {
        let mut prompt = Vec::with_capacity(self.prompt_tokens() as usize);
        for piece in &self.pieces {
            let mut random = Random::new(seed ^ (piece.name + 1).rotate_left(32));
            prompt.extend((0..piece.tokens).map(|_| random.below(vocab)));
        }
        prompt
    }

    /// The same lengths, at no moment and of nobody's tokens: what a machine is warmed up with.
    pub fn warm_up(&self, index: usize) -> Self {
        let own = Piece { name: WARM_UP + index as u64, tokens: self.prompt_tokens() };
        Self { comes: None, pieces: vec![own], gen_tokens: self.gen_tokens }
    }

    /// Cuts the end of the prompt, and of the answer.
    pub fn cut(&mut self, prompt_tokens_max: Option<u32>, gen_tokens_max: Option<u32>) {
        let mut room = prompt_tokens_max.unwrap_or(u32::MAX);
        for piece in &mut self.pieces {
            piece.tokens = piece.tokens.min(room);
            room -= piece.tokens;
        }
        self.pieces.retain(|piece| piece.tokens > 0);
        self.gen_tokens = self.gen_tokens.min(gen_tokens_max.unwrap_or(u32::MAX));
    }
}

/// Lets the requests come at a rate, at random moments that know nothing of each other (a Poisson process).
pub fn arrive(outlines: &mut [Outline], per_second: f64, seed: u64) -> Result<(), BadInput> {
    let mut random = Random::new(seed ^ 0x6172_7269_7661_6c73);
    let mut comes = 0.0;
    for outline in outlines {
        let share = (f64::from(random.below(1 << 30)) + 1.0) / f64::from(1 << 30);
        comes += -share.ln() / per_second;
        let moment = Duration::try_from_secs_f64(comes).ok();
        outline.comes = Some(moment.ok_or_else(|| BadInput(format!("--rate {per_second}: nobody lives as long")))?);
    }
    Ok(())
}

/// The share of the prompts' tokens that a cache of so many tokens would know, if requests came one by one and it always forgot
/// the piece that was used longest ago.
pub fn ideal_share(outlines: &[Outline], cache_tokens: Option<u64>) -> f64 {
    let capacity = cache_tokens.unwrap_or(u64::MAX);
    let (mut known, mut order, mut clock, mut kept) = (HashMap::<u64, (u64, u32)>::new(), BTreeSet::new(), 0u64, 0);
    let (mut hits, mut all) = (0, 0);
    for outline in outlines {
        for piece in &outline.pieces {
            let found = known.get(&piece.name).map_or(0, |&(_, tokens)| tokens.min(piece.tokens));
            hits += u64::from(found);
            if found < piece.tokens {
                break;
            }
        }
        all += u64::from(outline.prompt_tokens());
        // The start of a prompt is used whenever its end is, so it is the younger of the two.
        for piece in outline.pieces.iter().rev() {
            clock += 1;
            let (before, tokens) = known.get(&piece.name).copied().unwrap_or((0, 0));
            order.remove(&(before, piece.name));
            order.insert((clock, piece.name));
            let longest = tokens.max(piece.tokens);
            known.insert(piece.name, (clock, longest));
            kept += u64::from(longest - tokens);
        }
        while kept > capacity {
            let (_, name) = order.pop_first().expect("what is kept is in order");
            kept -= known.remove(&name).map_or(0, |(_, tokens)| u64::from(tokens));
        }
    }
    hits as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_a_number_or_a_range() {
        let length = |text: &str| text.parse::<Length>().map(|length| (length.least, length.most));
        assert_eq!(length("7"), Ok((7, 7)));
        assert_eq!(length("100-400"), Ok((100, 400)));
        for bad in ["", "0", "-", "4-", "5-4", "1-99999999999", "-3", "1.5"] {
            assert!(length(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prompts_begin_alike_as_far_as_was_asked() {
        let length = Length { least: 40, most: 80 };
        let synthetic =
            Synthetic { requests: 20, prompt_tokens: length, gen_tokens: length, shared_percent: 50, seed: 3 };
        let outlines = synthetic.outlines();
        let prompts: Vec<Vec<u32>> = outlines.iter().map(|outline| outline.prompt(3, 50_000)).collect();
        for (outline, prompt) in outlines.iter().zip(&prompts) {
            assert!((40..=80).contains(&prompt.len()) && (40..=80).contains(&outline.gen_tokens));
            let common = prompt.len() / 2;
            let alike = prompt.iter().zip(&prompts[0]).take_while(|(a, b)| a == b).count();
            assert!(alike >= common.min(prompts[0].len() / 2), "{alike} of {common}");
        }
        assert!(prompts[1][prompts[1].len() / 2..] != prompts[0][prompts[0].len() / 2..], "the rest is each its own");
        assert!(
            outlines.iter().any(|outline| outline.prompt_tokens() != outlines[0].prompt_tokens()),
            "lengths differ"
        );
        assert_eq!(outlines, synthetic.outlines(), "a seed says everything");
        assert_ne!(outlines[1].warm_up(1).prompt(3, 50_000)[..20], prompts[1][..20], "warming up tells nothing");
    }

    #[test]
    fn moments_are_as_many_as_the_rate_says() {
        let length = Length { least: 1, most: 1 };
        let synthetic =
            Synthetic { requests: 2000, prompt_tokens: length, gen_tokens: length, shared_percent: 0, seed: 1 };
        let mut outlines = synthetic.outlines();
        arrive(&mut outlines, 10.0, 1).unwrap();
        let moments: Vec<f64> = outlines.iter().map(|outline| outline.comes.unwrap().as_secs_f64()).collect();
        assert!(moments.is_sorted());
        assert!((180.0..220.0).contains(moments.last().unwrap()), "2,000 at 10 a second took {:?}", moments.last());
        // Exponential gaps: a share of 1 - 1/e is shorter than the mean.
        let short = moments.windows(2).filter(|pair| pair[1] - pair[0] < 0.1).count();
        assert!((1180..1350).contains(&short), "{short} of 2,000 gaps are shorter than their mean");
    }

    #[test]
    fn the_ideal_forgets_what_was_used_longest_ago() {
        let outline = |names: &[u64]| Outline {
            comes: None,
            pieces: names.iter().map(|&name| Piece { name, tokens: 10 }).collect(),
            gen_tokens: 1,
        };
        let outlines = [outline(&[0, 1]), outline(&[0, 2]), outline(&[0, 1])];
        assert!((ideal_share(&outlines, None) - 0.5).abs() < 1e-9, "two, then one, then two of six pieces");
        assert!((ideal_share(&outlines, Some(20)) - 20.0 / 60.0).abs() < 1e-9, "the second pushed the first's end out");
        assert_eq!(ideal_share(&outlines, Some(0)), 0.0);
        // A prompt that is known only behind something unknown is not known.
        assert_eq!(ideal_share(&[outline(&[0, 1]), outline(&[3, 1])], None), 0.0);
    }

    #[test]
    fn a_cut_takes_the_end() {
        let mut outline =
            Outline { comes: None, pieces: [5, 6].map(|name| Piece { name, tokens: 10 }).to_vec(), gen_tokens: 9 };
        outline.cut(Some(12), Some(3));
        assert_eq!((outline.prompt_tokens(), outline.pieces[1].tokens, outline.gen_tokens), (12, 2, 3));
        outline.cut(Some(10), None);
        assert_eq!(outline.pieces, [Piece { name: 5, tokens: 10 }]);
    }
}
