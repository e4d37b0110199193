//! The only token meets stored blocks as they are unpacked, without a panel.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{
    Form, Input, Minimums, Partial, Scales, Sink, Unpack, as_multiplied, begun, dot, in_halves, in_pairs, is_whole,
    minimums, one_by_one, run, run_begun, scale_in, scales,
};
use crate::activation::SPAN;
use crate::product::{Ahead, LANES_MAX, LINE, STREAMS_MAX};
use crate::quant::written_out;
use crate::vector::Vector;

/// Most groups of a block.
pub const GROUPS_MAX: usize = 16;
/// Most runs of columns of a block whose products are added up in sixteen bits.
const RUNS_MAX: usize = 2 * GROUPS_MAX;
/// Most spans of a block.
pub const SPANS_MAX: usize = 2;

/// Most groups of a turn.
const TURN_GROUPS_MAX: usize = 2;

/// Groups of a turn; none of types that are not unpacked in turns.
const fn groups_of_turn<U: Unpack>() -> usize {
    let Some(groups) = (U::COLUMNS / U::Form::GROUP).checked_div(U::TURNS) else { return 0 };
    assert!(groups <= TURN_GROUPS_MAX, "room for the turn");
    groups
}

/// Whether the only token meets blocks in turns.
pub const fn in_turns<V: Vector, U: Unpack>() -> bool {
    V::IN_TURNS && U::TURNS > 0 && !in_halves::<V, U::Form>() && matches!(scales::<V, U::Form>(), Scales::Numbers)
}

/// A block that meets the only token as it is unpacked, without a panel.
struct Meeting<'a, V: Vector, U> {
    /// The token, and its values in the columns of the block.
    input: &'a Input,
    x: *const i8,
    /// Number of the block's first group.
    first: usize,
    /// Weights that are asked for meanwhile, as many as are met, from line `line` on.
    ahead: Ahead,
    line: usize,
    /// Where those lines of each stream begin.
    streams: [*const u8; STREAMS_MAX],
    /// Where those of a turn begin.
    near: *const u8,
    // Each array on its own: where the compiler cannot keep one in registers, it still can the others.
    sums: &'a mut [[MaybeUninit<V::Int>; GROUPS_MAX]; 2],
    /// Those of the groups of a turn.
    turn: [V::Int; TURN_GROUPS_MAX],
    /// Sums of columns in a [run](run), where they are [in halves](in_halves).
    few: &'a mut [V::Int; RUNS_MAX],
    scales: &'a mut Taken<V::Float, GROUPS_MAX>,
    minimums: &'a mut Taken<V::Float, GROUPS_MAX>,
    /// Those [in pairs](Minimums::InPairs), and what scales them.
    pairs: &'a mut Taken<V::Bytes, { GROUPS_MAX / 2 }>,
    block_minimum: &'a mut V::Float,
    block: &'a mut V::Float,
    unpack: PhantomData<U>,
}

