//! The NVIDIA device: hand-written CUDA kernels behind the same face as every other device.
//!
//! Weights are copied to the device once, as they are stored. The driver is loaded at run time, so that one binary runs on machines
//! with and without a GPU. This crate sees no request and no file.

mod attend;
mod cache;
mod ceilings;
mod choose;
mod codes;
mod detect;
mod driver;
mod elementwise;
mod executor;
mod experts;
mod latent;
mod matmul;
mod ops;
mod recurrent;
mod resident;
mod scaled;
mod step;
mod stream;
mod structure;
mod wide;

pub use choose::{Chooser, Held};
pub use detect::Device;
pub use driver::{Unavailable, Version};
pub use executor::CudaExecutor;
pub use ops::{Arithmetic, Cuda};
pub use resident::Resident;
