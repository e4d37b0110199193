//! The pages of keys and values in memory, laid out for the attention kernels.
//!
//! Key-value heads are outermost: what attention reads for one of them lies together, page behind page, so that a long
//! sequence is read as a stream; and workers that store different heads write different memory. Inside a head, a *place* is a
//! page's number times its tokens plus the token's place in the page. `prompt` decides which page belongs to whom.
//!
//! - Numbers: keys are (places / 16, width, 16): sixteen neighbouring tokens stand side by side, so that their scores are the
//!   lanes of a vector and no sum runs across lanes. Values are (places, width): a token's vector is contiguous. The width is
//!   the head's, rounded up to a whole vector. Of latent attention there are only values, which are the keys too.
//! - Bytes ([`bytes`]): as the byte products of vector instructions want them, four at a time.

pub mod bytes;

use std::ops::{Deref, Range};

use half::f16;
use kauri_device::memory::Run;
use kauri_device::{Batch, CacheType, DeviceError, Plan};

use crate::aligned::{Aligned, Zero};
use crate::detect::Kernels;
use crate::foresight::{self, Place};
use crate::pool::{Disjoint, Pool, share};
use crate::vector::Vector;
use bytes::{Bytes, Formula, Nibble, Octet, Packed, Rounding, Vectors};

/// Tokens whose keys stand side by side.
pub const SIDE: usize = 16;
/// Most new tokens whose places threads are told of before they store them.
const FORESEEN_MAX: usize = 4;
/// Most new tokens whose places are asked for when their head's turn comes; a prompt's fill whole lines.
const ASKED_MAX: usize = 16;

/// Keys and values of one block.
pub struct Cache {
    /// As said above.
    pub kept: Kept,
    page_tokens: usize,
    kv_heads: usize,
    head_dim: usize,
}

/// Stored keys and values.
pub enum Kept {
    /// As computed.
    F32(Numbers<Aligned<f32>>),
    /// Rounded to half precision.
    F16(Numbers<Aligned<f16>>),
    /// Rounded to bytes.
    Q8_0(Bytes<Aligned<u8>, Vec<f16>, Vec<f32>>),
    /// Rounded to half bytes.
    Q4_0(Bytes<Aligned<u8>, Vec<f16>, Vec<f32>>),
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
    /// Tokens that there is room for.
    places: usize,
}

/// Where tokens of one sequence are kept.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    /// The page table.
    pages: &'a [u32],
    page_tokens: usize,
}

/// New tokens of one key-value head, to be stored.
pub struct New<'a> {
    batch: &'a Batch,
    page_tokens: usize,
    /// (tokens, `kv_heads`, `head_dim`), from this head on.
    keys: &'a [f32],
    /// The same.
    values: &'a [f32],
    /// From one token to the next.
    stride: usize,
    head_dim: usize,
}

