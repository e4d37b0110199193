//! Products of brain floating-point weights by tiles: rows are taken as they are stored, and meet activations that are three such numbers
//! each, so that no digit of them is lost, or the first of the three alone, which is the activation rounded.
//!
//! A register adds up all columns of its rows and tokens by itself, each sum in the order of the columns, however many tokens there are: one
//! token or a thousand, the same bits. One has the products of the first thirds, another those of the rest, which are two hundred times
//! smaller; where there are first ones only, one has every other 32 columns, another those between, since a product has to wait for the one
//! before it in its register, and takes longer than it keeps the pipe.

use std::arch::asm;
use std::arch::x86_64::{
    __m512, __m512i, _MM_HINT_T0, _mm_prefetch, _mm256_storeu_si256, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512,
    _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cvtepi64_epi32, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_or_si512, _mm512_permutex2var_ps, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setzero_ps,
    _mm512_srli_epi32, _mm512_srli_epi64, _mm512_storeu_ps, _mm512_sub_ps,
};
use std::ops::Range;

use crate::activation::{Activations, THIRDS, Tile, Writer, thirds};
use crate::aligned::in_whole_lines;
use crate::detect::{Packing, Strips};
use crate::product::{
    self, Ahead, Fill, LANES_MAX, LINES, Line, Multiply, Panel, Part, Product, RowScales, Scratch, Tiles,
};
use crate::vector::Vector;

use super::{BRAINS, Beside, PAIRS, ROW_BYTES, ROWS, Shape};

/// Vectors of rows of a strip.
const PARTS: usize = 2;
/// Tokens of a register.
const TOKENS: usize = 16;
/// Columns that are added up in registers before they are added to the sums: 64 KiB of weights. With half of that the first-level cache
/// would hold them, but registers be emptied twice as often, which costs more.
const CHUNK: usize = LINES / (PARTS * ROWS) * BRAINS;

/// Weights as they are stored, with the first so many thirds of activations: one or all.
struct Brains<const TAKEN: usize>;

/// The products of such weights.
pub const fn strips<const TAKEN: usize>() -> Strips {
    let packing = Packing::Thirds(TAKEN);
    Strips { rows: PARTS * LANES_MAX, tokens: TOKENS, run: run::<TAKEN>, together: product::RUN, packing }
}

/// # Safety
/// The CPU has AMX; the rest as [`product::strips`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn run<const TAKEN: usize>(product: &Product<'_>, strips: Range<usize>, scratch: &mut Scratch) {
    in_whole_lines!();
    // SAFETY: the caller's contract is the same.
    unsafe {
        product::strips::<Beside, Brains<TAKEN>>(product, strips, scratch, tiles::<TAKEN>);
    }
}

/// # Safety
/// The CPU has AMX; the rest as [`product::tiles`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn tiles<const TAKEN: usize>(product: &Product<'_>, part: &Part, ahead: Ahead, scratch: &mut Scratch) {
    in_whole_lines!();
    // SAFETY: the caller's contract is the same.
    unsafe { product::tiles::<Beside, Brains<TAKEN>>(product, part, ahead, scratch) };
}

impl<const TAKEN: usize> Fill<Beside> for Brains<TAKEN> {
    type Tiles = Self;
    const PACKING: Packing = Packing::Thirds(TAKEN);
    const COLUMNS: usize = CHUNK;
    const COLUMNS_FOR_FEW: usize = CHUNK;
    const FILLING: usize = 0;

    fn row_bytes(columns: usize) -> usize {
        columns * 2
    }

    /// Nothing is unpacked: rows are copied with the first tile of tokens, where there are others.
    #[inline(always)]
    unsafe fn fill(_: &[u8], _: usize, _: Range<usize>, _: Ahead, _: &mut Panel) {}
}

impl<const TAKEN: usize> Multiply<Beside> for Brains<TAKEN> {
    const TURNS: usize = 1;

