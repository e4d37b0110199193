//! Ctrl-C as a wish that work asks about between steps, instead of the end of the program.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use crate::failure::INTERRUPTED;

/// Set by the handler, read by whoever works. One for the process, as the signal is.
static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

/// What a second Ctrl-C does while the first has not been answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// Ends the program at once.
    Ends,
    /// Is the same wish again.
    Repeats,
}

/// Takes over Ctrl-C. Once for the process.
pub fn catch(second: Second) -> anyhow::Result<()> {
    let handler = move || {
        if IS_REQUESTED.swap(true, Ordering::Relaxed) && second == Second::Ends {
            std::process::exit(i32::from(INTERRUPTED));
        }
    };
    ctrlc::set_handler(handler).context("Ctrl-C cannot be caught")
}

/// Whether Ctrl-C was pressed since [`forget`].
pub fn is_requested() -> bool {
    IS_REQUESTED.load(Ordering::Relaxed)
}

/// Work begins anew.
pub fn forget() {
    IS_REQUESTED.store(false, Ordering::Relaxed);
}
