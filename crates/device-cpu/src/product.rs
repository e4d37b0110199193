//! Products of rows of weights with tokens: what the integer and the floating-point kernel have in common.
//!
//! Where weights are whole numbers, a lane is a row (`floats.rs` has lanes of columns). A strip of a few vectors of rows is unpacked from the stored layout, a chunk of columns at a time, into a
//! panel in a near cache ([`Vector::CHUNK`]), which then meets the tokens, a tile of them at a time. Each output is summed over the columns
//! in order, so that it does not depend on how many tokens there are, nor on how they are tiled. A strip's sums stay with its
//! worker until [`finish`] takes them where they belong, tile by tile, or go there from registers (`Output::put`): what follows a product
//! costs no pass over memory of its own.

mod ahead;

use std::ops::Range;

pub use ahead::{Ahead, STREAMS_MAX};
use kauri_arch::Activation;
use kauri_formats::Tiles as Tiled;

use crate::activation::{Activations, Rows, SPAN, Tile};
use crate::aligned::Aligned;
use crate::detect::Packing;
use crate::elementwise;
use crate::foresight::Place;
use crate::pool::Disjoint;
use crate::vector::Vector;

/// Most lanes of any instruction set.
pub const LANES_MAX: usize = 16;
/// Most vectors of rows that are computed together.
const STRIPS_MAX: usize = 4;
/// Most strips that one token meets before what becomes of their sums: a core that is called for each reads ahead less.
pub const RUN: usize = 16;
/// Tokens that are few.
const FEW: usize = 4;
/// Most tokens that meet weights without a panel.
pub const DIRECT_MAX: usize = 8;
/// Tokens whose products take as long as unpacking, where weights are unpacked.
pub const EVEN: usize = 8;
/// So many tokens that weights are read faster than they are needed.
const ENOUGH: usize = 48;
/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Bytes of a strip that leave room in a first-level cache for half as many of the next: half of one.
const NEAR_BYTES: usize = 24 << 10;
/// Columns of sixteen rows unpacked at a time, where an instruction set says nothing else: 16 KiB of bytes, half a first-level cache.
pub const CHUNK: usize = 1024;
/// Most of them with any instruction set: the panel's room.
pub const CHUNK_MAX: usize = 2 * CHUNK;
/// Lines of a panel for tile registers: 64 KiB.
pub const LINES: usize = 1024;

/// How weights of one storage type are unpacked.
pub trait Fill<V: Vector> {
    /// What meets tokens with what is unpacked: compiled once for all storage types whose panels look alike.
    type Tiles: Tiles<V>;
    /// How it takes activations.
    const PACKING: Packing;
    /// Most columns of them that the panel holds, a whole number of blocks.
    const COLUMNS: usize;
    /// As many of those as a few tokens are worth: what is unpacked is read at once, and the weights that stream through the cache
    /// meanwhile push the rest out of it.
    const COLUMNS_FOR_FEW: usize;
    /// Tokens whose products take as long as [`Self::fill`]; none where that does nothing.
    const FILLING: usize;

    /// The stored bytes of a row.
    fn row_bytes(columns: usize) -> usize;

    /// Unpacks some columns of some rows, `LANES` rows after the other; asks for `ahead` meanwhile.
    ///
    /// # Safety
    /// `stored` holds one row or more of `row_bytes` bytes; `columns` are at most [`Self::COLUMNS`] and begin with a block; the CPU
    /// has the instructions of `V`.
    unsafe fn fill(stored: &[u8], row_bytes: usize, columns: Range<usize>, ahead: Ahead, panel: &mut Panel);
}

/// How they are multiplied without a panel, too: with one token, and with a few where that is quicker.
pub trait Multiply<V: Vector>: Fill<V> {
    /// Turns in which tokens meet the rows of a strip, as many in each.
    const TURNS: usize;

    /// Most tokens of a tile that meet a strip without a panel, at most [`DIRECT_MAX`]: several only of rows of a multiple of
    /// [`Self::DIRECT_COLUMNS`].
    const DIRECT: usize = 1;
    /// See there.
    const DIRECT_COLUMNS: usize = 1;

