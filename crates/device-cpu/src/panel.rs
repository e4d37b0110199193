//! The one integer kernel: packed rows times quantised activations, for a token as for a thousand.
//!
//! A panel holds unsigned bytes, four columns of every row beside each other. Sums inside a group are integers, exact in any order;
//! the scaled sums run over the groups of a span of activations in order, and over the spans. Where the scales of groups are whole
//! numbers, times one of the block, the sum over a span is an integer, too, exact in any order and by any instructions;
//! and so, where there are instructions for it, is what their minimums take off that sum.

pub mod eight;
mod form;
mod group;
mod meet;
mod requantised;
mod rows;

use std::marker::PhantomData;
use std::ops::Range;

pub use form::{Form, Large, Raised, Scales, Small, Wide, WithMinimum};
use group::group;
#[cfg(target_arch = "x86_64")]
pub use meet::GROUPS_MAX;
use meet::{SPANS_MAX, in_turns, meet};
pub use requantised::{Requantised, requantises};

use crate::activation::{self, Activations, Corrected, Correction, SPAN, Tile};
use crate::detect::Packing;
use crate::product::{
    self, Ahead, CHUNK_MAX, DIRECT_MAX, Fill, InRegisters, LANES_MAX, LINE, Multiply, Panel, Part, Product, RowScales,
    Scratch, Tiles, offsets, offsets_of_whole,
};
use crate::quant::{unsigned, written_out};
use crate::vector::{Vector, halves_hold, halves_max};

/// How one storage type becomes a panel.
pub trait Unpack {
    /// What the panel looks like.
    type Form: Form;
    /// Columns of a stored block.
    const COLUMNS: usize;
    /// Bytes of a stored block.
    const BYTES: usize;
    /// What is added to a value to make it an unsigned byte; zero where groups have minimums.
    const OFFSET: i32;
    /// The largest unpacked byte, where the form says no more than what it is under.
    const MOST: u8 = Self::Form::MOST;
    /// Whether eight blocks are read together: [`Self::meet_eight`] and [`Self::fill_eight`].
    const BY_EIGHT: bool = false;

    /// How one token may meet rows one after the other, if there is a [`Self::row`]; and [`Self::scales`], where blocks are not scales in half
    /// precision and 32 codes.
    const BY_ROWS: Option<ByRows> = None;

    /// Turns of the loop in which a block may be unpacked, as many neighbouring groups in each; none where there is no such loop.
    const TURNS: usize = 0;

    /// Unpacks the block at `base + offsets[row]` of every row: all its columns once, and all its scales and minimums.
    ///
    /// # Safety
    /// Those places hold `BYTES` readable bytes each, `out` takes a block of this type, and the CPU has the instructions of `V`.
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; LANES_MAX], out: &mut impl Sink<V>);

    /// Unpacks the scales and minimums of a block of 256 columns, as [`Self::unpack`] does.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn scales<V: Vector>(_base: *const u8, _offsets: &[isize; LANES_MAX], _out: &mut impl Sink<V>) {
        unreachable!("scales that stand with what they scale")
    }

    /// Of one row, unpacked: vector number `index`, under eight, of the columns from `stored` on.
    ///
    /// # Safety
    /// There are so many blocks; the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn row<V: Vector>(_stored: *const u8, _index: usize) -> V::Bytes {
        unreachable!("blocks that are met side by side")
    }

    /// [`eight::meet`], of types that can be met so.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn meet_eight<V: Vector, const T: usize>(
        _stored: (*const u8, Ahead, usize),
        _offsets: &[isize; LANES_MAX],
        _input: &Input,
        _first: usize,
        _total: &mut [V::Float; T],
    ) {
        unreachable!("blocks that are met one by one")
    }

    /// [`eight::fill`], of types that can be read so.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn fill_eight<V: Vector>(
        _base: *const u8,
        _offsets: &[isize; LANES_MAX],
        _ahead: (&mut Ahead, usize),
        _out: &mut impl Sink<V>,
    ) {
        unreachable!("blocks that are read one by one")
    }
}

/// What is stored of types that one token may meet row by row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ByRows {
    /// Whole bytes.
    Bytes,
    /// Parts of bytes.
    Codes,
}

