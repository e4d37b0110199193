//! Products of bytes whose groups of 32 columns have numbers for scales, by tiles.
//!
//! A group's sums leave their register after one product, since each has a scale of its own, and that takes as long as the product. What is
//! won all the same is that a register's product of 256 sums takes a quarter of the time that vectors need for them. A span of activations is
//! taken at once: four groups of 32 rows and 32 tokens go from four registers to memory of the first-level cache, and from there, token by
//! token, to the sums. A group's sum is the integer that the vectors of [`crate::panel`] add up, and it is scaled in the same order: the same
//! bits.

use std::arch::asm;
use std::arch::x86_64::{
    __m512, __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_cvtepi32_ps, _mm512_fmadd_ps, _mm512_fnmadd_ps, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_set1_epi8, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps, _mm512_storeu_si512,
    _mm512_sub_epi8,
};
use std::marker::PhantomData;
use std::ops::Range;

use kauri_formats::Quant;

use crate::activation::{GROUP, SPAN, Tile};
use crate::aligned::in_whole_lines;
use crate::detect::{Packing, Strips};
use crate::panel::{self, Form, Scales, Sink, Unpack};
use crate::product::{self, Ahead, Fill, LANES_MAX, LINES, Line, Panel, Part, Product, Scratch, Tiles, offsets};
use crate::quant::{
    iq4_nl::Iq4Nl, iq4_xs::Iq4Xs, mxfp4::Mxfp4, q4_0::Q4_0, q4_1::Q4_1, q5_0::Q5_0, q5_1::Q5_1, q8_0::Q8_0,
};
use crate::vector::Vector;

use super::bytes::{Input, after, tiles};
use super::{Beside, ENOUGH, ROW_BYTES, ROWS, Shape, release};

/// Vectors of rows of a strip: as many as without tiles, so that products of both go together.
const PARTS: usize = Beside::STRIPS;
/// Tokens of a tile: of two registers.
const TOKENS: usize = 2 * ROWS;
/// Lines of a group's weights of one vector of rows: four columns of sixteen rows in each.
const GROUP_LINES: usize = GROUP / 4;
/// Groups of a span.
const GROUPS: usize = SPAN / GROUP;
/// Columns that are unpacked at a time: 16 KiB, a third of a first-level cache; the sums of a span take as much.
const COLUMNS: usize = 512;

/// Weights of one storage type, signed.
struct Signed<U>(PhantomData<U>);

/// The product of those of one form.
struct Sums<F>(PhantomData<F>);

/// The products of so many tokens with a storage type whose groups have numbers for scales, if tiles are quicker.
pub fn strips(quant: Quant, columns: usize, tokens: usize) -> Option<Strips> {
    if tokens < ENOUGH || !columns.is_multiple_of(SPAN) {
        return None;
    }
    match quant {
        Quant::Q4_0 => Some(strips_of::<Q4_0>()),
        Quant::Q4_1 => Some(strips_of::<Q4_1>()),
        Quant::Q5_0 => Some(strips_of::<Q5_0>()),
        Quant::Q5_1 => Some(strips_of::<Q5_1>()),
        Quant::Q8_0 => Some(strips_of::<Q8_0>()),
        Quant::IQ4_NL => Some(strips_of::<Iq4Nl>()),
        Quant::IQ4_XS => Some(strips_of::<Iq4Xs>()),
        Quant::MXFP4 => Some(strips_of::<Mxfp4>()),
        _ => None,
    }
}

fn strips_of<U: Unpack>() -> Strips {
    const { assert!(matches!(U::Form::SCALES, Scales::Numbers) && U::Form::GROUP == GROUP, "groups with numbers") };
    let packing = <Signed<U> as Fill<Beside>>::PACKING;
    Strips { rows: PARTS * LANES_MAX, tokens: TOKENS, run: strip::<U>, packing }
}

