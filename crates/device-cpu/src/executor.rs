//! The CPU as an executor: a launch computes at once, a sample reads what is there.

use kauri_arch::Shape;
use kauri_device::{
    Batch, Buffer, Ceilings, Choice, DeviceError, Ends, Executor, Experts, Measured, Memory, OpCost, Ops, Plan,
    Sampled, Stage, Weight, forward,
};

use crate::cache;
use crate::ceilings;
use crate::detect::Kernels;
use crate::ops::{Cpu, by_rows};
use crate::sizes::cache_bytes;

/// A model on the CPU.
pub struct CpuExecutor {
    shape: Shape<Weight>,
    ends: Ends,
    plan: Plan,
    cpu: Cpu,
    both_ways: bool,
    rows: usize,
    tokens: Vec<Option<u32>>,
    measuring: bool,
    costs: Vec<OpCost>,
}

impl CpuExecutor {
    /// Sizes every buffer; nothing is allocated after.
    ///
    /// # Errors
    /// When the machine has no room for the cache.
    pub fn new(shape: Shape<Weight>, plan: Plan, kernels: Kernels, threads: usize) -> Result<Self, DeviceError> {
        Self::part(shape, Ends::BOTH, plan, kernels, threads)
    }

    /// The same of a part of a model with these of its ends.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn part(
        shape: Shape<Weight>,
        ends: Ends,
        plan: Plan,
        kernels: Kernels,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        let states = (4 * shape.state_values_per_sequence()).saturating_mul(u64::from(plan.slots));
        cache::probe(cache_bytes(&shape, &plan).saturating_add(states))?;
        let cpu = Cpu::new(&shape, &plan, kernels, threads);
        let tokens = Vec::with_capacity(plan.batch_outputs as usize);
        let both_ways = shape.reads_both_ways();
        Ok(Self { shape, ends, plan, cpu, both_ways, rows: 0, tokens, measuring: false, costs: Vec::new() })
    }

    /// Sets the first values of a buffer.
    fn take(&mut self, buffer: Buffer, values: &[f32]) {
        self.cpu.buffer_mut(buffer)[..values.len()].copy_from_slice(values);
    }

    fn run(&mut self, pass: Pass) -> Option<usize> {
        let Self { shape, ends, plan, cpu, costs, .. } = self;
        if !self.measuring {
            return pass.run(cpu, shape, *ends);
        }
        let (batch, hidden) = (cpu.batch().clone(), shape.hidden as usize);
        pass.run(&mut Measured { device: cpu, batch: &batch, cache: plan.cache, hidden, costs }, shape, *ends)
    }
}

impl Memory for CpuExecutor {
    fn page_bytes(&self) -> usize {
        self.cpu.page_bytes()
    }

    fn state_bytes(&self) -> usize {
        self.cpu.state_bytes()
    }

    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        self.cpu.read_page(page, to)
    }

    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError> {
        self.cpu.write_page(page, from)
    }

    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        self.cpu.read_state(slot, to)
    }

    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError> {
        self.cpu.write_state(slot, from)
    }

    fn arithmetic(&self) -> String {
        self.cpu.arithmetic()
    }
}

impl Executor for CpuExecutor {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn name(&self) -> String {
        let threads = self.cpu.threads();
        format!("CPU, {}, {threads} {}", self.cpu.isa().name(), if threads == 1 { "thread" } else { "threads" })
    }

    fn launch(&mut self, batch: &Batch) -> Result<(), DeviceError> {
        self.launch_behind(batch, &[]).map(|_| ())
    }

    fn sample(&mut self, choices: &[Choice<'_>]) -> Result<Sampled<'_>, DeviceError> {
        assert_eq!(choices.len(), self.rows, "one choice for every output row");
        Choice::assert_none_draws(choices);
        self.tokens.clear();
        if self.shape.head.output.is_none() {
            self.tokens.resize(self.rows, None);
            return Ok(Sampled { tokens: &self.tokens, logits: &[] });
        }
        let vocab = self.shape.vocab as usize;
        let (pool, logits) = self.cpu.pool_and(Buffer::Logits);
        let logits = &logits[..self.rows * vocab];
        self.tokens.resize(self.rows, None);
        by_rows(pool, 1, &mut self.tokens, |first, tokens| {
            let rows = logits[first * vocab..].chunks_exact(vocab);
            for ((token, row), choice) in tokens.iter_mut().zip(rows).zip(&choices[first..]) {
                *token = match choice {
                    Choice::Nothing | Choice::Draw(_) | Choice::Logits => None,
                    Choice::Greedy { mask } => greedy(row, *mask),
                };
            }
        });
        let logits = &self.cpu.buffer(Buffer::Logits)[..self.rows * vocab];
        let wanted = choices.iter().any(|choice| matches!(choice, Choice::Logits));
        Ok(Sampled { tokens: &self.tokens, logits: if wanted { logits } else { &[] } })
    }

    fn draws(&self) -> bool {
        false
    }

    fn rows(&mut self) -> Result<&[f32], DeviceError> {
        Ok(&self.cpu.buffer(Buffer::Last)[..self.rows * self.shape.hidden as usize])
    }

    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), DeviceError> {
        self.cpu.copy_state(from, to);
        Ok(())
    }

    fn measure(&mut self, on: bool) {
        self.measuring = on;
        self.costs.clear();
    }

    fn ceilings(&mut self) -> Ceilings {
        ceilings::measure(self.cpu.pool())
    }

    fn measured(&self) -> &[OpCost] {
        &self.costs
    }
}

impl Stage for CpuExecutor {
    fn launch_behind(&mut self, batch: &Batch, handed: &[(Buffer, Vec<f32>)]) -> Result<Option<usize>, DeviceError> {
        batch.check(&self.plan, self.shape.vocab);
        let whole = batch.sequences.iter().all(|sequence| sequence.cached_tokens == 0);
        assert!(whole || !self.both_ways, "a text that is read both ways is computed in one step");
        self.rows = batch.outputs.len();
        self.cpu.begin(batch);
        for (buffer, values) in handed {
            self.take(*buffer, values);
        }
        Ok(self.run(Pass::Forward))
    }

