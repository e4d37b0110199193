//! The `kauri` command.
#![forbid(unsafe_code)]

fn main() {}
