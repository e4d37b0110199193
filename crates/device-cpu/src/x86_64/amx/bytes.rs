//! Products of codes whose groups have whole scales, by tiles: a code times its scale is an integer of up to 13 bits, unpacked to two
//! bytes, so that a register adds up a whole span of activations by itself and is emptied once.
//!
//! Where groups have minimums, codes and scales are unsigned, and the scale is split: eight times its upper three bits, and its lower
//! three. Elsewhere the product is: 128 times its upper bits, which have its sign, and its lower seven. Either way a span's sum is the
//! integer that the vectors of [`crate::panel`] add up, and it is scaled in the same order: the same bits. That is done while the registers
//! multiply the span that follows.

use std::arch::x86_64::{
    __m512, __m512i, _mm512_add_epi32, _mm512_and_si512, _mm512_cvtepi32_ps, _mm512_cvtps_epi32, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_maskz_loadu_ps, _mm512_mul_ps, _mm512_mullo_epi16, _mm512_or_si512,
    _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_slli_epi16,
    _mm512_slli_epi32, _mm512_srli_epi16, _mm512_srli_epi32, _mm512_storeu_ps, _mm512_storeu_si512, _mm512_sub_epi16,
    _mm512_sub_ps,
};
use std::marker::PhantomData;
use std::ops::Range;

use kauri_formats::Quant;

use crate::activation::{Activations, SPAN, Tile};
use crate::aligned::in_whole_lines;
use crate::detect::{Packing, Strips};
use crate::panel::{self, Bytes, Form, GROUPS_MAX, Scales, Sink, Unpack};
use crate::product::{self, Ahead, Fill, LANES_MAX, LINES, Line, Panel, Part, Product, Scratch, Tiles, offsets};
use crate::quant::{q2_k::Q2K, q3_k::Q3K, q4_k::Q4K, q5_k::Q5K, q6_k::Q6K};
use crate::vector::Vector;

use super::{AWAKE, Beside, ENOUGH, ROW_BYTES, ROWS, Shape};

/// Vectors of rows of a strip: as many as without tiles, so that products of both go together.
const PARTS: usize = Beside::STRIPS;
/// Tokens of a tile: of two registers.
const TOKENS: usize = 2 * ROWS;
/// Products of registers that a span takes, of its upper bytes and of its lower ones.
const STEPS: usize = SPAN / ROW_BYTES;
/// Lines of the weights that one vector of rows has in a span: in each step upper bytes, then lower ones.
const SPAN_LINES: usize = STEPS * 2 * ROWS;
/// Columns that are unpacked at a time: 32 KiB, most of a first-level cache.
const COLUMNS: usize = 512;

/// Weights of one storage type, times their scales.
struct Folded<U>(PhantomData<U>);

/// The product of those of one form.
struct Sums<F>(PhantomData<F>);

/// The products of so many tokens with a storage type that has whole scales: by tiles, or by vectors to the same bits.
pub fn strips(quant: Quant, tokens: usize) -> Option<Strips> {
    match quant {
        Quant::Q2_K => Some(strips_of::<Q2K>(tokens)),
        Quant::Q3_K => Some(strips_of::<Q3K>(tokens)),
        Quant::Q4_K => Some(strips_of::<Q4K>(tokens)),
        Quant::Q5_K => Some(strips_of::<Q5K>(tokens)),
        Quant::Q6_K => Some(strips_of::<Q6K>(tokens)),
        _ => None,
    }
}

fn strips_of<U: Unpack>(tokens: usize) -> Strips {
    const { assert!(!matches!(U::Form::SCALES, Scales::Numbers) && !U::Form::WIDE, "small codes with whole scales") };
    if tokens >= ENOUGH {
        let packing = <Folded<U> as Fill<Beside>>::PACKING;
        return Strips { rows: PARTS * LANES_MAX, tokens: TOKENS, run: run::<U>, together: 1, packing };
    }
    let (rows, tokens) = (product::height::<Beside, Bytes<U>>(), <panel::Sums<U::Form> as Tiles<Beside>>::TOKENS);
    Strips { rows, tokens, run: run_of_few::<U>, together: product::RUN, packing: <Bytes<U> as Fill<Beside>>::PACKING }
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
        product::parts::<Beside, Folded<U>>(product, strips.start, scratch, tiles::<Sums<U::Form>>);
    }
}

/// # Safety
/// The CPU has the instructions of [`Beside`]; the rest as [`product::strips`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn run_of_few<U: Unpack>(product: &Product<'_>, strips: Range<usize>, scratch: &mut Scratch) {
    in_whole_lines!();
    // SAFETY: the caller's contract is the same.
    unsafe { product::strips::<Beside, Bytes<U>>(product, strips, scratch, tiles::<panel::Sums<U::Form>>) };
}

