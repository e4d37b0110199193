//! Keys and values rounded to bytes or half bytes, where four neighbours meet in one instruction.
//!
//! A head's values are taken in blocks of 32, the last one padded with zeros.
//!
//! - *Keys* have a scale for each block, and stand as (places / 16, blocks, bytes of a block / 4, 16 tokens, 4 bytes): one
//!   product adds four channels to the scores of sixteen tokens.
//! - *Values* stand as (places / 4, blocks, bytes of a block, 4 tokens): one product adds four tokens to sixteen channels. A
//!   token has one scale for the whole head, which attention takes into the token's weight before that is rounded. (A scale
//!   for each channel would depend on tokens that come later.) Owned are its logarithm to the base of two, which is added to
//!   the token's score, and its inverse, which takes it out of the sum of weights again.
//!
//! A block of [`Octet`]s is 32 signed bytes; of [`Nibble`]s 16, each with value `i` in its low half and value `i + 16` in its high half.

use std::marker::PhantomData;
use std::ops::Range;

use half::f16;
use kauri_device::memory::Run;

use super::slabs::Slabs;
use super::{New, SIDE, copy_part, part_of};
use crate::aligned::Aligned;
use crate::foresight::Place;
use crate::pool::Disjoint;
use crate::product::LINE;
use crate::vector::Vector;

/// Values of a block.
pub const BLOCK: usize = 32;
/// Blocks of a row that are rounded together.
pub const BLOCKS: usize = 4;
/// Their values.
pub const PART: usize = BLOCKS * BLOCK;
/// Tokens whose values stand together.
pub const TOGETHER: usize = 4;
/// Parts of memory that a token's key and value lie in, at most.
pub const LINES: usize = 5;

/// Keys and values as bytes, of all heads or of one.
#[derive(Clone, Copy)]
pub struct Bytes<B, H, F> {
    /// (places / 16, blocks, bytes of a block / 4, 16, 4).
    pub keys: B,
    /// (places / 16, blocks, 16).
    pub key_scales: H,
    /// (places / 4, blocks, bytes of a block, 4).
    pub values: B,
    /// Logarithms of the scales of values, to the base of two: (places).
    pub logarithms: F,
    /// Inverses of the scales of values: (places).
    pub inverses: F,
    /// Blocks of a head.
    pub blocks: usize,
}

/// All of a cache's, in memory of their own.
pub type Owned = Bytes<Aligned<u8>, Aligned<f16>, Aligned<f32>>;

/// How 32 values become bytes.
pub trait Packed: Copy {
    /// Bytes of a block.
    const BYTES: usize;

    /// One step of a scale for keys from `least` to `most`; zero for zeros.
    fn key_step(least: f32, most: f32) -> f32;
    /// The same for values, never negative.
    fn value_step(least: f32, most: f32) -> f32;
    /// A block of keys in memory, of so many steps each.
    fn key(steps: &[i8; BLOCK], bytes: &mut [u8]);
    /// The same of values.
    fn value(steps: &[i8; BLOCK], bytes: &mut [u8]);
    /// How many steps value `index` of a block is; `byte(i)` is byte `i` of a key's block.
    fn key_steps(index: usize, byte: impl Fn(usize) -> u8) -> i32;
    /// The same in a value's block.
    fn value_steps(index: usize, byte: impl Fn(usize) -> u8) -> i32;

    /// What stands for zero in [`Self::keys`].
    fn zero<V: Vector>() -> i32;
    /// The steps of channels `4 * four..` of a block of keys, for as many tokens as there are lanes, over [`Self::zero`].
    ///
    /// # Safety
    /// The CPU has the instructions of `V`; `from` is the block's first byte of the first of these tokens.
    unsafe fn keys<V: Vector>(from: *const u8, four: usize) -> V::Bytes;
    /// Adds, in each lane, the products of four such steps with four of `x`, from -127 on.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn dot<V: Vector>(sum: V::Int, keys: V::Bytes, x: V::Bytes) -> V::Int;
    /// The signed steps of as many channels of a block of values as there are lanes, from `channel` on, for four tokens.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`; `from` is the block's first byte of the first of these tokens.
    unsafe fn values<V: Vector>(from: *const u8, channel: usize) -> V::Bytes;
}

