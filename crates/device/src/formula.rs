//! The scalar definition of every primitive, on slices of `f32`: the formulas themselves, one fixed order of summation.
//!
//! Devices are checked against these; the scalar CPU device runs them. Nothing here knows a buffer, a batch or a device.

use std::ops::Range;

use kauri_arch::{Activation, Embed, GroupRank, Groups, Moe, NormKind, Scoring};

use crate::weight::{LowRank, Matrix, Weight};

/// Independent partial sums of [`dot`]: enough for the compiler to use vector registers.
const LANES: usize = 16;

/// The inner product, summed in lanes and then lane by lane: the same bits whatever is computed beside it.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (a_whole, a_rest) = a.as_chunks::<LANES>();
    let (b_whole, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_whole.iter().zip(b_whole) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += a * b;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// `y = matrix x`.
pub fn product(matrix: &Matrix, x: &[f32], y: &mut [f32]) {
    let mut weights = vec![0.0; matrix.columns];
    for (row, y) in y.iter_mut().enumerate() {
        matrix.dequantise(row, &mut weights);
        *y = dot(&weights, x);
    }
}

/// Adds to the product `y` of a matrix with `x` what an adapter does: `factor * scale * up (down x)`, rank after rank.
pub fn add_low_rank(part: &LowRank, x: &[f32], scale: f32, y: &mut [f32]) {
    let low = part.down.chunks_exact(x.len()).map(|weights| dot(weights, x) * (part.factor * scale));
    for (low, weights) in low.zip(part.up.chunks_exact(y.len())) {
        y.iter_mut().zip(weights).for_each(|(y, weight)| *y += low * weight);
    }
}

/// `y = transposed matrix x`, row after row.
pub fn turned(matrix: &Matrix, x: &[f32], y: &mut [f32]) {
    let mut weights = vec![0.0; matrix.columns];
    y.fill(0.0);
    for (row, x) in x.iter().enumerate() {
        matrix.dequantise(row, &mut weights);
        y.iter_mut().zip(&weights).for_each(|(y, weight)| *y += x * weight);
    }
}

/// Normalises one group in place.
#[inline(always)]
pub fn norm(kind: NormKind, epsilon: f32, weight: &[f32], bias: Option<&[f32]>, x: &mut [f32]) {
    let count = x.len() as f32;
    match kind {
        NormKind::Rms => {}
        NormKind::Layer => {
            let mean = x.iter().sum::<f32>() / count;
            x.iter_mut().for_each(|value| *value -= mean);
        }
    }
    let factor = 1.0 / (dot(x, x) / count + epsilon).sqrt();
    for (value, weight) in x.iter_mut().zip(weight) {
        *value = *value * factor * weight;
    }
    if let Some(bias) = bias {
        x.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
    }
}

/// The rows that are added to a token's own: of its place, and of which text of a pair it belongs to.
pub fn added(embed: &Embed<Weight>, position: u32, second_start: u32) -> [Option<(&Matrix, usize)>; 2] {
    let place = embed.places.as_ref().map(|places| (places.matrix(), position as usize));
    let kind = embed.kinds.as_ref().map(|kinds| {
        let kinds = kinds.matrix();
        (kinds, if position < second_start { 0 } else { kinds.rows - 1 })
    });
    [place, kind]
}

/// The positions that a query sees, of a sequence that has `end` tokens.
pub fn sees(window_tokens: Option<u32>, both_ways: bool, position: u32, end: u32) -> Range<u32> {
    let window = window_tokens.unwrap_or(u32::MAX);
    let last = if both_ways { position.saturating_add(window).min(end) } else { position + 1 };
    (position + 1).saturating_sub(window)..last
}

/// What linear biases take off the scores of head `head` of `heads` for every token between query and key. Where the heads are no power
/// of two, those behind the largest one in them take every other step of twice as many (Press 2021, arXiv:2108.12409).
pub fn slope(alibi: f32, heads: u32, head: u32) -> f32 {
    let power = 1u32 << heads.ilog2();
    let step = if head < power {
        (head + 1) as f32 / power as f32
    } else {
        (2 * (head - power) + 1) as f32 / (2 * power) as f32
    };
    (-alibi * step).exp2()
}

/// The elementwise function of a feed-forward network.
pub fn activate(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            const SQRT_2_OVER_PI: f32 = 0.797_884_6;
            0.5 * x * (1.0 + (SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)).tanh())
        }
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2)),
        Activation::ReluSquared => x.max(0.0) * x.max(0.0),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
        Activation::Identity => x,
        Activation::SiluCut { limit, steepness } => {
            let x = x.min(limit);
            x / (1.0 + (-steepness * x).exp())
        }
    }
}

