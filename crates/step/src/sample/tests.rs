//! The sampler against plain definitions in f64, and its draws against the distributions that they are of.

use super::*;
use proptest::prelude::*;

fn sampler(sampling: Sampling, vocabulary: usize) -> Sampler {
    Sampler::new(sampling, vocabulary).unwrap()
}

fn allowed(mask: Option<&[u32]>, token: usize) -> bool {
    mask.is_none_or(|mask| mask[token / 32] >> (token % 32) & 1 == 1)
}

/// The tokens left after top-k, top-p and min-p with their probabilities at the temperature, by the definitions. The third
/// part says whether rounding could have decided a stage.
fn reference(sampling: &Sampling, logits: &[f32], mask: Option<&[u32]>) -> (Vec<(u32, f64)>, bool) {
    let mut kept: Vec<(u32, f64)> = (0..logits.len())
        .filter(|&token| allowed(mask, token) && logits[token] > f32::NEG_INFINITY)
        .map(|token| (token as u32, f64::from(logits[token].min(f32::MAX))))
        .collect();
    kept.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let Some(&(_, max)) = kept.first() else {
        return (kept, false);
    };
    let mut close = false;
    if sampling.top_k > 0 {
        kept.truncate(sampling.top_k as usize);
    }
    if sampling.top_p < 1.0 {
        let total: f64 = kept.iter().map(|(_, logit)| (logit - max).exp()).sum();
        let mut sum = 0.0;
        let mut length = 0;
        while length < kept.len() && sum < f64::from(sampling.top_p) * total {
            sum += (kept[length].1 - max).exp();
            length += 1;
            close |= (sum / total - f64::from(sampling.top_p)).abs() < 1e-5;
        }
        kept.truncate(length.max(1));
    }
    if sampling.min_p > 0.0 {
        close |= kept.iter().any(|(_, logit)| ((logit - max).exp() / f64::from(sampling.min_p) - 1.0).abs() < 1e-5);
        kept.retain(|(_, logit)| (logit - max).exp() >= f64::from(sampling.min_p));
    }
    let weight = |logit: f64| ((logit - max) / f64::from(sampling.temperature)).exp();
    let total: f64 = kept.iter().map(|&(_, logit)| weight(logit)).sum();
    kept.sort_by_key(|&(token, _)| token);
    (kept.into_iter().map(|(token, logit)| (token, weight(logit) / total)).collect(), close)
}

/// The tokens that the sampler's own cut keeps.
fn kept(sampling: Sampling, logits: &mut [f32], mask: Option<&[u32]>) -> Vec<u32> {
    let mut sampler = sampler(sampling, logits.len());
    let row = Row { logits, mask };
    let max = sampler.survey(&row);
    if max == f32::NEG_INFINITY {
        return Vec::new();
    }
    let cut = sampler.cut(&row, max);
    (0..row.blocks())
        .flat_map(|block| row.tokens(block))
        .filter(|&(token, logit)| cut.keeps(logit, token))
        .map(|(token, _)| token)
        .collect()
}

fn any_logit() -> impl Strategy<Value = f32> {
    prop_oneof![
        20 => -12.0_f32..12.0,
        4 => (-3_i8..3).prop_map(f32::from),
        1 => Just(f32::NEG_INFINITY),
        1 => Just(f32::NAN),
        1 => Just(-1e30),
    ]
}