    /// The sums of the `T` tokens of a tile, without a panel; the same bits. Asks for `ahead` meanwhile; `scratch` is the worker's.
    ///
    /// # Safety
    /// `stored` holds a whole strip of rows of `row_bytes` bytes, and they meet so many tokens without a panel; the CPU has the instructions
    /// of `V`.
    unsafe fn few<const R: usize, const T: usize>(
        stored: &[u8],
        row_bytes: usize,
        scales: RowScales<'_>,
        x: &Activations,
        tile: Tile,
        ahead: Ahead,
        scratch: &mut Scratch,
    ) -> [[V::Float; T]; R];
}

/// How unpacked weights are multiplied.
pub trait Tiles<V: Vector> {
    /// Vectors of rows that are computed together.
    const STRIPS: usize;
    /// Most tokens of a tile.
    const TOKENS: usize;
    /// Whether it takes sums where they belong by itself, where the part says so.
    const AT_ONCE: bool = false;

    /// Adds the products of the part's columns with the tokens of a tile to their sums; asks for `ahead` meanwhile.
    ///
    /// # Safety
    /// The panel is filled with the part; the rest as [`strips`].
    unsafe fn tile(product: &Product<'_>, part: &Part, tile: Tile, ahead: Ahead, scratch: &mut Scratch);
}

/// How they are multiplied where the sums of a few tokens are kept in registers.
pub trait InRegisters<V: Vector>: Tiles<V> {
    /// What is read of the activations of a few tokens of a tile.
    type Input;
    /// Whether eight tokens are taken at once where they are the last: twice as many sums do not wait for each other, though not all of
    /// them stay in registers.
    const EIGHT: bool;

    /// The activations of a tile in some columns, from its token number `first` on: checks that everything is there.
    fn input(x: &Activations, packing: Packing, columns: Range<usize>, tile: Tile, first: usize) -> Self::Input;

    /// Adds the products of the part's columns with `T` tokens; asks for `ahead` meanwhile.
    ///
    /// # Safety
    /// The panel is filled with the part, `input` is of the part and has `T` tokens; the CPU has the instructions of `V`.
    unsafe fn add<const R: usize, const T: usize>(
        part: &Part,
        panel: &Panel,
        input: &Self::Input,
        ahead: Ahead,
        total: &mut [[V::Float; T]; R],
    );
}

/// What the rows of a strip are multiplied with, tile by tile.
#[derive(Clone, Copy)]
pub struct RowScales<'a> {
    tiles: Option<&'a Tiled>,
    /// The strip's first row, and its last.
    rows: (usize, usize),
}

