//! Surface 4, step: what must a decoded token obey? Sees no device, no clock and no randomness that it was not given.
#![forbid(unsafe_code)]

pub mod grammar;
pub mod mask;
pub mod sample;
pub mod stop;
