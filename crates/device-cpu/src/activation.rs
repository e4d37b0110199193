//! Activations as the kernels read them, a few tokens side by side: bytes with one scale for 128 neighbours for the integer kernel,
//! numbers for the floating-point one, or brain floating-point numbers where it multiplies pairs of them, three of those or the first of three for
//! tile registers.
//!
//! Packed once for all the products that share an input. Tokens stand in tiles as wide as the kernel takes them at a time; the
//! last one has what is left. A tile is (columns / 32, tokens, 32), (columns / 64, tokens, 64) for tile registers and
//! of brain floating-point numbers: the kernel walks it from its start to its end.

use std::mem::MaybeUninit;
use std::ops::Range;

use half::bf16;

use crate::aligned::Aligned;
use crate::pool::Disjoint;
use crate::product::{LANES_MAX, Line};
use crate::vector::Vector;

/// Columns of a token that stand together.
pub const GROUP: usize = 32;

/// Half of them: the smallest group of weights that have a scale.
const HALF: usize = GROUP / 2;

/// Those of a span.
const HALVES: usize = SPAN / HALF;

/// Pairs of columns that stand together.
const PAIRS: usize = GROUP / 2;

/// Columns that share a scale, the last ones of a row apart: whole groups. A scale for each group would cost a product for each of
/// its sums, a quarter of all that scaling costs; llama.cpp has one for 32 columns with some types and for 256 with others.
pub const SPAN: usize = 128;

/// Columns of a token that stand together as brain floating-point numbers, as many bytes as [`GROUP`] numbers; fewer at the end of a row.
pub const BRAINS: usize = 2 * GROUP;

/// Spans of a row that become bytes before these go where they belong.
const SPANS_AT_ONCE: usize = 8;

/// Tokens of a tile that two more go with, and how many those are together.
const SIX: usize = 6;
const EIGHT: usize = SIX + 2;

/// Values behind those of the last tile: a tile register of sixteen rows is filled, however few tokens there are.
pub const PADDING: usize = 16 * 64;

/// Most ways of correction at a time: one for each of the products that share an input, and that of a prompt.
pub const KINDS: usize = TOGETHER + 1;

/// Most products that share an input.
pub const TOGETHER: usize = 4;

/// Packed rows of activations, sized at load.
pub struct Activations {
    /// As they are: (tiles, columns / 32, tokens of the tile, 32), the last ones of a row as many as they are.
    numbers: Vec<Line>,
    /// Rounded to brain floating-point numbers, their bits: (tiles, columns / 64, tokens of the tile, 64), the same.
    brains: Aligned<u16>,
    /// As [`thirds`]: (tiles, columns / 32, 3, 16, tokens of the tile).
    thirds: Vec<Line>,
    /// As bytes, 32 columns of a token together.
    bytes: Quantised,
    /// As bytes, 64 columns together, the row of a tile register.
    tiles: Quantised,
    kinds: [Option<Correction>; KINDS],
    columns: usize,
}

/// Activations as bytes.
struct Quantised {
    /// (tiles, columns / those together, tokens of the tile, those together).
    values: Vec<Line>,
    /// (tiles, columns / 128, tokens of the tile).
    scales: Vec<f32>,
    corrections: [Corrections; KINDS],
    /// How often 32 is doubled to be the columns of a token that stand together.
    doubled: u32,
}

/// The same, to be read.
#[derive(Clone, Copy)]
pub struct View<'a> {
    of: &'a Quantised,
    kinds: &'a [Option<Correction>; KINDS],
    columns: usize,
}

/// What makes up for how a storage type becomes unsigned bytes: a multiple of the sum of each group of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    /// Columns of a group: 16 or 32, or a whole span of a prompt.
    pub group: usize,
    /// What is added to each weight to make it an unsigned byte; zero where a group has a minimum instead.
    pub offset: i32,
    /// Whether what makes up for it is wanted as two numbers of sixteen bits: of an offset the parts that two of each four columns have, too; with
    /// minimums the sums of two neighbouring groups, instead of each as a number.
    pub in_halves: bool,
}

