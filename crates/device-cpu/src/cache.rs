//! The pages of keys and values in memory, laid out for the attention kernels.
//!
//! A *place* is where one token of one key-value head lies in each of the arrays below; what the pages of a sequence lie beside is said in
//! [`slabs`]. Sixteen neighbouring tokens have neighbouring places, and workers that store different heads write different memory. `prompt`
//! decides which page belongs to whom.
//!
//! - Numbers: keys are (places / 16, width, 16): sixteen neighbouring tokens stand side by side, so that their scores are the
//!   lanes of a vector and no sum runs across lanes. Values are (places, width): a token's vector is contiguous. The width is
//!   the head's, rounded up to a whole vector. Of latent attention there are only values, which are the keys too.
//! - Bytes ([`bytes`]): as the byte products of vector instructions want them, four at a time.

pub mod blocks;
pub mod bytes;
mod slabs;

use std::ops::Range;

use half::f16;
use kauri_device::memory::Run;
use kauri_device::{Batch, CacheType, DeviceError, Plan};

use crate::aligned::{Aligned, Zero};
use crate::detect::Kernels;
use crate::foresight::{self, Place};
use crate::pool::{Disjoint, Pool, share};
use crate::vector::Vector;
use bytes::{Bytes, Formula, Nibble, Octet, Packed, Rounding, Vectors};
use slabs::Slabs;

pub use slabs::Places;

/// Tokens whose keys stand side by side.
pub const SIDE: usize = 16;
/// Most new tokens whose places threads are told of before they store them.
const FORESEEN_MAX: usize = 4;
/// Most new tokens whose places are asked for when their head's turn comes; a prompt's fill whole lines.
const ASKED_MAX: usize = 16;

/// Keys and values of some blocks whose heads are alike: those of the first one's heads first.
pub struct Cache {
    /// As said above.
    pub kept: Kept,
    page_tokens: usize,
    slabs: Slabs,
    blocks: usize,
    /// Of a block.
    kv_heads: usize,
    head_dim: usize,
}

/// What a block keeps of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Keys and values.
    Heads {
        /// Heads of each.
        kv_heads: u32,
        /// Values of a head.
        head_dim: u32,
    },
    /// One head's keys, whose values begin behind `start` and are `count`. Bytes are no way to keep these.
    Rows {
        /// Values before those that are values of a value, too.
        start: u32,
        /// Values of a value.
        count: u32,
    },
}

/// Stored keys and values.
pub enum Kept {
    /// As computed.
    F32(Numbers<Aligned<f32>>),
    /// Rounded to half precision.
    F16(Numbers<Aligned<f16>>),
    /// Rounded to bytes.
    Q8_0(bytes::Owned),
    /// Rounded to half bytes.
    Q4_0(bytes::Owned),
}

/// Keys and values as numbers, of all heads or of one.
#[derive(Clone, Copy)]
pub struct Numbers<E> {
    /// (places / 16, width, 16).
    pub keys: E,
    /// (places, width).
    pub values: E,
    /// Values of a head in memory.
    pub width: usize,
    /// Where there are no keys: values are the keys too, all of them, and are values from this one on.
    pub rows: Option<usize>,
}

/// New tokens of one key-value head, to be stored.
pub struct New<'a> {
    batch: &'a Batch,
    page_tokens: usize,
    slabs: Slabs,
    /// (tokens, `kv_heads`, `head_dim`), from this head on.
    keys: &'a [f32],
    /// The same.
    values: &'a [f32],
    /// From one token to the next.
    stride: usize,
    head_dim: usize,
}

/// The memory of one key-value head, to be written by whoever has this.
pub struct HeadMut<'a>(Heads<'a>);