/// What the activation of a gate is multiplied with.
#[inline(always)]
pub fn beside_gate(activation: Activation, up: f32) -> f32 {
    match activation {
        Activation::SiluCut { limit, .. } => up.clamp(-limit, limit) + 1.0,
        Activation::Silu
        | Activation::GeluTanh
        | Activation::Gelu
        | Activation::ReluSquared
        | Activation::Sigmoid
        | Activation::Tanh
        | Activation::Identity => up,
    }
}

/// A gated value.
pub fn gated(activation: Activation, gate: f32, up: f32) -> f32 {
    activate(activation, gate) * beside_gate(activation, up)
}

/// `cap * tanh(x / cap)`.
pub fn soft_cap(x: f32, cap: f32) -> f32 {
    cap * (x / cap).tanh()
}

/// Turns scores into exponentials over their largest, in place; gives back the largest and the sum of the exponentials.
pub fn exponentials(scores: &mut [f32]) -> (f32, f32) {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - most).exp();
        sum += *score;
    }
    (most, sum)
}

/// `1 / (1 + exp(-x))`.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Turns a token's scores of all experts into their weights, in place: zero for an expert that is not chosen. Among equals the
/// first is chosen. `keys` is memory for as many values.
pub fn route<W>(moe: &Moe<W>, selection_bias: Option<&[f32]>, keys: &mut [f32], scores: &mut [f32]) {
    match moe.scoring {
        Scoring::Softmax => {
            let (_, sum) = exponentials(scores);
            scores.iter_mut().for_each(|score| *score /= sum);
        }
        Scoring::Sigmoid => scores.iter_mut().for_each(|score| *score = sigmoid(*score)),
        Scoring::SoftmaxOfChosen => {}
    }
    for (index, (key, &score)) in keys.iter_mut().zip(&*scores).enumerate() {
        *key = score + selection_bias.map_or(0.0, |bias| bias[index]);
        // Not-a-number marks what was chosen.
        *key = if key.is_nan() { f32::NEG_INFINITY } else { *key };
    }
    if let Some(groups) = moe.groups {
        keep_groups(groups, keys);
    }
    for _ in 0..moe.chosen {
        if let Some(best) = first_largest(keys) {
            keys[best] = f32::NAN;
        }
    }
    for (score, key) in scores.iter_mut().zip(&*keys) {
        // A weight of zero says that an expert is not chosen: to one that is, it makes no difference.
        *score = match moe.scoring {
            _ if key.is_nan() => *score,
            Scoring::Softmax | Scoring::Sigmoid => 0.0,
            Scoring::SoftmaxOfChosen => f32::NEG_INFINITY,
        };
    }
    let mut divisor = moe.normalised.map_or(1.0, |plus| scores.iter().sum::<f32>() + plus);
    if moe.scoring == Scoring::SoftmaxOfChosen {
        divisor = exponentials(scores).1;
    }
    // Where scores are not numbers, still no more experts have a weight than are chosen.
    for (score, key) in scores.iter_mut().zip(keys) {
        *score = if key.is_nan() { *score / divisor * moe.scale } else { 0.0 };
    }
}

/// Takes the experts of all but the best groups out of the choice.
fn keep_groups(groups: Groups, keys: &mut [f32]) {
    let size = keys.len() / groups.count as usize;
    let rank = |group: &[f32]| {
        let best = first_largest(group).unwrap_or(0);
        let others = group.iter().enumerate().filter(|&(index, _)| index != best);
        match groups.rank {
            GroupRank::Best => group[best],
            GroupRank::TwoBest => group[best] + others.fold(f32::NEG_INFINITY, |most, (_, &key)| most.max(key)),
        }
    };
    // A group goes if as many as may stay are better: those with a higher rank, or the same and a lower number.
    let better = |keys: &[f32], group: usize| {
        let own = rank(&keys[group * size..][..size]);
        let ranks = keys.chunks_exact(size).map(rank).enumerate();
        ranks.filter(|&(index, other)| other > own || other == own && index < group).count()
    };
    // Judged from the last on: a group that went has no say about those before it, since it was worse than as many that stayed.
    for group in (0..groups.count as usize).rev() {
        if better(keys, group) >= groups.kept as usize {
            keys[group * size..][..size].fill(f32::NEG_INFINITY);
        }
    }
}

