//! The GPU's operations: activations in memory, one stream, a kernel or a few for each operation.
//!
//! Operations only start kernels. What fails is kept and reported by the executor, as every later call fails too.

use std::cell::Cell;
use std::sync::Arc;

use kauri_arch::{
    Activation, Attention, Convolution, Dense, Embed, GatedDelta, Head, Latent, Linear, Mixer, Moe, Norm, RopeStyle,
    Selective, Shape, StateSpace, TimeMix,
};
use kauri_device::rope::Frequencies;
use kauri_device::{
    Adapted, Batch, Buffer, DeviceError, Extent, Memory, Ops, Part, Plan, Share, Side, Weight, reference,
};
use kauri_formats::Quant;

use crate::attend;
use crate::cache::Cache;
use crate::detect::{DEVICE, Device, lost, no_room};
use crate::driver::{self, Allocation, Arg, Failure, Gpu, Grid, Outcome, Recording};
use crate::elementwise;
use crate::experts;
use crate::latent;
use crate::matmul::{self, Also};
use crate::recurrent::{self, States};
use crate::resident::{Resident, Weights};
use crate::step::{self, Step};
use crate::stream;

/// How results are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// In single precision, each output in one order: the same bits whoever shares the batch and however a prompt is cut. Slow.
    Exact,
    /// As fast as can be: activations meet quantised weights as bytes, and in large batches all weights in bf16.
    Fast,
}

/// Everything that a forward pass on the GPU touches. Sized at load.
pub struct Cuda {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) weights: Weights,
    pub(crate) step: Step,
    buffers: Vec<Allocation>,
    /// Of the blocks that have attention.
    pub(crate) caches: Vec<Option<Cache>>,
    /// Of every block.
    pub(crate) states: Vec<States>,
    ropes: Vec<Turns>,
    pub(crate) experts: experts::Scratch,
    pub(crate) products: matmul::Scratch,
    pub(crate) attention: attend::Scratch,
    /// What the next operation may do in one go with its own, and any other kernel must find done.
    pending: Cell<Option<Pending>>,
    /// Whether only the plain kernels run: single precision, each output in one order whatever else is computed.
    pub(crate) exact: bool,
    /// Bytes of the matrices of a launch from which on blocks that stay read them for one row, where a test says so.
    streamed_from: Option<usize>,
    /// Whether all kernels share out a processor's near memory alike.
    shares_most: bool,
    /// Rows that kernels are started for: of tokens, of outputs.
    rows: [usize; 2],
    /// Sequences that kernels are started for, and tiles of attention.
    pub(crate) sequences: usize,
    pub(crate) tiles: usize,
    /// The longest sequence that they are started for, in tokens.
    pub(crate) longest: usize,
    outcome: Outcome,
    pub(crate) hidden: usize,
    /// Rows of the output, if there is one.
    pub(crate) vocab: usize,
    pages: usize,
    slots: usize,
}

/// What an operation leaves for the next.
#[derive(Clone, Copy)]
pub(crate) enum Pending {
    /// Norms of heads, ropes and the cache: for attention.
    Turn(attend::Turn),
    /// The last product of chosen experts: for the addition to the stream.
    Down(experts::Down),
}

/// Raised whenever the layout of pages or states changes, or a kernel comes to round differently: what an earlier program kept is
/// then no longer taken for what this one would compute.
const REVISION: u32 = 4;

/// A rope on the device: its frequencies, and the angles of a batch.
struct Turns {
    frequencies: Frequencies,
    near: Allocation,
    far: Option<Allocation>,
    angles: Allocation,
}

