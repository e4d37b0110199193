//! Products of bytes whose groups of 32 columns have numbers for scales, by tiles.
//!
//! A group's sums leave their register after one product, since each has a scale of its own, and that takes as long as the product. What is
//! won all the same is that a register's product of 256 sums takes a quarter of the time that vectors need for them. What comes out of a
//! register is stored two products later, and scaled four products later: products, stores and scaling then wait for nothing, and go on
//! beside each other (docs/log.md, "Tiles in step"). A group's sum is the integer that the vectors of [`crate::panel`] add up, and it is
//! scaled in the same order: the same bits.

use std::arch::x86_64::{
    __m512, __m512i, _mm512_cvtepi32_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_maskz_loadu_ps,
    _mm512_set1_epi8, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps, _mm512_storeu_si512, _mm512_sub_epi8,
    _mm512_sub_ps,
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

use super::bytes::{Input, tiles};
use super::{AWAKE, Beside, ENOUGH, ROW_BYTES, ROWS, Shape};

/// Vectors of rows of a strip: as many as without tiles, so that products of both go together.
const PARTS: usize = Beside::STRIPS;
/// Tokens of a tile: of two registers.
const TOKENS: usize = 2 * ROWS;
/// Groups of a span.
const GROUPS: usize = SPAN / GROUP;
/// Lines of a group's weights of one vector of rows: four columns of sixteen rows in each.
const GROUP_LINES: usize = GROUP / 4;
/// Columns that are unpacked at a time: 16 KiB, a third of a first-level cache.
const COLUMNS: usize = 512;
/// Products of a span: of its groups with each vector of rows.
const PRODUCTS: usize = PARTS * GROUPS;
/// Products between one and the store of its sums.
const BEHIND: usize = 2;

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
    Strips { rows: PARTS * LANES_MAX, tokens: TOKENS, run: run::<U>, together: 1, packing }
}

/// # Safety
/// The CPU has AMX; the rest as [`product::strips`], of one.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn run<U: Unpack>(product: &Product<'_>, strips: Range<usize>, scratch: &mut Scratch) {
    in_whole_lines!();
    // SAFETY: the caller's contract is the same.
    unsafe {
        // Before anything is unpacked: tiles are kept awake meanwhile.
        REGISTERS.take_for(&mut scratch.shape);
        product::parts::<Beside, Signed<U>>(product, strips.start, scratch, tiles::<Sums<U::Form>>);
    }
}

impl<U: Unpack> Fill<Beside> for Signed<U> {
    type Tiles = Sums<U::Form>;
    const PACKING: Packing =
        Packing::Tiles(if U::Form::MINIMUM { Some(panel::correction::<Beside, U>()) } else { None });
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
                    if index.is_multiple_of(const { AWAKE / U::COLUMNS }) {
                        // A product of whatever is there: `strip` has shaped the registers, and each is filled before it is used.
                        multiply!("tdpbssd", "tmm0", "tmm4", "tmm2");
                    }
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
        // Less than nothing: it need not be negated for each few tokens.
        // SAFETY: one of the block's groups by the caller's word.
        unsafe { _mm512_storeu_ps(self.minimums.add(group * LANES_MAX), _mm512_sub_ps(_mm512_set1_ps(-0.0), minimum)) };
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
        let (panel, slots) = (&scratch.panel, scratch.tiles[..PRODUCTS * ROWS].as_mut_ptr());
        assert!(width <= TOKENS && groups * PARTS * GROUP_LINES <= panel.lines.len(), "tokens and columns fit");
        let halves = width.div_ceil(ROWS);
        let each = ahead.each(halves * spans);
        // SAFETY: the CPU has the instruction.
        let mut values = unsafe { [_mm512_setzero_ps(); ROWS] };
        // What leaves the registers meanwhile: the products before.
        let mut last = None;
        for half in 0..halves {
            let first = half * ROWS;
            for span in 0..spans {
                // SAFETY: the panel has the span's weights, scales and minimums, the input its values and sums, and the sums a vector for
                // every token; registers have been shaped.
                unsafe {
                    ahead.ask::<Beside>(each);
                    let x = input.rows.add(span * SPAN * width + first * ROW_BYTES);
                    for r in 0..PARTS {
                        let place = r * groups + span * GROUPS;
                        let weights = panel.lines.as_ptr().add(place * GROUP_LINES);
                        meet::<F>((weights, r), (x, width), slots, last.as_ref(), &mut values);
                        last = Some(Leaving {
                            products: slots.add(r * GROUPS * ROWS),
                            scale: panel.scales.as_ptr().add(place * LANES_MAX),
                            minimums: panel.minimums.as_ptr().add(place * LANES_MAX),
                            scales: input.scales.as_ptr().add(span * width + first),
                            sums: input.sums.as_ptr().wrapping_add(span * GROUPS * width + first),
                            width,
                            tokens: (width - first).min(ROWS),
                            before: if part.start + span == 0 { 0 } else { u16::MAX },
                            out: sums.add(first * height + r * LANES_MAX),
                        });
                    }
                }
            }
        }
        if let Some(last) = last {
            // SAFETY: as above.
            unsafe {
                store_last(slots);
                last.add::<F, 0>(&mut values);
                last.add::<F, 1>(&mut values);
                last.add::<F, 2>(&mut values);
                last.add::<F, 3>(&mut values);
            }
        }
    }
}

