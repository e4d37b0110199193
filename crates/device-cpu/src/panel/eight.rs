//! Eight blocks that are read together, of types whose blocks are a scale in half precision and bytes of codes.
//!
//! Two bytes keep such blocks from being whole words, and most of the time goes into bringing the words of all rows side by side.
//! Eight blocks are whole runs of sixteen bytes: read so, they are half to two thirds as many words as blocks that are read one by one. A word
//! then may hold a scale and two codes: a few tokens meet it with zeros where the scale stands; for more of them, and in a panel, two such words
//! become one.

use std::ops::Range;

use super::{Form, Input, Partial, Scales, Sink, Unpack, as_multiplied, begun, dot};
use crate::activation::{self, SPAN};
use crate::product::{Ahead, LANES_MAX, LINE};
use crate::quant::written_out;
use crate::vector::Vector;

/// Blocks that are read together.
pub const BLOCKS: usize = 8;
/// Bytes of a block's scale.
const SCALE_BYTES: usize = 2;
/// Bytes of a row that are read at once.
pub const RUN: usize = 16;
/// Words of those.
const WORDS: usize = 4;
/// Tokens whose sums keep a core busy, though each waits for the product before it.
const BUSY: usize = 4;

/// A type whose blocks are a scale in half precision and bytes of codes.
pub trait Codes: Unpack {
    /// Columns that a byte holds codes of: those of as many parts of the block.
    const PARTS: usize;

    /// The columns of part number `part` of four bytes of codes of every row.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn part<V: Vector>(codes: V::Bytes, part: usize) -> V::Bytes;
}

/// What [`Unpack`] of a type with [`Codes`] says of eight blocks.
macro_rules! by_eight {
    () => {
        const BY_EIGHT: bool = true;

        /// # Safety
        /// As the trait says.
        #[inline(always)]
        unsafe fn meet_eight<V: Vector, const T: usize>(
            stored: (*const u8, crate::product::Ahead, usize),
            offsets: &[isize; 16],
            input: &crate::panel::Input,
            first: usize,
            total: &mut [V::Float; T],
        ) {
            // SAFETY: the caller's contract is the same.
            unsafe { eight::meet::<V, Self, T>(stored, offsets, input, first, total) };
        }

        /// # Safety
        /// As the trait says.
        #[inline(always)]
        unsafe fn fill_eight<V: Vector>(
            base: *const u8,
            offsets: &[isize; 16],
            ahead: (&mut crate::product::Ahead, usize),
            out: &mut impl Sink<V>,
        ) {
            // SAFETY: the caller's contract is the same.
            unsafe { eight::fill::<V, Self>(base, offsets, ahead, out) };
        }
    };
}

pub(crate) use by_eight;

/// What a block has met so far of so many tokens.
struct Meeting<V: Vector, const T: usize> {
    /// Sums of products; where tokens are too few to keep a core busy, of every other word.
    sums: [[V::Int; T]; 2],
    scale: V::Float,
    /// Those of the blocks of its span before it, up to the scale of the activations.
    span: [Partial<V>; T],
}