    #[inline(always)]
    unsafe fn few<const R: usize, const T: usize>(
        stored: &[u8],
        row_bytes: usize,
        _: RowScales<'_>,
        x: &Activations,
        tile: Tile,
        ahead: Ahead,
        scratch: &mut Scratch,
    ) -> [[__m512; T]; R] {
        assert!(T == 1, "the only token");
        let tiles = &mut scratch.tiles[..4 * ROWS];
        let mut total = [[0.0; LANES_MAX]; R];
        let (columns, chunks) = (row_bytes / 2, (row_bytes / 2).div_ceil(CHUNK));
        // SAFETY: the caller's contract is the same; a vector is sixteen lanes.
        unsafe {
            registers(stored.len() / row_bytes, 1).take_for(&mut scratch.shape);
            for chunk in 0..chunks {
                let columns = chunk * CHUNK..columns.min((chunk + 1) * CHUNK);
                let ahead = ahead.share::<Beside>(chunk..chunk + 1, chunks);
                meet::<TAKEN>(&Weights::stored(stored, row_bytes, &columns), columns, x, tile, ahead, tiles);
                for (r, total) in total.iter_mut().enumerate() {
                    for (lane, total) in total.iter_mut().enumerate() {
                        let [first, rest] = [0, 1].map(|of| f32::from_bits(tiles[(2 * r + of) * ROWS + lane].0[0]));
                        *total = if chunk == 0 { first + rest } else { *total + (first + rest) };
                    }
                }
            }
            total.map(|total| [Beside::load(total.as_ptr()); T])
        }
    }
}

impl<const TAKEN: usize> Tiles<Beside> for Brains<TAKEN> {
    const STRIPS: usize = PARTS;
    const TOKENS: usize = TOKENS;

    #[inline(always)]
    unsafe fn tile(product: &Product<'_>, all: &Part, tile: Tile, ahead: Ahead, scratch: &mut Scratch) {
        let row_bytes = <Self as Fill<Beside>>::row_bytes(product.columns);
        let stored = &product.matrix[all.rows.start * row_bytes..all.rows.end * row_bytes];
        let height = PARTS * LANES_MAX;
        let first = (tile.token - product.tokens.first) * height;
        let sums = &mut scratch.sums[first..first + tile.width * height];
        let columns = all.start..all.start + all.columns;
        let mut weights = Weights::stored(stored, row_bytes, &columns);
        // SAFETY: the caller's contract is the same; sums are whole vectors.
        unsafe {
            if product.tokens.tokens > TOKENS {
                let panel = &mut scratch.panel.lines;
                if tile.token == product.tokens.first {
                    weights.copy(columns.len(), panel);
                }
                weights = Weights::copied(panel, weights.rows);
            }
            registers(weights.rows, tile.width).take_for(&mut scratch.shape);
            meet::<TAKEN>(&weights, columns, product.x, tile, ahead, &mut scratch.tiles);
            for part in 0..PARTS {
                let rows = turned(&scratch.tiles[2 * part * ROWS..][..2 * ROWS]);
                for (sums, row) in sums.chunks_exact_mut(height).zip(rows) {
                    let place = sums[part * LANES_MAX..][..LANES_MAX].as_mut_ptr();
                    let sum = if all.start > 0 { _mm512_add_ps(_mm512_loadu_ps(place), row) } else { row };
                    _mm512_storeu_ps(place, sum);
                }
            }
        }
    }
}

/// Where weights lie that are read into tile registers.
struct Weights {
    start: *const u8,
    /// From one row to the next.
    row_bytes: usize,
    /// From the columns of one register to those of the next.
    step_bytes: usize,
    /// One to 32.
    rows: usize,
}

impl Weights {
    /// Some columns of rows of `row_bytes` bytes, where they are stored.
    ///
    /// # Panics
    /// If there are no such columns.
    fn stored(stored: &[u8], row_bytes: usize, columns: &Range<usize>) -> Self {
        assert!(2 * columns.end <= row_bytes && row_bytes <= stored.len(), "columns of a row");
        let start = stored[2 * columns.start..].as_ptr();
        Self { start, row_bytes, step_bytes: ROW_BYTES, rows: stored.len() / row_bytes }
    }

    /// What [`Self::copy`] has copied of so many rows.
    fn copied(panel: &[Line], rows: usize) -> Self {
        Self { start: panel.as_ptr().cast(), row_bytes: ROW_BYTES, step_bytes: PARTS * ROWS * ROW_BYTES, rows }
    }

    /// Copies so many columns of all rows to where those of a register lie side by side.
    ///
    /// # Panics
    /// If the panel has no room.
    ///
    /// # Safety
    /// The rows have so many columns from the start on.
    #[inline(always)]
    unsafe fn copy(&self, columns: usize, panel: &mut [Line]) {
        for (step, lines) in panel[..columns / BRAINS * PARTS * ROWS].chunks_exact_mut(PARTS * ROWS).enumerate() {
            for (row, line) in lines[..self.rows].iter_mut().enumerate() {
                // SAFETY: the row has the columns by the caller's word.
                unsafe {
                    let from = self.start.add(row * self.row_bytes + step * ROW_BYTES);
                    _mm512_storeu_ps(line.0.as_mut_ptr().cast(), _mm512_loadu_ps(from.cast()));
                }
            }
        }
    }
}