/// A byte a value.
#[derive(Clone, Copy)]
pub struct Octet;

/// Half a byte a value.
#[derive(Clone, Copy)]
pub struct Nibble;

impl Packed for Octet {
    const BYTES: usize = 32;

    #[inline(always)]
    fn key_step(least: f32, most: f32) -> f32 {
        most.max(-least) / 127.0
    }

    #[inline(always)]
    fn value_step(least: f32, most: f32) -> f32 {
        Self::key_step(least, most)
    }

    #[inline(always)]
    fn key(steps: &[i8; BLOCK], bytes: &mut [u8]) {
        bytes.iter_mut().zip(steps).for_each(|(byte, &steps)| *byte = steps as u8);
    }

    #[inline(always)]
    fn value(steps: &[i8; BLOCK], bytes: &mut [u8]) {
        Self::key(steps, bytes);
    }

    fn key_steps(index: usize, byte: impl Fn(usize) -> u8) -> i32 {
        i32::from(byte(index) as i8)
    }

    fn value_steps(index: usize, byte: impl Fn(usize) -> u8) -> i32 {
        Self::key_steps(index, byte)
    }

    #[inline(always)]
    fn zero<V: Vector>() -> i32 {
        if V::SIGNED { 0 } else { 128 }
    }

    #[inline(always)]
    unsafe fn keys<V: Vector>(from: *const u8, four: usize) -> V::Bytes {
        // SAFETY: eight fours of sixteen tokens follow the block's first byte.
        unsafe {
            let keys = V::load_bytes(from.add(four * 4 * SIDE));
            if V::SIGNED { keys } else { V::xor(keys, V::byte(0x80)) }
        }
    }

    #[inline(always)]
    unsafe fn dot<V: Vector>(sum: V::Int, keys: V::Bytes, x: V::Bytes) -> V::Int {
        // SAFETY: the caller's contract is the same.
        unsafe { if V::SIGNED { V::dot_signed(sum, keys, x) } else { V::dot(sum, keys, x) } }
    }

    #[inline(always)]
    unsafe fn values<V: Vector>(from: *const u8, channel: usize) -> V::Bytes {
        // SAFETY: 32 channels of four tokens follow the block's first byte.
        unsafe { V::load_bytes(from.add(channel * TOGETHER)) }
    }
}

impl Packed for Nibble {
    const BYTES: usize = 16;

    /// The extreme value becomes -8 steps: the side that has one more of them.
    #[inline(always)]
    fn key_step(least: f32, most: f32) -> f32 {
        if most > -least { most / -8.0 } else { least / -8.0 }
    }

    #[inline(always)]
    fn value_step(least: f32, most: f32) -> f32 {
        (most / 7.0).max(least / -8.0)
    }

    #[inline(always)]
    fn key(steps: &[i8; BLOCK], bytes: &mut [u8]) {
        let (low, high) = steps.split_at(BLOCK / 2);
        for (byte, (&low, &high)) in bytes.iter_mut().zip(low.iter().zip(high)) {
            let (low, high) = ((low.min(7) + 8) as u8, (high.min(7) + 8) as u8);
            *byte = low | high << 4;
        }
    }

    #[inline(always)]
    fn value(steps: &[i8; BLOCK], bytes: &mut [u8]) {
        Self::key(steps, bytes);
    }

    fn key_steps(index: usize, byte: impl Fn(usize) -> u8) -> i32 {
        i32::from(byte(index % 16) >> (index / 16 * 4) & 15) - 8
    }

    fn value_steps(index: usize, byte: impl Fn(usize) -> u8) -> i32 {
        Self::key_steps(index, byte)
    }

    #[inline(always)]
    fn zero<V: Vector>() -> i32 {
        8
    }

    #[inline(always)]
    unsafe fn dot<V: Vector>(sum: V::Int, keys: V::Bytes, x: V::Bytes) -> V::Int {
        // SAFETY: the caller's contract is the same.
        unsafe { V::dot_low(sum, keys, x) }
    }