impl Cuda {
    /// Sized for `shape` and `plan`, with the weights of `shape` on the device; gives where they are, too.
    ///
    /// # Errors
    /// When they have no room there, or something in the model has no kernel.
    pub fn new(
        device: &Device,
        shape: &Shape<Weight>,
        plan: &Plan,
        arithmetic: Arithmetic,
    ) -> Result<(Self, Shape<Resident>), DeviceError> {
        let gpu = device.0.clone();
        gpu.bind().map_err(lost)?;
        unsupported(shape)?;
        let exact = arithmetic == Arithmetic::Exact;
        // Kernels are the process's: of several models the last that was loaded decides.
        let shares_most = shares_most(shape);
        gpu.share(shares_most).map_err(lost)?;
        let (weights, resident) = Weights::new(&gpu, shape, exact)?;
        let buffers = Buffer::ALL.iter().map(|buffer| {
            let bytes = 4 * buffer.values(shape, plan);
            let buffer = gpu.allocate(bytes).map_err(no_room("activations", bytes as u64))?;
            gpu.set(&buffer, 0).map_err(lost)?;
            Ok(buffer)
        });
        let buffers = buffers.collect::<Result<_, DeviceError>>()?;
        let cache_bytes = cache_bytes(shape, plan);
        let states_bytes = (4 * shape.state_values_per_sequence()).saturating_mul(u64::from(plan.slots));
        let caches = shape.blocks.iter().map(|block| {
            let Some(mixer) = block.mixer() else { return Ok(None) };
            if let Some(latent) = mixer.latent() {
                return Cache::of_rows(&gpu, plan, latent.row() as usize).map(Some);
            }
            let Some(attention) = mixer.attention() else { return Ok(None) };
            Cache::new(&gpu, plan, attention.kv_heads as usize, attention.head_dim as usize).map(Some)
        });
        let caches = caches.collect::<Result<_, _>>().map_err(no_room("keys and values", cache_bytes))?;
        let states = shape.blocks.iter().map(|block| States::new(&gpu, plan, block.state()));
        let states = states.collect::<Result<_, _>>().map_err(no_room("states", states_bytes))?;
        let ropes = shape.ropes.iter().map(|rope| Turns::new(&gpu, Frequencies::new(rope), plan));
        let ropes = ropes.collect::<Result<_, _>>().map_err(no_room("angles", 0))?;
        let experts = experts::Scratch::new(&gpu, shape, plan)?;
        let products = matmul::Scratch::new(&gpu, shape, plan, experts.slots())?;
        let attention = attend::Scratch::new(&gpu, shape, plan)?;
        let step = Step::new(&gpu, plan).map_err(no_room("the batch", 0))?;
        let cuda = Self {
            weights,
            step,
            buffers,
            caches,
            states,
            ropes,
            experts,
            products,
            attention,
            pending: Cell::new(None),
            exact,
            streamed_from: None,
            shares_most,
            rows: [0; 2],
            sequences: 0,
            tiles: 0,
            longest: usize::MAX,
            outcome: Outcome::default(),
            hidden: shape.hidden as usize,
            vocab: shape.head.output.as_ref().map_or(0, |output| output.rows as usize),
            pages: plan.pages as usize,
            slots: plan.slots as usize,
            gpu,
        };
        cuda.gpu.wait().map_err(lost)?;
        Ok((cuda, resident))
    }

    /// Has blocks that stay read matrices of so many bytes and more for one row: for tests, whose matrices are small.
    pub fn stream_from(&mut self, bytes: usize) {
        self.streamed_from = Some(bytes);
    }

    /// Bytes of the matrices of a launch from which on they do.
    pub(crate) fn streamed_from(&self, quant: Quant) -> usize {
        self.streamed_from.unwrap_or_else(|| stream::bytes_min(quant, self.shares_most))
    }

    /// Takes the batch that the next operations work on.
    pub fn begin(&mut self, batch: &Batch) {
        self.outcome.note(self.gpu.bind());
        let sent = self.step.send(batch);
        self.outcome.note(sent);
        self.size([batch.tokens.len(), batch.outputs.len()], batch.sequences.len(), step::tiles(batch));
        self.longest = step::longest(batch);
        self.prepare();
    }

    /// How many rows, sequences and tiles kernels are started for, of a batch that has no more.
    pub(crate) fn size(&mut self, rows: [usize; 2], sequences: usize, tiles: usize) {
        (self.rows, self.sequences, self.tiles) = (rows, sequences, tiles);
        self.longest = usize::MAX;
        self.products.forget_all();
        self.pending.set(None);
    }

