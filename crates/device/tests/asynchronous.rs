//! A device that does nothing until it is asked for its results, and then works on another thread.
//!
//! It proves that the seam suits a GPU: the forward pass only enqueues, needs no value back to go on, and what the engine
//! reads is read after the work is done.

use std::sync::mpsc;
use std::thread::JoinHandle;

use kauri_arch::{
    Activation, Attention, Convolution, Embed, GatedDelta, Latent, Linear, Moe, Norm, Selective, Shape, StateSpace,
    TimeMix,
};
use kauri_device::conformance::{Subject, Tolerance, conform};
use kauri_device::plain::Plain;
use kauri_device::{Batch, Buffer, DeviceError, Memory, Ops, Part, Plan, Share, Side, Weight};
use kauri_formats::Quant;

type Work = Box<dyn FnOnce(&mut Plain) + Send>;

/// Records operations; the worker that will run them holds the only buffers.
struct Recorder {
    recorded: Vec<Work>,
}

/// The recorder, and a worker thread behind a queue.
struct Asynchronous {
    recorder: Recorder,
    shape: Shape<Weight>,
    queue: Option<mpsc::Sender<Work>>,
    worker: Option<JoinHandle<()>>,
    page_bytes: usize,
    state_bytes: usize,
}

impl Recorder {
    fn push(&mut self, work: impl FnOnce(&mut Plain) + Send + 'static) {
        self.recorded.push(Box::new(work));
    }
}

impl Ops for Recorder {
    type Weight = Weight;

    fn embed(&mut self, embed: &Embed<Weight>) {
        let embed = embed.clone();
        self.push(move |plain| plain.embed(&embed));
    }

    fn norm(&mut self, norm: &Norm<Weight>, groups: usize, from: Buffer, to: Buffer) {
        let norm = norm.clone();
        self.push(move |plain| plain.norm(&norm, groups, from, to));
    }

    fn linear(&mut self, linear: &Linear<Weight>, from: Buffer, to: Buffer) {
        let linear = linear.clone();
        self.push(move |plain| plain.linear(&linear, from, to));
    }

    fn rope(&mut self, rope: usize, heads: usize, head_dim: usize, buffer: Buffer) {
        self.push(move |plain| plain.rope(rope, heads, head_dim, buffer));
    }

    fn store(&mut self, block: usize, attention: &Attention<Weight>) {
        let attention = attention.clone();
        self.push(move |plain| plain.store(block, &attention));
    }

    fn attend(&mut self, block: usize, attention: &Attention<Weight>) {
        let attention = attention.clone();
        self.push(move |plain| plain.attend(block, &attention));
    }

    fn fold(&mut self, latent: &Latent<Weight>) {
        let latent = latent.clone();
        self.push(move |plain| plain.fold(&latent));
    }

    fn store_rows(&mut self, block: usize, latent: &Latent<Weight>) {
        let latent = latent.clone();
        self.push(move |plain| plain.store_rows(block, &latent));
    }

    fn attend_rows(&mut self, block: usize, latent: &Latent<Weight>) {
        let latent = latent.clone();
        self.push(move |plain| plain.attend_rows(block, &latent));
    }

    fn unfold(&mut self, latent: &Latent<Weight>) {
        let latent = latent.clone();
        self.push(move |plain| plain.unfold(&latent));
    }

    fn activate(&mut self, activation: Activation, gated: bool, width: usize) {
        self.push(move |plain| plain.activate(activation, gated, width));
    }

    fn gate(&mut self, activation: Activation, gate: Buffer, values: Buffer, width: usize) {
        self.push(move |plain| plain.gate(activation, gate, values, width));
    }

    fn scale(&mut self, buffer: Buffer, parts: &[(u32, f32)]) {
        let parts = parts.to_vec();
        self.push(move |plain| plain.scale(buffer, &parts));
    }

    fn convolve(&mut self, block: usize, convolution: &Convolution<Weight>) {
        let convolution = convolution.clone();
        self.push(move |plain| plain.convolve(block, &convolution));
    }

    fn deal(&mut self, groups: usize, parts: &[Part]) {
        let parts = parts.to_vec();
        self.push(move |plain| plain.deal(groups, &parts));
    }

    fn delta(&mut self, block: usize, delta: &GatedDelta<Weight>) {
        let delta = delta.clone();
        self.push(move |plain| plain.delta(block, &delta));
    }

    fn scan(&mut self, block: usize, space: &StateSpace<Weight>) {
        let space = space.clone();
        self.push(move |plain| plain.scan(block, &space));
    }

    fn select(&mut self, block: usize, selective: &Selective<Weight>) {
        let selective = selective.clone();
        self.push(move |plain| plain.select(block, &selective));
    }

    fn shift(&mut self, block: usize, side: Side, from: Buffer) {
        self.push(move |plain| plain.shift(block, side, from));
    }

    fn lean(&mut self, lean: &Weight, from: Buffer) {
        let lean = lean.clone();
        self.push(move |plain| plain.lean(&lean, from));
    }