impl<'a> RowScales<'a> {
    /// The factors of rows of the strip from number `first` on, tile after tile, and the columns of a tile. The last row stands for those
    /// that it does not have.
    pub fn of_rows<const ROWS: usize>(self, first: usize) -> ([&'a [f32]; ROWS], usize) {
        let row = |index: usize| (self.rows.0 + first + index).min(self.rows.1);
        match self.tiles {
            Some(tiles) => (std::array::from_fn(|index| tiles.of_row(row(index))), tiles.columns()),
            None => ([&[1.0]; ROWS], usize::MAX),
        }
    }
}

/// Where the rows of vector `part` of a strip begin. A short last strip reads its last row again in the lanes that it does not have.
#[inline(always)]
pub fn offsets<V: Vector>(stored: &[u8], row_bytes: usize, part: usize) -> [isize; LANES_MAX] {
    let last = stored.len() / row_bytes - 1;
    let mut offsets = [0; LANES_MAX];
    for (lane, offset) in offsets.iter_mut().enumerate() {
        *offset = ((part * V::LANES + lane).min(last) * row_bytes) as isize;
    }
    offsets
}

/// The same of a strip that is known to be whole. Then the compiler knows that the rows are equally far apart, and finds them from a few
/// registers instead of one for each.
#[inline(always)]
pub fn offsets_of_whole<V: Vector>(row_bytes: usize, part: usize) -> [isize; LANES_MAX] {
    let mut offsets = [0; LANES_MAX];
    for (lane, offset) in offsets.iter_mut().enumerate().take(V::LANES) {
        *offset = ((part * V::LANES + lane) * row_bytes) as isize;
    }
    offsets
}

/// One worker's unpacked weights.
pub struct Panel {
    /// Unsigned bytes: (vectors of rows, columns / 4, lanes, 4).
    pub bytes: Aligned<u8>,
    /// (vectors of rows, groups, lanes).
    pub scales: Aligned<f32>,
    /// The same.
    pub minimums: Aligned<f32>,
    /// Scales of blocks whose groups have whole ones: (vectors of rows, spans, lanes).
    pub blocks: Aligned<f32>,
    /// Weights for tile registers, as they are stored: (columns / 32, rows).
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX has tile registers"))]
    pub lines: Vec<Line>,
}

/// One worker's memory.
pub struct Scratch {
    pub panel: Panel,
    /// Sums of every token: (tokens, rows of a strip).
    pub sums: Aligned<f32>,
    /// Sums of another product of the same tokens and as many rows, held back.
    held: Aligned<f32>,
    /// What tile registers are written to: up to eight of sixteen rows.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX has tile registers"))]
    pub tiles: Vec<Line>,
    /// How the thread's tile registers are shaped at the moment: zeros if they are not.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX has tile registers"))]
    pub shape: Line,
}

/// A row of a tile register: sixteen words in a cache line of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u32; LANES_MAX]);

impl Line {
    /// Their words, one line after the other.
    pub fn words(lines: &[Self]) -> &[u32] {
        // SAFETY: a line is its words and nothing else.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LANES_MAX) }
    }

    /// Their numbers.
    pub fn floats(lines: &[Self]) -> &[f32] {
        // SAFETY: a line is its words and nothing else, and any bits make a number.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LANES_MAX) }
    }

    /// The same, to be written.
    pub fn floats_mut(lines: &mut [Self]) -> &mut [f32] {
        // SAFETY: as above, and any bits make a word.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES_MAX) }
    }

    /// Their signed bytes.
    pub fn bytes(lines: &[Self]) -> &[i8] {
        // SAFETY: a line is its bytes and nothing else, and any bits make a signed byte.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
    }

    /// The same, to be written.
    pub fn bytes_mut(lines: &mut [Self]) -> &mut [i8] {
        // SAFETY: as above, and any bytes make a line.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines)) }
    }

    /// The words, to be written.
    pub fn words_mut(lines: &mut [Self]) -> &mut [u32] {
        // SAFETY: as above, and any words make a line.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES_MAX) }
    }
}

impl Scratch {
    /// For batches of up to `tokens` tokens.
    pub fn new(tokens: usize) -> Self {
        let groups = CHUNK_MAX / 16 * LANES_MAX;
        let panel = Panel {
            bytes: Aligned::new(CHUNK_MAX * LANES_MAX),
            scales: Aligned::new(groups),
            minimums: Aligned::new(groups),
            blocks: Aligned::new(CHUNK_MAX / SPAN * LANES_MAX),
            lines: vec![Line([0; LANES_MAX]); LINES],
        };
        let sums = tokens.max(RUN) * LANES_MAX * STRIPS_MAX;
        Self {
            panel,
            sums: Aligned::new(sums),
            held: Aligned::new(sums),
            tiles: vec![Line([0; LANES_MAX]); 8 * LANES_MAX],
            shape: Line([0; LANES_MAX]),
        }
    }

    /// Holds the sums back for the product that follows.
    pub fn hold(&mut self) {
        std::mem::swap(&mut self.sums, &mut self.held);
    }
}

/// One product, as all workers see it.
pub struct Product<'a> {
    /// The matrix's stored bytes.
    pub matrix: &'a [u8],
    /// Its rows.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
    /// What its values are multiplied with, of a type that has that apart for tiles.
    pub scales: Option<&'a Tiled>,
    /// The activations.
    pub x: &'a Activations,
    /// Those of them that it is a product with.
    pub tokens: Rows,
    /// What the thread reads behind the strips, where that is not what lies behind them.
    pub then: Option<Place>,
    /// What becomes of the sums; nothing if they are to be held back.
    pub output: Option<(&'a Output<'a>, Finisher)>,
}

