//! From a row of logits to a token.
//!
//! The order of the stages is fixed: **penalties, DRY, logit bias, top-n-sigma, top-k, typical, top-p, min-p, XTC,
//! temperature, mirostat**. Most stages keep the first tokens of one order, by falling logit and then by rising id, so each
//! comes down to a *cut*: the last token that stays. Nothing is sorted: a row of 150,000 is read a few times in blocks of
//! 32, whose largest values let most blocks be skipped, and only the few candidates near the top are compared with each
//! other. The two stages that keep another set, typical and XTC, take the rest out of the row and look for the cut anew.
//!
//! - penalties, over the last `penalty_window` tokens: a logit above zero is divided by `repetition_penalty`, one below
//!   is multiplied by it (Keskar et al. 2019); then `frequency_penalty` for each occurrence and `presence_penalty` once
//!   are subtracted (as in the `OpenAI` API).
//! - DRY (p-e-w 2024): a token that would go on repeating the last n tokens as they were followed before loses
//!   `dry_multiplier` times `dry_base` to the power of n - `dry_allowed_length`; a repetition ends at a breaker.
//! - logit bias adds its number to a token's logit.
//! - top-n-sigma keeps the tokens whose logit is at most n standard deviations of all logits below the largest (Tang et al.
//!   2024).
//! - typical keeps the fewest tokens, those first whose surprise is nearest to the entropy, that reach its share
//!   (Meister et al. 2022).
//! - top-k keeps the k most probable; top-p the fewest whose probabilities (at temperature 1, among those left) reach p
//!   (Holtzman et al. 2019); min-p those with at least `min_p` times the probability of the most probable.
//! - XTC (p-e-w 2024) takes out, with `xtc_probability`, all tokens of at least `xtc_threshold` but the least probable of them.
//! - temperature divides the logits of what is left; 0 takes the most probable token, the lowest id of equals, behind the first
//!   three stages. A range around it makes it dynamic: the lower end where one token has all the probability, the upper where all
//!   have the same, between them by the entropy's share of its largest value, to the power of `temperature_exponent`.
//! - mirostat (version 2; Basu et al. 2021) keeps the tokens of at most a surprise, in bits, that it moves after every token
//!   towards an average of `mirostat_tau`.
//!
//! The draw for a token is a function of seed and position alone: Philox4x32-10 (Salmon et al. 2011, "Parallel random
//! numbers: as easy as 1, 2, 3") with the position as its counter and the seed as its key. Sums run in one fixed order and
//! the exponential is this file's own, so that a draw is the same on every machine.
//!
//! A device that chooses by itself is told what [`Sampler::drawing`] and [`Sampler::changes`] say, and the [`uniform`] draw.
//!
//! Knows no model, no text and no clock.

mod history;
mod nucleus;
mod row;
mod stages;
mod weights;

use std::cmp::Ordering;
use std::sync::Arc;

use fearless_simd::{Level, dispatch};
pub use history::{Change, Effect};
use row::{BLOCK, LANES, Row, block_maxima, largest};
use weights::{EXPONENT_MIN, SPAN, Weighing, exponential, sum_spans, weigh_row, weigh_span, weight};

/// Blocks whose largest logit is compared with others' as one, where few are looked for.
const BLOCKS_TOGETHER: usize = 8;

