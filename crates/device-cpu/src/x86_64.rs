//! The instruction sets of x86-64 CPUs.

pub mod amx;
pub mod avx2;
pub mod avx512;