/// Where one unpacked block goes. Of the columns of a [run](run) the first come before the others, and the last behind them.
///
/// # Safety
/// Every method may only be called where the CPU has the instructions of `V`.
pub trait Sink<V: Vector> {
    /// Takes columns `4 * index` to `4 * index + 3` of every row.
    ///
    /// # Safety
    /// `index` is under a quarter of the columns of the block, or of [`eight::BLOCKS`] of them.
    unsafe fn columns(&mut self, index: usize, bytes: V::Bytes);

    /// The same columns, as so many behind the first of a turn.
    ///
    /// # Safety
    /// As [`Self::columns`].
    #[inline(always)]
    unsafe fn columns_from(&mut self, first: usize, behind: usize, bytes: V::Bytes) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.columns(first + behind, bytes) };
    }

    /// A turn begins whose columns, from `4 * first` on, are the next.
    ///
    /// # Safety
    /// The type is unpacked in turns, and this is one of them.
    #[inline(always)]
    unsafe fn begin(&mut self, _turn: usize, _first: usize) {}

    /// The turn ends.
    ///
    /// # Safety
    /// It began.
    #[inline(always)]
    unsafe fn end(&mut self, _first: usize) {}

    /// Takes the scale of a group; before its columns, where it is a whole number.
    ///
    /// # Safety
    /// `group` is one of the block's groups, or of so many blocks'.
    unsafe fn scale(&mut self, group: usize, scale: V::Float);

    /// Takes the block's scale, where those of groups are whole numbers, before them.
    ///
    /// # Safety
    /// They are.
    unsafe fn block_scale(&mut self, scale: V::Float);

    /// Takes the minimum of a group.
    ///
    /// # Safety
    /// `group` is one of the block's groups, and the type has minimums.
    unsafe fn minimum(&mut self, group: usize, minimum: V::Float);

    /// Takes those of four groups, which are whole numbers, one in each byte of a row's word, times one of the block.
    ///
    /// # Safety
    /// As [`Self::minimum`] of all four; the first is a multiple of four.
    #[inline(always)]
    unsafe fn minimums(&mut self, first: usize, block: V::Float, whole: V::Bytes) {
        // SAFETY: the caller's contract is the same.
        unsafe { one_by_one(self, first, block, whole) };
    }
}

/// Takes the minimums of four groups one by one, as numbers.
///
/// # Safety
/// As [`Sink::minimums`].
#[inline(always)]
unsafe fn one_by_one<V: Vector>(sink: &mut (impl Sink<V> + ?Sized), first: usize, block: V::Float, whole: V::Bytes) {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let whole = unsigned::<V>(whole);
        for index in 0..whole.len() {
            sink.minimum(first + index, V::mul(block, whole[index]));
        }
    }
}

/// How minimums are subtracted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Minimums {
    /// There are none.
    None,
    /// Each from what its group adds.
    OfGroups,
    /// Each from the sum of a span, up to the scale of the activations.
    OfSpans,
    /// From that sum, too: whole numbers times sums of activations, two groups at a time, are added up as integers, and scaled once. In a panel
    /// a pair stands where the minimum of its first group would, and behind the first pair of four groups what scales them.
    InPairs,
}

/// How those of panels of this form are, by the vectors `V`.
const fn minimums<V: Vector, F: Form>() -> Minimums {
    match (F::MINIMUM, scales::<V, F>(), F::SCALES) {
        (false, ..) => Minimums::None,
        (true, Scales::Small | Scales::Large, _) => Minimums::OfSpans,
        (true, Scales::Numbers, Scales::Small | Scales::Large) if V::WORDS => Minimums::InPairs,
        (true, Scales::Numbers, Scales::Numbers | Scales::Small | Scales::Large) => Minimums::OfGroups,
    }
}

/// The first two bytes of each row, and the last two, as numbers of sixteen bits.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn in_pairs<V: Vector>(bytes: V::Bytes) -> [V::Bytes; 2] {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let (first, second) = (V::word(0xff), V::word(0xff_0000));
        let behind = V::shift_right::<16>(bytes);
        [
            V::or(V::and(bytes, first), V::and(V::shift_left::<8>(bytes), second)),
            V::or(V::and(behind, first), V::and(V::shift_left::<8>(behind), second)),
        ]
    }
}

