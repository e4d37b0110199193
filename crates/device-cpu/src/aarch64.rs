//! The instruction sets of 64-bit Arm CPUs.

pub mod neon;

use std::arch::asm;

/// Asks for the cache line at an address, which need not be readable, to the second-level cache.
#[inline(always)]
pub fn ask(address: usize) {
    // SAFETY: every such CPU has the instruction, which reads nothing and fails nowhere.
    unsafe {
        asm!("prfm pldl2keep, [{address}]", address = in(reg) address, options(nostack, preserves_flags, readonly));
    };
}