    #[inline(always)]
    unsafe fn keys<V: Vector>(from: *const u8, four: usize) -> V::Bytes {
        // SAFETY: four fours of sixteen tokens follow the block's first byte.
        unsafe {
            let both = V::load_bytes(from.add(four % 4 * 4 * SIDE));
            V::and(if four < 4 { both } else { V::shift_right::<4>(both) }, V::byte(15))
        }
    }

    #[inline(always)]
    unsafe fn values<V: Vector>(from: *const u8, channel: usize) -> V::Bytes {
        const SIGNED: [u8; 16] = [248, 249, 250, 251, 252, 253, 254, 255, 0, 1, 2, 3, 4, 5, 6, 7];
        // SAFETY: sixteen pairs of channels of four tokens follow the block's first byte.
        unsafe {
            let both = V::load_bytes(from.add(channel % 16 * TOGETHER));
            let codes = V::and(if channel < 16 { both } else { V::shift_right::<4>(both) }, V::byte(15));
            V::lookup(&SIGNED, codes)
        }
    }
}

impl Owned {
    /// Room for `places` tokens of heads of `head_dim` values.
    pub fn new<P: Packed>(places: usize, head_dim: usize) -> Self {
        let blocks = head_dim.div_ceil(BLOCK);
        Self {
            keys: Aligned::new(places * blocks * P::BYTES),
            key_scales: Aligned::new(places * blocks),
            values: Aligned::new(places * blocks * P::BYTES),
            logarithms: Aligned::new(places),
            inverses: Aligned::new(places),
            blocks,
        }
    }

    /// As [`Aligned::prefer_large_pages`].
    pub(super) fn prefer_large_pages(&mut self) {
        let Self { keys, key_scales, values, logarithms, inverses, blocks: _ } = self;
        [keys, values].into_iter().for_each(Aligned::prefer_large_pages);
        key_scales.prefer_large_pages();
        [logarithms, inverses].into_iter().for_each(Aligned::prefer_large_pages);
    }

    /// Bytes of one key and one value of so many blocks.
    pub fn bytes<P: Packed>(blocks: usize) -> usize {
        blocks * (2 * P::BYTES + size_of::<f16>()) + 2 * size_of::<f32>()
    }

    /// Bytes in memory.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        let scales = 2 * self.key_scales.len() + 4 * (self.logarithms.len() + self.inverses.len());
        self.keys.len() + self.values.len() + scales
    }

    /// One of the heads, from its first place on.
    pub fn head<P: Packed>(&self, head: usize) -> Bytes<&[u8], &[f16], &[f32]> {
        let start = Slabs::head(head);
        Bytes {
            keys: &self.keys[start * self.blocks * P::BYTES..],
            key_scales: &self.key_scales[start * self.blocks..],
            values: &self.values[start * self.blocks * P::BYTES..],
            logarithms: &self.logarithms[start..],
            inverses: &self.inverses[start..],
            blocks: self.blocks,
        }
    }

    /// Walks over what these places have in memory: whole neighbourhoods.
    pub(super) fn walk<P: Packed>(&mut self, places: &Range<usize>, run: &mut dyn FnMut(Run<'_>)) {
        let part = |each: usize| part_of(places, each);
        let Self { keys, key_scales, values, logarithms, inverses, blocks } = self;
        run(Run::Bytes(&mut keys[part(*blocks * P::BYTES)]));
        run(Run::Halves(&mut key_scales[part(*blocks)]));
        run(Run::Bytes(&mut values[part(*blocks * P::BYTES)]));
        run(Run::Floats(&mut logarithms[part(1)]));
        run(Run::Floats(&mut inverses[part(1)]));
    }

    /// Copies what is at the places `from` to those from `to` on: whole neighbourhoods.
    pub(super) fn copy<P: Packed>(&mut self, from: &Range<usize>, to: usize) {
        let Self { keys, key_scales, values, logarithms, inverses, blocks } = self;
        copy_part(keys, from, to, *blocks * P::BYTES);
        copy_part(key_scales, from, to, *blocks);
        copy_part(values, from, to, *blocks * P::BYTES);
        copy_part(logarithms, from, to, 1);
        copy_part(inverses, from, to, 1);
    }

    pub(super) fn disjoint(&mut self) -> Bytes<Disjoint<'_, u8>, Disjoint<'_, f16>, Disjoint<'_, f32>> {
        Bytes {
            keys: Disjoint::new(&mut self.keys),
            key_scales: Disjoint::new(&mut self.key_scales),
            values: Disjoint::new(&mut self.values),
            logarithms: Disjoint::new(&mut self.logarithms),
            inverses: Disjoint::new(&mut self.inverses),
            blocks: self.blocks,
        }
    }
}