/// What the scales of groups are to products by the vectors `V`: numbers, where sums need not be integers.
const fn scales<V: Vector, F: Form>() -> Scales {
    if V::WHOLE { F::SCALES } else { Scales::Numbers }
}

/// The scale of a group, of a block whose own is `block`: with that, where it is a number to products and a whole number to the block.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn scale_in<V: Vector, F: Form>(block: V::Float, scale: V::Float) -> V::Float {
    match (F::SCALES, scales::<V, F>()) {
        // SAFETY: the caller's contract is the same.
        (Scales::Small | Scales::Large, Scales::Numbers) => unsafe { V::mul(block, scale) },
        (Scales::Numbers | Scales::Small | Scales::Large, _) => scale,
    }
}

/// A block's place in the panel.
struct Place<V: Vector, F> {
    bytes: *mut u8,
    scales: *mut f32,
    minimums: *mut f32,
    /// Where its own scale goes, once for each of so many spans.
    blocks: *mut f32,
    spans: usize,
    block: V::Float,
    form: PhantomData<F>,
}

impl<V: Vector, F: Form> Sink<V> for Place<V, F> {
    #[inline(always)]
    unsafe fn columns(&mut self, index: usize, bytes: V::Bytes) {
        // SAFETY: inside the block by the caller's word.
        unsafe { V::store_bytes(as_multiplied::<V, F>(bytes), self.bytes.add(index * V::LANES * 4)) };
    }

    #[inline(always)]
    unsafe fn scale(&mut self, group: usize, scale: V::Float) {
        // SAFETY: inside the block by the caller's word.
        unsafe { V::store(scale_in::<V, F>(self.block, scale), self.scales.add(group * V::LANES)) };
    }

    #[inline(always)]
    unsafe fn block_scale(&mut self, scale: V::Float) {
        self.block = scale;
        for span in 0..if matches!(scales::<V, F>(), Scales::Numbers) { 0 } else { self.spans } {
            // SAFETY: inside the block.
            unsafe { V::store(scale, self.blocks.add(span * V::LANES)) };
        }
    }

    #[inline(always)]
    unsafe fn minimum(&mut self, group: usize, minimum: V::Float) {
        // SAFETY: inside the block by the caller's word.
        unsafe { V::store(minimum, self.minimums.add(group * V::LANES)) };
    }

    #[inline(always)]
    unsafe fn minimums(&mut self, first: usize, block: V::Float, whole: V::Bytes) {
        // SAFETY: inside the block by the caller's word.
        unsafe {
            if !matches!(minimums::<V, F>(), Minimums::InPairs) {
                return one_by_one(self, first, block, whole);
            }
            let ([low, high], place) = (in_pairs::<V>(whole), self.minimums.add(first * V::LANES));
            V::store_bytes(low, place.cast());
            V::store(block, place.add(V::LANES));
            V::store_bytes(high, place.add(2 * V::LANES).cast());
        }
    }
}

/// Weights as unsigned bytes, unpacked by `U`.
pub struct Bytes<U>(PhantomData<U>);

/// The correction that activations need for a storage type.
pub const fn correction<V: Vector, U: Unpack>() -> Correction {
    assert!(U::Form::MINIMUM == (U::OFFSET == 0), "an offset or a minimum");
    let in_halves = match minimums::<V, U::Form>() {
        Minimums::None => in_halves::<V, U::Form>(),
        Minimums::InPairs => true,
        Minimums::OfGroups | Minimums::OfSpans => false,
    };
    Correction { group: U::Form::GROUP, offset: U::OFFSET, in_halves }
}

/// Most columns of a panel of so many vectors of rows.
const fn columns_max<V: Vector>(strips: usize) -> usize {
    assert!(V::CHUNK <= CHUNK_MAX, "a panel has no room for so many");
    V::CHUNK * LANES_MAX / (strips * V::LANES)
}

impl<V: Vector, U: Unpack> Fill<V> for Bytes<U> {
    type Tiles = Sums<U::Form>;
    const PACKING: Packing = Packing::Bytes(correction::<V, U>());
    const COLUMNS: usize = columns_max::<V>(strips::<V, U::Form>());
    // The largest block.
    const COLUMNS_FOR_FEW: usize = 256;
    const FILLING: usize = product::EVEN;