/// The memory of one key-value head.
pub enum HeadMut<'a> {
    /// See [`Kept`].
    F32(Numbers<&'a mut [f32]>),
    /// See [`Kept`].
    F16(Numbers<&'a mut [f16]>),
    /// See [`Kept`].
    Q8_0(Bytes<&'a mut [u8], &'a mut [f16], &'a mut [f32]>),
    /// See [`Kept`].
    Q4_0(Bytes<&'a mut [u8], &'a mut [f16], &'a mut [f32]>),
}

impl Cache {
    /// An empty cache for every page of the plan.
    pub fn new(plan: &Plan, kv_heads: usize, head_dim: usize) -> Self {
        let page_tokens = plan.page_tokens as usize;
        assert!(page_tokens.is_multiple_of(SIDE), "pages of {page_tokens} tokens; the CPU needs a multiple of {SIDE}");
        let places = plan.pages as usize * page_tokens;
        let kept = match plan.cache {
            CacheType::F32 => Kept::F32(Numbers::new(kv_heads, places, head_dim)),
            CacheType::F16 => Kept::F16(Numbers::new(kv_heads, places, head_dim)),
            CacheType::Q8_0 => Kept::Q8_0(Bytes::new::<Octet>(kv_heads, places, head_dim)),
            CacheType::Q4_0 => Kept::Q4_0(Bytes::new::<Nibble>(kv_heads, places, head_dim)),
        };
        Self { kept, page_tokens, kv_heads, head_dim }
    }

    /// Bytes that [`Self::new`] asks the machine for.
    pub fn bytes(plan: &Plan, kv_heads: u32, head_dim: u32) -> u64 {
        let vectors = u64::from(plan.pages) * u64::from(plan.page_tokens) * u64::from(kv_heads);
        let numbers = 2 * (u64::from(head_dim)).next_multiple_of(SIDE as u64);
        let blocks = (head_dim as usize).div_ceil(bytes::BLOCK);
        let each = match plan.cache {
            CacheType::F32 => 4 * numbers,
            CacheType::F16 => 2 * numbers,
            CacheType::Q8_0 => Bytes::bytes::<Octet>(blocks) as u64,
            CacheType::Q4_0 => Bytes::bytes::<Nibble>(blocks) as u64,
        };
        vectors.saturating_mul(each)
    }

    /// An empty cache of one head's keys, whose values begin behind `start` and are `count`. Bytes are no way to keep these.
    pub fn of_rows(plan: &Plan, start: usize, count: usize) -> Self {
        let page_tokens = plan.page_tokens as usize;
        assert!(page_tokens.is_multiple_of(SIDE), "pages of {page_tokens} tokens; the CPU needs a multiple of {SIDE}");
        let places = plan.pages as usize * page_tokens;
        let kept = match plan.cache {
            CacheType::F32 => Kept::F32(Numbers::of_rows(places, start, count)),
            CacheType::F16 | CacheType::Q8_0 | CacheType::Q4_0 => Kept::F16(Numbers::of_rows(places, start, count)),
        };
        Self { kept, page_tokens, kv_heads: 1, head_dim: start + count }
    }

    /// Bytes that [`Self::of_rows`] asks the machine for.
    pub fn bytes_of_rows(plan: &Plan, start: u32, count: u32) -> u64 {
        let rows = u64::from(plan.pages) * u64::from(plan.page_tokens);
        let each = match plan.cache {
            CacheType::F32 => 4,
            CacheType::F16 | CacheType::Q8_0 | CacheType::Q4_0 => 2,
        };
        rows.saturating_mul(each * row_width(start as usize, count as usize) as u64)
    }

    /// Where the tokens of the sequence with this page table are kept.
    pub fn places<'a>(&self, pages: &'a [u32]) -> Places<'a> {
        Places { pages, page_tokens: self.page_tokens }
    }

    /// Keeps the keys and values of the new tokens of a batch: (tokens, `kv_heads`, `head_dim`) each.
    pub fn store(&mut self, pool: &mut Pool, kernels: Kernels, batch: &Batch, keys: &[f32], values: &[f32]) {
        let (page_tokens, kv_heads, head_dim) = (self.page_tokens, self.kv_heads, self.head_dim);
        let new = |kv_head: usize| New {
            batch,
            page_tokens,
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
                let (new, head) = (new(kv_head), unsafe { heads.head(kv_head) });
                if is_asked {
                    new.runs().for_each(|(place, _)| head.ask(place));
                }
                kernels.store(&new, head);
            }
        });
    }

    /// Tells threads of the places of a few new tokens, whose lines have keys and values of other tokens too: for the job before
    /// [`Self::store`].
    pub fn foresee(&self, pool: &mut Pool, batch: &Batch) {
        if batch.tokens.len() > FORESEEN_MAX {
            return;
        }
        for sequence in batch.sequences.iter().filter(|sequence| !sequence.tokens.is_empty()) {
            let place = self.places(&batch.pages[sequence.pages.clone()]).of(sequence.cached_tokens as usize);
            for thread in 0..pool.threads() {
                for head in share(thread, pool.threads(), self.kv_heads) {
                    let places = match &self.kept {
                        Kept::F32(numbers) => numbers.lines(head * numbers.places, place),
                        Kept::F16(numbers) => numbers.lines(head * numbers.places, place),
                        Kept::Q8_0(bytes) => bytes.lines::<Octet>(head * bytes.places, place),
                        Kept::Q4_0(bytes) => bytes.lines::<Nibble>(head * bytes.places, place),
                    };
                    places.into_iter().for_each(|place| pool.foresee(thread, place));
                }
            }
        }
    }

    /// Gives the key of one token and head back.
    pub fn read_key(&self, place: usize, kv_head: usize, key: &mut [f32]) {
        match &self.kept {
            Kept::F32(numbers) => numbers.head(kv_head).read_key(place, key),
            Kept::F16(numbers) => numbers.head(kv_head).read_key(place, key),
            Kept::Q8_0(bytes) => bytes.head::<Octet>(kv_head).read_key::<Octet>(place, key),
            Kept::Q4_0(bytes) => bytes.head::<Nibble>(kv_head).read_key::<Nibble>(place, key),
        }
    }

    /// Gives the value of one token and head back.
    pub fn read_value(&self, place: usize, kv_head: usize, value: &mut [f32]) {
        match &self.kept {
            Kept::F32(numbers) => numbers.head(kv_head).read_value(place, value),
            Kept::F16(numbers) => numbers.head(kv_head).read_value(place, value),
            Kept::Q8_0(bytes) => bytes.head::<Octet>(kv_head).read_value::<Octet>(place, value),
            Kept::Q4_0(bytes) => bytes.head::<Nibble>(kv_head).read_value::<Nibble>(place, value),
        }
    }
}

