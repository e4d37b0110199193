//! Surface 2, model: which weights, on which machine? Settled once, at load.
//!
//! Sees files, shapes and what a device is sized by, and the web where a person asks for a model that is not here; sees no tokenizer,
//! no prompt and no request.
#![forbid(unsafe_code)]

pub mod adapter;
pub mod catalog;
pub mod choose;
pub mod convert;
pub mod draft;
pub mod fit;
pub mod importance;
pub mod load;
pub mod local;
pub mod memory;
pub mod mix;
mod mxfp4;
pub mod pull;
pub mod quantize;
pub mod resolve;
pub mod warm;

pub use fit::Wish;
