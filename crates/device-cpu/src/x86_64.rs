//! The instruction sets of x86-64 CPUs.

pub mod avx512;
