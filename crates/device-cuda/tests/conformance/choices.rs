//! Tokens chosen on the GPU are those of the definition: rows of awkward lengths, of every kind, with every parameter, together.

use kauri_device::draw::{self, Change, Draw, Effect};
use kauri_device::{CHANGES_MAX, Choice};
use kauri_device_cuda::{Chooser, Held};

use crate::{DEVICE, open};

const ALL: Draw<'_> =
    Draw { temperature: 0.8, top_k: 0, top_p: 1.0, below_max: f32::INFINITY, uniform: 0.37, changes: &[], mask: None };

/// Numbers without an end, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * below as u128) >> 64) as usize
    }

    fn one_of<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.next(N)]
    }

    /// About normal, of deviation one.
    fn normal(&mut self) -> f32 {
        (0..6).map(|_| self.next(1 << 20) as f32 / (1 << 20) as f32 - 0.5).sum::<f32>() * std::f32::consts::SQRT_2
    }

    /// Logits: mostly normal ones of all widths; equal ones; few different ones with what is no number among them; few large ones.
    fn row(&mut self, vocab: usize) -> Vec<f32> {
        let (kind, spread) = (self.next(8), self.one_of([0.01, 0.3, 1.0, 3.0, 12.0]));
        let value = |random: &mut Self| match (kind, random.next(40)) {
            (0, 0) => f32::NAN,
            (0, 1) | (3, _) => f32::NEG_INFINITY,
            (0, 2) if random.next(50) == 0 => f32::INFINITY,
            (0, number) => (number / 4) as f32 - 4.0,
            (1, _) => 2.5,
            (2, _) if random.next(vocab) < 3 => 20.0,
            _ => spread * random.normal(),
        };
        (0..vocab).map(|_| value(self)).collect()
    }

    fn changes(&mut self, vocab: usize) -> Vec<Change> {
        let count = self.one_of([0, 0, 3, 40, CHANGES_MAX]);
        let change = |random: &mut Self| {
            let effect = if random.next(2) == 0 {
                Effect::Repeated(random.one_of([1.3, 0.8]))
            } else {
                Effect::Added(random.normal())
            };
            // Some twice, and some past the end.
            Change { token: random.next(vocab + 2) as u32, effect }
        };
        (0..count).map(|_| change(self)).collect()
    }

    fn mask(&mut self, vocab: usize) -> Option<Vec<u32>> {
        let words = vocab.div_ceil(32);
        let (words, few) = self.one_of([(0, 0), (0, 0), (0, 0), (words, 1), (words, 3), (words / 2, 1)]);
        (words > 0)
            .then(|| (0..words).map(|_| (0..few).fold(u32::MAX, |all, _| all & self.next(1 << 32) as u32)).collect())
    }

    /// One that allows a token of eight.
    fn narrow(&mut self, vocab: usize) -> Vec<u32> {
        (0..vocab.div_ceil(32)).map(|_| (0..3).fold(u32::MAX, |all, _| all & self.next(1 << 32) as u32)).collect()
    }

    fn draw<'a>(&mut self, changes: &'a [Change], mask: Option<&'a [u32]>) -> Draw<'a> {
        Draw {
            temperature: self.one_of([0.0, 0.01, 0.8, 1.0, 1.0, 1.7, 100.0]),
            top_k: self.one_of([0, 0, 1, 2, 40, 40, 3000, 100_000]),
            top_p: self.one_of([1.0, 1.0, 0.95, 0.9, 0.5, 0.001, 0.999_999]),
            below_max: self.one_of([f32::INFINITY, f32::INFINITY, 3.0, 0.0]),
            uniform: self.one_of([0.0_f64, 0.999_999, 0.5]).max(self.next(1 << 40) as f64 / (1_u64 << 40) as f64 - 0.1),
            changes,
            mask,
        }
    }
}

/// Tokens that were chosen, against the definition.
fn hold(tokens: &[Option<u32>], logits: &[Vec<f32>], choices: &[Choice<'_>], vocab: usize) {
    let rows = logits.len();
    for (row, choice) in choices.iter().enumerate() {
        match choice {
            Choice::Nothing | Choice::Logits => assert_eq!(tokens[row], None),
            Choice::Greedy { mask } => {
                // A row of minus infinities has a likeliest token, of which nothing is ever drawn.
                let expected = draw::choose(&logits[row], &Draw { temperature: 0.0, mask: *mask, ..ALL });
                assert!(expected.is_none() || tokens[row] == expected, "row {row} of {rows}, {vocab} logits, greedy");
            }
            Choice::Draw(draw) => {
                let without = Draw { changes: &[], mask: None, ..*draw };
                let what = format!("row {row} of {rows}, {vocab} logits, {} changes: {without:?}", draw.changes.len());
                assert_eq!(tokens[row], draw::choose(&logits[row], draw), "{what}");
            }
        }
    }
}

/// Draws with greedy choices, and rows of which nothing or all is wanted, among them.
fn check(chooser: &mut Chooser, random: &mut Random, rows: usize, vocab: usize) -> usize {
    let logits: Vec<Vec<f32>> = (0..rows).map(|_| random.row(vocab)).collect();
    let own: Vec<_> = (0..rows).map(|_| (random.changes(vocab), random.mask(vocab))).collect();
    let choices: Vec<Choice<'_>> = own
        .iter()
        .map(|(changes, mask)| match random.next(8) {
            0 => Choice::Nothing,
            1 => Choice::Logits,
            2 => Choice::Greedy { mask: mask.as_deref() },
            _ => Choice::Draw(random.draw(changes, mask.as_deref())),
        })
        .collect();
    let mut left = logits.concat();
    let tokens = chooser.choose_of(&mut left, &choices).expect("a device that is there");
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&left), bits(&logits.concat()), "rows of {vocab} are left as they were");
    hold(&tokens, &logits, &choices, vocab);
    tokens.iter().flatten().count()
}