/// How tokens are chosen. [`Sampling::default`] samples the model's own distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits: 0 (greedy) to 100.
    pub temperature: f32,
    /// How many tokens to choose from; 0 is all.
    pub top_k: u32,
    /// The share of the probability to choose from: over 0, to 1 (all).
    pub top_p: f32,
    /// The least probability to choose from, as a share of the greatest: 0 (all) to 1.
    pub min_p: f32,
    /// Divides or multiplies the logits of tokens that occurred: over 0, to 100; 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted from a logit for each time that its token occurred: -2 to 2.
    pub frequency_penalty: f32,
    /// Subtracted from a logit when its token occurred: -2 to 2.
    pub presence_penalty: f32,
    /// How many of the last tokens count for the penalties: up to [`PENALTY_WINDOW_MAX`].
    pub penalty_window: u32,
    /// What a token loses that goes on repeating `dry_allowed_length` tokens: 0 (off) to 100.
    pub dry_multiplier: f32,
    /// How much more for each further token: 1 to 100.
    pub dry_base: f32,
    /// Tokens that may be repeated: from 1.
    pub dry_allowed_length: u32,
    /// How many standard deviations below the largest logit a token may be: 0 (off) to 1000.
    pub top_n_sigma: f32,
    /// The share of the probability that typical tokens are chosen from: over 0, to 1 (all).
    pub typical_p: f32,
    /// How often the most probable tokens are taken out: 0 (never) to 1.
    pub xtc_probability: f32,
    /// The probability from which on they are: 0 to 1.
    pub xtc_threshold: f32,
    /// How far the temperature may move, up and down: 0 (not at all) to 100.
    pub temperature_range: f32,
    /// What the entropy's share is raised to when it does: over 0, to 100.
    pub temperature_exponent: f32,
    /// The average surprise that is aimed at, in bits: 0 (off) to 100.
    pub mirostat_tau: f32,
    /// How quickly: over 0, to 1.
    pub mirostat_eta: f32,
    /// The key of the draws.
    pub seed: u64,
}

/// The most tokens that the penalties look back.
pub const PENALTY_WINDOW_MAX: u32 = 8192;

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_window: 256,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            top_n_sigma: 0.0,
            typical_p: 1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            temperature_range: 0.0,
            temperature_exponent: 1.0,
            mirostat_tau: 0.0,
            mirostat_eta: 0.1,
            seed: 0,
        }
    }
}

/// A parameter outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field} must be {range}, not {value}")]
pub struct Error {
    /// The parameter's name.
    pub field: &'static str,
    /// What it may be, in words.
    pub range: &'static str,
    /// What it was.
    pub value: f64,
}

impl Sampling {
    /// Checks every parameter against its range; not-a-number is in none.
    pub fn validate(&self) -> Result<(), Error> {
        let signed = |value: f32| (-2.0..=2.0).contains(&value);
        let positive = |value: f32, most: f32| value > 0.0 && value <= most;
        let within = |value: f32, most: f32| (0.0..=most).contains(&value);
        let (allowed, eta) = (self.dry_allowed_length, self.mirostat_eta);
        let exponent = self.temperature_exponent;
        let checks = [
            ("temperature", "from 0 to 100", self.temperature, (0.0..=100.0).contains(&self.temperature)),
            ("top_p", "over 0 and at most 1", self.top_p, positive(self.top_p, 1.0)),
            ("min_p", "from 0 to 1", self.min_p, (0.0..=1.0).contains(&self.min_p)),
            (
                "repetition_penalty",
                "over 0 and at most 100",
                self.repetition_penalty,
                positive(self.repetition_penalty, 100.0),
            ),
            ("frequency_penalty", "from -2 to 2", self.frequency_penalty, signed(self.frequency_penalty)),
            ("presence_penalty", "from -2 to 2", self.presence_penalty, signed(self.presence_penalty)),
            ("dry_multiplier", "from 0 to 100", self.dry_multiplier, within(self.dry_multiplier, 100.0)),
            ("dry_base", "from 1 to 100", self.dry_base, (1.0..=100.0).contains(&self.dry_base)),
            ("dry_allowed_length", "at least 1", allowed as f32, allowed >= 1),
            ("top_n_sigma", "from 0 to 1000", self.top_n_sigma, within(self.top_n_sigma, 1000.0)),
            ("typical_p", "over 0 and at most 1", self.typical_p, positive(self.typical_p, 1.0)),
            ("xtc_probability", "from 0 to 1", self.xtc_probability, within(self.xtc_probability, 1.0)),
            ("xtc_threshold", "from 0 to 1", self.xtc_threshold, within(self.xtc_threshold, 1.0)),
            ("temperature_range", "from 0 to 100", self.temperature_range, within(self.temperature_range, 100.0)),
            ("temperature_exponent", "over 0 and at most 100", exponent, positive(exponent, 100.0)),
            ("mirostat_tau", "from 0 to 100", self.mirostat_tau, within(self.mirostat_tau, 100.0)),
            ("mirostat_eta", "over 0 and at most 1", eta, positive(eta, 1.0)),
            ("penalty_window", "at most 8192", self.penalty_window as f32, self.penalty_window <= PENALTY_WINDOW_MAX),
        ];
        match checks.iter().find(|(.., valid)| !valid) {
            None => Ok(()),
            Some(&(field, range, value, _)) => Err(Error { field, range, value: f64::from(value) }),
        }
    }