    /// Lays out the batch that was sent, and computes its angles.
    pub(crate) fn prepare(&mut self) {
        self.outcome.note(self.step.begin(self.rows[0], self.tiles));
        let batch = self.step.batch();
        for turns in &self.ropes {
            self.outcome.note(turns.turn(&self.gpu, &batch, self.rows[0]));
        }
    }

    /// Sends a batch that a recorded step is to be replayed for.
    pub(crate) fn send(&mut self, batch: &Batch) -> Result<(), Failure> {
        self.step.send(batch)
    }

    /// Records what `work` starts.
    pub(crate) fn record(&mut self, work: impl FnOnce(&mut Self)) -> Result<Recording, Failure> {
        let gpu = self.gpu.clone();
        gpu.record(|| {
            work(self);
            self.outcome()
        })
    }

    /// What came of everything so far.
    pub(crate) fn outcome(&self) -> Result<(), Failure> {
        self.outcome.get()
    }

    /// The first values of a buffer, when everything is done.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn read(&self, buffer: Buffer, values: &mut [f32]) -> Result<(), DeviceError> {
        self.finish_pending();
        self.outcome().map_err(lost)?;
        if let Some(place) = self.products.alone(buffer) {
            let mut bytes = vec![0; 2 * values.len()];
            self.gpu.read(place, &mut bytes).map_err(lost)?;
            let read =
                bytes.as_chunks().0.iter().map(|bytes| f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16));
            values.iter_mut().zip(read).for_each(|(value, read)| *value = read);
            return Ok(());
        }
        let mut bytes = vec![0; size_of_val(values)];
        self.gpu.read(self.at(buffer), &mut bytes).map_err(lost)?;
        let read = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        values.iter_mut().zip(read).for_each(|(value, read)| *value = read);
        Ok(())
    }

    /// Sets the first values of a buffer.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn write(&mut self, buffer: Buffer, values: &[f32]) -> Result<(), DeviceError> {
        self.finish_pending();
        self.products.let_go();
        self.products.forget(buffer);
        self.gpu.write(self.at(buffer), driver::bytes_of_floats(values)).map_err(lost)
    }

    /// Makes everything that was never written not-a-number, so that reading it shows: for tests.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn poison(&mut self) -> Result<(), DeviceError> {
        let caches = self.caches.iter().flatten().flat_map(Cache::arrays);
        let states = self.states.iter().flat_map(States::arrays);
        for allocation in self.buffers.iter().chain(caches).chain(states).chain(self.experts.arrays()) {
            self.gpu.set(allocation, u8::MAX).map_err(lost)?;
        }
        self.gpu.wait().map_err(lost)
    }

    /// Copies the states of one slot to another.
    pub(crate) fn copy_state(&mut self, from: u32, to: u32) -> Result<(), Failure> {
        let [from, to] = [from, to].map(|slot| slot as usize);
        assert!(from < self.slots && to < self.slots, "slots {from} and {to} of {}", self.slots);
        for states in &self.states {
            for ((from, bytes), (to, _)) in states.runs(from).zip(states.runs(to)) {
                self.gpu.copy(from, to, bytes)?;
            }
        }
        Ok(())
    }

    /// Where a buffer begins.
    pub(crate) fn at(&self, buffer: Buffer) -> u64 {
        self.buffers[buffer as usize].at()
    }

    /// Rows of a buffer that kernels are started for.
    pub(crate) fn rows(&self, buffer: Buffer) -> usize {
        match buffer.extent() {
            Extent::Tokens => self.rows[0],
            Extent::Outputs => self.rows[1],
        }
    }

    /// Where the number of rows of a buffer is.
    pub(crate) fn count(&self, buffer: Buffer) -> u64 {
        match buffer.extent() {
            Extent::Tokens => self.step.token_count(),
            Extent::Outputs => self.step.output_count(),
        }
    }

    /// Keeps what came of something.
    pub(crate) fn note(&self, result: Result<(), Failure>) {
        self.outcome.note(result);
    }

    /// Where the angles of a rope are, its pairs, and whether they are halves.
    pub(crate) fn turns(&self, rope: usize) -> (u64, usize, bool) {
        let Turns { frequencies, angles, .. } = &self.ropes[rope];
        (angles.at(), frequencies.pairs(), frequencies.style == RopeStyle::Halves)
    }

    /// Leaves something for the next operation to do.
    pub(crate) fn leave(&self, pending: Pending) {
        self.pending.set(Some(pending));
    }

    /// What was left, for who does it now.
    pub(crate) fn take_pending(&self) -> Option<Pending> {
        self.pending.take()
    }

    /// Does what was left, ahead of anything but the operation that it was left for.
    fn finish_pending(&self) {
        match self.pending.take() {
            None => {}
            Some(Pending::Turn(turn)) => turn.start(self),
            Some(Pending::Down(down)) => down.start(self, None),
        }
    }

    /// Starts a kernel.
    pub(crate) fn launch(&self, name: &str, grid: Grid, arguments: &[Arg<'_>]) {
        self.finish_pending();
        self.products.let_go();
        self.outcome.note(self.gpu.launch(name, grid, arguments));
    }

    fn page_runs(&self, page: u32) -> Vec<(u64, usize)> {
        assert!((page as usize) < self.pages, "page {page} of {}", self.pages);
        self.caches.iter().flatten().flat_map(|cache| cache.runs(page as usize)).collect()
    }

    fn state_runs(&self, slot: u32) -> Vec<(u64, usize)> {
        assert!((slot as usize) < self.slots, "slot {slot} of {}", self.slots);
        self.states.iter().flat_map(|states| states.runs(slot as usize)).collect()
    }

    /// Copies runs out, or in.
    fn copy_runs(&mut self, what: &'static str, runs: &[(u64, usize)], bytes: Bytes<'_>) -> Result<(), DeviceError> {
        let expected = runs.iter().map(|(_, bytes)| bytes).sum();
        let found = bytes.len();
        if found != expected {
            return Err(DeviceError::Length { what, expected, found });
        }
        self.gpu.bind().map_err(lost)?;
        let mut start = 0;
        match bytes {
            Bytes::Out(to) => {
                for &(at, count) in runs {
                    self.gpu.read(at, &mut to[start..][..count]).map_err(lost)?;
                    start += count;
                }
            }
            Bytes::In(from) => {
                for &(at, count) in runs {
                    self.gpu.write(at, &from[start..][..count]).map_err(lost)?;
                    start += count;
                }
            }
        }
        Ok(())
    }
}