/// One kind of correction for every group of all rows: (tiles, columns / group, tokens of the tile).
struct Corrections {
    /// Minus the offset times the sum of the group.
    offsets: Vec<i32>,
    /// The same [in halves](Correction::in_halves): that of the first two of each four columns in the low sixteen bits, of the last two in the
    /// high ones. Where weights have minimums, the sum of the group in the low sixteen bits and of the next one in the high ones, for every
    /// other group.
    halves: Vec<i32>,
    /// The sum of the group, where weights have minimums.
    sums: Vec<f32>,
}

/// Brain floating-point numbers that a value is the sum of.
pub const THIRDS: usize = 3;

/// Two neighbouring values, each as the sum of three brain floating-point numbers: what they round to, what that leaves, rounded, and what
/// is left then. Eight digits each, so that all 24 are there.
pub fn thirds(mut values: [f32; 2]) -> [u32; THIRDS] {
    std::array::from_fn(|_| {
        let near = values.map(bf16::from_f32);
        values = std::array::from_fn(|index| values[index] - near[index].to_f32());
        u32::from(near[0].to_bits()) | u32::from(near[1].to_bits()) << 16
    })
}

/// Rows that go through a matrix together, and how they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The first.
    pub first: usize,
    /// How many.
    pub tokens: usize,
}

/// A tile of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The first token.
    pub token: usize,
    /// How many.
    pub width: usize,
}

impl Rows {
    /// The tile that holds `token`: tiles are `widest` tokens wide, and the last one has what is left. Where that would be two of six, too
    /// few for sums to be added up without waiting for each other, the last eight are one.
    pub fn tile_of(&self, token: usize, widest: usize) -> Tile {
        let place = token - self.first;
        let start = match self.last_eight(widest) {
            Some(last) if place >= last => last,
            _ => place / widest * widest,
        };
        self.tile_from(start, widest)
    }

    /// The tiles, in order.
    #[inline(always)]
    pub fn tiles(self, widest: usize) -> impl Iterator<Item = Tile> {
        let mut place = 0;
        std::iter::from_fn(move || {
            let tile = (place < self.tokens).then(|| self.tile_from(place, widest))?;
            place += tile.width;
            Some(tile)
        })
    }

    /// The tile whose first token is so many behind the first.
    #[inline(always)]
    fn tile_from(&self, place: usize, widest: usize) -> Tile {
        let width = if self.last_eight(widest) == Some(place) { EIGHT } else { widest.min(self.tokens - place) };
        Tile { token: self.first + place, width }
    }

    /// Where the last eight tokens begin, if they are one tile.
    #[inline(always)]
    fn last_eight(&self, widest: usize) -> Option<usize> {
        self.tokens.checked_sub(EIGHT).filter(|last| widest == SIX && last.is_multiple_of(SIX))
    }
}

impl Activations {
    /// Room for `values` activations in all.
    pub fn new(values: usize) -> Self {
        let lines = |words: usize| vec![Line([0; LANES_MAX]); words.div_ceil(LANES_MAX)];
        let (numbers, thirds) = (lines(values), lines(values.div_ceil(2) * THIRDS));
        let brains = Aligned::new(values);
        let (bytes, tiles) = (Quantised::new(values, 0), Quantised::new(values, 1));
        Self { numbers, brains, thirds, bytes, tiles, kinds: [None; KINDS], columns: 0 }
    }