    fn row_bytes(columns: usize) -> usize {
        columns / U::COLUMNS * U::BYTES
    }

    #[inline(always)]
    unsafe fn fill(stored: &[u8], row_bytes: usize, columns: Range<usize>, mut ahead: Ahead, panel: &mut Panel) {
        let blocks = columns.start / U::COLUMNS..columns.end / U::COLUMNS;
        let each = ahead.each(blocks.len() * strips::<V, U::Form>());
        let runs = const { (eight::BLOCKS * U::BYTES).div_ceil(eight::RUN) };
        for part in 0..strips::<V, U::Form>() {
            let offsets = offsets::<V>(stored, row_bytes, part);
            let mut index = 0;
            while index < blocks.len() {
                let column = part * columns.len() + index * U::COLUMNS;
                let group = column / U::Form::GROUP * V::LANES;
                // SAFETY: the places lie in the panel, whose parts are sized for the smallest group; the stored blocks lie in
                // each of the rows that the offsets lead to.
                unsafe {
                    let mut out = Place::<V, U::Form> {
                        bytes: panel.bytes.as_mut_ptr().add(column * V::LANES),
                        scales: panel.scales.as_mut_ptr().add(group),
                        minimums: panel.minimums.as_mut_ptr().add(group),
                        blocks: panel.blocks.as_mut_ptr().add(column / SPAN * V::LANES),
                        spans: const { U::COLUMNS / SPAN },
                        block: V::float(1.0),
                        form: PhantomData,
                    };
                    let base = stored.as_ptr().add((blocks.start + index) * U::BYTES);
                    if U::BY_EIGHT && V::EIGHTS && index + eight::BLOCKS <= blocks.len() {
                        let lines = (each * eight::BLOCKS).div_ceil(runs);
                        U::fill_eight::<V>(base, &offsets, (&mut ahead, lines), &mut out);
                        index += eight::BLOCKS;
                    } else {
                        ahead.ask::<V>(each);
                        U::unpack::<V>(base, &offsets, &mut out);
                        index += 1;
                    }
                }
            }
        }
    }
}

/// Whether the blocks of `U` meet tokens eight at a time.
const fn by_eight<V: Vector, U: Unpack>() -> bool {
    U::BY_EIGHT && V::EIGHTS && !in_halves::<V, U::Form>()
}

impl<V: Vector, U: Unpack> Multiply<V> for Bytes<U> {
    const TURNS: usize = strips::<V, U::Form>();

    const DIRECT: usize = if by_eight::<V, U>() { DIRECT_MAX } else { 1 };
    const DIRECT_COLUMNS: usize = eight::BLOCKS * U::COLUMNS;

    #[inline(always)]
    unsafe fn few<const R: usize, const T: usize>(
        stored: &[u8],
        row_bytes: usize,
        _: RowScales<'_>,
        x: &Activations,
        tile: Tile,
        ahead: Ahead,
        _: &mut Scratch,
    ) -> [[V::Float; T]; R] {
        const { assert!(SPAN.is_multiple_of(U::COLUMNS) || U::COLUMNS.is_multiple_of(SPAN), "whole blocks, or spans") };
        // A few blocks to a span, or a few spans to a block.
        let run = const { SPAN.div_ceil(U::COLUMNS) };
        let blocks = row_bytes / U::BYTES;
        let packing = <Self as Fill<V>>::PACKING;
        let input = <Sums<U::Form> as InRegisters<V>>::input(x, packing, 0..blocks * U::COLUMNS, tile, 0);
        // SAFETY: the rows and the input hold the blocks and the spans; the rest is the caller's contract.
        unsafe {
            let mut total = [[V::float(0.0); T]; R];
            if const { T == 1 && rows::meets::<V, U>() } && (blocks * U::COLUMNS).is_multiple_of(rows::chunk::<V>()) {
                for r in 0..R {
                    let strip_bytes = r * V::LANES * row_bytes;
                    let ahead = ahead.behind(strip_bytes / LINE);
                    total[r][0] = rows::meet::<V, U>(stored.as_ptr().add(strip_bytes), row_bytes, &input, ahead);
                }
                return total;
            }
            for r in 0..R {
                let offsets = offsets_of_whole::<V>(row_bytes, r);
                let mut begin = 0;
                if const { by_eight::<V, U>() } {
                    while begin + eight::BLOCKS <= blocks {
                        let line = (r * blocks + begin) * U::BYTES * V::LANES / LINE;
                        let base = stored.as_ptr().add(begin * U::BYTES);
                        U::meet_eight::<V, T>((base, ahead, line), &offsets, &input, begin, &mut total[r]);
                        begin += eight::BLOCKS;
                    }
                }
                if const { T > 1 } {
                    continue;
                }
                for first in (begin..blocks).step_by(run) {
                    let mut partial = [V::float(0.0); SPANS_MAX];
                    for block in first..blocks.min(first + run) {
                        let base = stored.as_ptr().add(block * U::BYTES);
                        // The compiler would keep a place for each row, and move all of them on.
                        let base = if const { in_turns::<V, U>() } { std::hint::black_box(base) } else { base };
                        let line = (r * blocks + block) * U::BYTES * V::LANES / LINE;
                        meet::<V, U>((base, ahead, line), &offsets, &input, block, &mut partial);
                    }
                    for span in 0..const { U::COLUMNS.div_ceil(SPAN) } {
                        let scale = V::float(*input.scales.add(first * U::COLUMNS / SPAN + span));
                        total[r][0] = V::mul_add(partial[span], scale, total[r][0]);
                    }
                }
            }
            total
        }
    }
}

