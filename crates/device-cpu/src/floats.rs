//! The floating-point kernel: rows widened to `f32`, times activations as they are; or brain floating-point numbers in pairs, times
//! activations rounded to such, where an instruction takes both.
//!
//! Here a lane is a column, or two: a few rows are read as they are stored, side by side, and widened as they are read. Each sum has a vector of
//! its own, of every so many-th column in order, whose lanes are added up at the end: the same bits, however many rows and tokens are
//! computed together.

use std::hint::black_box;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use half::{bf16, f16};
use kauri_formats::Quant;

use crate::activation::{self, Activations, Tile};
use crate::detect::Packing;
use crate::product::{Ahead, Fill, LANES_MAX, Multiply, Panel, Part, Product, RowScales, Scratch, Tiles};
use crate::vector::Vector;

/// How numbers meet activations.
pub trait Meet {
    /// An activation.
    type X: Copy + Default;
    /// Neighbouring numbers, [`Self::EACH`] for each lane.
    type Numbers<V: Vector>: Copy;
    /// Columns of a lane.
    const EACH: usize;
    /// What activations are taken as.
    const PACKING: Packing;

    /// Those of a tile: (columns / [`run_columns`], tokens of the tile, [`run_columns`]), the last ones of a row as many as they are.
    fn tile(x: &Activations, tile: Tile) -> &[Self::X];

    /// Neighbouring ones of a token.
    ///
    /// # Safety
    /// There is one for each column of each lane; the CPU has the instructions of `V`.
    unsafe fn load<V: Vector>(from: *const Self::X) -> Self::Numbers<V>;

    /// Adds their products to a sum.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn add<V: Vector>(weights: Self::Numbers<V>, x: Self::Numbers<V>, sum: V::Float) -> V::Float;
}

/// Widened, one in a lane, with activations as they are.
pub struct One;

impl Meet for One {
    type X = f32;
    type Numbers<V: Vector> = V::Float;
    const EACH: usize = 1;
    const PACKING: Packing = Packing::Numbers;

    fn tile(x: &Activations, tile: Tile) -> &[f32] {
        x.numbers(tile)
    }

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const f32) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::load(from) }
    }

    #[inline(always)]
    unsafe fn add<V: Vector>(weights: V::Float, x: V::Float, sum: V::Float) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::mul_add(weights, x, sum) }
    }
}

/// Brain floating-point numbers as they are stored, two in a lane, with activations rounded to such.
pub struct Pair;

impl Meet for Pair {
    type X = u16;
    type Numbers<V: Vector> = V::Bytes;
    const EACH: usize = 2;
    const PACKING: Packing = Packing::Brains;

    fn tile(x: &Activations, tile: Tile) -> &[u16] {
        x.brains(tile)
    }

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u16) -> V::Bytes {
        // SAFETY: the caller's contract is the same.
        unsafe { V::load_bytes(from.cast()) }
    }

    #[inline(always)]
    unsafe fn add<V: Vector>(weights: V::Bytes, x: V::Bytes, sum: V::Float) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::dot_pairs(sum, weights, x) }
    }
}

/// A floating-point number as it is stored.
pub trait Element {
    /// How it meets activations.
    type Meet: Meet;
    /// Bytes of one.
    const BYTES: usize;
    /// What [`Self::load`] leaves out, of types that are multiplied with scales apart.
    const LEFT_OUT: Option<f32> = None;

    /// Neighbouring numbers of a row, for each lane; times `scale` if they have one, which has [`Self::LEFT_OUT`] in it.
    ///
    /// # Safety
    /// So many are stored there; the CPU has the instructions of `V`.
    unsafe fn load<V: Vector>(from: *const u8, scale: V::Float) -> <Self::Meet as Meet>::Numbers<V>;
}

impl Element for f32 {
    type Meet = One;
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, _: V::Float) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::load(from.cast()) }
    }
}

impl Element for f16 {
    type Meet = One;
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, _: V::Float) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::load_half(from.cast()) }
    }
}

impl Element for bf16 {
    type Meet = One;
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, _: V::Float) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::load_brain(from.cast()) }
    }
}

/// A brain floating-point number that is multiplied beside its neighbour: twice as many products an instruction, where weights need not be
/// widened. Activations keep eight bits, as they have where such models are trained.
pub struct Paired;

impl Element for Paired {
    type Meet = Pair;
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, _: V::Float) -> V::Bytes {
        // SAFETY: the caller's contract is the same.
        unsafe { V::load_bytes(from) }
    }
}

