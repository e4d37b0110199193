//! What a sampler chooses by, brought to a device that draws: rows stay there, and only ids come back.
//!
//! A sampler with stages that such a device does not have, or with more changes of a row than it takes, is given the row instead.

use std::ops::Range;

use kauri_device::{CHANGES_MAX, Change, Choice, Draw, Effect};
use kauri_step::sample::{self, Drawing, Sampler};

/// The draws of a step, with what they share.
#[derive(Debug, Default)]
pub(crate) struct Draws {
    changes: Vec<Change>,
}

/// A draw that waits for its mask.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    drawing: Drawing,
    uniform: f64,
    /// Which of the changes are its own.
    changes: Range<usize>,
}

impl Draws {
    /// Forgets the draws of the step before.
    pub(crate) fn clear(&mut self) {
        self.changes.clear();
    }

    /// The draw of the token at `position`, behind `history`; nothing where the sampler has to see the row.
    pub(crate) fn plan(&mut self, sampler: &mut Sampler, position: u64, history: &[u32]) -> Option<Planned> {
        let drawing = sampler.drawing()?;
        let start = self.changes.len();
        sampler.changes(history, |sample::Change { token, effect }| {
            let effect = match effect {
                sample::Effect::Repeated(penalty) => Effect::Repeated(penalty),
                sample::Effect::Added(number) => Effect::Added(number),
            };
            self.changes.push(Change { token, effect });
        });
        if self.changes.len() - start > CHANGES_MAX {
            self.changes.truncate(start);
            return None;
        }
        Some(Planned { drawing, uniform: sampler.uniform(position), changes: start..self.changes.len() })
    }

    /// What a device is asked for.
    pub(crate) fn choice<'a>(&'a self, planned: &Planned, mask: Option<&'a [u32]>) -> Choice<'a> {
        let Planned { drawing, uniform, ref changes } = *planned;
        let Drawing { temperature, top_k, top_p, below_max } = drawing;
        Choice::Draw(Draw {
            temperature,
            top_k,
            top_p,
            below_max,
            uniform,
            changes: &self.changes[changes.clone()],
            mask,
        })
    }
}

#[cfg(test)]
mod tests {
    use kauri_device::draw;
    use kauri_step::sample::Sampling;

    use super::*;

    /// Numbers without an end, the same in every run.
    struct Random(u64);

    impl Random {
        fn next(&mut self, below: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((u64::from((self.0 >> 32) as u32) * u64::from(below)) >> 32) as u32
        }

        fn one_of<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
            of[self.next(N as u32) as usize]
        }

        /// About normal, of deviation one.
        fn normal(&mut self) -> f32 {
            (0..12).map(|_| self.next(1 << 20) as f32 / (1 << 20) as f32).sum::<f32>() - 6.0
        }

        fn sampling(&mut self) -> Sampling {
            Sampling {
                temperature: self.one_of([0.0, 0.2, 0.8, 1.0, 1.0, 1.7, 30.0]),
                top_k: self.one_of([0, 0, 1, 2, 20, 40, 500, 5000]),
                top_p: self.one_of([1.0, 1.0, 0.95, 0.9, 0.5, 0.01, 0.999]),
                min_p: self.one_of([0.0, 0.0, 0.05, 0.3, 1.0]),
                repetition_penalty: self.one_of([1.0, 1.0, 1.2, 0.7]),
                frequency_penalty: self.one_of([0.0, 0.0, 0.5, -0.3]),
                presence_penalty: self.one_of([0.0, 0.0, 1.5, -0.1]),
                penalty_window: self.one_of([0, 8, 256]),
                dry_multiplier: self.one_of([0.0, 0.0, 0.8]),
                seed: u64::from(self.next(u32::MAX)),
                ..Sampling::default()
            }
        }

