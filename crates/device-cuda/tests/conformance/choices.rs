//! Tokens chosen on the GPU are those of the definition.

use kauri_device::Choice;
use kauri_device::conformance::choices::{self, Choosing};
use kauri_device_cuda::Chooser;

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

    fn measure(&mut self, logits: &[f32], choices: &[Choice<'_>], times: usize) -> [f64; 2] {
        self.0.measure(logits, choices, times).expect("a device that is there")
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

#[test]
#[ignore = "measures; asserts nothing"]
fn choices_are_measured() {
    if open() {
        choices::measure::<OnGpu>(151_936, 50, |name, seconds| {
            let [device, whole] = seconds.map(|seconds| seconds * 1e6);
            println!("{name}: {device:.1} us on the device, {whole:.1} us until it is here");
        });
    }
}