#[test]
fn drawn_tokens_equal_their_definition() {
    if !open() {
        return;
    }
    let mut random = Random(3);
    for (vocab, rounds) in [(1, 20), (31, 100), (33, 100), (1000, 100), (1025, 60), (9999, 40), (151_936, 6)] {
        let chooser = DEVICE.with(|device| Chooser::new(device.get().expect("opened before"), 300, vocab));
        let mut chooser = chooser.unwrap_or_else(|error| panic!("{error}"));
        chooser.poison().expect("a device that is there");
        let mut chosen = 0;
        for round in 0..rounds {
            let rows = if round == 1 && vocab < 2000 { 300 } else { random.one_of([1, 2, 7, 32]) };
            chosen += check(&mut chooser, &mut random, rows, vocab);
        }
        assert!(chosen > rounds, "{chosen} tokens of {vocab}");
    }
}

/// Masks and draws are on the device beside a step that has not ended, and nothing is chosen before they are there; all that was there before them would
/// allow every token.
#[test]
fn masks_go_up_beside_the_step_and_are_waited_for() {
    if !open() {
        return;
    }
    let (vocab, mut random) = (5003, Random(11));
    let chooser = DEVICE.with(|device| Chooser::new(device.get().expect("opened before"), 200, vocab));
    let mut chooser = chooser.unwrap_or_else(|error| panic!("{error}"));
    for (held, rows) in [Held::Step, Held::Copies].into_iter().flat_map(|held| [1, 17, 200].map(|rows| (held, rows))) {
        let logits: Vec<Vec<f32>> = (0..rows).map(|_| (0..vocab).map(|_| random.normal()).collect()).collect();
        let own: Vec<_> = (0..rows).map(|_| (random.changes(vocab), random.narrow(vocab))).collect();
        let choices = own.iter().enumerate().map(|(row, (changes, mask))| match row % 4 {
            0 => Choice::Draw(random.draw(changes, Some(mask))),
            1 => Choice::Greedy { mask: Some(mask) },
            2 => Choice::Draw(random.draw(changes, None)),
            _ => Choice::Greedy { mask: None },
        });
        let choices: Vec<Choice<'_>> = choices.collect();
        chooser.poison().expect("a device that is there");
        let (tokens, is_right) = chooser.choose_held(&logits.concat(), &choices, held).expect("a device that is there");
        match held {
            Held::Step => assert!(is_right, "{rows} rows: masks wait for the step"),
            Held::Copies => assert!(is_right, "{rows} rows: tokens do not wait for their masks"),
        }
        hold(&tokens, &logits, &choices, vocab);
    }
}

#[test]
#[ignore = "measures; asserts nothing"]
fn choices_are_measured() {
    if !open() {
        return;
    }
    let (vocab, mut random) = (151_936, Random(5));
    let changes: Vec<Change> =
        (0..256).map(|index| Change { token: index * 500, effect: Effect::Repeated(1.1) }).collect();
    let mask = vec![0x7fff_ffff; vocab / 32];
    let kinds = [
        ("greedy", Choice::Greedy { mask: None }),
        ("greedy, a mask", Choice::Greedy { mask: Some(&mask) }),
        ("temperature", Choice::Draw(ALL)),
        ("temperature, a mask", Choice::Draw(Draw { mask: Some(&mask), ..ALL })),
        ("top-k 40", Choice::Draw(Draw { top_k: 40, ..ALL })),
        ("top-p 0.95", Choice::Draw(Draw { top_p: 0.95, ..ALL })),
        ("top-k 40, top-p 0.95", Choice::Draw(Draw { top_k: 40, top_p: 0.95, ..ALL })),
        ("top-k 5000, top-p 0.95", Choice::Draw(Draw { top_k: 5000, top_p: 0.95, ..ALL })),
        ("min-p 0.05", Choice::Draw(Draw { below_max: 3.0, ..ALL })),
        ("top-k 40, top-p 0.95, 256 changes", Choice::Draw(Draw { top_k: 40, top_p: 0.95, changes: &changes, ..ALL })),
        ("top-k 40, top-p 0.95, a mask", Choice::Draw(Draw { top_k: 40, top_p: 0.95, mask: Some(&mask), ..ALL })),
    ];
    for (shape, spread) in [("normal, deviation 3", 3.0), ("nearly flat", 0.05)] {
        for rows in [1, 8, 128] {
            let logits: Vec<f32> = (0..rows * vocab).map(|_| spread * random.normal()).collect();
            let chooser = DEVICE.with(|device| Chooser::new(device.get().expect("opened before"), rows, vocab));
            let mut chooser = chooser.unwrap_or_else(|error| panic!("{error}"));
            for (name, choice) in kinds {
                let seconds = chooser.measure(&logits, &vec![choice; rows], 50).expect("a device that is there");
                let [device, whole, behind] = seconds.map(|seconds| seconds * 1e6);
                println!(
                    "{shape}, {rows} rows, {name}: {device:.1} us on the device, {whole:.1} us until it is here, {behind:.1} us behind a step"
                );
            }
        }
    }
}
