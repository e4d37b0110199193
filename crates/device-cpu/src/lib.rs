//! The CPU device: scalar kernels, shared over a pool of threads.
//!
//! Weights are read where the file is mapped. This crate sees no request, and no file but those in which Linux describes the
//! machine.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod activation;
mod adapters;
mod aligned;
mod attend;
mod cache;
mod ceilings;
mod detect;
mod elementwise;
mod executor;
mod experts;
mod floats;
mod foresight;
mod latent;
mod matmul;
mod ops;
mod panel;
mod pool;
mod product;
mod quant;
mod recurrent;
mod sizes;
mod topology;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use ceilings::of_this_machine as ceilings;
pub use detect::{Isa, Kernels};
pub use executor::CpuExecutor;
pub use ops::Cpu;
pub use sizes::Sizes;
pub use topology::Topology;