impl Cache {
    /// Walks over what a page has in memory: head by head, keys before values.
    pub fn walk_page(&mut self, page: usize, run: &mut dyn FnMut(Run<'_>)) {
        let places = page * self.page_tokens..(page + 1) * self.page_tokens;
        for head in 0..self.kv_heads {
            match &mut self.kept {
                Kept::F32(Numbers { keys, values, width, rows, places: all }) => {
                    let part = part_of(&places, head * *all, *width);
                    rows.is_none().then(|| run(Run::Floats(&mut keys[part.clone()])));
                    run(Run::Floats(&mut values[part]));
                }
                Kept::F16(Numbers { keys, values, width, rows, places: all }) => {
                    let part = part_of(&places, head * *all, *width);
                    rows.is_none().then(|| run(Run::Halves(&mut keys[part.clone()])));
                    run(Run::Halves(&mut values[part]));
                }
                Kept::Q8_0(bytes) => bytes.walk::<Octet>(head, &places, run),
                Kept::Q4_0(bytes) => bytes.walk::<Nibble>(head, &places, run),
            }
        }
    }
}

impl Cache {
    /// Copies what a page has in memory to another.
    pub fn copy_page(&mut self, from: usize, to: usize) {
        let from = from * self.page_tokens..(from + 1) * self.page_tokens;
        let to = to * self.page_tokens;
        for head in 0..self.kv_heads {
            match &mut self.kept {
                Kept::F32(numbers) => numbers.copy(head, &from, to),
                Kept::F16(numbers) => numbers.copy(head, &from, to),
                Kept::Q8_0(bytes) => bytes.copy::<Octet>(head, &from, to),
                Kept::Q4_0(bytes) => bytes.copy::<Nibble>(head, &from, to),
            }
        }
    }
}

/// Copies what a head that begins at place `start` has at the places `from` to those from `to` on, where a place has `each`.
fn copy_part<T: Copy>(values: &mut [T], from: &Range<usize>, to: usize, start: usize, each: usize) {
    values.copy_within(part_of(from, start, each), (start + to) * each);
}

/// What lies at these places of a head that begins at place `start`, where a place has `each`.
fn part_of(places: &Range<usize>, start: usize, each: usize) -> Range<usize> {
    (start + places.start) * each..(start + places.end) * each
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

/// A cache's memory, to be cut into heads that several workers write at once.
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

    /// One of the heads.
    ///
    /// # Safety
    /// No other use of the same head.
    unsafe fn head(&self, head: usize) -> HeadMut<'_> {
        // SAFETY: heads do not overlap, and this one is in use once by the caller's word.
        unsafe {
            match self {
                Self::F32(numbers) => HeadMut::F32(numbers.head_mut(head)),
                Self::F16(numbers) => HeadMut::F16(numbers.head_mut(head)),
                Self::Q8_0(bytes) => HeadMut::Q8_0(bytes.head_mut::<Octet>(head)),
                Self::Q4_0(bytes) => HeadMut::Q4_0(bytes.head_mut::<Nibble>(head)),
            }
        }
    }
}

