//! The GPU's operations: activations in one buffer, a kernel or a few for each operation.
//!
//! Operations only note work; it is started when a step is whole, or when something is read. What fails is kept by the driver and
//! reported by the executor, as every later call fails too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use kauri_arch::{
    Activation, Attention, Convolution, Dense, Embed, GatedDelta, Head, Latent, Linear, Mixer, Moe, Norm, RopeStyle,
    Selective, Shape, StateSpace, TimeMix,
};
use kauri_device::rope::{Angles, Frequencies};
use kauri_device::{
    Batch, Buffer, DeviceError, Extent, Memory, OpCost, Ops, Part, Plan, Share, Side, Weight, reference,
};

use crate::attend;
use crate::cache::Kept;
use crate::detect::{DEVICE, Device, lost, no_room};
use crate::driver::{BINDINGS, Dispatch, Gpu, Words};
use crate::elementwise;
use crate::experts;
use crate::latent;
use crate::matmul;
use crate::recurrent;
use crate::resident::{Resident, Weights};
use crate::shader::{self, By, Entry, Kernel};
use crate::step::Step;

/// A place where nothing is.
pub(crate) const NOTHING: usize = u32::MAX as usize;
/// Buffers of activations begin at a multiple of so many values.
const ALIGNMENT: usize = 64;

/// Raised whenever the layout of pages or states changes, or a kernel comes to round differently: what an earlier program kept is
/// then no longer taken for what this one would compute.
const REVISION: u32 = 2;

/// How results are summed; always in single precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Each output in one order: the same bits whoever shares the batch and however a prompt is cut.
    Exact,
    /// In tiles where there are many rows.
    Fast,
}

/// Everything that a forward pass on the GPU touches. Sized at load.
pub struct Wgpu {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) weights: Weights,
    pub(crate) step: Step,
    /// All activations, and where each buffer begins in it.
    pub(crate) arena: wgpu::Buffer,
    places: Vec<usize>,
    /// What each block keeps.
    pub(crate) kept: Vec<Kept>,
    /// In its place where a kernel works on no block.
    nothing: wgpu::Buffer,
    ropes: Vec<Turns>,
    pub(crate) experts: experts::Scratch,
    /// Rows of the batch: of tokens, of outputs.
    rows: [usize; 2],
    pub(crate) sequences: usize,
    work: Vec<Dispatch>,
    /// Whether a product is summed in one order however many rows there are.
    pub(crate) exact: bool,
    /// What kernels cost, by name, while that is measured.
    costs: Option<Vec<OpCost>>,
    /// Tokens that the sequences of the batch have with it.
    seen: usize,
    /// Buffers of kernels by the pieces of weights and the block that they work on; and those of the last kernel.
    groups: HashMap<[usize; 4], wgpu::BindGroup>,
    last: Option<([usize; 4], wgpu::BindGroup)>,
    /// Kernels of the last step.
    dispatches: usize,
    pub(crate) hidden: usize,
    /// Rows of the output, if there is one.
    pub(crate) vocab: usize,
    pages: usize,
    slots: usize,
}

/// A rope: its frequencies, and where the angles of a batch are.
struct Turns {
    frequencies: Frequencies,
    angles: Angles,
    at: usize,
}