impl<'a> Product<'a> {
    /// The scales of some rows.
    pub fn scales(&self, rows: &Range<usize>) -> RowScales<'a> {
        RowScales { tiles: self.scales, rows: (rows.start, rows.end - 1) }
    }
}

/// [`finish`], compiled for an instruction set.
pub type Finisher = unsafe fn(&Output<'_>, &Range<usize>, Tile, &Scratch);

/// [`tiles`], compiled for an instruction set.
pub type Meeter = unsafe fn(&Product<'_>, &Part, Ahead, &mut Scratch);

/// Some unpacked columns of a strip.
pub struct Part {
    /// How the weights take activations.
    pub packing: Packing,
    /// The first column.
    pub start: usize,
    /// How many.
    pub columns: usize,
    /// The strip's rows.
    pub rows: Range<usize>,
    /// Whether sums are complete with it, and go from registers where they belong.
    pub at_once: bool,
}

/// Rows of a strip.
pub const fn height<V: Vector, M: Fill<V>>() -> usize {
    V::LANES * M::Tiles::STRIPS
}

/// Computes the sums of the rows of some strips for all tokens; `meet` is [`tiles`] of what `M` unpacks to.
///
/// # Safety
/// The CPU has the instructions of `V` and of the output's finisher; `product.matrix` holds `rows` rows of the type of `M`; no other
/// worker writes the rows of these strips.
///
/// # Panics
/// If there are several, and more than [`RUN`], or not whole ones, or several tokens.
#[inline(always)]
pub unsafe fn strips<V: Vector, M: Multiply<V>>(
    product: &Product<'_>,
    strips: Range<usize>,
    scratch: &mut Scratch,
    meet: Meeter,
) {
    let rows = strips.start * height::<V, M>()..product.rows.min(strips.end * height::<V, M>());
    let tokens = product.tokens.tokens;
    let tile = product.tokens.tile_of(product.tokens.first, M::Tiles::TOKENS);
    let meets = tokens == 1 || tokens <= M::DIRECT && product.columns.is_multiple_of(M::DIRECT_COLUMNS);
    let is_direct = meets && tile.width == tokens && rows.len() == strips.len() * height::<V, M>();
    assert!(strips.len() == 1 || strips.len() <= RUN && tokens == 1 && is_direct, "strips {strips:?} together");
    // SAFETY: the caller's contract is the same.
    unsafe {
        match tokens {
            1 if is_direct => direct_of::<V, M, 1>(product, strips, tile, scratch),
            2 if is_direct => direct_of::<V, M, 2>(product, strips, tile, scratch),
            3 if is_direct => direct_of::<V, M, 3>(product, strips, tile, scratch),
            4 if is_direct => direct_of::<V, M, 4>(product, strips, tile, scratch),
            5 if is_direct => direct_of::<V, M, 5>(product, strips, tile, scratch),
            6 if is_direct => direct_of::<V, M, 6>(product, strips, tile, scratch),
            8 if is_direct => direct_of::<V, M, DIRECT_MAX>(product, strips, tile, scratch),
            _ => parts::<V, M>(product, strips.start, scratch, meet),
        }
    }
}

/// [`direct`] of as many vectors of rows as `M` computes together.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn direct_of<V: Vector, M: Multiply<V>, const T: usize>(
    product: &Product<'_>,
    strips: Range<usize>,
    tile: Tile,
    scratch: &mut Scratch,
) {
    if const { T > M::DIRECT } {
        unreachable!("{T} tokens without a panel");
    }
    // SAFETY: the caller's contract is the same.
    unsafe {
        match M::Tiles::STRIPS {
            1 => direct::<V, M, 1, T>(product, strips, tile, scratch),
            2 => direct::<V, M, 2, T>(product, strips, tile, scratch),
            4 => direct::<V, M, 4, T>(product, strips, tile, scratch),
            other => unreachable!("{other} strips"),
        }
    }
}

/// The rows of strip number `strip`, and where they are stored.
#[inline(always)]
fn rows_of<'a, V: Vector, M: Fill<V>>(product: &Product<'a>, strip: usize) -> (Range<usize>, &'a [u8]) {
    let row_bytes = M::row_bytes(product.columns);
    let first = strip * height::<V, M>();
    let rows = first..product.rows.min(first + height::<V, M>());
    let stored = &product.matrix[rows.start * row_bytes..rows.end * row_bytes];
    (rows, stored)
}