impl Bytes<Disjoint<'_, u8>, Disjoint<'_, f16>, Disjoint<'_, f32>> {
    /// What begins with one of the heads.
    pub(super) fn behind<P: Packed>(
        &self,
        head: usize,
    ) -> Bytes<Disjoint<'_, u8>, Disjoint<'_, f16>, Disjoint<'_, f32>> {
        let start = Slabs::head(head);
        Bytes {
            keys: self.keys.behind(start * self.blocks * P::BYTES),
            key_scales: self.key_scales.behind(start * self.blocks),
            values: self.values.behind(start * self.blocks * P::BYTES),
            logarithms: self.logarithms.behind(start),
            inverses: self.inverses.behind(start),
            blocks: self.blocks,
        }
    }

    /// Where a place lies: lines that have its neighbours' keys and values, too.
    pub(super) fn lines<P: Packed>(&self, place: usize) -> [Place; LINES] {
        let each = self.blocks * P::BYTES;
        let side = place / SIDE * SIDE..(place / SIDE + 1) * SIDE;
        let together = place / TOGETHER * TOGETHER..(place / TOGETHER + 1) * TOGETHER;
        [
            self.keys.lies(part_of(&side, each)),
            self.values.lies(part_of(&together, each)),
            self.key_scales.lies(part_of(&side, self.blocks)),
            self.logarithms.lies(place..place + 1),
            self.inverses.lies(place..place + 1),
        ]
    }

    /// The memory of the sixteen neighbours around a place.
    ///
    /// # Safety
    /// No other use of the head that they are of.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's contract")]
    #[inline(always)]
    unsafe fn around<P: Packed>(&self, place: usize) -> Bytes<&mut [u8], &mut [f16], &mut [f32]> {
        let side = place / SIDE * SIDE..(place / SIDE + 1) * SIDE;
        // SAFETY: the places of different heads do not overlap, and this one is in use once by the caller's word.
        unsafe {
            Bytes {
                keys: self.keys.slice(part_of(&side, self.blocks * P::BYTES)),
                key_scales: self.key_scales.slice(part_of(&side, self.blocks)),
                values: self.values.slice(part_of(&side, self.blocks * P::BYTES)),
                logarithms: self.logarithms.slice(side.clone()),
                inverses: self.inverses.slice(side),
                blocks: self.blocks,
            }
        }
    }

    /// Keeps new tokens; `N` is `P::BYTES`.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`; no other use of this head.
    #[inline(always)]
    pub(super) unsafe fn store<R: Rounding, P: Packed, const N: usize>(&self, new: &New<'_>) {
        let mut room = Room::new();
        for (place, tokens) in new.runs() {
            // SAFETY: the caller's contract is the same.
            unsafe { self.around::<P>(place).store::<R, P, N>(new, place % SIDE, tokens, &mut room) };
        }
    }
}

/// What bytes of new tokens are made in.
struct Room<const N: usize> {
    keys: [[[u8; N]; BLOCKS]; SIDE],
    values: [[[u8; N]; BLOCKS]; SIDE],
    part: [f32; PART],
    steps: [i8; PART],
}

impl<const N: usize> Room<N> {
    #[inline(always)]
    fn new() -> Self {
        let bytes = [[[0; N]; BLOCKS]; SIDE];
        Self { keys: bytes, values: bytes, part: [0.0; PART], steps: [0; PART] }
    }
}