impl Wgpu {
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
        unsupported(shape)?;
        let mut values = 0;
        let mut place = |count: usize| {
            let at = values;
            values += count.next_multiple_of(ALIGNMENT);
            at
        };
        let places = Buffer::ALL.iter().map(|buffer| place(buffer.values(shape, plan))).collect();
        let ropes = shape.ropes.iter().map(|rope| Turns::new(Frequencies::new(rope), plan, &mut place)).collect();
        let [chosen, wide] = experts::Scratch::values(shape, plan).map(&mut place);
        let bytes = 4 * values as u64;
        let arena = gpu.buffer("activations", bytes).map_err(no_room("activations", bytes))?;
        let (weights, resident) = Weights::new(&gpu, shape)?;
        let kept_bytes = shape.blocks.iter().map(|block| Kept::bytes(plan, block)).sum();
        let kept = shape.blocks.iter().map(|block| Kept::new(&gpu, plan, block));
        let kept = kept.collect::<Result<_, _>>().map_err(no_room("keys and values", kept_bytes))?;
        let step = Step::new(&gpu, plan).map_err(no_room("the batch", 0))?;
        let vocab = shape.head.output.as_ref().map_or(0, |output| output.rows as usize);
        let wgpu = Self {
            nothing: gpu.buffer("nothing", 4).map_err(no_room("the batch", 4))?,
            weights,
            step,
            arena,
            places,
            kept,
            ropes,
            experts: experts::Scratch { chosen, wide },
            rows: [0; 2],
            sequences: 0,
            work: Vec::new(),
            exact: arithmetic == Arithmetic::Exact,
            costs: None,
            seen: 0,
            groups: HashMap::new(),
            last: None,
            dispatches: 0,
            hidden: shape.hidden as usize,
            vocab,
            pages: plan.pages as usize,
            slots: plan.slots as usize,
            gpu,
        };
        wgpu.gpu.outcome().map_err(lost)?;
        Ok((wgpu, resident))
    }

    /// Takes the batch that the next operations work on.
    pub fn begin(&mut self, batch: &Batch) {
        self.flush();
        self.rows = [batch.tokens.len(), batch.outputs.len()];
        self.sequences = batch.sequences.len();
        self.dispatches = 0;
        self.seen = batch.sequences.iter().map(|sequence| sequence.positions().end as usize).sum();
        self.step.send(&self.gpu, batch);
        for Turns { frequencies, angles, at } in &mut self.ropes {
            frequencies.turn(batch, angles);
            let numbers = angles.turns.iter().flat_map(|(cosine, sine)| [*cosine, *sine]);
            let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
            self.gpu.write(&self.arena, 4 * *at as u64, &bytes);
        }
    }

    /// Starts the work that was noted.
    pub(crate) fn flush(&mut self) {
        if self.costs.is_some() {
            return self.flush_timed();
        }
        if !self.work.is_empty() {
            self.gpu.submit(&self.work);
            self.work.clear();
        }
    }

    /// The same kernel by kernel, each waited for: what it takes has the way to the device and back in it.
    fn flush_timed(&mut self) {
        for dispatch in std::mem::take(&mut self.work) {
            let (name, start) = (dispatch.name, Instant::now());
            self.gpu.submit(&[dispatch]);
            self.gpu.wait();
            if let Some(cost) = self.cost(name) {
                cost.calls += 1;
                cost.seconds += start.elapsed().as_secs_f64();
            }
        }
    }

    /// Measures kernels from now on, or stops.
    pub(crate) fn measure(&mut self, on: bool) {
        self.flush();
        self.costs = on.then(Vec::new);
    }

    /// What was measured.
    pub(crate) fn measured(&self) -> &[OpCost] {
        self.costs.as_deref().unwrap_or_default()
    }

    /// Counts the bytes that a kernel must move, weights and what is cached and activations once each, and its multiplications and
    /// additions.
    pub(crate) fn count(&mut self, entry: Entry, bytes: usize, operations: usize) {
        if let Some(cost) = self.cost(entry.name()) {
            cost.bytes += bytes as u64;
            cost.operations += operations as u64;
        }
    }

    fn cost(&mut self, name: &'static str) -> Option<&mut OpCost> {
        let costs = self.costs.as_mut()?;
        let known = costs.iter().position(|known| known.name == name);
        let index = known.unwrap_or_else(|| {
            costs.push(OpCost { name, calls: 0, bytes: 0, operations: 0, seconds: 0.0 });
            costs.len() - 1
        });
        Some(&mut costs[index])
    }

    /// Tokens that the sequences of the batch have with it, together.
    pub(crate) fn seen(&self) -> usize {
        self.seen
    }

    /// The first values of a buffer, when everything is done.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn read(&mut self, buffer: Buffer, values: &mut [f32]) -> Result<(), DeviceError> {
        self.flush();
        let mut bytes = vec![0; size_of_val(values)];
        let part = (&self.arena, 4 * self.at(buffer) as u64, bytes.len() as u64);
        self.gpu.read(&[part], &mut bytes).map_err(lost)?;
        let read = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        values.iter_mut().zip(read).for_each(|(value, read)| *value = read);
        Ok(())
    }

    /// Sets the first values of a buffer.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn write(&mut self, buffer: Buffer, values: &[f32]) -> Result<(), DeviceError> {
        self.flush();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.gpu.write(&self.arena, 4 * self.at(buffer) as u64, &bytes);
        self.gpu.outcome().map_err(lost)
    }

    /// Makes everything that was never written not-a-number, so that reading it shows: for tests.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn poison(&mut self) -> Result<(), DeviceError> {
        for buffer in self.kept.iter().map(|kept| &kept.buffer).chain([&self.arena]) {
            self.gpu.write(buffer, 0, &vec![u8::MAX; buffer.size() as usize]);
        }
        self.gpu.outcome().map_err(lost)
    }

    /// Copies the states of one slot to another.
    pub(crate) fn copy_state(&mut self, from: u32, to: u32) {
        self.flush();
        let [from, to] = [from, to].map(|slot| slot as usize);
        assert!(from < self.slots && to < self.slots, "slots {from} and {to} of {}", self.slots);
        let copies = self.kept.iter().flat_map(|kept| {
            let runs = kept.state_runs(from).zip(kept.state_runs(to));
            runs.map(|((from, bytes), (to, _))| (&kept.buffer, from, to, bytes))
        });
        self.gpu.copy(&copies.collect::<Vec<_>>());
    }

    /// Kernels that the step has taken so far.
    pub fn dispatches(&self) -> usize {
        self.dispatches
    }

    /// Where a buffer begins in the arena, in values.
    pub(crate) fn at(&self, buffer: Buffer) -> usize {
        self.places[buffer as usize]
    }

    /// Rows of a buffer.
    pub(crate) fn rows(&self, buffer: Buffer) -> usize {
        match buffer.extent() {
            Extent::Tokens => self.rows[0],
            Extent::Outputs => self.rows[1],
        }
    }

    /// Threads of a workgroup.
    pub(crate) fn threads(&self) -> usize {
        self.gpu.lanes.threads() as usize
    }

    /// Rows of a matrix that a workgroup takes.
    pub(crate) fn matrix_rows(&self) -> usize {
        self.gpu.lanes.rows() as usize
    }

    /// Rows of a matrix that a workgroup of products with so many rows of the batch takes, and of each of a gated pair.
    pub(crate) fn product_rows(&self, tokens: usize, by: By) -> [usize; 2] {
        self.gpu.lanes.product_rows(tokens as u32, by).map(|rows| rows as usize)
    }

    /// Rows of an expert's gate and up that a workgroup takes, and of its down.
    pub(crate) fn expert_rows(&self, by: By) -> [usize; 2] {
        self.gpu.lanes.expert_rows(by).map(|rows| rows as usize)
    }

    /// Where the angles of a rope are, its pairs, and whether they are halves.
    pub(crate) fn turns(&self, rope: usize) -> (usize, usize, bool) {
        let Turns { frequencies, at, .. } = &self.ropes[rope];
        (*at, frequencies.pairs(), frequencies.style == RopeStyle::Halves)
    }

    /// What a branch reads: its norm of the stream, or the stream itself.
    pub(crate) fn normed(&mut self, norm: Option<&Norm<Resident>>) -> Buffer {
        let Some(norm) = norm else { return Buffer::Stream };
        elementwise::norm(self, norm, 1, Buffer::Stream, Buffer::Normed);
        Buffer::Normed
    }

    /// Notes a kernel that works on activations alone.
    pub(crate) fn start(&mut self, kernel: Kernel, grid: [usize; 3], words: Words) {
        self.start_on(kernel, None, &[], grid, words);
    }

    /// Notes work that has buffers of its own, and starts it with all that was noted before.
    pub(crate) fn start_all(&mut self, work: &mut Vec<Dispatch>) {
        self.dispatches += work.len();
        self.work.append(work);
        self.flush();
    }

    /// Notes a kernel that works on what a block keeps, or on these pieces of weights.
    pub(crate) fn start_on(
        &mut self,
        kernel: Kernel,
        block: Option<usize>,
        chunks: &[usize],
        grid: [usize; 3],
        words: Words,
    ) {
        if grid.contains(&0) {
            return;
        }
        let group = self.group(block, chunks);
        let (name, pipeline) = (kernel.name(), self.gpu.pipeline(kernel));
        self.work.push(Dispatch { name, pipeline, group, words, grid: grid.map(|count| count as u32) });
        self.dispatches += 1;
    }

    /// Buffers with what is wanted in its places: those of the kernel before where that had it, since a change of them takes the CPU
    /// time, too.
    fn group(&mut self, block: Option<usize>, chunks: &[usize]) -> wgpu::BindGroup {
        let wanted = [chunks.first(), chunks.get(1), chunks.get(2), block.as_ref()];
        if let Some((key, group)) = &self.last
            && key.iter().zip(wanted).all(|(has, wanted)| wanted.is_none_or(|wanted| wanted == has))
        {
            return group.clone();
        }
        let chunk = |index: usize| chunks.get(index).copied().unwrap_or(0);
        let key = [chunk(0), chunk(1), chunk(2), block.unwrap_or(NOTHING)];
        let Self { gpu, weights, step, arena, kept, nothing, groups, .. } = self;
        let make = || {
            let chunk = |index: usize| weights.chunks.get(key[index]).unwrap_or(&weights.vectors);
            let kept = kept.get(key[3]).map_or(&*nothing, |kept| &kept.buffer);
            let buffers: [_; BINDINGS] = [&*arena, chunk(0), chunk(1), chunk(2), &weights.vectors, &step.buffer, kept];
            gpu.group(buffers)
        };
        let group = groups.entry(key).or_insert_with(make).clone();
        self.last = Some((key, group.clone()));
        group
    }

    fn page_runs(&self, page: u32) -> Vec<(&wgpu::Buffer, u64, u64)> {
        assert!((page as usize) < self.pages, "page {page} of {}", self.pages);
        let runs = |kept: &'_ Kept| kept.page_runs(page as usize).collect::<Vec<_>>();
        self.kept.iter().flat_map(|kept| runs(kept).into_iter().map(|(at, bytes)| (&kept.buffer, at, bytes))).collect()
    }

    fn state_runs(&self, slot: u32) -> Vec<(&wgpu::Buffer, u64, u64)> {
        assert!((slot as usize) < self.slots, "slot {slot} of {}", self.slots);
        let runs = |kept: &'_ Kept| kept.state_runs(slot as usize).collect::<Vec<_>>();
        self.kept.iter().flat_map(|kept| runs(kept).into_iter().map(|(at, bytes)| (&kept.buffer, at, bytes))).collect()
    }

    /// Copies runs out.
    fn copy_out(
        &self,
        what: &'static str,
        runs: &[(&wgpu::Buffer, u64, u64)],
        to: &mut [u8],
    ) -> Result<(), DeviceError> {
        check(what, runs, to.len())?;
        self.gpu.read(runs, to).map_err(lost)
    }

    /// Copies bytes into runs.
    fn copy_in(&self, what: &'static str, runs: &[(&wgpu::Buffer, u64, u64)], from: &[u8]) -> Result<(), DeviceError> {
        check(what, runs, from.len())?;
        let mut rest = from;
        for &(buffer, at, bytes) in runs {
            let (part, behind) = rest.split_at(bytes as usize);
            self.gpu.write(buffer, at, part);
            rest = behind;
        }
        self.gpu.outcome().map_err(lost)
    }
}

