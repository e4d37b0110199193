//! Products of brain floating-point weights by tiles: rows are taken as they are stored, and meet activations that are two such numbers
//! each, so that hardly a digit of them is lost.
//!
//! A register adds up all columns of its rows and tokens by itself, each sum in the order of the columns, however many tokens there are: one
//! token or a thousand, the same bits.

use std::arch::asm;
use std::arch::x86_64::{
    __m512, __m512i, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_or_si512, _mm512_permutex2var_ps, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_setzero_ps, _mm512_slli_epi64, _mm512_srli_epi32, _mm512_srli_epi64, _mm512_storeu_ps, _mm512_storeu_si512,
    _mm512_sub_ps,
};
use std::ops::Range;

use crate::activation::{Activations, Tile, Writer, halves};
use crate::detect::{Packing, Strips};
use crate::product::{self, Ahead, LANES_MAX, Line, Multiply, Panel, Part, Product, Scratch, Tiles};
use crate::vector::Vector;
use crate::x86_64::avx512::Avx512;

use super::{BRAINS, ROW_BYTES, ROWS, Shape, release};

/// Vectors of rows of a strip.
const PARTS: usize = 2;
/// Tokens of a register: two halves each.
const EIGHT: usize = 8;

/// Weights as they are stored.
struct Brains;

/// The products of such weights.
pub const STRIPS: Strips = Strips { rows: PARTS * LANES_MAX, tokens: 2 * EIGHT, run: strip, packing: Packing::Halves };

/// # Safety
/// The CPU has AMX; the rest as [`product::strip`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn strip(product: &Product<'_>, number: usize, scratch: &mut Scratch) {
    // SAFETY: the caller's contract is the same.
    unsafe {
        product::strip::<Avx512, Brains>(product, number, scratch, tiles);
        release();
    }
}

/// # Safety
/// The CPU has AMX; the rest as [`product::tiles`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn tiles(product: &Product<'_>, part: &Part, ahead: Ahead, scratch: &mut Scratch) {
    // SAFETY: the caller's contract is the same.
    unsafe { product::tiles::<Avx512, Brains>(product, part, ahead, scratch) };
}

impl Multiply<Avx512> for Brains {
    type Tiles = Self;
    const PACKING: Packing = Packing::Halves;
    // There is no panel to fill.
    const COLUMNS: usize = usize::MAX;
    const COLUMNS_FOR_FEW: usize = usize::MAX;

    fn row_bytes(columns: usize) -> usize {
        columns * 2
    }

    #[inline(always)]
    unsafe fn fill(_: &[u8], _: usize, _: Range<usize>, _: Ahead, _: &mut Panel) {}

    #[inline(always)]
    unsafe fn single<const R: usize>(
        stored: &[u8],
        row_bytes: usize,
        x: &Activations,
        tile: Tile,
        ahead: Ahead,
    ) -> [__m512; R] {
        let mut tiles = [Line([0; LANES_MAX]); 4 * ROWS];
        // SAFETY: the caller's contract is the same.
        unsafe {
            meet(stored, row_bytes, x.halves(tile), 1, ahead, &mut tiles);
            let mut total = [Avx512::float(0.0); R];
            for r in 0..R {
                total[r] = turned(&tiles[2 * r * ROWS..][..ROWS])[0];
            }
            total
        }
    }
}

impl Tiles<Avx512> for Brains {
    const STRIPS: usize = PARTS;
    const TOKENS: usize = 2 * EIGHT;

    #[inline(always)]
    unsafe fn tile(product: &Product<'_>, all: &Part, tile: Tile, ahead: Ahead, scratch: &mut Scratch) {
        let row_bytes = <Self as Multiply<Avx512>>::row_bytes(product.columns);
        let stored = &product.matrix[all.rows.start * row_bytes..all.rows.end * row_bytes];
        let height = PARTS * LANES_MAX;
        let first = (tile.token - product.tokens.first) * height;
        let sums = &mut scratch.sums[first..first + tile.width * height];
        // SAFETY: the caller's contract is the same.
        unsafe {
            meet(stored, row_bytes, product.x.halves(tile), tile.width, ahead, &mut scratch.tiles);
            for part in 0..PARTS {
                for (eight, sums) in sums.chunks_mut(EIGHT * height).enumerate() {
                    let rows = turned(&scratch.tiles[(2 * part + eight) * ROWS..][..ROWS]);
                    for (sums, row) in sums.chunks_exact_mut(height).zip(rows) {
                        _mm512_storeu_ps(sums[part * LANES_MAX..][..LANES_MAX].as_mut_ptr(), row);
                    }
                }
            }
        }
    }
}

