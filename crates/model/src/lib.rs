//! Surface 2, model: which weights, on which machine? Settled once, at load.
//!
//! Sees files, shapes and what a device is sized by; sees no tokenizer, no prompt and no request.
#![forbid(unsafe_code)]

pub mod fit;
pub mod load;
mod mxfp4;
pub mod resolve;

pub use fit::Wish;