/// Refuses bytes that are not as many as runs have.
fn check(what: &'static str, runs: &[(&wgpu::Buffer, u64, u64)], found: usize) -> Result<(), DeviceError> {
    let expected = runs.iter().map(|(_, _, bytes)| *bytes as usize).sum();
    if found == expected { Ok(()) } else { Err(DeviceError::Length { what, expected, found }) }
}

/// Where a bias begins, or that there is none.
pub(crate) fn bias_at(bias: Option<&Resident>) -> usize {
    bias.map_or(NOTHING, |bias| bias.at)
}

impl Turns {
    fn new(frequencies: Frequencies, plan: &Plan, place: &mut impl FnMut(usize) -> usize) -> Self {
        let tokens = plan.batch_tokens as usize;
        let at = place(2 * frequencies.pairs() * tokens);
        Self { angles: Angles::with_room(&frequencies, tokens), frequencies, at }
    }
}

impl Memory for Wgpu {
    fn page_bytes(&self) -> usize {
        self.page_runs(0).iter().map(|(_, _, bytes)| *bytes as usize).sum()
    }

    fn state_bytes(&self) -> usize {
        self.state_runs(0).iter().map(|(_, _, bytes)| *bytes as usize).sum()
    }

    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        self.flush();
        self.copy_out("a page", &self.page_runs(page), to)
    }

    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError> {
        self.flush();
        self.copy_in("a page", &self.page_runs(page), from)
    }

    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        self.flush();
        self.copy_out("a state", &self.state_runs(slot), to)
    }

    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError> {
        self.flush();
        self.copy_in("a state", &self.state_runs(slot), from)
    }

    /// Drivers round alike where they are the same.
    fn arithmetic(&self) -> String {
        let wgpu::AdapterInfo { name, driver, driver_info, .. } = &self.gpu.info;
        let exact = if self.exact { "exact" } else { "fast" };
        let Gpu { lanes, unit, .. } = &*self.gpu;
        format!("wgpu {name} {driver} {driver_info} {lanes:?} {unit:?} {exact} {REVISION}")
    }
}

