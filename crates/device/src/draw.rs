//! What a device needs to choose a token of a row by itself, and the scalar definition of what it must choose.
//!
//! The order: changes of single logits, top-k, top-p, min-p, temperature, the draw; each as `kauri_step::sample` has it, to which a test of the
//! engine holds this. Ties go to the lower id. Other stages are the host's: it asks for the row ([`Choice::Logits`](crate::Choice::Logits)).
//!
//! Top-p adds up weights as whole numbers, so that devices may add in any order; the draw adds floats in one order, in sixteen lanes over spans of
//! 1024 tokens. The host adds floats where its top-p goes through a whole row: a tie to the last bit, and a draw between two tokens, may go the
//! other way there.
//!
//! Knows no request and no randomness: the number that decides is brought along.

/// How a token is drawn from a row of logits.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// Divides the logits of what is left: from 0, which takes the most probable token, the lowest id of equals, behind the changes.
    pub temperature: f32,
    /// How many tokens to choose from; 0 is all.
    pub top_k: u32,
    /// The share of the probability at temperature 1, among those, to choose from: over 0, to 1 (all).
    pub top_p: f32,
    /// How far below the largest a logit may be: from 0 to infinity, which is all.
    pub below_max: f32,
    /// Decides among what is left: at least 0, less than 1.
    pub uniform: f64,
    /// What is done to logits first, in this order: at most [`CHANGES_MAX`].
    pub changes: &'a [Change],
    /// Which tokens may be chosen: one bit a token, least significant first; all where unset. A token without a bit may not.
    pub mask: Option<&'a [u32]>,
}

/// The most changes of a row. A host that makes more asks for the row.
pub const CHANGES_MAX: usize = 1024;

/// What is done to the logit of one token.
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

/// Top-p's unit: a weight of one is so many.
const ONE: f32 = (1_u64 << 42) as f32;
/// Tokens whose weights are summed in lanes, tokens of a block, and lanes.
const SPAN: usize = 1024;
const BLOCK: usize = 32;
const LANES: usize = 16;

/// A token of a row that may be chosen.
#[derive(Clone, Copy)]
struct Candidate {
    token: usize,
    logit: f32,
}

/// The token of a row; nothing where none may be chosen. A logit that is not a number counts as minus infinity, and a token of minus infinity is
/// never chosen.
pub fn choose(row: &[f32], draw: &Draw<'_>) -> Option<u32> {
    let mut logits = row.to_vec();
    for Change { token, effect } in draw.changes {
        if let Some(logit) = logits.get_mut(*token as usize) {
            *logit = match *effect {
                Effect::Repeated(penalty) if *logit > 0.0 => *logit / penalty,
                Effect::Repeated(penalty) => *logit * penalty,
                Effect::Added(number) => *logit + number,
            };
        }
    }
    let may = |token: usize| {
        draw.mask.is_none_or(|mask| mask.get(token / 32).is_some_and(|word| word >> (token % 32) & 1 == 1))
    };
    let tokens = (0..logits.len()).filter(|&token| logits[token] > f32::NEG_INFINITY && may(token));
    let mut kept: Vec<Candidate> =
        tokens.map(|token| Candidate { token, logit: logits[token].min(f32::MAX) }).collect();
    // Stable: the lower id first among equals.
    kept.sort_by(|a, b| b.logit.total_cmp(&a.logit));
    // Both zeros are the same.
    for equals in kept.chunk_by_mut(|a, b| a.logit == b.logit) {
        equals.sort_by_key(|candidate| candidate.token);
    }
    let first = *kept.first()?;
    if draw.temperature == 0.0 {
        return Some(first.token as u32);
    }
    if draw.top_k > 0 && (draw.top_k as usize) < row.len() {
        kept.truncate(draw.top_k as usize);
    }
    if draw.top_p < 1.0 {
        let weight =
            |candidate: &Candidate| (exponential(candidate.logit - first.logit) * ONE).round_ties_even() as u64;
        let total: u64 = kept.iter().map(weight).sum();
        let wanted = (total as f64 * f64::from(draw.top_p)).ceil() as u64;
        let mut sum = 0;
        let enough = kept.iter().position(|candidate| {
            sum += weight(candidate);
            sum >= wanted
        });
        kept.truncate(enough.map_or(kept.len(), |last| last + 1));
    }
    let least = first.logit - draw.below_max;
    kept.retain(|candidate| candidate.logit >= least);
    let inverse = (1.0 / draw.temperature).min(f32::MAX);
    let mut weights = vec![0.0; row.len()];
    for candidate in kept {
        weights[candidate.token] = exponential((candidate.logit - first.logit) * inverse);
    }
    pick(&weights, draw.uniform)
}