/// # Safety
/// The CPU has AMX; the rest as [`product::tiles`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn tiles<T: Tiles<Beside>>(product: &Product<'_>, part: &Part, ahead: Ahead, scratch: &mut Scratch) {
    in_whole_lines!();
    // SAFETY: the caller's contract is the same.
    unsafe { product::tiles::<Beside, T>(product, part, ahead, scratch) };
}

impl<U: Unpack> Fill<Beside> for Folded<U> {
    type Tiles = Sums<U::Form>;
    const PACKING: Packing =
        Packing::Tiles(if U::Form::MINIMUM { Some(panel::correction::<Beside, U>()) } else { None });
    const COLUMNS: usize = COLUMNS;
    const COLUMNS_FOR_FEW: usize = COLUMNS;
    const FILLING: usize = 3 * product::EVEN;

    fn row_bytes(columns: usize) -> usize {
        columns / U::COLUMNS * U::BYTES
    }

    #[inline(always)]
    unsafe fn fill(stored: &[u8], row_bytes: usize, columns: Range<usize>, mut ahead: Ahead, panel: &mut Panel) {
        const { assert!(COLUMNS / SPAN * PARTS * SPAN_LINES <= LINES, "room in the panel") };
        const { assert!(U::COLUMNS.is_multiple_of(SPAN) && U::COLUMNS <= GROUPS_MAX * U::Form::GROUP, "whole spans") };
        let blocks = columns.start / U::COLUMNS..columns.end / U::COLUMNS;
        let each = ahead.each(blocks.len() * PARTS);
        for part in 0..PARTS {
            let offsets = offsets::<Beside>(stored, row_bytes, part);
            for (index, block) in blocks.clone().enumerate() {
                let (span, column) = (index * U::COLUMNS / SPAN, part * columns.len() + index * U::COLUMNS);
                // SAFETY: the places lie in the panel, which has room for so many columns; the stored block lies in each of the rows
                // that the offsets lead to.
                unsafe {
                    let mut out = Folding::<U> {
                        lines: panel.lines.as_mut_ptr().add((span * PARTS + part) * SPAN_LINES),
                        minimums: panel.minimums.as_mut_ptr().add(column / U::Form::GROUP * LANES_MAX),
                        blocks: panel.blocks.as_mut_ptr().add(column / SPAN * LANES_MAX),
                        scales: [[_mm512_setzero_si512(); 2]; GROUPS_MAX],
                        unpack: PhantomData,
                    };
                    if index.is_multiple_of(const { AWAKE / U::COLUMNS }) {
                        // A product of whatever is there: `strip` has shaped the registers, and each is filled before it is used.
                        multiply!("tdpbssd", "tmm0", "tmm6", "tmm4");
                    }
                    ahead.ask::<Beside>(each);
                    U::unpack::<Beside>(stored.as_ptr().add(block * U::BYTES), &offsets, &mut out);
                }
            }
        }
    }
}

/// A block's place in the panel: (spans, vectors of rows, steps, upper and lower bytes, columns / 4, lanes, 4).
struct Folding<U> {
    lines: *mut Line,
    minimums: *mut f32,
    blocks: *mut f32,
    /// What each group's codes are multiplied by, in every half of a word: the upper and the lower bits of its scale where it is split,
    /// or all of it.
    scales: [[__m512i; 2]; GROUPS_MAX],
    unpack: PhantomData<U>,
}

impl<U: Unpack> Sink<Beside> for Folding<U> {
    #[inline(always)]
    unsafe fn columns(&mut self, index: usize, bytes: __m512i) {
        let (step, line) = (index / ROWS, index % ROWS);
        // SAFETY: inside the block by the caller's word, and one of its groups.
        unsafe {
            let scales = self.scales.get_unchecked(index * 4 / U::Form::GROUP);
            let [upper, lower] = if U::Form::MINIMUM {
                // A code is under 32 and its factor under 8: no product takes more than the byte that it stands in.
                [_mm512_mullo_epi16(bytes, scales[0]), _mm512_mullo_epi16(bytes, scales[1])]
            } else {
                split(bytes, scales[0], U::OFFSET as i16)
            };
            let first = step / STEPS * PARTS * SPAN_LINES + step % STEPS * 2 * ROWS;
            let place = self.lines.add(first + line);
            _mm512_storeu_si512(place.cast(), upper);
            _mm512_storeu_si512(place.add(ROWS).cast(), lower);
        }
    }

