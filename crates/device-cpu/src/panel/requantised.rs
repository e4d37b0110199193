//! Weights of K-quants as whole bytes for a prompt: rounded once more, to a scale for as many columns as activations have one for.
//!
//! Groups of sixteen or 32 columns with scales and minimums of their own cost eight instructions for every 32 products, all for the same pipes. Where a
//! panel meets many tokens, it is cheaper to multiply each weight by its group's scale once. What that rounds away is at most half a 127th part of the
//! largest weight that the span can have, as what activations are rounded by is.
//!
//! Rounding takes a few instructions a vector, which a single token would not pay for. So what is written behind a prompt meets weights as they
//! are stored ([`crate::detect::Phase`]): which of both a token meets hangs on the request alone, and the sums do not on how many tokens there are.

use std::marker::PhantomData;
use std::ops::Range;

use super::meet::GROUPS_MAX;
use super::rows::Scaled;
use super::{Bytes, Form, Input, Scales, Sink, Unpack, columns_max, input, scales};
use crate::activation::{self, Activations, Correction, SPAN, Tile};
use crate::detect::Packing;
use crate::product::{self, Ahead, Fill, InRegisters, Panel, Part, Product, Tiles, offsets};
use crate::vector::Vector;

/// Groups of activations in a span.
const GROUPS: usize = SPAN / activation::GROUP;
/// What is added to a weight to make it an unsigned byte.
const OFFSET: i32 = 128;
/// Weights are multiplied in sixteen bits, of which the high ones are kept.
const UNITS: f32 = 256.0;
/// The largest weight of a span.
const MOST: f32 = 127.0;
/// What makes up for the offset.
const CORRECTION: Correction = Correction { group: SPAN, offset: OFFSET, in_halves: false };

/// Whether weights of `U` are rounded once more for a prompt.
pub const fn requantises<V: Vector, U: Unpack>() -> bool {
    V::REQUANTISES && U::COLUMNS == 2 * SPAN && !matches!(U::Form::SCALES, Scales::Numbers)
}

/// Weights as unpacked by `U`, rounded once more.
pub struct Requantised<U>(PhantomData<U>);

impl<V: Vector, U: Unpack> Fill<V> for Requantised<U> {
    type Tiles = Spans;
    const PACKING: Packing = Packing::Bytes(CORRECTION);
    const COLUMNS: usize = columns_max::<V>(V::STRIPS);
    const COLUMNS_FOR_FEW: usize = U::COLUMNS;
    const FILLING: usize = product::EVEN;

    fn row_bytes(columns: usize) -> usize {
        <Bytes<U> as Fill<V>>::row_bytes(columns)
    }

    #[inline(always)]
    unsafe fn fill(stored: &[u8], row_bytes: usize, columns: Range<usize>, mut ahead: Ahead, panel: &mut Panel) {
        let blocks = columns.start / U::COLUMNS..columns.end / U::COLUMNS;
        let each = ahead.each(blocks.len() * V::STRIPS);
        for part in 0..V::STRIPS {
            let offsets = offsets::<V>(stored, row_bytes, part);
            for index in 0..blocks.len() {
                let column = part * columns.len() + index * U::COLUMNS;
                // SAFETY: the places lie in the panel, whose parts are sized for smaller groups; the stored blocks lie in each of the rows that
                // the offsets lead to; what is asked for may lie anywhere.
                unsafe {
                    ahead.ask::<V>(each);
                    let base = stored.as_ptr().add((blocks.start + index) * U::BYTES);
                    let scales = panel.scales.as_mut_ptr().add(column / SPAN * V::LANES);
                    let steps = Steps::to_spans(&Scaled::<V, U>::of(base, &offsets), scales);
                    let bytes = panel.bytes.as_mut_ptr().add(column * V::LANES);
                    U::unpack::<V>(base, &offsets, &mut Place::<V, U> { steps, bytes, unpack: PhantomData });
                }
            }
        }
    }
}

/// What a group's bytes are multiplied by, and what is added: as [`Vector::rescaled`] takes both.
struct Steps<V: Vector> {
    factors: [V::Bytes; GROUPS_MAX],
    starts: [V::Bytes; GROUPS_MAX],
}

impl<V: Vector> Steps<V> {
    /// What takes the bytes of each group to the scale of its span, which is stored: (spans, lanes).
    ///
    /// # Safety
    /// There is room for the scales of the block's spans; the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn to_spans<U: Unpack>(of: &Scaled<V, U>, to: *mut f32) -> Self {
        const { assert!(!requantises::<V, U>() || matches!(scales::<V, U::Form>(), Scales::Numbers), "with the block's") };
        const { assert!(U::COLUMNS / U::Form::GROUP <= GROUPS_MAX, "room for every group") };
        let each = const { SPAN / U::Form::GROUP };
        // SAFETY: the caller's contract is the same.
        unsafe {
            let mut steps = Self { factors: [V::byte(0); GROUPS_MAX], starts: [V::byte(0); GROUPS_MAX] };
            for span in 0..const { U::COLUMNS / SPAN } {
                let (mut most, mut none) = (V::float(0.0), V::float(0.0));
                for group in span * each..(span + 1) * each {
                    most = V::max(most, largest(of, group));
                    // Zero, but for what is not a number: a maximum would hide that in a broken file.
                    none = V::mul_add(V::sub(of.scales[group], of.minimums[group]), V::float(0.0), none);
                }
                V::store(V::mul_add(most, V::float(1.0 / MOST), none), to.add(span * V::LANES));
                // Of nothing but zeros zeros.
                let inverse = V::div(V::float(UNITS * MOST), V::max(most, V::float(f32::MIN_POSITIVE)));
                for group in span * each..(span + 1) * each {
                    let factor = V::round(V::mul(of.scales[group], inverse));
                    // Halves are added, so that what is cut off rounds.
                    let middle = V::float(UNITS * (OFFSET as f32 + 0.5));
                    let start = if U::Form::MINIMUM {
                        V::sub_mul(of.minimums[group], inverse, middle)
                    } else {
                        V::sub_mul(factor, V::float(U::OFFSET as f32), middle)
                    };
                    steps.factors[group] = V::twice(V::to_int(factor));
                    steps.starts[group] = V::twice(V::to_int(start));
                }
            }
            steps
        }
    }
}