/// The token at which the running sum of weights, by rising id, passes a share of it.
fn pick(weights: &[f32], uniform: f64) -> Option<u32> {
    let spans: Vec<f64> = weights.chunks(SPAN).map(|span| f64::from(sum(span))).collect();
    let total: f64 = spans.iter().sum();
    let (span, left) = passed(spans.into_iter(), uniform * total)?;
    let span_weights = &weights[span * SPAN..weights.len().min((span + 1) * SPAN)];
    let (block, left) = passed(span_weights.chunks(BLOCK).map(|block| f64::from(sum(block))), left)?;
    let (token, _) = passed(span_weights[block * BLOCK..].iter().take(BLOCK).map(|&weight| f64::from(weight)), left)?;
    Some((span * SPAN + block * BLOCK + token) as u32)
}

/// The sum of weights in lanes, and then through a tree of the lanes.
fn sum(weights: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    for (at, weight) in weights.iter().enumerate() {
        lanes[at % LANES] += weight;
    }
    for half in [8, 4] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
}

/// The weight at which the running sum passes `left`, and what is left of it there; the last that weighs anything where rounding leaves some over.
fn passed(weights: impl Iterator<Item = f64>, mut left: f64) -> Option<(usize, f64)> {
    let mut found = None;
    for (at, weight) in weights.enumerate().filter(|&(_, weight)| weight > 0.0) {
        found = Some((at, left));
        if left < weight {
            break;
        }
        left -= weight;
    }
    found
}

/// e to the power of a number that is not positive, as `kauri_step::sample` has it: products and sums alone, nothing contracted.
fn exponential(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = 2.121_944_4e-4;
    let whole = x * std::f32::consts::LOG2_E + ROUND;
    let power = whole - ROUND;
    let r = (x - power * LN_2_HIGH) + power * LN_2_LOW;
    let series = 4.999_922_3e-1 + r * (1.666_712e-1 + r * (4.189_140_9e-2 + r * 8.312_385e-3));
    let near_one = 1.0 + (r + (r * r) * series);
    let scaled = f32::from_bits(near_one.to_bits().wrapping_add(whole.to_bits() << 23));
    if x > -87.0 { scaled } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Draw<'_> = Draw {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        below_max: f32::INFINITY,
        uniform: 0.0,
        changes: &[],
        mask: None,
    };

    /// The tokens that come up for draws all over the interval.
    fn reached(row: &[f32], draw: &Draw<'_>) -> Vec<u32> {
        let mut tokens: Vec<u32> =
            (0..1000).filter_map(|step| choose(row, &Draw { uniform: f64::from(step) / 1000.0, ..*draw })).collect();
        assert!(tokens.is_sorted(), "by rising id");
        tokens.dedup();
        tokens
    }

    #[test]
    fn each_stage_keeps_what_it_should() {
        let row = [1.0, 3.0, 2.0, f32::NAN, 3.0, f32::NEG_INFINITY, 0.0];
        assert_eq!(reached(&row, &ALL), [0, 1, 2, 4, 6]);
        assert_eq!(reached(&row, &Draw { top_k: 1, ..ALL }), [1]);
        assert_eq!(reached(&row, &Draw { top_k: 3, ..ALL }), [1, 2, 4]);
        assert_eq!(reached(&row, &Draw { top_p: 0.5, ..ALL }), [1, 4]);
        assert_eq!(reached(&row, &Draw { top_k: 2, top_p: 0.5, ..ALL }), [1]);
        assert_eq!(reached(&row, &Draw { below_max: 1.0, ..ALL }), [1, 2, 4]);
        assert_eq!(reached(&row, &Draw { temperature: 0.0, ..ALL }), [1]);
        assert_eq!(reached(&row, &Draw { mask: Some(&[0b100_1001]), ..ALL }), [0, 6]);
        assert_eq!(choose(&row, &Draw { mask: Some(&[0b10_1000]), ..ALL }), None);
        assert_eq!(choose(&[], &ALL), None);
    }

    #[test]
    fn changes_are_made_in_their_order() {
        let effects = [Effect::Repeated(2.0), Effect::Added(-1.5)];
        let changes = effects.map(|effect| Change { token: 1, effect });
        // 4 / 2 - 1.5 is less than 1; (4 - 1.5) / 2 would be more.
        let draw = Draw { temperature: 0.0, changes: &changes, ..ALL };
        assert_eq!(choose(&[1.0, 4.0], &draw), Some(0));
        assert_eq!(choose(&[-1.0, -2.0], &draw), Some(0));
        let past = [Change { token: 2, effect: Effect::Added(100.0) }];
        assert_eq!(choose(&[0.0, 1.0], &Draw { changes: &past, ..draw }), Some(1));
    }
}
