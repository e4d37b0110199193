//! The stages that change logits: penalties for what was written, DRY, and the caller's bias.

use super::Sampler;

/// What is done to the logit of one token, ahead of all other stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The token; one past the row's end is nobody's.
    pub token: u32,
    /// What is done.
    pub effect: Effect,
}

/// See [`Change`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// A logit above zero is divided by the number, one below is multiplied by it.
    Repeated(f32),
    /// The number is added.
    Added(f32),
}

impl Effect {
    /// The logit behind it.
    #[must_use]
    pub fn of(self, logit: f32) -> f32 {
        match self {
            Self::Repeated(penalty) if logit > 0.0 => logit / penalty,
            Self::Repeated(penalty) => logit * penalty,
            Self::Added(number) => logit + number,
        }
    }
}

impl Sampler {
    /// Takes off what the sequence's tokens so far cost, and adds the bias.
    pub(super) fn look_back(&mut self, logits: &mut [f32], history: &[u32]) {
        self.changes(history, |Change { token, effect }| {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = effect.of(*logit);
            }
        });
    }

    /// What is done to logits behind `history`, the sequence's tokens so far, in this order: what the tokens cost, and the bias.
    pub fn changes(&mut self, history: &[u32], mut each: impl FnMut(Change)) {
        if self.sampling.has_penalties() {
            self.penalize(history, &mut each);
        }
        if self.sampling.dry_multiplier > 0.0 {
            self.punish_repeats(history, &mut each);
        }
        self.bias.iter().for_each(|&(token, bias)| each(Change { token, effect: Effect::Added(bias) }));
    }

    fn penalize(&mut self, history: &[u32], each: &mut impl FnMut(Change)) {
        let sampling = &self.sampling;
        let window = history.len().min(sampling.penalty_window as usize);
        self.recent.clear();
        self.recent.extend_from_slice(&history[history.len() - window..]);
        self.recent.sort_unstable();
        for same in self.recent.chunk_by(|a, b| a == b) {
            let token = same[0];
            if sampling.repetition_penalty != 1.0 {
                each(Change { token, effect: Effect::Repeated(sampling.repetition_penalty) });
            }
            let cost = same.len() as f32 * sampling.frequency_penalty + sampling.presence_penalty;
            if cost != 0.0 {
                each(Change { token, effect: Effect::Added(-cost) });
            }
        }
    }

    /// DRY. How long the end of the sequence is a repetition of what stands before each earlier token is Gusfield's Z function of the
    /// sequence backwards: linear, whatever repeats.
    fn punish_repeats(&mut self, history: &[u32], each: &mut impl FnMut(Change)) {
        let window = history.len().min(self.sampling.penalty_window as usize);
        let recent = &history[history.len() - window..];
        let backwards = |at: usize| recent[window - 1 - at];
        // A repetition never goes over a breaker.
        let free = (0..window).find(|&at| self.breaks(backwards(at))).unwrap_or(window);
        let repeats = &mut self.repeats;
        repeats.clear();
        repeats.resize(window, 0);
        let (mut left, mut right) = (0, 0);
        for at in 1..window {
            let mut length = if at < right { (repeats[at - left] as usize).min(right - at) } else { 0 };
            while at + length < window && backwards(length) == backwards(at + length) {
                length += 1;
            }
            if at + length > right {
                (left, right) = (at, at + length);
            }
            repeats[at] = length as u32;
        }
        // The longest repetition that each token would go on with: token and length, ordered.
        self.recent.clear();
        self.recent.extend((1..window).filter(|&at| repeats[at] > 0).map(|at| at as u32));
        let key = |at: u32| (backwards(at as usize - 1), std::cmp::Reverse(repeats[at as usize]));
        self.recent.sort_unstable_by_key(|&at| key(at));
        let allowed = self.sampling.dry_allowed_length;
        let mut before = None;
        for &at in &self.recent {
            let token = backwards(at as usize - 1);
            let length = repeats[at as usize].min(free as u32);
            if before == Some(token) || length < allowed {
                continue;
            }
            before = Some(token);
            // Past any logit, and within the numbers there are.
            let power = (length - allowed).min(64) as i32;
            let cost = (self.sampling.dry_multiplier * self.sampling.dry_base.powi(power)).min(1e9);
            each(Change { token, effect: Effect::Added(-cost) });
        }
    }

    fn breaks(&self, token: u32) -> bool {
        self.breakers.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }
}
