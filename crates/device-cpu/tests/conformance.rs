//! The CPU's kernels against the reference device.

use std::cell::Cell;

use kauri_arch::Shape;
use kauri_device::conformance::{Subject, Tolerance, conform, conform_adapted, conform_every, conform_products};
use kauri_device::{Batch, Buffer, Memory, Plan, Weight};
use kauri_device_cpu::{Cpu, Isa, Kernels};
use kauri_formats::Quant;

thread_local! {
    /// The instruction set of the devices that are made from now on.
    static ISA: Cell<Isa> = const { Cell::new(Isa::Scalar) };
    /// Whether they round activations, or a prompt's weights, where they have kernels for it.
    static ROUNDING: Cell<bool> = const { Cell::new(false) };
}

struct OnThreads<const N: usize> {
    cpu: Cpu,
    shape: Shape<Weight>,
}

impl<const N: usize> Subject for OnThreads<N> {
    type Ops = Cpu;

    fn new(shape: &Shape<Weight>, plan: Plan) -> Self {
        let kernels = Kernels::new(ISA.get()).expect("asked for before");
        let kernels = if ROUNDING.get() { kernels.rounding() } else { kernels };
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

/// The scalar kernels are the formulas in the formulas' order: no difference at all, on any number of threads; on one, where nothing is cut,
/// every third model shows it.
const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0, half_cache: 0.0 };

fn quants() -> Vec<Quant> {
    Quant::ALL.into_iter().filter(|quant| quant.can_quantise()).collect()
}

/// Types of blocks, those that nobody writes here among them.
fn block_quants() -> Vec<Quant> {
    Quant::ALL.into_iter().filter(|quant| quant.block_len() > 1).collect()
}

#[test]
fn scalar_kernels_equal_the_reference_on_one_thread() {
    conform_every::<OnThreads<1>>(3, &quants(), EXACT);
    conform_every::<OnThreads<1>>(3, &[Quant::F8_E4M3], EXACT);
}

#[test]
fn scalar_kernels_equal_the_reference_on_five_threads() {
    conform::<OnThreads<5>>(&quants(), EXACT);
    conform::<OnThreads<5>>(&[Quant::F8_E4M3], EXACT);
}

#[test]
fn scalar_products_of_every_type_equal_the_reference() {
    conform_products::<OnThreads<2>>(&block_quants(), EXACT);
}

/// Activations rounded to bytes cost about a hundredth of a product's size; attention and the rest are exact to rounding.
const BYTES: Tolerance = Tolerance { absolute: 0.05, relative: 0.02, half_cache: 0.0 };

/// Calls `test` for each instruction set of this CPU that has kernels of its own, with devices made for it.
fn for_each_isa(test: impl Fn()) {
    for isa in Isa::ALL.into_iter().filter(|&isa| isa != Isa::Scalar) {
        if isa.is_supported() {
            ISA.set(isa);
            test();
        } else {
            eprintln!("skipped: this CPU has no {}", isa.name());
        }
    }
}

/// Runs every so many models of the suite on each of them.
fn conform_fast(each: usize, quants: &[Quant], tolerance: Tolerance) {
    for_each_isa(|| conform_every::<OnThreads<2>>(each, quants, tolerance));
}

#[test]
fn fast_kernels_stay_near_the_reference() {
    conform_fast(1, &quants(), BYTES);
}

#[test]
fn fast_products_of_every_type_stay_near_the_reference() {
    for_each_isa(|| conform_products::<OnThreads<2>>(&block_quants(), BYTES));
}

/// Without quantised weights the fast kernels differ by rounding only: by less than 1e-5 of one with a cache that does not
/// round, by up to 2.7e-5 with one that does.
const NUMBERS: Tolerance = Tolerance { absolute: 1e-5, relative: 1e-5, half_cache: 3e-5 };

#[test]
fn fast_kernels_equal_the_reference_on_floating_point_weights() {
    conform_fast(1, &[Quant::F32, Quant::F16, Quant::BF16], NUMBERS);
    conform_fast(1, &[Quant::F8_E4M3], NUMBERS);
}

#[test]
fn kernels_that_round_stay_near_the_reference() {
    if !Isa::ALL
        .into_iter()
        .filter_map(Kernels::new)
        .map(Kernels::rounding)
        .any(|kernels| kernels.rounds() || kernels.prefills())
    {
        eprintln!("skipped: this CPU has no kernels that round where others do not");
        return;
    }
    ROUNDING.set(true);
    // A product of rounded activations is off by a thousandth, but a norm of two nearly equal columns makes more of it.
    conform_fast(1, &[Quant::BF16], BYTES);
    // What a prompt's weights are rounded by is less than what its activations are.
    conform_fast(2, &[Quant::Q2_K, Quant::Q3_K, Quant::Q4_K, Quant::Q5_K, Quant::Q6_K], BYTES);
}

/// Every second model; of the types none in F32 alone, which models that are about something else have.
#[test]
#[ignore = "half of the last one, for a CPU that is emulated"]
fn some_models_equal_the_reference_on_floating_point_weights() {
    conform_fast(2, &[Quant::F16, Quant::F32, Quant::BF16, Quant::F32, Quant::F8_E4M3], NUMBERS);
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