impl Bytes<&mut [u8], &mut [f16], &mut [f32]> {
    /// Keeps new tokens of sixteen neighbours, the first of them as number `side`; `N` is `P::BYTES`.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`.
    #[inline(always)]
    unsafe fn store<R: Rounding, P: Packed, const N: usize>(
        &mut self,
        new: &New<'_>,
        side: usize,
        tokens: Range<usize>,
        Room { keys, values, part: room, steps }: &mut Room<N>,
    ) {
        let (parts, count) = (self.blocks.div_ceil(BLOCKS), tokens.len());
        let mut inverses = [0.0; SIDE];
        for (index, token) in tokens.clone().enumerate() {
            // Tokens lie far apart, and some of them in another core's cache.
            if token + SIDE < new.batch.tokens.len() {
                // SAFETY: the caller's contract is the same.
                unsafe {
                    R::ask(new.value(token + SIDE));
                    R::ask(new.key(token + SIDE));
                }
            }
            let (mut least, mut most) = (0.0f32, 0.0f32);
            for number in 0..parts {
                // SAFETY: the caller's contract is the same.
                for (low, high) in unsafe { R::extremes(part(new.value(token), number, room)) } {
                    (least, most) = (least.min(low), most.max(high));
                }
            }
            // At least as much as has a finite inverse.
            let step = if most < f32::INFINITY { P::value_step(least, most).max(1e-37) } else { f32::NAN };
            inverses[index] = 1.0 / step;
            self.inverses[side + index] = 1.0 / step;
            // Scores stay numbers, so that rows that do not see the token keep their bits.
            self.logarithms[side + index] = if step.is_nan() { 0.0 } else { step.log2() };
        }
        for number in 0..parts {
            let mut scales = [[0.0; SIDE]; BLOCKS];
            for (index, token) in tokens.clone().enumerate() {
                // SAFETY: the caller's contract is the same.
                unsafe {
                    let key = part(new.key(token), number, room);
                    let mut inverses_of_key = [0.0; BLOCKS];
                    for (block, (least, most)) in R::extremes(key).into_iter().enumerate() {
                        let mut step = P::key_step(least, most);
                        if most == f32::INFINITY {
                            // What sees the token has no sum of weights then.
                            (step, self.inverses[side + index]) = (0.0, f32::NAN);
                        }
                        scales[block][index] = step;
                        inverses_of_key[block] = if step == 0.0 { 0.0 } else { 1.0 / step };
                    }
                    R::steps(key, inverses_of_key, steps);
                    for (key, steps) in keys[index].iter_mut().zip(steps.as_chunks().0) {
                        P::key(steps, key);
                    }
                    let value = part(new.value(token), number, room);
                    R::steps(value, [inverses[index]; BLOCKS], steps);
                    for (value, steps) in values[index].iter_mut().zip(steps.as_chunks().0) {
                        P::value(steps, value);
                    }
                }
            }
            let blocks = number * BLOCKS..self.blocks.min((number + 1) * BLOCKS);
            for (inside, block) in blocks.enumerate() {
                // SAFETY: the caller's contract is the same.
                let scales = unsafe { R::halves(&scales[inside]) };
                self.store_keys((side, block, inside), &keys[..count], &scales[..count]);
                self.store_values((side, block, inside), &values[..count]);
            }
        }
    }

    /// Keeps a block of the keys of up to sixteen neighbours, which is number `inside` of `rows`.
    #[inline(always)]
    fn store_keys<const N: usize>(
        &mut self,
        (side, block, inside): (usize, usize, usize),
        rows: &[[[u8; N]; BLOCKS]],
        scales: &[f16],
    ) {
        let from = block * SIDE;
        self.key_scales[from + side..][..scales.len()].copy_from_slice(scales);
        let keys = self.keys[from * N..][..SIDE * N].as_chunks_mut::<{ 4 * SIDE }>().0;
        for (four, keys) in keys.iter_mut().enumerate() {
            let keys = &mut keys.as_chunks_mut::<4>().0[side..];
            for (key, row) in keys.iter_mut().zip(rows) {
                *key = row[inside].as_chunks::<4>().0[four];
            }
        }
    }