impl<V: Vector, U: Unpack> Sink<V> for Meeting<'_, V, U> {
    #[inline(always)]
    unsafe fn columns(&mut self, index: usize, bytes: V::Bytes) {
        let group = index * 4 / U::Form::GROUP;
        // A block that is one group adds up twice as much, and would wait for each product.
        let way = if U::COLUMNS == U::Form::GROUP { index % 2 } else { 0 };
        let calls = const { U::COLUMNS / 4 };
        let lines = const { (U::BYTES * V::LANES).div_ceil(LINE) };
        // SAFETY: inside the block by the caller's word; what is asked for may lie anywhere.
        unsafe {
            // A few lines at a time: a core waits for few of them, and stands still with more.
            for line in index * lines / calls..(index + 1) * lines / calls {
                // Where a stream has many, each is found from its first.
                let place = if lines >= 4 * V::STREAMS {
                    self.streams[line % V::STREAMS].wrapping_add(line / V::STREAMS * LINE)
                } else {
                    self.ahead.line::<V>(self.line + line)
                };
                self.ahead.ask_at::<V>(place);
            }
            let x = V::word(self.x.add(index * 4).cast::<u32>().read_unaligned());
            let weights = as_multiplied::<V, U::Form>(bytes);
            let sum = self.sums[way].get_unchecked_mut(group).assume_init_mut();
            if in_halves::<V, U::Form>() {
                let run = const { run::<V, U::Form>() };
                let few = self.few.get_unchecked_mut(index / run);
                if index.is_multiple_of(run) {
                    *few = run_begun::<V, U::Form>(self.input, self.first + group);
                }
                *few = dot::<V, U::Form>(*few, weights, x);
                if index % run == run - 1 {
                    *sum = V::add_ints(*sum, V::halves_added(*few));
                    // Where a group is one run, its sum waits in a register as it is.
                    if run < const { U::Form::GROUP / 4 } {
                        *sum = V::settled(*sum);
                    }
                }
                return;
            }
            *sum = dot::<V, U::Form>(*sum, weights, x);
            if !matches!(U::Form::SCALES, Scales::Numbers) {
                *sum = V::settled(*sum);
            }
        }
    }

    #[inline(always)]
    unsafe fn columns_from(&mut self, first: usize, behind: usize, bytes: V::Bytes) {
        // SAFETY: the caller's contract is the same, and a turn holds the groups of its columns.
        unsafe {
            if !in_turns::<V, U>() {
                return self.columns(first + behind, bytes);
            }
            let (from, to) = lines_of_columns::<V, U>(behind);
            for line in from..to {
                self.ahead.ask_at::<V>(self.near.wrapping_add(line * LINE));
            }
            let x = V::word(self.x.add((first + behind) * 4).cast::<u32>().read_unaligned());
            let sum = self.turn.get_unchecked_mut(behind * 4 / U::Form::GROUP);
            let weights = as_multiplied::<V, U::Form>(bytes);
            *sum = dot::<V, U::Form>(*sum, weights, x);
        }
    }

    #[inline(always)]
    unsafe fn begin(&mut self, turn: usize, first: usize) {
        if !in_turns::<V, U>() {
            return;
        }
        let lines = const { (U::BYTES * V::LANES).div_ceil(LINE) };
        // SAFETY: what is asked for may lie anywhere; the turn's groups are the block's.
        unsafe {
            self.near = self.ahead.line::<V>(self.line + turn * lines / U::TURNS);
            for group in 0..const { groups_of_turn::<U>() } {
                let number = self.first + first * 4 / U::Form::GROUP + group;
                self.turn[group] = begun::<V, U::Form>(self.input, number);
            }
        }
    }

    #[inline(always)]
    unsafe fn end(&mut self, first: usize) {
        if in_turns::<V, U>() {
            for group in 0..const { groups_of_turn::<U>() } {
                // SAFETY: the turn's groups are the block's.
                unsafe { self.sums[0].get_unchecked_mut(first * 4 / U::Form::GROUP + group).write(self.turn[group]) };
            }
        }
    }

    #[inline(always)]
    unsafe fn scale(&mut self, group: usize, scale: V::Float) {
        // SAFETY: one of the block's groups by the caller's word.
        unsafe { self.scales.get_unchecked_mut(group).write(scale_in::<V, U::Form>(*self.block, scale)) };
    }

    #[inline(always)]
    unsafe fn block_scale(&mut self, scale: V::Float) {
        *self.block = scale;
    }

    #[inline(always)]
    unsafe fn minimum(&mut self, group: usize, minimum: V::Float) {
        // SAFETY: one of the block's groups by the caller's word.
        unsafe { self.minimums.get_unchecked_mut(group).write(minimum) };
    }

    #[inline(always)]
    unsafe fn minimums(&mut self, first: usize, block: V::Float, whole: V::Bytes) {
        // SAFETY: four of the block's groups by the caller's word.
        unsafe {
            if !matches!(minimums::<V, U::Form>(), Minimums::InPairs) {
                return one_by_one(self, first, block, whole);
            }
            *self.block_minimum = block;
            let [low, high] = in_pairs::<V>(whole);
            self.pairs.get_unchecked_mut(first / 2).write(low);
            self.pairs.get_unchecked_mut(first / 2 + 1).write(high);
        }
    }
}

/// Adds the products of block number `number`, which is stored at `base + offsets[row]`, with the only token: to the first span's sum, or
/// to those of the block's spans, up to the scales of the activations. Asks for as much of `ahead`
/// meanwhile, from line `line` on.
///
/// # Safety
/// As [`Unpack::unpack`]; the input has the block.
#[inline(always)]
pub unsafe fn meet<V: Vector, U: Unpack>(
    (base, ahead, line): (*const u8, Ahead, usize),
    offsets: &[isize; LANES_MAX],
    input: &Input,
    number: usize,
    values: &mut [V::Float; SPANS_MAX],
) {
    let groups = const { U::COLUMNS / U::Form::GROUP };
    const { assert!(U::COLUMNS <= GROUPS_MAX * U::Form::GROUP && U::COLUMNS <= SPANS_MAX * SPAN, "room for the block") };
    const { assert!(is_whole::<U>(), "spans of one block's scale") };
    // SAFETY: the caller's contract is the same.
    unsafe {
        let mut sums = [[MaybeUninit::uninit(); GROUPS_MAX]; 2];
        let (mut scales, mut minimums) = ([MaybeUninit::uninit(); GROUPS_MAX], [MaybeUninit::uninit(); GROUPS_MAX]);
        let mut pairs = [MaybeUninit::uninit(); GROUPS_MAX / 2];
        let (mut block, mut block_minimum) = (V::float(1.0), V::float(0.0));
        if !in_turns::<V, U>() {
            for group in 0..groups {
                let begun = words_begun::<V, U::Form>(input, number * groups + group);
                sums[0][group].write(begun);
                sums[1][group].write(V::int(0));
            }
        }
        let mut meeting = Meeting::<V, U> {
            input,
            x: input.values.add(number * U::COLUMNS),
            first: number * groups,
            ahead,
            line,
            streams: ahead.from::<V>(line),
            near: std::ptr::null(),
            sums: &mut sums,
            turn: [V::int(0); TURN_GROUPS_MAX],
            few: &mut [V::int(0); RUNS_MAX],
            scales: &mut scales,
            minimums: &mut minimums,
            pairs: &mut pairs,
            block_minimum: &mut block_minimum,
            block: &mut block,
            unpack: PhantomData,
        };
        U::unpack::<V>(base, offsets, &mut meeting);
        let mut partial = [Partial::<V>::zero(); SPANS_MAX];
        for span in 0..SPANS_MAX {
            partial[span].number = values[span];
        }
        if in_turns::<V, U>() {
            for (span, partial) in partial[..const { U::COLUMNS.div_ceil(SPAN) }].iter_mut().enumerate() {
                for group in 0..const { SPAN / U::Form::GROUP } {
                    let group = span * (SPAN / U::Form::GROUP) + group;
                    let place = input.sums.add(number * groups + group);
                    let scale = scales.get_unchecked(group).assume_init();
                    let minimum = minimum_of::<V, U>(&minimums, group, scale);
                    partial.add::<U::Form>(group, place, (sums[0].get_unchecked(group).assume_init(), scale, minimum));
                }
                values[span] = partial.of_block::<U::Form>(block);
            }
        } else {
            written_out!(group in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                if group < groups {
                    let scale = scales[group].assume_init();
                    let minimum = minimum_of::<V, U>(&minimums, group, scale);
                    let parts = (V::add_ints(sums[0][group].assume_init(), sums[1][group].assume_init()), scale, minimum);
                    let sums = input.sums.add(number * groups + group);
                    partial[group * U::Form::GROUP / SPAN].add::<U::Form>(group, sums, parts);
                }
            });
            for span in 0..SPANS_MAX {
                values[span] = partial[span].of_block::<U::Form>(block);
            }
        }
        subtract::<V, U>((&minimums, &pairs, block_minimum), (input, number), values);
    }
}

