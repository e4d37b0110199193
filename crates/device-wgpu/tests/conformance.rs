//! The kernels against the reference device, on the first adapter there is: where there is no GPU, one that computes on the CPU. Skipped,
//! with the reason, where there is none at all.

use std::sync::OnceLock;

use kauri_arch::Shape;
use kauri_device::conformance::choices::{self, Choosing};
use kauri_device::conformance::{Subject, Tolerance, conform, conform_every};
use kauri_device::{Batch, Buffer, Choice, Memory, Plan, Weight};
use kauri_device_wgpu::{Arithmetic, Chooser, Device, Reduction, Resident, Wgpu};
use kauri_formats::Quant;

/// The device as it adds up best in single precision, by way of memory over few threads and over as many as kernels ever take, and with
/// matrix units; for the whole of the process, since what is local to a thread cannot let go of it.
const WAYS: [Reduction; 4] = [Reduction::Single, Reduction::Memory(8), Reduction::Memory(32), Reduction::Units];
static DEVICES: [OnceLock<Device>; WAYS.len()] = [const { OnceLock::new() }; WAYS.len()];

/// Makes the device ready for subjects.
fn open(way: usize) -> bool {
    match Device::open(true, WAYS[way]) {
        Ok(device) => {
            eprintln!("on {}, {}", device.name(), device.reduction());
            // Another test may have been first.
            DEVICES[way].get_or_init(|| device);
            true
        }
        Err(reason) => {
            eprintln!("skipped: {reason}");
            false
        }
    }
}

struct OnGpu<const WAY: usize> {
    wgpu: Wgpu,
    shape: Shape<Resident>,
}

impl<const WAY: usize> Subject for OnGpu<WAY> {
    type Ops = Wgpu;

    fn new(shape: &Shape<Weight>, plan: Plan) -> Self {
        let device = DEVICES[WAY].get().expect("opened before");
        let made = Wgpu::new(device, shape, &plan, Arithmetic::Fast);
        let (mut wgpu, shape) = made.unwrap_or_else(|error| panic!("{error}"));
        wgpu.poison().expect("a device that is there");
        Self { wgpu, shape }
    }

    fn begin(&mut self, batch: &Batch) {
        self.wgpu.begin(batch);
    }

    fn parts(&mut self) -> (&mut Wgpu, &Shape<Resident>) {
        (&mut self.wgpu, &self.shape)
    }

    fn write(&mut self, buffer: Buffer, values: &[f32]) {
        self.wgpu.write(buffer, values).expect("a device that is there");
    }

    fn read(&mut self, buffer: Buffer, count: usize) -> Vec<f32> {
        let mut values = vec![0.0; count];
        self.wgpu.read(buffer, &mut values).unwrap_or_else(|error| panic!("{error}"));
        values
    }

    fn memory(&mut self) -> &mut dyn Memory {
        &mut self.wgpu
    }
}

/// What chooses tokens, on the device as it adds up in one of the ways.
struct ChooserOn<const WAY: usize>(Chooser);

impl<const WAY: usize> Choosing for ChooserOn<WAY> {
    fn new(rows: usize, vocab: usize) -> Self {
        let chooser = Chooser::new(DEVICES[WAY].get().expect("opened before"), rows, vocab);
        let mut chooser = chooser.unwrap_or_else(|error| panic!("{error}"));
        chooser.poison().expect("a device that is there");
        Self(chooser)
    }

    fn choose(&mut self, logits: &mut [f32], choices: &[Choice<'_>]) -> Vec<Option<u32>> {
        self.0.choose_of(logits, choices).expect("a device that is there")
    }

    fn measure(&mut self, logits: &[f32], choices: &[Choice<'_>], times: usize) -> Vec<(&'static str, f64)> {
        let seconds = self.0.measure(logits, choices, times).expect("a device that is there");
        ["until it is done", "until its tokens are here"].into_iter().zip(seconds).collect()
    }
}

/// All arithmetic is in single precision; sums are in another order, and exponentials round differently.
const ROUNDING: Tolerance = Tolerance { absolute: 2e-5, relative: 2e-5, half_cache: 3e-5 };

/// Weights and what meets them are rounded to halves where many rows do, to eleven bits each: a product is off by up to 2^-10 of the sizes
/// that it adds up, what is squared by twice that, and a pass goes through several.
const HALVES: Tolerance = Tolerance { absolute: 0.01, relative: 0.005, half_cache: 0.0 };

/// The types that there are kernels for, and that can be written.
fn quants() -> Vec<Quant> {
    use Quant::{BF16, F16, F32, IQ4_NL, IQ4_XS, MXFP4, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0};
    let known = [F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4];
    known.into_iter().filter(|quant| quant.can_quantise()).collect()
}

/// How many of the models a way is tried with that differs in how lanes add up, and not in how kernels read weights: all on a GPU; every sixth
/// where the driver computes on the CPU, which takes minutes for all.
fn each(way: usize) -> usize {
    if DEVICES[way].get().is_some_and(Device::is_software) { 6 } else { 1 }
}

#[test]
fn shaders_equal_the_reference() {
    if open(0) {
        conform::<OnGpu<0>>(&quants(), ROUNDING);
    }
}

/// For drivers that can be told how many lanes a subgroup has.
#[test]
fn some_models_equal_the_reference() {
    if open(0) {
        conform_every::<OnGpu<0>>(6, &quants(), ROUNDING);
    }
}

#[test]
fn shaders_without_subgroups_equal_the_reference() {
    if open(1) {
        conform_every::<OnGpu<1>>(each(1), &quants(), ROUNDING);
    }
}

/// As with subgroups of 32 threads, which no driver that computes on the CPU has: all but how lanes add up.
#[test]
fn shaders_of_thirty_two_lanes_equal_the_reference() {
    if open(2) {
        conform_every::<OnGpu<2>>(each(2), &quants(), ROUNDING);
    }
}

/// Skipped, too, where the device has none.
#[test]
fn matrix_units_equal_the_reference() {
    if !open(3) {
        return;
    }
    if DEVICES[3].get().is_some_and(Device::has_matrix_units) {
        conform::<OnGpu<3>>(&quants(), HALVES);
    } else {
        eprintln!("skipped: it has no matrix units");
    }
}

/// Bits, with every number of threads that kernels have: no sum depends on the order that they come in.
#[test]
fn shaders_draw_what_is_defined() {
    const LENGTHS: [(usize, usize); 7] =
        [(1, 20), (31, 60), (33, 60), (1000, 60), (1025, 40), (9999, 20), (151_936, 3)];
    if open(0) && open(1) && open(2) {
        choices::conform::<ChooserOn<0>>(&LENGTHS);
        choices::conform::<ChooserOn<1>>(&LENGTHS);
        choices::conform::<ChooserOn<2>>(&LENGTHS);
        choices::conform_edges::<ChooserOn<0>>();
        choices::conform_edges::<ChooserOn<2>>();
        choices::conform_changed::<ChooserOn<0>>();
    }
}

#[test]
#[ignore = "measures; asserts nothing"]
fn choices_are_measured() {
    if open(0) {
        let times = if DEVICES[0].get().is_some_and(Device::is_software) { 3 } else { 50 };
        choices::measure::<ChooserOn<0>>(151_936, times, |name, seconds| {
            let words = seconds.iter().map(|(what, seconds)| format!("{:.1} us {what}", seconds * 1e6));
            println!("{name}: {}", words.collect::<Vec<_>>().join(", "));
        });
    }
}
