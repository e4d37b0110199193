//! The GPU's kernels against the reference device, and recorded steps against started ones. Skipped, with the reason, where there
//! is no GPU or no kernels were built.

#[path = "conformance/choices.rs"]
mod choices;

use std::cell::OnceCell;

use kauri_arch::Shape;
use kauri_device::conformance::{Subject, Tolerance, conform};
use kauri_device::{Batch, Buffer, Memory, Plan, Weight};
use kauri_device_cuda::{Arithmetic, Cuda, Device, Resident};
use kauri_formats::Quant;

thread_local! {
    static DEVICE: OnceCell<Device> = const { OnceCell::new() };
}

/// Makes the device ready for this thread's subjects.
fn open() -> bool {
    match Device::open() {
        Ok(device) => DEVICE.with(|cell| cell.set(device).is_ok()),
        Err(reason) => {
            eprintln!("skipped: {reason}");
            false
        }
    }
}

/// STREAMED: with the kernels for large matrices, whatever the size.
struct OnGpu<const EXACT: bool, const STREAMED: bool = false> {
    cuda: Cuda,
    shape: Shape<Resident>,
}

impl<const EXACT: bool, const STREAMED: bool> Subject for OnGpu<EXACT, STREAMED> {
    type Ops = Cuda;

    fn new(shape: &Shape<Weight>, plan: Plan) -> Self {
        let arithmetic = if EXACT { Arithmetic::Exact } else { Arithmetic::Fast };
        let made = DEVICE.with(|device| Cuda::new(device.get().expect("opened before"), shape, &plan, arithmetic));
        let (mut cuda, shape) = made.unwrap_or_else(|error| panic!("{error}"));
        if STREAMED {
            cuda.stream_from(0);
        }
        cuda.poison().expect("a device that is there");
        Self { cuda, shape }
    }

    fn begin(&mut self, batch: &Batch) {
        self.cuda.begin(batch);
    }

    fn parts(&mut self) -> (&mut Cuda, &Shape<Resident>) {
        (&mut self.cuda, &self.shape)
    }

    fn write(&mut self, buffer: Buffer, values: &[f32]) {
        self.cuda.write(buffer, values).expect("a device that is there");
    }

    fn read(&mut self, buffer: Buffer, count: usize) -> Vec<f32> {
        let mut values = vec![0.0; count];
        self.cuda.read(buffer, &mut values).unwrap_or_else(|error| panic!("{error}"));
        values
    }

    fn memory(&mut self) -> &mut dyn Memory {
        &mut self.cuda
    }
}

/// All arithmetic is in single precision; sums are in another order, and exponentials round differently.
const ROUNDING: Tolerance = Tolerance { absolute: 2e-5, relative: 2e-5, half_cache: 3e-5 };

/// Activations rounded to bytes, or to bf16, cost about a hundredth of a product's size: as on a CPU.
const BYTES: Tolerance = Tolerance { absolute: 0.05, relative: 0.02, half_cache: 0.0 };

fn quants() -> Vec<Quant> {
    Quant::ALL.into_iter().filter(|quant| quant.can_quantise()).collect()
}

#[test]
fn exact_kernels_equal_the_reference() {
    if open() {
        conform::<OnGpu<true>>(&quants(), ROUNDING);
        conform::<OnGpu<true>>(&[Quant::F8_E4M3], ROUNDING);
    }
}

#[test]
fn fast_kernels_stay_near_the_reference() {
    if open() {
        conform::<OnGpu<false>>(&quants(), BYTES);
        conform::<OnGpu<false>>(&[Quant::F8_E4M3], BYTES);
    }
}

#[test]
fn kernels_for_large_matrices_stay_near_the_reference() {
    if open() {
        conform::<OnGpu<false, true>>(&quants(), BYTES);
        conform::<OnGpu<false, true>>(&[Quant::F8_E4M3], BYTES);
    }
}
