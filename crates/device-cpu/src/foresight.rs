//! What threads will read first of what comes next: asked for with the last rows of their share and while they wait, so that memory does not
//! rest between two products.
//!
//! A token's products stream each weight once. Between two of them stand a barrier, what one thread does by itself, and a first strip of rows
//! that nobody asked for before; with small matrices that is an eighth of the time (docs/log.md, "What stands between two products, on family 25").

use std::ops::Range;

use crate::pool::Pool;
use crate::product::LINE;

/// Products of a step of which is known what threads read first.
const PRODUCTS_MAX: usize = 512;

/// Matrices that a thread begins with: a gate's, and a product's own.
pub const FIRST: usize = 2;

/// Memory that a thread will read soon. It is asked for and not read, so that it may be anything: what lies there may have moved since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The address where it begins.
    pub start: usize,
    /// How much of it there is.
    pub bytes: usize,
}

impl Place {
    /// That of some values.
    pub fn of<T>(values: &[T]) -> Self {
        Self { start: values.as_ptr().addr(), bytes: size_of_val(values) }
    }

    /// What lies in it from one byte to another, as far as it goes.
    pub fn part(self, bytes: Range<usize>) -> Self {
        let [start, end] = [bytes.start, bytes.end].map(|byte| byte.min(self.bytes));
        Self { start: self.start.wrapping_add(start), bytes: end - start }
    }

    /// Takes the address of the next line.
    pub fn next_line(&mut self) -> Option<usize> {
        self.bytes = self.bytes.checked_sub(1)? / LINE * LINE;
        let line = self.start;
        self.start = line.wrapping_add(LINE);
        Some(line)
    }
}

/// Asks for the cache line at an address, to where weights are streamed through.
#[inline(always)]
pub fn ask(address: usize) {
    #[cfg(target_arch = "x86_64")]
    crate::x86_64::ask(address);
    #[cfg(target_arch = "aarch64")]
    crate::aarch64::ask(address);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// What each thread reads first of each product of a step. The products of the next step are the same, but for those that a token chooses, which
/// do not count here; should they be others, what is asked for is not needed.
pub struct Foresight {
    /// (products, threads).
    places: Vec<[Place; FIRST]>,
    threads: usize,
    /// The number of the step's next product.
    next: usize,
}

impl Foresight {
    /// Of no product yet.
    pub fn new(threads: usize) -> Self {
        Self { places: Vec::with_capacity(PRODUCTS_MAX * threads), threads, next: 0 }
    }

    /// Begins with a step.
    pub fn begin(&mut self) {
        self.next = 0;
    }

    /// Goes on to the product behind the next one, of which each thread reads this first.
    pub fn pass(&mut self, first: impl Fn(usize) -> [Place; FIRST]) {
        let product = self.next;
        self.next += 1;
        if product >= PRODUCTS_MAX {
            return;
        }
        for thread in 0..self.threads {
            match self.places.get_mut(product * self.threads + thread) {
                Some(places) => *places = first(thread),
                None => self.places.push(first(thread)),
            }
        }
    }

    /// What a thread reads first of the next product's own rows, as far as is known.
    pub fn next(&self, thread: usize) -> Place {
        self.places.get(self.next * self.threads + thread).map_or(Place::default(), |places| places[FIRST - 1])
    }

    /// Tells threads what they read first of the next product: for the job before it.
    pub fn tell(&self, pool: &mut Pool) {
        for thread in 0..self.threads {
            for &place in self.places.get(self.next * self.threads + thread).into_iter().flatten() {
                pool.foresee(thread, place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_asked_for_line_by_line() {
        let lines = |bytes| {
            let mut place = Place { start: 1000, bytes };
            std::iter::from_fn(|| place.next_line()).collect::<Vec<_>>()
        };
        assert!(lines(0).is_empty());
        assert_eq!(lines(1), [1000]);
        assert_eq!(lines(64), [1000]);
        assert_eq!(lines(130), [1000, 1064, 1128]);
    }

    #[test]
    fn a_part_of_a_place_lies_in_it() {
        let place = Place { start: 1000, bytes: 100 };
        for (part, start, bytes) in [(0..64, 1000, 64), (64..128, 1064, 36), (100..164, 1100, 0), (200..264, 1100, 0)] {
            assert_eq!(place.part(part.clone()), Place { start, bytes }, "{part:?}");
        }
    }

    #[test]
    fn threads_are_told_of_the_next_product_as_it_was_in_the_step_before() {
        let place = |product: usize, thread: usize| Place { start: 100 * product + thread, bytes: 1 };
        let (mut foresight, mut pool) = (Foresight::new(2), Pool::new(2));
        let told = |foresight: &Foresight, pool: &mut Pool| {
            foresight.tell(pool);
            [0, 1].map(|thread| pool.take_foreseen(thread))
        };
        for step in 0..2 {
            foresight.begin();
            for product in 0..3 {
                foresight.pass(|thread| [place(product, thread), Place::default()]);
                let next = (step == 1 && product < 2).then_some(product + 1);
                let expected =
                    [0, 1].map(|thread| next.map(|next| place(next, thread)).into_iter().collect::<Vec<_>>());
                assert_eq!(told(&foresight, &mut pool), expected, "step {step}, product {product}");
                // None has rows of its own, only a gate's.
                assert_eq!([0, 1].map(|thread| foresight.next(thread)), [Place::default(); 2]);
            }
        }
        // Shorter and longer steps.
        foresight.begin();
        assert_eq!(told(&foresight, &mut pool)[1], [place(0, 1)]);
        (0..2 * PRODUCTS_MAX).for_each(|_| foresight.pass(|_| [place(7, 7), Place::default()]));
        assert_eq!(foresight.places.len(), 2 * PRODUCTS_MAX);
        assert!(told(&foresight, &mut pool)[0].is_empty());
    }
}
