//! The CPU device: scalar kernels, shared over a pool of threads.
//!
//! Weights are read where the file is mapped. This crate sees no request and no file.

mod attend;
mod cache;
mod ceilings;
mod executor;
mod matmul;
mod ops;
mod pool;

pub use executor::CpuExecutor;
pub use ops::Cpu;
