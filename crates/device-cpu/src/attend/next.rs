//! Groups of neighbouring positions, and those that a worker of attention reads next, which it asks for while it computes.

use std::ops::Range;

use half::f16;

use super::bytes::Head;
use super::{SEGMENT, Task, Tile};
use crate::cache::bytes::Packed;
use crate::cache::{Numbers, Places, SIDE};
use crate::foresight;
use crate::product::LINE;
use crate::vector::Vector;

/// Neighbouring positions that are taken together: where weights are bytes they share a scale.
pub(super) const GROUP: usize = 32;
/// Groups of a segment.
pub(super) const GROUPS: usize = SEGMENT / GROUP;
/// Rows that are few: what they read next is asked for.
pub(super) const FEW: usize = 4;

/// One group of a segment.
#[derive(Clone, Copy, Default)]
pub(super) struct Group {
    /// Its number in the segment.
    pub(super) number: usize,
    /// Its first position.
    pub(super) position: usize,
    /// The places of its first and of its second sixteen positions.
    pub(super) places: [usize; 2],
}

impl Group {
    /// `seen` are positions that are stored, at least one: for sixteens outside, which no row sees, others are read.
    #[inline(always)]
    pub(super) fn at(position: usize, seen: &Range<usize>, places: &Places<'_>) -> Self {
        let (first, last) = (seen.start / SIDE * SIDE, (seen.end - 1) / SIDE * SIDE);
        let second = position + SIDE;
        let places = [places.of(position.clamp(first, last)), places.of(second.clamp(first, last))];
        Self { number: position % SEGMENT / GROUP, position, places }
    }

    /// Whether a row sees all of it.
    #[inline(always)]
    pub(super) fn is_seen_by(&self, seen: &Range<usize>) -> bool {
        seen.start <= self.position && self.position + GROUP <= seen.end
    }

    /// The place of one of its positions.
    #[inline(always)]
    pub(super) fn place(&self, index: usize) -> usize {
        self.places[index / SIDE] + index % SIDE
    }

    /// Where both sixteens begin in `stored`, of so many bytes a position.
    #[inline(always)]
    pub(super) fn begins(&self, stored: &[u8], bytes: usize) -> [*const u8; 2] {
        // Not `array::map`: what it calls is compiled on its own, and called.
        [stored.as_ptr().wrapping_add(self.places[0] * bytes), stored.as_ptr().wrapping_add(self.places[1] * bytes)]
    }
}

/// What a worker reads after a segment: the next of the tile, or the first of the sequence or key-value head behind. It is asked for while the
/// segment is computed, each line when the one that stands there in this segment is read: a core computes as long as memory takes.
pub(super) struct Next<C> {
    cache: C,
    groups: [Group; GROUPS],
    /// How many there are, none where this part of the work ends.
    count: usize,
}

impl<C> Next<C> {
    /// What follows a segment of a tile; `head` gives a key-value head.
    #[inline(always)]
    pub(super) fn behind(
        task: &Task<'_>,
        tile: &Tile,
        segment: usize,
        scratch: &super::Scratch,
        head: impl Fn(usize) -> C,
    ) -> Self {
        let heads = task.attention.kv_heads as usize;
        let first_of = |sequence: usize| task.seen(&task.batch.sequences[sequence], 0).start / SEGMENT;
        let (sequence, kv_head, segment) = match segment + 1 {
            next if next < tile.segments.end => (tile.sequence, tile.kv_head, Some(next)),
            // Another worker has the rest of the tile.
            next if next < scratch.seen[tile.rows.len() - 1].end.div_ceil(SEGMENT) => (tile.sequence, 0, None),
            // More tiles of this sequence and head follow: of many rows, which ask for nothing.
            _ if tile.rows.end < task.sequence(tile).tokens.len() * task.group() => (tile.sequence, 0, None),
            _ if tile.sequence + 1 < task.batch.sequences.len() => {
                (tile.sequence + 1, tile.kv_head, Some(first_of(tile.sequence + 1)))
            }
            _ if tile.kv_head + 1 < heads => (0, tile.kv_head + 1, Some(first_of(0))),
            _ => (tile.sequence, 0, None),
        };
        let mut next = Self { cache: head(kv_head), groups: [Group::default(); GROUPS], count: 0 };
        let sequence = &task.batch.sequences[sequence];
        let rows = sequence.tokens.len() * task.group();
        // Many rows compute for longer than memory takes.
        if let Some(segment) = segment.filter(|_| (1..=FEW).contains(&rows)) {
            let places = task.cache.places(&task.batch.pages[sequence.pages.clone()]);
            // Rows are in the order of their positions.
            let (first, last) = (task.seen(sequence, 0), task.seen(sequence, rows - 1));
            let range = first.start.max(segment * SEGMENT)..last.end.min((segment + 1) * SEGMENT);
            for position in (range.start / GROUP * GROUP..range.end).step_by(GROUP) {
                next.groups[next.count] = Group::at(position, &range, &places);
                next.count += 1;
            }
        }
        next
    }
}

