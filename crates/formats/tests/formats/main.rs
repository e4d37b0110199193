//! The readers from outside: good files of other writers, and every kind of bad one.

mod checkpoint;
mod gguf;
mod goldens;
#[cfg(target_os = "linux")]
mod memory;
mod properties;
mod raw;
mod safetensors;
mod seeds;