/// A float of eight bits.
pub struct E4m3;

impl Element for E4m3 {
    type Meet = One;
    const BYTES: usize = 1;
    // The exponent of half precision begins eight powers of two lower.
    const LEFT_OUT: Option<f32> = Some(256.0);

    /// A sign, and seven bits that are the upper ones of a number in half precision, so that those under the normal ones need no care.
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, scale: V::Float) -> V::Float {
        let mut halves = [f16::ZERO; LANES_MAX];
        for (lane, half) in halves.iter_mut().enumerate().take(V::LANES) {
            // SAFETY: there is a code for each lane by the caller's word.
            let code = u16::from(unsafe { *from.add(lane) });
            *half = f16::from_bits((code & 0x80) << 8 | (code & 0x7f) << 7);
        }
        // SAFETY: the array holds a vector; the rest is the caller's contract.
        unsafe { V::mul(V::load_half(halves.as_ptr()), scale) }
    }
}

/// Weights stored as `E`.
pub struct Numbers<E>(PhantomData<E>);

/// What is to be done with the element of a storage type that is known only at run time.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<E: Element>(self) -> Self::Output;
}

/// Calls `visitor` with the element of `quant`, if that is a floating-point type.
pub fn visit<V: Visitor>(quant: Quant, visitor: V) -> Option<V::Output> {
    Some(match quant {
        Quant::F32 => visitor.visit::<f32>(),
        Quant::F16 => visitor.visit::<f16>(),
        Quant::BF16 => visitor.visit::<bf16>(),
        Quant::F8_E4M3 => visitor.visit::<E4m3>(),
        Quant::Q4_0
        | Quant::Q4_1
        | Quant::Q5_0
        | Quant::Q5_1
        | Quant::Q8_0
        | Quant::Q2_K
        | Quant::Q3_K
        | Quant::Q4_K
        | Quant::Q5_K
        | Quant::Q6_K
        | Quant::IQ2_XXS
        | Quant::IQ2_XS
        | Quant::IQ2_S
        | Quant::IQ3_XXS
        | Quant::IQ3_S
        | Quant::IQ1_S
        | Quant::IQ1_M
        | Quant::IQ4_NL
        | Quant::IQ4_XS
        | Quant::TQ1_0
        | Quant::TQ2_0
        | Quant::MXFP4
        | Quant::NVFP4
        | Quant::Q1_0
        | Quant::Q2_0
        | Quant::I8
        | Quant::I16
        | Quant::I32
        | Quant::I64
        | Quant::F64 => return None,
    })
}

/// Rows of a strip.
const HEIGHT: usize = 16;
/// Those of them that tokens meet side by side where there are registers: as many sums that do not wait for each other.
const ROWS: usize = 4;
/// Columns between two times that weights are asked for, of which a token's activations stand together; twice as many where a lane has two.
/// Tiles of scales are whole ones.
const RUN: usize = activation::GROUP;
/// Most columns of a vector: two of each lane.
const VECTOR_MAX: usize = 2 * LANES_MAX;
/// Most tokens of a tile.
const TOKENS: usize = 12;
/// Most tokens that are computed together.
const TOGETHER: usize = 6;
/// The same of a tile of no more, where there are registers: two rows at a time instead of [`ROWS`], so that weights are read once, and activations
/// twice as often.
const TOGETHER_LAST: usize = 8;
/// Bytes of activations that all rows of a strip meet before the next ones, where tokens are few or registers: they stay in the first-level cache,
/// whatever weights go through it. One that is not there waits, with all that is asked for of memory before it; and where only two rows meet
/// it before the next, all that products can take is what comes of the second-level cache at its best.
const NEAR_BYTES: usize = 8 << 10;

impl<V: Vector, E: Element> Fill<V> for Numbers<E> {
    type Tiles = Self;
    const PACKING: Packing = E::Meet::PACKING;
    // Whole rows: a sum stays in its vector.
    const COLUMNS: usize = usize::MAX;
    const COLUMNS_FOR_FEW: usize = usize::MAX;
    const FILLING: usize = 0;

    fn row_bytes(columns: usize) -> usize {
        columns * E::BYTES
    }

    /// Nothing is unpacked.
    #[inline(always)]
    unsafe fn fill(_: &[u8], _: usize, _: Range<usize>, _: Ahead, _: &mut Panel) {}
}

impl<V: Vector, E: Element> Multiply<V> for Numbers<E> {
    const TURNS: usize = HEIGHT / ROWS;

