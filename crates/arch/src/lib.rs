//! Surface 1, architecture: what shape is this model? Sees no weight, no device, no request.
#![forbid(unsafe_code)]