/// The largest magnitude that a weight of a group can have.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn largest<V: Vector, U: Unpack>(of: &Scaled<V, U>, group: usize) -> V::Float {
    let (scale, minimum) = (of.scales[group], of.minimums[group]);
    // SAFETY: the caller's contract is the same.
    unsafe {
        if U::Form::MINIMUM {
            let top = V::sub(V::mul(scale, V::float(f32::from(U::MOST))), minimum);
            V::max(V::magnitude(top), V::magnitude(minimum))
        } else {
            V::magnitude(V::mul(scale, V::float(U::OFFSET as f32)))
        }
    }
}

/// A block's place in the panel.
struct Place<V: Vector, U> {
    steps: Steps<V>,
    bytes: *mut u8,
    unpack: PhantomData<U>,
}

impl<V: Vector, U: Unpack> Sink<V> for Place<V, U> {
    #[inline(always)]
    unsafe fn columns(&mut self, index: usize, bytes: V::Bytes) {
        let group = index * 4 / U::Form::GROUP;
        // SAFETY: inside the block by the caller's word.
        unsafe {
            let bytes = V::rescaled(bytes, self.steps.factors[group], self.steps.starts[group]);
            V::store_bytes(bytes, self.bytes.add(index * V::LANES * 4));
        }
    }

    #[inline(always)]
    unsafe fn scale(&mut self, _: usize, _: V::Float) {}

    #[inline(always)]
    unsafe fn block_scale(&mut self, _: V::Float) {}

    #[inline(always)]
    unsafe fn minimum(&mut self, _: usize, _: V::Float) {}
}

/// The product of panels whose spans have one scale.
pub struct Spans;

impl<V: Vector> Tiles<V> for Spans {
    const STRIPS: usize = V::STRIPS;
    const TOKENS: usize = V::TOKENS;
    const AT_ONCE: bool = true;

    #[inline(always)]
    unsafe fn tile(product: &Product<'_>, part: &Part, tile: Tile, ahead: Ahead, scratch: &mut product::Scratch) {
        // SAFETY: the caller's contract is the same.
        unsafe { product::in_registers::<V, Self>(product, part, tile, ahead, scratch) };
    }
}

impl<V: Vector> InRegisters<V> for Spans {
    type Input = Input;
    const EIGHT: bool = V::EIGHT && 2 * 8 * V::STRIPS <= V::REGISTERS;

    #[inline(always)]
    fn input(x: &Activations, _: Packing, columns: Range<usize>, tile: Tile, first: usize) -> Input {
        input(x, CORRECTION, columns, tile, first)
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        part: &Part,
        panel: &Panel,
        input: &Input,
        mut ahead: Ahead,
        total: &mut [[V::Float; T]; R],
    ) {
        let spans = part.columns / SPAN;
        let each = ahead.each(spans * GROUPS);
        for span in 0..spans {
            // SAFETY: the caller's contract is the same, and the part has the span and its groups.
            unsafe {
                let mut sum = [[V::int(0); T]; R];
                for t in 0..T {
                    let begun = V::int(*input.offsets.add(span * input.width + t));
                    for r in 0..R {
                        sum[r][t] = begun;
                    }
                }
                for group in span * GROUPS..(span + 1) * GROUPS {
                    ahead.ask::<V>(each);
                    add_group::<V, R, T>(part.columns, panel, input, group, &mut sum);
                }
                for r in 0..R {
                    let scale = V::load(panel.scales.as_ptr().add((r * spans + span) * V::LANES));
                    for t in 0..T {
                        let x = V::float(*input.scales.add(span * input.width + t));
                        total[r][t] = V::mul_add(V::mul(V::to_float(sum[r][t]), x), scale, total[r][t]);
                    }
                }
            }
        }
    }
}

/// Adds the products of group number `group` of 32 columns, of so many, with each token.
///
/// # Safety
/// The panel and the input have it; the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn add_group<V: Vector, const R: usize, const T: usize>(
    columns: usize,
    panel: &Panel,
    input: &Input,
    group: usize,
    sum: &mut [[V::Int; T]; R],
) {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let values = input.values.add(group * input.width * activation::GROUP);
        for four in 0..activation::GROUP / 4 {
            let mut weights = [V::byte(0); R];
            for r in 0..R {
                let column = r * columns + group * activation::GROUP + four * 4;
                weights[r] = V::load_bytes(panel.bytes.as_ptr().add(column * V::LANES));
            }
            for t in 0..T {
                let x = V::word(values.add(t * activation::GROUP + four * 4).cast::<u32>().read_unaligned());
                for r in 0..R {
                    sum[r][t] = V::dot(sum[r][t], weights[r], x);
                }
            }
        }
    }
}