    #[inline(always)]
    unsafe fn few<const R: usize, const T: usize>(
        stored: &[u8],
        row_bytes: usize,
        scales: RowScales<'_>,
        x: &Activations,
        tile: Tile,
        ahead: Ahead,
        _: &mut Scratch,
    ) -> [[V::Float; T]; R] {
        assert!(R * V::LANES == HEIGHT && T == 1, "a whole strip of the only token");
        let mut sums = [0.0; HEIGHT];
        // SAFETY: the strip has the rows, and `x` an activation for each column; the array holds so many vectors.
        unsafe {
            let input = Input { values: E::Meet::tile(x, tile), tokens: 1, slot: 0 };
            let strip = Strip::<E> { stored, row_bytes, scales, input, few: true, ahead };
            if const { V::ROW_BY_ROW } && strip.is_whole() {
                strip.add_by_row::<V>(&mut sums);
            } else {
                strip.add_rows::<V, ROWS, 1>(&mut sums);
            }
            let mut total = [[V::float(0.0); T]; R];
            for (r, total) in total.iter_mut().enumerate() {
                total[0] = V::load(sums[r * V::LANES..].as_ptr());
            }
            total
        }
    }
}

impl<V: Vector, E: Element> Tiles<V> for Numbers<E> {
    const STRIPS: usize = HEIGHT / V::LANES;
    const TOKENS: usize = TOKENS;

    #[inline(always)]
    unsafe fn tile(product: &Product<'_>, part: &Part, tile: Tile, ahead: Ahead, scratch: &mut Scratch) {
        let row_bytes = product.columns * E::BYTES;
        let stored = &product.matrix[part.rows.start * row_bytes..part.rows.end * row_bytes];
        let scales = product.scales(&part.rows);
        let mut slot = 0;
        while slot < tile.width {
            let left = tile.width - slot;
            let most = if has_many::<V>() && left <= TOGETHER_LAST { TOGETHER_LAST } else { TOGETHER };
            // As many each time.
            let count = left.div_ceil(left.div_ceil(most));
            let ahead = ahead.share::<V>(slot..slot + count, tile.width);
            let place = (tile.token + slot - product.tokens.first) * HEIGHT;
            let input = Input { values: E::Meet::tile(product.x, tile), tokens: tile.width, slot };
            let sums = &mut scratch.sums[place..][..count * HEIGHT];
            let few = product.tokens.tokens <= TOKENS;
            let strip = Strip::<E> { stored, row_bytes, scales, input, few, ahead };
            // SAFETY: the strip has the rows, and the tile so many tokens; the rest is the caller's contract.
            unsafe {
                match count {
                    1 => strip.add::<V, 1>(sums),
                    2 => strip.add::<V, 2>(sums),
                    3 => strip.add::<V, 3>(sums),
                    4 => strip.add::<V, 4>(sums),
                    5 => strip.add::<V, 5>(sums),
                    6 => strip.add::<V, 6>(sums),
                    7 if const { has_many::<V>() } => strip.add::<V, 7>(sums),
                    8 if const { has_many::<V>() } => strip.add::<V, 8>(sums),
                    other => unreachable!("{other} tokens"),
                }
            }
            slot += count;
        }
    }
}

/// Columns of a token's activations that stand together.
const fn run_columns<M: Meet>() -> usize {
    RUN * M::EACH
}

const _: () =
    assert!(run_columns::<One>() == activation::GROUP && run_columns::<Pair>() == activation::BRAINS, "as packed");

/// Whether the registers have room for the sums of [`TOGETHER_LAST`] tokens and two rows.
const fn has_many<V: Vector>() -> bool {
    2 * TOGETHER_LAST + 2 < V::REGISTERS
}

/// The rows of a strip, and a few tokens that meet them.
struct Strip<'a, E: Element> {
    stored: &'a [u8],
    row_bytes: usize,
    scales: RowScales<'a>,
    input: Input<'a, <E::Meet as Meet>::X>,
    /// Whether there are no tokens but those of a tile: weights come from memory then, and not from the second-level cache.
    few: bool,
    ahead: Ahead,
}

/// The activations of a tile, and from which token on they are met.
#[derive(Clone, Copy)]
struct Input<'a, X> {
    /// As [`Meet::tile`].
    values: &'a [X],
    /// Those of the tile.
    tokens: usize,
    /// How many of them stand before the first that is met.
    slot: usize,
}

