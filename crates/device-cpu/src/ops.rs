//! The CPU's operations: activations in memory, work shared over the pool.

use std::ops::DerefMut;

use kauri_arch::{
    Activation, Attention, Convolution, Dense, Embed, GatedDelta, Latent, Linear, Mixer, Moe, Norm, Parallel,
    Selective, Shape, Shared, StateSpace, TimeMix,
};
use kauri_device::memory::{self, Run};
use kauri_device::rope::{Angles, Frequencies};
use kauri_device::{
    Adapted, Batch, Buffer, DeviceError, Extent, Memory, Ops, Part, Plan, Ring, Share, Side, Weight, formula, reference,
};

use crate::adapters::{Adapters, Io};
use crate::aligned::Aligned;
use crate::attend;
use crate::cache::blocks::Caches;
use crate::cache::{Cache, Form};
use crate::detect::{Isa, Kernels};
use crate::elementwise;
use crate::experts;
use crate::latent;
use crate::matmul::{self, Job, Scratch, Source};
use crate::pool::{Disjoint, Pool};
use crate::product::Finish;
use crate::recurrent::{self, States};

/// Everything that a forward pass on the CPU touches but the weights. Sized at load.
pub struct Cpu {
    batch: Batch,
    /// The batch as layers see it whose keys and values are in rings; empty where there are none.
    on_rings: Batch,
    ring: Option<Ring>,
    buffers: Vec<Aligned<f32>>,
    /// Of the blocks that have attention, and keep pages.
    caches: Caches,
    /// Of those that keep rings.
    rings: Caches,
    /// Of every block.
    states: Vec<States>,
    ropes: Vec<(Frequencies, Angles)>,
    pool: Pool,
    products: Scratch,
    adapters: Adapters,
    attention: Vec<attend::Scratch>,
    experts: experts::Scratch,
    latent: latent::Scratch,
    hidden: usize,
    pages: usize,
    slots: usize,
    page_bytes: usize,
    state_bytes: usize,
}

/// The sizes of the ring in which a layer keeps its keys and values, if it does.
pub(crate) fn keeps_ring(plan: &Plan, attention: &Attention<Weight>) -> Option<Plan> {
    let (window, ring) = (attention.slides()?, plan.ring?);
    assert!(window <= ring.window_tokens, "a ring for {} tokens and a window of {window}", ring.window_tokens);
    plan.of_rings()
}

/// What each block keeps of a token in pages, if it does.
pub(crate) fn forms_of_pages(shape: &Shape<Weight>, plan: &Plan) -> impl Iterator<Item = Option<Form>> {
    shape.blocks.iter().map(|block| {
        let mixer = block.mixer()?;
        if let Some(latent) = mixer.latent() {
            return Some(Form::Rows { start: latent.rope_dims, count: latent.latent });
        }
        let attention = mixer.attention()?;
        keeps_ring(plan, attention).is_none().then(|| form(attention))
    })
}

/// What each block keeps of a token in a ring, if it does.
pub(crate) fn forms_of_rings(shape: &Shape<Weight>, plan: &Plan) -> impl Iterator<Item = Option<Form>> {
    shape.blocks.iter().map(|block| {
        let attention = block.mixer()?.attention()?;
        keeps_ring(plan, attention).map(|_| form(attention))
    })
}

fn form(attention: &Attention<Weight>) -> Form {
    Form::Heads { kv_heads: attention.kv_heads, head_dim: attention.head_dim }
}

/// Raised whenever the layout of pages or states changes, or a kernel comes to round differently: what an earlier program kept is
/// then no longer taken for what this one would compute.
const REVISION: u32 = 6;