    /// Whether the most likely token is always the one: a device may then choose it by itself.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && !self.has_penalties() && self.dry_multiplier == 0.0
    }

    fn has_penalties(&self) -> bool {
        self.repetition_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0
    }
}

/// How a sampler chooses once the [`Change`]s are made, where it goes through no other stages than these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawing {
    /// Divides the logits of what is left; 0 takes the most probable token.
    pub temperature: f32,
    /// How many tokens to choose from; 0 is all.
    pub top_k: u32,
    /// The share of the probability at temperature 1, among those, to choose from.
    pub top_p: f32,
    /// How far below the largest a logit may be: min-p's share as a distance; infinity where all may be chosen.
    pub below_max: f32,
}

/// A chosen token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Its id.
    pub token: u32,
    /// Its probability among the tokens that were left to choose from, after all stages; 1 when greedy.
    pub probability: f32,
}

/// What samplers work in, as large as the vocabulary or larger. Nothing in it is of use behind a row, so that samplers that take turns need one
/// together.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The largest logit of each block that may still be chosen from, (vocabulary / 32).
    block_max: Vec<f32>,
    /// The weight of each span of blocks, (vocabulary / 1024).
    span_weight: Vec<f64>,
    /// The weight of each token at temperature 1, as top-p noted it, (vocabulary / 32, 32).
    weights: Vec<[f32; BLOCK]>,
    /// A bit for each token that top-p has yet to look through, (vocabulary / 32), and the blocks of such tokens, of which the last are none.
    between: Vec<u32>,
    places: Vec<u32>,
    /// Tokens compared with each other, at most the vocabulary.
    candidates: Vec<Candidate>,
}

impl Workspace {
    /// With room for rows of `vocabulary` logits.
    pub fn new(vocabulary: usize) -> Self {
        let blocks = vocabulary.div_ceil(BLOCK);
        Self {
            block_max: Vec::with_capacity(blocks),
            span_weight: Vec::with_capacity(blocks.div_ceil(SPAN)),
            weights: Vec::with_capacity(blocks),
            between: Vec::with_capacity(blocks),
            places: Vec::with_capacity(blocks + LANES),
            candidates: Vec::with_capacity(vocabulary),
        }
    }
}

/// Chooses tokens. Made once for a sequence; a call allocates nothing where it has a [`Workspace`] with room for the row.
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    /// The vectors that this machine has.
    level: Level,
    /// How far below the largest logit min-p cuts.
    min_p_distance: f32,
    work: Workspace,
    /// What the spans' weights are of, where top-p has noted them.
    span_cut: Option<Candidate>,
    /// The largest logit of the row when top-p noted its weights: not a number where the row is another one now.
    weights_max: f32,
    /// The tokens that the penalties count, at most `penalty_window`.
    recent: Vec<u32>,
    /// How long the repetition is that each of the recent tokens ended, for DRY.
    repeats: Vec<u32>,
    /// What is added to logits.
    bias: Vec<(u32, f32)>,
    /// A bit for each token that ends a repetition, 32 to a word.
    breakers: Arc<[u32]>,
    /// The most surprise that mirostat lets a token have now, in bits.
    surprise_max: f64,
    /// What the latest token was drawn from.
    drawn_from: Drawn,
}

