//! Which instructions this CPU has, asked once; the only door to the kernels that need them.

use std::ops::Range;

use kauri_arch::{Activation, Norm};
use kauri_device::{Weight, formula};
use kauri_formats::Quant;

use crate::activation::{Correction, Writer};
use crate::attend::{self, Scratch, Task, Tile};
use crate::elementwise;
use crate::floats::{self, Format};
use crate::panel::{Panel, Product};
use crate::vector::Vector;

/// An instruction set that kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// The formulas in `f32`, as every CPU has them.
    Scalar,
    /// AVX-512 with byte products (VNNI).
    Avx512,
}

impl Isa {
    /// The best that this CPU has.
    pub fn best() -> Self {
        [Self::Avx512].into_iter().find(|isa| isa.is_supported()).unwrap_or(Self::Scalar)
    }

    /// Whether this CPU has it.
    pub fn is_supported(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => crate::x86_64::avx512::is_supported(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 => false,
        }
    }

    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx512 => "AVX-512",
        }
    }
}

/// The kernels of one instruction set that this CPU is known to have.
#[derive(Clone, Copy)]
pub struct Kernels {
    isa: Isa,
}

/// The integer kernel for one storage type.
#[derive(Clone, Copy)]
pub struct Strips {
    /// Rows of a strip.
    pub rows: usize,
    /// Computes one strip.
    pub(crate) run: unsafe fn(&Product<'_>, usize, &mut Panel),
    /// What the kernel needs beside the bytes of activations.
    pub(crate) correction: Correction,
}

impl Kernels {
    /// The kernels of `isa`, if this CPU has it.
    pub fn new(isa: Isa) -> Option<Self> {
        isa.is_supported().then_some(Self { isa })
    }

    /// The instruction set.
    pub fn isa(self) -> Isa {
        self.isa
    }

    /// The integer kernel for `quant`, if there is one.
    pub fn strips(self, quant: Quant) -> Option<Strips> {
        match self.isa {
            Isa::Scalar => None,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => crate::x86_64::avx512::strips(quant),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 => None,
        }
    }

    /// Most tokens that the integer kernel takes at a time.
    pub(crate) fn widest_tile(self) -> usize {
        match self.isa {
            Isa::Scalar => 1,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => crate::x86_64::avx512::Avx512::TOKENS,
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 => unreachable!("Kernels::new refused it"),
        }
    }

    /// Quantises one row of activations.
    ///
    /// # Safety
    /// No other use of the row of `token`.
    pub(crate) unsafe fn quantise(self, writer: &Writer<'_>, token: usize, x: &[f32]) {
        match self.isa {
            // SAFETY: the caller's contract is the same.
            Isa::Scalar => unsafe { writer.quantise(token, x) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's contract; `Kernels` exists for this instruction set only where the CPU has it.
            Isa::Avx512 => unsafe { crate::x86_64::avx512::quantise(writer, token, x) },
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 => unreachable!("Kernels::new refused it"),
        }
    }

    /// One tile of attention.
    pub(crate) fn attend(self, task: &Task<'_>, tile: &Tile, scratch: &mut Scratch) {
        match self.isa {
            Isa::Scalar => attend::scalar(task, tile, scratch),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` exists for this instruction set only where the CPU has it; `attend` deals tiles out once.
            Isa::Avx512 => unsafe { crate::x86_64::avx512::attend(task, tile, scratch) },
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 => unreachable!("Kernels::new refused it"),
        }
    }

    /// `gate = activation(gate) * up`, or `gate = activation(up)` where the network has no gate.
    pub(crate) fn activate(self, activation: Activation, gated: bool, gate: &mut [f32], up: &[f32]) {
        match self.isa {
            Isa::Scalar => {
                for (gate, &up) in gate.iter_mut().zip(up) {
                    *gate = if gated {
                        formula::activate(activation, *gate) * up
                    } else {
                        formula::activate(activation, up)
                    };
                }
            }
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` exists for this instruction set only where the CPU has it.
            Isa::Avx512 => unsafe { crate::x86_64::avx512::activate(activation, gated, gate, up) },
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 => unreachable!("Kernels::new refused it"),
        }
    }

    /// Normalises every group.
    pub(crate) fn norm(self, norm: &Norm<Weight>, to: &mut [f32]) {
        match self.isa {
            Isa::Scalar => elementwise::norm(norm, to),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` exists for this instruction set only where the CPU has it.
            Isa::Avx512 => unsafe { crate::x86_64::avx512::norm(norm, to) },
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 => unreachable!("Kernels::new refused it"),
        }
    }

    /// The format of `quant`, if this instruction set has a kernel for floating-point weights of it.
    pub(crate) fn format(self, quant: Quant) -> Option<Format> {
        match self.isa {
            Isa::Scalar => None,
            Isa::Avx512 => Format::of(quant),
        }
    }

    /// Some rows of a product with floating-point weights.
    ///
    /// # Safety
    /// As [`floats::rows`], but for the instructions, which are there.
    pub(crate) unsafe fn floats(self, product: &floats::Product<'_>, format: Format, rows: Range<usize>) {
        match self.isa {
            Isa::Scalar => unreachable!("format() has none"),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's contract; `Kernels` exists for this instruction set only where the CPU has it.
            Isa::Avx512 => unsafe { crate::x86_64::avx512::floats(product, format, rows) },
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 => unreachable!("Kernels::new refused it"),
        }
    }
}