impl Cpu {
    /// Sized for `shape` and `plan`, with `threads` threads.
    pub fn new(shape: &Shape<Weight>, plan: &Plan, kernels: Kernels, threads: usize) -> Self {
        let pool = Pool::new(threads);
        let head_dims = shape.mixers().filter_map(|mixer| match (mixer.latent(), mixer.attention()) {
            (Some(latent), _) => Some(latent.row()),
            (None, attention) => attention.map(|attention| attention.head_dim),
        });
        let (head_dim, mut columns) = (head_dims.max().unwrap_or(0) as usize, 0);
        let states = shape
            .blocks
            .iter()
            .map(|block| States::new(plan, block.state(), block.mixer().map_or(0, recurrent_head) as usize));
        let states = states.collect();
        shape.for_each(|weight| match weight {
            Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) => columns = columns.max(matrix.columns),
            Weight::Vector(_) => {}
        });
        let ropes = shape.ropes.iter().map(|rope| {
            let frequencies = Frequencies::new(rope);
            let angles = Angles::with_room(&frequencies, plan.batch_tokens as usize);
            (frequencies, angles)
        });
        let mut cpu = Self {
            batch: Batch::with_room(plan),
            on_rings: if plan.ring.is_some() { Batch::with_room(plan) } else { Batch::default() },
            ring: plan.ring,
            buffers: Buffer::ALL.iter().map(|buffer| Aligned::new(buffer.values(shape, plan))).collect(),
            caches: Caches::new(plan, forms_of_pages(shape, plan), &pool),
            rings: Caches::new(&plan.of_rings().unwrap_or(*plan), forms_of_rings(shape, plan), &pool),
            states,
            ropes: ropes.collect(),
            products: Scratch::new(
                kernels,
                plan.batch_tokens as usize,
                columns,
                experts::values(shape, plan).max(latent::values(shape, plan)),
                pool.threads(),
            ),
            adapters: Adapters::new(shape, plan),
            attention: (0..pool.threads()).map(|_| attend::Scratch::new(plan, head_dim)).collect(),
            experts: experts::Scratch::new(shape, plan),
            latent: latent::Scratch::new(shape, plan, pool.threads()),
            pool,
            hidden: shape.hidden as usize,
            pages: plan.pages as usize,
            slots: plan.slots as usize,
            page_bytes: 0,
            state_bytes: 0,
        };
        cpu.page_bytes = memory::count(&mut |run| cpu.walk_page(0, run));
        cpu.state_bytes = memory::count(&mut |run| cpu.walk_state(0, run));
        cpu
    }

    /// Takes the batch that the next operations work on.
    pub fn begin(&mut self, batch: &Batch) {
        self.batch.clone_from(batch);
        self.adapters.begin(batch);
        self.products.begin(batch);
        if let Some(ring) = &self.ring {
            batch.on_rings(ring, &mut self.on_rings);
        }
        for (frequencies, angles) in &mut self.ropes {
            frequencies.turn(batch, angles);
        }
    }

    /// Copies the states of one slot to another.
    pub fn copy_state(&mut self, from: u32, to: u32) {
        let slots = self.slots;
        let [from, to] = [from, to].map(|slot| slot as usize);
        assert!(from < slots && to < slots, "slots {from} and {to} of {slots}");
        self.states.iter_mut().for_each(|states| states.copy(slots, from, to));
        let pages = self.ring_pages();
        (0..pages).for_each(|page| self.rings.copy_page(from * pages + page, to * pages + page));
    }

    /// Pages of the ring of a slot.
    fn ring_pages(&self) -> usize {
        self.ring.map_or(0, |ring| ring.pages as usize)
    }

    fn walk_page(&mut self, page: u32, run: &mut dyn FnMut(Run<'_>)) {
        assert!((page as usize) < self.pages, "page {page} of {}", self.pages);
        self.caches.walk_page(page as usize, run);
    }

    fn walk_state(&mut self, slot: u32, run: &mut dyn FnMut(Run<'_>)) {
        let slots = self.slots;
        assert!((slot as usize) < slots, "slot {slot} of {slots}");
        self.states.iter_mut().for_each(|states| states.walk(slots, slot as usize, run));
        let pages = self.ring_pages();
        (0..pages).for_each(|page| self.rings.walk_page(slot as usize * pages + page, run));
    }

    /// The batch that operations work on.
    pub(crate) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The values of a buffer.
    pub fn buffer(&self, buffer: Buffer) -> &[f32] {
        &self.buffers[buffer as usize]
    }

    /// The values of a buffer, to be set.
    pub fn buffer_mut(&mut self, buffer: Buffer) -> &mut [f32] {
        self.products.forget();
        &mut self.buffers[buffer as usize]
    }

    /// The worker threads.
    pub(crate) fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// The same, and a buffer.
    pub(crate) fn pool_and(&mut self, buffer: Buffer) -> (&mut Pool, &[f32]) {
        (&mut self.pool, &self.buffers[buffer as usize])
    }

    /// The instructions in use.
    pub fn isa(&self) -> Isa {
        self.products.kernels().isa()
    }

    /// Threads that share the work.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    fn rows(&self, buffer: Buffer) -> usize {
        match buffer.extent() {
            Extent::Tokens => self.batch.tokens.len(),
            Extent::Outputs => self.batch.outputs.len(),
        }
    }

    /// What a branch reads: its norm of the stream, or the stream itself.
    fn normed(&mut self, norm: Option<&Norm<Weight>>) -> Buffer {
        let Some(norm) = norm else { return Buffer::Stream };
        self.norm(norm, 1, Buffer::Stream, Buffer::Normed);
        Buffer::Normed
    }

    /// Products of one input, packed once: of `from`, or of the stream's norm, which then stands in `Normed`.
    fn products_of<const N: usize>(
        &mut self,
        (norm, from): (Option<&Norm<Weight>>, Buffer),
        products: [(Piece<'_>, Buffer); N],
    ) {
        let tokens = self.rows(from);
        let (x, mut rest) = split(&mut self.buffers, from);
        let source = match norm {
            None => Source::Rows(x),
            Some(norm) => Source::Normed(norm, x, rest[Buffer::Normed as usize].take().expect("another buffer")),
        };
        let mut jobs = products.map(|(Piece { linear, gate, finish }, to)| {
            let out = rest[to as usize].take().expect("an output of its own for each product");
            Job { linear, gate, finish, out, then: None }
        });
        let x = matmul::linear(&mut self.pool, &mut self.products, source, (from.extent(), tokens), &mut jobs);
        for Job { linear, finish, out, .. } in &mut jobs {
            let factor = match finish {
                Finish::Store => 1.0,
                Finish::Add(scale) => *scale,
                Finish::Activate(_) | Finish::Gate(_) => unreachable!("a piece is written or added"),
            };
            let io = Io { x, by_token: false, factor, out };
            self.adapters.add(&mut self.pool, self.products.kernels(), linear, from.extent(), io);
        }
    }

    /// Norms and rope of the heads of queries and keys: a row of both after the other, which stays in the first-level cache meanwhile.
    fn turn(&mut self, attention: &Attention<Weight>) {
        let head_dim = attention.head_dim as usize;
        let (tokens, kernels) = (self.batch.tokens.len(), self.products.kernels());
        let [query, key] = several(&mut self.buffers, [Buffer::Query, Buffer::Key]);
        let side = |rows, heads: u32, norm| (Disjoint::new(rows), heads as usize * head_dim, norm);
        let sides = [
            side(query, attention.heads, attention.q_norm.as_ref()),
            side(key, attention.kv_heads, attention.k_norm.as_ref()),
        ];
        let rope = attention.rope.map(|rope| &self.ropes[rope]);
        if rope.is_none() && sides.iter().all(|(.., norm)| norm.is_none()) {
            return;
        }
        self.pool.split(tokens, self.pool.grain(tokens), &|_, tokens| {
            for token in tokens {
                for (rows, width, norm) in &sides {
                    // SAFETY: tokens are shared out without overlap.
                    let row = unsafe { rows.slice(token * width..(token + 1) * width) };
                    if let Some(norm) = norm {
                        kernels.norm(norm, row);
                    }
                    if let Some((frequencies, angles)) = rope {
                        kernels.rope(&elementwise::Turn { frequencies, angles, width: *width, head_dim }, token, row);
                    }
                }
            }
        });
    }

    /// One buffer to read and another to write.
    fn pair(&mut self, from: Buffer, to: Buffer) -> (&[f32], &mut [f32]) {
        let [from, to] = self.buffers.get_disjoint_mut([from as usize, to as usize]).expect("two different buffers");
        (from, to)
    }
}

impl Memory for Cpu {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn state_bytes(&self) -> usize {
        self.state_bytes
    }

    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        memory::copy_out("a page", self.page_bytes, &mut |run| self.walk_page(page, run), to)
    }

    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError> {
        memory::copy_in("a page", self.page_bytes, &mut |run| self.walk_page(page, run), from)
    }

    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        memory::copy_out("a state", self.state_bytes, &mut |run| self.walk_state(slot, run), to)
    }

    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError> {
        memory::copy_in("a state", self.state_bytes, &mut |run| self.walk_state(slot, run), from)
    }

    /// Instruction sets round differently where they add in lanes; the layout is the same for all.
    fn arithmetic(&self) -> String {
        let kernels = self.products.kernels();
        let rounding = if kernels.rounds() || kernels.prefills() { " rounding" } else { "" };
        format!("cpu {}{rounding} {REVISION}", self.isa().name())
    }
}

