//! The one dynamic call of the engine, once per step: launch a batch, then choose its tokens.
//!
//! Between the two calls the device works and the engine computes masks. A device may implement the pair whole (captured
//! graphs, several GPUs) without anyone above noticing.

use crate::batch::{Batch, Plan};
use crate::draw::Draw;
use crate::measure::{Ceilings, OpCost};
use crate::memory::Memory;

/// A loaded model on a device.
pub trait Executor: Memory + Send {
    /// What it was sized for.
    fn plan(&self) -> &Plan;

    /// The device in words, for people.
    fn name(&self) -> String;

    /// Starts the forward pass of `batch`. May return before it is done.
    ///
    /// # Errors
    /// When the device is lost.
    fn launch(&mut self, batch: &Batch) -> Result<(), DeviceError>;

    /// What is wanted of each output row of the launched batch, in order; waits for it. It is called while the device still works, as soon as masks are
    /// there: what it takes of the choices goes there beside that work, where a device can do so. A model without a vocabulary to write in
    /// has no tokens and no logits.
    ///
    /// # Errors
    /// When the device is lost.
    ///
    /// # Panics
    /// If it is to draw and does not: a mistake above the seam.
    fn sample(&mut self, choices: &[Choice<'_>]) -> Result<Sampled<'_>, DeviceError>;

    /// Whether it does what [`Choice::Draw`] asks for. One that does not hands out rows.
    fn draws(&self) -> bool;

    /// The output rows of the launched batch behind the last norm, in order: (rows, hidden); waits for it.
    ///
    /// # Errors
    /// When the device is lost.
    fn rows(&mut self) -> Result<&[f32], DeviceError>;

    /// Copies the states of recurrent layers from one slot to another, behind what was launched before and ahead of what is
    /// launched next. A model without states has nothing to copy.
    ///
    /// # Errors
    /// When the device is lost.
    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), DeviceError>;

    /// Measures every operation from the next launch on, or stops.
    fn measure(&mut self, on: bool);

    /// Measures what the machine allows at most, with as many threads as the model runs on.
    fn ceilings(&mut self) -> Ceilings;

    /// What was measured since [`Executor::measure`]: one entry per operation kind.
    fn measured(&self) -> &[OpCost];
}

/// What is wanted of one output row.
#[derive(Clone, Copy, Debug)]
pub enum Choice<'a> {
    /// Nothing: the row keeps its place.
    Nothing,
    /// The most likely token whose bit is set in the mask (one bit a token, least significant first), the lowest id among
    /// equals.
    Greedy {
        /// All tokens where unset.
        mask: Option<&'a [u32]>,
    },
    /// A token drawn on the device; only of one that [`draws`](Executor::draws).
    Draw(Draw<'a>),
    /// The logits themselves, for a sampler on the host.
    Logits,
}

impl Choice<'_> {
    /// For a device that hands out rows.
    ///
    /// # Panics
    /// If a choice is to draw.
    pub fn assert_none_draws(choices: &[Self]) {
        let draws = choices.iter().any(|choice| matches!(choice, Choice::Draw(_)));
        assert!(!draws, "this device does not draw: it hands out rows");
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'a> {
    /// One a row; `None` where none was asked for, or where a mask allowed no token.
    pub tokens: &'a [Option<u32>],
    /// (rows, vocab) if any row asked for logits, else empty.
    pub logits: &'a [f32],
}

/// The device is gone, or could not be had.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The device holds no kernel for something in the model.
    #[error("the {device} cannot run this model: {what}")]
    Unsupported {
        /// The device.
        device: &'static str,
        /// What it lacks, by name.
        what: String,
    },
    /// There is not enough memory.
    #[error(
        "the {device} has no room for {what}: {bytes} bytes could not be had; try a smaller --context, or a smaller --cache-type"
    )]
    OutOfMemory {
        /// The device.
        device: &'static str,
        /// What did not fit.
        what: &'static str,
        /// How much was asked for.
        bytes: u64,
    },
    /// A page or a state was brought that is none of this device's.
    #[error("{what} has {expected} bytes here, and {found} were brought: it is another model's, or of another size")]
    Length {
        /// What was brought.
        what: &'static str,
        /// Bytes that it has here.
        expected: usize,
        /// Bytes that were brought.
        found: usize,
    },
    /// The device stopped answering.
    #[error("the {device} was lost: {reason}")]
    Lost {
        /// The device.
        device: &'static str,
        /// What is known.
        reason: String,
    },
}