/// The product of panels of one form.
pub struct Sums<F>(PhantomData<F>);

impl<V: Vector, F: Form> Tiles<V> for Sums<F> {
    const STRIPS: usize = strips::<V, F>();
    const TOKENS: usize = V::TOKENS;
    const AT_ONCE: bool = true;

    #[inline(always)]
    unsafe fn tile(product: &Product<'_>, part: &Part, tile: Tile, ahead: Ahead, scratch: &mut Scratch) {
        // SAFETY: the caller's contract is the same.
        unsafe { product::in_registers::<V, Self>(product, part, tile, ahead, scratch) };
    }
}

impl<V: Vector, F: Form> InRegisters<V> for Sums<F> {
    type Input = Input;
    const EIGHT: bool = V::EIGHT && 2 * 8 * strips::<V, F>() <= V::REGISTERS;

    #[inline(always)]
    fn input(x: &Activations, packing: Packing, columns: Range<usize>, tile: Tile, first: usize) -> Input {
        const { assert!(columns_max::<V>(strips::<V, F>()).is_multiple_of(SPAN), "parts of whole spans") };
        let correction = packing.correction().expect("weights become bytes");
        assert_eq!(correction.group, F::GROUP, "corrections of another form");
        // The group as a constant: no division.
        input(x, Correction { group: F::GROUP, ..correction }, columns, tile, first)
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        part: &Part,
        panel: &Panel,
        input: &Input,
        mut ahead: Ahead,
        total: &mut [[V::Float; T]; R],
    ) {
        let groups = part.columns / F::GROUP;
        let each = ahead.each(groups);
        for span in 0..groups.div_ceil(SPAN / F::GROUP) {
            let numbers = span * (SPAN / F::GROUP)..groups.min((span + 1) * (SPAN / F::GROUP));
            // SAFETY: the caller's contract is the same, and the part has the groups and the span.
            unsafe {
                let mut partial = [[Partial::<V>::zero(); T]; R];
                for number in numbers.clone().step_by(const { together::<V, F>() }) {
                    written_out!(index in [0, 1] {
                        if index < const { together::<V, F>() } {
                            ahead.ask::<V>(each);
                            group::<V, F, R, T>(part.columns, panel, input, (number, index), &mut partial);
                        }
                    });
                }
                for r in 0..R {
                    let block = match scales::<V, F>() {
                        Scales::Numbers => V::float(1.0),
                        Scales::Small | Scales::Large => {
                            V::load(panel.blocks.as_ptr().add((r * part.columns / SPAN + span) * V::LANES))
                        }
                    };
                    let of_groups = panel.minimums.as_ptr().add((r * groups + numbers.start) * V::LANES);
                    let mut values = [V::float(0.0); T];
                    for t in 0..T {
                        values[t] = partial[r][t].of_block::<F>(block);
                    }
                    match minimums::<V, F>() {
                        Minimums::None | Minimums::OfGroups => {}
                        Minimums::OfSpans => {
                            for index in 0..numbers.len() {
                                let minimum = V::load(of_groups.add(index * V::LANES));
                                for t in 0..T {
                                    let sum = *input.sums.add((numbers.start + index) * input.width + t);
                                    values[t] = V::sub_mul(minimum, V::float(sum), values[t]);
                                }
                            }
                        }
                        Minimums::InPairs => {
                            let mut sums = [V::int(0); T];
                            for index in (0..const { SPAN / F::GROUP }).step_by(2) {
                                let pair = V::load_bytes(of_groups.add(index * V::LANES).cast());
                                for t in 0..T {
                                    let x = *input.halves.add((numbers.start + index) * input.width + t);
                                    sums[t] = V::dot_words(sums[t], pair, V::word(x as u32));
                                }
                            }
                            let block = V::load(of_groups.add(V::LANES));
                            for t in 0..T {
                                values[t] = V::sub_mul(block, V::to_float(sums[t]), values[t]);
                            }
                        }
                    }
                    for t in 0..T {
                        let scale = V::float(*input.scales.add(span * input.width + t));
                        total[r][t] = V::mul_add(values[t], scale, total[r][t]);
                    }
                }
            }
        }
    }
}

