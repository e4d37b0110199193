//! Compiles every kernel for an instruction set: what stands between generic code and the CPU, written once.

/// `static NAME: VECTOR where DETECTED has FEATURES`: a [`super::Compiled`] of the kernels over `VECTOR`, each inside a
/// function that has `FEATURES`, and the question to the CPU, asked for the same ones.
macro_rules! compile {
    ($(#[$doc:meta])* $access:vis static $name:ident: $vector:ty where $detected:ident has $($feature:tt)+) => {
        $(#[$doc])*
        $access static $name: $crate::detect::Compiled = {
            use std::ops::Range;

            use kauri_arch::{Activation, Norm};
            use kauri_device::Weight;

            use $crate::activation::Writer;
            use $crate::attend::{self, Scratch, Task, Tile};
            use $crate::detect::{Compiled, Strips};
            use $crate::floats::{self, Format};
            use $crate::panel::{self, Panel, Product, Unpack};
            use $crate::vector::Vector;
            use $crate::{elementwise, quant};

            /// Finds the kernel of a storage type.
            struct Strip;

            impl quant::Visitor for Strip {
                type Output = Strips;

                fn visit<U: Unpack>(self) -> Strips {
                    Strips {
                        rows: panel::height::<$vector>(),
                        run: strip::<U>,
                        correction: const { panel::correction::<U>() },
                    }
                }
            }

            /// # Safety
            /// The CPU has the instructions; the rest as [`panel::strip`].
            $(#[target_feature(enable = $feature)])+
            unsafe fn strip<U: Unpack>(product: &Product<'_>, number: usize, panel: &mut Panel) {
                // SAFETY: the caller's contract is the same.
                unsafe { panel::strip::<$vector, U>(product, number, panel) };
            }

            /// # Safety
            /// The CPU has the instructions; no other use of the row of `token`.
            $(#[target_feature(enable = $feature)])+
            unsafe fn quantise(writer: &Writer<'_>, token: usize, x: &[f32]) {
                // SAFETY: the caller's contract is the same.
                unsafe { writer.quantise_with::<$vector>(token, x) };
            }

            /// # Safety
            /// The CPU has the instructions; the rest as [`attend::tile`].
            $(#[target_feature(enable = $feature)])+
            unsafe fn attend(task: &Task<'_>, tile: &Tile, scratch: &mut Scratch) {
                // SAFETY: the caller's contract is the same.
                unsafe { attend::tile::<$vector>(task, tile, scratch) };
            }

            $(#[target_feature(enable = $feature)])+
            fn activate(activation: Activation, gated: bool, gate: &mut [f32], up: &[f32]) {
                // SAFETY: this function has the instructions.
                unsafe { elementwise::activate::<$vector>(activation, gated, gate, up) };
            }

            $(#[target_feature(enable = $feature)])+
            fn norm(norm: &Norm<Weight>, to: &mut [f32]) {
                elementwise::norm(norm, to);
            }

            /// # Safety
            /// The CPU has the instructions; the rest as [`floats::rows`].
            $(#[target_feature(enable = $feature)])+
            unsafe fn floats(product: &floats::Product<'_>, format: Format, rows: Range<usize>) {
                // SAFETY: the caller's contract is the same.
                unsafe { floats::rows::<$vector>(product, format, rows) };
            }

            Compiled {
                is_supported: || $(std::arch::$detected!($feature))&&+,
                strips: |quant| quant::visit(quant, Strip),
                widest_tile: <$vector>::TOKENS,
                quantise,
                attend,
                activate,
                norm,
                format: Format::of,
                floats,
            }
        };
    };
}

pub(crate) use compile;