/// The registers of [`meet`].
fn registers(rows: usize, width: usize) -> Shape {
    // Those that have nothing to do have a row all the same.
    let (below, above) = (rows.min(ROWS), rows.saturating_sub(ROWS).max(1));
    let stride = width * size_of::<u32>();
    let (low_sums, high_sums, pairs) = ((below, stride), (above, stride), (PAIRS, stride));
    Shape::new([low_sums, low_sums, high_sums, high_sums, (below, ROW_BYTES), (above, ROW_BYTES), pairs, pairs])
}

/// Multiplies up to 32 rows with up to sixteen tokens: (vectors of rows, two sums, rows, tokens). The sums are of the first thirds and of the
/// others, or of the first thirds of every other step and of the steps between.
///
/// # Safety
/// `weights` has these columns, a whole number of 32; this thread has taken the [`registers`] of its rows and the tile's tokens.
#[inline(always)]
unsafe fn meet<const TAKEN: usize>(
    weights: &Weights,
    columns: Range<usize>,
    x: &Activations,
    tile: Tile,
    mut ahead: Ahead,
    tiles: &mut [Line],
) {
    let &Weights { start, row_bytes, step_bytes, rows } = weights;
    let tiles = tiles[..4 * ROWS].as_mut_ptr();
    let (steps, width) = (columns.len() / BRAINS, tile.width);
    let third = PAIRS * width;
    assert!(width <= TOKENS && rows <= 2 * ROWS, "rows and tokens fit");
    let x = &x.thirds(tile)[columns.start / BRAINS * THIRDS * third..][..steps * THIRDS * third];
    let (is_high, stride) = (rows > ROWS, width * size_of::<u32>());
    // SAFETY: registers have the shapes of what is loaded and stored: rows and tokens that are there, and lines of the array.
    unsafe {
        asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
        // A whole strip as it is stored, two steps of one half at a time: sixteen places of memory at once instead of 32.
        let in_pairs = if TAKEN == 1 && step_bytes == ROW_BYTES && rows == 2 * ROWS { steps / 2 } else { 0 };
        let each = ahead.each(PARTS * in_pairs + steps - 2 * in_pairs);
        for part in 0..PARTS {
            for pair in 0..in_pairs {
                let low = start.add(part * ROWS * row_bytes + 2 * pair * ROW_BYTES);
                pull(low.wrapping_add(2 * ROW_BYTES), row_bytes);
                ahead.ask::<Beside>(each);
                let first = x.as_ptr().add(2 * pair * THIRDS * third);
                two_firsts(part, [low, low.add(ROW_BYTES)], row_bytes, [first, first.add(THIRDS * third)], stride);
            }
        }
        for step in 2 * in_pairs..steps {
            ahead.ask::<Beside>(each);
            let low = start.add(step * step_bytes);
            let first = x.as_ptr().add(step * THIRDS * third);
            let step_of = Step { low, row_bytes, is_high, first, third, stride };
            if const { TAKEN == 1 } { step_of.firsts(step % 2 == 1) } else { step_of.thirds() }
        }
        asm!(
            "tilestored [{a} + {line}], tmm0",
            "tilestored [{b} + {line}], tmm1",
            "tilestored [{c} + {line}], tmm2",
            "tilestored [{d} + {line}], tmm3",
            a = in(reg) tiles, b = in(reg) tiles.add(ROWS), c = in(reg) tiles.add(2 * ROWS),
            d = in(reg) tiles.add(3 * ROWS), line = in(reg) ROW_BYTES, options(nostack)
        );
    }
}

/// Takes two lines of each of sixteen rows, which have been asked for into the second-level cache, to the first: a load of a tile waits for
/// each of its rows.
///
/// # Safety
/// The CPU has AMX.
#[inline(always)]
unsafe fn pull(low: *const u8, row_bytes: usize) {
    for row in 0..ROWS {
        let line = low.wrapping_add(row * row_bytes).cast::<i8>();
        // SAFETY: an address may lie anywhere.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line);
            _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(ROW_BYTES));
        }
    }
}

