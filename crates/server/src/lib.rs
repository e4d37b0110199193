//! The HTTP surface: the dialects that existing clients speak, over the one engine.
//!
//! Nothing is here yet. What will live here: `routes.rs` with one file per endpoint under `routes/`, `sse.rs`, `error.rs`,
//! and the chat page. It will be the only crate that knows wire types.
#![forbid(unsafe_code)]