    fn replace(&mut self, block: usize, mix: &TimeMix<Weight>) {
        let mix = mix.clone();
        self.push(move |plain| plain.replace(block, &mix));
    }

    fn pass_by(&mut self, mix: &TimeMix<Weight>) {
        let mix = mix.clone();
        self.push(move |plain| plain.pass_by(&mix));
    }

    fn route(&mut self, moe: &Moe<Weight>) {
        let moe = moe.clone();
        self.push(move |plain| plain.route(&moe));
    }

    fn join(&mut self, share: Share) {
        self.push(move |plain| plain.join(share));
    }

    fn add(&mut self, from: Buffer, scale: f32) {
        self.push(move |plain| plain.add(from, scale));
    }

    fn gather(&mut self) {
        self.push(Plain::gather);
    }

    fn scale_logits(&mut self, scale: f32, soft_cap: Option<f32>) {
        self.push(move |plain| plain.scale_logits(scale, soft_cap));
    }
}

impl Asynchronous {
    /// Submits what was recorded, behind all that was submitted before.
    fn submit(&mut self) {
        let queue = self.queue.as_ref().expect("the worker runs until the end");
        for work in self.recorder.recorded.drain(..) {
            queue.send(work).expect("the worker runs until the end");
        }
    }

    /// Does `work` behind everything else and waits for what it gives.
    fn ask<T: Send + 'static>(&mut self, work: impl FnOnce(&mut Plain) -> T + Send + 'static) -> T {
        let (reply, result) = mpsc::channel();
        self.recorder.push(move |plain| reply.send(work(plain)).expect("who asks waits"));
        self.submit();
        result.recv().expect("the worker answers")
    }
}

/// Bytes are written when their turn comes, and read when all that was recorded is done.
impl Memory for Asynchronous {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn state_bytes(&self) -> usize {
        self.state_bytes
    }

    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        let mut bytes = vec![0; to.len()];
        let bytes = self.ask(move |plain| plain.read_page(page, &mut bytes).map(|()| bytes))?;
        to.copy_from_slice(&bytes);
        Ok(())
    }

    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError> {
        if from.len() != self.page_bytes {
            return Err(DeviceError::Length { what: "a page", expected: self.page_bytes, found: from.len() });
        }
        let from = from.to_vec();
        self.recorder.push(move |plain| plain.write_page(page, &from).expect("the length was checked"));
        Ok(())
    }

    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        let mut bytes = vec![0; to.len()];
        let bytes = self.ask(move |plain| plain.read_state(slot, &mut bytes).map(|()| bytes))?;
        to.copy_from_slice(&bytes);
        Ok(())
    }

    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError> {
        if from.len() != self.state_bytes {
            return Err(DeviceError::Length { what: "a state", expected: self.state_bytes, found: from.len() });
        }
        let from = from.to_vec();
        self.recorder.push(move |plain| plain.write_state(slot, &from).expect("the length was checked"));
        Ok(())
    }

    fn arithmetic(&self) -> String {
        "reference".to_owned()
    }
}

impl Subject for Asynchronous {
    type Ops = Recorder;

    fn new(shape: &Shape<Weight>, plan: Plan) -> Self {
        let (queue, works) = mpsc::channel::<Work>();
        let mut plain = Plain::new(shape, plan);
        let (page_bytes, state_bytes) = (plain.page_bytes(), plain.state_bytes());
        let worker = std::thread::spawn(move || {
            for work in works {
                std::thread::yield_now();
                work(&mut plain);
            }
        });
        let recorder = Recorder { recorded: Vec::new() };
        Self { recorder, shape: shape.clone(), queue: Some(queue), worker: Some(worker), page_bytes, state_bytes }
    }

    fn begin(&mut self, batch: &Batch) {
        let batch = batch.clone();
        self.recorder.push(move |plain| plain.begin(&batch));
    }

    fn parts(&mut self) -> (&mut Recorder, &Shape<Weight>) {
        (&mut self.recorder, &self.shape)
    }

    fn write(&mut self, buffer: Buffer, values: &[f32]) {
        let values = values.to_vec();
        self.recorder.push(move |plain| plain.buffer_mut(buffer)[..values.len()].copy_from_slice(&values));
    }

    fn read(&mut self, buffer: Buffer, count: usize) -> Vec<f32> {
        // Nothing has run yet: had the pass needed a value, it could not have come this far.
        assert!(!self.recorder.recorded.is_empty(), "the device is read without work");
        self.ask(move |plain| plain.buffer(buffer)[..count].to_vec())
    }

    fn memory(&mut self) -> &mut dyn Memory {
        self
    }
}

impl Drop for Asynchronous {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(worker) = self.worker.take() {
            worker.join().expect("no operation panics");
        }
    }
}

#[test]
fn the_forward_pass_never_waits_for_a_value() {
    let exact = Tolerance { absolute: 0.0, relative: 0.0, half_cache: 0.0 };
    conform::<Asynchronous>(&[Quant::F32, Quant::Q8_0], exact);
}
