//! Surface 2, model: which weights, on which machine? Settled once, at load.
//!
//! Sees files, shapes and what a device is sized by; sees no tokenizer, no prompt and no request.
#![forbid(unsafe_code)]

pub mod choose;
pub mod convert;
pub mod draft;
pub mod fit;
pub mod importance;
pub mod load;
pub mod mix;
mod mxfp4;
pub mod quantize;
pub mod resolve;

pub use fit::Wish;