    #[inline(always)]
    unsafe fn scale(&mut self, group: usize, scale: __m512) {
        // SAFETY: one of the block's groups by the caller's word.
        unsafe {
            let whole = _mm512_cvtps_epi32(scale);
            let factors = if U::Form::MINIMUM {
                [_mm512_srli_epi32::<3>(whole), _mm512_and_si512(whole, _mm512_set1_epi32(7))]
            } else {
                [whole, whole]
            };
            *self.scales.get_unchecked_mut(group) = [twice(factors[0]), twice(factors[1])];
        }
    }

    #[inline(always)]
    unsafe fn block_scale(&mut self, scale: __m512) {
        for span in 0..U::COLUMNS / SPAN {
            // SAFETY: one of the block's spans.
            unsafe { _mm512_storeu_ps(self.blocks.add(span * LANES_MAX), scale) };
        }
    }

    #[inline(always)]
    unsafe fn minimum(&mut self, group: usize, minimum: __m512) {
        // Less than nothing: it need not be negated for each few tokens.
        // SAFETY: one of the block's groups by the caller's word.
        unsafe { _mm512_storeu_ps(self.minimums.add(group * LANES_MAX), _mm512_sub_ps(_mm512_set1_ps(-0.0), minimum)) };
    }
}

/// The lower half of each word in both.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn twice(words: __m512i) -> __m512i {
    // SAFETY: the caller's contract is the same.
    unsafe { _mm512_or_si512(_mm512_slli_epi32::<16>(words), _mm512_and_si512(words, _mm512_set1_epi32(0xffff))) }
}

/// Codes less `offset`, of at most six bits, times scales of eight, in upper bytes, which have the sign, and lower seven bits.
///
/// # Safety
/// The CPU has the instructions of [`Beside`].
#[inline(always)]
unsafe fn split(codes: __m512i, scales: __m512i, offset: i16) -> [__m512i; 2] {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let offset = _mm512_set1_epi16(offset);
        let even = _mm512_and_si512(codes, _mm512_set1_epi16(0x00ff));
        let odd = _mm512_srli_epi16::<8>(codes);
        let even = _mm512_mullo_epi16(_mm512_sub_epi16(even, offset), scales);
        let odd = _mm512_mullo_epi16(_mm512_sub_epi16(odd, offset), scales);
        let upper = _mm512_or_si512(
            _mm512_and_si512(_mm512_srli_epi16::<7>(even), _mm512_set1_epi16(0x00ff)),
            _mm512_and_si512(_mm512_slli_epi16::<1>(odd), _mm512_set1_epi16(0xff00_u16 as i16)),
        );
        let lower = _mm512_or_si512(
            _mm512_and_si512(even, _mm512_set1_epi16(0x007f)),
            _mm512_and_si512(_mm512_slli_epi16::<8>(odd), _mm512_set1_epi16(0x7f00)),
        );
        [upper, lower]
    }
}

/// The quantised activations of a tile in the columns of a part.
pub struct Input<'a> {
    /// Where its values begin, (columns / 64, tokens, 64): a whole register of rows may be read from any of them on, the last ones of whatever
    /// is behind.
    pub rows: *const i8,
    /// (spans, tokens).
    pub scales: &'a [f32],
    /// (groups, tokens); none without minimums.
    pub sums: &'a [f32],
}

impl<'a> Input<'a> {
    pub fn new<F: Form>(x: &'a Activations, part: &Part, tile: Tile) -> Self {
        let (x, width) = (x.tiles(), tile.width);
        let sums = part.packing.correction().map_or(&[][..], |correction| {
            assert_eq!(correction.group, F::GROUP, "corrections of another form");
            &x.corrections(correction, tile, part.start / F::GROUP).sums[..part.columns / F::GROUP * width]
        });
        Self {
            rows: x.rows(tile, part.start),
            scales: &x.scales(tile, part.start / SPAN)[..part.columns / SPAN * width],
            sums,
        }
    }
}

impl<F: Form> Tiles<Beside> for Sums<F> {
    const STRIPS: usize = PARTS;
    const TOKENS: usize = TOKENS;