    /// Starts over with other tokens of so many columns, and with these corrections; only columns that are a multiple of 32 may be quantised.
    ///
    /// # Panics
    /// If there are more rows than it was made for, or more than [`KINDS`] of correction.
    pub fn begin(&mut self, tokens: usize, columns: usize, kinds: impl Iterator<Item = Correction>) {
        assert!(tokens * columns <= Line::floats(&self.numbers).len(), "made for fewer activations");
        self.columns = columns;
        self.kinds = [None; KINDS];
        for kind in kinds {
            let place = self.kinds.iter_mut().find(|place| place.is_none_or(|other| other == kind));
            *place.expect("room for every kind") = Some(kind);
        }
    }

    /// The numbers of a tile: (columns / 32, tokens of the tile, 32), the last ones of a row as many as they are.
    pub fn numbers(&self, tile: Tile) -> &[f32] {
        &Line::floats(&self.numbers)[tile.token * self.columns..(tile.token + tile.width) * self.columns]
    }

    /// The brain floating-point numbers of a tile: (columns / 64, tokens of the tile, 64), the last ones of a row as many as they are.
    pub fn brains(&self, tile: Tile) -> &[u16] {
        &self.brains[tile.token * self.columns..(tile.token + tile.width) * self.columns]
    }

    /// The thirds of a tile: (columns / 32, 3, 16, tokens of the tile).
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX has tile registers"))]
    pub fn thirds(&self, tile: Tile) -> &[u32] {
        let row = self.columns / 2 * THIRDS;
        &Line::words(&self.thirds)[tile.token * row..(tile.token + tile.width) * row]
    }

    /// Bytes, 32 columns of a token together.
    pub fn bytes(&self) -> View<'_> {
        View { of: &self.bytes, kinds: &self.kinds, columns: self.columns }
    }

    /// Bytes, 64 columns of a token together; only columns that are a multiple of 64 may be packed so.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX has tile registers"))]
    pub fn tiles(&self) -> View<'_> {
        View { of: &self.tiles, kinds: &self.kinds, columns: self.columns }
    }

    /// All rows, to be written by several workers.
    pub fn writer(&mut self) -> Writer<'_> {
        let (kinds, columns) = (self.kinds, self.columns);
        Writer {
            numbers: Disjoint::new(Line::floats_mut(&mut self.numbers)),
            brains: Disjoint::new(&mut self.brains),
            thirds: Disjoint::new(Line::words_mut(&mut self.thirds)),
            bytes: self.bytes.writer(kinds, columns),
            tiles: self.tiles.writer(kinds, columns),
            columns,
        }
    }

    /// A value of one of `rows`, as the kernel sees it.
    #[cfg(test)]
    pub fn value(&self, (rows, widest): (Rows, usize), token: usize, column: usize) -> f64 {
        let tile = rows.tile_of(token, widest);
        let (group, slot) = (column / GROUP, token - tile.token);
        let scale = self.bytes().scales(tile, column / SPAN)[slot];
        f64::from(self.bytes().values(tile, group * GROUP)[slot * GROUP + column % GROUP]) * f64::from(scale)
    }
}

impl Quantised {
    /// Room for `values` activations in all, `32 << doubled` columns of a token together.
    fn new(values: usize, doubled: u32) -> Self {
        let corrections = [(); KINDS].map(|()| values.div_ceil(HALF)).map(|groups| Corrections {
            offsets: vec![0; groups],
            halves: vec![0; groups],
            sums: vec![0.0; groups],
        });
        let lines = (values + PADDING).div_ceil(size_of::<Line>());
        Self {
            values: vec![Line([0; LANES_MAX]); lines],
            scales: vec![0.0; values.div_ceil(GROUP)],
            corrections,
            doubled,
        }
    }