impl Ops for Cpu {
    type Weight = Weight;

    fn embed(&mut self, embed: &Embed<Weight>) {
        let table = embed.table.matrix();
        let [stream, added] = several(&mut self.buffers, [Buffer::Stream, Buffer::Normed]);
        for sequence in &self.batch.sequences {
            let rows = stream[sequence.tokens.start * table.columns..].chunks_exact_mut(table.columns);
            let tokens = &self.batch.tokens[sequence.tokens.clone()];
            for ((row, &token), position) in rows.zip(tokens).zip(sequence.positions()) {
                table.dequantise(token as usize, row);
                row.iter_mut().for_each(|value| *value *= embed.scale);
                for (table, of_row) in formula::added(embed, position, sequence.second_start).into_iter().flatten() {
                    let added = &mut added[..table.columns];
                    table.dequantise(of_row, added);
                    row.iter_mut().zip(added).for_each(|(value, added)| *value += *added);
                }
            }
        }
    }

    fn norm(&mut self, norm: &Norm<Weight>, groups: usize, from: Buffer, to: Buffer) {
        let width = groups * norm.width as usize;
        let rows = self.rows(from);
        let kernels = self.products.kernels();
        if from == to {
            by_rows(&mut self.pool, width, &mut self.buffers[to as usize][..rows * width], |_, rows| {
                kernels.norm(norm, rows);
            });
            return;
        }
        let [from, to] = several(&mut self.buffers, [from, to]);
        by_rows(&mut self.pool, width, &mut to[..rows * width], |first, rows| {
            rows.copy_from_slice(&from[first * width..][..rows.len()]);
            kernels.norm(norm, rows);
        });
    }