/// [`strips`] by parts that are unpacked to a panel, for any number of tokens.
///
/// # Safety
/// As [`strips`].
#[inline(always)]
pub unsafe fn parts<V: Vector, M: Fill<V>>(product: &Product<'_>, strip: usize, scratch: &mut Scratch, meet: Meeter) {
    let row_bytes = M::row_bytes(product.columns);
    let (rows, stored) = rows_of::<V, M>(product, strip);
    let tokens = product.tokens.tokens;
    let most = if tokens > FEW { M::COLUMNS } else { M::COLUMNS_FOR_FEW };
    let mut start = 0;
    while start < product.columns {
        let columns = most.min(product.columns - start);
        let at_once = M::Tiles::AT_ONCE
            && start + columns == product.columns
            && product.output.is_some_and(|(output, _)| output.is_plain(&rows));
        let part = Part { packing: M::PACKING, start, columns, rows: rows.clone(), at_once };
        // As much of the next strip as is computed of this one.
        let bytes = [start, start + columns].map(|columns| M::row_bytes(columns) * height::<V, M>());
        let ahead = Ahead::during::<V>((stored, bytes[0]..bytes[1]), row_bytes * height::<V, M>(), product.then);
        let ahead = if tokens > ENOUGH { ahead.once() } else { ahead };
        let (while_filling, time) = match tokens {
            _ if !V::ASKS_FILLING => (0, 1),
            2..=ENOUGH => (M::FILLING, M::FILLING + tokens),
            _ if M::FILLING == 0 => (0, tokens),
            _ => (1, 1),
        };
        // SAFETY: the rows hold the columns, and the panel has room for them; the rest is the caller's contract.
        unsafe {
            let now = ahead.share::<V>(0..while_filling, time);
            M::fill(stored, row_bytes, start..start + columns, now, &mut scratch.panel);
            meet(product, &part, ahead.share::<V>(while_filling..time, time), scratch);
        }
        start += columns;
    }
}

/// Computes all tokens, which are few, without a panel.
///
/// # Safety
/// As [`strips`]; `M` computes `R` vectors of rows together, the strips have all their rows, and meet the `T` tokens of the tile without a
/// panel.
#[inline(always)]
unsafe fn direct<V: Vector, M: Multiply<V>, const R: usize, const T: usize>(
    product: &Product<'_>,
    strips: Range<usize>,
    tile: Tile,
    scratch: &mut Scratch,
) {
    let row_bytes = M::row_bytes(product.columns);
    let strip_bytes = row_bytes * height::<V, M>();
    // A turn, and half the next where the first-level cache has room for them.
    let turn_bytes = strip_bytes / M::TURNS;
    let distance_bytes = match V::NEAR {
        true if strip_bytes <= NEAR_BYTES => turn_bytes + turn_bytes / 2,
        true => turn_bytes,
        false => strip_bytes,
    };
    for strip in strips.clone() {
        let (rows, stored) = rows_of::<V, M>(product, strip);
        let then = product.then.filter(|_| strip + 1 == strips.end);
        let ahead = Ahead::during::<V>((stored, 0..strip_bytes), distance_bytes, then);
        // SAFETY: sums of the strips lie in the scratch; the rest is the caller's contract.
        unsafe {
            let total = M::few::<R, T>(stored, row_bytes, product.scales(&rows), product.x, tile, ahead, scratch);
            let sums = T * R * V::LANES;
            let at = scratch.sums[(strip - strips.start) * sums..][..sums].as_mut_ptr();
            for r in 0..R {
                for t in 0..T {
                    V::store(total[r][t], at.add((t * R + r) * V::LANES));
                }
            }
        }
    }
    if let Some((output, finish)) = product.output {
        // SAFETY: the caller's contract is the same.
        unsafe { finish(output, &(strips.start * height::<V, M>()..strips.end * height::<V, M>()), tile, scratch) };
    }
}

