//! Products of `Q8_0` with a few tokens, by tiles that read its bytes where they are stored: nothing is unpacked but scales.
//!
//! Vectors want four columns of sixteen rows beside each other, and to bring them there takes as long as their products with eight tokens. A
//! tile register wants a row's columns one after the other: sixteen rows by the 32 columns of a block. They meet up to eight tokens, 256 bytes of
//! activations. A register's sums are those of one block, the integers that the vectors of [`crate::panel`] add up, and meet scales in the
//! same order: the same bits.

use std::arch::asm;
use std::arch::x86_64::{
    __m256i, __m512, _mm_load_ss, _mm256_add_epi32, _mm256_i32gather_epi32, _mm256_loadu_si256, _mm256_mullo_epi32,
    _mm256_set1_epi32, _mm256_storeu_si256, _mm512_cvtepi32_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_mask_broadcastss_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};
use std::ops::Range;

use kauri_formats::Quant;

use crate::activation::{Activations, Correction, GROUP, Rows, SPAN, Tile};
use crate::aligned::in_whole_lines;
use crate::detect::{Packing, Strips};
use crate::product::{self, Ahead, Expanded, Fill, LANES_MAX, Line, Panel, Part, Product, Scratch, Tiles, offsets};
use crate::vector::Vector;
use crate::x86_64::avx512;

use super::{Beside, ROW_BYTES, ROWS, Shape, release};

/// Bytes of a block: its scale, and so many columns.
const BLOCK_BYTES: usize = 2 + GROUP;
/// Vectors of rows of a strip: as many as without tiles, so that products of both go together.
const PARTS: usize = Beside::STRIPS;
/// Rows of a strip.
const HEIGHT: usize = PARTS * LANES_MAX;
/// Rows of weights whose sums a vector holds.
const PAIR: usize = 2;
/// Tokens whose sums half a vector holds.
const TOKENS: usize = LANES_MAX / PAIR;
/// Tokens from which on it is quicker than vectors.
const FEWEST: usize = 7;
/// Tokens of a tile of activations as vectors take them.
const WIDEST: usize = Beside::TOKENS;
/// Columns whose scales are unpacked at a time.
const COLUMNS: usize = 512;
/// Blocks of a span of activations.
const BLOCKS: usize = SPAN / GROUP;
/// Bytes of a row of all registers: a block, four columns of eight tokens, or the sums of those.
const HALF_BYTES: usize = ROW_BYTES / 2;
/// Lines of a block's activations.
const X_LINES: usize = GROUP / 4 * HALF_BYTES / ROW_BYTES;

/// Weights as they are stored.
struct Stored;

/// The products of about so many tokens, if tiles are quicker.
pub fn strips(columns: usize, tokens: usize) -> Option<Strips> {
    // Activations as vectors take them, who take what is left: short strips, and other numbers of tokens.
    vectors(columns, tokens)
        .filter(|_| (FEWEST..=TOKENS).contains(&tokens))
        .map(|strips| Strips { run: strip, ..strips })
}

/// The products by vectors.
fn vectors(columns: usize, tokens: usize) -> Option<Strips> {
    (avx512::KERNELS.strips)(Quant::Q8_0, columns, tokens)
}

/// # Safety
/// The CPU has AMX; the rest as [`product::strip`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn strip(product: &Product<'_>, number: usize, scratch: &mut Scratch) {
    in_whole_lines!();
    let tokens = product.tokens.tokens;
    // SAFETY: the caller's contract is the same.
    unsafe {
        if (FEWEST..=TOKENS).contains(&tokens) && (number + 1) * HEIGHT <= product.rows {
            REGISTERS.take();
            product::parts::<Beside, Stored>(product, number, scratch, tiles);
            release();
        } else {
            let vectors = vectors(product.columns, tokens).expect("vectors multiply bytes");
            (vectors.run)(product, number, scratch);
        }
    }
}

/// # Safety
/// The CPU has AMX; the rest as [`product::tiles`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn tiles(product: &Product<'_>, part: &Part, ahead: Ahead, scratch: &mut Scratch) {
    in_whole_lines!();
    // SAFETY: the caller's contract is the same.
    unsafe { product::tiles::<Beside, Stored>(product, part, ahead, scratch) };
}

impl Fill<Beside> for Stored {
    type Tiles = Self;
    const PACKING: Packing = Packing::Bytes(Correction { group: GROUP, offset: 128 });
    const COLUMNS: usize = COLUMNS;
    const COLUMNS_FOR_FEW: usize = COLUMNS;
    const FILLING: usize = product::EVEN / 2;

    fn row_bytes(columns: usize) -> usize {
        columns / GROUP * BLOCK_BYTES
    }