    /// The same of values.
    #[inline(always)]
    fn store_values<const N: usize>(
        &mut self,
        (side, block, inside): (usize, usize, usize),
        rows: &[[[u8; N]; BLOCKS]],
    ) {
        let mut index = 0;
        while index < rows.len() {
            let together = (side + index) % TOGETHER;
            let from = ((side + index) / TOGETHER * self.blocks + block) * N * TOGETHER;
            let values = self.values[from..][..N * TOGETHER].as_chunks_mut::<TOGETHER>().0;
            if let (0, Some([a, b, c, d])) = (together, rows[index..].first_chunk::<TOGETHER>()) {
                let [a, b, c, d] = [&a[inside], &b[inside], &c[inside], &d[inside]];
                for (channel, value) in values.iter_mut().enumerate() {
                    *value = [a[channel], b[channel], c[channel], d[channel]];
                }
                index += TOGETHER;
            } else {
                // Whole words: a byte in each fourth place is a store for each.
                let (shift, row) = (8 * together, &rows[index][inside]);
                for (value, &byte) in values.iter_mut().zip(row) {
                    let others = u32::from_le_bytes(*value) & !(0xff << shift);
                    *value = (others | u32::from(byte) << shift).to_le_bytes();
                }
                index += 1;
            }
        }
    }
}

impl Bytes<&[u8], &[f16], &[f32]> {
    /// Gives the key of one token back.
    pub(super) fn read_key<P: Packed>(&self, place: usize, key: &mut [f32]) {
        let side = place % SIDE;
        for (index, key) in key.iter_mut().enumerate() {
            let block = (place - side) * self.blocks + index / BLOCK * SIDE;
            let byte = |byte: usize| self.keys[block * P::BYTES + (byte / 4 * SIDE + side) * 4 + byte % 4];
            *key = P::key_steps(index % BLOCK, byte) as f32 * self.key_scales[block + side].to_f32();
        }
    }

    /// Gives the value of one token back.
    pub(super) fn read_value<P: Packed>(&self, place: usize, value: &mut [f32]) {
        for (index, value) in value.iter_mut().enumerate() {
            let block = place / TOGETHER * self.blocks + index / BLOCK;
            let byte = |byte: usize| self.values[(block * P::BYTES + byte) * TOGETHER + place % TOGETHER];
            *value = P::value_steps(index % BLOCK, byte) as f32 / self.inverses[place];
        }
    }
}

/// Part number `number` of a head, where the head ends before it does brought to `room` and padded with zeros.
#[inline(always)]
pub fn part<'a>(head: &'a [f32], number: usize, room: &'a mut [f32; PART]) -> &'a [f32; PART] {
    let from = &head[number * PART..];
    if let Some(whole) = from.first_chunk() {
        return whole;
    }
    room.fill(0.0);
    room[..from.len()].copy_from_slice(from);
    room
}

/// The [extremes](Rounding::extremes) of values of which one is not finite.
const NOT_FINITE: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

/// How values are rounded to steps: one definition, and the same in vectors.
pub trait Rounding {
    /// The smallest and the largest of the values of each block and zero; infinite where one of all values is not finite, or no number.
    ///
    /// # Safety
    /// The CPU has the instructions that the implementing type stands for.
    unsafe fn extremes(values: &[f32; PART]) -> [(f32, f32); BLOCKS];
    /// The whole numbers next to the values times the number of their block, within -128 and 127; to even between two.
    ///
    /// # Safety
    /// The CPU has the instructions that the implementing type stands for.
    unsafe fn steps(values: &[f32; PART], inverses: [f32; BLOCKS], to: &mut [i8; PART]);
    /// The nearest half-precision numbers.
    ///
    /// # Safety
    /// The CPU has the instructions that the implementing type stands for.
    unsafe fn halves(values: &[f32; SIDE]) -> [f16; SIDE];
    /// Asks for values that will be read soon, where there is an instruction for that.
    ///
    /// # Safety
    /// The CPU has the instructions that the implementing type stands for.
    #[inline(always)]
    unsafe fn ask(_values: &[f32]) {}
}

