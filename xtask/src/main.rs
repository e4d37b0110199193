//! Chores of the repository.
#![forbid(unsafe_code)]

fn main() {}