    /// Only scales: (blocks, rows).
    #[inline(always)]
    unsafe fn fill(stored: &[u8], row_bytes: usize, columns: Range<usize>, mut ahead: Ahead, panel: &mut Panel) {
        let blocks = columns.start / GROUP..columns.end / GROUP;
        let each = ahead.each(blocks.len() * PARTS);
        let scales = &mut panel.scales[..blocks.len() * HEIGHT];
        for part in 0..PARTS {
            let offsets = offsets::<Beside>(stored, row_bytes, part);
            for (block, scales) in blocks.clone().zip(scales.chunks_exact_mut(HEIGHT)) {
                // SAFETY: the stored block lies in each of the rows that the offsets lead to; a vector of scales is sixteen.
                unsafe {
                    ahead.ask::<Beside>(each);
                    let header = Beside::gather(stored.as_ptr().add(block * BLOCK_BYTES), &offsets);
                    let scales = scales[part * LANES_MAX..][..LANES_MAX].as_mut_ptr();
                    Beside::store(Beside::half_to_float::<0>(header), scales);
                }
            }
        }
    }
}

/// The registers of [`meet`]: sums of two blocks and both vectors of rows, weights of these, activations of two blocks.
static REGISTERS: Shape = {
    let (rows, x) = ((ROWS, HALF_BYTES), (GROUP / 4, HALF_BYTES));
    Shape::new([rows, rows, rows, rows, rows, rows, x, x])
};

impl Tiles<Beside> for Stored {
    const STRIPS: usize = PARTS;
    const TOKENS: usize = TOKENS;

    #[inline(always)]
    unsafe fn tile(product: &Product<'_>, part: &Part, tile: Tile, mut ahead: Ahead, scratch: &mut Scratch) {
        let Scratch { panel, sums, expanded, .. } = scratch;
        assert!(tile.width == product.tokens.tokens && tile.width <= TOKENS, "one tile");
        assert!(part.rows.len() == HEIGHT && GROUP == HALF_BYTES, "a whole strip");
        let row_bytes = <Self as Fill<Beside>>::row_bytes(product.columns);
        let stored = &product.matrix[part.rows.start * row_bytes..part.rows.end * row_bytes];
        let blocks = part.columns / GROUP;
        let each = ahead.each(blocks.div_ceil(2));
        // SAFETY: the rows have the part's blocks, the panel their scales, and what is expanded the activations of all columns; registers have
        // been shaped, and the CPU has the instructions.
        unsafe {
            expand(expanded, product.x, product.tokens, product.columns);
            for first in (0..blocks).step_by(BLOCKS) {
                let count = (blocks - first).min(BLOCKS);
                let span = part.start / SPAN + first / BLOCKS;
                let weights = stored.as_ptr().add((part.start / GROUP + first) * BLOCK_BYTES + 2);
                let x = expanded.values[span * BLOCKS * X_LINES..].as_ptr();
                for block in (0..count).step_by(2) {
                    ahead.ask::<Beside>(each);
                    let weights = weights.add(block * BLOCK_BYTES);
                    let products = &mut expanded.products[block * ROWS..];
                    meet((weights, row_bytes), x.add(block * X_LINES), (count - block).min(2), products);
                }
                let leaving = Leaving {
                    products: expanded.products.as_ptr(),
                    scales: panel.scales.as_ptr().add(first * HEIGHT),
                    x: Beside::load(expanded.scales[span * LANES_MAX..][..LANES_MAX].as_ptr()),
                    is_first: span == 0,
                    totals: expanded.totals.as_mut_ptr(),
                };
                if count == BLOCKS {
                    leaving.run(BLOCKS);
                } else {
                    leaving.run(count);
                }
            }
        }
        if part.start + part.columns == product.columns {
            let words = Line::words(&expanded.totals);
            for (token, sums) in sums[..tile.width * HEIGHT].chunks_exact_mut(HEIGHT).enumerate() {
                for (row, sum) in sums.iter_mut().enumerate() {
                    *sum = f32::from_bits(words[row * TOKENS + token]);
                }
            }
        }
    }
}

