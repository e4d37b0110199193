//! The pages of the cache: who has which. Page numbers only; their bytes are a device's business.
//!
//! A page is held by sequences and by the index of prefixes, each with one reference. A full page is never written again, so any
//! number may hold it; a page with room left has one owner, who alone appends to it. A page is therefore never copied: who
//! shares a prefix up to the middle of a page computes that part again (at most a page less one token, in a step that
//! reads all weights anyway), and who goes on where another stopped takes the half-filled page over. No device needs an operation
//! for it, and none can get it wrong.
//!
//! One table of pages serves all layers of a sequence. Layers that look back over a window need none of the pages that slid out
//! of it; where that saves enough, a device keeps what they need in a ring that belongs to the sequence's slot. Here that is a state
//! like any other, and such a prefix is taken up again where a snapshot of it lies. Where it does not, window layers keep
//! what they no longer read; in exchange a prefix can be taken up again at any token.

/// A pool of equal pages. At every idle moment, free and taken are all.
#[derive(Debug)]
pub struct Pages {
    free: Vec<u32>,
    /// Who holds each page, counted.
    references: Vec<u32>,
}

impl Pages {
    /// A pool of `total` pages, all free.
    pub fn new(total: u32) -> Self {
        Self { free: (0..total).rev().collect(), references: vec![0; total as usize] }
    }

    /// Takes a page, if one is free.
    pub fn take(&mut self) -> Option<u32> {
        let page = self.free.pop()?;
        self.references[page as usize] = 1;
        Some(page)
    }

    /// One more holds the page.
    ///
    /// # Panics
    /// If nobody holds it.
    pub fn share(&mut self, page: u32) {
        assert!(self.references(page) > 0, "page {page} is free and cannot be shared");
        self.references[page as usize] += 1;
    }

    /// Gives a page back; says how many still hold it.
    ///
    /// # Panics
    /// If the page is not of this pool, or nobody holds it: a leak or a double return above.
    pub fn give(&mut self, page: u32) -> u32 {
        assert!(self.references(page) > 0, "page {page} is given back and was not taken");
        let left = self.references(page) - 1;
        self.references[page as usize] = left;
        if left == 0 {
            self.free.push(page);
        }
        left
    }

    /// How many hold the page.
    ///
    /// # Panics
    /// If the page is not of this pool.
    pub fn references(&self, page: u32) -> u32 {
        assert!(page < self.total(), "page {page} of a pool of {}", self.total());
        self.references[page as usize]
    }

    /// Pages that are free.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// All pages.
    pub fn total(&self) -> u32 {
        self.references.len() as u32
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
        taken.into_iter().for_each(|page| assert_eq!(pages.give(page), 0));
        assert_eq!(pages.free(), pages.total());
    }

    #[test]
    fn a_shared_page_is_free_when_the_last_lets_go() {
        let mut pages = Pages::new(1);
        let page = pages.take().unwrap();
        pages.share(page);
        assert_eq!((pages.give(page), pages.free()), (1, 0));
        assert_eq!((pages.give(page), pages.free()), (0, 1));
    }

    #[test]
    #[should_panic(expected = "was not taken")]
    fn a_page_given_back_twice_is_noticed() {
        let mut pages = Pages::new(2);
        let page = pages.take().unwrap();
        pages.give(page);
        pages.give(page);
    }
}