/// Adds the products of unpacked columns with all tokens.
///
/// # Safety
/// As [`strips`]; the panel is filled with the part.
#[inline(always)]
pub unsafe fn tiles<V: Vector, M: Tiles<V>>(product: &Product<'_>, part: &Part, ahead: Ahead, scratch: &mut Scratch) {
    let rows = product.tokens;
    let shares = ahead.shares::<V>(rows.tokens);
    for at in rows.tiles(M::TOKENS) {
        let ahead = shares.of::<V>(at.token - rows.first..at.token - rows.first + at.width);
        let output = product.output.filter(|_| part.start + part.columns == product.columns);
        // SAFETY: the caller's contract is the same.
        unsafe {
            if let Some((output, _)) = output {
                output.ask::<V>(&part.rows, at);
            }
            M::tile(product, part, at, ahead, scratch);
        }
        if let Some((output, finish)) = output.filter(|_| !part.at_once) {
            // SAFETY: the tile's sums are computed; the CPU has the instructions of `V`, and the caller compiled both for it.
            unsafe { finish(output, &part.rows, at, scratch) };
        }
    }
}

/// [`Tiles::tile`], a few tokens at a time: as many as the registers have room for, the rest by powers of two.
///
/// # Safety
/// As [`Tiles::tile`].
#[inline(always)]
pub unsafe fn in_registers<V: Vector, M: InRegisters<V>>(
    product: &Product<'_>,
    part: &Part,
    tile: Tile,
    ahead: Ahead,
    scratch: &mut Scratch,
) {
    let mut first = 0;
    while first < tile.width {
        let left = tile.width - first;
        let count = match left {
            // Six and two would leave two sums that wait for each other.
            8 if V::TOKENS == 6 => const { if M::EIGHT { 8 } else { 4 } },
            _ if left >= V::TOKENS => V::TOKENS,
            _ => 1 << left.ilog2(),
        };
        let ahead = if count == tile.width { ahead } else { ahead.share::<V>(first..first + count, tile.width) };
        let few = (tile, first, ahead);
        // SAFETY: the caller's contract is the same, and the tile has so many tokens from there on.
        unsafe {
            match (M::STRIPS, count) {
                (1, 8) => tokens::<V, M, 1, 8>(product, part, few, scratch),
                (1, 6) => tokens::<V, M, 1, 6>(product, part, few, scratch),
                (1, 4) => tokens::<V, M, 1, 4>(product, part, few, scratch),
                (1, 2) => tokens::<V, M, 1, 2>(product, part, few, scratch),
                (1, 1) => tokens::<V, M, 1, 1>(product, part, few, scratch),
                (2, 8) => tokens::<V, M, 2, 8>(product, part, few, scratch),
                (2, 6) => tokens::<V, M, 2, 6>(product, part, few, scratch),
                (2, 4) => tokens::<V, M, 2, 4>(product, part, few, scratch),
                (2, 2) => tokens::<V, M, 2, 2>(product, part, few, scratch),
                (2, 1) => tokens::<V, M, 2, 1>(product, part, few, scratch),
                (4, 6) => tokens::<V, M, 4, 6>(product, part, few, scratch),
                (4, 4) => tokens::<V, M, 4, 4>(product, part, few, scratch),
                (4, 2) => tokens::<V, M, 4, 2>(product, part, few, scratch),
                (4, 1) => tokens::<V, M, 4, 1>(product, part, few, scratch),
                other => unreachable!("strips and tokens: {other:?}"),
            }
        }
        first += count;
    }
}