/// What a token was drawn from.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    cut: Candidate,
    max: f32,
    temperature: f32,
    total: f64,
}

/// The most tokens whose logits a request may change.
pub const BIAS_TOKENS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    logit: f32,
    token: u32,
}

impl Candidate {
    /// The order of the stages: the more probable first, then the lower id.
    fn order(self, other: Self) -> Ordering {
        let by_logit = other.logit.partial_cmp(&self.logit).unwrap_or(Ordering::Equal);
        by_logit.then(self.token.cmp(&other.token))
    }

    /// The cut that keeps what both keep.
    fn stricter(self, other: Self) -> Self {
        if self.keeps(other.logit, other.token) { other } else { self }
    }

    /// Whether a token stays when this one is the last that does.
    fn keeps(self, logit: f32, token: u32) -> bool {
        logit > self.logit || (logit == self.logit && token <= self.token)
    }
}

/// The cut that keeps everything that can be chosen at all.
const EVERYTHING: Candidate = Candidate { logit: f32::MIN, token: u32::MAX };

impl Sampler {
    /// A sampler, with an empty workspace. Fails when a parameter is outside its range.
    pub fn new(sampling: Sampling) -> Result<Self, Error> {
        sampling.validate()?;
        Ok(Self {
            sampling,
            level: Level::new(),
            min_p_distance: logarithm(sampling.min_p),
            work: Workspace::default(),
            span_cut: None,
            weights_max: f32::NAN,
            recent: Vec::with_capacity(sampling.penalty_window as usize),
            repeats: Vec::with_capacity(if sampling.dry_multiplier > 0.0 {
                sampling.penalty_window as usize
            } else {
                0
            }),
            bias: Vec::new(),
            breakers: Arc::new([]),
            surprise_max: 2.0 * f64::from(sampling.mirostat_tau),
            drawn_from: Drawn { cut: EVERYTHING, max: 0.0, temperature: 1.0, total: 1.0 },
        })
    }

    /// Works in this from now on, and gives back what it worked in before.
    pub fn exchange(&mut self, work: &mut Workspace) {
        std::mem::swap(&mut self.work, work);
    }

    /// Adds numbers to the logits of tokens: -100 to 100 each, for at most [`BIAS_TOKENS_MAX`].
    pub fn with_bias(mut self, bias: &[(u32, f32)]) -> Result<Self, Error> {
        let field = "logit_bias";
        if bias.len() > BIAS_TOKENS_MAX {
            return Err(Error { field, range: "for at most 4096 tokens", value: bias.len() as f64 });
        }
        if let Some(&(_, value)) = bias.iter().find(|(_, value)| !(-100.0..=100.0).contains(value)) {
            return Err(Error { field, range: "from -100 to 100", value: f64::from(value) });
        }
        self.bias = bias.to_vec();
        Ok(self)
    }

    /// Ends repetitions at these tokens: a bit for each, 32 to a word and the lowest first.
    #[must_use]
    pub fn with_breakers(mut self, breakers: Arc<[u32]>) -> Self {
        self.breakers = breakers;
        self
    }

    /// How it chooses, for a device that has the usual stages; nothing where it goes through others behind the [`Change`]s.
    pub fn drawing(&self) -> Option<Drawing> {
        let sampling = &self.sampling;
        let Sampling { temperature, top_k, top_p, min_p, .. } = *sampling;
        // At temperature 0 none of them is come to.
        let is_usual = temperature == 0.0
            || sampling.top_n_sigma == 0.0
                && sampling.typical_p == 1.0
                && sampling.xtc_probability == 0.0
                && sampling.temperature_range == 0.0
                && sampling.mirostat_tau == 0.0;
        let below_max = if min_p > 0.0 { -self.min_p_distance } else { f32::INFINITY };
        is_usual.then_some(Drawing { temperature, top_k, top_p, below_max })
    }