    /// All rows of so many columns, with these corrections, to be written.
    fn writer(&mut self, kinds: [Option<Correction>; KINDS], columns: usize) -> Quantiser<'_> {
        let mut each = kinds.iter().zip(&mut self.corrections).map(|(kind, Corrections { offsets, halves, sums })| {
            kind.map(|kind| {
                let (groups, parts) = (columns / kind.group, GROUP / kind.group);
                let [offsets, halves] = [offsets, halves].map(|numbers| Disjoint::new(numbers));
                CorrectionsWriter { offsets, halves, sums: Disjoint::new(sums), kind, groups, parts }
            })
        });
        Quantiser {
            values: Disjoint::new(Line::bytes_mut(&mut self.values)),
            scales: Disjoint::new(&mut self.scales),
            corrections: std::array::from_fn(|_| each.next().flatten()),
            doubled: self.doubled,
            columns,
        }
    }
}

impl<'a> View<'a> {
    /// The values of a tile, from `column` on, the first of those that stand together.
    #[inline(always)]
    pub fn values(self, tile: Tile, column: usize) -> &'a [i8] {
        let at = tile.token * self.columns;
        &Line::bytes(&self.of.values)[at + column * tile.width..at + tile.width * self.columns]
    }

    /// Where the values of a tile begin, from `column` on: [`PADDING`] more can be read behind those of any tile.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX has tile registers"))]
    #[inline(always)]
    pub fn rows(self, tile: Tile, column: usize) -> *const i8 {
        let (at, end) = (tile.token * self.columns + column * tile.width, (tile.token + tile.width) * self.columns);
        let values = Line::bytes(&self.of.values);
        assert!(at <= end && end + PADDING <= values.len(), "a tile's values");
        values[at..].as_ptr()
    }

    /// The scales of a tile, from span `span` of its columns on.
    #[inline(always)]
    pub fn scales(self, tile: Tile, span: usize) -> &'a [f32] {
        let spans = self.columns.div_ceil(SPAN);
        &self.of.scales[tile.token * spans + span * tile.width..(tile.token + tile.width) * spans]
    }

    /// The corrections of a tile, from group `group` of its columns on.
    ///
    /// # Panics
    /// If they were not asked for.
    #[inline(always)]
    pub fn corrections(self, kind: Correction, tile: Tile, group: usize) -> Corrected<'a> {
        let index = self.kinds.iter().position(|&other| other == Some(kind)).expect("a kind that was asked for");
        let groups = self.columns / kind.group;
        let range = tile.token * groups + group * tile.width..(tile.token + tile.width) * groups;
        let Corrections { offsets, halves, sums } = &self.of.corrections[index];
        Corrected { offsets: &offsets[range.clone()], halves: &halves[range.clone()], sums: &sums[range] }
    }
}

/// What makes up for unsigned bytes in the groups of a tile, as it was asked for: (groups, tokens of the tile).
pub struct Corrected<'a> {
    /// Minus the offset times each sum.
    pub offsets: &'a [i32],
    /// The same [in halves](Correction::in_halves).
    pub halves: &'a [i32],
    /// The sums.
    pub sums: &'a [f32],
}

/// All rows, to be written by several workers.
pub struct Writer<'a> {
    numbers: Disjoint<'a, f32>,
    brains: Disjoint<'a, u16>,
    thirds: Disjoint<'a, u32>,
    /// Bytes, 32 columns of a token together.
    pub bytes: Quantiser<'a>,
    /// Bytes, 64 columns together.
    pub tiles: Quantiser<'a>,
    columns: usize,
}

/// All rows, to be quantised by several workers.
pub struct Quantiser<'a> {
    values: Disjoint<'a, i8>,
    scales: Disjoint<'a, f32>,
    corrections: [Option<CorrectionsWriter<'a>>; KINDS],
    doubled: u32,
    columns: usize,
}

struct CorrectionsWriter<'a> {
    offsets: Disjoint<'a, i32>,
    halves: Disjoint<'a, i32>,
    sums: Disjoint<'a, f32>,
    kind: Correction,
    /// Groups of a row, and those of 32 columns: none where one is a span.
    groups: usize,
    parts: usize,
}