    fn linear(&mut self, linear: &Linear<Weight>, from: Buffer, to: Buffer) {
        self.products_of((None, from), [(Piece::plain(linear), to)]);
    }

    fn rope(&mut self, rope: usize, heads: usize, head_dim: usize, buffer: Buffer) {
        let (frequencies, angles) = &self.ropes[rope];
        let kernels = self.products.kernels();
        let (width, rows) = (heads * head_dim, self.batch.tokens.len());
        let turn = elementwise::Turn { frequencies, angles, width, head_dim };
        by_rows(&mut self.pool, width, &mut self.buffers[buffer as usize][..rows * width], |first, rows| {
            kernels.rope(&turn, first, rows);
        });
    }

    fn store(&mut self, block: usize, _attention: &Attention<Weight>) {
        let [keys, values] = [Buffer::Key, Buffer::Value].map(|buffer| &self.buffers[buffer as usize]);
        let kept = kept_mut(block, [&mut self.rings, &mut self.caches], [&self.on_rings, &self.batch]);
        let ((cache, number), batch) = kept;
        cache.store(number, &mut self.pool, self.products.kernels(), batch, [keys, values]);
    }

    fn attend(&mut self, block: usize, attention: &Attention<Weight>) {
        let [query, mixed] = several(&mut self.buffers, [Buffer::Query, Buffer::Mixed]);
        let (cache, batch) = kept(block, [&self.rings, &self.caches], [&self.on_rings, &self.batch]);
        let kernels = self.products.kernels();
        self.products.foresee(&mut self.pool);
        // Where there is a gate, the product behind takes what comes from that.
        let (output, part) = (&attention.output, attention.head_dim as usize);
        let products = Some(&mut self.products).filter(|_| !attention.gated);
        let following = products.and_then(|products| products.follow(output, batch.tokens.len(), mixed, part));
        let to = ([query, mixed], following);
        attend::attend(&mut self.pool, kernels, &mut self.attention, attention.into(), batch, cache, to);
    }

