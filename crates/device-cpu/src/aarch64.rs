//! The instruction sets of 64-bit Arm CPUs.

pub mod neon;
