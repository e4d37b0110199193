//! What a product of one token writes, packed for the next product by the threads that have it.
//!
//! A thread that packs a whole row by itself waits for every line of it that another core has, the others wait for the thread, and then for what it
//! packed: between cores that share no cache some fifty nanoseconds a line, whether it was asked for or not. What each packs of its own goes to the
//! others in a quarter of the lines (docs/log.md, "Packed where it is made").

use std::ops::Range;

use kauri_arch::Linear;
use kauri_device::Weight;

use super::{Job, Shared, Source, strips};
use crate::activation::{Activations, Rows, SPAN, Tile, Writer};
use crate::detect::{Kernels, Packing, Phase, Strips};
use crate::foresight::Place;

/// The product that is next and how it takes its input.
#[derive(Clone, Copy)]
pub struct Next<'a> {
    linear: &'a Linear<Weight>,
    strips: Strips,
    /// Where its input lies.
    values: Place,
}

/// A product whose input was packed: its weights, and the values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ready([Place; 2]);

impl Ready {
    fn of(linear: &Linear<Weight>, values: Place) -> Self {
        Self([Place::of(&linear.weight.matrix().data), values])
    }

    /// That of the only one of these products, if it may be.
    pub fn of_only(source: &Source<'_>, tokens: usize, jobs: &[Job<'_>]) -> Option<Self> {
        match (source, jobs) {
            (Source::Rows(x), [Job { linear, gate: None, .. }]) if tokens == 1 => {
                Some(Self::of(linear, Place::of(&x[..linear.columns as usize])))
            }
            (Source::Rows(_) | Source::Normed(..), _) => None,
        }
    }
}

impl<'a> Next<'a> {
    /// A product with so many tokens, and where its input lies, if that can be packed in parts: whole spans.
    pub fn of(
        (kernels, phase): (Kernels, Phase),
        linear: &'a Linear<Weight>,
        tokens: usize,
        values: Place,
    ) -> Option<Self> {
        let strips = strips(kernels, linear, tokens, phase).filter(|_| tokens == 1)?;
        match strips.packing {
            Packing::Bytes(_) | Packing::Brains => Some(Self { linear, strips, values }),
            Packing::Tiles(_) | Packing::Numbers | Packing::Thirds(_) => None,
        }
    }

    /// The product behind these ones of so many tokens, if its input can be packed in parts, and how many strips of theirs are a whole span.
    pub(super) fn behind(
        (kernels, phase): (Kernels, Phase),
        tokens: usize,
        jobs: &[Option<Shared<'a>>],
    ) -> Option<(Self, usize)> {
        let mut each = jobs.iter().flatten();
        let (Some(job), None) = (each.next(), each.next()) else { return None };
        let (linear, height) = (job.then?, job.height()?);
        assert_eq!(linear.columns, job.linear.rows, "the product behind takes what this one gives");
        let next = Self::of((kernels, phase), linear, tokens, job.out.lies(0..tokens * linear.columns as usize))?;
        SPAN.is_multiple_of(height).then_some((next, SPAN / height))
    }

    /// Once it is packed.
    pub fn ready(self) -> Ready {
        Ready::of(self.linear, self.values)
    }
}

/// Where its input is packed.
pub struct Following<'a> {
    kernels: Kernels,
    packing: Packing,
    tile: Tile,
    writer: Writer<'a>,
}

impl<'a> Following<'a> {
    /// Begins with it.
    pub fn new(kernels: Kernels, next: Next<'_>, activations: &'a mut Activations) -> Self {
        let Next { linear, strips: Strips { packing, tokens, .. }, .. } = next;
        activations.begin(1, linear.columns as usize, packing.correction().into_iter());
        let tile = Rows { first: 0, tokens: 1 }.tile_of(0, tokens);
        Self { kernels, packing, tile, writer: activations.writer() }
    }

    /// Packs what some strips of a job have written.
    ///
    /// # Safety
    /// They are computed, and whole spans, or the end; no other thread uses the same ones.
    pub(super) unsafe fn pack_strips(&self, job: &Shared<'_>, strips: Range<usize>) {
        let Some(height) = job.height() else { return };
        let rows = job.linear.rows as usize;
        let columns = rows.min(strips.start * height)..rows.min(strips.end * height);
        // SAFETY: the caller's contract is the same.
        unsafe { self.pack(columns.start, job.out.slice(columns)) };
    }

    /// Packs the values from a column on.
    ///
    /// # Safety
    /// They are whole spans, or the end; no other thread packs the same ones.
    pub unsafe fn pack(&self, start: usize, values: &[f32]) {
        let at = (0, start);
        // SAFETY: the caller's contract is the same.
        unsafe {
            match self.packing {
                Packing::Bytes(_) => self.kernels.quantise(&self.writer.bytes, self.tile, at, values),
                Packing::Brains => self.kernels.round(&self.writer, self.tile, at, values),
                Packing::Tiles(_) | Packing::Numbers | Packing::Thirds(_) => unreachable!("not packed in parts"),
            }
        }
    }
}
