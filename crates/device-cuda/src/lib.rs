//! The NVIDIA device: hand-written CUDA kernels behind the same face as every other device.
//!
//! Nothing is here yet. What will live here: one file per operation, named as in `device-cpu`, `kernels/*.cu`, and an
//! `Executor` that replays a whole step as a captured graph. The driver is loaded at run time, so that one binary runs
//! on machines with and without a GPU.