/// Adds the products of `R` times `LANES` rows of unpacked columns with `T` tokens of a tile, from its token number `first` on.
///
/// # Safety
/// As [`in_registers`]; the tile has so many tokens, and `M::STRIPS` is `R`.
#[inline(always)]
unsafe fn tokens<V: Vector, M: InRegisters<V>, const R: usize, const T: usize>(
    product: &Product<'_>,
    part: &Part,
    (tile, first, ahead): (Tile, usize, Ahead),
    scratch: &mut Scratch,
) {
    let input = M::input(product.x, part.packing, part.start..part.start + part.columns, tile, first);
    let height = R * V::LANES;
    let at = scratch.sums[(tile.token + first - product.tokens.first) * height..][..T * height].as_mut_ptr();
    // Loops, not closures: a closure is compiled without the instruction set of the function around it.
    // SAFETY: sums of all rows and tokens lie in the slice; the rest is the caller's contract.
    unsafe {
        let mut total = [[V::float(0.0); T]; R];
        if part.start > 0 {
            for r in 0..R {
                for t in 0..T {
                    total[r][t] = V::load(at.add((t * R + r) * V::LANES));
                }
            }
        }
        M::add(part, &scratch.panel, &input, ahead, &mut total);
        if part.at_once
            && let Some((output, _)) = product.output
        {
            return output.put::<V, R, T>(&part.rows, Tile { token: tile.token + first, width: T }, &total);
        }
        for r in 0..R {
            for t in 0..T {
                V::store(total[r][t], at.add((t * R + r) * V::LANES));
            }
        }
    }
}

/// What becomes of the sums of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finish {
    /// They are written.
    Store,
    /// They are added to what is there, times a factor.
    Add(f32),
    /// The activation of them is written.
    Activate(Activation),
    /// The activation of the sums held back, times them, is written.
    Gate(Activation),
}

/// Where the sums of a product go.
pub struct Output<'a> {
    /// What becomes of them.
    pub finish: Finish,
    /// What sums are multiplied with first, and those held back.
    pub factors: [f32; 2],
    /// Added to each row.
    pub bias: Option<&'a [f32]>,
    /// Added to each row of the product held back.
    pub held_bias: Option<&'a [f32]>,
    /// Rows of the product.
    pub rows: usize,
    /// Rows of the strip, or strips, whole.
    pub height: usize,
    /// The first token of the product.
    pub first: usize,
    /// Where it goes; the others follow.
    pub to: usize,
    /// (tokens, rows).
    pub out: &'a Disjoint<'a, f32>,
}

impl Output<'_> {
    /// Whether what becomes of the sums of a strip is so little that it is done while they are in registers.
    fn is_plain(&self, rows: &Range<usize>) -> bool {
        match self.finish {
            Finish::Store | Finish::Add(_) => rows.len() == self.height,
            Finish::Activate(_) | Finish::Gate(_) => false,
        }
    }

    /// Takes the sums of one tile of a whole strip where they belong, which are [plain](Self::is_plain).
    ///
    /// # Safety
    /// As [`finish`].
    #[inline(always)]
    unsafe fn put<V: Vector, const R: usize, const T: usize>(
        &self,
        rows: &Range<usize>,
        tile: Tile,
        sums: &[[V::Float; T]; R],
    ) {
        let places = self.place(rows, tile);
        // SAFETY: biases have a value for every row, and places are those of the tile and of whole vectors; the rest is the caller's
        // contract.
        unsafe {
            let factor = V::float(self.factors[0]);
            for r in 0..R {
                let bias = part_of::<V>(self.bias, rows.start + r * V::LANES, V::LANES);
                let place = places.add(r * V::LANES);
                match self.finish {
                    Finish::Store => {
                        for t in 0..T {
                            V::store(V::mul_add(sums[r][t], factor, bias), place.add(t * self.rows));
                        }
                    }
                    Finish::Add(scale) => {
                        for t in 0..T {
                            let (sum, place) = (V::mul_add(sums[r][t], factor, bias), place.add(t * self.rows));
                            V::store(V::mul_add(sum, V::float(scale), V::load(place)), place);
                        }
                    }
                    Finish::Activate(_) | Finish::Gate(_) => unreachable!("sums that are not plain"),
                }
            }
        }
    }

    /// Where `rows` of the first token of a tile go; those of each other token are so many values behind the one before as the product has
    /// rows.
    ///
    /// # Panics
    /// If there is no room for them.
    #[inline(always)]
    fn place(&self, rows: &Range<usize>, tile: Tile) -> *mut f32 {
        let token = self.to + tile.token - self.first;
        let last = (token + tile.width - 1) * self.rows;
        self.out.place(token * self.rows + rows.start..last + rows.end)
    }

    /// Asks for where the sums of a tile will go, before it is computed: what many tokens write is more than a cache holds, and a core
    /// waits for a line that it has not got even to write all of it.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn ask<V: Vector>(&self, rows: &Range<usize>, tile: Tile) {
        let mut place = self.place(rows, tile);
        for _ in 0..tile.width {
            for row in (0..rows.len()).step_by(LINE / size_of::<f32>()) {
                // SAFETY: the caller's contract is the same; an address may lie anywhere.
                unsafe { V::prefetch(place.wrapping_add(row).cast()) };
            }
            place = place.wrapping_add(self.rows);
        }
    }
}

