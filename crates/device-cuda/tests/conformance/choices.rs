//! Tokens chosen on the GPU are those of the definition.

use kauri_device::Choice;
use kauri_device::conformance::choices::{self, Chance, Choosing, hold};
use kauri_device_cuda::{Chooser, Held};

use crate::{DEVICE, open};

struct OnGpu(Chooser);

impl Choosing for OnGpu {
    fn new(rows: usize, vocab: usize) -> Self {
        let chooser = DEVICE.with(|device| Chooser::new(device.get().expect("opened before"), rows, vocab));
        let mut chooser = chooser.unwrap_or_else(|error| panic!("{error}"));
        chooser.poison().expect("a device that is there");
        Self(chooser)
    }

    fn choose(&mut self, logits: &mut [f32], choices: &[Choice<'_>]) -> Vec<Option<u32>> {
        self.0.choose_of(logits, choices).expect("a device that is there")
    }

    fn measure(&mut self, logits: &[f32], choices: &[Choice<'_>], times: usize) -> Vec<(&'static str, f64)> {
        let seconds = self.0.measure(logits, choices, times).expect("a device that is there");
        ["on the device", "until its tokens are here", "behind a step"].into_iter().zip(seconds).collect()
    }
}

#[test]
fn drawn_tokens_equal_their_definition() {
    if open() {
        let lengths = [(1, 20), (31, 100), (33, 100), (1000, 100), (1025, 60), (9999, 40), (151_936, 6)];
        choices::conform::<OnGpu>(&lengths);
        choices::conform_edges::<OnGpu>();
        choices::conform_changed::<OnGpu>();
    }
}

/// Masks and draws are on the device beside a step that has not ended, and nothing is chosen before they are there; all that was there before them would
/// allow every token.
#[test]
fn masks_go_up_beside_the_step_and_are_waited_for() {
    if !open() {
        return;
    }
    let (vocab, mut random) = (5003, Chance(11));
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
        // Once before: a kernel that the driver has yet to load waits for the device, and copies wait with it.
        chooser.choose_of(&mut logits.concat(), &choices).expect("a device that is there");
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
    if open() {
        choices::measure::<OnGpu>(151_936, 50, |name, seconds| {
            let words = seconds.iter().map(|(what, seconds)| format!("{:.1} us {what}", seconds * 1e6));
            println!("{name}: {}", words.collect::<Vec<_>>().join(", "));
        });
    }
}
