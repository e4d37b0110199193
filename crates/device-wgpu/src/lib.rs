//! Every other GPU (Metal, Vulkan, DX12) through one host path and WGSL shaders.
//!
//! Nothing is here yet. What will live here: one file per operation, named as in `device-cpu`, and `shaders/*.wgsl`.
#![forbid(unsafe_code)]
