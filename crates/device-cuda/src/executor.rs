//! The GPU as an executor: a step of next tokens is recorded once for each size and replayed; any other is started kernel by kernel.

use kauri_arch::{Ffn, Shape};
use kauri_device::{
    Batch, Buffer, Ceilings, Choice, DeviceError, Ends, Executor, Memory, OpCost, Plan, Sampled, Stage, Weight, forward,
};

use crate::ceilings;
use crate::choose::Chooser;
use crate::detect::{Device, lost, no_room};
use crate::driver::{Failure, Pinned, Recording};
use crate::ops::{Arithmetic, Cuda};
use crate::resident::Resident;
use crate::step;

/// The largest step that is recorded: more tokens at once take longer than starting their kernels does.
const RECORDED_TOKENS_MAX: usize = 512;

/// Steps of so many tokens at most are recorded a second time, for sequences that are no longer than this: with fewer blocks for their attention.
const SHORT_STEP_TOKENS: usize = 8;
const SHORT_TOKENS: usize = 1024;

/// A model on a GPU.
pub struct CudaExecutor {
    // Recordings name the memory of what follows, so they go first.
    recordings: Vec<Option<Recording>>,
    /// Those for short sequences.
    short: Vec<Option<Recording>>,
    cuda: Cuda,
    shape: Shape<Resident>,
    ends: Ends,
    plan: Plan,
    device: Device,
    both_ways: bool,
    rows: usize,
    chooser: Chooser,
    tokens: Vec<Option<u32>>,
    logits: Option<Pinned>,
    last: Vec<f32>,
}

impl CudaExecutor {
    /// Copies the weights to the device and sizes every buffer.
    ///
    /// # Errors
    /// When the device has no room, or no kernel for something in the model.
    pub fn new(
        device: &Device,
        shape: &Shape<Weight>,
        plan: Plan,
        arithmetic: Arithmetic,
    ) -> Result<Self, DeviceError> {
        Self::part(device, shape, Ends::BOTH, plan, arithmetic)
    }

    /// The same of a part of a model with these of its ends.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn part(
        device: &Device,
        shape: &Shape<Weight>,
        ends: Ends,
        plan: Plan,
        arithmetic: Arithmetic,
    ) -> Result<Self, DeviceError> {
        // Layers with a window keep pages here, like others.
        let plan = Plan { ring: None, ..plan };
        let (cuda, resident) = Cuda::new(device, shape, &plan, arithmetic)?;
        // A step that waits for another device's experts cannot be recorded.
        let waits = shape.ffns().any(Ffn::is_apart);
        let sizes = if waits { 0 } else { bucket(RECORDED_TOKENS_MAX.min(plan.batch_tokens as usize)) + 1 };
        let mut executor = Self {
            recordings: (0..sizes).map(|_| None).collect(),
            short: (0..sizes.min(bucket(SHORT_STEP_TOKENS) + 1)).map(|_| None).collect(),
            chooser: Chooser::new(device, plan.batch_outputs as usize, cuda.vocab)?,
            cuda,
            shape: resident,
            ends,
            plan,
            device: device.clone(),
            both_ways: shape.reads_both_ways(),
            rows: 0,
            tokens: Vec::with_capacity(plan.batch_outputs as usize),
            logits: None,
            last: Vec::new(),
        };
        for size in 0..sizes {
            executor.recordings[size] = Some(executor.record(size, usize::MAX).map_err(lost)?);
        }
        for size in 0..executor.short.len() {
            executor.short[size] = Some(executor.record(size, SHORT_TOKENS).map_err(lost)?);
        }
        Ok(executor)
    }

    /// Records the step of as many tokens as this size has, of sequences of so many tokens at most.
    fn record(&mut self, size: usize, longest: usize) -> Result<Recording, Failure> {
        let tokens = (1 << size).min(self.plan.batch_tokens as usize);
        let Self { cuda, shape, ends, plan, .. } = self;
        cuda.size([tokens, tokens.min(plan.batch_outputs as usize)], tokens, tokens);
        cuda.longest = longest;
        cuda.record(|cuda| {
            cuda.prepare();
            forward(cuda, shape, *ends);
        })
    }

    /// Puts what the device before handed on where the first block reads it.
    fn take(&mut self, handed: &[(Buffer, Vec<f32>)]) -> Result<(), DeviceError> {
        handed.iter().try_for_each(|(buffer, values)| self.cuda.write(*buffer, values))
    }

    /// The recording that a batch fits, if it is one of next tokens.
    fn recording(&self, batch: &Batch) -> Option<&Recording> {
        let tokens = batch.tokens.len();
        if tokens == 0 || tokens != batch.sequences.len() || self.both_ways {
            return None;
        }
        let size = bucket(tokens);
        let short = self.short.get(size).filter(|_| step::longest(batch) <= SHORT_TOKENS);
        short.or_else(|| self.recordings.get(size))?.as_ref()
    }
}

