//! The instruction sets of x86-64 CPUs.

pub mod amx;
pub mod avx2;
pub mod avx512;

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

/// Asks for the cache line at an address, which need not be readable, to the second-level cache.
#[inline(always)]
pub fn ask(address: usize) {
    // SAFETY: every x86-64 CPU has the instruction, which reads nothing and fails nowhere.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::without_provenance(address)) };
}
