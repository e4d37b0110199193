//! The GPU as an executor: each step is noted, started as one pass, and read back when its tokens are asked for.

use kauri_arch::Shape;
use kauri_device::{
    Batch, Buffer, Ceilings, Change, Choice, DeviceError, Draw, Effect, Ends, Executor, Memory, OpCost, Plan, Sampled,
    Stage, Weight, forward,
};

use crate::choose::Chooser;
use crate::detect::{Device, lost};
use crate::matmul;
use crate::ops::{Arithmetic, Wgpu};
use crate::resident::Resident;

/// A model on a GPU.
pub struct WgpuExecutor {
    wgpu: Wgpu,
    chooser: Chooser,
    shape: Shape<Resident>,
    ends: Ends,
    plan: Plan,
    device: Device,
    both_ways: bool,
    rows: usize,
    tokens: Vec<Option<u32>>,
    logits: Vec<f32>,
    last: Vec<f32>,
}

impl WgpuExecutor {
    /// Copies the weights to the device, sizes every buffer and compiles every kernel that a step takes.
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
        let (wgpu, resident) = Wgpu::new(device, shape, &plan, arithmetic)?;
        let (rows, logits) = (plan.batch_outputs as usize, wgpu.at(Buffer::Logits));
        let mut executor = Self {
            chooser: Chooser::of(&wgpu.gpu, &wgpu.arena, logits, rows, wgpu.vocab)?,
            wgpu,
            shape: resident,
            ends,
            plan,
            device: device.clone(),
            both_ways: shape.reads_both_ways(),
            rows: 0,
            tokens: Vec::with_capacity(plan.batch_outputs as usize),
            logits: Vec::new(),
            last: Vec::new(),
        };
        executor.warm()?;
        Ok(executor)
    }

    /// Goes through a step of one token, one of several, one of many and one of as many as matrix units are used for, so that every kernel is
    /// compiled before the first that counts. They write to the first pages and the first slot, of which nothing is cached yet.
    fn warm(&mut self) -> Result<(), DeviceError> {
        let most = (self.plan.batch_tokens as usize).min(self.plan.page_tokens as usize * self.plan.pages as usize);
        let units = self.wgpu.gpu.unit.map(|unit| (unit.rows_min as usize).min(most));
        for tokens in [1, 2.min(most), matmul::WIDE_FROM.min(most)].into_iter().chain(units) {
            let mut batch = Batch::default();
            let pages: Vec<u32> = (0..tokens.div_ceil(self.plan.page_tokens as usize) as u32).collect();
            batch.push(&vec![0; tokens], 0, &pages, 0, tokens as u32, 1);
            let mut at = self.launch_behind(&batch, &[])?;
            while let Some(block) = at {
                at = self.resume(block, &[])?;
            }
            self.sample(&[Choice::Greedy { mask: None }])?;
        }
        let changes = [Change { token: 0, effect: Effect::Added(0.0) }];
        let (below_max, uniform) = (f32::INFINITY, 0.0);
        let draw = Draw { temperature: 1.0, top_k: 1, top_p: 0.5, below_max, uniform, changes: &changes, mask: None };
        self.sample(&[Choice::Draw(draw)])?;
        self.wgpu.gpu.outcome().map_err(lost)
    }

    /// Kernels that the last step took.
    pub fn dispatches(&self) -> usize {
        self.wgpu.dispatches()
    }
}

impl Memory for WgpuExecutor {
    fn page_bytes(&self) -> usize {
        self.wgpu.page_bytes()
    }

    fn state_bytes(&self) -> usize {
        self.wgpu.state_bytes()
    }

    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        self.wgpu.read_page(page, to)
    }

    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError> {
        self.wgpu.write_page(page, from)
    }

    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        self.wgpu.read_state(slot, to)
    }

    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError> {
        self.wgpu.write_state(slot, from)
    }

    fn arithmetic(&self) -> String {
        self.wgpu.arithmetic()
    }
}

impl Executor for WgpuExecutor {
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
        if self.shape.head.output.is_none() {
            self.tokens.resize(self.rows, None);
            return Ok(Sampled { tokens: &self.tokens, logits: &[] });
        }
        let Self { wgpu, chooser, tokens, .. } = self;
        chooser.choose(choices, tokens, &mut |work| wgpu.start_all(work)).map_err(lost)?;
        if !choices.iter().any(|choice| matches!(choice, Choice::Logits)) {
            return Ok(Sampled { tokens: &self.tokens, logits: &[] });
        }
        self.logits.resize(self.rows * self.wgpu.vocab, 0.0);
        self.wgpu.read(Buffer::Logits, &mut self.logits)?;
        Ok(Sampled { tokens: &self.tokens, logits: &self.logits })
    }

    fn draws(&self) -> bool {
        true
    }

    fn rows(&mut self) -> Result<&[f32], DeviceError> {
        self.last.resize(self.rows * self.shape.hidden as usize, 0.0);
        self.wgpu.read(Buffer::Last, &mut self.last)?;
        Ok(&self.last)
    }

    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), DeviceError> {
        self.wgpu.copy_state(from, to);
        self.wgpu.gpu.outcome().map_err(lost)
    }

    fn measure(&mut self, on: bool) {
        self.wgpu.measure(on);
    }

    fn ceilings(&mut self) -> Ceilings {
        Ceilings { bandwidth_bytes_per_s: 0.0, operations_per_s: 0.0, arithmetic: "not measured" }
    }

    fn measured(&self) -> &[OpCost] {
        self.wgpu.measured()
    }
}

impl Stage for WgpuExecutor {
    fn launch_behind(&mut self, batch: &Batch, handed: &[(Buffer, Vec<f32>)]) -> Result<Option<usize>, DeviceError> {
        batch.check(&self.plan, self.shape.vocab);
        let whole = batch.sequences.iter().all(|sequence| sequence.cached_tokens == 0);
        assert!(whole || !self.both_ways, "a text that is read both ways is computed in one step");
        self.rows = batch.outputs.len();
        self.wgpu.begin(batch);
        for (buffer, values) in handed {
            self.wgpu.write(*buffer, values)?;
        }
        let at = forward(&mut self.wgpu, &self.shape, self.ends);
        self.wgpu.flush();
        self.wgpu.gpu.outcome().map_err(lost).map(|()| at)
    }

    fn resume(&mut self, block: usize, mixture: &[f32]) -> Result<Option<usize>, DeviceError> {
        self.wgpu.write(Buffer::Mixture, mixture)?;
        let at = forward::resume(&mut self.wgpu, &self.shape, self.ends, block);
        self.wgpu.flush();
        self.wgpu.gpu.outcome().map_err(lost).map(|()| at)
    }

    fn hand_on(&mut self, buffer: Buffer, values: &mut [f32]) -> Result<(), DeviceError> {
        self.wgpu.read(buffer, values)
    }
}