/// Adds the products of first thirds in an even step and in the one behind it to the two sums of a half of the rows.
///
/// # Safety
/// As [`Step::firsts`], of sixteen rows.
#[inline(always)]
unsafe fn two_firsts(part: usize, rows: [*const u8; 2], row_bytes: usize, firsts: [*const u32; 2], stride: usize) {
    macro_rules! add_to {
        ($even:literal, $odd:literal) => {
            asm!(
                "tileloadd tmm6, [{even} + {stride}]",
                "tileloadd tmm4, [{a} + {row_bytes}]",
                concat!("tdpbf16ps ", $even, ", tmm4, tmm6"),
                "tileloadd tmm7, [{odd} + {stride}]",
                "tileloadd tmm5, [{b} + {row_bytes}]",
                concat!("tdpbf16ps ", $odd, ", tmm5, tmm7"),
                a = in(reg) rows[0], b = in(reg) rows[1], row_bytes = in(reg) row_bytes,
                even = in(reg) firsts[0], odd = in(reg) firsts[1], stride = in(reg) stride, options(nostack, readonly)
            )
        };
    }
    // SAFETY: the caller's contract is the same.
    unsafe {
        if part == 0 {
            add_to!("tmm0", "tmm1");
        } else {
            add_to!("tmm2", "tmm3");
        }
    }
}

/// What is multiplied at once: 32 columns.
struct Step {
    /// The first sixteen rows.
    low: *const u8,
    row_bytes: usize,
    /// Whether there are more.
    is_high: bool,
    /// The first thirds of tokens.
    first: *const u32,
    /// From thirds to the next, in words.
    third: usize,
    /// From pair to pair of a third, in bytes.
    stride: usize,
}

impl Step {
    /// Adds the products of first thirds to one of the two sums.
    ///
    /// # Safety
    /// Registers have the shapes of what is there.
    #[inline(always)]
    unsafe fn firsts(&self, is_odd: bool) {
        let &Self { low, row_bytes, is_high, first, stride, .. } = self;
        // A register of rows that are not there has one row, any, whose sums nobody reads.
        let high = if is_high { low.wrapping_add(ROWS * row_bytes) } else { low };
        // SAFETY: the caller's contract is the same.
        unsafe {
            if is_odd {
                asm!(
                    "tileloadd tmm7, [{first} + {stride}]",
                    "tileloadd tmm4, [{low} + {row_bytes}]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{high} + {row_bytes}]",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    low = in(reg) low, high = in(reg) high, row_bytes = in(reg) row_bytes,
                    first = in(reg) first, stride = in(reg) stride, options(nostack, readonly)
                );
            } else {
                asm!(
                    "tileloadd tmm6, [{first} + {stride}]",
                    "tileloadd tmm4, [{low} + {row_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm5, [{high} + {row_bytes}]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    low = in(reg) low, high = in(reg) high, row_bytes = in(reg) row_bytes,
                    first = in(reg) first, stride = in(reg) stride, options(nostack, readonly)
                );
            }
        }
    }

    /// Adds those of first thirds to one sum and those of the others to the other.
    ///
    /// # Safety
    /// As [`Self::firsts`].
    #[inline(always)]
    unsafe fn thirds(&self) {
        let &Self { low, row_bytes, is_high, first, third, stride } = self;
        let (second, last) = (first.wrapping_add(third), first.wrapping_add(2 * third));
        // SAFETY: the caller's contract is the same.
        unsafe {
            if is_high {
                asm!(
                    "tileloadd tmm4, [{low} + {row_bytes}]",
                    "tileloadd tmm6, [{first} + {stride}]",
                    "tileloadd tmm5, [{high} + {row_bytes}]",
                    "tileloadd tmm7, [{second} + {stride}]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tileloadd tmm7, [{last} + {stride}]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    low = in(reg) low, high = in(reg) low.add(ROWS * row_bytes), row_bytes = in(reg) row_bytes,
                    first = in(reg) first, second = in(reg) second, last = in(reg) last, stride = in(reg) stride,
                    options(nostack, readonly)
                );
            } else {
                asm!(
                    "tileloadd tmm4, [{low} + {row_bytes}]",
                    "tileloadd tmm6, [{first} + {stride}]",
                    "tileloadd tmm7, [{second} + {stride}]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{last} + {stride}]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    low = in(reg) low, row_bytes = in(reg) row_bytes,
                    first = in(reg) first, second = in(reg) second, last = in(reg) last, stride = in(reg) stride,
                    options(nostack, readonly)
                );
            }
        }
    }
}