    fn fold(&mut self, latent: &Latent<Weight>) {
        let tokens = self.batch.tokens.len();
        let buffers = [Buffer::Parts, Buffer::Value, Buffer::Query, Buffer::Key, Buffer::Mixed];
        let [parts, value, query, key, mixed] = several(&mut self.buffers, buffers);
        let rows = latent::Rows { tokens, parts, value, query, key, mixed };
        latent::fold(&mut self.pool, &mut self.products, &mut self.latent, latent, rows);
    }

    fn store_rows(&mut self, block: usize, _latent: &Latent<Weight>) {
        let rows = &self.buffers[Buffer::Key as usize];
        let (cache, number) = self.caches.of_mut(block).expect("a block with attention");
        cache.store(number, &mut self.pool, self.products.kernels(), &self.batch, [rows, rows]);
    }

    fn attend_rows(&mut self, block: usize, latent: &Latent<Weight>) {
        let buffers = several(&mut self.buffers, [Buffer::Query, Buffer::Mixed]);
        let (kernels, cache) = (self.products.kernels(), self.caches.of(block).expect("a block with attention"));
        attend::attend(
            &mut self.pool,
            kernels,
            &mut self.attention,
            latent.into(),
            &self.batch,
            cache,
            (buffers, None),
        );
    }

    fn unfold(&mut self, latent: &Latent<Weight>) {
        let tokens = self.batch.tokens.len();
        let buffers = several(&mut self.buffers, [Buffer::Mixed, Buffer::Parts]);
        latent::unfold(&mut self.pool, &mut self.products, &mut self.latent, latent, tokens, buffers);
    }

    fn activate(&mut self, activation: Activation, gated: bool, width: usize) {
        let kernels = self.products.kernels();
        let values = self.batch.tokens.len() * width;
        let buffers = self.buffers.get_disjoint_mut([Buffer::Gate as usize, Buffer::Up as usize]);
        let [gate, up] = buffers.expect("two different buffers");
        by_rows(&mut self.pool, width, &mut gate[..values], |first, gate| {
            kernels.activate(activation, gated, gate, &up[first * width..][..gate.len()]);
        });
    }

    fn gate(&mut self, activation: Activation, gate: Buffer, values: Buffer, width: usize) {
        let kernels = self.products.kernels();
        let count = self.rows(gate) * width;
        let buffers = self.buffers.get_disjoint_mut([gate as usize, values as usize]);
        let [gate, values] = buffers.expect("two different buffers");
        by_rows(&mut self.pool, width, &mut gate[..count], |first, gate| {
            kernels.activate(activation, true, gate, &values[first * width..][..gate.len()]);
        });
    }

    fn scale(&mut self, buffer: Buffer, parts: &[(u32, f32)]) {
        let width: usize = parts.iter().map(|&(width, _)| width as usize).sum();
        let count = self.rows(buffer) * width;
        by_rows(&mut self.pool, width, &mut self.buffers[buffer as usize][..count], |_, rows| {
            for row in rows.chunks_exact_mut(width) {
                let mut rest = row;
                for &(width, factor) in parts {
                    let (part, behind) = rest.split_at_mut(width as usize);
                    part.iter_mut().for_each(|value| *value *= factor);
                    rest = behind;
                }
            }
        });
    }

    fn convolve(&mut self, block: usize, convolution: &Convolution<Weight>) {
        let (kernels, channels) = (self.products.kernels(), &mut self.buffers[Buffer::Channels as usize]);
        self.states[block].convolve(&mut self.pool, kernels, convolution, &self.batch, channels);
    }

    fn deal(&mut self, groups: usize, parts: &[Part]) {
        let width = groups * parts.iter().map(|part| part.width).sum::<usize>();
        let (packed, mut rest) = split(&mut self.buffers, Buffer::Packed);
        let mut before = 0;
        for part in parts {
            let to = rest[part.to as usize].as_mut().expect("another buffer");
            for (from, to) in
                packed.chunks_exact(width).zip(to.chunks_exact_mut(part.row)).take(self.batch.tokens.len())
            {
                let groups = from.chunks_exact(width / groups).zip(to[part.start..].chunks_exact_mut(part.width));
                groups.for_each(|(from, to)| to.copy_from_slice(&from[before..before + part.width]));
            }
            before += part.width;
        }
    }