impl Cache {
    /// An empty cache of so many blocks for every page of the plan.
    pub fn new(plan: &Plan, form: Form, blocks: usize) -> Self {
        let page_tokens = plan.page_tokens as usize;
        assert!(page_tokens.is_multiple_of(SIDE), "pages of {page_tokens} tokens; the CPU needs a multiple of {SIDE}");
        let (kv_heads, head_dim) = form.sizes();
        let slabs = Slabs::new(blocks * kv_heads);
        let places = slabs.places(tokens_in(plan)) as usize;
        let kept = match (form, plan.cache) {
            (Form::Heads { .. }, CacheType::F32) => Kept::F32(Numbers::new(places, head_dim)),
            (Form::Heads { .. }, CacheType::F16) => Kept::F16(Numbers::new(places, head_dim)),
            (Form::Heads { .. }, CacheType::Q8_0) => Kept::Q8_0(Bytes::new::<Octet>(places, head_dim)),
            (Form::Heads { .. }, CacheType::Q4_0) => Kept::Q4_0(Bytes::new::<Nibble>(places, head_dim)),
            (Form::Rows { start, .. }, CacheType::F32) => {
                Kept::F32(Numbers::of_rows(places, start as usize, form.width()))
            }
            (Form::Rows { start, .. }, CacheType::F16 | CacheType::Q8_0 | CacheType::Q4_0) => {
                Kept::F16(Numbers::of_rows(places, start as usize, form.width()))
            }
        };
        Self { kept, page_tokens, slabs, blocks, kv_heads, head_dim }
    }

    /// As [`Aligned::prefer_large_pages`].
    pub fn prefer_large_pages(&mut self) {
        match &mut self.kept {
            Kept::F32(Numbers { keys, values, .. }) => {
                [keys, values].into_iter().for_each(Aligned::prefer_large_pages);
            }
            Kept::F16(Numbers { keys, values, .. }) => {
                [keys, values].into_iter().for_each(Aligned::prefer_large_pages);
            }
            Kept::Q8_0(bytes) | Kept::Q4_0(bytes) => bytes.prefer_large_pages(),
        }
    }

    /// Bytes that [`Self::new`] asks the machine for.
    pub fn bytes(plan: &Plan, form: Form, blocks: usize) -> u64 {
        let (kv_heads, head_dim) = form.sizes();
        let places = Slabs::new(blocks * kv_heads).places(tokens_in(plan));
        let (blocks_of_head, width) = (head_dim.div_ceil(bytes::BLOCK), form.width());
        let each = match form {
            Form::Heads { .. } => match plan.cache {
                CacheType::F32 => 2 * 4 * width,
                CacheType::F16 => 2 * 2 * width,
                CacheType::Q8_0 => Bytes::bytes::<Octet>(blocks_of_head),
                CacheType::Q4_0 => Bytes::bytes::<Nibble>(blocks_of_head),
            },
            Form::Rows { .. } => match plan.cache {
                CacheType::F32 => 4 * width,
                CacheType::F16 | CacheType::Q8_0 | CacheType::Q4_0 => 2 * width,
            },
        };
        places.saturating_mul(each as u64)
    }

