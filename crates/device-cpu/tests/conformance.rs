//! The CPU's kernels against the reference device.

use kauri_arch::Shape;
use kauri_device::conformance::{Subject, Tolerance, conform};
use kauri_device::{Batch, Buffer, Plan, Weight};
use kauri_device_cpu::Cpu;
use kauri_formats::Quant;

struct OnThreads<const N: usize> {
    cpu: Cpu,
    shape: Shape<Weight>,
}

impl<const N: usize> Subject for OnThreads<N> {
    type Ops = Cpu;

    fn new(shape: &Shape<Weight>, plan: Plan) -> Self {
        Self { cpu: Cpu::new(shape, &plan, N), shape: shape.clone() }
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
    conform::<OnThreads<1>>(&quants(), EXACT);
}

#[test]
fn scalar_kernels_equal_the_reference_on_five_threads() {
    conform::<OnThreads<5>>(&quants(), EXACT);
}