    fn delta(&mut self, block: usize, delta: &GatedDelta<Weight>) {
        let buffers = [Buffer::Channels, Buffer::Steps, Buffer::Rates, Buffer::Mixed].map(|buffer| buffer as usize);
        let buffers = self.buffers.get_disjoint_mut(buffers).expect("different buffers").map(DerefMut::deref_mut);
        self.states[block].delta(&mut self.pool, self.products.kernels(), delta, &self.batch, buffers);
    }

    fn scan(&mut self, block: usize, space: &StateSpace<Weight>) {
        let buffers = [Buffer::Channels, Buffer::Steps, Buffer::Mixed].map(|buffer| buffer as usize);
        let buffers = self.buffers.get_disjoint_mut(buffers).expect("different buffers").map(DerefMut::deref_mut);
        self.states[block].scan(&mut self.pool, self.products.kernels(), space, &self.batch, buffers);
    }

    fn select(&mut self, block: usize, selective: &Selective<Weight>) {
        use Buffer::{Channels, Key, Mixed, Query, Steps};
        let buffers = several(&mut self.buffers, [Channels, Steps, Key, Query, Mixed]);
        self.states[block].select(&mut self.pool, self.products.kernels(), selective, &self.batch, buffers);
    }

    fn shift(&mut self, block: usize, side: Side, from: Buffer) {
        let buffers = several(&mut self.buffers, [from, Buffer::Change]);
        self.states[block].shift(&mut self.pool, side, &self.batch, self.hidden, buffers);
    }

    fn lean(&mut self, lean: &Weight, from: Buffer) {
        let (lean, hidden) = (lean.vector(), self.hidden);
        let [from, change, leant] = several(&mut self.buffers, [from, Buffer::Change, Buffer::Leant]);
        by_rows(&mut self.pool, hidden, &mut leant[..self.batch.tokens.len() * hidden], |first, rows| {
            let part = first * hidden..first * hidden + rows.len();
            let rows = rows.chunks_exact_mut(hidden).zip(from[part.clone()].chunks_exact(hidden));
            for ((leant, from), change) in rows.zip(change[part].chunks_exact(hidden)) {
                for (((leant, from), lean), change) in leant.iter_mut().zip(from).zip(lean).zip(change) {
                    *leant = from + lean * change;
                }
            }
        });
    }

    fn replace(&mut self, block: usize, mix: &TimeMix<Weight>) {
        use Buffer::{First, Key, Mixed, Query, Rates, Steps, Value};
        let rows = several(&mut self.buffers, [Query, Key, Value, Steps, Rates, First, Mixed]);
        self.states[block].replace(&mut self.pool, self.products.kernels(), mix, &self.batch, rows);
    }

    fn pass_by(&mut self, mix: &TimeMix<Weight>) {
        let values = self.batch.tokens.len() * mix.width() as usize;
        let rows = several(&mut self.buffers, [Buffer::Query, Buffer::Key, Buffer::Value, Buffer::Mixed]);
        recurrent::pass_by(&mut self.pool, mix, rows.map(|rows| &mut rows[..values]));
    }

    fn route(&mut self, moe: &Moe<Weight>) {
        let (count, tokens, hidden) = (moe.experts.len(), self.batch.tokens.len(), self.hidden);
        let bias = moe.selection_bias.as_ref().map(Weight::vector);
        let keys = Disjoint::new(&mut self.experts.keys);
        let scores = &mut self.buffers[Buffer::Scores as usize][..tokens * count];
        by_rows(&mut self.pool, count, scores, |first, rows| {
            for (token, scores) in (first..).zip(rows.chunks_exact_mut(count)) {
                // SAFETY: every token is one worker's.
                formula::route(moe, bias, unsafe { keys.slice(token * count..(token + 1) * count) }, scores);
            }
        });
        self.buffers[Buffer::Mixture as usize][..tokens * hidden].fill(0.0);
    }

