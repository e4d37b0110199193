//! Model files as bytes on disk: GGUF, safetensors, and the layout of every quantised type.
//!
//! A [`Checkpoint`] is what both formats become: metadata and named tensors over memory-mapped files, nothing copied.
//! This crate knows bytes; it deliberately does not know what a tensor is for, nor any model family.
#![deny(unsafe_code)] // `mapping.rs` and its guard alone may use it

pub mod budget;
pub mod checkpoint;
pub mod error;
pub mod gguf;
pub mod mapping;
pub mod metadata;
pub mod quant;
pub mod safetensors;
pub mod scales;

pub use checkpoint::{Checkpoint, Source, Tensor};
pub use error::Error;
pub use mapping::Bytes;
pub use metadata::{Metadata, Value};
pub use quant::Quant;
pub use scales::{Scales, Tiles};