fn any_sampling() -> impl Strategy<Value = Sampling> {
    let top_k = prop_oneof![Just(0_u32), 1_u32..40, 1_u32..400];
    let top_p = prop_oneof![Just(1.0_f32), 0.01_f32..1.0];
    let min_p = prop_oneof![Just(0.0_f32), 0.001_f32..1.0];
    (top_k, top_p, min_p, 0.05_f32..3.0, any::<u64>()).prop_map(|(top_k, top_p, min_p, temperature, seed)| Sampling {
        temperature,
        top_k,
        top_p,
        min_p,
        seed,
        ..Sampling::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_stage_keeps_what_its_definition_keeps(
        sampling in any_sampling(),
        mut logits in proptest::collection::vec(any_logit(), 1..300),
        words in proptest::collection::vec(any::<u32>(), 10),
        masked in any::<bool>(),
    ) {
        let mask = masked.then_some(words.as_slice());
        let (expected, close) = reference(&sampling, &logits, mask);
        prop_assume!(!close);
        let tokens: Vec<u32> = expected.iter().map(|&(token, _)| token).collect();
        prop_assert_eq!(kept(sampling, &mut logits, mask), tokens);
        let choice = sampler(sampling, logits.len()).sample(&mut logits, mask, 3, &[]);
        match choice {
            None => prop_assert!(expected.is_empty()),
            Some(choice) => {
                let probability = expected.iter().find(|&&(token, _)| token == choice.token).unwrap().1;
                let error = (f64::from(choice.probability) / probability - 1.0).abs();
                // The exponent's own rounding: half a unit of its last place, the larger the flatter.
                prop_assert!(error < 2e-4, "{} instead of {probability}", choice.probability);
            }
        }
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest(
        mut logits in proptest::collection::vec(any_logit(), 1..200),
        words in proptest::collection::vec(any::<u32>(), 7),
    ) {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let best = (0..logits.len())
            .filter(|&token| allowed(Some(&words), token) && logits[token] > f32::NEG_INFINITY)
            .rev()
            .max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        let choice = sampler(greedy, logits.len()).sample(&mut logits, Some(&words), 0, &[]);
        prop_assert_eq!(choice.map(|choice| choice.token as usize), best);
    }

    #[test]
    fn penalties_follow_their_formula(
        logits in proptest::collection::vec(-5.0_f32..5.0, 40),
        history in proptest::collection::vec(0_u32..50, 0..60),
        penalty_window in 0_u32..70,
        repetition_penalty in 0.5_f32..2.0,
        frequency_penalty in -2.0_f32..2.0,
        presence_penalty in -2.0_f32..2.0,
    ) {
        let sampling = Sampling {
            repetition_penalty, frequency_penalty, presence_penalty, penalty_window,
            ..Sampling::default()
        };
        let mut changed = logits.clone();
        let _ = sampler(sampling, 40).sample(&mut changed, None, 0, &history);
        let recent = &history[history.len().saturating_sub(penalty_window as usize)..];
        for (token, (&before, &after)) in logits.iter().zip(&changed).enumerate() {
            let count = recent.iter().filter(|&&seen| seen as usize == token).count() as f32;
            let scaled = if before > 0.0 { before / repetition_penalty } else { before * repetition_penalty };
            let expected = if count > 0.0 { scaled - (count * frequency_penalty + presence_penalty) } else { before };
            prop_assert_eq!(after, expected);
        }
    }

    #[test]
    fn the_exponential_is_one(x in -87.0_f32..=0.0) {
        let exact = f64::from(x).exp();
        prop_assert!((f64::from(exponential(x)) / exact - 1.0).abs() < 2.5e-7);
    }
}

/// Draws often and compares the counts with the distribution: chi-squared within five standard deviations of its mean.
fn check_distribution(sampling: Sampling, logits: &[f32], mask: Option<&[u32]>) {
    const DRAWS: u64 = 100_000;
    let (expected, _) = reference(&sampling, logits, mask);
    let mut counts = vec![0_u64; logits.len()];
    let mut sampler = sampler(sampling, logits.len());
    let mut row = logits.to_vec();
    for position in 0..DRAWS {
        row.copy_from_slice(logits);
        counts[sampler.sample(&mut row, mask, position, &[]).unwrap().token as usize] += 1;
    }
    let mut chi_squared = 0.0;
    let mut cells = 0.0;
    // Cells of fewer than five expected draws are not chi-squared: they go together.
    let mut rare = (0.0, 0.0);
    for (token, probability) in expected {
        let (count, mean) = (counts[token as usize] as f64, probability * DRAWS as f64);
        counts[token as usize] = 0;
        if mean < 5.0 {
            rare = (rare.0 + count, rare.1 + mean);
        } else {
            chi_squared += (count - mean).powi(2) / mean;
            cells += 1.0;
        }
    }
    if rare.1 >= 5.0 {
        chi_squared += (rare.0 - rare.1).powi(2) / rare.1;
        cells += 1.0;
    }
    assert!(counts.iter().all(|&count| count == 0), "a token was drawn that was cut off");
    let freedom: f64 = (cells - 1.0_f64).max(1.0);
    assert!(
        chi_squared < freedom + 5.0 * (2.0 * freedom).sqrt(),
        "{sampling:?}: chi-squared is {chi_squared} with {freedom} degrees of freedom"
    );
}

#[test]
fn draws_follow_the_distribution() {
    let logits: Vec<f32> = (0..200).map(|token| (uniform(99, token) * 8.0) as f32).collect();
    let mask: Vec<u32> = (0..7).map(|word| (uniform(5, word) * 4e9) as u32).collect();
    let base = Sampling { seed: 42, ..Sampling::default() };
    for sampling in [
        base,
        Sampling { temperature: 0.3, ..base },
        Sampling { temperature: 2.5, ..base },
        Sampling { top_k: 7, ..base },
        Sampling { top_p: 0.6, ..base },
        Sampling { min_p: 0.1, ..base },
        Sampling { top_k: 60, top_p: 0.9, min_p: 0.02, temperature: 0.8, seed: u64::MAX, ..base },
    ] {
        check_distribution(sampling, &logits, None);
        check_distribution(sampling, &logits, Some(&mask));
    }
}

#[test]
fn a_draw_depends_on_seed_and_position_only() {
    let logits: Vec<f32> = (0..1000).map(|token| (uniform(1, token) * 4.0) as f32).collect();
    let sampling = Sampling { seed: 7, ..Sampling::default() };
    let choose =
        |sampler: &mut Sampler, position| sampler.sample(&mut logits.clone(), None, position, &[]).unwrap().token;
    let forward: Vec<u32> = (0..50).map(|position| choose(&mut sampler(sampling, 1000), position)).collect();
    let mut shared = sampler(sampling, 1000);
    let mut backward: Vec<u32> = (0..50).rev().map(|position| choose(&mut shared, position)).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    let other = Sampling { seed: 8, ..sampling };
    let others: Vec<u32> = (0..50).map(|position| choose(&mut sampler(other, 1000), position)).collect();
    assert!(forward.iter().zip(&others).filter(|(a, b)| a == b).count() < 10);
    // These numbers may change with a stated reason only: they are what a seed stands for.
    assert_eq!(forward[..8], PINNED);
}

const PINNED: [u32; 8] = [737, 771, 8, 237, 990, 315, 441, 446];

#[test]
fn philox_gives_the_known_answers() {
    // kat_vectors of Random123 1.14.
    assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    assert_eq!(
        philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
}

#[test]
fn awkward_rows_end_well() {
    let all = [
        Sampling::default(),
        Sampling { temperature: 0.0, ..Sampling::default() },
        Sampling { top_k: 3, top_p: 0.5, min_p: 0.5, temperature: 1e-30, ..Sampling::default() },
    ];
    for sampling in all {
        let choose = |mut logits: Vec<f32>, mask: Option<&[u32]>| {
            sampler(sampling, logits.len()).sample(&mut logits, mask, 0, &[]).map(|choice| choice.token)
        };
        assert_eq!(choose(vec![], None), None);
        assert_eq!(choose(vec![f32::NEG_INFINITY; 40], None), None);
        assert_eq!(choose(vec![f32::NAN; 70], None), None);
        assert_eq!(choose(vec![1.0; 70], Some(&[0, 0, 0])), None);
        assert_eq!(choose(vec![1.0; 70], Some(&[])), None);
        assert_eq!(choose(vec![1.0; 70], Some(&[0, 1 << 5])), Some(37));
        assert_eq!(choose(vec![f32::NAN, 1.0, f32::NEG_INFINITY], None), Some(1));
        assert_eq!(choose(vec![f32::NAN, f32::INFINITY, 1.0], None), Some(1));
        assert_eq!(choose(vec![f32::MIN, f32::MIN], Some(&[2])), Some(1));
        assert_eq!(choose(vec![f32::MAX, f32::MIN, 0.0], None), Some(0));
    }
    let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
    let tied = sampler(greedy, 100).sample(&mut [2.0; 100], None, 0, &[]).unwrap();
    assert_eq!((tied.token, tied.probability), (0, 1.0));
}

#[test]
fn parameters_outside_their_range_are_named() {
    type Change = fn(&mut Sampling);
    let changes: [(Change, &str); 14] = [
        (|s| s.temperature = f32::NAN, "temperature"),
        (|s| s.temperature = -0.1, "temperature"),
        (|s| s.temperature = f32::INFINITY, "temperature"),
        (|s| s.top_p = 0.0, "top_p"),
        (|s| s.top_p = 1.1, "top_p"),
        (|s| s.top_p = f32::NAN, "top_p"),
        (|s| s.min_p = -1.0, "min_p"),
        (|s| s.min_p = f32::NAN, "min_p"),
        (|s| s.repetition_penalty = 0.0, "repetition_penalty"),
        (|s| s.repetition_penalty = f32::NAN, "repetition_penalty"),
        (|s| s.frequency_penalty = 2.1, "frequency_penalty"),
        (|s| s.presence_penalty = f32::NAN, "presence_penalty"),
        (|s| s.presence_penalty = 1e38, "presence_penalty"),
        (|s| s.penalty_window = 8193, "penalty_window"),
    ];
    for (change, field) in changes {
        let mut sampling = Sampling::default();
        change(&mut sampling);
        assert_eq!(Sampler::new(sampling, 10).unwrap_err().field, field);
    }
    let sampling = Sampling { temperature: -1.0, ..Sampling::default() };
    let message = sampling.validate().unwrap_err().to_string();
    assert_eq!(message, "temperature must be from 0 to 100, not -1");
    assert!(Sampling::default().validate().is_ok());
}

#[test]
fn log_probabilities_are_the_models_own() {
    let logits: Vec<f32> = (0..500).map(|token| (uniform(3, token) * 20.0) as f32).collect();
    let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    for token in [0, 31, 32, 499] {
        let expected = f64::from(logits[token as usize]) - total.ln();
        assert!((f64::from(log_probability(&logits, token)) - expected).abs() < 1e-5);
    }
    assert_eq!(log_probability(&logits, 500), f32::NEG_INFINITY);
    assert_eq!(log_probability(&[f32::NAN, 0.0], 0), f32::NEG_INFINITY);
    assert_eq!(log_probability(&[f32::NAN, 0.0], 1), 0.0);
    assert_eq!(log_probability(&[], 0), f32::NEG_INFINITY);
}