/// Which way bytes are copied.
enum Bytes<'a> {
    Out(&'a mut [u8]),
    In(&'a [u8]),
}

impl Bytes<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Out(bytes) => bytes.len(),
            Self::In(bytes) => bytes.len(),
        }
    }
}

impl Turns {
    fn new(gpu: &Arc<Gpu>, frequencies: Frequencies, plan: &Plan) -> Result<Self, Failure> {
        let upload = |values: &[f32]| {
            let place = gpu.allocate(4 * values.len())?;
            gpu.write(place.at(), driver::bytes_of_floats(values))?;
            Ok::<_, Failure>(place)
        };
        let near = upload(&frequencies.short)?;
        let far = frequencies.long.as_deref().map(upload).transpose()?;
        let angles = gpu.allocate(8 * frequencies.pairs() * plan.batch_tokens as usize)?;
        Ok(Self { frequencies, near, far, angles })
    }

    fn turn(&self, gpu: &Gpu, batch: &[u64; 6], tokens: usize) -> Result<(), Failure> {
        let Self { frequencies, near, far, angles } = self;
        let pairs = frequencies.pairs();
        // Not ahead: what comes later and has ropes finds the batch laid out, even what it reads before it has waited for the kernel before it.
        let grid = Grid::new([pairs.div_ceil(64), tokens, 1], 64);
        let far = far.as_ref().map_or(0, Allocation::at);
        let (from, factor) = (frequencies.long_from_tokens, frequencies.attention_factor);
        let arguments =
            [batch.into(), near.at().into(), far.into(), from.into(), factor.into(), pairs.into(), angles.at().into()];
        gpu.launch("angles", grid, &arguments)
    }
}

impl Memory for Cuda {
    fn page_bytes(&self) -> usize {
        self.page_runs(0).iter().map(|(_, bytes)| bytes).sum()
    }