impl Ops for Wgpu {
    type Weight = Resident;

    fn embed(&mut self, embed: &Embed<Resident>) {
        matmul::embed(self, embed);
    }

    fn norm(&mut self, norm: &Norm<Resident>, groups: usize, from: Buffer, to: Buffer) {
        elementwise::norm(self, norm, groups, from, to);
    }

    fn linear(&mut self, linear: &Linear<Resident>, from: Buffer, to: Buffer) {
        matmul::linear(self, linear, from, to, None);
    }

    fn rope(&mut self, rope: usize, heads: usize, head_dim: usize, buffer: Buffer) {
        elementwise::rope(self, rope, heads, head_dim, buffer);
    }

    fn store(&mut self, block: usize, attention: &Attention<Resident>) {
        attend::store(self, block, attention);
    }

    fn attend(&mut self, block: usize, attention: &Attention<Resident>) {
        attend::attend(self, block, &attention.into());
    }

    fn fold(&mut self, latent: &Latent<Resident>) {
        latent::fold(self, latent);
    }

    fn store_rows(&mut self, block: usize, latent: &Latent<Resident>) {
        attend::store_rows(self, block, latent);
    }

    fn attend_rows(&mut self, block: usize, latent: &Latent<Resident>) {
        attend::attend(self, block, &latent.into());
    }