/// Which recording has room for so many tokens: the power of two that is no smaller.
fn bucket(tokens: usize) -> usize {
    tokens.max(1).next_power_of_two().trailing_zeros() as usize
}

impl Memory for CudaExecutor {
    fn page_bytes(&self) -> usize {
        self.cuda.page_bytes()
    }

    fn state_bytes(&self) -> usize {
        self.cuda.state_bytes()
    }

    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        self.cuda.read_page(page, to)
    }

    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError> {
        self.cuda.write_page(page, from)
    }

    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        self.cuda.read_state(slot, to)
    }

    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError> {
        self.cuda.write_state(slot, from)
    }

    fn arithmetic(&self) -> String {
        self.cuda.arithmetic()
    }
}

impl Executor for CudaExecutor {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn name(&self) -> String {
        self.device.name()
    }

    fn launch(&mut self, batch: &Batch) -> Result<(), DeviceError> {
        self.launch_behind(batch, &[]).map(|_| ())
    }

    fn sample(&mut self, choices: &[Choice<'_>]) -> Result<Sampled<'_>, DeviceError> {
        assert_eq!(choices.len(), self.rows, "one choice for every output row");
        self.tokens.clear();
        let Some(vocab) = self.shape.head.output.as_ref().map(|output| output.rows as usize) else {
            self.tokens.resize(self.rows, None);
            return Ok(Sampled { tokens: &self.tokens, logits: &[] });
        };
        self.cuda.gpu.bind().map_err(lost)?;
        let logits = self.cuda.at(Buffer::Logits);
        let count = self.cuda.count(Buffer::Logits);
        self.chooser.choose(count, logits, choices, &mut self.tokens).map_err(lost)?;
        if !choices.iter().any(|choice| matches!(choice, Choice::Logits)) {
            return Ok(Sampled { tokens: &self.tokens, logits: &[] });
        }
        let bytes = 4 * self.rows * vocab;
        if self.logits.as_ref().is_none_or(|pinned| pinned.len() < bytes) {
            // Grows to what samplers on the host ask for: most programs have them look at one row.
            self.logits = Some(self.cuda.gpu.pin(bytes).map_err(no_room("logits", bytes as u64))?);
        }
        let pinned = self.logits.as_mut().expect("made above");
        self.cuda.gpu.fetch(logits, pinned, bytes).map_err(lost)?;
        Ok(Sampled { tokens: &self.tokens, logits: pinned.floats(self.rows * vocab) })
    }

    fn draws(&self) -> bool {
        self.shape.head.output.is_some()
    }

    fn rows(&mut self) -> Result<&[f32], DeviceError> {
        self.cuda.gpu.bind().map_err(lost)?;
        self.last.resize(self.rows * self.shape.hidden as usize, 0.0);
        self.cuda.read(Buffer::Last, &mut self.last)?;
        Ok(&self.last)
    }

    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), DeviceError> {
        self.cuda.gpu.bind().map_err(lost)?;
        self.cuda.copy_state(from, to).map_err(lost)
    }

    // A step is one piece of work here: what an operation takes in it cannot be told from outside.
    fn measure(&mut self, _on: bool) {}

    fn ceilings(&mut self) -> Ceilings {
        ceilings::measure(&self.cuda.gpu)
    }

    fn measured(&self) -> &[OpCost] {
        &[]
    }
}

impl Stage for CudaExecutor {
    fn launch_behind(&mut self, batch: &Batch, handed: &[(Buffer, Vec<f32>)]) -> Result<Option<usize>, DeviceError> {
        batch.check(&self.plan, self.shape.vocab);
        let whole = batch.sequences.iter().all(|sequence| sequence.cached_tokens == 0);
        assert!(whole || !self.both_ways, "a text that is read both ways is computed in one step");
        self.rows = batch.outputs.len();
        self.cuda.gpu.bind().map_err(lost)?;
        if self.recording(batch).is_some() {
            self.cuda.send(batch).map_err(lost)?;
            self.take(handed)?;
            let recording = self.recording(batch).expect("found above");
            self.cuda.gpu.replay(recording).map_err(lost)?;
            return self.cuda.outcome().map_err(lost).map(|()| None);
        }
        self.cuda.begin(batch);
        self.take(handed)?;
        let at = forward(&mut self.cuda, &self.shape, self.ends);
        self.cuda.outcome().map_err(lost).map(|()| at)
    }

    fn resume(&mut self, block: usize, mixture: &[f32]) -> Result<Option<usize>, DeviceError> {
        self.cuda.gpu.bind().map_err(lost)?;
        self.cuda.write(Buffer::Mixture, mixture)?;
        let at = forward::resume(&mut self.cuda, &self.shape, self.ends, block);
        self.cuda.outcome().map_err(lost).map(|()| at)
    }

    fn hand_on(&mut self, buffer: Buffer, values: &mut [f32]) -> Result<(), DeviceError> {
        self.cuda.gpu.bind().map_err(lost)?;
        self.cuda.read(buffer, values)
    }
}