    fn state_bytes(&self) -> usize {
        self.state_runs(0).iter().map(|(_, bytes)| bytes).sum()
    }

    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        let runs = self.page_runs(page);
        self.copy_runs("a page", &runs, Bytes::Out(to))
    }

    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError> {
        let runs = self.page_runs(page);
        self.copy_runs("a page", &runs, Bytes::In(from))
    }

    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        let runs = self.state_runs(slot);
        self.copy_runs("a state", &runs, Bytes::Out(to))
    }

    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError> {
        let runs = self.state_runs(slot);
        self.copy_runs("a state", &runs, Bytes::In(from))
    }

    /// Machine codes round alike where they are of one generation.
    fn arithmetic(&self) -> String {
        format!("cuda {} {} {REVISION}", self.gpu.capability, if self.exact { "exact" } else { "fast" })
    }
}

impl Ops for Cuda {
    type Weight = Resident;

    fn embed(&mut self, embed: &Embed<Resident>) {
        let (table, batch) = (embed.table, self.step.batch());
        let (places, kinds) = (embed.places.unwrap_or(NOWHERE), embed.kinds.unwrap_or(NOWHERE));
        let blocks = [table.columns.div_ceil(8 * 128), self.rows(Buffer::Stream), 1];
        let grid = Grid { ahead: true, ..Grid::new(blocks, 128) };
        let arguments = [
            (&batch).into(),
            table.at.into(),
            table.quant_number(),
            table.columns.into(),
            embed.scale.into(),
            places.at.into(),
            places.quant_number(),
            kinds.at.into(),
            kinds.quant_number(),
            kinds.rows.into(),
            self.at(Buffer::Stream).into(),
        ];
        self.launch("embed", grid, &arguments);
    }

    fn norm(&mut self, norm: &Norm<Resident>, groups: usize, from: Buffer, to: Buffer) {
        elementwise::norm(self, norm, groups, from, to);
    }

    fn linear(&mut self, linear: &Linear<Resident>, from: Buffer, to: Buffer) {
        matmul::linear(self, linear, from, to, None);
    }

    fn rope(&mut self, rope: usize, heads: usize, head_dim: usize, buffer: Buffer) {
        let (turns, pairs, halves) = self.turns(rope);
        let grid = Grid::new([(heads * pairs).div_ceil(128), self.rows(buffer), 1], 128);
        let (count, to) = (self.count(buffer), self.at(buffer));
        let arguments =
            [count.into(), turns.into(), pairs.into(), halves.into(), heads.into(), head_dim.into(), to.into()];
        self.launch("rope", grid, &arguments);
    }

    fn store(&mut self, block: usize, attention: &Attention<Resident>) {
        attend::store(self, block, attention);
    }

    fn attend(&mut self, block: usize, attention: &Attention<Resident>) {
        let output = (!attention.gated).then_some(&attention.output);
        attend::attend(self, block, &attention.into(), output);
    }

    fn fold(&mut self, latent: &Latent<Resident>) {
        latent::fold(self, latent);
    }

    fn store_rows(&mut self, block: usize, latent: &Latent<Resident>) {
        attend::store_rows(self, block, latent);
    }

    fn attend_rows(&mut self, block: usize, latent: &Latent<Resident>) {
        attend::attend(self, block, &latent.into(), None);
    }

    fn unfold(&mut self, latent: &Latent<Resident>) {
        latent::unfold(self, latent);
    }

    fn activate(&mut self, activation: Activation, gated: bool, width: usize) {
        elementwise::activate(self, activation, gated, width);
    }

    fn gate(&mut self, activation: Activation, gate: Buffer, values: Buffer, width: usize) {
        elementwise::gate(self, activation, gate, values, width);
    }

    fn scale(&mut self, buffer: Buffer, parts: &[(u32, f32)]) {
        elementwise::scale(self, buffer, parts);
    }

    fn convolve(&mut self, block: usize, convolution: &Convolution<Resident>) {
        recurrent::convolve(self, block, convolution);
    }