/// The registers of [`meet`]: sums of two products, weights of both, activations of the four groups of a span.
const REGISTERS: Shape = {
    let (sums, weights, x) = ((ROWS, ROW_BYTES), (GROUP_LINES, ROW_BYTES), (ROWS, GROUP));
    Shape::new([sums, sums, weights, weights, x, x, x, x])
};

/// Multiplies a span of vector `r` of rows with sixteen tokens of a tile of so many; meanwhile the products before leave, if there are any.
/// The vectors of rows follow each other: with the first, registers take the activations.
///
/// # Safety
/// There are so many weights, [`Input::rows`] of the tokens, and room for the products of a span; this thread has taken the [`REGISTERS`];
/// the rest as [`Leaving::add`].
#[inline(always)]
unsafe fn meet<F: Form>(
    (weights, r): (*const Line, usize),
    (x, width): (*const i8, usize),
    slots: *mut Line,
    before: Option<&Leaving>,
    values: &mut [__m512; ROWS],
) {
    /// A product, where the one before the last leaves its register.
    macro_rules! product {
        ($group:literal, $sums:literal, $weights:literal, $x:literal) => {
            if r == 0 {
                load!($x, x.add($group / 2 * width * ROW_BYTES + $group % 2 * GROUP));
            }
            load!($weights, weights.add($group * GROUP_LINES));
            store!($sums, slots.add((r * GROUPS + $group + PRODUCTS - BEHIND) % PRODUCTS * ROWS));
            zero!($sums);
            multiply!("tdpbssd", $sums, $x, $weights);
            if let Some(before) = before {
                before.add::<F, $group>(values);
            }
        };
    }
    // SAFETY: registers have the shapes of what is loaded and stored.
    unsafe {
        product!(0, "tmm0", "tmm2", "tmm4");
        product!(1, "tmm1", "tmm3", "tmm5");
        product!(2, "tmm0", "tmm2", "tmm6");
        product!(3, "tmm1", "tmm3", "tmm7");
    }
}

/// Stores what the last products of a tile left in registers.
///
/// # Safety
/// There is room for the products of a span; this thread has taken the [`REGISTERS`].
#[inline(always)]
unsafe fn store_last(slots: *mut Line) {
    const { assert!(BEHIND == 2, "a register for each") };
    // SAFETY: registers have the shapes of what is stored.
    unsafe {
        store!("tmm0", slots.add((PRODUCTS - 2) * ROWS));
        store!("tmm1", slots.add((PRODUCTS - 1) * ROWS));
    }
}

/// How a span's products of a vector of rows and up to sixteen tokens meet their scales.
struct Leaving {
    /// (groups, tokens, lanes).
    products: *const Line,
    /// The scales of the rows' groups: (groups, lanes).
    scale: *const f32,
    /// Their minimums, less than nothing: the same.
    minimums: *const f32,
    /// The scales of the tokens.
    scales: *const f32,
    /// The sums of their groups: (groups, tokens of the tile).
    sums: *const f32,
    /// Tokens of the tile.
    width: usize,
    /// Those of them that these are of.
    tokens: usize,
    /// Lanes of the sums that are there before: all or none.
    before: u16,
    /// The sums of the first token; those of the next follow a strip's height behind.
    out: *mut f32,
}

impl Leaving {
    /// Adds those of group `NUMBER` to the `values` of their span, and those to the sums where it is the last: the formula of [`crate::panel`].
    /// Lines of tokens that are not there may be anything, and go nowhere.
    ///
    /// # Safety
    /// There are so many tokens wherever it points; the groups before were added; the CPU has the instructions of [`Beside`].
    #[inline(always)]
    unsafe fn add<F: Form, const NUMBER: usize>(&self, values: &mut [__m512; ROWS]) {
        // SAFETY: lines are vectors; the rest is the caller's contract.
        unsafe {
            let scale = _mm512_loadu_ps(self.scale.add(NUMBER * LANES_MAX));
            for token in 0..ROWS {
                let product = _mm512_loadu_si512(self.products.add(NUMBER * ROWS + token).cast());
                let before = if NUMBER == 0 { _mm512_setzero_ps() } else { values[token] };
                values[token] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), scale, before);
            }
            if F::MINIMUM {
                let minimum = _mm512_loadu_ps(self.minimums.add(NUMBER * LANES_MAX));
                for token in 0..ROWS {
                    if token < self.tokens {
                        let sum = _mm512_set1_ps(*self.sums.add(NUMBER * self.width + token));
                        values[token] = _mm512_fmadd_ps(minimum, sum, values[token]);
                    }
                }
            }
            if NUMBER + 1 < GROUPS {
                return;
            }
            for token in 0..ROWS {
                if token < self.tokens {
                    let out = self.out.add(token * PARTS * LANES_MAX);
                    let sum = _mm512_maskz_loadu_ps(self.before, out);
                    _mm512_storeu_ps(out, _mm512_fmadd_ps(values[token], _mm512_set1_ps(*self.scales.add(token)), sum));
                }
            }
        }
    }
}
