//! The CPU's kernels against the reference device.

use std::cell::Cell;

use kauri_arch::Shape;
use kauri_device::conformance::{Subject, Tolerance, conform, conform_adapted};
use kauri_device::{Batch, Buffer, Memory, Plan, Weight};
use kauri_device_cpu::{Cpu, Isa, Kernels};
use kauri_formats::Quant;

thread_local! {
    /// The instruction set of the devices that are made from now on.
    static ISA: Cell<Isa> = const { Cell::new(Isa::Scalar) };
}

struct OnThreads<const N: usize> {
    cpu: Cpu,
    shape: Shape<Weight>,
}

impl<const N: usize> Subject for OnThreads<N> {
    type Ops = Cpu;

    fn new(shape: &Shape<Weight>, plan: Plan) -> Self {
        let kernels = Kernels::new(ISA.get()).expect("asked for before");
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

    fn memory(&mut self) -> &mut dyn Memory {
        &mut self.cpu
    }
}

/// The scalar kernels are the formulas in the formulas' order: no difference at all, on any number of threads.
const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0, half_cache: 0.0 };

fn quants() -> Vec<Quant> {
    Quant::ALL.into_iter().filter(|quant| quant.can_quantise()).collect()
}

#[test]
fn scalar_kernels_equal_the_reference_on_one_thread() {
    conform::<OnThreads<1>>(&quants(), EXACT);
    conform::<OnThreads<1>>(&[Quant::F8_E4M3], EXACT);
}

#[test]
fn scalar_kernels_equal_the_reference_on_five_threads() {
    conform::<OnThreads<5>>(&quants(), EXACT);
    conform::<OnThreads<5>>(&[Quant::F8_E4M3], EXACT);
}

/// Activations rounded to bytes cost about a hundredth of a product's size; attention and the rest are exact to rounding.
const BYTES: Tolerance = Tolerance { absolute: 0.05, relative: 0.02, half_cache: 0.0 };

/// Runs the suite on each instruction set of this CPU that has kernels of its own.
fn conform_fast(quants: &[Quant], tolerance: Tolerance) {
    for isa in Isa::ALL.into_iter().filter(|&isa| isa != Isa::Scalar) {
        if isa.is_supported() {
            ISA.set(isa);
            conform::<OnThreads<2>>(quants, tolerance);
        } else {
            eprintln!("skipped: this CPU has no {}", isa.name());
        }
    }
}

#[test]
fn fast_kernels_stay_near_the_reference() {
    conform_fast(&quants(), BYTES);
}

/// Without quantised weights the fast kernels differ by rounding only: by less than 1e-5 of one with a cache that does not
/// round, by up to 2.7e-5 with one that does.
#[test]
fn fast_kernels_equal_the_reference_on_floating_point_weights() {
    let tolerance = Tolerance { absolute: 1e-5, relative: 1e-5, half_cache: 3e-5 };
    conform_fast(&[Quant::F32, Quant::F16, Quant::BF16], tolerance);
    conform_fast(&[Quant::F8_E4M3], tolerance);
}

/// Where a product goes into the stream, what adapters add to it follows: another order of the same sums. Half precision, where
/// a key may become either neighbour, is in the tolerance of the suite.
const REORDERED: Tolerance = Tolerance { absolute: 2e-5, relative: 2e-5, half_cache: 6e-5 };

#[test]
fn adapters_equal_the_reference_with_scalar_kernels() {
    ISA.set(Isa::Scalar);
    conform_adapted::<OnThreads<1>>(REORDERED);
    conform_adapted::<OnThreads<5>>(REORDERED);
}

#[test]
fn adapters_equal_the_reference_with_fast_kernels() {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_supported()) {
        ISA.set(isa);
        conform_adapted::<OnThreads<2>>(REORDERED);
    }
}