/// Adds the two sums of sixteen rows of sixteen tokens, (2, rows, tokens), and turns them: (tokens, rows).
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn turned(tile: &[Line]) -> [__m512; TOKENS] {
    /// Of two vectors that hold a square each of `side` lanes across, side by side in pairs: the even squares of both, or the odd ones.
    const fn squares(side: i32) -> [[i32; 16]; 2] {
        let mut places = [[0; 16]; 2];
        let mut lane = 0;
        while lane < 16 {
            let (square, inside) = (lane / side, lane % side);
            let place = square / 2 * 2 * side + inside + square % 2 * 16;
            places[0][lane as usize] = place;
            places[1][lane as usize] = place + side;
            lane += 1;
        }
        places
    }
    let (first, rest) = tile.split_at(ROWS);
    // SAFETY: tables and lines are sixteen words; the rest is the caller's contract.
    unsafe {
        let mut lines = [_mm512_setzero_ps(); TOKENS];
        for ((line, first), rest) in lines.iter_mut().zip(first).zip(rest) {
            *line = _mm512_add_ps(_mm512_loadu_ps(first.0.as_ptr().cast()), _mm512_loadu_ps(rest.0.as_ptr().cast()));
        }
        // Squares of one lane, of two, four and eight change places across the diagonal.
        lines = swapped::<1>(lines, &const { squares(1) });
        lines = swapped::<2>(lines, &const { squares(2) });
        lines = swapped::<4>(lines, &const { squares(4) });
        swapped::<8>(lines, &const { squares(8) })
    }
}

/// Changes squares of `SIDE` lanes across the diagonal of squares twice as wide.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn swapped<const SIDE: usize>(lines: [__m512; TOKENS], places: &[[i32; 16]; 2]) -> [__m512; TOKENS] {
    let mut swapped = lines;
    for line in 0..TOKENS {
        if line & SIDE == 0 {
            let (a, b) = (lines[line], lines[line + SIDE]);
            // SAFETY: the caller's contract is the same.
            unsafe {
                swapped[line] = pick(a, b, &places[0]);
                swapped[line + SIDE] = pick(a, b, &places[1]);
            }
        }
    }
    swapped
}

/// The lanes at `places` of two vectors, of which the second's begin at 16.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn pick(a: __m512, b: __m512, places: &[i32; 16]) -> __m512 {
    // SAFETY: sixteen words are read; the rest is the caller's contract.
    unsafe { _mm512_permutex2var_ps(a, _mm512_loadu_si512(places.as_ptr().cast()), b) }
}

/// [`Writer::split`] in vectors, for rows of whole groups of 32 values; the same values, those that are no numbers apart.
///
/// # Safety
/// No other use of the row of `token`; the CPU has the instructions of [`Beside`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn split(writer: &Writer<'_>, tile: Tile, token: usize, x: &[f32], count: usize) {
    const EIGHT: usize = 8;
    in_whole_lines!();
    let (whole, rest) = x.as_chunks::<{ 2 * EIGHT }>();
    for (index, x) in whole.iter().enumerate() {
        // SAFETY: the places of eight pairs, in use once by the caller's word.
        unsafe {
            let mut left = _mm512_loadu_ps(x.as_ptr());
            for third in 0..count {
                let place = writer.place_of_thirds(tile, token, third, EIGHT * index, EIGHT);
                let near = rounded(left);
                left = _mm512_sub_ps(left, _mm512_castsi512_ps(near));
                let mut words = [0u32; EIGHT];
                _mm256_storeu_si256(words.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(words_of(near)));
                for (pair, word) in words.into_iter().enumerate() {
                    *place.add(pair * tile.width) = word;
                }
            }
        }
    }
    for (pair, &values) in rest.as_chunks().0.iter().enumerate() {
        for (third, word) in thirds(values).into_iter().enumerate().take(count) {
            // SAFETY: the row is in use once by the caller's word.
            unsafe { *writer.place_of_thirds(tile, token, third, EIGHT * whole.len() + pair, 1) = word };
        }
    }
}

/// The nearest brain floating-point numbers, to even between two, as the bits of `f32`.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn rounded(x: __m512) -> __m512i {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let bits = _mm512_castps_si512(x);
        let is_odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let raised = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), is_odd);
        _mm512_and_si512(raised, _mm512_set1_epi32(0xffff_0000_u32 as i32))
    }
}

/// The high halves of two neighbouring words, in the lower one's place.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn words_of(bits: __m512i) -> __m512i {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let (first, second) = (_mm512_srli_epi64::<16>(bits), _mm512_srli_epi64::<32>(bits));
        let low = _mm512_and_si512(first, _mm512_set1_epi64(0xffff));
        _mm512_or_si512(low, _mm512_and_si512(second, _mm512_set1_epi64(0xffff_0000)))
    }
}
