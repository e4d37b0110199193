//! Every other GPU (Vulkan, Metal) through one host path: kernels in WGSL behind the same face as every other device.
//!
//! Weights are copied to the device once, as they are stored. Drivers are found at run time, so that one binary runs on machines with
//! and without a GPU. This crate sees no request and no file.
#![deny(unsafe_code)] // `driver.rs` alone may use it

mod attend;
mod cache;
mod choose;
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
mod shader;
mod step;
mod sums;
mod units;

pub use choose::Chooser;
pub use detect::{Adapter, Device, Reduction, Unavailable, adapters};
pub use executor::WgpuExecutor;
pub use ops::{Arithmetic, Wgpu};
pub use resident::Resident;
pub use shader::{Lanes, catalogue};