/// # Safety
/// The CPU has AMX; the rest as [`product::strip`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn strip<U: Unpack>(product: &Product<'_>, number: usize, scratch: &mut Scratch) {
    in_whole_lines!();
    // SAFETY: the caller's contract is the same.
    unsafe {
        product::parts::<Beside, Signed<U>>(product, number, scratch, tiles::<Sums<U::Form>>);
        release();
    }
}

impl<U: Unpack> Fill<Beside> for Signed<U> {
    type Tiles = Sums<U::Form>;
    const PACKING: Packing = Packing::Tiles(if U::Form::MINIMUM { Some(panel::correction::<U>()) } else { None });
    const COLUMNS: usize = COLUMNS;
    const COLUMNS_FOR_FEW: usize = COLUMNS;
    const FILLING: usize = product::EVEN;

    fn row_bytes(columns: usize) -> usize {
        columns / U::COLUMNS * U::BYTES
    }

    #[inline(always)]
    unsafe fn fill(stored: &[u8], row_bytes: usize, columns: Range<usize>, mut ahead: Ahead, panel: &mut Panel) {
        const { assert!(COLUMNS / GROUP * PARTS * GROUP_LINES <= LINES, "room in the panel") };
        const { assert!(COLUMNS.is_multiple_of(U::COLUMNS), "whole blocks") };
        let blocks = columns.start / U::COLUMNS..columns.end / U::COLUMNS;
        let each = ahead.each(blocks.len() * PARTS);
        for part in 0..PARTS {
            let offsets = offsets::<Beside>(stored, row_bytes, part);
            for (index, block) in blocks.clone().enumerate() {
                let group = (part * columns.len() + index * U::COLUMNS) / GROUP;
                // SAFETY: the places lie in the panel, which has room for so many columns; the stored block lies in each of the rows
                // that the offsets lead to.
                unsafe {
                    let mut out = Place::<U> {
                        lines: panel.lines.as_mut_ptr().add(group * GROUP_LINES),
                        scales: panel.scales.as_mut_ptr().add(group * LANES_MAX),
                        minimums: panel.minimums.as_mut_ptr().add(group * LANES_MAX),
                        unpack: PhantomData,
                    };
                    ahead.ask::<Beside>(each);
                    U::unpack::<Beside>(stored.as_ptr().add(block * U::BYTES), &offsets, &mut out);
                }
            }
        }
    }
}

/// A block's place in the panel: (vectors of rows, groups, columns / 4, lanes, 4).
struct Place<U> {
    lines: *mut Line,
    scales: *mut f32,
    minimums: *mut f32,
    unpack: PhantomData<U>,
}

impl<U: Unpack> Sink<Beside> for Place<U> {
    #[inline(always)]
    unsafe fn columns(&mut self, index: usize, bytes: __m512i) {
        // SAFETY: inside the block by the caller's word.
        unsafe {
            let signed = _mm512_sub_epi8(bytes, _mm512_set1_epi8(U::OFFSET as i8));
            _mm512_storeu_si512(self.lines.add(index).cast(), signed);
        }
    }

    #[inline(always)]
    unsafe fn scale(&mut self, group: usize, scale: __m512) {
        // SAFETY: one of the block's groups by the caller's word.
        unsafe { _mm512_storeu_ps(self.scales.add(group * LANES_MAX), scale) };
    }

    #[inline(always)]
    unsafe fn block_scale(&mut self, _: __m512) {
        unreachable!("scales are numbers");
    }

    #[inline(always)]
    unsafe fn minimum(&mut self, group: usize, minimum: __m512) {
        // SAFETY: one of the block's groups by the caller's word.
        unsafe { _mm512_storeu_ps(self.minimums.add(group * LANES_MAX), minimum) };
    }
}

impl<F: Form> Tiles<Beside> for Sums<F> {
    const STRIPS: usize = PARTS;
    const TOKENS: usize = TOKENS;