    fn join(&mut self, share: Share) {
        let hidden = self.hidden;
        let buffers = [Buffer::Scores, Buffer::Branch, Buffer::Mixture];
        let [scores, branch, mixture] = several(&mut self.buffers, buffers);
        let rows = mixture.chunks_exact_mut(hidden).zip(branch.chunks_exact(hidden));
        for (token, (sum, row)) in rows.enumerate().take(self.batch.tokens.len()) {
            let share = match share {
                Share::Expert { index, count } => scores[token * count + index],
                Share::Gate => formula::sigmoid(scores[token]),
                Share::Whole => 1.0,
            };
            if share != 0.0 {
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += share * value);
            }
        }
    }

    fn add(&mut self, from: Buffer, scale: f32) {
        let values = self.rows(from) * self.hidden;
        let (from, stream) = self.pair(from, Buffer::Stream);
        stream[..values].iter_mut().zip(from).for_each(|(stream, value)| *stream += scale * value);
    }

    fn gather(&mut self) {
        let hidden = self.hidden;
        let [stream, last] = self
            .buffers
            .get_disjoint_mut([Buffer::Stream as usize, Buffer::Last as usize])
            .expect("two different buffers");
        for (row, &index) in last.chunks_exact_mut(hidden).zip(&self.batch.outputs) {
            row.copy_from_slice(&stream[index as usize * hidden..][..hidden]);
        }
    }

    fn scale_logits(&mut self, scale: f32, soft_cap: Option<f32>) {
        for value in self.buffer_mut(Buffer::Logits) {
            *value *= scale;
            if let Some(cap) = soft_cap {
                *value = formula::soft_cap(*value, cap);
            }
        }
    }

    fn qkv(&mut self, block: usize, norm: Option<&Norm<Weight>>, attention: &Attention<Weight>) {
        let Attention { q, k, v, .. } = attention;
        let [q, k, v] = [q, k, v].map(Piece::plain);
        let query = if attention.gated { Buffer::Packed } else { Buffer::Query };
        let kept = kept_mut(block, [&mut self.rings, &mut self.caches], [&self.on_rings, &self.batch]);
        let ((cache, number), batch) = kept;
        cache.foresee(number, &mut self.pool, batch);
        self.products_of((norm, Buffer::Stream), [(q, query), (k, Buffer::Key), (v, Buffer::Value)]);
        reference::deal_gates(self, attention);
        self.turn(attention);
        self.store(block, attention);
    }

    fn inputs<const N: usize>(&mut self, norm: Option<&Norm<Weight>>, products: [(&Linear<Weight>, Buffer); N]) {
        self.products_of((norm, Buffer::Stream), products.map(|(linear, to)| (Piece::plain(linear), to)));
    }

    fn latent(&mut self, block: usize, norm: Option<&Norm<Weight>>, latent: &Latent<Weight>) {
        let (queries, to) = match &latent.q_low {
            None => (&latent.q, Buffer::Parts),
            Some((low, _)) => (low, Buffer::Low),
        };
        let products = [(Piece::plain(&latent.kv), Buffer::Value), (Piece::plain(queries), to)];
        self.products_of((norm, Buffer::Stream), products);
        reference::fold_and_store(self, block, latent);
    }

    fn gate_up(&mut self, norm: Option<&Norm<Weight>>, dense: &Dense<Weight>) {
        let tokens = self.rows(Buffer::Stream);
        let buffers = [Buffer::Stream, Buffer::Normed, Buffer::Gate, Buffer::Up];
        let [stream, normed, gate, up] = several(&mut self.buffers, buffers);
        let source = match norm {
            None => Source::Rows(stream),
            Some(norm) => Source::Normed(norm, stream, normed),
        };
        let work = (&mut self.pool, &mut self.products, &mut self.adapters);
        experts::widen(work, dense, source, tokens, [gate, up]);
    }

    fn experts(&mut self, norm: Option<&Norm<Weight>>, moe: &Moe<Weight>) {
        let input = self.normed(norm);
        self.linear(&moe.router, input, Buffer::Scores);
        self.route(moe);
        let tokens = self.rows(input);
        let buffers = [input, Buffer::Scores, Buffer::Gate, Buffer::Up, Buffer::Branch, Buffer::Mixture];
        let [input, scores, gate, up, branch, mixture] = several(&mut self.buffers, buffers);
        let mut rows = experts::Rows { tokens, input, scores, wide: [gate, up], branch, mixture };
        let work = (&mut self.pool, &mut self.products, &mut self.adapters);
        experts::experts(work, &mut self.experts, moe, &mut rows);
        if let Some(shared) = &moe.shared {
            let work = (&mut self.pool, &mut self.products, &mut self.adapters);
            experts::shared(work, shared, &mut rows);
        }
    }

    fn beside(&mut self, norm: Option<&Norm<Weight>>, shared: &Shared<Weight>) {
        let input = self.normed(norm);
        let tokens = self.rows(input);
        let buffers = [input, Buffer::Scores, Buffer::Gate, Buffer::Up, Buffer::Branch, Buffer::Mixture];
        let [input, scores, gate, up, branch, mixture] = several(&mut self.buffers, buffers);
        let mut rows = experts::Rows { tokens, input, scores, wide: [gate, up], branch, mixture };
        experts::shared((&mut self.pool, &mut self.products, &mut self.adapters), shared, &mut rows);
    }

    fn project(&mut self, linear: &Linear<Weight>, from: Buffer, norm: Option<&Norm<Weight>>, scale: f32) {
        if norm.is_some() {
            reference::project(self, linear, from, norm, scale);
            return;
        }
        let product = Piece { linear, gate: None, finish: Finish::Add(scale) };
        self.products_of((None, from), [(product, Buffer::Stream)]);
    }
}

