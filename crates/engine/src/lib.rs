//! The four surfaces composed.
#![forbid(unsafe_code)]