impl Places<'_> {
    /// The place of a position. The sixteen positions around it that begin at a multiple of sixteen are neighbours there too.
    #[inline(always)]
    pub fn of(&self, position: usize) -> usize {
        self.pages[position / self.page_tokens] as usize * self.page_tokens + position % self.page_tokens
    }
}

impl New<'_> {
    /// The runs of up to sixteen new tokens of one sequence whose places stand side by side: the first place and the tokens. To be gone through
    /// by a loop: a closure is compiled for the instructions of the function around it only where the compiler likes to write it out.
    fn runs(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.batch.sequences.iter().flat_map(|sequence| {
            let places = Places { pages: &self.batch.pages[sequence.pages.clone()], page_tokens: self.page_tokens };
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
        let places = match self {
            Self::F32(numbers) => numbers.lines(0, place),
            Self::F16(numbers) => numbers.lines(0, place),
            Self::Q8_0(bytes) => bytes.lines::<Octet>(0, place),
            Self::Q4_0(bytes) => bytes.lines::<Nibble>(0, place),
        };
        for mut place in places {
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
    match head {
        // SAFETY: the caller's contract is the same.
        HeadMut::F32(mut numbers) => unsafe { numbers.store::<R>(new) },
        // SAFETY: the caller's contract is the same.
        HeadMut::F16(mut numbers) => unsafe { numbers.store::<R>(new) },
        // SAFETY: the caller's contract is the same.
        HeadMut::Q8_0(mut bytes) => unsafe { bytes.store::<R, Octet, { Octet::BYTES }>(new) },
        // SAFETY: the caller's contract is the same.
        HeadMut::Q4_0(mut bytes) => unsafe { bytes.store::<R, Nibble, { Nibble::BYTES }>(new) },
    }
}

/// Values of a row in memory: from where its values begin, a whole number of the widest vectors.
fn row_width(start: usize, count: usize) -> usize {
    (start + count.next_multiple_of(SIDE)).next_multiple_of(SIDE)
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
    /// Room for `places` tokens of `heads` heads of `head_dim` values.
    fn new(heads: usize, places: usize, head_dim: usize) -> Self {
        let width = head_dim.next_multiple_of(SIDE);
        let numbers = heads * places * width;
        Self { keys: Aligned::new(numbers), values: Aligned::new(numbers), width, rows: None, places }
    }

    /// Room for `places` keys whose values begin behind `start` and are `count`. What is behind them stays zero.
    fn of_rows(places: usize, start: usize, count: usize) -> Self {
        let width = row_width(start, count);
        Self { keys: Aligned::new(0), values: Aligned::new(places * width), width, rows: Some(start), places }
    }

    /// Copies what a head has at the places `from` to those from `to` on.
    fn copy(&mut self, head: usize, from: &Range<usize>, to: usize) {
        let start = head * self.places;
        if self.rows.is_none() {
            copy_part(&mut self.keys, from, to, start, self.width);
        }
        copy_part(&mut self.values, from, to, start, self.width);
    }

    /// One of the heads.
    pub fn head(&self, head: usize) -> Numbers<&[E]> {
        let (keys, values) = (&self.keys[self.keys_of(head)], &self.values[self.range(head)]);
        Numbers { keys, values, width: self.width, rows: self.rows, places: self.places }
    }

    fn disjoint(&mut self) -> Numbers<Disjoint<'_, E>> {
        let (keys, values) = (Disjoint::new(&mut self.keys), Disjoint::new(&mut self.values));
        Numbers { keys, values, width: self.width, rows: self.rows, places: self.places }
    }
}

impl<E: Number, D: Deref<Target = [E]>> Numbers<D> {
    /// Where a place lies, of a head that begins at place `start` of what there is: lines that have its neighbours' keys, too.
    fn lines(&self, start: usize, place: usize) -> [Place; bytes::LINES] {
        let side = place / SIDE * SIDE..(place / SIDE + 1) * SIDE;
        let keys = if self.rows.is_some() { 0..0 } else { part_of(&side, start, self.width) };
        let values = part_of(&(place..place + 1), start, self.width);
        let nothing = Place::default();
        [Place::of(&self.keys[keys]), Place::of(&self.values[values]), nothing, nothing, nothing]
    }
}

impl<E> Numbers<E> {
    /// The keys of a head; none where values are the keys.
    fn keys_of(&self, head: usize) -> Range<usize> {
        if self.rows.is_some() { 0..0 } else { self.range(head) }
    }

    /// The values of a head.
    fn range(&self, head: usize) -> Range<usize> {
        head * self.places * self.width..(head + 1) * self.places * self.width
    }
}

impl<E: Number> Numbers<Disjoint<'_, E>> {
    /// One of the heads.
    ///
    /// # Safety
    /// No other use of the same head.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's contract")]
    unsafe fn head_mut(&self, head: usize) -> Numbers<&mut [E]> {
        let (keys, values) = (self.keys_of(head), self.range(head));
        // SAFETY: heads do not overlap, and this one is in use once by the caller's word.
        let (keys, values) = unsafe { (self.keys.slice(keys), self.values.slice(values)) };
        Numbers { keys, values, width: self.width, rows: self.rows, places: self.places }
    }
}

impl<E: Number> Numbers<&mut [E]> {
    /// Keeps new tokens.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`.
    #[inline(always)]
    unsafe fn store<R: Rounding>(&mut self, new: &New<'_>) {
        let width = self.width;
        for (place, tokens) in new.runs() {
            if self.rows.is_none() {
                // SAFETY: the caller's contract is the same.
                unsafe { self.store_keys::<R>(new, place, tokens.clone()) };
            }
            for (place, token) in (place..).zip(tokens) {
                let row = if self.rows.is_some() { new.key(token) } else { new.value(token) };
                // SAFETY: the caller's contract is the same.
                unsafe { E::round::<R>(row, &mut self.values[place * width..][..new.head_dim]) };
            }
        }
    }

    /// Keeps the keys of up to sixteen neighbours.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`.
    #[inline(always)]
    unsafe fn store_keys<R: Rounding>(&mut self, new: &New<'_>, place: usize, tokens: Range<usize>) {
        let (side, width) = (place % SIDE, self.width);
        let keys = &mut self.keys[(place - side) * width..][..SIDE * width];
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
            let bytes = Cache::bytes(&plan, 1 << 16, 256);
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
                Plan { page_tokens: 16, pages: 3, batch_tokens: 1, batch_outputs: 1, slots: 1, cache, ring: None };
            assert_eq!(Cache::bytes(&plan, 2, 80), 3 * 16 * 2 * expected, "{cache:?}");
            let held = match &Cache::new(&plan, 2, 80).kept {
                Kept::F32(numbers) => 4 * (numbers.keys.len() + numbers.values.len()),
                Kept::F16(numbers) => 2 * (numbers.keys.len() + numbers.values.len()),
                Kept::Q8_0(bytes) | Kept::Q4_0(bytes) => bytes.held(),
            };
            assert_eq!(held as u64, Cache::bytes(&plan, 2, 80), "{cache:?}");
        }
    }
}