    /// The draw for the token at `position`: uniform in [0, 1).
    pub fn uniform(&self, position: u64) -> f64 {
        uniform(self.sampling.seed, position)
    }

    /// Chooses the token at `position` of its sequence from a row of logits; `None` when no token may be chosen.
    ///
    /// `mask` has a bit for each token, 32 to a word and the lowest first, 1 where it is allowed; a token without a bit is
    /// not. `history` are the sequence's tokens so far. The row is changed: the penalties are taken off in place. A logit
    /// that is not a number counts as minus infinity; a token of minus infinity is never chosen.
    pub fn sample(
        &mut self,
        logits: &mut [f32],
        mask: Option<&[u32]>,
        position: u64,
        history: &[u32],
    ) -> Option<Choice> {
        self.look_back(logits, history);
        let max = self.survey(&Row { logits, mask });
        if max == f32::NEG_INFINITY {
            return None;
        }
        if self.sampling.temperature == 0.0 {
            let row = Row { logits, mask };
            let block = self.work.block_max.iter().position(|&block_max| block_max == max)?;
            let token = row.tokens(block).find(|&(_, logit)| logit == max)?.0;
            self.drawn_from = Drawn { cut: Candidate { logit: max, token }, max, temperature: 1.0, total: 1.0 };
            return Some(Choice { token, probability: 1.0 });
        }
        let (cut, max) = self.chain(logits, mask, max, position);
        let row = Row { logits, mask };
        let temperature = self.temperature(&row, max, cut);
        let cut = self.mirostat(&row, max, cut, temperature);
        let choice = self.draw(&row, max, cut, temperature, uniform(self.sampling.seed, position));
        if let (Some(choice), true) = (choice, self.sampling.mirostat_tau > 0.0) {
            let surprise = -stages::natural_logarithm(f64::from(choice.probability)) * std::f64::consts::LOG2_E;
            let error = surprise - f64::from(self.sampling.mirostat_tau);
            self.surprise_max -= f64::from(self.sampling.mirostat_eta) * error;
        }
        choice
    }

    /// The most probable `count` of the tokens that the latest one was drawn from, with their probabilities there. `logits` and
    /// `mask` are those of [`Sampler::sample`], as it left them.
    pub fn leading(&mut self, logits: &[f32], mask: Option<&[u32]>, count: usize) -> Vec<Choice> {
        let Drawn { cut, max, temperature, total } = self.drawn_from;
        self.gather(&Row { logits, mask }, cut.logit, cut);
        let count = count.min(self.work.candidates.len());
        if count == 0 {
            return Vec::new();
        }
        self.work.candidates.select_nth_unstable_by(count - 1, |a, b| a.order(*b));
        let first = &mut self.work.candidates[..count];
        first.sort_unstable_by(|a, b| a.order(*b));
        let what = Weighing::new(max, temperature, cut);
        let choice = |candidate: &Candidate| {
            let probability = (what.weight(candidate.logit) / total) as f32;
            Choice { token: candidate.token, probability }
        };
        first.iter().map(choice).collect()
    }

    /// Notes the largest logit of every block, and returns the largest of all.
    fn survey(&mut self, row: &Row<'_>) -> f32 {
        self.work.block_max.resize(row.blocks(), 0.0);
        (self.weights_max, self.span_cut) = (f32::NAN, None);
        dispatch!(self.level, simd => block_maxima(simd, row, &mut self.work.block_max))
    }

