//! Surface 2, model: which weights, on which machine? Settled once, at load.
#![forbid(unsafe_code)]
