//! Tokens chosen on a device are those of the definition: rows of awkward lengths, of every kind, with every parameter, together.

use crate::draw::{self, CHANGES_MAX, Change, Draw, Effect};
use crate::executor::Choice;

/// What chooses tokens of rows that are brought along.
pub trait Choosing {
    /// Sized for so many rows at most, of a vocabulary. What was never written is poisoned.
    fn new(rows: usize, vocab: usize) -> Self;

    /// The tokens of rows, (choices, vocabulary), which come back as they are left.
    fn choose(&mut self, logits: &mut [f32], choices: &[Choice<'_>]) -> Vec<Option<u32>>;

    /// Seconds of a choice of rows, and what each is of: the median of so many.
    fn measure(&mut self, logits: &[f32], choices: &[Choice<'_>], times: usize) -> Vec<(&'static str, f64)>;
}

/// The most rows of a step, of short rows and of long ones.
const ROWS_MAX: [usize; 2] = [300, 32];
const SHORT: usize = 2000;

/// Runs so many rounds of each length of a row.
///
/// # Panics
/// At the first token that is not the definition's, with all that it was chosen by.
pub fn conform<C: Choosing>(lengths: &[(usize, usize)]) {
    let mut chance = Chance(3);
    for &(vocab, rounds) in lengths {
        let [most, _] = if vocab < SHORT { ROWS_MAX } else { [ROWS_MAX[1]; 2] };
        let mut chooser = C::new(most, vocab);
        let mut chosen = 0;
        for round in 0..rounds {
            let rows = if round == 1 && vocab < SHORT { most } else { chance.one_of([1, 2, 7, ROWS_MAX[1]]) };
            chosen += check(&mut chooser, &mut chance, rows, vocab);
        }
        assert!(chosen > rounds, "{chosen} tokens of {vocab}");
    }
}

/// Draws that are beside each other, as near as numbers are, and come to different tokens: a digit of a weight or of a sum, or sums in another order,
/// would make them one.
///
/// # Panics
/// As [`conform`].
pub fn conform_edges<C: Choosing>() {
    const VOCAB: usize = 3000;
    let mut chance = Chance(11);
    let mut chooser = C::new(ROWS_MAX[1], VOCAB);
    for temperature in [1.0, 0.8] {
        let rows: Vec<Vec<f32>> = (0..ROWS_MAX[1] / 2)
            .map(|_| (0..VOCAB).map(|_| -0.6 * chance.next(1 << 20) as f32 / 1_048_576.0).collect())
            .collect();
        let usual = Draw { temperature, uniform: 1.0 - f64::EPSILON, ..ALL };
        let of_uniform = |row: &[f32], chance: &mut Chance| {
            let draw = |bits: u64| Draw { uniform: f64::from_bits(bits), ..usual };
            let first = chance.next(1 << 20) as f64 / 1_048_576.0;
            let token = draw::choose(row, &draw(first.to_bits()));
            edge([first, usual.uniform].map(f64::to_bits), |bits| draw::choose(row, &draw(bits)) == token).map(draw)
        };
        // The last token that is kept, of tokens in their order.
        let of_top_p = |row: &[f32], chance: &mut Chance| {
            let draw = |bits: u64| Draw { top_p: f32::from_bits(bits as u32), ..usual };
            let first = 0.1 + 0.8 * chance.next(1 << 20) as f32 / 1_048_576.0;
            let token = draw::choose(row, &draw(first.to_bits().into()));
            edge([first, 0.999].map(|share| share.to_bits().into()), |bits| draw::choose(row, &draw(bits)) == token)
                .map(draw)
        };
        let drawn: Vec<_> = rows.iter().map(|row| of_uniform(row, &mut chance)).collect();
        check_edges(&mut chooser, &rows, &drawn);
        let mut rows = rows;
        rows.iter_mut().for_each(|row| row.sort_by(|a, b| b.total_cmp(a)));
        let kept: Vec<_> = rows.iter().map(|row| of_top_p(row, &mut chance)).collect();
        check_edges(&mut chooser, &rows, &kept);
    }
}

/// The last number for which something is so, and the first for which it is not, between one and another.
fn edge([mut low, mut high]: [u64; 2], is_so: impl Fn(u64) -> bool) -> [u64; 2] {
    assert!(is_so(low) && !is_so(high), "an edge between {low} and {high}");
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if is_so(middle) { &mut low } else { &mut high }) = middle;
    }
    [low, high]
}

/// Both draws of each row.
fn check_edges<C: Choosing>(chooser: &mut C, rows: &[Vec<f32>], pairs: &[[Draw<'_>; 2]]) {
    let mut logits: Vec<f32> = rows.iter().flat_map(|row| row.repeat(2)).collect();
    let choices: Vec<Choice<'_>> = pairs.iter().flatten().map(|draw| Choice::Draw(*draw)).collect();
    let tokens = chooser.choose(&mut logits, &choices);
    for ((row, pair), found) in rows.iter().zip(pairs).zip(tokens.as_chunks::<2>().0) {
        let expected = pair.map(|draw| draw::choose(row, &draw));
        assert!(expected[0] != expected[1], "a test of edges");
        assert_eq!(*found, expected, "{pair:?}");
    }
}

/// Pairs of logits of which one is changed to what the other is, as processors round it: the first is chosen then, and the one that a digit less or
/// more would make the larger one is not.
///
/// # Panics
/// As [`conform`].
pub fn conform_changed<C: Choosing>() {
    let mut chance = Chance(9);
    let mut chooser = C::new(ROWS_MAX[0], 2);
    for round in 0..4 {
        let pair = |row: usize| {
            // Numbers of every size, where a quotient may be tiny or past all numbers; sums and products stay in the middle.
            let power = if round < 2 { chance.next(250) as i32 - 125 } else { chance.next(40) as i32 - 20 };
            let logit = (1.0 + chance.next(1 << 23) as f32 / 8_388_608.0) * 2.0_f32.powi(power);
            let by = 0.01 + chance.next(1 << 23) as f32 / 1e6;
            let (logit, effect, behind) = match round {
                0 | 1 => (logit, Effect::Repeated(by), logit / by),
                2 => (-logit, Effect::Repeated(by), -logit * by),
                _ => (logit, Effect::Added(by), logit + by),
            };
            let token = row as u32 % 2;
            let logits = if token == 0 { [logit, behind] } else { [behind, logit] };
            (logits, [Change { token, effect }])
        };
        let pairs: Vec<_> = (0..ROWS_MAX[0]).map(pair).collect();
        let choices: Vec<Choice<'_>> =
            pairs.iter().map(|(_, changes)| Choice::Draw(Draw { temperature: 0.0, changes, ..ALL })).collect();
        let mut logits: Vec<f32> = pairs.iter().flat_map(|(logits, _)| *logits).collect();
        let tokens = chooser.choose(&mut logits, &choices);
        for ((logits, changes), token) in pairs.iter().zip(tokens) {
            let draw = Draw { temperature: 0.0, changes, ..ALL };
            assert_eq!(draw::choose(logits, &draw), Some(0), "a test of equals: {logits:?}, {changes:?}");
            assert_eq!(token, Some(0), "{logits:?}, {changes:?}");
        }
    }
}

/// Measures choices of every kind from rows of so many logits, and gives each with its name.
pub fn measure<C: Choosing>(vocab: usize, times: usize, mut each: impl FnMut(&str, &[(&str, f64)])) {
    let mut chance = Chance(5);
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
            let logits: Vec<f32> = (0..rows * vocab).map(|_| spread * chance.normal()).collect();
            let mut chooser = C::new(rows, vocab);
            for (name, choice) in kinds {
                let seconds = chooser.measure(&logits, &vec![choice; rows], times);
                each(&format!("{shape}, {rows} rows, {name}"), &seconds);
            }
        }
    }
}

const ALL: Draw<'_> =
    Draw { temperature: 0.8, top_k: 0, top_p: 1.0, below_max: f32::INFINITY, uniform: 0.37, changes: &[], mask: None };

/// Numbers without an end, the same in every run.
pub struct Chance(pub u64);

impl Chance {
    /// A number below this one.
    pub fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * below as u128) >> 64) as usize
    }

    fn one_of<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.next(N)]
    }

    /// About normal, of deviation one.
    pub fn normal(&mut self) -> f32 {
        (0..6).map(|_| self.next(1 << 20) as f32 / (1 << 20) as f32 - 0.5).sum::<f32>() * std::f32::consts::SQRT_2
    }

    /// Logits: mostly normal ones of all widths; equal ones; few different ones with what is no number among them; few large ones.
    fn row(&mut self, vocab: usize) -> Vec<f32> {
        let (kind, spread) = (self.next(8), self.one_of([0.01, 0.3, 1.0, 3.0, 12.0]));
        let value = |chance: &mut Self| match (kind, chance.next(40)) {
            (0, 0) => f32::NAN,
            (0, 1) | (3, _) => f32::NEG_INFINITY,
            (0, 2) if chance.next(50) == 0 => f32::INFINITY,
            (0, number) => (number / 4) as f32 - 4.0,
            (1, _) => 2.5,
            (2, _) if chance.next(vocab) < 3 => 20.0,
            _ => spread * chance.normal(),
        };
        (0..vocab).map(|_| value(self)).collect()
    }

    /// Changes of logits: none, some, or as many as there may be.
    pub fn changes(&mut self, vocab: usize) -> Vec<Change> {
        let count = self.one_of([0, 0, 3, 40, CHANGES_MAX]);
        let change = |chance: &mut Self| {
            let effect = if chance.next(2) == 0 {
                Effect::Repeated(chance.one_of([1.3, 0.8]))
            } else {
                Effect::Added(chance.normal())
            };
            // Some twice, and some past the end.
            Change { token: chance.next(vocab + 2) as u32, effect }
        };
        (0..count).map(|_| change(self)).collect()
    }

    fn mask(&mut self, vocab: usize) -> Option<Vec<u32>> {
        let words = vocab.div_ceil(32);
        let (words, few) = self.one_of([(0, 0), (0, 0), (0, 0), (words, 1), (words, 3), (words / 2, 1)]);
        (words > 0)
            .then(|| (0..words).map(|_| (0..few).fold(u32::MAX, |all, _| all & self.next(1 << 32) as u32)).collect())
    }

    /// A mask that allows a token of eight.
    pub fn narrow(&mut self, vocab: usize) -> Vec<u32> {
        (0..vocab.div_ceil(32)).map(|_| (0..3).fold(u32::MAX, |all, _| all & self.next(1 << 32) as u32)).collect()
    }

    /// A draw of any kind.
    pub fn draw<'a>(&mut self, changes: &'a [Change], mask: Option<&'a [u32]>) -> Draw<'a> {
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

/// Draws with greedy choices, and rows of which nothing or all is wanted, among them.
fn check<C: Choosing>(chooser: &mut C, chance: &mut Chance, rows: usize, vocab: usize) -> usize {
    let logits: Vec<Vec<f32>> = (0..rows).map(|_| chance.row(vocab)).collect();
    let own: Vec<_> = (0..rows).map(|_| (chance.changes(vocab), chance.mask(vocab))).collect();
    let choices: Vec<Choice<'_>> = own
        .iter()
        .map(|(changes, mask)| match chance.next(8) {
            0 => Choice::Nothing,
            1 => Choice::Logits,
            2 => Choice::Greedy { mask: mask.as_deref() },
            _ => Choice::Draw(chance.draw(changes, mask.as_deref())),
        })
        .collect();
    let mut left = logits.concat();
    let tokens = chooser.choose(&mut left, &choices);
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&left), bits(&logits.concat()), "rows of {vocab} are left as they were");
    hold(&tokens, &logits, &choices, vocab);
    tokens.iter().flatten().count()
}

/// Holds tokens that were chosen from these rows to the definition.
///
/// # Panics
/// At the first that is not the definition's.
pub fn hold(tokens: &[Option<u32>], logits: &[Vec<f32>], choices: &[Choice<'_>], vocab: usize) {
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