    fn deal(&mut self, groups: usize, parts: &[Part]) {
        elementwise::deal(self, groups, parts);
    }

    fn delta(&mut self, block: usize, delta: &GatedDelta<Resident>) {
        recurrent::delta(self, block, delta);
    }

    fn scan(&mut self, block: usize, space: &StateSpace<Resident>) {
        recurrent::scan(self, block, space);
    }

    fn select(&mut self, block: usize, selective: &Selective<Resident>) {
        recurrent::select(self, block, selective);
    }

    fn shift(&mut self, block: usize, side: Side, from: Buffer) {
        recurrent::shift(self, block, side, from);
    }

    fn lean(&mut self, lean: &Resident, from: Buffer) {
        let arguments =
            [self.count(from), self.at(from), self.at(Buffer::Change), lean.at, self.at(Buffer::Leant)].map(Arg::from);
        elementwise::each(self, "lean", from, lean.columns, &[&arguments[..], &[lean.columns.into()]].concat());
    }

    fn replace(&mut self, block: usize, mix: &TimeMix<Resident>) {
        recurrent::replace(self, block, mix);
    }

    fn pass_by(&mut self, mix: &TimeMix<Resident>) {
        recurrent::pass_by(self, mix);
    }

    fn route(&mut self, moe: &Moe<Resident>) {
        experts::route(self, moe);
    }

    fn join(&mut self, share: Share) {
        let (kind, index, count) = match share {
            Share::Whole => (0, 0, 0),
            Share::Gate => (1, 0, 0),
            Share::Expert { index, count } => (2, index, count),
        };
        let places = [Buffer::Scores, Buffer::Branch, Buffer::Mixture].map(|buffer| Arg::from(self.at(buffer)));
        let [scores, branch, mixture] = places;
        let (rows, hidden) = (self.count(Buffer::Mixture), self.hidden);
        let arguments =
            [rows.into(), scores, branch, mixture, hidden.into(), Arg::Int(kind), index.into(), count.into()];
        elementwise::each(self, "join", Buffer::Mixture, hidden, &arguments);
    }

    fn add(&mut self, from: Buffer, scale: f32) {
        let arguments = [self.count(from), self.at(Buffer::Stream), self.at(from)].map(Arg::from);
        let arguments = [&arguments[..], &[self.hidden.into(), scale.into()]].concat();
        elementwise::each(self, "add", from, self.hidden, &arguments);
    }

    fn gather(&mut self) {
        let batch = self.step.batch();
        let grid = Grid { ahead: true, ..Grid::new([self.hidden.div_ceil(256), self.rows(Buffer::Last), 1], 256) };
        let (from, to) = (self.at(Buffer::Stream), self.at(Buffer::Last));
        self.launch("gather", grid, &[(&batch).into(), from.into(), to.into(), self.hidden.into()]);
    }

    fn scale_logits(&mut self, scale: f32, soft_cap: Option<f32>) {
        // Rows of logits have all the width that the buffer was sized for.
        elementwise::scale_logits(self, scale, soft_cap);
    }

    fn qkv(&mut self, block: usize, norm: Option<&Norm<Resident>>, attention: &Attention<Resident>) {
        let Attention { q, k, v, .. } = attention;
        let query = if attention.gated { Buffer::Packed } else { Buffer::Query };
        let products = [(q, query), (k, Buffer::Key), (v, Buffer::Value)];
        matmul::products(self, norm, Buffer::Stream, &products, None, Also::Nothing);
        if !attend::turn_and_store(self, block, attention) {
            reference::turn_and_store(self, block, attention);
        }
    }

    fn head(&mut self, norm: &Norm<Resident>, head: &Head<Resident>) {
        let Some(output) = head.output.as_ref().filter(|_| !self.exact) else {
            return reference::head(self, norm, head);
        };
        self.gather();
        matmul::products(self, Some(norm), Buffer::Last, &[(output, Buffer::Logits)], None, Also::Nothing);
        if head.scale != 1.0 || head.soft_cap.is_some() {
            self.scale_logits(head.scale, head.soft_cap);
        }
    }