    fn unfold(&mut self, latent: &Latent<Resident>) {
        latent::unfold(self, latent);
    }

    fn activate(&mut self, activation: Activation, gated: bool, width: usize) {
        elementwise::activate(self, activation, gated, width, 1.0);
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
        elementwise::lean(self, lean, from);
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
        elementwise::join(self, share);
    }

    fn add(&mut self, from: Buffer, scale: f32) {
        elementwise::add(self, from, scale);
    }

    fn gather(&mut self) {
        elementwise::gather(self);
    }

    fn scale_logits(&mut self, scale: f32, soft_cap: Option<f32>) {
        // Rows of logits have all the width that the buffer was sized for.
        elementwise::scale_logits(self, scale, soft_cap);
    }

    fn qkv(&mut self, block: usize, norm: Option<&Norm<Resident>>, attention: &Attention<Resident>) {
        let Attention { q, k, v, .. } = attention;
        let query = if attention.gated { Buffer::Packed } else { Buffer::Query };
        let input = self.normed(norm);
        matmul::products(self, input, &[(q, query), (k, Buffer::Key), (v, Buffer::Value)], None);
        if !attend::turn_and_store(self, block, attention) {
            reference::turn_and_store(self, block, attention);
        }
    }

    fn inputs<const N: usize>(&mut self, norm: Option<&Norm<Resident>>, products: [(&Linear<Resident>, Buffer); N]) {
        let input = self.normed(norm);
        matmul::products(self, input, &products, None);
    }

