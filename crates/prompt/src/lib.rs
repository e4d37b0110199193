//! Surface 3, prompt: what is in the context now? Sees no device, no clock and no randomness that it was not given.
#![forbid(unsafe_code)]

pub mod name;
pub mod pages;
pub mod prefix;
pub mod schedule;
pub mod slots;
pub mod store;
pub mod template;