    fn resume(&mut self, block: usize, mixture: &[f32]) -> Result<Option<usize>, DeviceError> {
        self.take(Buffer::Mixture, mixture);
        Ok(self.run(Pass::Resume(block)))
    }

    fn hand_on(&mut self, buffer: Buffer, values: &mut [f32]) -> Result<(), DeviceError> {
        values.copy_from_slice(&self.cpu.buffer(buffer)[..values.len()]);
        Ok(())
    }
}

impl Experts for CpuExecutor {
    fn begin(&mut self, batch: &Batch) {
        self.cpu.begin(batch);
    }

    fn mix(&mut self, block: usize, stream: &[f32], mixture: &mut [f32]) {
        self.take(Buffer::Stream, stream);
        self.run(Pass::Experts(block));
        mixture.copy_from_slice(&self.cpu.buffer(Buffer::Mixture)[..mixture.len()]);
    }
}

/// What of a step is done.
#[derive(Clone, Copy)]
enum Pass {
    /// As much as there is of it.
    Forward,
    /// What is behind the experts of a block.
    Resume(usize),
    /// The experts of a block.
    Experts(usize),
}

impl Pass {
    /// Does it; gives the block that it came to where another device has the experts.
    fn run<D: Ops<Weight = Weight>>(self, device: &mut D, shape: &Shape<Weight>, ends: Ends) -> Option<usize> {
        match self {
            Self::Forward => forward(device, shape, ends),
            Self::Resume(block) => forward::resume(device, shape, ends, block),
            Self::Experts(block) => {
                forward::experts(device, shape, block);
                None
            }
        }
    }
}

/// Values of a row that one look passes over where none is larger than what was found before.
const BLOCK: usize = 64;

/// The index of the largest value whose bit is set; the lowest among equals; not-a-number never wins.
///
/// Value by value it took a twentieth of a step of eight sequences with a vocabulary of 150,000, on one thread while others waited.
fn greedy(row: &[f32], mask: Option<&[u32]>) -> Option<u32> {
    let allowed =
        |index: usize| mask.is_none_or(|mask| mask.get(index / 32).is_some_and(|word| word >> (index % 32) & 1 == 1));
    let mut best: Option<(u32, f32)> = None;
    for (block, values) in row.chunks(BLOCK).enumerate() {
        if best.is_some_and(|(_, most)| largest(values) <= most) {
            continue;
        }
        for (index, &value) in (block * BLOCK..).zip(values) {
            if best.is_none_or(|(_, most)| value > most) && !value.is_nan() && allowed(index) {
                best = Some((index as u32, value));
            }
        }
    }
    best.map(|(index, _)| index)
}

/// The largest of the numbers; minus infinity if there are none. Sixteen running maxima: the compiler makes vectors of them.
fn largest(values: &[f32]) -> f32 {
    let larger = |most: f32, value: f32| if value > most { value } else { most };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (chunks, rest) = values.as_chunks::<16>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, value);
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |most, &value| larger(most, value))
}

#[cfg(test)]
mod tests {
    use super::greedy;

    #[test]
    fn greedy_takes_the_first_largest_allowed_number() {
        let row = [1.0, f32::NAN, 3.0, 3.0, f32::NEG_INFINITY];
        assert_eq!(greedy(&row, None), Some(2));
        assert_eq!(greedy(&row, Some(&[0b1_1001])), Some(3));
        assert_eq!(greedy(&row, Some(&[0b0_0010])), None);
        assert_eq!(greedy(&row, Some(&[0])), None);
        assert_eq!(greedy(&[], None), None);
    }

    #[test]
    fn greedy_passes_over_nothing_that_wins() {
        let mut random = 1u32;
        let mut next = move || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            random >> 16
        };
        for length in [1, 63, 64, 65, 700, 2049] {
            for _ in 0..50 {
                // Few different values, so that there are equals in many blocks.
                let value = |number: u32| match number % 40 {
                    0 => f32::NAN,
                    1 => f32::NEG_INFINITY,
                    2 if number.is_multiple_of(11) => f32::INFINITY,
                    number => number as f32 - 20.0,
                };
                let row: Vec<f32> = (0..length).map(|_| value(next())).collect();
                let mask: Vec<u32> = (0..length / 32).map(|_| next() & next() | next() << 16).collect();
                for mask in [None, Some(&mask[..])] {
                    let may = |index: usize| {
                        mask.is_none_or(|mask| mask.get(index / 32).is_some_and(|word| word >> (index % 32) & 1 == 1))
                    };
                    let rank = |&index: &usize| (may(index) && !row[index].is_nan()).then_some(row[index]);
                    let most = (0..length).filter_map(|index| rank(&index)).fold(f32::NEG_INFINITY, f32::max);
                    let first = (0..length).find(|index| rank(index) == Some(most));
                    assert_eq!(greedy(&row, mask), first.map(|index| index as u32), "{row:?}");
                }
            }
        }
    }
}
