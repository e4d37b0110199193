//! The slots in which recurrent states lie: those of running sequences, and snapshots of earlier moments.
//!
//! A state cannot be taken back to an earlier token, so a prefix of a model with states is only known where a snapshot of
//! the state lies beside its pages. Running sequences come first: a snapshot has whatever slot is left, and the one that was used
//! longest ago makes way. Slot numbers only; copying is a device's business.

/// No page.
const NONE: u32 = u32::MAX;

/// A pool of slots.
#[derive(Debug)]
pub struct Slots {
    free: Vec<u32>,
    kept: Vec<Kept>,
    /// Counts uses, to know the oldest.
    clock: u64,
}

/// What a slot holds, where it holds a snapshot.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// The page at whose end it was taken.
    page: u32,
    used: u64,
}

/// A slot that was had, and the page that lost its snapshot for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The slot.
    pub slot: u32,
    /// The page at whose end the snapshot was that is no more.
    pub evicted: Option<u32>,
}

impl Slots {
    /// A pool of `total` slots, all free.
    pub fn new(total: u32) -> Self {
        let kept = vec![Kept { page: NONE, used: 0 }; total as usize];
        Self { free: (0..total).rev().collect(), kept, clock: 0 }
    }

    /// Takes a slot: a free one, or that of the snapshot that was used longest ago. None where all belong to sequences.
    pub fn take(&mut self) -> Option<Taken> {
        if let Some(slot) = self.free.pop() {
            return Some(Taken { slot, evicted: None });
        }
        let snapshots = (0..).zip(&self.kept).filter(|(_, kept)| kept.page != NONE);
        let (slot, kept) = snapshots.min_by_key(|(_, kept)| kept.used)?;
        let evicted = Some(kept.page);
        self.kept[slot as usize].page = NONE;
        Some(Taken { slot, evicted })
    }

    /// A taken slot becomes the snapshot at the end of `page`.
    pub fn keep(&mut self, slot: u32, page: u32) {
        self.clock += 1;
        self.kept[slot as usize] = Kept { page, used: self.clock };
    }

    /// A snapshot was used.
    pub fn touch(&mut self, slot: u32) {
        self.clock += 1;
        self.kept[slot as usize].used = self.clock;
    }

    /// A snapshot's slot becomes a sequence's.
    pub fn lift(&mut self, slot: u32) {
        self.kept[slot as usize].page = NONE;
    }

    /// Gives a slot back, whatever it held.
    pub fn give(&mut self, slot: u32) {
        self.kept[slot as usize].page = NONE;
        self.free.push(slot);
        assert!(self.free.len() <= self.kept.len(), "more slots given back than taken");
    }

    /// Slots that are free.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Slots that hold snapshots.
    pub fn snapshots(&self) -> u32 {
        self.kept.iter().filter(|kept| kept.page != NONE).count() as u32
    }

    /// All slots.
    pub fn total(&self) -> u32 {
        self.kept.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_used_longest_ago_makes_way() {
        let mut slots = Slots::new(2);
        let [first, second] = [(); 2].map(|()| slots.take().unwrap().slot);
        assert_eq!(slots.take(), None, "both are of sequences");
        slots.keep(first, 10);
        slots.keep(second, 20);
        slots.touch(first);
        assert_eq!(slots.take(), Some(Taken { slot: second, evicted: Some(20) }));
        assert_eq!((slots.snapshots(), slots.free()), (1, 0));
    }
}
