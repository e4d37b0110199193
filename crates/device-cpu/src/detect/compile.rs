//! Compiles every kernel for an instruction set: what stands between generic code and the CPU, written once.

/// `static NAME: VECTOR where DETECTED has FEATURES`: a [`super::Compiled`] of the kernels over `VECTOR`, each inside a
/// function that has `FEATURES`, and the question to the CPU, asked for the same ones.
macro_rules! compile {
    ($(#[$doc:meta])* $access:vis static $name:ident: $vector:ty where $detected:ident has $($feature:tt)+) => {
        $(#[$doc])*
        $access static $name: $crate::detect::Compiled = {
            use std::ops::Range;

            use kauri_arch::{Activation, Norm};
            use kauri_device::{Sequence, Weight, formula};

            use $crate::activation::{self, GROUP, Quantiser, SPAN, Writer};
            use $crate::aligned::in_whole_lines;
            use $crate::attend::{self, Task, Tile};
            use $crate::detect::{Compiled, Kernels, Strips};
            use $crate::floats::{self, Element, Numbers, Paired};
            use $crate::panel::{Bytes, Requantised, Unpack, requantises};
            use $crate::product::{self, Ahead, Fill, Multiply, Output, Part, Product, Tiles};
            use $crate::cache::{self, HeadMut, New};
            use $crate::elementwise::{self, Turn};
            use $crate::quant;
            use $crate::vector::Vector;
            use $crate::recurrent::{self, Convolve, Delta, Replacement, Scan, Selection};

            /// Finds the kernel of a storage type.
            struct Strip;

            impl quant::Visitor for Strip {
                type Output = Strips;

                fn visit<U: Unpack>(self) -> Strips {
                    strips::<Bytes<U>>()
                }
            }

            /// Finds the kernel of a storage type for a prompt.
            struct Prefill;

            impl quant::Visitor for Prefill {
                type Output = Option<Strips>;

                fn visit<U: Unpack>(self) -> Option<Strips> {
                    if const { requantises::<$vector, U>() } { Some(parts::<Requantised<U>>()) } else { None }
                }
            }

            impl floats::Visitor for Strip {
                type Output = Strips;

                fn visit<E: Element>(self) -> Strips {
                    strips::<Numbers<E>>()
                }
            }

            fn strips<M: Multiply<$vector>>() -> Strips {
                let (rows, tokens) = (product::height::<$vector, M>(), M::Tiles::TOKENS);
                Strips { rows, tokens, run: run::<M>, together: product::RUN, packing: M::PACKING }
            }

            /// Of what is met by panels alone.
            fn parts<M: Fill<$vector>>() -> Strips {
                let (rows, tokens) = (product::height::<$vector, M>(), M::Tiles::TOKENS);
                Strips { rows, tokens, run: run_parts::<M>, together: 1, packing: M::PACKING }
            }

            /// # Safety
            /// The CPU has the instructions; the rest as [`product::parts`].
            $(#[target_feature(enable = $feature)])+
            unsafe fn run_parts<M: Fill<$vector>>(product: &Product<'_>, strips: Range<usize>, scratch: &mut product::Scratch) {
                in_whole_lines!();
                // SAFETY: the caller's contract is the same.
                unsafe { product::parts::<$vector, M>(product, strips.start, scratch, tiles::<M::Tiles>) };
            }

            /// # Safety
            /// The CPU has the instructions; the rest as [`product::strips`].
            $(#[target_feature(enable = $feature)])+
            unsafe fn run<M: Multiply<$vector>>(product: &Product<'_>, strips: Range<usize>, scratch: &mut product::Scratch) {
                in_whole_lines!();
                // SAFETY: the caller's contract is the same.
                unsafe { product::strips::<$vector, M>(product, strips, scratch, tiles::<M::Tiles>) };
            }

            /// # Safety
            /// The CPU has the instructions; the rest as [`product::tiles`].
            $(#[target_feature(enable = $feature)])+
            unsafe fn tiles<T: Tiles<$vector>>(product: &Product<'_>, part: &Part, ahead: Ahead, scratch: &mut product::Scratch) {
                in_whole_lines!();
                // SAFETY: the caller's contract is the same.
                unsafe { product::tiles::<$vector, T>(product, part, ahead, scratch) };
            }

            /// # Safety
            /// The CPU has the instructions; the rest as [`product::finish`].
            $(#[target_feature(enable = $feature)])+
            unsafe fn finish(output: &Output<'_>, rows: &Range<usize>, tile: activation::Tile, scratch: &product::Scratch) {
                in_whole_lines!();
                // SAFETY: the caller's contract is the same.
                unsafe { product::finish::<$vector>(output, rows, tile, scratch) };
            }

            /// # Safety
            /// The CPU has the instructions; no other use of these columns of the row.
            $(#[target_feature(enable = $feature)])+
            unsafe fn quantise(writer: &Quantiser<'_>, tile: activation::Tile, at: (usize, usize), x: &[f32]) {
                in_whole_lines!();
                // SAFETY: the caller's contract is the same.
                unsafe { writer.quantise_with::<$vector>(tile, at, x) };
            }

            /// # Safety
            /// The CPU has the instructions, and a kernel that takes activations so; no other use of these columns of the row.
            $(#[target_feature(enable = $feature)])+
            unsafe fn round(writer: &Writer<'_>, tile: activation::Tile, at: (usize, usize), x: &[f32]) {
                // SAFETY: the caller's contract is the same.
                unsafe { writer.round_with::<$vector>(tile, at, x) };
            }

            /// # Safety
            /// The CPU has the instructions; the rest as [`attend::tile`].
            $(#[target_feature(enable = $feature)])+
            unsafe fn attend(task: &Task<'_>, tile: &Tile, scratch: &mut attend::Scratch) {
                in_whole_lines!();
                // SAFETY: the caller's contract is the same.
                unsafe { attend::tile::<$vector>(task, tile, scratch) };
            }

            $(#[target_feature(enable = $feature)])+
            fn store(new: &New<'_>, head: HeadMut<'_>) {
                in_whole_lines!();
                // SAFETY: this function has the instructions.
                unsafe { cache::store_with::<$vector>(new, head) };
            }

            $(#[target_feature(enable = $feature)])+
            fn rope(turn: &Turn<'_>, first: usize, rows: &mut [f32]) {
                elementwise::rope(turn, first, rows);
            }

            $(#[target_feature(enable = $feature)])+
            fn activate(activation: Activation, gated: bool, gate: &mut [f32], up: &[f32]) {
                in_whole_lines!();
                // SAFETY: this function has the instructions.
                unsafe { elementwise::activate::<$vector>(activation, gated, gate, up) };
            }

            $(#[target_feature(enable = $feature)])+
            fn norm(norm: &Norm<Weight>, to: &mut [f32]) {
                elementwise::norm(norm, to);
            }

            $(#[target_feature(enable = $feature)])+
            fn convolve(task: &Convolve<'_>, kernels: Kernels, channels: Range<usize>) {
                in_whole_lines!();
                recurrent::convolve(task, kernels, channels);
            }

            $(#[target_feature(enable = $feature)])+
            fn scan(task: &Scan<'_>, sequence: &Sequence, head: usize) {
                in_whole_lines!();
                // SAFETY: this function has the instructions.
                unsafe { recurrent::scan::<recurrent::Vectors<$vector>>(task, sequence, head) };
            }

            $(#[target_feature(enable = $feature)])+
            fn select(task: &Selection<'_>, sequence: &Sequence, strip: usize) {
                in_whole_lines!();
                // SAFETY: this function has the instructions.
                unsafe { recurrent::select::<recurrent::Vectors<$vector>>(task, sequence, strip) };
            }

            $(#[target_feature(enable = $feature)])+
            fn delta(task: &Delta<'_>, sequence: &Sequence, head: usize) {
                in_whole_lines!();
                // SAFETY: this function has the instructions.
                unsafe { recurrent::follow::<Delta<'_>, recurrent::Vectors<$vector>>(task, sequence, head) };
            }

            $(#[target_feature(enable = $feature)])+
            fn replace(task: &Replacement<'_>, sequence: &Sequence, head: usize) {
                in_whole_lines!();
                // SAFETY: this function has the instructions.
                unsafe { recurrent::follow::<Replacement<'_>, recurrent::Vectors<$vector>>(task, sequence, head) };
            }

            $(#[target_feature(enable = $feature)])+
            fn turned(weights: &[f32], x: &[f32], y: &mut [f32]) {
                elementwise::turned(weights, x, y);
            }

            $(#[target_feature(enable = $feature)])+
            fn dot(a: &[f32], b: &[f32]) -> f32 {
                formula::dot(a, b)
            }

            $(#[target_feature(enable = $feature)])+
            fn add_turned(weights: &[f32], place: (usize, usize), x: &[f32], y: &mut [f32]) {
                elementwise::add_turned(weights, place, x, y);
            }

            Compiled {
                is_supported: || $(std::arch::$detected!($feature))&&+,
                strips: |quant, columns, _| {
                    let bytes = quant::visit(quant, Strip).filter(|_| columns.is_multiple_of(GROUP));
                    bytes.or_else(|| floats::visit(quant, Strip))
                },
                rounding: if <$vector as Vector>::PAIRS { Some(|_| Some(strips::<Numbers<Paired>>())) } else { None },
                prefill: if <$vector as Vector>::REQUANTISES {
                    Some(|quant, columns| quant::visit(quant, Prefill).flatten().filter(|_| columns.is_multiple_of(SPAN)))
                } else {
                    None
                },
                leave: |_| (),
                finish,
                quantise,
                round,
                // SAFETY: nobody else uses the row.
                split: |writer, tile, token, x, count| unsafe { writer.split(tile, token, x, count) },
                // What is kept of more would not fit the first-level cache beside what is read of keys and values.
                attended_rows: attend::ROWS / 2,
                attend,
                store,
                rope,
                activate,
                norm,
                convolve,
                scan,
                select,
                delta,
                replace,
                turned,
                dot,
                add_turned,
            }
        };
    };
}

pub(crate) use compile;