impl Next<Head<'_>> {
    /// Where the keys of both sixteens lie that stand where those of group number `index` do in this segment; `otherwise`, if there are none. What
    /// goes with them is asked for.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn keys<V: Vector, P: Packed>(&self, index: usize, otherwise: [*const u8; 2]) -> [*const u8; 2] {
        if index >= self.count {
            return otherwise;
        }
        let (group, blocks) = (self.groups[index], self.cache.blocks);
        for place in group.places {
            // SAFETY: the caller's contract is the same; an address may lie anywhere.
            unsafe {
                for line in (0..SIDE * blocks).step_by(LINE / size_of::<f16>()) {
                    V::prefetch(self.cache.key_scales.as_ptr().wrapping_add(place * blocks + line).cast());
                }
                V::prefetch(self.cache.logarithms.as_ptr().wrapping_add(place).cast());
                V::prefetch(self.cache.inverses.as_ptr().wrapping_add(place).cast());
            }
        }
        self.keys_again::<P>(index, otherwise)
    }

    /// The same, of which nothing is asked for: for lines that are asked for [again](Vector::ASKS_AGAIN) while values are read, half a segment
    /// later, as those of values are while the next segment's keys are.
    #[inline(always)]
    pub(super) fn keys_again<P: Packed>(&self, index: usize, otherwise: [*const u8; 2]) -> [*const u8; 2] {
        if index >= self.count {
            return otherwise;
        }
        self.groups[index].begins(self.cache.keys, self.cache.blocks * P::BYTES)
    }

    /// Asks for the values of the sixteen positions number `sixteen`, if there are so many: while keys are done with and values not begun,
    /// memory would rest.
    #[inline(always)]
    pub(super) fn ask_for_values<P: Packed>(&self, sixteen: usize) {
        let each = self.cache.blocks * P::BYTES;
        if let Some(group) = self.groups[..self.count].get(sixteen / 2) {
            let start = group.begins(self.cache.values, each)[sixteen % 2];
            for byte in (0..SIDE * each).step_by(LINE) {
                foresight::ask(start.wrapping_add(byte).addr());
            }
        }
    }

    /// Where the values of both sixteens lie that stand where those of group number `index` do in this segment; `otherwise`, if there are none.
    #[inline(always)]
    pub(super) fn values<P: Packed>(&self, index: usize, otherwise: [*const u8; 2]) -> [*const u8; 2] {
        if index >= self.count {
            return otherwise;
        }
        self.groups[index].begins(self.cache.values, self.cache.blocks * P::BYTES)
    }
}

impl<E> Next<Numbers<&[E]>> {
    /// Where the keys of the sixteen positions lie that stand where those of sixteen number `sixteen` do in this segment; `otherwise`, if there are
    /// none.
    #[inline(always)]
    pub(super) fn keys_of(&self, sixteen: usize, otherwise: *const E) -> *const E {
        self.place(sixteen).map_or(otherwise, |place| self.cache.keys.as_ptr().wrapping_add(place))
    }

    /// The same of values.
    #[inline(always)]
    pub(super) fn values_of(&self, sixteen: usize, otherwise: *const E) -> *const E {
        self.place(sixteen).map_or(otherwise, |place| self.cache.values.as_ptr().wrapping_add(place))
    }

    /// Where they begin. Nothing is asked for where values are the keys.
    #[inline(always)]
    fn place(&self, sixteen: usize) -> Option<usize> {
        let group = self.groups[..self.count].get(sixteen / 2)?;
        self.cache.rows.is_none().then(|| group.places[sixteen % 2] * self.cache.width)
    }
}