    /// Where the tokens of the sequence with this page table are kept.
    pub fn places<'a>(&self, pages: &'a [u32]) -> Places<'a> {
        Places::new(pages, self.page_tokens, self.slabs)
    }

    /// The number of a block's first head.
    pub fn first_head(&self, block: usize) -> usize {
        block * self.kv_heads
    }

    /// Keeps the keys and values of the new tokens of a batch: (tokens, `kv_heads`, `head_dim`) each.
    pub fn store(
        &mut self,
        block: usize,
        pool: &mut Pool,
        kernels: Kernels,
        batch: &Batch,
        [keys, values]: [&[f32]; 2],
    ) {
        let (kv_heads, head_dim, first) = (self.kv_heads, self.head_dim, self.first_head(block));
        let (page_tokens, slabs) = (self.page_tokens, self.slabs);
        let new = |kv_head: usize| New {
            batch,
            page_tokens,
            slabs,
            keys: &keys[kv_head * head_dim..],
            values: &values[kv_head * head_dim..],
            stride: kv_heads * head_dim,
            head_dim,
        };
        if batch.tokens.is_empty() {
            return;
        }
        // All of a head's before the first is stored: those of different sequences lie in pages of their own, and a core that comes to one after
        // the other waits for each.
        let is_asked = (FORESEEN_MAX + 1..=ASKED_MAX).contains(&batch.tokens.len());
        let heads = Heads::new(&mut self.kept);
        pool.split(kv_heads, 1, &|_, range| {
            for kv_head in range {
                // SAFETY: pieces do not overlap.
                let (new, head) = (new(kv_head), unsafe { heads.head_mut(first + kv_head) });
                if is_asked {
                    new.runs().for_each(|(place, _)| head.ask(place));
                }
                kernels.store(&new, head);
            }
        });
    }

    /// Tells threads of the places of a few new tokens, whose lines have keys and values of other tokens too: for the job before
    /// [`Self::store`].
    pub fn foresee(&mut self, block: usize, pool: &mut Pool, batch: &Batch) {
        if batch.tokens.len() > FORESEEN_MAX {
            return;
        }
        let (page_tokens, slabs) = (self.page_tokens, self.slabs);
        let (kv_heads, first) = (self.kv_heads, self.first_head(block));
        let heads = Heads::new(&mut self.kept);
        for sequence in batch.sequences.iter().filter(|sequence| !sequence.tokens.is_empty()) {
            let pages = &batch.pages[sequence.pages.clone()];
            let place = Places::new(pages, page_tokens, slabs).of(sequence.cached_tokens as usize);
            for thread in 0..pool.threads() {
                for head in share(thread, pool.threads(), kv_heads) {
                    heads.head(first + head).lines(place).into_iter().for_each(|place| pool.foresee(thread, place));
                }
            }
        }
    }

    /// Gives the key of one token and head, of those of all blocks, back.
    pub fn read_key(&self, place: usize, head: usize, key: &mut [f32]) {
        match &self.kept {
            Kept::F32(numbers) => numbers.head(head).read_key(place, key),
            Kept::F16(numbers) => numbers.head(head).read_key(place, key),
            Kept::Q8_0(bytes) => bytes.head::<Octet>(head).read_key::<Octet>(place, key),
            Kept::Q4_0(bytes) => bytes.head::<Nibble>(head).read_key::<Nibble>(place, key),
        }
    }

    /// Gives the value of one token and head, of those of all blocks, back.
    pub fn read_value(&self, place: usize, head: usize, value: &mut [f32]) {
        match &self.kept {
            Kept::F32(numbers) => numbers.head(head).read_value(place, value),
            Kept::F16(numbers) => numbers.head(head).read_value(place, value),
            Kept::Q8_0(bytes) => bytes.head::<Octet>(head).read_value::<Octet>(place, value),
            Kept::Q4_0(bytes) => bytes.head::<Nibble>(head).read_value::<Nibble>(place, value),
        }
    }
}

impl Cache {
    /// Walks over what a page of a block has in memory: head by head, keys before values.
    pub fn walk_page(&mut self, block: usize, page: usize, run: &mut dyn FnMut(Run<'_>)) {
        for head in self.first_head(block)..self.first_head(block + 1) {
            for places in self.slabs.runs(head, self.tokens_of(page)) {
                match &mut self.kept {
                    Kept::F32(Numbers { keys, values, width, rows }) => {
                        let part = part_of(&places, *width);
                        rows.is_none().then(|| run(Run::Floats(&mut keys[part.clone()])));
                        run(Run::Floats(&mut values[part]));
                    }
                    Kept::F16(Numbers { keys, values, width, rows }) => {
                        let part = part_of(&places, *width);
                        rows.is_none().then(|| run(Run::Halves(&mut keys[part.clone()])));
                        run(Run::Halves(&mut values[part]));
                    }
                    Kept::Q8_0(bytes) => bytes.walk::<Octet>(&places, run),
                    Kept::Q4_0(bytes) => bytes.walk::<Nibble>(&places, run),
                }
            }
        }
    }

    /// Copies what a page has in memory to another.
    pub fn copy_page(&mut self, from: usize, to: usize) {
        let [from, to] = [from, to].map(|page| self.tokens_of(page).step_by(SIDE));
        for (from, to) in from.zip(to) {
            for head in 0..self.first_head(self.blocks) {
                let [from, to] = [from, to].map(|token| Slabs::head(head) + self.slabs.place(token));
                match &mut self.kept {
                    Kept::F32(numbers) => numbers.copy(&(from..from + SIDE), to),
                    Kept::F16(numbers) => numbers.copy(&(from..from + SIDE), to),
                    Kept::Q8_0(bytes) => bytes.copy::<Octet>(&(from..from + SIDE), to),
                    Kept::Q4_0(bytes) => bytes.copy::<Nibble>(&(from..from + SIDE), to),
                }
            }
        }
    }

    /// A page's tokens, of those of all pages.
    fn tokens_of(&self, page: usize) -> Range<usize> {
        page * self.page_tokens..(page + 1) * self.page_tokens
    }
}

impl Form {
    /// Heads, and values of a key.
    fn sizes(self) -> (usize, usize) {
        match self {
            Self::Heads { kv_heads, head_dim } => (kv_heads as usize, head_dim as usize),
            Self::Rows { start, count } => (1, start as usize + count as usize),
        }
    }