    fn gate_up(&mut self, norm: Option<&Norm<Resident>>, dense: &Dense<Resident>) {
        matmul::gate_up(self, norm, dense);
    }

    fn experts(&mut self, norm: Option<&Norm<Resident>>, moe: &Moe<Resident>) {
        experts::experts(self, norm, moe);
    }

    fn project(&mut self, linear: &Linear<Resident>, from: Buffer, norm: Option<&Norm<Resident>>, scale: f32) {
        if norm.is_some() {
            reference::project(self, linear, from, norm, scale);
        } else {
            matmul::linear(self, linear, from, Buffer::Stream, Some(scale));
        }
    }

    fn head(&mut self, norm: &Norm<Resident>, head: &Head<Resident>) {
        matmul::head(self, norm, head);
    }
}

/// Refuses what kernels have fixed limits for.
fn unsupported(shape: &Shape<Weight>) -> Result<(), DeviceError> {
    let refuse = |what: String| Err(DeviceError::Unsupported { device: DEVICE, what });
    for mixer in shape.mixers() {
        let values = match (mixer.latent(), mixer.attention()) {
            (Some(latent), _) => latent.row(),
            (None, attention) => attention.map_or(0, |attention| attention.head_dim),
        };
        if values as usize > shader::ROW_VALUES_MAX {
            return refuse(format!("cached rows of {values} values: {} at most", shader::ROW_VALUES_MAX));
        }
        if let Some(taps) = mixer.convolution().map(|convolution| convolution.taps)
            && taps > shader::TAPS_MAX
        {
            return refuse(format!("convolutions of {taps} taps: {} at most", shader::TAPS_MAX));
        }
        let (columns, width) = match mixer {
            Mixer::StateSpace(space) => (space.state, 0),
            Mixer::Selective(selective) => (selective.state, 0),
            Mixer::Parallel(parallel) => (parallel.space.state, 0),
            Mixer::GatedDelta(delta) => (0, delta.key_dim),
            Mixer::TimeMix(mix) => (0, mix.head_dim),
            Mixer::Attention(_) | Mixer::Latent(_) | Mixer::ShortConv(_) => (0, 0),
        };
        if columns > shader::STATE_COLUMNS_MAX {
            return refuse(format!("states of {columns} columns: {} at most", shader::STATE_COLUMNS_MAX));
        }
        if width > shader::STATE_WIDTH_MAX {
            return refuse(format!("states of {width} values: {} at most", shader::STATE_WIDTH_MAX));
        }
    }
    for moe in shape.ffns().filter_map(kauri_arch::Ffn::moe) {
        let (experts, groups) = (moe.experts.len(), moe.groups.map_or(0, |groups| groups.count));
        if experts > shader::EXPERTS_MAX || groups > shader::GROUPS_MAX {
            return refuse(format!("{experts} experts in {groups} groups"));
        }
    }
    Ok(())
}