/// Multiplies one block or two: (blocks, rows, tokens).
///
/// # Safety
/// So many blocks begin in all rows of a strip at `weights`, whose rows lie so many bytes apart, and at `x`; this thread has taken the
/// [`REGISTERS`].
#[inline(always)]
unsafe fn meet((weights, row_bytes): (*const u8, usize), x: *const Line, blocks: usize, products: &mut [Line]) {
    /// One block, whose sums stay in two registers.
    macro_rules! multiply {
        ($block:literal, $low:literal, $high:literal, $x:literal) => {
            asm!(
                concat!("tileloadd ", $x, ", [{x} + {half}]"),
                "tileloadd tmm4, [{low} + {row}]",
                concat!("tilezero ", $low),
                concat!("tdpbssd ", $low, ", tmm4, ", $x),
                "tileloadd tmm5, [{high} + {row}]",
                concat!("tilezero ", $high),
                concat!("tdpbssd ", $high, ", tmm5, ", $x),
                low = in(reg) weights.add($block * BLOCK_BYTES),
                high = in(reg) weights.add($block * BLOCK_BYTES + LANES_MAX * row_bytes), row = in(reg) row_bytes,
                x = in(reg) x.add($block * X_LINES), half = in(reg) HALF_BYTES, options(nostack, readonly)
            )
        };
    }
    /// Where they go.
    macro_rules! store {
        ($block:literal, $low:literal, $high:literal) => {
            asm!(
                concat!("tilestored [{to} + {half}], ", $low),
                concat!("tilestored [{to} + {half} + 512], ", $high),
                to = in(reg) products[$block * ROWS..($block + 1) * ROWS].as_mut_ptr(),
                half = in(reg) HALF_BYTES, options(nostack)
            )
        };
    }
    // SAFETY: registers have the shapes of what is loaded and stored, the blocks are there, and lines of the slice.
    unsafe {
        multiply!(0, "tmm0", "tmm1", "tmm6");
        if blocks > 1 {
            multiply!(1, "tmm2", "tmm3", "tmm7");
            store!(1, "tmm2", "tmm3");
        }
        store!(0, "tmm0", "tmm1");
    }
}

/// How a span's sums of a strip meet their scales.
struct Leaving {
    /// (blocks, rows, tokens).
    products: *const Line,
    /// (blocks, rows).
    scales: *const f32,
    /// The scales of the tokens, twice.
    x: __m512,
    /// Whether there are no totals before.
    is_first: bool,
    /// (rows, tokens).
    totals: *mut Line,
}

impl Leaving {
    /// Adds those of so many blocks to the totals: the formula of [`crate::panel`].
    ///
    /// # Safety
    /// There are so many blocks wherever it points; the CPU has the instructions of [`Beside`].
    #[inline(always)]
    unsafe fn run(&self, blocks: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            for pair in 0..HEIGHT / PAIR {
                let mut value = _mm512_setzero_ps();
                for block in 0..blocks {
                    let sums = _mm512_loadu_si512(self.products.add(block * ROWS + pair).cast());
                    let scales = self.scales.add(block * HEIGHT + PAIR * pair);
                    let scales =
                        _mm512_mask_broadcastss_ps(_mm512_set1_ps(*scales), 0xff00, _mm_load_ss(scales.add(1)));
                    value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), scales, value);
                }
                let total = self.totals.add(pair).cast::<f32>();
                let before = if self.is_first { _mm512_setzero_ps() } else { _mm512_loadu_ps(total) };
                _mm512_storeu_ps(total, _mm512_fmadd_ps(value, self.x, before));
            }
        }
    }
}

/// Makes `to` hold the activations of these rows, if it does not yet.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn expand(to: &mut Expanded, x: &Activations, rows: Rows, columns: usize) {
    let of = Some((x.times_begun(), rows.first));
    if to.of == of {
        return;
    }
    to.of = of;
    let ((values, scales), spans) = (x.bytes().of_rows(rows), columns.div_ceil(SPAN));
    let (mut starts, mut steps) = ([0i32; TOKENS], [0i32; TOKENS]);
    for token in 0..TOKENS {
        // Those that are not there are the last one again.
        let token_of_all = rows.first + token.min(rows.tokens - 1);
        let tile = rows.tile_of(token_of_all, WIDEST);
        let (before, slot) = (tile.token - rows.first, token_of_all - tile.token);
        starts[token] = (before * columns + slot * GROUP) as i32;
        steps[token] = (tile.width * GROUP) as i32;
        for span in 0..spans {
            let scale = scales[before * spans + slot + span * tile.width];
            (to.scales[span * LANES_MAX + token], to.scales[span * LANES_MAX + TOKENS + token]) = (scale, scale);
        }
    }
    let lines = &mut to.values[..columns / GROUP * X_LINES];
    assert!(rows.tokens <= TOKENS && values.len() == rows.tokens * columns, "rows of a tile");
    // SAFETY: each token's group of values lies in the slice, and so many lines are a group's.
    unsafe {
        let (starts, steps) = (_mm256_loadu_si256(starts.as_ptr().cast()), _mm256_loadu_si256(steps.as_ptr().cast()));
        for (group, lines) in lines.chunks_exact_mut(X_LINES).enumerate() {
            let group = _mm256_mullo_epi32(steps, _mm256_set1_epi32(group as i32));
            for four in 0..GROUP / 4 {
                let places = _mm256_add_epi32(_mm256_add_epi32(starts, group), _mm256_set1_epi32(4 * four as i32));
                let words = _mm256_i32gather_epi32::<1>(values.as_ptr().cast(), places);
                _mm256_storeu_si256(lines.as_mut_ptr().cast::<__m256i>().add(four), words);
            }
        }
    }
}