    /// Numbers of a key or value in memory, where they are numbers: a whole count of the widest vectors from where values begin.
    fn width(self) -> usize {
        match self {
            Self::Heads { head_dim, .. } => (head_dim as usize).next_multiple_of(SIDE),
            Self::Rows { start, count } => {
                (start as usize + (count as usize).next_multiple_of(SIDE)).next_multiple_of(SIDE)
            }
        }
    }
}

/// Tokens that all pages of the plan have room for.
fn tokens_in(plan: &Plan) -> u64 {
    u64::from(plan.pages) * u64::from(plan.page_tokens)
}

/// Copies what the places `from` have to those from `to` on, where a place has `each`.
fn copy_part<T: Copy>(values: &mut [T], from: &Range<usize>, to: usize, each: usize) {
    values.copy_within(part_of(from, each), to * each);
}

/// What lies at these places, where each has `each`.
#[inline(always)]
fn part_of(places: &Range<usize>, each: usize) -> Range<usize> {
    places.start * each..places.end * each
}

/// Asks the machine for so many bytes at once, and gives them back: memory that cannot be had ends a program where it is asked
/// for without asking first.
///
/// # Errors
/// When it has not as many.
pub fn probe(bytes: u64) -> Result<(), DeviceError> {
    let mut probe = Vec::<u8>::new();
    let had = usize::try_from(bytes).is_ok_and(|bytes| probe.try_reserve_exact(bytes).is_ok());
    // Looked at, so that asking is not optimised away.
    std::hint::black_box(probe);
    if had { Ok(()) } else { Err(DeviceError::OutOfMemory { device: "CPU", what: "keys and values", bytes }) }
}

/// A cache's memory, or that from a head's first place on, which several workers write at once.
enum Heads<'a> {
    F32(Numbers<Disjoint<'a, f32>>),
    F16(Numbers<Disjoint<'a, f16>>),
    Q8_0(Bytes<Disjoint<'a, u8>, Disjoint<'a, f16>, Disjoint<'a, f32>>),
    Q4_0(Bytes<Disjoint<'a, u8>, Disjoint<'a, f16>, Disjoint<'a, f32>>),
}

impl<'a> Heads<'a> {
    fn new(kept: &'a mut Kept) -> Self {
        match kept {
            Kept::F32(numbers) => Self::F32(numbers.disjoint()),
            Kept::F16(numbers) => Self::F16(numbers.disjoint()),
            Kept::Q8_0(bytes) => Self::Q8_0(bytes.disjoint()),
            Kept::Q4_0(bytes) => Self::Q4_0(bytes.disjoint()),
        }
    }

    /// What begins with one of the heads.
    fn head(&self, head: usize) -> Heads<'_> {
        match self {
            Self::F32(numbers) => Heads::F32(numbers.behind(head)),
            Self::F16(numbers) => Heads::F16(numbers.behind(head)),
            Self::Q8_0(bytes) => Heads::Q8_0(bytes.behind::<Octet>(head)),
            Self::Q4_0(bytes) => Heads::Q4_0(bytes.behind::<Nibble>(head)),
        }
    }

    /// One of the heads.
    ///
    /// # Safety
    /// No other use of the same head.
    unsafe fn head_mut(&self, head: usize) -> HeadMut<'_> {
        HeadMut(self.head(head))
    }

    /// Where a place of the first head lies: lines that have its neighbours' keys and values, too.
    fn lines(&self, place: usize) -> [Place; bytes::LINES] {
        match self {
            Self::F32(numbers) => numbers.lines(place),
            Self::F16(numbers) => numbers.lines(place),
            Self::Q8_0(bytes) => bytes.lines::<Octet>(place),
            Self::Q4_0(bytes) => bytes.lines::<Nibble>(place),
        }
    }
}

impl New<'_> {
    /// The runs of up to sixteen new tokens of one sequence whose places stand side by side: the first place and the tokens. To be gone through
    /// by a loop: a closure is compiled for the instructions of the function around it only where the compiler likes to write it out.
    fn runs(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.batch.sequences.iter().flat_map(|sequence| {
            let places = Places::new(&self.batch.pages[sequence.pages.clone()], self.page_tokens, self.slabs);
            let (mut token, mut position) = (sequence.tokens.start, sequence.cached_tokens as usize);
            std::iter::from_fn(move || {
                let count = (SIDE - position % SIDE).min(sequence.tokens.end - token);
                let run = (count > 0).then(|| (places.of(position), token..token + count));
                (token, position) = (token + count, position + count);
                run
            })
        })
    }

    #[inline(always)]
    fn key(&self, token: usize) -> &[f32] {
        &self.keys[token * self.stride..][..self.head_dim]
    }

    #[inline(always)]
    fn value(&self, token: usize) -> &[f32] {
        &self.values[token * self.stride..][..self.head_dim]
    }
}

impl HeadMut<'_> {
    /// Asks for the lines of a place, which it shares with its neighbours.
    fn ask(&self, place: usize) {
        for mut place in self.0.lines(place) {
            while let Some(line) = place.next_line() {
                foresight::ask(line);
            }
        }
    }
}

