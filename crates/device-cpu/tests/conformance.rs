//! The CPU's kernels against the reference device.

use kauri_arch::Shape;
use kauri_device::conformance::{Subject, Tolerance, conform};
use kauri_device::{Batch, Buffer, Plan, Weight};
use kauri_device_cpu::{Cpu, Isa, Kernels};
use kauri_formats::Quant;

struct OnThreads<const N: usize, const FAST: bool> {
    cpu: Cpu,
    shape: Shape<Weight>,
}

impl<const N: usize, const FAST: bool> Subject for OnThreads<N, FAST> {
    type Ops = Cpu;

    fn new(shape: &Shape<Weight>, plan: Plan) -> Self {
        let isa = if FAST { Isa::best() } else { Isa::Scalar };
        let kernels = Kernels::new(isa).expect("every CPU is scalar, and has the best that it has");
        Self { cpu: Cpu::new(shape, &plan, kernels, N), shape: shape.clone() }
    }

    fn begin(&mut self, batch: &Batch) {
        self.cpu.begin(batch);
    }

    fn parts(&mut self) -> (&mut Cpu, &Shape<Weight>) {
        (&mut self.cpu, &self.shape)
    }

    fn write(&mut self, buffer: Buffer, values: &[f32]) {
        self.cpu.buffer_mut(buffer)[..values.len()].copy_from_slice(values);
    }

    fn read(&mut self, buffer: Buffer, count: usize) -> Vec<f32> {
        self.cpu.buffer(buffer)[..count].to_vec()
    }
}

/// The scalar kernels are the formulas in the formulas' order: no difference at all, on any number of threads.
const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0 };

fn quants() -> Vec<Quant> {
    Quant::ALL.into_iter().filter(|quant| quant.can_quantise()).collect()
}

#[test]
fn scalar_kernels_equal_the_reference_on_one_thread() {
    conform::<OnThreads<1, false>>(&quants(), EXACT);
}

#[test]
fn scalar_kernels_equal_the_reference_on_five_threads() {
    conform::<OnThreads<5, false>>(&quants(), EXACT);
}

/// Activations rounded to bytes cost about a hundredth of a product's size; attention and the rest are exact to rounding.
const BYTES: Tolerance = Tolerance { absolute: 0.05, relative: 0.02 };

#[test]
fn fast_kernels_stay_near_the_reference() {
    conform::<OnThreads<2, true>>(&quants(), BYTES);
}

/// Without quantised weights the fast kernels differ by rounding only.
#[test]
fn fast_kernels_equal_the_reference_on_floating_point_weights() {
    let quants = [Quant::F32, Quant::F16, Quant::BF16];
    conform::<OnThreads<2, true>>(&quants, Tolerance { absolute: 2e-5, relative: 1e-5 });
}