/// The scaled sums of the first groups of a span, up to the scales of block and activations.
#[derive(Clone, Copy)]
struct Partial<V: Vector> {
    number: V::Float,
    /// Instead of it, where scales are large whole numbers: the number is that of every other group until the next comes.
    integer: V::Int,
}

impl<V: Vector> Partial<V> {
    /// Of no groups.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's contract is the same.
        unsafe { Self { number: V::float(0.0), integer: V::int(0) } }
    }

    /// Adds group number `group`'s. `parts` are the integer, the scale and the minimum; `sum` is where the sum of its activations stands, if
    /// each has [its own](Minimums::OfGroups).
    ///
    /// # Safety
    /// It stands there; the CPU has the instructions of `V`; groups come in order, and an even number of them.
    #[inline(always)]
    unsafe fn add<F: Form>(&mut self, group: usize, sum: *const f32, parts: (V::Int, V::Float, V::Float)) {
        let (integer, scale, minimum) = parts;
        // SAFETY: the caller's contract is the same.
        unsafe {
            match scales::<V, F>() {
                Scales::Numbers => {
                    self.number = V::mul_add(V::to_float(integer), scale, self.number);
                    if matches!(minimums::<V, F>(), Minimums::OfGroups) {
                        self.number = V::sub_mul(minimum, V::float(*sum), self.number);
                    }
                }
                Scales::Small => self.number = V::mul_add(V::to_float(integer), scale, self.number),
                // Two groups as numbers: products of integers are dearer.
                Scales::Large if group.is_multiple_of(2) => self.number = V::mul(V::to_float(integer), scale),
                Scales::Large => {
                    let both = V::mul_add(V::to_float(integer), scale, self.number);
                    self.integer = V::add_ints(self.integer, V::to_int(both));
                }
            }
        }
    }

    /// The sum of all groups, before minimums of their own are subtracted.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn of_block<F: Form>(self, block: V::Float) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe {
            match scales::<V, F>() {
                Scales::Numbers => self.number,
                Scales::Small => V::mul(block, self.number),
                Scales::Large => V::mul(block, V::to_float(self.integer)),
            }
        }
    }
}

/// The quantised activations of some tokens of a tile, from the first column of a part on.
pub struct Input {
    values: *const i8,
    scales: *const f32,
    offsets: *const i32,
    halves: *const i32,
    sums: *const f32,
    /// Tokens of the tile.
    width: usize,
}

/// Those with this correction, of some columns and from the tile's token number `first` on: checks that everything is there.
#[inline(always)]
fn input(x: &Activations, correction: Correction, columns: Range<usize>, tile: Tile, first: usize) -> Input {
    let x = x.bytes();
    let (spans, groups, width) = (columns.len().div_ceil(SPAN), columns.len() / correction.group, tile.width);
    let Corrected { offsets, halves, sums } = x.corrections(correction, tile, columns.start / correction.group);
    Input {
        values: x.values(tile, columns.start)[first * activation::GROUP..columns.len() * width].as_ptr(),
        scales: x.scales(tile, columns.start / SPAN)[first..spans * width].as_ptr(),
        offsets: offsets[first..groups * width].as_ptr(),
        halves: halves[first..groups * width].as_ptr(),
        sums: sums[first..groups * width].as_ptr(),
        width,
    }
}