/// Keeps new tokens of one head.
pub fn store(new: &New<'_>, head: HeadMut<'_>) {
    // SAFETY: the formula needs no instructions of its own.
    unsafe { store_by::<Formula>(new, head) };
}

/// The same with the instructions of `V`: the same bytes, where there are no not-a-numbers.
///
/// # Safety
/// The CPU has them.
#[inline(always)]
pub unsafe fn store_with<V: Vector>(new: &New<'_>, head: HeadMut<'_>) {
    // SAFETY: the caller's contract is the same.
    unsafe { store_by::<Vectors<V>>(new, head) };
}

/// Keeps new tokens of one head.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn store_by<R: Rounding>(new: &New<'_>, head: HeadMut<'_>) {
    // SAFETY: the caller's contract is the same, and the head is nobody else's: it was given for that.
    unsafe {
        match head.0 {
            Heads::F32(numbers) => numbers.store::<R>(new),
            Heads::F16(numbers) => numbers.store::<R>(new),
            Heads::Q8_0(bytes) => bytes.store::<R, Octet, { Octet::BYTES }>(new),
            Heads::Q4_0(bytes) => bytes.store::<R, Nibble, { Nibble::BYTES }>(new),
        }
    }
}

/// A number as it is kept.
pub trait Number: Zero + Send {
    /// Rounds some.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`.
    unsafe fn round<R: Rounding>(from: &[f32], to: &mut [Self]);
    /// As it was, rounded.
    fn widen(self) -> f32;
}

impl Number for f32 {
    #[inline(always)]
    unsafe fn round<R: Rounding>(from: &[f32], to: &mut [Self]) {
        to.copy_from_slice(from);
    }

    fn widen(self) -> f32 {
        self
    }
}