        fn row(&mut self, vocab: usize) -> Vec<f32> {
            let (kind, spread) = (self.next(6), self.one_of([0.01, 1.0, 3.0, 12.0]));
            let value = |random: &mut Self| match (kind, random.next(40)) {
                // Few different values, and among them what is no number.
                (0, 0) => f32::NAN,
                (0, 1) => f32::NEG_INFINITY,
                (0, 2) if random.next(50) == 0 => f32::INFINITY,
                (0, number) => (number / 4) as f32 - 4.0,
                (1, _) => 2.5,
                (2, _) => {
                    if random.next(vocab as u32) < 3 {
                        20.0
                    } else {
                        random.normal()
                    }
                }
                _ => spread * random.normal(),
            };
            (0..vocab).map(|_| value(self)).collect()
        }
    }

    /// Whether a draw a millionth beside this one, in top-p's share or in what decides, comes to a token.
    fn is_beside(row: &[f32], draw: &Draw<'_>, token: Option<u32>) -> bool {
        let steps = [-1e-6, 0.0, 1e-6];
        let beside = |share: f32, step: f64| {
            let (top_p, uniform) = ((draw.top_p * (1.0 + share)).min(1.0), (draw.uniform + step).clamp(0.0, 1.0));
            draw::choose(row, &Draw { top_p, uniform, ..*draw }) == token
        };
        steps.iter().any(|&share| steps.iter().any(|&step| beside(share as f32, step)))
    }

    /// What a device must choose is what the sampler chooses. That adds up floats where top-p goes through a whole row, so that ties (of half the
    /// probability with two of four equal tokens) and draws between two tokens may go the other way: a few of thousands.
    #[test]
    fn a_draw_is_the_samplers() {
        let mut random = Random(7);
        let (mut none, mut beside, mut all) = (0, 0, 0);
        for vocab in [1, 31, 33, 1000, 1024, 5003, 40_000] {
            let rounds = if cfg!(debug_assertions) { 1_200_000 / (vocab + 2000) } else { 6000 };
            for round in 0..rounds as u64 {
                let sampling = random.sampling();
                let row = random.row(vocab);
                let history: Vec<u32> = (0..random.next(300)).map(|_| random.next(vocab as u32 + 2)).collect();
                let mask: Vec<u32> = (0..=vocab / 32).map(|_| random.next(u32::MAX) & random.next(u32::MAX)).collect();
                let mask = random.one_of([None, None, Some(&mask[..]), Some(&mask[..vocab / 64])]);
                let bias: Vec<(u32, f32)> =
                    (0..random.one_of([0, 0, 5])).map(|_| (random.next(vocab as u32), random.normal())).collect();
                let mut sampler = Sampler::new(sampling).unwrap().with_bias(&bias).unwrap();
                let expected = sampler.sample(&mut row.clone(), mask, round, &history).map(|choice| choice.token);
                let mut draws = Draws::default();
                let planned = draws.plan(&mut sampler, round, &history).expect("only usual stages");
                let Choice::Draw(draw) = draws.choice(&planned, mask) else { panic!("a draw") };
                let found = draw::choose(&row, &draw);
                let is_near = found != expected && sampling.top_p < 1.0 && is_beside(&row, &draw, expected);
                assert!(
                    found == expected || is_near,
                    "{found:?} for {expected:?}, round {round} of {vocab}: {sampling:?}, bias {bias:?}"
                );
                (all, beside) = (all + 1, beside + usize::from(is_near));
                none += usize::from(found.is_none());
            }
        }
        assert!(none > 0, "rows of which nothing may be chosen are among them");
        assert!(beside * 200 < all, "{beside} of {all} draws went the other way");
    }

    #[test]
    fn other_stages_and_many_changes_are_the_hosts() {
        let usual = Sampling { temperature: 0.7, ..Sampling::default() };
        let others = [
            Sampling { typical_p: 0.9, ..usual },
            Sampling { top_n_sigma: 1.0, ..usual },
            Sampling { xtc_probability: 0.5, ..usual },
            Sampling { temperature_range: 0.3, ..usual },
            Sampling { mirostat_tau: 5.0, ..usual },
        ];
        let mut draws = Draws::default();
        for sampling in others {
            assert!(draws.plan(&mut Sampler::new(sampling).unwrap(), 0, &[]).is_none(), "{sampling:?}");
            // None of them is come to where the most probable token is taken.
            let greedy = Sampling { temperature: 0.0, presence_penalty: 1.0, ..sampling };
            assert!(draws.plan(&mut Sampler::new(greedy).unwrap(), 0, &[]).is_some(), "{sampling:?}");
        }
        let bias = |count: u32| (0..count).map(|token| (token, 1.0)).collect::<Vec<_>>();
        let mut most = Sampler::new(usual).unwrap().with_bias(&bias(CHANGES_MAX as u32)).unwrap();
        assert_eq!(draws.plan(&mut most, 0, &[]).expect("as many as may be").changes, 0..CHANGES_MAX);
        let mut more = Sampler::new(usual).unwrap().with_bias(&bias(CHANGES_MAX as u32 + 1)).unwrap();
        assert!(draws.plan(&mut more, 0, &[]).is_none());
        assert_eq!(draws.plan(&mut most, 0, &[]).expect("what did not go is forgotten").changes.start, CHANGES_MAX);
    }
}