/// Multiplies up to 32 rows with up to sixteen tokens: (vectors of rows, eights of tokens, rows, (tokens, 2)).
///
/// # Safety
/// `stored` holds one row to 32 rows of `row_bytes` bytes, a whole number of 64; `x` holds the halves of `width` tokens in as many
/// columns; the CPU has AMX.
#[inline(always)]
unsafe fn meet(stored: &[u8], row_bytes: usize, x: &[u64], width: usize, mut ahead: Ahead, tiles: &mut [Line]) {
    let rows = stored.len() / row_bytes;
    let tiles = tiles[..4 * ROWS].as_mut_ptr();
    let steps = row_bytes / ROW_BYTES;
    assert!(x.len() == steps * BRAINS / 2 * width && width <= 2 * EIGHT && rows <= 2 * ROWS, "rows and tokens fit");
    let (below, above) = (rows.min(ROWS), rows.saturating_sub(ROWS));
    let (few, more) = (width.min(EIGHT), width.saturating_sub(EIGHT));
    let each = ahead.each(steps);
    let word = size_of::<u64>();
    // Registers that have nothing to do have the shape of their neighbours.
    let (above_rows, more_tokens) = (above.max(1), more.max(1));
    let shape = Shape::new([
        (below, few * word),
        (below, more_tokens * word),
        (above_rows, few * word),
        (above_rows, more_tokens * word),
        (below, ROW_BYTES),
        (above_rows, ROW_BYTES),
        (BRAINS / 2, few * word),
        (BRAINS / 2, more_tokens * word),
    ]);
    // SAFETY: registers have the shapes of what is loaded and stored: rows and tokens that are there, and lines of the array.
    unsafe {
        shape.take();
        asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
        let stride = width * word;
        for step in 0..steps {
            ahead.ask::<Avx512>(each);
            let low = stored.as_ptr().add(step * ROW_BYTES);
            let high = low.wrapping_add(ROWS * row_bytes);
            let x = x.as_ptr().add(step * BRAINS / 2 * width);
            let next = x.wrapping_add(EIGHT);
            asm!(
                "tileloadd tmm4, [{low} + {row_bytes}]",
                "tileloadd tmm6, [{x} + {stride}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                low = in(reg) low, row_bytes = in(reg) row_bytes, x = in(reg) x, stride = in(reg) stride,
                options(nostack, readonly)
            );
            if more > 0 {
                asm!("tileloadd tmm7, [{x} + {stride}]", "tdpbf16ps tmm1, tmm4, tmm7",
                    x = in(reg) next, stride = in(reg) stride, options(nostack, readonly));
            }
            if above > 0 {
                asm!("tileloadd tmm5, [{high} + {row_bytes}]", "tdpbf16ps tmm2, tmm5, tmm6",
                    high = in(reg) high, row_bytes = in(reg) row_bytes, options(nostack, readonly));
                if more > 0 {
                    asm!("tdpbf16ps tmm3, tmm5, tmm7", options(nostack, nomem));
                }
            }
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

/// Adds the halves of sixteen rows of eight tokens, (rows, tokens, 2), and turns them: (tokens, rows).
///
/// # Safety
/// The CPU has the instructions of [`Avx512`].
#[inline(always)]
unsafe fn turned(tile: &[Line]) -> [__m512; EIGHT] {
    /// The first halves of two rows, and the second ones.
    const fn sides() -> [[i32; 16]; 2] {
        let mut places = [[0; 16]; 2];
        let mut lane = 0;
        while lane < 16 {
            places[0][lane] = 2 * lane as i32;
            places[1][lane] = 2 * lane as i32 + 1;
            lane += 1;
        }
        places
    }
    /// From two vectors of (tokens, rows) to two of half as many tokens of twice as many rows.
    const fn merge(tokens: i32) -> [[i32; 16]; 2] {
        let rows = 16 / tokens;
        let mut places = [[0; 16]; 2];
        let mut lane = 0;
        while lane < 16 {
            let (token, row) = (lane / (2 * rows), lane % (2 * rows));
            let place = row / rows * 16 + token * rows + row % rows;
            places[0][lane as usize] = place;
            places[1][lane as usize] = place + tokens / 2 * rows;
            lane += 1;
        }
        places
    }
    /// The same where the two vectors are (rows, tokens): two rows of eight tokens.
    const fn pairs() -> [[i32; 16]; 2] {
        let mut places = [[0; 16]; 2];
        let mut lane = 0;
        while lane < 16 {
            let (token, row) = (lane / 4, lane % 4);
            let place = row / 2 * 16 + row % 2 * 8 + token;
            places[0][lane as usize] = place;
            places[1][lane as usize] = place + 4;
            lane += 1;
        }
        places
    }
    // SAFETY: tables and lines are sixteen words; the rest is the caller's contract.
    unsafe {
        let mut two = [_mm512_setzero_ps(); EIGHT];
        for index in 0..EIGHT {
            let [a, b] = [2 * index, 2 * index + 1].map(|row| tile[row].0.as_ptr().cast());
            let (a, b) = (_mm512_loadu_ps(a), _mm512_loadu_ps(b));
            two[index] = _mm512_add_ps(pick(a, b, &const { sides()[0] }), pick(a, b, &const { sides()[1] }));
        }
        let (mut four, mut eight, mut all) = (two, two, two);
        for index in 0..4 {
            let (a, b) = (two[2 * index], two[2 * index + 1]);
            four[index] = pick(a, b, &const { pairs()[0] });
            four[4 + index] = pick(a, b, &const { pairs()[1] });
        }
        // `four[4 * half + index]`: tokens 4 * half to 4 * half + 3 of rows 4 * index to 4 * index + 3.
        for half in 0..2 {
            for index in 0..2 {
                let (a, b) = (four[4 * half + 2 * index], four[4 * half + 2 * index + 1]);
                for quarter in 0..2 {
                    eight[4 * half + 2 * quarter + index] = pick(a, b, &const { merge(4) }[quarter]);
                }
            }
        }
        // `eight[2 * quarter + index]`: tokens 2 * quarter and the next of rows 8 * index to 8 * index + 7.
        for quarter in 0..4 {
            let (a, b) = (eight[2 * quarter], eight[2 * quarter + 1]);
            all[2 * quarter] = pick(a, b, &const { merge(2) }[0]);
            all[2 * quarter + 1] = pick(a, b, &const { merge(2) }[1]);
        }
        all
    }
}

/// The lanes at `places` of two vectors, of which the second's begin at 16.
///
/// # Safety
/// The CPU has the instructions of [`Avx512`].
#[inline(always)]
unsafe fn pick(a: __m512, b: __m512, places: &[i32; 16]) -> __m512 {
    // SAFETY: sixteen words are read; the rest is the caller's contract.
    unsafe { _mm512_permutex2var_ps(a, _mm512_loadu_si512(places.as_ptr().cast()), b) }
}

/// [`Writer::halve`] in vectors, for rows of a whole number of sixteen values; the same values, those that are no numbers apart.
///
/// # Safety
/// No other use of the row of `token`; the CPU has the instructions of [`Avx512`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn halve(writer: &Writer<'_>, tile: Tile, token: usize, x: &[f32]) {
    let (whole, rest) = x.as_chunks::<16>();
    for (index, x) in whole.iter().enumerate() {
        let place = writer.place_of_halves(tile, token, 8 * index, 8);
        let mut words = [0u64; 8];
        // SAFETY: the places of eight pairs, in use once by the caller's word.
        unsafe {
            let x = _mm512_loadu_ps(x.as_ptr());
            let near = rounded(x);
            let rest = rounded(_mm512_sub_ps(x, _mm512_castsi512_ps(near)));
            let pair = _mm512_or_si512(words_of(near), _mm512_slli_epi64::<32>(words_of(rest)));
            _mm512_storeu_si512(words.as_mut_ptr().cast(), pair);
            for (pair, word) in words.into_iter().enumerate() {
                *place.add(pair * tile.width) = word;
            }
        }
    }
    for (pair, &values) in rest.as_chunks().0.iter().enumerate() {
        // SAFETY: the row is in use once by the caller's word.
        unsafe { *writer.place_of_halves(tile, token, 8 * whole.len() + pair, 1) = halves(values) };
    }
}

/// The nearest brain floating-point numbers, to even between two, as the bits of `f32`.
///
/// # Safety
/// The CPU has the instructions of [`Avx512`].
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
/// The CPU has the instructions of [`Avx512`].
#[inline(always)]
unsafe fn words_of(bits: __m512i) -> __m512i {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let (first, second) = (_mm512_srli_epi64::<16>(bits), _mm512_srli_epi64::<32>(bits));
        let low = _mm512_and_si512(first, _mm512_set1_epi64(0xffff));
        _mm512_or_si512(low, _mm512_and_si512(second, _mm512_set1_epi64(0xffff_0000)))
    }
}