/// Groups that are added up as one.
const fn together<V: Vector, F: Form>() -> usize {
    if matches!(scales::<V, F>(), Scales::Large) { 2 } else { 1 }
}

/// Whether a block with whole scales is whole spans, so that each of them has one block's scale.
const fn is_whole<U: Unpack>() -> bool {
    matches!(U::Form::SCALES, Scales::Numbers) || U::COLUMNS.is_multiple_of(SPAN)
}

/// What the sum of a group starts with: what makes up for weights that were raised to unsigned bytes. `index` is that of the group
/// and the token.
///
/// # Safety
/// The input has the group; the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn begun<V: Vector, F: Form>(input: &Input, index: usize) -> V::Int {
    // SAFETY: the caller's contract is the same.
    unsafe { V::int(begun_with::<V, F>(input, index)) }
}

/// The same as an integer.
///
/// # Safety
/// As [`begun`].
#[inline(always)]
unsafe fn begun_with<V: Vector, F: Form>(input: &Input, index: usize) -> i32 {
    let raised = !(F::MINIMUM || F::WIDE && V::SIGNED);
    // SAFETY: the caller's contract is the same.
    if raised { unsafe { *input.offsets.add(index) } } else { 0 }
}

/// The same of a sum of a [run](run): in halves where it is of sixteen bits.
///
/// # Safety
/// As [`begun`].
#[inline(always)]
unsafe fn run_begun<V: Vector, F: Form>(input: &Input, index: usize) -> V::Int {
    // SAFETY: the caller's contract is the same.
    unsafe {
        if !in_halves::<V, F>() {
            return begun::<V, F>(input, index);
        }
        V::int(if F::MINIMUM { 0 } else { *input.halves.add(index) })
    }
}

/// The bytes as products take them, of weights that were unpacked.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn as_multiplied<V: Vector, F: Form>(bytes: V::Bytes) -> V::Bytes {
    // SAFETY: the caller's contract is the same.
    unsafe { if F::WIDE && V::SIGNED { V::xor(bytes, V::byte(0x80)) } else { bytes } }
}

/// Whether products of weights of a few columns are added up in sixteen bits.
const fn in_halves<V: Vector, F: Form>() -> bool {
    V::HALVES && halves_max(F::MOST) > 1
}

/// Vectors of rows that are computed together.
const fn strips<V: Vector, F: Form>() -> usize {
    if in_halves::<V, F>() { V::STRIPS_IN_HALVES } else { V::STRIPS }
}

/// Products of four columns that are added up before the sum is that of the group: all of them where the sum begins with what makes up for
/// weights that were raised.
const fn run<V: Vector, F: Form>() -> usize {
    let (fours, most) = (F::GROUP / 4, halves_max(F::MOST));
    assert!(F::MINIMUM || !in_halves::<V, F>() || halves_hold(F::GROUP, (F::MOST as usize).div_ceil(2)), "a group");
    if in_halves::<V, F>() && F::MINIMUM && most < fours { most } else { fours }
}

/// The quickest product for the bytes of `F`: signed where they are wide and that suits the instruction set. Where sums are
/// [in halves](in_halves), `sum` is one of a [run](run).
///
/// # Safety
/// As [`Vector::dot`] and [`Vector::dot_halves`].
#[inline(always)]
unsafe fn dot<V: Vector, F: Form>(sum: V::Int, weights: V::Bytes, x: V::Bytes) -> V::Int {
    // SAFETY: the caller's contract is the same.
    unsafe {
        match (F::WIDE, V::SIGNED) {
            (false, _) if in_halves::<V, F>() => V::dot_halves(sum, weights, x),
            (false, _) => V::dot_low(sum, weights, x),
            (true, false) => V::dot(sum, weights, x),
            (true, true) => V::dot_signed(sum, weights, x),
        }
    }
}

#[cfg(test)]
mod tests;