    /// The stages between bias and temperature: the cut, and the largest logit that is left.
    fn chain(&mut self, logits: &mut [f32], mask: Option<&[u32]>, mut max: f32, position: u64) -> (Candidate, f32) {
        let sampling = self.sampling;
        let mut cut = EVERYTHING;
        if sampling.top_n_sigma > 0.0 {
            cut = self.sigma(&Row { logits, mask }, max);
        }
        if sampling.top_k > 0 && (sampling.top_k as usize) < logits.len() {
            cut = cut.stricter(self.top_k(&Row { logits, mask }));
        }
        if sampling.typical_p < 1.0 {
            self.typical(logits, mask, max, cut);
            max = self.survey(&Row { logits, mask });
        }
        if sampling.top_p < 1.0 {
            cut = self.top_p(&Row { logits, mask }, max, cut);
        }
        if sampling.min_p > 0.0 {
            cut = cut.stricter(Candidate { logit: max + self.min_p_distance, token: u32::MAX });
        }
        if sampling.xtc_probability > 0.0 && self.exclude_top(logits, mask, max, cut, position) {
            max = self.survey(&Row { logits, mask });
        }
        (cut, max)
    }

    /// The k-th of the k largest maxima of blocks is a floor: k tokens are at or above it, so the k best are too. Where k is small,
    /// several blocks go together: fewer maxima are compared, and the floor is not much lower.
    fn top_k(&mut self, row: &Row<'_>) -> Candidate {
        let k = self.sampling.top_k as usize;
        let mut floor = f32::MIN;
        let together = if k * 2 * BLOCKS_TOGETHER <= self.work.block_max.len() { BLOCKS_TOGETHER } else { 1 };
        if k <= self.work.block_max.len() {
            self.work.candidates.clear();
            let maxima = self.work.block_max.chunks(together).map(largest).map(|logit| Candidate { logit, token: 0 });
            self.work.candidates.extend(maxima);
            floor = self.work.candidates.select_nth_unstable_by(k - 1, |a, b| a.order(*b)).1.logit.max(f32::MIN);
        }
        self.gather(row, floor, EVERYTHING);
        if self.work.candidates.len() < k {
            return EVERYTHING;
        }
        *self.work.candidates.select_nth_unstable_by(k - 1, |a, b| a.order(*b)).1
    }

    /// Gathers the tokens of at least `floor` that the cut keeps.
    fn gather(&mut self, row: &Row<'_>, floor: f32, cut: Candidate) {
        self.work.candidates.clear();
        for (block, &block_max) in self.work.block_max.iter().enumerate() {
            if block_max >= floor {
                let kept = row
                    .tokens(block)
                    .filter(|&(token, logit)| logit >= floor && cut.keeps(logit, token))
                    .map(|(token, logit)| Candidate { logit, token });
                self.work.candidates.extend(kept);
            }
        }
    }

    /// Notes the weight at a temperature of what the cut keeps in every span, and returns the sum.
    fn weigh(&mut self, row: &Row<'_>, max: f32, cut: Candidate, temperature: f32) -> f64 {
        let what = Weighing::new(max, temperature, cut);
        let Self { level, work: Workspace { block_max, span_weight, weights, .. }, .. } = self;
        span_weight.resize(row.blocks().div_ceil(SPAN), 0.0);
        if temperature != 1.0 || self.weights_max != max {
            dispatch!(*level, simd => weigh_row(simd, row, block_max, what, &mut [], span_weight));
            self.span_cut = None;
        } else if self.span_cut != Some(cut) {
            dispatch!(*level, simd => sum_spans(simd, row, block_max, what, weights, span_weight));
            self.span_cut = Some(cut);
        }
        self.work.span_weight.iter().sum()
    }

    /// Draws from what the cut keeps: the token at which the running sum, in order of ids, passes the draw.
    fn draw(&mut self, row: &Row<'_>, max: f32, cut: Candidate, temperature: f32, uniform: f64) -> Option<Choice> {
        let total = self.weigh(row, max, cut, temperature);
        self.drawn_from = Drawn { cut, max, temperature, total };
        let what = Weighing::new(max, temperature, cut);
        let (span, left) = passed(&self.work.span_weight, uniform * total)?;
        let blocks = dispatch!(self.level, simd => weigh_span(simd, row, &self.work.block_max, what, span));
        let (block, mut left) = passed(&blocks, left)?;
        let mut choice = None;
        for (token, logit) in row.tokens(span * SPAN + block).filter(|&(token, logit)| cut.keeps(logit, token)) {
            let weight = what.weight(logit);
            if weight > 0.0 {
                let probability = (weight / total) as f32;
                choice = Some(Choice { token, probability });
                left -= weight;
                if left < 0.0 {
                    break;
                }
            }
        }
        choice
    }
}

