//! Which instructions this CPU has, asked once; the only door to the kernels that need them.

mod compile;

use std::ops::Range;

use kauri_arch::{Activation, Norm};
use kauri_device::{Sequence, Weight, formula};
use kauri_formats::Quant;

#[cfg(target_arch = "aarch64")]
use crate::aarch64::neon;
use crate::activation::{self, Correction, Quantiser, Writer};
use crate::attend::{self, Task, Tile};
use crate::cache::{self, HeadMut, New};
use crate::elementwise::{self, Turn};
use crate::product::{self, Finisher, Product};
use crate::recurrent::{self, Convolve, Delta, Replacement, Scan, Selection};
#[cfg(target_arch = "x86_64")]
use crate::x86_64::{amx, avx2, avx512};

pub(crate) use compile::compile;

/// An instruction set that kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// The formulas in `f32`, as every CPU has them.
    Scalar,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX2 with byte products (AVX-VNNI).
    AvxVnni,
    /// AVX-512 with byte products (VNNI).
    Avx512,
    /// AVX-512 with products of tiles (AMX).
    Amx,
    /// NEON with byte products (dotprod).
    Neon,
    /// NEON with those, products of matrices of bytes (i8mm) and of brain floating-point numbers (bf16).
    NeonMatrix,
}

impl Isa {
    /// All of them, of all architectures, the best first.
    pub const ALL: [Self; 7] =
        [Self::Amx, Self::Avx512, Self::AvxVnni, Self::Avx2, Self::NeonMatrix, Self::Neon, Self::Scalar];

    /// The best that this CPU has.
    pub fn best() -> Self {
        Self::ALL.into_iter().find(|&isa| isa.is_supported()).unwrap_or(Self::Scalar)
    }

    /// Whether this CPU has it.
    pub fn is_supported(self) -> bool {
        self.compiled().is_some_and(|kernels| (kernels.is_supported)())
    }

    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "AVX2",
            Self::AvxVnni => "AVX-VNNI",
            Self::Avx512 => "AVX-512",
            Self::Amx => "AMX",
            Self::Neon => "NEON",
            Self::NeonMatrix => "NEON with i8mm and bf16",
        }
    }

    /// The kernels compiled for it, if this program has them.
    #[cfg(target_arch = "x86_64")]
    fn compiled(self) -> Option<&'static Compiled> {
        match self {
            Self::Scalar => Some(&SCALAR),
            Self::Avx2 => Some(&avx2::KERNELS),
            Self::AvxVnni => Some(&avx2::VNNI_KERNELS),
            Self::Avx512 => Some(avx512::kernels()),
            Self::Amx => Some(&amx::KERNELS),
            Self::Neon | Self::NeonMatrix => None,
        }
    }

    /// The kernels compiled for it, if this program has them.
    #[cfg(target_arch = "aarch64")]
    fn compiled(self) -> Option<&'static Compiled> {
        match self {
            Self::Scalar => Some(&SCALAR),
            Self::Neon => Some(&neon::KERNELS),
            Self::NeonMatrix => Some(&neon::MATRIX_KERNELS),
            Self::Avx2 | Self::AvxVnni | Self::Avx512 | Self::Amx => None,
        }
    }

    /// The kernels compiled for it, if this program has them.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn compiled(self) -> Option<&'static Compiled> {
        match self {
            Self::Scalar => Some(&SCALAR),
            Self::Avx2 | Self::AvxVnni | Self::Avx512 | Self::Amx | Self::Neon | Self::NeonMatrix => None,
        }
    }
}

/// [`elementwise::add_turned`], compiled.
type AddTurned = unsafe fn(&[f32], (usize, usize), &[f32], &mut [f32]);

