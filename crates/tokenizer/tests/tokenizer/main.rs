//! The tokenizer against outside vectors, against its own properties, and against hostile input.

mod goldens;
mod hostile;
mod making;
mod pipelines;
mod properties;
mod seeds;