impl Number for f16 {
    #[inline(always)]
    unsafe fn round<R: Rounding>(from: &[f32], to: &mut [Self]) {
        let (whole, rest) = from.as_chunks();
        let (to_whole, to_rest) = to.as_chunks_mut();
        for (from, to) in whole.iter().zip(to_whole) {
            // SAFETY: the caller's contract is the same.
            *to = unsafe { R::halves(from) };
        }
        if !rest.is_empty() {
            let mut padded = [0.0; SIDE];
            padded[..rest.len()].copy_from_slice(rest);
            // SAFETY: the caller's contract is the same.
            to_rest.copy_from_slice(&unsafe { R::halves(&padded) }[..rest.len()]);
        }
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl<E: Number> Numbers<Aligned<E>> {
    /// Room for `places` tokens of heads of `head_dim` values.
    fn new(places: usize, head_dim: usize) -> Self {
        let width = head_dim.next_multiple_of(SIDE);
        Self { keys: Aligned::new(places * width), values: Aligned::new(places * width), width, rows: None }
    }

    /// Room for `places` keys of `width` numbers, whose values begin behind `start`. What is behind them stays zero.
    fn of_rows(places: usize, start: usize, width: usize) -> Self {
        Self { keys: Aligned::new(0), values: Aligned::new(places * width), width, rows: Some(start) }
    }

    /// Copies what is at the places `from` to those from `to` on.
    fn copy(&mut self, from: &Range<usize>, to: usize) {
        if self.rows.is_none() {
            copy_part(&mut self.keys, from, to, self.width);
        }
        copy_part(&mut self.values, from, to, self.width);
    }

    /// One of the heads, from its first place on.
    pub fn head(&self, head: usize) -> Numbers<&[E]> {
        let start = Slabs::head(head) * self.width;
        let keys = if self.rows.is_some() { &[] } else { &self.keys[start..] };
        Numbers { keys, values: &self.values[start..], width: self.width, rows: self.rows }
    }

    fn disjoint(&mut self) -> Numbers<Disjoint<'_, E>> {
        let (keys, values) = (Disjoint::new(&mut self.keys), Disjoint::new(&mut self.values));
        Numbers { keys, values, width: self.width, rows: self.rows }
    }
}

impl<E: Number> Numbers<Disjoint<'_, E>> {
    /// What begins with one of the heads.
    fn behind(&self, head: usize) -> Numbers<Disjoint<'_, E>> {
        let start = Slabs::head(head) * self.width;
        let keys = self.keys.behind(if self.rows.is_some() { 0 } else { start });
        Numbers { keys, values: self.values.behind(start), width: self.width, rows: self.rows }
    }

    /// Where a place lies: lines that have its neighbours' keys, too.
    fn lines(&self, place: usize) -> [Place; bytes::LINES] {
        let (keys, values) = (self.keys_around(place), part_of(&(place..place + 1), self.width));
        let nothing = Place::default();
        [self.keys.lies(keys), self.values.lies(values), nothing, nothing, nothing]
    }

    /// The keys of the sixteen neighbours around a place; none where values are the keys.
    fn keys_around(&self, place: usize) -> Range<usize> {
        let side = place / SIDE * SIDE;
        if self.rows.is_some() { 0..0 } else { part_of(&(side..side + SIDE), self.width) }
    }

    /// The memory of sixteen neighbours.
    ///
    /// # Safety
    /// No other use of the head that they are of.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's contract")]
    #[inline(always)]
    unsafe fn around(&self, place: usize) -> Numbers<&mut [E]> {
        let side = place / SIDE * SIDE;
        // SAFETY: the places of different heads do not overlap, and this one is in use once by the caller's word.
        let (keys, values) = unsafe {
            let values = self.values.slice(part_of(&(side..side + SIDE), self.width));
            (self.keys.slice(self.keys_around(place)), values)
        };
        Numbers { keys, values, width: self.width, rows: self.rows }
    }

    /// Keeps new tokens.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`; no other use of this head.
    #[inline(always)]
    unsafe fn store<R: Rounding>(&self, new: &New<'_>) {
        for (place, tokens) in new.runs() {
            // SAFETY: the caller's contract is the same.
            unsafe { self.around(place).store::<R>(new, place % SIDE, tokens) };
        }
    }
}

impl<E: Number> Numbers<&mut [E]> {
    /// Keeps new tokens of sixteen neighbours, the first of them as number `side`.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`.
    #[inline(always)]
    unsafe fn store<R: Rounding>(&mut self, new: &New<'_>, side: usize, tokens: Range<usize>) {
        let width = self.width;
        if self.rows.is_none() {
            // SAFETY: the caller's contract is the same.
            unsafe { self.store_keys::<R>(new, side, tokens.clone()) };
        }
        for (side, token) in (side..).zip(tokens) {
            let row = if self.rows.is_some() { new.key(token) } else { new.value(token) };
            // SAFETY: the caller's contract is the same.
            unsafe { E::round::<R>(row, &mut self.values[side * width..][..new.head_dim]) };
        }
    }