/// The weight at which the running sum passes `left`, and what is left of it there. Rounding may leave a little of the sum over: the last that
/// weighs anything takes it.
fn passed(weights: &[f64], mut left: f64) -> Option<(usize, f64)> {
    let mut found = None;
    for (at, &weight) in weights.iter().enumerate().filter(|&(_, &weight)| weight > 0.0) {
        found = Some((at, left));
        if left < weight {
            break;
        }
        left -= weight;
    }
    found
}

/// The inverse of [`exponential`] for a share from 0 to 1, by halving: no two machines' libraries agree on the last bit.
fn logarithm(share: f32) -> f32 {
    let (mut below, mut above) = (EXPONENT_MIN, 0.0);
    if share <= exponential(below) {
        return below;
    }
    for _ in 0..64 {
        let middle = f32::midpoint(below, above);
        if exponential(middle) < share {
            below = middle;
        } else {
            above = middle;
        }
    }
    above
}

/// The draw for a position: uniform in [0, 1), 53 bits of Philox4x32-10.
pub fn uniform(seed: u64, position: u64) -> f64 {
    draw_of(seed, position, 0)
}

/// One of several draws for a position.
fn draw_of(seed: u64, position: u64, which: u32) -> f64 {
    let [low, high, ..] =
        philox([position as u32, (position >> 32) as u32, which, 0], [seed as u32, (seed >> 32) as u32]);
    let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(counter[0]) * 0xd251_1f53;
        let b = u64::from(counter[2]) * 0xcd9e_8d57;
        counter = [(b >> 32) as u32 ^ counter[1] ^ key[0], b as u32, (a >> 32) as u32 ^ counter[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}

/// The `count` most probable tokens of the model's own distribution, with the natural logarithms of their probabilities.
pub fn leading_log_probabilities(logits: &[f32], count: usize) -> Vec<(u32, f32)> {
    let mut best: Vec<Candidate> = logits
        .iter()
        .enumerate()
        .filter(|(_, logit)| !logit.is_nan())
        .map(|(token, &logit)| Candidate { logit, token: token as u32 })
        .collect();
    let count = count.min(best.len());
    if count == 0 {
        return Vec::new();
    }
    best.select_nth_unstable_by(count - 1, |a, b| a.order(*b));
    best.truncate(count);
    best.sort_unstable_by(|a, b| a.order(*b));
    let first = log_probability(logits, best[0].token);
    let top = best[0].logit.min(f32::MAX);
    best.iter().map(|candidate| (candidate.token, first + (candidate.logit.min(f32::MAX) - top))).collect()
}

/// The natural logarithm of a token's probability in the model's own distribution (no stage applied), as the API reports it;
/// minus infinity for an id outside the row. Not a number counts as minus infinity.
pub fn log_probability(logits: &[f32], token: u32) -> f32 {
    let max = largest(logits).min(f32::MAX);
    let Some(&logit) = logits.get(token as usize).filter(|logit| !logit.is_nan()) else {
        return f32::NEG_INFINITY;
    };
    let total: f64 = logits
        .chunks(BLOCK)
        .map(|block| {
            block.iter().filter(|logit| !logit.is_nan()).map(|logit| weight(logit.min(f32::MAX) - max)).sum::<f64>()
        })
        .sum();
    (f64::from(logit.min(f32::MAX) - max) - total.ln()) as f32
}

#[cfg(test)]
mod tests;