impl Writer<'_> {
    /// Where one row of a tile goes from a column on, of which so many columns stand together.
    fn places(
        &self,
        tile: Tile,
        (token, start): (usize, usize),
        together: usize,
    ) -> impl Iterator<Item = Range<usize>> {
        let (columns, slot) = (self.columns, token - tile.token);
        (start..columns).step_by(together).map(move |column| {
            let count = together.min(columns - column);
            let at = tile.token * columns + column * tile.width + slot * count;
            at..at + count
        })
    }

    /// Keeps one row of a tile as it is.
    ///
    /// # Safety
    /// No other use of the row of `token`.
    pub unsafe fn keep(&self, tile: Tile, token: usize, x: &[f32]) {
        for (x, place) in x.chunks(GROUP).zip(self.places(tile, (token, 0), GROUP)) {
            // SAFETY: the row is in use once by the caller's word.
            unsafe { self.numbers.slice(place) }.copy_from_slice(x);
        }
    }

    /// Rounds a row of a tile to brain floating-point numbers, from a column on: the first of those that stand together.
    ///
    /// # Safety
    /// No other use of these columns of the row; the CPU has the instructions of `V`, and those have [`Vector::PAIRS`].
    #[inline(always)]
    pub unsafe fn round_with<V: Vector>(&self, tile: Tile, at: (usize, usize), x: &[f32]) {
        for (x, place) in x.chunks(BRAINS).zip(self.places(tile, at, BRAINS)) {
            // SAFETY: the row is in use once by the caller's word; whole vectors are read and written inside of the place, and the rest in
            // arrays.
            unsafe {
                let place = self.brains.slice(place);
                let whole = x.len() / V::LANES * V::LANES;
                for column in (0..whole).step_by(V::LANES) {
                    V::store_brains(V::load(x[column..].as_ptr()), place[column..].as_mut_ptr());
                }
                if whole == x.len() {
                    continue;
                }
                let (mut rest, mut rounded) = ([0.0; LANES_MAX], [0; LANES_MAX]);
                rest[..x.len() - whole].copy_from_slice(&x[whole..]);
                V::store_brains(V::load(rest.as_ptr()), rounded.as_mut_ptr());
                place[whole..].copy_from_slice(&rounded[..x.len() - whole]);
            }
        }
    }

    /// The place of third number `third` of `count` pairs of values of a group of 32 columns, from pair `pair` on: each as many words behind
    /// the one before as the tile has tokens.
    ///
    /// # Panics
    /// If the group has fewer, or the row.
    pub fn place_of_thirds(&self, tile: Tile, token: usize, third: usize, pair: usize, count: usize) -> *mut u32 {
        let (group, inside) = (pair / PAIRS, pair % PAIRS);
        assert!(pair + count <= self.columns / 2 && inside + count <= PAIRS, "{count} pairs from {pair}");
        let pairs = tile.token * (self.columns / 2 * THIRDS) + ((group * THIRDS + third) * PAIRS + inside) * tile.width;
        let at = pairs + token - tile.token;
        // SAFETY: an empty slice overlaps none.
        unsafe { self.thirds.slice(at..at) }.as_mut_ptr()
    }

    /// Splits the values of one row of a tile, of whole groups of 32, into the first `count` thirds.
    ///
    /// # Safety
    /// No other use of the row of `token`.
    pub unsafe fn split(&self, tile: Tile, token: usize, x: &[f32], count: usize) {
        for (pair, &values) in x.as_chunks().0.iter().enumerate() {
            for (third, word) in thirds(values).into_iter().enumerate().take(count) {
                // SAFETY: the row is in use once by the caller's word.
                unsafe { *self.place_of_thirds(tile, token, third, pair, 1) = word };
            }
        }
    }
}

/// Where the values of a row of a tile go.
#[derive(Clone, Copy)]
struct RowPlace {
    /// Where those of the tile do.
    start: *mut i8,
    slot: usize,
    width: usize,
    doubled: u32,
}