    #[inline(always)]
    unsafe fn tile(product: &Product<'_>, part: &Part, tile: Tile, ahead: Ahead, scratch: &mut Scratch) {
        const { assert!(SPAN.is_multiple_of(F::GROUP), "whole groups") };
        let (input, width, spans) = (Input::new::<F>(product.x, part, tile), tile.width, part.columns / SPAN);
        let height = PARTS * LANES_MAX;
        let first = (tile.token - product.tokens.first) * height;
        let sums = scratch.sums[first..first + width * height].as_mut_ptr();
        let (panel, slots) = (&scratch.panel, &mut scratch.tiles);
        let slots = slots.first_chunk_mut().expect("four registers");
        assert!(width <= TOKENS && spans * PARTS * SPAN_LINES <= panel.lines.len(), "tokens and columns fit");
        // SAFETY: the caller's contract is the same; registers have been shaped.
        unsafe {
            if width == TOKENS {
                meet_all::<F, true>(part, &input, width, ahead, (panel, slots, sums));
            } else {
                meet_all::<F, false>(part, &input, width, ahead, (panel, slots, sums));
            }
        }
    }
}

/// Multiplies all spans of a part with the tokens of a tile: as many as it may have where it is `FULL`.
///
/// # Safety
/// As [`Tiles::tile`]; there are a vector of sums for every token, and this thread has taken the [`REGISTERS`].
#[inline(always)]
unsafe fn meet_all<F: Form, const FULL: bool>(
    part: &Part,
    input: &Input<'_>,
    width: usize,
    mut ahead: Ahead,
    (panel, slots, sums): (&Panel, &mut [Line; 4 * ROWS], *mut f32),
) {
    let spans = part.columns / SPAN;
    let each = ahead.each(spans * PARTS);
    // What leaves the registers meanwhile: the span before.
    let mut last: Option<Leaving> = None;
    for span in 0..spans {
        for r in 0..PARTS {
            let place = (r * spans + span) * LANES_MAX;
            // SAFETY: the panel has the span's weights, scales and minimums, the input its values and sums, and the sums a vector
            // for every token; registers have been shaped.
            unsafe {
                ahead.ask::<Beside>(each);
                let weights = panel.lines.as_ptr().add((span * PARTS + r) * SPAN_LINES);
                meet::<F, FULL>(weights, input.rows.add(span * SPAN * width), width, slots, last.as_ref());
                last = Some(Leaving {
                    block: panel.blocks.as_ptr().add(place),
                    minimums: panel.minimums.as_ptr().add(place * (SPAN / F::GROUP)),
                    scales: input.scales.as_ptr().add(span * width),
                    sums: input.sums.as_ptr().wrapping_add(span * (SPAN / F::GROUP) * width),
                    before: if part.start + span == 0 { 0 } else { u16::MAX },
                    out: sums.add(r * LANES_MAX),
                    width,
                });
            }
        }
    }
    if let Some(last) = last {
        // SAFETY: as above.
        unsafe {
            store_last(slots);
            last.run::<F, FULL>(0..width, slots.as_ptr());
        }
    }
}

/// The registers of [`meet`]: sums of upper and lower bytes of the first tokens, the same of the others, upper bytes, lower bytes, the
/// activations of the first tokens, those of the others.
const REGISTERS: Shape = Shape::new([(ROWS, ROW_BYTES); 8]);

/// Multiplies a span of a vector of rows with up to 32 tokens; meanwhile the sums of the span before leave, if there was one. Stored are, of
/// that: (first tokens and others, sums of upper and of lower bytes, tokens, lanes).
///
/// # Safety
/// `weights` are so many lines and `x` [`Input::rows`] of so many tokens; this thread has taken the [`REGISTERS`]; the rest as
/// [`Leaving::run`].
#[inline(always)]
unsafe fn meet<F: Form, const FULL: bool>(
    weights: *const Line,
    x: *const i8,
    width: usize,
    slots: &mut [Line; 4 * ROWS],
    before: Option<&Leaving>,
) {
    let both = FULL || width > ROWS;
    let width = if FULL { TOKENS } else { width };
    let slots = slots.as_mut_ptr();
    /// Sums of upper and lower bytes begin with nothing: what was there goes to its slots, three products later than it came.
    macro_rules! begin {
        ($slot:literal, $upper:literal, $lower:literal) => {
            store!($upper, slots.add($slot * ROWS));
            store!($lower, slots.add(($slot + 1) * ROWS));
            zero!($upper);
            zero!($lower);
        };
    }
    /// A product with upper bytes: those have a sign where there are no minimums.
    macro_rules! multiply_upper {
        ($sums:literal, $x:literal) => {
            if F::MINIMUM {
                multiply!("tdpbsud", $sums, $x, "tmm4");
            } else {
                multiply!("tdpbssd", $sums, $x, "tmm4");
            }
        };
    }
    /// One of two steps of four products; behind each of them four tokens of the span before leave.
    macro_rules! step {
        ($step:literal) => {
            let (upper, x) = (weights.add($step * 2 * ROWS), x.add($step * width * ROW_BYTES));
            load!("tmm4", upper);
            load!("tmm6", x);
            if $step == 0 {
                begin!(0, "tmm0", "tmm1");
            }
            multiply_upper!("tmm0", "tmm6");
            leave!(4 * $step);
            load!("tmm5", upper.add(ROWS));
            multiply!("tdpbsud", "tmm1", "tmm6", "tmm5");
            leave!(4 * $step + 1);
            if both {
                load!("tmm7", x.add(ROWS * ROW_BYTES));
                if $step == 0 {
                    begin!(2, "tmm2", "tmm3");
                }
                multiply_upper!("tmm2", "tmm7");
            }
            leave!(4 * $step + 2);
            if both {
                multiply!("tdpbsud", "tmm3", "tmm7", "tmm5");
            }
            leave!(4 * $step + 3);
        };
    }
    /// Four tokens of the span before leave: the first sixteen while the first step's products go on, whose sums are stored first.
    macro_rules! leave {
        ($turn:expr) => {
            if let Some(before) = before {
                before.run::<F, FULL>(width.min($turn * 4)..width.min(($turn + 1) * 4), slots);
            }
        };
    }
    const { assert!(STEPS == 2 && TOKENS == STEPS * 4 * 4, "two steps of four products, and four tokens for each") };
    // SAFETY: registers have the shapes of what is loaded and stored: steps of sixteen lines, rows that can be read, lines of the array.
    unsafe {
        step!(0);
        step!(1);
    }
}