    #[inline(always)]
    unsafe fn tile(product: &Product<'_>, part: &Part, tile: Tile, mut ahead: Ahead, scratch: &mut Scratch) {
        let (input, width, spans) = (Input::new::<F>(product.x, part, tile), tile.width, part.columns / SPAN);
        let (height, groups) = (PARTS * LANES_MAX, part.columns / GROUP);
        let first = (tile.token - product.tokens.first) * height;
        let sums = scratch.sums[first..first + width * height].as_mut_ptr();
        let (panel, tiles) = (&scratch.panel, scratch.tiles[..TOKENS * PARTS * GROUPS].as_mut_ptr());
        assert!(width <= TOKENS && groups * PARTS * GROUP_LINES <= panel.lines.len(), "tokens and columns fit");
        // To shape the registers takes as long as a product of two: it is done once for all tiles that are alike.
        if tile.token == product.tokens.first || width < TOKENS {
            // SAFETY: the caller's contract: AMX is there, and `strip` gives the registers back.
            unsafe { registers(width).take() };
        }
        let each = ahead.each(groups);
        for span in 0..spans {
            // SAFETY: the panel has the span's weights, scales and minimums, the input its values and sums, and the sums a vector for every
            // token; registers have been shaped.
            unsafe {
                let values = input.values.as_ptr().add(span * SPAN * width);
                let next = input.values.as_ptr().wrapping_add(after(span, spans, product.columns) * width);
                for group in 0..GROUPS {
                    ahead.ask::<Beside>(each);
                    let weights = panel.lines.as_ptr().add((span * GROUPS + group) * GROUP_LINES);
                    let x = values.add(group / 2 * width * ROW_BYTES + group % 2 * GROUP);
                    meet((weights, groups * GROUP_LINES), x, width, tiles.add(group * ROWS));
                }
                for half in 0..width.div_ceil(ROWS) {
                    let first = half * ROWS;
                    for r in 0..PARTS {
                        let place = (r * groups + span * GROUPS) * LANES_MAX;
                        let leaving = Leaving {
                            products: tiles.add((half * PARTS + r) * GROUPS * ROWS),
                            scale: panel.scales.as_ptr().add(place),
                            minimums: panel.minimums.as_ptr().add(place),
                            scales: input.scales.as_ptr().add(span * width + first),
                            sums: input.sums.as_ptr().wrapping_add(span * GROUPS * width + first),
                            width,
                            is_first: part.start + span == 0,
                            out: sums.add(first * height + r * LANES_MAX),
                            next: next.wrapping_add((r * width + first) * ROW_BYTES),
                        };
                        leaving.run::<F>((width - first).min(ROWS));
                    }
                }
            }
        }
    }
}

/// The registers of [`meet`]: sums of both vectors of rows and the first tokens, the same of the others, weights of both, activations of the
/// first tokens, those of the others.
fn registers(width: usize) -> Shape {
    // Those that have nothing to do have a row all the same.
    let (first, rest) = (width.min(ROWS), width.saturating_sub(ROWS).max(1));
    let sums = |tokens| (tokens, ROW_BYTES);
    let weights = (GROUP_LINES, ROW_BYTES);
    Shape::new([sums(first), sums(first), sums(rest), sums(rest), weights, weights, (first, GROUP), (rest, GROUP)])
}