impl<X> Input<'_, X> {
    /// Where the activations of a tile begin, and how many tokens have them: of so many columns and `T` tokens more than there are before.
    #[inline(always)]
    fn of<const T: usize>(&self, columns: usize) -> (*const X, usize) {
        let Self { values, tokens, slot } = *self;
        assert!(values.len() == tokens * columns && slot + T <= tokens, "a tile's activations");
        // The only token of a tile is known as such.
        (values.as_ptr(), if T == 1 { 1 } else { tokens })
    }
}

impl<E: Element> Strip<'_, E> {
    /// Whether it is a whole strip, whose columns are whole runs without scales.
    #[inline(always)]
    fn is_whole(&self) -> bool {
        self.stored.len() == HEIGHT * self.row_bytes
            && (self.row_bytes / E::BYTES).is_multiple_of(run_columns::<E::Meet>())
            && E::LEFT_OUT.is_none()
    }

    /// Columns that all rows meet before the next ones, `rows` rows and `tokens` tokens at a time.
    #[inline(always)]
    fn piece(&self, rows: usize, tokens: usize) -> usize {
        let columns = self.row_bytes / E::BYTES;
        let run_bytes = tokens * run_columns::<E::Meet>() * size_of::<<E::Meet as Meet>::X>();
        if !self.few && rows == ROWS || columns / run_columns::<E::Meet>() * run_bytes <= 2 * NEAR_BYTES {
            return columns;
        }
        (NEAR_BYTES / run_bytes).max(1) * run_columns::<E::Meet>()
    }

    /// Writes the products of a [whole](Self::is_whole) strip with the only token to its sums, row by row: what a CPU whose memory gives most
    /// to one place that moves on reads the quickest. It reads on by itself, and slower if it is asked for what comes (docs/log.md, "One core,
    /// and what it can read").
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn add_by_row<V: Vector>(&self, sums: &mut [f32]) {
        assert!(self.is_whole() && sums.len() == HEIGHT, "a whole strip");
        let (columns, run) = (self.row_bytes / E::BYTES, const { run_columns::<E::Meet>() });
        let (values, _) = self.input.of::<1>(columns);
        // Not known to the compiler, which else makes a loop of four loads and four products of two and two: from memory that is a tenth slower.
        let mut ahead = black_box(Ahead::NOTHING);
        let each = ahead.each(columns / run);
        // SAFETY: rows and activations have the columns; the rest is the caller's contract.
        unsafe {
            let mut row = [self.stored.as_ptr()];
            for sums in sums.as_chunks_mut::<ROWS>().0 {
                let mut totals = [V::float(0.0); ROWS];
                for total in &mut totals {
                    let (mut sum, mut x) = ([[V::float(0.0)]], values);
                    for _ in 0..columns / run {
                        ahead.ask::<V>(each);
                        meet_run::<V, E, 1, 1>(&mut row, x, [V::float(1.0)], &mut sum);
                        x = x.add(run);
                    }
                    [[*total]] = sum;
                }
                V::store_sums(totals, sums.as_mut_ptr());
            }
        }
    }

    /// Writes the products to the tokens' sums: (tokens, rows of a whole strip).
    ///
    /// # Safety
    /// There are `T` tokens; the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn add<V: Vector, const T: usize>(&self, sums: &mut [f32]) {
        // SAFETY: the caller's contract is the same.
        unsafe {
            // Beside the sums, the registers have to hold the rows' weights and the activations of a token.
            if const { ROWS * T + ROWS < V::REGISTERS } {
                self.add_rows::<V, ROWS, T>(sums);
            } else {
                self.add_rows::<V, 2, T>(sums);
            }
        }
    }

    /// The same, `R` rows at a time.
    ///
    /// # Safety
    /// As [`Self::add`].
    #[inline(always)]
    unsafe fn add_rows<V: Vector, const R: usize, const T: usize>(&self, sums: &mut [f32]) {
        if self.is_whole() {
            // SAFETY: the caller's contract is the same.
            return unsafe { self.add_whole::<V, R, T>(sums) };
        }
        for first in (0..self.stored.len() / self.row_bytes).step_by(R) {
            let ahead = self.ahead.share::<V>(first..first + R, HEIGHT);
            let rows = Rows::<E, R>::new(self.stored, self.row_bytes, self.scales, first);
            // SAFETY: the caller's contract is the same.
            unsafe {
                let mut total = [[V::float(0.0); T]; R];
                rows.meet::<V, T>(&self.input, ahead, &mut total);
                rows.meet_rest::<V, T>(&self.input, &mut total);
                store::<V, R, T>(&total, &mut sums[first..]);
            }
        }
    }

    /// The same of a [whole](Self::is_whole) strip, a piece of all rows before the next.
    ///
    /// # Safety
    /// As [`Self::add`].
    #[inline(always)]
    unsafe fn add_whole<V: Vector, const R: usize, const T: usize>(&self, sums: &mut [f32]) {
        let run = const { run_columns::<E::Meet>() };
        let (columns, piece) = (self.row_bytes / E::BYTES, self.piece(R, T));
        let (values, tokens) = self.input.of::<T>(columns);
        assert!(self.is_whole(), "a whole strip");
        let mut ahead = self.ahead;
        let each = ahead.each(columns / run * const { HEIGHT / R });
        // What all rows have met so far.
        let mut kept = [[[MaybeUninit::<V::Float>::uninit(); T]; R]; HEIGHT / 2];
        // SAFETY: rows and activations have the columns, and what is read was kept of the piece before; the rest is the caller's contract.
        unsafe {
            let scales = [V::float(1.0); R];
            let (mut stored, mut x) = (self.stored.as_ptr(), values.add(self.input.slot * run));
            for start in (0..columns).step_by(piece) {
                let count = piece.min(columns - start);
                let mut row = stored;
                for (group, kept) in kept[..HEIGHT / R].iter_mut().enumerate() {
                    let mut starts = [row; R];
                    for start in &mut starts {
                        *start = row;
                        row = row.add(self.row_bytes);
                    }
                    let mut total = [[V::float(0.0); T]; R];
                    if start > 0 {
                        for row in 0..R {
                            for t in 0..T {
                                total[row][t] = kept[row][t].assume_init();
                            }
                        }
                    }
                    let mut x = x;
                    for _ in 0..count / run {
                        ahead.ask::<V>(each);
                        meet_run::<V, E, R, T>(&mut starts, x, scales, &mut total);
                        x = x.add(tokens * run);
                    }
                    if start + count == columns {
                        store::<V, R, T>(&total, &mut sums[group * R..]);
                        continue;
                    }
                    for row in 0..R {
                        for t in 0..T {
                            kept[row][t].write(total[row][t]);
                        }
                    }
                }
                stored = stored.add(count * E::BYTES);
                x = x.add(count * tokens);
            }
        }
    }
}