    /// Keeps the keys of up to sixteen neighbours.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`.
    #[inline(always)]
    unsafe fn store_keys<R: Rounding>(&mut self, new: &New<'_>, side: usize, tokens: Range<usize>) {
        let keys = &mut self.keys[..SIDE * self.width];
        // Sixteen values of each token at a time, turned in the first-level cache.
        for start in (0..new.head_dim).step_by(SIDE) {
            let count = SIDE.min(new.head_dim - start);
            let mut rows = [[E::ZERO; SIDE]; SIDE];
            for (row, token) in rows.iter_mut().zip(tokens.clone()) {
                // SAFETY: the caller's contract is the same.
                unsafe { E::round::<R>(&new.key(token)[start..start + count], &mut row[..count]) };
            }
            for index in 0..count {
                let to = &mut keys[(start + index) * SIDE + side..][..tokens.len()];
                for (to, row) in to.iter_mut().zip(&rows) {
                    *to = row[index];
                }
            }
        }
    }
}

impl<E: Number> Numbers<&[E]> {
    fn read_key(&self, place: usize, key: &mut [f32]) {
        if self.rows.is_some() {
            let from = &self.values[place * self.width..];
            key.iter_mut().zip(from).for_each(|(key, stored)| *key = stored.widen());
            return;
        }
        let from = place / SIDE * SIDE * self.width + place % SIDE;
        key.iter_mut().zip(self.keys[from..].iter().step_by(SIDE)).for_each(|(key, stored)| *key = stored.widen());
    }

    fn read_value(&self, place: usize, value: &mut [f32]) {
        let from = &self.values[place * self.width + self.rows.unwrap_or(0)..];
        value.iter_mut().zip(from).for_each(|(value, stored)| *value = stored.widen());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_no_machine_has_is_refused() {
        for cache in [CacheType::F32, CacheType::F16, CacheType::Q8_0, CacheType::Q4_0] {
            let plan = Plan {
                page_tokens: 32,
                pages: u32::MAX,
                batch_tokens: 1,
                batch_outputs: 1,
                slots: 1,
                cache,
                ring: None,
            };
            let bytes = Cache::bytes(&plan, Form::Heads { kv_heads: 1 << 16, head_dim: 256 }, 1);
            let error = probe(bytes).expect_err("no machine has as much").to_string();
            assert!(error.contains(&bytes.to_string()) && error.contains("--context"), "{error}");
        }
    }

    #[test]
    fn as_many_bytes_are_asked_for_as_are_counted() {
        for (cache, expected) in [
            (CacheType::F32, 2 * 4 * 80),
            (CacheType::F16, 2 * 2 * 80),
            // Three blocks of keys with a scale each and of values, and two numbers for the scale of values.
            (CacheType::Q8_0, 3 * 34 + 3 * 32 + 8),
            (CacheType::Q4_0, 3 * 18 + 3 * 16 + 8),
        ] {
            let plan =
                Plan { page_tokens: 48, pages: 8, batch_tokens: 1, batch_outputs: 1, slots: 1, cache, ring: None };
            let form = Form::Heads { kv_heads: 2, head_dim: 80 };
            assert_eq!(Cache::bytes(&plan, form, 3), 3 * 128 * 3 * 2 * expected, "{cache:?}");
            let held = match &Cache::new(&plan, form, 3).kept {
                Kept::F32(numbers) => 4 * (numbers.keys.len() + numbers.values.len()),
                Kept::F16(numbers) => 2 * (numbers.keys.len() + numbers.values.len()),
                Kept::Q8_0(bytes) | Kept::Q4_0(bytes) => bytes.held(),
            };
            assert_eq!(held as u64, Cache::bytes(&plan, form, 3), "{cache:?}");
        }
    }
}
