//! Whether who listens to an answer keeps up with it: a flag between the engine's thread and the listener's.
//!
//! It does not know what is listened to, nor how much is too much: that is for the listener's side to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flag; clones are the same flag. While it is held, no step has a part of the answer, and what was computed for it is others' when they
/// need the room.
#[derive(Clone, Debug, Default)]
pub struct Pace(Arc<AtomicBool>);

impl Pace {
    /// The listener is behind.
    pub fn hold(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// The listener has caught up. [`super::Ticket::resume`] must follow: the engine does not look by itself.
    pub fn go_on(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether the listener is behind.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