/// Writes the sums of neighbouring rows to those of a whole strip, of which the first belongs to the first token: (tokens, rows).
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn store<V: Vector, const R: usize, const T: usize>(totals: &[[V::Float; T]; R], sums: &mut [f32]) {
    const { assert!(ROWS.is_multiple_of(R), "whole vectors of sums") };
    assert!(sums.len() >= (T - 1) * HEIGHT + R, "sums of every token");
    let sums = sums.as_mut_ptr();
    // SAFETY: there is room for the rows' sums of each token; the rest is the caller's contract.
    unsafe {
        for turn in 0..const { T.div_ceil(ROWS / R) } {
            let mut each = [V::float(0.0); ROWS];
            for index in 0..ROWS {
                let token = turn * (ROWS / R) + index / R;
                if token < T {
                    each[index] = totals[index % R][token];
                }
            }
            if R == ROWS {
                V::store_sums(each, sums.add(turn * HEIGHT));
                continue;
            }
            let mut stored = [0.0; ROWS];
            V::store_sums(each, stored.as_mut_ptr());
            for index in 0..ROWS {
                let token = turn * (ROWS / R) + index / R;
                if token < T {
                    *sums.add(token * HEIGHT + index % R) = stored[index];
                }
            }
        }
    }
}

/// Adds the products of a run of columns, and takes the rows to the next; `x` are the first token's, those of each other stand behind.
///
/// # Safety
/// Rows and tokens have them; the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn meet_run<V: Vector, E: Element, const R: usize, const T: usize>(
    rows: &mut [*const u8; R],
    x: *const <E::Meet as Meet>::X,
    scales: [V::Float; R],
    total: &mut [[V::Float; T]; R],
) {
    let (vector, run) = const { (V::LANES * E::Meet::EACH, run_columns::<E::Meet>()) };
    const { assert!(RUN.is_multiple_of(V::LANES), "whole vectors") };
    // SAFETY: the caller's contract is the same.
    unsafe {
        for number in 0..const { RUN / V::LANES } {
            let mut weights = [E::load::<V>(rows[0], scales[0]); R];
            for row in 0..R {
                weights[row] = E::load::<V>(rows[row], scales[row]);
                rows[row] = rows[row].add(vector * E::BYTES);
            }
            for t in 0..T {
                let x = E::Meet::load::<V>(x.add(t * run + number * vector));
                for row in 0..R {
                    total[row][t] = E::Meet::add::<V>(weights[row], x, total[row][t]);
                }
            }
        }
    }
}

