//! The pages of the cache: who has which. Page numbers only; their bytes are a device's business.

/// A pool of equal pages. At every idle moment, free and taken are all.
#[derive(Debug)]
pub struct Pages {
    free: Vec<u32>,
    total: u32,
}

impl Pages {
    /// A pool of `total` pages, all free.
    pub fn new(total: u32) -> Self {
        Self { free: (0..total).rev().collect(), total }
    }

    /// Takes a page, if one is free.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives a page back.
    ///
    /// # Panics
    /// If the page is not of this pool, or more pages come back than there are: a leak or a double return above.
    pub fn give(&mut self, page: u32) {
        assert!(page < self.total, "page {page} of a pool of {}", self.total);
        self.free.push(page);
        assert!(self.free.len() <= self.total as usize, "more pages given back than taken");
    }

    /// Pages that are free.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// All pages.
    pub fn total(&self) -> u32 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::Pages;

    #[test]
    fn pages_are_conserved() {
        let mut pages = Pages::new(3);
        let taken: Vec<u32> = std::iter::from_fn(|| pages.take()).collect();
        assert_eq!((taken.len(), pages.free()), (3, 0));
        taken.into_iter().for_each(|page| pages.give(page));
        assert_eq!(pages.free(), pages.total());
    }
}