/// Multiplies a group of both vectors of rows with up to 32 tokens: (first tokens and others, vectors of rows, groups, tokens, lanes).
///
/// # Safety
/// There are so many weights, those of the second vector so many lines behind the first's, and values, and room for the sums of all groups of
/// a span; this thread has taken the [`registers`] of so many tokens.
#[inline(always)]
unsafe fn meet((weights, apart): (*const Line, usize), x: *const i8, width: usize, tiles: *mut Line) {
    const { assert!(GROUPS * ROWS * ROW_BYTES == 4096, "from one register's groups to the next one's") };
    // SAFETY: registers have the shapes of what is loaded and stored.
    unsafe {
        asm!(
            "tileloadd tmm4, [{low} + {line}]",
            "tileloadd tmm6, [{x} + {line}]",
            "tilezero tmm0",
            "tdpbssd tmm0, tmm6, tmm4",
            "tileloadd tmm5, [{high} + {line}]",
            "tilezero tmm1",
            "tdpbssd tmm1, tmm6, tmm5",
            low = in(reg) weights, high = in(reg) weights.add(apart), x = in(reg) x, line = in(reg) ROW_BYTES,
            options(nostack, readonly)
        );
        if width > ROWS {
            asm!(
                "tileloadd tmm7, [{x} + {line}]",
                "tilezero tmm2",
                "tdpbssd tmm2, tmm7, tmm4",
                "tilezero tmm3",
                "tdpbssd tmm3, tmm7, tmm5",
                x = in(reg) x.add(ROWS * ROW_BYTES), line = in(reg) ROW_BYTES, options(nostack, readonly)
            );
        }
        asm!(
            "tilestored [{tiles} + {line}], tmm0",
            "tilestored [{tiles} + {line} + 4096], tmm1",
            tiles = in(reg) tiles, line = in(reg) ROW_BYTES, options(nostack)
        );
        if width > ROWS {
            asm!(
                "tilestored [{tiles} + {line} + 8192], tmm2",
                "tilestored [{tiles} + {line} + 12288], tmm3",
                tiles = in(reg) tiles, line = in(reg) ROW_BYTES, options(nostack)
            );
        }
    }
}

/// How a span's sums of a vector of rows and up to sixteen tokens meet their scales.
struct Leaving {
    /// (groups, tokens, lanes).
    products: *const Line,
    /// The scales of the rows' groups: (groups, lanes).
    scale: *const f32,
    /// Their minimums: the same.
    minimums: *const f32,
    /// The scales of the tokens.
    scales: *const f32,
    /// The sums of their groups: (groups, tokens of the tile).
    sums: *const f32,
    /// Tokens of the tile.
    width: usize,
    /// Whether there are no sums before.
    is_first: bool,
    /// The sums of the first token; those of the next follow a strip's height behind.
    out: *mut f32,
    /// Values that will be read soon, a line for each token: anywhere.
    next: *const i8,
}

impl Leaving {
    /// Adds them to the sums of so many tokens: the formula of [`crate::panel`].
    ///
    /// # Safety
    /// There are so many tokens wherever it points; the CPU has the instructions of [`Beside`].
    #[inline(always)]
    unsafe fn run<F: Form>(&self, tokens: usize) {
        // SAFETY: lines are vectors; the rest is the caller's contract.
        unsafe {
            let (mut scales, mut minimums) = ([_mm512_setzero_ps(); GROUPS], [_mm512_setzero_ps(); GROUPS]);
            for group in 0..GROUPS {
                scales[group] = _mm512_loadu_ps(self.scale.add(group * LANES_MAX));
                if F::MINIMUM {
                    minimums[group] = _mm512_loadu_ps(self.minimums.add(group * LANES_MAX));
                }
            }
            for token in 0..tokens {
                _mm_prefetch::<_MM_HINT_T0>(self.next.wrapping_add(token * ROW_BYTES));
                let mut value = _mm512_setzero_ps();
                for group in 0..GROUPS {
                    let product = _mm512_loadu_si512(self.products.add(group * ROWS + token).cast());
                    value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), scales[group], value);
                    if F::MINIMUM {
                        let sum = _mm512_set1_ps(*self.sums.add(group * self.width + token));
                        value = _mm512_fnmadd_ps(minimums[group], sum, value);
                    }
                }
                let out = self.out.add(token * PARTS * LANES_MAX);
                let before = if self.is_first { _mm512_setzero_ps() } else { _mm512_loadu_ps(out) };
                _mm512_storeu_ps(out, _mm512_fmadd_ps(value, _mm512_set1_ps(*self.scales.add(token)), before));
            }
        }
    }
}