    fn inputs<const N: usize>(&mut self, norm: Option<&Norm<Resident>>, products: [(&Linear<Resident>, Buffer); N]) {
        matmul::products(self, norm, Buffer::Stream, &products, None, Also::Nothing);
    }

    fn gate_up(&mut self, norm: Option<&Norm<Resident>>, dense: &Dense<Resident>) {
        matmul::gate_up(self, norm, dense);
    }

    fn experts(&mut self, norm: Option<&Norm<Resident>>, moe: &Moe<Resident>) {
        experts::experts(self, norm, moe);
    }

    fn conclude(&mut self, from: Buffer, norm: Option<&Norm<Resident>>, scale: f32) {
        if let (None, Buffer::Mixture, Some(Pending::Down(down))) = (norm, from, self.pending.get()) {
            self.take_pending();
            return down.start(self, Some(scale));
        }
        reference::conclude(self, from, norm, scale);
    }

    fn project(&mut self, linear: &Linear<Resident>, from: Buffer, norm: Option<&Norm<Resident>>, scale: f32) {
        if norm.is_some() {
            reference::project(self, linear, from, norm, scale);
        } else {
            matmul::linear(self, linear, from, Buffer::Stream, Some(scale));
        }
    }
}

/// What is not there.
const NOWHERE: Resident = Resident { at: 0, quant: Quant::F32, rows: 0, columns: 0, planes: false };

/// Bytes of keys and values.
fn cache_bytes(shape: &Shape<Weight>, plan: &Plan) -> u64 {
    let each = shape.mixers().map(|mixer| match (mixer.latent(), mixer.attention()) {
        (Some(latent), _) => Cache::bytes(plan, plan.cache.of_rows(), 1, latent.row() as usize, 1),
        (None, Some(attention)) => {
            Cache::bytes(plan, plan.cache, attention.kv_heads as usize, attention.head_dim as usize, 2)
        }
        (None, None) => 0,
    });
    each.sum()
}

/// Whether its products read nothing again and again but rows that are short beside the matrices: those of types that take some arithmetic to unpack, and
/// experts, are quicker with a large cache.
fn shares_most(shape: &Shape<Weight>) -> bool {
    let mut plain = true;
    shape.for_each(|weight| match weight {
        Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) => {
            plain &= matches!(matrix.quant, Quant::Q8_0 | Quant::BF16 | Quant::F16 | Quant::F32);
        }
        Weight::Vector(_) => {}
    });
    plain && shape.ffns().all(|ffn| ffn.moe().is_none())
}

/// Refuses what kernels have fixed limits for.
fn unsupported(shape: &Shape<Weight>) -> Result<(), DeviceError> {
    let refuse = |what: String| Err(DeviceError::Unsupported { device: DEVICE, what });
    for mixer in shape.mixers() {
        let values = match (mixer.latent(), mixer.attention()) {
            (Some(latent), _) => latent.latent,
            (None, attention) => attention.map_or(0, |attention| attention.head_dim),
        };
        if values > attend::VALUES_MAX {
            return refuse(format!("heads of {values} values: {} at most", attend::VALUES_MAX));
        }
        if let Some(taps) = mixer.convolution().map(|convolution| convolution.taps)
            && taps > recurrent::TAPS_MAX
        {
            return refuse(format!("convolutions of {taps} taps: {} at most", recurrent::TAPS_MAX));
        }
        let (columns, width) = match mixer {
            Mixer::StateSpace(space) => (space.state, 0),
            Mixer::Selective(selective) => (selective.state, 0),
            Mixer::Parallel(parallel) => (parallel.space.state, 0),
            Mixer::GatedDelta(delta) => (0, delta.value_dim),
            Mixer::TimeMix(mix) => (0, mix.head_dim),
            Mixer::Attention(_) | Mixer::Latent(_) | Mixer::ShortConv(_) => (0, 0),
        };
        if columns > recurrent::COLUMNS_MAX {
            return refuse(format!("states of {columns} columns: {} at most", recurrent::COLUMNS_MAX));
        }
        if width > recurrent::WIDTH_MAX {
            return refuse(format!("states of {width} values: {} at most", recurrent::WIDTH_MAX));
        }
    }
    Ok(())
}
