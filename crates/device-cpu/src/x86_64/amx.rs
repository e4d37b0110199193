//! AMX: products of tiles for brain floating-point weights, and of many tokens for codes with whole scales and for bytes, beside AVX-512 for
//! everything else.
//!
//! Eight tile registers have up to sixteen rows of 64 bytes each; one instruction multiplies two of them and adds the product to a third.
//! The compiler knows no tile registers: they are used in inline assembly only, between [`Shape::take_for`] and [`leave`], or [`Shape::take`]
//! and [`release`], on the same thread.
//!
//! Bytes whose groups of 16 columns have numbers for scales stay with AVX-512: sums leave the tile registers after each product, which takes
//! longer than the vector instructions that it replaces (docs/log.md, "Tiles for bytes"). So do few tokens.

/// Fills a tile register from rows that follow each other.
macro_rules! load {
    ($register:literal, $from:expr) => {
        std::arch::asm!(
            concat!("tileloadd ", $register, ", [{from} + {line}]"),
            from = in(reg) $from, line = in(reg) ROW_BYTES, options(nostack, readonly)
        )
    };
}

/// Stores a tile register to rows that follow each other.
macro_rules! store {
    ($register:literal, $to:expr) => {
        std::arch::asm!(
            concat!("tilestored [{to} + {line}], ", $register),
            to = in(reg) $to, line = in(reg) ROW_BYTES, options(nostack)
        )
    };
}

/// Fills a tile register with zeros.
macro_rules! zero {
    ($register:literal) => {
        std::arch::asm!(concat!("tilezero ", $register), options(nostack, nomem))
    };
}

/// Adds the product of two tile registers to a third, by the instruction of this name.
macro_rules! multiply {
    ($instruction:literal, $sums:literal, $x:literal, $weights:literal) => {
        std::arch::asm!(concat!($instruction, " ", $sums, ", ", $x, ", ", $weights), options(nostack, nomem))
    };
}

pub(crate) use store;

mod brains;
mod bytes;
mod groups;

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::sync::OnceLock;

use kauri_formats::Quant;

use crate::activation::THIRDS;
use crate::attend::{self, tiles};
use crate::detect::Compiled;
use crate::product::{LANES_MAX, Line, Scratch};
use crate::x86_64::avx512::{self, Apart, Avx512};

/// The vectors beside tiles.
pub type Beside = Avx512<Apart, true>;

/// The kernels of AVX-512, with tiles where they are quicker.
pub static KERNELS: Compiled = Compiled {
    is_supported,
    strips: |quant, columns, tokens| match quant {
        Quant::BF16 if columns.is_multiple_of(BRAINS) => Some(brains::strips::<THIRDS>()),
        _ => (bytes::strips(quant, tokens))
            .or_else(|| groups::strips(quant, columns, tokens))
            .or_else(|| (avx512::KERNELS.strips)(quant, columns, tokens)),
    },
    rounding: Some(|columns| columns.is_multiple_of(BRAINS).then(brains::strips::<1>)),
    // Tiles scale few sums: there is nothing to be saved.
    prefill: None,
    split: brains::split,
    leave,
    attended_rows: attend::ROWS,
    attend: tiles::attend,
    ..avx512::KERNELS
};

/// Tokens from which on tiles multiply codes quicker than vectors.
const ENOUGH: usize = 24;
/// Columns of a vector of rows that are unpacked between products, one of whatever is there if need be. Where the last one was some 400 ns ago, tiles are asleep, and wake up in 300.
const AWAKE: usize = 256;
/// Rows of a tile register.
pub const ROWS: usize = 16;
/// Bytes of a row.
pub const ROW_BYTES: usize = 64;
/// Columns of brain floating-point numbers that a tile holds of a row.
const BRAINS: usize = ROW_BYTES / 2;
/// Pairs of them: rows of a tile of activations.
const PAIRS: usize = BRAINS / 2;

/// Whether this CPU has tiles of brain floating-point numbers and of bytes, and the system lets this process use them.
fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        // Sub-leaf 0 of leaf 7, register EDX: AMX-BF16, AMX-TILE and AMX-INT8.
        let features = 1 << 22 | 1 << 24 | 1 << 25;
        (avx512::KERNELS.is_supported)() && __cpuid_count(7, 0).edx & features == features && is_permitted()
    })
}

/// Asks the system for the state that tiles need, which is not part of a thread's until a process wants it.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), since Linux 5.16; older ones refuse it.
    let (call, request, tile_data) = (158_u64, 0x1023_u64, 18_u64);
    let refused: u64;
    // SAFETY: AVX-512 is there, so XGETBV is; the call changes nothing but what this process may use.
    unsafe {
        asm!("syscall", inlateout("rax") call => refused, in("rdi") request, in("rsi") tile_data,
            lateout("rcx") _, lateout("r11") _, options(nostack));
        // Tile configuration and tile data.
        refused == 0 && has_state(1 << 17 | 1 << 18)
    }
}

/// Nothing is known of how other systems hand tiles out.
#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Whether the system keeps this state for each thread.
///
/// # Safety
/// The CPU has XGETBV.
#[cfg(target_os = "linux")]
#[target_feature(enable = "xsave")]
unsafe fn has_state(state: u64) -> bool {
    // SAFETY: register 0 is there by the caller's word.
    unsafe { _xgetbv(0) & state == state }
}

/// How the eight tile registers are used: the bytes that an instruction reads.
#[repr(transparent)]
pub struct Shape(Line);

impl Shape {
    /// Registers of so many rows of so many bytes.
    pub const fn new(registers: [(usize, usize); 8]) -> Self {
        // The palette; from byte 16 on two bytes for the bytes of a row of each register, from byte 48 on a byte for its rows.
        let mut words = [0; LANES_MAX];
        words[0] = 1;
        let mut index = 0;
        while index < registers.len() {
            let (rows, row_bytes) = registers[index];
            assert!(rows <= ROWS && row_bytes <= ROW_BYTES, "rows and bytes of a register");
            words[4 + index / 2] |= (row_bytes as u32) << (index % 2 * 16);
            words[12 + index / 4] |= (rows as u32) << (index % 4 * 8);
            index += 1;
        }
        Self(Line(words))
    }

    /// Makes the registers of this thread those for strips, unless `shape` says that they are: it takes some 500 cycles.
    ///
    /// # Safety
    /// The CPU has tiles, and every register has rows and bytes; `shape` is that of this thread's [`Scratch`], and [`leave`] follows before it
    /// does other work.
    #[inline(always)]
    pub unsafe fn take_for(&self, shape: &mut Line) {
        if *shape != self.0 {
            *shape = self.0;
            // SAFETY: the caller's contract is the same.
            unsafe { self.take() };
        }
    }

    /// Makes the registers of this thread those.
    ///
    /// # Safety
    /// The CPU has tiles, and every register has rows and bytes; [`release`] follows before the thread does other work.
    pub unsafe fn take(&self) {
        // SAFETY: 64 bytes are read of the shape; tile registers are the caller's.
        unsafe { asm!("ldtilecfg [{}]", in(reg) self, options(nostack, readonly)) };
    }
}

/// Gives the registers back that strips have taken: a thread that holds them costs more to switch.
fn leave(scratch: &mut Scratch) {
    if scratch.shape != Line([0; LANES_MAX]) {
        scratch.shape = Line([0; LANES_MAX]);
        // SAFETY: registers were shaped, so the CPU has tiles.
        unsafe { release() };
    }
}

/// Gives the registers back.
///
/// # Safety
/// The CPU has tiles.
pub unsafe fn release() {
    // SAFETY: by the caller's word.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}