/// A product and what becomes of it.
struct Piece<'a> {
    linear: &'a Linear<Weight>,
    gate: Option<&'a Linear<Weight>>,
    finish: Finish,
}

impl<'a> Piece<'a> {
    /// Just written.
    fn plain(linear: &'a Linear<Weight>) -> Self {
        Self { linear, gate: None, finish: Finish::Store }
    }
}

/// Values of a head of the recurrence of `mixer`; none where it has no recurrence.
fn recurrent_head(mixer: &Mixer<Weight>) -> u32 {
    match mixer {
        Mixer::Attention(_) | Mixer::Latent(_) | Mixer::ShortConv(_) => 0,
        Mixer::StateSpace(space) | Mixer::Parallel(Parallel { space, .. }) => space.head_dim,
        Mixer::Selective(selective) => selective.width,
        Mixer::GatedDelta(delta) => delta.value_dim,
        Mixer::TimeMix(mix) => mix.head_dim,
    }
}

/// Shares `rows` of `width` values over the pool; `work` is given the number of its first row and the rows.
pub(crate) fn by_rows<T: Send>(pool: &mut Pool, width: usize, rows: &mut [T], work: impl Fn(usize, &mut [T]) + Sync) {
    let count = rows.len() / width;
    let rows = Disjoint::new(rows);
    pool.split(count, pool.grain(count), &|_, range| {
        // SAFETY: pieces do not overlap.
        work(range.start, unsafe { rows.slice(range.start * width..range.end * width) });
    });
}

/// Several buffers at once, all different.
fn several<const N: usize>(buffers: &mut [Aligned<f32>], which: [Buffer; N]) -> [&mut [f32]; N] {
    let buffers = buffers.get_disjoint_mut(which.map(|buffer| buffer as usize)).expect("different buffers");
    buffers.map(DerefMut::deref_mut)
}

/// Where a block's attention keeps keys and values, the block's number there, and the batch as it sees it: of rings, where it has one, and of
/// pages.
fn kept<'a>(
    block: usize,
    [rings, caches]: [&'a Caches; 2],
    [on_rings, on_pages]: [&'a Batch; 2],
) -> ((&'a Cache, usize), &'a Batch) {
    match rings.of(block) {
        Some(ring) => (ring, on_rings),
        None => (caches.of(block).expect("a block with attention"), on_pages),
    }
}

/// The same, to be written.
fn kept_mut<'a>(
    block: usize,
    [rings, caches]: [&'a mut Caches; 2],
    [on_rings, on_pages]: [&'a Batch; 2],
) -> ((&'a mut Cache, usize), &'a Batch) {
    match rings.of_mut(block) {
        Some(ring) => (ring, on_rings),
        None => (caches.of_mut(block).expect("a block with attention"), on_pages),
    }
}

/// One buffer to read, and all others to write.
fn split(buffers: &mut [Aligned<f32>], from: Buffer) -> (&[f32], [Option<&mut [f32]>; Buffer::ALL.len()]) {
    let mut read: &[f32] = &[];
    let mut each = buffers.iter_mut().enumerate();
    let rest = std::array::from_fn(|_| match each.next() {
        Some((index, buffer)) if index == from as usize => {
            read = buffer;
            None
        }
        other => other.map(|(_, buffer)| &mut **buffer),
    });
    (read, rest)
}