/// What is taken of each of so many groups of a block.
type Taken<T, const COUNT: usize> = [MaybeUninit<T>; COUNT];

/// Subtracts a block's minimums from the sums of its spans, where that is how they [are](Minimums).
///
/// # Safety
/// Those of all its groups were taken; the input has the block, and the CPU the instructions of `V`.
#[inline(always)]
unsafe fn subtract<V: Vector, U: Unpack>(
    (minimums, pairs, block): (&Taken<V::Float, GROUPS_MAX>, &Taken<V::Bytes, { GROUPS_MAX / 2 }>, V::Float),
    (input, number): (&Input, usize),
    values: &mut [V::Float; SPANS_MAX],
) {
    let groups = const { U::COLUMNS / U::Form::GROUP };
    // SAFETY: the caller's contract is the same.
    unsafe {
        match super::minimums::<V, U::Form>() {
            Minimums::None | Minimums::OfGroups => {}
            Minimums::OfSpans => {
                for group in 0..groups {
                    let sum = V::float(*input.sums.add(number * groups + group));
                    let span = group * U::Form::GROUP / SPAN;
                    values[span] = V::sub_mul(minimums[group].assume_init(), sum, values[span]);
                }
            }
            Minimums::InPairs => {
                let mut sums = [V::int(0); SPANS_MAX];
                for group in (0..groups).step_by(2) {
                    let x = V::word(*input.halves.add(number * groups + group) as u32);
                    let span = group * U::Form::GROUP / SPAN;
                    sums[span] = V::dot_words(sums[span], pairs[group / 2].assume_init(), x);
                }
                for span in 0..const { U::COLUMNS.div_ceil(SPAN) } {
                    values[span] = V::sub_mul(block, V::to_float(sums[span]), values[span]);
                }
            }
        }
    }
}

/// The minimum of a group, if each has [its own](Minimums::OfGroups); else anything.
///
/// # Safety
/// It was taken.
#[inline(always)]
unsafe fn minimum_of<V: Vector, U: Unpack>(
    minimums: &Taken<V::Float, GROUPS_MAX>,
    group: usize,
    else_this: V::Float,
) -> V::Float {
    match super::minimums::<V, U::Form>() {
        // SAFETY: the caller's word.
        Minimums::OfGroups => unsafe { minimums.get_unchecked(group).assume_init() },
        Minimums::None | Minimums::OfSpans | Minimums::InPairs => else_this,
    }
}

/// What a sum of whole words starts with: of none, where the sums of a few columns begin in halves with what there is.
///
/// # Safety
/// As [`begun`].
#[inline(always)]
unsafe fn words_begun<V: Vector, F: Form>(input: &Input, index: usize) -> V::Int {
    // SAFETY: the caller's contract is the same.
    unsafe { if in_halves::<V, F>() { V::int(0) } else { begun::<V, F>(input, index) } }
}

/// Which of a turn's lines are asked for with the columns so many behind its first.
#[inline(always)]
fn lines_of_columns<V: Vector, U: Unpack>(behind: usize) -> (usize, usize) {
    const { assert!(V::STREAMS == 1 || !V::IN_TURNS, "lines of a turn that follow each other") };
    let (lines, calls) = ((U::BYTES * V::LANES).div_ceil(LINE * U::TURNS), U::COLUMNS / 4 / U::TURNS);
    (behind * lines / calls, (behind + 1) * lines / calls)
}