/// The place of the largest value, the first among equals; none where all are not-a-number.
fn first_largest(values: &[f32]) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (index, &value) in values.iter().enumerate() {
        if !value.is_nan() && best.is_none_or(|(_, most)| value > most) {
            best = Some((index, value));
        }
    }
    best.map(|(index, _)| index)
}

/// The error function (Abramowitz and Stegun 1964, 7.1.5 as a Taylor series near zero, 7.1.14 as a continued fraction
/// beyond), to the precision of `f32`.
fn erf(x: f32) -> f32 {
    let z = f64::from(x.abs());
    let value = if z < 2.5 {
        let (mut term, mut sum) = (z, z);
        for n in 1..60 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let mut fraction = 0.0;
        for n in (1..60).rev() {
            fraction = f64::from(n) / 2.0 / (z + fraction);
        }
        1.0 - (-z * z).exp() / std::f64::consts::PI.sqrt() / (z + fraction)
    };
    (value as f32).copysign(x)
}

#[cfg(test)]
mod tests {
    use kauri_arch::{Dense, Linear};

    use super::*;

    #[test]
    fn dot_is_the_inner_product() {
        for length in [0, 1, 15, 16, 17, 255, 256] {
            let a: Vec<f32> = (0..length).map(|i| i as f32 * 0.25 - 3.0).collect();
            let b: Vec<f32> = (0..length).map(|i| 2.0 - i as f32 * 0.5).collect();
            let expect: f64 = a.iter().zip(&b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            assert!((f64::from(dot(&a, &b)) - expect).abs() <= expect.abs() * 1e-6, "length {length}");
        }
    }

    #[test]
    fn slopes_are_those_of_the_paper_and_of_heads_that_are_no_power_of_two() {
        let slopes = |alibi, heads| (0..heads).map(|head| slope(alibi, heads, head)).collect::<Vec<_>>();
        assert_eq!(slopes(8.0, 8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015_625, 0.007_812_5, 0.003_906_25]);
        assert_eq!(slopes(8.0, 1), [0.003_906_25]);
        // The fifth and the sixth are the first and the third of eight.
        assert_eq!(slopes(8.0, 6), [0.25, 0.0625, 0.015_625, 0.003_906_25, 0.5, 0.125]);
        assert_eq!(slopes(4.0, 2), [0.25, 0.0625]);
    }

    #[test]
    fn error_function_matches_published_values() {
        // Abramowitz and Stegun 1964, table 7.1.
        for (x, expect) in [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3), (3.0, 0.999_977_9)]
        {
            assert!((erf(x) - expect).abs() < 1e-7, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }

    #[test]
    fn exponentials_of_equal_scores_are_one_however_large() {
        let mut scores = [1e30f32; 4];
        assert_eq!(exponentials(&mut scores), (1e30, 4.0));
        assert_eq!(scores, [1.0; 4]);
    }

    /// A router over as many experts as there are scores, and the weights that it makes.
    fn routed(scores: &[f32], bias: Option<&[f32]>, change: impl Fn(&mut Moe<()>)) -> Vec<f32> {
        let linear = || Linear { rows: 1, columns: 1, weight: (), bias: None };
        let expert =
            || Dense { gate: None, up: linear(), down: linear(), activation: Activation::Silu, gate_scale: 1.0 };
        let mut moe = Moe {
            router: linear(),
            scoring: Scoring::Sigmoid,
            selection_bias: None,
            groups: None,
            chosen: 2,
            normalised: None,
            scale: 1.0,
            experts: scores.iter().map(|_| expert()).collect(),
            shared: None,
        };
        change(&mut moe);
        let mut weights = scores.to_vec();
        route(&moe, bias, &mut vec![0.0; scores.len()], &mut weights);
        weights
    }

    #[test]
    fn the_best_are_chosen_and_the_first_among_equals() {
        let half = sigmoid(0.0);
        assert_eq!(routed(&[0.0, 0.0, 0.0], None, |_| {}), [half, half, 0.0]);
        assert_eq!(routed(&[0.0, 1.0, 2.0], None, |_| {}), [0.0, sigmoid(1.0), sigmoid(2.0)]);
        assert_eq!(routed(&[f32::NAN, 1.0, 2.0], None, |_| {}), [0.0, sigmoid(1.0), sigmoid(2.0)]);
    }

    #[test]
    fn no_more_are_chosen_where_scores_are_not_numbers() {
        for scoring in [Scoring::Softmax, Scoring::Sigmoid, Scoring::SoftmaxOfChosen] {
            for scores in
                [[f32::NAN; 4], [f32::INFINITY; 4], [f32::NEG_INFINITY; 4], [0.0, f32::NAN, f32::INFINITY, 1.0]]
            {
                let weights = routed(&scores, None, |moe| (moe.scoring, moe.normalised) = (scoring, Some(0.0)));
                assert!(
                    weights.iter().filter(|&&weight| weight != 0.0).count() <= 2,
                    "{scoring:?} of {scores:?}: {weights:?}"
                );
            }
        }
    }

    #[test]
    fn a_bias_sways_the_choice_and_not_the_weights() {
        let weights = routed(&[0.0, 1.0, 2.0], Some(&[9.0, 0.0, 0.0]), |moe| moe.scale = 3.0);
        assert_eq!(weights, [sigmoid(0.0) * 3.0, 0.0, sigmoid(2.0) * 3.0]);
    }

    #[test]
    fn weights_are_a_softmax_over_all_or_over_the_chosen_and_may_be_made_to_sum_to_one() {
        let scores = [1.0f32, 3.0, 2.0];
        let exponentials = scores.map(|score| (score - 3.0).exp());
        let all: f32 = exponentials.iter().sum();
        let chosen = exponentials[1] + exponentials[2];
        let near = |found: Vec<f32>, sum: f32| {
            assert_eq!(found[0], 0.0);
            for (found, expected) in found.iter().zip(&exponentials).skip(1) {
                assert!((found - expected / sum).abs() < 1e-6, "{found} for {expected} of {sum}");
            }
        };
        near(routed(&scores, None, |moe| moe.scoring = Scoring::Softmax), all);
        near(routed(&scores, None, |moe| moe.scoring = Scoring::SoftmaxOfChosen), chosen);
        let normalised = |moe: &mut Moe<()>| (moe.scoring, moe.normalised) = (Scoring::Softmax, Some(0.0));
        near(routed(&scores, None, normalised), chosen);
    }

    #[test]
    fn only_experts_of_the_best_groups_are_chosen() {
        // The best expert of all is in the second group, the best two together are in the first.
        let scores = [2.0, 2.0, 3.0, -9.0, 1.0, 1.5];
        let groups = |rank| move |moe: &mut Moe<()>| moe.groups = Some(Groups { count: 3, kept: 1, rank });
        let places = |weights: Vec<f32>| -> Vec<usize> {
            weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0).map(|(place, _)| place).collect()
        };
        assert_eq!(places(routed(&scores, None, groups(GroupRank::Best))), [2, 3]);
        assert_eq!(places(routed(&scores, None, groups(GroupRank::TwoBest))), [0, 1]);
        let equal = routed(&[1.0; 6], None, |moe| {
            moe.groups = Some(Groups { count: 3, kept: 2, rank: GroupRank::Best });
            moe.chosen = 4;
        });
        assert_eq!(places(equal), [0, 1, 2, 3]);
    }

    #[test]
    fn layer_norm_has_mean_zero_and_variance_one() {
        let mut x = [1.0, 2.0, 3.0, 6.0];
        norm(NormKind::Layer, 0.0, &[1.0; 4], None, &mut x);
        assert!(x.iter().sum::<f32>().abs() < 1e-6);
        assert!((dot(&x, &x) / 4.0 - 1.0).abs() < 1e-6);
    }
}