/// Takes the sums of one tile and one strip, of which the matrix has `rows`, where they belong.
///
/// # Safety
/// The CPU has the instructions of `V`; the sums are computed; no other worker writes these rows.
#[inline(always)]
pub unsafe fn finish<V: Vector>(output: &Output<'_>, rows: &Range<usize>, tile: Tile, scratch: &Scratch) {
    // Everything is checked for all tokens at once: what a vector takes here, products wait for.
    let tokens = tile.token - output.first..tile.token - output.first + tile.width;
    let sums = tokens.start * output.height..tokens.end * output.height;
    let (sums, held) = (&scratch.sums[sums.clone()], &scratch.held[sums]);
    let places = output.place(rows, tile);
    assert!(rows.len() <= output.height && output.height.is_multiple_of(V::LANES), "rows of a strip");
    for row in (0..rows.len()).step_by(V::LANES) {
        let count = V::LANES.min(rows.len() - row);
        // SAFETY: biases have a value for every row; sums and places are those of the tile, whole vectors of sums; the rest is the
        // caller's contract.
        unsafe {
            let [factor, held_factor] = [V::float(output.factors[0]), V::float(output.factors[1])];
            let bias = part_of::<V>(output.bias, rows.start + row, count);
            let held_bias = part_of::<V>(output.held_bias, rows.start + row, count);
            for token in 0..tile.width {
                let at = token * output.height + row;
                let sum = V::mul_add(V::load(sums.as_ptr().add(at)), factor, bias);
                let place = places.add(token * output.rows + row);
                let value = match output.finish {
                    Finish::Store => sum,
                    Finish::Add(scale) => {
                        let before = load_some::<V>(std::slice::from_raw_parts(place, count));
                        V::mul_add(sum, V::float(scale), before)
                    }
                    Finish::Activate(activation) => elementwise::curve::<V>(activation, sum),
                    Finish::Gate(activation) => {
                        let gate = V::mul_add(V::load(held.as_ptr().add(at)), held_factor, held_bias);
                        elementwise::gated::<V>(activation, gate, sum)
                    }
                };
                if count == V::LANES {
                    V::store(value, place);
                } else {
                    let mut lanes = [0.0; LANES_MAX];
                    V::store(value, lanes.as_mut_ptr());
                    std::slice::from_raw_parts_mut(place, count).copy_from_slice(&lanes[..count]);
                }
            }
        }
    }
}

/// `count` values of a vector from `row` on, or zeros.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn part_of<V: Vector>(values: Option<&[f32]>, row: usize, count: usize) -> V::Float {
    // SAFETY: the caller's contract is the same.
    unsafe {
        match values {
            Some(values) => load_some::<V>(&values[row..row + count]),
            None => V::float(0.0),
        }
    }
}

/// A vector that begins with these values, at most `LANES`.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn load_some<V: Vector>(values: &[f32]) -> V::Float {
    // SAFETY: the slice or the array holds a vector; the rest is the caller's contract.
    unsafe {
        if values.len() == V::LANES {
            return V::load(values.as_ptr());
        }
        let mut lanes = [0.0; LANES_MAX];
        lanes[..values.len()].copy_from_slice(values);
        V::load(lanes.as_ptr())
    }
}
