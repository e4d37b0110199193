//! The CPU as an executor: a launch computes at once, a sample reads what is there.

use kauri_arch::{Mixer, Shape};
use kauri_device::{
    Batch, Buffer, Ceilings, Choice, DeviceError, Executor, Measured, Memory, OpCost, Plan, Sampled, Weight, forward,
};

use crate::cache::{self, Cache};
use crate::ceilings;
use crate::detect::Kernels;
use crate::ops::Cpu;

/// A model on the CPU.
pub struct CpuExecutor {
    shape: Shape<Weight>,
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
        let caches = shape.mixers().filter_map(Mixer::attention);
        let caches = caches.map(|attention| Cache::bytes(&plan, attention.kv_heads, attention.head_dim));
        let rows = shape.mixers().filter_map(Mixer::latent);
        let rows = rows.map(|latent| Cache::bytes_of_rows(&plan, latent.rope_dims, latent.latent));
        let states = (4 * shape.state_values_per_sequence()).saturating_mul(u64::from(plan.slots));
        cache::probe(caches.chain(rows).fold(states, u64::saturating_add))?;
        let cpu = Cpu::new(&shape, &plan, kernels, threads);
        let tokens = Vec::with_capacity(plan.batch_outputs as usize);
        let both_ways = shape.reads_both_ways();
        Ok(Self { shape, plan, cpu, both_ways, rows: 0, tokens, measuring: false, costs: Vec::new() })
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
        batch.check(&self.plan, self.shape.vocab);
        let whole = batch.sequences.iter().all(|sequence| sequence.cached_tokens == 0);
        assert!(whole || !self.both_ways, "a text that is read both ways is computed in one step");
        self.rows = batch.outputs.len();
        self.cpu.begin(batch);
        let blocks = 0..self.shape.blocks.len();
        if self.measuring {
            let mut measured = Measured {
                device: &mut self.cpu,
                batch,
                cache: self.plan.cache,
                hidden: self.shape.hidden as usize,
                costs: &mut self.costs,
            };
            forward(&mut measured, &self.shape, blocks);
        } else {
            forward(&mut self.cpu, &self.shape, blocks);
        }
        Ok(())
    }

    fn sample(&mut self, choices: &[Choice<'_>]) -> Result<Sampled<'_>, DeviceError> {
        assert_eq!(choices.len(), self.rows, "one choice for every output row");
        self.tokens.clear();
        if self.shape.head.output.is_none() {
            self.tokens.resize(self.rows, None);
            return Ok(Sampled { tokens: &self.tokens, logits: &[] });
        }
        let vocab = self.shape.vocab as usize;
        let logits = &self.cpu.buffer(Buffer::Logits)[..self.rows * vocab];
        self.tokens.extend(choices.iter().zip(logits.chunks_exact(vocab)).map(|(choice, row)| match choice {
            Choice::Nothing | Choice::Logits => None,
            Choice::Greedy { mask } => greedy(row, *mask),
        }));
        let wanted = choices.iter().any(|choice| matches!(choice, Choice::Logits));
        Ok(Sampled { tokens: &self.tokens, logits: if wanted { logits } else { &[] } })
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

/// The index of the largest value whose bit is set; the lowest among equals; not-a-number never wins.
fn greedy(row: &[f32], mask: Option<&[u32]>) -> Option<u32> {
    let allowed =
        |index: usize| mask.is_none_or(|mask| mask.get(index / 32).is_some_and(|word| word >> (index % 32) & 1 == 1));
    let mut best: Option<(u32, f32)> = None;
    for (index, &value) in row.iter().enumerate() {
        if best.is_none_or(|(_, most)| value > most) && !value.is_nan() && allowed(index) {
            best = Some((index as u32, value));
        }
    }
    best.map(|(index, _)| index)
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
}
