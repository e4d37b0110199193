//! The seam between a model and a machine. Sees no request and no file.
#![forbid(unsafe_code)]