/// Every kernel, compiled for one instruction set. May be called only where the CPU has it: [`Kernels`] makes sure.
pub(crate) struct Compiled {
    /// Whether this CPU has the instructions.
    pub is_supported: fn() -> bool,
    /// The products of a storage type with rows of so many columns and about so many tokens, if it has a kernel.
    pub strips: fn(Quant, usize, usize) -> Option<Strips>,
    /// Those of brain floating-point numbers in rows of so many columns with activations rounded to such, if the CPU multiplies both.
    pub rounding: Option<fn(usize) -> Option<Strips>>,
    /// Those of a storage type with a prompt's tokens, where they have others ([`crate::panel::Requantised`]), in rows of so many columns.
    pub prefill: Option<fn(Quant, usize) -> Option<Strips>>,
    /// Takes the sums of a strip where they belong, under the contract of [`product::finish`].
    pub finish: Finisher,
    /// Ends the work on strips of a worker: gives back what its thread holds for them.
    pub leave: fn(&mut product::Scratch),
    /// Quantises a row of activations from a column on, the first of a span: columns which nobody else uses.
    pub quantise: unsafe fn(&Quantiser<'_>, activation::Tile, (usize, usize), &[f32]),
    /// Rounds them to brain floating-point numbers, under the same contract.
    pub round: unsafe fn(&Writer<'_>, activation::Tile, (usize, usize), &[f32]),
    /// Splits a row into the first so many thirds, under the same contract.
    pub split: unsafe fn(&Writer<'_>, activation::Tile, usize, &[f32], usize),
    /// Rows of a tile of attention, up to [`attend::ROWS`].
    pub attended_rows: usize,
    /// One tile of attention, whose rows no other worker writes.
    pub attend: unsafe fn(&Task<'_>, &Tile, &mut attend::Scratch),
    /// Keeps new tokens of one head in the cache.
    pub store: unsafe fn(&New<'_>, HeadMut<'_>),
    /// Turns the heads of tokens from a first one on.
    pub rope: unsafe fn(&Turn<'_>, usize, &mut [f32]),
    /// `gate = activation(gate) * up`, or `gate = activation(up)` where the network has no gate.
    pub activate: unsafe fn(Activation, bool, &mut [f32], &[f32]),
    /// Normalises every group.
    pub norm: unsafe fn(&Norm<Weight>, &mut [f32]),
    /// Convolves channels that no other worker does.
    pub convolve: unsafe fn(&Convolve<'_>, Kernels, Range<usize>),
    /// Takes a sequence's tokens into the state of one head, which no other worker does.
    pub scan: unsafe fn(&Scan<'_>, &Sequence, usize),
    /// The same into a strip of a state whose columns decay at paces of their own.
    pub select: unsafe fn(&Selection<'_>, &Sequence, usize),
    /// The same for the delta rule.
    pub delta: unsafe fn(&Delta<'_>, &Sequence, usize),
    /// The same for RWKV-7's rule.
    pub replace: unsafe fn(&Replacement<'_>, &Sequence, usize),
    /// The transpose of some weights times a vector.
    pub turned: unsafe fn(&[f32], &[f32], &mut [f32]),
    /// The inner product.
    pub dot: unsafe fn(&[f32], &[f32]) -> f32,
    /// `y += transposed weights x`, as [`elementwise::add_turned`] says.
    pub add_turned: AddTurned,
}

/// The formulas.
static SCALAR: Compiled = Compiled {
    is_supported: || true,
    strips: |_, _, _| None,
    rounding: None,
    prefill: None,
    leave: |_| (),
    finish: |_, _, _, _| unreachable!("`strips` has none"),
    // SAFETY: nobody else uses the columns.
    quantise: |writer, tile, at, x| unsafe { writer.quantise(tile, at, x) },
    round: |_, _, _, _| unreachable!("`strips` has none"),
    // SAFETY: nobody else uses the row.
    split: |writer, tile, token, x, count| unsafe { writer.split(tile, token, x, count) },
    attended_rows: attend::ROWS,
    attend: attend::scalar,
    store: cache::store,
    rope: elementwise::rope,
    activate: |activation, gated, gate, up| {
        for (gate, &up) in gate.iter_mut().zip(up) {
            *gate = if gated { formula::gated(activation, *gate, up) } else { formula::activate(activation, up) };
        }
    },
    norm: elementwise::norm,
    convolve: recurrent::convolve,
    scan: recurrent::scan::<recurrent::Formulas>,
    select: recurrent::select::<recurrent::Formulas>,
    // SAFETY: the formulas need no instructions but those that every CPU has.
    delta: |task, sequence, head| unsafe { recurrent::follow::<Delta<'_>, recurrent::Formulas>(task, sequence, head) },
    // SAFETY: the same.
    replace: |task, sequence, head| unsafe {
        recurrent::follow::<Replacement<'_>, recurrent::Formulas>(task, sequence, head);
    },
    turned: elementwise::turned,
    dot: formula::dot,
    add_turned: elementwise::add_turned,
};

/// The kernels of one instruction set that this CPU is known to have.
#[derive(Clone, Copy)]
pub struct Kernels {
    isa: Isa,
    compiled: &'static Compiled,
    /// See [`Self::rounding`].
    rounding: bool,
}

/// The products of one storage type.
#[derive(Clone, Copy)]
pub struct Strips {
    /// Rows of a strip.
    pub rows: usize,
    /// Most tokens of a tile.
    pub(crate) tokens: usize,
    /// Computes some strips that lie one behind the other: one, or up to `together` whole ones with one token.
    pub(crate) run: unsafe fn(&Product<'_>, Range<usize>, &mut product::Scratch),
    /// The longest run of strips.
    pub(crate) together: usize,
    /// How it takes activations.
    pub(crate) packing: Packing,
}

/// What tokens are to their sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its prompt's.
    Prefill,
    /// Written behind it.
    Decode,
}

/// How a kernel takes activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// As bytes, with what makes up for how weights become bytes.
    Bytes(Correction),
    /// As bytes for tile registers, with the sums of groups where there are minimums.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX has tile registers"))]
    Tiles(Option<Correction>),
    /// As they are.
    Numbers,
    /// Rounded to brain floating-point numbers.
    Brains,
    /// As so many of the three brain floating-point numbers that are each.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX has tile registers"))]
    Thirds(usize),
}

impl Packing {
    /// The bytes of a row of so many columns.
    pub(crate) fn bytes(self, columns: usize) -> usize {
        match self {
            Self::Bytes(_) | Self::Tiles(_) => columns,
            Self::Numbers => columns * size_of::<f32>(),
            Self::Brains => columns * size_of::<u16>(),
            Self::Thirds(count) => columns * count * size_of::<u16>(),
        }
    }

    /// The correction that bytes need.
    pub(crate) fn correction(self) -> Option<Correction> {
        match self {
            Self::Bytes(correction) => Some(correction),
            Self::Tiles(correction) => correction,
            Self::Numbers | Self::Brains | Self::Thirds(_) => None,
        }
    }
}

impl Kernels {
    /// The kernels of `isa`, if this CPU has it.
    pub fn new(isa: Isa) -> Option<Self> {
        let compiled = isa.compiled()?;
        (compiled.is_supported)().then_some(Self { isa, compiled, rounding: false })
    }

    /// All of `isa` that this CPU has: of AVX-512 those for other CPUs, too.
    #[cfg(test)]
    pub(crate) fn all_of(isa: Isa) -> Vec<Self> {
        let own = isa.compiled();
        #[cfg(target_arch = "x86_64")]
        let all = if isa == Isa::Avx512 { &avx512::ALL_KERNELS[..] } else { own.as_slice() };
        #[cfg(not(target_arch = "x86_64"))]
        let all = own.as_slice();
        let supported = all.iter().filter(|compiled| (compiled.is_supported)());
        supported.map(|&compiled| Self { isa, compiled, rounding: false }).collect()
    }

    /// The same, but that weights which are brain floating-point numbers meet activations rounded to such, as they met where the model was
    /// trained, if this CPU multiplies both: in half as many instructions, or a third with tile registers. All other floating-point weights
    /// meet activations as they are. And weights of K-quants may be rounded once more before they meet a prompt
    /// (`panel/requantised.rs`).
    #[must_use]
    pub fn rounding(self) -> Self {
        Self { rounding: true, ..self }
    }

    /// Whether activations are rounded before they meet brain floating-point numbers.
    pub fn rounds(self) -> bool {
        self.rounding && self.compiled.rounding.is_some()
    }

    /// Whether a prompt's tokens meet weights of some types otherwise than those written behind it do.
    pub fn prefills(self) -> bool {
        self.rounding && self.compiled.prefill.is_some()
    }

    /// The instruction set.
    pub fn isa(self) -> Isa {
        self.isa
    }

    /// The products of `quant` with rows of so many columns and about so many tokens, if it has a kernel: the same bits in each phase, and
    /// strips of as many rows in both, whatever the number of tokens.
    pub fn strips(self, quant: Quant, columns: usize, tokens: usize, phase: Phase) -> Option<Strips> {
        let prefill = self.compiled.prefill.filter(|_| self.rounding && phase == Phase::Prefill);
        if let Some(strips) = prefill.and_then(|strips| strips(quant, columns)) {
            return Some(strips);
        }
        let rounding = self.compiled.rounding.filter(|_| self.rounding && quant == Quant::BF16);
        rounding.and_then(|strips| strips(columns)).or_else(|| (self.compiled.strips)(quant, columns, tokens))
    }

    /// Ends the work on strips of a worker, before its thread does other work.
    pub(crate) fn leave(self, scratch: &mut product::Scratch) {
        (self.compiled.leave)(scratch);
    }

    /// Quantises a row of a tile of activations, from a column on: the first of a span.
    ///
    /// # Safety
    /// No other use of these columns of the row.
    pub(crate) unsafe fn quantise(self, writer: &Quantiser<'_>, tile: activation::Tile, at: (usize, usize), x: &[f32]) {
        // SAFETY: the caller's contract; `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.quantise)(writer, tile, at, x) };
    }

    /// Rounds a row of activations to brain floating-point numbers, from a column on: the first of a span.
    ///
    /// # Safety
    /// No other use of these columns of the row.
    pub(crate) unsafe fn round(self, writer: &Writer<'_>, tile: activation::Tile, at: (usize, usize), x: &[f32]) {
        // SAFETY: the caller's contract; `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.round)(writer, tile, at, x) };
    }

    /// Splits one row of a tile of activations into the first `count` thirds.
    ///
    /// # Safety
    /// No other use of the row of `token`.
    pub(crate) unsafe fn split(
        self,
        writer: &Writer<'_>,
        tile: activation::Tile,
        token: usize,
        x: &[f32],
        count: usize,
    ) {
        // SAFETY: the caller's contract; `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.split)(writer, tile, token, x, count) };
    }

    /// Rows of a tile of attention.
    pub(crate) fn attended_rows(self) -> usize {
        self.compiled.attended_rows
    }

    /// One tile of attention.
    pub(crate) fn attend(self, task: &Task<'_>, tile: &Tile, scratch: &mut attend::Scratch) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions; `attend` deals tiles out once.
        unsafe { (self.compiled.attend)(task, tile, scratch) };
    }

    /// Keeps new tokens of one head in the cache.
    pub(crate) fn store(self, new: &New<'_>, head: HeadMut<'_>) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.store)(new, head) };
    }

    /// Turns the heads of tokens from `first` on.
    pub(crate) fn rope(self, turn: &Turn<'_>, first: usize, rows: &mut [f32]) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.rope)(turn, first, rows) };
    }

    /// `gate = activation(gate) * up`, or `gate = activation(up)` where the network has no gate.
    pub(crate) fn activate(self, activation: Activation, gated: bool, gate: &mut [f32], up: &[f32]) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.activate)(activation, gated, gate, up) };
    }

    /// Normalises every group.
    pub(crate) fn norm(self, norm: &Norm<Weight>, to: &mut [f32]) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.norm)(norm, to) };
    }

    /// Convolves the channels of `range`, which no other worker does.
    pub(crate) fn convolve(self, task: &Convolve<'_>, range: Range<usize>) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.convolve)(task, self, range) };
    }

    /// Takes the tokens of `sequence` into the state of `head`, which no other worker does.
    pub(crate) fn scan(self, task: &Scan<'_>, sequence: &Sequence, head: usize) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.scan)(task, sequence, head) };
    }

    /// The same of a strip of a state whose columns decay at paces of their own.
    pub(crate) fn select(self, task: &Selection<'_>, sequence: &Sequence, strip: usize) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.select)(task, sequence, strip) };
    }

    /// The same for the delta rule.
    pub(crate) fn delta(self, task: &Delta<'_>, sequence: &Sequence, head: usize) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.delta)(task, sequence, head) };
    }

    /// The same for RWKV-7's rule.
    pub(crate) fn replace(self, task: &Replacement<'_>, sequence: &Sequence, head: usize) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.replace)(task, sequence, head) };
    }

    /// `y = transposed weights x`.
    pub(crate) fn turned(self, weights: &[f32], x: &[f32], y: &mut [f32]) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.turned)(weights, x, y) };
    }

    /// The inner product.
    pub(crate) fn dot(self, a: &[f32], b: &[f32]) -> f32 {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.dot)(a, b) }
    }

    /// `y += transposed weights x`, of the columns from a first one on.
    pub(crate) fn add_turned(self, weights: &[f32], place: (usize, usize), x: &[f32], y: &mut [f32]) {
        // SAFETY: `Kernels` exists only where the CPU has the instructions.
        unsafe { (self.compiled.add_turned)(weights, place, x, y) };
    }

    /// What takes the sums of a strip where they belong.
    pub(crate) fn finisher(self) -> Finisher {
        self.compiled.finish
    }
}