/// Neighbouring rows.
struct Rows<'a, E, const R: usize> {
    /// Where each begins. A short last strip has its last row again for those that it does not have.
    starts: [*const u8; R],
    columns: usize,
    /// The factors of each, one for every so many columns.
    scales: ([&'a [f32]; R], usize),
    element: PhantomData<E>,
}

impl<'a, E: Element, const R: usize> Rows<'a, E, R> {
    /// Those of a strip from number `first` on.
    #[inline(always)]
    fn new(stored: &[u8], row_bytes: usize, scales: RowScales<'a>, first: usize) -> Self {
        let last = stored.len() / row_bytes - 1;
        let mut starts = [stored.as_ptr(); R];
        for (row, start) in starts.iter_mut().enumerate() {
            *start = stored[(first + row).min(last) * row_bytes..].as_ptr();
        }
        Self { starts, columns: row_bytes / E::BYTES, scales: scales.of_rows(first), element: PhantomData }
    }

    /// The columns of whole runs.
    #[inline(always)]
    fn whole(&self) -> usize {
        self.columns / run_columns::<E::Meet>() * run_columns::<E::Meet>()
    }

    /// Adds the products of whole runs of columns with `T` tokens; asks for `ahead` meanwhile.
    ///
    /// # Safety
    /// The rows are there; the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn meet<V: Vector, const T: usize>(
        &self,
        input: &Input<'_, <E::Meet as Meet>::X>,
        mut ahead: Ahead,
        total: &mut [[V::Float; T]; R],
    ) {
        let (values, tokens) = input.of::<T>(self.columns);
        let run = const { run_columns::<E::Meet>() };
        let each = ahead.each(self.whole() / run);
        // SAFETY: rows and activations have the columns.
        unsafe {
            let mut starts = self.starts;
            let mut x = values.add(input.slot * run);
            for first in (0..self.whole()).step_by(run) {
                ahead.ask::<V>(each);
                let scales = self.scales_at::<V>(first);
                meet_run::<V, E, R, T>(&mut starts, x, scales, total);
                x = x.add(tokens * run);
            }
        }
    }

    /// The same of the columns behind whole runs.
    ///
    /// # Safety
    /// The rows are there; the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn meet_rest<V: Vector, const T: usize>(
        &self,
        input: &Input<'_, <E::Meet as Meet>::X>,
        total: &mut [[V::Float; T]; R],
    ) {
        let (values, tokens) = input.of::<T>(self.columns);
        let (vector, whole) = (const { V::LANES * E::Meet::EACH }, self.whole());
        // SAFETY: rows and activations have the columns.
        unsafe {
            let scales = self.scales_at::<V>(whole);
            for first in (whole..self.columns).step_by(vector) {
                // Zeros behind the end.
                let count = vector.min(self.columns - first);
                for t in 0..T {
                    let mut some = [<E::Meet as Meet>::X::default(); VECTOR_MAX];
                    let row = whole * tokens + (input.slot + t) * (self.columns - whole);
                    values.add(row + first - whole).copy_to_nonoverlapping(some.as_mut_ptr(), count);
                    let x = E::Meet::load::<V>(some.as_ptr());
                    for row in 0..R {
                        let mut stored = [0u32; LANES_MAX];
                        let bytes = stored.as_mut_ptr().cast::<u8>();
                        self.starts[row].add(first * E::BYTES).copy_to_nonoverlapping(bytes, count * E::BYTES);
                        let weights = E::load::<V>(bytes, scales[row]);
                        total[row][t] = E::Meet::add::<V>(weights, x, total[row][t]);
                    }
                }
            }
        }
    }

    /// What the rows' numbers are multiplied with at a column, and up to the next tile of scales.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn scales_at<V: Vector>(&self, column: usize) -> [V::Float; R] {
        // SAFETY: the caller's contract is the same.
        unsafe {
            let mut scales = [V::float(1.0); R];
            if let Some(left_out) = E::LEFT_OUT {
                let (rows, columns) = self.scales;
                for (scale, row) in scales.iter_mut().zip(rows) {
                    // There is no column behind the last tile that would have a scale.
                    let factor = row.get(column / columns).copied().unwrap_or_default();
                    *scale = V::float(factor * left_out);
                }
            }
            scales
        }
    }
}
