//! Surface 4, step: what must a decoded token obey? Sees no device, no clock and no randomness that it was not given.
#![forbid(unsafe_code)]

pub mod answer;
mod automaton;
pub mod grammar;
pub mod mask;
pub mod reasoning;
pub mod sample;
pub mod stop;
pub mod tools;