/// The definition.
pub struct Formula;

impl Rounding for Formula {
    unsafe fn extremes(values: &[f32; PART]) -> [(f32, f32); BLOCKS] {
        let mut extremes = [NOT_FINITE; BLOCKS];
        if values.iter().any(|value| !value.is_finite()) {
            return extremes;
        }
        for (extremes, values) in extremes.iter_mut().zip(values.as_chunks::<BLOCK>().0) {
            *extremes =
                values.iter().fold((0.0f32, 0.0f32), |(least, most), &value| (least.min(value), most.max(value)));
        }
        extremes
    }

    unsafe fn steps(values: &[f32; PART], inverses: [f32; BLOCKS], to: &mut [i8; PART]) {
        for (index, (step, value)) in to.iter_mut().zip(values).enumerate() {
            *step = (value * inverses[index / BLOCK]).round_ties_even() as i8;
        }
    }

    unsafe fn halves(values: &[f32; SIDE]) -> [f16; SIDE] {
        values.map(f16::from_f32)
    }
}

/// The same with the instructions of `V`: the same numbers for the same numbers.
pub struct Vectors<V>(PhantomData<V>);

impl<V: Vector> Rounding for Vectors<V> {
    #[inline(always)]
    unsafe fn extremes(values: &[f32; PART]) -> [(f32, f32); BLOCKS] {
        // SAFETY: vectors lie inside a block, which is a whole number of them; the caller has the instructions.
        unsafe {
            let (mut most, mut least) = ([V::float(0.0); BLOCKS], [V::float(0.0); BLOCKS]);
            // The largest passes over what is no number; a product with zero is none then, and none of infinity.
            let mut zero = V::float(0.0);
            for block in 0..BLOCKS {
                for at in (0..BLOCK).step_by(V::LANES) {
                    let value = V::load(values.as_ptr().add(block * BLOCK + at));
                    most[block] = V::max(value, most[block]);
                    least[block] = V::max(V::sub(V::float(0.0), value), least[block]);
                    zero = V::mul_add(value, V::float(0.0), zero);
                }
            }
            if V::sum(zero) != 0.0 {
                return [NOT_FINITE; BLOCKS];
            }
            let (most, least) = (V::mosts(most), V::mosts(least));
            let mut extremes = [(0.0, 0.0); BLOCKS];
            for block in 0..BLOCKS {
                extremes[block] = (0.0 - least[block], most[block]);
            }
            extremes
        }
    }

    #[inline(always)]
    unsafe fn steps(values: &[f32; PART], inverses: [f32; BLOCKS], to: &mut [i8; PART]) {
        // SAFETY: vectors lie inside a block, which is a whole number of them; the caller has the instructions.
        unsafe {
            for at in (0..PART).step_by(4 * V::LANES) {
                let mut four = [V::float(0.0); 4];
                for index in 0..4 {
                    let at = at + index * V::LANES;
                    four[index] = V::mul(V::load(values.as_ptr().add(at)), V::float(inverses[at / BLOCK]));
                }
                V::store_bytes(V::narrow(four), to.as_mut_ptr().add(at).cast());
            }
        }
    }

    #[inline(always)]
    unsafe fn halves(values: &[f32; SIDE]) -> [f16; SIDE] {
        let mut halves = [f16::ZERO; SIDE];
        for at in (0..SIDE).step_by(V::LANES) {
            // SAFETY: vectors lie inside both; the caller has the instructions.
            unsafe { V::store_half(V::load(values.as_ptr().add(at)), halves.as_mut_ptr().add(at)) };
        }
        halves
    }

    #[inline(always)]
    unsafe fn ask(values: &[f32]) {
        for line in values.chunks(LINE / size_of::<f32>()) {
            // SAFETY: the caller has the instructions.
            unsafe { V::prefetch(line.as_ptr().cast()) };
        }
    }
}
