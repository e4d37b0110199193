//! Weights that a product will need soon, asked for before: which lines, in which order, how many at a time.

use std::ops::Range;

use super::LINE;
use crate::foresight::Place;
use crate::vector::Vector;

/// Weights that will be read soon, to be asked for while something is computed: evenly, since a core waits for few lines of
/// memory at a time, and stands still with more; and in as many streams as suit the CPUs of an instruction set, since the memory of some
/// gives more to several than to one.
#[derive(Clone, Copy)]
pub struct Ahead {
    start: *const u8,
    /// From the beginning of one stream to that of the next.
    apart_bytes: usize,
    /// Those that are left, of all streams: the first of each, the second of each, and so on. Of each the same number.
    lines: (usize, usize),
    /// Those that were to be asked for and were too few for one of each stream.
    owed: usize,
    /// From a line that is asked for to one that was before, and is [again](Self::again); none where nothing is.
    again_bytes: isize,
}

/// Most streams of memory.
pub const STREAMS_MAX: usize = 4;

impl Ahead {
    /// No lines.
    pub const NOTHING: Self = Self { start: std::ptr::null(), apart_bytes: 0, lines: (0, 0), owed: 0, again_bytes: 0 };

    /// What is asked for during some bytes of a strip: as many of what the thread reads behind it, or of what lies so far behind them.
    #[inline(always)]
    pub fn during<V: Vector>(
        (stored, bytes): (&[u8], Range<usize>),
        distance_bytes: usize,
        then: Option<Place>,
    ) -> Self {
        // At a shorter distance the strip's own end is asked for, too.
        let place = match then.filter(|_| distance_bytes >= stored.len()) {
            Some(then) => then.part(bytes.clone()),
            None => {
                Place { start: stored.as_ptr().addr().wrapping_add(distance_bytes + bytes.start), bytes: bytes.len() }
            }
        };
        Self {
            start: std::ptr::without_provenance(place.start),
            apart_bytes: place.bytes.div_ceil(V::STREAMS * LINE) * LINE,
            lines: (0, place.bytes.div_ceil(LINE).next_multiple_of(V::STREAMS)),
            owed: 0,
            again_bytes: (stored.as_ptr().addr() + bytes.start + distance_bytes / 2).wrapping_sub(place.start) as isize,
        }
    }

    /// The same, nothing of it [again](Self::again): where weights come much faster than they are needed.
    #[inline(always)]
    pub fn once(self) -> Self {
        Self { again_bytes: 0, ..self }
    }

    /// What falls to `range` of `count`.
    #[inline(always)]
    pub fn share<V: Vector>(self, range: Range<usize>, count: usize) -> Self {
        self.shares::<V>(count).of::<V>(range)
    }

    /// As many shares.
    #[inline(always)]
    pub fn shares<V: Vector>(self, count: usize) -> Shares {
        let each = (self.lines.1 - self.lines.0) / V::STREAMS;
        Shares { of: self, step: (each << Shares::BITS).div_ceil(count) }
    }

    /// For a loop of so many turns: what [`Self::ask`] wants to know, the lines of a turn.
    #[inline(always)]
    pub fn each(self, turns: usize) -> usize {
        let lines = self.lines.1 - self.lines.0;
        // Seldom more, and a division takes as long as twenty products.
        if lines <= turns || turns == 0 { usize::from(lines > 0) } else { lines.div_ceil(turns) }
    }

    /// Asks for the next `lines` of what is left, or for a few more or less: one of each stream at a time.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub unsafe fn ask<V: Vector>(&mut self, lines: usize) {
        self.owed += lines;
        while self.owed >= V::STREAMS && self.lines.0 < self.lines.1 {
            let mut place = self.start.wrapping_add(self.lines.0 / V::STREAMS * LINE);
            for _ in 0..V::STREAMS {
                // SAFETY: the caller's contract is the same; an address may lie anywhere.
                unsafe {
                    if self.again_bytes == 0 {
                        V::prefetch(place.cast());
                    } else {
                        self.ask_at::<V>(place);
                    }
                }
                place = place.wrapping_add(self.apart_bytes);
            }
            self.lines.0 += V::STREAMS;
            self.owed -= V::STREAMS;
        }
    }

    /// The line that is asked for [again](Vector::ASKS_AGAIN) with one: of what lies half as far behind the strip, whatever is asked for.
    #[inline(always)]
    pub fn again(self, place: *const u8) -> *const u8 {
        place.wrapping_offset(self.again_bytes)
    }

    /// Asks for the line at a place, and [again](Vector::ASKS_AGAIN) for one that was asked for before.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub unsafe fn ask_at<V: Vector>(self, place: *const u8) {
        // SAFETY: the caller's contract is the same; an address may lie anywhere.
        unsafe {
            V::prefetch(place.cast());
            if V::ASKS_AGAIN {
                V::prefetch(self.again(place).cast());
            }
        }
    }

    /// What is left behind so many lines of the only stream.
    #[inline(always)]
    pub fn behind(self, lines: usize) -> Self {
        Self { start: self.start.wrapping_add(lines * LINE), ..self }
    }

    /// [Asks for](Self::ask_at) the first line of the only stream, and goes on to the next.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub unsafe fn ask_next<V: Vector>(&mut self) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.ask_at::<V>(self.start) };
        self.start = self.start.wrapping_add(LINE);
    }

    /// Where line number `line` begins and the next ones of the other streams: those behind each follow it in memory.
    #[inline(always)]
    pub fn from<V: Vector>(self, line: usize) -> [*const u8; STREAMS_MAX] {
        let mut streams = [self.start; STREAMS_MAX];
        for (stream, start) in streams[..V::STREAMS].iter_mut().enumerate() {
            *start = self.line::<V>(line + stream);
        }
        streams
    }

    /// Where line number `line` begins.
    #[inline(always)]
    pub fn line<V: Vector>(self, line: usize) -> *const u8 {
        self.start.wrapping_add(line % V::STREAMS * self.apart_bytes + line / V::STREAMS * LINE)
    }
}

/// Weights that will be read soon, in equal shares: found without a division for each.
#[derive(Clone, Copy)]
pub struct Shares {
    of: Ahead,
    /// Lines of each stream that fall to one share, times 2^[`Self::BITS`], rounded up.
    step: usize,
}

impl Shares {
    /// So few that there may be 2^32 lines, so many that rounding makes up no whole line.
    const BITS: u32 = 32;

    /// What falls to shares `range`.
    #[inline(always)]
    pub fn of<V: Vector>(self, range: Range<usize>) -> Ahead {
        let line =
            |index: usize| (self.of.lines.0 + ((self.step * index) >> Self::BITS) * V::STREAMS).min(self.of.lines.1);
        Ahead { lines: (line(range.start), line(range.end)), ..self.of }
    }
}