/// Adds the products of blocks `first` to `first + 8`, which are stored at `base + offsets[row]`, with all `T` tokens of a tile to `total`: the
/// same bits as block by block. Asks for as much of `ahead` meanwhile, from line `line` on.
///
/// # Safety
/// As [`Unpack::unpack`] of each block; the input has them, and they begin with a span; the CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn meet<V: Vector, U: Codes, const T: usize>(
    (base, ahead, line): (*const u8, Ahead, usize),
    offsets: &[isize; LANES_MAX],
    input: &Input,
    first: usize,
    total: &mut [V::Float; T],
) {
    const { assert!(U::PARTS * (U::BYTES - SCALE_BYTES) == U::COLUMNS, "a scale, and codes of all columns") };
    const { assert!(U::COLUMNS == U::Form::GROUP && (BLOCKS * U::COLUMNS).is_multiple_of(SPAN), "whole spans") };
    const { assert!(U::COLUMNS == activation::GROUP, "a block's activations beside each other") };
    const { assert!(!U::Form::MINIMUM && matches!(U::Form::SCALES, Scales::Numbers), "a scale and nothing else") };
    let runs = const { BLOCKS * U::BYTES / RUN };
    // SAFETY: the caller's contract is the same; what is asked for may lie anywhere.
    unsafe {
        let values = input.values.add(first * U::COLUMNS * T);
        let mut meeting =
            Meeting::<V, T> { sums: [[V::int(0); T]; 2], scale: V::float(0.0), span: [Partial::zero(); T] };
        let mut before = V::byte(0);
        written_out!(run in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16] {
            if run < runs {
                if V::ASKS_FILLING {
                    ask::<V>(ahead, line, run * WORDS..(run + 1) * WORDS);
                }
                let words = V::columns16(base.add(run * RUN), offsets);
                written_out!(index in [0, 1, 2, 3] {
                    let (word, at) = (words[index], run * RUN + index * 4);
                    let (block, inside) = (at / U::BYTES, at % U::BYTES);
                    if inside == 0 {
                        meeting.begin::<U>(input, first + block, V::half_to_float::<0>(word));
                    }
                    let joins = const { joins::<U>(T) } && is_apart(block);
                    let codes = if joins { joined::<V>(before, word) } else { word };
                    for part in 0..if joins && inside == 0 { 0 } else { U::PARTS } {
                        let weights = U::part::<V>(codes, part);
                        let weights = as_multiplied::<V, U::Form>(weights);
                        // Where the scale stands beside two codes, zeros.
                        let (weights, code) = match inside {
                            _ if joins => (weights, inside - 4),
                            0 => (V::shift_right::<16>(weights), 0),
                            _ if inside + 4 > U::BYTES => (V::shift_left::<16>(weights), inside - 2 * SCALE_BYTES),
                            _ => (weights, inside - SCALE_BYTES),
                        };
                        let x = values.add(block * U::COLUMNS * T + part * (U::BYTES - SCALE_BYTES) + code);
                        let way = if T < BUSY { (index + part) % 2 } else { 0 };
                        for t in 0..T {
                            let x = V::word(x.add(t * U::COLUMNS).cast::<u32>().read_unaligned());
                            meeting.sums[way][t] = dot::<V, U::Form>(meeting.sums[way][t], weights, x);
                        }
                        meeting.settle(way);
                    }
                    // Behind what was read of the run, where that would wait.
                    if !V::ASKS_FILLING {
                        ask::<V>(ahead, line, run * WORDS + index..run * WORDS + index + 1);
                    }
                    if inside + 4 >= U::BYTES {
                        meeting.end::<U>(input, first + block, total);
                        if inside + 4 > U::BYTES {
                            // The next block's scale stands behind the last two codes.
                            meeting.begin::<U>(input, first + block + 1, V::half_to_float::<1>(word));
                        }
                    }
                    before = word;
                });
            }
        });
        // Read by nobody behind the last block.
        let _ = before;
    }
}

/// Whether the codes of block number `block` of eight begin inside a word.
const fn is_apart(block: usize) -> bool {
    block.is_multiple_of(2)
}

/// Whether words of codes of such blocks are put together from two, where so many tokens meet them: that takes three instructions for each
/// word of a block's codes, and saves the products of each part of one word with each token.
const fn joins<U: Codes>(tokens: usize) -> bool {
    U::PARTS * tokens > 3 * (U::BYTES - SCALE_BYTES) / 4
}

/// Words of codes, each the last two bytes of a word and the first two of the next.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn joined<V: Vector>(word: V::Bytes, next: V::Bytes) -> V::Bytes {
    // SAFETY: the caller's contract is the same.
    unsafe { V::or(V::shift_right::<16>(word), V::shift_left::<16>(next)) }
}