impl RowPlace {
    /// The place of a group's values.
    ///
    /// # Safety
    /// The row has the group.
    #[inline(always)]
    unsafe fn group(self, group: usize) -> *mut [u8; GROUP] {
        let (together, inside) = (group >> self.doubled, group & ((1 << self.doubled) - 1));
        // SAFETY: inside of the tile by the caller's word.
        unsafe { self.start.add((((together * self.width + self.slot) << self.doubled) + inside) * GROUP).cast() }
    }

    /// Takes groups where they belong, from one on that is the first of those that stand together.
    ///
    /// # Safety
    /// The row has them, and is in use once.
    #[inline(always)]
    unsafe fn put(self, first: usize, groups: &[[u8; GROUP]]) {
        // SAFETY: the caller's contract is the same.
        unsafe {
            if self.doubled > 0 {
                for (group, bytes) in (first..).zip(groups) {
                    *self.group(group) = *bytes;
                }
                return;
            }
            // To find each by itself takes longer than to write it.
            let mut to = self.group(first);
            for bytes in groups {
                *to = *bytes;
                to = to.wrapping_add(self.width);
            }
        }
    }
}

impl Quantiser<'_> {
    /// Where the values of a row go.
    #[inline(always)]
    fn row(&self, tile: Tile, token: usize) -> RowPlace {
        let start = self.values.place(tile.token * self.columns..(tile.token + tile.width) * self.columns);
        RowPlace { start, slot: token - tile.token, width: tile.width, doubled: self.doubled }
    }

    /// Keeps the scale of a span whose largest magnitude is `most`; gives what its values are multiplied by. Where that is infinity, which stands
    /// for a value that is no number, too, the scale is none, so that no product with the row is: what a broken file gives must show.
    ///
    /// # Safety
    /// No other use of the same one.
    #[inline(always)]
    unsafe fn scale(&self, tile: Tile, token: usize, span: usize, most: f32) -> f32 {
        let at = tile.token * self.columns.div_ceil(SPAN) + span * tile.width + token - tile.token;
        // SAFETY: the scale is in use once by the caller's word.
        unsafe { self.scales.slice(at..at + 1)[0] = if most < f32::INFINITY { most / 127.0 } else { f32::NAN } };
        if most > 0.0 { 127.0 / most } else { 0.0 }
    }

    /// Keeps the corrections of some groups, from the first one of a span on: of the sums of each sixteen columns, of the first two of each four and
    /// of the last two.
    ///
    /// # Safety
    /// No other use of the same ones.
    #[inline(always)]
    unsafe fn correct(&self, tile: Tile, token: usize, span: usize, [firsts, lasts]: [&[i32]; 2]) {
        for &CorrectionsWriter { ref offsets, ref halves, sums: ref numbers, kind, groups, parts } in
            self.corrections.iter().flatten()
        {
            if kind.group == SPAN {
                for (span, (firsts, lasts)) in (span..).zip(firsts.chunks(HALVES).zip(lasts.chunks(HALVES))) {
                    let at = tile.token * groups + span * tile.width + token - tile.token;
                    let sum = firsts.iter().sum::<i32>() + lasts.iter().sum::<i32>();
                    // SAFETY: spans do not overlap, and these are in use once by the caller's word.
                    unsafe { offsets.slice(at..at + 1)[0] = -kind.offset * sum };
                }
                continue;
            }
            let count = firsts.len() * parts / 2;
            let start = tile.token * groups + span * (SPAN / GROUP) * parts * tile.width + token - tile.token;
            // One for each token of the tile stand side by side.
            let place = |index: usize| index * tile.width;
            let all = start..start + place(count.max(1) - 1) + count.min(1);
            let sum = |sums: &[i32], index: usize| {
                if parts == 1 { sums[2 * index] + sums[2 * index + 1] } else { sums[index] }
            };
            // SAFETY: places lie inside of what was checked, groups do not overlap, and these are in use once by the caller's word.
            unsafe {
                if kind.offset == 0 && kind.in_halves {
                    let to = halves.place(all);
                    for index in (0..count / 2 * 2).step_by(2) {
                        let low = sum(firsts, index) + sum(lasts, index);
                        let high = sum(firsts, index + 1) + sum(lasts, index + 1);
                        *to.add(place(index)) = low & 0xffff | high << 16;
                    }
                    continue;
                }
                if kind.offset == 0 {
                    let to = numbers.place(all);
                    for index in 0..count {
                        *to.add(place(index)) = (sum(firsts, index) + sum(lasts, index)) as f32;
                    }
                    continue;
                }
                let to = offsets.place(all.clone());
                for index in 0..count {
                    *to.add(place(index)) = -kind.offset * (sum(firsts, index) + sum(lasts, index));
                }
                if kind.in_halves {
                    let to = halves.place(all);
                    for index in 0..count {
                        let (low, high) = (-kind.offset * sum(firsts, index), -kind.offset * sum(lasts, index));
                        *to.add(place(index)) = low & 0xffff | high << 16;
                    }
                }
            }
        }
    }

    /// Quantises a row of a tile, from a column on: the first of a span. The formula.
    ///
    /// # Safety
    /// No other use of these columns of the row.
    pub unsafe fn quantise(&self, tile: Tile, (token, start): (usize, usize), x: &[f32]) {
        assert!(start.is_multiple_of(SPAN) && start + x.len() <= self.columns, "whole spans of the row");
        let row = self.row(tile, token);
        for (span, x) in (start / SPAN..).zip(x.chunks(SPAN)) {
            let magnitude = |x: &f32| if x.is_nan() { f32::INFINITY } else { x.abs() };
            let most = x.iter().map(magnitude).fold(0.0, f32::max);
            // SAFETY: the row is in use once by the caller's word.
            let inverse = unsafe { self.scale(tile, token, span, most) };
            let mut sums = [[0; SPAN / HALF]; 2];
            for (group, x) in x.as_chunks::<GROUP>().0.iter().enumerate() {
                // The product is within ±127 up to rounding; not-a-number becomes zero.
                let values: [i8; GROUP] = std::array::from_fn(|at| (x[at] * inverse).round_ties_even() as i8);
                // SAFETY: the row has the group, and is in use once by the caller's word.
                unsafe { *row.group(span * (SPAN / GROUP) + group).cast() = values };
                for (half, values) in values.as_chunks::<HALF>().0.iter().enumerate() {
                    for &[a, b, c, d] in values.as_chunks::<4>().0 {
                        sums[0][2 * group + half] += i32::from(a) + i32::from(b);
                        sums[1][2 * group + half] += i32::from(c) + i32::from(d);
                    }
                }
            }
            // SAFETY: as above.
            unsafe { self.correct(tile, token, span, sums.each_ref().map(|sums| &sums[..x.len() / HALF])) };
        }
    }

    /// The same in vectors: the same values, not-a-number apart.
    ///
    /// # Safety
    /// No other use of these columns of the row; the CPU has the instructions of `V`.
    #[inline(always)]
    pub unsafe fn quantise_with<V: Vector>(&self, tile: Tile, (token, start): (usize, usize), x: &[f32]) {
        assert!(start.is_multiple_of(SPAN) && start + x.len() <= self.columns, "whole spans of the row");
        let mut bytes = MaybeUninit::<[u8; SPANS_AT_ONCE * SPAN]>::uninit();
        let bytes = bytes.as_mut_ptr().cast::<u8>();
        let mut sums = [[0; SPANS_AT_ONCE * SPAN / HALF]; 2];
        for (turn, x) in x.chunks(SPANS_AT_ONCE * SPAN).enumerate() {
            let first = start / SPAN + turn * SPANS_AT_ONCE;
            // SAFETY: the row is in use once by the caller's word; vectors lie inside the groups, whose length is a whole number of
            // them; what is read here was written before, whole vectors of it.
            unsafe {
                let mut mosts = [0.0; SPANS_AT_ONCE];
                for (mosts, x) in mosts.as_chunks_mut::<4>().0.iter_mut().zip(x.chunks(4 * SPAN)) {
                    let mut most = [V::float(0.0); 4];
                    for (span, x) in x.chunks(SPAN).enumerate() {
                        for at in (0..x.len()).step_by(V::LANES) {
                            let value = V::load(x.as_ptr().add(at));
                            most[span] = V::larger_magnitude(V::magnitude(value), most[span]);
                        }
                    }
                    // Infinity instead of what is no number, which the largest lane would pass over.
                    *mosts = V::mosts(most.map(|most| V::min(most, V::float(f32::INFINITY))));
                }
                for (span, x) in x.chunks(SPAN).enumerate() {
                    let inverse = V::float(self.scale(tile, token, first + span, mosts[span]));
                    let bytes = bytes.add(span * SPAN);
                    for at in (0..x.len()).step_by(4 * V::LANES) {
                        let mut four = [V::float(0.0); 4];
                        for index in 0..4 {
                            let at = at + index * V::LANES;
                            if at < x.len() {
                                four[index] = V::mul(V::load(x.as_ptr().add(at)), inverse);
                            }
                        }
                        V::store_bytes(V::narrow(four), bytes.add(at));
                    }
                }
                let groups = std::slice::from_raw_parts(bytes.cast::<[u8; GROUP]>(), x.len() / GROUP);
                self.row(tile, token).put(first * (SPAN / GROUP), groups);
                // Four columns at a time, then sixteen: a sum over the lanes of each sixteen would take longer than all else.
                // Where no sum is of sixteen bits, all four columns are the first two.
                let halves: [u32; 2] = if V::HALVES { [0x0000_0101, 0x0101_0000] } else { [0x0101_0101, 0] };
                for half in 0..if V::HALVES { 2 } else { 1 } {
                    let mut fours = MaybeUninit::<[f32; SPANS_AT_ONCE * SPAN / 4]>::uninit();
                    let fours = fours.as_mut_ptr().cast::<f32>();
                    for at in (0..x.len()).step_by(4 * V::LANES) {
                        let x = V::load_bytes(bytes.add(at));
                        let sums = V::dot_low(V::int(0), V::word(halves[half]), x);
                        V::store(V::to_float(sums), fours.add(at / 4));
                    }
                    let fours = std::slice::from_raw_parts(fours, x.len() / 4);
                    for (sum, [a, b, c, d]) in sums[half][..x.len() / HALF].iter_mut().zip(fours.as_chunks().0) {
                        // Whole numbers, of at most sixteen bytes: exact, and within an integer.
                        *sum = ((a + b) + (c + d)).to_int_unchecked();
                    }
                }
                // Behind all of the sums: a core waits for a load of what several stores still have.
                self.correct(tile, token, first, sums.each_ref().map(|sums| &sums[..x.len() / HALF]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_all_tokens_in_order() {
        for widest in [4, SIX, 8, 12] {
            for tokens in 0..40 {
                let first = tokens % 5;
                let rows = Rows { first, tokens };
                let mut token = first;
                while token < first + tokens {
                    let tile = rows.tile_of(token, widest);
                    let left = first + tokens - token;
                    assert_eq!(tile.token, token, "{tokens} tokens, widest {widest}");
                    let is_wider = widest == SIX && left == EIGHT;
                    assert_eq!(tile.width, if is_wider { EIGHT } else { widest.min(left) });
                    for inside in token..token + tile.width {
                        assert_eq!(
                            rows.tile_of(inside, widest),
                            tile,
                            "{tokens} tokens, widest {widest}, token {inside}"
                        );
                    }
                    token += tile.width;
                }
                assert_eq!(token, first + tokens);
            }
        }
    }
}