/// Stores the sums of the last span of a tile.
///
/// # Safety
/// This thread has taken the [`REGISTERS`].
#[inline(always)]
unsafe fn store_last(slots: &mut [Line; 4 * ROWS]) {
    // SAFETY: registers have the shapes of what is stored.
    unsafe {
        let slots = slots.as_mut_ptr();
        store!("tmm0", slots);
        store!("tmm1", slots.add(ROWS));
        store!("tmm2", slots.add(2 * ROWS));
        store!("tmm3", slots.add(3 * ROWS));
    }
}

/// How a span's sums of a vector of rows leave the registers.
struct Leaving {
    /// The scales of the rows' blocks.
    block: *const f32,
    /// Their minimums, less than nothing: (groups, lanes).
    minimums: *const f32,
    /// The scales of the tokens.
    scales: *const f32,
    /// The sums of their groups: (groups, tokens).
    sums: *const f32,
    /// Lanes of the sums that are there before: all or none.
    before: u16,
    /// The sums of the first token; those of the next follow a strip's height behind.
    out: *mut f32,
    /// Tokens of the tile.
    width: usize,
}

impl Leaving {
    /// Adds them to the sums of some of the tokens: the formula of [`crate::panel`].
    ///
    /// # Safety
    /// There are so many tokens wherever it points, and slots of them; the CPU has the instructions of [`Beside`].
    #[inline(always)]
    unsafe fn run<F: Form, const FULL: bool>(&self, tokens: Range<usize>, slots: *const Line) {
        // SAFETY: lines are vectors, two for each token; the rest is the caller's contract.
        unsafe {
            // So that the compiler knows how far all is apart.
            let width = if FULL { TOKENS } else { self.width };
            let block = _mm512_loadu_ps(self.block);
            let groups = if F::MINIMUM { SPAN / F::GROUP } else { 0 };
            let mut minimums = [_mm512_setzero_ps(); SPAN / 16];
            for group in 0..groups {
                minimums[group] = _mm512_loadu_ps(self.minimums.add(group * LANES_MAX));
            }
            for token in tokens {
                let line = slots.add(token / ROWS * 2 * ROWS + token % ROWS);
                let (upper, lower) = (_mm512_loadu_si512(line.cast()), _mm512_loadu_si512(line.add(ROWS).cast()));
                let upper = if F::MINIMUM { _mm512_slli_epi32::<3>(upper) } else { _mm512_slli_epi32::<7>(upper) };
                let mut value = _mm512_mul_ps(block, _mm512_cvtepi32_ps(_mm512_add_epi32(upper, lower)));
                for group in 0..groups {
                    let sum = _mm512_set1_ps(*self.sums.add(group * width + token));
                    value = _mm512_fmadd_ps(minimums[group], sum, value);
                }
                let out = self.out.add(token * PARTS * LANES_MAX);
                let before = _mm512_maskz_loadu_ps(self.before, out);
                _mm512_storeu_ps(out, _mm512_fmadd_ps(value, _mm512_set1_ps(*self.scales.add(token)), before));
            }
        }
    }
}