impl<V: Vector, const T: usize> Meeting<V, T> {
    /// Begins with block number `number`.
    ///
    /// # Safety
    /// The input has the block; the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn begin<U: Unpack>(&mut self, input: &Input, number: usize, scale: V::Float) {
        for t in 0..T {
            // SAFETY: the caller's contract is the same.
            self.sums[0][t] = unsafe { begun::<V, U::Form>(input, number * T + t) };
            // SAFETY: as above.
            self.sums[1][t] = unsafe { V::int(0) };
        }
        self.scale = scale;
    }

    /// [`Vector::settled`] of the sums of a way.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn settle(&mut self, way: usize) {
        for sum in &mut self.sums[way] {
            // SAFETY: the caller's contract is the same.
            *sum = unsafe { V::settled(*sum) };
        }
    }

    /// Adds block number `number` to its span, and that to `total` if it was the last of it.
    ///
    /// # Safety
    /// As [`Self::begin`].
    #[inline(always)]
    unsafe fn end<U: Unpack>(&mut self, input: &Input, number: usize, total: &mut [V::Float; T]) {
        for t in 0..T {
            // SAFETY: the caller's contract is the same.
            unsafe {
                let integer = if T < BUSY { V::add_ints(self.sums[0][t], self.sums[1][t]) } else { self.sums[0][t] };
                self.span[t].add::<U::Form>(0, input.sums.add(number * T + t), (integer, self.scale, self.scale));
                if ((number + 1) * U::COLUMNS).is_multiple_of(SPAN) {
                    let scale = V::float(*input.scales.add(number * U::COLUMNS / SPAN * T + t));
                    total[t] = V::mul_add(self.span[t].of_block::<U::Form>(V::float(1.0)), scale, total[t]);
                    self.span[t] = Partial::zero();
                }
            }
        }
    }
}

/// Unpacks eight blocks, which are stored at `base + offsets[row]`, as if they were one: all columns and scales of the first, then of the next.
/// Asks for `lines` of `ahead` with each run of bytes that is read.
///
/// # Safety
/// As [`Unpack::unpack`] of each block; `out` takes eight of them.
#[inline(always)]
pub unsafe fn fill<V: Vector, U: Codes>(
    base: *const u8,
    offsets: &[isize; LANES_MAX],
    (ahead, lines): (&mut Ahead, usize),
    out: &mut impl Sink<V>,
) {
    let runs = const { BLOCKS * U::BYTES / RUN };
    let codes = const { U::BYTES - SCALE_BYTES };
    // SAFETY: the caller's contract is the same.
    unsafe {
        let mut before = V::byte(0);
        written_out!(run in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16] {
            if run < runs {
                ahead.ask::<V>(lines);
                // The compiler would else read much of all runs first, and put it aside in memory.
                V::settled(V::int(0));
                let words = V::columns16(base.add(run * RUN), offsets);
                written_out!(index in [0, 1, 2, 3] {
                    let (word, at) = (words[index], run * RUN + index * 4);
                    let (block, inside) = (at / U::BYTES, at % U::BYTES);
                    if inside == 0 {
                        out.scale(block, V::half_to_float::<0>(word));
                    } else {
                        let both = if is_apart(block) { joined::<V>(before, word) } else { word };
                        let first = inside - if is_apart(block) { 4 } else { SCALE_BYTES };
                        for part in 0..U::PARTS {
                            let column = block * U::COLUMNS + part * codes + first;
                            out.columns(column / 4, U::part::<V>(both, part));
                        }
                    }
                    if inside + 4 > U::BYTES {
                        out.scale(block + 1, V::half_to_float::<1>(word));
                    }
                    before = word;
                });
            }
        });
        // Read by nobody behind the last block.
        let _ = before;
    }
}

/// Asks for the lines that go with some words: of as many as all words take, from `line` on.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn ask<V: Vector>(ahead: Ahead, line: usize, words: Range<usize>) {
    let bytes = RUN / WORDS * V::LANES;
    for line in line + words.start * bytes / LINE..line + words.end * bytes / LINE {
        // SAFETY: the caller's contract is the same; what is asked for may lie anywhere.
        unsafe { ahead.ask_at::<V>(ahead.line::<V>(line)) };
    }
}
